"""Proposals, line by line and weight by weight: by the numbers of a text, by numbers that are nearly ours, and by the payer."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from kontobahn.reconciliation.core.matcher import MAX_PROPOSALS
from kontobahn.reconciliation.core.model import Discount, Line, OpenItem, Person, Proposal
from tests.unit.reconciliation.client import (
    ANNA,
    BERT,
    DAY,
    IBAN,
    LIEFERANT,
    OTHER,
    STRANGER,
    best,
    item,
    match,
    movement,
    posten,
)

ONE, TWO = item("RE-2026-00123"), item("RE-2026-00124", 20_000)
BOTH = "RE-2026-00123 RE-2026-00124"
FROM_LIEFERANT: dict[str, Any] = {"name": None, "iban": LIEFERANT.ibans[0]}


def skonto(one: OpenItem, amount: int) -> Line:
    return Line("skonto", one.konto, one.beleg, -amount)


def on_account(konto: str, amount: int) -> Line:
    return Line("on_account", konto, "", amount)


def with_skonto(one: OpenItem, *amounts: int, late: int = 0) -> OpenItem:
    return one._replace(discounts=tuple(Discount(DAY - timedelta(late), "2", amount) for amount in amounts))


def signals(proposal: Proposal) -> list[str]:
    return [reason.signal for reason in proposal.reasons]


def of_class(evidence: str, found: list[Proposal]) -> list[Proposal]:
    return [proposal for proposal in found if proposal.evidence == evidence]


# --- What a number is worth


def test_the_score_is_the_sum_of_what_number_amount_and_payer_weigh() -> None:
    full = best(movement("RE-2026-00123"), ONE)
    assert signals(full) == ["number", "amount", "iban", "name"]
    assert ([reason.bits for reason in full.reasons], full.score) == ([9.9, 12.0, 20.0, 10.0], 51.9)
    part = best(movement("RE-2026-00123", 5_000), ONE)
    assert (signals(part)[1], part.score) == ("part", 39.9)


@pytest.mark.parametrize(("number", "acts"), [("2026-77", True), ("2026-7", False)])
def test_two_digits_are_the_least_that_acts_with_a_word_and_a_payer(number: str, acts: bool) -> None:
    assert best(movement(f"Rechnung {number}"), item(number)).acts == acts


def test_what_the_books_have_no_account_for_never_acts() -> None:
    found = best(movement("RE-2026-00123"), ONE._replace(has_account=False))
    assert (found.evidence, found.acts) == ("B1", False)


def test_a_short_number_without_a_word_acts_only_if_no_other_item_of_the_account_has_the_amount() -> None:
    short = item("471")
    assert best(movement("471 danke"), short).acts
    assert best(movement("471 danke"), short, item("888", 11_901), item("999", konto=BERT.konto)).acts
    assert not best(movement("471 danke"), short, item("888")).acts
    assert best(movement("Rechnung 471"), short, item("888")).acts, "a word makes it firm"
    assert best(movement("48213375"), item("48213375"), item("888")).acts, "and so do many digits"


def test_a_customer_number_is_no_document_unless_a_word_says_so() -> None:
    owed, twin = item("10001"), item("RE-2026-00987")
    assert not of_class("A2", match(movement("10001"), owed, twin))
    assert best(movement("Rechnung 10001"), owed, twin).lines == (posten(owed),)


def test_a_customer_number_that_is_a_documents_too_leaves_another_number_in_doubt() -> None:
    numbered, beside = item("10001"), item("48213375")
    assert not any(proposal.acts for proposal in match(movement("48213375 10001"), numbered, beside))
    assert best(movement("48213375 10001"), numbered._replace(open_minor=11_901), beside).lines == (posten(beside),)
    assert best(movement("48213375 10001"), numbered._replace(open_minor=11_901), beside).acts


def test_a_number_that_is_part_of_something_longer_does_not_act() -> None:
    found = best(movement("RE-2026-00123-4711", iban=None), ONE)
    assert (found.evidence, found.acts, found.lines) == ("B4", False, (posten(ONE),))
    assert "number_beside_digits" in signals(found)


# --- A number of several accounts


def test_a_known_payer_goes_before_one_whose_name_agrees() -> None:
    his = ONE._replace(konto=BERT.konto)
    known = best(movement("RE-2026-00123", iban=IBAN, name=BERT.name), ONE, his)
    assert (known.evidence, known.lines) == ("A2", (posten(ONE),))
    named = best(movement("RE-2026-00123", iban=None, name=BERT.name), ONE, his)
    assert (named.evidence, named.lines) == ("A2", (posten(his),))


def test_of_a_number_that_several_accounts_have_those_are_proposed_that_the_amount_fits() -> None:
    his = with_skonto(ONE._replace(konto=BERT.konto, open_minor=5_000), 100)
    for paid, lines in ((11_900, (posten(ONE),)), (4_900, (posten(his), skonto(his, 100)))):
        found = of_class("B1", match(movement("RE-2026-00123", paid, **STRANGER), ONE, his))
        assert [proposal.lines for proposal in found] == [lines]
        assert signals(found[0]) == ["number", "amount", "number_shared"]
    assert not of_class("B1", match(movement("RE-2026-00123", 4_901, **STRANGER), ONE, his))


@pytest.mark.parametrize(("accounts", "says"), [(20, 1), (21, 0)])
def test_a_number_of_more_than_twenty_accounts_says_nothing(accounts: int, says: int) -> None:
    same = [item("RE-2026-00777", 7_000 + n, f"1{n:04d}0000") for n in range(accounts)]
    assert len(of_class("B1", match(movement("RE-2026-00777", 7_019, **STRANGER), *same))) == says


def test_ten_proposals_are_listed_at_most() -> None:
    same = [item("RE-2026-00777", konto=f"1{n:04d}0000") for n in range(20)]
    assert len(match(movement("RE-2026-00777", **STRANGER), *same)) == MAX_PROPOSALS == 10


# --- Other amounts


@pytest.mark.parametrize(("paid", "offered"), [(11_662, True), (11_661, True), (11_663, True), (11_660, False)])
def test_skonto_that_is_late_is_offered_after_the_part_payment(paid: int, offered: bool) -> None:
    owed = with_skonto(ONE, 238, late=4)
    first, *more = of_class("B1", match(movement("RE-2026-00123", paid), owed))
    assert first.lines == (posten(owed, paid),)
    assert [proposal.lines for proposal in more] == [(posten(owed), skonto(owed, 11_900 - paid))] * offered
    assert all("skonto_late" in signals(proposal) and not proposal.score for proposal in more)


def test_a_number_paid_in_the_other_direction_is_for_a_person() -> None:
    found = match(movement("RE-2026-00123", -11_900), ONE)
    assert (found[0].evidence, found[0].lines) == ("C", (on_account(ANNA.konto, -11_900),))
    assert "other_direction" in signals(found[0])


def test_a_paid_number_is_a_double_payment_of_its_payer_and_a_typing_error_of_another() -> None:
    paid = ONE._replace(open_minor=0)
    assert best(movement("RE-2026-00123"), paid).evidence == "B1"
    assert [p.evidence for p in match(movement("RE-2026-00123", iban=OTHER), paid) if "paid_before" in signals(p)] == [
        "C"
    ]
    first = best(movement(BOTH), paid, TWO._replace(open_minor=0, konto=BERT.konto))
    assert (first.lines, first.reasons[0].value) == ((on_account(ANNA.konto, 11_900),), ONE.beleg)


# --- Several numbers


def test_beside_a_number_that_is_paid_already_a_sum_that_fits_does_not_act() -> None:
    third = item("RE-2026-00125", 0)
    assert best(movement(BOTH, 31_900), ONE, TWO, third).acts
    beside = best(movement(f"{BOTH} RE-2026-00125", 31_900), ONE, TWO, third)
    assert (beside.evidence, beside.acts, beside.lines) == ("B1", False, (posten(ONE), posten(TWO)))
    alone = best(movement("RE-2026-00123 RE-2026-00125"), ONE, third)
    assert (alone.evidence, alone.acts, alone.lines) == ("B1", False, (posten(ONE),))


@pytest.mark.parametrize(("count", "acts"), [(60, True), (61, False)])
def test_more_than_sixty_numbers_are_for_a_person(count: int, acts: bool) -> None:
    owed = [item(f"RE-2026-{n:05d}", 100 + n) for n in range(1_000, 1_000 + count)]
    paid = sum(one.open_minor for one in owed)
    found = best(movement(", ".join(one.beleg for one in owed), paid), *owed)
    assert (found.acts, len(found.keys)) == (acts, count)


@pytest.mark.parametrize("cent", [-1, 0, 1])
def test_a_rounding_cent_of_a_sum_goes_to_the_last_skonto(cent: int) -> None:
    owed = [with_skonto(ONE, 238), with_skonto(TWO, 400), item("RE-2026-00125", 5_000)]
    found = best(movement(f"{BOTH} RE-2026-00125", 36_262 + cent), *owed)
    assert (found.evidence, found.acts) == ("A4", True)
    assert found.lines == (
        posten(owed[0]), skonto(owed[0], 238), posten(owed[1]), skonto(owed[1], 400 - cent), posten(owed[2]),
    )  # fmt: skip


def test_of_the_documents_named_those_are_proposed_that_make_up_the_amount() -> None:
    third = item("RE-2026-00125", 700)
    text = f"{BOTH} RE-2026-00125"
    assert best(movement(text, 20_000), ONE, TWO, third).lines == (posten(TWO),)
    assert best(movement(text, 20_700), ONE, TWO, third).lines == (posten(TWO), posten(third))
    twins = [item(f"RE-2026-0012{n}") for n in range(5, 9)]
    found = of_class("B1", match(movement(" ".join(one.beleg for one in twins)), *twins))
    assert [proposal.lines for proposal in found] == [(posten(one),) for one in twins[:3]]


def test_an_amount_that_fits_nothing_is_spread_in_the_order_of_the_text() -> None:
    his = TWO._replace(konto=BERT.konto)
    for owed, paid, lines in (
        ((ONE, TWO), 5_000, (posten(ONE, 5_000),)),
        ((ONE, TWO), 15_000, (posten(ONE), posten(TWO, 3_100))),
        ((ONE, his), 32_000, (posten(ONE), posten(his), on_account(ANNA.konto, 100))),
    ):
        [found] = of_class("B1", match(movement(BOTH, paid), *owed))
        assert found.lines == lines
        numbers = [reason.value for reason in found.reasons if reason.signal == "number"]
        assert numbers == [line.beleg for line in lines if line.beleg]
        assert ("over" in signals(found), "part" in signals(found)) == (paid == 32_000, paid != 32_000)


def test_what_we_pay_is_spread_alike() -> None:
    owed = [item(f"77/{n}", -n * 100, LIEFERANT.konto) for n in (411, 522)]
    found = best(movement("77/411, 77/522", -50_000, **FROM_LIEFERANT), *owed)
    assert (found.evidence, found.lines) == ("B1", (posten(owed[0]), posten(owed[1], -8_900)))


def test_a_credit_note_among_the_numbers_leaves_what_does_not_add_up_to_a_person() -> None:
    credit = item("RE-2026-00124", -1_900)
    found = [p for p in match(movement(BOTH, 9_999), ONE, credit) if "number" in signals(p)]
    assert [(p.evidence, p.lines) for p in found] == [("C", (on_account(ANNA.konto, 9_999),))]
    assert [reason.value for reason in found[0].reasons if reason.signal == "number"] == [ONE.beleg]


# --- Numbers that are nearly ours


def test_beside_a_number_that_counts_none_is_guessed() -> None:
    near = item("RE-2026-00132", 5_000)
    assert not of_class("B4", match(movement("RE-2026-00123", 5_000, **STRANGER), ONE, near))
    back = near._replace(open_minor=-5_000)
    [guessed] = of_class("B4", match(movement("RE-2026-00123", -5_000, iban=None), ONE, back))
    assert guessed.lines == (posten(back),), "one in the other direction does not count"


@pytest.mark.parametrize(
    ("paid", "lines"),
    [
        (11_900, (posten(ONE),)),
        (11_662, (posten(ONE), skonto(ONE, 238))),
        (5_000, (posten(ONE, 5_000),)),
        (12_000, (posten(ONE), on_account(ANNA.konto, 100))),
        (-5_000, None),
    ],
)
def test_the_end_of_a_number_supports_any_amount_of_its_payer(paid: int, lines: tuple[Line, ...] | None) -> None:
    owed = with_skonto(ONE, 238)
    found = [it for it in match(movement("Nr. 00123", paid, iban=None), owed) if "number_end" in signals(it)]
    assert [proposal.lines for proposal in found] == ([lines] if lines else [])
    for proposal in found:
        exact = {11_900: "amount", 11_662: "amount_less_skonto"}.get(paid)
        assert signals(proposal)[:2] == ["number_end", exact or "part"]
        assert (proposal.score, proposal.acts) == ((26.0, True) if exact else (14.0, False))


def test_of_somebody_else_only_the_amount_supports_the_end_of_a_number() -> None:
    for payer in (STRANGER, {"iban": OTHER, "name": ANNA.name}):
        for paid, count in ((11_900, 1), (5_000, 0)):
            assert len(of_class("B4", match(movement("Nr. 00123", paid, **payer), ONE))) == count


def test_one_edit_needs_the_amount() -> None:
    for paid, count in ((11_900, 1), (5_000, 0)):
        assert len(of_class("B4", match(movement("RE-2026-00132", paid, **STRANGER), ONE))) == count


# --- The payer


def test_a_known_payer_settles_in_full_or_less_skonto() -> None:
    owed = with_skonto(ONE, 238)
    for paid, lines in ((11_900, (posten(owed),)), (11_662, (posten(owed), skonto(owed, 238)))):
        found = best(movement("danke", paid), owed, TWO)
        assert (found.evidence, found.lines) == ("B2", lines)
        assert signals(found)[0] == ("amount" if paid == 11_900 else "amount_less_skonto")


def test_candidates_of_a_payer_are_ranked_by_how_near_the_amount_is() -> None:
    owed = [item(f"RE-2026-0012{n}", amount) for n, amount in ((3, 20_000), (4, 12_000), (5, 10_000), (6, 1_001))]
    back = item("RE-2026-00127", -11_500)
    found = match(movement("danke", 11_500), *owed, back)
    assert [(proposal.evidence, proposal.score, proposal.lines) for proposal in found] == [
        ("C", 4.8, (posten(owed[1], 11_500),)),
        ("C", 4.5, (posten(owed[2]), on_account(ANNA.konto, 1_500))),
        ("C", 3.3, (posten(owed[0], 11_500),)),
        ("C", 0.5, (on_account(ANNA.konto, 11_500),)),
    ]


def test_amounts_of_others_are_listed_only_for_a_payer_nobody_knows() -> None:
    his = [item(f"RE-2026-0012{n}", konto=BERT.konto) for n in range(4)]
    found = match(movement("danke", **STRANGER), *his)
    assert [(proposal.lines, signals(proposal)) for proposal in found] == [
        ((posten(one),), ["amount_only"]) for one in his[:3]
    ]
    for paid in (movement("danke", name=None), movement("danke", iban=None)):
        assert not [p for p in match(paid, *his) if p.keys]


# --- Who the payer is


def test_a_mandate_and_a_customer_number_tell_the_payer() -> None:
    with_mandate = Person(ANNA.konto, mandates=("M-1",))
    known = best(movement("danke", mandate="M-1", **STRANGER), ONE, persons=(with_mandate,))
    assert (known.evidence, signals(known)) == ("B2", ["amount", "mandate"])
    assert known.reasons[-1].value == "M-1"
    other = best(movement("danke", mandate="M-2", **STRANGER), ONE, persons=(with_mandate,))
    assert other.evidence == "C"
    supported = best(movement("Kd-Nr. 10001", **STRANGER), ONE)
    assert (supported.evidence, signals(supported)) == ("B4", ["amount", "customer_number"])
    assert supported.reasons[-1].value == "10001"
    assert best(movement("Tel. 10001", **STRANGER), ONE).evidence == "C"
