"""Somebody with accounts at a bank behind the simulated Enable Banking; for tests."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx

from kontobahn.bank_providers.enable_banking.rules import code_of
from simulators.enable_banking import EnableBanking
from simulators.enable_banking_data import Account, transaction
from simulators.enable_banking_wire import private_pem
from tests.bank_builder import CREDITOR_IBAN
from tests.harness import START, Organization, Service, ServiceFactory
from tests.providers.customer import Customer
from tests.waiting import eventually

GIRO, TAGESGELD = "DE02120300000000202051", "DE89370400440532013000"
BANK = code_of("Musterbank", "DE")


def open_bank() -> EnableBanking:
    """Two accounts, one of them in two pages and with something pending; and a third that the bank has blocked."""
    made = EnableBanking(lambda: START / 1_000_000)
    made.page_size = 3
    giro = Account(GIRO)
    giro.transactions = [
        transaction("119.00", "Rechnung 1", "2026-02-27", "a-1", debtor={"name": "Kunde"}, debtor_account={"iban": CREDITOR_IBAN}),
        transaction("-5.00", "EREF+E-2 SVWZ+Porto für Müller", "2026-02-28", "a-2"),
        transaction("-5.00", "EREF+E-2 SVWZ+Porto für Müller", "2026-02-28", "a-3"),
        # Two that look alike, from a bank without ids.
        transaction("-1.5", "Kaffee", "2026-02-28"),
        transaction("-1.50", "Kaffee", "2026-02-28"),
        transaction("-7.00", "Vorgemerkt", None, None, "PDNG", transaction_date="2026-03-02"),
        transaction("-99.00", "Dauerauftrag", "2026-03-15", None, "SCHD"),
    ]  # fmt: skip
    savings = Account(TAGESGELD, details="Tagesgeld", kind="SVGS", balances=[("CLBD", "-0.05")])
    savings.transactions = [
        transaction("5", "Umbuchung", "2026-03-01", "a-1", debtor_account={"iban": GIRO}),
    ]
    made.accounts = [giro, savings, Account("DE75512108001245126199", is_blocked=True)]
    return made


EVERYTHING = [
    (-7.0, "Vorgemerkt", "pending"), (-5.0, "Porto für Müller", "posted"), (-5.0, "Porto für Müller", "posted"),
    (-1.5, "Kaffee", "posted"), (-1.5, "Kaffee", "posted"), (5.0, "Umbuchung", "posted"), (119.0, "Rechnung 1", "posted"),
]  # fmt: skip


def settings_for(bank: EnableBanking, directory: Path) -> dict[str, Any]:
    key = directory / "enable-banking.pem"
    key.write_bytes(private_pem(bank.key))
    return {
        "connect_provider": "enable_banking", "enable_banking_app_id": bank.application_id, "enable_banking_key": str(key),
        "enable_banking_url": bank.address, "bank_allow": urlsplit(bank.address).netloc, "run_jobs": False,
    }  # fmt: skip


def service_for(start_service: ServiceFactory, bank: EnableBanking, directory: Path, **more: Any) -> Service:
    bank.serve()
    service = start_service(**settings_for(bank, directory), **more)
    bank.now = lambda: service.clock.now() / 1_000_000
    bank.redirect_urls = [f"{service.base_url}/banking/return/enable_banking"]
    return service


class Person(Customer):
    def __init__(self, service: Service, owner: Organization, bank: EnableBanking) -> None:
        self.service, self.owner, self.bank = service, owner, bank
        self.url = self.token = ""

    def begin(self, **body: Any) -> Person:
        answer = self.service.post("/v2/banking/connect", self.owner.key, json={"provider_code": BANK, **body})
        assert answer.status_code == 201, answer.text
        self.url, self.token = answer.json()["connect_url"], answer.json()["pending_token"]
        return self

    def come_back(self, address: str) -> httpx.Response:
        return self.service.http.get(address)

    def connect(self, **body: Any) -> dict[str, Any]:
        self.begin(**body)
        self.arrive(self.bank.sign_in(self.url))
        return self.connection()

    def arrive(self, address: str) -> None:
        """Comes back, and reloads the page for as long as the bank is being asked."""
        eventually(lambda: self.come_back(address).status_code == 200, "the return was not applied")

    def accounts(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.service.get("/v2/banking/accounts", self.owner.key).json()["data"]
        return found

    def pay(self, **body: Any) -> httpx.Response:
        account = next(one for one in self.accounts() if one["extra"]["iban"] == GIRO)
        order = {
            "account_id": account["id"], "template_identifier": "SEPA", "amount": 12.34, "currency_code": "EUR",
            "creditor_name": "Papier GmbH", "creditor_iban": CREDITOR_IBAN, "description": "Rechnung 4711", **body,
        }  # fmt: skip
        return self.service.post("/v2/banking/payments", self.owner.key, json=order)
