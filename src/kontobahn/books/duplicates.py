"""Rows that were booked before: those that look like a booking in the books, and those that a partial import of the file booked.

A row looks booked if day, accounts and sides, amount and document are those of a booking that stands in the books, whatever the
texts say; it is found as often as such bookings stand, those with the same text first. Batches that were undone do not stand, nor do
bookings that a Generalumkehr or the Storno of a cash book has reversed: their rows may come again. A row of a partial import is
recognised by its content. Only the same file, with all of those rows in it, is imported without them; any other overlap is refused,
because a repeated row cannot be told from a second booking that looks the same.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from kontobahn.books import batches
from kontobahn.books.batches import CASH, KEPT, RETAX, Batch, Protocol
from kontobahn.books.cash_days import cash_book_of_account
from kontobahn.books.posting import FLUSH_EVERY, columns_of_booking
from kontobahn.books.satz import Satz
from kontobahn.books.store import Client, FiscalYear
from kontobahn.db import Statements, Tx
from kontobahn.errors import Conflict
from kontobahn.formats.extf import Header, RowError
from kontobahn.sentences import joined, said

SHOWN = 20
WAY_OUT_OF_CALL = "If they are other bookings, say so with another=true."
_LOOK = "konto, gegenkonto, soll, umsatz, waehrung, belegfeld1, generalumkehr"
_SEEN = columns_of_booking("belegdatum", *_LOOK.split(", "))
_OF_DAY = (
    f"SELECT id, batch, buchungstext, {_LOOK} FROM books_bookings WHERE mandant = ? AND belegdatum = ? AND id <= ?"
    " ORDER BY id DESC"
)
_OF_ACCOUNT = (
    f"SELECT b.id, b.batch, b.buchungstext, {', '.join(f'b.{name}' for name in _LOOK.split(', '))} FROM books_bookings b"
    " JOIN books_batches t ON t.mandant = b.mandant AND t.id = b.batch WHERE b.mandant = ? AND b.belegdatum = ? AND +b.id <= ?"
    f" AND (b.konto = ? OR b.gegenkonto = ?) AND t.kind <> '{CASH}' AND t.kind <> '{RETAX}' ORDER BY b.id DESC"
)
# Entries of a day that are reversed, or reverse another.
_REVERSED_ENTRIES = (
    "SELECT e.booking, e.storno_von FROM books_cash_rows r JOIN books_cash_entries e"
    " ON e.mandant = r.mandant AND e.booking = r.booking AND e.kassenname = r.kassenname"
    " WHERE r.mandant = ? AND r.kassenname = ? AND r.datum = ? AND (e.storno_von IS NOT NULL OR EXISTS"
    " (SELECT 1 FROM books_cash_entries s WHERE s.mandant = e.mandant AND s.kassenname = e.kassenname AND s.storno_von = e.nummer))"
)
# The parts of a packed booking: its number, and some bits of its text.
_TEXT_BITS = 16


class LooksBooked(Conflict):
    """Rows look as if they were already booked, and nothing was booked."""

    def __init__(self, lookalikes: Lookalikes, protocol: Protocol, way_out: str) -> None:
        shown, count = lookalikes.shown, lookalikes.count
        more = [said("and {count} more", count=count - len(shown))] if count > len(shown) else []
        super().__init__(
            said(
                "{count} {rows} booked already (same day, accounts, amount and document): {shown}."
                " Nothing was booked. {hint}",
                count=count,
                rows="rows look" if count > 1 else "row looks",
                shown=joined("; ", [*shown, *more]),
                hint=way_out,
            ),
            abgelehnt=count,
            warnungen=protocol.warning_count,
            protokoll=protocol.lines(),
        )
        self.protocol = protocol
        # Undoing the earlier import would remove the cause.
        self.is_final = False


class Lookalikes:
    """Rows that are refused only because they look booked already; if the whole file is known, they are what is known of it."""

    def __init__(self, booked: BookedRows) -> None:
        self._booked = booked
        self._errors: list[RowError] = []
        self.count = 0
        # The first of them, as texts.
        self.shown: list[str] = []

    def add(self, line: int, booking: int, *, by_call: bool = False) -> None:
        self.count += 1
        if len(self._errors) >= KEPT:
            return
        like = self._booked.described(booking)
        self._errors.append(RowError(line, "", said("The row looks like {like}.", like=like)))
        if len(self.shown) < SHOWN:
            self.shown.append(
                said("booking {line} like {like}", line=line, like=like)
                if by_call
                else said("line {line} like {like}", line=line, like=like)
            )

    def refuse(self, protocol: Protocol) -> None:
        protocol.add_refused(self._errors, self.count)


class _Day(NamedTuple):
    """The bookings of a day by their look (a hash, because a year may hold a million), packed, the lowest number last."""

    standing: dict[int, list[int]]
    # Those that were reversed, and reversals of other days' bookings.
    reversed: dict[int, list[int]]
    reversals: Counter[int]


class BookedRows:
    """The bookings of the fiscal year up to a number; with `konto`, those on this account that no cash book made.

    Costs nothing if there are none.
    """

    def __init__(self, tx: Statements, client: Client, jahr: FiscalYear, last: int, konto: str = "") -> None:
        self._tx, self._client, self._last, self._konto = tx, client, last, konto
        mandant = client.mandant
        held = tx.one(
            "SELECT 1 FROM books_bookings WHERE mandant = ? AND jahr = ? AND id <= ? LIMIT 1", mandant, jahr.start, last
        )
        self.has_any = held is not None
        self._without_effect = batches.without_effect(tx, mandant) if self.has_any else set()
        self._cash_books = self._with_reversals() if self.has_any and not konto else []
        self._days: dict[str, _Day] = {}
        # Entries of a cash book that are reversed, bookings that reverse one, and documents that have a Generalumkehr.
        self._reversed_cash: set[int] = set()
        self._stornos: set[int] = set()
        self._documents: dict[str, list[tuple[str, int]]] = {}
        # Look of a booking → reversals of such bookings that the rows repeat.
        self._repeated: Counter[int] = Counter()

    def _with_reversals(self) -> list[str]:
        """Returns the cash books, if an entry of one was ever reversed."""
        found = self._tx.one(
            "SELECT 1 FROM books_cash_entries WHERE mandant = ? AND storno_von IS NOT NULL ORDER BY kassenname LIMIT 1",
            self._client.mandant,
        )
        return [] if found is None else list(cash_book_of_account(self._tx, self._client).values())

    def take(self, satz: Satz) -> int | None:
        """Returns the booking with the look and the text of the row, each booking once."""
        if not self.has_any:
            return None
        look = look_of(satz)
        standing = self._standing(satz, look)
        text = _bits_of(satz.buchungstext)
        for place in range(len(standing) - 1, -1, -1):
            if standing[place] & ((1 << _TEXT_BITS) - 1) == text:
                return self._taken(satz, standing.pop(place))
        return None

    def may_take(self, satz: Satz) -> bool:
        """Returns whether another booking looks like the row, or one that was reversed: `take_any` when all rows were seen."""
        if not self.has_any:
            return False
        look = look_of(satz)
        return bool(self._standing(satz, look) or self._day(satz.belegdatum).reversed.get(look))

    def take_any(self, satz: Satz) -> int | None:
        """Returns a booking that looks like the row, each once; one that was reversed, if its reversal was taken too."""
        look = look_of(satz)
        standing = self._standing(satz, look)
        if standing:
            return self._taken(satz, standing.pop())
        gone = self._day(satz.belegdatum).reversed.get(look)
        if gone and self._repeated[look] > 0:
            self._repeated[look] -= 1
            return gone.pop() >> _TEXT_BITS
        return None

    def take_reversed(self, satz: Satz) -> bool:
        """Returns whether a booking that looks like the row was reversed by a Generalumkehr, each once."""
        gone = self._day(satz.belegdatum).reversed.get(look_of(satz), [])
        for place, packed in enumerate(gone):
            if packed >> _TEXT_BITS not in self._reversed_cash:
                del gone[place]
                return True
        return False

    def likes(self, rows: Sequence[tuple[int, Satz]]) -> dict[int, int]:
        """Returns number → the booking that the row looks like, for those that do."""
        found: dict[int, int] = {}
        undecided: list[tuple[int, Satz]] = []
        for number, satz in rows:
            like = self.take(satz)
            if like is not None:
                found[number] = like
            elif self.may_take(satz):
                undecided.append((number, satz))
        found.update(self.decided(undecided))
        return found

    def decided(self, undecided: Sequence[tuple[int, Satz]]) -> Iterator[tuple[int, int]]:
        """Yields number and booking of the rows that look like one; reversals first, which make known what they reversed."""
        for number, satz in sorted(undecided, key=lambda row: not row[1].generalumkehr):
            like = self.take_any(satz)
            if like is not None:
                yield number, like

    def _taken(self, satz: Satz, packed: int) -> int:
        booking = packed >> _TEXT_BITS
        if satz.generalumkehr or booking in self._stornos:
            self._repeated[look_of(_original(satz))] += 1
        return booking

    def _standing(self, satz: Satz, look: int) -> list[int]:
        day = self._day(satz.belegdatum)
        standing = day.standing.get(look, [])
        if standing and satz.belegfeld1 and not satz.generalumkehr:
            self._leave_out_reversed(satz, look, day, standing)
        return standing

    def _leave_out_reversed(self, satz: Satz, look: int, day: _Day, standing: list[int]) -> None:
        """Takes out bookings that a Generalumkehr of a later day has reversed, which is known by the document."""
        for later, reverses in self._reversals_of(satz.belegfeld1):
            if later > satz.belegdatum and reverses == look and standing:
                of_day = self._day(later)
                if of_day.reversals[look] > 0:
                    of_day.reversals[look] -= 1
                    day.reversed.setdefault(look, []).append(standing.pop())

    def _reversals_of(self, beleg: str) -> list[tuple[str, int]]:
        """Returns the Generalumkehr bookings of a document: their day, and the look of what they reverse."""
        found = self._documents.get(beleg)
        if found is None:
            rows = self._tx.all(
                f"SELECT batch, belegdatum, {_LOOK} FROM books_bookings WHERE mandant = ? AND belegfeld1 = ? AND generalumkehr = 1"
                " AND id <= ?",
                self._client.mandant, beleg, self._last,
            )  # fmt: skip
            found = [(day, _look_of_original(*look)) for batch, day, *look in rows if batch not in self._without_effect]
            self._documents[beleg] = found
        return found

    def _day(self, day: str) -> _Day:
        found = self._days.get(day)
        if found is None:
            found = self._days[day] = self._load(day)
        return found

    def _load(self, day: str) -> _Day:
        mandant, konto = self._client.mandant, self._konto
        found = _Day({}, {}, Counter())
        gone = self._reversed_entries(day)
        rows = (
            self._tx.all(_OF_ACCOUNT, mandant, day, self._last, konto, konto)
            if konto
            else self._tx.all(_OF_DAY, mandant, day, self._last)
        )
        for booking, batch, text, *look in rows:
            if batch in self._without_effect:
                continue
            kept = found.reversed if booking in gone else found.standing
            kept.setdefault(_look(*look), []).append(booking << _TEXT_BITS | _bits_of(text))
            if look[-1]:
                found.reversals[_look_of_original(*look)] += 1
        for look_of_original, count in found.reversals.items():
            standing = found.standing.get(look_of_original, [])
            reverses = min(count, len(standing))
            for _ in range(reverses):
                found.reversed.setdefault(look_of_original, []).append(standing.pop())
            found.reversals[look_of_original] -= reverses
        return found

    def _reversed_entries(self, day: str) -> set[int]:
        """Returns the bookings of entries that are reversed, and notes those that reverse others."""
        gone: set[int] = set()
        for name in self._cash_books:
            for booking, storno_von in self._tx.all(_REVERSED_ENTRIES, self._client.mandant, name, day):
                (gone if storno_von is None else self._stornos).add(booking)
        self._reversed_cash |= gone
        return gone

    def described(self, booking: int) -> str:
        row = self._tx.one(
            "SELECT a.source FROM books_bookings b JOIN books_batches a ON a.mandant = b.mandant AND a.id = b.batch"
            " WHERE b.mandant = ? AND b.id = ?",
            self._client.mandant, booking,
        )  # fmt: skip
        return said("booking {number} from {source}", number=booking, source=row[0] if row else "an unknown batch")


def looks_of_rows(bookings: Iterable[tuple[Any, ...]]) -> Iterator[int]:
    """Yields the looks of rows of books_bookings, with their days."""
    return _with_days(map(_SEEN, bookings))


def looks_between(tx: Tx, client: Client, after: int, last: int) -> set[int]:
    """Returns the looks of the bookings between these two, with their days."""
    rows = tx.all(
        f"SELECT belegdatum, {_LOOK} FROM books_bookings WHERE mandant = ? AND id > ? AND id <= ?",
        client.mandant, after, last,
    )  # fmt: skip
    return set(_with_days(rows))


def _with_days(rows: Iterable[tuple[Any, ...]]) -> Iterator[int]:
    return (hash((day, _look(*look))) for day, *look in rows)


def look_of(satz: Satz) -> int:
    """Returns the look of the row, apart from its day and text, as a number of 64 bits."""
    return _look(
        satz.konto, satz.gegenkonto, satz.soll, satz.umsatz, satz.waehrung, satz.belegfeld1, satz.generalumkehr
    )


def _look(konto: str, gegenkonto: str, soll: int, umsatz: int, waehrung: str, belegfeld1: str, umkehr: int) -> int:
    # It does not matter which of the two accounts is called Konto, only which is debited.
    sides = (konto, gegenkonto) if soll else (gegenkonto, konto)
    return hash((sides, umsatz, waehrung, belegfeld1, bool(umkehr)))


def _look_of_original(
    konto: str, gegenkonto: str, soll: int, umsatz: int, waehrung: str, belegfeld1: str, umkehr: int
) -> int:
    """Returns the look of what a booking reverses."""
    return _look(konto, gegenkonto, not soll, umsatz, waehrung, belegfeld1, False)


def _original(satz: Satz) -> Satz:
    return satz._replace(soll=not satz.soll, generalumkehr=False)


def _bits_of(text: str) -> int:
    return hash(text) & ((1 << _TEXT_BITS) - 1)


# --- Corrected files that are imported again


_ADD = (
    "INSERT INTO books_partial_rows (mandant, batch, digest, kopf, times) VALUES (?, ?, ?, ?, ?)"
    " ON CONFLICT (mandant, batch, digest) DO UPDATE SET times = books_partial_rows.times + excluded.times"
)


class PartialRows:
    """The rows that earlier partial imports booked and, if this one is partial too, those that it books."""

    def __init__(
        self, tx: Statements, client: Client, batch: Batch, header: Header, *, is_partial: bool, is_another: bool
    ) -> None:
        self._tx, self._mandant, self._batch = tx, client.mandant, batch.id
        self._header = _digest((
            header.category, header.berater, header.mandant, header.wj_beginn, header.datum_von, header.datum_bis, header.bezeichnung,
            header.buchungstyp,
        ))  # fmt: skip
        self._is_partial = is_partial
        # By batch: its header and the number of rows it booked; and how many of them this file has.
        self._earlier: dict[str, tuple[str, int]] = {}
        self._matched: dict[str, int] = {}
        # By row: the batches that booked it, each as often as it did.
        self._unmatched: dict[str, list[str]] = {}
        self._booked: dict[str, int] = {}
        if not is_another:
            self._load()

    def _load(self) -> None:
        # Rows of this same file last: `has` pops from the end, and should prefer them.
        for batch, digest, header, times in self._tx.all(
            "SELECT batch, digest, kopf, times FROM books_partial_rows WHERE mandant = ? AND batch NOT IN"
            " (SELECT id FROM books_batches WHERE mandant = ? AND undone_by <> '')"
            " ORDER BY CASE WHEN kopf = ? THEN 1 ELSE 0 END, batch",
            self._mandant, self._mandant, self._header,
        ):  # fmt: skip
            self._earlier[batch] = (header, self._earlier.get(batch, ("", 0))[1] + times)
            self._unmatched.setdefault(digest, []).extend([batch] * times)

    def has(self, satz: Satz) -> bool:
        """Returns whether the row was booked before; each one is found as often as it was booked."""
        if not self._unmatched:
            return False
        earlier = self._unmatched.get(_digest(satz))
        if not earlier:
            return False
        batch = earlier.pop()
        self._matched[batch] = self._matched.get(batch, 0) + 1
        return True

    def add(self, satz: Satz) -> None:
        if self._is_partial:
            digest = _digest(satz)
            self._booked[digest] = self._booked.get(digest, 0) + 1
            if len(self._booked) >= FLUSH_EVERY:
                self.flush(self._tx)

    def check(self) -> None:
        """Raises Conflict if the file repeats rows of an earlier one but is not that file corrected."""
        for batch, found in self._matched.items():
            header, rows = self._earlier[batch]
            if header != self._header or found != rows:
                raise Conflict(
                    said(
                        "This file has {found} of the {rows} rows that were imported with --partial from"
                        " {source} again, but it is not that file with only the refused rows"
                        " corrected. Nothing was imported. Import a file with the refused rows alone; or,"
                        " if these are other bookings that look the same, import it with --another.",
                        found=found,
                        rows=rows,
                        source=self._source(batch),
                    )
                )

    def forget(self, tx: Tx) -> None:
        """Deletes the rows of a file that is complete now: from here on it is recognised by the checksum over all of them."""
        for batch in (*self._matched, self._batch):
            tx.run("DELETE FROM books_partial_rows WHERE mandant = ? AND batch = ?", self._mandant, batch)

    def _source(self, batch: str) -> str:
        row = self._tx.one("SELECT source FROM books_batches WHERE mandant = ? AND id = ?", self._mandant, batch)
        return str(row[0]) if row else batch

    def flush(self, tx: Statements) -> None:
        rows = [(self._mandant, self._batch, digest, self._header, times) for digest, times in self._booked.items()]
        tx.many(_ADD, rows)
        self._booked = {}


def _digest(content: object) -> str:
    # Stored, and made of the repr: the name of Satz and the names and order of its fields must not change.
    return hashlib.blake2b(repr(content).encode(), digest_size=12).hexdigest()
