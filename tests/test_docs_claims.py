"""Sentences of the documentation that state a fact of the code, beside that fact."""

from __future__ import annotations

import re

from kontobahn.app import all_endpoints
from kontobahn.banking.connections.rules import TRANSITIONS, TRIGGERS
from kontobahn.db.sqlite import BUSY_TIMEOUT_MS
from tests.tidy_rules import ROOT


def page(name: str) -> str:
    return " ".join((ROOT / "docs" / name).read_text("utf-8").split())


def test_the_calls_that_answer_with_a_file_are_listed() -> None:
    match = re.search(r"These calls answer with a file: (.*?)\. -", page("spec/README.md"))
    assert match is not None
    listed = re.findall(r"`(GET [^`]+)`", match[1])
    assert sorted(listed) == sorted(endpoint.name for endpoint in all_endpoints() if endpoint.media_types)


def test_how_long_writes_wait_for_another_process_is_said() -> None:
    assert f"up to {BUSY_TIMEOUT_MS // 1000} seconds, then they answer 503" in page("operating.md")


def test_a_revoked_consent_does_what_the_states_say() -> None:
    assert "or the consent revoked | `disabled`" in page("spec/states.md")
    assert TRANSITIONS["active", TRIGGERS["AispConsentRevoked"]] == "disabled"
