"""Posting: the only way for bookings into the books. It also updates the read models, in the same transaction.

Bookings are never changed. `verification.py` recomputes the read models from them.
"""

from __future__ import annotations

from array import array
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from operator import itemgetter
from typing import Any, NamedTuple, TypeAlias

from kontobahn.books import claims, read_models
from kontobahn.books.batches import Batch
from kontobahn.books.cash_days import ADD_DAY, ADD_ROW, cash_book_of_account
from kontobahn.books.read_models import Block, Change, write
from kontobahn.books.satz import (
    CLOSING_PERIOD,
    EB_PERIOD,
    EB_TEXT,
    Documents,
    Satz,
    Splitter,
    first_invoice,
    is_opening_balance,
    legs_of,
    merge_taxes,
    period_of,
    tax_day,
    tax_for_item,
)
from kontobahn.books.store import Client
from kontobahn.db import Statements, Tx
from kontobahn.ledger.buchungen import EUR
from kontobahn.ledger.faelligkeiten import earlier_invoice
from kontobahn.ledger.kontierung import PLAIN, Hint, KontierungError, Leg, is_discount
from kontobahn.ledger.konto import PERSONENKONTO_DIGITS
from kontobahn.ledger.opos import may_be_paired
from kontobahn.sentences import said

FLUSH_EVERY = 20_000
# Sheet, period, day and number of the booking.
OnSheet: TypeAlias = tuple[str, int, str, int]
# Number, period, day, both accounts and split of a booking: all that its places on sheets depend on.
Placed: TypeAlias = tuple[int, int, str, str, str, str]

_ADD_MOVE = (
    "INSERT INTO books_item_moves (mandant, belegdatum, booking, konto, beleg, betrag) VALUES (?, ?, ?, ?, ?, ?)"
)


_BOOKING_COLUMNS = ("mandant", "id", "jahr", "periode", "batch", *Satz._fields, "aufteilung", "steuertag")


def columns_of_booking(*names: str) -> Callable[[tuple[Any, ...]], tuple[Any, ...]]:
    """Returns a function that picks these columns from a row of books_bookings."""
    return itemgetter(*map(_BOOKING_COLUMNS.index, names))


_INSERT_BOOKING = (
    f"INSERT INTO books_bookings ({', '.join(_BOOKING_COLUMNS)}) VALUES ({', '.join('?' * len(_BOOKING_COLUMNS))})"
)
_OTHERWISE = {
    "id": "id + CAST(? AS BIGINT)",
    "batch": "CAST(? AS TEXT)",
    "soll": "1 - soll",
    "generalumkehr": "1",
}
# Reverses bookings that are not a Generalumkehr themselves. To reverse one takes another key, which only `reversal_of` knows.
INSERT_REVERSALS = (
    f"INSERT INTO books_bookings ({', '.join(_BOOKING_COLUMNS)})"
    f" SELECT {', '.join(_OTHERWISE.get(name, name) for name in _BOOKING_COLUMNS)} FROM books_bookings"
    " WHERE mandant = ? AND generalumkehr = 0 AND id BETWEEN ? AND ?"
)
_SPAN = "FROM books_bookings WHERE mandant = ? AND id BETWEEN ? AND ?"
_INSERT_PLACES = "INSERT INTO books_sheets (mandant, jahr, blatt, periode, belegdatum, booking)"
# In the order of its keys: in that of the bookings nearly every row would change another page.
ADD_TO_SHEETS = (
    f"{_INSERT_PLACES} SELECT mandant, jahr, konto, periode, belegdatum, id {_SPAN}"
    f" UNION ALL SELECT mandant, jahr, gegenkonto, periode, belegdatum, id {_SPAN} AND gegenkonto <> konto"
    f" UNION ALL SELECT mandant, jahr, aufteilung, periode, belegdatum, id {_SPAN} AND aufteilung <> '{PLAIN}'"
    " ORDER BY 1, 2, 3, 4, 5, 6"
)
# A statement for many rows costs a third less than one for each.
_PLACES_AT_ONCE = 1_000


class Original(NamedTuple):
    """A booking that is reversed: all that its places on sheets depend on, in the order of Placed, and its legs."""

    id: int
    periode: int
    belegdatum: str
    konto: str
    gegenkonto: str
    aufteilung: str
    belegfeld1: str
    soll: int
    betrag: int
    skonto: int


class Poster:
    """Adds bookings to one batch and writes them in blocks; `finish` writes the last one and what follows from the batch."""

    def __init__(
        self,
        tx: Statements,
        client: Client,
        batch: Batch,
        place: claims.Place,
        cash_book: tuple[str, str] | None = None,
    ) -> None:
        """`place` is where its bookings go; `cash_book` as for `begin`."""
        self._tx = tx
        self._client = client
        self.batch = batch
        self._rahmen = client.rahmen
        # Warnings about the booking that was added last.
        self.hint: Hint | None = None
        self._place = place
        self._splitter = Splitter(tx, place.editions[0], client.rahmen)
        # The last booking before the batch, and the last one of it so far.
        self.before = self._last = self._flushed = place.last
        # The booking after which `_pause` is called.
        self._pause_at = place.last + FLUSH_EVERY
        self._touched: set[str] = set()
        self._moved: set[str] = set()
        self._carries_persons = False
        # Account → cash book, and the cash books that were touched.
        self._cash_books = cash_book_of_account(tx, client) | dict([cash_book] if cash_book else [])
        self.moved_cash_books: set[str] = set()
        self._block = Block()
        # The difference between the number of a copied booking and that of its original.
        self._shift = 0
        # Documents whose tax is not written yet.
        self._documents: Documents = self._block.items

    def add(self, satz: Satz, *, aufteilung: str = "", periode: int | None = None, takes_back: bool = True) -> int:
        """Posts a booking and returns its id. Raises KontierungError, before anything is kept, if it cannot be booked.

        `aufteilung` and `periode` are for a booking that takes another one back: it is split as that one was, not by today's rule,
        and belongs to the same period. One that is split so but `takes_back` nothing follows its document as any other does.
        """
        jahr = self.batch.jahr.start
        self.hint = None
        follows = not aufteilung or not takes_back
        if not aufteilung:
            _refuse_foreign_discount(satz)
            aufteilung, self.hint = self._splitter.split(satz, self._documents)
        umsatz, soll, konto, gegenkonto, belegdatum, *between, generalumkehr, weitere = satz
        parts = legs_of(self._rahmen, satz, aufteilung)
        if periode is None:
            periode = self._period(satz)
        booking = self._last + 1
        if booking > self._place.ceiling:
            raise claims.no_numbers_left()
        self._last = booking
        self._block.bookings.append((
            self._client.mandant, booking, jahr, periode, self.batch.id, umsatz, int(soll), konto, gegenkonto, belegdatum,
            *between, int(generalumkehr), weitere, aufteilung, tax_day(weitere) if weitere else "",
        ))  # fmt: skip
        if follows and satz.skonto and satz.belegfeld1 and is_discount(aufteilung):
            self._add_discount(booking, satz, aufteilung)
        self._add_legs(booking, parts, periode, belegdatum, is_reversal=generalumkehr)
        if not self.batch.is_undo:
            eb = periode == EB_PERIOD
            for konto, betrag in parts:
                if len(konto) == PERSONENKONTO_DIGITS:
                    self._add_to_item(booking, konto, betrag, satz, tax_for_item(aufteilung), eb=eb)
                    if eb and len(parts) == 2:
                        self._add_opening(booking, konto, betrag, satz)
        if booking >= self._pause_at:
            self._pause()
        return booking

    def add_reversal(self, original: Original, parts: list[Leg]) -> int:
        """Reverses a booking that is not a Generalumkehr itself, given its legs. Returns the id of the reversal.

        It is copied by a statement, so the originals of all that are added must follow on one another.
        """
        self._last = booking = self._last + 1
        self._shift = booking - original.id
        self._block.reversals.append((booking, *original[1:6]))
        negated = [(konto, -betrag) for konto, betrag in parts]
        self._add_legs(booking, negated, original.periode, original.belegdatum, is_reversal=True)
        if booking >= self._pause_at:
            self._pause()
        return booking

    def _add_legs(self, booking: int, parts: list[Leg], periode: int, day: str, *, is_reversal: bool) -> None:
        """Adds legs to the sums of their accounts and to cash books."""
        periods, cash_books = self._block.periods, self._cash_books
        counted = -1 if self.batch.is_undo else 1
        for konto, betrag in parts:
            sums = periods.get((konto, periode))
            if sums is None:
                sums = periods[konto, periode] = [0, 0, 0]
            # A Generalumkehr reduces turnover on its side instead of adding to the other one.
            if (betrag > 0) != is_reversal:
                sums[0] += betrag
            else:
                sums[1] -= betrag
            sums[2] += counted
            if konto in cash_books:
                self._add_to_cash(booking, cash_books[konto], betrag, day, eb=periode == EB_PERIOD)

    @property
    def count(self) -> int:
        """The number of bookings that were added."""
        return self._last - self.before

    def _period(self, satz: Satz) -> int:
        jahr = self.batch.jahr.start
        # Asked here first, which spares nearly every booking a call.
        if satz.belegdatum == jahr and is_opening_balance(satz, jahr, is_cash=self.batch.is_cash):
            return EB_PERIOD
        return CLOSING_PERIOD if self.batch.is_closing else period_of(satz.belegdatum, jahr)

    def finish(self) -> int:
        """Writes what is left, settles what follows and returns the number of bookings."""
        self._flush()
        tx, mandant, jahr, count = self._tx, self._client.mandant, self.batch.jahr.start, self.count
        tx.run("UPDATE books_clients SET last_buchung = ? WHERE mandant = ?", self._last, mandant)
        tx.run(
            "UPDATE books_batches SET records = ?, first_booking = ?, last_booking = ? WHERE mandant = ? AND id = ?",
            count, self.before + 1 if count else 0, self._last if count else 0, mandant, self.batch.id,
        )  # fmt: skip
        newly_carried: tuple[int, ...] = ()
        if self._carries_persons:
            self._place, newly_carried = self._place.carry(tx, jahr)
        for edition in self._place.editions:
            carried = self._place.carried_years(tx, edition)
            if edition in newly_carried:
                read_models.settle_rests(tx, edition, carried, None)
            read_models.settle(tx, self._client, edition, jahr, self._touched, self._moved, carried)
        return count

    def final_hint(self, satz: Satz) -> Hint | None:
        """Returns the warning about a discount once the whole batch is posted: its invoice may have come after it."""
        return self._splitter.split(satz, {}).hint

    def _add_to_item(self, booking: int, konto: str, betrag: int, satz: Satz, steuer: str, *, eb: bool) -> None:
        year = self._block.years.get(konto)
        if year is None:
            year = self._block.years[konto] = [0, "", 0]
        if eb:
            # Ledger accounts are carried over in a step of their own, which says nothing about person accounts.
            self._carries_persons = True
            year[0] += betrag
            text = satz.buchungstext or EB_TEXT
            year[1] = min(year[1], text) if year[1] else text
            return
        year[2] += betrag
        day, beleg = satz.belegdatum, satz.belegfeld1
        self._block.moves.append((self._client.mandant, day, booking, konto, beleg, betrag))
        item = self._block.items.get((konto, beleg))
        first = (day, satz.buchungstext)
        rechnung = first_invoice(
            self._rahmen, konto, satz.gegenkonto if konto == satz.konto else satz.konto, soll=betrag > 0,
            belegdatum=day, reversal=satz.generalumkehr, weitere=satz.weitere,
        )  # fmt: skip
        if item is None:
            item = self._block.items[konto, beleg] = [0, 0, first, rechnung, steuer]
        else:
            item[2] = min(item[2], first)
            if rechnung:
                item[3] = earlier_invoice(item[3], rechnung)
        if steuer != item[4]:
            item[4] = merge_taxes(item[4], steuer)
        if betrag > 0:
            item[0] += betrag
        else:
            item[1] -= betrag

    def _add_discount(self, booking: int, satz: Satz, aufteilung: str) -> None:
        """Keeps what the discount was split by, to split it again if the tax of its document changes."""
        person = satz.konto if len(satz.konto) == PERSONENKONTO_DIGITS else satz.gegenkonto
        steuer = self._splitter.tax_of_document(satz, self._documents)
        self._block.discounts.append((person, satz.belegfeld1, booking, steuer, aufteilung))

    def _add_to_cash(self, booking: int, kassenname: str, betrag: int, day: str, *, eb: bool) -> None:
        self.moved_cash_books.add(kassenname)
        if not eb:
            key = kassenname, day
            self._block.cash_days[key] = self._block.cash_days.get(key, 0) + betrag
        row = (self._client.mandant, kassenname, day, booking)
        # Of a booking with several legs on the account there is one row.
        if (not eb or self.batch.is_cash) and self._block.cash_rows[-1:] != [row]:
            self._block.cash_rows.append(row)

    def _add_opening(self, booking: int, konto: str, betrag: int, satz: Satz) -> None:
        """Keeps a leg that may turn out to be half of a pair."""
        gegenkonto = satz.gegenkonto if konto == satz.konto else satz.konto
        if may_be_paired(gegenkonto):
            self._block.openings.append((
                konto, self.batch.jahr.start, booking, betrag, gegenkonto, satz.belegfeld1, int(satz.generalumkehr)
            ))  # fmt: skip

    def _pause(self) -> None:
        self._flush()
        self._pause_at = self._flushed + FLUSH_EVERY

    def _flush(self) -> None:
        block, self._block = self._block, Block()
        self._documents = self._block.items
        block.numbers = self._flushed + 1, self._last
        self._flushed = self._last
        self._touched.update(block.years)
        self._moved.update([konto for konto, _ in block.periods])
        self._write(block)

    def _write(self, block: Block) -> None:
        tx, mandant = self._tx, self._client.mandant
        if block.reversals:
            tx.run(INSERT_REVERSALS, *self._of_reversals(), *self._originals(block))
        write(tx, journal_of(block.bookings, block.moves, block.cash_rows))
        if block.bookings or block.reversals:
            tx.run(ADD_TO_SHEETS, *(mandant, *block.numbers) * 3)
        tx.many(ADD_DAY, [(mandant, *key, bewegung) for key, bewegung in block.cash_days.items()])
        for edition in self._place.editions:
            write(tx, block.changes(edition, self.batch.jahr.start))

    def _of_reversals(self) -> tuple[int, str, int]:
        """Returns the parameters of INSERT_REVERSALS before the numbers of the originals."""
        return self._shift, self.batch.id, self._client.mandant

    def _originals(self, block: Block) -> tuple[int, int]:
        """Returns the first and the last of the bookings that the block reverses."""
        return block.reversals[0][0] - self._shift, block.reversals[-1][0] - self._shift


def begin(
    tx: Tx, client: Client, batch: Batch, *, cash_book: tuple[str, str] | None = None, alone: bool = False
) -> Poster:
    """Posts a batch in this transaction. `cash_book` is account and name of the one whose entries are posted.

    Raises StillRunning if the batch can be posted `alone` only and a large file is being written.
    """
    return Poster(tx, client, batch, claims.take_place(tx, client, alone=alone), cash_book)


def _refuse_foreign_discount(satz: Satz) -> None:
    if satz.skonto and satz.waehrung != EUR:
        reason = said("is in {currency}; a discount can only be booked in a row in EUR", currency=satz.waehrung)
        raise KontierungError("Skonto", reason)


def spans(bookings: list[tuple[Any, ...]]) -> Iterator[tuple[int, int]]:
    """Yields the first and last number of bookings that follow on one another."""
    numbers = [row[1] for row in bookings]
    first = 0
    for place, number in enumerate(numbers, 1):
        if place == len(numbers) or numbers[place] != number + 1:
            yield numbers[first], number
            first = place


def journal_of(
    bookings: list[tuple[Any, ...]], moves: list[tuple[Any, ...]], cash_rows: list[tuple[Any, ...]]
) -> list[Change]:
    """Returns what writes bookings and what goes with each. Their places on sheets are left, which a statement takes from them."""
    # The bookings first: the sweep of an import that broke off finds movements and rows by them.
    return [
        Change(_INSERT_BOOKING, bookings),
        Change(_ADD_MOVE, sorted(moves)),
        Change(ADD_ROW, sorted(cash_rows)),
    ]


# --- Places on sheets of a large batch


PLACED = columns_of_booking("id", "periode", "belegdatum", "konto", "gegenkonto", "aufteilung")
_BITS_OF_NUMBER, _BITS_OF_DAY = 32, 27
_NUMBER, _DAY = (1 << _BITS_OF_NUMBER) - 1, (1 << _BITS_OF_DAY) - 1


class Places:
    """The places that bookings of one year have on sheets, eight bytes each, until they are written in the order of sheets.

    Written with their bookings, those of each block would change every page of the table again.
    """

    def __init__(self, before: int) -> None:
        """`before` is the number of the last booking before these."""
        self._before = before
        # At least as many as there are.
        self.count = 0
        # Sheet → period, day and number in one figure, so that these are sorted as their places are.
        self._sheets: defaultdict[str, array[int]] = defaultdict(lambda: array("q"))
        self._days: dict[str, int] = {}

    def add(self, bookings: Iterable[Placed]) -> None:
        sheets, days, before, count = self._sheets, self._days, self._before, 0
        for number, periode, day, konto, gegenkonto, aufteilung in bookings:
            if day not in days:
                days[day] = int(day.replace("-", ""))
            place = (periode << _BITS_OF_DAY | days[day]) << _BITS_OF_NUMBER | number - before
            count += 2
            sheets[konto].append(place)
            if gegenkonto != konto:
                sheets[gegenkonto].append(place)
            if aufteilung != PLAIN:
                count += 1
                sheets[aufteilung].append(place)
        self.count += count

    def take(self) -> Iterator[OnSheet]:
        """Yields all of them in the order of sheets, and keeps none."""
        named = {number: day for day, number in self._days.items()}
        self.count = 0
        for blatt in sorted(self._sheets):
            for place in sorted(self._sheets.pop(blatt)):
                since = place >> _BITS_OF_NUMBER
                yield blatt, since >> _BITS_OF_DAY, named[since & _DAY], self._before + (place & _NUMBER)


def add_places(tx: Statements, mandant: int, jahr: str, places: list[OnSheet]) -> None:
    for first in range(0, len(places), _PLACES_AT_ONCE):
        some = places[first : first + _PLACES_AT_ONCE]
        marks = ", ".join(["(?, ?, ?, ?, ?, ?)"] * len(some))
        tx.put(f"{_INSERT_PLACES} VALUES {marks}", *chain.from_iterable([(mandant, jahr, *place) for place in some]))
