"""DATEV on the command line and in the settings: what cannot work is refused at the start, and no secret is shown."""

from __future__ import annotations

from typing import Any

import pytest

from kontobahn.datev.setup import application
from kontobahn.errors import SetupError
from kontobahn.settings import load
from tests.command_line import CommandLine

OURS = {"datev_client_id": "app", "datev_client_secret": "a secret of DATEV"}


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"datev_client_secret": ""}, "Set datev_client_secret"),
        ({"datev_urls": {"tokens": "https://x.example"}}, "tokens"),
    ],
)
def test_settings_that_cannot_work_are_refused(settings: dict[str, Any], said: str) -> None:
    with pytest.raises(SetupError, match=said):
        application(load({}, **{**OURS, **settings}))


def test_the_sandbox_has_addresses_of_its_own() -> None:
    production, sandbox = (application(load({}, **OURS, datev_sandbox=chosen)).urls for chosen in (False, True))
    assert production.keys() == sandbox.keys()
    assert {name for name in production if production[name] == sandbox[name]} == set()


def test_the_doctor_shows_no_secret(cli: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in OURS.items():
        monkeypatch.setenv(f"KONTOBAHN_{name.upper()}", value)
    shown = cli.run("doctor", "--settings")
    assert "datev_client_secret" in shown.out
    assert OURS["datev_client_secret"] not in shown.out + shown.err
