"""The cash report: every booking on a cash book's account, day by day, with the balance after each.

Entries of the cash book have a number, in the order of entry; bookings of files and calls have none. Both are listed by their day, and
within a day in the order in which they were booked, so that the balance is that of the account: opening, rows and closing of any span
of days add up. The opening balance of a fiscal year is part of the opening of a span that begins with it. Within a longer span it is
a row of its own where it changes the balance.
"""

from __future__ import annotations

from datetime import date
from typing import Any, NamedTuple

from kontobahn import money
from kontobahn.books import cash_book, cash_days
from kontobahn.books.cash_book import ENTRIES, EntryRow, Filing, decode_record, find_cash_book
from kontobahn.books.satz import EB_PERIOD, EB_TEXT, Satz, legs_of
from kontobahn.books.store import LAST_BOOKING, Client, years
from kontobahn.clock import to_datetime
from kontobahn.db import Tx, chunked
from kontobahn.errors import BadRequest
from kontobahn.ledger.kassenbuch import Belegbild, CashReport, KassenbuchSelection, Kassenbuchzeile, Kostenstelle
from kontobahn.ledger.kontierung import full
from kontobahn.ledger.konto import SALDENVORTRAEGE, functional
from kontobahn.sentences import said

_NO_LIMIT = 1_000_000_000_000
_SATZ = ", ".join(f"b.{name}" for name in Satz._fields)
_ROWS = (
    f"SELECT b.id, t.created_at, b.aufteilung, {_SATZ}, {ENTRIES.columns_of('e')} FROM books_cash_rows r"
    " JOIN books_bookings b ON b.mandant = r.mandant AND b.id = r.booking"
    " JOIN books_batches t ON t.mandant = b.mandant AND t.id = b.batch"
    " LEFT JOIN books_cash_entries e ON e.mandant = r.mandant AND e.booking = r.booking AND e.kassenname = r.kassenname"
    " WHERE r.mandant = ? AND r.kassenname = ? AND (r.datum, r.booking) > (?, ?) AND r.datum <= ? AND +r.booking <= ?"
    f" AND +r.booking <= {LAST_BOOKING} ORDER BY r.datum, r.booking LIMIT ?"
)
# The movements of a day up to a booking, and no more: a day may have many before the page that is asked for.
_OF_DAY = (
    f"SELECT b.aufteilung, {_SATZ} FROM books_cash_rows r JOIN books_bookings b ON b.mandant = r.mandant AND b.id = r.booking"
    f" WHERE r.mandant = ? AND r.kassenname = ? AND r.datum = ? AND r.booking <= ? AND +r.booking <= {LAST_BOOKING}"
)
_OPENINGS_OF_DAY = f"{_OF_DAY} AND b.periode = {EB_PERIOD}"
_FIRST_DAY, _LAST_DAY = date.min.isoformat(), date.max.isoformat()


class _Place(NamedTuple):
    """A place in the list: the row of this booking on this day, or what a day begins with if it is 0."""

    datum: str
    booking: int


class _Row(NamedTuple):
    place: _Place
    betrag: int
    # None if it is the opening balance of a year.
    satz: Satz | None = None
    # None if it is no entry of the cash book.
    entry: EntryRow | None = None
    created_at: int = 0
    # The balance after it.
    saldo: int = 0

    @property
    def nummer(self) -> int:
        return 0 if self.entry is None else self.entry.nummer


def report(tx: Tx, client: Client, selection: KassenbuchSelection) -> CashReport:
    """Returns the rows that are asked for, and what they begin and end with; these are None in the order of the numbers."""
    walk = _Walk(tx, client, selection.kassenname)
    first = selection.from_date.isoformat() if selection.from_date else _FIRST_DAY
    last = selection.to_date.isoformat() if selection.to_date else _LAST_DAY
    limit = selection.limit or _NO_LIMIT
    if selection.sort == "nummer":
        entries = ENTRIES.all(
            tx, "mandant = ? AND kassenname = ? AND nummer > ? AND datum >= ? AND datum <= ? ORDER BY nummer LIMIT ?",
            client.mandant, selection.kassenname, _number(selection.from_id), first, last, limit,
        )  # fmt: skip
        return CashReport(_answered(walk, _of_entries(walk, entries)), None, None)
    opening = walk.begin(first, _place(tx, client, selection))
    rows = walk.rows(last, limit)
    closing = rows[-1].saldo if rows else opening
    return CashReport(_answered(walk, rows), money.to_wire(opening), money.to_wire(closing))


def zeile(tx: Tx, client: Client, kassenname: str, nummer: int) -> Kassenbuchzeile:
    """Returns one entry."""
    walk = _Walk(tx, client, kassenname)
    entries = ENTRIES.all(tx, "mandant = ? AND kassenname = ? AND nummer = ?", client.mandant, kassenname, nummer)
    return _answered(walk, _of_entries(walk, entries))[0]


def _of_entries(walk: _Walk, entries: list[EntryRow]) -> list[_Row]:
    """Returns the rows of these entries, each with the balance after it on its day."""
    found: dict[int, _Row] = {}
    for day in sorted({entry.datum for entry in entries}):
        bookings = [entry.booking for entry in entries if entry.datum == day]
        walk.begin(day, _Place(day, min(bookings) - 1))
        found.update((row.nummer, row) for row in walk.rows(day, _NO_LIMIT, max(bookings)))
    return [found[entry.nummer] for entry in entries]


def _number(from_id: str) -> int:
    if from_id and not (from_id.isascii() and from_id.isdigit() and len(from_id) < 19):
        raise BadRequest("The field `from_id` must be the number of an entry here.", field="from_id")
    return int(from_id or 0)


def _place(tx: Tx, client: Client, selection: KassenbuchSelection) -> _Place | None:
    """Returns where the list goes on. Raises BadRequest if there is no such entry."""
    day, _, booking = selection.from_id.partition(".")
    if booking.isascii() and booking.isdigit() and len(booking) < 19:
        return _Place(day, int(booking))
    nummer = _number(selection.from_id)
    if nummer == 0:
        return None
    entry = ENTRIES.one(
        tx, "mandant = ? AND kassenname = ? AND nummer = ?", client.mandant, selection.kassenname, nummer
    )
    if entry is None:
        raise BadRequest(
            said("The field `from_id`: the cash book has no entry {number}.", number=nummer), field="from_id"
        )
    return _Place(entry.datum, entry.booking)


class _Walk:
    """Goes through the rows of a cash book and keeps the balance."""

    def __init__(self, tx: Tx, client: Client, kassenname: str) -> None:
        self.tx, self.client, self.kassenname = tx, client, kassenname
        self.konto = find_cash_book(tx, client, kassenname).konto
        self._openings = cash_days.openings(tx, client, kassenname)
        self._years = sorted({*(jahr.start for jahr in years(tx, client)), *self._openings})
        self._after = _Place(_FIRST_DAY, 0)
        self._saldo = 0

    def begin(self, first: str, after: _Place | None) -> int:
        """Goes to the first of these days, or after this place if that is later, and returns the balance there."""
        if after is None or after.datum < first:
            after = _Place(first, 0)
        self._after = after
        self._saldo = self._balance_before(after.datum)
        if after.datum in self._years:
            self._saldo += self._carried_over(after.datum)
        if after.booking:
            self._saldo += self._sum(_OF_DAY, after.datum, after.booking)
        return self._saldo

    def rows(self, last: str, limit: int, last_booking: int = _NO_LIMIT) -> list[_Row]:
        """Returns the rows up to this day, and of bookings up to this one."""
        read = self._read(self._after, last, limit, last_booking)
        to_come = [jahr for jahr in self._years if self._after.datum < jahr <= last]
        found: list[_Row] = []
        for row in read:
            while to_come and to_come[0] <= row.place.datum:
                self._carry_over(to_come.pop(0), found)
            self._add(row, found)
        if len(read) < limit:
            for jahr in to_come:
                self._carry_over(jahr, found)
        return found[:limit]

    def _add(self, row: _Row, found: list[_Row]) -> None:
        self._saldo += row.betrag
        found.append(row._replace(saldo=self._saldo))

    def _carry_over(self, jahr: str, found: list[_Row]) -> None:
        betrag = self._carried_over(jahr)
        if betrag:
            self._add(_Row(_Place(jahr, 0), betrag), found)

    def _carried_over(self, jahr: str) -> int:
        """Returns by how much the year's opening balance changes the balance, apart from entries of the cash book that open it."""
        before = self._balance_before(jahr)
        entered = self._sum(_OPENINGS_OF_DAY, jahr, _NO_LIMIT)
        return self._openings.get(jahr, before) - entered - before

    def _balance_before(self, day: str) -> int:
        return cash_days.balance_before(self.tx, self.client, self.kassenname, day)

    def _sum(self, sql: str, day: str, last_booking: int) -> int:
        rows = self.tx.all(sql, self.client.mandant, self.kassenname, day, last_booking, self.client.mandant)
        return sum(self._amount(Satz._make(values), aufteilung) for aufteilung, *values in rows)

    def _amount(self, satz: Satz, aufteilung: str) -> int:
        return sum(betrag for konto, betrag in legs_of(self.client.rahmen, satz, aufteilung) if konto == self.konto)

    def _read(self, after: _Place, last: str, limit: int, last_booking: int) -> list[_Row]:
        mandant, width = self.client.mandant, len(Satz._fields)
        rows = []
        for booking, created_at, aufteilung, *values in self.tx.all(
            _ROWS, mandant, self.kassenname, *after, last, last_booking, mandant, limit
        ):
            satz = Satz._make(values[:width])
            betrag = self._amount(satz, aufteilung)
            entry = EntryRow._make(values[width:]) if values[width] is not None else None
            rows.append(_Row(_Place(satz.belegdatum, booking), betrag, satz, entry, created_at))
        return rows


# --- As answers


def _answered(walk: _Walk, rows: list[_Row]) -> list[Kassenbuchzeile]:
    entries = [row.entry for row in rows if row.entry is not None]
    images = cash_book.filings(walk.tx, walk.client, [entry.task for entry in entries])
    reversed_by = _reversals(walk, [entry.nummer for entry in entries])
    found = []
    for row in rows:
        if row.satz is None:
            fields = _of_opening(walk.client)
        elif row.entry is None:
            fields = _of_booking(walk, row, row.satz)
        else:
            fields = _of_entry(row.entry, images.get(row.entry.task, []), reversed_by.get(row.nummer))
        found.append(
            Kassenbuchzeile(
                id=f"{row.place.datum}.{row.place.booking}",
                datum=date.fromisoformat(row.place.datum),
                betrag=money.to_wire(row.betrag),
                saldo=money.to_wire(row.saldo),
                buchungId=str(row.place.booking) if row.place.booking else None,
                **fields,
            )
        )
    return found


def _reversals(walk: _Walk, numbers: list[int]) -> dict[int, int]:
    """Returns entry → the entry that reverses it."""
    found: dict[int, int] = {}
    for some, is_one in chunked(numbers):
        rows = walk.tx.all(
            f"SELECT storno_von, nummer FROM books_cash_entries WHERE mandant = ? AND kassenname = ? AND storno_von {is_one}",
            walk.client.mandant, walk.kassenname, *some,
        )  # fmt: skip
        found.update(dict(rows))
    return found


def _of_entry(entry: EntryRow, filed: list[Filing], reversed_by: int | None) -> dict[str, Any]:
    record = decode_record(entry.record)
    images = [
        Belegbild(
            id=image.id, dateiname=image.dateiname, groesse=image.groesse, mimeTyp=image.mime_typ, sha256=image.sha256
        )
        for image in filed
    ]
    return {
        "art": "EINTRAG",
        "nummer": entry.nummer,
        "belegtext": record.belegtext,
        "gegenkonto": record.gegenkonto,
        "belegnummer": record.belegnummer,
        "buSchluessel": record.bu_schluessel,
        "kostenstellen": _kostenstellen(record.kost1, record.kost2),
        "belegbilder": images,
        "gebuchtAm": to_datetime(record.gebucht_am),
        "stornoVon": entry.storno_von,
        "storniertDurch": reversed_by,
    }


def _of_booking(walk: _Walk, row: _Row, satz: Satz) -> dict[str, Any]:
    gegenkonto = satz.gegenkonto if satz.konto == walk.konto else satz.konto
    return {
        "art": "BUCHUNG",
        "belegtext": satz.buchungstext,
        "gegenkonto": functional(gegenkonto, walk.client.konto_laenge),
        "belegnummer": satz.belegfeld1 or None,
        "buSchluessel": satz.bu_schluessel or None,
        "kostenstellen": _kostenstellen(satz.kost1, satz.kost2),
        "gebuchtAm": to_datetime(row.created_at),
    }


def _of_opening(client: Client) -> dict[str, Any]:
    gegenkonto = functional(full(SALDENVORTRAEGE[0]), client.konto_laenge)
    return {"art": "SALDOVORTRAG", "belegtext": EB_TEXT, "gegenkonto": gegenkonto}


def _kostenstellen(*names: str | None) -> list[Kostenstelle]:
    return [Kostenstelle(name=name) for name in names if name]
