"""The log of requests: who called what, how it was answered, what it cost and how long it took. For people who look into what
their programs do; what is charged is in the credit statement.

Noted in memory and written in batches every few seconds, so that no call waits for it or fails with it. What a killed process had
not written yet is lost. There are no bodies, no secrets, and of addresses only what cannot be about a person.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterable
from datetime import date, timedelta
from decimal import Decimal
from functools import cache
from typing import Annotated, Any, Literal, NamedTuple, Union, get_args, get_origin
from urllib.parse import parse_qsl, quote

import msgspec

from kontobahn import credits
from kontobahn.access import keys
from kontobahn.api.declare import Endpoint
from kontobahn.clock import DAY, HOUR, berlin_date
from kontobahn.db import Database, Row, Table, Tx
from kontobahn.errors import OutcomeUnknown, Unavailable
from kontobahn.json_text import decode_kept, encode_kept
from kontobahn.metrics import Metrics
from kontobahn.sentences import Sentence

# At most this many calls may wait to be written: of one organisation, and of all. More within a few seconds are counted, but not listed.
MAX_WAITING_OF_ONE, MAX_WAITING = 2_000, 10_000
# Rows written at once: others want to write too.
BATCH = 500
HOURS_KEPT = 48
HIDDEN = "…"
MAX_TARGET_LENGTH, MAX_ERROR_LENGTH = 500, 500
_ID = r"[0-9-]{1,18}|[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|evt_[0-9a-f]{32}|__all__"
_IS_ID = re.compile(_ID, re.IGNORECASE)
# Parts of a sentence in quotes, and names in it; values of a sentence that are words of ours.
_QUOTED, _NAMED = re.compile(r"“[^”]*”|(?<!\w)'[^']*'(?!\w)"), re.compile(r"`([^`]*)`")
_OF_OURS = frozenset(("reason", "why", "what", "given", "state", "methods"))
_IS_PLAIN = re.compile(r"[0-9]{1,6}|[0-9]{4}-[0-9]{2}-[0-9]{2}|true|false")


class Noted(msgspec.Struct, frozen=True, gc=False):
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
    # The sentence that it was refused with, and the field that was at fault.
    error: str = ""
    field: str = ""


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
    error: str
    field: str

    @property
    def milliseconds(self) -> Decimal:
        return Decimal(self.microseconds).scaleb(-3)

    @property
    def sentence(self) -> str:
        """The error as it was said, for whoever shows it in another language."""
        return decode_kept(self.error, str) if self.error else ""


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
    """Returns the columns of each call but the organisation and the id, in the order of the columns."""
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
        noted.microseconds, *error_of(endpoint, noted.error, noted.field),
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


# --- Addresses without secrets


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


# --- Errors without what was sent


def error_of(endpoint: Endpoint | None, text: str, field: str) -> tuple[str, str]:
    """The sentence of an error as it is kept, and its field: what we declare, numbers, days and ids as they were, all else hidden."""
    if not text:
        return "", ""
    known = _field_names(endpoint.path, endpoint.query, endpoint.body) if endpoint else frozenset()
    shown = field if not field or _is_declared(field, known) else HIDDEN
    return encode_kept(_without_values(text, known)).decode(), shown


def _without_values(text: str, known: frozenset[str]) -> str:
    if isinstance(text, Sentence):
        return Sentence(text.code, {name: _shown_value(name, value, known) for name, value in text.values.items()})
    named = _NAMED.sub(lambda found: found[0] if _is_declared(found[1], known) else f"`{HIDDEN}`", text)
    return _QUOTED.sub(f"“{HIDDEN}”", named)[:MAX_ERROR_LENGTH]


def _shown_value(name: str, value: str, known: frozenset[str]) -> str:
    if isinstance(value, Sentence) or name in _OF_OURS:
        return _without_values(value, known)
    is_ours = _is_declared(value, known) or _IS_PLAIN.fullmatch(value) or _IS_ID.fullmatch(value)
    return value if is_ours else HIDDEN


def _is_declared(path: str, known: frozenset[str]) -> bool:
    """Returns whether a field, or the path of one such as `belegzeilen[3].betrag`, is made of declared names alone."""
    return all(part in known for part in re.sub(r"\[[0-9]*\]", "", path).split("."))


@cache
def _field_names(path: str, *declared: Any) -> frozenset[str]:
    names: set[str] = {part[1:-1] for part in path.split("/") if part.startswith("{")}
    waiting = [*declared]
    while waiting:
        for kind in _plain_types(waiting.pop()):
            if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
                fields = msgspec.structs.fields(kind)
                waiting += [field.type for field in fields if field.encode_name not in names]
                names.update(field.encode_name for field in fields)
            else:
                waiting += get_args(kind) if get_origin(kind) in (list, dict, tuple) else ()
    return frozenset(names)


# --- Reading


class Wanted(NamedTuple):
    key: str = ""
    quelle: str = ""
    endpoint: str = ""
    # 2 for 200 to 299, and so on; 0 for all.
    status_class: int = 0
    request_id: str = ""


def logged(tx: Tx, organization_id: str, wanted: Wanted, *, before: int, limit: int) -> list[LoggedRequest]:
    """Returns the latest first; `before` is the id of the last one of the page before.

    The rows that filters look through are bounded by the number of rows that are kept of an organisation.
    """
    lowest = wanted.status_class * 100
    bounds: list[tuple[str, str | int]] = [
        ("organization_id = ?", organization_id),
        ("id < ?", before),
        ("api_key_id = ?", wanted.key),
        ("quelle = ?", wanted.quelle),
        ("endpoint = ?", wanted.endpoint),
        ("status >= ?", lowest),
        ("status < ?", lowest and lowest + 100),
        ("request_id = ?", wanted.request_id),
    ]
    given = [(condition, value) for condition, value in bounds if value]
    where = " AND ".join(condition for condition, _ in given)
    return REQUEST_LOG.all(tx, f"{where} ORDER BY id DESC LIMIT ?", *(value for _, value in given), limit)


def find(tx: Tx, organization_id: str, request_number: int) -> LoggedRequest | None:
    return REQUEST_LOG.one(tx, "organization_id = ? AND id = ?", organization_id, request_number)


class Recent(NamedTuple):
    calls: int
    failed: int


def recent(tx: Tx, organization_id: str) -> Recent:
    """Returns the calls of the last 24 hours, counted by full hours: all of them, including those that are no longer listed."""
    since = (tx.now - DAY) // HOUR * HOUR
    row = tx.one(
        "SELECT COALESCE(SUM(calls), 0), COALESCE(SUM(failed), 0) FROM request_hours"
        " WHERE organization_id = ? AND hour_at > ?",
        organization_id, since,
    )  # fmt: skip
    assert row is not None
    return Recent(int(row[0]), int(row[1]))


# --- Usage: calls counted by day, endpoint, key and source


UsageCounts = dict[tuple[str, str, str, str], list[int]]


class Usage:
    def __init__(self, db: Database) -> None:
        self._db = db
        self._counts: UsageCounts = {}
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
            await self._db.write(_write_usage, counts, last_use)
        except Unavailable:
            for key, values in counts.items():
                newer = self._counts.setdefault(key, [0, 0, 0])
                for position, value in enumerate(values):
                    newer[position] += value
            self._last_use = {**last_use, **self._last_use}


def charge_later(tx: Tx, organization_id: str, hold_id: str) -> None:
    """Charges a reservation that outlived its call, and counts the credits with the call's, on the day they are spent.

    Raises HoldLapsed if it is not kept any more.
    """
    held = credits.held(tx, organization_id, hold_id)
    credits.confirm(tx, organization_id, hold_id)
    assert held is not None, "what was charged was held"
    _add_usage(tx, {(organization_id, held.endpoint, held.api_key_id or "", held.quelle): [0, 0, held.amount]})


def _write_usage(tx: Tx, counts: UsageCounts, last_use: dict[tuple[str, str], int]) -> None:
    _add_usage(tx, counts)
    for (organization_id, key_id), at in sorted(last_use.items()):
        keys.note_use(tx, organization_id, key_id, at)


def _add_usage(tx: Tx, counts: UsageCounts) -> None:
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


Column = Literal["endpoint", "api_key_id", "quelle"]


class Use(NamedTuple):
    name: str
    calls: int
    failed: int
    credits: int


def totals_by(tx: Tx, organization_id: str, column: Column, since: date) -> list[Use]:
    """Returns the use by one of these columns; the largest first."""
    rows = tx.all(
        f"SELECT {column}, SUM(calls), SUM(failed), SUM(credits) FROM usage_counts"
        f" WHERE organization_id = ? AND day >= ? GROUP BY {column} ORDER BY SUM(credits) DESC, SUM(calls) DESC, {column} LIMIT 100",
        organization_id, since.isoformat(),
    )  # fmt: skip
    return [Use(name, int(calls), int(failed), int(spent)) for name, calls, failed, spent in rows]


class DayUse(NamedTuple):
    day: date
    calls: int
    failed: int
    credits: int


def by_day(tx: Tx, organization_id: str, today: date, days: int) -> list[DayUse]:
    """Returns the calls by Berlin calendar day, the earliest first; a day without calls has zeros."""
    first = today - timedelta(days=days - 1)
    found = {
        day: (int(calls), int(failed), int(spent))
        for day, calls, failed, spent in tx.all(
            "SELECT day, SUM(calls), SUM(failed), SUM(credits) FROM usage_counts WHERE organization_id = ? AND day >= ?"
            " GROUP BY day",
            organization_id, first.isoformat(),
        )
    }  # fmt: skip
    wanted = [first + timedelta(days=number) for number in range(days)]
    return [DayUse(day, *found.get(day.isoformat(), (0, 0, 0))) for day in wanted]


# --- Both, and the metrics, entered some calls at a time


# As many as are entered in a fraction of a millisecond.
AT_ONCE = 64


class AnsweredCalls:
    def __init__(self, metrics: Metrics, usage: Usage, requests: RequestLog) -> None:
        self._metrics = metrics
        self._usage = usage
        self._requests = requests
        self._waiting: list[tuple[Noted, str | None, bool]] = []

    def note(self, noted: Noted, organization_id: str | None, *, was_run: bool) -> None:
        """`organization_id` is None if nobody was recognised; `was_run` says whether the call came as far as its handler."""
        self._waiting.append((noted, organization_id, was_run))
        if len(self._waiting) >= AT_ONCE:
            self._enter()

    def metrics(self) -> Metrics:
        """The metrics, with every call up to now."""
        self._enter()
        return self._metrics

    async def flush(self) -> None:
        """Writes what has been noted for usage and the list of requests."""
        self._enter()
        await self._usage.flush()
        await self._requests.flush()

    def _enter(self) -> None:
        waiting, self._waiting = self._waiting, []
        for noted, organization_id, was_run in waiting:
            name = noted.endpoint.name if noted.endpoint else "unknown"
            self._metrics.note(name, noted.status, noted.microseconds / 1_000_000, noted.credits)
            if organization_id is None:
                continue
            if was_run:
                self._usage.note(
                    organization_id, name, noted.key_id, noted.quelle,
                    failed=noted.status >= 400, credits=noted.credits, at=noted.at,
                )  # fmt: skip
            self._requests.note(organization_id, noted)
