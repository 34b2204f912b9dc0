"""Which payment paid which invoice. Names are those of the API."""

from __future__ import annotations

from datetime import date
from decimal import Decimal

from kontobahn_client.models.common import Answer, Body


class NeuerLauf(Body, kw_only=True):
    account_id: str
    connectionId: str
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
    engine_version: str
    account_id: str
    from_date: date
    to_date: date
    transaktionen: int
    offene_posten: int
    gebucht: int
    stammdaten: bool
    klassen: list[LaufKlasse]
    data: list[LaufTransaktion]
