"""The wire of a client's books that has no file of its own: fiscal years, accounts, trial balance, terms, reports, messages.

Without the calls (`routes/`): the port and its adapters speak these types. Field names are the contract's.
"""

from __future__ import annotations

from datetime import date
from decimal import Decimal
from typing import Annotated, Any, Literal, NamedTuple

from msgspec import Meta

from kontobahn.api.wire import CONTROL, Answer, Timestamp, form
from kontobahn.errors import BadRequest
from kontobahn.sentences import said

SollHaben = Literal["SOLL", "HABEN"]
Faelligkeitsart = Literal["NACH_TAGE", "ALS_ZEITRAUM"]
Kontonummer = Annotated[str, form("an account number of 4 to 9 digits", r"^[0-9]{4,9}$", examples=["84000000"])]
# One line of a DATEV-format file can hold a text without line breaks and other control characters, and an amount with
# up to ten digits before the comma. Everything that is booked must fit into an export.
_ONE_LINE = f"^[^{CONTROL}]*$"
_NOT_ONLY_BLANKS = f"^ *[^ {CONTROL}][^{CONTROL}]*$"
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
