"""`kontobahn payables`: received invoices from files, and a list of them."""

from __future__ import annotations

import asyncio
import hashlib
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from kontobahn.access.audit import COMMAND_LINE
from kontobahn.access.principal import Principal
from kontobahn.app import make_context
from kontobahn.cli.common import DataOption, Installation, OrganizationOption, installation, say_table
from kontobahn.cli.output import JsonOption, say
from kontobahn.clock import SystemClock, berlin_date
from kontobahn.money import amount_text
from kontobahn.payables import due, intake, store
from kontobahn.payables.intake import Arrival
from kontobahn.payables.routes import MAX_FILE_BYTES
from kontobahn.payables.rules import STATUSES
from kontobahn.payables.store import Filter, PayableRow

app = typer.Typer(no_args_is_help=True)
StatusName = StrEnum("StatusName", list(STATUSES))  # type: ignore[misc]
_SHOWN = 500


@app.command("import")
def import_payables(
    files: Annotated[list[Path], typer.Argument(exists=True, dir_okay=False, help="XML or PDF files.")],
    organization: OrganizationOption = None,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Import received invoices: XRechnung, ZUGFeRD, Factur-X, Peppol, as XML or inside a PDF.

    What is known in this or another form is not imported again. A file that no invoice can be read from is kept, and told. Exit
    code 1 if there was one.

    Example: kontobahn payables import eingang/*.xml
    """
    with installation(data) as here:
        owner = here.organization(organization)
        outcomes = [asyncio.run(_import(here, owner.id, file)) for file in files]
    say(outcomes, "\n".join(map(_sentence, outcomes)), as_json=as_json)
    if any(outcome["error"] for outcome in outcomes):
        raise typer.Exit(1)


async def _import(here: Installation, organization_id: str, file: Path) -> dict[str, Any]:
    if file.stat().st_size > MAX_FILE_BYTES:
        return _outcome(file, error=f"The file is larger than {MAX_FILE_BYTES} bytes.")
    content = file.read_bytes()
    digest = hashlib.sha256(content).hexdigest()
    arrival = Arrival(organization_id, file.name, digest, content, COMMAND_LINE, "")
    context = make_context(here.settings, here.db, here.vault, SystemClock())
    principal = Principal(organization_id, "admin", (organization_id,))
    taken = await intake.take(context, principal, arrival)
    if taken.refusal is not None:
        found = [str(taken.refusal), *(one.message("en") for one in taken.refusal.findings[:3])]
        return _outcome(file, error=" ".join(found))
    return _outcome(file, taken.payable, is_new=taken.is_new)


def _outcome(
    file: Path, row: PayableRow | None = None, *, is_new: bool = False, error: str | None = None
) -> dict[str, Any]:
    found = None if row is None else row.id
    known = {} if row is None else {"number": row.number, "creditor": row.creditor_name, "status": row.status}
    return {"file": str(file), "id": found, "new": is_new, **known, "error": error}


def _sentence(outcome: dict[str, Any]) -> str:
    if outcome["error"]:
        return f"{outcome['file']}: refused. {outcome['error']}"
    what = "" if outcome["new"] else " It is already known."
    return f"{outcome['file']}: {outcome['number']} of {outcome['creditor']}, {outcome['status']}.{what}"


@app.command("list")
def list_payables(
    organization: OrganizationOption = None,
    status: Annotated[StatusName | None, typer.Option(help="Only those that stand here.")] = None,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """List received invoices in the order in which they came."""
    with installation(data) as here:
        owner = here.organization(organization)
        rows = here.db.read_now(store.listing, (owner.id,), Filter(status=status), _SHOWN)
    columns = ("id", "status", "creditor", "number", "due", "amount")
    listed = [
        (
            row.id,
            row.status,
            row.creditor_name,
            row.number,
            row.due_date or "",
            f"{amount_text(row.payable_minor)} {row.currency_code}",
        )
        for row in rows
    ]
    say_table(columns, listed, as_json=as_json, empty="No invoice was received.")


@app.command("due")
def list_due(organization: OrganizationOption = None, data: DataOption = None, as_json: JsonOption = False) -> None:
    """List what is to be transferred, by the last day that costs nothing more; what loses its Skonto today comes first."""
    with installation(data) as here:
        owner = here.organization(organization)
        found = here.db.read_now(due.listing, owner.id, berlin_date(SystemClock().now()))
    columns = ("id", "status", "creditor", "number", "pay_by", "skonto", "amount")
    listed = [
        (
            one.row.id,
            one.row.status,
            one.row.creditor_name,
            one.row.number,
            one.pay_by.isoformat(),
            amount_text(one.skonto_minor),
            f"{amount_text(one.amount_minor)} {one.row.currency_code}",
        )
        for one in found
    ]
    say_table(columns, listed, as_json=as_json, empty="Nothing is to be paid.")
