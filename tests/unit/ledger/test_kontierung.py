"""From a booking as entered to its legs: net and tax to the cent, nothing gained or lost, and nothing guessed."""

from __future__ import annotations

from decimal import ROUND_HALF_UP, Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kontobahn.ledger.kontierung import KontierungError, Split, full, legs, parts_of, split, tax_in, tax_on
from kontobahn.ledger.konto import KONTENRAHMEN
from kontobahn.ledger.steuer import NO_TAX, TAX_ACCOUNTS, automatic_taxes, era_of, suspect_accounts

SKR03, SKR04 = KONTENRAHMEN["SKR03"], KONTENRAHMEN["SKR04"]
KASSE, BANK, ERLOESE, BUERO, MIETE = "10000000", "12000000", "84000000", "49300000", "42100000"
DEBITOR, KREDITOR = "100100000", "700010000"
NOW = era_of("2026-03-01")
ACCOUNTS = {
    name: sorted({full(number) for number in rahmen.beschriftungen} | {DEBITOR, "100200000", KREDITOR, "700020000"})
    for name, rahmen in KONTENRAHMEN.items()
}
KEYS = (
    "",
    "1",
    "2",
    "3",
    "8",
    "9",
    "20",
    "22",
    "29",
    "40",
    "13",
    "19",
    "69",
    "94",
    "34",
    "506",
    "6506",
    "95",
    "240",
    "777",
)


def decide(
    konto: str, gegenkonto: str, bu: str = "", *, day: str = "2026-03-01", skonto: int = 0, invoice: str = ""
) -> Split:
    return split(
        SKR03, konto=konto, gegenkonto=gegenkonto, schluessel=bu, era=era_of(day), skonto=skonto, invoice=invoice
    )


def book(
    konto: str, gegenkonto: str, betrag: int, bu: str = "", *, soll: bool = True, day: str = "2026-03-01", skonto: int = 0,
    invoice: str = "",
) -> dict[str, int]:  # fmt: skip
    text = decide(konto, gegenkonto, bu, day=day, skonto=skonto, invoice=invoice).text
    found = legs(SKR03, text, konto=konto, gegenkonto=gegenkonto, soll=soll, betrag=betrag, skonto=skonto)
    assert sum(betrag for _, betrag in found) == 0
    return dict(found)


@pytest.mark.parametrize(
    ("konto", "gegenkonto", "soll", "betrag", "bu", "expected"),
    [
        (DEBITOR, ERLOESE, True, 119000, "", {DEBITOR: 119000, ERLOESE: -100000, "17760000": -19000}),
        (BANK, BUERO, False, 2687, "9", {BANK: -2687, BUERO: 2258, "15760000": 429}),
        (BUERO, BANK, True, 2687, "9", {BANK: -2687, BUERO: 2258, "15760000": 429}),
        (KREDITOR, "34000000", False, 5950, "", {KREDITOR: -5950, "34000000": 5000, "15760000": 950}),
        (BANK, "27000000", True, 10700, "2", {BANK: 10700, "27000000": -10000, "17710000": -700}),
        (BANK, "27000000", True, 11900, "101", {BANK: 11900, "27000000": -10000, "17760000": -1900}),
        (BANK, "49400000", False, 1070, "0402", {BANK: -1070, "49400000": 1000, "15710000": 70}),
        (BANK, "27000000", True, 11600, "5", {BANK: 11600, "27000000": -10000, "17750000": -1600}),
        (BANK, BUERO, False, 11600, "7", {BANK: -11600, BUERO: 10000, "15750000": 1600}),
        (BANK, BUERO, False, 10500, "6", {BANK: -10500, BUERO: 10000, "15680000": 500}),
        (BANK, "27000000", True, 11900, "13", {BANK: 11900, "27000000": -10000, "17780000": -1900}),
        (BANK, "81000000", True, 5000, "1", {BANK: 5000, "81000000": -5000}),
        (DEBITOR, "81250000", True, 5000, "11", {DEBITOR: 5000, "81250000": -5000}),
        (DEBITOR, "81250000", True, 5000, "231", {DEBITOR: 5000, "81250000": -5000}),
        (DEBITOR, "27000000", True, 5000, "171", {DEBITOR: 5000, "27000000": -5000}),
        (BANK, BUERO, False, 5000, "490", {BANK: -5000, BUERO: 5000}),
        (DEBITOR, "81250000", True, 5000, "", {DEBITOR: 5000, "81250000": -5000}),
        (BANK, KASSE, True, 5000, "", {BANK: 5000, KASSE: -5000}),
        (DEBITOR, KREDITOR, True, 5000, "", {DEBITOR: 5000, KREDITOR: -5000}),
        # A reversal takes back what was booked, tax and all; with key 20 by the account's own tax.
        (DEBITOR, ERLOESE, False, 119000, "20", {DEBITOR: -119000, ERLOESE: 100000, "17760000": 19000}),
        (BANK, BUERO, True, 2687, "29", {BANK: 2687, BUERO: -2258, "15760000": -429}),
        # Key 40 lifts the account's own tax, and 80 takes such a booking back.
        (DEBITOR, ERLOESE, True, 119000, "40", {DEBITOR: 119000, ERLOESE: -119000}),
        (DEBITOR, ERLOESE, False, 119000, "80", {DEBITOR: -119000, ERLOESE: 119000}),
        # Too little for a cent of tax.
        (DEBITOR, ERLOESE, True, 3, "", {DEBITOR: 3, ERLOESE: -3}),
        (DEBITOR, ERLOESE, True, 4, "", {DEBITOR: 4, ERLOESE: -3, "17760000": -1}),
    ],
)
def test_net_and_tax_are_booked_apart(
    konto: str, gegenkonto: str, soll: bool, betrag: int, bu: str, expected: dict[str, int]
) -> None:
    assert decide(konto, gegenkonto, bu).hint is None
    assert book(konto, gegenkonto, betrag, bu, soll=soll) == expected


@pytest.mark.parametrize(
    ("gegenkonto", "bu", "umsatzsteuer", "vorsteuer", "tax"),
    [
        (BUERO, "19", "17740000", "15740000", 1900), (BUERO, "18", "17720000", "15720000", 700),
        ("34250000", "", "17740000", "15740000", 1900), ("34200000", "", "17720000", "15720000", 700),
        (BUERO, "94", "17870000", "15770000", 1900), (BUERO, "91", "17850000", "15780000", 700),
        (BUERO, "506", "17870000", "15770000", 1900), (BUERO, "512", "17850000", "15780000", 700),
        (BUERO, "526", "17870000", "15770000", 1900), (BUERO, "527", "17850000", "15780000", 700),
        (BUERO, "701", "17740000", "15740000", 1900), (BUERO, "702", "17720000", "15720000", 700),
        ("31200000", "", "17870000", "15770000", 1900), ("31230000", "", "17870000", "15770000", 1900),
    ],
)  # fmt: skip
def test_tax_that_the_buyer_owes_stands_on_both_sides_and_costs_nothing(
    gegenkonto: str, bu: str, umsatzsteuer: str, vorsteuer: str, tax: int
) -> None:
    invoice = {KREDITOR: -10000, gegenkonto: 10000, vorsteuer: tax, umsatzsteuer: -tax}
    assert book(KREDITOR, gegenkonto, 10000, bu, soll=False) == invoice
    assert book(KREDITOR, gegenkonto, 10000, bu) == {konto: -betrag for konto, betrag in invoice.items()}


@pytest.mark.parametrize(
    ("bu", "umsatzsteuer", "tax"),
    [
        *((bu, "17870000", 1900) for bu in ("95", "6501", "6506", "6511", "6521", "6526")),
        *((bu, "17850000", 700) for bu in ("92", "6507", "6512", "6522", "6527")),
    ],
)
def test_tax_that_the_buyer_owes_and_may_not_deduct_is_cost(bu: str, umsatzsteuer: str, tax: int) -> None:
    text = decide(KREDITOR, BUERO, bu).text
    for konto, gegenkonto, soll in ((KREDITOR, BUERO, False), (BUERO, KREDITOR, True)):
        text = decide(konto, gegenkonto, bu).text
        found = legs(SKR03, text, konto=konto, gegenkonto=gegenkonto, soll=soll, betrag=10000)
        assert sorted(found) == sorted([(KREDITOR, -10000), (BUERO, 10000), (BUERO, tax), (umsatzsteuer, -tax)])
    # 3x takes 9x back.
    if len(bu) == 2:
        assert decide(KREDITOR, BUERO, f"3{bu[1]}").text == text.replace("k", "g")


@pytest.mark.parametrize(
    ("konto", "gegenkonto", "bu", "betrag", "expected"),
    [
        (DEBITOR, ERLOESE, "", 11600, {DEBITOR: 11600, ERLOESE: -10000, "17750000": -1600}),
        (DEBITOR, "83000000", "", 10500, {DEBITOR: 10500, "83000000": -10000, "17730000": -500}),
        (BANK, "27000000", "3", 11600, {BANK: 11600, "27000000": -10000, "17750000": -1600}),
        (BANK, "27000000", "5", 11900, {BANK: 11900, "27000000": -10000, "17760000": -1900}),
        (BANK, "27000000", "4", 10700, {BANK: 10700, "27000000": -10000, "17710000": -700}),
        (BUERO, BANK, "9", 11600, {BUERO: 10000, BANK: -11600, "15750000": 1600}),
        (BUERO, BANK, "8", 10500, {BUERO: 10000, BANK: -10500, "15680000": 500}),
        (BUERO, BANK, "7", 11900, {BUERO: 10000, BANK: -11900, "15760000": 1900}),
    ],
)
def test_in_the_second_half_of_2020_the_rates_were_lower(
    konto: str, gegenkonto: str, bu: str, betrag: int, expected: dict[str, int]
) -> None:
    for day in ("2020-07-01", "2020-12-31"):
        assert book(konto, gegenkonto, betrag, bu, day=day) == expected
    for day in ("2020-06-30", "2021-01-01"):
        assert book(konto, gegenkonto, betrag, bu, day=day) != expected


@pytest.mark.parametrize(
    ("konto", "gegenkonto", "bu", "day", "field"),
    [
        (BANK, "27000000", "777", "2026-03-01", "BU-Schlüssel"), (BANK, BUERO, "501", "2026-03-01", "BU-Schlüssel"),
        (BANK, BUERO, "6502", "2026-03-01", "BU-Schlüssel"), (BANK, BUERO, "9401", "2026-03-01", "BU-Schlüssel"),
        (KREDITOR, BUERO, "95", "2020-08-01", "BU-Schlüssel"), (BANK, "27000000", "103", "2026-03-01", "BU-Schlüssel"),
        (DEBITOR, "80000000", "240", "2026-03-01", "BU-Schlüssel"), (DEBITOR, "80000000", "10", "2026-03-01", "BU-Schlüssel"),
        (BANK, "27000000", "39", "2026-03-01", "BU-Schlüssel"), (BANK, BUERO, "13", "2026-03-01", "BU-Schlüssel"),
        # No account is known for them: reverse charge in the months of lower rates, keys of a time before these rates.
        (KREDITOR, BUERO, "94", "2020-08-01", "BU-Schlüssel"), (KREDITOR, BUERO, "19", "2020-08-01", "BU-Schlüssel"),
        (BANK, BUERO, "401", "2020-08-01", "BU-Schlüssel"), (BANK, BUERO, "9", "2006-12-31", "BU-Schlüssel"),
        (BANK, BUERO, "6", "2019-01-01", "BU-Schlüssel"), (KREDITOR, "34250000", "", "2020-08-01", "Konto"),
        # A key and an account that say different things, two accounts, none.
        (BANK, ERLOESE, "2", "2026-03-01", "BU-Schlüssel"), (BANK, ERLOESE, "9", "2026-03-01", "BU-Schlüssel"),
        (BANK, ERLOESE, "1", "2026-03-01", "BU-Schlüssel"), (ERLOESE, "83000000", "", "2026-03-01", "Gegenkonto"),
        (BANK, DEBITOR, "3", "2026-03-01", "BU-Schlüssel"), (BANK, KASSE, "9", "2026-03-01", "BU-Schlüssel"),
        (DEBITOR, KREDITOR, "23", "2026-03-01", "BU-Schlüssel"),
        # Numbers among which there are automatic accounts that we do not know.
        (DEBITOR, "83150000", "", "2026-03-01", "Konto"), (DEBITOR, "84100000", "", "2026-03-01", "Konto"),
        (KREDITOR, "31100000", "", "2026-03-01", "Konto"), (DEBITOR, "84001000", "", "2026-03-01", "Konto"),
    ],
)  # fmt: skip
def test_what_is_not_known_is_booked_as_written_and_told(
    konto: str, gegenkonto: str, bu: str, day: str, field: str
) -> None:
    found = decide(konto, gegenkonto, bu, day=day)
    assert found.text == "!"
    assert found.hint is not None
    assert found.hint.field == field
    assert "gross" in found.hint.done
    assert "brutto" in found.hint.meldung
    assert book(konto, gegenkonto, 11900, bu, day=day) == {konto: 11900, gegenkonto: -11900}


def test_a_key_that_repeats_what_the_account_does_is_booked_once_and_told() -> None:
    found = decide(BANK, ERLOESE, "3")
    assert found.hint is not None
    assert book(BANK, ERLOESE, 11900, "3") == {BANK: 11900, ERLOESE: -10000, "17760000": -1900}


@pytest.mark.parametrize(("konto", "gegenkonto"), [(BANK, BANK), (DEBITOR, DEBITOR)])
def test_an_account_against_itself_is_refused(konto: str, gegenkonto: str) -> None:
    with pytest.raises(KontierungError) as refused:
        decide(konto, gegenkonto)
    assert refused.value.field == "Gegenkonto"


# --- Discounts


def test_a_discount_given_clears_the_whole_document_and_takes_its_tax_back() -> None:
    expected = {BANK: 11662, DEBITOR: -11900, "87360000": 200, "17760000": 38}
    assert book(BANK, DEBITOR, 11662, skonto=238, invoice="U19") == expected


def test_a_discount_taken_clears_the_whole_document_and_takes_its_input_tax_back() -> None:
    expected = {BANK: -11662, KREDITOR: 11900, "37360000": -200, "15760000": -38}
    assert book(BANK, KREDITOR, 11662, soll=False, skonto=238, invoice="V19") == expected
    assert book(KREDITOR, BANK, 11662, skonto=238, invoice="V19") == expected


@pytest.mark.parametrize(
    ("person", "bu", "day", "invoice", "text", "is_told"),
    [
        # The invoice says the rate, whatever the day of the payment.
        (DEBITOR, "", "2026-03-01", "U7", "S7", False), (DEBITOR, "3", "2026-03-01", "U7", "S7", False),
        (DEBITOR, "", "2021-01-05", "U16", "S16", False), (KREDITOR, "", "2026-03-01", "V5", "S5", False),
        (DEBITOR, "", "2026-03-01", "F0", "S0", False),
        # Else the key does.
        (DEBITOR, "2", "2026-03-01", "", "S7", False), (KREDITOR, "8", "2026-03-01", "*", "S7", False),
        (DEBITOR, "1", "2026-03-01", "", "S0", False), (DEBITOR, "40", "2026-03-01", "U19", "S0", False),
        # Else the full rate of the time is assumed, and told.
        (DEBITOR, "", "2026-03-01", "", "S19!", True), (DEBITOR, "", "2020-08-01", "", "S16!", True),
        (KREDITOR, "777", "2026-03-01", "*", "S19!", True),
        (KREDITOR, "", "2026-03-01", "R19", "S0!", True), (DEBITOR, "", "2026-03-01", "I19", "S0!", True),
        (DEBITOR, "", "2006-03-01", "", "S0!", True),
    ],
)  # fmt: skip
def test_a_discount_is_split_at_the_rate_of_its_invoice_or_its_key_or_else_told(
    person: str, bu: str, day: str, invoice: str, text: str, is_told: bool
) -> None:
    found = decide(BANK, person, bu, day=day, skonto=238, invoice=invoice)
    assert (found.text, found.hint is not None) == (text, is_told)
    booked = book(BANK, person, 11662, bu, day=day, skonto=238, invoice=invoice)
    assert booked[person] == -11900
    assert booked[BANK] == 11662


@pytest.mark.parametrize(("konto", "gegenkonto"), [(BANK, BUERO), (DEBITOR, KREDITOR)])
def test_a_discount_of_nobody_or_of_two_is_left_out_and_told(konto: str, gegenkonto: str) -> None:
    found = decide(konto, gegenkonto, skonto=10)
    assert found.hint is not None
    assert found.hint.field == "Skonto"
    assert book(konto, gegenkonto, 1000, skonto=10) == {konto: 1000, gegenkonto: -1000}


# --- Whatever is booked


@given(st.integers(-(10**13), 10**13), st.sampled_from((0, 5, 7, 16, 19)))
def test_net_is_rounded_half_up_and_tax_is_the_rest(gross: int, prozent: int) -> None:
    exact = Decimal(gross) * 100 / (100 + prozent)
    net = int(exact.quantize(Decimal(1), ROUND_HALF_UP))
    assert tax_in(gross, prozent) == gross - net
    assert tax_in(-gross, prozent) == -tax_in(gross, prozent)
    assert tax_on(gross, prozent) == int((Decimal(gross) * prozent / 100).quantize(Decimal(1), ROUND_HALF_UP))


@given(
    skr=st.sampled_from(sorted(KONTENRAHMEN)), first=st.integers(0, 150), second=st.integers(0, 150), soll=st.booleans(),
    betrag=st.integers(1, 10**14), bu=st.sampled_from(KEYS), skonto=st.sampled_from((0, 0, 1, 238, 10**6)),
    day=st.sampled_from(("2006-01-01", "2019-05-05", "2020-08-08", "2026-02-02")),
    invoice=st.sampled_from(("", "", "U19", "V7", "U16", "V5", "R19", "F0", "*")),
)  # fmt: skip
def test_the_legs_of_any_booking_come_to_nothing(
    skr: str, first: int, second: int, soll: bool, betrag: int, bu: str, skonto: int, day: str, invoice: str
) -> None:  # fmt: skip
    rahmen, accounts = KONTENRAHMEN[skr], ACCOUNTS[skr]
    konto, gegenkonto = accounts[first % len(accounts)], accounts[second % len(accounts)]
    if konto == gegenkonto:
        return
    decided = split(
        rahmen, konto=konto, gegenkonto=gegenkonto, schluessel=bu, era=era_of(day), skonto=skonto, invoice=invoice
    )
    text = decided.text
    found = legs(rahmen, text, konto=konto, gegenkonto=gegenkonto, soll=soll, betrag=betrag, skonto=skonto)
    assert sum(betrag for _, betrag in found) == 0
    # What a text says is read the same way again; GROSS is told, and never carries tax.
    assert parts_of(text) == parts_of(str(text))
    assert "!" not in decided.text or decided.hint is not None
    # A person account and a money account move by all of the amount, whatever the tax.
    cleared = skonto if text[0] == "S" else 0
    for name, amount in ((konto, betrag if soll else -betrag), (gegenkonto, -betrag if soll else betrag)):
        if len(name) == 9:
            assert (name, amount + (cleared if amount > 0 else -cleared)) in found
        elif rahmen.geld[0] <= name[:4] <= rahmen.geld[1]:
            assert (name, amount) in found
    taken_back = legs(rahmen, text, konto=konto, gegenkonto=gegenkonto, soll=not soll, betrag=betrag, skonto=skonto)
    assert sorted((name, -betrag) for name, betrag in taken_back) == sorted(found)


# --- The tables


@pytest.mark.parametrize("rahmen", KONTENRAHMEN.values(), ids=KONTENRAHMEN)
def test_every_account_a_chart_books_to_by_itself_has_a_name(rahmen: object) -> None:
    assert isinstance(rahmen, type(SKR04))
    used = {konto for accounts in TAX_ACCOUNTS[rahmen.name].values() for konto in accounts if konto}
    used |= {*rahmen.gewaehrte_skonti.values(), *rahmen.erhaltene_skonti.values(), rahmen.kasse, rahmen.zweite_kasse}
    assert used <= set(rahmen.beschriftungen)
    assert all(len(number) == 4 for number in rahmen.beschriftungen)


@pytest.mark.parametrize("skr", KONTENRAHMEN)
def test_the_charts_are_alike_and_no_account_is_known_and_doubtful(skr: str) -> None:
    known = automatic_taxes(skr, NOW)
    assert not set(known) & suspect_accounts(skr)
    assert all(tax == NO_TAX or tax in TAX_ACCOUNTS[skr] for tax in known.values())
    other = automatic_taxes("SKR04" if skr == "SKR03" else "SKR03", NOW)
    taxed = sorted(str(tax) for tax in known.values() if tax != NO_TAX)
    assert taxed == sorted(str(tax) for tax in other.values() if tax != NO_TAX)
