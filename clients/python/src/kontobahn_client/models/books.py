"""The books of clients: cash books, bookings, person accounts, imports. Names are those of the API."""

from __future__ import annotations

from datetime import date, datetime
from decimal import Decimal
from typing import Any, Literal

from kontobahn_client.models.common import Answer, Body, Platform


class Steuersatz(Body, kw_only=True):
    prozent: Decimal | None = None
    buSchluessel: str | None = None


class NeueBelegzeile(Body, kw_only=True):
    belegtext: str
    gegenkonto: str
    betrag: Decimal
    belegNummer: str | None = None
    steuersatz: Steuersatz | None = None
    kostenstelle1: str | None = None
    kostenstelle2: str | None = None


class NeuesBelegbild(Body, kw_only=True):
    content: bytes
    dateiname: str


class NeuerKassenbucheintrag(Body, kw_only=True):
    waehrung: Literal["EUR"]
    kassenname: str
    betrag: Decimal
    transaktionsdatum: datetime
    belegzeilen: list[NeueBelegzeile]
    belegbilder: list[NeuesBelegbild] | None = None


class Storno(Body, kw_only=True):
    kassenname: str
    grund: str


class Adresse(Body, kw_only=True):
    adresszeile: str
    adresszeile2: str | None = None
    postleitzahl: str
    ort: str
    laendercode: str | None = None
    typ: str | None = None


class Bankkonto(Body, kw_only=True):
    iban: str
    bic: str | None = None
    name: str | None = None
    istHauptkonto: bool | None = None


class Email(Body, kw_only=True):
    email: str
    typ: str | None = None


class Telefon(Body, kw_only=True):
    nummer: str
    typ: str | None = None


class Kontaktperson(Body, kw_only=True):
    nachname: str
    vorname: str | None = None
    anrede: str | None = None
    emailAdressen: list[Email] | None = None
    telefonnummern: list[Telefon] | None = None


class Personenkonto(Body, kw_only=True):
    personenkontoNummer: str
    kontaktTyp: Literal["COMPANY", "CONTACT_PERSON", "UNDEFINED"]
    kontenrahmen: Literal["SKR03", "SKR04", "SKR14", "SKR42", "SKR51"]
    kontonummernLaenge: int
    geschaeftsjahrStartDatum: date
    firmenname: str | None = None
    ustId: str | None = None
    emailAdressen: list[Email] | None = None
    telefonnummern: list[Telefon] | None = None
    bankkonten: list[Bankkonto] | None = None
    kontaktpersonen: list[Kontaktperson] | None = None
    adressen: list[Adresse] | None = None


class NeueKostenstellen(Body, kw_only=True):
    kost1: str | None = None
    kost2: str | None = None


class NeueBuchung(Body, kw_only=True):
    umsatz: Decimal
    sollHabenKennzeichen: Literal["HABEN", "SOLL"]
    konto: str
    gegenkonto: str
    buSchluessel: str | None = None
    belegdatum: date
    belegfeld1: str | None = None
    belegfeld2: str | None = None
    buchungstext: str | None = None
    skonto: Decimal | None = None
    kostenstellen: NeueKostenstellen | None = None
    waehrung: str | None = None
    kurs: str | None = None
    basisUmsatz: Decimal | None = None
    faelligkeit: date | None = None
    generalumkehr: bool | None = None


class NeueBuchungen(Body, kw_only=True):
    buchungen: list[NeueBuchung]


class LedgerConnection(Answer, kw_only=True):
    id: str
    bezeichnung: str | None = None
    status: str
    verbunden_seit: datetime | None = None
    erstellt_am: datetime


class LedgerConnections(Answer, kw_only=True):
    connections: list[LedgerConnection]


class Belegbild(Answer, kw_only=True):
    id: str
    dateiname: str
    groesse: int
    mimeTyp: str
    sha256: str


class Kostenstelle(Answer, kw_only=True):
    name: str


class Belegzeile(Answer, kw_only=True):
    gegenkonto: str
    erstellungsdatum: datetime
    waehrung: str
    belegtext: str
    belegnummer: str | None = None
    betrag: Decimal
    steuersatz: Steuersatz | None = None
    kostenstellen: list[Kostenstelle]


class Meldung(Answer, kw_only=True):
    dateiname: str | None = None
    nachricht: str
    zeitstempel: datetime
    typ: str


class KassenbuchErgebnis(Answer, kw_only=True):
    status: str
    meldungen: list[Meldung]
    uebermittlungId: str | None = None


class Uebermittlung(Answer, kw_only=True):
    id: str
    clientId: str
    art: str
    bezeichnung: str
    status: str
    meldungen: list[Meldung]
    erstelltAm: datetime
    aktualisiertAm: datetime


class Kassenbucheintrag(Answer, kw_only=True):
    erstellungsdatum: datetime
    waehrung: str
    kassenname: str
    betrag: Decimal
    transaktionsdatum: datetime
    belegzeilen: list[Belegzeile]
    belegbilder: list[Belegbild]
    ledgerAntwort: KassenbuchErgebnis | None = None
    platform: Platform


class Kassenbuchzeile(Answer, kw_only=True):
    """A row of the cash report: an entry as it is kept (one line of a call, with its number), or another booking on the account."""

    id: str
    art: str
    nummer: int | None = None
    buchungId: str | None = None
    datum: date
    betrag: Decimal
    saldo: Decimal
    belegtext: str
    gegenkonto: str
    belegnummer: str | None = None
    buSchluessel: str | None = None
    kostenstellen: list[Kostenstelle]
    belegbilder: list[Belegbild]
    gebuchtAm: datetime | None = None
    stornoVon: int | None = None
    storniertDurch: int | None = None


class Kassenbericht(Answer, kw_only=True):
    """Rows of a cash book, and the balance before the first and after the last of them."""

    data: list[Kassenbuchzeile]
    anfangsbestand: Decimal | None = None
    endbestand: Decimal | None = None
    platform: Platform


class Kassenbuch(Answer, kw_only=True):
    bezeichnung: str


class Rechnungsordner(Answer, kw_only=True):
    bezeichnung: str
    ordnertyp: str


class Belegtyp(Answer, kw_only=True):
    bezeichnung: str
    kategorie: str


class PersonenkontoEintrag(Answer, kw_only=True):
    id: str | None = None
    kontaktTyp: str
    personenkontoNummer: int
    nummer: str | None = None
    firmenname: str | None = None
    ustId: str | None = None
    aktualisiertAm: datetime | None = None
    projektId: str | None = None
    bankkonten: list[Bankkonto]
    emailAdressen: list[Email]
    telefonnummern: list[Telefon]
    kontaktpersonen: list[Kontaktperson]
    adressen: list[Adresse]


class PersonenkontoDaten(Answer, kw_only=True):
    id: str | None = None
    kontonummernLaenge: int
    kontenrahmen: str
    erstelltAm: datetime
    geschaeftsjahrStartDatum: date
    eintraege: list[PersonenkontoEintrag]


class PersonenkontoErgebnis(Answer, kw_only=True):
    status: str
    antwortDaten: dict[str, Any] | None = None
    meldungen: list[Meldung]


class PersonenkontoAntwort(Answer, kw_only=True):
    data: PersonenkontoDaten
    ledgerAntwort: PersonenkontoErgebnis
    platform: Platform


class Kostenstellen(Answer, kw_only=True):
    kost1: str | None = None
    kost2: str | None = None


class Buchungszeile(Answer, kw_only=True):
    kontonummer: str
    kostenstellen: Kostenstellen
    buSchluessel: str | None = None
    umsatz: Decimal
    belegfeld1: str
    belegdatum: datetime


class Buchung(Answer, kw_only=True):
    id: str | None = None
    waehrung: str
    sollHabenKennzeichen: str
    buchungstext: str
    buchungszeilen: list[Buchungszeile]
    skonto: Decimal | None = None
    basisUmsatz: Decimal | None = None
    generalumkehr: bool = False


class Kontozeile(Answer, kw_only=True):
    kontobeschriftung: str
    kontonummer: str


class Protokollzeile(Answer, kw_only=True):
    art: str
    zeile: int
    spalte: str
    gefunden: str
    getan: str


class Import(Answer, kw_only=True):
    id: str
    status: str
    art: str
    quelle: str
    kategorie: str | None = None
    bezeichnung: str
    clientId: str | None = None
    geschaeftsjahrStartDatum: date | None = None
    uebernommen: int
    bekannt: int
    abgelehnt: int
    warnungen: int
    erstelltAm: datetime
    erstelltVon: str
    stornoVon: str | None = None
    stornoDurch: str | None = None


class ImportMitProtokoll(Import, kw_only=True):
    protokoll: list[Protokollzeile]
    fehler: str | None = None


class Information(Answer, kw_only=True):
    filename: str | None = None
    message: str
    timestamp: datetime
    type: str


class LedgerErgebnis(Answer, kw_only=True):
    status: str
    information: list[Information]


class GebuchteBuchungen(Answer, kw_only=True):
    ids: list[str]
    importe: list[str]
    protokoll: list[Protokollzeile]
    ledgerAntwort: LedgerErgebnis | None = None
    platform: Platform


class ProbeEintrag(Answer, kw_only=True):
    status: str
    httpStatus: int | None = None
    maesnType: str | None = None
    message: str | None = None


class Rechte(Answer, kw_only=True):
    stammdaten: ProbeEintrag
    konten: ProbeEintrag
    buchungen: ProbeEintrag
    susa: ProbeEintrag
    zahlungsbedingungen: ProbeEintrag
    personenkonten: ProbeEintrag
    kassenbuch: ProbeEintrag
    belege: ProbeEintrag
