"""Readers that go along: each walks a list or a log by its cursor, through all kills, and keeps what it got in the order it got it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import urlencode

from torture.kills.calls import Call, Journal, Line
from torture.kills.service import Service

PAGE = 50
PAUSE_SECONDS = 0.05


class Feed:
    """One list: how it is asked for, and what comes after what was read."""

    def __init__(
        self, name: str, path: str, query: dict[str, Any], cursor: str, mark: Callable[[Any], str] | None = None,
        price: int = 0, rows: str = "data",
    ) -> None:  # fmt: skip
        self.name, self.price = name, price
        self._path, self._query, self._cursor, self._mark, self._rows = path, query, cursor, mark, rows
        self.at: str | None = None
        self.got: list[Any] = []

    def call(self, key: str, *, limit: int = PAGE) -> Call:
        query = self._query | {"limit": limit} | ({self._cursor: self.at} if self.at is not None else {})
        return Call(f"read {self.name}", key, "GET", f"{self._path}?{urlencode(query)}", price=self.price)

    def take(self, answer: Any) -> int:
        """Moves on only when an answer came whole. Returns how many rows were new."""
        rows = answer[self._rows]
        self.got += rows
        if self._mark is None:
            self.at = answer.get("next_cursor") or answer.get("cursor") or self.at
        elif rows:
            self.at = self._mark(rows[-1])
        return len(rows)

    def from_the_start(self) -> Feed:
        return Feed(self.name, self._path, self._query, self._cursor, self._mark, self.price, self._rows)


class Reader:
    """Goes round all feeds; `accounts` brings a feed for each bank account that appears."""

    def __init__(self, service: Service, journal: Journal, name: str, feeds: list[Feed]) -> None:
        self._service, self._journal, self._name, self.feeds = service, journal, name, feeds
        self._line = Line(service, journal)
        self._ending = threading.Event()
        self._asked = 0
        self.failure: BaseException | None = None
        self._thread = threading.Thread(target=self._go_on, daemon=True)
        self._thread.start()

    def _go_on(self) -> None:
        try:
            for feed in self._turns():
                if self._service.up.wait(0.1):
                    self.read(feed)
                time.sleep(PAUSE_SECONDS)
        except BaseException as error:
            self.failure = error

    def _turns(self) -> Iterator[Feed]:
        while True:
            for feed in list(self.feeds):
                if self._ending.is_set():
                    return
                yield feed

    def read(self, feed: Feed, limit: int = PAGE) -> int | None:
        """Returns how many rows it got; None if there was no answer."""
        self._asked += 1
        call = self._journal.note(feed.call(f"{self._name}-{self._asked}", limit=limit))
        if not self._line.send(call) or call.status != 200:
            return None
        return feed.take(call.answer)

    def end(self) -> None:
        self._ending.set()
        self._thread.join()

    def close(self) -> None:
        self._line.close()

    def read_to_the_end(self, feed: Feed) -> list[Any]:
        while self.read(feed, 1000) != 0:
            pass
        return feed.got


def feeds(service: Service) -> list[Feed]:
    books = {"connectionId": service.facts["ledger"]["connection_id"]}
    year = {**books, "geschaeftsjahrStartDatum": "2026-01-01"}
    cash = {**books, "kassenname": service.facts["ledger"]["kassenname"], "sort": "nummer"}
    return [
        Feed("events", "/v2/banking/events", {}, "cursor"),
        Feed("payments", "/v2/banking/payments", {"sort": "id"}, "from_id", lambda row: row["id"]),
        Feed("bookings", "/v2/ledger-rewe-read/buchungen", year, "from_id", lambda row: row["id"], 1),
        Feed("cash book", "/v2/ledger-duo/kassenbuch", cash, "from_id", lambda row: str(row["nummer"]), 1),
        Feed("changes", "/v2/banking/transactions/changes", {}, "cursor", None, 1),
    ]


def of_account(account_id: str) -> Feed:
    query = {"account_id": account_id, "sort": "id"}
    return Feed(f"account {account_id}", "/v2/banking/transactions", query, "from_id", lambda row: row["id"], 1)
