"""The log never fails, never waits for a reader, and says what was lost."""

from __future__ import annotations

import io
import json
import os
from collections.abc import Iterator

import pytest

from kontobahn import log


@pytest.fixture(autouse=True)
def _log_as_before() -> Iterator[None]:
    yield
    log.configure("info")
    log._State.lost, log._State.reader_is_behind = 0, False


def events_after_recovery() -> list[tuple[str, int | None]]:
    stream = io.StringIO()
    log.configure("info", stream)
    log.info("after")
    return [(line["event"], line.get("lines")) for line in map(json.loads, stream.getvalue().splitlines())]


def test_a_full_disk_loses_lines_and_nothing_else() -> None:
    with open("/dev/full", "w") as full:
        log.configure("info", full)
        for _ in range(3):
            log.warning("lost", reason="x" * 10_000)
    log.configure("info", full)
    log.info("lost too: the stream is closed")
    assert events_after_recovery() == [("log_lines_lost", 4), ("after", None)]


def test_a_dead_pipe_loses_lines_and_nothing_else() -> None:
    reader, writer = os.pipe()
    with open(writer, "w") as stream:
        log.configure("info", stream)
        os.close(reader)
        log.exception("lost", RuntimeError("x"))
    assert events_after_recovery() == [("log_lines_lost", 1), ("after", None)]


def test_a_reader_that_does_not_read_is_not_waited_for() -> None:
    reader, writer = os.pipe()
    with open(reader, "rb") as read, open(writer, "w") as stream:
        log.configure("info", stream)
        # Many times what a pipe holds: a log that waits would never come to an end here.
        for number in range(1000):
            log.info("line", number=number, text="x" * 1000)
        assert log._State.lost > 500
        os.set_blocking(reader, False)
        while read.read(65536):
            pass
        log.info("after")
        last = [json.loads(line) for line in (read.read(65536) or b"").splitlines()[-2:]]
    assert [line["event"] for line in last] == ["log_lines_lost", "after"]
    assert last[0]["lines"] > 500


def test_what_a_caller_chose_is_cut() -> None:
    stream = io.StringIO()
    log.configure("info", stream)
    log.info("call", path="x" * 1_000_000)
    assert len(stream.getvalue()) < 10_000
