"""`kontobahn keys`: API keys, shown once when they are created."""

from __future__ import annotations

from typing import Annotated

import typer

from kontobahn.access import audit, keys
from kontobahn.access.keys import NewKey
from kontobahn.access.principal import ROLES
from kontobahn.cli.common import (
    DataOption,
    JsonOption,
    OrganizationOption,
    installation,
    moment,
    parse_duration,
    parse_expiry,
    say,
    say_table,
)  # fmt: skip
from kontobahn.clock import SystemClock

app = typer.Typer(no_args_is_help=True, help="API keys: create, list, rotate, revoke.")
KeyArgument = Annotated[str, typer.Argument(metavar="KEY_ID", help="Id of the key, from `kontobahn keys list`.")]


@app.command("create")
def create(
    name: Annotated[str, typer.Option("--name", "-n", help="What the key is for.")],
    organization: OrganizationOption = None,
    role: Annotated[str, typer.Option("--role", help="member, admin (may manage users) or owner.")] = "member",
    expires: Annotated[
        str | None, typer.Option("--expires", help="A date (2027-12-31) or a time from now (90d). Default: never.")
    ] = None,
    client: Annotated[
        list[str] | None,
        typer.Option("--client", metavar="ID", help="Agency key: an organisation it may act for. May be repeated."),
    ] = None,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Create an API key and show it, once.

    Example: kontobahn keys create --name n8n --expires 365d
    """
    if role not in ROLES:
        raise typer.BadParameter(f"“{role}” is not a role: member, admin or owner.")
    expires_at = parse_expiry(expires, SystemClock().now())
    with installation(data) as here:
        owner = here.organization(organization)
        new = here.db.write_now(
            keys.create, here.vault, owner.id, name, audit.COMMAND_LINE,
            role=role, expires_at=expires_at, clients=tuple(client or ()),
        )  # fmt: skip
    _show_once(new, as_json=as_json)


@app.command("list")
def show(organization: OrganizationOption = None, data: DataOption = None, as_json: JsonOption = False) -> None:
    """List an organisation's keys; the secrets are not stored."""
    now = SystemClock().now()
    with installation(data) as here:
        owner = here.organization(organization)
        found = here.db.read_now(keys.listing, owner.id)
    rows = [
        (
            key.id, key.name, f"{key.hint}…", "agency" if key.is_agency else "organisation", key.role, key.state(now),
            moment(key.created_at), moment(key.expires_at), moment(key.last_used_at),
        )
        for key in found
    ]  # fmt: skip
    columns = ("key_id", "name", "starts_with", "kind", "role", "state", "created_at", "expires_at", "last_used_at")
    say_table(columns, rows, as_json=as_json, empty=f"“{owner.name}” has no API key yet.")


@app.command("rotate")
def rotate(
    key_id: KeyArgument,
    overlap: Annotated[str, typer.Option("--overlap", help="How long the old secret still works.")] = "24h",
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Replace a key's secret; the old one keeps working for the overlap.

    Example: kontobahn keys rotate 0193… --overlap 1h
    """
    overlap_seconds = parse_duration(overlap)
    with installation(data) as here:
        old = here.db.read_now(keys.find, key_id)
        new = here.db.write_now(
            keys.rotate, here.vault, old.organization_id, key_id, audit.COMMAND_LINE, overlap_seconds=overlap_seconds
        )
    _show_once(new, as_json=as_json)


@app.command("revoke")
def revoke(key_id: KeyArgument, data: DataOption = None, as_json: JsonOption = False) -> None:
    """Revoke a key: every process refuses it within a second."""
    with installation(data) as here:
        old = here.db.read_now(keys.find, key_id)
        key = here.db.write_now(keys.revoke, old.organization_id, key_id, audit.COMMAND_LINE)
    say({"key_id": key.id, "revoked_at": moment(key.revoked_at)}, f"“{key.name}” is revoked.", as_json=as_json)


def _show_once(new: NewKey, *, as_json: bool) -> None:
    facts = {
        "key_id": new.key.id,
        "api_key": new.secret,
        "name": new.key.name,
        "expires_at": moment(new.key.expires_at),
    }
    say(
        facts,
        f"{new.secret}\n\nSave it now: it is not stored and cannot be shown again. Its id is {new.key.id}.",
        as_json=as_json,
    )
