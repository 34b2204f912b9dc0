"""Which payment paid which invoice. Names are those of the API."""

from __future__ import annotations

from datetime import date, datetime
from decimal import Decimal
from typing import Literal

import msgspec

from kontobahn_client.models.common import Answer, Body


class NeuerLauf(Body, kw_only=True):
    account_id: str
    connectionId: str | None = None
    clientId: str | None = None
    from_date: date | None = None
    to_date: date | None = None
    probelauf: bool = True
    limit: int = 100


class LaufKlasse(Answer, kw_only=True):
    klasse: str
    anzahl: int
    eindeutig: int
    betrag: Decimal


class LaufGrund(Answer, kw_only=True):
    signal: str
    wert: str
    feld: str | None
    von: int | None
    bis: int | None
    bits: Decimal


class LaufZeile(Answer, kw_only=True):
    art: str
    kontonummer: str
    beleg: str
    betrag: Decimal


class LaufVorschlag(Answer, kw_only=True):
    klasse: str
    eindeutig: bool
    punkte: Decimal
    zeilen: list[LaufZeile]
    gruende: list[LaufGrund]


class LaufTransaktion(Answer, kw_only=True):
    id: str
    made_on: date
    betrag: Decimal
    name: str | None
    vorschlaege: list[LaufVorschlag]


class Lauf(Answer, kw_only=True):
    id: str | None
    probelauf: bool
    engine_version: str
    account_id: str
    from_date: date
    to_date: date
    transaktionen: int
    offene_posten: int
    gebucht: int
    stammdaten: bool
    zugeordnet: int
    vorgeschlagen: int
    ueberholt: int
    klassen: list[LaufKlasse]
    data: list[LaufTransaktion]


class NeueEinstellungen(Body, kw_only=True):
    connectionId: str
    sachkonto: str
    clientId: str | None = None
    gebuehrenkonto: str | None = None
    transferkonto: str | None = None
    start_date: date | None = None
    bucht: Literal["kanzlei", "kontobahn"] = "kanzlei"
    automatisch: list[Literal["A1", "A2", "A3", "A4", "A5"]] = msgspec.field(default_factory=list)


class Kontoeinstellungen(Answer, kw_only=True):
    account_id: str
    connectionId: str
    clientId: str
    sachkonto: str
    gebuehrenkonto: str | None
    transferkonto: str | None
    start_date: date | None
    bucht: str
    automatisch: list[str]
    geaendert_von: str
    geaendert_am: datetime


class Vorschlag(Answer, kw_only=True):
    id: str
    transaction_id: str
    status: str
    platz: int
    klasse: str
    eindeutig: bool
    punkte: Decimal
    zeilen: list[LaufZeile]
    gruende: list[LaufGrund]
    engine_version: str


class Ruecknahme(Answer, kw_only=True):
    id: str
    grund: str
    von: str
    am: datetime


class Zuordnung(Answer, kw_only=True):
    id: str
    transaction_id: str
    account_id: str
    connectionId: str
    clientId: str
    proposal_id: str | None
    klasse: str | None
    made_on: date
    betrag: Decimal
    name: str | None
    zeilen: list[LaufZeile]
    von: str
    am: datetime
    ruecknahme: Ruecknahme | None


class NeueZeile(Body, kw_only=True):
    art: Literal["posten", "skonto", "gebuehr", "differenz", "akonto", "ruecklast", "transfer", "sachkonto"]
    betrag: Decimal
    kontonummer: str | None = None
    beleg: str = ""
    skonto: Decimal | None = None


class NeueZuordnung(Body, kw_only=True):
    transaction_id: str
    zeilen: list[NeueZeile]


class NeueRuecknahme(Body, kw_only=True):
    grund: str = ""


class NeueBestaetigungen(Body, kw_only=True):
    ids: list[str]


class Bestaetigung(Answer, kw_only=True):
    id: str
    match_id: str | None
    fehler: str | None


class NeuerStatus(Body, kw_only=True):
    status: Literal["ignored", "open"]


class Abgleich(Answer, kw_only=True):
    id: str
    account_id: str
    status: str
    entfernt: bool
    made_on: date | None
    betrag: Decimal | None
    currency_code: str | None
    name: str | None
    iban: str | None
    verwendungszweck: str | None
    vorschlag: Vorschlag | None
    match_id: str | None


class AbgleichMitVorschlaegen(Abgleich, kw_only=True):
    vorschlaege: list[Vorschlag]
    zuordnungen: list[Zuordnung]


class Gelernt(Answer, kw_only=True):
    id: str
    art: str
    wert: str
    kontonummer: str
    bestaetigt: int
    wirksam: bool
    zuerst: datetime
    zuletzt: datetime


class Regel(Body, kw_only=True):
    name: str
    sachkonto: str
    text: str = ""
    iban: str = ""
    richtung: Literal["eingang", "ausgang", "alle"] = "alle"
    von: Decimal | None = None
    bis: Decimal | None = None


class NeueRegeln(Body, kw_only=True):
    regeln: list[Regel]


class GespeicherteRegel(Answer, kw_only=True):
    id: str
    name: str
    sachkonto: str
    text: str
    iban: str
    richtung: str
    von: Decimal | None
    bis: Decimal | None


class BerichtKlasse(Answer, kw_only=True):
    klasse: str
    zuordnungen: int
    automatisch: int
    betrag: Decimal
    zurueckgenommen: int


class BerichtStatus(Answer, kw_only=True):
    open: int
    proposed: int
    matched: int
    ignored: int
    booked: int


class Bericht(Answer, kw_only=True):
    account_id: str
    from_date: date
    to_date: date
    transaktionen: BerichtStatus
    klassen: list[BerichtKlasse]
    automatisch: int
    automatisch_zurueckgenommen: int
    je_tausend: Decimal | None
    bestaetigt: int
    davon_erster_platz: int
    abgelehnt: int


class NeuerStapel(Body, kw_only=True):
    account_id: str
    from_date: date | None = None
    to_date: date | None = None


class Stapel(Answer, kw_only=True):
    id: str
    account_id: str
    connectionId: str
    clientId: str
    bucht: str
    geschaeftsjahrStartDatum: date
    from_date: date
    to_date: date
    zuordnungen: int
    stornos: int
    summe: Decimal
    dateiname: str | None
    sha256: str | None
    importe: list[str]
    von: str
    am: datetime


class Stapelzeile(Answer, kw_only=True):
    match_id: str
    transaction_id: str
    made_on: date
    storno: bool
    kontonummer: str
    beleg: str
    betrag: Decimal
    skonto: Decimal
    buchungstext: str


class StapelAuslassung(Answer, kw_only=True):
    match_id: str
    transaction_id: str
    grund: str
    kontonummer: str | None
    beleg: str | None
    offen: Decimal | None
    betrag: Decimal | None


class StapelPosten(Answer, kw_only=True):
    kontonummer: str
    beleg: str
    vorher: Decimal
    nachher: Decimal


class StapelMitZeilen(Stapel, kw_only=True):
    zeilen: list[Stapelzeile]
    ausgelassen: list[StapelAuslassung]
    posten: list[StapelPosten]
