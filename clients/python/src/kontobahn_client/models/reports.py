"""Figures calculated from the books: open items, trial balance, figures. Names are those of the API."""

from __future__ import annotations

from datetime import date
from decimal import Decimal

from kontobahn_client.models.common import Answer


class Posten(Answer, kw_only=True):
    beleg: str
    belegdatum: date
    buchungstext: str
    saldo: Decimal


class OposKonto(Answer, kw_only=True):
    kontonummer: str
    bezeichnung: str
    isDebitor: bool
    totalSaldo: Decimal
    posten: list[Posten]


class Opos(Answer, kw_only=True):
    stichtag: date
    konten: list[OposKonto]
    sumDebitoren: Decimal
    sumKreditoren: Decimal


class Altersklassen(Answer, kw_only=True):
    nichtFaellig: Decimal
    bis30Tage: Decimal
    bis60Tage: Decimal
    bis90Tage: Decimal
    ueber90Tage: Decimal


class Skonto(Answer, kw_only=True):
    bis: date
    prozent: Decimal
    betrag: Decimal


class FaelligerPosten(Answer, kw_only=True):
    beleg: str
    belegdatum: date
    buchungstext: str
    saldo: Decimal
    faelligAm: date
    faelligkeitsquelle: str
    tageUeberfaellig: int
    skonto: list[Skonto]


class FaelligesKonto(Answer, kw_only=True):
    kontonummer: str
    bezeichnung: str
    isDebitor: bool
    totalSaldo: Decimal
    altersklassen: Altersklassen
    posten: list[FaelligerPosten]


class Faelligkeiten(Answer, kw_only=True):
    stichtag: date
    konten: list[FaelligesKonto]
    debitoren: Altersklassen
    kreditoren: Altersklassen


class Periode(Answer, kw_only=True):
    rechnungsbereich: str
    skontoFrist1: str
    skontoFrist2: str | None = None
    nettoFrist: str


class Zahlungsbedingung(Answer, kw_only=True):
    id: str
    bezeichnung: str
    skontoFrist1: int | None = None
    skontoSatz1: Decimal
    skontoFrist2: int | None = None
    skontoSatz2: Decimal
    nettoFrist: int | None = None
    faelligkeitsart: str
    perioden: list[Periode]


class Saldo(Answer, kw_only=True):
    betrag: Decimal
    sollHabenKennzeichen: str


class Periodenwert(Answer, kw_only=True):
    periode: int
    saldo: Saldo


class SusaZeile(Answer, kw_only=True):
    kontobeschriftung: str
    kontonummer: str
    saldo: Saldo
    periodenwerte: list[Periodenwert]
    ebWert: Saldo | None = None
    umsatzHaben: Decimal
    umsatzSoll: Decimal


class UmsatzsteuerZeile(Answer, kw_only=True):
    buSchluessel: str | None = None
    kontonummer: str | None = None
    art: str
    prozent: int
    bemessungsgrundlage: Decimal
    umsatzsteuer: Decimal
    vorsteuer: Decimal
    anzahl: int


class Umsatzsteuer(Answer, kw_only=True):
    vonDatum: date
    bisDatum: date
    zeilen: list[UmsatzsteuerZeile]
    summeUmsatzsteuer: Decimal
    summeVorsteuer: Decimal
    direktUmsatzsteuer: Decimal
    direktVorsteuer: Decimal
    bruttoGebucht: Decimal
    bruttoAnzahl: int


class BwaKonto(Answer, kw_only=True):
    kontonummer: str
    kontobeschriftung: str
    kumuliert: Decimal


class BwaZeile(Answer, kw_only=True):
    bezeichnung: str
    istSumme: bool
    perioden: list[Decimal]
    kumuliert: Decimal


class Bwa(Answer, kw_only=True):
    geschaeftsjahrStartDatum: date
    bisPeriode: int
    zeilen: list[BwaZeile]
    nichtZugeordnet: list[BwaKonto]
    ergebnis: Decimal
