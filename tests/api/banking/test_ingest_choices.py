"""Bookings that are reported twice and are one: a table of pairs, each at the edge of a rule."""

from __future__ import annotations

from datetime import date, timedelta
from typing import Any

import pytest

from kontobahn.banking.provider import TransactionFacts
from kontobahn.banking.transactions import ingest
from tests.bank_builder import SECOND_IBAN, Bank, account_facts, facts
from tests.harness import Organization, Service

# What both engines do alike is tried on one: the statements are those of the other tests of the ingest.
pytestmark = pytest.mark.parametrize("engine", ["sqlite"], indirect=True)
DAY = date(2026, 3, 1)


def booking(amount: int = 500, text: str = "SVWZ+Miete", days: int = 0, **more: Any) -> TransactionFacts:
    return facts(amount, text, (DAY + timedelta(days=days)).isoformat(), **more)


@pytest.fixture
def owner(service: Service) -> Organization:
    return service.organization(credits_granted=10_000)


def listed(service: Service, owner: Organization, number: int = 0) -> list[dict[str, Any]]:
    account = service.get("/v2/banking/accounts", owner.key).json()["data"][number]
    query = {"account_id": account["id"], "sort": "id"}
    return list(service.get("/v2/banking/transactions", owner.key, params=query).json()["data"])


PENDING: dict[str, Any] = {"status": "pending"}
A: dict[str, Any] = {"provider_ref": "a"}
B: dict[str, Any] = {"provider_ref": "b"}
# The one, the other that is reported later, and what there is then: one row or two.
PAIRS = [
    # The bank's own id decides, for a few days, and as long as the amount is the same or was only announced.
    (booking(**A), booking(**A), 1),
    (booking(**A), booking(text="SVWZ+Miete und mehr", **A), 1),
    (booking(**A), booking(501, **A), 2),
    (booking(**A, **PENDING), booking(501, **A), 1),
    (booking(**A), booking(text="SVWZ+Später", days=7, **A), 1),
    (booking(**A), booking(text="SVWZ+Später", days=8, **A), 2),
    (booking(**A, **PENDING), booking(days=40, **A), 1),
    (booking(**A, **PENDING), booking(501, "SVWZ+Neu", days=-40, **A), 1),
    # Another id for the same content is one that the bank uses instead, if a whole delivery lacks the first.
    (booking(**A), booking(**B), 1),
    (booking(**A, **PENDING), booking(**B, **PENDING), 1),
    (booking(**A), booking(text="SVWZ+Andere", **B), 2),
    (booking(**A), booking(501, **B), 2),
    # Without an id on one side, the same content is the same booking.
    (booking(), booking(), 1),
    (booking(**A), booking(), 1),
    (booking(), booking(**A), 1),
    (booking(), booking(text="SVWZ+Andere"), 2),
    (booking(text="Miete"), booking(), 1),
    (booking(), booking(days=1), 2),
    # Two statements never contain the same booking.
    (booking(statement="s1"), booking(statement="s1"), 1),
    (booking(statement="s1"), booking(statement="s2"), 2),
    (booking(), booking(statement="s1"), 1),
    (booking(statement="s1"), booking(), 1),
    # Told during the day in other words, and in a statement within a week.
    (booking(end_to_end_id="E1"), booking(text="SVWZ+Anders", days=7, end_to_end_id="E1", statement="s1"), 1),
    (booking(end_to_end_id="E1"), booking(text="SVWZ+Anders", days=8, end_to_end_id="E1", statement="s1"), 2),
    (booking(end_to_end_id="E1"), booking(text="SVWZ+Anders", end_to_end_id="E1"), 1),
    (booking(end_to_end_id="E1"), booking(text="SVWZ+Anders", days=1, end_to_end_id="E1"), 2),
    (booking(end_to_end_id="E1"), booking(501, "SVWZ+Anders", end_to_end_id="E1", statement="s1"), 2),
    (booking(end_to_end_id="E1"), booking(text="SVWZ+Anders", end_to_end_id="E2", statement="s1"), 2),
    (booking(end_to_end_id="E1", statement="s0"), booking(text="SVWZ+Anders", end_to_end_id="E1", statement="s1"), 2),
    # Announced, and then booked within a week in the same words, or under the same id of the payer.
    (booking(**PENDING), booking(days=7), 1),
    (booking(**PENDING), booking(days=8), 2),
    (booking(**PENDING), booking(text="SVWZ+Anders"), 2),
    (booking(end_to_end_id="E1", **PENDING), booking(text="SVWZ+Anders", days=5, end_to_end_id="E1"), 1),
    (booking(end_to_end_id="E1", **PENDING), booking(text="SVWZ+Anders", days=5, end_to_end_id="E2"), 2),
    (booking(end_to_end_id="E1", **PENDING), booking(501, "SVWZ+Anders", end_to_end_id="E1"), 2),
    # What was posted does not become pending again.
    (booking(**A), booking(**A, **PENDING), 1),
]


@pytest.mark.parametrize(("one", "other", "expected"), PAIRS)
def test_one_booking_or_two(
    service: Service, owner: Organization, one: TransactionFacts, other: TransactionFacts, expected: int
) -> None:
    bank = Bank(service)
    # Another account and another organisation have the same booking, which must not be taken for it.
    accounts = [account_facts(), account_facts("spar", SECOND_IBAN)]
    bank.connected(service.organization("Fremde GmbH"), one, ref="stranger")
    row = bank.connected(owner, one, one._replace(account_ref="spar"), accounts=accounts)
    before = listed(service, owner)[0]
    assert before["duplicated"] is False
    both = [other] if one.status == "pending" else [one, other]
    told = bank.report(row, other, one._replace(account_ref="spar"), accounts=accounts)
    after = listed(service, owner)
    rows = expected
    if rows == 2 and one.status == "pending":
        rows = 1  # it was withdrawn
        assert told.removed == 1
    assert len(after) == rows, both
    assert (after[0]["id"] == before["id"]) == (not told.removed)
    assert after[-1]["duplicated"] is False
    assert told.added == (expected != 1)
    assert len(listed(service, owner, 1)) == 1
    if one.status == "posted":
        assert after[0]["status"] == "posted"


@pytest.mark.parametrize(("days", "told"), [(7, (1, 1, 0)), (8, (2, 0, 1)), (40, (2, 0, 1)), (-8, (2, 0, 1))])
@pytest.mark.parametrize("text", ["SVWZ+Miete", "SVWZ+Anders"])
def test_an_old_announcement_is_not_taken_for_a_booking_in_whatever_company_it_comes(
    service: Service, owner: Organization, text: str, days: int, told: tuple[int, int, int]
) -> None:
    """Another booking of the same delivery, on the old day, has the old rows looked at."""
    bank = Bank(service)
    row = bank.connected(owner, booking(end_to_end_id="E1", **PENDING))
    company = booking(700, "SVWZ+Strom")
    assert bank.report(row, company, booking(text=text, days=days, end_to_end_id="E1")) == told
    assert [item["status"] for item in listed(service, owner)] == ["posted", "posted"]


def test_what_a_whole_delivery_leaves_out_does_not_stay_pending(service: Service, owner: Organization) -> None:
    bank = Bank(service)
    accounts = [account_facts(), account_facts("spar", SECOND_IBAN)]
    one, other = booking(**PENDING), booking(700, "SVWZ+Strom", days=-60, **PENDING)
    row = bank.connected(owner, one, other, one._replace(account_ref="spar"), accounts=accounts)
    stranger = service.organization("Fremde GmbH")
    bank.connected(stranger, one, ref="stranger")
    assert bank.report(row, one, one._replace(account_ref="spar"), accounts=accounts) == (0, 0, 1)
    assert [item["amount"] for item in listed(service, owner)] == [5.0]
    assert bank.report(row, accounts=accounts) == (0, 0, 2)
    counts = service.get("/v2/banking/accounts", owner.key).json()["data"]
    assert [item["extra"]["transactions_count"]["pending"] for item in counts] == [0, 0]
    assert len(listed(service, stranger)) == 1


def test_rows_are_found_in_whatever_pieces_they_come(
    service: Service, owner: Organization, monkeypatch: pytest.MonkeyPatch
) -> None:
    bank = Bank(service)
    every_day = [booking(100 + day, f"SVWZ+Tag {day}", day) for day in range(40)]
    row = bank.connected(owner, *every_day)
    account = service.get("/v2/banking/accounts", owner.key).json()["data"][0]
    monkeypatch.setattr(ingest, "CHUNK", 2)
    for order in (every_day, every_day[::-1], every_day[20:] + every_day[:20], every_day[::7] + every_day[1::7]):
        assert bank.report(row, *order) == (0, 0, 0)
    scattered = [every_day[day] for day in (20, 21, 5, 36, 13, 28, 12, 29, 39)]
    assert bank.report(row, *scattered) == (0, 0, 0)
    assert bank.report(row, *scattered, booking(999)) == (1, 0, 0)
    assert len(listed(service, owner)) == 41
    assert service.get("/v2/banking/accounts", owner.key).json()["data"][0]["id"] == account["id"]
