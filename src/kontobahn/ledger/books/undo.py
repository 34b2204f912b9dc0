"""Undoes a batch by Generalumkehr: every booking again on the other side, so that turnover goes back where it was.

Nothing is deleted from the books. The open items and carry-overs, which are read models, become those of books in which the batch
never was: a document keeps no date or text of it, and a year that it alone had carried over is not carried any more.
"""

from __future__ import annotations

from kontobahn.db import Tx
from kontobahn.errors import Conflict
from kontobahn.ledger.books import answers, batches, cash_days, models, posting, preparing
from kontobahn.ledger.books.answers import EB_PERIOD
from kontobahn.ledger.books.batches import BATCHES, CASH, FILE, RETAX, UNDO, BatchRow
from kontobahn.ledger.books.openings import reset_twins, settle_twins
from kontobahn.ledger.books.posting import EB_TEXT, Poster, Satz
from kontobahn.ledger.books.protocol import Protocol
from kontobahn.ledger.books.splitting import first_rule, legs_of, merge_taxes, reversal_of, tax_for_item
from kontobahn.ledger.books.store import Client, FiscalYear, edition_of, lock_years, years
from kontobahn.ledger.konto import is_personenkonto

PAGE = 20_000
_BOOKINGS = f"{FILE} 21"
_SATZ = ", ".join(Satz._fields)


def undo_batch(tx: Tx, client: Client, batch_id: str, author: str) -> BatchRow | None:
    """Undoes the batch and returns the batch that does it; None if the client has no such batch."""
    lock_years(tx, client)
    preparing.refuse(tx, client)
    found = batches.find(tx, client, batch_id)
    if found is None:
        return None
    _refuse_if_not_possible(tx, client, found)
    jahr = next(year for year in years(tx, client) if year.start == found.jahr)
    batch = posting.open_batch(
        tx, client, jahr, kind=UNDO, source=found.source, author=author, bezeichnung=found.bezeichnung, undoes=found.id
    )
    poster = Poster(tx, client, batch)
    effect = _Effect(tx, client, jahr)
    after = found.first_booking - 1
    while rows := tx.all(
        f"SELECT id, periode, aufteilung, {_SATZ} FROM books_bookings WHERE mandant = ? AND id > ? AND id <= ? AND batch = ?"
        " ORDER BY id LIMIT ?",
        client.mandant, after, found.last_booking, found.id, PAGE,
    ):  # fmt: skip
        for booking, periode, stored, *values in rows:
            satz = Satz._make(values)
            aufteilung = stored or first_rule(client.rahmen, satz)
            poster.add(reversal_of(satz), aufteilung=aufteilung, periode=periode)
            effect.add(booking, periode, satz, aufteilung)
        after = rows[-1][0]
    BATCHES.update(tx, found, undone_by=batch.id)
    poster.finish()
    effect.remove()
    protocol = Protocol(map(cash_days.warning, cash_days.negative(tx, client, poster.moved_cash_books)))
    batches.describe(tx, client, batch.id, 0, protocol)
    tx.run("DELETE FROM books_partial_rows WHERE mandant = ? AND batch = ?", client.mandant, found.id)
    return batches.find(tx, client, batch.id)


def _refuse_if_not_possible(tx: Tx, client: Client, row: BatchRow) -> None:
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


class _Effect:
    """What a batch put into the read models of person accounts."""

    def __init__(self, tx: Tx, client: Client, jahr: FiscalYear) -> None:
        self._tx, self._client, self._mandant, self._jahr = tx, client, client.mandant, jahr
        self._edition = edition_of(tx, client)
        # By document: debit and credit.
        self._items: dict[tuple[str, str], list[int]] = {}
        # By account: opening balance and movements.
        self._years: dict[str, list[int]] = {}
        self._moves: list[tuple[int, str, int, str]] = []
        self._openings: list[tuple[int, str, str, int]] = []

    def add(self, booking: int, periode: int, satz: Satz, aufteilung: str) -> None:
        for konto, betrag in legs_of(self._client.rahmen, satz, aufteilung):
            if not is_personenkonto(konto):
                continue
            year = self._years.setdefault(konto, [0, 0])
            if periode == EB_PERIOD:
                year[0] += betrag
                self._openings.append((self._edition, konto, self._jahr.start, booking))
                continue
            year[1] += betrag
            self._moves.append((self._mandant, satz.belegdatum, booking, konto))
            item = self._items.setdefault((konto, satz.belegfeld1), [0, 0])
            item[0 if betrag > 0 else 1] += abs(betrag)

    def remove(self) -> None:
        tx, edition, start, konten = self._tx, self._edition, self._jahr.start, set(self._years)
        # Which opening is the twin of which is decided again when these are gone.
        changed = reset_twins(tx, edition, konten)
        tx.many(
            "DELETE FROM books_item_moves WHERE mandant = ? AND belegdatum = ? AND booking = ? AND konto = ?",
            self._moves,
        )
        tx.many(
            "DELETE FROM books_openings WHERE edition = ? AND konto = ? AND jahr = ? AND booking = ?", self._openings
        )
        tx.many(
            "UPDATE books_item_years SET eb = eb - ?, bewegung = bewegung - ? WHERE edition = ? AND konto = ? AND jahr = ?",
            [(eb, moved, edition, konto, start) for konto, (eb, moved) in self._years.items()],
        )
        self._remove_items()
        is_carried = self._remove_openings()
        self._remove_years()
        for jahr, more in settle_twins(tx, edition, konten).items():
            changed.setdefault(jahr, set()).update(more)
        if self._jahr.has_eb and not is_carried:
            tx.run("UPDATE books_years SET has_eb = 0 WHERE mandant = ? AND jahr = ?", self._mandant, start)
            models.settle_rests(tx, edition, models.carried_years(tx, self._mandant), None)
        else:
            models.settle_rests(tx, edition, models.carried_years(tx, self._mandant), konten)
        answers.settle_open_accounts(tx, edition, konten)
        for jahr, more in changed.items():
            answers.settle_balances(tx, edition, jahr, more)

    def _remove_items(self) -> None:
        tx, edition = self._tx, self._edition
        tx.many(
            "UPDATE books_items SET soll = soll - ?, haben = haben - ?,"
            " is_open = CASE WHEN soll - ? = haben - ? THEN 0 ELSE 1 END WHERE edition = ? AND konto = ? AND beleg = ?",
            [(soll, haben, soll, haben, edition, *key) for key, (soll, haben) in self._items.items()],
        )
        # Every movement has an amount: a document with nothing on either side has none left.
        tx.many(
            "DELETE FROM books_items WHERE edition = ? AND konto = ? AND beleg = ? AND soll = 0 AND haben = 0",
            [(edition, *key) for key in self._items],
        )
        days = {}
        for key in self._items:
            row = tx.one(
                "SELECT belegdatum FROM books_items WHERE edition = ? AND konto = ? AND beleg = ?", edition, *key
            )
            if row is not None:
                days[key] = row[0]
        if days:
            self._describe(set(days), min(days.values()))

    def _describe(self, documents: set[tuple[str, str]], since: str) -> None:
        """Gives documents the date and text of the earliest movement that is left to them, and the tax of those left."""
        left: dict[tuple[str, str], tuple[tuple[str, str], str]] = {}
        for some, is_one in answers.each_portion({konto for konto, _ in documents}):
            for konto, beleg, datum, text, aufteilung in self._tx.all(
                "SELECT m.konto, m.beleg, m.belegdatum, b.buchungstext, b.aufteilung FROM books_item_moves m"
                " JOIN books_bookings b ON b.mandant = m.mandant AND b.id = m.booking"
                f" WHERE m.mandant = ? AND m.belegdatum >= ? AND m.konto {is_one}",
                self._mandant, since, *some,
            ):  # fmt: skip
                if (konto, beleg) in documents:
                    first, steuer = left.get((konto, beleg), ((datum, text), ""))
                    left[konto, beleg] = min(first, (datum, text)), merge_taxes(steuer, tax_for_item(aufteilung))
        self._tx.many(
            "UPDATE books_items SET belegdatum = ?, buchungstext = ?, steuer = ? WHERE edition = ? AND konto = ? AND beleg = ?",
            [(*first, steuer, self._edition, *key) for key, (first, steuer) in left.items()],
        )

    def _remove_openings(self) -> bool:
        """Gives accounts the text of the openings that are left. Returns whether the year is still carried over."""
        if not self._openings:
            return bool(self._jahr.has_eb)
        start, left = self._jahr.start, dict[str, str]()
        without_effect = batches.without_effect(self._tx, self._mandant)
        for batch, konto, gegenkonto, text in self._tx.all(
            "SELECT batch, konto, gegenkonto, buchungstext FROM books_bookings"
            " WHERE mandant = ? AND belegdatum = ? AND jahr = ? AND periode = ?",
            self._mandant, start, start, EB_PERIOD,
        ):  # fmt: skip
            if batch not in without_effect:
                for person in filter(is_personenkonto, (konto, gegenkonto)):
                    left[person] = min(left.get(person) or text or EB_TEXT, text or EB_TEXT)
        opened = {konto for _, konto, _, _ in self._openings}
        self._tx.many(
            "UPDATE books_item_years SET eb_text = ? WHERE edition = ? AND konto = ? AND jahr = ?",
            [(left.get(konto, ""), self._edition, konto, start) for konto in opened],
        )
        return bool(left)

    def _remove_years(self) -> None:
        """Removes the year from accounts that have neither an opening nor a movement in it any more."""
        moved: set[str] = set()
        for some, is_one in answers.each_portion(self._years):
            found = self._tx.all(
                f"SELECT DISTINCT konto FROM books_item_moves WHERE mandant = ? AND belegdatum BETWEEN ? AND ? AND konto {is_one}",
                self._mandant, self._jahr.start, self._jahr.end, *some,
            )  # fmt: skip
            moved.update(konto for (konto,) in found)
        self._tx.many(
            "DELETE FROM books_item_years WHERE edition = ? AND konto = ? AND jahr = ? AND eb_text = ''",
            [(self._edition, konto, self._jahr.start) for konto in self._years if konto not in moved],
        )
