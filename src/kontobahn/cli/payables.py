"""`kontobahn payables`: received invoices from files and from a mailbox, and lists of them."""

from __future__ import annotations

import asyncio
import hashlib
import sys
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer

from kontobahn.access.audit import COMMAND_LINE
from kontobahn.access.principal import Principal
from kontobahn.app import make_context
from kontobahn.cli.common import DataOption, Installation, OrganizationOption, installation, say_table
from kontobahn.cli.output import JsonOption, say
from kontobahn.clock import SystemClock, berlin_date
from kontobahn.money import amount_text
from kontobahn.outbound import Rule
from kontobahn.payables import due, imap, intake, mailbox, store
from kontobahn.payables.intake import Arrival
from kontobahn.payables.mailbox import Afterwards, Fetched, MailboxRow, Wanted
from kontobahn.payables.routes import MAX_FILE_BYTES
from kontobahn.payables.rules import STATUSES
from kontobahn.payables.store import Filter, PayableRow

app = typer.Typer(no_args_is_help=True)
mailbox_app = typer.Typer(no_args_is_help=True, help="The mailbox that invoices come by.")
app.add_typer(mailbox_app, name="mailbox")

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


# --- The mailbox


@mailbox_app.command("set")
def set_mailbox(
    host: Annotated[str, typer.Argument(help="The IMAP server.")],
    username: Annotated[str, typer.Argument(help="The user of the mailbox.")],
    port: Annotated[int, typer.Option(min=1, max=65535, help="Its port, with TLS.")] = imap.PORT,
    folder: Annotated[str, typer.Option(help="The folder that is read.")] = "INBOX",
    afterwards: Annotated[Afterwards, typer.Option(help="What becomes of a mail with invoices.")] = "keep",
    moved_to: Annotated[str, typer.Option(help="The folder that such mails are moved to.")] = "",
    since: Annotated[
        datetime | None, typer.Option(formats=["%Y-%m-%d"], help="Read mails from this day on; today if omitted.")
    ] = None,
    password_stdin: Annotated[
        bool, typer.Option("--password-stdin", help="Read the password from standard input.")
    ] = False,
    organization: OrganizationOption = None,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Say which mailbox invoices come by. The password is asked for, kept encrypted, and never shown.

    Example: kontobahn payables mailbox set imap.example.com rechnung@example.com
    """
    password = sys.stdin.readline().rstrip("\r\n") if password_stdin else str(typer.prompt("Password", hide_input=True))
    with installation(data) as here:
        owner = here.organization(organization)
        day = since.date() if since else berlin_date(SystemClock().now())
        wanted = Wanted(host.lower(), port, username, password, folder, afterwards, moved_to, day)
        mailbox.check(Rule.of_setting(here.settings.mailbox_allow, "mailbox_allow"), wanted)
        here.db.write_now(mailbox.save, here.vault, owner.id, wanted, COMMAND_LINE)
        row = here.db.read_now(mailbox.find_mailbox, owner.id)
    _say_mailbox(row, as_json=as_json)


@mailbox_app.command("show")
def show_mailbox(organization: OrganizationOption = None, data: DataOption = None, as_json: JsonOption = False) -> None:
    """Show which mailbox invoices come by, and whether it can be read."""
    with installation(data) as here:
        row = here.db.read_now(mailbox.find_mailbox, here.organization(organization).id)
    _say_mailbox(row, as_json=as_json)


@mailbox_app.command("fetch")
def fetch_mailbox(
    trial: Annotated[bool, typer.Option("--trial", help="Only sign in and open the folder.")] = False,
    organization: OrganizationOption = None,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Read the mailbox now. Exit code 1 if it cannot be read."""
    with installation(data) as here:
        row = here.db.read_now(mailbox.find_mailbox, here.organization(organization).id)
        context = make_context(here.settings, here.db, here.vault, SystemClock())
        if trial:
            done = Fetched(0, 0, asyncio.run(mailbox.trouble_of(context, row)))
        else:
            done = asyncio.run(mailbox.fetch(context, row.organization_id))
    text = (
        "The mailbox can be read." if trial else f"{done.messages} mails were read, with {done.invoices} new invoices."
    )
    facts = {"trial": trial, "messages": done.messages, "invoices": done.invoices, "trouble": done.trouble or None}
    say(facts, f"The mailbox cannot be read: {done.trouble}." if done.trouble else text, as_json=as_json)
    if done.trouble:
        raise typer.Exit(1)


@mailbox_app.command("remove")
def remove_mailbox(
    organization: OrganizationOption = None, data: DataOption = None, as_json: JsonOption = False
) -> None:
    """Read the mailbox no longer. Its password is forgotten; what came by it stays."""
    with installation(data) as here:
        removed = here.db.write_now(mailbox.remove, here.organization(organization).id, COMMAND_LINE)
    say({"removed": removed}, "The mailbox is no longer read." if removed else "No mailbox is set up.", as_json=as_json)


def _say_mailbox(row: MailboxRow, *, as_json: bool) -> None:
    state = f"cannot be read: {row.trouble}" if row.trouble else "in use" if row.checked_at else "not read yet"
    facts = msgspec.to_builtins(mailbox.view_of_mailbox(row))
    say(
        facts,
        f"{row.username} at {row.host}:{row.port}, folder {row.folder}, from {row.since} on: {state}.",
        as_json=as_json,
    )
