"""From the lines of a match to rows of bookings: sides, discounts, keys, and what cannot be booked."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kontobahn.formats.extf import Buchungssatz
from kontobahn.ledger.buchungen import for_file, make_file
from kontobahn.ledger.wire import Geschaeftsjahr
from kontobahn.money import allocate
from kontobahn.reconciliation.booking_rows import (
    Rates,
    Transfer,
    changes,
    for_books,
    problem,
    reference_of,
    rows,
    untaxed_documents,
)
from kontobahn.reconciliation.core.model import Line

DAY = date(2026, 5, 4)
BANK, ANNA, LIEFERANT, FEES = "12000000", "100010000", "700010000", "49700000"
PAID = Line("item", ANNA, "RE-1", 11_900)
RATES: dict[tuple[str, str], Rates] = {
    (ANNA, "RE-1"): ((19, 1),),
    (ANNA, "RE-2"): ((0, 1),),
    (LIEFERANT, "77"): ((7, 1),),
    (ANNA, "RE-7"): ((7, 28_600), (19, 71_400)),
    (ANNA, "RE-8"): ((0, 1), (7, 1), (19, 1)),
}


def transfer(*lines: Line, **changed: Any) -> Transfer:
    return Transfer("m-1", 123_456_789_012_345, DAY, BANK, lines, "Anna Muster")._replace(**changed)


def row(*lines: Line, **changed: Any) -> Buchungssatz:
    [found] = rows(transfer(*lines, **changed), RATES)
    return found


@pytest.mark.parametrize(
    ("amount", "undone", "soll"), [(1, False, True), (-1, False, False), (1, True, False), (-1, True, True)]
)
def test_money_in_is_on_the_debit_side_and_what_takes_it_back_on_the_other(
    amount: int, undone: bool, soll: bool
) -> None:
    found = row(PAID._replace(amount_minor=amount), is_undone=undone)
    assert (found.umsatz, found.soll, found.generalumkehr) == (1, soll, undone)
    assert (found.konto, found.gegenkonto, found.belegfeld1, found.bu_schluessel) == (BANK, ANNA, "RE-1", "")


@pytest.mark.parametrize(
    ("paid", "discount", "key"),
    [
        (PAID, Line("skonto", ANNA, "RE-1", -238), "3"),
        (Line("item", ANNA, "RE-2", 11_900), Line("skonto", ANNA, "RE-2", -238), ""),
        (Line("item", ANNA, "RE-3", 11_900), Line("skonto", ANNA, "RE-3", -238), ""),
        (Line("item", LIEFERANT, "77", -11_900), Line("skonto", LIEFERANT, "77", 238), "8"),
        (Line("return", ANNA, "RE-1", -11_900), Line("skonto", ANNA, "RE-1", 238), "3"),
    ],
)
def test_a_discount_stands_beside_its_payment_with_the_key_of_its_invoice(paid: Line, discount: Line, key: str) -> None:
    for lines in ((paid, discount), (discount, paid)):
        found = row(*lines)
        assert (found.umsatz, found.skonto, found.bu_schluessel) == (11_662, 238, key)
        assert untaxed_documents(transfer(*lines), RATES) == ([(ANNA, "RE-3")] if paid.beleg == "RE-3" else [])
    assert untaxed_documents(transfer(paid), {}) == []


def test_a_discount_on_several_rates_is_divided_by_them() -> None:
    lines = (Line("item", ANNA, "RE-7", 100_000), Line("skonto", ANNA, "RE-7", -2_001))
    found = rows(transfer(*lines), RATES)
    assert [(one.umsatz, one.skonto, one.bu_schluessel) for one in found] == [(28_028, 572, "2"), (69_971, 1_429, "3")]
    assert changes(found) == {(ANNA, "RE-7"): -100_000}
    back = rows(transfer(*lines, is_undone=True), RATES)
    assert changes(back) == {(ANNA, "RE-7"): 100_000}
    three = rows(transfer(Line("item", ANNA, "RE-8", 100), Line("skonto", ANNA, "RE-8", -1)), RATES)
    assert [(one.umsatz, one.skonto, one.bu_schluessel) for one in three] == [(33, 1, "40"), (33, 0, ""), (33, 0, "")]


def test_a_payment_too_small_to_be_divided_waits() -> None:
    few = transfer(Line("item", ANNA, "RE-8", 4), Line("skonto", ANNA, "RE-8", -2))
    assert untaxed_documents(few, RATES) == [(ANNA, "RE-8")]


@given(st.integers(-(10**12), 10**12), st.lists(st.integers(1, 10**9), min_size=1, max_size=5))
def test_an_amount_is_divided_to_the_cent(cents: int, weights: list[int]) -> None:
    parts = allocate(cents, weights)
    assert sum(parts) == cents
    for part, weight in zip(parts, weights, strict=True):
        assert abs(part * sum(weights) - cents * weight) < sum(weights)


def test_of_two_lines_of_a_document_one_has_the_discount() -> None:
    rest = Line("on_account", ANNA, "RE-1", 500)
    found = rows(transfer(rest, PAID, PAID._replace(amount_minor=100), Line("skonto", ANNA, "RE-1", -38)), RATES)
    assert [(one.umsatz, one.skonto) for one in found] == [(500, 0), (11_862, 38), (100, 0)]


@pytest.mark.parametrize(
    ("lines", "konto", "reason"),
    [
        ((PAID,), BANK, None),
        ((PAID, Line("fee", FEES, "", -350)), BANK, None),
        ((PAID,), "", "The bank has no ledger account."),
        ((Line("fee", "", "", -350),), BANK, "The line `fee` has no account of the books."),
        ((PAID._replace(konto="KUNDE-001"),), BANK, "The line `item` has no account of the books."),
        ((PAID._replace(konto="1000100"),), BANK, "The line `item` has no account of the books."),
        ((Line("transfer", BANK, "", 5),), BANK, "The line `transfer` has the account of the bank itself."),
        ((Line("skonto", ANNA, "RE-9", -5), PAID), BANK, "The line `skonto` has no account of the books."),
        ((PAID, Line("skonto", ANNA, "RE-1", -11_900)), BANK, "Nothing was paid for document RE-1."),
    ],
)
def test_what_cannot_be_booked_says_why(lines: tuple[Line, ...], konto: str, reason: str | None) -> None:
    assert problem(transfer(*lines, konto=konto)) == reason


def test_a_row_carries_its_transaction_its_payer_and_how_it_was_matched() -> None:
    assert reference_of(123_456_789_012_345) == "456789012345"
    assert reference_of(7) == "7"
    found = row(PAID, payer=f"  Anna\n\tMuster {'x' * 90}", end_to_end_id="E-1", mandate="M-1", evidence="A2")
    assert found.buchungstext == f"Anna Muster {'x' * 48}"
    assert found.belegfeld2 == "456789012345"
    for part in ("Transaktion", "123456789012345", "EndToEndId", "E-1", "Klasse", "A2", "M-1"):
        assert part in found.weitere
    long = row(PAID, end_to_end_id="E" * 300, mandate="M" * 300).weitere
    assert ('"' + "E" * 210 + '"' in long, '"' + "M" * 35 + '"' in long) == (True, True), "as much as a column takes"
    bare = row(PAID, payer=" \n")
    assert (bare.buchungstext, "von Hand" in bare.weitere) == ("Zahlung", True)
    assert "EndToEndId" not in bare.weitere
    assert "105" not in bare.weitere


def test_the_books_and_the_file_get_the_same_bookings() -> None:
    found = rows(transfer(PAID, Line("skonto", ANNA, "RE-1", -238), Line("fee", FEES, "", -350)), RATES)
    first, second = for_books(found)
    assert (first.umsatz, first.skonto, first.sollHabenKennzeichen) == (Decimal("116.62"), Decimal("2.38"), "SOLL")
    assert (first.buSchluessel, first.belegfeld1, first.generalumkehr) == ("3", "RE-1", False)
    assert (second.umsatz, second.skonto, second.sollHabenKennzeichen) == (Decimal("3.50"), None, "HABEN")
    assert (second.buSchluessel, second.belegfeld1) == (None, None)
    assert [(one.konto, one.gegenkonto) for one in for_file(found, 4)] == [("1200", "10001"), ("1200", "4970")]


def test_bookings_change_the_documents_of_person_accounts_alone_discount_and_all() -> None:
    booked = rows(
        transfer(
            PAID, Line("skonto", ANNA, "RE-1", -238), Line("fee", FEES, "", -350), Line("item", LIEFERANT, "77", -50)
        ),
        RATES,
    )
    assert changes(booked) == {(ANNA, "RE-1"): -11_900, (LIEFERANT, "77"): 50}
    assert changes([*booked, *rows(transfer(PAID, is_undone=True), RATES)])[ANNA, "RE-1"] == 0


def test_the_file_covers_the_days_of_its_bookings_and_is_a_proposal() -> None:
    later = rows(transfer(PAID, day=date(2026, 5, 9)), RATES)
    jahr = Geschaeftsjahr(date(2026, 1, 1), date(2026, 12, 31), "SKR03", 4)
    file = make_file(
        [*later, *rows(transfer(PAID), RATES)], "1001-2", jahr, datetime(2026, 6, 1, tzinfo=UTC), "Abgleich"
    )
    header = file.content.decode("cp1252").splitlines()[0].split(";")
    assert header[10:16] == ["1001", "2", "20260101", "4", "20260504", "20260509"]
    assert header[20] == "0", "not committed"
    assert len(file.sha256) == 64
