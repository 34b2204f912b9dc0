"""Properties that hold whatever comes: lines sum to the movement, the same input gives the same result, hostile input costs little."""

from __future__ import annotations

import random
import sys
import time
from datetime import date, timedelta
from types import FrameType

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kontobahn.reconciliation.core.matcher import MAX_PROPOSALS, Matcher, run
from kontobahn.reconciliation.core.model import (
    Discount,
    Knowledge,
    Movement,
    OpenItem,
    Person,
    exact_choice,
    exact_sums,
)
from kontobahn.reconciliation.core.numbers import NumberIndex, cut

DAY = date(2026, 5, 4)
KONTOS = ("100010000", "100020000", "700010000")
# Calls of functions to match one movement of the worst kind: 1,000 tokens in runs of up to eight, each looked up.
MAX_CALLS = 600_000
belege = st.text("RE-/. 0123", min_size=1, max_size=8)
written = st.from_regex(r"[RE]{0,2}[-/.]?[1-3][0-3]{0,5}(-[0-3]{1,3})?", fullmatch=True)
amounts = st.integers(-400, 400)
items = st.lists(
    st.builds(
        OpenItem,
        konto=st.sampled_from(KONTOS),
        beleg=belege,
        day=st.dates(DAY - timedelta(30), DAY + timedelta(10)),
        open_minor=amounts,
        discounts=st.lists(
            st.builds(Discount, st.dates(DAY - timedelta(9), DAY), st.just("2"), st.integers(0, 30)), max_size=2
        ).map(tuple),
    ),
    max_size=12,
)
movements = st.lists(
    st.builds(
        Movement,
        id=st.integers(1, 10**6).map(str),
        day=st.just(DAY),
        amount_minor=amounts,
        texts=st.lists(belege, max_size=4).map(lambda parts: (("svwz", " ".join(parts)),)),
        name=st.sampled_from((None, "Anna Muster", "Bert Muster")),
        iban=st.sampled_from((None, "DE1", "DE2", "DE3")),
        is_return=st.booleans(),
    ),
    max_size=6,
    unique_by=lambda movement: movement.id,
)
KNOWN = Knowledge(
    persons=(
        Person(KONTOS[0], "Anna Muster", ("DE1",)),
        Person(KONTOS[1], "Bert Muster", ("DE2",)),
        Person(KONTOS[2], "", ("DE3",)),
    )
)


@settings(deadline=None, max_examples=300)
@given(items, movements)
def test_lines_sum_and_nothing_is_paid_beyond_what_is_open(owed: list[OpenItem], paid: list[Movement]) -> None:
    unique = list({item.key: item for item in owed}.values())
    outcomes = run(Matcher(unique, KNOWN), paid)
    left = {item.key: item.open_minor for item in unique}
    for outcome in outcomes:
        assert len(outcome.proposals) <= MAX_PROPOSALS
        for proposal in outcome.proposals:
            assert proposal.sum_minor == outcome.movement.amount_minor
        if outcome.acted is not None:
            assert outcome.acted.acts
            for line in outcome.acted.lines:
                if line.kind == "item":
                    left[line.konto, line.beleg] -= line.amount_minor
    for item in unique:
        # Acting alone settles an item or leaves it alone.
        assert left[item.key] in (item.open_minor, 0)


@settings(deadline=None, max_examples=100)
@given(items, movements, st.randoms())
def test_the_order_of_what_is_given_changes_nothing(
    owed: list[OpenItem], paid: list[Movement], r: random.Random
) -> None:
    unique = list({item.key: item for item in owed}.values())
    before = run(Matcher(unique, KNOWN), paid)
    r.shuffle(unique)
    r.shuffle(paid)
    assert run(Matcher(unique, KNOWN), paid) == before


@settings(deadline=None, max_examples=200)
@given(st.lists(st.integers(1, 30), max_size=8), st.integers(2, 80))
def test_sums_are_found_and_are_all_there_are(values: list[int], target: int) -> None:
    every = [
        chosen
        for mask in range(2 ** len(values))
        if 2 <= len(chosen := tuple(place for place in range(len(values)) if mask >> place & 1)) <= 5
        and sum(values[place] for place in chosen) == target
    ]
    found = exact_sums(values, target)
    assert len(found) == min(len(every), 2)
    assert set(found) <= set(every)


@settings(deadline=None, max_examples=200)
@given(st.lists(st.lists(st.integers(1, 9), min_size=1, max_size=3), max_size=5), st.integers(0, 40))
def test_a_choice_is_found_and_told_apart_from_two(options: list[list[int]], target: int) -> None:
    every: list[tuple[int, ...]] = [()]
    for amounts in options:
        every = [(*choice, place) for choice in every for place in range(len(amounts))]
    right = [choice for choice in every if sum(options[n][place] for n, place in enumerate(choice)) == target]
    found = exact_choice(options, target)
    assert len(found) == min(len(right), 2)
    assert set(found) <= set(right)


@settings(deadline=None, max_examples=300)
@given(st.text(max_size=60), written)
def test_any_text_is_cut_and_a_number_that_stands_alone_is_found(text: str, beleg: str) -> None:
    index = NumberIndex([OpenItem(KONTOS[0], beleg, DAY, 100)])
    cut_text = cut("svwz", text)
    for token in cut_text.tokens:
        assert cut_text.text[token.start : token.end].upper() == token.text
    index.find([cut_text])
    index.find_weak([cut_text])
    sentence = cut("svwz", f"Zahlung: {beleg} danke")
    if not sentence.blocks:
        assert [hit.keys for hit in index.find([sentence])] == [((KONTOS[0], beleg),)]


def test_hostile_input_costs_little() -> None:
    """Ten thousand digits, thousands of equal items, of equal numbers, of equal names. Processor time, with a wide margin."""
    equal = [OpenItem(KONTOS[0], f"{n}", DAY, 4_900) for n in range(5_000)]
    same = [OpenItem(f"1{n:04d}0000", "4711", DAY, 4_900) for n in range(2, 3_000)]
    persons = tuple(Person(f"1{n:04d}0000", "Anna Muster Bau", ("DE1",)) for n in range(3_000))
    matcher = Matcher([*equal, *same], Knowledge(persons=persons))
    for text in (
        "1" * 10_000,
        "1 " * 5_000,
        "4711 " * 2_000,
        "RE-" * 3_000,
        "DE89" * 2_500,
        "1.1." * 2_500,
        "Aa" * 5_000,
    ):
        started = time.process_time()
        found = matcher.match(
            Movement("1", DAY, 4_900, texts=(("svwz", text), ("kref", text)), name="Anna Muster", iban="DE1")
        )
        assert time.process_time() - started < 2.0, text[:10]
        assert len(found) <= MAX_PROPOSALS
        assert not [proposal for proposal in found if proposal.acts]


def calls_of(matcher: Matcher, movement: Movement) -> int:
    """Counts the functions that are called to match a movement, our own and Python's: work, counted and not timed."""
    count = 0

    def note(_frame: FrameType, event: str, _argument: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(note)
    try:
        matcher.match(movement)
    finally:
        sys.setprofile(None)
    return count


@pytest.mark.parametrize("part", ["1", "4711 ", "1.111.", "\u202eKD 1 "])
def test_the_work_for_a_text_has_a_bound_whatever_is_in_it_and_however_much_is_open(part: str) -> None:
    def work(length: int, items: int) -> int:
        owed = [OpenItem(KONTOS[0], f"{n}", DAY, 4_900) for n in range(items)]
        owed += [OpenItem(f"1{n:04d}0000", "4711", DAY, 4_900) for n in range(2, items)]
        text = (part * length)[:length]
        movement = Movement("1", DAY, 4_900, texts=(("svwz", text),), name="Anna Muster", iban="DE1")
        return calls_of(Matcher(owed), movement)

    longest = work(10_000, 100)
    assert longest < MAX_CALLS
    # A few calls more or less are the collector's.
    assert abs(work(100_000, 100) - longest) < 100, "what is longer is not read"
    assert work(10_000, 400) < longest * 1.5 + 5_000, "the cost follows the text, not what is open"
