"""Somebody who pays from an account that is connected by EBICS, at the pages of a service; for tests."""

from __future__ import annotations

from typing import Any

from tests.dashboard.browsing import Browser
from tests.providers.ebics.person import PARTNER, Person

EMAIL = "erika@muster.example"
PAYEES = (("Papier GmbH", "DE75512108001245126199"), ("Druck AG", "DE02500105170137075030"))
ORDERS = ("CCT", "CTV", "CIP", "CIV")


class Office:
    """Somebody who pays from an account that is connected by EBICS."""

    def __init__(self, person: Person) -> None:
        self.person, self.bank, self.service, self.key = person, person.bank, person.service, person.owner.key
        self.service.user(person.owner, EMAIL)
        self.browser = Browser(self.service)

    def call(self, method: str, path: str, **more: Any) -> Any:
        answer = self.service.request(method, path, self.key, **more)
        assert answer.status_code in (200, 201), answer.text
        return answer.json()["data"]

    def file(self) -> dict[str, Any]:
        """Two transfers in a file."""
        [account] = self.person.accounts()
        shared = {"account_id": account["id"], "amount": "12.34", "description": "Rechnung"}
        made = [
            self.call("POST", "/v2/banking/payments", json={**shared, "creditor_name": name, "creditor_iban": iban})[
                "id"
            ]
            for name, iban in PAYEES
        ]
        found: dict[str, Any] = self.call("POST", "/v2/banking/order-files", json={"payment_ids": made})
        return found

    def send(self, file: dict[str, Any]) -> str:
        """Sends a file on its page, and returns what the page says then."""
        page = f"/dashboard/payments/order-files/{file['id']}"
        self.browser.sign_in(EMAIL)
        answer = self.browser.post(f"{page}/submit")
        return answer.text if answer.status_code >= 400 else self.browser.get(page).text

    def page(self, file: dict[str, Any]) -> str:
        # Hours pass between two fetches.
        self.browser.sign_in(EMAIL)
        return self.browser.get(f"/dashboard/payments/order-files/{file['id']}").text

    def at_bank(self) -> list[Any]:
        return [order for order in self.bank.partners[PARTNER].orders if order.kind in ORDERS]
