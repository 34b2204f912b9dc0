"""The server that assistants speak to: which tools a key sees, whose call of one is refused, and how much is read of a message."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from kontobahn.assistants.grants import PRESETS
from kontobahn.errors import BadRequest, Forbidden, TooLarge
from kontobahn.mcp.channel import CallFailed
from kontobahn.mcp.http import _check_tool, _read, _wanted_preset
from kontobahn.mcp.server import Rights, _next_step, find_tool
from kontobahn.mcp.tools import TOOLS

WIDEST = PRESETS[-1]


def rights(role: Any = "owner", scopes: tuple[str, ...] | None = None, preset: Any = WIDEST) -> Rights:
    return Rights(SimpleNamespace(), role, scopes, preset)


@pytest.mark.parametrize(
    ("held", "tool", "is_seen"),
    [
        ({}, {}, True),
        ({"role": "member"}, {"role": "member"}, True),
        ({"role": "bookkeeping"}, {"role": "member"}, False),
        ({"preset": PRESETS[0]}, {"preset": PRESETS[0]}, True),
        ({"preset": PRESETS[0]}, {"preset": PRESETS[1]}, False),
        ({"preset": PRESETS[1]}, {"preset": PRESETS[0]}, True),
        ({"scopes": ("payments",)}, {"scopes": ("payments", "webhooks")}, True),
        ({"scopes": ("payments",)}, {"scopes": ("webhooks",)}, False),
        ({"scopes": ()}, {"scopes": ("webhooks",)}, False),
        ({"scopes": ("payments",)}, {"scopes": ("payments",), "also_scope": "webhooks"}, False),
        ({"scopes": ("webhooks",)}, {"scopes": ("payments",), "also_scope": "webhooks"}, False),
        ({"scopes": ("payments", "webhooks")}, {"scopes": ("payments",), "also_scope": "webhooks"}, True),
        ({}, {"scopes": ("payments",), "also_scope": "webhooks"}, True),
    ],
)
def test_a_tool_is_seen_by_role_scopes_and_preset_together(
    held: dict[str, Any], tool: dict[str, Any], is_seen: bool
) -> None:
    made = SimpleNamespace(
        **{"role": "read_only", "scopes": ("payments",), "also_scope": None, "preset": PRESETS[0]} | tool
    )
    assert rights(**held).may(made) is is_seen  # type: ignore[arg-type]


def test_a_call_of_a_tool_that_is_not_seen_is_refused_and_nothing_else() -> None:
    narrow = rights(preset=PRESETS[0])
    seen, hidden = (
        next(tool for tool in TOOLS if narrow.may(tool)),
        next(tool for tool in TOOLS if not narrow.may(tool)),
    )

    def call(name: object, method: str = "tools/call") -> bytes:
        return msgspec.json.encode({"method": method, "params": {"name": name}})

    with pytest.raises(Forbidden, match=hidden.name) as refused:
        _check_tool(narrow, call(hidden.name))
    assert refused.value.extra["missing_scope"] == hidden.preset
    _check_tool(rights(), call(hidden.name))
    for body in (
        call(seen.name), call("nothing"), call(None), call(hidden.name, "tools/list"), b"{", b"[]", b'{"method":"tools/call"}',
    ):  # fmt: skip
        _check_tool(narrow, body)
    assert (find_tool(seen.name), find_tool("nothing")) == (seen, None)


@pytest.mark.parametrize(
    ("status", "word"), [(402, "credits"), (403, "administrator"), (429, "Wait"), (400, ""), (404, ""), (500, "")]
)
def test_a_refusal_says_what_to_do_next_where_something_can_be_done(status: int, word: str) -> None:
    told = _next_step(CallFailed(status, {"error": "No."}))
    assert told.startswith("No.")
    assert word in told if word else told == "No."


@pytest.mark.parametrize(
    ("query", "preset"),
    [(b"", WIDEST), (b"tools=" + PRESETS[0].encode(), PRESETS[0]), (b"tools=x", None), (b"other=1", WIDEST)],
)
def test_the_address_may_ask_for_less(query: bytes, preset: str | None) -> None:
    assert _wanted_preset({"query_string": query}) == preset


@pytest.mark.parametrize(
    ("parts", "outcome"),
    [
        ([b"abc", b"de"], b"abcde"), ([b""], b""), ([b"abcdef"], TooLarge), ([b"abc", b"def", b"more"], TooLarge),
        ([b"abc", None], BadRequest),
    ],
)  # fmt: skip
def test_no_more_of_a_message_is_read_than_it_may_have(parts: list[bytes | None], outcome: Any) -> None:
    messages = [
        {"type": "http.disconnect"} if part is None
        else {"type": "http.request", "body": part, "more_body": number < len(parts)}
        for number, part in enumerate(parts, 1)
    ]  # fmt: skip

    async def receive() -> dict[str, Any]:
        return messages.pop(0)

    if isinstance(outcome, bytes):
        assert asyncio.run(_read(receive, 5)) == outcome
        return
    with pytest.raises(outcome):
        asyncio.run(_read(receive, 5))
