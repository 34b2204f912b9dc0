"""The mailbox that invoices come by: which one it is, whether it can be read, what came last, and reading it now."""

from __future__ import annotations

from datetime import date
from typing import Annotated

from msgspec import Meta, Struct
from starlette.responses import Response

from kontobahn.dashboard.declare import ROOT, action, page
from kontobahn.dashboard.visit import Visit
from kontobahn.dashboard.words import N_, _, ngettext
from kontobahn.db import Tx
from kontobahn.payables import imap, mailbox
from kontobahn.payables.mailbox import Afterwards, Mailboxes, MailboxRow, MailRow, Wanted

PATH = f"{ROOT}/payables/mailbox"
MAILS_SHOWN = 20
AFTERWARDS: dict[Afterwards, str] = {
    "keep": N_("Nothing: it stays as it is"),
    "move": N_("It is moved to another folder"),
    "delete": N_("It is deleted"),
}
TROUBLES = {
    "name": N_("The name of the server cannot be found."),
    "address": N_("This server may not be connected to: it is not public, or uses another port than 993."),
    "connect": N_("The server cannot be reached, or ended the connection."),
    "tls": N_("No secure connection could be made. The certificate of the server may be wrong."),
    "timeout": N_("The server did not answer in time."),
    "sign_in": N_("The server did not accept the user name and the password."),
    "folder": N_("The folder does not exist."),
    "cannot_move": N_("Mails cannot be moved: the folder does not exist, or the server does not offer it."),
    "cannot_delete": N_("Mails cannot be deleted: the server does not offer to delete a single one."),
    "protocol": N_("The server answered something unexpected."),
    "too_long": N_("The mail is too long."),
    "file_too_long": N_("A file in it is larger than 20 MB."),
    "unreadable": N_("The mail could not be read."),
    "busy": N_("The mailbox is being read right now."),
}
_Line = Annotated[str, Meta(min_length=1, max_length=200)]


class MailboxForm(Struct):
    host: _Line
    username: _Line
    since: date
    port: Annotated[int, Meta(ge=1, le=65535)] = imap.PORT
    password: Annotated[str, Meta(max_length=500)] = ""
    folder: _Line = "INBOX"
    afterwards: Afterwards = "keep"
    moved_to: Annotated[str, Meta(max_length=200)] = ""


@page("/payables/mailbox", role="admin", help="payables-mailbox")
async def mailbox_page(visit: Visit) -> Response:
    row, mails = await visit.read(_facts, visit.organization_id)
    return visit.show(
        "payables_mailbox.html",
        row=row,
        mails=mails,
        afterwards=[(name, _(text)) for name, text in AFTERWARDS.items()],
        troubles=TROUBLES,
        usual_port=imap.PORT,
        today=visit.today,
    )


def _facts(tx: Tx, organization_id: str) -> tuple[MailboxRow | None, list[MailRow]]:
    return mailbox.of_organization(tx, organization_id), mailbox.mails(tx, organization_id, MAILS_SHOWN)


@action("/payables/mailbox", role="admin", confirm=True)
async def save_mailbox(visit: Visit) -> Response:
    found = visit.form.read(MailboxForm)
    if found is not None:
        wanted = Wanted(
            found.host.lower(), found.port, found.username, found.password, found.folder, found.afterwards, found.moved_to,
            found.since,
        )  # fmt: skip
        with visit.form.refusals():
            mailbox.check(visit.context.part(Mailboxes).rule, wanted)
            await visit.write(mailbox.save, visit.context.vault, visit.organization_id, wanted, visit.actor)
            return await _read_now(visit)
    response: Response = await mailbox_page.handler(visit)
    return response


@action("/payables/mailbox/read", role="admin")
async def read_mailbox(visit: Visit) -> Response:
    if await visit.read(mailbox.of_organization, visit.organization_id) is None:
        return visit.redirect(PATH)
    return await _read_now(visit)


async def _read_now(visit: Visit) -> Response:
    """Reads the mailbox and says what came of it: whoever has just typed a password wants to know."""
    fetched = await mailbox.fetch(visit.context, visit.organization_id)
    if fetched.trouble:
        return visit.redirect(PATH, _(TROUBLES[fetched.trouble]), "bad")
    if not fetched.invoices:
        return visit.redirect(PATH, _("The mailbox has been read. It has no new invoice."))
    text = ngettext(
        "%(num)s new invoice was in the mailbox.", "%(num)s new invoices were in the mailbox.", fetched.invoices
    )
    return visit.redirect(PATH, text)


@action("/payables/mailbox/remove", role="admin")
async def remove_mailbox(visit: Visit) -> Response:
    await visit.write(mailbox.remove, visit.organization_id, visit.actor)
    return visit.redirect(PATH, _("The mailbox is no longer read."))
