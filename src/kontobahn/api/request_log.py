"""The log of requests: who called what, how it was answered, what it cost and how long it took. For people who look into what
their programs do; what is charged is in the credit statement.

Noted in memory and written in batches every few seconds, so that no call waits for it or fails with it. What a killed process had
not written yet is lost. There are no bodies, no secrets, and of addresses only what cannot be about a person.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterable
from datetime import date
from decimal import Decimal
from functools import cache
from typing import Annotated, Any, Literal, NamedTuple, Union, get_args, get_origin
from urllib.parse import parse_qsl, quote

import msgspec

from kontobahn.api.declare import Endpoint
from kontobahn.clock import DAY, HOUR
from kontobahn.db import Database, Row, Table, Tx
from kontobahn.errors import OutcomeUnknown, Unavailable

# What waits to be written: of one organisation, and of all. More calls within a few seconds are counted, but not listed.
MAX_WAITING_OF_ONE, MAX_WAITING = 2_000, 10_000
# So many rows at once: others want to write too.
BATCH = 500
HOURS_KEPT = 48
HIDDEN = "…"
MAX_TARGET_LENGTH = 500
_ID = r"[0-9-]{1,18}|[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|evt_[0-9a-f]{32}|__all__"
_IS_ID = re.compile(_ID, re.IGNORECASE)
_IS_PLAIN = re.compile(r"[0-9]{1,6}|[0-9]{4}-[0-9]{2}-[0-9]{2}|true|false")


class Noted(NamedTuple):
    """A call as it was answered."""

    at: int
    key_id: str | None
    quelle: str
    # None if there is no such path.
    endpoint: Endpoint | None
    path: str
    query: bytes
    status: int
    request_id: str
    credits: int
    microseconds: int


class LoggedRequest(NamedTuple):
    organization_id: str
    id: int
    at: int
    api_key_id: str
    quelle: str
    endpoint: str
    target: str
    status: int
    request_id: str
    credits: int
    microseconds: int

    @property
    def milliseconds(self) -> Decimal:
        return Decimal(self.microseconds).scaleb(-3)


REQUEST_LOG = Table("request_log", LoggedRequest)
Counts = dict[tuple[str, int], list[int]]
Batch = list[tuple[str, list[Row]]]
_INSERT = f"INSERT INTO request_log ({REQUEST_LOG.columns}) VALUES ({', '.join('?' * len(LoggedRequest._fields))})"


class RequestLog:
    def __init__(self, db: Database, rows_kept: int) -> None:
        self._db = db
        self._rows_kept = rows_kept
        self._waiting: dict[str, list[Noted]] = {}
        self._number = 0
        self._counts: Counts = {}

    def note(self, organization_id: str, noted: Noted) -> None:
        hour = organization_id, noted.at // HOUR
        counts = self._counts.get(hour)
        if counts is None:
            counts = self._counts[hour] = [0, 0]
        counts[0] += 1
        counts[1] += noted.status >= 400
        self._keep(organization_id, noted)

    def _keep(self, organization_id: str, noted: Noted) -> None:
        waiting = self._waiting.get(organization_id)
        if waiting is None:
            waiting = self._waiting[organization_id] = []
        if len(waiting) < MAX_WAITING_OF_ONE and self._number < MAX_WAITING:
            waiting.append(noted)
            self._number += 1

    async def flush(self) -> None:
        """Writes what has been noted. If the database is unavailable, keeps it for the next time, as much as is kept at all."""
        waiting, counts = self._waiting, self._counts
        self._waiting, self._counts, self._number = {}, {}, 0
        try:
            if counts:
                await self._db.write(_add_counts, counts)
                counts = {}
            for batch in _batches(waiting):
                rows = await asyncio.to_thread(_as_rows, batch)
                await self._db.write(_add_rows, rows, self._rows_kept)
                for organization_id, written in batch:
                    del waiting[organization_id][: len(written)]
        except OutcomeUnknown:
            pass  # Rather a gap than a call that is listed twice.
        except Unavailable:
            for key, (calls, failed) in counts.items():
                newer = self._counts.setdefault(key, [0, 0])
                newer[0] += calls
                newer[1] += failed
            for organization_id, left in waiting.items():
                for noted in left:
                    self._keep(organization_id, noted)


def _batches(waiting: dict[str, list[Noted]]) -> list[list[tuple[str, list[Noted]]]]:
    """Sorted by organisation, so that processes that write at the same time lock rows in one order and cannot deadlock."""
    batches: list[list[tuple[str, list[Noted]]]] = []
    room = 0
    for organization_id in sorted(waiting):
        noted = waiting[organization_id]
        start = 0
        while start < len(noted):
            if not room:
                batches.append([])
                room = BATCH
            part = noted[start : start + room]
            batches[-1].append((organization_id, part))
            start += len(part)
            room -= len(part)
    return batches


def _as_rows(batch: list[tuple[str, list[Noted]]]) -> Batch:
    """What is written of each call but the organisation and the id, in the order of the columns."""
    targets: dict[tuple[str, str, bytes], str] = {}
    return [(organization_id, [_as_row(item, targets) for item in noted]) for organization_id, noted in batch]


def _as_row(noted: Noted, targets: dict[tuple[str, str, bytes], str]) -> Row:
    endpoint = noted.endpoint
    name = endpoint.name if endpoint else ""
    key = name, noted.path, noted.query
    target = targets.get(key)
    if target is None:
        target = targets[key] = target_of(endpoint, noted.path, noted.query)
    return (
        noted.at, noted.key_id or "", noted.quelle, name, target, noted.status, noted.request_id, noted.credits,
        noted.microseconds,
    )  # fmt: skip


def _add_rows(tx: Tx, batch: Batch, rows_kept: int) -> None:
    for organization_id, rows in batch:
        head = tx.one(
            "INSERT INTO request_logs (organization_id, last_id) VALUES (?, ?) ON CONFLICT (organization_id)"
            " DO UPDATE SET last_id = request_logs.last_id + excluded.last_id RETURNING last_id",
            organization_id, len(rows),
        )  # fmt: skip
        assert head is not None
        first = head[0] - len(rows) + 1
        tx.many(_INSERT, [(organization_id, first + number, *row) for number, row in enumerate(rows)])
        # As many as were added. If the setting was lowered, the job removes the others.
        tx.run(
            "DELETE FROM request_log WHERE organization_id = ? AND id >= ? AND id <= ?",
            organization_id, first - rows_kept, head[0] - rows_kept,
        )  # fmt: skip


def _add_counts(tx: Tx, counts: Counts) -> None:
    for (organization_id, hour), (calls, failed) in sorted(counts.items()):
        tx.run(
            "INSERT INTO request_hours (organization_id, hour_at, calls, failed) VALUES (?, ?, ?, ?)"
            " ON CONFLICT (organization_id, hour_at) DO UPDATE SET"
            " calls = request_hours.calls + excluded.calls, failed = request_hours.failed + excluded.failed",
            organization_id, hour * HOUR, calls, failed,
        )  # fmt: skip


async def purge(db: Database, *, days: int, rows_kept: int) -> None:
    """Deletes what is too old, and what is beyond the number that is kept of an organisation."""
    await db.write(_purge_hours)
    for organization_id in await db.read(_with_too_much, days, rows_kept):
        while await db.write(_purge_rows, organization_id, days, rows_kept):
            pass


def _purge_hours(tx: Tx) -> None:
    tx.run("DELETE FROM request_hours WHERE hour_at <= ?", tx.now - HOURS_KEPT * HOUR)


def _with_too_much(tx: Tx, days: int, rows_kept: int) -> list[str]:
    found = tx.all(
        "SELECT l.organization_id FROM request_logs l JOIN request_log r ON r.organization_id = l.organization_id AND r.id ="
        " (SELECT MIN(o.id) FROM request_log o WHERE o.organization_id = l.organization_id)"
        " WHERE r.at <= ? OR r.id <= l.last_id - ?",
        tx.now - days * DAY, rows_kept,
    )  # fmt: skip
    return [organization_id for (organization_id,) in found]


def _purge_rows(tx: Tx, organization_id: str, days: int, rows_kept: int) -> int:
    """Deletes one batch of the oldest rows, and returns how many."""
    oldest = tx.all(
        "SELECT r.id, r.at, l.last_id FROM request_log r JOIN request_logs l ON l.organization_id = r.organization_id"
        " WHERE r.organization_id = ? ORDER BY r.id LIMIT ?",
        organization_id, BATCH,
    )  # fmt: skip
    over = [row_id for row_id, at, last_id in oldest if at <= tx.now - days * DAY or row_id <= last_id - rows_kept]
    if not over:
        return 0
    return tx.run("DELETE FROM request_log WHERE organization_id = ? AND id <= ?", organization_id, over[-1])


# --- What is kept of an address


def target_of(endpoint: Endpoint | None, path: str, query: bytes) -> str:
    """The path and query that were asked for; ids, days, numbers and choices as they were, everything else hidden."""
    if endpoint is None:
        return HIDDEN
    named = zip(endpoint.path.split("/"), path.split("/"), strict=False)
    shown = "/".join(_shown_id(given) if known.startswith("{") else known for known, given in named)
    if not query:
        return shown
    kinds = _kinds(endpoint.query)
    given = parse_qsl(query.decode("latin-1"), keep_blank_values=True)
    parts = [f"{quote(name)}={_shown(kinds[name], value)}" for name, value in given if name in kinds]
    return f"{shown}?{'&'.join(parts)}"[:MAX_TARGET_LENGTH] if parts else shown


def _shown_id(value: str) -> str:
    return value if _IS_ID.fullmatch(value) else HIDDEN


def _shown(kind: frozenset[str] | Literal["id", "plain", "text"], value: str) -> str:
    if kind == "id":
        return _shown_id(value)
    if kind == "plain":
        return value if _IS_PLAIN.fullmatch(value) else HIDDEN
    return value if isinstance(kind, frozenset) and value in kind else HIDDEN


@cache
def _kinds(query: type[msgspec.Struct]) -> dict[str, Any]:
    return {field.encode_name: _kind(field.encode_name, field.type) for field in msgspec.structs.fields(query)}


def _kind(name: str, declared: Any) -> frozenset[str] | Literal["id", "plain", "text"]:
    kinds = set(_plain_types(declared))
    if all(get_origin(kind) is Literal for kind in kinds):
        return frozenset(str(value) for kind in kinds for value in get_args(kind))
    if kinds <= {int, bool, date}:
        return "plain"
    return "id" if name.lower().endswith("id") or name == "cursor" else "text"


def _plain_types(declared: Any) -> Iterable[Any]:
    """The types behind Optional and Annotated."""
    origin = get_origin(declared)
    if origin is Annotated:
        yield from _plain_types(get_args(declared)[0])
    elif origin is Union or type(declared).__name__ == "UnionType":
        for part in get_args(declared):
            yield from _plain_types(part)
    elif declared is not type(None):
        yield declared
