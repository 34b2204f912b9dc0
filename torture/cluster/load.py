"""Callers of the cluster: careful ones, who send the same call again as the documentation says, and impatient ones who measure."""

from __future__ import annotations

import json
import random
import threading
import time
from collections.abc import Iterator
from http.client import HTTPConnection, HTTPException
from itertools import count
from typing import Any, NamedTuple
from urllib.parse import urlencode, urlsplit

from torture.cluster.parts import PORT, Cluster

TIMEOUT_SECONDS = 180
# After a connection that was cut, as nobody says for how long to wait.
PAUSE_AFTER_CUT = 1.0
CUSTOMER = {"street": "Musterstraße 1", "postal_code": "10115", "city": "Berlin"}
CASH_BOOK = "/v2/ledger-duo/kassenbuch-advanced"
ENDS = ("settled", "failed", "rejected")
CREDITOR_IBAN = "DE75512108001245126199"


class Attempt(NamedTuple):
    """One call on its way. The status is 0 if its connection was cut; `intent` is what it was an attempt at."""

    kind: str
    intent: str
    request_id: str
    began: float
    ended: float
    status: int
    charged: int
    is_replay: bool
    retry_after: str
    by_service: bool
    body: bytes

    @property
    def is_refused(self) -> bool:
        """Tells whether the same call is to be sent again."""
        return self.status in (0, 502, 503, 504) or (self.status == 409 and bool(self.retry_after))


class Line:
    """A caller's connection to the balancer."""

    def __init__(self, cluster: Cluster, source: str = "") -> None:
        self._address = cluster.machines.address("balancer")
        self._source = (source, 0) if source else None
        self._connection: HTTPConnection | None = None

    def send(self, method: str, path: str, body: bytes, headers: dict[str, str]) -> tuple[int, dict[str, str], bytes]:
        if self._connection is None:
            self._connection = HTTPConnection(self._address, PORT, timeout=TIMEOUT_SECONDS, source_address=self._source)
        try:
            self._connection.request(method, path, body or None, headers)
            answer = self._connection.getresponse()
            return answer.status, {name.lower(): value for name, value in answer.getheaders()}, answer.read()
        except (OSError, HTTPException) as error:
            self.close()
            return 0, {}, repr(error).encode()

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
        self._connection = None


class Caller:
    """Does one kind of thing again and again, in a thread, until told to stop; then finishes what it has begun."""

    kind = ""
    pause = 0.1
    # Sends again at once instead of after `Retry-After`, to see how long calls fail.
    impatient = False

    def __init__(self, cluster: Cluster, number: int, seed: int) -> None:
        self.cluster = cluster
        self.name = f"{self.kind}-{number}"
        self.attempts: list[Attempt] = []
        self.done: dict[str, bytes] = {}
        self.trouble: list[str] = []
        self.line = Line(cluster)
        self._chance = random.Random(f"{seed}/{self.name}")
        self._numbers = count()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()

    def join(self, seconds: float) -> None:
        self._thread.join(seconds)
        if self._thread.is_alive():
            self.trouble.append(f"{self.name} has no answer yet")

    def _run(self) -> None:
        try:
            for number in count():
                if self._stopping.is_set():
                    return
                self.do(f"{self.name}-{number}")
                time.sleep(self._chance.uniform(0.5, 1.5) * self.pause)
        except Exception as error:
            self.trouble.append(f"{self.name}: {type(error).__name__}: {error}")

    def do(self, intent: str) -> None:
        raise NotImplementedError

    def call(
        self, intent: str, method: str, path: str, body: Any = None, *, form: dict[str, str] | None = None
    ) -> bytes:
        """Sends a call until it is answered, and returns the answer's body."""
        headers = {"x-api-key": self.cluster.facts["api_key"], "content-type": "application/json"}
        content = b"" if body is None else json.dumps(body).encode()
        if form is not None:
            headers, content = {"content-type": "application/x-www-form-urlencoded"}, urlencode(form).encode()
        elif body is not None:
            headers["idempotency-key"] = intent
        while True:
            attempt = self._attempt(intent, f"{intent}.{next(self._numbers)}", method, path, content, headers)
            self.attempts.append(attempt)
            if not attempt.is_refused:
                if attempt.status >= 400:
                    raise RuntimeError(f"{method} {path}: {attempt.status} {attempt.body[:300]!r}")
                return attempt.body
            self._wait(attempt)

    def _attempt(
        self, intent: str, request_id: str, method: str, path: str, content: bytes, headers: dict[str, str]
    ) -> Attempt:
        began = time.monotonic()
        status, said, body = self.line.send(method, path, content, {**headers, "x-request-id": request_id})
        return Attempt(
            self.kind, intent, request_id, began, time.monotonic(), status, int(said.get("x-credits-charged", 0)),
            "idempotent-replayed" in said, said.get("retry-after", ""), "x-request-id" in said, body,
        )  # fmt: skip

    def _wait(self, attempt: Attempt) -> None:
        if self.impatient:
            time.sleep(0.1)
        elif attempt.status == 0:
            time.sleep(PAUSE_AFTER_CUT)
        else:
            time.sleep(float(attempt.retry_after or 1))


class ListReader(Caller):
    """A list that costs a credit. Nothing is written, so it has no idempotency key: each answer is charged."""

    kind = "list"

    def do(self, intent: str) -> None:
        account = self.cluster.facts["banking"]["account_id"]
        answer = self.call(intent, "GET", f"/v2/banking/transactions?account_id={account}&limit=50")
        assert json.loads(answer)["data"]
        self.done[intent] = b""


class CashBook(Caller):
    """An entry in the cash book, which costs a credit."""

    kind = "cash"

    def do(self, intent: str) -> None:
        facts = self.cluster.facts["ledger"]
        line = {"belegtext": intent, "gegenkonto": "8400", "betrag": 1}
        entry = {
            "waehrung": "EUR", "kassenname": facts["kassenname"], "betrag": 1, "belegzeilen": [line],
            "transaktionsdatum": f"{facts['fiscal_years'][-1][:4]}-01-15T10:00:00+01:00",
        }  # fmt: skip
        self.done[intent] = self.call(intent, "POST", f"{CASH_BOOK}?connectionId={facts['connection_id']}", entry)


class Payer(Caller):
    """A payment, authorised by a person on the bank's pages. It costs three credits when it is settled."""

    kind = "payment"
    pause = 0.4

    def do(self, intent: str) -> None:
        body = {
            "account_id": self.cluster.facts["banking"]["account_id"], "amount": "1.00", "creditor_name": "Sandbox at once",
            "creditor_iban": CREDITOR_IBAN, "description": intent,
        }  # fmt: skip
        made = json.loads(self.call(intent, "POST", "/v2/banking/payments", body))["data"]
        self.done[intent] = b""
        while made["payment_url"] is None and made["status"] not in ENDS:
            # Its creation was cut off on the way to the bank, and a repeat looks for it there.
            time.sleep(1)
            made = json.loads(self.call(intent, "POST", "/v2/banking/payments", body))["data"]
        if made["status"] in ENDS:
            return
        page = urlsplit(made["payment_url"])
        path = f"{page.path}?{page.query}" if page.query else page.path
        for step in (
            {"action": "login", "user_name": "demo", "password": "x"},
            {"action": "tan", "tan": "123456"},
            {"action": "confirm"},
        ):
            self.call(f"{intent}/{step['action']}", "POST", path, form=step)


class Writer(Caller):
    """A free write, repeated without a pause: how long writes fail."""

    kind = "write"
    impatient = True

    def do(self, intent: str) -> None:
        self.done[intent] = self.call(intent, "POST", "/v2/mobility/customers", {"name": intent, **CUSTOMER})


class Reader(Caller):
    """A free read, repeated without a pause: how long reads fail."""

    kind = "read"
    pause = 0.05
    impatient = True

    def do(self, intent: str) -> None:
        self.call(intent, "GET", "/v2/banking/accounts")


class Load:
    def __init__(self, cluster: Cluster, seed: int) -> None:
        kinds: list[type[Caller]] = [
            ListReader,
            ListReader,
            CashBook,
            CashBook,
            Payer,
            Payer,
            Writer,
            Writer,
            Reader,
            Reader,
        ]
        self.callers = [kind(cluster, number, seed) for number, kind in enumerate(kinds)]

    def start(self) -> None:
        for caller in self.callers:
            caller.start()

    def stop(self, seconds: float = 120) -> None:
        for caller in self.callers:
            caller.stop()
        for caller in self.callers:
            caller.join(seconds)

    @property
    def trouble(self) -> list[str]:
        return [text for caller in self.callers for text in caller.trouble]

    def attempts(self) -> Iterator[Attempt]:
        for caller in self.callers:
            yield from list(caller.attempts)

    def done(self, kind: str) -> dict[str, bytes]:
        return {intent: body for caller in self.callers if caller.kind == kind for intent, body in caller.done.items()}
