"""One IBAN of an organisation is one account, whatever brings it: files, a bank that is asked directly, an aggregator."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from typer.testing import CliRunner

from kontobahn.banking.connections import sources
from kontobahn.banking.connections import store as connections
from kontobahn.cli.entry import command_line
from kontobahn.clock import berlin_date
from tests.bank_builder import IBAN, SECOND_IBAN, Bank, account_facts, events, facts, order
from tests.file_bank import import_file
from tests.harness import Organization, Service
from tests.interleaving import on_postgres, overlap
from tests.statement_builder import DAY as STATED
from tests.statement_builder import Booking, Sheet, camt

ACCOUNTS, CONNECTIONS, TRANSACTIONS = "/v2/banking/accounts", "/v2/banking/connections", "/v2/banking/transactions"
RENT = facts(500_00, "SVWZ+Miete", STATED.isoformat(), provider_ref="r-1", end_to_end_id="E-1")
SHEET = Sheet([Booking(500_00, "Miete", end_to_end_id="E-1"), Booking(-20_00, "Gas", end_to_end_id="E-2")])


@pytest.fixture
def bank(service: Service) -> Bank:
    return Bank(service)


@pytest.fixture
def owner(service: Service) -> Organization:
    return service.organization(credits_granted=1000)


def asked(service: Service, owner: Organization, path: str, **query: str) -> list[dict[str, Any]]:
    answer = service.get(path, owner.key, params=query)
    assert answer.status_code == 200, answer.text
    return list(answer.json()["data"])


def amounts(service: Service, owner: Organization, **query: str) -> list[float]:
    return [row["amount"] for row in asked(service, owner, TRANSACTIONS, sort="id", **query)]


def again(bank: Bank, owner: Organization, *reported: Any, **more: Any) -> Any:
    """Connects the same account once more."""
    return bank.connected(owner, *reported, ref="again", accounts=[account_facts("other name", **more)])


def test_a_file_for_a_connected_iban_goes_into_its_account(service: Service, bank: Bank, owner: Organization) -> None:
    row = bank.connected(owner, RENT)
    [before] = asked(service, owner, ACCOUNTS)
    result = import_file(service, owner, camt(SHEET))
    [account] = asked(service, owner, ACCOUNTS)
    assert (account["id"], account["name"]) == (before["id"], "Girokonto")
    assert (result.accounts, result.added) == (1, 1)
    _, files = asked(service, owner, CONNECTIONS)
    for connection in (row.id, files["id"]):
        assert [item["id"] for item in asked(service, owner, ACCOUNTS, connection_id=connection)] == [account["id"]]
        assert amounts(service, owner, connection_id=connection) == [500.0, -20.0]
        assert amounts(service, owner, connection_id=connection, account_id=account["id"]) == [500.0, -20.0]
    told = events(service, owner)[-1]
    assert (told["event"], told["data"]["connection_id"]) == ("refresh_complete", files["id"])
    assert [item["id"] for item in told["data"]["accounts"]] == [account["id"]]


def test_connecting_what_files_were_imported_for_finds_the_account(
    service: Service, bank: Bank, owner: Organization
) -> None:
    import_file(service, owner, camt(SHEET))
    [before] = asked(service, owner, ACCOUNTS)
    assert before["name"] == "Konto 0532013000"
    row = bank.connected(owner)
    [account] = asked(service, owner, ACCOUNTS)
    assert (account["id"], account["name"], account["balance"]) == (before["id"], "Girokonto", 100.0)
    assert amounts(service, owner, account_id=account["id"]) == [500.0, -20.0]
    paid = service.post("/v2/banking/payments", owner.key, json=order(account["id"])).json()["data"]
    assert paid["connection_id"] == row.id
    [sent] = [what for name, *what in bank.provider.asked if name == "create_payment"]
    assert (sent[0].connection_ref, sent[0].account_ref) == (row.provider_ref, "giro")


def test_connecting_again_finds_the_account_again(service: Service, bank: Bank, owner: Organization) -> None:
    first = bank.connected(owner, RENT)
    [before] = asked(service, owner, ACCOUNTS)
    second = again(bank, owner, RENT._replace(account_ref="other name"))
    assert [item["id"] for item in asked(service, owner, ACCOUNTS)] == [before["id"]]
    assert amounts(service, owner, connection_id=second.id) == [500.0]
    changes = f"{TRANSACTIONS}/changes"
    assert len(asked(service, owner, changes, connection_id=first.id)) == 1
    assert len(asked(service, owner, changes, connection_id=second.id)) == 1


def test_an_account_is_paid_from_a_connection_that_works(service: Service, bank: Bank, owner: Organization) -> None:
    first = bank.connected(owner)
    bank.provider.snapshots["again"] = bank.provider.snapshots[first.provider_ref]
    service.db.write_now(lambda tx: connections.change(tx, first, status="inactive"))
    second = again(bank, owner)
    account = asked(service, owner, ACCOUNTS)[0]["id"]
    paid = service.post("/v2/banking/payments", owner.key, json=order(account))
    assert (paid.status_code, paid.json()["data"]["connection_id"]) == (201, second.id)


def test_the_account_stays_while_another_connection_reaches_it(
    service: Service, bank: Bank, owner: Organization
) -> None:
    announced = facts(-1_00, "SVWZ+Vorgemerkt", status="pending")
    first = bank.connected(owner, RENT, announced)
    second = again(bank, owner, facts(-2_00, "SVWZ+Auch vorgemerkt", status="pending", account_ref="other name"))
    [account] = asked(service, owner, ACCOUNTS)
    assert account["extra"]["transactions_count"] == {"posted": 1, "pending": 2}
    seen = service.get(f"{TRANSACTIONS}/changes", owner.key).json()["cursor"]
    assert service.request("DELETE", f"{CONNECTIONS}/{first.id}", owner.key).status_code == 200
    [kept] = asked(service, owner, ACCOUNTS)
    assert kept["id"] == account["id"]
    # What only the removed one has announced is not announced any more.
    assert kept["extra"]["transactions_count"] == {"posted": 1, "pending": 1}
    assert amounts(service, owner, account_id=account["id"]) == [500.0, -2.0]
    told = asked(service, owner, f"{TRANSACTIONS}/changes", cursor=seen, connection_id=second.id)
    assert [item["change"] for item in told] == ["removed"]
    assert asked(service, owner, ACCOUNTS, connection_id=second.id) == [kept]
    assert service.request("DELETE", f"{CONNECTIONS}/{second.id}", owner.key).status_code == 200
    assert asked(service, owner, ACCOUNTS) == []


def test_a_connection_withdraws_only_what_it_announced(service: Service, bank: Bank, owner: Organization) -> None:
    first = bank.connected(owner, facts(-1_00, "SVWZ+Eins", status="pending"))
    again(bank, owner, facts(-2_00, "SVWZ+Zwei", status="pending", account_ref="other name"))
    assert bank.report(first) == (0, 0, 1)
    assert amounts(service, owner, connection_id=first.id) == [-2.0]


def test_the_latest_balance_counts(service: Service, bank: Bank, owner: Organization) -> None:
    def balance() -> float | None:
        [account] = asked(service, owner, ACCOUNTS)
        found: float | None = account["balance"]
        return found

    today = berlin_date(service.clock.now())
    row = bank.connected(owner)
    assert balance() == 100.0
    old = Sheet([Booking(5, booked=today - timedelta(days=2))], opening=7_00, day=today - timedelta(days=2))
    import_file(service, owner, camt(old))
    assert balance() == 100.0
    new = Sheet([Booking(7, booked=today)], opening=7_05, day=today, id="S-2", number=2)
    import_file(service, owner, camt(new))
    assert balance() == 7.12
    # One that tells no balance takes none away that another has told.
    silent = [account_facts(balance_minor=None)]
    bank.report(row, accounts=silent)
    assert balance() == 7.12
    service.clock.advance(seconds=86_400)
    bank.report(row, accounts=[account_facts(balance_minor=9_00)])
    assert balance() == 9.0
    bank.report(row, accounts=silent)
    assert balance() is None


@pytest.mark.either_engine
def test_two_accounts_with_one_iban_at_one_bank_stay_two(service: Service, bank: Bank, owner: Organization) -> None:
    """A card that is settled by the account has its IBAN."""
    both = [account_facts(), account_facts("card", nature="credit_card", name="Karte")]
    row = bank.connected(owner, accounts=both)
    assert bank.report(row, accounts=both) == (0, 0, 0)
    giro, card = asked(service, owner, ACCOUNTS)
    assert (giro["name"], card["name"]) == ("Girokonto", "Karte")
    import_file(service, owner, camt(SHEET))
    assert amounts(service, owner, account_id=giro["id"]) == [500.0, -20.0]
    assert amounts(service, owner, account_id=card["id"]) == []


@pytest.mark.either_engine
def test_another_currency_another_iban_and_another_organisation_are_other_accounts(
    service: Service, bank: Bank, owner: Organization
) -> None:
    stranger = service.organization("Fremde GmbH")
    bank.connected(stranger, RENT, accounts=[account_facts(iban=IBAN)])
    bank.connected(owner, accounts=[account_facts(iban=SECOND_IBAN), account_facts("usd", currency_code="USD")])
    import_file(service, owner, camt(SHEET))
    found = [(item["extra"]["iban"], item["currency_code"]) for item in asked(service, owner, ACCOUNTS)]
    assert found == [(SECOND_IBAN, "EUR"), (IBAN, "USD"), (IBAN, "EUR")]
    assert amounts(service, stranger, account_id=asked(service, stranger, ACCOUNTS)[0]["id"]) == [500.0]


def test_the_doctor_names_accounts_that_stand_twice_from_before(
    service: Service, bank: Bank, owner: Organization
) -> None:
    both = [account_facts(), account_facts("card", nature="credit_card")]
    bank.connected(owner, accounts=both)
    assert service.db.read_now(sources.twins) == []
    bank.connected(owner, ref="twin")
    service.db.write_now(lambda tx: tx.run("UPDATE banking_accounts SET iban = ?", IBAN))
    giro, card, twin = (int(item["id"]) for item in asked(service, owner, ACCOUNTS))
    assert service.db.read_now(sources.twins) == [(owner.id, IBAN, "EUR", [giro, card, twin])]
    where = ["--data", str(service.settings.data_dir)]
    if not service.settings.on_postgres:
        told = CliRunner().invoke(command_line("doctor"), ["doctor", "--json", *where]).output
        assert f"{IBAN} (EUR) stands 3 times" in told


@on_postgres
def test_two_connections_that_bring_one_iban_at_once_make_one_account(
    service: Service, bank: Bank, owner: Organization
) -> None:
    one, two = (bank.connected(owner, ref=ref, accounts=[account_facts(iban=SECOND_IBAN)]) for ref in ("a", "b"))

    def report(row: Any) -> Any:
        from kontobahn.banking.provider import Snapshot
        from kontobahn.banking.reports import intake

        snapshot = Snapshot(
            bank.connection_facts(row.provider_ref), [account_facts("new")], [RENT._replace(account_ref="new")]
        )
        return lambda tx: intake.ingest_snapshot(tx, row, snapshot)

    outcome = overlap(service.db, report(one), report(two))
    assert outcome.lock == "banking_account"
    assert (outcome.first.added, outcome.second.added) == (1, 0)
    assert len(asked(service, owner, ACCOUNTS)) == 2
