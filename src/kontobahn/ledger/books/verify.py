"""Compares the read models with what follows from the bookings and reports every difference: a defect of ours, never of the books.

Memory is bounded by the accounts and days of a client, not by its bookings: those are read once in their order for what concerns all of
them, and once more by account, some accounts at a time.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import Any, NamedTuple

from kontobahn.db import Tx
from kontobahn.ledger.books import batches, verify_cash
from kontobahn.ledger.books.answers import EB_PERIOD, each_portion
from kontobahn.ledger.books.posting import Satz
from kontobahn.ledger.books.preparing import TABLES
from kontobahn.ledger.books.recomputed import Periods, Persons, add_to_period, balances
from kontobahn.ledger.books.splitting import legs_of, tax_for_item
from kontobahn.ledger.books.store import LAST_BOOKING, UNDONE, Client, client_of_mandant, edition_of
from kontobahn.ledger.books.store import years as years_of
from kontobahn.ledger.books.verify_cash import compare
from kontobahn.ledger.kontierung import Leg
from kontobahn.ledger.konto import PERSONENKONTO_DIGITS, is_personenkonto

PAGE = 10_000
_SATZ = ", ".join(Satz._fields)
_COLUMNS = f"id, jahr, periode, aufteilung, batch, {_SATZ}"


def all_mandanten(tx: Tx) -> list[int]:
    return [mandant for (mandant,) in tx.all("SELECT mandant FROM books_clients ORDER BY mandant")]


def find_differences(tx: Tx, mandant: int) -> list[str]:
    """Returns a sentence for each difference; none if every read model agrees with the bookings."""
    client = client_of_mandant(tx, mandant)
    return _Verification(tx, client).differences()


class _Booked(NamedTuple):
    id: int
    jahr: str
    periode: int
    aufteilung: str
    satz: Satz
    legs: list[Leg]
    is_void: bool


class _Verification:
    def __init__(self, tx: Tx, client: Client) -> None:
        self._tx, self._client, self._edition = tx, client, edition_of(tx, client)
        self._years = self._all_years()
        self._label = f"Client {client.client_id} of connection {client.connection_id}"
        self._void = batches.without_effect(tx, client.mandant)
        # Ledger accounts; what person accounts add up to is recomputed for some of them at a time.
        self._periods: Periods = defaultdict(lambda: [0, 0])
        self._persons: set[str] = set()
        self._carried: set[str] = set()
        # Day → number of movements, and a sum over what they are.
        self._moves: dict[str, list[int]] = defaultdict(lambda: [0, 0])

    def _all_years(self) -> list[str]:
        """Those that the client has, and whatever others a read model knows of."""
        found = {jahr.start for jahr in years_of(self._tx, self._client)}
        for table in ("periods", "balances", "carry_rests"):
            kept = self._tx.all(f"SELECT DISTINCT jahr FROM books_{table} WHERE edition = ?", self._edition)
            found.update(jahr for (jahr,) in kept)
        return sorted(found) or [""]

    def differences(self) -> list[str]:
        self._read_all()
        found = []
        for konten in self._portions_of_persons():
            found += self._of_persons(konten)
        years = {jahr.start: True for jahr in years_of(self._tx, self._client) if jahr.has_eb}
        return [
            *self._of_periods(self._periods, f"LENGTH(konto) <> {PERSONENKONTO_DIGITS}"),
            *found,
            *self._of_moves(),
            *compare(self._label, "carried year", dict.fromkeys(self._carried, True), years),
            *verify_cash.differences(self._tx, self._client, self._label),
        ]

    # --- In the order of the bookings

    def _read_all(self) -> None:
        after, mandant = 0, self._client.mandant
        while rows := self._tx.all(
            f"SELECT {_COLUMNS} FROM books_bookings WHERE mandant = ? AND id > ? AND id <= {LAST_BOOKING} ORDER BY id LIMIT ?",
            mandant, after, mandant, PAGE,
        ):  # fmt: skip
            for row in rows:
                self._add(self._booked(row))
            after = rows[-1][0]

    def _booked(self, row: tuple[Any, ...]) -> _Booked:
        booking, jahr, periode, aufteilung, batch, *values = row
        satz = Satz._make(values)
        legs = legs_of(self._client.rahmen, satz, aufteilung)
        return _Booked(booking, jahr, periode, aufteilung, satz, legs, batch in self._void)

    def _add(self, booked: _Booked) -> None:
        for konto, betrag in booked.legs:
            if not is_personenkonto(konto):
                reverses = bool(booked.satz.generalumkehr)
                add_to_period(self._periods, booked.jahr, konto, booked.periode, betrag, is_reversal=reverses)
                continue
            self._persons.add(konto)
            if booked.is_void:
                continue
            if booked.periode == EB_PERIOD:
                self._carried.add(booked.jahr)
            else:
                _add_move(self._moves[booked.satz.belegdatum], booked.id, konto, booked.satz.belegfeld1, betrag)

    # --- Some accounts at a time

    def _portions_of_persons(self) -> Iterator[set[str]]:
        """All that are booked on, or of which a read model says so."""
        for table in TABLES:
            kept = self._tx.all(f"SELECT DISTINCT konto FROM {table} WHERE edition = ?", self._edition)
            self._persons.update(konto for (konto,) in kept if is_personenkonto(konto))
        for some, _ in each_portion(self._persons):
            yield set(some)

    def _of_persons(self, konten: set[str]) -> list[str]:
        label, must = self._label, Persons(konten)
        for booked in self._naming(konten):
            must.add(
                booked.id, booked.jahr, booked.periode, booked.satz, booked.legs, tax_for_item(booked.aufteilung),
                is_void=booked.is_void,
            )  # fmt: skip
        twins = must.take_twins_out(self._periods)
        ordered = sorted(konten)
        is_one = f"konto IN ({', '.join('?' * len(ordered))})"
        # Some tables lead with the year: without it, all of them would be read for each portion.
        in_years, of_years = f"jahr IN ({', '.join('?' * len(self._years))}) AND {is_one}", (*self._years, *ordered)
        rests, opened = must.rests(self._carried), must.open_accounts()
        return [
            *self._of_periods(must.periods, in_years, *of_years),
            *compare(label, "open item", must.items, self._stored_items(must, is_one, *ordered)),
            *compare(label, "account with open items", opened, self._stored("open_accounts", "konto", "saldo, wire", is_one, *ordered)),
            *compare(
                label, "person account in a year", dict(must.years),
                self._stored("item_years", "konto, jahr", "eb, eb_text, bewegung", is_one, *ordered),
            ),
            *compare(label, "opening", twins, self._stored("openings", "konto, booking", "is_twin", is_one, *ordered)),
            *compare(label, "carry-over", rests, self._stored("carry_rests", "jahr, konto", "rest", in_years, *of_years)),
        ]  # fmt: skip

    def _naming(self, konten: set[str]) -> Iterator[_Booked]:
        """Yields the bookings that name one of the accounts, each once."""
        ordered, mandant = sorted(konten), self._client.mandant
        # Found by `konto` already.
        marks = ", ".join("?" * len(ordered))
        known = f" AND konto NOT IN ({marks})"
        for jahr in self._years:
            for column, less, others in (("konto", "", []), ("gegenkonto", known, ordered)):
                # The inner query reads an index alone; without it SQLite would read all bookings of the client.
                for row in self._tx.all(
                    f"SELECT {_COLUMNS} FROM books_bookings WHERE mandant = ? AND id IN (SELECT id FROM books_bookings"
                    f" WHERE mandant = ? AND jahr = ? AND {column} IN ({marks}) AND id > 0){less} AND +id <= {LAST_BOOKING}",
                    mandant, mandant, jahr, *ordered, *others, mandant,
                ):  # fmt: skip
                    yield self._booked(row)

    def _of_periods(self, must: Periods, condition: str, *params: str) -> list[str]:
        kept = self._stored("periods", "jahr, konto, periode", "soll, haben", condition, *params)
        lines = self._stored("balances", "jahr, konto", "wire", condition, *params)
        return [
            *compare(self._label, "trial balance", dict(must), kept),
            *compare(self._label, "line of a trial balance", balances(must), lines),
        ]

    def _stored(self, table: str, keys: str, values: str, condition: str, *params: str) -> dict[Any, Any]:
        """Returns rows of the read model as key → value, either of them a tuple if it has several columns."""
        width = keys.count(",") + 1
        rows = self._tx.all(
            f"SELECT {keys}, {values} FROM books_{table} WHERE edition = ? AND {condition}", self._edition, *params
        )
        return {_plain(row[:width]): _plain(row[width:]) for row in rows}

    def _stored_items(self, must: Persons, condition: str, *params: str) -> dict[tuple[str, str], Any]:
        """Items as stored. The tax of a document may be unknown (booked before taxes were stored), but not another one."""
        values = "soll, haben, is_open, belegdatum, buchungstext, steuer"
        stored = self._stored("items", "konto, beleg", values, condition, *params)
        return {
            key: (soll, haben, (datum, text), steuer or must.items.get(key, ("",))[-1])
            if is_open == int(soll != haben)
            else "wrong in is_open"
            for key, (soll, haben, is_open, datum, text, steuer) in stored.items()
        }

    # --- By day

    def _of_moves(self) -> list[str]:
        have: dict[str, list[int]] = defaultdict(lambda: [0, 0])
        for row in self._stored_moves():
            _add_move(have[row[0]], *row[1:])
        days = sorted({*self._moves, *have})
        return [text for day in days if self._moves[day] != have[day] for text in self._of_day(day)]

    def _stored_moves(self) -> Iterator[tuple[Any, ...]]:
        day, booking, konto, mandant = "", 0, "", self._client.mandant
        while rows := self._tx.all(
            "SELECT belegdatum, booking, konto, beleg, betrag FROM books_item_moves WHERE mandant = ?"
            f" AND (belegdatum, booking, konto) > (?, ?, ?) AND booking <= {LAST_BOOKING} AND booking NOT {UNDONE}"
            " ORDER BY belegdatum, booking, konto LIMIT ?",
            mandant, day, booking, konto, *[mandant] * 3, PAGE,
        ):  # fmt: skip
            yield from rows
            day, booking, konto = rows[-1][:3]

    def _of_day(self, day: str) -> list[str]:
        mandant = self._client.mandant
        must = {}
        for row in self._tx.all(
            f"SELECT {_COLUMNS} FROM books_bookings WHERE mandant = ? AND belegdatum = ? AND id <= {LAST_BOOKING}",
            mandant, day, mandant,
        ):  # fmt: skip
            booked = self._booked(row)
            if booked.is_void or booked.periode == EB_PERIOD:
                continue
            for konto, betrag in booked.legs:
                if is_personenkonto(konto):
                    must[day, booked.id, konto] = (booked.satz.belegfeld1, betrag)
        rows = self._tx.all(
            "SELECT booking, konto, beleg, betrag FROM books_item_moves WHERE mandant = ? AND belegdatum = ?"
            f" AND booking <= {LAST_BOOKING} AND booking NOT {UNDONE}",
            mandant, day, *[mandant] * 3,
        )  # fmt: skip
        have = {(day, booking, konto): (beleg, betrag) for booking, konto, beleg, betrag in rows}
        return compare(self._label, "movement", must, have)


def _add_move(sums: list[int], *move: Any) -> None:
    # A sum does not depend on the order. What is equal is equal here, and what differs hardly ever.
    sums[0] += 1
    sums[1] += hash(move)


def _plain(columns: tuple[Any, ...]) -> Any:
    return columns[0] if len(columns) == 1 else columns
