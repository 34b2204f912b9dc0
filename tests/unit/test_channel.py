"""Calls that a tool of an assistant makes: every page of a list or none of it, and what a refusal becomes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any

import pytest

from kontobahn.mcp import channel
from kontobahn.mcp.channel import Caller, CallFailed, HttpChannel, TooMany
from kontobahn.mcp.channel import Reply as Answered
from kontobahn.outbound import Reply, Unreached


class Book:
    """A list of so many rows, two on a page; or a refusal."""

    def __init__(self, rows: int, status: int = 200) -> None:
        self.rows, self.status, self.asked = rows, status, list[dict[str, Any]]()

    async def ask(self, method: str, path: str, query: Mapping[str, Any], body: bytes | None) -> Answered:
        self.asked.append(dict(query))
        if self.status != 200:
            return Answered(self.status, {"error": "No.", "message": "Ask somebody."}, {})
        begin = int(query.get("cursor", 0))
        following = f'</v2/list?limit=2&cursor={begin + 2}>; rel="next"' if begin + 2 < self.rows else ""
        headers = {"x-credits-charged": "3"} | ({"link": following} if following else {})
        return Answered(200, {"data": list(range(begin, min(begin + 2, self.rows)))}, headers)


@pytest.mark.parametrize("rows", [0, 1, 2, 3, 6])
def test_a_list_is_read_to_its_end_or_not_at_all(monkeypatch: pytest.MonkeyPatch, rows: int) -> None:
    monkeypatch.setattr(channel, "MAX_ROWS", 4)
    book = Book(rows)
    caller = Caller(book)
    if rows > 4:
        with pytest.raises(TooMany):
            asyncio.run(caller.every("/v2/list", status=None))
        assert len(book.asked) == 2
        return
    assert asyncio.run(caller.every("/v2/list", status=None)) == list(range(rows))
    assert caller.credits == 3 * len(book.asked)
    assert all("status" not in asked and asked["quelle"] for asked in book.asked)


@pytest.mark.parametrize("status", [399, 400, 403, 404, 500])
def test_what_a_key_may_not_ask_is_nothing_and_every_other_refusal_is_told(status: int) -> None:
    caller = Caller(Book(1, status))

    def outcome(ask: Callable[..., Any]) -> Any:
        try:
            return asyncio.run(ask("/v2/list"))
        except CallFailed as failure:
            return failure.status, str(failure)

    told = (status, "No. Ask somebody.")
    if status < 400:
        assert outcome(caller.get) == {"error": "No.", "message": "Ask somebody."}
        return
    assert outcome(caller.get) == outcome(caller.every) == told
    assert outcome(caller.find_every) == ([] if status == 403 else told)
    assert outcome(caller.find) == (None if status in (403, 404) else told)


@pytest.mark.parametrize("answer", [None, [], {}, {"error": ""}])
def test_a_refusal_without_words_tells_its_status(answer: Any) -> None:
    assert str(CallFailed(502, answer)) == "The service answered with 502."


def test_a_service_elsewhere_that_cannot_be_reached_or_is_another_is_told_apart() -> None:
    async def send(*_: Any, **__: Any) -> Reply:
        found = answers.pop(0)
        if isinstance(found, Exception):
            raise found
        return Reply(200, {"Link": "x"}, found)

    answers: list[Any] = [Unreached("dns", "The name cannot be resolved."), b"<html>", b'{"data": []}']
    there = HttpChannel(SimpleNamespace(send=send), "https://books.example/", "kb_live_x")  # type: ignore[arg-type]
    for status, words in ((503, "cannot be resolved"), (502, "no Kontobahn")):
        with pytest.raises(CallFailed, match=words) as failed:
            asyncio.run(there.ask("GET", "/v2/list", {}, None))
        assert failed.value.status == status
    assert asyncio.run(there.ask("GET", "/v2/list", {}, None)) == (200, {"data": []}, {"link": "x"})
