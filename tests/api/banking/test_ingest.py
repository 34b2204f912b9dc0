"""Ingest: however often and in whatever form a bank reports a booking, it is one transaction, and none is missed."""

from __future__ import annotations

import threading
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kontobahn.banking.transactions.wire import fingerprint_of
from kontobahn.db import Tx
from tests.bank_builder import SECOND_IBAN, Bank, account_facts, account_id, facts
from tests.harness import Organization, Service

LIST = "/v2/banking/transactions"


@pytest.fixture
def bank(service: Service) -> Bank:
    return Bank(service)


@pytest.fixture
def owner(service: Service) -> Organization:
    return service.organization(credits_granted=100_000)


def listed(service: Service, owner: Organization, **query: str) -> list[dict[str, Any]]:
    answer = service.get(LIST, owner.key, params={"account_id": account_id(service, owner), "sort": "id", **query})
    assert answer.status_code == 200, answer.text
    return list(answer.json()["data"])


def test_overlapping_deliveries_make_no_duplicates(service: Service, bank: Bank, owner: Organization) -> None:
    days = [facts(number, f"Nr. {number}", f"2026-03-{number:02d}") for number in range(1, 21)]
    row = bank.connected(owner, *days[:10])
    assert bank.report(row, *days[5:15]).added == 5
    assert bank.report(row, *days[10:], *days[:10]).added == 5
    assert bank.report(row, *days) == (0, 0, 0)
    assert [item["description"] for item in listed(service, owner)] == [f"Nr. {number}" for number in range(1, 21)]


def test_two_equal_bookings_of_one_day_are_two(service: Service, bank: Bank, owner: Organization) -> None:
    coffee = facts(-2_50, "Kaffee")
    row = bank.connected(owner, coffee, coffee)
    assert bank.report(row, coffee, coffee) == (0, 0, 0)
    assert bank.report(row, coffee, coffee, coffee).added == 1
    assert len(listed(service, owner)) == 3


def test_the_bank_s_own_ids_distinguish_equal_bookings(service: Service, bank: Bank, owner: Organization) -> None:
    one, two = (facts(-2_50, "Kaffee", provider_ref=ref) for ref in ("a", "b"))
    row = bank.connected(owner, one, two)
    assert bank.report(row, two) == (0, 0, 0)
    assert [item["duplicated"] for item in listed(service, owner)] == [False, False]


def test_a_booking_reported_again_under_another_id_is_marked(service: Service, bank: Bank, owner: Organization) -> None:
    row = bank.connected(owner, facts(-2_50, "Kaffee", provider_ref="a"))
    bank.report(row, facts(-2_50, "Kaffee", provider_ref="a"), facts(-2_50, "Kaffee", provider_ref="again"))
    assert [item["duplicated"] for item in listed(service, owner)] == [False, True]


def test_an_id_that_the_bank_uses_again_is_another_booking(service: Service, bank: Bank, owner: Organization) -> None:
    row = bank.connected(owner, facts(-1_00, "Gebühr Januar", "2026-01-31", provider_ref="9998"))
    fee = facts(-1_00, "Gebühr Februar", "2026-02-28", provider_ref="9998")
    assert bank.report(row, fee).added == 1
    assert bank.report(row, facts(-9_00, "ganz anders", "2026-02-28", provider_ref="9998")).added == 1


def test_pending_becomes_posted_in_its_own_row(service: Service, bank: Bank, owner: Organization) -> None:
    row = bank.connected(
        owner,
        facts(-5_00, "nach Kennung", "2026-03-01", status="pending", provider_ref="p1"),
        facts(-6_00, "nach Referenz", "2026-03-01", status="pending", end_to_end_id="E2E-1"),
        facts(-7_00, "nach  Text", "2026-03-01", status="pending"),
    )
    counts = bank.report(
        row,
        facts(-5_10, "nach Kennung, mit Trinkgeld", "2026-03-12", provider_ref="p1"),
        facts(-6_00, "anders geschrieben", "2026-03-03", end_to_end_id="E2E-1"),
        facts(-7_00, "nach Text", "2026-03-05"),
    )
    assert counts == (0, 3, 0)
    assert [(item["status"], item["amount"]) for item in listed(service, owner)] == [
        ("posted", -5.1), ("posted", -6.0), ("posted", -7.0),
    ]  # fmt: skip
    [account] = service.get("/v2/banking/accounts", owner.key).json()["data"]
    assert account["extra"]["transactions_count"] == {"posted": 3, "pending": 0}


def test_what_a_statement_contains_stays_in_it(service: Service, bank: Bank, owner: Organization) -> None:
    """Two statements with the same booking have two: also if it was first told during the day, or told again since."""
    row = bank.connected(owner, facts(500, "SVWZ+Miete"))
    assert bank.report(row, facts(500, "SVWZ+Miete", statement="s1")) == (0, 0, 0)
    assert bank.report(row, facts(500, "SVWZ+Miete", category="rent")) == (0, 1, 0)
    assert bank.report(row, facts(500, "SVWZ+Miete", statement="s2", category="rent")) == (1, 0, 0)
    assert len(listed(service, owner)) == 2


def test_each_account_counts_its_own_transactions(service: Service, bank: Bank, owner: Organization) -> None:
    accounts = [account_facts(), account_facts("spar", SECOND_IBAN)]
    bank.connected(owner, facts(1), facts(2, status="pending"), facts(3, account_ref="spar"), accounts=accounts)
    counted = [
        account["extra"]["transactions_count"]
        for account in service.get("/v2/banking/accounts", owner.key).json()["data"]
    ]
    assert counted == [{"posted": 1, "pending": 1}, {"posted": 1, "pending": 0}]


def test_bookings_stored_by_earlier_versions_are_recognised() -> None:
    """Their digests are in the database: computed otherwise, every booking would be taken a second time."""
    booking = facts(-12_34, "SVWZ+Miete  März\nHaus 3", "2026-03-01", end_to_end_id="E-1")
    assert fingerprint_of(booking) == "4e1dea264ca5bae1ec3a40f781e03111"


def test_posted_never_becomes_pending_again(service: Service, bank: Bank, owner: Organization) -> None:
    row = bank.connected(owner, facts(-5_00, "Karte", provider_ref="x"))
    bank.report(row, facts(-5_00, "Karte", provider_ref="x", status="pending"))
    assert [item["status"] for item in listed(service, owner)] == ["posted"]


def test_a_late_back_dated_arrival_gets_a_higher_id(service: Service, bank: Bank, owner: Organization) -> None:
    row = bank.connected(owner, facts(1, "neu", "2026-03-01"))
    [first] = listed(service, owner)
    bank.report(row, facts(1, "neu", "2026-03-01"), facts(2, "alt", "2025-12-24"))
    [late] = listed(service, owner, from_id=first["id"])
    assert late["made_on"] == "2025-12-24"
    assert int(late["id"]) > int(first["id"])


def test_what_is_stored_for_the_answer_agrees_with_what_is_searched(
    service: Service, bank: Bank, owner: Organization
) -> None:
    row = bank.connected(owner, facts(-5_00, "EREF+E1 SVWZ+a", status="pending"), facts(7, "b", provider_ref="r"))
    bank.report(row, facts(-5_00, "EREF+E1 SVWZ+a", "2026-03-02"), facts(7, "b geändert", provider_ref="r"))

    def stored(tx: Tx) -> list[tuple[Any, ...]]:
        return tx.all(
            "SELECT id, account_id, made_on, amount_minor, status, end_to_end_id, payment_id, wire FROM banking_transactions"
        )

    rows = service.db.read_now(stored)
    assert len(rows) == 2
    for number, account, made_on, amount_minor, status, end_to_end_id, payment_id, wire in rows:
        answer = msgspec.json.decode(wire)
        assert (answer["id"], answer["account_id"], answer["made_on"]) == (str(number), str(account), made_on)
        assert (round(answer["amount"] * 100), answer["status"]) == (amount_minor, status)
        assert (answer["extra"]["end_to_end_id"], answer["payment_id"]) == (end_to_end_id, payment_id)


def test_a_reader_walking_by_id_sees_every_row_once_while_eight_write(
    service: Service, bank: Bank, owner: Organization
) -> None:
    writers, rounds, each = 8, 6, 5
    rows = [bank.connected(owner, ref=f"bank-{number}") for number in range(writers)]
    errors: list[BaseException] = []

    def write(number: int) -> None:
        try:
            reported = []
            for step in range(rounds):
                reported += [facts(number + 1, f"{number}/{step}/{item}") for item in range(each)]
                bank.report(rows[number], *reported)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=write, args=(number,)) for number in range(writers)]
    seen: list[int] = []
    cursor = 0
    for thread in threads:
        thread.start()
    # The feed is one order over all accounts of the organisation; ids come from the same counters.
    while any(thread.is_alive() for thread in threads):
        cursor = _walk(service, owner, cursor, seen)
    for thread in threads:
        thread.join()
    _walk(service, owner, cursor, seen)
    assert not errors
    assert len(seen) == writers * rounds * each
    assert seen == sorted(set(seen))
    for row in rows:
        own = service.get(LIST, owner.key, params={"connection_id": row.id, "sort": "id"}).json()["data"]
        assert len(own) == rounds * each


def test_from_id_misses_nothing_while_eight_write_to_one_account(
    service: Service, bank: Bank, owner: Organization
) -> None:
    writers, rounds, each = 8, 5, 4
    row = bank.connected(owner)
    account = account_id(service, owner)

    def write(number: int) -> None:
        for step in range(rounds):
            bank.report(row, *(facts(number + 1, f"{number}/{step}/{item}") for item in range(each)))

    threads = [threading.Thread(target=write, args=(number,)) for number in range(writers)]
    seen: list[int] = []
    for thread in threads:
        thread.start()
    while True:
        writing = any(thread.is_alive() for thread in threads)
        query = {"account_id": account, "sort": "id", "limit": "7", "from_id": str(seen[-1] if seen else 0)}
        page = [int(item["id"]) for item in service.get(LIST, owner.key, params=query).json()["data"]]
        seen += page
        if not writing and not page:
            break
    assert len(seen) == writers * rounds * each
    assert seen == sorted(set(seen))


def _walk(service: Service, owner: Organization, cursor: int, seen: list[int]) -> int:
    page = service.get(f"{LIST}/changes", owner.key, params={"cursor": str(cursor)}).json()
    seen += [int(item["id"]) for item in page["data"]]
    return int(page["cursor"])


_bookings = st.lists(st.tuples(st.integers(1, 28), st.integers(-3, 3).filter(bool), st.sampled_from("ab")), max_size=12)


@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(_bookings, st.lists(st.tuples(st.integers(0, 27), st.integers(1, 28)), max_size=6))
def test_windows_reported_in_any_order_give_the_same_result(
    service: Service, bookings: list[tuple[int, int, str]], windows: list[tuple[int, int]]
) -> None:
    """A bank reports whole days, in windows that overlap arbitrarily: in the end each booking is stored as often as it happened."""
    owner = service.organization(credits_granted=10)
    bank = Bank(service)
    row = bank.connected(owner)
    days = [facts(amount, text, f"2026-03-{day:02d}") for day, amount, text in bookings]
    for start, length in [*windows, (0, 31)]:
        bank.report(row, *(item for item in days if start < item.made_on.day <= start + length))
    found = sorted((item["made_on"], item["amount"], item["description"]) for item in listed(service, owner))
    assert found == sorted((item.made_on.isoformat(), item.amount_minor / 100, item.description) for item in days)
