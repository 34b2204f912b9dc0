"""One undoing of a batch, small or large: `prepare` writes what takes long, `commit` makes all of it count.

A small batch is undone in one transaction (undo.py). A large one in slices that nobody sees: its reversals are posted as a large file
is (slices.py), and it is taken out of the edition that appears with them. Its movements have no edition: from the last transaction
on they do not count (books_clients.undone_from and undone_to), and are deleted in slices after it.
"""

from __future__ import annotations

from collections.abc import Callable

from kontobahn.db import Database, Tx
from kontobahn.ledger.books import batches, models, preparing, slices, undo
from kontobahn.ledger.books.batches import BATCHES, BatchRow
from kontobahn.ledger.books.posting import Batch
from kontobahn.ledger.books.removing import Removal
from kontobahn.ledger.books.slices import SlicedPoster, Slices
from kontobahn.ledger.books.store import Client, lock_years

# About a third of a second in one transaction.
SLICED_FROM_ROWS = 3_000
FindClient = Callable[[Tx], Client | None]


class Undoing:
    """`find` returns whose batch it is, if anybody's, and refuses what may not be."""

    def __init__(self, db: Database, find: FindClient, batch_id: str, author: str) -> None:
        self._db, self._find, self._batch_id, self._author = db, find, batch_id, author
        self._sliced: _Sliced | None = None

    def is_large(self, tx: Tx) -> bool:
        """Raises what an undoing is refused with."""
        return self._large(tx) is not None

    def _large(self, tx: Tx) -> tuple[Client, BatchRow] | None:
        client = self._find(tx)
        found = None if client is None else batches.find(tx, client, self._batch_id)
        if client is None or found is None:
            return None
        undo.refuse_if_not_possible(tx, client, found)
        return (client, found) if found.records >= SLICED_FROM_ROWS else None

    def prepare(self, undo_id: str) -> None:
        """Off the event loop and outside any transaction, for as long as it takes. Raises what an undoing is refused with."""
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
            return undo.undo_batch(tx, client, self._batch_id, self._author, undo_id)
        return self._sliced.commit(tx, self._author)

    def tidy(self, undo_id: str) -> None:
        """After the commit, or when there will be none."""
        if self._sliced is not None:
            self._sliced.tidy()


class _Sliced:
    def __init__(self, db: Database, client: Client, found: BatchRow, undo_id: str) -> None:
        self._db, self._client, self._found, self._id = db, client, found, undo_id
        self._slices: Slices
        self._poster: SlicedPoster
        self._removal: Removal

    def prepare(self) -> None:
        client, found = self._client, self._found
        self._slices = begun = slices.begin(self._db, client, self._id, found.source, undoes=found.id)
        jahr = undo.year_of(begun, client, found)
        batch = Batch(self._id, jahr, is_closing=False, is_cash=False, is_undo=True)
        self._poster = SlicedPoster(begun, client, batch, watch_others=False)
        self._removal = Removal(begun, client, found)
        self._reverse()
        for block in self._removal.descriptions(begun, begun.claim.edition):
            begun.write(lambda tx, block=block: block.add_to(tx, begun.claim.edition, found.jahr))  # type: ignore[misc]
        if self._removal.opened:
            self._uncarry()
        begun.in_portions(self._removal.konten, self._settle)
        self._poster.finish()

    def _reverse(self) -> None:
        begun, removal, length = self._slices, self._removal, slices.FIRST_KONTEN
        for _ in undo.reverse(begun, self._client, self._found, self._poster, removal):
            if len(removal.openings) >= length:
                self._subtract_openings()
                length = begun.fitting(length, slices.LEAST_KONTEN, slices.MOST_KONTEN)
            if removal.count >= slices.ROWS_GATHERED:
                self._subtract()
        self._subtract()

    def _subtract_openings(self) -> None:
        """In one transaction: whoever posts meanwhile decides about twins as well."""
        self._slices.write(lambda tx: self._removal.subtract_openings(tx, self._slices.claim.edition))
        self._removal.start_openings()

    def _subtract(self) -> None:
        self._subtract_openings()
        self._removal.subtract_amounts(self._slices, self._slices.claim.edition)
        self._removal.start()

    def _uncarry(self) -> None:
        """Others that post to the edition from here on know that the year is not carried over in it, until one of them does."""
        begun, edition, jahr = self._slices, self._slices.claim.edition, self._found.jahr

        def decide(tx: Tx) -> None:
            if not self._removal.is_carried(tx, edition):
                tx.run("UPDATE books_preparing SET uncarried = ? WHERE mandant = ?", jahr, self._client.mandant)

        begun.write(decide)
        rests = begun.all("SELECT konto FROM books_carry_rests WHERE edition = ? AND jahr = ?", edition, jahr)
        begun.in_portions(
            {konto for (konto,) in rests} - self._removal.konten,
            lambda tx, some: models.settle_rests(tx, edition, self._carried_years(tx), some),
        )

    def _settle(self, tx: Tx, konten: set[str]) -> None:
        self._removal.settle(tx, self._slices.claim.edition, konten, self._carried_years(tx))

    def _carried_years(self, tx: Tx) -> list[str]:
        return preparing.take_place(tx, self._client).carried_years(tx, self._slices.claim.edition)

    def commit(self, tx: Tx, author: str) -> BatchRow | None:
        """May be run again, like any unit: it changes nothing of the undoing itself."""
        client, mandant = self._client, self._client.mandant
        lock_years(tx, client)
        found = batches.find(tx, client, self._found.id)
        assert found is not None
        undo.refuse_if_not_possible(tx, client, found)
        uncarried = preparing.take_place(tx, client).uncarried
        undo.open_batch(tx, client, found, author, self._id)
        self._poster.appear(tx)
        if uncarried:
            undo.uncarry(tx, client, uncarried)
        tx.run(
            "UPDATE books_clients SET undone_from = ?, undone_to = ? WHERE mandant = ?",
            found.first_booking, found.last_booking, mandant,
        )  # fmt: skip
        BATCHES.update(tx, found, undone_by=self._id)
        return undo.describe(tx, client, self._poster)

    def tidy(self) -> None:
        preparing.give_up(self._db, self._client.mandant, self._id)
        preparing.sweep_editions(self._db, self._client.mandant)
