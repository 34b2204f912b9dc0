"""No text of another makes a regular expression try again and again."""

from __future__ import annotations

import pytest

from tests.pattern_rules import faults, patterns

# Patterns that only a call makes, and of what.
MADE_LATER = {
    "kontobahn.api.docs_view": "two words of our own samples",
    "kontobahn.api.schemas": "patterns of our own schema",
    "kontobahn.api.wire": "`form` itself: its calls are judged",
    "kontobahn.dashboard.figures": "a mark between groups of three digits",
    "kontobahn.db.migrate": "words of our own SQL",
    "kontobahn.bank_providers.enable_banking.rules": "a form of descriptions that a bank publishes, at most 200 characters",
    "kontobahn.bank_providers.ebics.rules": "one of our own labels, and an id of at most 35 characters",
    "kontobahn.formats.mt940.entry": "a separator and two digits",
    "kontobahn.formats.statements.source": "a namespace, letter by letter",
}


def test_no_pattern_has_several_unbounded_holes() -> None:
    found = list(patterns())
    assert len(found) > 100
    judged = {place: (pattern, faults(pattern)) for place, pattern in found if pattern is not None}
    assert {place: fault for place, fault in judged.items() if fault[1]} == {}
    assert {place.partition(":")[0] for place, pattern in found if pattern is None} == set(MADE_LATER)


@pytest.mark.parametrize(
    "pattern",
    [
        r"(.+?) of (.+?)\.",
        r"(a+)+$",
        r"(\w*\s?)*x",
        r".*;.*;",
        r"[0-9 ]*([0-9][ ]*)*$",
        r"(a|b+)*c+b",
        r"x{0,5000}x{0,5000}y",
    ],
)
def test_holes_that_may_end_anywhere_are_found(pattern: str) -> None:
    assert faults(pattern) is not None


@pytest.mark.parametrize("pattern", [r"[^;]*;[^;]*;", r"([a-z]+\.)+[0-9]+$", r"^(.*)$", r"\s*=\s*(\S+)", r"(?>a*)a*+b"])
def test_holes_that_end_at_one_place_are_not(pattern: str) -> None:
    assert faults(pattern) is None
