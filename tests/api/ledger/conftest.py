"""The other doors to the books of a test: a person at the dashboard, and the command line of the installation."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.command_line import CommandLine
from tests.dashboard.browsing import Browser
from tests.harness import Service
from tests.ledger_builder import Books


@pytest.fixture
def browser(service: Service, books: Books) -> Browser:
    service.user(books.owner, "erika@muster.example", "member")
    found = Browser(service)
    assert found.sign_in("erika@muster.example").status_code == 303
    return found


@pytest.fixture
def cli(service: Service, monkeypatch: pytest.MonkeyPatch) -> CommandLine:
    if service.settings.database_url:
        monkeypatch.setenv("KONTOBAHN_DATABASE_URL", service.settings.database_url)
    return CommandLine(Path(service.settings.data_dir), monkeypatch)
