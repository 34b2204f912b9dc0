"""`kontobahn sandbox` beside a running service: commands work at the bank, and the service hears of it by webhook. And the demo."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
from typer.testing import CliRunner

from kontobahn.cli.entry import command_line
from kontobahn.errors import KontobahnError
from tests.journeys.process import ServerProcess, kontobahn, serving
from tests.waiting import eventually


def sandbox(data: Path, *arguments: str) -> Any:
    """A command in this process, which is another one than the service's; much quicker than one of its own."""
    done = CliRunner().invoke(command_line("sandbox"), ["sandbox", *arguments, "--data", str(data), "--json"])
    if isinstance(done.exception, KontobahnError):
        return str(done.exception)
    if done.exit_code == 2:
        return " ".join(done.stderr.replace("│", " ").split())
    assert done.exit_code == 0, (done.output, done.exception)
    return msgspec.json.decode(done.stdout)


def data_of(server: ServerProcess, path: str, **query: Any) -> Any:
    got = server.get(f"/v2/banking/{path}", params=query)
    assert got.status_code == 200, got.text
    return got.json()["data"]


def look_at_the_demo(server: ServerProcess, facts: dict[str, str]) -> None:
    assert set(facts) == {"connection_id", "account_id", "second_account_id", "payment_id", "connect_user"}
    connections = data_of(server, "connections")
    assert [row["status"] for row in connections] == ["active", "active"]
    accounts = {row["id"]: row for row in data_of(server, "accounts")}
    assert len(accounts) == 3
    assert {facts["account_id"], facts["second_account_id"]} < set(accounts)
    rows = [row for one in connections for row in data_of(server, "transactions", connection_id=one["id"])]
    assert len(rows) > 120
    payments = data_of(server, "payments")
    assert {row["status"] for row in payments} == {
        "settled", "executed", "rejected", "authorized", "initiated_info_required", "initiated",
    }  # fmt: skip
    assert data_of(server, f"payments/{facts['payment_id']}")["status"] == "settled"
    [debit] = [row for row in rows if row["payment_id"] == facts["payment_id"]]
    assert debit["amount"] == -148.75


def test_commands_at_the_bank_reach_the_running_service(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with serving(data, limit_api_requests=100_000) as server:
        facts = server.facts["banking"]
        look_at_the_demo(server, facts)
        connection, account = facts["connection_id"], data_of(server, f"accounts/{facts['account_id']}")
        rows = sandbox(data, "connections")
        # An adviser's other clients have theirs.
        assert {row["connection"] for row in rows} > {row["id"] for row in data_of(server, "connections")}

        iban = account["extra"]["iban"]
        kontobahn("sandbox", "book", "--account", iban, "--amount", "-12.50", "--text", "Porto", "--pending", data=data)
        eventually(lambda: data_of(server, f"accounts/{account['id']}")["extra"]["transactions_count"]["pending"] == 1)
        assert sandbox(data, "post-pending", connection) == {"posted": 1}
        eventually(lambda: data_of(server, f"accounts/{account['id']}")["extra"]["transactions_count"]["pending"] == 0)

        by_status = {row["status"]: row for row in data_of(server, "payments")}
        sandbox(data, "payment", by_status["executed"]["id"], "settled")
        eventually(lambda: data_of(server, f"payments/{by_status['executed']['id']}")["status"] == "settled")
        assert sandbox(data, "clock", "+6d")["ahead_seconds"] == 6 * 86_400
        eventually(lambda: data_of(server, f"payments/{by_status['authorized']['id']}")["status"] == "settled")
        sandbox(data, "deliver", "--again", "3")
        # The service may have some of them in hand.
        eventually(lambda: sandbox(data, "deliver")["waiting"] == 0)

        sandbox(data, "fail", connection, "--error-class", "ProviderError")
        eventually(lambda: data_of(server, f"connections/{connection}")["error_class"] == "ProviderError")
        sandbox(data, "expire-consent", iban)
        eventually(lambda: data_of(server, f"connections/{connection}")["status"] == "inactive")
        sandbox(data, "destroy", connection)
        eventually(lambda: len(data_of(server, "connections")) == 1)
        sandbox(data, "refresh")

        for arguments, complaint in (
            (("book", "--amount", "1", "--text", "x", "--account", "DE00"), "no account"),
            (("book", "--amount", "1.005", "--text", "x"), "not an amount"),
            (("book", "--amount", "1", "--text", "x", "--date", "gestern"), "not a date"),
            (("clock", "gestern"), "neither a step"),
            (("payment", "4711", "settled"), "no payment"),
            (("destroy", "4711"), "no connection"),
        ):
            assert complaint in sandbox(data, *arguments)
        for listing in ("users", "banks", "plans"):
            assert len(sandbox(data, listing)) > 5
        server.stop()
