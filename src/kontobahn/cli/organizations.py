"""`kontobahn organizations`: the owners of data and credits."""

from __future__ import annotations

from typing import Annotated

import typer

from kontobahn.access import audit, organizations
from kontobahn.cli.common import DataOption, JsonOption, installation, moment, say, say_table

app = typer.Typer(no_args_is_help=True, help="Organisations: the owners of data and credits.")


@app.command("create")
def create(
    name: Annotated[str, typer.Option("--name", "-n", help="Name of the organisation.")],
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Create an organisation.

    Example: kontobahn organizations create --name "Muster GmbH"
    """
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
