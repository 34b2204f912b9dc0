"""`kontobahn keys`: API keys, shown once when they are created."""

from __future__ import annotations

import re
from typing import Annotated

import typer

from kontobahn.access import audit, keys, users
from kontobahn.access.keys import ApiKey, NewKey
from kontobahn.access.principal import ROLES, SCOPES, Limits, parse_scopes
from kontobahn.api.wire import Name
from kontobahn.cli.common import (
    DataOption,
    OrganizationOption,
    checked,
    checked_role,
    choices,
    installation,
    moment,
    one_of,
    parse_duration,
    parse_expiry,
    say_table,
)  # fmt: skip
from kontobahn.cli.output import JsonOption, say
from kontobahn.clock import SystemClock
from kontobahn.db import Tx
from kontobahn.errors import NotFound
from kontobahn.money import MAX_AMOUNT, amount_text, to_minor

app = typer.Typer(no_args_is_help=True)
_EUROS = re.compile(r"^([0-9]{1,12})(?:[.,]([0-9]{1,2}))?$")
MAX_MINOR = to_minor(MAX_AMOUNT)
UserOption = Annotated[
    str | None,
    typer.Option("--user", metavar="EMAIL", help="Whose key it is: bank connections made with it belong to this user."),
]
KeyArgument = Annotated[str, typer.Argument(metavar="KEY_ID", help="Id of the key, from `kontobahn keys list`.")]


@app.command("create")
def create(
    name: Annotated[str, typer.Option("--name", "-n", help="What the key is for.")],
    organization: OrganizationOption = None,
    role: Annotated[str, typer.Option("--role", help=f"{choices(ROLES)}.", autocompletion=one_of(*ROLES))] = "member",
    expires: Annotated[
        str | None, typer.Option("--expires", help="A date (2027-12-31) or a time from now (90d). Default: never.")
    ] = None,
    scope: Annotated[
        list[str] | None,
        typer.Option(
            "--scope",
            metavar="SCOPE",
            help=f"Restrict it: {', '.join(SCOPES)}. May be repeated. Default: all that the role allows.",
            autocompletion=one_of(*SCOPES),
        ),
    ] = None,
    payment_limit: Annotated[
        str | None, typer.Option("--payment-limit", metavar="EUR", help="Largest amount of one payment: 500.00")
    ] = None,
    daily_limit: Annotated[
        str | None,
        typer.Option("--daily-limit", metavar="EUR", help="Largest total of all its payments in a day: 2000"),
    ] = None,
    client: Annotated[
        list[str] | None,
        typer.Option("--client", metavar="ID", help="Agency key: an organisation it may act for. May be repeated."),
    ] = None,
    user: UserOption = None,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Create an API key and show it, once.

    Example: kontobahn keys create --name n8n --expires 365d --scope banking:read --scope payments --daily-limit 500
    """
    role = checked_role(role, ROLES)
    name, expires_at = checked("--name", name, Name), parse_expiry(expires, SystemClock().now())
    scopes = parse_scopes(scope, field="--scope") if scope else None
    limits = Limits(euros("--payment-limit", payment_limit), euros("--daily-limit", daily_limit))
    with installation(data) as here:
        owner = here.organization(organization)
        new = here.db.write_now(
            keys.create, here.vault, owner.id, name, audit.COMMAND_LINE,
            role=role, scopes=scopes, limits=limits, expires_at=expires_at, clients=tuple(client or ()),
            created_by=here.db.read_now(_user_id, owner.id, user) if user else None,
        )  # fmt: skip
    _show_once(new, as_json=as_json)


def _user_id(tx: Tx, organization_id: str, email: str) -> str:
    for user in users.listing(tx, organization_id):
        if user.email == users.normal_email(email):
            return user.id
    raise NotFound(f"The organisation has no user {email}. `kontobahn users list` shows those it has.")


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
            _scopes_of(key, as_json), _amount(key.payment_limit_minor), _amount(key.daily_limit_minor),
            moment(key.created_at), moment(key.expires_at), moment(key.last_used_at),
        )
        for key in found
    ]  # fmt: skip
    columns = (
        "key_id", "name", "starts_with", "kind", "role", "state", "scopes", "payment_limit", "daily_limit", "created_at",
        "expires_at", "last_used_at",
    )  # fmt: skip
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


def euros(option: str, text: str | None) -> int | None:
    """Cents of `500`, `500.00` or `500,00`. Nothing else: `1.000` may be one or a thousand."""
    if text is None:
        return None
    match = _EUROS.match(text.strip())
    cents = int(match[1]) * 100 + int((match[2] or "0").ljust(2, "0")) if match else 0
    if not 0 < cents <= MAX_MINOR:
        raise typer.BadParameter(f"{option} must be an amount in euros like 500 or 500.00, not “{text}”.")
    return cents


def _scopes_of(key: ApiKey, as_json: bool) -> list[str] | str | None:
    scopes = key.scopes.split() if key.scopes is not None else None
    if as_json:
        return scopes
    return "by role" if scopes is None else "all" if len(scopes) == len(SCOPES) else " ".join(scopes)


def _amount(cents: int | None) -> str | None:
    return None if cents is None else amount_text(cents)


def _show_once(new: NewKey, *, as_json: bool) -> None:
    facts = {
        "key_id": new.key.id,
        "api_key": new.secret,
        "name": new.key.name,
        "scopes": new.key.scopes.split() if new.key.scopes else None,
        "payment_limit": _amount(new.key.payment_limit_minor),
        "daily_limit": _amount(new.key.daily_limit_minor),
        "expires_at": moment(new.key.expires_at),
    }
    say(
        facts,
        f"{new.secret}\n\nSave it now: it is not stored and cannot be shown again. Its id is {new.key.id}.",
        as_json=as_json,
    )
