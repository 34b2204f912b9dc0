"""Recomputes the read models from the bookings and reports every difference: a defect of ours, never of the books."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from kontobahn.db import Tx
from kontobahn.ledger.books import batches, verify_cash
from kontobahn.ledger.books.answers import EB_PERIOD, stored_konto, susa_text
from kontobahn.ledger.books.openings import AccountYear, OpeningLeg, may_be_paired, twins_of_account
from kontobahn.ledger.books.posting import EB_TEXT, Satz
from kontobahn.ledger.books.splitting import legs_of, merge_taxes, tax_for_item
from kontobahn.ledger.books.store import Client, client_of_mandant
from kontobahn.ledger.books.store import years as years_of
from kontobahn.ledger.books.verify_cash import compare
from kontobahn.ledger.konto import is_personenkonto
from kontobahn.ledger.opos import Item

PAGE = 20_000
_SATZ = ", ".join(Satz._fields)


def all_mandanten(tx: Tx) -> list[int]:
    return [mandant for (mandant,) in tx.all("SELECT mandant FROM books_clients ORDER BY mandant")]


class Recomputed:
    """The read models as they follow from the bookings."""

    def __init__(self) -> None:
        self.periods: dict[tuple[str, str, int], list[int]] = defaultdict(lambda: [0, 0])
        self.items: dict[tuple[str, str], list[Any]] = {}
        # Opening balance, its text and movements of a person account in a year.
        self.years: dict[tuple[str, str], list[Any]] = defaultdict(lambda: [0, "", 0])
        self.moves: dict[tuple[str, int, str], int] = {}
        self.carried: set[str] = set()
        # Person account → openings that may be half of a pair.
        self.openings: dict[str, list[OpeningLeg]] = defaultdict(list)

    def add(
        self, client: Client, booking: int, jahr: str, periode: int, satz: Satz, aufteilung: str, *, is_void: bool
    ) -> None:
        """Adds a booking; one that was undone, or undoes another, is nothing to person accounts."""
        is_reversal = bool(satz.generalumkehr)
        parts = legs_of(client.rahmen, satz, aufteilung)
        for konto, betrag in parts:
            side = 0 if (betrag > 0) != is_reversal else 1
            self.periods[jahr, konto, periode][side] += betrag if side == 0 else -betrag
            if is_personenkonto(konto) and not is_void:
                if periode == EB_PERIOD:
                    self._add_opening(konto, jahr, betrag, satz.buchungstext or EB_TEXT)
                    other = satz.gegenkonto if konto == satz.konto else satz.konto
                    if len(parts) == 2 and may_be_paired(other):
                        leg = OpeningLeg(jahr, booking, betrag, other, satz.belegfeld1, int(is_reversal))
                        self.openings[konto].append(leg)
                    continue
                self.years[konto, jahr][2] += betrag
                self._add_item(konto, satz, betrag, tax_for_item(aufteilung))
                self.moves[satz.belegdatum, booking, konto] = betrag

    def _add_opening(self, konto: str, jahr: str, betrag: int, text: str) -> None:
        self.carried.add(jahr)
        year = self.years[konto, jahr]
        year[0] += betrag
        year[1] = min(year[1] or text, text)

    def _add_item(self, konto: str, satz: Satz, betrag: int, steuer: str) -> None:
        first = (satz.belegdatum, satz.buchungstext)
        item = self.items.setdefault((konto, satz.belegfeld1), [0, 0, first, ""])
        item[0 if betrag > 0 else 1] += abs(betrag)
        item[2] = min(item[2], first)
        item[3] = merge_taxes(item[3], steuer)

    def take_twins_out(self) -> dict[tuple[str, int], int]:
        """Takes the twins of pairs out, once every booking is known. Returns (account, booking) → 1 for a twin, or 0."""
        marked: dict[tuple[str, int], int] = {}
        for konto, legs in self.openings.items():
            years = [AccountYear(jahr, *sums) for (name, jahr), sums in self.years.items() if name == konto]
            found = twins_of_account(years, legs)
            for leg in legs:
                marked[konto, leg.booking] = is_twin = int(leg.booking in found)
                if is_twin:
                    self.years[konto, leg.jahr][0] -= leg.betrag
                    side = 0 if leg.betrag > 0 else 1
                    self.periods[leg.jahr, konto, EB_PERIOD][side] -= abs(leg.betrag)
                    self.periods[leg.jahr, leg.gegenkonto, EB_PERIOD][1 - side] -= abs(leg.betrag)
        return marked

    def rests(self) -> dict[tuple[str, str], int]:
        by_konto: dict[str, dict[str, list[Any]]] = {}
        for (konto, jahr), sums in self.years.items():
            by_konto.setdefault(konto, {})[jahr] = sums
        found: dict[tuple[str, str], int] = {}
        for konto, of_konto in by_konto.items():
            for carried in self.carried:
                before = sum(sums[2] for jahr, sums in of_konto.items() if jahr < carried)
                rest = of_konto.get(carried, [0, "", 0])[0] - before
                if rest:
                    found[carried, konto] = rest
        return found

    def open_accounts(self) -> dict[str, tuple[int, str]]:
        of_konto: dict[str, list[Item]] = {}
        for (konto, beleg), (soll, haben, first, _) in self.items.items():
            if soll != haben:
                of_konto.setdefault(konto, []).append(Item(beleg, soll, haben, *first))
        kept = (stored_konto(konto, items) for konto, items in of_konto.items())
        return {row[1]: row[2:] for row in kept if row is not None}

    def balances(self) -> dict[tuple[str, str], str]:
        of_konto: dict[tuple[str, str], list[tuple[int, int, int]]] = {}
        for (jahr, konto, periode), (soll, haben) in sorted(self.periods.items()):
            of_konto.setdefault((jahr, konto), []).append((periode, soll, haben))
        return {key: susa_text(key[1], periods) for key, periods in of_konto.items()}


def _recompute(tx: Tx, client: Client) -> Recomputed:
    must = Recomputed()
    void = batches.without_effect(tx, client.mandant)
    after = 0
    while rows := tx.all(
        f"SELECT id, jahr, periode, aufteilung, batch, {_SATZ} FROM books_bookings"
        " WHERE mandant = ? AND id > ? ORDER BY id LIMIT ?",
        client.mandant,
        after,
        PAGE,
    ):
        for booking, jahr, periode, aufteilung, batch, *values in rows:
            must.add(client, booking, jahr, periode, Satz._make(values), aufteilung, is_void=batch in void)
        after = rows[-1][0]
    return must


def find_differences(tx: Tx, mandant: int) -> list[str]:
    """Returns a sentence for each difference; none if every read model agrees with the bookings."""
    client = client_of_mandant(tx, mandant)
    must = _recompute(tx, client)
    twins = must.take_twins_out()
    label = f"Client {client.client_id} of connection {client.connection_id}"
    return [
        *compare(
            label,
            "trial balance",
            dict(must.periods),
            _stored(tx, mandant, "periods", "jahr, konto, periode", "soll, haben"),
        ),
        *compare(
            label, "line of a trial balance", must.balances(), _stored(tx, mandant, "balances", "jahr, konto", "wire")
        ),
        *compare(label, "open item", must.items, _stored_items(tx, mandant, must)),
        *compare(
            label,
            "account with open items",
            must.open_accounts(),
            _stored(tx, mandant, "open_accounts", "konto", "saldo, wire"),
        ),
        *compare(
            label,
            "person account in a year",
            dict(must.years),
            _stored(tx, mandant, "item_years", "konto, jahr", "eb, eb_text, bewegung"),
        ),
        *compare(
            label, "movement", must.moves, _stored(tx, mandant, "item_moves", "belegdatum, booking, konto", "betrag")
        ),
        *compare(label, "opening", twins, _stored(tx, mandant, "openings", "konto, booking", "is_twin")),
        *compare(label, "carry-over", must.rests(), _stored(tx, mandant, "carry_rests", "jahr, konto", "rest")),
        *compare(
            label,
            "carried year",
            dict.fromkeys(must.carried, True),
            {jahr.start: True for jahr in years_of(tx, client) if jahr.has_eb},
        ),
        *verify_cash.differences(tx, client, label),
    ]


def _stored(tx: Tx, mandant: int, table: str, keys: str, values: str) -> dict[Any, Any]:
    """Returns a table of the read model as key → value, either of them a tuple if it has several columns."""
    width = keys.count(",") + 1
    return {
        _plain(row[:width]): _plain(row[width:])
        for row in tx.all(f"SELECT {keys}, {values} FROM books_{table} WHERE mandant = ?", mandant)
    }


def _plain(columns: tuple[Any, ...]) -> Any:
    return columns[0] if len(columns) == 1 else columns


def _stored_items(tx: Tx, mandant: int, must: Recomputed) -> dict[tuple[str, str], Any]:
    """Items as stored. The tax of a document may be unknown (it was booked before taxes were stored), but not another one."""
    stored = _stored(tx, mandant, "items", "konto, beleg", "soll, haben, is_open, belegdatum, buchungstext, steuer")
    return {
        key: (soll, haben, (datum, text), steuer or must.items.get(key, ("",))[-1])
        if is_open == int(soll != haben)
        else "wrong in is_open"
        for key, (soll, haben, is_open, datum, text, steuer) in stored.items()
    }
