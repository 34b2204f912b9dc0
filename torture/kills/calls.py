"""Calls as a careful client makes them: with a key of their own, again and again until they are answered."""

from __future__ import annotations

import http.client
import json
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from torture.kills.service import Service

JSON = "application/json"
FORM = "application/x-www-form-urlencoded"
SECONDS = 60
PAUSE_SECONDS = 0.1


@dataclass
class Call:
    """`facts` are what must be there once, as soon as the call is answered; `then` says what to do next."""

    kind: str
    key: str
    method: str
    path: str
    body: bytes = b""
    media: str = JSON
    price: int = 0
    facts: Any = None
    then: Callable[[Call], Sequence[Call]] | None = None
    # Answers other than success that are none of the service's faults.
    may_be: tuple[int, ...] = ()
    attempts: int = 0
    # The number of times that the connection ended before its answer, other than by being refused.
    cut: int = 0
    status: int = 0
    answer: Any = None
    # Not to be sent before this moment, by the monotonic clock.
    due: float = 0

    @property
    def reads(self) -> bool:
        return self.method == "GET"


@dataclass
class Journal:
    """Everything that was sent, and what was wrong with an answer."""

    calls: list[Call] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)
    cut: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    def note(self, call: Call) -> Call:
        with self.lock:
            self.calls.append(call)
        return call

    def of(self, kind: str) -> list[Call]:
        return [call for call in self.calls if call.kind == kind]


class Line:
    """A connection to wherever the service is now."""

    def __init__(self, service: Service, journal: Journal) -> None:
        self._service, self._journal = service, journal
        self._connection: http.client.HTTPConnection | None = None

    def send(self, call: Call) -> bool:
        """Returns whether it has its answer; if not, the same call is to be sent again later."""
        call.attempts += 1
        headers = {
            "x-api-key": self._service.facts["api_key"], "content-type": call.media,
            "x-request-id": f"{call.key}.{call.attempts}",
        }  # fmt: skip
        if not call.reads and call.media != FORM:
            headers["idempotency-key"] = call.key
        try:
            status, again, text = self._exchange(call, headers)
        except (OSError, http.client.HTTPException) as error:
            self.close()
            call.cut += not isinstance(error, ConnectionRefusedError)
            self._journal.cut += 1
            return False
        if again:
            call.due = time.monotonic() + 1
            return False
        call.status = status
        call.answer = json.loads(text) if text[:1] in (b"{", b"[") else None
        if status >= 400 and status not in call.may_be:
            self._journal.faults.append(f"{call.kind} {call.key}: {status} {text[:300].decode(errors='replace')}")
        return True

    def ask(self, call: Call) -> Any:
        """Sends it until it is answered, and returns its data."""
        self._journal.note(call)
        while not self.send(call):
            time.sleep(PAUSE_SECONDS)
        return call.answer["data"]

    def _exchange(self, call: Call, headers: dict[str, str]) -> tuple[int, bool, bytes]:
        if self._connection is None:
            self._connection = http.client.HTTPConnection("127.0.0.1", self._service.running.port, timeout=SECONDS)
        self._connection.request(call.method, call.path, call.body or None, headers)
        answer = self._connection.getresponse()
        text = answer.read()
        # 409 with Retry-After: the call before this one may still be running. Without: the call took longer than its key was held.
        again = answer.status in (429, 503) or (
            answer.status == 409 and (answer.headers["retry-after"] is not None or b"took too long" in text)
        )
        return answer.status, again, text

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
        self._connection = None
