"""Received invoices on their way to the bank, for tests: an inbox with an account that is kept by files."""

from __future__ import annotations

from datetime import date
from typing import Any

import httpx

from kontobahn.formats.invoices.model import CREDIT_NOTE, CreditTransfer, Totals
from kontobahn.payables.settlement import follow
from tests.file_bank import FileBank
from tests.harness import Organization, Service
from tests.ledger_builder import PERSONENKONTO
from tests.received_invoices import COFFEE, CREDITOR, Inbox, as_xml

RUNS = "/v2/payables/payment-runs"
PAYER_IBAN = "DE89370400440532013000"
TEA_IBAN, TEA_VAT_ID = "DE75512108001245126199", "DE811569869"


def invoice(number: str, cents: int = 3302, **changes: Any) -> bytes:
    """An invoice over this amount; its sums need not add up, which is only a finding."""
    sums = Totals(lines_minor=cents, net_minor=cents, vat_minor=0, gross_minor=cents, due_minor=cents)
    return as_xml(COFFEE._replace(number=number, totals=sums, **changes))


def credit_note(number: str, cents: int) -> bytes:
    return invoice(number, cents, type_code=CREDIT_NOTE)


def in_dollars(number: str, cents: int) -> bytes:
    return invoice(number, cents, currency="USD", payment=COFFEE.payment._replace(terms=None))


def of_tea(number: str, cents: int = 1000) -> bytes:
    """An invoice of another creditor."""
    seller = COFFEE.seller._replace(name="Teehaus Elbe KG", vat_id=TEA_VAT_ID)
    payment = COFFEE.payment._replace(transfers=[CreditTransfer(TEA_IBAN)], terms=None)
    return invoice(number, cents, seller=seller, payment=payment)


def without_skonto(number: str, cents: int, due_on: date | None = COFFEE.payment.due_on) -> bytes:
    return invoice(number, cents, payment=COFFEE.payment._replace(terms=None, due_on=due_on))


class Payer(Inbox):
    """An inbox whose invoices are paid from an account that is kept by files, or from the one that is named."""

    bank: FileBank

    def __init__(
        self, service: Service, owner: Organization | None = None, account_id: str = "", **creditor: Any
    ) -> None:
        super().__init__(service, owner, **creditor)
        tea = {
            **CREDITOR, "personenkontoNummer": "70002", "firmenname": "Teehaus Elbe KG", "ustId": TEA_VAT_ID,
            "bankkonten": [{"iban": TEA_IBAN}],
        }  # fmt: skip
        assert self.books.send(PERSONENKONTO, tea).status_code == 201
        if not account_id:
            self.bank = FileBank(service, self.owner, iban=PAYER_IBAN)
        self.account = account_id or self.bank.account_id()

    def released(self, content: bytes | None = None, key: str = "") -> dict[str, Any]:
        payable = self.received(content)
        answer = self.decide(payable, "release", key)
        assert answer.status_code == 200, answer.text
        return dict(answer.json()["data"])

    def ask(self, *payables: dict[str, Any], key: str = "", once: str = "", **body: Any) -> httpx.Response:
        if payables:
            body["payable_ids"] = [payable["id"] for payable in payables]
        headers = {"Idempotency-Key": once} if once else {}
        return self.service.post(
            RUNS, key or self.owner.key, json={"account_id": self.account, **body}, headers=headers
        )

    def run(self, *payables: dict[str, Any], **body: Any) -> dict[str, Any]:
        answer = self.ask(*payables, **body)
        assert answer.status_code == 201, answer.text
        return dict(answer.json()["data"])

    def trial(self, *payables: dict[str, Any], **body: Any) -> dict[str, Any]:
        answer = self.ask(*payables, trial=True, **body)
        assert answer.status_code == 200, answer.text
        return dict(answer.json()["data"])

    def statuses(self, *payables: dict[str, Any]) -> list[str]:
        return [self.shown(payable)["status"] for payable in payables]

    def payments(self) -> list[dict[str, Any]]:
        return list(self.service.get("/v2/banking/payments", self.owner.key, params={"sort": "id"}).json()["data"])

    def follow(self) -> None:
        """Does what the job does."""
        self.service.db.write_now(follow, self.owner.id)

    def events(self) -> list[str]:
        return [
            event
            for (event,) in self.books.rows("SELECT event FROM webhook_events ORDER BY sequence")
            if event.startswith("payable.")
        ]
