"""The port: what an accounting provider must offer. The built-in books are one adapter of it; an external one is another.

A provider translates; it does not charge, serve or emit. It says no by raising ProviderError with the status it was given.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import date
from typing import NamedTuple, Protocol, TypeVar

from kontobahn.db import Tx
from kontobahn.ledger.errors import Bereich
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

T = TypeVar("T")

# What remains to be written when the provider has done its part: run in the one transaction that also confirms the charge and
# keeps the answer for repeats. For the built-in books it is the whole effect.
Effect = Callable[[Tx], T]


class Connection(NamedTuple):
    organization_id: str
    id: str
    provider: str
    status: str


class Geschaeftsjahr(NamedTuple):
    start: date
    ende: date
    kontenrahmen: str
    konto_laenge: int


class OposFrage(NamedTuple):
    stichtag: date
    filter: str
    eb_modus: str
    kontonummer: str | None


class Urheber(NamedTuple):
    """Who writes, for the provider's protocol."""

    request_id: str
    quelle: str


class ClientBooks(Protocol):
    """The books of one client, open."""

    client_id: str

    async def geschaeftsjahre(self) -> list[Geschaeftsjahr]: ...

    async def konten(self, jahr: date, from_id: str | None, limit: int | None) -> list[Kontozeile]: ...

    async def buchungen(self, jahr: date, from_id: str | None, limit: int | None) -> list[Buchung]: ...

    async def susa(self, jahr: date, kontonummer: str | None) -> list[SusaZeile]: ...

    async def zahlungsbedingungen(self, jahr: date) -> list[Zahlungsbedingung]: ...

    async def offene_posten(self, frage: OposFrage) -> Opos: ...

    async def kassenbuecher(self) -> list[Kassenbuch]: ...

    async def rechnungsordner(self, ordnertyp: Ordnertyp | None) -> list[Rechnungsordner]: ...

    async def belegtypen(self) -> list[Belegtyp]: ...

    async def create_kassenbucheintrag(self, eintrag: Eintrag, urheber: Urheber) -> Effect[Kassenbucheintrag]: ...

    async def belegbild(self, bild_id: str) -> Bild | None:
        """A receipt image that an entry came with."""

    async def save_personenkonto(
        self, konto: Personenkonto, urheber: Urheber
    ) -> Effect[tuple[PersonenkontoAntwort, bool]]:
        """The answer, and whether the account was created (otherwise updated)."""

    async def active_subscriptions(self) -> list[str]: ...

    def needed_subscription(self, bereich: Bereich) -> str:
        """The service that this area belongs to, by the provider's name for it."""

    async def probe(self, bereich: Bereich, jahr: date | None) -> None:
        """Touch the area without effect; ProviderError where it is closed."""


class LedgerProvider(Protocol):
    name: str

    async def open(self, connection: Connection, client_id: str | None) -> ClientBooks:
        """The client asked for, or the connection's default one; BadRequest where there is no such client."""


class Ledger(NamedTuple):
    """The ledger area's part of the application: its providers by name."""

    providers: dict[str, LedgerProvider]
