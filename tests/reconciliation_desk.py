"""A desk to reconcile at: a client with books, a partner, a bank account with movements, and one who asks."""

from __future__ import annotations

from typing import Any

import httpx

from tests.file_bank import FileBank
from tests.harness import Service
from tests.ledger_builder import PERSONENKONTO, Books
from tests.statement_builder import Booking, camt

PATH = "/v2/reconciliation/runs"
ANNA, OTHER = "DE27100777770209299700", "DE75512108001245126199"
SECOND = "DE12500105170648489890"
PERSON = {
    "personenkontoNummer": "10010", "kontaktTyp": "COMPANY", "kontenrahmen": "SKR03", "kontonummernLaenge": 4,
    "geschaeftsjahrStartDatum": "2026-01-01", "firmenname": "Anna Muster Bau GmbH", "bankkonten": [{"iban": ANNA}],
}  # fmt: skip
BOOKINGS = """
2026-02-10 S 10010 8400 119,00 RE-2026-00123 Rechnung
2026-02-11 S 10010 8400 238,00 RE-2026-00124 Rechnung
2026-02-12 S 10020 8400 50,00 RE-2026-00125 Rechnung
2026-02-12 H 70001 3400 77,00 L-4711 Wareneingang
"""


class Desk:
    """A client with books, a partner and a bank account, and one who asks."""

    def __init__(self, service: Service, *bookings: Booking) -> None:
        self.service = service
        self.owner = service.organization()
        self.books = Books(service, self.owner)
        self.books.post(BOOKINGS)
        assert self.books.send(PERSONENKONTO, PERSON).status_code == 201
        self.bank = FileBank(service, self.owner)
        self.account = service.get("/v2/banking/accounts", self.owner.key).json()["data"][0]["id"]
        if bookings:
            self.bank.take(
                camt(self.bank.sheet._replace(bookings=bookings, id="S-2", number=2, opening=self.bank.sheet.end))
            )

    def ask(self, key: str = "", headers: dict[str, str] | None = None, **changes: Any) -> httpx.Response:
        body = {"account_id": self.account, "connectionId": self.books.connection_id, **changes}
        return self.service.post(PATH, key or self.owner.key, json=body, headers=headers or {})

    def run(self, **changes: Any) -> dict[str, Any]:
        answer = self.ask(**changes)
        assert answer.status_code == 200, answer.text
        return dict(answer.json()["data"])


def paid(amount: int, text: str, name: str = "ANNA MUSTER BAU", iban: str = ANNA, **more: Any) -> Booking:
    return Booking(amount, text, name, iban, None, **more)


def lines(proposal: dict[str, Any]) -> list[tuple[Any, ...]]:
    return [(line["art"], line["kontonummer"], line["beleg"], line["betrag"]) for line in proposal["zeilen"]]
