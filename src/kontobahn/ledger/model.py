"""The ledger area on the wire, in the contract's spelling."""

from __future__ import annotations

from datetime import date
from decimal import Decimal
from typing import Annotated, Any, Literal

from msgspec import Meta, field

from kontobahn.api.call import Platform
from kontobahn.api.wire import Answer, Body, Query, Timestamp, Uuid, form

# Choice 11: the full set of ledger connection statuses.
ConnectionStatus = Literal["pending", "connected", "expired", "revoked", "error"]
SollHaben = Literal["SOLL", "HABEN"]
Ordnertyp = Literal["EINGANGSRECHNUNG", "AUSGANGSRECHNUNG"]
Faelligkeitsart = Literal["NACH_TAGE", "ALS_ZEITRAUM"]
ProbeStatus = Literal["ok", "permission", "expired", "error", "unknown"]
# Choice 9: advisor number and client number.
ClientId = Annotated[
    str,
    form(
        "an advisor number and a client number like 29098-55003",
        r"^[1-9][0-9]{3,6}-[1-9][0-9]{0,4}$",
        description="Only where the connection spans several clients and not the default one is meant.",
        examples=["29098-55003"],
    ),
]
Kontonummer = Annotated[str, form("an account number of 4 to 9 digits", r"^[0-9]{4,9}$", examples=["84000000"])]
FromId = Annotated[str, form("a number", r"^[0-9]{1,18}$", description="Only what comes after this id.")]
NOT_YET_KNOWN = Platform(neuesGuthaben=0)


class ConnectionQuery(Query):
    # Choice 9: `connectionId` is required on every ledger call.
    connection_id: Annotated[Uuid, Meta(description="The connection, from the connections list.")] = field(
        name="connectionId"
    )


class ClientQuery(ConnectionQuery):
    client_id: ClientId | None = field(default=None, name="clientId")


class DropdownQuery(ConnectionQuery):
    # Choice 10: free as a dropdown of an automation platform.
    zweck: (
        Annotated[Literal["dropdown"], Meta(description="`dropdown`: a free call to fill a list of choices.")] | None
    ) = None


class RechnungsordnerQuery(DropdownQuery):
    # Choice 14: the folder filter is `ordnertyp`.
    ordnertyp: Ordnertyp | None = None


class JahrQuery(ClientQuery, kw_only=True):
    geschaeftsjahr_start_datum: Annotated[date, Meta(description="First day of the fiscal year.")] = field(
        name="geschaeftsjahrStartDatum"
    )


class JahrDropdownQuery(JahrQuery):
    zweck: (
        Annotated[Literal["dropdown"], Meta(description="`dropdown`: a free call to fill a list of choices.")] | None
    ) = None


class SusaQuery(JahrQuery):
    # Choice 17: the account filter is `kontonummer`.
    kontonummer: Kontonummer | None = None


class SeitenQuery(JahrQuery):
    from_id: FromId | None = None
    limit: Annotated[int, Meta(ge=1, le=100_000)] | None = None


class OposQuery(ClientQuery):
    # Choice 16: the names of the four filters.
    stichtag: Annotated[date, Meta(description="Cut-off date; today when omitted.")] | None = None
    filter: Literal["debitors", "creditors", "all"] = "all"
    eb_modus: Literal["reconcile", "raw"] = field(default="reconcile", name="ebModus")
    kontonummer: Annotated[str, form("a person account of 5 to 9 digits", r"^[1-9][0-9]{4,8}$")] | None = None


class LedgerConnection(Answer):
    id: Uuid
    bezeichnung: str | None
    status: ConnectionStatus
    verbunden_seit: Timestamp | None
    erstellt_am: Timestamp


class LedgerConnections(Answer):
    connections: list[LedgerConnection]


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


class SusaAntwort(Answer):
    data: list[SusaZeile]
    platform: Platform


class Kontozeile(Answer):
    kontobeschriftung: str
    kontonummer: str


class KontenAntwort(Answer):
    data: list[Kontozeile]
    platform: Platform


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


class BuchungenAntwort(Answer):
    data: list[Buchung]
    platform: Platform


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


class ZahlungsbedingungenAntwort(Answer):
    data: list[Zahlungsbedingung]
    platform: Platform


class Posten(Answer, gc=False):
    beleg: str
    belegdatum: date
    buchungstext: str
    saldo: Decimal


class OposKonto(Answer, gc=False):
    kontonummer: str
    bezeichnung: str
    isDebitor: bool
    totalSaldo: Decimal
    posten: list[Posten]


class Opos(Answer):
    stichtag: date
    konten: list[OposKonto]
    sumDebitoren: Decimal
    sumKreditoren: Decimal


class OposAntwort(Answer):
    data: Opos
    platform: Platform


class Kassenbuch(Answer):
    bezeichnung: str


class KassenbuecherAntwort(Answer):
    data: list[Kassenbuch]
    platform: Platform


class Rechnungsordner(Answer):
    bezeichnung: str
    ordnertyp: Ordnertyp


class RechnungsordnerAntwort(Answer):
    data: list[Rechnungsordner]
    platform: Platform


class Belegtyp(Answer):
    bezeichnung: str
    kategorie: str


class BelegtypenAntwort(Answer):
    data: list[Belegtyp]
    platform: Platform


class ProbeEintrag(Answer):
    status: ProbeStatus
    httpStatus: int | None = None
    maesnType: str | None = None
    message: str | None = None


class Rechte(Answer):
    stammdaten: ProbeEintrag
    konten: ProbeEintrag
    buchungen: ProbeEintrag
    susa: ProbeEintrag
    zahlungsbedingungen: ProbeEintrag
    personenkonten: ProbeEintrag
    kassenbuch: ProbeEintrag
    belege: ProbeEintrag


class RechteAntwort(Answer):
    data: Rechte


# --- Cash book entries

Kurztext = Annotated[str, Meta(min_length=1, max_length=60)]
Kost = Annotated[str, Meta(min_length=1, max_length=36)]
# Choice 7 and 13: sizes of a cash book entry.
MOST_LINES, MOST_IMAGES = 5_000, 50


class Steuersatz(Body):
    prozent: Annotated[Decimal, Meta(description="Rate in percent.", examples=[19])] | None = None
    buSchluessel: Annotated[str, form("a tax key of up to 4 digits", r"^[0-9]{0,4}$", examples=["9"])] | None = None


class NeueBelegzeile(Body, kw_only=True):
    belegtext: Kurztext
    gegenkonto: Kontonummer
    betrag: Annotated[Decimal, Meta(description="Positive: income; negative: expense.", examples=[-11.9])]
    belegNummer: (
        Annotated[str, form("up to 36 of the characters A-Z a-z 0-9 $ & % * + - /", r"^[a-zA-Z0-9$&%+*/-]{1,36}$")]
        | None
    ) = None
    steuersatz: Steuersatz | None = None
    kostenstelle1: Kost | None = None
    kostenstelle2: Kost | None = None


class NeuesBelegbild(Body):
    content: Annotated[str, Meta(min_length=1, description="The file in base64.")]
    dateiname: Annotated[str, Meta(min_length=1, max_length=255, examples=["Quittung.pdf"])]


class NeuerKassenbucheintrag(Body, kw_only=True):
    # Choice 13: what a cash book entry must have.
    waehrung: Literal["EUR"]
    kassenname: Annotated[str, Meta(min_length=1, max_length=100)]
    betrag: Annotated[Decimal, Meta(description="The sum of the lines.", examples=[-11.9])]
    transaktionsdatum: Timestamp
    belegzeilen: Annotated[list[NeueBelegzeile], Meta(min_length=1, max_length=MOST_LINES)]
    belegbilder: Annotated[list[NeuesBelegbild], Meta(max_length=MOST_IMAGES)] = []


class SteuersatzAngabe(Answer):
    prozent: Decimal | None
    buSchluessel: str | None


class Kostenstelle(Answer):
    name: str


class Belegzeile(Answer):
    gegenkonto: str
    erstellungsdatum: Timestamp
    waehrung: str
    belegtext: str
    belegnummer: str | None
    betrag: Decimal
    steuersatz: SteuersatzAngabe | None
    kostenstellen: list[Kostenstelle]


class Belegbild(Answer):
    id: Uuid
    dateiname: str
    groesse: int
    mimeTyp: str
    sha256: str


class Meldung(Answer):
    dateiname: str | None
    nachricht: str
    zeitstempel: Timestamp
    typ: Literal["INFO", "WARNUNG", "FEHLER"]


class KassenbuchErgebnis(Answer):
    status: str
    meldungen: list[Meldung]


class Kassenbucheintrag(Answer, kw_only=True):
    erstellungsdatum: Timestamp
    waehrung: str
    kassenname: str
    betrag: Decimal
    transaktionsdatum: Timestamp
    belegzeilen: list[Belegzeile]
    belegbilder: list[Belegbild]
    ledgerAntwort: KassenbuchErgebnis | None
    platform: Platform = NOT_YET_KNOWN


# --- Person accounts

Land = Annotated[str, form("a country code of two capital letters", r"^[A-Z]{2}$", examples=["DE"])]
EmailTyp = Literal["BUSINESS", "PRIVATE", "OFFICE", "INVOICE", "PAYMENT", "OTHER"]
TelefonTyp = Literal["BUSINESS", "MOBILE", "OFFICE", "FAX", "PRIVATE", "OTHER"]
AdressTyp = Literal["BILLING", "DELIVERY", "PRIVATE", "WORK", "PICKUP"]
Sechzig = Annotated[str, Meta(min_length=1, max_length=60)]


class Email(Body):
    email: Annotated[
        str,
        form("an e-mail address", r"^[^@\x00-\x20]+@[^@\x00-\x20]+$", max_length=60, examples=["info@muster.example"]),
    ]
    typ: EmailTyp = "BUSINESS"


class Telefon(Body):
    nummer: Sechzig
    typ: TelefonTyp = "BUSINESS"


class Bankkonto(Body, kw_only=True):
    iban: Annotated[str, Meta(min_length=15, max_length=42, examples=["DE02120300000000202051"])]
    bic: Annotated[str, form("a BIC", r"^[A-Z]{6}[A-Z0-9]{2}([A-Z0-9]{3})?$", examples=["BYLADEM1001"])] | None = None
    name: Annotated[str, Meta(min_length=1, max_length=70)] | None = None
    istHauptkonto: bool = False


class Kontaktperson(Body, kw_only=True):
    nachname: Annotated[str, Meta(min_length=1, max_length=30)]
    vorname: Annotated[str, Meta(min_length=1, max_length=30)] | None = None
    anrede: Annotated[str, Meta(min_length=1, max_length=30)] | None = None
    emailAdressen: list[Email] = []
    telefonnummern: list[Telefon] = []


class Adresse(Body, kw_only=True):
    adresszeile: Annotated[str, Meta(min_length=1, max_length=36)]
    adresszeile2: Annotated[str, Meta(min_length=1, max_length=36)] | None = None
    postleitzahl: Annotated[str, Meta(min_length=1, max_length=10)]
    ort: Annotated[str, Meta(min_length=1, max_length=30)]
    laendercode: Land = "DE"
    typ: AdressTyp = "BILLING"


class Personenkonto(Body, kw_only=True):
    # Choice 15: what a person account must have and which values its fields take.
    personenkontoNummer: Annotated[
        str,
        form("a person account of 5 to 9 digits that does not start with 0", r"^[1-9][0-9]{4,8}$", examples=["10010"]),
    ]
    kontaktTyp: Literal["COMPANY", "CONTACT_PERSON", "UNDEFINED"]
    kontenrahmen: Literal["SKR03", "SKR04", "SKR14", "SKR42", "SKR51"]
    kontonummernLaenge: Annotated[int, Meta(ge=4, le=8)]
    geschaeftsjahrStartDatum: date
    firmenname: Annotated[str, Meta(min_length=1, max_length=50)] | None = None
    ustId: Annotated[str, form("a VAT id", r"^[A-Z]{2}[0-9A-Za-z+*]{2,13}$", examples=["DE136695976"])] | None = None
    emailAdressen: Annotated[list[Email], Meta(max_length=20)] = []
    telefonnummern: Annotated[list[Telefon], Meta(max_length=20)] = []
    bankkonten: Annotated[list[Bankkonto], Meta(max_length=10)] = []
    kontaktpersonen: Annotated[list[Kontaktperson], Meta(max_length=50)] = []
    adressen: Annotated[list[Adresse], Meta(max_length=20)] = []


class PersonenkontoEintrag(Answer, kw_only=True):
    id: str | None
    kontaktTyp: str
    personenkontoNummer: int
    nummer: str | None
    firmenname: str | None
    ustId: str | None
    aktualisiertAm: Timestamp | None
    projektId: str | None
    bankkonten: list[Bankkonto]
    emailAdressen: list[Email]
    telefonnummern: list[Telefon]
    kontaktpersonen: list[Kontaktperson]
    adressen: list[Adresse]


class PersonenkontoDaten(Answer):
    id: str | None
    kontonummernLaenge: int
    kontenrahmen: str
    erstelltAm: Timestamp
    geschaeftsjahrStartDatum: date
    eintraege: list[PersonenkontoEintrag]


class PersonenkontoErgebnis(Answer):
    status: str
    antwortDaten: dict[str, Any] | None
    meldungen: list[Meldung]


class PersonenkontoAntwort(Answer, kw_only=True):
    data: PersonenkontoDaten
    ledgerAntwort: PersonenkontoErgebnis
    platform: Platform = NOT_YET_KNOWN
