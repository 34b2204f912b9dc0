"""`cli`: the command line on a fresh SQLite database."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from kontobahn import log
from tests.command_line import CommandLine


@pytest.fixture
def cli(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[CommandLine]:
    line = CommandLine(tmp_path / "data", monkeypatch)
    line.ok("migrate")
    yield line
    log.configure("info")
