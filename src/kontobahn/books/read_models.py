"""The read models of a client: what a block of bookings adds to them, and what follows for the accounts that it touched.

They are an edition, which has a number of its own (books_clients.edition): a large file makes a new one beside the one that
everybody reads. Bookings are added in any order with the same result, so two that post at once may take turns. An account's open
items and its line of the trial balance are stored as the text of an answer, without labels, which may change without a booking.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby
from operator import itemgetter
from typing import Any, NamedTuple

from kontobahn.books.cash_days import Days
from kontobahn.books.satz import EB_PERIOD, MIXED, Satz, discount_split, legs_of
from kontobahn.books.store import Client
from kontobahn.db import IS_ONE_OF_A_CHUNK, Row, Statements, chunked
from kontobahn.ledger import opos
from kontobahn.ledger.kontierung import SKONTO
from kontobahn.ledger.konto import PERSONENKONTO_DIGITS
from kontobahn.ledger.opos import AccountYear, Item, OpeningLeg, OpenKonto, twins_of_account
from kontobahn.money import amount_text

# Opening balances written as a pair: which leg opens the account, and which one only takes the earlier documents out
# again.
#
# A twin is kept as a booking like any other, but no read model counts it: neither for its person account nor for the
# carry-over account on its other side. So a pair and a single opening balance have the same effect.


ADD_PERIOD = (
    "INSERT INTO books_periods (edition, jahr, konto, periode, soll, haben, anzahl) VALUES (?, ?, ?, ?, ?, ?, ?)"
    " ON CONFLICT (edition, jahr, konto, periode) DO UPDATE SET"
    " soll = books_periods.soll + excluded.soll, haben = books_periods.haben + excluded.haben,"
    " anzahl = books_periods.anzahl + excluded.anzahl"
)
ADD_OPENING = (
    "INSERT INTO books_openings (edition, konto, jahr, booking, betrag, gegenkonto, beleg, is_reversal, is_twin)"
    " VALUES (?, ?, ?, ?, ?, ?, ?, ?, 0)"
)
_MIXED = (
    "SELECT DISTINCT konto FROM (SELECT konto FROM books_openings WHERE edition = ? AND konto {any}"
    " GROUP BY konto, jahr HAVING MIN(betrag) < 0 AND MAX(betrag) > 0) mixed"
)


def settle_twins(tx: Statements, edition: int, konten: Iterable[str]) -> dict[str, set[str]]:
    """Decides again about the pairs of these accounts. Returns year → the accounts whose opening balance changed by it."""
    changed: dict[str, set[str]] = {}
    for some, placeholders in chunked(sorted(konten)):
        for (konto,) in tx.all(_MIXED.format(any=placeholders), edition, *some):
            for leg in _changed_legs(tx, edition, konto):
                _count(tx, edition, konto, leg)
                changed.setdefault(leg.jahr, set()).update((konto, leg.gegenkonto))
    return changed


def reset_twins(tx: Statements, edition: int, konten: Iterable[str]) -> dict[str, set[str]]:
    """Counts every twin of these accounts as an opening again. Returns year → the accounts whose opening balance changed by it."""
    changed: dict[str, set[str]] = {}
    for some, placeholders in chunked(sorted(konten)):
        for konto, *leg in tx.all(
            "SELECT konto, jahr, booking, betrag, gegenkonto, beleg, is_reversal FROM books_openings"
            f" WHERE edition = ? AND is_twin = 1 AND konto {placeholders}",
            edition, *some,
        ):  # fmt: skip
            twin = OpeningLeg._make((*leg, 0))
            _count(tx, edition, konto, twin)
            changed.setdefault(twin.jahr, set()).update((konto, twin.gegenkonto))
    return changed


def _changed_legs(tx: Statements, edition: int, konto: str) -> list[OpeningLeg]:
    """Returns the legs whose mark was wrong until now, with the right one."""
    legs = [
        OpeningLeg._make(row)
        for row in tx.all(
            "SELECT jahr, booking, betrag, gegenkonto, beleg, is_reversal, is_twin FROM books_openings"
            " WHERE edition = ? AND konto = ?",
            edition, konto,
        )
    ]  # fmt: skip
    years = [
        AccountYear._make(row)
        for row in tx.all(
            "SELECT jahr, eb, eb_text, bewegung FROM books_item_years WHERE edition = ? AND konto = ?", edition, konto
        )
    ]
    found = twins_of_account(years, legs)
    return [leg._replace(is_twin=int(leg.booking in found)) for leg in legs if leg.is_twin != int(leg.booking in found)]


def _count(tx: Statements, edition: int, konto: str, leg: OpeningLeg) -> None:
    """Takes a twin out of the read models, or puts back a leg that no longer is one."""
    betrag = -leg.betrag if leg.is_twin else leg.betrag
    tx.run(
        "UPDATE books_openings SET is_twin = ? WHERE edition = ? AND konto = ? AND jahr = ? AND booking = ?",
        leg.is_twin, edition, konto, leg.jahr, leg.booking,
    )  # fmt: skip
    tx.run(
        "UPDATE books_item_years SET eb = eb + ? WHERE edition = ? AND konto = ? AND jahr = ?",
        betrag, edition, konto, leg.jahr,
    )  # fmt: skip
    # On the side that it was posted to.
    sides = ((betrag, 0), (0, betrag)) if leg.betrag > 0 else ((0, -betrag), (-betrag, 0))
    for account, side in zip((konto, leg.gegenkonto), sides, strict=True):
        tx.run(ADD_PERIOD, edition, leg.jahr, account, EB_PERIOD, *side, 0)


# The tables of an edition: the columns that lead to a row, and the rest.
TABLES = {
    "books_periods": ("jahr, konto, periode", "soll, haben, anzahl"),
    "books_balances": ("jahr, konto", "wire"),
    "books_items": ("konto, beleg", "soll, haben, is_open, belegdatum, buchungstext, steuer, rechnung"),
    "books_discounts": ("konto, beleg, booking", "steuer, aufteilung, gebucht"),
    "books_open_accounts": ("konto", "saldo, wire"),
    "books_item_years": ("konto, jahr", "eb, eb_text, bewegung"),
    "books_openings": ("konto, jahr, booking", "betrag, gegenkonto, beleg, is_reversal, is_twin"),
    "books_carry_rests": ("jahr, konto", "rest"),
}

# An item has the date and text of its earliest leg, in whatever order the legs arrive.
_EARLIER = "(excluded.belegdatum, excluded.buchungstext) < (books_items.belegdatum, books_items.buchungstext)"
_ADD_ITEM = (
    "INSERT INTO books_items (edition, konto, beleg, soll, haben, is_open, belegdatum, buchungstext, rechnung, steuer)"
    " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
    " ON CONFLICT (edition, konto, beleg) DO UPDATE SET"
    " soll = books_items.soll + excluded.soll, haben = books_items.haben + excluded.haben,"
    " is_open = CASE WHEN books_items.soll + excluded.soll = books_items.haben + excluded.haben THEN 0 ELSE 1 END,"
    f" belegdatum = CASE WHEN {_EARLIER} THEN excluded.belegdatum ELSE books_items.belegdatum END,"
    f" buchungstext = CASE WHEN {_EARLIER} THEN excluded.buchungstext ELSE books_items.buchungstext END,"
    " rechnung = CASE WHEN books_items.rechnung = ''"
    " OR (excluded.rechnung <> '' AND excluded.rechnung < books_items.rechnung) THEN excluded.rechnung ELSE books_items.rechnung END,"
    " steuer = CASE WHEN books_items.steuer = '' THEN excluded.steuer"
    f" WHEN excluded.steuer = '' OR excluded.steuer = books_items.steuer THEN books_items.steuer ELSE '{MIXED}' END"
)
_ADD_ITEM_YEAR = (
    "INSERT INTO books_item_years (edition, konto, jahr, eb, eb_text, bewegung) VALUES (?, ?, ?, ?, ?, ?)"
    " ON CONFLICT (edition, konto, jahr) DO UPDATE SET eb = books_item_years.eb + excluded.eb,"
    " eb_text = CASE WHEN books_item_years.eb_text = ''"
    " OR (excluded.eb_text <> '' AND excluded.eb_text < books_item_years.eb_text)"
    " THEN excluded.eb_text ELSE books_item_years.eb_text END,"
    " bewegung = books_item_years.bewegung + excluded.bewegung"
)
_REST = "SUM(CASE WHEN jahr = ? THEN eb ELSE 0 END) {0} SUM(CASE WHEN jahr < ? THEN bewegung ELSE 0 END)"
_RESTS = (
    f"INSERT INTO books_carry_rests (edition, jahr, konto, rest) SELECT edition, ?, konto, {_REST.format('-')}"
    f" FROM books_item_years WHERE edition = ?{{narrowed}} GROUP BY edition, konto HAVING {_REST.format('<>')}"
)


class Block:
    """Bookings that are not written yet, and what they add to the read models."""

    def __init__(self) -> None:
        # Rows of books_bookings, books_item_moves and books_cash_rows; of books_openings and books_discounts without the edition.
        self.bookings: list[tuple[Any, ...]] = []
        # The first number and the last, and the places of the bookings among them that are copied from those that they reverse.
        self.numbers = (0, 0)
        self.reversals: list[tuple[int, int, str, str, str, str]] = []
        self.moves: list[tuple[Any, ...]] = []
        self.cash_rows: list[tuple[Any, ...]] = []
        self.openings: list[tuple[Any, ...]] = []
        self.discounts: list[tuple[Any, ...]] = []
        self.cash_days: Days = {}
        # (account, period) → debit, credit, number of legs; (account, document) → debit, credit, (date, text), first invoice, tax.
        self.periods: dict[tuple[str, int], list[int]] = {}
        self.items: dict[tuple[str, str], list[Any]] = {}
        # Person account → opening balance, its text and movements.
        self.years: dict[str, list[Any]] = {}

    def changes(self, edition: int, jahr: str) -> list[Change]:
        """Returns what writes it, in the order of the keys, so that neighbours are changed together."""
        periods, items, years = self.periods, self.items, self.years
        # Keys alone are sorted in half the time of keys with values.
        of_periods = [(edition, jahr, *key, *periods[key]) for key in sorted(periods)]
        of_items = []
        for key in sorted(items):
            soll, haben, first, rechnung, steuer = items[key]
            of_items.append((edition, *key, soll, haben, int(soll != haben), *first, rechnung, steuer))
        of_years = [(edition, konto, jahr, *years[konto]) for konto in sorted(years)]
        return [
            added_openings(edition, self.openings),
            added_discounts(edition, self.discounts),
            Change(ADD_PERIOD, of_periods),
            Change(_ADD_ITEM, of_items),
            Change(_ADD_ITEM_YEAR, of_years),
        ]


class Change(NamedTuple):
    """A statement, and the rows that it is executed for."""

    sql: str
    rows: list[tuple[Any, ...]]


def write(tx: Statements, changes: Iterable[Change]) -> None:
    for sql, rows in changes:
        tx.many(sql, rows)


def added_openings(edition: int, openings: Iterable[tuple[Any, ...]]) -> Change:
    return Change(ADD_OPENING, [(edition, *opening) for opening in sorted(openings)])


def added_discounts(edition: int, discounts: Iterable[tuple[Any, ...]]) -> Change:
    return Change(_ADD_DISCOUNT, [(edition, *discount, discount[-1]) for discount in sorted(discounts)])


def settle(
    tx: Statements, client: Client, edition: int, jahr: str, persons: set[str], moved: set[str], carried: list[str]
) -> None:
    """Updates everything that follows: for person accounts all of it, for accounts that moved their line of the trial balance."""
    changed = settle_twins(tx, edition, persons)
    for start, konten in settle_discounts(tx, client, edition, persons).items():
        changed.setdefault(start, set()).update(konten)
    settle_rests(tx, edition, carried, persons)
    settle_open_accounts(tx, edition, persons)
    changed.setdefault(jahr, set()).update(moved)
    for start, konten in changed.items():
        settle_balances(tx, edition, start, konten)


def settle_rests(tx: Statements, edition: int, carried: list[str], konten: set[str] | None) -> None:
    """Recomputes the rests of carried years, for these accounts or for all."""
    if konten is None:
        tx.run("DELETE FROM books_carry_rests WHERE edition = ?", edition)
        for jahr in carried:
            tx.run(_RESTS.format(narrowed=""), jahr, jahr, jahr, edition, jahr, jahr)
        return
    ordered = sorted(konten)
    tx.many("DELETE FROM books_carry_rests WHERE edition = ? AND konto = ?", [(edition, konto) for konto in ordered])
    for jahr in carried:
        given = [(jahr, jahr, jahr, edition, konto, jahr, jahr) for konto in ordered]
        tx.many(_RESTS.format(narrowed=" AND konto = ?"), given)


def set_carried(tx: Statements, mandant: int, jahr: str) -> bool:
    """Marks the year as carried. Returns whether it was not before."""
    return bool(
        tx.run("UPDATE books_years SET has_eb = 1 WHERE mandant = ? AND jahr = ? AND has_eb = 0", mandant, jahr)
    )


def carried_years(tx: Statements, mandant: int) -> list[str]:
    return [
        jahr
        for (jahr,) in tx.all("SELECT jahr FROM books_years WHERE mandant = ? AND has_eb = 1 ORDER BY jahr", mandant)
    ]


# --- Discounts, which follow the tax of their document whatever came first


_ADD_DISCOUNT = "INSERT INTO books_discounts (edition, konto, beleg, booking, steuer, aufteilung, gebucht) VALUES (?, ?, ?, ?, ?, ?, ?)"
_SATZ = ", ".join(f"b.{name}" for name in Satz._fields)
# Those that were split by another tax than their document has now.
_OUTDATED = (
    f"SELECT d.konto, d.beleg, d.booking, i.steuer, d.aufteilung, b.jahr, b.periode, {_SATZ} FROM books_discounts d"
    " JOIN books_items i ON i.edition = d.edition AND i.konto = d.konto AND i.beleg = d.beleg AND i.steuer <> d.steuer"
    " JOIN books_bookings b ON b.mandant = ? AND b.id = d.booking"
    f" WHERE d.edition = ? AND d.konto {IS_ONE_OF_A_CHUNK}"
)
_ONE_DISCOUNT = (
    f"SELECT d.aufteilung, d.gebucht, b.jahr, b.periode, {_SATZ} FROM books_discounts d"
    " JOIN books_bookings b ON b.mandant = ? AND b.id = d.booking"
    " WHERE d.edition = ? AND d.konto = ? AND d.beleg = ? AND d.booking = ?"
)


def present_split(edition: int, booking: str = "books_bookings") -> str:
    """Returns the column of the split that holds now: of a discount perhaps another than it was posted with. Reads one row by its key."""
    return (
        f"CASE WHEN SUBSTR({booking}.aufteilung, 1, 1) = '{SKONTO}' THEN COALESCE((SELECT d.aufteilung FROM books_discounts d"
        f" WHERE d.edition = {edition} AND d.konto = CASE WHEN LENGTH({booking}.konto) = {PERSONENKONTO_DIGITS} THEN {booking}.konto"
        f" ELSE {booking}.gegenkonto END AND d.beleg = {booking}.belegfeld1 AND d.booking = {booking}.id), {booking}.aufteilung)"
        f" ELSE {booking}.aufteilung END"
    )


class _Resplit:
    """Moves sums of the trial balance from one split of a booking to another."""

    def __init__(self, client: Client) -> None:
        self._rahmen = client.rahmen
        self._sums: dict[tuple[str, str, int], list[int]] = {}

    def add(self, jahr: str, periode: int, satz: Satz, before: str, after: str) -> None:
        for text, sign in ((before, -1), (after, 1)):
            for konto, betrag in legs_of(self._rahmen, satz, text):
                sums = self._sums.setdefault((jahr, konto, periode), [0, 0, 0])
                if (betrag > 0) != bool(satz.generalumkehr):
                    sums[0] += sign * betrag
                else:
                    sums[1] -= sign * betrag
                sums[2] += sign

    def write(self, tx: Statements, edition: int) -> dict[str, set[str]]:
        """Returns year → the accounts whose sums changed."""
        changed = {key: sums for key, sums in sorted(self._sums.items()) if any(sums)}
        tx.many(ADD_PERIOD, [(edition, *key, *sums) for key, sums in changed.items()])
        found: dict[str, set[str]] = {}
        for jahr, konto, _ in changed:
            found.setdefault(jahr, set()).add(konto)
        return found


def settle_discounts(tx: Statements, client: Client, edition: int, konten: Iterable[str]) -> dict[str, set[str]]:
    """Splits the discounts of these accounts again whose document has another tax now. Returns year → accounts that changed by it."""
    resplit, splits = _Resplit(client), []
    for some, _ in chunked(sorted(konten)):
        for konto, beleg, booking, steuer, before, jahr, periode, *values in tx.all(
            _OUTDATED, client.mandant, edition, *some
        ):
            satz = Satz._make(values)
            after = discount_split(client.rahmen, satz, steuer).text
            resplit.add(jahr, periode, satz, before, after)
            splits.append((steuer, after, edition, konto, beleg, booking))
    tx.many(
        "UPDATE books_discounts SET steuer = ?, aufteilung = ? WHERE edition = ? AND konto = ? AND beleg = ? AND booking = ?",
        splits,
    )
    return resplit.write(tx, edition)


def release_discounts(
    tx: Statements, client: Client, edition: int, discounts: Iterable[tuple[str, str, int]]
) -> dict[str, set[str]]:
    """Splits these discounts as they were when they were posted, for ever: they are taken back. Returns as above."""
    resplit, keys = _Resplit(client), [(edition, *discount) for discount in sorted(discounts)]
    for rows in tx.each(_ONE_DISCOUNT, [(client.mandant, *key) for key in keys]):
        for before, posted, jahr, periode, *values in rows:
            resplit.add(jahr, periode, Satz._make(values), before, posted)
    tx.many("DELETE FROM books_discounts WHERE edition = ? AND konto = ? AND beleg = ? AND booking = ?", keys)
    return resplit.write(tx, edition)


# --- Texts of answers


# An account with more open items is read item by item: its text would be too long to rewrite with each booking.
MAX_STORED_ITEMS = 1_000

_OPEN_ITEMS = (
    "SELECT konto, beleg, soll, haben, belegdatum, buchungstext FROM books_items WHERE edition = ? AND is_open = 1"
    f" AND konto {IS_ONE_OF_A_CHUNK}"
)
_PERIODS = (
    f"SELECT konto, periode, soll, haben, anzahl FROM books_periods WHERE edition = ? AND jahr = ? AND konto {IS_ONE_OF_A_CHUNK}"
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


def open_items_of(tx: Statements, edition: int, konten: Iterable[str]) -> Iterator[dict[str, list[Item]]]:
    """Yields account → its open items, some accounts at a time; accounts without any are included."""
    for some, _ in chunked(sorted(konten)):
        found: dict[str, list[Item]] = {konto: [] for konto in some}
        for konto, *item in tx.all(_OPEN_ITEMS, edition, *some):
            found[konto].append(Item._make(item))
        yield found


def settle_open_accounts(tx: Statements, edition: int, konten: Iterable[str]) -> None:
    for found in open_items_of(tx, edition, konten):
        kept = {konto: stored_konto(konto, items) for konto, items in found.items()}
        closed = [(edition, konto) for konto, row in kept.items() if row is None]
        if closed:
            tx.many("DELETE FROM books_open_accounts WHERE edition = ? AND konto = ?", closed)
        listed = [(edition, *row) for row in kept.values() if row is not None]
        if listed:
            tx.many(_PUT_OPEN_ACCOUNT, listed)


def stored_konto(konto: str, items: list[Item]) -> OpenKonto | None:
    """Returns the row of an account as it is stored, or None if it has no open items."""
    found = opos.open_konto(konto, items)
    if found is None or len(items) <= MAX_STORED_ITEMS:
        return found
    return (*found[:2], "")


def settle_balances(tx: Statements, edition: int, jahr: str, konten: Iterable[str]) -> None:
    for some, _ in chunked(sorted(konten)):
        rows = tx.all(_PERIODS, edition, jahr, *some)
        if not all(row[-1] for row in rows):
            rows = _without_empty(tx, edition, jahr, rows)
        lines = [
            (edition, jahr, konto, susa_text(konto, [row[1:4] for row in of_konto]))
            for konto, of_konto in groupby(rows, key=itemgetter(0))
        ]
        tx.many(_PUT_BALANCE, lines)


def _without_empty(tx: Statements, edition: int, jahr: str, rows: list[Row]) -> list[Row]:
    """Removes sums behind which no leg is left, and the lines of accounts that have no others. Returns the rest."""
    left = [row for row in rows if any(row[2:])]
    tx.many(
        "DELETE FROM books_periods WHERE edition = ? AND jahr = ? AND konto = ? AND periode = ?",
        [(edition, jahr, konto, periode) for konto, periode, *sums in rows if not any(sums)],
    )
    gone = {row[0] for row in rows} - {row[0] for row in left}
    tx.many(
        "DELETE FROM books_balances WHERE edition = ? AND jahr = ? AND konto = ?",
        [(edition, jahr, konto) for konto in sorted(gone)],
    )
    return left


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
