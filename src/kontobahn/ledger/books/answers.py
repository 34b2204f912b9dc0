"""Read models that are stored as the text of an answer: an account's open items, and its line of the trial balance.

Rewritten for the accounts that a batch touched, in its transaction. They hold no labels, which may change without a booking.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby
from operator import itemgetter

from kontobahn.db import IS_ONE_OF_A_PORTION, Tx, in_portions
from kontobahn.ledger import opos
from kontobahn.ledger.opos import Item, OpenKonto
from kontobahn.money import amount_text

EB_PERIOD = 0
# An account with more open items is read item by item: its text would be too long to rewrite with each booking.
MAX_STORED_ITEMS = 1_000

_OPEN_ITEMS = (
    "SELECT konto, beleg, soll, haben, belegdatum, buchungstext FROM books_items WHERE edition = ? AND is_open = 1"
    f" AND konto {IS_ONE_OF_A_PORTION}"
)
_PERIODS = (
    f"SELECT konto, periode, soll, haben FROM books_periods WHERE edition = ? AND jahr = ? AND konto {IS_ONE_OF_A_PORTION}"
    " ORDER BY konto, periode"
)
_PUT_OPEN_ACCOUNT = (
    "INSERT INTO books_open_accounts (edition, konto, saldo, wire) VALUES (?, ?, ?, ?)"
    " ON CONFLICT (edition, konto) DO UPDATE SET saldo = excluded.saldo, wire = excluded.wire"
)
_PUT_BALANCE = (
    "INSERT INTO books_balances (edition, jahr, konto, wire) VALUES (?, ?, ?, ?)"
    " ON CONFLICT (edition, jahr, konto) DO UPDATE SET wire = excluded.wire"
)


def open_items(tx: Tx, edition: int, konten: Iterable[str]) -> Iterator[dict[str, list[Item]]]:
    """Yields account → its open items, some accounts at a time; accounts without any are included."""
    for some, _ in each_portion(konten):
        found: dict[str, list[Item]] = {konto: [] for konto in some}
        for konto, *item in tx.all(_OPEN_ITEMS, edition, *some):
            found[konto].append(Item._make(item))
        yield found


def settle_open_accounts(tx: Tx, edition: int, konten: Iterable[str]) -> None:
    for found in open_items(tx, edition, konten):
        kept = {konto: stored_konto(konto, items) for konto, items in found.items()}
        closed = [(edition, konto) for konto, row in kept.items() if row is None]
        if closed:
            tx.many("DELETE FROM books_open_accounts WHERE edition = ? AND konto = ?", closed)
        listed = [(edition, *row[1:]) for row in kept.values() if row is not None]
        if listed:
            tx.many(_PUT_OPEN_ACCOUNT, listed)


def stored_konto(konto: str, items: list[Item]) -> OpenKonto | None:
    """Returns what is stored of an account, or None if nothing is open in it."""
    found = opos.open_konto(konto, items)
    if found is None or len(items) <= MAX_STORED_ITEMS:
        return found
    return (*found[:3], "")


def settle_balances(tx: Tx, edition: int, jahr: str, konten: Iterable[str]) -> None:
    for some, _ in each_portion(konten):
        rows = tx.all(_PERIODS, edition, jahr, *some)
        lines = [
            (edition, jahr, konto, susa_text(konto, [row[1:] for row in of_konto]))
            for konto, of_konto in groupby(rows, key=itemgetter(0))
        ]
        tx.many(_PUT_BALANCE, lines)


def susa_text(konto: str, periods: Iterable[tuple[int, int, int]]) -> str:
    """Returns the JSON of a SusaZeile after its label, from the periods in their order."""
    eb: int | None = None
    total_soll = total_haben = 0
    values = []
    for periode, soll, haben in periods:
        if periode == EB_PERIOD:
            eb = soll - haben
        else:
            total_soll += soll
            total_haben += haben
            values.append(f'{{"periode":{periode},"saldo":{_saldo_text(soll - haben)}}}')
    return (
        f'"kontonummer":"{konto}","saldo":{_saldo_text((eb or 0) + total_soll - total_haben)},'
        f'"periodenwerte":[{",".join(values)}],"ebWert":{"null" if eb is None else _saldo_text(eb)},'
        f'"umsatzHaben":{amount_text(total_haben)},"umsatzSoll":{amount_text(total_soll)}}}'
    )


def _saldo_text(cents: int) -> str:
    side = "HABEN" if cents < 0 else "SOLL"
    return f'{{"betrag":{amount_text(abs(cents))},"sollHabenKennzeichen":"{side}"}}'


def each_portion(konten: Iterable[str]) -> Iterator[tuple[list[str], str]]:
    """Yields some accounts at a time, with the SQL that says `is one of them`."""
    return in_portions(sorted(konten))
