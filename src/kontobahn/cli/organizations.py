"""`kontobahn organizations`: the owners of data and credits."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from kontobahn.access import audit, organizations
from kontobahn.access.organizations import Organization
from kontobahn.api import idempotency
from kontobahn.api.wire import Name
from kontobahn.banking.connections import accounts, store
from kontobahn.banking.payments import releases
from kontobahn.banking.payments import store as payments
from kontobahn.banking.transactions import arrivals
from kontobahn.books import store as books
from kontobahn.cli.common import DataOption, checked, installation, moment, say_table
from kontobahn.cli.keys import euros
from kontobahn.cli.output import JsonOption, say
from kontobahn.db import Tx
from kontobahn.errors import Conflict, SetupError
from kontobahn.money import amount_text

# Deleting an organisation with all that belongs to it, for `kontobahn organizations delete`.
#
# Its tables are read from the database's own catalogue, so a new table is never forgotten. Records that have to
# be kept are never deleted: bookings, cash book entries and invoices stand in the way, the audit log and the credit
# statement stay.


# Triggers of the database refuse to delete anything here. These two outlive their organisation; the others stand in the way.
KEPT = ("audit_log", "credit_movements")
RECORDS = {
    "books_bookings": "bookings",
    "books_cash_entries": "cash book entries",
    "books_person_history": "earlier versions of person accounts",
    "books_tasks": "reports to the ledger",
    "mobility_invoices": "invoices",
}
SHOWN = {
    "users": "users",
    "api_keys": "API keys",
    "ledger_connections": "ledger connections",
    "banking_connections": "bank connections",
    "banking_transactions": "bank transactions",
    "banking_payments": "payments",
    "mobility_customers": "mobility customers",
    "mobility_tickets": "tickets",
    "webhook_events": "events",
}
# The columns that say whose a row is; the first that a table has counts.
_OWNERS = {
    "organization_id": "organization_id = ?",
    "mandant": f"mandant IN ({books.MANDANTEN})",
    "edition": f"edition IN ({books.EDITIONS})",
    "account_id": f"account_id IN ({accounts.IDS})",
}
# Parts of a record that is counted already.
_PARTS = ("mobility_invoice_lines", "mobility_invoice_sums", "mobility_documents")


def tables_of_organizations(tx: Tx) -> dict[str, str]:
    """Returns every table that holds something of organisations, with the condition for one, referring tables first."""
    columns: dict[str, set[str]] = {}
    for table, column in tx.all(tx.schema.columns):
        columns.setdefault(table, set()).add(column)
    conditions = {
        table: next(_OWNERS[owner] for owner in _OWNERS if owner in names)
        for table, names in columns.items()
        if names & _OWNERS.keys()
    }
    # Its clients and accounts say whose the other rows are, so they go after these.
    referred = {(table, target) for table, target in tx.all(tx.schema.references) if table != target}
    referred |= {
        (table, "books_clients") for table, sql in conditions.items() if sql in (_OWNERS["mandant"], _OWNERS["edition"])
    }
    referred |= {(table, "banking_accounts") for table, sql in conditions.items() if sql == _OWNERS["account_id"]}
    ordered: dict[str, str] = {}
    while len(ordered) < len(conditions):
        free = [
            table
            for table in sorted(conditions.keys() - ordered.keys())
            if all(source in ordered for source, target in referred if target == table and source in conditions)
        ]
        assert free, "tables that refer to each other in a circle"
        ordered |= {table: conditions[table] for table in free}
    return ordered


def contents_of(tx: Tx, organization: Organization) -> dict[str, int]:
    """Returns how much there is to delete. Raises Conflict if something has to be kept, or is under way."""
    conditions = tables_of_organizations(tx)
    records = sorted(conditions.keys() & _guarded(tx) - {*KEPT, *_PARTS})
    counts = {table: _count(tx, table, conditions[table], organization.id) for table in (*records, *SHOWN)}
    kept = [f"{counts[table]} {RECORDS.get(table, table)}" for table in records if counts[table]]
    if kept:
        raise Conflict(
            f"“{organization.name}” has {', '.join(kept)}: records have to be kept and are never deleted."
            " Revoke its keys and delete its users instead."
        )
    under_way = payments.count_under_way(tx, organization.id)
    if under_way:
        raise Conflict(f"{under_way} payments of “{organization.name}” are under way. Wait until they are final.")
    return {words: counts[table] for table, words in SHOWN.items() if counts[table]}


def _guarded(tx: Tx) -> set[str]:
    return {table for (table,) in tx.all(tx.schema.triggers)}


def _count(tx: Tx, table: str, condition: str, organization_id: str) -> int:
    row = tx.one(f"SELECT COUNT(*) FROM {table} WHERE {condition}", organization_id)
    return int(row[0]) if row else 0


def delete_everything(tx: Tx, organization: Organization) -> dict[str, int]:
    """Deletes everything of the organisation in one transaction, and returns how much that was."""
    tx.lock("organization", organization.id)
    removed = contents_of(tx, organization)
    for row in store.listing(tx, (organization.id,)):
        store.remove(tx, row.organization_id, row.id, at_once=True)  # so that the access at the bank is ended too
    arrivals.forget(tx, organization.id)
    idempotency.forget(tx, organization.id)
    guarded = _guarded(tx)  # empty now, but for what is kept
    for table, condition in tables_of_organizations(tx).items():
        if table not in guarded:
            tx.run(f"DELETE FROM {table} WHERE {condition}", organization.id)
    organizations.remove(tx, organization.id)
    audit.record(
        tx, organization.id, audit.COMMAND_LINE, "organization.delete", organization.id,
        name=organization.name, removed=removed,
    )  # fmt: skip
    return removed


app = typer.Typer(no_args_is_help=True)
OrganizationArgument = Annotated[
    str, typer.Argument(metavar="ORGANIZATION", help="Its id, or its exact name if no other has it.")
]


@app.command("create")
def create(
    name: Annotated[str, typer.Option("--name", "-n", help="Name of the organisation.")],
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Create an organisation.

    Example: kontobahn organizations create --name "Muster GmbH"
    """
    name = checked("--name", name, Name)
    with installation(data) as here:
        organization = here.db.write_now(organizations.create, name, audit.COMMAND_LINE)
    say(
        {"organization_id": organization.id, "name": organization.name},
        f"Organisation “{organization.name}” is {organization.id}.",
        as_json=as_json,
    )


@app.command("list")
def show(data: DataOption = None, as_json: JsonOption = False) -> None:
    """List the organisations."""
    with installation(data) as here:
        found = here.db.read_now(organizations.all_organizations)
    rows = [(item.id, item.name, moment(item.created_at)) for item in found]
    say_table(("organization_id", "name", "created_at"), rows, as_json=as_json, empty="There is no organisation yet.")


@app.command("rename")
def rename(
    organization: OrganizationArgument,
    name: Annotated[str, typer.Option("--name", "-n", help="The new name.")],
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Give an organisation another name; its id, keys and data stay. Invoices show the name of `kontobahn seller`.

    Example: kontobahn organizations rename "Muster GmbH" --name "Muster AG"
    """
    name = checked("--name", name, Name)
    with installation(data) as here:
        old = here.organization(organization)
        here.db.write_now(organizations.rename, old.id, name, audit.COMMAND_LINE)
    say(
        {"organization_id": old.id, "name": name, "old_name": old.name},
        f"“{old.name}” is now called “{name}”.",
        as_json=as_json,
    )


@app.command("payment-limit")
def payment_limit(
    organization: OrganizationArgument,
    limit: Annotated[
        str | None, typer.Option("--limit", metavar="EUR", help="Payments above it need a release: 5000.00")
    ] = None,
    remove: Annotated[bool, typer.Option("--remove", help="No payment needs a release.")] = False,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show the amount above which a payment needs a second person's release, or set or remove it.

    Example: kontobahn organizations payment-limit "Muster GmbH" --limit 5000.00
    """
    if limit is not None and remove:
        raise typer.BadParameter("--limit and --remove exclude each other.")
    wanted = euros("--limit", limit)
    with installation(data) as here:
        found = here.organization(organization)
        if limit is not None or remove:
            here.db.write_now(releases.set_limit, found.id, wanted, audit.COMMAND_LINE)
        cents = here.db.read_now(releases.limit_of, found.id)
    say(
        {"organization_id": found.id, "payment_limit": None if cents is None else amount_text(cents)},
        f"Payments of “{found.name}” need no release."
        if cents is None
        else f"Payments of “{found.name}” above {amount_text(cents)} EUR need a second person's release.",
        as_json=as_json,
    )


@app.command("delete")
def delete(
    organization: OrganizationArgument,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Delete an organisation with its users, keys, connections, transactions and customers. This cannot be undone.

    Says first what would be deleted, and asks. Refused if there are bookings, cash book entries or invoices (they have to be kept),
    or payments under way. The audit log and the credit statement stay.

    Example: kontobahn organizations delete "Muster GmbH"
    """
    with installation(data) as here:
        found = here.organization(organization)
        contents = here.db.read_now(contents_of, found)
        listed = ", ".join(f"{count} {words}" for words, count in contents.items()) or "nothing else"
        typer.echo(f"“{found.name}” ({found.id}) would be deleted with {listed}.", err=True)
        if not yes:
            if not (sys.stdin.isatty() and sys.stderr.isatty()):
                raise SetupError("Nothing was deleted: there is nobody to ask. --yes deletes it without asking.")
            typer.confirm("Delete it for good?", abort=True, err=True)
        removed = here.db.write_now(delete_everything, found)
    say(
        {"organization_id": found.id, "name": found.name, "removed": removed},
        f"“{found.name}” is deleted.",
        as_json=as_json,
    )
