"""A desk to reconcile at: a client with books, a partner, a bank account with movements, and one who asks."""

from __future__ import annotations

from typing import Any

import httpx

from tests.file_bank import FileBank
from tests.harness import Organization, Service
from tests.ledger_builder import PERSONENKONTO, Books
from tests.statement_builder import Booking, camt

PATH = "/v2/reconciliation/runs"
OPOS = "/v2/ledger-rewe-read/opos"
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

    def __init__(self, service: Service, *bookings: Booking, owner: Organization | None = None) -> None:
        self.service = service
        self.owner = owner or service.organization()
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
        body = {"account_id": self.account, "connection_id": self.books.connection_id, **changes}
        return self.service.post(PATH, key or self.owner.key, json=body, headers=headers or {})

    def run(self, **changes: Any) -> dict[str, Any]:
        answer = self.ask(**changes)
        assert answer.status_code == 200, answer.text
        return dict(answer.json()["data"])


def paid(amount: int, text: str, name: str = "ANNA MUSTER BAU", iban: str = ANNA, **more: Any) -> Booking:
    return Booking(amount, text, name, iban, None, **more)


def lines(proposal: dict[str, Any]) -> list[tuple[Any, ...]]:
    return [(line["kind"], line["konto"], line["beleg"], line["amount"]) for line in proposal["lines"]]


class Clerk(Desk):
    """A desk whose account is set up, with one who decides."""

    def __init__(
        self, service: Service, *bookings: Booking, owner: Organization | None = None, **settings: Any
    ) -> None:
        super().__init__(service, *bookings, owner=owner)
        assert self.set_up(**settings).status_code == 200

    def set_up(self, **changes: Any) -> httpx.Response:
        body = {"connection_id": self.books.connection_id, "konto": "1200", "fee_konto": "4970", **changes}
        return self.call("PUT", f"accounts/{self.account}", json=body)

    def call(self, method: str, path: str, key: str = "", **options: Any) -> httpx.Response:
        return self.service.request(method, f"/v2/reconciliation/{path}", key or self.owner.key, **options)

    def read(self, path: str, **query: Any) -> Any:
        answer = self.call("GET", path, params=query)
        assert answer.status_code == 200, answer.text
        return answer.json()["data"]

    def store_run(self) -> dict[str, Any]:
        answer = self.ask(connection_id=None, trial=False)
        assert answer.status_code == 201, answer.text
        return dict(answer.json()["data"])

    def listed(self, amount: float) -> dict[str, Any]:
        """The transaction of this amount, as reconciliation lists it."""
        [found] = [row for row in self.read("transactions") if row["amount"] == amount]
        return dict(found)

    def confirm(self, amount: float) -> httpx.Response:
        """Confirms the best proposal for the transaction of this amount."""
        return self.confirm_id(self.listed(amount)["best_proposal"]["id"])

    def confirm_id(self, proposal_id: str, **options: Any) -> httpx.Response:
        return self.call("POST", f"proposals/{proposal_id}/confirm", **options)

    def by_hand(self, amount: float, *lines: dict[str, Any]) -> httpx.Response:
        cents = round(amount * 100)
        [(id,)] = self.books.rows("SELECT id FROM banking_transactions WHERE amount_minor = ?", cents)
        return self.call("POST", "matches", json={"transaction_id": str(id), "lines": list(lines)})

    def undo(self, match_id: str, reason: str = "") -> httpx.Response:
        return self.call("POST", f"matches/{match_id}/undo", json={"reason": reason})

    def events(self) -> list[str]:
        return [
            event
            for (event,) in self.books.rows("SELECT event FROM webhook_events ORDER BY sequence")
            if event.startswith("match_")
        ]


def item(beleg: str, amount: float, konto: str = "10010", **more: Any) -> dict[str, Any]:
    return {"kind": "item", "konto": konto, "beleg": beleg, "amount": amount, **more}


def refused(answer: httpx.Response, status: int, field: str | None = None) -> dict[str, Any]:
    """Returns the body of an answer of a free call that must be this refusal."""
    assert answer.status_code == status, answer.text
    body: dict[str, Any] = answer.json()
    assert field is None or body.get("field") == field, body
    return body


class Office(Clerk):
    def make(self, **changes: Any) -> httpx.Response:
        return self.call("POST", "batches", json={"account_id": self.account, **changes})

    def made(self, **changes: Any) -> dict[str, Any]:
        answer = self.make(**changes)
        assert answer.status_code == 201, answer.text
        return dict(answer.json()["data"])

    def match_all(self) -> dict[str, str]:
        """Matches the three payments: in full, with a discount, and too much. Returns the ids of the matches by amount."""
        sent: dict[str, tuple[Any, ...]] = {
            "119": (119, item("RE-2026-00123", 119)),
            "233.24": (233.24, item("RE-2026-00124", 233.24, skonto=4.76)),
            "60": (60, item("RE-2026-00125", 50, "10020"), {"kind": "on_account", "konto": "10020", "amount": 10}),
        }
        found = {}
        for name, (amount, *lines) in sent.items():
            answer = self.by_hand(amount, *lines)
            assert answer.status_code == 201, answer.text
            found[name] = answer.json()["data"]["id"]
        return found

    def match_two(self) -> list[str]:
        """Matches 119.00 and 238.00 in full. Returns the ids of the matches."""
        pairs = ((119, "RE-2026-00123"), (238, "RE-2026-00124"))
        return [str(self.by_hand(amount, item(beleg, amount)).json()["data"]["id"]) for amount, beleg in pairs]

    def open_items(self) -> dict[tuple[str, str], float]:
        return {
            (konto["kontonummer"], posten["beleg"]): posten["saldo"]
            for konto in self.books.read(OPOS)["konten"]
            for posten in konto["posten"]
        }
