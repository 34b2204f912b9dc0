"""Account numbers: the client's own and the technical ones."""

from __future__ import annotations

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from kontobahn.ledger.konto import functional, is_debitor, is_personenkonto, readable, readings, technical


@pytest.mark.parametrize(
    ("nummer", "laenge", "expected"),
    [
        ("8400", 4, "84000000"), ("1000", 4, "10000000"), ("0027", 4, "00270000"), ("10010", 4, "100100000"),
        ("70001", 4, "700010000"), ("84000000", 4, "84000000"), ("100100000", 4, "100100000"), ("84001", 5, "84001000"),
        ("100101", 5, "100101000"), ("8400012", 7, "84000120"), ("10010012", 7, "100100120"), ("84000123", 8, "84000123"),
        ("100100123", 8, "100100123"),
    ],
)  # fmt: skip
def test_a_number_of_the_client_s_length_is_filled_up(nummer: str, laenge: int, expected: str) -> None:
    assert technical(nummer, laenge) == expected


@pytest.mark.parametrize(
    ("nummer", "laenge"),
    [
        ("", 4), ("840", 4), ("840000", 4), ("8400000", 4), ("8400000000", 4), ("8400", 5), ("8400", 8), ("84O0", 4),
        ("84 00", 4), ("-8400", 4), ("８４００", 4), ("²400", 4), ("01001", 4), ("010010000", 4), ("0000", 4), ("00000000", 4),
        # In full, but with digits that the client's own numbers do not have.
        ("84001234", 4), ("84000001", 4), ("100100001", 4), ("84001200", 5), ("100101100", 5), ("100100123", 7),
    ],
)  # fmt: skip
def test_what_is_no_number_of_the_client_is_refused(nummer: str, laenge: int) -> None:
    with pytest.raises(ValueError, match="must"):
        technical(nummer, laenge)


@given(laenge=st.integers(4, 8), person=st.booleans(), number=st.integers(0, 10**9 - 1))
def test_there_and_back_is_the_same_number(laenge: int, person: bool, number: int) -> None:
    digits = laenge + person
    nummer = str(number).zfill(digits)[-digits:]
    if person and nummer[0] == "0":
        nummer = "1" + nummer[1:]
    assume(nummer.strip("0"))
    konto = technical(nummer, laenge)
    assert is_personenkonto(konto) == person
    assert len(konto) == 8 + person
    assert functional(konto, laenge) == nummer
    if laenge != 7 or person:
        # With seven digits a ledger account in full is as long as a person account of the client.
        assert technical(konto, laenge) == konto


def test_debtors_start_with_one_to_six() -> None:
    assert [is_debitor(f"{digit}00000000") for digit in range(1, 10)] == [True] * 6 + [False] * 3


@pytest.mark.parametrize(
    ("nummer", "laenge", "expected"),
    [
        ("8400", 4, ["84000000"]), ("84000000", 4, ["84000000"]), ("10010", 4, ["100100000"]),
        # Of seven digits: in full, or one of the client's person accounts.
        ("84000000", 7, ["84000000", "840000000"]), ("84000001", 7, ["840000010"]), ("8400000", 7, ["84000000"]),
        ("84000000", 8, ["84000000"]), ("100100000", 7, ["100100000"]),
    ],
)  # fmt: skip
def test_a_number_may_mean_two_accounts_if_the_client_s_have_seven_digits(
    nummer: str, laenge: int, expected: list[str]
) -> None:
    assert readings(nummer, laenge) == expected


def test_a_number_is_shown_as_the_client_writes_it_unless_it_would_lose_a_digit() -> None:
    assert [readable(konto, 4) for konto in ("84000000", "84000001", "100100000")] == ["8400", "84000001", "10010"]
