"""A principal's scope in SQL: every query for something by its id starts from here."""

from __future__ import annotations

from typing import Any, TypeVar

from kontobahn.access.principal import Principal
from kontobahn.db import Tx
from kontobahn.db.table import Table

R = TypeVar("R", bound=tuple[Any, ...])


def in_scope(count: int) -> str:
    """The SQL of a scope: ``organization_id IN (?, ?)``."""
    return "organization_id = ?" if count == 1 else f"organization_id IN ({', '.join('?' * count)})"


def find_in_scope(tx: Tx, table: Table[R], principal: Principal, what: str, row_id: Any) -> R:
    """Returns the row with this id. Raises the principal's “not found” if there is none in its scope."""
    row = table.one(tx, f"{in_scope(len(principal.scope))} AND id = ?", *principal.scope, row_id)
    if row is None:
        raise principal.missing(what)
    return row
