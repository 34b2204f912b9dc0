"""Statements that overlap: whatever pieces a sequence of bookings comes in, each booking is recognised as often as it happened."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from kontobahn.banking.imports.rules import Booking, Plan, Span, Stretch, by_days, chains, compare, merged


class Fact(NamedTuple):
    """A booking as it happened."""

    day: int
    amount: int
    text: str
    reference: str | None = None


def stretch(facts: Sequence[Fact], opens: int, number: int | None = None, day: int = 0) -> Stretch:
    closes = opens + sum(fact.amount for fact in facts)
    first, last = (on(facts[0]), on(facts[-1])) if facts else (f"2026-03-{day:02d}",) * 2
    return Stretch(opens, first, closes, last, first, last, number, number, "S")


def on(fact: Fact) -> str:
    return f"2026-03-{fact.day:02d}"


def bookings_of(facts: Sequence[Fact], opens: int) -> list[Booking]:
    found, balance = [], opens
    for number, fact in enumerate(facts, 1):
        balance += fact.amount
        key = f"{fact.day}/{fact.amount}/{fact.text}"
        found.append(Booking(number, on(fact), fact.amount, key, fact.reference, None, balance))
    return found


class Account:
    """Does in memory what an account's store does with statements."""

    def __init__(self) -> None:
        self.spans: list[Span] = []
        self.rows: list[Booking] = []

    def take(self, facts: Sequence[Fact], opens: int, number: int | None = None, day: int = 0) -> Plan | None:
        """Imports a statement; None if it contradicts."""
        stated, bookings = stretch(facts, opens, number, day), bookings_of(facts, opens)
        window = [row for row in self.rows if stated.begins_on <= row.booked_on <= stated.ends_on]
        if not window and not facts:
            days = [row.booked_on for row in self.rows if row.booked_on < stated.begins_on]
            window = [row for row in self.rows if days and row.booked_on == max(days)]
        met = [
            span for span in self.spans
            if span.known.ends_on >= stated.begins_on and span.known.begins_on <= stated.ends_on
        ]  # fmt: skip
        plan = compare(stated, bookings, met, window)
        if plan is None:
            return None
        joined = {number for number, relation in plan.relations.items() if relation != "apart"}
        own = min(joined, default=max((span.number for span in self.spans), default=0) + 1)
        kept = [span for span in self.spans if span.number not in joined]
        self.spans = [*kept, Span(own, merged(stated, met, plan.relations))]
        self.rows = [row._replace(span=own) if row.span in joined else row for row in self.rows]
        for booking in bookings:
            if booking.number not in plan.shared:
                self.rows.append(booking._replace(number=len(self.rows) + 1, span=own))
        return plan

    def contents(self) -> Counter[tuple[str, str]]:
        return Counter((row.booked_on, row.fingerprint) for row in self.rows)


COFFEE = Fact(2, -350, "Kaffee")
A, B, C = Fact(1, 100, "a"), Fact(2, 20, "b"), Fact(3, -3, "c")


def contents(facts: Sequence[Fact]) -> Counter[tuple[str, str]]:
    return Counter((row.booked_on, row.fingerprint) for row in bookings_of(facts, 0))


def test_a_longer_export_with_the_same_start_is_an_extension() -> None:
    account = Account()
    account.take([A, COFFEE], 1000)
    plan = account.take([A, COFFEE, COFFEE, C], 1000)
    assert plan is not None
    assert plan.relations == {1: "contains"}
    assert sorted(plan.shared) == [1, 2]
    assert account.contents() == contents([A, COFFEE, COFFEE, C])


def test_a_shorter_one_inside_a_longer_one_changes_nothing() -> None:
    account = Account()
    account.take([A, COFFEE, COFFEE, C], 1000)
    plan = account.take([COFFEE, COFFEE], 1100)
    assert plan is not None
    assert plan.relations == {1: "inside"}
    assert account.contents() == contents([A, COFFEE, COFFEE, C])


def test_equal_bookings_on_either_side_of_a_cut_are_two() -> None:
    account = Account()
    account.take([A, COFFEE], 1000)
    account.take([COFFEE, C], 750)
    assert account.contents() == contents([A, COFFEE, COFFEE, C])
    assert len(chains(account.spans)) == 1


def test_numbers_tell_a_sequel_from_a_repetition() -> None:
    """Coffee and refund leave the balance as it was: only the bank's numbers say that this happened twice."""
    refund = Fact(2, 350, "Storno")
    account = Account()
    account.take([COFFEE, refund], 1000, number=4)
    account.take([COFFEE, refund], 1000, number=5)
    assert account.contents() == contents([COFFEE, refund] * 2)
    again = Account()
    again.take([COFFEE, refund], 1000)
    again.take([COFFEE, refund], 1000)
    assert again.contents() == contents([COFFEE, refund])


def test_a_number_alone_makes_no_sequel() -> None:
    """The next number with other balances is not the next statement: what both have is the same."""
    account = Account()
    account.take([A, B], 1000, number=4)
    plan = account.take([B, C], 1100, number=5)
    assert plan is not None
    assert plan.relations == {1: "extends_end"}
    assert account.contents() == contents([A, B, C])
    earlier = Account()
    earlier.take([B, C], 1100, number=5)
    assert earlier.take([A, B], 1000, number=4) is not None
    assert earlier.contents() == contents([A, B, C])
    # Banks that do not count write 0.
    uncounted, refund = Account(), Fact(2, 350, "Storno")
    for number in (0, 1):
        uncounted.take([COFFEE, refund], 1000, number=number)
    assert uncounted.contents() == contents([COFFEE, refund])


LATER = Fact(4, 7, "d")


@pytest.mark.parametrize(
    ("known", "stated", "opens"),
    [
        # One that both cover is missing: at the end, at the start, inside, around, and one of two alike.
        ([A, B, C], [A, C, LATER], 1000),
        ([B, C, LATER], [A, B, LATER], 1000),
        ([A, B, C, LATER], [A, C, LATER], 1000),
        ([A, C], [A, B, C, LATER], 1000),
        ([A, COFFEE, COFFEE, C], [A, COFFEE, C, LATER], 1000),
        # The opening balance has the other sign, or misses by the first booking.
        ([A, B, C], [A, B, C, LATER], -1000),
        ([A, B, C], [B, C, LATER], -1100),
        ([A, B, C], [B, C], -1100),
        ([A, B, C], [B, C, LATER], 1000),
        ([A, B, C], [B, C, LATER], 1200),
        ([B, C], [A, B, C, LATER], -1000),
        ([B, C, LATER], [A, B, C], -1000),
    ],
)
def test_an_overlap_with_other_figures_contradicts(known: list[Fact], stated: list[Fact], opens: int) -> None:
    account = Account()
    account.take(known, 1000 + (100 if known[0] == B else 0))
    before = list(account.rows)
    assert account.take(stated, opens) is None
    assert account.rows == before


def test_another_order_within_a_day_is_the_same() -> None:
    account = Account()
    account.take([A, B, COFFEE], 1000)
    plan = account.take([COFFEE, B, Fact(2, 7, "später"), C], 1100)
    assert plan is not None
    assert plan.relations == {1: "extends_end"}
    assert account.contents() == contents([A, B, COFFEE, Fact(2, 7, "später"), C])


def test_references_decide() -> None:
    one, two = COFFEE._replace(reference="r1"), COFFEE._replace(reference="r2")
    account = Account()
    account.take([one, two], 1000)
    plan = account.take([two, C], 650)
    assert plan is not None
    assert plan.shared[1].reference == "r2"
    again = account.take([COFFEE._replace(reference="r3"), C], 650)
    assert again is not None
    assert again.shared[1].reference == "r2", "issued again under another reference, where the balances say so"
    assert account.contents() == contents([one, two, C])


def test_other_words_are_the_same_booking_only_where_the_balances_say_so() -> None:
    account = Account()
    account.take([A, B, C], 1000)
    plan = account.take([A, B._replace(text="anders"), C], 1000)
    assert plan is not None
    assert plan.in_other_words == 1
    assert account.contents() == contents([A, B, C])


def test_a_bridge_between_two_spans() -> None:
    account = Account()
    account.take([A], 1000)
    account.take([C], 1120)
    assert len(account.spans) == 2
    plan = account.take([A, B, C], 1000)
    assert plan is not None
    assert set(plan.relations.values()) == {"contains"}
    assert account.contents() == contents([A, B, C])
    assert [(span.known.opens_minor, span.known.closes_minor) for span in account.spans] == [(1000, 1117)]


def test_a_missing_number_is_a_gap_even_if_the_balances_meet() -> None:
    account = Account()
    account.take([A], 1000, number=1)
    account.take([C], 1100, number=3)
    assert len(chains(account.spans)) == 2
    account.take([B, B._replace(amount=-20)], 1100, number=2)
    assert len(chains(account.spans)) == 1
    account.take([Fact(5, 1, "x")], 1097, number=1)
    assert len(chains(account.spans)) == 1, "numbers begin again with a year"


def test_a_statement_without_movements_joins_what_it_borders_on() -> None:
    account = Account()
    account.take([A], 1000, number=1)
    account.take([], 1100, number=2, day=2)
    account.take([C], 1100, number=3)
    assert len(chains(account.spans)) == 1
    whole = Account()
    whole.take([A, C], 1000)
    assert whole.take([], 1100, day=2) is not None
    assert whole.take([], 999, day=2) is None


def test_several_spans_of_one_day_are_chained_in_their_order() -> None:
    account = Account()
    for opens, amount in ((650, -350), (1000, 100), (1100, -450)):
        account.take([Fact(1, amount, "x")], opens)
    [chain] = chains(account.spans)
    assert [span.known.opens_minor for span in chain] == [1000, 1100, 650]


def test_an_account_that_is_emptied_every_day_may_be_filled_in_any_order() -> None:
    days = [[Fact(day, 5, "ein"), Fact(day, -5, "aus")] for day in (1, 2, 3)]
    account = Account()
    for index in (0, 2, 1):
        assert account.take(days[index], 0) is not None
    assert account.contents() == contents([fact for day in days for fact in day])


def test_a_statement_of_the_same_days_with_nothing_in_common_contradicts() -> None:
    account = Account()
    account.take([A, B, C], 1000)
    assert account.take([Fact(1, 8, "x"), Fact(3, 9, "y")], 5000) is None


def test_days_alone_tell_how_statements_stand_if_balances_are_not_to() -> None:
    spans = [Span(1, stretch([B, C], 0))]
    for facts, expected in (
        ([A, B], "extends_start"),
        ([A, Fact(4, 1, "")], "contains"),
        ([B], "inside"),
        ([C, Fact(4, 1, "")], "extends_end"),
    ):
        assert by_days(stretch(facts, 0), spans) == {1: expected}


# --- Any pieces in any order

_facts = st.tuples(st.integers(1, 5), st.sampled_from((-350, 350, -100, 100, 7)), st.sampled_from("ab")).map(
    lambda values: Fact(*values)
)


@st.composite
def cut_up(draw: st.DrawFn) -> tuple[int, list[Fact], list[tuple[int, int]]]:
    """Bookings, and pieces of them that overlap, in some order; together they are the whole."""
    facts = sorted(draw(st.lists(_facts, min_size=1, max_size=14)), key=lambda fact: fact.day)
    if draw(st.booleans()):
        facts = [fact._replace(reference=f"r{number}") for number, fact in enumerate(facts)]
    opens = draw(st.sampled_from((0, 100_00, -5_00)))
    marks = [0, *(mark for mark in range(1, len(facts)) if may_cut(facts, mark)), len(facts)]
    pieces = [
        (min(pair), max(pair))
        for pair in draw(st.lists(st.tuples(st.sampled_from(marks), st.sampled_from(marks)), max_size=6))
        if pair[0] != pair[1]
    ]
    # What is missing between the pieces comes in pieces too.
    borders = sorted({0, len(facts), *draw(st.lists(st.sampled_from(marks), max_size=3))})
    pieces += list(pairwise(borders))
    return opens, facts, draw(st.permutations(pieces))


def may_cut(facts: list[Fact], mark: int) -> bool:
    """Within a day, only balances that occur once can tell what is on which side."""
    if facts[mark].day != facts[mark - 1].day:
        return True
    balances, balance = [0], 0
    for fact in facts:
        if fact.day == facts[mark].day:
            balance += fact.amount
            balances.append(balance)
    return len(set(balances)) == len(balances)


# The third piece closes with what the second opens with, but a day later.
_CLOSES_LATER = [Fact(1, 350, "a"), Fact(1, -100, "a"), Fact(1, -350, "a"), Fact(2, 100, "a"), Fact(2, -350, "a")]


# The second and the third are known with a gap around them, and the others have bookings that look like theirs.
_ALIKE = [Fact(1, -350, "a")] * 3 + [Fact(1, 7, "a")] + [Fact(1, -350, "a")] * 3 + [Fact(1, 7, "a")]


def looks_like_others(account: Account, facts: Sequence[Fact], opens: int) -> bool:
    """Tells whether bookings of the same day and words are known that a gap parts from these."""
    own, stated = bookings_of(facts, opens), Span(-1, stretch(facts, opens))
    texts, balances = {one.fingerprint for one in own}, {(one.fingerprint, one.balance_minor) for one in own}
    near = {row.span for row in account.rows if (row.fingerprint, row.balance_minor) in balances} | {stated.number}
    apart = [span for span in account.spans if span.number not in near]
    for chain in (*chains([stated, *apart]), *chains(account.spans)):
        numbers = {span.number for span in chain}
        near |= numbers if numbers & near else set()
    return any(row.fingerprint in texts and row.span not in near for row in account.rows)


@settings(max_examples=400)
@example((0, _CLOSES_LATER, [(1, 2), (0, 1), (2, 4), (4, 5)]))
@example((0, _ALIKE, [(0, 1), (4, 7), (7, 8), (0, 4)]))
@given(cut_up())
def test_pieces_in_any_order_make_the_whole(case: tuple[int, list[Fact], list[tuple[int, int]]]) -> None:
    opens, facts, waiting = case
    account = Account()

    def opening(piece: tuple[int, int]) -> int:
        return opens + sum(fact.amount for fact in facts[: piece[0]])

    while waiting:
        # A piece that cannot be placed yet, because it meets others only within a day, is imported later.
        left = [piece for piece in waiting if account.take(facts[slice(*piece)], opening(piece)) is None]
        if len(left) == len(waiting):
            # Across a gap nothing tells whether what looks alike is the same; a statement that has both does.
            assert all(looks_like_others(account, facts[slice(*piece)], opening(piece)) for piece in left), left
            assert account.take(facts, opens) is not None, left
        waiting = left
    assert account.contents() == contents(facts)
    [chain] = chains(account.spans)
    closes = opens + sum(fact.amount for fact in facts)
    assert (chain[0].known.opens_minor, chain[-1].known.closes_minor) == (opens, closes)


@settings(max_examples=150)
@given(cut_up(), st.data())
def test_one_wrong_figure_is_noticed(case: tuple[int, list[Fact], list[tuple[int, int]]], data: st.DataObject) -> None:
    """A piece with another amount, whose balances were changed so that it adds up, contradicts the whole.

    Unless it now looks like one that begins or ends within the whole: some bookings of both then lead to the whole's border.
    """
    opens, facts, pieces = case
    closes = opens + sum(fact.amount for fact in facts)
    account = Account()
    account.take(facts, opens)
    piece = data.draw(st.sampled_from(pieces))
    start = opens + sum(fact.amount for fact in facts[: piece[0]])
    part = list(facts[slice(*piece)])
    index = data.draw(st.integers(0, len(part) - 1))
    part[index] = part[index]._replace(amount=part[index].amount + data.draw(st.sampled_from((-1, 1, 1000))))
    shared = {0}
    for fact in part:
        shared |= {before + fact.amount for before in shared if fact in facts}
    assume(closes - start not in shared and start + sum(fact.amount for fact in part) - opens not in shared)
    assert account.take(part, start) is None
