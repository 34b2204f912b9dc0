"""Keys that may do less, links for passwords and further endpoints on the command line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from kontobahn.cli.entry import command_line

PASSWORD = "long enough for this"


def run(data: Path, *arguments: str, typed: str | None = None) -> Result:
    return CliRunner().invoke(command_line(arguments[0]), [*arguments, "--data", str(data)], input=typed)


def answer(data: Path, *arguments: str, typed: str | None = None) -> Any:
    done = run(data, *arguments, "--json", typed=typed)
    assert done.exit_code == 0, f"{done.output} {done.exception}"
    return json.loads(done.stdout)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    run(tmp_path, "migrate")
    answer(tmp_path, "organizations", "create", "--name", "Muster GmbH")
    return tmp_path


def test_scopes_and_limits_are_given_shown_and_kept_by_rotation(data: Path) -> None:
    restricted = ("--scope", "payments", "--scope", "banking:read", "--payment-limit", "500,5", "--daily-limit", "2000")
    key = answer(data, "keys", "create", "--name", "payer", *restricted)
    answer(data, "keys", "create", "--name", "plain")
    answer(data, "keys", "rotate", key["key_id"])
    listed = [
        (item["name"], item["scopes"], item["payment_limit"], item["daily_limit"])
        for item in answer(data, "keys", "list")
    ]
    payer = ("payer", ["banking:read", "payments"], "500.50", "2000.00")
    assert listed == [payer, ("plain", None, None, None), payer]
    assert "by role" in run(data, "keys", "list").stdout
    for wrong in (
        ("--payment-limit", "1.000"),
        ("--payment-limit", "0"),
        ("--daily-limit", "1e3"),
        ("--daily-limit", "-1"),
    ):
        assert run(data, "keys", "create", "--name", "x", *wrong).exit_code == 2
    refused = run(data, "keys", "create", "--name", "x", "--scope", "payment")
    assert refused.exit_code != 0
    assert "Did you mean `payments`?" in refused.output + str(refused.exception)
    assert len(answer(data, "keys", "list")) == 3


def test_a_password_is_read_from_standard_input_and_set_by_link(data: Path) -> None:
    person = ("--email", "erika@muster.example", "--name", "Erika")
    for typed in ("short\n", "x" * 201 + "\n", ""):
        assert run(data, "users", "create", *person, "--password-stdin", typed=typed).exit_code == 2
    both = run(data, "users", "create", *person, "--password-stdin", "--password", PASSWORD, typed=PASSWORD)
    assert both.exit_code == 2
    user = answer(data, "users", "create", *person, "--password-stdin", typed=f"{PASSWORD}\nnext line\n")
    made = answer(data, "users", "reset", "Erika@muster.example")
    assert made["user_id"] == user["user_id"]
    assert made["link"].endswith(f"/dashboard/password?token={made['token']}")
    assert run(data, "users", "reset", "nobody@muster.example").exit_code != 0


def test_further_endpoints_are_made_paused_and_deleted(data: Path) -> None:
    url = "https://93.184.216.34/events"
    made = answer(data, "webhooks", "create", "--url", url, "--event", "payment_update")
    assert made["secret"].startswith("whsec_")
    assert answer(data, "webhooks", "pause", made["endpoint_id"])["state"] == "paused"
    (listed,) = answer(data, "webhooks", "list")
    assert (listed["url"], listed["state"], listed["events"]) == (url, "paused", ["payment_update"])
    assert answer(data, "webhooks", "resume", made["endpoint_id"])["state"] == "active"
    assert answer(data, "webhooks", "delete", made["endpoint_id"])["deleted"] is True
    assert answer(data, "webhooks", "list") == []
    assert run(data, "webhooks", "delete", made["endpoint_id"]).exit_code != 0
    assert run(data, "webhooks", "create", "--url", "https://127.0.0.1/").exit_code != 0
    assert run(data, "webhooks", "create", "--url", url, "--event", "payment").exit_code == 2
