"""The command line, as an operator and as a script use it."""

from __future__ import annotations

import csv
import io
import os
import re
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from kontobahn import __version__
from tests.command_line import CommandLine
from tests.journeys.process import ServerProcess, answer, kontobahn, place_demo, serving
from tests.services import PostgresServer
from tests.waiting import PATIENCE_SECONDS, eventually

CONNECTIONS = "/v2/ledger-rewe-read/connections"


@pytest.fixture
def settings(engine: str, request: pytest.FixtureRequest) -> dict[str, Any]:
    if engine == "sqlite":
        return {}
    return {"database_url": request.getfixturevalue("database_url")}


def test_from_nothing_to_a_working_key(tmp_path: Path, settings: dict[str, Any]) -> None:
    missing = kontobahn("keys", "list", data=tmp_path, expect=1)
    assert "kontobahn migrate" in missing.stderr
    kontobahn("migrate", data=tmp_path, **settings)
    assert answer("migrate", data=tmp_path, **settings) == {"applied": []}
    organization = answer("organizations", "create", "--name", "Muster GmbH", data=tmp_path, **settings)
    kontobahn(
        "users", "create", "--email", "e@muster.example", "--name", "Erika", "--password", "long enough for this",
        data=tmp_path, **settings,
    )  # fmt: skip
    key = answer("keys", "create", "--name", "n8n", "--expires", "90d", data=tmp_path, **settings)
    assert re.fullmatch(r"kb_live_[0-9A-Za-z]{36}", key["api_key"])
    granted = answer("credits", "grant", "50", "--expires", "2099-12-31", data=tmp_path, **settings)
    assert granted == {
        "organization_id": organization["organization_id"], "organization": "Muster GmbH", "granted": 50, "available": 50,
    }  # fmt: skip
    listed = answer("keys", "list", data=tmp_path, **settings)
    assert [(item["name"], item["state"], item["kind"]) for item in listed] == [("n8n", "active", "organisation")]
    with serving(tmp_path, **settings) as server:
        assert server.get(CONNECTIONS, key["api_key"]).json() == {"connections": []}
        new = answer("keys", "rotate", key["key_id"], "--overlap", "0s", data=tmp_path, **settings)
        assert server.get(CONNECTIONS, new["api_key"]).status_code == 200
        again = kontobahn("keys", "rotate", key["key_id"], data=tmp_path, expect=1, **settings)
        assert "expired" in again.stderr
        server.stop()
    states = {
        item["key_id"]: item["state"] for item in answer("keys", "list", "-o", "Muster GmbH", data=tmp_path, **settings)
    }
    assert states == {key["key_id"]: "expired", new["key_id"]: "active"}


def test_the_statement_is_a_csv(tmp_path: Path) -> None:
    place_demo(tmp_path)
    output = kontobahn("credits", "statement", "--csv", "-o", "Demo Handels GmbH", data=tmp_path).stdout
    rows = list(csv.DictReader(io.StringIO(output)))
    granted, *spent = [(row["kind"], row["amount"], row["available_after"]) for row in rows]
    assert granted == ("grant", "10000", "10000")
    # The demo has made payments: one is settled, one was rejected, the others are under way.
    assert [kind for kind, _, _ in spent] == ["reserve", "confirm", "reserve", "reserve", "expire", *["reserve"] * 3]


def received_files(server: ServerProcess) -> dict[str, bytes]:
    """The files of received invoices as they came, by invoice."""
    found = {
        payable["number"]: server.get(f"/v2/payables/{payable['id']}/file").content
        for payable in server.get("/v2/payables").json()["data"]
    }
    assert len(found) == 8
    assert all(content.startswith((b"<?xml", b"%PDF-")) for content in found.values())
    return found


def test_a_backup_made_while_serving_restores_all_of_it(tmp_path: Path, engine: str, settings: dict[str, Any]) -> None:
    data, archive = tmp_path / "data", tmp_path / "backup.tar.gz"
    with serving(data, **settings) as server:
        invited = server.http.post(
            "/v2/auth/invitations", json={"email": "a@b.de"}, headers={"x-api-key": server.key}
        ).json()["data"]
        originals = received_files(server)
        made = answer("backup", str(archive), data=data, **settings)
        assert made["holds_key_file"] is True
        assert archive.stat().st_mode & 0o777 == 0o600
        if engine == "sqlite":
            in_use = kontobahn("restore", str(archive), "--force", data=data, expect=1)
            assert "in use" in in_use.stderr
        server.stop()
    assert "already exists" in kontobahn("backup", str(archive), data=data, expect=1, **settings).stderr
    refused = kontobahn("restore", str(archive), data=data, expect=1, **settings)
    assert "--force" in refused.stderr
    restored = tmp_path / "restored"
    force = ["--force"] if engine == "postgres" else []
    kontobahn("restore", str(archive), *force, data=restored, **settings)
    (restored / "demo.json").write_bytes((data / "demo.json").read_bytes())
    with serving(restored, **settings) as server:
        listed = server.get("/v2/auth/invitations").json()["data"]
        assert [item["id"] for item in listed] == [invited["id"]]
        assert received_files(server) == originals
        server.stop()
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []


def test_a_damaged_backup_changes_nothing(tmp_path: Path) -> None:
    data, archive = tmp_path / "data", tmp_path / "backup.tar.gz"
    place_demo(data)
    kontobahn("backup", str(archive), data=data)
    content = archive.read_bytes()
    before = (data / "kontobahn.sqlite3").read_bytes()
    for damaged in (content[: len(content) // 2], b"nonsense", content[:300] + bytes(60) + content[360:]):
        archive.write_bytes(damaged)
        refused = kontobahn("restore", str(archive), "--force", data=data, expect=1)
        assert len(refused.stderr.strip().splitlines()) == 1
        assert (data / "kontobahn.sqlite3").read_bytes() == before
    assert "does not exist" in kontobahn("restore", str(tmp_path / "nothing"), data=data, expect=1).stderr


def test_the_doctor_finds_what_is_wrong_and_says_what_to_do(tmp_path: Path, settings: dict[str, Any]) -> None:
    place_demo(tmp_path, **settings)
    assert {item["state"] for item in answer("doctor", data=tmp_path, **settings)} == {"ok"}
    os.chmod(tmp_path / "secret.key", 0o644)
    found = kontobahn("doctor", data=tmp_path, expect=1, **settings)
    assert "chmod 600" in found.stdout
    os.chmod(tmp_path / "secret.key", 0o600)
    dead: dict[str, Any] = {**settings, "redis_url": "redis://127.0.0.1:1/0"}
    assert "Start Redis" in kontobahn("doctor", data=tmp_path, expect=1, **dead).stdout


def test_the_doctor_sees_a_credit_that_does_not_add_up(tmp_path: Path) -> None:
    import sqlite3

    place_demo(tmp_path)
    with sqlite3.connect(tmp_path / "kontobahn.sqlite3") as database:
        database.execute("UPDATE credit_accounts SET available = available + 1, granted = granted + 1")
    database.close()
    found = kontobahn("doctor", data=tmp_path, expect=1)
    assert "its statement" in found.stdout


def test_a_database_that_is_away_is_exit_code_3(tmp_path: Path) -> None:
    away: dict[str, Any] = {"database_url": "postgresql://kontobahn:s3cret@127.0.0.1:1/x"}
    failed = kontobahn("keys", "list", data=tmp_path, expect=3, **away)
    assert "cannot be reached" in failed.stderr
    assert "s3cret" not in failed.stderr
    assert "s3cret" not in kontobahn("doctor", "--settings", data=tmp_path, expect=1, **away).stdout


@pytest.mark.parametrize(
    ("arguments", "code", "sentence"),
    [
        (("keys", "create", "--name", "x", "--role", "king"), 2, "king"),
        (("keys", "create", "--name", "x", "--expires", "tomorrow"), 2, "tomorrow"),
        (("keys", "create", "--name", "x", "--expires", "2001-01-01", "-o", "Demo Handels GmbH"), 1, "in the past"),
        (("keys", "create", "--name", "x", "-o", "Niemand"), 1, "Niemand"),
        (("keys", "create", "--name", "x", "-o", "Demo Handels GmbH", "--client", "nobody"), 1, "nobody"),
        (("keys", "revoke", "nothing"), 1, "no API key"),
        (("credits", "grant", "0"), 2, "not in the range 1<="),
        (("nonsense",), 2, "nonsense"),
        (("serve", "--port", "70000"), 2, "65535"),
    ],
)
def test_mistakes_get_a_sentence_and_an_honest_exit_code(
    tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
    arguments: tuple[str, ...],
    code: int,
    sentence: str,
) -> None:
    data = tmp_path_factory.getbasetemp() / "mistakes"
    commands = CommandLine(data, monkeypatch)
    if not data.exists():
        commands.ok("demo")
    assert sentence in commands.refused(*arguments, code=code)


def test_the_data_directory_may_come_from_the_environment(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "kontobahn", "migrate"]
    subprocess.run(
        command, env={**os.environ, "KONTOBAHN_DATA": str(tmp_path / "here")}, check=True, capture_output=True
    )
    assert (tmp_path / "here" / "kontobahn.sqlite3").stat().st_mode & 0o777 == 0o600


def test_the_version_for_scripts() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "kontobahn", "version", "--json"], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == f'{{"version":"{__version__}"}}'


def test_jobs_run_in_a_process_of_their_own(tmp_path: Path) -> None:
    place_demo(tmp_path)
    process = subprocess.Popen(
        [sys.executable, "-m", "kontobahn", "jobs", "--data", str(tmp_path)], stderr=subprocess.PIPE
    )
    database = sqlite3.connect(tmp_path / "kontobahn.sqlite3")
    missing = {"expire reservations", "ask after payments", "refresh bank connections"}
    finished = "SELECT name FROM job_leases WHERE finished_at IS NOT NULL"
    eventually(lambda: process.poll() is not None or missing <= {name for (name,) in database.execute(finished)})
    database.close()
    process.terminate()
    _, log = process.communicate(timeout=PATIENCE_SECONDS)
    assert process.returncode == 0, log


def test_a_lost_database_at_the_start_is_waited_for(tmp_path: Path) -> None:
    with PostgresServer() as database:
        url = database.create_database("late")
        kontobahn("migrate", data=tmp_path, database_url=url)
        database.stop()
        with subprocess.Popen(
            [sys.executable, "-m", "kontobahn", "serve", "--port", "0", "--data", str(tmp_path)],
            env={**os.environ, "KONTOBAHN_DATABASE_URL": url}, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
        ) as process:  # fmt: skip
            assert process.stdout is not None
            import httpx

            base_url = re.findall(r"http://[^/\s]+", process.stdout.readline())[0]
            assert httpx.get(f"{base_url}/readyz", timeout=PATIENCE_SECONDS, trust_env=False).status_code == 503
            database.start()
            assert httpx.get(f"{base_url}/readyz", timeout=PATIENCE_SECONDS, trust_env=False).status_code == 200
            process.terminate()
            assert process.wait(PATIENCE_SECONDS) == 0
