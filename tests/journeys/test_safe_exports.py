"""Files that leave the service: no formulas for spreadsheets, no passwords in the list of processes, no empty backup put in place."""

from __future__ import annotations

import csv
import hashlib
import io
import os
import sqlite3
import tarfile
from pathlib import Path

import pytest

from tests.harness import Service
from tests.journeys.process import answer, kontobahn, place_demo
from tests.ledger_builder import Books


@pytest.mark.parametrize("engine", ["sqlite"])
def test_a_statement_of_credits_holds_no_formula(service: Service) -> None:
    mine = service.organization()
    books = Books(service, mine)
    for quelle in ("=1+1", "@SUM(A1)", "-n8n", "plain"):
        assert books.get("/v2/ledger-duo/kassenbuecher", quelle=quelle).status_code == 200
    data = service.settings.data_dir
    rows = list(
        csv.DictReader(io.StringIO(kontobahn("credits", "statement", "--csv", "-o", mine.id, data=data).stdout))
    )
    assert all(
        not text.startswith(("=", "+", "@", "-")) for row in rows for name, text in row.items() if name != "amount"
    )
    assert {"'=1+1", "'@SUM(A1)", "'-n8n", "plain"} <= {row["quelle"] for row in rows}


def archive_of(path: Path, **content: bytes) -> Path:
    names = {"database": "kontobahn.sqlite3", "key": "secret.key"}
    files = {names[name]: data for name, data in content.items()}
    sums = ",".join(f'"{name}":"{hashlib.sha256(data).hexdigest()}"' for name, data in files.items())
    manifest = f'{{"version":"1","engine":"sqlite","made_at":"2026-01-01T00:00:00Z","sha256":{{{sums}}}}}'
    with tarfile.open(path, "w:gz") as tar:
        for name, data in {"manifest.json": manifest.encode(), **files}.items():
            member = tarfile.TarInfo(name)
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))
    return path


def test_an_archive_without_a_database_replaces_nothing(tmp_path: Path) -> None:
    data, other = tmp_path / "data", tmp_path / "other.sqlite3"
    kontobahn("migrate", data=data)
    with sqlite3.connect(other) as connection:
        connection.execute("CREATE TABLE something (else_ TEXT)")
    connection.close()
    before = {path.name: path.read_bytes() for path in data.iterdir()}
    for content in ({"key": b"x" * 44}, {"database": b""}, {"database": other.read_bytes()}, {"database": b"x" * 5000}):
        file = archive_of(tmp_path / "archive.tar.gz", **content)
        refused = kontobahn("restore", str(file), "--force", data=data, expect=1)
        assert len(refused.stderr.strip().splitlines()) == 1
        assert {path.name: path.read_bytes() for path in data.iterdir()} == before


def test_the_password_of_the_database_is_on_no_command_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tools = tmp_path / "tools"
    tools.mkdir()
    tool = tools / "pg_dump"
    tool.write_text(f'#!/bin/sh\necho "$@" > {tmp_path}/seen\necho "$PGPASSWORD" > {tmp_path}/password\nexit 1\n')
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tools}:{os.environ['PATH']}")
    url = "postgresql://kb:ge%3Aheim@127.0.0.1:1/books?application_name=kb"
    (tmp_path / "data").mkdir()
    refused = kontobahn("backup", str(tmp_path / "b.tar.gz"), data=tmp_path / "data", expect=1, database_url=url)
    assert "pg_dump failed" in refused.stderr
    seen = (tmp_path / "seen").read_text()
    assert "heim" not in seen
    assert "host=127.0.0.1" in seen
    assert (tmp_path / "password").read_text().strip() == "ge:heim"


def test_a_key_is_made_for_a_user(tmp_path: Path) -> None:
    place_demo(tmp_path)
    owner = "Demo Handels GmbH"
    (user, *_) = answer("users", "list", "-o", owner, data=tmp_path)
    made = answer("keys", "create", "--name", "n8n", "--user", user["email"].upper(), "-o", owner, data=tmp_path)
    with sqlite3.connect(tmp_path / "kontobahn.sqlite3") as connection:
        stored = connection.execute("SELECT created_by FROM api_keys WHERE id = ?", [made["key_id"]]).fetchone()
    connection.close()
    assert stored == (user["user_id"],)
    refused = kontobahn("keys", "create", "--name", "x", "--user", "a@b.de", "-o", owner, data=tmp_path, expect=1)
    assert "has no user a@b.de" in refused.stderr
