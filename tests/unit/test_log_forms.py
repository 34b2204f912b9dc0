"""The log: JSON for machines, one readable line for people at a terminal."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Iterator

import pytest

from kontobahn import log
from kontobahn.log import Form
from tests.command_line import Terminal

CALL = {
    "request_id": "req_1", "endpoint": "GET /v2/auth/users", "method": "GET", "path": "/v2/auth/users", "status": 404,
    "milliseconds": 1.25, "ip": "127.0.0.1", "organization_id": None,
}  # fmt: skip


@pytest.fixture(autouse=True)
def _colours(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    yield
    log.configure("info")


def _written(stream: io.StringIO, form: Form = "auto", **changed: object) -> str:
    log.configure("info", stream, form=form)
    log.info("call", **(CALL | changed))
    return stream.getvalue()


def test_a_pipe_gets_json_and_a_terminal_one_coloured_line() -> None:
    machine = json.loads(_written(io.StringIO()))
    assert (machine["event"], machine["status"], machine["method"]) == ("call", 404, "GET")
    line = _written(Terminal())
    assert line.count("\n") == 1
    assert "\x1b[33m404\x1b[0m" in line
    plain = re.sub(r"\x1b\[[0-9;]*m", "", line)
    assert re.fullmatch(
        r"\d\d:\d\d:\d\d  404       1.2 ms  GET    /v2/auth/users  request_id=req_1 ip=127.0.0.1\n", plain
    )


@pytest.mark.parametrize(("status", "colour"), [(200, "32"), (402, "33"), (503, "31")])
def test_the_colour_tells_how_it_went(status: int, colour: str) -> None:
    assert f"\x1b[{colour}m{status}\x1b[0m" in _written(Terminal(), status=status)


def test_a_setting_forces_either_and_no_color_is_honoured(monkeypatch: pytest.MonkeyPatch) -> None:
    assert json.loads(_written(Terminal(), "json"))["status"] == 404
    forced = _written(io.StringIO(), "text")
    assert "GET    /v2/auth/users" in forced
    assert "\x1b" not in forced
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b" not in _written(Terminal())
    monkeypatch.delenv("NO_COLOR")
    monkeypatch.setenv("TERM", "dumb")
    assert "\x1b" not in _written(Terminal())


def test_a_caller_cannot_write_on_the_operators_terminal() -> None:
    line = _written(io.StringIO(), "text", path="/v2/\x1b]0;owned\x07\nforged", request_id="a\rb")
    assert line.count("\n") == 1
    assert "\\x1b]0;owned\\x07\\nforged" in line
    assert "\r" not in line


def test_secrets_are_removed_for_people_too() -> None:
    stream = io.StringIO()
    log.configure("info", stream, form="text")
    log.warning("call_failed", password="s3cret", detail="postgresql://me:s3cret@db/x")
    assert "s3cret" not in stream.getvalue()
    assert "password=…" in stream.getvalue()


def test_a_traceback_is_readable_at_a_terminal() -> None:
    stream = io.StringIO()
    log.configure("info", stream, form="text")
    try:
        raise ValueError("no")
    except ValueError as error:
        log.exception("call_crashed", error)
    first, *rest = stream.getvalue().splitlines()
    assert "call_crashed" in first
    assert rest[0] == "    Traceback (most recent call last):"
    assert rest[-1] == "    ValueError: no"


@pytest.mark.parametrize(
    ("setting", "form", "status", "wanted"),
    [
        ("auto", "text", 200, True), ("auto", "json", 200, False), ("auto", "json", 500, True),
        ("all", "json", 200, True), ("failed", "text", 499, False), ("failed", "text", 500, True), ("none", "text", 500, False),
    ],
)  # fmt: skip
def test_which_calls_get_a_line(setting: str, form: Form, status: int, wanted: bool) -> None:
    log.configure("info", io.StringIO(), form=form)
    assert (status >= log.lowest_status(setting)) is wanted
