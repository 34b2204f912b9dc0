"""An account that is kept by files, for tests: statements imported, orders made, their pages opened as a payer would."""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx
import pytest

from kontobahn.banking.imports.files import ReadFile, own_ibans
from kontobahn.banking.imports.importer import StatementImporter, arrive
from kontobahn.banking.imports.store import ImportResult
from kontobahn.banking.transactions import arrivals, ingest
from kontobahn.db import Tx
from kontobahn.formats.bank_files import read
from tests.bank_builder import order
from tests.harness import Organization, Service
from tests.statement_builder import Booking, Sheet, camt, follow_up

PAYMENTS = "/v2/banking/payments"


def import_file(
    service: Service,
    owner: Organization,
    content: bytes,
    name: str = "auszug.xml",
    *,
    unbalanced: bool = False,
    **more: Any,
) -> ImportResult:
    def unit(tx: Tx) -> ImportResult:
        return StatementImporter(tx, owner.id, name, unbalanced=unbalanced, **more).import_file(file)

    items = read(io.BytesIO(content), name, unbalanced=unbalanced)
    with ReadFile(items, service.db.read_now(own_ibans, owner.id)) as file:
        try:
            arrive(service.db, owner.id, file, unbalanced=unbalanced, **more)
            return service.db.write_now(unit)
        finally:
            arrivals.give_up(service.db, file.arrivals)


@contextmanager
def stored_in_slices(are_they: bool = True) -> Iterator[None]:
    """Every file counts as a large one meanwhile, and is stored two bookings at a time."""
    with pytest.MonkeyPatch.context() as patch:
        if are_they:
            patch.setattr(arrivals, "LARGE", 1)
            patch.setattr(arrivals, "MAX_CHUNKS", 1)
            patch.setattr(ingest, "CHUNK", 2)
        yield


def account(service: Service, owner: Organization) -> dict[str, Any]:
    """The organisation's only account."""
    [found] = service.get("/v2/banking/accounts", owner.key).json()["data"]
    return dict(found)


def transactions(service: Service, owner: Organization) -> list[dict[str, Any]]:
    query = {"account_id": account(service, owner)["id"], "sort": "id"}
    return list(service.get("/v2/banking/transactions", owner.key, params=query).json()["data"])


class FileBank:
    def __init__(self, service: Service, owner: Organization | None = None, **sheet: Any) -> None:
        self.service = service
        self.owner = owner or service.organization()
        self.sheet = Sheet([Booking(1)], **sheet)
        self.take(camt(self.sheet))

    @property
    def key(self) -> str:
        return self.owner.key

    def take(self, content: bytes, name: str = "auszug.xml") -> ImportResult:
        """Imports a file of the bank's."""
        return import_file(self.service, self.owner, content, name)

    def book(self, *bookings: Booking, days: int = 1) -> ImportResult:
        """The next statement, with these bookings."""
        self.sheet = follow_up(self.sheet, *bookings, days=days)
        return self.take(camt(self.sheet))

    def book_debit(self, payment: dict[str, Any], days: int = 1) -> ImportResult:
        amount = -round(payment["amount"] * 100)
        return self.book(Booking(amount, payment["description"], end_to_end_id=payment["end_to_end_id"]), days=days)

    def account_id(self) -> str:
        return str(account(self.service, self.owner)["id"])

    def ask(self, **more: Any) -> httpx.Response:
        return self.service.post(PAYMENTS, self.key, json=order(self.account_id(), **more))

    def pay(self, **more: Any) -> dict[str, Any]:
        answer = self.ask(**more)
        assert answer.status_code == 201, answer.text
        return dict(answer.json()["data"])

    def payment(self, payment: dict[str, Any]) -> dict[str, Any]:
        answer = self.service.get(f"{PAYMENTS}/{payment['id']}", self.key)
        assert answer.status_code == 200, answer.text
        return dict(answer.json()["data"])

    def order_file(self, payment: dict[str, Any]) -> httpx.Response:
        return self.service.get(f"{PAYMENTS}/{payment['id']}/order", self.key)

    def history(self, payment: dict[str, Any]) -> list[tuple[str, str | None, str]]:
        listed = self.service.get(f"{PAYMENTS}/{payment['id']}/history", self.key).json()["data"]
        return [(event["source"], event["status"], event["outcome"]) for event in listed]
