"""`kontobahn users`: the first people of an organisation; later ones are invited."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from kontobahn.access import audit, client_access, users
from kontobahn.access.principal import CLIENT_ROLES, ROLES, ClientRole
from kontobahn.api.wire import Name
from kontobahn.auth.users import Email
from kontobahn.cli.common import (
    DataOption,
    OrganizationOption,
    checked,
    checked_role,
    choices,
    installation,
    moment,
    named,
    one_of,
    say_table,
)  # fmt: skip
from kontobahn.cli.output import JsonOption, say
from kontobahn.db import Tx
from kontobahn.errors import NotFound

app = typer.Typer(no_args_is_help=True)
PasswordOption = Annotated[
    str | None, typer.Option("--password", help="Asked for when left out; here it is visible to others on the machine.")
]
PasswordStdinOption = Annotated[
    bool, typer.Option("--password-stdin", help="Read the password from the first line of standard input.")
]


@app.command("create")
def create(
    email: Annotated[str, typer.Option("--email", help="E-mail address to sign in with.")],
    name: Annotated[str, typer.Option("--name", help="Name of the person.")],
    password: PasswordOption = None,
    password_stdin: PasswordStdinOption = False,
    role: Annotated[str, typer.Option("--role", help=f"{choices(ROLES)}.", autocompletion=one_of(*ROLES))] = "owner",
    organization: OrganizationOption = None,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Create a user.

    Example: kontobahn users create --email erika@muster.example --name "Erika Muster"
    """
    role = checked_role(role, ROLES)
    email, name = checked("--email", email, Email), checked("--name", name, Name)
    password_hash = users.hash_password(read_password(password, from_stdin=password_stdin))
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
        {"user_id": user.id, "organization_id": owner.id}, f"{user.email} is {role} of {named(owner)}.", as_json=as_json
    )


def read_password(given: str | None, *, from_stdin: bool) -> str:
    """The password from the option, from standard input, or asked for twice. Refuses one that is too short or too long."""
    if from_stdin and given is not None:
        raise typer.BadParameter("Send either --password or --password-stdin.")
    if from_stdin:
        given = sys.stdin.readline(2 * users.MAX_PASSWORD_LENGTH).removesuffix("\n").removesuffix("\r")
    elif given is None and not sys.stdin.isatty():
        raise typer.BadParameter(
            "There is no terminal to ask for the password at: send it as the first line of standard input, with --password-stdin."
        )
    elif given is None:
        given = str(typer.prompt("Password", hide_input=True, confirmation_prompt=True))
    if not users.MIN_PASSWORD_LENGTH <= len(given) <= users.MAX_PASSWORD_LENGTH:
        raise typer.BadParameter(
            f"The password must have {users.MIN_PASSWORD_LENGTH} to {users.MAX_PASSWORD_LENGTH} characters, not {len(given)}."
        )
    return given


@app.command("reset")
def reset(
    email: Annotated[str, typer.Argument(metavar="EMAIL", help="E-mail address that the person signs in with.")],
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Make a link with which a person sets a new password, once.

    Example: kontobahn users reset erika@muster.example
    """
    with installation(data) as here:
        known = here.db.read_now(users.by_email, email)
        if known is None:
            raise NotFound(f"There is no user with the e-mail address “{email}”.")
        new = here.db.write_now(
            users.create_reset, here.vault, known[0],
            hours=here.settings.password_reset_hours, actor=audit.COMMAND_LINE,
        )  # fmt: skip
        link = users.reset_link(here.settings.base_url, new.secret)
    expires_at = moment(new.reset.expires_at)
    facts = {"user_id": new.user.id, "token": new.secret, "link": link, "expires_at": expires_at}
    say(
        facts,
        f"{link}\n\nHand it to {new.user.email}: whoever opens it sets the password. It works once, until {expires_at}."
        f"\nWithout a browser: POST /v2/auth/password/reset with the token {new.secret}",
        as_json=as_json,
    )


@app.command("list")
def show(organization: OrganizationOption = None, data: DataOption = None, as_json: JsonOption = False) -> None:
    """List the users of an organisation."""
    with installation(data) as here:
        owner = here.organization(organization)
        found = here.db.read_now(users.listing, owner.id)
    rows = [(user.id, user.email, user.name, user.role, moment(user.created_at)) for user in found]
    say_table(("user_id", "email", "name", "role", "created_at"), rows, as_json=as_json, empty="There is no user yet.")


# --- Access to clients


EmailArgument = Annotated[str, typer.Argument(metavar="EMAIL", help="E-mail address that the person signs in with.")]
ClientOption = Annotated[str, typer.Option("--client", metavar="ID", help="The organisation, by id or exact name.")]


@app.command("give-access")
def give_access(
    email: EmailArgument,
    client: ClientOption,
    role: Annotated[
        str,
        typer.Option("--role", help=f"The role there: {choices(CLIENT_ROLES)}.", autocompletion=one_of(*CLIENT_ROLES)),
    ] = "bookkeeping",
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Let a person work in an organisation that is not their own: an adviser in a client's.

    Example: kontobahn users give-access kanzlei@beispiel.example --client "Klient GmbH" --role bookkeeping
    """
    role = checked_role(role, CLIENT_ROLES)
    with installation(data) as here:
        found = here.organization(client)
        given = here.db.write_now(_give, email, found.id, role)
    facts = {"user_id": given.user_id, "organization_id": found.id, "role": given.role}
    say(facts, f"{email} has the role {given.role} in “{found.name}”.", as_json=as_json)


def _give(tx: Tx, email: str, client_id: str, role: ClientRole) -> client_access.ClientAccess:
    known = users.by_email(tx, email)
    if known is None:
        raise NotFound(f"There is no user with the e-mail address “{email}”.")
    return client_access.give_by_operator(tx, known[0], client_id, role, audit.COMMAND_LINE)


@app.command("withdraw-access")
def withdraw_access(
    email: EmailArgument, client: ClientOption, data: DataOption = None, as_json: JsonOption = False
) -> None:
    """End a person's access to an organisation that is not their own.

    Example: kontobahn users withdraw-access kanzlei@beispiel.example --client "Klient GmbH"
    """
    with installation(data) as here:
        found = here.organization(client)
        known = here.db.read_now(client_access.of_email, email, found.id)
        if known is None:
            raise NotFound(f"{email} has no access to “{found.name}”.")
        here.db.write_now(client_access.withdraw_by_operator, known, audit.COMMAND_LINE)
    facts = {"user_id": known.user_id, "organization_id": found.id, "removed": True}
    say(facts, f"{email} no longer has access to “{found.name}”.", as_json=as_json)


@app.command("access")
def show_access(organization: OrganizationOption = None, data: DataOption = None, as_json: JsonOption = False) -> None:
    """List who works in other organisations: this one's people in its clients, and others' people in this one."""
    with installation(data) as here:
        owner = here.organization(organization)
        found = here.db.read_now(client_access.listing, owner.id)
    rows = [
        (item.access.user_id, item.email, item.access.client_organization_id, item.client, item.access.role,
         moment(item.access.created_at))
        for item in found
    ]  # fmt: skip
    columns = ("user_id", "email", "organization_id", "organization", "role", "created_at")
    say_table(columns, rows, as_json=as_json, empty="Nobody has access to an organisation that is not their own.")
