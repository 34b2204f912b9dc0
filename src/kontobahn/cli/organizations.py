"""`kontobahn organizations`: the owners of data and credits."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from kontobahn.access import audit, organizations
from kontobahn.api.wire import Name
from kontobahn.banking.payments import releases
from kontobahn.cli import removal
from kontobahn.cli.common import DataOption, checked, installation, moment, say_table
from kontobahn.cli.keys import euros
from kontobahn.cli.output import JsonOption, say
from kontobahn.errors import SetupError
from kontobahn.money import amount_text

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
        contents = here.db.read_now(removal.contents, found)
        listed = ", ".join(f"{count} {words}" for words, count in contents.items()) or "nothing else"
        typer.echo(f"“{found.name}” ({found.id}) would be deleted with {listed}.", err=True)
        if not yes:
            if not (sys.stdin.isatty() and sys.stderr.isatty()):
                raise SetupError("Nothing was deleted: there is nobody to ask. --yes deletes it without asking.")
            typer.confirm("Delete it for good?", abort=True, err=True)
        removed = here.db.write_now(removal.delete, found)
    say(
        {"organization_id": found.id, "name": found.name, "removed": removed},
        f"“{found.name}” is deleted.",
        as_json=as_json,
    )
