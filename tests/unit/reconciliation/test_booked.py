"""Movements that the books show already, returns, our own payments, transfers and rules."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from kontobahn.reconciliation.core.matcher import run
from kontobahn.reconciliation.core.model import (
    Booked,
    Discount,
    Line,
    MatchedMovement,
    Movement,
    OwnMovement,
    OwnPayment,
    Proposal,
    Rule,
)
from tests.unit.reconciliation.client import (
    ANNA,
    BERT,
    DAY,
    LIEFERANT,
    OTHER,
    STRANGER,
    best,
    item,
    match,
    matcher,
    movement,
    posten,
)

ONE, TWO = item("RE-2026-00123", 0), item("RE-2026-00124", 0)
PAID = Booked(ANNA.konto, ONE.beleg, DAY, 11_900)


def is_booked(it: Movement, *booked: Booked) -> bool:
    return matcher(ONE, TWO, booked=booked).is_booked(it)


def acting(found: list[Proposal]) -> list[Proposal]:
    return [proposal for proposal in found if proposal.acts]


# --- What the books show


def test_what_is_booked_is_not_proposed_again_and_each_booking_stands_for_one_movement() -> None:
    known = matcher(ONE, TWO, booked=(PAID,))
    first, second = movement("RE-2026-00123"), movement("RE-2026-00123", id="2")
    assert (known.match(first), known.is_booked(first)) == ([], True)
    assert known.match(first) == [], "the same answer every time"
    assert not known.is_booked(second)
    assert known.match(second)[0].reasons[1].signal == "paid_before"
    outcomes = run(matcher(ONE, booked=(PAID,)), [first, second])
    assert [outcome.is_booked for outcome in outcomes] == [True, False]


def test_an_earlier_movement_is_what_was_booked() -> None:
    earlier = movement("RE-2026-00123", id="0", day=DAY - timedelta(1))
    assert not matcher(ONE, booked=(PAID,), earlier=(earlier,)).is_booked(movement("RE-2026-00123"))


def test_only_euro_is_compared_with_what_is_booked() -> None:
    assert not is_booked(movement("RE-2026-00123", currency="CHF"), PAID)


@pytest.mark.parametrize(("days", "booked"), [(-11, False), (-10, True), (10, True), (11, False)])
def test_a_booking_is_dated_within_ten_days_of_its_movement(days: int, booked: bool) -> None:
    late = PAID._replace(day=DAY + timedelta(days))
    assert is_booked(movement("RE-2026-00123", **STRANGER), late) == booked, "by number"
    assert is_booked(movement("danke"), late) == booked, "by payer"


@pytest.mark.parametrize(
    ("paid", "payer", "booked"),
    [
        (11_900, {}, True),
        (11_900, {"iban": None}, True),
        (11_900, {"iban": None, "name": "Anna Bauer"}, False),
        (11_900, {"iban": OTHER}, False),
        (11_901, {}, False),
        (-11_900, {}, False),
    ],
)
def test_without_a_number_a_known_payer_and_the_amount_tell_what_is_booked(
    paid: int, payer: dict[str, Any], booked: bool
) -> None:
    assert is_booked(movement("danke", paid, **payer), PAID) == booked


def test_payments_of_a_day_may_be_one_movement() -> None:
    second = PAID._replace(beleg=TWO.beleg, amount_minor=8_100)
    assert is_booked(movement("danke", 20_000), PAID, second)
    assert not is_booked(movement("danke", 20_001), PAID, second)
    assert not is_booked(movement("danke", 20_000), PAID, second._replace(day=DAY - timedelta(1)))
    known = matcher(ONE, TWO, booked=(PAID, second))
    assert known.is_booked(movement("danke", 8_100))
    assert not known.is_booked(movement("danke", 20_000, id="2")), "one of them is taken"
    assert known.is_booked(movement("danke", id="3"))


def test_of_two_equal_bookings_one_is_taken_at_a_time_the_nearest_first() -> None:
    early, near = PAID._replace(day=DAY - timedelta(3)), PAID._replace(day=DAY + timedelta(1))
    known = matcher(ONE, TWO, booked=(PAID, PAID, early, near))
    assert all(known.is_booked(movement("danke", id=str(n))) for n in range(3))
    # What is left is the one of three days before: too early for a movement of eight days later.
    assert not known.is_booked(movement("danke", id="9", day=DAY + timedelta(8)))
    assert known.is_booked(movement("danke", id="4"))


def test_a_number_takes_the_booking_of_the_same_amount_before_a_nearer_one() -> None:
    part = PAID._replace(amount_minor=5_000)
    full = PAID._replace(day=DAY - timedelta(5))
    known = matcher(ONE, TWO, booked=(part, full))
    assert known.is_booked(movement("RE-2026-00123", **STRANGER))
    assert known.is_booked(movement("RE-2026-00123", 5_000, id="2", **STRANGER))


def test_of_equal_bookings_of_a_number_the_nearest_is_taken() -> None:
    far = PAID._replace(day=DAY - timedelta(4))
    near = PAID._replace(day=DAY + timedelta(2))
    known = matcher(ONE, TWO, booked=(far, near))
    assert known.is_booked(movement("RE-2026-00123", **STRANGER))
    assert not known.is_booked(movement("RE-2026-00123", id="2", day=DAY + timedelta(7), **STRANGER)), "far is left"


def test_several_numbers_are_one_movement_if_their_bookings_add_up() -> None:
    second = PAID._replace(beleg=TWO.beleg, amount_minor=8_100)
    both = "RE-2026-00123 RE-2026-00124"
    assert is_booked(movement(both, 20_000, **STRANGER), PAID, second)
    assert not is_booked(movement(both, 20_001, **STRANGER), PAID, second)
    known = matcher(ONE, TWO, booked=(PAID, second._replace(amount_minor=11_900)))
    assert known.is_booked(movement(both, **STRANGER))
    assert known.is_booked(movement(both, id="2", **STRANGER)), "each movement takes one of two equal bookings"
    assert not known.is_booked(movement(both, id="3", **STRANGER))


def test_a_booking_in_the_other_direction_is_another_movement() -> None:
    back = PAID._replace(amount_minor=-1)
    assert not is_booked(movement("RE-2026-00123", 1, **STRANGER), back)
    # It does not count into the sum of what the text names either.
    assert is_booked(
        movement("RE-2026-00123 RE-2026-00124", 100, **STRANGER),
        back,
        PAID._replace(beleg=TWO.beleg, amount_minor=100),
    )


def test_a_number_in_a_weak_form_takes_no_booking() -> None:
    assert not is_booked(movement("RE-2026-00123-4711", **STRANGER), PAID)


def test_a_return_of_what_was_booked_opens_the_document_with_its_skonto() -> None:
    paid = PAID._replace(amount_minor=11_662, skonto_minor=238)
    known = matcher(ONE, booked=(paid,))
    assert known.match(movement("RE-2026-00123", 11_662, end_to_end_id="DD-1")) == []
    [back] = known.match(movement("zurueck", -11_662, id="2", end_to_end_id="DD-1", is_return=True))
    assert (back.evidence, back.acts) == ("A5", True)
    assert back.lines == (
        Line("return", ANNA.konto, ONE.beleg, -11_900),
        Line("skonto", ANNA.konto, ONE.beleg, 238),
    )
    plain = matcher(ONE, booked=(PAID,))
    assert plain.is_booked(movement("RE-2026-00123", end_to_end_id="DD-1"))
    [back] = plain.match(movement("zurueck", -11_900, id="2", end_to_end_id="DD-1", is_return=True))
    assert back.lines == (Line("return", ANNA.konto, ONE.beleg, -11_900),)


# --- Returns


def came_back(amount: int, **changes: Any) -> Movement:
    return movement("zurueck", amount, end_to_end_id="DD-1", is_return=True)._replace(**changes)


@pytest.mark.parametrize(
    ("paid", "returned", "fee", "takes_back"),
    [
        (11_900, -11_900, 0, True),
        (11_900, -12_250, 350, True),
        (11_900, -11_900, 350, False),  # a fee that is named must be in the amount
        (11_900, -11_550, 350, False),
        (11_900, 11_900, 0, False),
        (-11_900, 11_900, 0, True),
        (-11_900, 11_550, 350, True),
        (-11_900, 11_900, 350, True),  # charged apart
        (-11_900, 12_250, 350, False),
        (-11_900, -11_900, 0, False),
        (175, 175, -350, False),
        (1, -1, 0, True),
    ],
)
def test_a_return_takes_back_all_of_a_movement_and_nothing_but_its_fee(
    paid: int, returned: int, fee: int, takes_back: bool
) -> None:
    owed = item("RE-2026-00123", 0)
    matched = MatchedMovement("7", paid, (posten(owed, paid),), end_to_end_id="DD-1")
    found = acting(match(came_back(returned, fee_minor=fee), owed, matched=(matched,)))
    assert bool(found) == takes_back
    if found:
        kept = returned + paid
        fees = (Line("fee", "49700000", "", kept),) if kept else ()
        assert found[0].lines == (Line("return", owed.konto, owed.beleg, -paid), *fees)
        assert [reason.value for reason in found[0].reasons[:2]] == ["7", "DD-1"]


def test_a_return_that_fits_several_movements_lists_three_and_acts_on_none() -> None:
    several = [MatchedMovement(str(n), 11_900, (posten(ONE, 11_900 + n),), end_to_end_id="DD-1") for n in range(4)]
    found = match(came_back(-11_900), ONE, matched=tuple(several))
    assert [proposal.evidence for proposal in found] == ["B1"] * 3
    assert not acting(found)


def test_settling_takes_the_whole_of_a_document_and_a_return_gives_it_back() -> None:
    owed = item("RE-2026-00123", discounts=(Discount(DAY, "2", 238),))
    client = matcher(owed)
    paid = movement("RE-2026-00123", 11_662, end_to_end_id="DD-1")
    for left, it in ((0, paid), (11_900, came_back(-11_662, id="2"))):
        client.settle(it, client.match(it)[0])
        assert [one.open_minor for one in client.items.among([owed.key])] == [left]


def test_a_run_follows_payments_and_returns_of_one_document() -> None:
    owed = item("RE-2026-00123")
    paid = [movement("RE-2026-00123", id=f"p{n}", day=DAY + timedelta(n), end_to_end_id=f"DD-{n}") for n in (0, 2, 4)]
    back = [came_back(-11_900, id=f"r{n}", day=DAY + timedelta(n + 1), end_to_end_id=f"DD-{n}") for n in (0, 2)]
    outcomes = run(matcher(owed), [*back, *paid])
    assert [(it.movement.id, it.acted and it.acted.evidence) for it in outcomes] == [
        ("p0", "A2"), ("r0", "A5"), ("p2", "A2"), ("r2", "A5"), ("p4", "A2"),
    ]  # fmt: skip


# --- Our own payments


def test_a1_says_which_order_it_was_and_takes_a_discount() -> None:
    owed = item("77/12", -11_900, LIEFERANT.konto, discounts=(Discount(DAY, "2", 238),))
    order = OwnPayment("KB-9", -11_662, keys=(owed.key,))
    found = best(movement("x", -11_662, end_to_end_id="KB-9", name=None, iban=None), owed, payments=(order,))
    assert (found.evidence, found.lines) == ("A1", (posten(owed), Line("skonto", owed.konto, owed.beleg, 238)))
    assert (found.reasons[0].signal, found.reasons[0].value, found.score) == ("end_to_end_id", "KB-9", 52.0)


def test_an_order_for_several_accounts_or_with_several_ways_is_for_a_person() -> None:
    paid = movement("x", -20_000, end_to_end_id="KB-9", name=None, iban=None)
    one, two = item("77/12", -10_000, LIEFERANT.konto), item("77/13", -10_000, "700020000")
    order = OwnPayment("KB-9", -20_000, keys=(one.key, two.key))
    found = best(paid, one, two, payments=(order,))
    assert (found.evidence, found.acts) == ("B1", False)
    terms = (Discount(DAY, "2", 200),)
    alike = [item(f"77/{n}", -10_100, LIEFERANT.konto, discounts=terms) for n in (12, 13)]
    order = OwnPayment("KB-9", -20_000, keys=tuple(it.key for it in alike))
    found = best(paid, *alike, payments=(order,))
    assert (found.evidence, found.acts) == ("B1", False)
    assert acting(match(paid, *(it._replace(open_minor=-10_000, discounts=()) for it in alike), payments=(order,)))
    assert not acting(match(paid, alike[0], payments=(order,))), "one of the documents is not known"


def test_the_text_of_an_order_names_its_documents_or_none() -> None:
    mine, his = item("4711", -11_900, LIEFERANT.konto), item("4711", -11_900, "700020000")
    order = OwnPayment("KB-9", -11_900, "Rechnung 4711")
    paid = movement("x", -11_900, end_to_end_id="KB-9", name=None, iban=LIEFERANT.ibans[0])
    found = best(paid, mine, his, payments=(order,))
    assert (found.evidence, found.lines) == ("A1", (posten(mine),)), "the payee is known"
    assert not acting(match(paid._replace(iban=None), mine, his, payments=(order,)))
    part_of_longer = order._replace(text="Rechnung 4711-2222")
    assert not acting(match(paid, mine, payments=(part_of_longer,)))


# --- Transfers and rules


def test_a_transfer_tells_the_account_and_its_other_side() -> None:
    def transfer(days: int) -> Proposal:
        other = OwnMovement("55", OTHER, DAY + timedelta(days), -11_900)
        own: dict[str, Any] = {"own_ibans": frozenset((OTHER,)), "own_movements": (other,)}
        return best(movement("Umbuchung", iban=OTHER, name=None), persons=(), **own)

    assert [(reason.signal, reason.value) for reason in transfer(5).reasons] == [
        ("own_account", "2051"), ("other_side", "55"),
    ]  # fmt: skip
    assert [reason.signal for reason in transfer(6).reasons] == ["own_account"]
    assert [reason.signal for reason in transfer(-6).reasons] == ["own_account"]


@pytest.mark.parametrize(
    ("rule", "amount", "applies"),
    [
        ({"text": "zentrale"}, 500, True),  # the payer's name is looked at, too
        ({"text": "Müll"}, 500, True),
        ({"iban": STRANGER["iban"]}, 500, True),
        ({"iban": OTHER}, 500, False),
        ({"text": "Strom", "iban": STRANGER["iban"]}, 500, False),
        ({}, 500, False),
        ({"text": "Muell", "most_minor": 500}, 500, True),
        ({"text": "Muell", "most_minor": 499}, 500, False),
        ({"text": "Muell", "least_minor": 500}, 500, True),
        ({"text": "Muell", "least_minor": 501}, 500, False),
        ({"text": "Muell", "sign": "in"}, 1, True),
        ({"text": "Muell", "sign": "in"}, -1, False),
        ({"text": "Muell", "sign": "out"}, -1, True),
        ({"text": "Muell", "sign": "out"}, 1, False),
    ],
)
def test_a_rule_fits_by_text_payer_amount_and_direction(rule: dict[str, Any], amount: int, applies: bool) -> None:
    found = match(movement("MUELLGEBUEHR", amount, **STRANGER), rules=(Rule("r", "42100000", **rule),))
    assert [p.lines for p in found] == [(Line("ledger_account", "42100000", "", amount),)] * applies


def test_a_rule_looks_at_the_text_of_a_payer_without_a_name() -> None:
    nameless = movement("MUELLGEBUEHR", 500, name=None, iban=None)
    assert match(nameless, rules=(Rule("r", "42100000", text="muell"),))
    assert not match(nameless, rules=(Rule("r", BERT.konto, text="none"),))
