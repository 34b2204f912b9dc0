"""Account sheets: the bookings with a leg on an account, found by index, so that a page costs what it shows.

A booking leads to an account in three ways: as Konto, as Gegenkonto, or by its split (tax and discounts). Each has an index in the
order of a sheet: period, day, booking. The balance before a page is that of the periods before it, which are kept, and of the lines
before it in its own period.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date
from typing import Any, NamedTuple

from kontobahn.books.read_models import present_split
from kontobahn.books.satz import EB_PERIOD, Satz, legs_of
from kontobahn.books.store import LAST_BOOKING, Client, edition_of, year_of_start
from kontobahn.db import Tx
from kontobahn.errors import BadRequest
from kontobahn.ledger.kontierung import PLAIN, contra_accounts, is_discount, splits_onto
from kontobahn.ledger.kontoblatt import AccountSheet, SheetLine, SheetSelection

_CHUNK = 5_000
# After every other one.
_LAST_PERIOD, _LAST_DAY = 99, "~"
# A twin of an opening balance counts nowhere.
_IS_TWIN = (
    "EXISTS (SELECT 1 FROM books_openings AS o WHERE o.edition = ? AND o.konto IN (b.konto, b.gegenkonto)"
    " AND o.jahr = b.jahr AND o.booking = b.id AND o.is_twin = 1)"
)
_SIDE = (
    "SELECT s.id FROM (SELECT b.id FROM books_bookings AS b WHERE b.mandant = ? AND b.jahr = ? AND {}"
    " AND (b.periode, b.belegdatum, b.id) > (?, ?, ?) AND (b.periode, b.belegdatum, b.id) <= (?, ?, ?)"
    f" AND +b.id <= {LAST_BOOKING}"
    f" AND NOT (b.periode = {EB_PERIOD} AND {_IS_TWIN}) ORDER BY b.periode, b.belegdatum, b.id LIMIT ?) AS s"
)
_KONTO, _GEGENKONTO = _SIDE.format("b.konto = ?"), _SIDE.format("b.gegenkonto = ?")
# As the partial index says it.
_SPLIT = _SIDE.format(f"b.aufteilung = ? AND b.aufteilung <> '{PLAIN}'")
# Discounts that are split otherwise than they were posted, since their invoice came.
_CHANGED = _SIDE.format(
    "b.id IN (SELECT d.booking FROM books_discounts AS d WHERE d.edition = ? AND d.aufteilung = ? AND d.aufteilung <> d.gebucht)"
)
_BOOKINGS = (
    f"SELECT id, periode, {{split}}, {', '.join(Satz._fields)} FROM books_bookings WHERE mandant = ? AND id IN ({{sides}})"
    " ORDER BY periode, belegdatum, id LIMIT ?"
)
_BALANCE_BEFORE = (
    "SELECT SUM(soll - haben) FROM books_periods WHERE edition = ? AND jahr = ? AND konto = ? AND periode < ?"
)


class Place(NamedTuple):
    """The place of a booking in the order of a sheet."""

    periode: int
    belegdatum: str
    booking: int

    def __str__(self) -> str:
        return f"{self.periode}.{self.belegdatum}.{self.booking}"

    @classmethod
    def parse(cls, text: str) -> Place:
        periode, _, rest = text.partition(".")
        belegdatum, _, booking = rest.partition(".")
        if not (_is_number(periode) and _is_number(booking)):
            raise BadRequest("The place in the sheet is not one that a page led to.", field="after")
        return cls(int(periode), belegdatum, int(booking))


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) < 19


class _Sheet(NamedTuple):
    tx: Tx
    client: Client
    edition: int
    jahr: str
    konto: str

    def lines(self, after: Place, until: Place, chunk: int, saldo: int) -> Iterator[SheetLine]:
        """Yields the legs after one place and up to another; the balance before them is given. `chunk` bookings are read at once."""
        rahmen, konto = self.client.rahmen, self.konto
        while found := self._bookings(after, until, chunk):
            for place, satz, aufteilung in found:
                contras = contra_accounts(rahmen, aufteilung, konto=satz.konto, gegenkonto=satz.gegenkonto)
                for leg, contra in zip(legs_of(rahmen, satz, aufteilung), contras, strict=False):
                    if leg.konto != konto:
                        continue
                    saldo += leg.betrag
                    # A Generalumkehr reduces turnover on its side instead of adding to the other one.
                    on_debit = (leg.betrag > 0) != bool(satz.generalumkehr)
                    yield SheetLine(
                        str(place), str(place.booking), place.periode, date.fromisoformat(satz.belegdatum),
                        satz.belegfeld1, satz.buchungstext, contra, satz.bu_schluessel,
                        leg.betrag if on_debit else 0, 0 if on_debit else -leg.betrag, saldo,
                    )  # fmt: skip
            if len(found) < chunk:
                return
            after = found[-1][0]

    def _bookings(self, after: Place, until: Place, limit: int) -> list[tuple[Place, Satz, str]]:
        """Returns the bookings that may have a leg on the account, with their splits."""
        splits = splits_onto(self.client.rahmen, self.konto)
        mandant = self.client.mandant
        given: list[Any] = []
        discounts = [split for split in splits if is_discount(split)]
        values = [
            (self.konto,),
            (self.konto,),
            *((split,) for split in splits),
            *((self.edition, split) for split in discounts),
        ]
        for value in values:
            given += [mandant, self.jahr, *value, *after, *until, mandant, self.edition, limit]
        sides = " UNION ".join([_KONTO, _GEGENKONTO, *[_SPLIT] * len(splits), *[_CHANGED] * len(discounts)])
        sql = _BOOKINGS.format(split=present_split(self.edition), sides=sides)
        rows = self.tx.all(sql, mandant, *given, limit)
        booked = ((number, periode, aufteilung, Satz._make(satz)) for number, periode, aufteilung, *satz in rows)
        return [
            (Place(periode, satz.belegdatum, number), satz, aufteilung) for number, periode, aufteilung, satz in booked
        ]

    def balance_at(self, place: Place) -> int:
        """Returns the balance after the booking at this place."""
        row = self.tx.one(_BALANCE_BEFORE, self.edition, self.jahr, self.konto, place.periode)
        saldo = int(row[0] or 0) if row is not None else 0
        if place.booking:
            for line in self.lines(Place(place.periode, "", 0), place, _CHUNK, saldo):
                saldo = line.saldo
        return saldo


def page(tx: Tx, client: Client, selection: SheetSelection) -> AccountSheet:
    only, limit = selection.periode, selection.limit
    year = year_of_start(tx, client, selection.jahr)
    sheet = _Sheet(tx, client, edition_of(tx, client), year.start, selection.konto)
    after = Place.parse(selection.after) if selection.after else Place(only or EB_PERIOD, "", 0)
    until = Place(_LAST_PERIOD if only is None else only, _LAST_DAY, 0)
    saldo = sheet.balance_at(after)
    lines: list[SheetLine] = []
    places: dict[str, None] = {}
    for line in sheet.lines(after, until, limit + 1, saldo):
        if line.place not in places and len(places) == limit:
            return AccountSheet(saldo, lines, lines[-1].place)
        places[line.place] = None
        lines.append(line)
    return AccountSheet(saldo, lines, None)
