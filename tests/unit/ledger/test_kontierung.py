"""From a booking as entered to its legs: net and tax to the cent, and nothing gained or lost."""

from __future__ import annotations

from decimal import ROUND_HALF_UP, Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kontobahn.ledger.kontenrahmen import KONTENRAHMEN
from kontobahn.ledger.kontierung import KontierungError, Leg, booked_prozent, full, legs, tax_of

SKR03, SKR04 = KONTENRAHMEN["SKR03"], KONTENRAHMEN["SKR04"]
KASSE, BANK, ERLOESE, BUERO, MIETE = "10000000", "12000000", "84000000", "49300000", "42100000"
DEBITOR, KREDITOR = "100100000", "700010000"
ACCOUNTS = {
    name: sorted({full(number) for number in rahmen.beschriftungen} | {DEBITOR, "100200000", KREDITOR, "700020000"})
    for name, rahmen in KONTENRAHMEN.items()
}
KEYS = ("", "1", "2", "3", "8", "9", "20", "21", "22", "23", "28", "29", "40")


def split(
    konto: str, gegenkonto: str, betrag: int, bu: str = "", *, soll: bool = True, skonto: int = 0
) -> dict[str, int]:
    found = legs(SKR03, konto=konto, gegenkonto=gegenkonto, soll=soll, betrag=betrag, bu_schluessel=bu, skonto=skonto)
    assert sum(leg.betrag for leg in found) == 0
    return dict(found)


@pytest.mark.parametrize(
    ("konto", "gegenkonto", "soll", "betrag", "bu", "expected"),
    [
        (DEBITOR, ERLOESE, True, 119000, "", {DEBITOR: 119000, ERLOESE: -100000, "17760000": -19000}),
        (BANK, BUERO, False, 2687, "9", {BANK: -2687, BUERO: 2258, "15760000": 429}),
        (BUERO, BANK, True, 2687, "9", {BANK: -2687, BUERO: 2258, "15760000": 429}),
        (KREDITOR, "34000000", False, 5950, "", {KREDITOR: -5950, "34000000": 5000, "15760000": 950}),
        (BANK, "27000000", True, 10700, "2", {BANK: 10700, "27000000": -10000, "17710000": -700}),
        (BANK, "27000000", True, 11900, "3", {BANK: 11900, "27000000": -10000, "17760000": -1900}),
        (BANK, "49400000", False, 1070, "8", {BANK: -1070, "49400000": 1000, "15710000": 70}),
        (BANK, "81000000", True, 5000, "1", {BANK: 5000, "81000000": -5000}),
        (BANK, KASSE, True, 5000, "", {BANK: 5000, KASSE: -5000}),
        (DEBITOR, KREDITOR, True, 5000, "", {DEBITOR: 5000, KREDITOR: -5000}),
        # A reversal takes back what was booked, tax and all; with key 20 by the account's own tax.
        (DEBITOR, ERLOESE, False, 119000, "20", {DEBITOR: -119000, ERLOESE: 100000, "17760000": 19000}),
        (BANK, BUERO, True, 2687, "29", {BANK: 2687, BUERO: -2258, "15760000": -429}),
        # Key 40 lifts the account's own tax.
        (DEBITOR, ERLOESE, True, 119000, "40", {DEBITOR: 119000, ERLOESE: -119000}),
        # Too little for a cent of tax.
        (DEBITOR, ERLOESE, True, 1, "", {DEBITOR: 1, ERLOESE: -1}),
        (DEBITOR, ERLOESE, True, 3, "", {DEBITOR: 3, ERLOESE: -3}),
        (DEBITOR, ERLOESE, True, 4, "", {DEBITOR: 4, ERLOESE: -3, "17760000": -1}),
    ],
)
def test_net_and_tax_are_booked_apart(
    konto: str, gegenkonto: str, soll: bool, betrag: int, bu: str, expected: dict[str, int]
) -> None:
    assert split(konto, gegenkonto, betrag, bu, soll=soll) == expected


def test_a_discount_given_clears_the_whole_document_and_takes_its_tax_back() -> None:
    assert split(BANK, DEBITOR, 11662, skonto=238) == {BANK: 11662, DEBITOR: -11900, "87360000": 200, "17760000": 38}


def test_a_discount_taken_clears_the_whole_document_and_takes_its_input_tax_back() -> None:
    expected = {BANK: -11662, KREDITOR: 11900, "37360000": -200, "15760000": -38}
    assert split(BANK, KREDITOR, 11662, soll=False, skonto=238) == expected
    assert split(KREDITOR, BANK, 11662, skonto=238) == expected


def test_the_key_of_a_payment_with_discount_is_the_rate_of_the_discount() -> None:
    assert split(BANK, DEBITOR, 10486, "2", skonto=214) == {
        BANK: 10486, DEBITOR: -10700, "87310000": 200, "17710000": 14,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("konto", "gegenkonto", "bu", "skonto", "field"),
    [
        (BANK, BANK, "", 0, "Gegenkonto"),
        (DEBITOR, DEBITOR, "", 0, "Gegenkonto"),
        (ERLOESE, "83000000", "", 0, "Gegenkonto"),
        (BANK, "27000000", "7", 0, "BU-Schlüssel"),
        (BANK, "27000000", "501", 0, "BU-Schlüssel"),
        (BANK, "27000000", "0", 0, "BU-Schlüssel"),
        (BANK, "27000000", "39", 0, "BU-Schlüssel"),
        (BANK, ERLOESE, "3", 0, "BU-Schlüssel"),
        (BANK, ERLOESE, "2", 0, "BU-Schlüssel"),
        (BANK, DEBITOR, "3", 0, "BU-Schlüssel"),
        (DEBITOR, BANK, "9", 0, "BU-Schlüssel"),
        (BANK, KASSE, "9", 0, "BU-Schlüssel"),
        (DEBITOR, KREDITOR, "23", 0, "BU-Schlüssel"),
        (BANK, BUERO, "", 10, "Skonto"),
        (DEBITOR, KREDITOR, "", 10, "Skonto"),
    ],
)
def test_what_cannot_be_split_without_guessing_is_refused(
    konto: str, gegenkonto: str, bu: str, skonto: int, field: str
) -> None:
    with pytest.raises(KontierungError) as refused:
        split(konto, gegenkonto, 1000, bu, skonto=skonto)
    assert refused.value.field == field


@given(st.integers(-(10**13), 10**13), st.sampled_from((0, 7, 19)))
def test_net_is_rounded_half_up_and_tax_is_the_rest(gross: int, prozent: int) -> None:
    exact = Decimal(gross) * 100 / (100 + prozent)
    net = int(exact.quantize(Decimal(1), ROUND_HALF_UP))
    assert tax_of(gross, prozent) == gross - net
    assert tax_of(-gross, prozent) == -tax_of(gross, prozent)


@given(
    skr=st.sampled_from(sorted(KONTENRAHMEN)), first=st.integers(0, 99), second=st.integers(0, 99), soll=st.booleans(),
    betrag=st.integers(1, 10**14), bu=st.sampled_from(KEYS), skonto=st.sampled_from((0, 0, 1, 238, 10**6)),
)  # fmt: skip
def test_the_legs_of_any_booking_add_up_to_zero(
    skr: str, first: int, second: int, soll: bool, betrag: int, bu: str, skonto: int
) -> None:
    rahmen, accounts = KONTENRAHMEN[skr], ACCOUNTS[skr]
    konto, gegenkonto = accounts[first % len(accounts)], accounts[second % len(accounts)]
    try:
        found = legs(
            rahmen, konto=konto, gegenkonto=gegenkonto, soll=soll, betrag=betrag, bu_schluessel=bu, skonto=skonto
        )
    except KontierungError:
        return
    assert sum(leg.betrag for leg in found) == 0
    # A person account and a money account move by all of the amount, whatever the tax.
    sign = 1 if soll else -1
    for name, amount in ((konto, sign * betrag), (gegenkonto, -sign * betrag)):
        if len(name) == 9:
            assert Leg(name, amount + (skonto if amount > 0 else -skonto)) in found
        elif rahmen.geld[0] <= name[:4] <= rahmen.geld[1]:
            assert Leg(name, amount) in found
    taken_back = legs(
        rahmen, konto=konto, gegenkonto=gegenkonto, soll=not soll, betrag=betrag, bu_schluessel=bu, skonto=skonto
    )
    assert sorted((leg.konto, -leg.betrag) for leg in taken_back) == sorted(found)


@pytest.mark.parametrize(
    ("gegenkonto", "bu", "prozent"),
    [
        (ERLOESE, "", 19), ("83000000", "", 7), (ERLOESE, "20", 19), (ERLOESE, "40", 0), (BUERO, "", 0), (BUERO, "9", 19),
        (BUERO, "28", 7), (BUERO, "1", 0), (DEBITOR, "", 0),
    ],
)  # fmt: skip
def test_the_rate_reported_is_the_rate_booked(gegenkonto: str, bu: str, prozent: int) -> None:
    assert booked_prozent(SKR03, konto=BANK, gegenkonto=gegenkonto, bu_schluessel=bu) == prozent
    tax = 11900 - abs(split(BANK, gegenkonto, 11900, bu)[gegenkonto])
    assert (tax == 0) == (prozent == 0)


@pytest.mark.parametrize("rahmen", KONTENRAHMEN.values(), ids=KONTENRAHMEN)
def test_every_account_a_chart_books_to_automatically_has_a_name(rahmen: object) -> None:
    assert isinstance(rahmen, type(SKR04))
    taxes = [*rahmen.automatik.values(), *filter(None, rahmen.schluessel.values())]
    used = {
        *(tax.konto for tax in taxes), *rahmen.gewaehrte_skonti.values(), *rahmen.erhaltene_skonti.values(),
        rahmen.kasse, rahmen.zweite_kasse,
    }  # fmt: skip
    assert used <= set(rahmen.beschriftungen)
    assert all(len(number) == 4 for number in rahmen.beschriftungen)
