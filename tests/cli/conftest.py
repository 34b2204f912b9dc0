"""`cli`: the command line on a fresh SQLite database."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from kontobahn import log
from kontobahn.settings import load
from tests.command_line import CommandLine
from tests.harness import place_migrated_sqlite


@pytest.fixture
def cli(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[CommandLine]:
    line = CommandLine(tmp_path / "data", monkeypatch)
    place_migrated_sqlite(load({}, data=str(line.data)))
    line.ok("migrate")
    yield line
    log.configure("info")
