"""`kontobahn users`: the first people of an organisation; later ones are invited."""

from __future__ import annotations

from typing import Annotated

import typer

from kontobahn.access import audit, users
from kontobahn.access.principal import ROLES
from kontobahn.cli.common import (
    DataOption,
    JsonOption,
    OrganizationOption,
    installation,
    moment,
    say,
    say_table,
)  # fmt: skip

app = typer.Typer(no_args_is_help=True, help="Users: the first person of an organisation; later ones are invited.")
MIN_PASSWORD_LENGTH = 12


@app.command("create")
def create(
    email: Annotated[str, typer.Option("--email", help="E-mail address to sign in with.")],
    name: Annotated[str, typer.Option("--name", help="Name of the person.")],
    password: Annotated[
        str,
        typer.Option(
            "--password", prompt=True, hide_input=True, confirmation_prompt=True, help="Asked for when left out."
        ),
    ],
    role: Annotated[str, typer.Option("--role", help="owner, admin or member.")] = "owner",
    organization: OrganizationOption = None,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Create a user.

    Example: kontobahn users create --email erika@muster.example --name "Erika Muster"
    """
    if role not in ROLES:
        raise typer.BadParameter(f"“{role}” is not a role: owner, admin or member.")
    if len(password) < MIN_PASSWORD_LENGTH:
        raise typer.BadParameter(f"The password must have at least {MIN_PASSWORD_LENGTH} characters.")
    password_hash = users.hash_password(password)
    with installation(data) as here:
        owner = here.organization(organization)
        user = here.db.write_now(
            users.create,
            owner.id,
            email=email,
            name=name,
            role=role,
            password_hash=password_hash,
            actor=audit.COMMAND_LINE,
        )
    say(
        {"user_id": user.id, "organization_id": owner.id}, f"{user.email} is {role} of “{owner.name}”.", as_json=as_json
    )


@app.command("list")
def show(organization: OrganizationOption = None, data: DataOption = None, as_json: JsonOption = False) -> None:
    """List the users of an organisation."""
    with installation(data) as here:
        owner = here.organization(organization)
        found = here.db.read_now(users.listing, owner.id)
    rows = [(user.id, user.email, user.name, user.role, moment(user.created_at)) for user in found]
    say_table(("user_id", "email", "name", "role", "created_at"), rows, as_json=as_json, empty="There is no user yet.")
