"""Leases: rows that one process at a time works on, until a moment that it puts off while it works.

Whoever claims a row writes until when it is theirs. They renew that for as long as they work, and give it up when they are done; the
lease of a process that died expires. The condition is in the statement itself, so of two that claim a row at once one gets it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Concatenate, NamedTuple, ParamSpec

from kontobahn import log
from kontobahn.clock import SECOND
from kontobahn.db.database import Database, Row, Tx
from kontobahn.errors import Unavailable

P = ParamSpec("P")


class Lease(NamedTuple):
    """`key` are the columns that name a row and whoever holds it; `while_open` is what holds for as long as there is work to do."""

    table: str
    key: tuple[str, ...]
    # The time that it is held for, from each renewal on.
    seconds: float
    until: str = "lease_until"
    while_open: str = ""

    def ends_at(self, now: int) -> int:
        return now + round(self.seconds * SECOND)

    def claim(
        self,
        tx: Tx,
        *key: Any,
        setting: str = "",
        only_if: str = "",
        params: tuple[Any, ...] = (),
        returning: str = "1",
    ) -> Row | None:
        """Takes a row whose lease has expired. Returns these columns of it; None if somebody else holds it, or it is not for anybody now.

        `setting` are further assignments without parameters, `only_if` a further condition with its `params`.
        """
        return tx.one(
            f"UPDATE {self.table} SET {self.until} = ?{setting and f', {setting}'} WHERE {self._is_row}"
            f" AND COALESCE({self.until}, 0) <= ?{only_if and f' AND {only_if}'} RETURNING {returning}",
            self.ends_at(tx.now), *key, tx.now, *params,
        )  # fmt: skip

    def renew(self, tx: Tx, *key: Any) -> bool:
        """Holds the row for longer. Returns False if it is no longer ours."""
        return bool(
            tx.run(
                f"UPDATE {self.table} SET {self.until} = ? WHERE {self._is_row} AND {self.until} > 0",
                self.ends_at(tx.now),
                *key,
            )
        )

    def give_up(self, tx: Tx, *key: Any, **values: Any) -> bool:
        """Frees the row, with these values of other columns. Returns False if it is no longer ours, and changes nothing then."""
        assignments = "".join(f", {name} = ?" for name in values)
        return bool(
            tx.run(
                f"UPDATE {self.table} SET {self.until} = 0{assignments} WHERE {self._is_row}", *values.values(), *key
            )
        )

    @property
    def _is_row(self) -> str:
        return " AND ".join([*(f"{name} = ?" for name in self.key), *([self.while_open] if self.while_open else [])])


def renewing(
    db: Database, every_seconds: float, renew: Callable[Concatenate[Tx, P], object], *args: P.args, **kwargs: P.kwargs
) -> asyncio.Task[None]:
    """Renews a lease again and again until the task is cancelled. What cannot be renewed now may be the next time."""

    async def repeat() -> None:
        while True:
            await asyncio.sleep(every_seconds)
            try:
                await db.write(renew, *args, **kwargs)
            except Unavailable as error:
                log.warning("lease_not_renewed", detail=error.operator or str(error))

    return asyncio.create_task(repeat())
