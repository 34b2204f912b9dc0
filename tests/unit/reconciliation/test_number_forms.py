"""The edges of finding a number: how long, how torn, beside what; which place of it counts; and the forms that only suggest one."""

from __future__ import annotations

import pytest

from kontobahn.reconciliation.core.model import Key, OpenItem
from kontobahn.reconciliation.core.numbers import Hit, NumberIndex, cut
from tests.unit.reconciliation.client import ANNA, DAY, LIEFERANT, match, movement

SHAPED = ("RE-2026-00123", "RE-2026-00145", "RE-2026-00987")


def index(*numbers: str) -> NumberIndex:
    return NumberIndex([OpenItem(ANNA.konto, number, DAY, 100) for number in numbers])


def found(text: str, *numbers: str) -> list[tuple[str, str]]:
    """The numbers that are found, and how each differs from how we write it."""
    return [(key[1], hit.weak) for hit in index(*numbers).find([cut("svwz", text)]) for key in hit.keys]


def suggested(text: str, *numbers: str) -> list[tuple[str, str]]:
    return [(key[1], hit.weak) for hit in index(*numbers).find_weak([cut("svwz", text)]) for key in hit.keys]


def only(text: str, number: str, *others: str) -> Hit:
    [hit] = index(number, *others).find([cut("svwz", text)])
    return hit


# --- What is looked for


@pytest.mark.parametrize(
    ("number", "text", "is_found"),
    [
        ("1" * 36, "1" * 36, True),
        ("1" * 37, "1" * 37, False),
        ("AB" + "1" * 34, "AB " + "1" * 34, True),
        ("A1B2C3D4", "A1B2C3D4", True),
        ("A1B2C3D4E", "A1B2C3D4E", False),
        ("RE-123", "RE - 123", True),
        ("RE-123", "RE  - 123", False),
        ("000", "000", False),
        ("ABC", "ABC", False),
        ("00123", "0 0123", True),
        ("00123", "Nr 0 0123 77.", True),
        ("R-00-5", "R 00 5", True),
        ("R000123", "R00 0123", True),
        ("0-0123", "00123", True),
        ("12-0034", "120034", True),
        ("12-0034", "1234", False),
    ],
)
def test_length_pieces_gaps_and_leading_zeros(number: str, text: str, is_found: bool) -> None:
    assert found(text, number) == [(number, "")] * is_found


def test_a_number_may_be_torn_in_one_place() -> None:
    assert found("RE-2026-0 0123", "RE-2026-00123") == [("RE-2026-00123", "")]
    assert found("RE-2026-0 0 123", "RE-2026-00123") == [("RE-2026-00123", "torn")]


def test_where_numbers_overlap_the_longest_counts_then_the_first() -> None:
    assert found("A 1 22 333", "A-1", "1-22-333") == [("1-22-333", "")]
    assert found("11 22 33", "11-22", "22-33") == [("11-22", "beside digits")]
    assert found("11 22 33 44", "11-22", "33-44") == [("11-22", ""), ("33-44", "")]


@pytest.mark.parametrize(
    ("text", "weak"),
    [
        ("4711", ""),
        ("4711-22", "beside digits"),
        ("22-4711", "beside digits"),
        ("22 4711", "beside digits"),
        ("4711 222", "beside digits"),
        ("4711  222", ""),
        ("222  4711", ""),
        ("4711 22", ""),
        ("4711,222", ""),
        ("4711;222", ""),
        ("4711/222", "beside digits"),
        ("4711 AB 222", ""),
        ("EUR 1190 4711", ""),
        ("4711 EUR 1190", ""),
        ("4711-4712", ""),
    ],
)
def test_digits_beside_a_number_that_nothing_explains_make_it_weak(text: str, weak: str) -> None:
    assert found(text, "4711", "4712")[0] == ("4711", weak)


def test_two_digits_after_a_blank_explain_themselves_only_beside_a_longer_number() -> None:
    assert found("471 22", "471") == [("471", "")]
    assert found("471 222", "471") == [("471", "beside digits")]
    assert found("47 22", "47") == [("47", "beside digits")]


def test_the_better_of_two_places_counts_and_of_equals_the_first() -> None:
    for text, start, has_word in (
        ("4711, 4711", 0, False),
        ("4711, Rechnung 4711", 15, True),
        ("Rechnung 4711, 4711", 9, True),
        ("4711-22, 4711", 9, False),
        ("4711, 4711-22", 0, False),
        ("4711, Rechnung 4711-22", 0, False),
        ("Rechnung 4711-22, 4711", 18, False),
    ):
        hit = only(text, "4711")
        assert (hit.start, hit.has_word, hit.weak) == (start, has_word, ""), text
    [hit] = index("4711").find([cut("svwz", "x"), cut("eref", "4711"), cut("kref", "4711")])
    assert (hit.field, hit.found) == ("eref", "4711")


# --- What a number weighs


def bits(*numbers: str) -> list[float]:
    weighed = index(*numbers)
    return [round(weighed.bits((ANNA.konto, number)), 1) for number in numbers]


def test_a_place_varies_if_two_of_the_numbers_differ_in_it() -> None:
    assert bits("12100123", "13100145", "12100987") == [13.2] * 3
    assert bits("A-100B", "A-101B", "A-102B") == [9.9] * 3, "the running number may have letters after it"
    assert bits("R-007", "R-008", "R-009") == [3.3] * 3, "zeros that lead it do not count"


def test_numbers_of_customers_and_of_suppliers_are_weighed_apart() -> None:
    ours = [OpenItem(ANNA.konto, number, DAY, 100) for number in ("2026101", "2026102", "2026103")]
    theirs = OpenItem(LIEFERANT.konto, "9875555", DAY, 100)
    assert [round(NumberIndex([*ours, theirs]).bits(it.key), 1) for it in (*ours, theirs)] == [9.9, 9.9, 9.9, 19.8]
    unknown = theirs._replace(konto="K-1", has_account=False)
    assert round(NumberIndex([*ours, unknown]).bits(ours[0].key), 1) == 23.1, "a customer without an account is one"


@pytest.mark.parametrize(
    ("numbers", "shaped"),
    [
        (("RE-26-123", "RE-26-145", "RE-26-987"), True),
        (("R-26-123", "R-26-145", "R-26-987"), False),
        (("R-2600-123", "R-2600-145", "R-2600-987"), False),
    ],
)
def test_four_characters_that_all_numbers_share_are_as_good_as_a_word(numbers: tuple[str, ...], shaped: bool) -> None:
    assert only(f"x {numbers[0]}", *numbers).has_word == shaped


# --- Forms that suggest a number


@pytest.mark.parametrize(
    ("text", "suggests"),
    [
        ("Nr. 123 danke", [("RE-2026-00123", "end")]),
        ("Nr. 00123", [("RE-2026-00123", "end")]),
        ("1 23", []),
        ("Kd-Nr. 123", []),
        ("RE-2O26-OO123", [("RE-2026-00123", "alike"), ("RE-2026-00123", "end")]),
        ("RE-2O26-OO124", []),
        ("RE-2026-00124", [("RE-2026-00123", "edit"), ("RE-2026-00145", "edit")]),
        ("RE-2026-0123", [("RE-2026-00123", "edit"), ("RE-2026-00123", "end")]),
        ("RE-2026-000123", [("RE-2026-00123", "edit"), ("RE-2026-00123", "end")]),
        ("RE-2026-00199", []),
        ("OOPS-SOSO", []),
    ],
)
def test_the_end_letters_for_digits_and_one_edit(text: str, suggests: list[tuple[str, str]]) -> None:
    assert suggested(text, *SHAPED) == suggests


def test_what_is_short_suggests_nothing() -> None:
    assert suggested("471", "471") == [], "a number of one piece has no end"
    assert suggested("4711", "R-4711") == [("R-4711", "end")]
    assert suggested("12", "RE-2026-00012") == []
    assert suggested("ABCDEF", "ABCDEF1") == [], "letters alone are no number"
    assert suggested("482134", "482133") == [("482133", "edit")]
    assert suggested("482134", "48213") == suggested("48213", "482133") == []
    assert suggested("4B21", "4821") == []
    assert suggested("4B2133", "482133") == [("482133", "alike"), ("482133", "edit")]
    assert suggested("ABC", "4711-ABC") == []


def test_what_is_paid_is_not_suggested() -> None:
    paid = OpenItem(ANNA.konto, "RE-2026-00123", DAY, 0)
    assert NumberIndex([paid]).find([cut("svwz", "RE-2026-00123")])
    assert not [it for it in match(movement("Nr. 123, RE-2026-00132"), paid) if it.keys]


@pytest.mark.parametrize(("count", "says"), [(20, True), (21, False)])
def test_what_more_than_twenty_documents_have_in_common_suggests_none(count: int, says: bool) -> None:
    same_end = index(*(f"R{n}-4711" for n in range(10, 10 + count)))
    near = index(*(f"48213{chr(65 + n)}" for n in range(count)))
    assert [len(hit.keys) for hit in same_end.find_weak([cut("svwz", "4711")])] == [20] * says
    assert [len(hit.keys) for hit in near.find_weak([cut("svwz", "482133")])] == [20] * says


def test_a_document_is_suggested_once_however_alike_it_is() -> None:
    keys: list[tuple[Key, ...]] = [hit.keys for hit in index("48213375").find_weak([cut("svwz", "48213375")])]
    assert keys == [((ANNA.konto, "48213375"),)]
