"""Whoever follows the feed of changes, page by page and at any time, has in the end what the lists show."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from kontobahn.banking.connections.store import ConnectionRow
from tests.bank_builder import SECOND_IBAN, Bank, account_facts, facts
from tests.harness import Organization, Service

CHANGES = "/v2/banking/transactions/changes"
ACCOUNTS = [[account_facts()], [account_facts("spar", SECOND_IBAN)]]
# A booking: its day, its amount, and whether it is only announced.
bookings = st.sets(st.tuples(st.integers(1, 3), st.integers(1, 3), st.booleans()), max_size=4)
steps = st.one_of(
    st.tuples(st.just("report"), st.sampled_from([0, 1, 2]), bookings),
    st.tuples(st.just("read"), st.sampled_from(["everything", "account", "connection"]), st.integers(1, 3)),
)


ANNOUNCED = {(1, 1, True), (2, 2, True), (3, 3, True)}


class Follower:
    """Applies what the feed tells, and refuses what cannot be."""

    def __init__(self, service: Service, key: str, accounts: list[str], **only: str) -> None:
        self.service, self.key, self.accounts, self.only = service, key, accounts, only
        self.cursor, self.has = "", dict[str, Any]()

    def read(self, limit: int) -> bool:
        """Reads one page, and returns whether there are more."""
        query = {**self.only, "cursor": self.cursor, "limit": str(limit)}
        answer = self.service.get(CHANGES, self.key, params=query)
        assert answer.status_code == 200, answer.text
        page = answer.json()
        assert len(page["data"]) <= limit
        assert int(page["cursor"]) >= int(self.cursor or 0)
        for change in page["data"]:
            assert change["account_id"] in self.accounts
            # What changed again while it was left to a later page is modified or removed there, and was never added.
            assert change["change"] != "added" or change["id"] not in self.has, "added is what was not there"
            if change["change"] == "removed":
                assert change["transaction"] is None
                self.has.pop(change["id"], None)
            else:
                assert change["transaction"]["id"] == change["id"]
                assert change["transaction"]["account_id"] == change["account_id"]
                self.has[change["id"]] = change["transaction"]
        self.cursor = page["cursor"]
        return bool(page["has_more"])

    def finish(self, expected: dict[str, Any]) -> None:
        while self.read(2):
            pass
        assert self.has == expected
        before = self.cursor
        assert not self.read(1)
        assert self.cursor == before


class World:
    """An organisation with two connections, and a stranger whose bank reports too."""

    def __init__(self, service: Service, bank: Bank, number: int) -> None:
        self.service, self.bank = service, bank
        self.owner, self.stranger = (service.organization(name, credits_granted=10_000) for name in ("A", "B"))
        self.rows: list[ConnectionRow] = [
            bank.connected(self.owner, ref=f"{number}-1", accounts=ACCOUNTS[0]),
            bank.connected(self.owner, ref=f"{number}-2", accounts=ACCOUNTS[1]),
            bank.connected(self.stranger, ref=f"{number}-3", accounts=ACCOUNTS[0]),
        ]
        first, second = self.accounts(self.owner)
        self.followers = {
            "everything": Follower(service, self.owner.key, [first, second]),
            "account": Follower(service, self.owner.key, [first], account_id=first),
            "connection": Follower(service, self.owner.key, [second], connection_id=self.rows[1].id),
        }

    def accounts(self, owner: Organization) -> list[str]:
        return [account["id"] for account in self.service.get("/v2/banking/accounts", owner.key).json()["data"]]

    def report(self, which: int, reported: set[tuple[int, int, bool]]) -> None:
        account = ACCOUNTS[which % 2 if which < 2 else 0]
        told = [
            facts(
                amount, f"SVWZ+{day} {amount}", day=f"2026-03-0{day}", account_ref=account[0].provider_ref,
                status="pending" if is_pending else "posted",
            )
            for day, amount, is_pending in sorted(reported)
        ]  # fmt: skip
        self.bank.report(self.rows[which], *told, accounts=account)

    def listed(self, account: str) -> dict[str, Any]:
        query = {"account_id": account}
        found = self.service.get("/v2/banking/transactions", self.owner.key, params=query).json()["data"]
        return {row["id"]: row for row in found}


@pytest.mark.parametrize("engine", ["sqlite"], indirect=True)
@settings(max_examples=20, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(told=st.lists(steps, min_size=2, max_size=14))
@example([("report", 0, ANNOUNCED), ("read", "everything", 3), ("report", 0, set()), ("read", "everything", 1)])
@example([("report", 1, ANNOUNCED), ("report", 0, ANNOUNCED), ("report", 0, set()), ("read", "connection", 3)])
def test_a_follower_has_what_the_lists_show(service: Service, told: list[tuple[str, Any, Any]]) -> None:
    bank = Bank(service)
    number = len(service.db.read_now(lambda tx: tx.all("SELECT 1 FROM organizations")))
    world = World(service, bank, number)
    for action, which, what in told:
        if action == "report":
            world.report(which, what)
        else:
            world.followers[which].read(what)
    first, second = world.accounts(world.owner)
    one, two = world.listed(first), world.listed(second)
    world.followers["everything"].finish({**one, **two})
    world.followers["account"].finish(one)
    world.followers["connection"].finish(two)


@pytest.mark.parametrize("engine", ["sqlite"], indirect=True)
def test_a_cursor_counts_the_changes_of_one_organisation(service: Service) -> None:
    bank = Bank(service)
    one, two = service.organization("A"), service.organization("B")
    for owner in (one, two):
        bank.connected(owner, facts(1))
    agency = service.agency(one, two)
    refused = service.get(CHANGES, agency.key)
    assert (refused.status_code, refused.json()["field"]) == (400, "organization_id")
    for owner in (one, two):
        assert len(service.get(CHANGES, agency.key, params={"organization_id": owner.id}).json()["data"]) == 1
    only_client = service.agency(one)
    assert service.get(CHANGES, only_client.key).status_code == 400, "the agency's own changes have another count"


@pytest.mark.parametrize("engine", ["sqlite"], indirect=True)
def test_a_page_begins_right_after_the_last_change_that_was_read(service: Service) -> None:
    bank = Bank(service)
    owner = service.organization(credits_granted=100)
    first, second = facts(1, "SVWZ+1", status="pending"), facts(2, "SVWZ+2", status="pending")
    row = bank.connected(owner, first, second)

    def changes(cursor: str, limit: int) -> Any:
        answer = service.get(CHANGES, owner.key, params={"cursor": cursor, "limit": str(limit)})
        return answer.json() if answer.status_code == 200 else answer.json()["field"]

    exact = changes("", 2)
    assert [change["change"] for change in exact["data"]] == ["added", "added"]
    assert exact["has_more"] is False
    assert changes("", 1)["has_more"] is True
    # The second was the last that was read: that it changes and goes is news.
    bank.report(row, first, facts(2, "SVWZ+2", status="pending", category="fees"))
    after = changes(exact["cursor"], 10)
    assert [change["change"] for change in after["data"]] == ["modified"]
    bank.report(row, first)
    assert [change["change"] for change in changes(exact["cursor"], 10)["data"]] == ["removed"]
    assert [changes("", limit) for limit in (0, 10_001)] == ["limit", "limit"]
    assert len(changes("", 10_000)["data"]) == 1


@pytest.mark.parametrize("engine", ["sqlite"], indirect=True)
def test_what_left_another_account_is_no_news_of_this_one(service: Service) -> None:
    bank = Bank(service)
    owner = service.organization(credits_granted=100)
    both = [ACCOUNTS[0][0], ACCOUNTS[1][0]]
    announced = [facts(1, "SVWZ+1", status="pending"), facts(2, "SVWZ+2", status="pending", account_ref="spar")]
    row = bank.connected(owner, *announced, accounts=both)
    giro, spar = (account["id"] for account in service.get("/v2/banking/accounts", owner.key).json()["data"])
    cursor = service.get(CHANGES, owner.key).json()["cursor"]
    bank.report(row, announced[0], accounts=both)
    for account, told in ((giro, []), (spar, ["removed"])):
        found = service.get(CHANGES, owner.key, params={"account_id": account, "cursor": cursor}).json()["data"]
        assert [change["change"] for change in found] == told
