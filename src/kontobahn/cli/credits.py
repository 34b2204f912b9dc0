"""`kontobahn credits`: grants and the statement."""

from __future__ import annotations

import csv
import sys
from typing import Annotated

import typer

from kontobahn import credits
from kontobahn.access import audit
from kontobahn.cli.common import (
    DataOption,
    OrganizationOption,
    counted,
    harmless,
    installation,
    moment,
    named,
    parse_expiry,
    say_table,
)  # fmt: skip
from kontobahn.cli.output import JsonOption, say
from kontobahn.clock import SystemClock
from kontobahn.db import Tx

app = typer.Typer(no_args_is_help=True)
# A thousand such grants still fit into the column that adds them up.
MAX_GRANT = 10**15


@app.command("grant")
def grant(
    amount: Annotated[int, typer.Argument(min=1, max=MAX_GRANT, help="How many credits.")],
    organization: OrganizationOption = None,
    expires: Annotated[
        str | None, typer.Option("--expires", help="A date (2027-12-31) or a time from now (90d).")
    ] = None,
    note: Annotated[str, typer.Option("--note", help="What they are for.")] = "",
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Give an organisation credits.

    Example: kontobahn credits grant 1000 --expires 2027-12-31
    """
    expires_at = parse_expiry(expires, SystemClock().now())
    with installation(data) as here:
        owner = here.organization(organization)
        available = here.db.write_now(_grant, owner.id, amount, expires_at, note)
    say(
        {"organization_id": owner.id, "organization": owner.name, "granted": amount, "available": available},
        f"{named(owner)} now has {counted(available, 'credit')}.",
        as_json=as_json,
    )


def _grant(tx: Tx, organization_id: str, amount: int, expires_at: int | None, note: str) -> int:
    grant_id = credits.grant(tx, organization_id, amount, expires_at=expires_at, note=note)
    audit.record(tx, organization_id, audit.COMMAND_LINE, "credits.grant", grant_id, amount=amount, note=note)
    return credits.balance(tx, organization_id).available


@app.command("statement")
def statement(
    organization: OrganizationOption = None,
    as_csv: Annotated[bool, typer.Option("--csv", help="Comma-separated, for a spreadsheet.")] = False,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show every movement of an organisation's credits.

    Example: kontobahn credits statement --csv > credits.csv
    """
    with installation(data) as here:
        owner = here.organization(organization)
        lines = here.db.read_now(credits.statement, owner.id)
    rows = [(line.line, moment(line.at), *line[2:]) for line in lines]
    columns = credits.Movement._fields
    if as_csv:
        writer = csv.writer(sys.stdout)
        writer.writerow(columns)
        writer.writerows([harmless(value) for value in row] for row in rows)
        return
    if as_json:
        say_table(columns, rows, as_json=True, empty="")
        return
    shown = ("line", "at", "kind", "amount", "available_after", "reserved_after", "endpoint", "quelle", "request_id")
    picked = [tuple(dict(zip(columns, row, strict=True))[name] for name in shown) for row in rows]
    say_table(shown, picked, as_json=False, empty=f"“{owner.name}” has no movement yet.")
