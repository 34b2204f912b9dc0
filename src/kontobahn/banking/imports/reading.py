"""A file of statements as it is read, before the transaction that imports it: others wait for the transaction only.

Its entries wait in a file without a name, so that memory does not grow with them, and the transaction may run again.
"""

from __future__ import annotations

import hashlib
import pickle
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from datetime import date
from types import TracebackType
from typing import NamedTuple, Self, TypeAlias

import msgspec

from kontobahn.banking.imports.entries import made_on, reference_of
from kontobahn.banking.imports.overlap import Booking
from kontobahn.banking.transactions.ingest import fingerprint
from kontobahn.formats.statements import Closing, Entry, Item, Opening, StatementWarning, StatusReport

_SPOOL_BYTES = 4 * 1024 * 1024
_decode = msgspec.json.Decoder(Entry).decode
_encode = msgspec.json.Encoder().encode
_Spool: TypeAlias = "tempfile.SpooledTemporaryFile[bytes]"


class ReadStatement(NamedTuple):
    """A statement that was read to its end. Only what is asked for is taken from the file in which it waits."""

    opening: Opening
    closing: Closing
    # How many entries there are, and a digest of what they say.
    entry_count: int
    sha256: str
    # The first and the last value date of its bookings.
    value_dates: tuple[date, date] | None
    # What identifies none of its entries, because several have it.
    shared_references: frozenset[str]
    spool: _Spool
    entries_at: int
    bookings_at: int

    def entries(self) -> Iterator[tuple[int, Entry]]:
        """Yields the entries with their numbers."""
        self.spool.seek(self.entries_at)
        for number in range(1, self.entry_count + 1):
            yield number, _decode(self.spool.readline())

    def bookings(self) -> list[Booking]:
        """What the entries of a booked statement have booked; the balance of each is the sum of those up to it."""
        self.spool.seek(self.bookings_at)
        # Only this process has ever seen the file, so what comes out of it is what went in.
        found: list[Booking] = pickle.load(self.spool)
        return found

    def reference(self, entry: Entry) -> str | None:
        """Returns the bank's reference if it identifies the entry."""
        reference = reference_of(entry)
        return None if reference in self.shared_references else reference


class ReadFile:
    """All of a file, in order. Raises StatementError if it cannot be read or does not add up."""

    def __init__(self, items: Iterable[Item], progress: Callable[[], None] = lambda: None) -> None:
        self.parts: list[ReadStatement | StatementWarning | StatusReport] = []
        self._spool: _Spool = tempfile.SpooledTemporaryFile(_SPOOL_BYTES)  # noqa: SIM115 - closed by `close`
        try:
            self._read(items, progress)
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        self._spool.close()

    def _read(self, items: Iterable[Item], progress: Callable[[], None]) -> None:
        statement: _Reading | None = None
        for item in items:
            match item:
                case Opening():
                    statement = _Reading(item, self._spool)
                case Entry():
                    assert statement is not None
                    statement.add(item)
                case Closing():
                    assert statement is not None
                    self.parts.append(statement.close(item))
                    progress()
                case _:
                    self.parts.append(item)


class _Reading:
    """The statement that is being read."""

    def __init__(self, opening: Opening, spool: _Spool) -> None:
        self._opening = opening
        self._spool = spool
        self._at = spool.tell()
        self._digest = hashlib.sha256()
        self._count = self._moved = 0
        self._bookings: list[Booking] = []
        self._references: Counter[str] = Counter()
        self._value_dates: tuple[date, date] | None = None

    def add(self, entry: Entry) -> None:
        line = _encode(msgspec.structs.replace(entry, line=0))
        self._digest.update(line)
        self._spool.write(line)
        self._spool.write(b"\n")
        self._count += 1
        if (reference := reference_of(entry)) is not None:
            self._references[reference] += 1
        if self._opening.kind == "booked" and entry.status == "posted":
            self._moved += entry.amount_minor
            self._add_booking(entry, reference)

    def _add_booking(self, entry: Entry, reference: str | None) -> None:
        day, end_to_end_id = made_on(entry), entry.end_to_end_id
        low, high = self._value_dates or (day, day)
        self._value_dates = min(low, day), max(high, day)
        content = fingerprint(day, entry.amount_minor, entry.currency, entry.description, end_to_end_id)
        self._bookings.append(
            Booking(
                self._count, entry.booking_date.isoformat(), entry.amount_minor, content, reference, end_to_end_id,
                self._moved,
            )
        )  # fmt: skip

    def close(self, closing: Closing) -> ReadStatement:
        shared = frozenset(reference for reference, count in self._references.items() if count > 1)
        bookings_at = self._spool.tell()
        pickle.dump(
            [item._replace(reference=None) if item.reference in shared else item for item in self._bookings],
            self._spool,
            pickle.HIGHEST_PROTOCOL,
        )
        return ReadStatement(
            opening=self._opening,
            closing=closing,
            entry_count=self._count,
            sha256=self._digest.hexdigest(),
            value_dates=self._value_dates,
            shared_references=shared,
            spool=self._spool,
            entries_at=self._at,
            bookings_at=bookings_at,
        )
