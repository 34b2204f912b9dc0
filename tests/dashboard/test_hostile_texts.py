"""Whatever people, banks and files are called, no page runs it: every text of the demo is made hostile, and every page is visited."""

from __future__ import annotations

import json
import re
import sqlite3
from pathlib import Path
from typing import Any

import httpx

from tests.dashboard.browsing import COOKIE
from tests.dashboard.full_demo import reconcile
from tests.dashboard.walking import walk
from tests.journeys.process import serving
from tests.waiting import PATIENCE_SECONDS

HOSTILE = "<script>alert('x')</script>\"' onmouseover=x <img src=x>"
# Columns and keys of JSON that hold what somebody else wrote.
TEXTS = re.compile(
    r"name|bezeichnung|text|description|note|message|reason|holder|detail|purpose|subject_name|device|bemerkung|"
    r"zweck|firma|payer|street|strasse|ort|city|title|source|actor|quelle|info|reference|dateiname|display_name|provider_name"
)
EXEMPT = re.compile(
    r"user_?name_of|provider_name_code|source_id|creditor_reference_type|error_class|importe|import_ids"
)


def poison(path: Path) -> int:
    """Makes every text hostile. Returns how many rows it changed."""
    db = sqlite3.connect(path)
    db.create_function("poisoned", 2, _poisoned)
    changed = 0
    for (trigger,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall():
        db.execute(f'DROP TRIGGER "{trigger}"')
    tables = [name for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()]
    for table in tables:
        for _, column, kind, *_ in db.execute(f'PRAGMA table_info("{table}")').fetchall():
            if kind.upper() == "TEXT" and table != "schema_migrations":
                changed += _poison_column(db, table, column)
    db.commit()
    db.close()
    return changed


def _poison_column(db: sqlite3.Connection, table: str, column: str) -> int:
    # A name that must be unique stays as it was.
    return db.execute(
        f'UPDATE OR IGNORE "{table}" SET "{column}" = poisoned(?, "{column}") WHERE "{column}" IS NOT NULL', (column,)
    ).rowcount


def _poisoned(column: str, value: str) -> str:
    if value[:1] in "{[":
        try:
            return json.dumps(_in_json("", json.loads(value)), ensure_ascii=False)
        except json.JSONDecodeError:
            return value
    return HOSTILE if _is_text(column) and value else value


def _in_json(key: str, value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _in_json(name, item) for name, item in value.items()}
    if isinstance(value, list):
        return [_in_json(key, item) for item in value]
    return HOSTILE if isinstance(value, str) and value and _is_text(key) else value


def _is_text(name: str) -> bool:
    return bool(TEXTS.fullmatch(name.lower()) or TEXTS.search(name.lower())) and not EXEMPT.search(name.lower())


def test_no_page_runs_what_a_text_says(tmp_path: Path) -> None:
    with serving(tmp_path) as server:
        user = server.facts["user"]
        assert server.get("/v2/banking/connections?quelle=Kasse").status_code == 200  # for the list of requests
        reconcile(server)
        server.stop()
    assert poison(tmp_path / "kontobahn.sqlite3") > 500
    seen = []

    def look(answer: httpx.Response) -> None:
        if answer.headers.get("content-type", "").startswith("text/html"):
            assert "<script>alert" not in answer.text, answer.url
            assert "<img src=x" not in answer.text, answer.url
            # Within an attribute, a quotation mark would end it.
            assert "' onmouseover=x" not in answer.text, answer.url
            seen.append("&lt;script&gt;alert" in answer.text)

    with (
        serving(tmp_path, run_jobs="false") as server,
        httpx.Client(base_url=server.facts["base_url"], timeout=PATIENCE_SECONDS) as client,
    ):
        signed = client.post("/dashboard/sign-in", data=user, headers={"origin": server.facts["base_url"]})
        assert COOKIE in signed.cookies
        walk(client, look)
    # The texts did reach the pages.
    assert seen.count(True) >= 4
