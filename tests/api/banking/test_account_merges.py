"""Accounts that stand twice become one by a person: each booking once, everything that names them follows, and it can be undone."""

from __future__ import annotations

import json
from typing import Any

import pytest
from typer.testing import CliRunner

from kontobahn.access.audit import SYSTEM
from kontobahn.access.principal import Principal
from kontobahn.banking import merges
from kontobahn.banking.connections import store as connections
from kontobahn.banking.provider import Snapshot
from kontobahn.banking.reports import intake
from kontobahn.cli.entry import command_line
from kontobahn.clock import DAY
from kontobahn.db import Tx
from kontobahn.reconciliation import account_merges
from tests.bank_builder import IBAN, SECOND_IBAN, account_facts, facts, order
from tests.file_bank import import_file
from tests.harness import Organization, Service
from tests.interleaving import on_postgres, overlap
from tests.ledger_builder import Books
from tests.reconciliation_desk import Clerk, item, paid
from tests.statement_builder import DAY as STATED
from tests.statement_builder import Booking, Sheet, camt, follow_up
from tests.twin_accounts import (
    ACCOUNTS,
    DAYS,
    EARLIER,
    GAS,
    LATER,
    MERGES,
    RENT,
    SHEET,
    TODAY,
    TRANSACTIONS,
    Twins,
    rows_of,
)  # fmt: skip


@pytest.fixture
def owner(service: Service) -> Organization:
    return service.organization(credits_granted=1000)


def test_each_booking_stands_once_and_the_old_id_keeps_its_meaning(service: Service, owner: Organization) -> None:
    twins = Twins(service, owner, EARLIER, RENT, GAS, LATER)
    shown = twins.preview()
    assert (shown["counts"]["same"], shown["counts"]["moved"], shown["problems"]) == (2, 0, [])
    assert {one["amount"] for one in shown["same"]} == {500.0, -20.0}
    seen = service.get(f"{TRANSACTIONS}/changes", owner.key).json()["cursor"]
    made = twins.merge()
    assert made["counts"] == shown["counts"]
    assert [row["id"] for row in twins.listed()] == [twins.fetched]
    assert twins.amounts(twins.fetched) == twins.amounts(twins.filed) == [-20.0, -3.0, 7.0, 500.0]
    assert service.get(f"{ACCOUNTS}/{twins.filed}", owner.key).json()["data"]["id"] == twins.fetched
    [account] = twins.listed()
    assert account["extra"]["transactions_count"] == {"posted": 4, "pending": 0}
    changes = twins.listed(f"{TRANSACTIONS}/changes", cursor=seen, account_id=twins.filed)
    # The two that the files had are gone, and the others have their statement now.
    assert sorted(one["change"] for one in changes) == ["modified", "modified", "removed", "removed"]
    stated = rows_of(service, "SELECT amount_minor FROM banking_transactions WHERE statement IS NOT NULL")
    assert sorted(amount for (amount,) in stated) == [-20_00, 500_00], "they stand in the statement of the files"
    # A file, and the bank: both doors lead into the one account, and add nothing that it has.
    assert import_file(service, owner, camt(SHEET)).added == 0
    assert twins.bank.report(twins.connection, EARLIER, RENT, GAS, LATER) == (0, 0, 0)
    follow = Sheet([Booking(-1_00, "Neu")], opening=SHEET.end, id="S-2", number=2, day=STATED)
    assert import_file(service, owner, camt(follow)).added == 1
    assert len(twins.listed()) == 1


def test_a_new_booking_by_either_door_goes_where_it_belongs_when_it_is_undone(
    service: Service, owner: Organization
) -> None:
    twins = Twins(service, owner, EARLIER, RENT)
    before = twins.state()
    made = twins.merge()
    assert made["undo_problem"] is None
    assert twins.undo(made).status_code == 200
    assert twins.state() == before
    made = twins.merge(twins.filed, twins.fetched)
    assert twins.amounts(twins.filed) == [-20.0, 7.0, 500.0]
    assert twins.bank.report(twins.connection, EARLIER, RENT, LATER).added == 1
    service.db.write_now(lambda tx: tx.run("UPDATE banking_connections SET fetched_at = ?", tx.now))
    assert twins.undo(made).status_code == 200
    assert twins.amounts(twins.fetched) == [-3.0, 7.0, 500.0]
    assert twins.amounts(twins.filed) == [-20.0, 500.0]
    # What the other might lack is asked for again, from the beginning.
    fetched = service.db.read_now(lambda tx: tx.all("SELECT fetched_at FROM banking_connections"))
    assert all(at is None for (at,) in fetched)
    [listed, *_] = twins.listed(MERGES)
    assert (listed["undone_at"] is not None, listed["undo_until"]) == (True, None)
    assert twins.undo(made).status_code == 409


def test_a_statement_that_has_come_since_stands_against_undoing(service: Service, owner: Organization) -> None:
    twins = Twins(service, owner, RENT)
    made = twins.merge()
    follow = Sheet([Booking(-1_00, "Neu")], opening=SHEET.end, id="S-2", number=2, day=STATED)
    import_file(service, owner, camt(follow))
    before = twins.state()
    refused = twins.undo(made)
    assert (refused.status_code, "statement has come since" in refused.text) == (409, True)
    assert twins.state() == before
    assert "statement has come since" in twins.listed(MERGES)[0]["undo_problem"]


def test_payments_follow_and_the_debit_is_theirs(service: Service, owner: Organization) -> None:
    twins = Twins(service, owner, RENT)
    payment = service.post("/v2/banking/payments", owner.key, json=order(twins.fetched)).json()["data"]
    made = twins.merge(twins.filed, twins.fetched)
    assert made["counts"]["payments"] == 1
    found = service.get(f"/v2/banking/payments/{payment['id']}", owner.key).json()["data"]
    assert found["account_id"] == twins.filed
    for account in (twins.filed, twins.fetched):
        assert [one["id"] for one in twins.listed("/v2/banking/payments", account_id=account)] == [payment["id"]]
    # By the old id, from the connection that can pay.
    second = service.post("/v2/banking/payments", owner.key, json=order(twins.fetched))
    assert (second.status_code, second.json()["data"]["account_id"]) == (201, twins.filed)
    assert twins.undo(made).status_code == 200
    assert len(twins.listed("/v2/banking/payments", account_id=twins.fetched)) == 2


def test_matches_and_settings_follow_their_transaction(service: Service, owner: Organization) -> None:
    clerk = Clerk(service, paid(119_00, "RE-2026-00123"), owner=owner)
    booking = next(row for row in service.get(TRANSACTIONS, owner.key, params={"account_id": clerk.account}).json()["data"]
                   if row["amount"] == 119.0)  # fmt: skip
    clerk.store_run()
    match = clerk.by_hand(119.0, item("RE-2026-00123", 119.0)).json()["data"]["id"]
    same = facts(119_00, booking["description"], booking["made_on"], provider_ref="x-1")
    twins = Twins(service, owner, same, sheet=None)
    filed, fetched = clerk.account, next(row["id"] for row in twins.listed() if row["id"] != clerk.account)
    before = twins.state()
    shown = twins.preview(fetched, filed)
    assert (shown["matches"], shown["problems"]) == (1, [])
    made = twins.merge(fetched, filed)
    # The row with the match stays, and so does the match.
    assert [row["id"] for row in twins.listed(TRANSACTIONS, account_id=fetched) if row["amount"] == 119.0] == [
        booking["id"]
    ]
    found = clerk.read("matches", account_id=filed)
    assert [(one["id"], one["account_id"]) for one in found] == [(match, fetched)]
    assert [one["account_id"] for one in clerk.read("accounts")] == [fetched]
    clerk.store_run()
    assert clerk.listed(119.0)["status"] == "matched"
    assert twins.undo(made).status_code == 200
    assert twins.state() == before
    assert clerk.undo(match).status_code == 200


def test_two_matches_of_one_booking_stand_against_it(service: Service, owner: Organization) -> None:
    clerk = Clerk(service, paid(119_00, "RE-2026-00123"), owner=owner)
    [description] = [row["description"] for row in service.get(TRANSACTIONS, owner.key, params={"account_id": clerk.account}).json()["data"]
                     if row["amount"] == 119.0]  # fmt: skip
    clerk.store_run()
    clerk.by_hand(119.0, item("RE-2026-00123", 119.0))
    twins = Twins(service, owner, facts(119_00, description, TODAY, provider_ref="x-1"), sheet=None)
    other = next(row["id"] for row in twins.listed() if row["id"] != clerk.account)
    body = {"connection_id": clerk.books.connection_id, "konto": "1200"}
    assert clerk.call("PUT", f"accounts/{other}", json=body).status_code == 200
    [twin] = twins.listed(TRANSACTIONS, account_id=other)
    assert clerk.call("POST", "runs", json={"account_id": other, "trial": False}).status_code == 201
    line = item("RE-2026-00124", 119.0)
    assert clerk.call("POST", "matches", json={"transaction_id": twin["id"], "lines": [line]}).status_code == 201
    before = twins.state()
    refused = twins.send(clerk.account, other)
    assert (refused.status_code, twin["id"] in refused.text) == (409, True)
    assert twins.preview(clerk.account, other)["problems"]
    assert twins.state() == before


@pytest.mark.either_engine
def test_matches_in_different_books_stand_against_it_and_in_the_same_they_follow(
    service: Service, owner: Organization
) -> None:
    clerk = Clerk(service, paid(119_00, "RE-2026-00123"), owner=owner)
    twins = Twins(service, owner, sheet=None)
    [other] = [row["id"] for row in twins.listed() if row["id"] != clerk.account]
    elsewhere = Books(service, owner)

    def problems(account: str, merged: str) -> list[str]:
        return list(twins.preview(account, merged)["problems"])

    def set_up(books: Books) -> None:
        body = {"connection_id": books.connection_id, "konto": "1200"}
        assert clerk.call("PUT", f"accounts/{other}", json=body).status_code == 200

    set_up(elsewhere)
    assert problems(other, clerk.account) == []
    match = clerk.by_hand(119.0, item("RE-2026-00123", 119.0)).json()["data"]["id"]
    [reason] = problems(other, clerk.account)
    assert "different books" in reason
    assert twins.send(other, clerk.account).json()["error"] == reason
    assert problems(clerk.account, other) == [], "the one that goes has no match"
    set_up(clerk.books)
    before = twins.state()
    made = twins.merge(other, clerk.account)
    assert [one["account_id"] for one in clerk.read("accounts")] == [other]
    assert [one["account_id"] for one in clerk.read("matches")] == [other]
    assert twins.undo(made).status_code == 200
    assert twins.state() == before
    assert clerk.undo(match).status_code == 200


@pytest.mark.either_engine
def test_what_was_decided_of_either_booking_is_so_again_and_a_proposal_is_made_anew(
    service: Service, owner: Organization
) -> None:
    clerk = Clerk(service, paid(119_00, "RE-2026-00123"), paid(-7_00, "privat"), owner=owner)
    stated = service.get(TRANSACTIONS, owner.key, params={"account_id": clerk.account}).json()["data"]
    same = [
        facts(round(row["amount"] * 100), row["description"], row["made_on"], provider_ref=row["id"]) for row in stated
    ]
    twins = Twins(service, owner, *same, sheet=None)
    [other] = [row["id"] for row in twins.listed() if row["id"] != clerk.account]
    body = {"connection_id": clerk.books.connection_id, "konto": "1200"}
    assert clerk.call("PUT", f"accounts/{other}", json=body).status_code == 200

    def states(account: str) -> dict[float, str]:
        asked = {"account_id": account, "trial": False}
        assert clerk.call("POST", "runs", json=asked).status_code == 201
        return now(account)

    def now(account: str) -> dict[float, str]:
        return {row["amount"]: row["status"] for row in clerk.read("transactions", account_id=account)}

    for account in (clerk.account, other):
        states(account)
        [private] = [row["id"] for row in clerk.read("transactions", account_id=account) if row["amount"] == -7.0]
        assert clerk.call("PUT", f"transactions/{private}", json={"status": "ignored"}).status_code == 200
    before = {account: now(account) for account in (clerk.account, other)}
    assert before[clerk.account] == before[other] == {0.01: "open", 119.0: "proposed", -7.0: "ignored"}
    made = twins.merge(clerk.account, other)
    assert made["counts"]["same"] == 3
    assert now(clerk.account) == before[clerk.account]
    assert twins.undo(made).status_code == 200
    assert now(clerk.account) == before[clerk.account]
    assert now(other) == {**before[other], 119.0: "open"}
    assert states(other) == before[other]


def test_a_third_one_follows_through_two_merges(service: Service, owner: Organization) -> None:
    twins = Twins(service, owner, RENT)
    third = twins.bank.connected(owner, LATER._replace(account_ref="third"), ref="third",
                                 accounts=[account_facts("third", iban=SECOND_IBAN)])  # fmt: skip
    service.db.write_now(lambda tx: tx.run("UPDATE banking_accounts SET iban = ?", IBAN))
    last = next(row["id"] for row in twins.listed() if row["id"] not in (twins.fetched, twins.filed))
    before = twins.state()
    first = twins.merge(twins.fetched, twins.filed)
    second = twins.merge(last, twins.fetched)
    for account in (twins.fetched, twins.filed, last):
        assert service.get(f"{ACCOUNTS}/{account}", owner.key).json()["data"]["id"] == last
    assert "undo that first" in twins.undo(first).text
    assert twins.undo(second).status_code == 200
    assert service.get(f"{ACCOUNTS}/{twins.filed}", owner.key).json()["data"]["id"] == twins.fetched
    assert twins.undo(first).status_code == 200
    assert twins.state() == before
    made = twins.merge(twins.fetched, last)
    assert service.request("DELETE", f"/v2/banking/connections/{third.id}", owner.key).status_code == 200
    assert "connection of the two accounts was removed" in twins.undo(made).text


@pytest.mark.either_engine
def test_what_is_no_twin_is_refused(service: Service, owner: Organization) -> None:
    twins = Twins(service, owner, RENT)
    both = [account_facts("a", iban=SECOND_IBAN), account_facts("b", iban=SECOND_IBAN, nature="credit_card")]
    twins.bank.connected(owner, ref="both", accounts=both)
    one, two = (row["id"] for row in twins.listed() if row["extra"]["iban"] == SECOND_IBAN)
    assert twins.send(one, two).status_code == 409
    assert twins.send(one, twins.filed).json()["field"] == "merged_account_id"
    assert twins.send(one, one).status_code == 400
    assert twins.send("999999999999999999").status_code == 404
    stranger = service.organization("Fremde GmbH")
    assert twins.send(key=stranger.key).status_code == 404
    assert twins.undo({"id": "0193b2a0-0000-7000-8000-000000000031"}).status_code == 404


@pytest.mark.either_engine
def test_a_merge_is_for_good_after_thirty_days(service: Service, owner: Organization) -> None:
    twins = Twins(service, owner, RENT)
    made = twins.merge()
    service.clock.advance(seconds=31 * DAY // 1_000_000)
    assert "within 30 days" in twins.undo(made).text
    service.db.write_now(merges.purge)
    [listed] = twins.listed(MERGES)
    assert (listed["undo_until"], listed["undone_at"]) == (None, None)
    assert service.db.read_now(lambda tx: tx.all("SELECT 1 FROM banking_merged_transactions")) == []
    assert service.get(f"{ACCOUNTS}/{twins.filed}", owner.key).json()["data"]["id"] == twins.fetched


def test_statements_of_both_become_one_chain(service: Service, owner: Organization) -> None:
    """Part of the days are in the statements of both: the balances lead through all of them."""
    first = Sheet([Booking(500_00, "Miete", end_to_end_id="E-1")])
    second = follow_up(first, Booking(-20_00, "Gas", booked=DAYS[1], valued=DAYS[1]))
    third = follow_up(second, Booking(-1_00, "Neu", booked=DAYS[2], valued=DAYS[2]))
    twins = Twins(service, owner, sheet=first)
    import_file(service, owner, camt(second))
    # The statements came by another connection than those that follow.
    service.db.write_now(lambda tx: _as_if_by_another(tx, twins))
    whole = second._replace(
        bookings=[*second.bookings, *third.bookings], closing=third.end, id="S-9", number=9, day=third.day
    )
    import_file(service, owner, camt(whole))
    service.db.write_now(lambda tx: tx.run("UPDATE banking_accounts SET iban = ?", IBAN))
    [last] = [row["id"] for row in twins.listed() if row["id"] not in (twins.fetched, twins.filed)]
    before = twins.state()
    assert (twins.amounts(twins.filed), twins.amounts(last)) == ([-20.0, 500.0], [-20.0, -1.0])
    made = twins.merge(twins.filed, last)
    assert (made["counts"]["same"], made["counts"]["moved"]) == (1, 1)
    assert twins.amounts(twins.filed) == [-20.0, -1.0, 500.0]
    spans = "SELECT opens_minor, closes_minor FROM banking_statement_spans ORDER BY begins_on"
    found = service.db.read_now(lambda tx: tx.all(spans))
    assert list(map(tuple, found)) == [(first.opening, first.end), (first.end, third.end)]
    assert twins.undo(made).status_code == 200
    assert twins.state() == before
    made = twins.merge(twins.filed, last)
    assert import_file(service, owner, camt(third)).added == 0
    assert (
        import_file(
            service, owner, camt(follow_up(third, Booking(-2_00, "Noch eine", booked=DAYS[3], valued=DAYS[3])))
        ).added
        == 1
    )
    assert twins.amounts(last) == [-20.0, -2.0, -1.0, 500.0]
    assert "statement has come since" in twins.undo(made).text


def test_statements_that_contradict_each_other_stand_against_it(service: Service, owner: Organization) -> None:
    first = Sheet([Booking(500_00, "Miete", end_to_end_id="E-1")])
    twins = Twins(service, owner, sheet=first)
    service.db.write_now(lambda tx: _as_if_by_another(tx, twins))
    import_file(service, owner, camt(Sheet([Booking(400_00, "Anderes", end_to_end_id="E-7")], id="S-9")))
    service.db.write_now(lambda tx: tx.run("UPDATE banking_accounts SET iban = ?", IBAN))
    [last] = [row["id"] for row in twins.listed() if row["id"] not in (twins.fetched, twins.filed)]
    before = twins.state()
    refused = twins.send(twins.filed, last)
    assert (refused.status_code, "one balance" in refused.text) == (409, True)
    assert twins.state() == before


def _as_if_by_another(tx: Tx, twins: Twins) -> None:
    """Lets another connection be the one that brought the statements, and takes the IBAN away from its account."""
    bank = connections.create(
        tx, twins.owner.id, provider="scripted", api="openbanking", owner_user_id=None, facts=twins.bank.connection_facts("elsewhere")
    )  # fmt: skip
    account = int(twins.filed)
    tx.run("UPDATE banking_account_sources SET connection_id = ? WHERE account_id = ?", bank.id, account)
    tx.run("UPDATE banking_accounts SET connection_id = ?, balance_from = ? WHERE id = ?", bank.id, bank.id, account)
    tx.run("UPDATE banking_transactions SET source = ? WHERE account_id = ?", bank.id, account)
    tx.run("UPDATE banking_accounts SET iban = ?", SECOND_IBAN)


def test_what_changes_between_comparing_and_merging_is_compared_anew(service: Service, owner: Organization) -> None:
    twins = Twins(service, owner, RENT)
    principal = Principal(owner.id, "owner", (owner.id,))
    compared = service.db.read_now(account_merges.compare_twins, principal, twins.filed, twins.fetched)
    assert len(compared.prepared.found.same) == 1
    twins.bank.report(twins.connection, RENT, GAS, LATER, accounts=[account_facts()])
    made = service.db.write_now(account_merges.make, principal, SYSTEM, twins.filed, twins.fetched, compared).data
    assert (made.counts.same, made.counts.moved) == (2, 1)
    assert twins.amounts(twins.filed) == [-20.0, -3.0, 500.0]


def test_what_changes_between_preparing_and_undoing_is_looked_at_anew(service: Service, owner: Organization) -> None:
    # The fetched one becomes part of the other, so that what comes by its connection returns with it.
    twins = Twins(service, owner, EARLIER, RENT)
    made = twins.merge(twins.filed, twins.fetched)
    principal = Principal(owner.id, "owner", (owner.id,))
    prepared = service.db.read_now(account_merges.prepare_undo, principal, made["id"])
    twins.bank.report(twins.connection, EARLIER, RENT, LATER, accounts=[account_facts()])
    service.db.write_now(account_merges.undo, principal, SYSTEM, made["id"], prepared)
    assert twins.amounts(twins.fetched) == [-3.0, 7.0, 500.0]
    assert twins.amounts(twins.filed) == [-20.0, 500.0]


@on_postgres
def test_a_report_waits_for_a_merge(service: Service, owner: Organization) -> None:
    twins = Twins(service, owner, RENT)
    principal = Principal(owner.id, "owner", (owner.id,))
    snapshot = Snapshot(twins.bank.connection_facts(twins.connection.provider_ref), [account_facts()], [RENT, LATER])
    outcome = overlap(
        service.db,
        lambda tx: account_merges.make(tx, principal, SYSTEM, twins.filed, twins.fetched),
        lambda tx: intake.ingest_snapshot(tx, twins.connection, snapshot),
    )
    assert outcome.second.added == 1
    assert twins.amounts(twins.filed) == [-20.0, -3.0, 500.0]


def test_the_command_shows_it_first(service: Service, owner: Organization) -> None:
    if service.settings.on_postgres:
        return
    twins = Twins(service, owner, RENT)

    def run(*words: str) -> dict[str, Any]:
        where = ["--json", "--organization", owner.id, "--data", str(service.settings.data_dir)]
        result = CliRunner().invoke(command_line("banks"), ["banks", *words, *where])
        assert result.exit_code == 0, result.output
        return dict(json.loads(result.stdout))

    shown = run("merge", twins.fetched, twins.filed)
    assert (shown["counts"]["same"], len(twins.listed())) == (1, 2)
    made = run("merge", twins.fetched, twins.filed, "--yes")
    assert len(twins.listed()) == 1
    assert run("undo-merge", made["id"])["undone_at"]
    assert len(twins.listed()) == 2
