"""Who called what, by day and `quelle`, and when a key was last used: counted in memory, written every few seconds.

Only for analytics: what a killed process had not written yet is lost. What is charged is in the credit statement.
"""

from __future__ import annotations

from kontobahn.access import keys
from kontobahn.clock import berlin_date
from kontobahn.db import Database, Tx
from kontobahn.errors import Unavailable

Counts = dict[tuple[str, str, str, str], list[int]]


class Usage:
    def __init__(self, db: Database) -> None:
        self._db = db
        self._counts: Counts = {}
        self._last_use: dict[tuple[str, str], int] = {}

    def note(
        self,
        organization_id: str,
        endpoint: str,
        key_id: str | None,
        quelle: str,
        *,
        failed: bool,
        credits: int,
        at: int,
    ) -> None:
        counts = self._counts.setdefault((organization_id, endpoint, key_id or "", quelle), [0, 0, 0])
        counts[0] += 1
        counts[1] += failed
        counts[2] += credits
        if key_id is not None:
            self._last_use[organization_id, key_id] = at

    async def flush(self) -> None:
        """Writes what has been counted. If the database is unavailable, keeps it for the next time."""
        counts, last_use = self._counts, self._last_use
        if not counts and not last_use:
            return
        self._counts, self._last_use = {}, {}
        try:
            await self._db.write(_write, counts, last_use)
        except Unavailable:
            for key, values in counts.items():
                newer = self._counts.setdefault(key, [0, 0, 0])
                for position, value in enumerate(values):
                    newer[position] += value
            self._last_use = {**last_use, **self._last_use}


def _write(tx: Tx, counts: Counts, last_use: dict[tuple[str, str], int]) -> None:
    day = berlin_date(tx.now).isoformat()
    # Sorted, so that processes writing at the same time lock the rows in one order and cannot deadlock.
    for (organization_id, endpoint, key_id, quelle), values in sorted(counts.items()):
        tx.run(
            "INSERT INTO usage_counts (organization_id, day, endpoint, api_key_id, quelle, calls, failed, credits)"
            " VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
            " ON CONFLICT (organization_id, day, endpoint, api_key_id, quelle) DO UPDATE SET"
            " calls = usage_counts.calls + excluded.calls, failed = usage_counts.failed + excluded.failed,"
            " credits = usage_counts.credits + excluded.credits",
            organization_id, day, endpoint, key_id, quelle, *values,
        )  # fmt: skip
    for (organization_id, key_id), at in sorted(last_use.items()):
        keys.note_use(tx, organization_id, key_id, at)
