"""Takes a batch out of the read models of person accounts, as if it had never been: in one transaction, or in slices of an edition
that nobody reads yet.

Amounts are subtracted booking by booking. What does not follow from amounts (the date, text and tax of a document, the text of an
opening) is forgotten with them and put together again from the bookings that are left, as posting does it: in any order with the same
result, so that others may post meanwhile.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from kontobahn.db import Tx
from kontobahn.ledger.books import answers, batches, models, store
from kontobahn.ledger.books.answers import EB_PERIOD
from kontobahn.ledger.books.batches import BatchRow
from kontobahn.ledger.books.models import Block
from kontobahn.ledger.books.openings import reset_twins
from kontobahn.ledger.books.posting import EB_TEXT, Satz
from kontobahn.ledger.books.splitting import legs_of, merge_taxes, tax_for_item
from kontobahn.ledger.books.store import Client
from kontobahn.ledger.konto import is_personenkonto

ROWS_OF_KONTO, DOCUMENTS_AT_ONCE = 250, 5_000
# Later than any day, so that any booking that is left is earlier.
_NO_DAY = "99999"
_NAMING = (
    "SELECT id, {0}, periode, batch, belegdatum, belegfeld1, buchungstext, aufteilung FROM books_bookings"
    # With `id <= ?` SQLite would rather read all bookings between the two than those of the account.
    " WHERE mandant = ? AND jahr = ? AND {0} = ? AND id > ? AND +id <= ? ORDER BY id LIMIT ?"
)


class _Left(NamedTuple):
    """A booking that is left, as one of its accounts sees it."""

    id: int
    konto: str
    periode: int
    batch: str
    belegdatum: str
    beleg: str
    text: str
    aufteilung: str


class Removal:
    """`add` every booking of the batch and `subtract` them, some at a time; then describe what is left, and settle."""

    def __init__(self, tx: Tx, client: Client, batch: BatchRow) -> None:
        self._client, self._batch = client, batch
        self._without_effect = batches.without_effect(tx, client.mandant)
        # Person accounts that the batch touched, and those that it opened.
        self.konten: set[str] = set()
        self.opened: set[str] = set()
        self.start()

    def start(self) -> None:
        """Forgets what was added, because it is subtracted."""
        self.count = 0
        # By document: debit and credit.
        self._items: dict[tuple[str, str], list[int]] = {}
        # By account: opening balance and movements.
        self._years: dict[str, list[int]] = {}
        self.start_openings()

    def start_openings(self) -> None:
        self.openings: list[tuple[str, int]] = []

    def add(self, booking: int, periode: int, satz: Satz, aufteilung: str) -> None:
        self.count += 1
        for konto, betrag in legs_of(self._client.rahmen, satz, aufteilung):
            if not is_personenkonto(konto):
                continue
            self.konten.add(konto)
            year = self._years.setdefault(konto, [0, 0])
            if periode == EB_PERIOD:
                year[0] += betrag
                self.opened.add(konto)
                self.openings.append((konto, booking))
                continue
            year[1] += betrag
            item = self._items.setdefault((konto, satz.belegfeld1), [0, 0])
            item[0 if betrag > 0 else 1] += abs(betrag)

    # --- Amounts

    def subtract(self, tx: Tx, edition: int) -> None:
        """Takes out what was added since the start."""
        self.subtract_openings(tx, edition)
        self.subtract_amounts(tx, edition)

    def subtract_openings(self, tx: Tx, edition: int) -> None:
        start, opened = self._batch.jahr, sorted({konto for konto, _ in self.openings})
        # Which opening is the twin of which is decided again when these are gone.
        for jahr, konten in reset_twins(tx, edition, set(opened)).items():
            answers.settle_balances(tx, edition, jahr, konten)
        tx.many(
            "DELETE FROM books_openings WHERE edition = ? AND konto = ? AND jahr = ? AND booking = ?",
            [(edition, konto, start, booking) for konto, booking in sorted(self.openings)],
        )
        tx.many(
            "UPDATE books_item_years SET eb_text = '' WHERE edition = ? AND konto = ? AND jahr = ?",
            [(edition, konto, start) for konto in opened],
        )

    def subtract_amounts(self, tx: Tx, edition: int) -> None:
        """In the order of the keys, so that neighbours are changed together."""
        start, items = self._batch.jahr, sorted(self._items.items())
        tx.many(
            "UPDATE books_item_years SET eb = eb - ?, bewegung = bewegung - ? WHERE edition = ? AND konto = ? AND jahr = ?",
            [(eb, moved, edition, konto, start) for konto, (eb, moved) in sorted(self._years.items())],
        )
        tx.many(
            "UPDATE books_items SET soll = soll - ?, haben = haben - ?,"
            " is_open = CASE WHEN soll - ? = haben - ? THEN 0 ELSE 1 END, belegdatum = ?, buchungstext = '', steuer = ''"
            " WHERE edition = ? AND konto = ? AND beleg = ?",
            [(soll, haben, soll, haben, _NO_DAY, edition, *key) for key, (soll, haben) in items],
        )
        # Every movement has an amount: a document with nothing on either side has none left.
        tx.many(
            "DELETE FROM books_items WHERE edition = ? AND konto = ? AND beleg = ? AND soll = 0 AND haben = 0",
            [(edition, *key) for key, _ in items],
        )

    # --- What is left

    def descriptions(self, tx: Tx, edition: int) -> Iterator[Block]:
        """Yields what the bookings that are left say about the documents and openings of the accounts; to be added once all is
        subtracted."""
        years = [year.start for year in store.years(tx, self._client)]
        for some, _ in answers.each_portion(self.konten):
            block, konten = Block(), set(some)
            left = self._with_items(tx, edition, konten)
            for jahr in years:
                # Of accounts without a document, only their openings have something to say.
                asked = left if jahr != self._batch.jahr else left | (konten & self.opened)
                for booking in self._standing(tx, asked, jahr):
                    self._describe(block, booking, jahr)
                    if len(block.items) >= DOCUMENTS_AT_ONCE:
                        yield _news(tx, edition, block)
                        block = Block()
            # Even if it says nothing: whoever writes it shows that it is still at work.
            yield _news(tx, edition, block)

    def _with_items(self, tx: Tx, edition: int, konten: Iterable[str]) -> set[str]:
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
        item = block.items.setdefault((konto, booking.beleg), [0, 0, first, steuer])
        item[2:] = min(item[2], first), merge_taxes(item[3], steuer)

    def _standing(self, tx: Tx, konten: Iterable[str], jahr: str) -> Iterator[_Left]:
        """Yields the bookings of the year that name one of the accounts, without the batch and without those that have no effect."""
        mandant, batch = self._client.mandant, self._batch
        row = tx.one("SELECT last_buchung FROM books_clients WHERE mandant = ?", mandant)
        assert row is not None
        around = ((0, batch.first_booking - 1), (batch.last_booking, row[0]))
        for column in ("konto", "gegenkonto"):
            asked = [(mandant, jahr, konto, *span, ROWS_OF_KONTO) for konto in konten for span in around]
            while asked:
                found = tx.each(_NAMING.format(column), asked)
                for booking in (_Left._make(row) for rows in found for row in rows):
                    if booking.batch not in self._without_effect:
                        yield booking
                asked = [
                    (*given[:3], rows[-1][0], *given[4:])
                    for given, rows in zip(asked, found, strict=True)
                    if len(rows) == ROWS_OF_KONTO
                ]

    def is_carried(self, tx: Tx, edition: int) -> bool:
        """Whether the year is carried over without the batch; known when all is described."""
        found = tx.one(
            "SELECT 1 FROM books_item_years WHERE edition = ? AND jahr = ? AND eb_text <> '' LIMIT 1",
            edition, self._batch.jahr,
        )  # fmt: skip
        return found is not None

    # --- What follows

    def settle(self, tx: Tx, edition: int, konten: set[str], carried: list[str]) -> None:
        """Brings up to date what follows for some of the accounts."""
        self._remove_years(tx, edition, konten)
        models.settle(tx, edition, self._batch.jahr, konten, set(), carried)

    def _remove_years(self, tx: Tx, edition: int, konten: set[str]) -> None:
        """Removes the year from accounts that have neither an opening nor a movement in it any more."""
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


def _news(tx: Tx, edition: int, block: Block) -> Block:
    """Returns the block without what the documents say already."""
    asked = [(edition, *key) for key in block.items]
    stored = tx.each(
        "SELECT belegdatum, buchungstext, steuer FROM books_items WHERE edition = ? AND konto = ? AND beleg = ?", asked
    )
    block.items = {
        key: item for (key, item), rows in zip(block.items.items(), stored, strict=True) if _is_new(item, rows[0])
    }
    return block


def _is_new(item: list[Any], stored: tuple[str, str, str]) -> bool:
    first, steuer = item[2:]
    return first < stored[:2] or merge_taxes(stored[2], steuer) != stored[2]
