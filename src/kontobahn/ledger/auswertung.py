"""Reports calculated from the books: VAT figures by tax key, and a simple profit and loss. Field names are German like the contract's.

Without the calls (`rewe.py`): the port and its adapters speak these types.
"""

from __future__ import annotations

from datetime import date
from decimal import Decimal
from typing import Annotated, Literal

from msgspec import Meta

from kontobahn.api.wire import Answer

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
