"""Simulated banks for torture, one class for each provider, and a person who goes through its connect flow as often as it takes."""

from __future__ import annotations

import re
import sqlite3
import time
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import urlsplit

import httpx

from kontobahn.banking.hosted.words import WAITING_TITLE
from simulators.ebics_bank import Break, EbicsBank, Line
from simulators.ebics_bank.breaks import How
from simulators.ebics_bank.customers import Order, User
from simulators.fints_bank import Account, FakeBank, camt_document
from torture.others import Target

IBAN = "DE02120300000000202051"
# Where an EBICS bank misbehaves, and how.
EBICS_TROUBLES: tuple[tuple[str, str, How], ...] = (
    ("HEV", "", "nonsense"), ("INI", "", "lost"), ("HPB", "", "cut"), ("HTD", "Initialisation", "wrong_signature"),
    ("C53", "Initialisation", "short_segment"), ("C53", "Receipt", "lost"),
)  # fmt: skip
CONNECTED = "Das Konto ist verbunden"
WAITING = WAITING_TITLE.de
# Of one flow; while the bank is being asked, five a second.
STEPS = 5000
LIMIT = 1000
# A page answers when the bank has: the first reading of a long history takes minutes.
SECONDS = 1800.0
# The rest of the bookings: when, how much, and which text.
Seen = Counter[tuple[str, str, str]]


class Trial(Protocol):
    """A provider, as far as torture needs to know it."""

    name: str
    # The number of people who have an access there.
    people: int
    # The bank's name in answers.
    bank_name: str
    # Settings of the service, by name.
    settings: dict[str, Any]
    # The number of bookings that the bank puts into an answer.
    per_page: int
    # Ends everything that a killed process has begun, as if its time had passed.
    time_passes: tuple[str, ...]

    @property
    def faults(self) -> list[str]:
        """The requests that the bank was sent and should not have been."""

    def fields(self, page: str, person: int) -> dict[str, str]:
        """The values that this person enters into the form of a page."""

    def asks_for_confirmation(self, asks: bool) -> None:
        """Tells whether the bank wants its person; if not, a machine may read."""

    def book(self, count: int) -> None:
        """Books something more on the account."""

    def booked(self) -> Seen: ...

    def secrets(self, person: int) -> list[str]:
        """The secrets that nobody but the bank may ever see of this person and of the operator."""

    def troubles(self, person: int) -> Iterator[None]:
        """Lets the bank misbehave in one way after the other, also by repeating what it was told."""

    def close(self) -> None: ...


class FintsTrial:
    name, people = "fints", 1000
    bank_name = "Bank 99990000"
    time_passes: tuple[str, ...] = ("DELETE FROM fints_dialogs",)

    def __init__(self) -> None:
        self._bank = FakeBank()
        self._bank.users = {f"person-{number}": f"gEheim-{number:05d}" for number in range(self.people)}
        self._bank.tan = "tAn-748913"
        self._bank.start = "tan"
        self._account = Account(IBAN, "202051")
        self._bank.accounts = [self._account]
        self.address = self._bank.serve()
        self.per_page = 3
        self._seen: Seen = Counter()
        self.settings: dict[str, Any] = {
            "connect_provider": "fints", "fints_product_id": "PRODUCT0000", "bank_allow": urlsplit(self.address).netloc,
        }  # fmt: skip

    @property
    def faults(self) -> list[str]:
        # Whoever goes on after a kill may repeat what had reached the bank already: a message, or a TAN.
        repeated = ("that is not open", "was due", "a TAN for nothing")
        return [fault for fault in self._bank.faults if not any(text in fault for text in repeated)]

    def fields(self, page: str, person: int) -> dict[str, str]:
        if 'value="again"' in page:
            return {"action": "again"}
        if 'name="pin"' in page:
            known = {"blz": "99990000", "url": self.address} if 'name="url"' in page else {}
            user = f"person-{person}"
            return {**known, "user": user, "pin": self._bank.users[user], "keep": "yes", "more": "yes"}
        return {"method": "920", "tan": self._bank.tan}

    def asks_for_confirmation(self, asks: bool) -> None:
        self._bank.start = "tan" if asks else "none"

    def book(self, count: int) -> None:
        first, last = self._seen.total(), self._seen.total() + count
        for page in range(first, last, self.per_page):
            day = datetime.now(UTC).date() - timedelta(days=len(self._account.camt) % 60)
            numbers = range(page, min(page + self.per_page, last))
            # Every tenth looks like the one before it, as two coffees on one day do.
            alike = [number - 1 if number % 10 == 9 and number > page else number for number in numbers]
            found = [(f"-{number % 90 + 1}.{number % 100:02d}", f"Kaffee {number}") for number in alike]
            self._seen.update((day.isoformat(), f"{float(amount):.2f}", text) for amount, text in found)
            entries = [(amount, f"SVWZ+{text}") for amount, text in found]
            self._account.camt.append(camt_document(IBAN, day, entries, reference=f"P{page}"))

    def booked(self) -> Seen:
        return Counter(self._seen)

    def secrets(self, person: int) -> list[str]:
        return [self._bank.users[f"person-{person}"], self._bank.tan]

    def troubles(self, person: int) -> Iterator[None]:
        pin, tan = self.secrets(person)
        for where, code, said in (
            ("sync", "9942", f"Die PIN {pin} ist falsch"), ("tan", "9941", f"Die TAN {tan} zur PIN {pin} ist falsch"),
            ("HKSPA", "9010", f"Nicht mit {pin}"),
        ):  # fmt: skip
            self._bank.errors = {where: [(code, said)]}
            yield
        self._bank.errors = {}
        for after in (0, 4):
            self._bank.breaks = ["" if number < after else "echo" for number in range(after + 1)]
            yield
            self._bank.breaks = []

    def close(self) -> None:
        self._bank.stop()


class EbicsTrial:
    """A bank with a customer of one account, and a technical user for each person; the bank activates whoever sent a letter."""

    name, people = "ebics", 1000
    bank_name = "Fakebank"
    time_passes: tuple[str, ...] = (
        "UPDATE ebics_accesses SET until = 0",
        "UPDATE banking_order_files SET submitted_at = 0 WHERE submitted_at IS NOT NULL",
    )

    def __init__(self) -> None:
        self.bank = EbicsBank()
        self._line = Line(self.bank)
        self.per_page = 25
        self.new_customer()
        self.settings: dict[str, Any] = {
            "connect_provider": "ebics", "ebics": "true", "bank_allow": urlsplit(self._line.url).netloc,
        }  # fmt: skip

    def new_customer(self) -> None:
        """Goes on with another company, which has no history."""
        with self.bank.lock:
            self.partner = f"FIRMA{len(self.bank.partners) + 1}"
            self.account = self.bank.add_account(self.partner, IBAN)
        self._seen: Seen = Counter()
        self._days = 0

    def user(self, person: int) -> User:
        with self.bank.lock:
            found = self.bank.partners[self.partner].users.get(f"TECH{person}")
            return found or self.bank.add_user(self.partner, f"TECH{person}", "C53", "CTV")

    @property
    def faults(self) -> list[str]:
        return list(self.bank.faults)

    def fields(self, page: str, person: int) -> dict[str, str]:
        user = self.user(person).id
        if 'name="access"' in page:
            return {"access": "new"}
        if 'name="host"' in page:
            with self.bank.lock:
                # Keys whose sheet was lost on the way have to be forgotten by the bank: the person calls it.
                self.bank.reset(self.partner, user)
            return {
                "bank": self.bank_name, "url": self._line.url, "host": self.bank.host, "partner": self.partner, "user": user,
                "company": "Muster GmbH, Erika Muster",
            }  # fmt: skip
        if 'name="x002"' in page:
            told = self.bank.letter("H005" if "H005" in self.bank.versions else "H004")
            return {"x002": told["Authentication"], "e002": told["Encryption"]}
        with self.bank.lock:
            if self.bank.partners[self.partner].users[user].state == "initialised":
                self.bank.activate(self.partner, user)
        return {}

    def asks_for_confirmation(self, asks: bool) -> None:
        """Has every statement offered again to a person who begins: the customer's other users have fetched it already."""
        if asks:
            for delivery in self.bank.partners[self.partner].deliveries:
                delivery.is_fetched = False

    def book(self, count: int) -> None:
        first, last = self._seen.total(), self._seen.total() + count
        with self.bank.lock:
            # As large as the protocol allows for a long history; otherwise the more of them, the more places for a kill.
            self.bank.segment_size = 1_000_000 if count > 1_000 else 4_000
            for page in range(first, last, self.per_page):
                day = datetime.now(UTC).date() - timedelta(days=60 - self._days % 60)
                self._days += 1
                for number in range(page, min(page + self.per_page, last)):
                    # Every tenth looks like the one before it, as two coffees on one day do.
                    alike = number - 1 if number % 10 == 9 and number > page else number
                    amount, text = f"-{alike % 90 + 1}.{alike % 100:02d}", f"Kaffee {alike}"
                    self.account.book(day, amount, text)
                    self._seen[(day.isoformat(), amount, text)] += 1
                self.bank.deliver(self.partner, "C53", self.account.statement(day), day=day)

    def booked(self) -> Seen:
        return Counter(self._seen)

    def orders(self) -> list[Order]:
        with self.bank.lock:
            return list(self.bank.partners[self.partner].orders)

    def secrets(self, person: int) -> list[str]:
        return []

    def troubles(self, person: int) -> Iterator[None]:
        for order, phase, how in EBICS_TROUBLES:
            self.bank.breaks = [Break(how, order=order, phase=phase)]
            yield
        self.bank.breaks = []

    def close(self) -> None:
        self._line.hang_up()


TRIALS: dict[str, Callable[[], Trial]] = {FintsTrial.name: FintsTrial, EbicsTrial.name: EbicsTrial}


class Person:
    """Somebody who connects an account, and looks at it."""

    def __init__(self, trial: Trial, number: int) -> None:
        self.trial, self.number = trial, number
        self.path = self.token = ""
        # Everything that was answered, but for lists of transactions.
        self.heard: list[str] = []

    def ask(self, running: Target, method: str, path: str, **options: Any) -> httpx.Response:
        url = str(running.facts["base_url"]) + path
        answer = httpx.request(
            method, url, headers={"x-api-key": running.key}, timeout=SECONDS, verify=False, **options
        )
        self.heard.append(answer.text)
        return answer

    def begin(self, running: Target) -> None:
        answer = self.ask(running, "POST", "/v2/banking/connect", json={})
        answer.raise_for_status()
        # Of the path only: after a restart the port is another.
        self.path, self.token = urlsplit(answer.json()["connect_url"]).path, answer.json()["pending_token"]

    def step(self, running: Target) -> bool:
        """Does what the page asks for. Returns whether the account is connected. Raises httpx.HTTPError if the service is gone."""
        page = self.ask(running, "GET", self.path)
        page.raise_for_status()
        if CONNECTED in page.text:
            return True
        if WAITING in page.text:
            time.sleep(0.2)
            return False
        number = re.search(r'name="step" value="(\d+)"', page.text)
        assert number is not None, page.text
        self.ask(running, "POST", self.path, data={"step": number[1], **self.trial.fields(page.text, self.number)})
        return False

    def walk(self, running: Target) -> None:
        """Goes on until the account is connected."""
        for _ in range(STEPS):
            if self.step(running):
                return
        raise AssertionError(f"It does not connect: {self.heard[-1]}")

    def connection(self, running: Target) -> dict[str, Any]:
        answer = self.ask(running, "GET", f"/v2/banking/connections/{self.token}")
        answer.raise_for_status()
        found: dict[str, Any] = answer.json()["data"]
        return found

    def remove(self, running: Target) -> None:
        self.ask(running, "DELETE", f"/v2/banking/connections/{self.connection(running)['id']}").raise_for_status()

    def refresh(self, running: Target) -> httpx.Response:
        return self.ask(running, "POST", f"/v2/banking/connections/{self.connection(running)['id']}/refresh")

    def transactions(self, running: Target) -> tuple[list[int], Seen]:
        """Returns the ids in the order of the list, and what the bookings are."""
        query: dict[str, Any] = {"connection_id": self.connection(running)["id"], "sort": "id", "limit": LIMIT}
        ids: list[int] = []
        seen: Seen = Counter()
        while True:
            more = {"from_id": ids[-1]} if ids else {}
            answer = self.ask(running, "GET", "/v2/banking/transactions", params={**query, **more})
            answer.raise_for_status()
            self.heard.pop()
            found = answer.json()["data"]
            ids += [int(one["id"]) for one in found]
            for one in found:
                seen[(one["made_on"], f"{one['amount']:.2f}", one["description_parsed"]["svwz"])] += 1
            if len(found) < LIMIT:
                return ids, seen


def let_time_pass(data: Path, trial: Trial) -> None:
    """Ends what a killed process has left behind, as waiting for a quarter of an hour would."""
    database = sqlite3.connect(data / "kontobahn.sqlite3", timeout=60)
    past = time.time_ns() // 1000 - 1
    try:
        database.execute("UPDATE banking_interactions SET claimed_until = ?", (past,))
        database.execute(
            "UPDATE banking_connections SET refresh_started_at = NULL, refresh_type = '', next_refresh_possible_at = ?",
            (past,),
        )
        for statement in trial.time_passes:
            database.execute(statement)
        database.commit()
    finally:
        database.close()
