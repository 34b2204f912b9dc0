"""The built-in books as a ledger provider: each answer behind the same checks an external provider makes."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date
from typing import Any, Concatenate, ParamSpec, TypeVar

from kontobahn.db import Database, Tx
from kontobahn.ledger.books import cash, persons, reading, store
from kontobahn.ledger.books.store import Client
from kontobahn.ledger.errors import Bereich, ProviderError
from kontobahn.ledger.kassenbuch import Bild, Eintrag
from kontobahn.ledger.model import (
    Belegtyp,
    Buchung,
    Kassenbuch,
    Kassenbucheintrag,
    Kontozeile,
    Opos,
    Ordnertyp,
    Personenkonto,
    PersonenkontoAntwort,
    Rechnungsordner,
    SusaZeile,
    Zahlungsbedingung,
)  # fmt: skip
from kontobahn.ledger.provider import ClientBooks, Connection, Effect, Geschaeftsjahr, OposFrage, Urheber

P = ParamSpec("P")
T = TypeVar("T")


class BooksProvider:
    name = "books"

    def __init__(self, db: Database) -> None:
        self._db = db

    async def open(self, connection: Connection, client_id: str | None) -> ClientBooks:
        return OpenBooks(self._db, await self._db.read_inline(store.find_client, connection, client_id))


class OpenBooks:
    def __init__(self, db: Database, client: Client) -> None:
        self._db = db
        self._client = client
        self.client_id = client.client_id

    async def geschaeftsjahre(self) -> list[Geschaeftsjahr]:
        known = await self._read("stammdaten", store.years)
        return [
            Geschaeftsjahr(
                date.fromisoformat(jahr.start),
                date.fromisoformat(jahr.ende),
                self._client.kontenrahmen,
                self._client.konto_laenge,
            )
            for jahr in known
        ]

    async def konten(self, jahr: date, from_id: str | None, limit: int | None) -> list[Kontozeile]:
        return await self._read("konten", reading.konten, jahr, from_id, limit)

    async def buchungen(self, jahr: date, from_id: str | None, limit: int | None) -> list[Buchung]:
        return await self._read("buchungen", reading.buchungen, jahr, from_id, limit)

    async def susa(self, jahr: date, kontonummer: str | None) -> list[SusaZeile]:
        return await self._read("susa", reading.susa, jahr, kontonummer)

    async def zahlungsbedingungen(self, jahr: date) -> list[Zahlungsbedingung]:
        return await self._read("zahlungsbedingungen", reading.zahlungsbedingungen, jahr)

    async def offene_posten(self, frage: OposFrage) -> Opos:
        return await self._read("buchungen", reading.offene_posten, frage)

    async def kassenbuecher(self) -> list[Kassenbuch]:
        return await self._read("kassenbuch", reading.kassenbuecher)

    async def rechnungsordner(self, ordnertyp: Ordnertyp | None) -> list[Rechnungsordner]:
        return await self._read("kassenbuch", reading.rechnungsordner, ordnertyp)

    async def belegtypen(self) -> list[Belegtyp]:
        return await self._read("belege", reading.belegtypen)

    async def create_kassenbucheintrag(self, eintrag: Eintrag, urheber: Urheber) -> Effect[Kassenbucheintrag]:
        bereiche: tuple[Bereich, ...] = ("kassenbuch", "belege") if eintrag.bilder else ("kassenbuch",)

        def effect(tx: Tx) -> Kassenbucheintrag:
            store.require(tx, self._client, *bereiche)
            return cash.create_entry(tx, self._client, eintrag, urheber)

        return effect

    async def belegbild(self, bild_id: str) -> Bild | None:
        return await self._read("belege", cash.find_image, bild_id)

    async def save_personenkonto(
        self, konto: Personenkonto, urheber: Urheber
    ) -> Effect[tuple[PersonenkontoAntwort, bool]]:
        def effect(tx: Tx) -> tuple[PersonenkontoAntwort, bool]:
            store.require(tx, self._client, "personenkonten")
            return persons.save(tx, self._client, konto, urheber)

        return effect

    async def active_subscriptions(self) -> list[str]:
        return await self._db.read(store.subscriptions, self._client)

    def needed_subscription(self, bereich: Bereich) -> str:
        return store.needed_subscription(bereich)

    async def probe(self, bereich: Bereich, jahr: date | None) -> None:
        await self._db.read(_probe, self._client, bereich)

    async def _read(
        self, bereich: Bereich, fn: Callable[Concatenate[Tx, Client, P], T], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        return await self._db.read(_guarded, self._client, bereich, fn, args, kwargs)


def _guarded(tx: Tx, client: Client, bereich: Bereich, fn: Any, args: Any, kwargs: Any) -> Any:
    store.require(tx, client, bereich)
    return fn(tx, client, *args, **kwargs)


def _probe(tx: Tx, client: Client, bereich: Bereich) -> None:
    store.require(tx, client, bereich)
    if bereich == "stammdaten" and not store.years(tx, client):
        raise ProviderError(404, "the client has no fiscal year yet", type="year")
