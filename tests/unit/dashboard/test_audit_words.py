"""Details of the audit log are in the words of its readers: labels, roles and people, not the names of fields."""

from __future__ import annotations

import msgspec
import pytest

from kontobahn.access.audit import AuditEntry
from kontobahn.api.pages import Language
from kontobahn.dashboard import words
from kontobahn.dashboard.pages.audit_log import details_line


@pytest.mark.parametrize(
    ("language", "line"),
    [
        ("de", "Person: Erika, Rolle: Verwaltung, vorher: nur lesen, required: ja, Beschränkt auf: a, b"),
        ("en", "Person: Erika, Role: administration, before: read only, required: yes, Restricted to: a, b"),
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
