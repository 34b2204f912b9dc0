"""Organisations on the command line: which one is meant, another name, and the end of one."""

from __future__ import annotations

from typing import Any

import pytest

from kontobahn.access import audit, client_access, organizations
from kontobahn.cli import organizations as removal
from kontobahn.db import Tx
from kontobahn.errors import Conflict
from tests.bank_builder import Bank, account_id, facts, order
from tests.command_line import CommandLine
from tests.harness import START, Organization, Service
from tests.ledger_builder import KASSENBUCH, Books, entry, line
from tests.mobility_builder import Shop, ticket
from tests.waiting import eventually


def _two_of_one_name(cli: CommandLine) -> list[str]:
    return [cli.facts("organizations", "create", "--name", "Muster GmbH")["organization_id"] for _ in range(2)]


def test_of_two_with_one_name_none_is_taken(cli: CommandLine) -> None:
    first, second = _two_of_one_name(cli)
    for command in (
        ("keys", "create", "--name", "x", "-o", "Muster GmbH"),
        ("credits", "grant", "5", "-o", "Muster GmbH"),
        ("organizations", "rename", "Muster GmbH", "--name", "Neu"),
        ("organizations", "delete", "Muster GmbH", "--yes"),
        ("keys", "list"),
    ):
        told = cli.refused(*command, code=1)
        assert first in told
        assert second in told
    assert cli.facts("keys", "list", "-o", first) == []
    assert [item["name"] for item in cli.facts("organizations", "list")] == ["Muster GmbH"] * 2


def test_at_a_terminal_a_person_is_asked_which(cli: CommandLine) -> None:
    first, second = _two_of_one_name(cli)
    done = cli.run("keys", "create", "--name", "x", "-o", "Muster GmbH", typed="2\n")
    assert done.code == 0, done
    assert first in done.err
    assert [item["name"] for item in cli.facts("keys", "list", "-o", second)] == ["x"]
    assert cli.facts("keys", "list", "-o", first) == []
    wrong = cli.run("keys", "create", "--name", "y", typed="3\n")
    assert (wrong.code, "no number 3" in wrong.err) == (1, True)


def test_a_name_that_is_an_id_means_the_id(cli: CommandLine) -> None:
    one = cli.facts("organizations", "create", "--name", "Muster GmbH")["organization_id"]
    cli.ok("organizations", "create", "--name", one)
    cli.ok("organizations", "rename", one, "--name", "Muster AG")
    assert [item["name"] for item in cli.facts("organizations", "list")] == ["Muster AG", one]


@pytest.mark.parametrize(
    "command",
    [
        ("organizations", "create", "--name"),
        ("organizations", "rename", "Muster GmbH", "--name"),
        ("keys", "create", "--name"),
        ("users", "create", "--email", "e@muster.example", "--password", "long enough for this", "--name"),
        ("books", "create", "--client", "1234-1", "--year-start", "2026-01-01", "--name"),
    ],
    ids=" ".join,
)
def test_a_name_must_be_one(cli: CommandLine, command: tuple[str, ...]) -> None:
    cli.ok("organizations", "create", "--name", "Muster GmbH")
    for name in ("", "  \u00a0", "x" * 201):
        assert "--name" in cli.refused(*command, name, code=2)


def test_an_address_and_a_password_are_refused_as_in_the_api(cli: CommandLine) -> None:
    cli.ok("organizations", "create", "--name", "Muster GmbH")
    for email in ("erika", "erika@", "e r@muster.example", ""):
        told = cli.refused("users", "create", "--name", "E", "--password", "long enough", "--email", email, code=2)
        assert "--email must " in told
    short = ("users", "create", "--name", "E", "--email", "e@muster.example", "--password", "too short")
    assert "The password must" in cli.refused(*short, code=2)
    assert cli.facts("users", "list") == []


def test_another_name_keeps_everything_else(cli: CommandLine) -> None:
    one = cli.facts("organizations", "create", "--name", "Muster GmbH")["organization_id"]
    key = cli.facts("keys", "create", "--name", "n8n")["key_id"]
    renamed = cli.facts("organizations", "rename", "Muster GmbH", "--name", "Muster AG")
    assert renamed == {"organization_id": one, "name": "Muster AG", "old_name": "Muster GmbH"}
    assert [item["key_id"] for item in cli.facts("keys", "list", "-o", "Muster AG")] == [key]
    assert "Niemand" in cli.refused("organizations", "rename", "Niemand", "--name", "X", code=1)


def test_deleting_says_what_goes_and_asks(cli: CommandLine) -> None:
    cli.ok("organizations", "create", "--name", "Muster GmbH")
    cli.ok("organizations", "create", "--name", "Andere GmbH")
    for name in ("Muster GmbH", "Andere GmbH"):
        cli.ok("keys", "create", "--name", "n8n", "-o", name)
        cli.ok("credits", "grant", "50", "-o", name)
        cli.ok("books", "create", "--name", "B", "--client", "1234-1", "--year-start", "2026-01-01", "-o", name)
    alone = cli.run("organizations", "delete", "Muster GmbH")
    assert alone.code == 1
    assert "1 API keys, 1 ledger connections" in alone.err
    assert "--yes" in alone.err
    for reply in ("n\n", "\n", ""):
        assert cli.run("organizations", "delete", "Muster GmbH", typed=reply).code == 130
    assert len(cli.facts("organizations", "list")) == 2
    assert cli.run("organizations", "delete", "Muster GmbH", typed="y\n").code == 0
    assert [item["name"] for item in cli.facts("organizations", "list")] == ["Andere GmbH"]
    assert len(cli.facts("books", "list")) == len(cli.facts("keys", "list")) == 1
    assert {item["state"] for item in cli.facts("doctor")} == {"ok"}


def _world(service: Service, owner: Organization) -> dict[str, str]:
    """Something in every area: banking, mobility, webhooks, people, books without bookings."""
    service.user(owner, f"{owner.id[-12:]}@muster.example")
    service.session(f"{owner.id[-12:]}@muster.example")
    Bank(service).connected(owner, facts(1), owner_user_id=None, next_refresh_possible_at=START)
    service.request("PUT", "/v2/banking/webhook-url", owner.key, json={"webhook_url": "https://93.184.216.34/e"})
    service.post("/v2/banking/webhook-url/test", owner.key, headers={"Idempotency-Key": "once"})
    Shop(service, owner).customer(ticket())
    books = Books(service, owner)
    assert service.get("/v2/ledger-duo/kassenbuecher", owner.key, params=books.query()).status_code == 200
    return books.query()


def _rows(tx: Tx, organization_id: str) -> dict[str, int]:
    tables = removal.tables_of_organizations(tx)
    return {table: count for table, sql in tables.items() if (count := removal._count(tx, table, sql, organization_id))}


def _numbers(tx: Tx, organization_id: str) -> dict[str, int]:
    """The client and the account of an organisation, by the column that other tables name them in."""
    mandant = tx.one("SELECT mandant FROM books_clients WHERE organization_id = ?", organization_id)
    account = tx.one("SELECT id FROM banking_accounts WHERE organization_id = ?", organization_id)
    assert mandant is not None
    assert account is not None
    # As long as no large file was imported, the read models have the client's number.
    return {"mandant": mandant[0], "edition": mandant[0], "account_id": account[0]}


def _rows_of_numbers(tx: Tx, numbers: dict[str, int]) -> dict[str, int]:
    """Counts the rows under these numbers, whatever has become of the rows that gave them."""
    found = {}
    for table, column in tx.all(tx.schema.columns):
        if column in numbers and not table.startswith("sandbox_"):
            row = tx.one(f"SELECT COUNT(*) FROM {table} WHERE {column} = ?", numbers[column])
            if row and row[0]:
                found[table] = row[0]
    return found


def _delete(service: Service, owner: Organization) -> dict[str, int]:
    found = service.db.read_now(organizations.get, owner.id)
    return service.db.write_now(removal.delete_everything, found)


def test_nothing_is_left_of_a_deleted_organisation_and_all_of_the_others(service: Service) -> None:
    gone, stays = service.organization(), service.organization("Andere GmbH")
    agency = service.agency(gone, stays)
    adviser = service.user(agency, "kanzlei@beispiel.example")
    for owner in (gone, stays):
        _world(service, owner)
        service.give_access(adviser, owner)
    # A call is noted after its answer has been sent.
    eventually(lambda: not service.application.running._networks)
    service.run(service.application.upkeep())
    before = service.db.read_now(_rows, stays.id)
    numbers = service.db.read_now(_numbers, gone.id)
    assert {"books_years", "banking_transactions"} <= service.db.read_now(_rows_of_numbers, numbers).keys()
    removed = _delete(service, gone)
    assert service.db.read_now(_rows_of_numbers, numbers) == {}
    assert (removed["users"], removed["bank connections"], removed["tickets"]) == (1, 1, 1)
    assert service.db.read_now(_rows, gone.id).keys() == set(removal.KEPT)
    assert service.db.read_now(_rows, stays.id) == before
    assert not service.db.read_now(organizations.exists, gone.id)
    access = service.db.read_now(client_access.listing, agency.id)
    assert [one.access.client_organization_id for one in access] == [stays.id]
    accesses = service.db.read_now(lambda tx: tx.all("SELECT client_organization_id FROM client_access"))
    assert accesses == [(stays.id,)]
    service.forget_callers()
    assert service.get("/v2/banking/accounts", gone.key).status_code == 401
    assert service.get("/v2/banking/accounts", agency.key, params={"organization_id": stays.id}).status_code == 200
    assert service.get("/v2/banking/accounts", agency.key, params={"organization_id": gone.id}).status_code == 403
    assert service.db.read_now(audit.entries, gone.id)[-1].action == "organization.delete"
    assert service.db.read_now(lambda tx: tx.all("SELECT provider FROM banking_removals")) != []


def test_what_has_to_be_kept_stands_in_the_way(service: Service) -> None:
    def refusal(owner: Organization) -> str:
        with pytest.raises(Conflict) as refused:
            _delete(service, owner)
        assert service.get("/v2/auth/users", owner.key).status_code == 200
        return str(refused.value)

    books, shop, payer = (service.organization(name) for name in ("Bücher", "Laden", "Zahler"))
    Books(service, books).send(KASSENBUCH, entry(line(1)))
    assert "cash book entries" in refusal(books)
    seller = Shop(service, shop)
    seller.invoice(seller.customer(ticket()))
    assert "1 invoices" in refusal(shop)
    Bank(service).connected(payer, facts(1), owner_user_id=None, next_refresh_possible_at=START)
    made = service.post("/v2/banking/payments", payer.key, json=order(account_id(service, payer)))
    assert made.status_code == 201, made.text
    assert "under way" in refusal(payer)


# Tables of the whole installation, with nothing of one organisation that its deletion should end.
OF_THE_INSTALLATION = {
    "organizations", "agency_clients", "idempotency_keys",  # by columns of their own, in `delete`
    "schema_migrations", "job_leases", "counters", "banking_inbox", "banking_removals", "sign_in_attempts",
    "fints_dialogs",
}  # fmt: skip


def test_every_table_is_an_organisations_or_the_installations(service: Service) -> None:
    def look(tx: Tx) -> tuple[set[Any], dict[str, str]]:
        names = {table for table, _ in tx.all(tx.schema.columns) if not table.startswith(("sqlite_", "sandbox_"))}
        return names, removal.tables_of_organizations(tx)

    tables, owned = service.db.read_now(look)
    assert tables - owned.keys() == OF_THE_INSTALLATION - owned.keys()
