"""Undoing a batch by Generalumkehr: every booking again on the other side, so that turnover goes back where it was.

Nothing is deleted from the books. The open items and carry-overs, which are read models, become those of books in which the batch
never was: a document keeps no date or text of it, and a year that it alone had carried over is carried no longer. A small batch is
undone in one transaction, a large one in slices that nobody sees: its reversals are posted as a large file is (slices.py), and it
is taken out of the edition that appears with them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from typing import Any, NamedTuple

from kontobahn.books import batches, cash_days, claims, posting, read_models, slices, store
from kontobahn.books.batches import BATCHES, CASH, FILE, RETAX, UNDO, Batch, BatchRow, Protocol
from kontobahn.books.posting import Original, Poster
from kontobahn.books.read_models import Block, reset_twins
from kontobahn.books.satz import (
    EB_PERIOD,
    EB_TEXT,
    Satz,
    first_invoice,
    merge_taxes,
    reversal_of,
    tax_for_item,
)
from kontobahn.books.slices import SlicedPoster, Slices
from kontobahn.books.store import Client, FiscalYear, edition_of, lock_years, years
from kontobahn.clock import berlin_date
from kontobahn.db import Database, Statements, Tx, chunked
from kontobahn.errors import Conflict
from kontobahn.ledger import kontierung
from kontobahn.ledger.faelligkeiten import earlier_invoice
from kontobahn.ledger.kontierung import Leg, is_discount
from kontobahn.ledger.konto import PERSONENKONTO_DIGITS
from kontobahn.sentences import said

PAGE = 20_000
_FILE_OF_BOOKINGS = f"{FILE} 21"
_OF_BATCH = "FROM books_bookings WHERE mandant = ? AND id > ? AND id <= ?"
_ORIGINALS = (
    "SELECT id, periode, belegdatum, konto, gegenkonto, aufteilung, belegfeld1, soll, COALESCE(basis_umsatz, umsatz), skonto"
    f" {_OF_BATCH} ORDER BY id LIMIT ?"
)
_SAETZE = f"SELECT id, {', '.join(Satz._fields)} {_OF_BATCH} AND (generalumkehr = 1 OR id <= ?)"


def undo_batch(tx: Tx, client: Client, batch_id: str, author: str, undo_id: str = "") -> BatchRow | None:
    """Undoes the batch and returns the batch that does it; None if the client has no such batch."""
    lock_years(tx, client)
    claims.refuse(tx, client)
    found = batches.find(tx, client, batch_id)
    if found is None:
        return None
    refuse_if_not_possible(tx, client, found)
    batch = open_batch(tx, client, found, author, undo_id)
    poster, removal = posting.begin(tx, client, batch), Removal(tx, client, found)
    for _ in reverse(tx, client, found, poster, removal):
        pass
    BATCHES.update(tx, found, undone_by=batch.id)
    poster.finish()
    _remove(tx, client, found, removal)
    claims.remove_moves_between(tx, client.mandant, found.first_booking, found.last_booking)
    tx.run("DELETE FROM books_partial_rows WHERE mandant = ? AND batch = ?", client.mandant, found.id)
    return describe(tx, client, poster)


def refuse_if_not_possible(tx: Tx, client: Client, row: BatchRow) -> None:
    if row.undone_by:
        by = batches.find(tx, client, row.undone_by)
        undone_on = said(" on {day}", day=berlin_date(by.created_at)) if by else ""
        raise Conflict(said("The batch was undone before{when}.", when=undone_on))
    if row.undoes:
        raise Conflict("The batch undoes another one. To have that one back, import its file again.")
    if row.kind == CASH:
        raise Conflict(
            "The batch is of a cash book: reverse its entry instead, so that the chain of entries stays whole."
        )
    if row.kind.startswith(FILE) and row.kind != _FILE_OF_BOOKINGS:
        raise Conflict(
            "The batch holds master data, not bookings: it cannot be undone. Import the records as they should be instead."
        )
    if not row.records:
        raise Conflict("The batch holds no bookings.")
    if row.kind == RETAX:
        raise Conflict("The batch corrects the tax of others, which were reversed for it: it cannot be undone.")
    corrected = tx.one(
        "SELECT batch FROM books_retaxed WHERE mandant = ? AND booking BETWEEN ? AND ? LIMIT 1",
        client.mandant, row.first_booking, row.last_booking,
    )  # fmt: skip
    if corrected is not None:
        raise Conflict(
            said(
                "Bookings of the batch were reversed and booked again by batch {id}, to correct their"
                " tax: it cannot be undone as a whole.",
                id=corrected[0],
            )
        )


def year_of(tx: Statements, client: Client, found: BatchRow) -> FiscalYear:
    return next(year for year in years(tx, client) if year.start == found.jahr)


def open_batch(tx: Tx, client: Client, found: BatchRow, author: str, undo_id: str) -> Batch:
    """Opens the batch that undoes this one."""
    return batches.open_batch(
        tx, client, year_of(tx, client, found), kind=UNDO, source=found.source, author=author, bezeichnung=found.bezeichnung,
        undoes=found.id, batch_id=undo_id,
    )  # fmt: skip


def reverse(
    tx: Statements, client: Client, found: BatchRow, poster: Poster, removal: Removal, held: int = 0
) -> Iterator[None]:
    """Books every booking of the batch again, reversed, and adds it to what is removed; yields after each.

    As many of the first ones as are `held` back are not copied by a statement.
    """
    after, rahmen = found.first_booking - 1, client.rahmen
    first_copied = found.first_booking + held
    while rows := tx.all(_ORIGINALS, client.mandant, after, found.last_booking, PAGE):
        saetze = {
            booking: Satz._make(values)
            for booking, *values in tx.all(_SAETZE, client.mandant, after, rows[-1][0], first_copied - 1)
        }
        for row in map(Original._make, rows):
            legs = kontierung.legs(
                rahmen, row.aufteilung, konto=row.konto, gegenkonto=row.gegenkonto, soll=bool(row.soll),
                betrag=row.betrag, skonto=row.skonto,
            )  # fmt: skip
            if row.id in saetze:
                poster.add(reversal_of(saetze[row.id]), aufteilung=row.aufteilung, periode=row.periode)
            else:
                poster.add_reversal(row, legs)
            removal.add(row, legs)
            yield
        after = rows[-1][0]


def _remove(tx: Tx, client: Client, found: BatchRow, removal: Removal) -> None:
    edition = edition_of(tx, client)
    removal.subtract(tx, edition)
    for block in removal.descriptions(tx, edition):
        read_models.write(tx, block.changes(edition, found.jahr))
    if removal.opened and not removal.is_carried(tx, edition):
        uncarry(tx, client, found.jahr)
        tx.run("DELETE FROM books_carry_rests WHERE edition = ? AND jahr = ?", edition, found.jahr)
    removal.settle(tx, edition, removal.konten, read_models.carried_years(tx, client.mandant))


def uncarry(tx: Tx, client: Client, jahr: str) -> None:
    tx.run("UPDATE books_years SET has_eb = 0 WHERE mandant = ? AND jahr = ?", client.mandant, jahr)


def describe(tx: Tx, client: Client, poster: Poster) -> BatchRow | None:
    """Warns of cash books that are negative now, and returns the batch that has undone the other."""
    protocol = Protocol(map(cash_days.warning, cash_days.negative(tx, client, poster.moved_cash_books)))
    batches.describe(tx, client, poster.batch.id, 0, protocol)
    return batches.find(tx, client, poster.batch.id)


# --- Small or large: prepared, then committed


# About a third of a second in one transaction.
SLICED_FROM_ROWS = 3_000
FindClient = Callable[[Tx], Client | None]


class Undo:
    """One undo of a batch. `find` returns the client that has it, if any, and raises if it may not be undone."""

    def __init__(self, db: Database, find: FindClient, batch_id: str, author: str) -> None:
        self._db, self._find, self._batch_id, self._author = db, find, batch_id, author
        self._sliced: _Sliced | None = None

    def is_large(self, tx: Tx) -> bool:
        """Returns whether it is to be undone in slices. Raises Conflict if it cannot be undone."""
        return self._large(tx) is not None

    def _large(self, tx: Tx) -> tuple[Client, BatchRow] | None:
        client = self._find(tx)
        found = None if client is None else batches.find(tx, client, self._batch_id)
        if client is None or found is None:
            return None
        refuse_if_not_possible(tx, client, found)
        return (client, found) if found.records >= SLICED_FROM_ROWS else None

    def prepare(self, undo_id: str) -> None:
        """Writes whatever takes long, off the event loop and outside any transaction. Raises Conflict if the batch cannot be undone."""
        large = self._db.read_now(self._large)
        if large is not None:
            self._sliced = _Sliced(self._db, *large, undo_id)
            self._sliced.prepare()

    def commit(self, tx: Tx, undo_id: str) -> BatchRow | None:
        """Returns the batch that undoes the other; None if there is no such batch."""
        client = self._find(tx)
        if client is None:
            return None
        if self._sliced is None:
            return undo_batch(tx, client, self._batch_id, self._author, undo_id)
        return self._sliced.commit(tx, self._author)

    def tidy(self, undo_id: str) -> None:
        """Cleans up, after the commit or if there will be none."""
        if self._sliced is not None:
            self._sliced.tidy()


class _Sliced:
    def __init__(self, db: Database, client: Client, found: BatchRow, undo_id: str) -> None:
        self._db, self._client, self._found, self._id = db, client, found, undo_id
        self._slices: Slices
        self._opened = ExitStack()
        self._poster: SlicedPoster
        self._removal: Removal

    def prepare(self) -> None:
        client, found = self._client, self._found
        self._slices = begun = slices.begin(self._db, client, self._id, found.source, undoes=found.id)
        jahr = year_of(begun, client, found)
        batch = Batch(
            self._id,
            jahr,
            is_closing=False,
            is_cash=False,
            is_undo=True,
        )
        self._poster = SlicedPoster(begun, client, batch, watch_others=False)
        self._opened.callback(self._poster.close)
        self._removal = Removal(begun, client, found)
        self._reverse()
        for block in self._removal.descriptions(begun, begun.claim.edition):
            changes = block.changes(begun.claim.edition, found.jahr)
            begun.write(lambda tx, changes=changes: read_models.write(tx, changes))  # type: ignore[misc]
        if self._removal.opened:
            self._uncarry()
        begun.in_slices(self._removal.konten, self._settle)
        self._poster.finish()

    def _reverse(self) -> None:
        begun, removal, length = self._slices, self._removal, slices.FIRST_KONTEN
        held = begun.claim.ceiling - begun.claim.before
        for _ in reverse(begun, self._client, self._found, self._poster, removal, held):
            if len(removal.openings) + len(removal.discounts) >= length:
                self._subtract_openings()
                length = begun.fitting(length, slices.MIN_KONTEN, slices.MAX_KONTEN)
            if removal.count >= slices.ROWS_GATHERED:
                self._subtract()
        self._subtract()

    def _subtract_openings(self) -> None:
        """Runs in one transaction, because whoever posts meanwhile decides about twins and discounts as well."""
        self._slices.write(lambda tx: self._removal.subtract_openings(tx, self._slices.claim.edition))
        self._removal.start_openings()

    def _subtract(self) -> None:
        self._subtract_openings()
        removal, edition = self._removal, self._slices.claim.edition
        removal.subtract_years(self._slices, edition)
        self._slices.in_rows("items", removal.items(), lambda tx, some: removal.subtract_items(tx, edition, some))
        self._removal.start()

    def _uncarry(self) -> None:
        """Tells others that post to the edition from here on that the year is not carried over in it, until one of them does."""
        begun, edition, jahr = self._slices, self._slices.claim.edition, self._found.jahr

        def decide(tx: Tx) -> None:
            if not self._removal.is_carried(tx, edition):
                tx.run("UPDATE books_preparing SET uncarried = ? WHERE mandant = ?", jahr, self._client.mandant)

        begun.write(decide)
        rests = begun.all("SELECT konto FROM books_carry_rests WHERE edition = ? AND jahr = ?", edition, jahr)
        begun.in_slices(
            {konto for (konto,) in rests} - self._removal.konten,
            lambda tx, some: read_models.settle_rests(tx, edition, self._carried_years(tx), some),
        )

    def _settle(self, tx: Tx, konten: set[str]) -> None:
        self._removal.settle(tx, self._slices.claim.edition, konten, self._carried_years(tx))

    def _carried_years(self, tx: Tx) -> list[str]:
        return claims.take_place(tx, self._client).carried_years(tx, self._slices.claim.edition)

    def commit(self, tx: Tx, author: str) -> BatchRow | None:
        """Makes the undo count. May be run again, like any unit: it changes nothing of the undo itself."""
        client, mandant = self._client, self._client.mandant
        lock_years(tx, client)
        found = batches.find(tx, client, self._found.id)
        assert found is not None
        refuse_if_not_possible(tx, client, found)
        uncarried = claims.take_place(tx, client).uncarried
        open_batch(tx, client, found, author, self._id)
        self._poster.appear(tx)
        if uncarried:
            uncarry(tx, client, uncarried)
        tx.run(
            "UPDATE books_clients SET undone_from = ?, undone_to = ? WHERE mandant = ?",
            found.first_booking, found.last_booking, mandant,
        )  # fmt: skip
        BATCHES.update(tx, found, undone_by=self._id)
        return describe(tx, client, self._poster)

    def tidy(self) -> None:
        claims.give_up(self._db, self._client.mandant, self._id)
        self._opened.close()
        claims.sweep_editions(self._db, self._client.mandant)


# --- Out of the read models of person accounts


ROWS_OF_KONTO, DOCUMENTS_AT_ONCE = 250, 5_000
# Later than any day, so that any booking that is left is earlier.
_NO_DAY = "99999"
_OF_SIDE = (
    "SELECT b.id, b.{0}, b.{1}, b.soll = {2}, b.periode, b.batch, b.belegdatum, b.belegfeld1, b.buchungstext, b.aufteilung,"
    " b.generalumkehr, b.weitere FROM books_sheets s JOIN books_bookings b ON b.mandant = s.mandant AND b.id = s.booking"
    " AND b.{0} = s.blatt WHERE s.mandant = ? AND s.jahr = ? AND s.blatt = ?"
    # With `booking > ?` SQLite would rather read all bookings between the two than those of the account.
    " AND (s.periode, s.belegdatum, s.booking) > (?, ?, ?) AND +s.booking > ? AND +s.booking <= ?"
    " ORDER BY s.periode, s.belegdatum, s.booking LIMIT ?"
)
FIRST_PLACE = (-1, "", 0)

NAMING = (_OF_SIDE.format("konto", "gegenkonto", 1), _OF_SIDE.format("gegenkonto", "konto", 0))


class _Left(NamedTuple):
    """A booking that is left, as one of its accounts sees it."""

    id: int
    konto: str
    other: str
    # 1 if the account is debited.
    soll: int
    periode: int
    batch: str
    belegdatum: str
    beleg: str
    text: str
    aufteilung: str
    generalumkehr: int
    weitere: str


class Removal:
    """`add` every booking of the batch and `subtract` them, some at a time; then describe what is left, and settle."""

    def __init__(self, tx: Statements, client: Client, batch: BatchRow) -> None:
        self._client, self._batch = client, batch
        self._without_effect = batches.without_effect(tx, client.mandant)
        # Person accounts that the batch touched, and those that it opened.
        self.konten: set[str] = set()
        self.opened: set[str] = set()
        self.start()

    def start(self) -> None:
        """Forgets the bookings that were added, because they are subtracted."""
        self.count = 0
        # By document: debit and credit.
        self._items: dict[tuple[str, str], list[int]] = {}
        # By account: opening balance and movements.
        self._years: dict[str, list[int]] = {}
        self.start_openings()

    def start_openings(self) -> None:
        self.openings: list[tuple[str, int]] = []
        self.discounts: list[tuple[str, str, int]] = []

    def add(self, booking: Original, legs: list[Leg]) -> None:
        self.count += 1
        beleg = booking.belegfeld1
        for konto, betrag in legs:
            if len(konto) != PERSONENKONTO_DIGITS:
                continue
            if is_discount(booking.aufteilung):
                self.discounts.append((konto, beleg, booking.id))
            year = self._years.get(konto)
            if year is None:
                year = self._years[konto] = [0, 0]
                self.konten.add(konto)
            if booking.periode == EB_PERIOD:
                year[0] += betrag
                self.opened.add(konto)
                self.openings.append((konto, booking.id))
                continue
            year[1] += betrag
            item = self._items.get((konto, beleg))
            if item is None:
                item = self._items[konto, beleg] = [0, 0]
            if betrag > 0:
                item[0] += betrag
            else:
                item[1] -= betrag

    # --- Amounts

    def subtract(self, tx: Statements, edition: int) -> None:
        """Takes out all that was added since the start."""
        self.subtract_openings(tx, edition)
        self.subtract_amounts(tx, edition)

    def subtract_openings(self, tx: Statements, edition: int) -> None:
        """Takes out the openings and the discounts that were added."""
        start, opened = self._batch.jahr, sorted({konto for konto, _ in self.openings})
        # Once these are gone, the pairs of openings are decided again.
        for jahr, konten in reset_twins(tx, edition, set(opened)).items():
            read_models.settle_balances(tx, edition, jahr, konten)
        # The reversals are split as the discounts were when they were posted.
        for jahr, konten in read_models.release_discounts(tx, self._client, edition, self.discounts).items():
            read_models.settle_balances(tx, edition, jahr, konten)
        tx.many(
            "DELETE FROM books_openings WHERE edition = ? AND konto = ? AND jahr = ? AND booking = ?",
            [(edition, konto, start, booking) for konto, booking in sorted(self.openings)],
        )
        tx.many(
            "UPDATE books_item_years SET eb_text = '' WHERE edition = ? AND konto = ? AND jahr = ?",
            [(edition, konto, start) for konto in opened],
        )

    def subtract_amounts(self, tx: Statements, edition: int) -> None:
        """Writes in the order of the keys, so that neighbours are changed together."""
        self.subtract_years(tx, edition)
        self.subtract_items(tx, edition, self.items())

    def items(self) -> list[tuple[tuple[str, str], list[int]]]:
        return sorted(self._items.items())

    def subtract_years(self, tx: Statements, edition: int) -> None:
        start = self._batch.jahr
        tx.many(
            "UPDATE books_item_years SET eb = eb - ?, bewegung = bewegung - ? WHERE edition = ? AND konto = ? AND jahr = ?",
            [(eb, moved, edition, konto, start) for konto, (eb, moved) in sorted(self._years.items())],
        )

    def subtract_items(self, tx: Statements, edition: int, items: Sequence[tuple[tuple[str, str], list[int]]]) -> None:
        """Takes amounts out of documents. In one transaction: after the first statement others may begin a document anew."""
        # Every movement has an amount: of a document that has nothing else on either side, nothing is left.
        tx.many(
            "DELETE FROM books_items WHERE edition = ? AND konto = ? AND beleg = ? AND soll = ? AND haben = ?",
            [(edition, *key, *amounts) for key, amounts in items],
        )
        tx.many(
            "UPDATE books_items SET soll = soll - ?, haben = haben - ?,"
            " is_open = CASE WHEN soll - ? = haben - ? THEN 0 ELSE 1 END, belegdatum = ?, buchungstext = '', rechnung = '', steuer = ''"
            " WHERE edition = ? AND konto = ? AND beleg = ?",
            [(soll, haben, soll, haben, _NO_DAY, edition, *key) for key, (soll, haben) in items],
        )

    # --- Bookings that are left

    def descriptions(self, tx: Statements, edition: int) -> Iterator[Block]:
        """Yields the dates, texts and taxes that the bookings left give the documents and openings; to be added once all is subtracted."""
        years = [year.start for year in store.years(tx, self._client)]
        for some, _ in chunked(sorted(self.konten)):
            block, konten = Block(), set(some)
            left = self._with_items(tx, edition, konten)
            for jahr in years:
                # Accounts without a document have only their openings left to describe.
                asked = left if jahr != self._batch.jahr else left | (konten & self.opened)
                for booking in self._standing(tx, asked, jahr):
                    self._describe(block, booking, jahr)
                    if len(block.items) >= DOCUMENTS_AT_ONCE:
                        yield _only_new(tx, edition, block)
                        block = Block()
            # Even if it is empty: writing it renews the claim.
            yield _only_new(tx, edition, block)

    def _with_items(self, tx: Statements, edition: int, konten: Iterable[str]) -> set[str]:
        asked = [(edition, konto) for konto in konten]
        found = tx.each("SELECT 1 FROM books_items WHERE edition = ? AND konto = ? LIMIT 1", asked)
        return {konto for (_, konto), rows in zip(asked, found, strict=True) if rows}

    def _describe(self, block: Block, booking: _Left, jahr: str) -> None:
        konto = booking.konto
        if booking.periode == EB_PERIOD:
            if jahr == self._batch.jahr and konto in self.opened:
                text = booking.text or EB_TEXT
                block.years[konto] = [0, min(block.years.get(konto, (0, text))[1], text), 0]
            return
        first, steuer = (booking.belegdatum, booking.text), tax_for_item(booking.aufteilung)
        rechnung = first_invoice(
            self._client.rahmen, konto, booking.other, soll=bool(booking.soll), belegdatum=booking.belegdatum,
            reversal=bool(booking.generalumkehr), weitere=booking.weitere,
        )  # fmt: skip
        item = block.items.setdefault((konto, booking.beleg), [0, 0, first, rechnung, steuer])
        item[2:] = min(item[2], first), earlier_invoice(item[3], rechnung), merge_taxes(item[4], steuer)

    def _standing(self, tx: Statements, konten: Iterable[str], jahr: str) -> Iterator[_Left]:
        """Yields the bookings of the year that name one of the accounts, without the batch and without those that have no effect."""
        mandant, batch = self._client.mandant, self._batch
        row = tx.one("SELECT last_buchung FROM books_clients WHERE mandant = ?", mandant)
        assert row is not None
        around = [
            (before, last)
            for before, last in ((0, batch.first_booking - 1), (batch.last_booking, row[0]))
            if before < last
        ]
        for naming in NAMING:
            asked = [(mandant, jahr, konto, *FIRST_PLACE, *span, ROWS_OF_KONTO) for konto in konten for span in around]
            while asked:
                found = tx.each(naming, asked)
                for booking in (_Left._make(row) for rows in found for row in rows):
                    if booking.batch not in self._without_effect:
                        yield booking
                asked = [
                    (*given[:3], rows[-1][4], rows[-1][6], rows[-1][0], *given[6:])
                    for given, rows in zip(asked, found, strict=True)
                    if len(rows) == ROWS_OF_KONTO
                ]

    def is_carried(self, tx: Statements, edition: int) -> bool:
        """Returns whether the year is carried over without the batch; to be asked once everything is described."""
        found = tx.one(
            "SELECT 1 FROM books_item_years WHERE edition = ? AND jahr = ? AND eb_text <> '' LIMIT 1",
            edition, self._batch.jahr,
        )  # fmt: skip
        return found is not None

    # --- Consequences

    def settle(self, tx: Statements, edition: int, konten: set[str], carried: list[str]) -> None:
        """Updates everything that follows for some of the accounts."""
        self._remove_years(tx, edition, konten)
        read_models.settle(tx, self._client, edition, self._batch.jahr, konten, set(), carried)

    def _remove_years(self, tx: Statements, edition: int, konten: set[str]) -> None:
        """Removes the year from accounts that no longer have an opening or a movement in it."""
        jahr = self._batch.jahr
        asked = [(edition, konto, jahr) for konto in konten]
        found = tx.each(
            "SELECT konto FROM books_item_years WHERE edition = ? AND konto = ? AND jahr = ? AND eb_text = '' AND bewegung = 0",
            asked,
        )
        empty = {konto for rows in found for (konto,) in rows}
        empty.difference_update([
            booking.konto for booking in self._standing(tx, empty, jahr) if booking.periode != EB_PERIOD
        ])  # fmt: skip
        tx.many(
            "DELETE FROM books_item_years WHERE edition = ? AND konto = ? AND jahr = ?",
            [(edition, konto, jahr) for konto in empty],
        )


def _only_new(tx: Statements, edition: int, block: Block) -> Block:
    """Returns the block without items that would change nothing."""
    asked = [(edition, *key) for key in block.items]
    stored = tx.each(
        "SELECT belegdatum, buchungstext, rechnung, steuer FROM books_items WHERE edition = ? AND konto = ? AND beleg = ?",
        asked,
    )
    block.items = {
        key: item for (key, item), rows in zip(block.items.items(), stored, strict=True) if _is_new(item, rows[0])
    }
    return block


def _is_new(item: list[Any], stored: tuple[str, str, str, str]) -> bool:
    first, rechnung, steuer = item[2:]
    return (
        first < stored[:2]
        or earlier_invoice(stored[2], rechnung) != stored[2]
        or merge_taxes(stored[3], steuer) != stored[3]
    )
