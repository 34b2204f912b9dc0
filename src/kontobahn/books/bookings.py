"""Bookings by call: booked, with the rules and warnings of a file, all of them or none; and listed."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, date, datetime
from typing import Any, NamedTuple

from kontobahn import money
from kontobahn.books import batches, cash_days, posting
from kontobahn.books.batches import Protocol
from kontobahn.books.duplicates import WAY_OUT_OF_CALL, BookedRows, Lookalikes, LooksBooked
from kontobahn.books.read_models import present_split
from kontobahn.books.satz import EB_PERIOD, Satz, legs_of
from kontobahn.books.store import (
    LAST_BOOKING,
    STANDING,
    SUCCESS,
    Client,
    FiscalYear,
    edition_of,
    find_konto,
    lock_years,
    save_task,
    year_of_start,
    years,
)
from kontobahn.clock import to_datetime
from kontobahn.db import Table, Tx
from kontobahn.errors import BadRequest, Conflict
from kontobahn.formats.extf import RowWarning, unusual_belegfeld1
from kontobahn.ids import new_id
from kontobahn.ledger.buchungen import (
    AccountBooking,
    Buchung,
    Buchungszeile,
    DocumentBookings,
    GebuchteBuchungen,
    Kostenstellen,
    NeueBuchung,
    cents,
    further_columns,
)
from kontobahn.ledger.kontierung import Hint, KontierungError, contra_accounts, is_discount, splits_onto
from kontobahn.ledger.konto import is_personenkonto
from kontobahn.ledger.provider import Author
from kontobahn.ledger.steuer import is_reversal
from kontobahn.ledger.wire import AccountSheet, Information, LedgerErgebnis, Meldung, SheetLine, SheetSelection
from kontobahn.sentences import said

_FIELDS = {"BU-Schlüssel": "buSchluessel", "Gegenkonto": "gegenkonto", "Konto": "konto", "Skonto": "skonto"}
_BELEGFELD1 = "Belegfeld 1 „{}“ hat Zeichen, die DATEV dort nicht kennt; es wurde so übernommen."


class _Findings(NamedTuple):
    """Findings about the bookings: line by line, and as messages of the contract."""

    protocol: Protocol
    meldungen: list[str]

    def add(self, number: int, satz: Satz, hint: Hint | None) -> None:
        """Adds what a file would be warned about in such a row."""
        belegfeld1 = unusual_belegfeld1(number, satz.belegfeld1)
        if belegfeld1 is not None:
            self.protocol.add(belegfeld1)
            self.meldungen.append(f"Buchung {number}: {_BELEGFELD1.format(satz.belegfeld1)}")
        if hint is not None:
            self.protocol.add(RowWarning(number, *hint[:3]))
            self.meldungen.append(f"Buchung {number}: {hint.meldung}")


class _Numbered(NamedTuple):
    """A booking with its place in the body."""

    number: int
    satz: Satz


def book(
    tx: Tx, client: Client, buchungen: list[NeueBuchung], author: Author, *, another: bool, document: str = ""
) -> GebuchteBuchungen:
    lock_years(tx, client)
    of_year: dict[FiscalYear, list[_Numbered]] = {}
    known = years(tx, client)
    for number, buchung in enumerate(buchungen):
        jahr = _year(known, number, buchung)
        of_year.setdefault(jahr, []).append(_Numbered(number, _as_satz(tx, client, number, buchung, document)))
    findings = _Findings(Protocol(), [])
    ids: dict[int, int] = {}
    made = [
        _book_year(tx, client, jahr, of_year[jahr], author, findings, ids, another=another) for jahr in sorted(of_year)
    ]
    for batch_id in made:
        batches.describe(tx, client, batch_id, 0, findings.protocol)
    return _answer(tx, client, author, [str(ids[number]) for number in range(len(buchungen))], made, findings)


def _book_year(
    tx: Tx, client: Client, jahr: FiscalYear, numbered: list[_Numbered], author: Author, findings: _Findings,
    ids: dict[int, int], *, another: bool,
) -> str:  # fmt: skip
    """Posts the bookings of one fiscal year, and returns their batch."""
    batch = batches.open_batch(
        tx,
        client,
        jahr,
        kind=batches.CALL,
        source=author.quelle,
        author=author.actor,
        sha256=f"call {author.request_id}",
    )
    poster = posting.begin(tx, client, batch)
    booked = BookedRows(tx, client, jahr, poster.before)
    lookalikes, hints = Lookalikes(booked), list[tuple[int, Satz, Hint | None]]()
    likes = {} if another else booked.likes(numbered)
    for number, satz in numbered:
        if number in likes:
            lookalikes.add(number + 1, likes[number], by_call=True)
            continue
        try:
            ids[number] = poster.add(satz)
            hints.append((number + 1, satz, poster.hint))
        except KontierungError as error:
            path = f"buchungen[{number}].{_FIELDS.get(error.field, 'konto')}"
            raise BadRequest(
                said("The field `{path}`: {field} {reason}.", path=path, field=error.field, reason=error.reason),
                field=path,
            ) from None
    if lookalikes.count:
        lookalikes.refuse(findings.protocol)
        raise LooksBooked(lookalikes, findings.protocol, WAY_OUT_OF_CALL)
    poster.finish()
    for number, satz, hint in hints:
        # The invoice of a discount may have followed.
        findings.add(number, satz, poster.final_hint(satz) if hint is not None and satz.skonto else hint)
    for negative in cash_days.negative(tx, client, poster.moved_cash_books):
        findings.protocol.add(cash_days.warning(negative))
        findings.meldungen.append(cash_days.meldung(negative))
    return batch.id


def _year(known: list[FiscalYear], number: int, buchung: NeueBuchung) -> FiscalYear:
    day = buchung.belegdatum.isoformat()
    for jahr in known:
        if jahr.start <= day <= jahr.end:
            return jahr
    raise Conflict(
        said("The client has no fiscal year for {day}: it is opened in the books first.", day=day),
        field=f"buchungen[{number}].belegdatum",
    ).retryable()


def _as_satz(tx: Tx, client: Client, number: int, buchung: NeueBuchung, document: str) -> Satz:
    path = f"buchungen[{number}]"
    konto = find_konto(tx, client, buchung.konto, f"{path}.konto")
    gegenkonto = find_konto(tx, client, buchung.gegenkonto, f"{path}.gegenkonto")
    kost = buchung.kostenstellen
    return Satz(
        umsatz=cents(buchung.umsatz) or 0,
        soll=buchung.sollHabenKennzeichen == "SOLL",
        konto=konto,
        gegenkonto=gegenkonto,
        belegdatum=buchung.belegdatum.isoformat(),
        bu_schluessel=(buchung.buSchluessel or "").lstrip("0"),
        belegfeld1=buchung.belegfeld1 or "",
        buchungstext=buchung.buchungstext or "",
        waehrung=buchung.waehrung,
        kurs=(buchung.kurs or "").replace(".", ","),
        basis_umsatz=cents(buchung.basisUmsatz),
        belegfeld2=buchung.belegfeld2 or "",
        skonto=cents(buchung.skonto) or 0,
        kost1=(kost.kost1 if kost else None) or "",
        kost2=(kost.kost2 if kost else None) or "",
        # The keys 2x, 3x, 6x, 7x and 8x stand for it too, as in a file.
        generalumkehr=buchung.generalumkehr or is_reversal(buchung.buSchluessel or ""),
        weitere=further_columns(buchung, document),
    )


def _answer(
    tx: Tx, client: Client, author: Author, ids: list[str], made: list[str], findings: _Findings
) -> GebuchteBuchungen:
    now = to_datetime(tx.now)
    booked = f"{len(ids)} Buchungen wurden gebucht." if len(ids) > 1 else f"Die Buchung {ids[0]} wurde gebucht."
    meldungen = [Meldung(dateiname=None, nachricht=text, zeitstempel=now, typ="WARNUNG") for text in findings.meldungen]
    meldungen.append(Meldung(dateiname=None, nachricht=booked, zeitstempel=now, typ="INFO"))
    save_task(tx, client, new_id(), batches.CALL, SUCCESS, meldungen, author)
    return GebuchteBuchungen(
        ids=ids,
        importe=made,
        protokoll=findings.protocol.lines(),
        ledgerAntwort=LedgerErgebnis(status=SUCCESS, information=[Information.of(item) for item in meldungen]),
    )


# --- Listed


class _BookingRow(NamedTuple):
    id: int
    waehrung: str
    soll: int
    buchungstext: str
    konto: str
    gegenkonto: str
    bu_schluessel: str
    umsatz: int
    belegfeld1: str
    belegdatum: str
    kost1: str
    kost2: str
    skonto: int
    basis_umsatz: int | None
    generalumkehr: int
    aufteilung: str


_BOOKINGS = Table("books_bookings", _BookingRow)


def buchungen(
    tx: Tx, client: Client, jahr: date, from_id: str | None, limit: int | None, periode: int | None = None
) -> list[Buchung]:
    year = year_of_start(tx, client, jahr)
    only, periods = ("", ()) if periode is None else (" AND periode = ?", (periode,))
    rows = _BOOKINGS.all(
        tx, f"mandant = ? AND jahr = ? AND id > ?{only} AND +id <= {LAST_BOOKING} ORDER BY id LIMIT ?",
        client.mandant, year.start, int(from_id or 0), *periods, client.mandant, limit or 1_000_000_000,
    )  # fmt: skip
    return [_buchung(row) for row in rows]


def of_batch(tx: Tx, client: Client, batch_id: str, after: str, limit: int) -> list[Buchung]:
    found = batches.find(tx, client, batch_id)
    if found is None:
        return []
    rows = _BOOKINGS.all(
        tx, "mandant = ? AND id > ? AND id <= ? AND batch = ? ORDER BY id LIMIT ?",
        client.mandant, max(found.first_booking - 1, _number(after)), found.last_booking, batch_id, limit,
    )  # fmt: skip
    return [_buchung(row) for row in rows]


def _buchung(row: _BookingRow) -> Buchung:
    shared = {
        "kostenstellen": Kostenstellen(kost1=row.kost1 or None, kost2=row.kost2 or None),
        "buSchluessel": row.bu_schluessel or None,
        "umsatz": money.to_wire(row.umsatz),
        "belegfeld1": row.belegfeld1,
        "belegdatum": datetime.combine(date.fromisoformat(row.belegdatum), datetime.min.time(), UTC),
    }
    return Buchung(
        id=str(row.id),
        waehrung=row.waehrung,
        sollHabenKennzeichen="SOLL" if row.soll else "HABEN",
        buchungstext=row.buchungstext,
        buchungszeilen=[
            Buchungszeile(kontonummer=row.konto, **shared),  # type: ignore[arg-type]
            Buchungszeile(kontonummer=row.gegenkonto, **shared),  # type: ignore[arg-type]
        ],
        skonto=money.to_wire(row.skonto) if is_discount(row.aufteilung) else None,
        basisUmsatz=None if row.basis_umsatz is None else money.to_wire(row.basis_umsatz),
        generalumkehr=bool(row.generalumkehr),
    )


_OF_ACCOUNT = f"SELECT id, aufteilung, {', '.join(Satz._fields)} FROM books_bookings WHERE mandant = ?"


def of_document(tx: Tx, client: Client, konto: str, beleg: str, after: str, limit: int) -> DocumentBookings:
    """Returns a page of the movements of a person account under one document number, over all years."""
    mandant = client.mandant
    item = tx.one(
        "SELECT soll, haben FROM books_items WHERE edition = ? AND konto = ? AND beleg = ?",
        edition_of(tx, client), konto, beleg,
    )  # fmt: skip
    if item is None:
        return DocumentBookings(0, 0, [])
    day, _, number = after.partition(" ")
    # By the sheets of the account, so that what is read follows its bookings and not the client's.
    rows = tx.all(
        f"{_OF_ACCOUNT} AND id IN (SELECT booking FROM books_sheets WHERE mandant = ?"
        " AND jahr IN (SELECT jahr FROM books_years WHERE mandant = ?) AND blatt = ?)"
        f" AND belegfeld1 = ? AND periode <> {EB_PERIOD} AND +id <= {LAST_BOOKING} AND {STANDING}"
        " AND (belegdatum, id) > (?, ?) ORDER BY belegdatum, id LIMIT ?",
        mandant, mandant, mandant, konto, beleg, mandant, mandant, day, _number(number), limit,
    )  # fmt: skip
    return DocumentBookings(item[0], item[1], [_seen_from(client, konto, *row) for row in rows])


def _number(text: str) -> int:
    return int(text) if text.isascii() and text.isdigit() and len(text) < 19 else 0


def _seen_from(client: Client, konto: str, number: int, aufteilung: str, *values: Any) -> AccountBooking:
    satz = Satz._make(values)
    betrag = sum(betrag for of_leg, betrag in legs_of(client.rahmen, satz, aufteilung) if of_leg == konto)
    skonto = satz.skonto if is_discount(aufteilung) and is_personenkonto(konto) else 0
    return AccountBooking(
        str(number), date.fromisoformat(satz.belegdatum), satz.belegfeld1, satz.buchungstext, satz.konto, satz.gegenkonto,
        satz.bu_schluessel, betrag, skonto if betrag > 0 else -skonto,
    )  # fmt: skip


# Account sheets: the bookings with a leg on an account, found by books_sheets, so that a page costs what it shows.
#
# A booking leads to an account in three ways: as Konto, as Gegenkonto, or by its split (tax and discounts). Sheets have the order of
# period, day, booking. The balance before a page is that of the periods before it, which are kept, and of the lines before it
# in its own period.


_CHUNK = 5_000
# After every other one.
_LAST_PERIOD, _LAST_DAY = 99, "~"
# A twin of an opening balance counts nowhere.
_IS_TWIN = (
    "EXISTS (SELECT 1 FROM books_bookings AS t JOIN books_openings AS o ON o.edition = ? AND o.konto IN (t.konto, t.gegenkonto)"
    " AND o.jahr = t.jahr AND o.booking = t.id AND o.is_twin = 1 WHERE t.mandant = b.mandant AND t.id = {0})"
)
_SIDE = (
    "SELECT s.booking FROM (SELECT {0} AS booking FROM {1} AS b WHERE b.mandant = ? AND b.jahr = ? AND {2}"
    " AND (b.periode, b.belegdatum, {0}) > (?, ?, ?) AND (b.periode, b.belegdatum, {0}) <= (?, ?, ?)"
    f" AND +{{0}} <= {LAST_BOOKING}"
    f" AND NOT (b.periode = {EB_PERIOD} AND {_IS_TWIN}) ORDER BY b.periode, b.belegdatum, {{0}} LIMIT ?) AS s"
)
_ON_SHEET = _SIDE.format("b.booking", "books_sheets", "b.blatt = ?")
# Discounts that are split otherwise than they were posted, since their invoice came.
_CHANGED = _SIDE.format(
    "b.id",
    "books_bookings",
    "b.id IN (SELECT d.booking FROM books_discounts AS d WHERE d.edition = ? AND d.aufteilung = ? AND d.aufteilung <> d.gebucht)",
)
_SHEET_BOOKINGS = (
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
                for (of_leg, betrag), contra in zip(legs_of(rahmen, satz, aufteilung), contras, strict=False):
                    if of_leg != konto:
                        continue
                    saldo += betrag
                    # A Generalumkehr reduces turnover on its side instead of adding to the other one.
                    on_debit = (betrag > 0) != bool(satz.generalumkehr)
                    yield SheetLine(
                        str(place), str(place.booking), place.periode, date.fromisoformat(satz.belegdatum),
                        satz.belegfeld1, satz.buchungstext, contra, satz.bu_schluessel,
                        betrag if on_debit else 0, 0 if on_debit else -betrag, saldo,
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
        values = [*((sheet,) for sheet in (self.konto, *splits)), *((self.edition, split) for split in discounts)]
        for value in values:
            given += [mandant, self.jahr, *value, *after, *until, mandant, self.edition, limit]
        sides = " UNION ".join([_ON_SHEET, *[_ON_SHEET] * len(splits), *[_CHANGED] * len(discounts)])
        sql = _SHEET_BOOKINGS.format(split=present_split(self.edition), sides=sides)
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


def sheet_page(tx: Tx, client: Client, selection: SheetSelection) -> AccountSheet:
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
