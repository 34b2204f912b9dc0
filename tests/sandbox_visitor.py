"""A person at the sandbox bank, for tests: goes through its pages as a browser without scripts would."""

from __future__ import annotations

import html
import re
from collections.abc import Callable
from typing import Any, TypeVar
from urllib.parse import parse_qs, urlsplit

import httpx
import msgspec

from kontobahn.bank_providers.sandbox import store
from kontobahn.bank_providers.sandbox.adapter import move_clock
from kontobahn.bank_providers.sandbox.store import SandboxConnection
from kontobahn.clock import SECOND
from tests.bank_builder import CREDITOR_IBAN
from tests.harness import Organization, Service

RETURN_TO = "https://app.muster.example/zurueck?von=bank"
T = TypeVar("T")


class Visitor:
    def __init__(self, service: Service) -> None:
        self.service = service
        # Follows no redirect.
        self.browser = service.http

    # --- The bank

    def deliver(self) -> int:
        """Lets the bank do what is due and deliver its reports."""
        return int(self.service.run(self.service.application.sandbox.sender.run()))

    def at_bank(self, fn: Callable[..., T], *args: Any, **options: Any) -> T:
        """Makes something happen at the bank, and lets it report that."""
        done = self.service.db.write_now(fn, *args, **options)
        self.deliver()
        return done

    def later(self, seconds: int) -> None:
        """Time passes at the bank, not here."""
        self.at_bank(lambda tx: move_clock(tx, store.ahead(tx) + seconds * SECOND))

    def connection(self) -> SandboxConnection:
        """The bank's side of the latest connection."""
        return self.service.db.read_now(store.open_connections)[-1]

    # --- Its pages

    def post(self, url: str, action: str, **fields: Any) -> httpx.Response:
        return self.browser.post(url, data={"action": action, **fields})

    def start(self, owner: Organization, api: str = "partner", **body: Any) -> dict[str, Any]:
        answer = self.service.post(f"/v2/banking/connect?api={api}", owner.key, json=body)
        assert answer.status_code == 201, answer.text
        started: dict[str, Any] = answer.json()
        return started

    def sign_in(self, url: str, user: str = "demo", password: str = "geheim") -> httpx.Response:
        return self.post(url, "login", user_name=user, password=password)

    def consent(self, url: str, accounts: tuple[int, ...] = (0, 1, 2)) -> httpx.Response:
        return self.post(url, "consent", account=[str(number) for number in accounts])

    def connect(
        self, owner: Organization, user: str = "demo", bank: str = "musterbank", api: str = "partner",
        accounts: tuple[int, ...] = (0, 1, 2), **body: Any,
    ) -> dict[str, Any]:  # fmt: skip
        """Goes all the way, and returns the connection as the service shows it."""
        started = self.start(owner, api, provider_code=bank, **body)
        self.finish(started["connect_url"], user, accounts)
        return self.shown(owner, started["pending_token"])

    def finish(self, url: str, user: str = "demo", accounts: tuple[int, ...] = (0, 1, 2)) -> httpx.Response:
        self.sign_in(url, user)
        if user != "notan":
            self.post(url, "tan", tan="123456")
        done = self.consent(url, accounts)
        assert done.status_code == 303, done.text
        return done

    def shown(self, owner: Organization, connection_id: str) -> dict[str, Any]:
        answer = self.service.get(f"/v2/banking/connections/{connection_id}", owner.key)
        assert answer.status_code == 200, answer.text
        connection: dict[str, Any] = answer.json()["data"]
        return connection

    def refresh(self, owner: Organization, connection_id: str) -> httpx.Response:
        """Asks for a manual refresh, after the wait that the bank requires."""
        self.service.clock.advance(seconds=61)
        answer = self.service.post(f"/v2/banking/connections/{connection_id}/refresh", owner.key)
        self.deliver()
        return answer

    # --- Accounts, transactions and payments as the service has them

    def accounts(self, owner: Organization) -> list[dict[str, Any]]:
        data: list[dict[str, Any]] = self.service.get("/v2/banking/accounts", owner.key).json()["data"]
        return data

    def transactions(self, owner: Organization, connection_id: str, **query: Any) -> list[dict[str, Any]]:
        params = {"connection_id": connection_id, **query}
        answer = self.service.get("/v2/banking/transactions", owner.key, params=params)
        assert answer.status_code == 200, answer.text
        data: list[dict[str, Any]] = answer.json()["data"]
        return data

    def order(self, owner: Organization, creditor: str = "Papier GmbH", **more: Any) -> dict[str, Any]:
        account = next(one for one in self.accounts(owner) if one["nature"] == "checking")
        body = {
            "account_id": account["id"], "amount": "12.34", "creditor_name": creditor, "creditor_iban": CREDITOR_IBAN,
            "description": "Rechnung 4711", **more,
        }  # fmt: skip
        answer = self.service.post("/v2/banking/payments", owner.key, json=body)
        assert answer.status_code == 201, answer.text
        payment: dict[str, Any] = answer.json()["data"]
        return payment

    def authorise(self, payment: dict[str, Any], user: str = "demo") -> httpx.Response:
        url = payment["payment_url"]
        self.sign_in(url, user)
        self.post(url, "tan", tan="123456")
        return self.post(url, "confirm")

    def payment(self, owner: Organization, payment: dict[str, Any]) -> dict[str, Any]:
        """As it is stored, without asking the bank."""
        listed = self.service.get("/v2/banking/payments", owner.key).json()["data"]
        found: dict[str, Any] = next(one for one in listed if one["id"] == payment["id"])
        return found

    def reason(self, owner: Organization, payment: dict[str, Any]) -> Any:
        """The cause of the payment's last change."""
        history = self.service.get(f"/v2/banking/payments/{payment['id']}/history", owner.key).json()["data"]
        return [event["error_class"] for event in history if event["outcome"] == "moved"][-1]


def query_of(response: httpx.Response) -> dict[str, str]:
    """Returns the query fields of the address that the person is sent back to."""
    location = urlsplit(response.headers["location"])
    return {name: values[0] for name, values in parse_qs(location.query).items()}


def words(response: httpx.Response) -> str:
    """Returns what a page says."""
    return " ".join(html.unescape(re.sub(r"<[^>]+>", " ", response.text)).split())


def events(service: Service, owner: Organization) -> list[tuple[str, dict[str, Any]]]:
    """The events that were written for an organisation: name and data, in order."""
    rows = service.db.read_now(
        lambda tx: tx.all(
            "SELECT event, body FROM webhook_events WHERE organization_id = ? ORDER BY sequence", owner.id
        )
    )
    return [(name, msgspec.json.decode(body)["data"]) for name, body in rows]
