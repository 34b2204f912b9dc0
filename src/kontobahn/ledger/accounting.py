"""What accounting answers with: fiscal years, accounts, bookings, trial balance, payment terms, messages of a provider.

Without the calls (`rewe.py`): the port and its adapters speak these types. Field names are the contract's.
"""

from __future__ import annotations

from datetime import date
from decimal import Decimal
from typing import Annotated, Any, Literal, NamedTuple

from msgspec import Meta

from kontobahn.api.call import Platform
from kontobahn.api.wire import CONTROL, Answer, Timestamp, form
from kontobahn.errors import BadRequest

SollHaben = Literal["SOLL", "HABEN"]
Faelligkeitsart = Literal["NACH_TAGE", "ALS_ZEITRAUM"]
Kontonummer = Annotated[str, form("an account number of 4 to 9 digits", r"^[0-9]{4,9}$", examples=["84000000"])]
# What one line of a DATEV-format file can hold: a text without line breaks and other control characters, and an amount with
# up to ten digits before the comma. Whatever is booked must be able to leave the books again.
_ONE_LINE = f"^[^{CONTROL}]*$"
MAX_BOOKED = Decimal("9999999999.99")
# The balance in the answer to a write, until the charge is confirmed in the transaction of the effect.
NOT_YET_KNOWN = Platform(neuesGuthaben=0)


def one_line(max_length: int, **rules: Any) -> Meta:
    """A text that a line of an export can hold."""
    return form("a text on one line, without control characters", _ONE_LINE, max_length=max_length, **rules)


def booked_amount(**rules: Any) -> Meta:
    """An amount that a line of an export can hold; `check_booked` refuses others."""
    return Meta(extra_json_schema={"minimum": -float(MAX_BOOKED), "maximum": float(MAX_BOOKED)}, **rules)


def check_booked(path: str, amount: Decimal) -> None:
    """Raises BadRequest, naming the field, if no line of an export can hold this amount."""
    if abs(amount) > MAX_BOOKED:
        raise BadRequest(f"The field `{path}` must lie between -{MAX_BOOKED} and {MAX_BOOKED}.", field=path)


class Geschaeftsjahr(NamedTuple):
    start: date
    end: date
    kontenrahmen: str
    konto_laenge: int


class Kontozeile(Answer):
    kontobeschriftung: str
    kontonummer: str


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


# What the provider says about a write.
class Meldung(Answer):
    dateiname: str | None
    nachricht: str
    zeitstempel: Timestamp
    typ: Literal["INFO", "WARNUNG", "FEHLER"]
