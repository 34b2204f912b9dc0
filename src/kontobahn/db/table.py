"""Rows by name: a table with the NamedTuple that its rows are read into, written from and changed by.

The NamedTuple's fields are the statement's column list, so a column is named once and never counted.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Generic, TypeVar, cast

from kontobahn.db.database import Tx

R = TypeVar("R", bound=tuple[Any, ...])


class Table(Generic[R]):
    """``ACCOUNTS = Table("banking_accounts", AccountRow)``. `key` names the columns that identify a row."""

    def __init__(self, name: str, row: type[R], *, key: tuple[str, ...] = ("organization_id", "id")) -> None:
        fields: tuple[str, ...] = cast(Any, row)._fields
        self.name = name
        self.columns = ", ".join(fields)
        self.make = cast(Any, row)._make
        self._key = key
        self._select = f"SELECT {self.columns} FROM {name} WHERE "
        self._insert = f"INSERT INTO {name} ({self.columns}) VALUES ({', '.join('?' * len(fields))})"

    def one(self, tx: Tx, condition: str, *params: Any) -> R | None:
        """Returns the row that meets the condition (everything after WHERE), if there is one."""
        found = tx.one(self._select + condition, *params)
        return None if found is None else self.make(found)

    def all(self, tx: Tx, condition: str, *params: Any) -> list[R]:
        return [self.make(found) for found in tx.all(self._select + condition, *params)]

    def columns_of(self, alias: str) -> str:
        """The column list for a join in which the table has this alias."""
        return ", ".join(f"{alias}.{name}" for name in self.columns.split(", "))

    def insert(self, tx: Tx, row: R, **more: Any) -> None:
        """Writes the row, with values for columns that are never read back into one (the hash of a token)."""
        if not more:
            tx.run(self._insert, *row)
            return
        marks = ", ".join("?" * (len(row) + len(more)))
        tx.run(f"INSERT INTO {self.name} ({self.columns}, {', '.join(more)}) VALUES ({marks})", *row, *more.values())

    def insert_many(self, tx: Tx, rows: Iterable[R]) -> None:
        tx.many(self._insert, rows)

    def update(self, tx: Tx, row: R, **values: Any) -> R:
        """Writes these columns of the row, and returns it as it is now."""
        assignments = ", ".join(f"{name} = ?" for name in values)
        condition = " AND ".join(f"{name} = ?" for name in self._key)
        key = (getattr(row, name) for name in self._key)
        tx.run(f"UPDATE {self.name} SET {assignments} WHERE {condition}", *values.values(), *key)
        return cast(Any, row)._replace(**values)  # type: ignore[no-any-return]
