"""Reports of providers through the grown port: pages, partial data, changing references, errors that need a person, announced ends."""

from __future__ import annotations

import json
from datetime import date
from typing import Any

import pytest

from kontobahn.banking.connections.store import ConnectionRow
from kontobahn.banking.payments.bank import poll_due_payments
from kontobahn.banking.provider import (
    CANNOT_BE_KNOWN,
    LOCKED,
    ConnectionFinished,
    PersonNeeded,
    ProviderDown,
    ProviderRefused,
    Snapshot,
)  # fmt: skip
from kontobahn.banking.reports import refresh
from kontobahn.clock import DAY, HOUR
from tests.api.banking.test_connections import bank, listed, owner
from tests.bank_builder import IBAN, SECOND_IBAN, Bank, account_facts, account_id, events, facts, order
from tests.harness import START, Organization, Service

__all__ = ["bank", "owner"]


def transactions(service: Service, owner: Organization, row: ConnectionRow) -> list[dict[str, Any]]:
    answer = service.get("/v2/banking/transactions", owner.key, params={"connection_id": row.id, "sort": "id"})
    assert answer.status_code == 200, answer.text
    return list(answer.json()["data"])


def news(bank: Bank, row: ConnectionRow) -> None:
    assert bank.deliver(kind="ConnectionFinished", provider_ref=row.provider_ref).status_code == 200


def test_pages_are_one_snapshot_and_a_partial_one_removes_nothing_pending(
    service: Service, bank: Bank, owner: Organization
) -> None:
    row = bank.connected(owner, facts(-700, "Vorgemerkt", status="pending"), facts(1))
    whole = bank.provider.snapshots[row.provider_ref]
    bank.provider.snapshots[row.provider_ref] = whole._replace(transactions=[facts(2)], next_page="two")
    bank.provider.pages["two"] = whole._replace(transactions=[facts(3)], accounts=[], is_partial=True)
    news(bank, row)
    assert [one["amount"] for one in transactions(service, owner, row)] == [-7.0, 0.01, 0.02, 0.03]
    # The same pages, complete this time: what they leave out was withdrawn.
    bank.provider.pages["two"] = whole._replace(transactions=[facts(3)], accounts=[])
    news(bank, row)
    assert [one["amount"] for one in transactions(service, owner, row)] == [0.01, 0.02, 0.03]
    # A list that leads back to itself is no list: nothing of it is stored.
    bank.provider.pages["two"] = whole._replace(transactions=[facts(4)], next_page="two")
    news(bank, row)
    assert len(transactions(service, owner, row)) == 3


def test_what_was_fetched_is_not_asked_for_again_but_for_two_weeks(
    service: Service, bank: Bank, owner: Organization
) -> None:
    row = bank.connected(owner, facts(1))
    news(bank, row)
    news(bank, row)
    assert bank.provider.asked_since == [None, date(2026, 2, 16)]
    # An account that appears later brings its whole history with the fetch after.
    bank.provider.snapshots[row.provider_ref] = bank.provider.snapshots[row.provider_ref]._replace(
        accounts=[account_facts(), account_facts("spar", SECOND_IBAN)]
    )
    news(bank, row)
    news(bank, row)
    assert bank.provider.asked_since[2:] == [date(2026, 2, 16), None]


def test_accounts_are_recognised_under_other_references(service: Service, bank: Bank, owner: Organization) -> None:
    first = [account_facts("s1-a", identity="hash-a", iban=None), account_facts("s1-b", IBAN)]
    row = bank.connected(owner, facts(1, account_ref="s1-a"), facts(2, account_ref="s1-b"), accounts=first)
    before = [one["id"] for one in service.get("/v2/banking/accounts", owner.key).json()["data"]]
    # The next session names both anew, and has a third account with the IBAN of the second in another currency.
    accounts = [
        account_facts("s2-b", IBAN), account_facts("s2-a", identity="hash-a", iban=None),
        account_facts("s2-c", IBAN, currency_code="USD"),
    ]  # fmt: skip
    bank.report(row, facts(1, account_ref="s2-a"), facts(2, account_ref="s2-b"), accounts=accounts)
    after = [one["id"] for one in service.get("/v2/banking/accounts", owner.key).json()["data"]]
    assert after[:2] == before
    assert len(after) == 3
    assert len(transactions(service, owner, row)) == 2
    # Two that could be meant: neither is.
    twins = [account_facts("s3-1", IBAN), account_facts("s3-2", IBAN)]
    bank.report(row, accounts=twins)
    assert len(service.get("/v2/banking/accounts", owner.key).json()["data"]) == 5


def test_what_a_provider_says_of_duplicates_counts(service: Service, bank: Bank, owner: Organization) -> None:
    row = bank.connected(owner, facts(1, provider_ref="a", duplicated=True), facts(2, provider_ref="b"))
    bank.report(row, facts(1, provider_ref="a"), facts(2, provider_ref="b", duplicated=True))
    assert [one["duplicated"] for one in transactions(service, owner, row)] == [True, True]
    bank.report(row, facts(1, provider_ref="a", duplicated=False), facts(2, provider_ref="b"))
    assert [one["duplicated"] for one in transactions(service, owner, row)] == [False, True]


def test_a_refresh_may_report_at_once_without_a_delivery(service: Service, bank: Bank, owner: Organization) -> None:
    row = bank.connected(owner, facts(1), next_refresh_possible_at=START, consent_expires_at=None)
    snapshot = bank.provider.snapshots[row.provider_ref]._replace(transactions=[facts(1), facts(2)])
    bank.provider.answers = [ConnectionFinished(row.provider_ref, snapshot=snapshot)]
    answer = service.post(f"/v2/banking/connections/{row.id}/refresh", owner.key)
    assert answer.status_code == 202
    assert answer.json()["data"]["consent_expires_at"] is None
    assert len(transactions(service, owner, row)) == 2
    assert [event["event"] for event in events(service, owner)] == ["refresh_complete"]


@pytest.mark.parametrize(
    "error", [PersonNeeded("a TAN", "https://bank.example/here"), ProviderRefused(LOCKED, "locked")]
)
@pytest.mark.either_engine
def test_what_needs_the_person_is_never_tried_again_by_a_machine(
    service: Service, bank: Bank, owner: Organization, error: ProviderRefused
) -> None:
    row = bank.connected(owner)
    bank.provider.refusal = error
    service.clock.advance(seconds=6 * HOUR // 1_000_000)
    for _ in range(3):
        service.run(refresh.refresh_automatically(service.application.context))
        service.clock.advance(seconds=DAY // 1_000_000)
    assert bank.provider.asked.count(("refresh", row.provider_ref, "automatic")) == 1
    [now] = listed(service, owner)
    assert (now["status"], now["error_class"]) == ("inactive", error.error_class)
    [event] = events(service, owner)
    assert event["data"]["error_class"] == error.error_class


def test_a_person_who_asks_is_told_where_to_go(service: Service, bank: Bank, owner: Organization) -> None:
    row = bank.connected(owner, next_refresh_possible_at=START)
    bank.provider.refusal = PersonNeeded("a TAN", "https://bank.example/here")
    answer = service.post(f"/v2/banking/connections/{row.id}/refresh", owner.key)
    assert answer.status_code == 409
    assert answer.json()["connect_url"] == "https://bank.example/here"


def test_data_that_the_bank_does_not_hand_out_is_an_error_of_the_connection(
    service: Service, bank: Bank, owner: Organization
) -> None:
    row = bank.connected(owner)
    bank.provider.fetch_refusal = ProviderRefused("AispConsentExpired", "the consent has ended")
    news(bank, row)
    assert [(one["status"], one["error_class"]) for one in listed(service, owner)] == [
        ("inactive", "AispConsentExpired")
    ]


@pytest.mark.either_engine
def test_a_payment_that_cannot_be_looked_for_waits_for_its_debit(
    service: Service, bank: Bank, owner: Organization
) -> None:
    row = bank.connected(owner)
    bank.provider.creation, bank.provider.found = ProviderDown("no answer"), CANNOT_BE_KNOWN
    paid = service.post("/v2/banking/payments", owner.key, json=order(account_id(service, owner))).json()["data"]
    service.clock.advance(seconds=3 * DAY // 1_000_000)
    service.run(poll_due_payments(service.application.context))

    def status() -> str:
        return str(service.get(f"/v2/banking/payments/{paid['id']}", owner.key).json()["data"]["status"])

    assert status() == "initiated"
    bank.report(row, facts(-1234, end_to_end_id=paid["end_to_end_id"]))
    assert status() == "settled"


def test_the_end_of_a_consent_is_announced_twice_and_not_to_the_one_url(
    service: Service, bank: Bank, owner: Organization
) -> None:
    hook = "https://93.184.216.34/events"
    service.request("PUT", "/v2/banking/webhook-url", owner.key, json={"webhook_url": hook})
    further = service.post("/v2/banking/webhook-endpoints", owner.key, json={"url": hook}).json()["data"]["id"]
    row = bank.connected(owner, consent_expires_at=START + 20 * DAY)
    bank.connected(service.organization(), consent_expires_at=None, ref="tells-none")

    def announce(days_passed: int) -> int:
        service.clock.advance(seconds=days_passed * DAY // 1_000_000)
        return int(service.run(refresh.announce_ends(service.application.context)))

    # 20, 14, 13, 3, 2 and 0 days before the end.
    assert [announce(days) for days in (0, 6, 1, 10, 1, 2)] == [0, 1, 0, 1, 0, 0]
    told = [event["data"] for event in events(service, owner)]
    assert [(one["connection_id"], one["days"]) for one in told] == [(row.id, 14), (row.id, 3)]
    receivers = service.db.read_now(lambda tx: tx.all("SELECT receiver_id FROM webhook_deliveries"))
    assert {receiver for (receiver,) in receivers} == {further}
    # A renewed consent is announced anew.
    bank.provider.snapshots[row.provider_ref] = Snapshot(
        bank.connection_facts(row.provider_ref, consent_expires_at=START + 30 * DAY), [account_facts()], []
    )
    news(bank, row)
    assert announce(0) == 1
    assert json.dumps(events(service, owner)[-1]["data"]["days"]) == "14"


@pytest.mark.either_engine
def test_what_another_process_has_announced_meanwhile_is_announced_no_more(
    service: Service, bank: Bank, owner: Organization, monkeypatch: pytest.MonkeyPatch
) -> None:
    bank.connected(owner, consent_expires_at=START + 10 * DAY)
    found = service.db.read_now(refresh._ending_soon)
    assert service.run(refresh.announce_ends(service.application.context)) == 1
    monkeypatch.setattr(refresh, "_ending_soon", lambda tx: found)
    assert service.run(refresh.announce_ends(service.application.context)) == 0
    assert len(events(service, owner)) == 1
