"""Cutting a text: words for invoice, stretches that are something else, and letters that grow in capitals."""

from __future__ import annotations

import pytest

from kontobahn.reconciliation.core.numbers import cut, has_invoice_word, is_blocked


@pytest.mark.parametrize(
    ("text", "has_word"), [("Re 4711", True), ("Zu RG-NR.: 4711", True), ("More 4711", False), ("Re xyz 4711", False)]
)
def test_a_word_for_invoice_stands_right_before_the_number(text: str, has_word: bool) -> None:
    assert has_invoice_word(cut("svwz", text), text.index("4711")) == has_word


@pytest.mark.parametrize(
    ("text", "number", "kind"),
    [
        ("04.05.2026-7", "04.05.2026-7", None),  # a date that the number begins with
        ("RE 04.05.2026", "RE 04.05.2026", None),  # or ends with
        ("RE 04.05.2026", "04.05.2026", "date"),
        ("am 04.05.2026", "2026", "date"),
        ("am 04.05.2026", "04", "date"),
        ("4711€ 50", "4711", None),
        ("50.00€4711", "4711", None),
        ("Kd-Nr. 10001", "10001", "customer"),
    ],
)
def test_a_number_within_a_stretch_is_blocked_and_beside_it_is_not(text: str, number: str, kind: str | None) -> None:
    start = text.rindex(number) if number != "04" else text.index(number)
    assert is_blocked(cut("svwz", text), start, start + len(number)) == kind


def test_places_stay_where_letters_would_grow_in_capitals() -> None:
    """`ŉ` is two letters in capitals."""
    text = cut("svwz", "ŉ kd-nr. 10001 re 4711")
    assert [(block.kind, text.text[block.start : block.end], block.value) for block in text.blocks] == [
        ("customer", "kd-nr. 10001", "10001")
    ]
    assert has_invoice_word(text, text.text.index("4711"))
    assert has_invoice_word(cut("svwz", "ŉ re 4711"), 5)
