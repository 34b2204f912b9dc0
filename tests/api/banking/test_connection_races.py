"""Connections on which two transactions decide at once, or on which something came while the bank was asked."""

from __future__ import annotations

import io
from datetime import date
from typing import Any

from kontobahn.banking.connections import flows, routes
from kontobahn.banking.connections import store as connections
from kontobahn.banking.connections.flows import FlowRow
from kontobahn.banking.connections.store import ConnectionRow
from kontobahn.banking.imports.files import ReadFile
from kontobahn.banking.imports.importer import StatementImporter
from kontobahn.banking.provider import ConnectionFailed, ConnectStart, ProviderRefused, RefreshType, Report, Snapshot
from kontobahn.banking.reports import intake as reports
from kontobahn.banking.reports import refresh
from kontobahn.clock import DAY, HOUR
from kontobahn.db import Tx
from kontobahn.errors import Conflict, NotFound
from kontobahn.formats.bank_files import read
from tests.api.banking.test_connections import bank, begin, listed, owner
from tests.bank_builder import Bank, account_facts, events, facts
from tests.harness import START, Organization, Service
from tests.interleaving import on_postgres, overlap
from tests.statement_builder import Booking, Sheet, camt

__all__ = ["bank", "owner"]
REVOKED = ProviderRefused("AispConsentRevoked", "the consent was revoked")


def remove(row: ConnectionRow) -> Any:
    return lambda tx: connections.remove(tx, row.organization_id, row.id)


def finish(bank: Bank, ref: str, token: str | None = None, **more: Any) -> Any:
    snapshot = Snapshot(bank.connection_facts(ref, **more), [account_facts()], [facts(1)])
    return lambda tx: reports.apply_finished(tx, "scripted", snapshot, token)


def names(service: Service, owner: Organization) -> list[str]:
    return [event["event"] for event in events(service, owner)]


# --- While the bank was asked


def test_a_refusal_says_nothing_of_a_connection_that_was_removed_meanwhile(
    service: Service, bank: Bank, owner: Organization
) -> None:
    row = bank.connected(owner, next_refresh_possible_at=START)

    async def refuse(
        provider_ref: str, kind: RefreshType, since: date | None = None, person: Any = None
    ) -> list[Report]:
        await service.db.write(remove(row))
        raise REVOKED

    bank.provider.refresh = refuse  # type: ignore[method-assign]
    assert service.post(f"/v2/banking/connections/{row.id}/refresh", owner.key).status_code == 409
    assert names(service, owner) == ["connection_destroyed"]


def test_a_refusal_does_not_undo_what_was_finished_meanwhile(service: Service, bank: Bank, owner: Organization) -> None:
    row = bank.connected(owner, next_refresh_possible_at=START)

    async def refuse(
        provider_ref: str, kind: RefreshType, since: date | None = None, person: Any = None
    ) -> list[Report]:
        await service.db.write(finish(bank, row.provider_ref))
        raise REVOKED

    bank.provider.refresh = refuse  # type: ignore[method-assign]
    assert service.post(f"/v2/banking/connections/{row.id}/refresh", owner.key).status_code == 409
    [now] = listed(service, owner)
    assert (now["status"], now["error_class"]) == ("active", None)
    assert "connection_error" not in names(service, owner)


# --- Beside a removal that is not committed yet


@on_postgres
def test_whatever_comes_beside_a_removal_leaves_the_connection_removed(
    service: Service, bank: Bank, owner: Organization
) -> None:
    beside = {
        "refreshed": lambda row: lambda tx: refresh._claim_automatic(tx, row.organization_id, row.id),
        "expired": lambda row: lambda tx: refresh._expire_consent(tx, row.organization_id, row.id),
        "finished": lambda row: finish(bank, row.provider_ref),
        "failed": lambda row: (
            lambda tx: reports.apply_failed(
                tx, "scripted", ConnectionFailed("InvalidCredentials", "wrong", row.provider_ref)
            )
        ),
        "gone": lambda row: lambda tx: reports.apply_gone(tx, "scripted", row.provider_ref),
        "removed": remove,
    }
    returned = {}
    for what, unit in beside.items():
        row = bank.connected(owner, facts(1), ref=what)
        service.clock.advance(seconds=400 * DAY // 1_000_000)
        outcome = overlap(service.db, remove(row), unit(row))
        assert outcome.lock == "banking_connection", what
        returned[what] = outcome.second
    assert returned == {
        "refreshed": None, "expired": False, "finished": None, "failed": True, "gone": True, "removed": None,
    }  # fmt: skip
    assert names(service, owner) == ["connection_destroyed"] * len(beside)
    assert service.get("/v2/banking/accounts", owner.key).json()["data"] == []


@on_postgres
def test_a_reconnect_or_a_refresh_beside_a_removal_finds_nothing(
    service: Service, bank: Bank, owner: Organization
) -> None:
    for unit in (refresh._claim_manual, lambda tx, row: flows.start_reconnect(tx, _flow(row), row.id, AT_BANK)):
        row = bank.connected(owner)
        outcome = overlap(service.db, remove(row), lambda tx, row=row, unit=unit: unit(tx, row))  # type: ignore[misc]
        assert outcome.lock == "banking_connection"
        assert isinstance(outcome.second, NotFound)
    assert service.db.read_now(lambda tx: tx.all("SELECT 1 FROM banking_connect_flows")) == []


AT_BANK = ConnectStart("https://bank.example/connect", START + HOUR)


def _flow(row: ConnectionRow) -> FlowRow:
    return FlowRow(
        row.organization_id, flows.new_token(), row.provider, row.api, None, row.id, None, None, START, START + HOUR
    )


@on_postgres
def test_the_access_that_is_ended_is_the_one_the_connection_has_by_then(
    service: Service, bank: Bank, owner: Organization
) -> None:
    row = bank.connected(owner, ref="old")
    flow = _flow(row)
    service.db.write_now(flows.start_reconnect, flow, row.id, AT_BANK)
    outcome = overlap(service.db, finish(bank, "new", flow.pending_token), remove(row))
    assert outcome.lock == "banking_connection"
    assert outcome.second.provider_ref == "new"
    assert service.db.read_now(lambda tx: tx.all("SELECT provider_ref FROM banking_removals")) == [("new",)]


# --- Two that both want to be first


@on_postgres
def test_a_consent_that_is_being_renewed_does_not_expire(service: Service, bank: Bank, owner: Organization) -> None:
    row = bank.connected(owner, consent_expires_at=START)
    outcome = overlap(
        service.db,
        finish(bank, row.provider_ref, consent_expires_at=START + DAY),
        lambda tx: refresh._expire_consent(tx, row.organization_id, row.id),
    )
    assert outcome.lock == "banking_connection"
    assert outcome.second is False
    assert [now["status"] for now in listed(service, owner)] == ["active"]


@on_postgres
def test_one_refresh_at_a_time(service: Service, bank: Bank, owner: Organization) -> None:
    row = bank.connected(owner, next_refresh_possible_at=START)
    by_hand = overlap(service.db, lambda tx: refresh._claim_manual(tx, row), lambda tx: refresh._claim_manual(tx, row))
    assert by_hand.lock == "banking_connection"
    assert isinstance(by_hand.second, Conflict)
    service.clock.advance(seconds=DAY // 1_000_000)
    scheduled = overlap(service.db, *(lambda tx: refresh._claim_automatic(tx, row.organization_id, row.id),) * 2)
    assert scheduled.lock == "banking_connection"
    assert scheduled.first is not None
    assert scheduled.second is None


@on_postgres
def test_a_flow_becomes_one_connection(service: Service, bank: Bank, owner: Organization) -> None:
    token = begin(service, owner)["pending_token"]
    outcome = overlap(service.db, finish(bank, "bank-1", token), finish(bank, "bank-1", token))
    assert outcome.lock == "banking_connection"
    assert outcome.first.id == outcome.second.id
    assert [row["id"] for row in listed(service, owner)] == [outcome.first.id]


@on_postgres
def test_the_connections_of_a_deleted_user_include_one_that_is_just_being_finished(
    service: Service, bank: Bank, owner: Organization
) -> None:
    user = service.user(owner, "erika@muster.example")
    token = begin(service, owner, email=user.email)["pending_token"]
    outcome = overlap(service.db, finish(bank, "bank-1", token), lambda tx: flows.remove_of_user(tx, user.id))
    assert outcome.lock == "banking_connection"
    assert [row.id for row in outcome.second] == [outcome.first.id]
    assert listed(service, owner) == []


@on_postgres
def test_two_files_of_a_new_bank_make_one_connection(service: Service, bank: Bank, owner: Organization) -> None:
    def take(content: bytes) -> Any:
        def unit(tx: Tx) -> Any:
            with ReadFile(read(io.BytesIO(content), "auszug.xml")) as file:
                return StatementImporter(tx, owner.id, "auszug.xml").import_file(file)

        return unit

    sheet = Sheet([Booking(1)])
    outcome = overlap(service.db, take(camt(sheet)), take(camt(sheet)))
    assert outcome.lock == "banking_connection"
    assert not isinstance(outcome.second, Exception)
    assert len(listed(service, owner)) == 1


@on_postgres
def test_the_end_of_an_access_is_asked_for_once(service: Service, bank: Bank, owner: Organization) -> None:
    row = bank.connected(owner)
    service.db.write_now(remove(row))
    outcome = overlap(service.db, routes._claim_removals, routes._claim_removals)
    assert outcome.waited
    assert (outcome.first, outcome.second) == ([("scripted", row.provider_ref)], [])
