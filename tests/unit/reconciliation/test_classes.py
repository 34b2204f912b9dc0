"""Each class of evidence, at its edges: what acts alone, what is a proposal, and what is no evidence at all."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from kontobahn.reconciliation.core.matcher import Matcher, run
from kontobahn.reconciliation.core.model import (
    Discount,
    Knowledge,
    Learned,
    Line,
    MatchedMovement,
    Movement,
    OwnMovement,
    OwnPayment,
    Rule,
)
from tests.unit.reconciliation.client import (
    ANNA,
    BERT,
    DAY,
    LIEFERANT,
    OTHER,
    OTHERS,
    STRANGER,
    best,
    item,
    match,
    movement,
    posten,
)

# --- A1


def test_a1_our_payment_is_known_by_its_end_to_end_id_and_amount() -> None:
    owed = item("77/12", -11_900, LIEFERANT.konto)
    paid = movement("irgendwas", -11_900, end_to_end_id="KB-9", name=None, iban=None)
    order = OwnPayment("KB-9", -11_900, "Rechnung 77/12", (owed.key,))
    found = best(paid, owed, payments=(order,))
    assert (found.evidence, found.acts, found.lines) == ("A1", True, (posten(owed),))
    # Without the documents the order's own text names them.
    assert best(paid, owed, payments=(order._replace(keys=()),)).acts
    for wrong in (order._replace(amount_minor=-11_901), order._replace(end_to_end_id="KB-8")):
        assert not [proposal for proposal in match(paid, owed, payments=(wrong,)) if proposal.acts]
    # Two orders with the id: nobody can tell.
    assert not [p for p in match(paid, owed, payments=(order, order._replace(keys=()))) if p.acts]


# --- A2


def test_a2_number_amount_and_payer() -> None:
    owed = item("RE-2026-00123")
    for text in (
        "Rechnung RE-2026-00123",
        "re 2026 00123 danke",
        "RE202600123",
        "RE-2026-123",
        "RechnungRE-2026-00123",
    ):
        found = best(movement(text), owed)
        assert (found.evidence, found.acts, found.lines) == ("A2", True, (posten(owed),)), text
    assert best(movement("RE-2026-00123", name=None), owed).acts, "the IBAN alone agrees"
    assert best(movement("RE-2026-00123", iban=None), owed).acts, "the name alone agrees"


def test_a2_needs_the_amount_to_the_cent() -> None:
    owed = item("RE-2026-00123")
    for amount in (11_899, 11_901):
        found = best(movement("RE-2026-00123", amount), owed)
        assert (found.evidence, found.acts) == ("B1", False)


def test_a_short_number_of_a_stranger_is_a_proposal_and_a_long_one_acts() -> None:
    short, long = item("RE-2026-00123"), item("48213375")
    found = best(movement("RE-2026-00123", **STRANGER), short)
    assert (found.evidence, found.acts) == ("B1", False)
    more = [item(number, 1_000, BERT.konto) for number in ("11111111", "22222222", "39393939")]
    found = best(movement("48213375", **STRANGER), long, *more)
    assert (found.evidence, found.acts) == ("A2", True)


def test_a_number_with_six_varying_digits_does_not_stand_alone() -> None:
    """19.8 bits, where 20 are needed."""
    items = [item(number) for number in ("482133", "111111", "222222", "393939")]
    assert not best(movement("482133", **STRANGER), *items).acts


def test_somebody_elses_number_never_acts() -> None:
    of_bert = item("RE-2026-00777", konto=BERT.konto)
    assert not [p for p in match(movement("RE-2026-00777"), of_bert) if p.acts]
    assert not [p for p in match(movement("RE-2026-00777", iban=None), of_bert) if p.acts], "the name contradicts, too"


def test_a_number_used_twice_is_settled_by_the_payer_or_not_at_all() -> None:
    mine, his = item("RE-2026-00123"), item("RE-2026-00123", konto=BERT.konto)
    assert best(movement("RE-2026-00123"), mine, his).lines == (posten(mine),)
    found = match(movement("RE-2026-00123", **STRANGER), mine, his)
    assert {proposal.lines for proposal in found} == {(posten(mine),), (posten(his),)}
    assert not [p for p in found if p.acts]


@pytest.mark.parametrize(
    ("evidence", "text", "amount"),
    [("A2", "RE-2026-00123", 11_900), ("A3", "RE-2026-00123", 11_662), ("A4", "RE-2026-00123 RE-2026-00124", 31_900)],
)
def test_nothing_acts_beside_a_number_that_may_be_several_accounts(evidence: str, text: str, amount: int) -> None:
    """Part of the payment may be for what the other number names, whoever's that is."""
    terms = (Discount(DAY, "2", 238),) if evidence == "A3" else ()
    owed = [item("RE-2026-00123", discounts=terms), item("RE-2026-00124", 20_000)]
    his, hers = (item("RE-2026-00777", 5_000, konto) for konto in (BERT.konto, LIEFERANT.konto))
    found = best(movement(text, amount), *owed, his, hers)
    assert (found.evidence, found.acts) == (evidence, True)
    beside = match(movement(f"{text} Rechnung RE-2026-00777", amount), *owed, his, hers)
    assert not [proposal for proposal in beside if proposal.acts]
    assert found.lines in [proposal.lines for proposal in beside], "it is proposed"
    one_s_own = match(
        movement(f"{text} Rechnung RE-2026-00777", amount), *owed, his, hers._replace(beleg="RE-2026-00778")
    )
    assert not [proposal for proposal in one_s_own if proposal.acts], "nor beside one that is somebody else's alone"


def test_a_document_that_is_dated_after_the_payment_is_never_offered() -> None:
    same_day, later = (item("RE-2026-00123", day=DAY + timedelta(days)) for days in (0, 1))
    assert best(movement("RE-2026-00123"), same_day).acts
    for text in ("RE-2026-00123", "Nr. 00123", "Zahlung", "RE-2026-00132"):
        for payer in ({}, {"iban": None}, STRANGER):
            assert not [it for it in match(movement(text, **payer), later) if it.keys], (text, payer)


# --- A3


@pytest.mark.parametrize(
    ("paid", "late", "acts"),
    [(11_662, 3, True), (11_663, 0, True), (11_661, 0, True), (11_660, 0, False), (11_662, 4, False)],
)
def test_a3_skonto_to_the_cent_and_in_time(paid: int, late: int, acts: bool) -> None:
    owed = item("RE-2026-00123", discounts=(Discount(DAY - timedelta(late), "2", 238),))
    found = best(movement("RE-2026-00123", paid), owed)
    assert found.acts == acts
    if acts:
        skonto = Line("skonto", owed.konto, owed.beleg, paid - 11_900)
        assert (found.evidence, found.lines) == ("A3", (posten(owed), skonto))
    else:
        # Late or too much: a part payment, whatever else is offered.
        assert (found.evidence, found.lines) == ("B1", (posten(owed, paid),))


# --- A4


def test_a4_several_numbers_of_one_account_with_a_credit_note_and_skonto() -> None:
    one, two = item("RE-2026-00123"), item("RE-2026-00124", 20_000, discounts=(Discount(DAY, "2", 400),))
    credit = item("RE-2026-00125", -1_900)
    found = best(movement("RE-2026-00123, RE-2026-00124 abzgl. RE-2026-00125", 29_600), one, two, credit)
    assert (found.evidence, found.acts, found.sum_minor) == ("A4", True, 29_600)
    assert set(found.lines) == {posten(one), posten(two), posten(credit), Line("skonto", two.konto, two.beleg, -400)}


def test_a4_not_for_two_accounts_and_not_if_the_sum_is_a_cent_off() -> None:
    one, two, his = item("RE-2026-00123"), item("RE-2026-00124"), item("RE-2026-00129", konto=BERT.konto)
    found = best(movement("RE-2026-00123 und RE-2026-00129", 23_800), one, his)
    assert (found.evidence, found.acts, set(found.keys)) == ("B1", False, {one.key, his.key})
    assert not best(movement("RE-2026-00123 und RE-2026-00124", 23_801), one, two).acts


def test_several_ways_to_make_the_sum_are_a_proposal() -> None:
    """Either could be the one that Skonto was taken from."""
    terms = (Discount(DAY, "2", 238),)
    one, two = item("RE-2026-00123", discounts=terms), item("RE-2026-00124", discounts=terms)
    found = best(movement("RE-2026-00123 RE-2026-00124", 23_562), one, two)
    assert not found.acts
    assert found.sum_minor == 23_562


# --- A5


def returned(**changes: Any) -> Movement:
    base = movement(
        "Ruecklastschrift", -12_250, end_to_end_id="DD-1", is_return=True, original_minor=11_900, fee_minor=350
    )
    return base._replace(**changes)


def test_a5_a_return_opens_the_item_and_its_fee_is_booked() -> None:
    paid = item("RE-2026-00123", 0)
    matched = MatchedMovement("7", 11_900, (posten(paid, 11_900),), end_to_end_id="DD-1")
    found = best(returned(), paid, matched=(matched,))
    fee = Line("fee", "49700000", "", -350)
    assert (found.evidence, found.acts) == ("A5", True)
    assert found.lines == (Line("return", paid.konto, paid.beleg, -11_900), fee)
    for wrong in ({"original_minor": 11_800}, {"fee_minor": 300}, {"end_to_end_id": "DD-2"}, {"is_return": False}):
        assert not [p for p in match(returned(**wrong), paid, matched=(matched,)) if p.acts], wrong
    assert not [p for p in match(returned(), paid, matched=(matched, matched._replace(id="8"))) if p.acts]


def test_a_run_takes_a_payment_its_return_and_the_second_payment() -> None:
    owed = item("RE-2026-00123")
    first = movement("RE-2026-00123", end_to_end_id="DD-1", id="1")
    back = returned(id="2", day=DAY + timedelta(3))
    again = movement("RE-2026-00123", id="3", day=DAY + timedelta(9))
    twice = movement("RE-2026-00123", id="4", day=DAY + timedelta(10))
    known = Knowledge(persons=(ANNA, BERT), fee_konto="49700000")
    outcomes = {it.movement.id: it for it in run(Matcher([*OTHERS, owed], known), [again, twice, back, first])}
    assert [outcomes[id].acted and outcomes[id].proposals[0].evidence for id in "123"] == ["A2", "A5", "A2"]
    assert outcomes["4"].acted is None
    assert outcomes["4"].proposals[0].lines == (Line("on_account", ANNA.konto, "", 11_900),)


def test_a_run_acts_only_on_the_classes_that_are_switched_on() -> None:
    owed = item("RE-2026-00123")
    [outcome] = run(
        Matcher([*OTHERS, owed], Knowledge(persons=(ANNA,))), [movement("RE-2026-00123")], frozenset(("A1", "A3"))
    )
    assert outcome.acted is None
    assert outcome.proposals[0].evidence == "A2"


# --- B and C


def test_b1_part_over_and_paid_before() -> None:
    owed, paid = item("RE-2026-00123"), item("RE-2026-00124", 0)
    assert best(movement("RE-2026-00123", 5_000), owed).lines == (posten(owed, 5_000),)
    over = best(movement("RE-2026-00123", 12_000), owed)
    assert (over.evidence, over.lines) == ("B1", (posten(owed), Line("on_account", owed.konto, "", 100)))
    double = best(movement("RE-2026-00124"), owed, paid)
    assert (double.evidence, double.lines) == ("B1", (Line("on_account", paid.konto, "", 11_900),))


def test_b2_to_b4_without_a_number() -> None:
    one, two = item("RE-2026-00123"), item("RE-2026-00124", 20_000)
    assert best(movement("danke"), one, two).evidence == "B2"
    summed = best(movement("danke", 31_900), one, two)
    assert (summed.evidence, set(summed.keys)) == ("B3", {one.key, two.key})
    assert best(movement("danke", iban=None), one, two).evidence == "B4"
    assert not [p for it in (movement("danke"), movement("danke", 31_900)) for p in match(it, one, two) if p.acts]


def test_a_sum_among_more_than_ten_items_is_no_evidence() -> None:
    items = [item(f"RE-2026-0{n}", 1_000 + 2**n) for n in range(10, 20)]
    target = items[0].open_minor + items[1].open_minor
    assert best(movement("danke", target), *items).evidence == "B3"
    assert best(movement("danke", target), *items, item("RE-2026-021", 7)).evidence == "C"


def test_twins_are_listed_the_oldest_first() -> None:
    old, new = item("RE-2026-00124", day=DAY - timedelta(40)), item("RE-2026-00123")
    found = match(movement("danke"), new, old)
    assert [p.evidence for p in found[:2]] == ["C", "C"]
    assert [p.keys for p in found[:2]] == [(old.key,), (new.key,)]


def test_amount_alone_is_never_evidence() -> None:
    found = best(movement("danke", **STRANGER), item("RE-2026-00123"))
    assert (found.evidence, found.score, found.acts) == ("C", 0.0, False)


def test_iban_confirmed_twice_is_known_and_once_is_not() -> None:
    owed = item("RE-2026-00123")
    for count, evidence in ((1, "B4"), (2, "B2")):
        learned = (Learned(ANNA.konto, count, iban=STRANGER["iban"]),)
        assert best(movement("danke", **STRANGER), owed, learned=learned).evidence == evidence


@pytest.mark.parametrize("text", ["Nr. 00123", "RE-2026-00132", "RE-2O26-OO123"])
def test_weak_forms_are_proposals(text: str) -> None:
    """The end only, one edit, letters that look like digits."""
    owed, twin = item("RE-2026-00123"), item("RE-2026-00987")
    found = best(movement(text), owed, twin)
    assert (found.evidence, found.acts, found.keys) == ("B4", False, (owed.key,))


def test_transfers_and_rules() -> None:
    own: dict[str, Any] = {
        "own_ibans": frozenset((OTHER,)),
        "own_movements": (OwnMovement("55", OTHER, DAY + timedelta(5), -11_900),),
    }
    found = best(movement("Umbuchung", iban=OTHER, name=None), **own)
    assert (found.evidence, found.lines) == ("C", (Line("transfer", "13600000", "", 11_900),))
    assert [reason.value for reason in found.reasons if reason.signal == "other_side"] == ["55"]
    rent = Rule("r", "42100000", text="Miete", sign="out", least_minor=100_000)
    for amount, applies in ((-100_000, True), (-99_999, False), (100_000, False)):
        lines = [p.lines for p in match(movement("MIETE Mai", amount, **STRANGER), rules=(rent,))]
        assert ((Line("ledger_account", "42100000", "", amount),) in lines) == applies


def test_another_currency_is_not_compared() -> None:
    assert match(movement("RE-2026-00123", currency="CHF"), item("RE-2026-00123")) == []
