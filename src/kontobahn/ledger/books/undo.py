"""Undoes a batch by Generalumkehr: every booking again on the other side, so that turnover goes back where it was.

Nothing is deleted from the books. The open items and carry-overs, which are read models, become those of books in which the batch
never was: a document keeps no date or text of it, and a year that it alone had carried over is not carried any more (removing.py).
This is one transaction; a large batch is undone in slices (sliced_undo.py).
"""

from __future__ import annotations

from collections.abc import Iterator

from kontobahn.db import Tx
from kontobahn.errors import Conflict
from kontobahn.ledger.books import batches, cash_days, models, posting, preparing
from kontobahn.ledger.books.batches import BATCHES, CASH, FILE, RETAX, UNDO, BatchRow
from kontobahn.ledger.books.posting import Batch, Poster, Satz
from kontobahn.ledger.books.protocol import Protocol
from kontobahn.ledger.books.removing import Removal
from kontobahn.ledger.books.splitting import first_rule, reversal_of
from kontobahn.ledger.books.store import Client, FiscalYear, edition_of, lock_years, years

PAGE = 20_000
_BOOKINGS = f"{FILE} 21"
_SATZ = ", ".join(Satz._fields)


def undo_batch(tx: Tx, client: Client, batch_id: str, author: str, undo_id: str = "") -> BatchRow | None:
    """Undoes the batch and returns the batch that does it; None if the client has no such batch."""
    lock_years(tx, client)
    preparing.refuse(tx, client)
    found = batches.find(tx, client, batch_id)
    if found is None:
        return None
    refuse_if_not_possible(tx, client, found)
    batch = open_batch(tx, client, found, author, undo_id)
    poster, removal = Poster(tx, client, batch), Removal(tx, client, found)
    for _ in reverse(tx, client, found, poster, removal):
        pass
    BATCHES.update(tx, found, undone_by=batch.id)
    poster.finish()
    _remove(tx, client, found, removal)
    preparing.remove_moves_between(tx, client.mandant, found.first_booking, found.last_booking)
    tx.run("DELETE FROM books_partial_rows WHERE mandant = ? AND batch = ?", client.mandant, found.id)
    return describe(tx, client, poster)


def refuse_if_not_possible(tx: Tx, client: Client, row: BatchRow) -> None:
    if row.undone_by:
        by = batches.find(tx, client, row.undone_by)
        raise Conflict(f"The batch was undone before{', ' + batches.described(by) if by else ''}.")
    if row.undoes:
        raise Conflict("The batch undoes another one. To have that one back, import its file again.")
    if row.kind == CASH:
        raise Conflict(
            "The batch is of a cash book: reverse its entry instead, so that the chain of entries stays whole."
        )
    if row.kind.startswith(FILE) and row.kind != _BOOKINGS:
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
            f"Bookings of the batch were reversed and booked again by batch {corrected[0]}, to correct their tax: it cannot be"
            " undone as a whole."
        )


def year_of(tx: Tx, client: Client, found: BatchRow) -> FiscalYear:
    return next(year for year in years(tx, client) if year.start == found.jahr)


def open_batch(tx: Tx, client: Client, found: BatchRow, author: str, undo_id: str) -> Batch:
    """Opens the batch that undoes this one."""
    return posting.open_batch(
        tx, client, year_of(tx, client, found), kind=UNDO, source=found.source, author=author, bezeichnung=found.bezeichnung,
        undoes=found.id, batch_id=undo_id,
    )  # fmt: skip


def reverse(tx: Tx, client: Client, found: BatchRow, poster: Poster, removal: Removal) -> Iterator[None]:
    """Books every booking of the batch again, reversed, and adds it to what is removed; yields after each."""
    after = found.first_booking - 1
    while rows := tx.all(
        f"SELECT id, periode, aufteilung, {_SATZ} FROM books_bookings WHERE mandant = ? AND id > ? AND id <= ? ORDER BY id LIMIT ?",
        client.mandant, after, found.last_booking, PAGE,
    ):  # fmt: skip
        for booking, periode, stored, *values in rows:
            satz = Satz._make(values)
            aufteilung = stored or first_rule(client.rahmen, satz)
            poster.add(reversal_of(satz), aufteilung=aufteilung, periode=periode)
            removal.add(booking, periode, satz, aufteilung)
            yield
        after = rows[-1][0]


def _remove(tx: Tx, client: Client, found: BatchRow, removal: Removal) -> None:
    edition = edition_of(tx, client)
    removal.subtract(tx, edition)
    for block in removal.descriptions(tx, edition):
        block.add_to(tx, edition, found.jahr)
    if removal.opened and not removal.is_carried(tx, edition):
        uncarry(tx, client, found.jahr)
        tx.run("DELETE FROM books_carry_rests WHERE edition = ? AND jahr = ?", edition, found.jahr)
    removal.settle(tx, edition, removal.konten, models.carried_years(tx, client.mandant))


def uncarry(tx: Tx, client: Client, jahr: str) -> None:
    tx.run("UPDATE books_years SET has_eb = 0 WHERE mandant = ? AND jahr = ?", client.mandant, jahr)


def describe(tx: Tx, client: Client, poster: Poster) -> BatchRow | None:
    """Warns of cash books that are negative now, and returns the batch that has undone the other."""
    protocol = Protocol(map(cash_days.warning, cash_days.negative(tx, client, poster.moved_cash_books)))
    batches.describe(tx, client, poster.batch.id, 0, protocol)
    return batches.find(tx, client, poster.batch.id)
