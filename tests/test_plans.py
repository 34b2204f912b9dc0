"""The judgement of plans (`tests/plans.py`) sees what it is there to see, on both engines; conftest has it made of every statement."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from kontobahn.access.organizations import all_organizations
from kontobahn.clock import SystemClock
from kontobahn.db import open_database
from kontobahn.db.migrate import migrate
from kontobahn.settings import load
from tests import plans
from tests.harness import Service
from tests.plan_excuses import EXCUSED, FEW_OF_AN_ORGANISATION, NEVER_LARGE
from tests.tidy_rules import ROOT

SOURCE = ROOT / "src" / "kontobahn"
BOOKINGS = "SELECT id FROM books_bookings WHERE mandant = ?"
READS_A_HISTORY = [
    "SELECT id FROM books_bookings",
    f"{BOOKINGS} AND kost1 = ?",
    f"{BOOKINGS} AND kost1 = ? LIMIT 1",
    f"{BOOKINGS} AND jahr = ? AND konto = ?",
    f"{BOOKINGS} ORDER BY kost1 LIMIT ?",
    "UPDATE banking_payments SET status = ? WHERE organization_id = ? AND reference = ?",
    # A receipt, while reversals were not found by an index.
    "SELECT 1 FROM books_cash_entries e WHERE e.mandant = ? AND e.task = ? AND NOT EXISTS (SELECT 1 FROM books_cash_entries s"
    " WHERE s.mandant = e.mandant AND s.kassenname = e.kassenname AND s.record = e.record)",
    "SELECT id FROM users",
]
READS_WHAT_IT_ANSWERS = [
    f"{BOOKINGS} AND id = ?",
    f"{BOOKINGS} AND belegdatum >= ? AND belegdatum <= ?",
    f"{BOOKINGS} AND id > ? ORDER BY id LIMIT ?",
    "SELECT MAX(id) FROM books_bookings WHERE mandant = ?",
    "SELECT id FROM books_batches WHERE mandant = ? AND sha256 = ?",
    "SELECT id FROM recon_matches WHERE organization_id = ? AND transaction_id = ? AND undo_id IS NOT NULL",
    "SELECT email FROM users WHERE organization_id = ?",
    "SELECT id FROM banking_order_files WHERE organization_id = ? ORDER BY created_at DESC, id DESC LIMIT ?",
    "SELECT id FROM recon_transactions WHERE organization_id = ? AND account_id = ? ORDER BY id LIMIT ?",
    "SELECT id FROM recon_matches WHERE organization_id = ? AND account_id = ? ORDER BY id LIMIT ?",
    "SELECT e.id FROM webhook_deliveries d JOIN webhook_events e ON e.organization_id = d.organization_id AND e.sequence = d.sequence"
    " WHERE d.organization_id = ? AND d.receiver_id = ? ORDER BY d.sequence DESC LIMIT ?",
    "INSERT INTO counters (name, value) VALUES (?, ?)",
]


@pytest.mark.parametrize("sql", READS_A_HISTORY)
def test_a_statement_that_reads_a_history_is_refused(engine: str, sql: str) -> None:
    assert plans.refused(sql, plans.planner(engine)) != []


@pytest.mark.parametrize("sql", READS_WHAT_IT_ANSWERS)
def test_a_statement_that_reads_what_it_answers_is_not(engine: str, sql: str) -> None:
    assert plans.refused(sql, plans.planner(engine)) == []


@pytest.fixture
def judged(tmp_path: Path) -> Iterator[plans.Judged]:
    with closing(plans.Judged(tmp_path / "judged")) as judged:
        yield judged


def test_a_statement_is_judged_once_for_all_processes_unless_it_is_refused(
    tmp_path: Path, judged: plans.Judged, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    def refused(sql: str, _planner: plans.Planner) -> list[str]:
        asked.append(sql)
        return ["users is scanned"] if sql == READS_A_HISTORY[-1] else []

    monkeypatch.setattr(plans, "refused", refused)
    with closing(plans.Judged(tmp_path / "judged")) as of_another:
        for watch in (plans.Watch(judged), plans.Watch(of_another)):
            watch._waiting = [("sqlite", "a.py:a", READS_WHAT_IT_ANSWERS[0]), ("sqlite", "a.py:a", READS_A_HISTORY[-1])]
            assert len(watch.complaints()) == 1
    assert asked == [READS_WHAT_IT_ANSWERS[0], READS_A_HISTORY[-1], READS_A_HISTORY[-1]]


@pytest.mark.alone
def test_what_the_service_asks_is_seen_wherever_it_asks_it(
    engine: str, service: Service, monkeypatch: pytest.MonkeyPatch, judged: plans.Judged
) -> None:
    """Watched by a new one, which has met nothing yet and excuses nothing."""
    watch = plans.Watch(judged)
    watch.install(monkeypatch)
    monkeypatch.setattr(plans, "EXCUSED", {})
    service.db.read_now(all_organizations)
    [complaint] = watch.complaints()
    assert complaint.startswith(f"access/organizations.py:all_organizations on {engine}: organizations is scanned")
    service.db.read_now(lambda tx: tx.all("SELECT id FROM organizations"))
    assert watch.complaints() == [], "what a test asks by itself"


def test_excuses_are_of_what_there_is() -> None:
    tables = plans.planner("sqlite").schema.columns.keys()
    assert FEW_OF_AN_ORGANISATION | NEVER_LARGE.keys() <= tables
    for name in EXCUSED:
        place, _, function = name.partition(":")
        assert (SOURCE / place).exists(), name
        assert not function or re.search(rf"def {function}\b", (SOURCE / place).read_text("utf-8")), name


def test_sqlite_plans_for_large_tables_from_the_first_start_on(tmp_path: Path) -> None:
    """Also by connections that were open before there was a table."""
    db = open_database(load({}, data=str(tmp_path)), SystemClock())
    migrate(db)
    plan = "EXPLAIN QUERY PLAN SELECT 1 FROM books_batches WHERE mandant = ? AND sha256 = ?"
    for ask in (db.read_now, db.write_now):
        assert "books_batches_by_sha256" in str(ask(lambda tx: tx.all(plan, 1, "")))
    # Counted by hand, it would forget again; the next start tells it anew.
    db.write_now(lambda tx: tx.run("ANALYZE"))
    migrate(db)
    assert "books_batches_by_sha256" in str(db.read_now(lambda tx: tx.all(plan, 1, "")))
    db.close()
