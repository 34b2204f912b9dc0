"""Somebody of a company with an EBICS access at the simulated bank, at the hosted pages of a service; for tests."""

from __future__ import annotations

import html
import re
from datetime import date
from typing import Any
from urllib.parse import urlsplit

import httpx

from kontobahn.banking.hosted.words import WAITING_TITLE
from simulators.ebics_bank import EbicsBank, Line
from tests.harness import Organization, Service, ServiceFactory
from tests.providers.customer import Customer
from tests.sandbox_visitor import words
from tests.waiting import eventually

PARTNER, USER = "FIRMA1", "TECH1"
GIRO = "DE89370400440532013000"
RIGHTS = ("C53", "C52", "CRZ", "CIZ", "VPZ", "CCT", "CIP", "CTV", "CIV")
_BROWSER: dict[str, Any] = {"timeout": 600, "trust_env": False, "verify": False}


def open_bank(*rights: str) -> tuple[EbicsBank, Line]:
    """A bank with one account, and one user of class T."""
    bank = EbicsBank()
    bank.today = date(2026, 3, 2)
    bank.add_user(PARTNER, USER, *(rights or RIGHTS))
    bank.add_account(PARTNER, GIRO)
    return bank, Line(bank)


def settings_for(line: Line) -> dict[str, Any]:
    return {"connect_provider": "ebics", "ebics": True, "bank_allow": urlsplit(line.url).netloc, "run_jobs": False}


def service_for(start_service: ServiceFactory, line: Line) -> Service:
    return start_service(**settings_for(line))


class Person(Customer):
    def __init__(self, service: Service, owner: Organization, bank: EbicsBank, line: Line) -> None:
        self.service, self.owner, self.bank, self.line = service, owner, bank, line
        self.url = self.token = ""

    def begin(self, path: str = "/v2/banking/connect") -> str:
        answer = self.service.post(path, self.owner.key, json={})
        assert answer.status_code in (200, 201), answer.text
        self.url, self.token = answer.json()["connect_url"], answer.json().get("pending_token", self.token)
        return self.look()

    def look(self) -> str:
        """Returns what the page says, once the bank has answered."""

        def answered() -> str:
            page = words(httpx.get(self.url, **_BROWSER))
            return "" if WAITING_TITLE.de in page else page

        return eventually(answered)

    def send(self, **fields: Any) -> str:
        """Sends the form that is shown, and returns what the page says then."""
        number = re.search(r'name="step" value="(\d+)"', httpx.get(self.url, **_BROWSER).text)
        answer = httpx.post(self.url, data={"step": number[1] if number else "", **fields}, **_BROWSER)
        return words(answer) if answer.status_code == 422 else self.look()

    def upload(self, content: bytes) -> str:
        """Sends a file to the form that is shown, and returns what the page says then."""
        number = re.search(r'name="step" value="(\d+)"', httpx.get(self.url, **_BROWSER).text)
        assert number is not None
        file = {"file": ("Datenblatt.pdf", content)}
        answer = httpx.post(self.url, data={"step": number[1]}, files=file, **_BROWSER)
        return words(answer) if answer.status_code == 422 else self.look()

    def shown(self) -> dict[str, str]:
        """By name: what stands in the fields of the form."""
        page = httpx.get(self.url, **_BROWSER).text
        fields = re.findall(r'name="(\w+)" value="([^"]*)"', page) + re.findall(
            r'<textarea id="(\w+)"[^>]*>([^<]*)', page
        )
        return {name: html.unescape(value) for name, value in fields}

    def send_sheet(self, **other: str) -> str:
        sheet = {"bank": "Fakebank", "url": self.line.url, "host": self.bank.host, "partner": PARTNER, "user": USER,
                 "company": "Muster GmbH, Erika Muster"}  # fmt: skip
        return self.send(**{**sheet, **other})

    def letter(self, language: str = "de") -> httpx.Response:
        number = re.search(r"/document/(\d+)/de", httpx.get(self.url, **_BROWSER).text)
        assert number is not None
        return httpx.get(f"{self.url.split('?')[0]}/document/{number[1]}/{language}", **_BROWSER)

    def waiting(self) -> list[str]:
        """The accesses that the page offers to go on with."""
        page = httpx.get(self.url, **_BROWSER).text
        return [ref for ref in re.findall(r'name="access" value="(\w+)"', page) if ref != "new"]

    def compare(self, **other: str) -> str:
        told = self.bank.letter()
        return self.send(**{"x002": told["Authentication"], "e002": told["Encryption"], **other})

    def connect(self) -> dict[str, Any]:
        """Goes all the way, with a bank that activates at once."""
        self.begin()
        page = self.send_sheet()
        assert "Brief an die Bank" in page, page
        self.bank.activate(PARTNER, USER)
        page = self.send()
        assert "Schlüssel der Bank vergleichen" in page, page
        page = self.compare()
        assert "Das Konto ist verbunden" in page, page
        return self.connection()

    def refresh(self) -> httpx.Response:
        """Waits until the bank may be asked again, and asks."""
        self.service.clock.advance(seconds=3700)
        return super().refresh()

    def book(self, amount: str, text: str, day: date = date(2026, 3, 2)) -> None:
        """Something happens on the account, and the bank closes its day."""
        self.bank.partners[PARTNER].accounts[0].book(day, amount, text)
        self.bank.close_day(PARTNER)
