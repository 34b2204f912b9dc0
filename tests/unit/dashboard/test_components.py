"""Texts break where they have parts, and amounts nowhere."""

from __future__ import annotations

import re

import pytest

from kontobahn.dashboard import words
from kontobahn.dashboard.components import breakable, money_in_text, static_file, unbroken


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("POST /v2/payables/{id}/release", ["POST /v2", "/payables", "/{id}", "/release"]),
        ("https://pay.example/events", ["https://pay.example", "/events"]),
        ("transaction:1000000000182", ["transaction:", "1000000000182"]),
        ("Kontoauszug_Musterbank.pdf", ["Kontoauszug_", "Musterbank.pdf"]),
        ("rechnung@grosshandel.example", ["rechnung@", "grosshandel", ".example"]),
        ("a<b/c", ["a&lt;b", "/c"]),
        (None, [""]),
    ],
)
def test_a_text_breaks_between_its_parts(text: str | None, parts: list[str]) -> None:
    assert breakable(text).split("<wbr>") == parts


def test_an_iban_and_a_number_stay_in_one_line_each() -> None:
    text = unbroken("RE-2026-0138 von DE02 1203 0000 0000 2020 51")
    assert re.findall(r'<span class="(\w+)">([^<]+)<', text) == [
        ("whole", "RE-2026-0138"),
        ("iban", "DE02 1203 0000 0000 2020 51"),
    ]


@pytest.mark.parametrize(("language", "is_wrapped"), [("en", True), ("de", False)])
def test_an_amount_in_a_sentence_does_not_break_after_its_minus(language: str, is_wrapped: bool) -> None:
    words.speak("en" if language == "en" else "de")
    assert (str(money_in_text(-14875)).count("<span"), str(money_in_text(14875)).count("<span")) == (int(is_wrapped), 0)
    words.speak("en")


def test_style_sheets_are_sent_without_what_only_readers_need() -> None:
    sheet = static_file("dashboard.css")
    assert sheet is not None
    assert not re.search(rb";\}|[: ,(]0\.\d|/\*", sheet.body)
