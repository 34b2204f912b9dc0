"""The mailbox that invoices come by, by call: which one it is, tried, read now, and no longer read. Nobody gets its password back."""

from __future__ import annotations

from datetime import date
from typing import Annotated, Literal

from msgspec import Meta

from kontobahn.api.answers import Data
from kontobahn.api.call import Call
from kontobahn.api.declare import delete, get, post, put
from kontobahn.api.wire import Answer, Body, OrganizationQuery, Timestamp, Uuid, form
from kontobahn.clock import berlin_date, optional_datetime, to_datetime
from kontobahn.db import Tx
from kontobahn.errors import NotFound
from kontobahn.mail.imap import PORT, Trouble
from kontobahn.payables import mailbox
from kontobahn.payables.mailbox import Afterwards, Mailboxes, MailboxRow, Wanted

_Line = Annotated[str, Meta(min_length=1, max_length=200)]
_AFTERWARDS = "what becomes of a mail with invoices; others are never touched"
_TROUBLE = "a word for what went wrong; null if nothing did"


class NewMailbox(Body, kw_only=True):
    host: Annotated[str, form("the name of a server", r"^[^ /:@]{1,200}$", examples=["imap.example.com"])]
    port: Annotated[int, Meta(ge=1, le=65535)] = PORT
    username: _Line
    password: Annotated[
        str,
        Meta(max_length=500, description="Kept encrypted, and never shown. Empty to keep that of the same mailbox."),
    ] = ""
    folder: _Line = "INBOX"
    afterwards: Annotated[Afterwards, Meta(description=_AFTERWARDS)] = "keep"
    moved_to: Annotated[str, Meta(max_length=200, description="The folder, with `move`.")] = ""
    since: Annotated[date, Meta(description="The day from which on mails are read; today when omitted.")] | None = None


class PayablesMailbox(Answer, kw_only=True):
    organization_id: Uuid
    host: str
    port: int
    username: str
    folder: str
    afterwards: Annotated[Afterwards, Meta(description=_AFTERWARDS)]
    moved_to: str | None
    since: date
    trouble: Annotated[Trouble | None, Meta(description=_TROUBLE)]
    checked_at: Timestamp | None
    next_at: Timestamp


class NewMailboxReading(Body):
    trial: Annotated[bool, Meta(description="Only sign in and open the folder.")] = False


class MailboxReading(Answer, kw_only=True):
    trial: bool
    messages: int
    invoices: Annotated[int, Meta(description="New ones.")]
    trouble: Annotated[Literal[Trouble, "busy"] | None, Meta(description=_TROUBLE)]


class RemovedMailbox(Answer):
    organization_id: Uuid
    removed: bool


@get("/v2/payables/mailbox", scope="payables:read", errors=(403, 404))
async def get_payables_mailbox(call: Call, query: OrganizationQuery) -> Data[PayablesMailbox]:
    """Read which mailbox invoices come by, and whether it can be read. 404 if there is none."""
    return Data(view(await call.read(find, call.principal.organization(query.organization_id))))


@put(
    "/v2/payables/mailbox",
    scope="payables:write", role="admin", errors=(403, 404),
    body_example={"host": "imap.example.com", "username": "rechnung@example.com", "password": "correct horse battery"},
)  # fmt: skip
async def set_payables_mailbox(call: Call, query: OrganizationQuery, body: NewMailbox) -> Data[PayablesMailbox]:
    """Say which mailbox invoices come by. It is read within minutes, or by `POST /v2/payables/mailbox/readings`."""
    organization_id = call.principal.organization(query.organization_id)
    since = body.since or berlin_date(call.context.clock.now())
    wanted = Wanted(
        body.host.lower(), body.port, body.username, body.password, body.folder, body.afterwards, body.moved_to, since
    )
    mailbox.check(call.context.part(Mailboxes).rule, wanted)

    def unit(tx: Tx) -> Data[PayablesMailbox]:
        mailbox.save(tx, call.context.vault, organization_id, wanted, call.actor)
        return Data(view(find(tx, organization_id)))

    return await call.commit(unit)


@post("/v2/payables/mailbox/readings", scope="payables:write", role="admin", statuses=(200,), errors=(403, 404))
async def read_payables_mailbox(call: Call, query: OrganizationQuery, body: NewMailboxReading) -> Data[MailboxReading]:
    """Read the mailbox now, or with `trial` only try whether it can be read. `trouble` says if it cannot."""
    organization_id = call.principal.organization(query.organization_id)
    row = await call.read(find, organization_id)
    if body.trial:
        trouble = await mailbox.trouble_of(call.context, row)
        return Data(MailboxReading(trial=True, messages=0, invoices=0, trouble=trouble or None))
    done = await mailbox.fetch(call.context, organization_id)
    return Data(
        MailboxReading(trial=False, messages=done.messages, invoices=done.invoices, trouble=done.trouble or None)
    )


@delete("/v2/payables/mailbox", scope="payables:write", role="admin", errors=(403, 404))
async def remove_payables_mailbox(call: Call, query: OrganizationQuery) -> Data[RemovedMailbox]:
    """Read the mailbox no longer. Its password is forgotten; what came by it stays."""
    organization_id = call.principal.organization(query.organization_id)

    def unit(tx: Tx) -> Data[RemovedMailbox]:
        find(tx, organization_id)
        return Data(RemovedMailbox(organization_id, mailbox.remove(tx, organization_id, call.actor)))

    return await call.commit(unit)


def find(tx: Tx, organization_id: str) -> MailboxRow:
    row = mailbox.of_organization(tx, organization_id)
    if row is None:
        raise NotFound("No mailbox is set up.")
    return row


def view(row: MailboxRow) -> PayablesMailbox:
    return PayablesMailbox(
        organization_id=row.organization_id, host=row.host, port=row.port, username=row.username, folder=row.folder,
        afterwards=row.afterwards, moved_to=row.moved_to or None, since=date.fromisoformat(row.since),
        trouble=row.trouble or None, checked_at=optional_datetime(row.checked_at), next_at=to_datetime(row.next_at),
    )  # fmt: skip
