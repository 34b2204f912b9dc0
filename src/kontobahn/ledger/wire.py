"""The wire of a client's books that has no file of its own: fiscal years, accounts, trial balance, terms, reports, messages.

Without the calls (`routes/`): the port and its adapters speak these types. Field names are the contract's.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from datetime import date
from decimal import Decimal
from typing import Annotated, Any, BinaryIO, Literal, NamedTuple

from msgspec import Meta

from kontobahn import money
from kontobahn.api.wire import BLANKS_ON_ONE_LINE, CONTROL, Answer, Timestamp, Uuid, form
from kontobahn.errors import BadRequest
from kontobahn.ledger.bwa import LINES, RESULT, UNASSIGNED, Subtotal, group_of, is_profit_and_loss
from kontobahn.sentences import said

SollHaben = Literal["SOLL", "HABEN"]
Faelligkeitsart = Literal["NACH_TAGE", "ALS_ZEITRAUM"]
Kontonummer = Annotated[str, form("an account number of 4 to 9 digits", r"^[0-9]{4,9}$", examples=["84000000"])]
# One line of a DATEV-format file can hold a text without line breaks and other control characters, and an amount with
# up to ten digits before the comma. Everything that is booked must fit into an export.
_ONE_LINE = f"^[^{CONTROL}]*$"
_NOT_ONLY_BLANKS = f"^[{BLANKS_ON_ONE_LINE}]*[^{BLANKS_ON_ONE_LINE}{CONTROL}][^{CONTROL}]*$"
MAX_BOOKED = Decimal("9999999999.99")


def one_line(max_length: int, **rules: Any) -> Meta:
    """Returns the limits of a text that a line of an export can hold."""
    return form("a text on one line, without control characters", _ONE_LINE, max_length=max_length, **rules)


def words_on_one_line(max_length: int, **rules: Any) -> Meta:
    """Returns the limits of a text that must say something: the same, but not only blanks."""
    return form(
        "a text on one line, not only blanks and without control characters", _NOT_ONLY_BLANKS, min_length=1,
        max_length=max_length, **rules,
    )  # fmt: skip


def booked_amount(**rules: Any) -> Meta:
    """Returns the limits of an amount that a line of an export can hold; `check_booked` refuses others."""
    return Meta(extra_json_schema={"minimum": -float(MAX_BOOKED), "maximum": float(MAX_BOOKED)}, **rules)


def check_booked(path: str, amount: Decimal) -> None:
    """Raises BadRequest, naming the field, if no line of an export can hold this amount."""
    if abs(amount) > MAX_BOOKED:
        raise BadRequest(
            said("The field `{path}` must lie between -{low} and {high}.", path=path, low=MAX_BOOKED, high=MAX_BOOKED),
            field=path,
        )


class Geschaeftsjahr(NamedTuple):
    start: date
    end: date
    kontenrahmen: str
    konto_laenge: int


class Kontozeile(Answer):
    kontobeschriftung: str
    kontonummer: str


class Saldo(Answer, gc=False):
    betrag: Decimal
    sollHabenKennzeichen: SollHaben


class Periodenwert(Answer, gc=False):
    periode: Annotated[int, Meta(ge=1, le=14)]
    saldo: Saldo


class SusaZeile(Answer, gc=False):
    kontobeschriftung: str
    kontonummer: str
    saldo: Saldo
    periodenwerte: list[Periodenwert]
    ebWert: Saldo | None
    umsatzHaben: Decimal
    umsatzSoll: Decimal


class Periode(Answer):
    rechnungsbereich: str
    skontoFrist1: str
    skontoFrist2: str | None
    nettoFrist: str


class Zahlungsbedingung(Answer):
    id: str
    bezeichnung: str
    skontoFrist1: int | None
    skontoSatz1: Decimal
    skontoFrist2: int | None
    skontoSatz2: Decimal
    nettoFrist: int | None
    faelligkeitsart: Faelligkeitsart
    perioden: list[Periode]


Meldungsart = Literal["INFO", "WARNUNG", "FEHLER"]


class Meldung(Answer):
    dateiname: str | None
    nachricht: str
    zeitstempel: Timestamp
    typ: Meldungsart


class Information(Answer):
    """A `Meldung` as the contract spells it for most writes."""

    filename: str | None
    message: str
    timestamp: Timestamp
    type: Meldungsart

    @classmethod
    def of(cls, meldung: Meldung) -> Information:
        return cls(meldung.dateiname, meldung.nachricht, meldung.zeitstempel, meldung.typ)


class LedgerErgebnis(Answer):
    status: str
    information: list[Information]


# --- Reports


Steuerart = Literal[
    "UMSATZSTEUER", "VORSTEUER", "EU_LIEFERUNG", "INNERGEMEINSCHAFTLICHER_ERWERB", "LEISTUNGSEMPFAENGER",
    "LEISTUNGSEMPFAENGER_OHNE_ABZUG", "STEUERFREI", "SKONTO", "BRUTTO",
]  # fmt: skip


class UmsatzsteuerZeile(Answer, kw_only=True):
    buSchluessel: Annotated[str, Meta(description="Tax key; null if the tax comes from an automatic account.")] | None
    kontonummer: Annotated[str, Meta(description="The automatic account; null if the tax comes from a key.")] | None
    art: Steuerart
    prozent: int
    bemessungsgrundlage: Annotated[Decimal, Meta(description="Net; of BRUTTO the amount as written.")]
    umsatzsteuer: Decimal
    vorsteuer: Decimal
    anzahl: int


class Umsatzsteuer(Answer, kw_only=True):
    vonDatum: date
    bisDatum: date
    zeilen: list[UmsatzsteuerZeile]
    summeUmsatzsteuer: Decimal
    summeVorsteuer: Decimal
    direktUmsatzsteuer: Annotated[Decimal, Meta(description="Booked directly on accounts of output tax, in no line.")]
    direktVorsteuer: Annotated[Decimal, Meta(description="Booked directly on accounts of input tax, in no line.")]
    bruttoGebucht: Annotated[Decimal, Meta(description="Booked as written, because key or account were not known.")]
    bruttoAnzahl: int


class BwaZeile(Answer, kw_only=True):
    bezeichnung: str
    istSumme: bool
    perioden: Annotated[list[Decimal], Meta(description="One value for each period; revenue positive, cost negative.")]
    kumuliert: Decimal


class BwaKonto(Answer):
    kontonummer: str
    kontobeschriftung: str
    kumuliert: Decimal


class Bwa(Answer, kw_only=True):
    geschaeftsjahrStartDatum: date
    bisPeriode: int
    zeilen: list[BwaZeile]
    nichtZugeordnet: Annotated[list[BwaKonto], Meta(description="Profit and loss accounts that fit no line.")]
    ergebnis: Decimal


# The sheet of an account (Kontoblatt): every leg that a fiscal year has on it, in the order of days, with a running
# balance.


class SheetSelection(NamedTuple):
    jahr: date
    # Technical.
    konto: str
    # Only this period; 0 is the opening balance.
    periode: int | None = None
    # The place that the page goes on after; "" for the first page.
    after: str = ""
    # Bookings, of which one may have several legs on the account.
    limit: int = 50


class SheetLine(NamedTuple):
    """A leg: net, tax, discount or gross, as it is in the balance of the account. Amounts are cents."""

    place: str
    booking: str
    periode: int
    belegdatum: date
    belegfeld1: str
    buchungstext: str
    gegenkonto: str
    bu_schluessel: str
    # A Generalumkehr has a negative turnover on its side.
    soll: int
    haben: int
    # After this line; SOLL is positive.
    saldo: int


class AccountSheet(NamedTuple):
    """A page of it."""

    # The balance before the first line.
    saldo_davor: int
    lines: list[SheetLine]
    # The place that the next page goes on after, if there is one.
    next: str | None


# The bookings that a line of the VAT figures sums up: which line, which page of it, and each with its share.


class TaxLine(NamedTuple):
    art: Steuerart
    prozent: int
    # Tax key or technical account, as the line has them; "" for none.
    schluessel: str
    konto: str


class TaxSelection(NamedTuple):
    jahr: date
    von: date
    bis: date
    line: TaxLine
    # The booking that the page goes on after.
    after: int = 0
    limit: int = 50


class TaxedBooking(NamedTuple):
    number: int
    day: date
    document: str
    text: str
    konto: str
    gegenkonto: str
    base: Decimal
    output: Decimal
    given: Decimal


# Imports of files into a client's books: the file as it is sent, and the report.
#
# Without the calls (`routes/rewe.py`): the port and its adapters speak these types.


ImportStatus = Literal["running", "done", "failed", "undone"]
ImportArt = Literal["DATEI", "BUCHUNGEN", "STORNO", "KORREKTUR"]


class SentFile(NamedTuple):
    """A file as it was sent, with the wishes of the caller."""

    stream: BinaryIO
    name: str
    # Import the file without its refused rows, instead of not at all.
    partial: bool
    # Rows that look booked already are other bookings.
    another: bool


class Protokollzeile(Answer):
    art: Literal["ABGELEHNT", "WARNUNG"]
    zeile: Annotated[int, Meta(ge=0, description="Line of the file; 1 is the header.")]
    spalte: Annotated[str, Meta(description="Title of the column; empty if the whole line is meant.")]
    gefunden: str
    getan: str


class Import(Answer, kw_only=True):
    id: Uuid
    status: ImportStatus
    art: ImportArt
    quelle: Annotated[str, Meta(description="Name of the file, or of the calling source.")]
    kategorie: str | None
    bezeichnung: str
    clientId: str | None
    geschaeftsjahrStartDatum: date | None
    uebernommen: Annotated[int, Meta(ge=0, description="Records that were imported.")]
    bekannt: Annotated[int, Meta(ge=0, description="Rows that an earlier import of the file had booked.")]
    abgelehnt: Annotated[int, Meta(ge=0, description="Rows that were refused.")]
    warnungen: Annotated[int, Meta(ge=0)]
    erstelltAm: Timestamp
    erstelltVon: str
    stornoVon: Annotated[Uuid, Meta(description="The import that this one undoes.")] | None
    stornoDurch: Annotated[Uuid, Meta(description="The import that undoes this one.")] | None


class ImportMitProtokoll(Import, kw_only=True):
    protokoll: Annotated[list[Protokollzeile], Meta(description="The first thousand refused rows and warnings.")]
    fehler: Annotated[str, Meta(description="Why it failed.")] | None = None


# Profit and loss: the answer, from the turnover of accounts by period.


def profit_and_loss(
    skr: str, jahr: date, bis_periode: int, rows: Iterable[tuple[str, int, int]], label: Callable[[str], str]
) -> Bwa:
    """Returns the profit and loss up to a period. `rows` are account, period and cents, HABEN positive, by account and period."""
    groups: dict[str, list[int]] = defaultdict(lambda: [0] * bis_periode)
    unassigned: dict[str, int] = defaultdict(int)
    for konto, periode, betrag in rows:
        if not is_profit_and_loss(skr, konto):
            continue
        group = group_of(skr, konto)
        groups[group][periode - 1] += betrag
        if group == UNASSIGNED:
            unassigned[konto] += betrag
    zeilen = _lines(groups, bis_periode)
    return Bwa(
        geschaeftsjahrStartDatum=jahr,
        bisPeriode=bis_periode,
        zeilen=zeilen,
        nichtZugeordnet=[BwaKonto(konto, label(konto), money.to_wire(betrag)) for konto, betrag in unassigned.items()],
        ergebnis=zeilen[-1].kumuliert,
    )


def _lines(groups: dict[str, list[int]], periods: int) -> list[BwaZeile]:
    """Returns every line of the scheme, then accounts that fit none of them, and the result."""
    running = [0] * periods
    zeilen = []
    for name, is_sum in [
        *((line.bezeichnung, isinstance(line, Subtotal)) for line in LINES),
        (UNASSIGNED, False),
        (RESULT, True),
    ]:
        values = list(running) if is_sum else groups[name]
        if not is_sum:
            running = [before + value for before, value in zip(running, values, strict=True)]
        zeilen.append(
            BwaZeile(
                bezeichnung=name,
                istSumme=is_sum,
                perioden=[money.to_wire(value) for value in values],
                kumuliert=money.to_wire(sum(values)),
            )
        )
    return zeilen
