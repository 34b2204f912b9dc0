"""Details of the audit log are in the words of its readers: labels, roles and people, not the names of fields."""

from __future__ import annotations

import ast
from pathlib import Path

import msgspec
import pytest

import kontobahn
from kontobahn.access.audit import AuditEntry
from kontobahn.api.pages import Language
from kontobahn.dashboard import words
from kontobahn.dashboard.pages import audit_log
from kontobahn.dashboard.pages.audit_log import details_line
from kontobahn.mobility.seller import Seller
from tests.tidy_rules import parse, walk


@pytest.mark.parametrize(
    ("language", "line"),
    [
        ("de", "Person: Erika, Rolle: Verwaltung, vorher: nur lesen, Verlangt: ja, Beschränkt auf: a, b"),
        ("en", "Person: Erika, Role: administration, before: read only, Required: yes, Restricted to: a, b"),
    ],
)
def test_details_are_in_words(language: Language, line: str) -> None:
    details = {
        "user_id": "7", "role": "admin", "old": "read_only", "required": True, "scopes": ["a", "b"], "note": None, "clients": [],
    }  # fmt: skip
    entry = AuditEntry(
        "1", "2", 0, "user:7", "user.change_role", "7", msgspec.json.encode(details).decode(), None, None
    )
    words.speak(language)
    try:
        assert details_line(entry, {"user:7": "Erika"}) == line
    finally:
        words.speak(words.DEFAULT)


@pytest.mark.parametrize(
    ("details", "line"),
    [
        ({"booked_by": "adviser", "bic": "MUSBDEZZXXX"}, "Wer bucht: Steuerkanzlei, BIC: MUSBDEZZXXX"),
        ({"book_on": "acceptance", "was": "gone"}, "Gebucht bei: Annahme"),
    ],
)
def test_choices_are_said_in_the_readers_language(details: dict[str, str], line: str) -> None:
    entry = AuditEntry("1", "2", 0, "user:7", "any", "7", msgspec.json.encode(details).decode(), None, None)
    assert details_line(entry, {}) == line


def test_amounts_and_ibans_are_written_as_on_the_pages_and_ids_are_left_out() -> None:
    details = {
        "amount": "1145.29",
        "account": "1000000000001",
        "iban": "DE75512108001245126199",
        "connection_id": "01a1",
        "two_people_above": 500_000,
    }
    entry = AuditEntry(
        "1", "2", 0, "user:7", "payables.settings", "7", msgspec.json.encode(details).decode(), None, None
    )
    words.speak("de")
    try:
        line = details_line(entry, {"account:1000000000001": "Geschäftskonto"})
    finally:
        words.speak(words.DEFAULT)
    assert line.replace("\xa0", " ") == (
        "Betrag: 1.145,29 €, Konto: Geschäftskonto, IBAN: DE75 5121 0800 1245 1261 99, Zwei Personen ab: 5.000,00 €"
    )


def test_every_detail_that_is_recorded_has_its_words() -> None:
    calls = [
        node
        for path in Path(kontobahn.__file__).parent.rglob("*.py")
        for node in walk(parse(path.read_text("utf-8")))
        if isinstance(node, ast.Call) and ast.unparse(node.func) in ("audit.record", "receiver.record", "_record")
    ]
    names = {keyword.arg for call in calls for keyword in call.keywords if keyword.arg}
    assert len(names) > 40
    # Recorded by their names, whichever have changed.
    names |= {*Seller.__struct_fields__, "payment_limit", "daily_limit"}
    assert names <= audit_log.DETAILS.keys() | audit_log.LEFT_OUT
