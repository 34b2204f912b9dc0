"""No text of another makes a regular expression try again and again."""

from __future__ import annotations

import pytest

from tests.pattern_rules import faults, faults_of_search, patterns, searched

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


# Patterns that read a text anew from places inside a repeat, and why nobody waits for that.
LOOKED_FOR_ANYWAY = {
    r"-----BEGIN [A-Z ]{1,40}-----.+?-----END [A-Z ]{1,40}-----": "a key in the operator's settings",
    r"/\*.*?\*/": "style sheets of our own",
    r"\s*([{};,>]|(?<=[\w-]):(?= ))\s*": "style sheets of our own",
    r'(?:action|href)="([^"]*)"': "a page of our own",
    r"\n\s*\n": "catalogues of our own",
    r"\{(?:[1235S]:(?:[^{}]|\{[^{}]*\})*\}|4:)": "a brace that opens ends at the next one that does",
    r"\[.*?\]": "places of our own in an invoice",
    r"\[\{(.+?)\}\]": "places of our own in an invoice",
    r"\b(kb_(?:live|sess|inv|reset|chl)_[0-9A-Za-z]{4})[0-9A-Za-z]+|\b(whsec_)[0-9A-Za-z+/=]+|(://[^:/@\s]+:)[^@\s]+@": (
        "a value in a line of the log, cut beforehand"
    ),
    r"trailer\n<<(.*)>>\nstartxref\n(\d{1,20})\n%%EOF\s{0,10}$": "a PDF of our own",
    r"""\sxmlns(?::([^\s=]+))?\s*=\s*(?:"([^"]*)"|'([^']*)')""": "each value ends at the next quotation mark",
    r"""\s([^\s=]+)\s*=\s*(?:"([^"]*)"|'([^']*)')""": "each value ends at the next quotation mark",
}


def test_no_pattern_reads_a_text_anew_from_each_of_its_places() -> None:
    found = dict(searched())
    assert len(found) > 30
    again = {place: str_of(pattern) for place, pattern in found.items() if faults_of_search(pattern)}
    assert {place: pattern for place, pattern in again.items() if pattern not in LOOKED_FOR_ANYWAY} == {}
    assert set(again.values()) == set(LOOKED_FOR_ANYWAY)


def str_of(pattern: str | bytes) -> str:
    return pattern if isinstance(pattern, str) else pattern.decode()


@pytest.mark.parametrize("pattern", [rb"(?:^|[\r\n])\s*:20:", r"\d[\d.]*,", r" +x", r"\[.*?\]", r"\s*=\s*(\S+)"])
def test_repeats_that_a_match_may_begin_inside_of_are_found(pattern: str | bytes) -> None:
    assert faults_of_search(pattern) is not None


@pytest.mark.parametrize("pattern", [rb"(?:^|[\r\n])[ \t]*:20:", r'"[ ]*:', r"^\s*=", r"(?<![\s])\s+x", r"\w+"])
def test_repeats_that_a_match_cannot_begin_inside_of_are_not(pattern: str | bytes) -> None:
    assert faults_of_search(pattern) is None
