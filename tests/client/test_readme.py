"""Every example of the client's README runs as printed, on a running service."""

from __future__ import annotations

import re
import time
from pathlib import Path
from typing import Any

import pytest

from kontobahn.webhooks import receiver
from tests.bank_builder import Bank, facts
from tests.harness import Service
from tests.spec_pages import on_sqlite
from tests.tidy_rules import ROOT

README = ROOT / "clients" / "python" / "README.md"


def examples(page: Path) -> list[str]:
    return re.findall(r"^```python\n(.*?)^```", page.read_text("utf-8"), re.MULTILINE | re.DOTALL)


@on_sqlite
def test_the_examples_run(
    service: Service, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    # Elsewhere a proxy may be set that knows nothing of this machine.
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    owner, secret = service.organization(), receiver.new_secret()
    bank = Bank(service)
    connection = bank.connected(owner, facts(11900, "Rechnung 1"))
    names: dict[str, Any] = {"url": service.base_url, "key": owner.key, "secret": secret}
    changes, costs, payment, event = examples(README)

    exec(changes, names)
    assert capsys.readouterr().out.endswith(" 2026-03-01 119.00\n")
    exec(changes, names)
    assert capsys.readouterr().out == ""
    bank.report(connection, facts(11900, "Rechnung 1"), facts(2300, "Nachgereicht", "2025-12-24"))
    exec(changes, names)
    assert re.fullmatch(r"added \d+ 2025-12-24 23\.00\n", capsys.readouterr().out)

    before = service.balance(owner).available
    exec(costs, names)
    spent = before - service.balance(owner).available
    assert capsys.readouterr().out.splitlines()[-1] == f"1 credits for the last page, {spent} for everything so far"

    for _ in range(2):
        exec(payment, names)
        assert capsys.readouterr().out.startswith("To be authorised at http")
    listed = service.get("/v2/banking/payments", owner.key).json()["data"]
    assert [item["amount"] for item in listed] == [119.0]

    exec(event, names)
    body, now = b'{"event":"webhook_test","data":{},"received_at":"2026-03-31T09:30:00Z"}', int(time.time())
    headers = receiver.signed_headers("evt_1", now, body, [receiver.key_of(secret)])
    assert names["receive"](body, headers) == 204
    assert names["receive"](body + b" ", headers) == 400
