"""Somebody with accounts at the fake FinTS bank, at the hosted pages of a service; for tests."""

from __future__ import annotations

import re
from datetime import date
from typing import Any
from urllib.parse import urlsplit

import httpx

from simulators.fints_bank import Account, FakeBank, camt_document
from tests.harness import Organization, Service, ServiceFactory
from tests.providers.customer import Customer
from tests.sandbox_visitor import words
from tests.waiting import eventually

GIRO, TAGESGELD = "DE02120300000000202051", "DE89370400440532013000"
PIN, TAN = "geheim-4711", "987654"
MT940 = (
    b"\r\n:20:STARTUMS\r\n:25:99990000/532013000\r\n:28C:0\r\n:60F:C260227EUR100,00\r\n:61:2603010301C5,00NTRFNONREF\r\n"
    b":86:166?00GUTSCHRIFT?20SVWZ+Zinsen Februar?32Fakebank\r\n:62F:C260301EUR105,00\r\n-\r\n"
)


# The library takes its time where many sign in at once on a busy machine, which says nothing about the code.
_BROWSER: dict[str, Any] = {"timeout": 600, "trust_env": False, "verify": False}


def _get(url: str) -> httpx.Response:
    return httpx.get(url, **_BROWSER)


def _post(url: str, fields: dict[str, Any]) -> httpx.Response:
    return httpx.post(url, data=fields, **_BROWSER)


def open_bank() -> FakeBank:
    """A bank with two accounts: one with camt in two pages and something pending, one that has only MT940."""
    bank = FakeBank()
    bank.users, bank.tan = {"muster": PIN}, TAN
    pages = [
        camt_document(
            GIRO, date(2026, 2, 27), [("119.00", "SVWZ+Rechnung 1"), ("-5.00", "EREF+E-2 SVWZ+Porto für Müller")]
        ),
        camt_document(GIRO, date(2026, 3, 1), [("-12.34", "SVWZ+Strom")]),
    ]
    pending = camt_document(GIRO, date(2026, 3, 2), [("-7.00", "SVWZ+Vorgemerkt")], status="PDNG")
    bank.accounts = [
        Account(GIRO, "202051", camt=pages, camt_pending=pending),
        Account(
            TAGESGELD, "532013000", product="Tagesgeld", type=10, mt940=[MT940[:90], MT940[90:]], has_camt=False,
            balance="D:0,5:EUR:20260302",
        ),
    ]  # fmt: skip
    return bank


def service_for(start_service: ServiceFactory, address: str) -> Service:
    return start_service(
        connect_provider="fints", fints_product_id="PRODUCT0000", bank_allow=urlsplit(address).netloc, run_jobs=False
    )


class Person(Customer):
    def __init__(
        self, service: Service, owner: Organization, address: str, user: str = "muster", pin: str = PIN
    ) -> None:
        self.service, self.owner, self.address = service, owner, address
        self.user, self.pin = user, pin
        self.url = self.token = ""

    def begin(self, **body: Any) -> Person:
        answer = self.service.post("/v2/banking/connect", self.owner.key, json=body)
        assert answer.status_code == 201, answer.text
        self.url, self.token = answer.json()["connect_url"], answer.json()["pending_token"]
        return self

    def look(self) -> str:
        """Returns what the page says, once the bank has answered."""

        def answered() -> str:
            page = words(_get(self.url))
            return "" if "Wir warten auf Ihre Bank" in page else page

        return eventually(answered)

    def send(self, **fields: Any) -> str:
        """Sends the form that is shown, and returns what the page says then."""
        number = re.search(r'name="step" value="(\d+)"', _get(self.url).text)
        answer = _post(self.url, {"step": number[1] if number else "", **fields})
        return words(answer) if answer.status_code == 422 else self.look()

    def send_at_once(self, **fields: Any) -> httpx.Response:
        """Sends a form, and returns the page as it is then."""
        number = re.search(r'name="step" value="(\d+)"', _get(self.url).text)
        _post(self.url, {"step": number[1] if number else "1", **fields})
        return _get(self.url)

    def sign_in(self, **more: Any) -> str:
        bank = {} if "FinTS-Adresse" not in self.look() else {"blz": "99990000", "url": self.address}
        return self.send(user=self.user, pin=self.pin, **{**bank, **more})

    def connect(self, method: str = "920", **more: Any) -> dict[str, Any]:
        """Goes all the way at a bank that wants nothing confirmed."""
        self.begin()
        self.sign_in(**more)
        page = self.send(method=method)
        assert "Das Konto ist verbunden" in page, page
        return self.connection()


EVERYTHING = [
    (-12.34, "Strom", "posted"), (-7.0, "Vorgemerkt", "pending"), (-5.0, "Porto für Müller", "posted"),
    (5.0, "Zinsen Februar", "posted"), (119.0, "Rechnung 1", "posted"),
]  # fmt: skip
