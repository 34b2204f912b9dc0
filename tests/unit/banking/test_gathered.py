"""Transactions that are gathered page by page: none is lost, none moves to another account, and each booking is there once."""

from __future__ import annotations

from datetime import date, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kontobahn.banking.provider import TransactionFacts
from kontobahn.banking.reports import intake
from kontobahn.banking.reports.intake import Gathered, without_repeats
from kontobahn.banking.transactions.wire import reported, texts_of

DAY = date(2026, 3, 2)


def booking(account: str, number: int, **more: object) -> TransactionFacts:
    facts = TransactionFacts(
        account, DAY + timedelta(days=number % 5), number, "EUR", f"Buchung {number}", extra={"posting_date": DAY}
    )
    return facts._replace(**more)  # type: ignore[arg-type]


@given(
    st.lists(st.lists(st.tuples(st.sampled_from(["a", "b", "c"]), st.integers(1, 10**9)), max_size=40)),
    st.integers(1, 60),
)
@settings(deadline=None, max_examples=60)
def test_what_goes_to_disk_comes_back_in_order_as_often_as_it_is_read(
    pages: list[list[tuple[str, int]]], in_memory: int
) -> None:
    bookings = [[booking(*facts) for facts in page] for page in pages]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(intake, "IN_MEMORY", in_memory)
        found = Gathered()
        for page in bookings:
            found.add(page)
    everything = [facts for page in bookings for facts in page]
    assert len(found) == len(everything)
    for _ in range(2):
        for account in ("a", "b", "c", "unknown"):
            expected = [facts for facts in everything if facts.account_ref == account]
            got = list(found.of_account(account))
            assert [one.facts() for one in got] == expected
            assert [one[:-2] for one in got] == [reported(facts)[:-2] for facts in expected]
            assert all(one.texts in (None, texts_of(one.facts())) for one in got)
    assert sorted(found, key=repr) == sorted(everything, key=repr)


def test_a_booking_on_two_pages_counts_once_and_a_shared_id_identifies_nothing() -> None:
    pages = [
        booking("a", 1, provider_ref="x", status="pending"), booking("a", 2, provider_ref="y"), booking("a", 1, provider_ref="x"),
        booking("b", 1, provider_ref="x"), booking("a", 3, provider_ref="z"), booking("a", 4, provider_ref="z"),
        booking("a", 5), booking("a", 5),
    ]  # fmt: skip
    found = [(one.account_ref, one.amount_minor, one.provider_ref, one.status) for one in without_repeats(pages)]
    assert sorted(found, key=repr) == sorted([
        ("a", 2, "y", "posted"), ("a", 1, "x", "posted"), ("b", 1, "x", "posted"), ("a", 3, None, "posted"),
        ("a", 4, None, "posted"), ("a", 5, None, "posted"), ("a", 5, None, "posted"),
    ], key=repr)  # fmt: skip
    assert without_repeats(pages[4:5]) == pages[4:5]


def test_what_goes_to_disk_has_its_texts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(intake, "IN_MEMORY", 2)
    found = Gathered([booking("a", 1)])
    assert [one.texts for one in found.of_account("a")] == [None]
    found.add([booking("a", 2), booking("a", 3)])
    # The last one is still in memory, and will follow.
    assert [one.texts for one in found.of_account("a")] == [texts_of(booking("a", number)) for number in (1, 2, 3)]
