"""Statements of an account that overlap: whatever order they come in, each booking is stored once, and sums meet the balances."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from datetime import timedelta
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kontobahn.formats.statements import StatementError
from tests.file_bank import account, import_file, stored_in_slices, transactions
from tests.harness import Organization, Service
from tests.statement_builder import DAY, IBAN, OTHER_IBAN, Booking, Sheet, camt, follow_up, mt940

FORMATS = pytest.mark.parametrize("make", [camt, mt940], ids=["camt", "mt940"])
Make = Callable[..., bytes]


@pytest.fixture
def owner(service: Service) -> Organization:
    return service.organization(credits_granted=100_000)


def on(day: int, amount: int, text: str = "Kaffee", **more: Any) -> Booking:
    moment = DAY + timedelta(day)
    return Booking(amount, text, booked=moment, valued=moment, **more)


def export(bookings: Sequence[Booking], start: int, end: int, opening: int = 100_000, **more: Any) -> Sheet:
    """A part of the bookings as a bank would export it: with its balances, and without a number."""
    before = opening + sum(booking.amount for booking in bookings[:start])
    part = bookings[start:end]
    return Sheet(part, before, None, f"E-{start}-{end}", None, part[-1].booked if part else DAY, **more)


def amounts(service: Service, owner: Organization) -> list[float]:
    return sorted(item["amount"] for item in transactions(service, owner))


def contents(service: Service, owner: Organization) -> Counter[tuple[str, float, str]]:
    return Counter((item["made_on"], item["amount"], item["description"]) for item in transactions(service, owner))


MONTH = [on(day, amount, f"Nr. {day}") for day in range(27) for amount in (-3_50, -3_50, 99_00, 1 + day)]


@FORMATS
def test_two_thirds_of_a_month_and_then_the_whole(service: Service, owner: Organization, make: Make) -> None:
    first = import_file(service, owner, make(export(MONTH, 0, 72)))
    assert (first.added, first.statements) == (72, 1)
    before = transactions(service, owner)
    whole = import_file(service, owner, make(export(MONTH, 0, len(MONTH))))
    assert (whole.added, whole.modified, whole.removed, whole.statements, whole.repeated) == (36, 0, 0, 1, 0)
    assert transactions(service, owner)[:72] == before
    assert account(service, owner)["balance"] == export(MONTH, 0, len(MONTH)).end / 100
    again = import_file(service, owner, make(export(MONTH, 20, 80)))
    assert (again.added, again.statements, again.repeated) == (0, 0, 1)


@FORMATS
def test_two_equal_coffees_stay_two_and_three_become_three(service: Service, owner: Organization, make: Make) -> None:
    coffees = [on(0, -3_50), on(0, -3_50), on(0, -3_50)]
    import_file(service, owner, make(export(coffees, 0, 2)))
    import_file(service, owner, make(export(coffees, 1, 3)))
    assert amounts(service, owner) == [-3.5] * 3
    assert import_file(service, owner, make(export(coffees, 0, 3))).added == 0
    assert account(service, owner)["balance"] == 989.5


@FORMATS
@pytest.mark.either_engine
def test_a_file_that_contradicts_is_refused_with_the_figures(service: Service, owner: Organization, make: Make) -> None:
    days = [on(0, 10_00, "Eins"), on(1, 20_00, "Zwei"), on(2, 30_00, "Drei"), on(3, 40_00, "Vier")]
    import_file(service, owner, make(export(days, 0, 3)))
    wrong = [days[0], days[1], days[2]._replace(amount=31_00), days[3]]
    with pytest.raises(StatementError) as caught:
        import_file(service, owner, make(export(wrong, 1, 4)))
    sentence = caught.value.sentence
    assert "from the balance 1010.00 EUR" in sentence
    assert "to the balance 1060.00 EUR" in sentence
    assert "a difference of 50.00; but the 1 bookings that are in both make 20.00, which is 30.00 less" in sentence
    assert "Only in this file: 2026-03-04 31.00 “" in sentence
    assert "Only in those imported before: 2026-03-04 30.00 “" in sentence
    assert amounts(service, owner) == [10.0, 20.0, 30.0]
    accepted = import_file(service, owner, make(export(wrong, 1, 4)), unbalanced=True)
    assert accepted.added == 2
    assert "a difference of 50.00" in accepted.warnings[0].found


@pytest.mark.either_engine
def test_a_contradiction_is_told_in_the_same_words_however_its_statements_come(service: Service) -> None:
    days = [on(day, 10_00 * (day + 1), text) for day, text in enumerate(("Eins", "Zwei", "Drei", "Vier", "Fünf"))]
    wrong = [*days[:2], days[2]._replace(amount=31_00, text="Drei Neu"), *days[3:]]
    sheets = [export(days, 0, 3), export(days, 2, 4), export(wrong, 1, 5)]
    told = set[str]()
    for files in ([camt(sheet) for sheet in sheets], [camt(*sheets)], [camt(sheets[0]), camt(*sheets[1:])]):
        for in_slices in (False, True):
            owner = service.organization()
            with stored_in_slices(in_slices):
                for file in files[:-1]:
                    import_file(service, owner, file)
                with pytest.raises(StatementError) as caught:
                    import_file(service, owner, files[-1])
            told.add(caught.value.sentence)
    [sentence] = told
    only_file, only_before = sentence.partition("Only in this file: ")[2].split("Only in those imported before: ")
    assert only_file.startswith("2026-03-04 31.00 “Drei Neu”")
    assert only_before.startswith("2026-03-04 30.00 “Drei”")


@pytest.mark.either_engine
def test_statements_of_one_account_change_nothing_of_what_is_known_of_another(
    service: Service, owner: Organization
) -> None:
    days = [on(day, 1_00 + day, f"Tag {day}") for day in range(6)]
    for iban in (IBAN, OTHER_IBAN):
        import_file(service, owner, camt(export(days, 0, 2, iban=iban)))
    import_file(service, owner, camt(export(days, 1, 4)))
    with pytest.raises(StatementError, match="a statement between the two is missing"):
        import_file(service, owner, camt(export(days, 3, 6, iban=OTHER_IBAN)))
    assert import_file(service, owner, camt(export(days, 3, 6))).added == 2
    assert import_file(service, owner, camt(export(days, 1, 6, iban=OTHER_IBAN))).added == 4


@pytest.mark.either_engine
def test_bookings_that_the_statements_of_their_days_lack_are_left_out_and_counted(
    service: Service, owner: Organization
) -> None:
    import_file(service, owner, camt(export([on(day, 1_00 + day, f"Tag {day}") for day in range(6)], 0, 6)))
    intraday = Sheet([on(2, 77_00, "Irrtum"), on(3, 78_00, "Irrtum"), on(9, 79_00, "Neu")], balances="", id="I-1")
    result = import_file(service, owner, camt(intraday, kind="052"))
    assert (result.added, result.left_out) == (1, 2)


@pytest.mark.either_engine
def test_one_that_was_refused_for_a_gap_is_an_overlap_once_the_others_are_there(
    service: Service, owner: Organization
) -> None:
    days = [on(day, 1_00 + day, f"Tag {day}") for day in range(6)]
    import_file(service, owner, camt(export(days, 0, 2)))
    with pytest.raises(StatementError, match="a statement between the two is missing"):
        import_file(service, owner, camt(export(days, 3, 6)))
    import_file(service, owner, camt(export(days, 3, 6)), allow_gaps=True)
    bridge = import_file(service, owner, camt(export(days, 1, 5)))
    assert bridge.added == 1
    assert len(transactions(service, owner)) == 6


def test_statements_of_one_file_may_stand_in_any_order(service: Service, owner: Organization) -> None:
    first = Sheet([on(0, 1)])
    second = follow_up(first, on(1, 2))
    third = follow_up(second, on(2, 3))
    assert import_file(service, owner, camt(third, first, second)).statements == 3
    assert account(service, owner)["balance"] == third.end / 100


@pytest.mark.either_engine
def test_a_missing_page_is_a_gap(service: Service, owner: Organization) -> None:
    first = Sheet([on(0, 5)], page=(1, False), balances="OPBD ITBD")
    last = Sheet([on(0, 6)], opening=first.end, page=(2, True), balances="ITBD> CLBD")
    with pytest.raises(StatementError, match="a statement between the two is missing"):
        import_file(service, owner, camt(first, last._replace(opening=first.end + 1)))
    import_file(service, owner, camt(first))
    assert import_file(service, owner, camt(last)).added == 1


def test_pages_that_repeat_the_balances_of_the_whole(service: Service, owner: Organization) -> None:
    whole = Sheet([on(0, 5), on(0, 6), on(0, 7)])
    pages = [
        whole._replace(bookings=[booking], page=(number, number == 3), closing=whole.end)
        for number, booking in enumerate(whole.bookings, 1)
    ]
    import_file(service, owner, camt(*pages))
    assert import_file(service, owner, camt(whole._replace(id="S-9", number=None))).added == 0
    assert account(service, owner)["balance"] == whole.end / 100


def test_numbers_that_are_left_out_are_a_gap(service: Service, owner: Organization) -> None:
    first = Sheet([on(0, 5)])
    third = follow_up(first, on(2, 7))._replace(number=3)
    with pytest.raises(StatementError, match="number 2 is missing"):
        import_file(service, owner, camt(first, third))


def test_the_same_days_in_another_format(service: Service, owner: Organization) -> None:
    """A bank that moves from MT940 to camt is asked for the last weeks again: its texts are others then."""
    days = [on(day, -1_00 - day, f"Rechnung {day}", booking_text="GUTSCHRIFT") for day in range(5)]
    import_file(service, owner, mt940(export(days, 0, 4)))
    reworded = [booking._replace(text=f"RE {index}") for index, booking in enumerate(days)]
    result = import_file(service, owner, camt(export(reworded, 1, 5)))
    assert result.added == 1
    assert result.warnings[0].found.startswith("3 bookings are known in other words")
    assert amounts(service, owner) == [-1.04, -1.03, -1.02, -1.01, -1.0]


@pytest.mark.either_engine
def test_only_what_is_new_is_an_event(service: Service, owner: Organization) -> None:
    """Choice 43."""

    def events() -> int:
        return len(service.get("/v2/banking/events", owner.key).json()["data"])

    days = [on(day, 1_00 + day, f"Tag {day}") for day in range(4)]
    import_file(service, owner, camt(export(days, 0, 3)))
    assert events() == 1
    import_file(service, owner, camt(export(days, 1, 3)))
    assert events() == 1
    import_file(service, owner, camt(export(days, 1, 4)))
    assert events() == 2


# --- References


def test_equal_intraday_entries_with_different_references_are_two(service: Service, owner: Organization) -> None:
    one, two = on(0, -3_50, reference="B-1"), on(0, -3_50, reference="B-2")
    import_file(service, owner, camt(Sheet([one], balances=""), kind="052"))
    import_file(service, owner, camt(Sheet([one, two], balances=""), kind="052"))
    found = transactions(service, owner)
    assert [item["extra"]["bank_reference"] for item in found] == ["B-1", "B-2"]
    assert [item["duplicated"] for item in found] == [False, False]


def test_pending_and_posted_with_one_reference_are_one(service: Service, owner: Organization) -> None:
    card = on(0, -3_50, "VORGEMERKT", reference="B-1", status="PDNG")
    import_file(service, owner, camt(Sheet([card], balances=""), kind="052"))
    [pending] = transactions(service, owner)
    booked = on(3, -3_60, "Kartenzahlung Cafe, mit Trinkgeld", reference="B-1")
    result = import_file(service, owner, camt(Sheet([booked], day=booked.booked)))
    assert (result.added, result.modified) == (0, 1)
    [posted] = transactions(service, owner)
    assert (posted["id"], posted["status"], posted["amount"]) == (pending["id"], "posted", -3.6)


@FORMATS
def test_a_reference_that_occurs_twice_in_a_statement_is_none(
    service: Service, owner: Organization, make: Make
) -> None:
    same = [on(0, -3_50, reference="POS"), on(0, -3_50, reference="POS"), on(1, 5_00, "Ende", reference="POS")]
    import_file(service, owner, make(export(same, 0, 2)))
    assert import_file(service, owner, make(export(same, 0, 3))).added == 1
    assert amounts(service, owner) == [-3.5, -3.5, 5.0]


@FORMATS
def test_what_the_bank_says_beside_the_text_reaches_the_answer(
    service: Service, owner: Organization, make: Make
) -> None:
    import_file(service, owner, make(Sheet([on(0, -3_50, reference="B-1"), on(0, 1)])))
    extra = [item["extra"] for item in transactions(service, owner)]
    assert [item["bank_reference"] for item in extra] == ["B-1", None]
    assert {(item["gvc"], item["primanota"], item["return_reason"]) for item in extra} == {("166", "00931", None)}


# --- Any pieces in any order

_bookings = st.lists(
    st.tuples(st.integers(0, 4), st.sampled_from((-3_50, 3_50, -1_00, 7)), st.sampled_from(("Kaffee", "Storno"))),
    min_size=1, max_size=10,
)  # fmt: skip


@FORMATS
@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(rows=_bookings, data=st.data())
def test_pieces_in_any_order_make_the_whole(
    service: Service, make: Make, rows: list[tuple[int, int, str]], data: st.DataObject
) -> None:
    owner = service.organization(credits_granted=10)
    whole = [on(*row) for row in sorted(rows, key=lambda row: row[0])]
    if data.draw(st.booleans(), "with references"):
        whole = [booking._replace(reference=f"B-{number}") for number, booking in enumerate(whole)]
    marks = [0, *(mark for mark in range(1, len(whole)) if _may_cut(whole, mark)), len(whole)]
    pairs = data.draw(st.lists(st.tuples(st.sampled_from(marks), st.sampled_from(marks)), max_size=4))
    borders = sorted({0, len(whole), *data.draw(st.lists(st.sampled_from(marks), max_size=2))})
    pieces = [(min(pair), max(pair)) for pair in pairs if pair[0] != pair[1]] + list(pairwise(borders))
    waiting = data.draw(st.permutations(pieces))
    with stored_in_slices(data.draw(st.booleans(), "in slices")):
        while waiting:
            refused = [piece for piece in waiting if not _is_imported(service, owner, make(export(whole, *piece)))]
            if len(refused) == len(waiting):
                # One closes by chance with what a later one opens with: what is missing between the two shows only now.
                first, *refused = refused
                assert _is_imported(service, owner, make(export(whole, *first)), allow_gaps=True), first
            waiting = refused
    expected = service.organization(credits_granted=10)
    import_file(service, expected, make(export(whole, 0, len(whole))))
    assert contents(service, owner) == contents(service, expected)
    assert account(service, owner)["balance"] == account(service, expected)["balance"]
    assert account(service, owner)["extra"]["transactions_count"] == {"posted": len(whole), "pending": 0}


def _is_imported(service: Service, owner: Organization, content: bytes, *, allow_gaps: bool = False) -> bool:
    """As the command line does: what is refused is tried again after the others."""
    try:
        import_file(service, owner, content, allow_gaps=allow_gaps)
    except StatementError:
        return False
    return True


def _may_cut(bookings: Sequence[Booking], mark: int) -> bool:
    """Within a day, only balances that occur once can tell what is on which side."""
    day = bookings[mark].booked
    if day != bookings[mark - 1].booked:
        return True
    balances = [0]
    for booking in bookings:
        if booking.booked == day:
            balances.append(balances[-1] + booking.amount)
    return len(set(balances)) == len(balances)
