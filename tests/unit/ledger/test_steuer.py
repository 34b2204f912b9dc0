"""Tax keys and automatic accounts: what each stands for on a day, the key that takes one back, and where its tax is booked."""

from __future__ import annotations

import pytest

from kontobahn.ledger.kontierung import (
    GROSS,
    PLAIN,
    KontierungError,
    Parts,
    contra_accounts,
    full,
    key_beside_automatic,
    legs,
    parts_of,
    split,
    splits_onto,
    tax_in,
    tax_on,
)
from kontobahn.ledger.konto import KONTENRAHMEN
from kontobahn.ledger.steuer import (
    TAX_ACCOUNTS,
    Tax,
    automatic_taxes,
    era_of,
    key_for,
    tax_of_key,
    with_reversal,
    without_reversal,
)

SKR03 = KONTENRAHMEN["SKR03"]
BANK, ERLOESE, BUERO, MIETE = "12000000", "84000000", "49300000", "42100000"
DEBITOR, KREDITOR = "100100000", "700010000"
DAYS = ("2006-12-31", "2007-01-01", "2020-06-30", "2020-07-01", "2020-12-31", "2021-01-01")


@pytest.mark.parametrize(
    ("key", "rates"),
    [
        ("3", (None, 19, 19, 16, 16, 19)),
        ("9", (None, 19, 19, 16, 16, 19)),
        ("2", (None, 7, 7, 5, 5, 7)),
        ("8", (None, 7, 7, 5, 5, 7)),
        ("5", (None, 16, 16, 19, 19, 16)),
        ("7", (None, 16, 16, 19, 19, 16)),
        ("4", (None, None, None, 7, 7, 5)),
        ("6", (None, None, None, 7, 7, 5)),
        # No chart has accounts for such purchases at the lowered rates; the usual ones are then the other ones.
        ("19", (None, 19, 19, None, None, 19)),
        ("17", (None, None, None, 19, 19, None)),
        ("101", (None, 19, 19, None, None, 19)),
        ("1", (0, 0, 0, 0, 0, 0)),
        ("777", (None,) * 6),
    ],
)
def test_the_rate_of_a_key_changes_with_the_day(key: str, rates: tuple[int | None, ...]) -> None:
    found = [tax_of_key(key, era_of(day), "SKR03") for day in DAYS]
    assert [tax and tax.prozent for tax in found] == list(rates)
    assert tax_of_key("1", era_of(DAYS[-1]), "SKR03") == Tax("F", 0)


@pytest.mark.parametrize(
    ("day", "prozent", "income", "expense"),
    [
        ("2026-03-01", 19, "3", "9"),
        ("2026-03-01", 7, "2", "8"),
        ("2026-03-01", 16, "5", "7"),
        ("2026-03-01", 5, "4", "6"),
        ("2020-08-01", 16, "3", "9"),
        ("2020-08-01", 5, "2", "8"),
        ("2020-08-01", 19, "5", "7"),
        ("2020-08-01", 7, "4", "6"),
        ("2019-03-01", 5, None, None),
        ("2026-03-01", 13, None, None),
        ("2006-03-01", 19, None, None),
    ],
)
def test_a_rate_has_a_key_for_income_and_one_for_expenses(
    day: str, prozent: int, income: str | None, expense: str | None
) -> None:
    assert key_for(prozent, era_of(day), is_income=True) == income
    assert key_for(prozent, era_of(day), is_income=False) == expense


@pytest.mark.parametrize(
    ("key", "back"), [("9", "29"), ("3", "23"), ("", "20"), ("40", "80"), ("94", "34"), ("19", "69"), ("52", "72")]
)
def test_a_key_is_taken_back_by_another(key: str, back: str) -> None:
    assert with_reversal(key) == back
    assert without_reversal(back) == key


@pytest.mark.parametrize(("skr", "given", "taken"), [("SKR03", "873", "373"), ("SKR04", "473", "573")])
def test_discounts_have_an_account_for_each_rate(skr: str, given: str, taken: str) -> None:
    rahmen, known = KONTENRAHMEN[skr], automatic_taxes(skr, era_of("2026-03-01"))
    discounts = ((given, "U", rahmen.gewaehrte_skonti), (taken, "V", rahmen.erhaltene_skonti))
    for first, art, accounts in discounts:
        assert all(number.startswith(first) for number in accounts.values())
        assert {known[number] for number in accounts.values()} == {
            Tax("F", 0), *(Tax(art, rate) for rate in (5, 7, 16, 19)),
        }  # fmt: skip
        for rate, number in accounts.items():
            assert known[number] == (Tax(art, rate) if rate else Tax("F", 0))


# --- Dividing a booking


def decide(konto: str, gegenkonto: str, bu: str = "") -> tuple[str, str]:
    """The split, and what is told."""
    found = split(SKR03, konto=konto, gegenkonto=gegenkonto, schluessel=bu, era=era_of("2026-03-01"))
    return found.text, found.hint.found if found.hint else ""


def test_a_key_between_two_accounts_that_could_carry_tax_is_of_the_second() -> None:
    assert decide(BUERO, MIETE, "9") == ("V19g", "")
    assert decide(BUERO, BANK, "9") == ("V19k", "")
    assert decide(BANK, BUERO, "9") == ("V19g", "")


@pytest.mark.parametrize(("number", "carries"), [("0999", True), ("1000", False), ("1369", False), ("1370", True)])
def test_money_accounts_carry_no_tax(number: str, carries: bool) -> None:
    assert decide(BANK, full(number), "9")[0] == ("V19g" if carries else GROSS)


@pytest.mark.parametrize(
    ("konto", "gegenkonto", "bu", "text", "told"),
    [
        (BANK, "84001230", "", GROSS, "8400123 may carry tax by itself; which one is not known."),
        (BANK, "81001230", "", PLAIN, ""),
        ("84000000", "34000000", "", GROSS, "8400 and 3400 both carry tax by themselves."),
        (BANK, BUERO, "777", GROSS, "The key 777 is not known."),
        (
            BANK, BUERO, "240", GROSS,
            "The key 240 is tax of another country of the Union, at a rate that the key does not say.",
        ),
    ],
)  # fmt: skip
def test_what_may_carry_tax_is_told_by_its_number(konto: str, gegenkonto: str, bu: str, text: str, told: str) -> None:
    assert decide(konto, gegenkonto, bu) == (text, told)


def test_an_account_against_itself_is_refused_with_the_reason() -> None:
    with pytest.raises(KontierungError, match=r"^Gegenkonto must be another account than Konto$"):
        decide(BANK, BANK)


def test_a_stored_split_is_read_as_it_was_written() -> None:
    assert parts_of(PLAIN) == Parts(PLAIN, 0, in_konto=False)
    assert parts_of(GROSS) == Parts(GROSS, 0, in_konto=False)
    assert parts_of("U19k") == Parts("U", 19, in_konto=True)
    assert parts_of("E7g") == Parts("E", 7, in_konto=False)
    assert parts_of("S16!") == Parts("S", 16, in_konto=False)


@pytest.mark.parametrize(
    ("gegenkonto", "bu", "text", "expected"),
    [
        (ERLOESE, "3", "U19g", ""),  # the account does what the key says
        (ERLOESE, "23", "U19g", "20"),
        (ERLOESE, "9", GROSS, "40"),
        (ERLOESE, "", PLAIN, "40"),
        (ERLOESE, "29", GROSS, "80"),
        (ERLOESE, "40", PLAIN, "40"),
        (ERLOESE, "80", PLAIN, "80"),
        (ERLOESE, "2", "U7g", "2"),  # split by an older rule
        (ERLOESE, "3", "S19", "3"),
        (BUERO, "9", "V19g", "9"),
        (BUERO, "9", GROSS, "9"),
        ("81000000", "1", "F0g", "1"),  # free of tax by itself: any key may stand beside it
    ],
)
def test_beside_an_account_that_carries_tax_no_key_but_the_one_that_lifts_it_is_exported(
    gegenkonto: str, bu: str, text: str, expected: str
) -> None:
    era = era_of("2026-03-01")
    assert key_beside_automatic(SKR03, BANK, gegenkonto, bu, era, text) == expected
    assert key_beside_automatic(SKR03, gegenkonto, BANK, bu, era, text) == expected


# --- Its legs


TEXTS = [PLAIN, GROSS, "F0k", "F0g", *(f"{art}{rate}{side}" for art, rate in TAX_ACCOUNTS["SKR03"] for side in "kg")]
DISCOUNTS = [f"S{rate}{told}" for rate in (0, 5, 7, 16, 19) for told in ("", "!")]


def booked(text: str, konto: str, gegenkonto: str) -> list[str]:
    found = legs(SKR03, text, konto=konto, gegenkonto=gegenkonto, soll=True, betrag=100_000, skonto=10_000)
    assert len(contra_accounts(SKR03, text, konto=konto, gegenkonto=gegenkonto)) >= len(found)
    return [name for name, _ in found]


def test_a_split_is_found_by_every_account_that_it_books_to() -> None:
    onto: dict[str, set[str]] = {}
    for texts, sides in ((TEXTS, ((BANK, BUERO),)), (DISCOUNTS, ((BANK, DEBITOR), (BANK, KREDITOR)))):
        for text in texts:
            for konto, gegenkonto in sides:
                for account in set(booked(text, konto, gegenkonto)) - {konto, gegenkonto}:
                    onto.setdefault(account, set()).add(text)
    assert len(onto) > 20
    assert {account: set(splits_onto(SKR03, account)) for account in onto} == onto
    assert splits_onto(SKR03, BANK) == splits_onto(SKR03, BUERO) == ()


@pytest.mark.parametrize(
    ("text", "konto", "gegenkonto", "contra"),
    [
        (PLAIN, BANK, BUERO, (BUERO, BANK)),
        (GROSS, BANK, BUERO, (BUERO, BANK)),
        ("F0g", BANK, BUERO, (BUERO, BANK)),
        ("V19g", BANK, BUERO, (BUERO, BANK, BANK)),
        ("V19k", BUERO, BANK, (BANK, BUERO, BANK)),
        ("E19g", BANK, BUERO, (BUERO, BANK, "17740000", "15740000")),
        ("N19g", BANK, BUERO, (BUERO, BANK, "17870000", BUERO)),
        ("N19k", BUERO, BANK, (BANK, BUERO, "17870000", BUERO)),
        ("S19", BANK, DEBITOR, (DEBITOR, BANK, DEBITOR, DEBITOR)),
        ("S19", DEBITOR, BANK, (BANK, DEBITOR, DEBITOR, DEBITOR)),
    ],
)
def test_each_leg_has_an_account_on_the_other_side(
    text: str, konto: str, gegenkonto: str, contra: tuple[str, ...]
) -> None:
    assert contra_accounts(SKR03, text, konto=konto, gegenkonto=gegenkonto) == contra


@pytest.mark.parametrize("soll", [True, False])
def test_a_discount_beside_a_cent_goes_the_way_of_the_payment(soll: bool) -> None:
    sign = 1 if soll else -1
    found = dict(legs(SKR03, "S19", konto=BANK, gegenkonto=DEBITOR, soll=soll, betrag=1, skonto=119))
    assert found == {BANK: sign, DEBITOR: -120 * sign, "87360000": 100 * sign, "17760000": 19 * sign}
    reverse = dict(legs(SKR03, "S19", konto=DEBITOR, gegenkonto=BANK, soll=not soll, betrag=1, skonto=119))
    assert reverse == found


@pytest.mark.parametrize(
    ("net", "prozent", "tax"), [(7, 7, 0), (50, 1, 1), (-50, 1, -1), (49, 1, 0), (3, 19, 1), (1, 50, 1)]
)
def test_tax_on_a_net_amount_is_rounded_half_away_from_nothing(net: int, prozent: int, tax: int) -> None:
    assert tax_on(net, prozent) == tax


@pytest.mark.parametrize(("gross", "tax"), [(119, 19), (-119, -19), (4, 1), (3, 0), (-4, -1), (1, 0), (0, 0)])
def test_tax_in_a_gross_amount_is_what_its_rounded_net_leaves(gross: int, tax: int) -> None:
    assert tax_in(gross, 19) == tax
