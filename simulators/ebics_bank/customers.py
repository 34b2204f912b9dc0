"""Customers of the bank, their users with keys, rights and classes, and what waits for them: files, orders, and the protocol."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import date, datetime
from typing import Literal

from simulators.ebics_bank.books import Account
from simulators.ebics_bank.catalogue import Level
from simulators.ebics_bank.payments import TransferFile
from simulators.ebics_bank.secrecy import PublicKey

State = Literal["new", "ini", "hia", "initialised", "ready", "suspended"]
# As HTD and HKD number them.
STATES: dict[State, str] = {"ready": "1", "new": "2", "ini": "3", "hia": "4", "initialised": "5", "suspended": "6"}


@dataclass
class User:
    id: str
    name: str = "Technischer Teilnehmer"
    # E signs alone, A and B together with another, T only transports.
    level: Level = "T"
    rights: set[str] = field(default_factory=set)
    state: State = "new"
    # By role: Signature, Authentication, Encryption.
    keys: dict[str, PublicKey] = field(default_factory=dict)


@dataclass
class Delivery:
    """A file that waits to be fetched."""

    kind: str
    day: date
    name: str
    content: bytes
    is_fetched: bool = False


@dataclass
class Order:
    id: str
    kind: str
    user: str
    content: bytes
    digest: bytes
    at: datetime
    # The users who signed, with their class. Class T signs nothing.
    signatures: list[tuple[str, Level]] = field(default_factory=list)
    state: Literal["waiting", "executed", "cancelled", "refused"] = "waiting"
    file: TransferFile | None = None
    # Whether a person has to release it because of a payee's name.
    waits_for_release: bool = False


@dataclass(frozen=True)
class Event:
    """A line of the customer's protocol, in the terms of HAC."""

    at: datetime
    user: str
    action: str
    kind: str
    order: str
    code: str = ""
    more: tuple[str, ...] = ()


@dataclass
class Partner:
    id: str
    name: str = "Muster GmbH"
    accounts: list[Account] = field(default_factory=list)
    users: dict[str, User] = field(default_factory=dict)
    deliveries: list[Delivery] = field(default_factory=list)
    orders: list[Order] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)
    events_fetched: int = 0

    def account(self, iban: str) -> Account | None:
        return next((account for account in self.accounts if account.iban == iban), None)

    def order(self, number: str) -> Order | None:
        return next((order for order in self.orders if order.id == number), None)
