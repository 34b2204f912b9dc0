"""Tax by payments received, beside exact fractions: each payment bears its share, and a paid document exactly its tax."""

from __future__ import annotations

import random
from fractions import Fraction

import pytest

from kontobahn.ledger.istversteuerung import Charge, Discount, Due, Movement, Receipt, taxes_due


def invoiced(day: str, booking: int, rate: int, gross: int) -> Charge:
    return Charge(day, booking, f"{rate} %", rate, gross, gross - round(Fraction(gross * 100, 100 + rate)))


def by_line(found: list[Due]) -> dict[object, tuple[int, int]]:
    return {
        line: (sum(due.base for due in found if due.line == line), sum(due.tax for due in found if due.line == line))
        for line in {due.line for due in found}
    }


@pytest.mark.parametrize("seed", range(300))
def test_each_payment_bears_its_share_and_a_paid_document_its_tax(seed: int) -> None:
    luck = random.Random(seed)
    sign = luck.choice((1, 1, -1))
    charges = [
        invoiced("01", number, luck.choice((19, 7)), sign * luck.randint(1, 99_999))
        for number in range(luck.randint(1, 4))
    ]
    if luck.random() < 0.3:
        charges.append(Charge("01", 8, None, 0, sign * luck.randint(1, 9_999), 0))
    whole = sum(charge.gross for charge in charges)
    cuts = sorted(luck.randint(0, abs(whole)) for _ in range(luck.randint(0, 4)))
    amounts = [sign * (end - start) for start, end in zip([0, *cuts], [*cuts, abs(whole)], strict=True)]
    payments = [Receipt(f"{luck.randint(2, 28):02}", 10 + number, amount) for number, amount in enumerate(amounts)]
    found = list(taxes_due([*charges, *payments]))
    expected = {
        line: (sum(one.gross - one.tax for one in charges if one.line == line), sum(one.tax for one in charges if one.line == line))
        for line in {charge.line for charge in charges} - {None}
    }  # fmt: skip
    assert by_line(found) == expected
    received = 0
    for day in sorted({payment.day for payment in payments}):
        received += sum(payment.amount for payment in payments if payment.day == day)
        so_far = by_line([due for due in found if due.day <= day])
        for line, (base, tax) in expected.items():
            known = so_far.get(line, (0, 0))
            assert abs(known[0] + known[1] - Fraction((base + tax) * received, whole)) <= 2
            assert abs(known[1] - Fraction(tax * received, whole)) <= 1
    assert {due.booking for due in found} <= {payment.booking for payment in payments}


INVOICE = [invoiced("05", 1, 19, 11_900)]


@pytest.mark.parametrize(
    ("movements", "due"),
    [
        # Paid in thirds: the last one has the rest.
        (
            [*INVOICE, Receipt("06", 2, 3_967), Receipt("07", 3, 3_967), Receipt("08", 4, 3_966)],
            [("06", 2, 3_334, 633), ("07", 3, 3_333, 634), ("08", 4, 3_333, 633)],
        ),
        # Less a discount, which is taxed by nobody; and one of a rate that the invoice does not have.
        ([*INVOICE, Discount("06", 2, 19, -238, -38), Receipt("06", 2, 11_662)], [("06", 2, 9_800, 1_862)]),
        ([*INVOICE, Discount("06", 2, 7, -238, -16), Receipt("06", 2, 11_662)], [("06", 2, 9_800, 1_862)]),
        # Before the invoice, and more than it.
        ([Receipt("01", 2, 5_950), *INVOICE], [("01", 2, 5_000, 950)]),
        ([Receipt("01", 2, 12_000), *INVOICE], [("01", 2, 10_000, 1_900)]),
        # Paid back; never below nothing.
        ([*INVOICE, Receipt("06", 2, 11_900), Receipt("07", 3, -11_900)], [("06", 2, 10_000, 1_900), ("07", 3, -10_000, -1_900)]),
        ([*INVOICE, Receipt("06", 2, -100)], []),
        # Credited after it was paid.
        ([*INVOICE, Receipt("06", 2, 11_900), invoiced("07", 3, 19, -5_950)], [("06", 2, 10_000, 1_900), ("07", 3, -5_000, -950)]),
        # Invoiced, taken back on another day, and nothing paid.
        ([*INVOICE, invoiced("06", 2, 19, -11_900)], []),
        # For something that bears no tax.
        ([Charge("05", 1, None, 0, 5_000, 0), Receipt("06", 2, 5_000)], []),
    ],
)  # fmt: skip
def test_what_a_movement_makes_due(movements: list[Movement], due: list[tuple[str, int, int, int]]) -> None:
    found = list(taxes_due(movements))
    assert [(one.day, one.booking, one.base, one.tax) for one in found] == due
    assert {one.line for one in found} <= {"19 %"}


def test_money_that_nobody_has_invoiced_is_told_without_a_line() -> None:
    assert list(taxes_due([Receipt("06", 2, 3_000), Discount("06", 2, 19, -60, -10)])) == [Due("06", 2, None, 3_000, 0)]


def test_a_document_of_nothing_is_settled_as_soon_as_it_is_there() -> None:
    moved = [invoiced("05", 1, 7, 10_700), invoiced("05", 2, 19, -10_700)]
    assert by_line(list(taxes_due(moved))) == {"7 %": (10_000, 700), "19 %": (-8_992, -1_708)}


def test_a_discount_without_a_rate_changes_no_share() -> None:
    moved: list[Movement] = [
        *INVOICE,
        Charge("05", 2, None, 0, 11_900, 0),
        Discount("06", 3, 0, -900, 0),
        Receipt("06", 3, 11_900),
    ]
    assert by_line(list(taxes_due(moved))) == {"19 %": (5_000, 950)}
