"""Tax corrections: bookings that today's rule would split differently, reversed by Generalumkehr and booked again.

A booking is never changed. One that was corrected, and its reversal, are not considered again.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from datetime import date
from typing import NamedTuple

from kontobahn.books import batches, claims, posting, read_models
from kontobahn.books.batches import Batch
from kontobahn.books.read_models import present_split
from kontobahn.books.satz import CLOSING_PERIOD, EB_PERIOD, Satz, Splitter, legs_of, reversal_of
from kontobahn.books.store import LAST_BOOKING, Client, FiscalYear, edition_of, lock_years, year_of_start
from kontobahn.db import Tx
from kontobahn.ledger.kontierung import full, is_discount
from kontobahn.ledger.konto import is_personenkonto
from kontobahn.ledger.steuer import TAX_ACCOUNTS, without_reversal

_PAGE = 20_000
_SATZ = ", ".join(f"b.{name}" for name in Satz._fields)


class Change(NamedTuple):
    """Bookings of one key, or of one account without a key, that were split one way and would be split another way now."""

    schluessel: str
    konto: str
    before: str
    after: str


class Difference(NamedTuple):
    change: Change
    bookings: int
    # Additional output tax owed and additional input tax claimed, in cents.
    umsatzsteuer: int
    vorsteuer: int


class _Found(NamedTuple):
    booking: int
    periode: int
    is_cash: bool
    satz: Satz
    # The split it was posted with; that which holds now, if it is a discount whose invoice came later; and that of today's rule.
    posted: str
    before: str
    after: str


def differences(tx: Tx, client: Client, jahr: date) -> list[Difference]:
    """Returns the bookings of a fiscal year that today's rule would split differently, summed up."""
    return _summed(client, _changed(tx, client, year_of_start(tx, client, jahr)))


def apply(tx: Tx, client: Client, jahr: date) -> list[Difference]:
    """Corrects them, and returns the same sums."""
    lock_years(tx, client)
    year = year_of_start(tx, client, jahr)
    # Nothing else is posted to the client's books until the commit, so no booking is missed.
    claims.refuse(tx, client)
    found = list(_changed(tx, client, year))
    by_batch: dict[tuple[bool, bool], list[_Found]] = defaultdict(list)
    for item in found:
        by_batch[item.periode == CLOSING_PERIOD, item.is_cash].append(item)
    for (is_closing, is_cash), items in by_batch.items():
        _correct(tx, client, _batch(tx, client, year, is_closing=is_closing, is_cash=is_cash), items)
    return _summed(client, found)


def _batch(tx: Tx, client: Client, year: FiscalYear, *, is_closing: bool, is_cash: bool) -> Batch:
    batch = batches.open_batch(
        tx, client, year, kind=batches.RETAX, source="books retax", author="command line", is_closing=is_closing
    )
    # The same bookings as before must count as opening balances.
    return batch._replace(is_cash=is_cash)


def _correct(tx: Tx, client: Client, batch: Batch, items: list[_Found]) -> None:
    discounts = [
        (
            item.satz.konto if is_personenkonto(item.satz.konto) else item.satz.gegenkonto,
            item.satz.belegfeld1,
            item.booking,
        )
        for item in items
        if is_discount(item.posted)
    ]
    for jahr, konten in read_models.release_discounts(tx, client, edition_of(tx, client), discounts).items():
        read_models.settle_balances(tx, edition_of(tx, client), jahr, konten)
    poster = posting.begin(tx, client, batch)
    settled: list[tuple[int, int, str]] = []
    for item in items:
        reversal = poster.add(reversal_of(item.satz), aufteilung=item.posted)
        poster.add(item.satz, aufteilung=item.after, takes_back=False)
        settled += [(client.mandant, booking, batch.id) for booking in (item.booking, reversal)]
    poster.finish()
    tx.many("INSERT INTO books_retaxed (mandant, booking, batch) VALUES (?, ?, ?)", settled)


def _changed(tx: Tx, client: Client, year: FiscalYear) -> Iterator[_Found]:
    edition, after = edition_of(tx, client), 0
    splitter = Splitter(tx, edition, client.rahmen)
    while rows := tx.all(
        f"SELECT b.id, b.periode, t.kind, b.aufteilung, {present_split(edition, 'b')}, {_SATZ} FROM books_bookings b"
        " JOIN books_batches t ON t.mandant = b.mandant AND t.id = b.batch"
        " WHERE b.mandant = ? AND b.jahr = ? AND b.id > ? AND t.undone_by = '' AND t.undoes = ''"
        f" AND b.periode <> {EB_PERIOD} AND NOT EXISTS"
        " (SELECT 1 FROM books_retaxed r WHERE r.mandant = b.mandant AND r.booking = b.id)"
        f" AND +b.id <= {LAST_BOOKING} ORDER BY b.id LIMIT ?",
        client.mandant, year.start, after, client.mandant, _PAGE,
    ):  # fmt: skip
        for booking, periode, kind, posted, before, *values in rows:
            satz = Satz._make(values)
            satz = satz._replace(soll=bool(satz.soll), generalumkehr=bool(satz.generalumkehr))
            now = splitter.split(satz, {}).text
            if now != before and _legs(client, satz, now) != _legs(client, satz, before):
                yield _Found(booking, periode, kind == batches.CASH, satz, posted, before, now)
        after = rows[-1][0]


def _legs(client: Client, satz: Satz, text: str) -> dict[str, int]:
    found: dict[str, int] = defaultdict(int)
    for konto, betrag in legs_of(client.rahmen, satz, text):
        found[konto] += betrag
    return found


def _summed(client: Client, found: Iterator[_Found] | list[_Found]) -> list[Difference]:
    accounts = TAX_ACCOUNTS[client.kontenrahmen].values()
    output = {full(item.umsatzsteuer) for item in accounts if item.umsatzsteuer}
    given = {full(item.vorsteuer) for item in accounts if item.vorsteuer}
    sums: dict[Change, list[int]] = defaultdict(lambda: [0, 0, 0])
    for item in found:
        values = sums[_change(item)]
        values[0] += 1
        before, after = (_legs(client, item.satz, text) for text in (item.before, item.after))
        for konto in {*before, *after}:
            moved = after.get(konto, 0) - before.get(konto, 0)
            values[1] -= moved if konto in output else 0
            values[2] += moved if konto in given else 0
    return [Difference(change, *values) for change, values in sorted(sums.items())]


def _change(item: _Found) -> Change:
    key = without_reversal(item.satz.bu_schluessel)
    side = (item.after if item.after[-1:] in ("k", "g") else item.before)[-1:]
    konto = item.satz.konto if side == "k" else item.satz.gegenkonto
    return Change(key, "" if key else konto, item.before, item.after)
