"""One run: callers and a reader go on through all kills, then everything is calculated again."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlencode

import httpx

from kontobahn.books.undo import SLICED_FROM_ROWS
from tests.journeys.process import kontobahn
from tests.services import PostgresServer, RedisServer
from torture.kills import readers
from torture.kills.calls import Call, Journal, Line
from torture.kills.check import BROKEN_OFF, Check
from torture.kills.load import WEIGHTS, YEAR, Somebody
from torture.kills.readers import Feed, Reader
from torture.kills.service import Service
from torture.payments import ENDS, Receiver

CALLERS = 5
# From the start to the kill.
MOMENT = (0.02, 1.2)
# The share of the kills that wait until a large import is being undone, for how long at most, and when they come after that.
AIMED, AIMING_SECONDS = 0.3, 3
SLICES = (0.0, 2.0)
# Longer than the service looks for a payment whose creation was cut off.
PATIENCE_SECONDS = 1200
CREDITS = 10_000_000


class Result(NamedTuple):
    figures: str
    faults: list[str]


class Before(NamedTuple):
    line: int
    balance: tuple[int, int, int]
    sequence: int
    trial_balance: list[Any]


def run(data: Path, engine: str, kills: int, seed: int, kinds: Sequence[str] = tuple(WEIGHTS)) -> Result:
    chance = random.Random(seed)
    receiver = Receiver(seed)
    with ExitStack() as stack:
        database_url = redis_url = ""
        if engine == "postgres":
            database_url = stack.enter_context(PostgresServer()).create_database("kills")
            redis_url = stack.enter_context(RedisServer()).url
        service = Service(data, chance, database_url, redis_url, webhook_allow=f"127.0.0.1:{receiver.port}")
        stack.callback(service.close)
        return _Run(service, receiver, seed, kinds).go(kills, chance)


class _Run:
    def __init__(self, service: Service, receiver: Receiver, seed: int, kinds: Sequence[str]) -> None:
        self._service, self._receiver = service, receiver
        self._prefix = f"k{seed}"
        self._journal = Journal()
        self._line = Line(service, self._journal)
        self._before = self._prepare()
        self._began = time.monotonic()
        self._reader = Reader(service, self._journal, f"{self._prefix}r", readers.feeds(service))
        self._callers = [
            Somebody(service, self._journal, f"{self._prefix}c{number}", number, kinds) for number in range(CALLERS)
        ]
        self._accounts: list[Feed] = []

    def _prepare(self) -> Before:
        """Gives credits, and has events sent to the receiver."""
        facts = self._service.facts
        organization = facts["organization_id"]
        kontobahn(
            "credits", "grant", str(CREDITS), "-o", organization, data=self._service.data, **self._service.settings
        )
        made = httpx.put(
            f"{facts['base_url']}/v2/banking/webhook-url", headers={"x-api-key": facts["api_key"]}, trust_env=False,
            json={"webhook_url": f"http://127.0.0.1:{self._receiver.port}/events"}, timeout=60,
        )  # fmt: skip
        self._receiver.secret = made.raise_for_status().json()["data"]["secret"]
        rows = self._service.rows
        [(line,)] = rows("SELECT MAX(line) FROM credit_movements WHERE organization_id = ?", organization)
        [balance] = rows(
            "SELECT available, reserved, spent FROM credit_accounts WHERE organization_id = ?", organization
        )
        [(sequence,)] = rows(
            "SELECT COALESCE(MAX(sequence), 0) FROM webhook_events WHERE organization_id = ?", organization
        )
        return Before(line, balance, sequence, self._trial_balance("before"))

    def _ask_books(self, kind: str, key: str, price: int, **query: str) -> Any:
        """Reads what is calculated from the books."""
        asked = urlencode({"connectionId": self._service.facts["ledger"]["connection_id"], **query})
        path = f"/v2/ledger-rewe-read/{kind}?{asked}"
        return self._line.ask(Call(kind, f"{self._prefix}{kind}-{key}", "GET", path, price=price))

    def _trial_balance(self, key: str) -> list[Any]:
        return list(self._ask_books("susa", key, 1, geschaeftsjahrStartDatum=YEAR.isoformat()))

    def _open_items(self) -> list[Any]:
        # Beside what was carried over, not netted against it.
        end = YEAR.replace(month=12, day=31).isoformat()
        return list(self._ask_books("opos", "after", 5, stichtag=end, ebModus="raw")["konten"])

    def go(self, kills: int, chance: random.Random) -> Result:
        while self._service.killed < kills:
            time.sleep(chance.uniform(*MOMENT))
            if chance.random() < AIMED:
                self._aim(chance)
            self._service.kill_and_start()
            self._find_accounts()
        killing = time.monotonic() - self._began
        self._service.let_claims_end()
        for caller in self._callers:
            caller.end()
        self._wait("every call was answered", lambda: all(caller.is_done for caller in self._callers))
        self._service.let_time_pass(self._prefix)
        self._wait("every payment was final", lambda: not self._open_payments())
        self._wait("every event was delivered", lambda: not self._rows("webhook_deliveries", "state = 'pending'"))
        self._wait("every document was made", lambda: not self._rows("mobility_documents_due", "1 = 1"))
        self._wait("nothing was reserved any more", lambda: not self._reserved())
        self._wait("the books were swept", lambda: not self._unswept())
        self._find_accounts()
        self._reader.end()
        for failure in (self._reader.failure, *(caller.failure for caller in self._callers)):
            if failure is not None:
                raise failure
        return self._check(killing)

    def _aim(self, chance: random.Random) -> None:
        """Waits for the moment in which a large import is being undone, or has just been and is swept."""
        self._await_undoing(True)
        if chance.random() < 0.5:
            time.sleep(chance.uniform(*SLICES))
        else:
            self._await_undoing(False)

    def _await_undoing(self, is_under_way: bool) -> None:
        deadline = time.monotonic() + AIMING_SECONDS
        while time.monotonic() < deadline:
            if any(caller.undoes_slices for caller in self._callers) == is_under_way:
                return
            time.sleep(0.002)

    def _check(self, killing: float) -> Result:
        check = Check(self._service, self._journal, self._prefix)
        read = check.readers(self._reader, self._reader.feeds)
        by_name = {feed.name: feed for feed in self._reader.feeds}
        writes = check.books(by_name["bookings"].got, by_name["cash book"].got)
        writes += check.statements(self._accounts) + check.mobility()
        undone = check.imports()
        check.open_items(self._open_items())
        check.trial_balance(self._before.trial_balance, self._trial_balance("after"))
        check.nothing_left()
        payments, paid = check.payments()
        events = check.events(by_name["events"], self._receiver, self._before.sequence)
        spent = check.credits(self._before.line, self._before.balance, paid)
        self._reader.close()
        self._line.close()
        left = self._service.stop()
        if left:
            check.faults.append(f"processes: {left} of killed ones lived on")
        check.faults += self._doctor()
        ways = ", ".join(f"{number} {how}" for how, number in sorted(self._service.kills.items()))
        answered = sum(call.status != 0 for call in self._journal.calls)
        return Result(
            f"{self._service.killed} kills on {self._service.engine} ({ways}) in {killing:.0f} s: {answered} calls answered,"
            f" {self._journal.cut} cut off, {writes} rows and {payments} payments once each, {spent} credits right,"
            f" {events} events delivered, {read} rows read along in order; {undone} imports undone, {self._cut_undoings()}",
            check.faults,
        )

    def _cut_undoings(self) -> str:
        """Those found half done are in slices, of which a kill leaves something to see."""
        calls, amid = self._journal.of("undo"), {name: len(found) for name, found in self._service.amid.items()}
        large = sum(call.cut for call in calls if len(call.facts) >= SLICED_FROM_ROWS)
        return (
            f"which was cut off {large} times for large and {sum(call.cut for call in calls) - large} for small ones; found half"
            f" done: {amid['undoing']} undoings, {amid['sweeping']} sweepings after one, {amid['importing']} imports"
        )

    def _find_accounts(self) -> None:
        """A reader for each account of the callers, as soon as its first file has made it."""
        mine = {caller.iban for caller in self._callers}
        known = {feed.name for feed in self._accounts}
        for number, iban in self._service.rows("SELECT id, iban FROM banking_accounts"):
            feed = readers.of_account(str(number))
            if iban in mine and feed.name not in known:
                self._accounts.append(feed)
                self._reader.feeds.append(feed)

    def _wait(self, what: str, is_so: Callable[[], bool]) -> None:
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not is_so():
            if time.monotonic() > deadline:
                self._journal.faults.append(f"it took too long until {what}")
                return
            time.sleep(0.3)

    def _rows(self, table: str, condition: str, *params: Any) -> list[tuple[Any, ...]]:
        organization = self._service.facts["organization_id"]
        return self._service.rows(
            f"SELECT 1 FROM {table} WHERE organization_id = ? AND {condition} LIMIT 1", organization, *params
        )

    def _open_payments(self) -> list[tuple[Any, ...]]:
        ends = ", ".join(f"'{end}'" for end in ENDS)
        return self._rows("banking_payments", f"description LIKE ? AND status NOT IN ({ends})", f"{self._prefix}%")

    def _unswept(self) -> bool:
        return any(self._service.rows(f"SELECT 1 FROM {left}") for left in BROKEN_OFF.values())

    def _reserved(self) -> list[tuple[Any, ...]]:
        return self._rows("credit_holds", "request_id LIKE ?", f"{self._prefix}%")

    def _doctor(self) -> list[str]:
        """Read models beside postings, chains, invoices, credits, the file of the database."""
        told = kontobahn("doctor", "--books", "--json", data=self._service.data, expect=None, **self._service.settings)
        if not told.stdout.startswith("["):
            return [f"doctor: {told.stderr[-500:]}"]
        return [
            f"doctor: {item['area']}: {item['finding']}"
            for item in json.loads(told.stdout) if item["state"] == "failed" and item["area"] not in ("disk", "jobs")
        ]  # fmt: skip
