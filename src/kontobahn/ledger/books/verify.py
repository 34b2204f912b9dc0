"""Recomputes the read models from the bookings and says where a cent differs. What it finds is a defect of ours, never of the books."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from kontobahn.db import Tx
from kontobahn.ledger.books.cash import CHAIN_START, chain
from kontobahn.ledger.books.posting import EB_PERIOD, Satz, legs_of
from kontobahn.ledger.books.store import Client, client_of_mandant
from kontobahn.ledger.books.store import years as years_of
from kontobahn.ledger.konto import is_personenkonto
from kontobahn.ledger.opos import item_text

PAGE = 20_000
_COLUMNS = (
    "id, jahr, periode, umsatz, soll, konto, gegenkonto, belegdatum, bu_schluessel, belegfeld1, buchungstext, basis_umsatz, skonto,"
    " generalumkehr"
)


def all_mandanten(tx: Tx) -> list[int]:
    return [mandant for (mandant,) in tx.all("SELECT mandant FROM books_clients ORDER BY mandant")]


class Recomputed:
    """The read models as the bookings say they must be."""

    def __init__(self) -> None:
        self.periods: dict[tuple[str, str, int], list[int]] = defaultdict(lambda: [0, 0])
        self.items: dict[tuple[str, str], list[Any]] = {}
        self.years: dict[tuple[str, str], list[int]] = defaultdict(lambda: [0, 0])
        self.moves: dict[tuple[str, int, str], int] = {}
        self.carried: set[str] = set()

    def add(self, client: Client, row: tuple[Any, ...]) -> None:
        (
            booking,
            jahr,
            periode,
            umsatz,
            soll,
            konto,
            gegenkonto,
            datum,
            bu,
            beleg,
            text,
            basis,
            skonto,
            reversed_side,
        ) = row
        satz = Satz(
            umsatz, bool(soll), konto, gegenkonto, datum, bu, beleg, text, basis_umsatz=basis, skonto=skonto,
            generalumkehr=bool(reversed_side),
        )  # fmt: skip
        for name, betrag in legs_of(client.rahmen, satz):
            side = 0 if (betrag > 0) != bool(reversed_side) else 1
            self.periods[jahr, name, periode][side] += betrag if side == 0 else -betrag
            if is_personenkonto(name):
                self.years[name, jahr][0 if periode == EB_PERIOD else 1] += betrag
                if periode != EB_PERIOD:
                    self._add_item(name, beleg, betrag, (datum, text))
                    self.moves[datum, booking, name] = betrag
        if periode == EB_PERIOD:
            self.carried.add(jahr)

    def _add_item(self, konto: str, beleg: str, betrag: int, first: tuple[str, str]) -> None:
        item = self.items.setdefault((konto, beleg), [0, 0, first])
        item[0 if betrag > 0 else 1] += abs(betrag)
        item[2] = min(item[2], first)

    def rests(self) -> dict[tuple[str, str], int]:
        found: dict[tuple[str, str], int] = {}
        for konto in {name for name, _ in self.years}:
            of_konto = {jahr: sums for (name, jahr), sums in self.years.items() if name == konto}
            for carried in self.carried:
                before = sum(sums[1] for jahr, sums in of_konto.items() if jahr < carried)
                rest = of_konto.get(carried, [0, 0])[0] - before
                if rest:
                    found[carried, konto] = rest
        return found


def find_differences(tx: Tx, mandant: int) -> list[str]:
    """Sentences, one a difference; empty when every read model equals its bookings."""
    client = client_of_mandant(tx, mandant)
    must = Recomputed()
    after = 0
    while rows := tx.all(
        f"SELECT {_COLUMNS} FROM books_bookings WHERE mandant = ? AND id > ? ORDER BY id LIMIT ?", mandant, after, PAGE
    ):
        for row in rows:
            must.add(client, row)
        after = rows[-1][0]
    periods = {
        (jahr, konto, periode): [soll, haben]
        for jahr, konto, periode, soll, haben in tx.all(
            "SELECT jahr, konto, periode, soll, haben FROM books_periods WHERE mandant = ?", mandant
        )
    }
    items: dict[tuple[str, str], Any] = {}
    for konto, beleg, soll, haben, is_open, datum, text, wire in tx.all(
        "SELECT konto, beleg, soll, haben, is_open, belegdatum, buchungstext, wire FROM books_items WHERE mandant = ?",
        mandant,
    ):
        derived = is_open == int(soll != haben) and wire == item_text(beleg, datum, text)
        items[konto, beleg] = [soll, haben, (datum, text)] if derived else "wrong in is_open or wire"
    years = {
        (konto, jahr): [eb, bewegung]
        for konto, jahr, eb, bewegung in tx.all(
            "SELECT konto, jahr, eb, bewegung FROM books_item_years WHERE mandant = ?", mandant
        )
    }
    moves = {
        (datum, booking, konto): betrag
        for datum, booking, konto, betrag in tx.all(
            "SELECT belegdatum, booking, konto, betrag FROM books_item_moves WHERE mandant = ?", mandant
        )
    }
    rests = {
        (jahr, konto): rest
        for jahr, konto, rest in tx.all("SELECT jahr, konto, rest FROM books_carry_rests WHERE mandant = ?", mandant)
    }
    carried = [jahr.start for jahr in years_of(tx, client) if jahr.has_eb]
    label = f"Client {client.client_id} of connection {client.connection_id}"
    return [
        *_compare(label, "trial balance", dict(must.periods), periods),
        *_compare(label, "open item", must.items, items),
        *_compare(label, "person account in a year", dict(must.years), years),
        *_compare(label, "movement", must.moves, moves),
        *_compare(label, "carry-over", must.rests(), rests),
        *_compare(label, "carried year", dict.fromkeys(must.carried, True), dict.fromkeys(carried, True)),
        *_broken_chains(tx, client, label),
    ]


def _compare(label: str, what: str, must: dict[Any, Any], have: dict[Any, Any]) -> list[str]:
    return [
        f"{label}: {what} {key} is {have.get(key)}, and the bookings say {must.get(key)}."
        for key in sorted(set(must) | set(have), key=str)
        if must.get(key) != have.get(key)
    ]


def _broken_chains(tx: Tx, client: Client, label: str) -> list[str]:
    """Cash books: no gap in the numbers, no entry changed."""
    found = []
    for name, last_nummer, last_hash, saldo in tx.all(
        "SELECT bezeichnung, last_nummer, last_hash, saldo FROM books_cash_books WHERE mandant = ?", client.mandant
    ):
        previous, total, count = CHAIN_START, 0, 0
        entries = tx.all(
            "SELECT nummer, betrag, record, hash FROM books_cash_entries WHERE mandant = ? AND kassenname = ? ORDER BY nummer",
            client.mandant, name,
        )  # fmt: skip
        for count, (nummer, betrag, record, stored) in enumerate(entries, 1):
            previous = chain(previous, record.encode())
            total += betrag
            if nummer != count or stored != previous:
                found.append(f"{label}: cash book “{name}”, entry {nummer}: the chain is broken.")
                break
        else:
            if (count, previous, total) != (last_nummer, last_hash, saldo):
                found.append(f"{label}: cash book “{name}” does not end with its last entry.")
    return found
