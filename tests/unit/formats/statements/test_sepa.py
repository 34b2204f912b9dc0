"""Texts and amounts that SEPA carries: characters, lengths, slashes, amounts, IBANs; refused by the field's name, never cut."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kontobahn.errors import BadRequest
from kontobahn.formats.pain import sepa
from tests.statement_builder import IBAN

ALLOWED = re.compile(r"[A-Za-z0-9/\-?:().,'+ ]*")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Müller & Söhne", "Mueller + Soehne"),
        ("ÄÖÜäöüßẞ", "AeOeUeaeoeuessSS"),
        ("a\u0308", "ae"),
        ("Café Žižkov Łódź Ærø", "Cafe Zizkov Lodz AEro"),
        ("„Zitat“ – 5 €", "'Zitat' - 5 EUR"),
        ("a_b\u00a0c", "a-b c"),
        ("A/B-C?D:E(F)G.H,I'J+K 9", "A/B-C?D:E(F)G.H,I'J+K 9"),
    ],
)
def test_letters_are_written_in_sepas_characters(text: str, expected: str) -> None:
    assert sepa.to_sepa(text) == expected


@pytest.mark.parametrize("text", ["😀", "Москва", "日本", "50 %", "#1", "a\x00b", "*", "a\x1bb"])
def test_what_has_no_substitute_is_refused(text: str) -> None:
    with pytest.raises(BadRequest, match=r"description contains .* \(U\+[0-9A-F]{4,5}\), which SEPA does not carry"):
        sepa.check_text("description", text, 140)


@given(st.text(max_size=50))
def test_a_text_is_sent_in_sepas_characters_or_not_at_all(text: str) -> None:
    try:
        sent = sepa.check_text("name", text, 70)
    except BadRequest as error:
        assert str(error).startswith("name ")  # noqa: PT017
    else:
        assert ALLOWED.fullmatch(sent)
        assert 1 <= len(sent) <= 70
        assert sent == sent.strip()


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("x" * 71, "name has 71 characters; at most 70 are allowed"),
        ("x" * 69 + "ü", "name has 71 characters as SEPA writes it"),
        ("", "name must not be empty"),
        ("  ", "name must not be empty"),
        ("/a", "slash"),
        ("a/", "slash"),
        ("a//b", "slash"),
    ],
)
def test_a_text_that_does_not_fit_is_refused_by_name(text: str, sentence: str) -> None:
    with pytest.raises(BadRequest, match=re.escape(sentence)):
        sepa.check_text("name", text, 70)


def test_a_text_of_the_full_length_fits() -> None:
    assert sepa.check_text("name", "x" * 70, 70) == "x" * 70
    assert sepa.check_text("name", " a ", 70) == "a"


@pytest.mark.parametrize("text", ["x" * 36, "ü", " x", "a//b", ""])
def test_an_id_is_sent_as_it_is_or_not_at_all(text: str) -> None:
    with pytest.raises(BadRequest, match="end_to_end_id"):
        sepa.check_id("end_to_end_id", text)
    assert sepa.check_id("end_to_end_id", "x" * 35) == "x" * 35


@pytest.mark.parametrize("cents", [0, -1, 100_000_000_000, 10**14])
def test_an_amount_out_of_bounds_is_refused(cents: int) -> None:
    with pytest.raises(BadRequest, match=r"amount must lie between 0\.01 and 999999999\.99"):
        sepa.check_amount("amount", cents)
    assert [sepa.check_amount("amount", bound) for bound in (1, 99_999_999_999)] == [1, 99_999_999_999]


@pytest.mark.parametrize(
    ("iban", "sentence"),
    [
        ("DE88370400440532013000", "creditor_iban is not a valid IBAN"),
        ("DE8937040044053201300", "creditor_iban is not a valid IBAN"),
        ("", "creditor_iban is not a valid IBAN"),
        ("BR1500000000000010932840814P2", "outside the SEPA area"),
    ],
)
def test_a_wrong_iban_is_refused(iban: str, sentence: str) -> None:
    with pytest.raises(BadRequest, match=sentence):
        sepa.check_iban("creditor_iban", iban)


def test_what_may_be_written_in_another_way_is_put_right() -> None:
    assert sepa.check_iban("iban", "de89 3704 0044 0532 0130 00") == IBAN
    assert sepa.check_bic("bic", "coba de ff xxx") == "COBADEFFXXX"


@pytest.mark.parametrize(
    ("check", "text"),
    [
        (sepa.check_bic, "COBA"),
        (sepa.check_bic, "1OBADEFF"),
        (sepa.check_country, "de"),
        (sepa.check_purpose_code, "SALAR"),
        (sepa.check_currency, "USD"),
    ],
)
def test_codes_are_checked(check: Callable[[str, str], str], text: str) -> None:
    with pytest.raises(BadRequest, match="field"):
        check("field", text)
