"""Verification: compares the read models with what follows from the bookings. A difference is a defect of ours, never of the books.

Memory is bounded by the accounts and days of a client, not by its bookings: those are read once in their order for what concerns
all of them, and once more by account, some accounts at a time.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import Any, NamedTuple

from kontobahn.books import batches, cash_book, cash_days
from kontobahn.books.cash_book import CHAIN_START, chain, decode_record
from kontobahn.books.read_models import TABLES, present_split, stored_konto, susa_text
from kontobahn.books.satz import (
    EB_PERIOD,
    EB_TEXT,
    Satz,
    first_invoice,
    legs_of,
    merge_taxes,
    tax_for_item,
)
from kontobahn.books.store import LAST_BOOKING, UNDONE, Client, client_of_mandant, edition_of
from kontobahn.books.store import years as years_of
from kontobahn.db import Tx, chunked
from kontobahn.ledger.faelligkeiten import earlier_invoice
from kontobahn.ledger.kontierung import PLAIN, Leg
from kontobahn.ledger.konto import PERSONENKONTO_DIGITS, Kontenrahmen, is_personenkonto
from kontobahn.ledger.opos import AccountYear, Item, OpeningLeg, may_be_paired, twins_of_account

PAGE = 10_000
_SATZ = ", ".join(Satz._fields)
# The columns that name a sheet, and when they do.
_NAMED = {"konto": "1 = 1", "gegenkonto": "b.gegenkonto <> b.konto", "aufteilung": f"b.aufteilung <> '{PLAIN}'"}


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
        self._columns = f"id, jahr, periode, {present_split(self._edition)}, batch, {_SATZ}"
        self._years = self._all_years()
        self._label = f"Client {client.client_id} of connection {client.connection_id}"
        self._void = batches.without_effect(tx, client.mandant)
        # Ledger accounts; what person accounts add up to is recomputed for some of them at a time.
        self._periods: Periods = defaultdict(lambda: [0, 0, 0])
        self._persons: set[str] = set()
        self._carried: set[str] = set()
        # Day → number of movements, and a sum over what they are.
        self._moves: dict[str, list[int]] = defaultdict(lambda: [0, 0])

    def _all_years(self) -> list[str]:
        """Returns the client's years, and any other that a read model has."""
        found = {jahr.start for jahr in years_of(self._tx, self._client)}
        for table in ("periods", "balances", "carry_rests"):
            kept = self._tx.all(f"SELECT DISTINCT jahr FROM books_{table} WHERE edition = ?", self._edition)
            found.update(jahr for (jahr,) in kept)
        return sorted(found) or [""]

    def differences(self) -> list[str]:
        self._read_all()
        found = []
        for konten in self._chunks_of_persons():
            found += self._of_persons(konten)
        years = {jahr.start: True for jahr in years_of(self._tx, self._client) if jahr.has_eb}
        return [
            *self._of_periods(self._periods, f"LENGTH(konto) <> {PERSONENKONTO_DIGITS}"),
            *found,
            *self._of_moves(),
            *self._of_sheets(),
            *compare(self._label, "carried year", dict.fromkeys(self._carried, True), years),
            *cash_differences(self._tx, self._client, self._label),
        ]

    # --- In the order of the bookings

    def _read_all(self) -> None:
        after, mandant = 0, self._client.mandant
        while rows := self._tx.all(
            f"SELECT {self._columns} FROM books_bookings WHERE mandant = ? AND id > ? AND id <= {LAST_BOOKING} ORDER BY id LIMIT ?",
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
                add_to_period(
                    self._periods, booked.jahr, konto, booked.periode, betrag, is_reversal=reverses, is_void=booked.is_void
                )  # fmt: skip
                continue
            self._persons.add(konto)
            if booked.is_void:
                continue
            if booked.periode == EB_PERIOD:
                self._carried.add(booked.jahr)
            else:
                _add_move(self._moves[booked.satz.belegdatum], booked.id, konto, booked.satz.belegfeld1, betrag)

    # --- Some accounts at a time

    def _chunks_of_persons(self) -> Iterator[set[str]]:
        """Yields all person accounts that have bookings, or that a read model names, some at a time."""
        for table in TABLES:
            kept = self._tx.all(f"SELECT DISTINCT konto FROM {table} WHERE edition = ?", self._edition)
            self._persons.update(konto for (konto,) in kept if is_personenkonto(konto))
        for some, _ in chunked(sorted(self._persons)):
            yield set(some)

    def _of_persons(self, konten: set[str]) -> list[str]:
        label, must = self._label, Persons(self._client.rahmen, konten)
        for booked in self._naming(konten):
            must.add(
                booked.id, booked.jahr, booked.periode, booked.satz, booked.legs, tax_for_item(booked.aufteilung),
                is_void=booked.is_void,
            )  # fmt: skip
        twins = must.take_twins_out(self._periods)
        ordered = sorted(konten)
        is_one = f"konto IN ({', '.join('?' * len(ordered))})"
        # Some tables lead with the year: without it, all of them would be read for each chunk.
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
            *self._of_discounts(is_one, *ordered),
            *compare(label, "opening", twins, self._stored("openings", "konto, booking", "is_twin", is_one, *ordered)),
            *compare(label, "carry-over", rests, self._stored("carry_rests", "jahr, konto", "rest", in_years, *of_years)),
        ]  # fmt: skip

    def _naming(self, konten: set[str]) -> Iterator[_Booked]:
        """Yields the bookings that name one of the accounts, each once."""
        ordered, mandant = sorted(konten), self._client.mandant
        marks = ", ".join("?" * len(ordered))
        for jahr in self._years:
            for row in self._tx.all(
                f"SELECT {self._columns} FROM books_bookings WHERE mandant = ? AND id IN (SELECT booking FROM books_sheets"
                f" WHERE mandant = ? AND jahr = ? AND blatt IN ({marks})) AND +id <= {LAST_BOOKING}",
                mandant, mandant, jahr, *ordered, mandant,
            ):  # fmt: skip
                yield self._booked(row)

    def _of_periods(self, must: Periods, condition: str, *params: str) -> list[str]:
        kept = self._stored("periods", "jahr, konto, periode", "soll, haben, anzahl", condition, *params)
        lines = self._stored("balances", "jahr, konto", "wire", condition, *params)
        # Legs were not always counted: of sums from before only the amounts are known, and a line of zeros stays.
        counted = {key: sums for key, sums in kept.items() if sums[2] < UNCOUNTED}
        old = {key: (*sums[:2], must[key][2]) for key, sums in kept.items() if sums[2] >= UNCOUNTED}
        standing = {key: sums for key, sums in must.items() if any(sums) or key in old}
        return [
            *compare(self._label, "trial balance", standing, {**counted, **old}),
            *compare(self._label, "line of a trial balance", balances(standing), lines),
        ]

    def _stored(self, table: str, keys: str, values: str, condition: str, *params: str) -> dict[Any, Any]:
        """Returns rows of the read model as key → value, either of them a tuple if it has several columns."""
        width = keys.count(",") + 1
        rows = self._tx.all(
            f"SELECT {keys}, {values} FROM books_{table} WHERE edition = ? AND {condition}", self._edition, *params
        )
        return {_plain(row[:width]): _plain(row[width:]) for row in rows}

    def _stored_items(self, must: Persons, condition: str, *params: str) -> dict[tuple[str, str], Any]:
        """Returns the items as stored. The tax of a document may be unknown (booked before taxes were stored), but not differ."""
        values = "soll, haben, is_open, belegdatum, buchungstext, rechnung, steuer"
        stored = self._stored("items", "konto, beleg", values, condition, *params)
        return {
            key: (soll, haben, (datum, text), rechnung, steuer or must.items.get(key, ("",))[-1])
            if is_open == int(soll != haben)
            else "wrong in is_open"
            for key, (soll, haben, is_open, datum, text, rechnung, steuer) in stored.items()
        }

    def _of_discounts(self, condition: str, *params: str) -> list[str]:
        """Checks that every discount is split by the tax that its document has."""
        rows = self._tx.all(
            "SELECT d.konto, d.beleg, d.booking, d.steuer, COALESCE(i.steuer, 'no document') FROM books_discounts d"
            " LEFT JOIN books_items i ON i.edition = d.edition AND i.konto = d.konto AND i.beleg = d.beleg"
            f" WHERE d.edition = ? AND d.{condition}",
            self._edition, *params,
        )  # fmt: skip
        have, must = {row[:3]: row[3] for row in rows}, {row[:3]: row[4] for row in rows}
        return compare(self._label, "tax of a discount", must, have)

    # --- By day

    def _of_moves(self) -> list[str]:
        have: dict[str, list[int]] = defaultdict(lambda: [0, 0])
        for row in self._stored_moves():
            _add_move(have[row[0]], *row[1:])
        days = sorted({*self._moves, *have})
        return [text for day in days if self._moves[day] != have[day] for text in self._of_day(day)]

    def _of_sheets(self) -> list[str]:
        """Compares the places that bookings have on sheets with those that they must have; of those that lack, some are named."""
        mandant, expected, found = self._client.mandant, 0, []
        for column, condition in _NAMED.items():
            [(count,)] = self._tx.all(
                f"SELECT COUNT(*) FROM books_bookings b WHERE b.mandant = ? AND {condition} AND +b.id <= {LAST_BOOKING}",
                mandant, mandant,
            )  # fmt: skip
            expected += count
            lacking = self._tx.all(
                f"SELECT b.id, b.{column} FROM books_bookings b WHERE b.mandant = ? AND {condition} AND +b.id <= {LAST_BOOKING}"
                " AND NOT EXISTS (SELECT 1 FROM books_sheets s WHERE s.mandant = b.mandant AND s.jahr = b.jahr"
                f" AND s.blatt = b.{column} AND s.periode = b.periode AND s.belegdatum = b.belegdatum AND s.booking = b.id) LIMIT 20",
                mandant, mandant,
            )  # fmt: skip
            found += [
                f"{self._label}: booking {booking} is missing on the sheet of {blatt}." for booking, blatt in lacking
            ]
        [(kept,)] = self._tx.all(
            f"SELECT COUNT(*) FROM books_sheets WHERE mandant = ? AND +booking <= {LAST_BOOKING}", mandant, mandant
        )
        if kept != expected:
            found.append(f"{self._label}: sheets have {kept} places, and the bookings say {expected}.")
        return found

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
            f"SELECT {self._columns} FROM books_bookings WHERE mandant = ? AND belegdatum = ? AND id <= {LAST_BOOKING}",
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


# --- The read models as they follow from the bookings, by another way than posting makes them


Periods = dict[tuple[str, str, int], list[int]]
UNCOUNTED = 10**11


def add_to_period(
    periods: Periods, jahr: str, konto: str, periode: int, betrag: int, *, is_reversal: bool, is_void: bool = False
) -> None:
    side = 0 if (betrag > 0) != is_reversal else 1
    sums = periods[jahr, konto, periode]
    sums[side] += betrag if side == 0 else -betrag
    sums[2] += not is_void


def balances(periods: Periods) -> dict[tuple[str, str], str]:
    of_konto: dict[tuple[str, str], list[tuple[int, int, int]]] = {}
    for (jahr, konto, periode), (soll, haben, _) in sorted(periods.items()):
        of_konto.setdefault((jahr, konto), []).append((periode, soll, haben))
    return {key: susa_text(key[1], of_key) for key, of_key in of_konto.items()}


class Persons:
    """Some person accounts, from all bookings that name one of them."""

    def __init__(self, rahmen: Kontenrahmen, konten: set[str]) -> None:
        self._rahmen, self._konten = rahmen, konten
        self.periods: Periods = defaultdict(lambda: [0, 0, 0])
        self.items: dict[tuple[str, str], list[Any]] = {}
        # Opening balance, its text and movements of a person account in a year.
        self.years: dict[tuple[str, str], list[Any]] = defaultdict(lambda: [0, "", 0])
        # Person account → openings that may be half of a pair.
        self._openings: dict[str, list[OpeningLeg]] = defaultdict(list)

    def add(
        self, booking: int, jahr: str, periode: int, satz: Satz, parts: list[Leg], steuer: str, *, is_void: bool
    ) -> None:
        """Adds a booking; one that was undone, or undoes another, does not count for person accounts."""
        is_reversal = bool(satz.generalumkehr)
        for konto, betrag in parts:
            if konto not in self._konten:
                continue
            add_to_period(self.periods, jahr, konto, periode, betrag, is_reversal=is_reversal, is_void=is_void)
            if is_void:
                continue
            if periode == EB_PERIOD:
                self._add_opening(konto, jahr, betrag, satz.buchungstext or EB_TEXT)
                other = satz.gegenkonto if konto == satz.konto else satz.konto
                if len(parts) == 2 and may_be_paired(other):
                    leg = OpeningLeg(jahr, booking, betrag, other, satz.belegfeld1, int(is_reversal))
                    self._openings[konto].append(leg)
                continue
            self.years[konto, jahr][2] += betrag
            self._add_item(konto, satz, betrag, steuer)

    def _add_opening(self, konto: str, jahr: str, betrag: int, text: str) -> None:
        year = self.years[konto, jahr]
        year[0] += betrag
        year[1] = min(year[1] or text, text)

    def _add_item(self, konto: str, satz: Satz, betrag: int, steuer: str) -> None:
        first = (satz.belegdatum, satz.buchungstext)
        rechnung = first_invoice(
            self._rahmen, konto, satz.gegenkonto if konto == satz.konto else satz.konto, soll=betrag > 0,
            belegdatum=satz.belegdatum, reversal=bool(satz.generalumkehr), weitere=satz.weitere,
        )  # fmt: skip
        item = self.items.setdefault((konto, satz.belegfeld1), [0, 0, first, "", ""])
        item[0 if betrag > 0 else 1] += abs(betrag)
        item[2] = min(item[2], first)
        item[3] = earlier_invoice(item[3], rechnung)
        item[4] = merge_taxes(item[4], steuer)

    def take_twins_out(self, of_others: Periods) -> dict[tuple[str, int], int]:
        """Takes the twins of pairs out, here and on the other accounts. Returns (account, booking) → 1 for a twin, or 0."""
        marked: dict[tuple[str, int], int] = {}
        for konto, legs in self._openings.items():
            years = [AccountYear(jahr, *sums) for (name, jahr), sums in self.years.items() if name == konto]
            found = twins_of_account(years, legs)
            for leg in legs:
                marked[konto, leg.booking] = is_twin = int(leg.booking in found)
                if is_twin:
                    self.years[konto, leg.jahr][0] -= leg.betrag
                    side = 0 if leg.betrag > 0 else 1
                    self.periods[leg.jahr, konto, EB_PERIOD][side] -= abs(leg.betrag)
                    assert not is_personenkonto(leg.gegenkonto)
                    of_others[leg.jahr, leg.gegenkonto, EB_PERIOD][1 - side] -= abs(leg.betrag)
        return marked

    def rests(self, carried_years: set[str]) -> dict[tuple[str, str], int]:
        by_konto: dict[str, dict[str, list[Any]]] = {}
        for (konto, jahr), sums in self.years.items():
            by_konto.setdefault(konto, {})[jahr] = sums
        found: dict[tuple[str, str], int] = {}
        for konto, of_konto in by_konto.items():
            for carried in carried_years:
                before = sum(sums[2] for jahr, sums in of_konto.items() if jahr < carried)
                rest = of_konto.get(carried, [0, "", 0])[0] - before
                if rest:
                    found[carried, konto] = rest
        return found

    def open_accounts(self) -> dict[str, tuple[int, str]]:
        of_konto: dict[str, list[Item]] = {}
        for (konto, beleg), (soll, haben, first, *_) in self.items.items():
            if soll != haben:
                of_konto.setdefault(konto, []).append(Item(beleg, soll, haben, *first))
        kept = (stored_konto(konto, items) for konto, items in of_konto.items())
        return {row[0]: row[1:] for row in kept if row is not None}


# --- Cash books: the chain of entries, their bookings and receipts, and the movement of each day


def compare(label: str, what: str, must: dict[Any, Any], have: dict[Any, Any]) -> list[str]:
    must = {key: tuple(value) if isinstance(value, list) else value for key, value in must.items()}
    return [
        f"{label}: {what} {key} is {have.get(key)}, and the bookings say {must.get(key)}."
        for key in sorted(set(must) | set(have), key=str)
        if must.get(key) != have.get(key)
    ]


def cash_differences(tx: Tx, client: Client, label: str) -> list[str]:
    """Returns a sentence for each difference in the client's cash books and receipts."""
    found = [f"{label}: {text}" for text in cash_book.receipt_differences(tx, client)]
    filed = cash_book.filed_receipts(tx, client)
    stored = tx.all("SELECT kassenname, datum, bewegung FROM books_cash_days WHERE mandant = ?", client.mandant)
    have = {(name, datum): bewegung for name, datum, bewegung in stored}
    days, rows = cash_days.recount(tx, client)
    found += compare(label, "day of a cash book", days, have)
    listed = tx.all(
        f"SELECT kassenname, datum, booking FROM books_cash_rows WHERE mandant = ? AND booking <= {LAST_BOOKING}",
        client.mandant, client.mandant,
    )  # fmt: skip
    found += compare(label, "row of a cash book", dict.fromkeys(rows, True), dict.fromkeys(map(tuple, listed), True))
    for name, konto, *end in tx.all(
        "SELECT bezeichnung, konto, last_nummer, last_hash, saldo FROM books_cash_books WHERE mandant = ?",
        client.mandant,
    ):
        found += [
            f"{label}: cash book “{name}”{text}"
            for text in _entry_differences(tx, client, name, konto, tuple(end), filed)
        ]
    return found


def _entry_differences(
    tx: Tx, client: Client, name: str, konto: str, end: tuple[int, str, int], filed: dict[str, list[str]]
) -> list[str]:
    """Checks that numbers have no gap, no entry was changed, and each agrees with its booking."""
    found: list[str] = []
    previous, total, count = CHAIN_START, 0, 0
    for count, (nummer, task, datum, betrag, storno_von, record, stored, booked) in enumerate(
        tx.all(
            "SELECT e.nummer, e.task, e.datum, e.betrag, e.storno_von, e.record, e.hash,"
            " (SELECT CASE WHEN b.soll = 1 THEN b.umsatz ELSE -b.umsatz END FROM books_bookings b"
            " WHERE b.mandant = e.mandant AND b.id = e.booking AND b.konto = ? AND b.belegdatum = e.datum)"
            " FROM books_cash_entries e WHERE e.mandant = ? AND e.kassenname = ? ORDER BY e.nummer",
            konto, client.mandant, name,
        ), 1,
    ):  # fmt: skip
        previous = chain(previous, record.encode())
        if nummer != count or stored != previous:
            return [*found, f", entry {nummer}: the chain is broken."]
        total += betrag
        recorded = decode_record(record)
        chained = (recorded.nummer, recorded.datum, recorded.betrag, recorded.saldo, recorded.storno_von)
        if (nummer, datum, betrag, total, storno_von) != chained:
            found.append(f", entry {nummer}: it is not what was chained.")
        if recorded.belege != filed.get(task, []):
            found.append(f", entry {nummer}: its receipts are not those that were chained.")
        if booked != betrag:
            found.append(f", entry {nummer} is {betrag}, and its booking says {booked}.")
    if (count, previous, total) != end:
        found.append(" does not end with its last entry.")
    return found
