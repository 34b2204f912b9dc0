"""Bookings: as they are listed, and as they are sent by call, checked, and answered.

Without the calls (`routes/`): the port and its adapters speak these types. Field names are the contract's.
"""

from __future__ import annotations

import hashlib
import io
from collections.abc import Iterable, Sequence
from datetime import date, datetime
from decimal import Decimal
from typing import Annotated, NamedTuple

from msgspec import Meta, field

from kontobahn import money
from kontobahn.api.answers import NOT_YET_KNOWN, Platform
from kontobahn.api.wire import Answer, Body, Timestamp, Uuid, form
from kontobahn.errors import BadRequest
from kontobahn.formats import extf
from kontobahn.formats.document_package import beleglink
from kontobahn.formats.extf import Buchungssatz, encode_weitere
from kontobahn.ledger.konto import functional
from kontobahn.ledger.wire import (
    Geschaeftsjahr,
    Kontonummer,
    LedgerErgebnis,
    Protokollzeile,
    SollHaben,
    booked_amount,
    check_booked,
    one_line,
)
from kontobahn.sentences import said


class Kostenstellen(Answer):
    kost1: str | None
    kost2: str | None


class Buchungszeile(Answer):
    kontonummer: str
    kostenstellen: Kostenstellen
    buSchluessel: str | None
    umsatz: Decimal
    belegfeld1: str
    belegdatum: Timestamp


class Buchung(Answer):
    id: str | None
    waehrung: str
    sollHabenKennzeichen: SollHaben
    buchungstext: str
    buchungszeilen: list[Buchungszeile]
    # With these the bookings of a person account add up to its line of the trial balance.
    skonto: Annotated[
        Decimal | None, Meta(description="Discount taken: moves the person account as `umsatz` does.")
    ] = None
    basisUmsatz: Annotated[Decimal | None, Meta(description="In EUR, where the currency is another.")] = None
    generalumkehr: Annotated[bool, Meta(description="Takes turnover back from the other side.")] = False


# --- By call


MAX_BOOKINGS = 5_000
EUR = "EUR"


class NeueKostenstellen(Body):
    kost1: Annotated[str, one_line(36)] | None = None
    kost2: Annotated[str, one_line(36)] | None = None


class NeueBuchung(Body, kw_only=True):
    umsatz: Annotated[Decimal, booked_amount(description="Gross, above 0, in `waehrung`.", examples=[119])]
    sollHabenKennzeichen: Annotated[SollHaben, Meta(description="The side of `konto`.")]
    konto: Kontonummer
    gegenkonto: Kontonummer
    buSchluessel: Annotated[str, form("a tax key of up to 4 digits", r"^[0-9]{0,4}$", examples=["9"])] | None = None
    belegdatum: date
    belegfeld1: Annotated[str, one_line(36, description="The document number, which open items go by.")] | None = None
    belegfeld2: Annotated[str, one_line(12)] | None = None
    buchungstext: Annotated[str, one_line(60)] | None = None
    skonto: (
        Annotated[Decimal, booked_amount(description="Discount that was taken; with one person account only.")] | None
    ) = None
    kostenstellen: NeueKostenstellen | None = None
    waehrung: Annotated[str, form("a currency like EUR", r"^[A-Z]{3}$", examples=["EUR"])] = EUR
    kurs: Annotated[str, form("a rate like 1.0825", r"^[0-9]{1,5}([.,][0-9]{1,6})?$", examples=["1.0825"])] | None = (
        None
    )
    basisUmsatz: Annotated[Decimal, booked_amount(description="In EUR; needed where `waehrung` is another.")] | None = (
        None
    )
    faelligkeit: date | None = None
    generalumkehr: Annotated[bool, Meta(description="Takes turnover back from the other side.")] = False


class NeueBuchungen(Body, kw_only=True):
    buchungen: Annotated[list[NeueBuchung], Meta(min_length=1, max_length=MAX_BOOKINGS)]


class GebuchteBuchungen(Answer, kw_only=True):
    ids: Annotated[list[str], Meta(description="The bookings, in the order they were sent in.")]
    importe: Annotated[list[Uuid], Meta(description="What they can be undone by: one import for each fiscal year.")]
    protokoll: Annotated[list[Protokollzeile], Meta(description="Warnings; `zeile` counts the bookings from 1.")] = (
        field(default_factory=list)
    )
    ledgerAntwort: LedgerErgebnis | None
    platform: Platform = NOT_YET_KNOWN


def check(body: NeueBuchungen) -> None:
    """Raises BadRequest that names the invalid field."""
    for number, buchung in enumerate(body.buchungen):
        for name in ("umsatz", "skonto", "basisUmsatz"):
            check_booked(f"buchungen[{number}].{name}", getattr(buchung, name) or Decimal(0))
        for name, reason in _problems(buchung):
            path = f"buchungen[{number}].{name}"
            raise BadRequest(said("The field `{path}` {reason}.", path=path, reason=reason), field=path)


def _problems(buchung: NeueBuchung) -> list[tuple[str, str]]:
    found = []
    if buchung.umsatz <= 0:
        found.append(("umsatz", "must be above 0; the side is said by sollHabenKennzeichen"))
    if buchung.skonto is not None and buchung.skonto < 0:
        found.append(("skonto", "must not be negative"))
    if buchung.basisUmsatz is not None and buchung.basisUmsatz <= 0:
        found.append(("basisUmsatz", "must be above 0"))
    if buchung.kurs is not None and not buchung.kurs.strip("0.,"):
        found.append(("kurs", "must be above 0"))
    if buchung.waehrung != EUR and buchung.basisUmsatz is None:
        found.append(("basisUmsatz", f"is required: a booking in {buchung.waehrung} needs its amount in EUR"))
    return found


# Columns of a file: the day on which an invoice is due, written TTMMJJJJ, and the document that a booking is of.
_FAELLIGKEIT, _BELEGLINK = "117", "20"


def further_columns(buchung: NeueBuchung, document: str) -> str:
    """Returns the columns of a booking's row that have no field of their own; `document` is the GUID of its document, if any."""
    columns = {_BELEGLINK: beleglink(document)} if document else {}
    if buchung.faelligkeit:
        columns[_FAELLIGKEIT] = f"{buchung.faelligkeit:%d%m%Y}"
    return encode_weitere(columns)


def cents(amount: Decimal | None) -> int | None:
    return None if amount is None else money.to_minor(amount)


class AccountBooking(NamedTuple):
    """A booking as one of its two accounts sees it."""

    id: str
    belegdatum: date
    belegfeld1: str
    buchungstext: str
    konto: str
    gegenkonto: str
    bu_schluessel: str
    # Both in cents, SOLL positive: what the account moves by, without the tax that was split off it; and of that the discount.
    betrag: int
    skonto: int = 0

    @property
    def day(self) -> date:
        return self.belegdatum

    def other(self, konto: str) -> str:
        return self.gegenkonto if self.konto == konto else self.konto


class DocumentBookings(NamedTuple):
    """A page of what moved a document, and what all of it comes to, in cents."""

    soll: int
    haben: int
    bookings: list[AccountBooking]


# Bookings as a DATEV file for the tax adviser: not committed, a proposal.


class BookingFile(NamedTuple):
    name: str
    content: bytes

    @property
    def sha256(self) -> str:
        return hashlib.sha256(self.content).hexdigest()


def for_file(records: Iterable[Buchungssatz], konto_laenge: int) -> list[Buchungssatz]:
    """The same bookings with accounts as the client writes them."""
    return [
        record._replace(
            konto=functional(record.konto, konto_laenge), gegenkonto=functional(record.gegenkonto, konto_laenge)
        )
        for record in records
    ]


def make_file(
    records: Sequence[Buchungssatz], client_id: str, jahr: Geschaeftsjahr, made_at: datetime, title: str
) -> BookingFile:
    """`client_id` is the adviser's number and the client's. All bookings are of the fiscal year."""
    berater, _, mandant = client_id.partition("-")
    days = [date.fromisoformat(record.belegdatum) for record in records]
    header = extf.make_header(
        extf.BUCHUNGSSTAPEL,
        erzeugt_am=made_at,
        berater=int(berater),
        mandant=int(mandant),
        wj_beginn=jahr.start,
        sachkontenlaenge=jahr.konto_laenge,
        datum_von=min(days),
        datum_bis=max(days),
        bezeichnung=title,
        festschreibung=False,
        skr=jahr.kontenrahmen.removeprefix("SKR"),
    )
    target = io.BytesIO()
    extf.write_buchungsstapel(target, header, for_file(records, jahr.konto_laenge))
    return BookingFile(extf.file_name(header), target.getvalue())
