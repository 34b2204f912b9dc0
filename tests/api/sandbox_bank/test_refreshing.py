"""The sandbox bank after the connection is made: by user name, by command, by its clock; and reconnects."""

from __future__ import annotations

from datetime import date

import pytest

from kontobahn.bank_providers.sandbox import bank, store
from kontobahn.bank_providers.sandbox.rules import Booking
from kontobahn.clock import DAY, berlin_date
from kontobahn.db import Tx
from tests.harness import Organization, Service
from tests.sandbox_visitor import Visitor, events, query_of

CONNECTIONS = "/v2/banking/connections"
one_engine = pytest.mark.parametrize("engine", ["sqlite"], indirect=True)


def names(service: Service, owner: Organization) -> list[str]:
    return [name for name, _ in events(service, owner)]


def test_a_refresh_brings_what_was_booked_since(service: Service, visitor: Visitor, owner: Organization) -> None:
    connection = visitor.connect(owner, "notan", accounts=(0,))
    before = visitor.transactions(owner, connection["id"], sort="id")
    too_early = service.post(f"{CONNECTIONS}/{connection['id']}/refresh", owner.key)
    assert (too_early.status_code, "next_refresh_possible_at" in too_early.json()) == (409, True)

    def book(tx: Tx) -> None:
        account = store.accounts_of_connection(tx, visitor.connection().ref)[0]
        bank.book(tx, account, Booking(date(2026, 3, 1), 1250, "Leise gebucht"), quietly=True)

    visitor.at_bank(book)
    assert visitor.transactions(owner, connection["id"], sort="id") == before
    assert visitor.refresh(owner, connection["id"]).status_code == 202
    [new] = visitor.transactions(owner, connection["id"], sort="id", from_id=before[-1]["id"])
    assert (new["description"], new["amount"]) == ("Leise gebucht", 12.5)
    assert names(service, owner) == ["refresh_complete", "refresh_complete"]
    assert events(service, owner)[-1][1]["refresh_type"] == "manual"


def test_pending_bookings_are_posted_by_the_next_refresh(visitor: Visitor, owner: Organization) -> None:
    connection = visitor.connect(owner, "pending", accounts=(0,))
    rows = visitor.transactions(owner, connection["id"], sort="id")
    waiting = [row["id"] for row in rows if row["status"] == "pending"]
    assert len(waiting) == 3
    visitor.refresh(owner, connection["id"])
    after = {row["id"]: row["status"] for row in visitor.transactions(owner, connection["id"])}
    assert [after[number] for number in waiting] == ["posted"] * 3
    assert len(after) == len(rows)


def test_back_dated_and_repeated_bookings_arrive_with_higher_ids(visitor: Visitor, service: Service) -> None:
    for user in ("backdated", "duplicate"):
        owner = service.organization(user)
        connection = visitor.connect(owner, user, accounts=(0,))
        last = visitor.transactions(owner, connection["id"], sort="id")[-1]
        visitor.refresh(owner, connection["id"])
        [new] = visitor.transactions(owner, connection["id"], sort="id", from_id=last["id"])
        today = berlin_date(service.clock.now())
        if user == "backdated":
            assert (today - date.fromisoformat(new["made_on"])).days == bank.BACKDATED_DAYS
        else:
            assert new["duplicated"] is True
            assert (new["description"], new["amount"]) == (last["description"], last["amount"])


@one_engine
@pytest.mark.parametrize(
    ("user", "error_class", "status"),
    [("flaky", "ProviderError", "active"), ("revoked", "AispConsentRevoked", "disabled"),
     ("disabled", "ProviderDisabled", "disabled")],
)  # fmt: skip
def test_a_refresh_that_fails(
    service: Service, visitor: Visitor, owner: Organization, user: str, error_class: str, status: str
) -> None:
    connection = visitor.connect(owner, user)
    visitor.refresh(owner, connection["id"])
    shown = visitor.shown(owner, connection["id"])
    assert (shown["status"], shown["error_class"]) == (status, error_class)
    assert names(service, owner) == ["refresh_complete", "connection_error"]
    if user == "flaky":
        visitor.refresh(owner, connection["id"])
        assert visitor.shown(owner, connection["id"])["error_class"] is None


@one_engine
def test_a_bank_that_destroys_the_connection(service: Service, visitor: Visitor, owner: Organization) -> None:
    connection = visitor.connect(owner, "destroy")
    visitor.refresh(owner, connection["id"])
    assert service.get(f"{CONNECTIONS}/{connection['id']}", owner.key).status_code == 404
    assert names(service, owner) == ["refresh_complete", "connection_destroyed"]
    assert visitor.accounts(owner) == []


@one_engine
def test_a_slow_bank_answers_when_its_time_has_come(visitor: Visitor, owner: Organization) -> None:
    started = visitor.start(owner, provider_code="musterbank", return_to="https://app.muster.example/")
    back = visitor.finish(started["connect_url"], "slow")
    assert query_of(back) == {"pending_token": started["pending_token"]}
    assert visitor.shown(owner, started["pending_token"])["status"] == "pending_connect"
    visitor.later(seconds=19)
    assert visitor.shown(owner, started["pending_token"])["status"] == "pending_connect"
    visitor.later(seconds=1)
    assert visitor.shown(owner, started["pending_token"])["status"] == "active"


@one_engine
def test_an_empty_account_and_a_full_one(service: Service, visitor: Visitor) -> None:
    for user, count in (("empty", 0), ("many", 5000)):
        owner = service.organization(user)
        connection = visitor.connect(owner, user)
        [account] = visitor.accounts(owner)
        assert account["extra"]["transactions_count"] == {"posted": count, "pending": 0}
        assert len(visitor.transactions(owner, connection["id"])) == count


def test_an_expired_consent_is_reported_at_the_refresh_and_renewed_by_a_reconnect(
    service: Service, visitor: Visitor, owner: Organization
) -> None:
    connection = visitor.connect(owner, "expired")
    visitor.refresh(owner, connection["id"])
    shown = visitor.shown(owner, connection["id"])
    assert (shown["status"], shown["error_class"]) == ("inactive", "AispConsentExpired")

    rows, accounts = visitor.transactions(owner, connection["id"]), visitor.accounts(owner)
    again = service.post(f"{CONNECTIONS}/{connection['id']}/reconnect", owner.key, json={}).json()
    assert visitor.shown(owner, connection["id"])["status"] == "pending"
    assert "anderen Benutzer" in visitor.sign_in(again["connect_url"], "demo").text
    visitor.finish(again["connect_url"], "expired")
    renewed = visitor.shown(owner, connection["id"])
    assert (renewed["id"], renewed["status"], renewed["error_class"]) == (connection["id"], "active", None)
    assert visitor.shown(owner, again["pending_token"])["id"] == connection["id"]
    assert [one["id"] for one in visitor.accounts(owner)] == [one["id"] for one in accounts]
    assert [one["id"] for one in visitor.transactions(owner, connection["id"])] == [one["id"] for one in rows]


@one_engine
def test_a_reconnect_that_fails_leaves_the_connection_inactive(
    service: Service, visitor: Visitor, owner: Organization
) -> None:
    connection = visitor.connect(owner)
    visitor.at_bank(lambda tx: bank.expire_consent(tx, visitor.connection()))
    again = service.post(f"{CONNECTIONS}/{connection['id']}/reconnect", owner.key, json={}).json()
    visitor.sign_in(again["connect_url"], "wrong")
    shown = visitor.shown(owner, connection["id"])
    assert (shown["status"], shown["error_class"]) == ("inactive", "InvalidCredentials")


@one_engine
def test_the_clock_can_be_moved_past_the_end_of_a_consent(visitor: Visitor, owner: Organization) -> None:
    connection = visitor.connect(owner)
    visitor.later(seconds=179 * DAY // 1_000_000)
    assert visitor.shown(owner, connection["id"])["status"] == "active"
    visitor.later(seconds=DAY // 1_000_000)
    shown = visitor.shown(owner, connection["id"])
    assert (shown["status"], shown["error_class"]) == ("inactive", "AispConsentExpired")


def test_a_deleted_connection_is_gone_at_the_bank_too(service: Service, visitor: Visitor, owner: Organization) -> None:
    connection = visitor.connect(owner)
    assert service.request("DELETE", f"{CONNECTIONS}/{connection['id']}", owner.key).status_code == 200
    left = service.db.read_now(
        lambda tx: [
            tx.one(f"SELECT COUNT(*) FROM sandbox_{table}")[0]  # type: ignore[index]
            for table in ("connections", "accounts", "bookings")
        ]
    )
    assert left == [0, 0, 0]
