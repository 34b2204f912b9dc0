"""The mailbox that invoices come by: which one, how far it was read, and reading what is new.

A message is done once its files are taken in and, if told so, it was moved or deleted; only then is its number written down. Whoever is
killed in between reads it again, and what came in it is known by then.
"""

from __future__ import annotations

import asyncio
import email
import email.policy
import hashlib
import ssl
from datetime import date
from email.message import Message
from typing import Annotated, Literal, NamedTuple

from msgspec import Meta

from kontobahn import log
from kontobahn.access import audit
from kontobahn.access.audit import Actor
from kontobahn.access.principal import Principal
from kontobahn.api.answers import Data, from_row
from kontobahn.api.call import Call, Context
from kontobahn.api.declare import delete, get, post, put
from kontobahn.api.wire import Answer, Body, OrganizationQuery, Timestamp, Uuid, form
from kontobahn.clock import DAY, MINUTE, berlin_date
from kontobahn.db import Table, Tx, leases
from kontobahn.errors import BadRequest, NotFound
from kontobahn.formats.invoices.source import MAX_FILE_BYTES
from kontobahn.ids import new_id
from kontobahn.outbound import Refused, Resolver, Rule, SystemResolver, Unreached
from kontobahn.payables import imap, intake
from kontobahn.payables.imap import Account, Session, TooLong, Trouble, Unread
from kontobahn.payables.intake import Arrival
from kontobahn.payables.store import PayableRow
from kontobahn.threads import Pool, work_for
from kontobahn.vault import Vault

# The files of a mail that may be invoices: XML and PDF, including those of mails forwarded inside it. Pure.


# A mail of a person has a handful.
_MAX_PARTS = 300
MAX_FILES = 50
# Each line is held against the boundary of every part around it: many short lines in many parts would take hours.
_MAX_LINES, _MAX_BOUNDARIES = 1_200_000, 50
_MAX_TEXT = 200
_NAME_LENGTH = 255
_ENDINGS = (".xml", ".pdf")
_TYPES = ("application/pdf", "application/xml", "text/xml")


class Unreadable(Exception):
    """The mail is made so that it cannot be taken apart within our bounds."""


class MailFile(NamedTuple):
    name: str
    content: bytes


class Mail(NamedTuple):
    sender: str
    subject: str
    files: list[MailFile]
    # The number of files that are larger than we take.
    left_out: int


def read(content: bytes) -> Mail:
    """Takes a mail apart: XML comes first, so that a PDF of the same invoice finds it. Raises Unreadable."""
    if content.count(b"\n") > _MAX_LINES or content.lower().count(b"boundary") > _MAX_BOUNDARIES:
        raise Unreadable
    try:
        message = email.message_from_bytes(content, policy=email.policy.default)
        found = _files(message)
        files = [file for file in found if len(file.content) <= MAX_FILE_BYTES]
        files.sort(key=lambda file: _is_pdf(file.content))
        return Mail(_line(message, "From"), _line(message, "Subject"), files, len(found) - len(files))
    except (RecursionError, LookupError, ValueError, AttributeError, TypeError) as error:
        # The library stumbles over what nobody's program writes.
        raise Unreadable from error


def _files(message: Message) -> list[MailFile]:
    found: list[MailFile] = []
    for number, part in enumerate(message.walk()):
        if number >= _MAX_PARTS or len(found) >= MAX_FILES:
            raise Unreadable
        if part.is_multipart():
            continue
        name = " ".join((part.get_filename() or "").split())[:_NAME_LENGTH]
        if part.get_content_type() not in _TYPES and not name.lower().endswith(_ENDINGS):
            continue
        content = part.get_payload(decode=True)
        if isinstance(content, bytes) and _may_be_invoice(content):
            found.append(MailFile(name or f"anhang-{number}", content))
    return found


def _is_pdf(content: bytes) -> bool:
    return content[:1_024].lstrip().startswith(b"%PDF-")


def _may_be_invoice(content: bytes) -> bool:
    """By how it begins: what calls itself a PDF may be anything."""
    head = content[:1_024].lstrip(b"\xef\xbb\xbf \t\r\n")
    return _is_pdf(content) or head.startswith(b"<") or head[:2] in (b"\xff\xfe", b"\xfe\xff")


def _line(message: Message, name: str) -> str:
    text = str(message.get(name, ""))
    return "".join(sign for sign in " ".join(text.split()) if sign.isprintable())[:_MAX_TEXT]


MAILBOX = Actor("mailbox")
EVERY = 5 * MINUTE
_LONGEST_PAUSE = 6 * 60 * MINUTE
# One turn: what is left over comes with the next.
MESSAGES_AT_ONCE = 25
SECONDS_IN_ALL = 50.0
_DAYS_LISTED = 30
Afterwards = Literal["keep", "move", "delete"]


class MailboxRow(NamedTuple):
    organization_id: str
    host: str
    port: int
    username: str
    password: bytes
    folder: str
    afterwards: Afterwards
    moved_to: str
    since: str
    validity: int
    last_number: int
    next_at: int
    checked_at: int | None
    failures: int
    trouble: Trouble | Literal[""]
    lease_until: int
    changed_by: str
    changed_at: int


class MailRow(NamedTuple):
    organization_id: str
    id: str
    sender: str
    subject: str
    invoices: int
    unread: int
    trouble: str
    created_at: int


class Wanted(NamedTuple):
    """A mailbox as a person describes it; an empty password keeps the one there is."""

    host: str
    port: int
    username: str
    password: str
    folder: str
    afterwards: Afterwards
    moved_to: str
    since: date


class Fetched(NamedTuple):
    """One turn: the number of messages and of new invoices in them, and what went wrong."""

    messages: int
    invoices: int
    trouble: Trouble | Literal["", "busy"] = ""


MAILBOXES = Table("payables_mailboxes", MailboxRow, key=("organization_id",))
MAILS = Table("payables_mails", MailRow)
_LEASE = leases.Lease("payables_mailboxes", key=("organization_id",), seconds=SECONDS_IN_ALL + 3 * imap.SECONDS)


class Mailboxes:
    """The way to mail servers: which ones may be reached, and the threads that wait for them."""

    def __init__(self, rule: Rule, *, resolver: Resolver | None = None, tls: ssl.SSLContext | None = None) -> None:
        self.rule = rule
        self.resolver: Resolver = resolver or SystemResolver()
        self.tls = tls
        self.pool = Pool("mailboxes", threads=4, waiting=100)

    async def open(self, account: Account, *, may_write: bool) -> Session:
        """Raises Unread."""
        addresses = await self._addresses(account.host, account.port)
        tls = self.tls or ssl.create_default_context()
        return await self.pool.run(Session, account, addresses, tls, may_write=may_write)

    async def _addresses(self, host: str, port: int) -> list[str]:
        try:
            self.rule.check_host(host, port, (imap.PORT,))
            async with asyncio.timeout(imap.SECONDS):
                found = await self.resolver.addresses(host, port)
            self.rule.check_addresses(host, port, found)
        except Refused as error:
            raise Unread("address", str(error)) from None
        except (OSError, Unreached) as error:
            raise Unread("name", str(error)) from None
        return found


# --- The mailbox


def of_organization(tx: Tx, organization_id: str) -> MailboxRow | None:
    return MAILBOXES.one(tx, "organization_id = ?", organization_id)


def mails(tx: Tx, organization_id: str, limit: int) -> list[MailRow]:
    """Returns the messages that were read last, the newest first."""
    return MAILS.all(tx, "organization_id = ? ORDER BY id DESC LIMIT ?", organization_id, limit)


def check(rule: Rule, wanted: Wanted) -> None:
    """Raises BadRequest if this is no mailbox that may be read."""
    texts = {"host": wanted.host, "username": wanted.username, "password": wanted.password, "folder": wanted.folder}
    for field, text in {**texts, "moved_to": wanted.moved_to}.items():
        if not text.isprintable():
            raise BadRequest("This contains a character that is not allowed here.", field=field)
    if wanted.afterwards == "move" and not wanted.moved_to:
        raise BadRequest("Please name the folder that mails are moved to.", field="moved_to")
    if wanted.afterwards == "move" and wanted.moved_to == wanted.folder:
        raise BadRequest("Mails cannot be moved to the folder that they are read from.", field="moved_to")
    try:
        rule.check_host(wanted.host, wanted.port, (imap.PORT,))
    except Refused:
        raise BadRequest("This must be a public mail server with TLS, at port 993.", field="host") from None


def save(tx: Tx, vault: Vault, organization_id: str, wanted: Wanted, actor: Actor) -> None:
    """Raises BadRequest if there is no password yet, or another mailbox would get the old one."""
    tx.lock("payables", organization_id)
    known = of_organization(tx, organization_id)
    is_same = known is not None and (known.host, known.port, known.username) == (
        wanted.host,
        wanted.port,
        wanted.username,
    )
    if not wanted.password and not is_same:
        raise BadRequest("Please enter the password of this mailbox.", field="password")
    sealed = vault.seal(wanted.password.encode(), _context(organization_id)) if wanted.password else None
    is_read_on = (
        is_same and known is not None and (known.folder, known.since) == (wanted.folder, wanted.since.isoformat())
    )
    row = MailboxRow(
        organization_id, wanted.host, wanted.port, wanted.username, sealed or (known.password if known else b""),
        wanted.folder, wanted.afterwards, wanted.moved_to if wanted.afterwards == "move" else "", wanted.since.isoformat(),
        known.validity if known and is_read_on else 0, known.last_number if known and is_read_on else 0,
        tx.now, known.checked_at if known and is_read_on else None, 0, "", 0, actor.name, tx.now,
    )  # fmt: skip
    if known is None:
        MAILBOXES.insert(tx, row)
    else:
        MAILBOXES.update(tx, row, **row._asdict())
    audit.record(
        tx, organization_id, actor, "payables.mailbox", organization_id,
        host=row.host, username=row.username, folder=row.folder, afterwards=row.afterwards,
    )  # fmt: skip


def remove(tx: Tx, organization_id: str, actor: Actor) -> bool:
    """Returns whether there was one. What came by it stays."""
    removed = bool(tx.run("DELETE FROM payables_mailboxes WHERE organization_id = ?", organization_id))
    if removed:
        audit.record(tx, organization_id, actor, "payables.mailbox_removed", organization_id)
    return removed


def _context(organization_id: str) -> str:
    return f"payables_mailboxes:{organization_id}"


# --- Reading it


async def fetch_due(context: Context) -> None:
    """Reads every mailbox whose time has come."""
    for organization_id in await context.db.read(_due):
        await fetch(context, organization_id)


def _due(tx: Tx) -> list[str]:
    rows = tx.all("SELECT organization_id FROM payables_mailboxes WHERE next_at <= ? ORDER BY next_at LIMIT 50", tx.now)
    return [organization_id for (organization_id,) in rows]


async def trouble_of(context: Context, row: MailboxRow) -> Trouble | Literal[""]:
    """Signs in and opens the folder, and nothing else. Returns what went wrong."""
    try:
        session = await _open(context, row)
    except Unread as error:
        return error.trouble
    await context.part(Mailboxes).pool.run_anyway(session.close)
    return ""


async def _open(context: Context, row: MailboxRow) -> Session:
    password = context.vault.open(bytes(row.password), _context(row.organization_id)).decode()
    account = Account(row.host, row.port, row.username, password, row.folder)
    return await context.part(Mailboxes).open(account, may_write=row.afterwards != "keep")


async def fetch(context: Context, organization_id: str) -> Fetched:
    """Reads what is new in the mailbox of an organisation, once at a time, and writes down what went wrong."""
    work_for(organization_id)
    row = await context.db.write(_claim, organization_id)
    if row is None:
        return Fetched(0, 0, "busy")
    turn = _Turn(context, row)
    trouble: Trouble | Literal[""] = ""
    try:
        await turn.run()
    except Unread as error:
        trouble = error.trouble
        log.warning("mailbox_not_read", organization=organization_id, detail=str(error))
    finally:
        await context.db.write(_finish, row, trouble)
    return Fetched(turn.messages, turn.invoices, trouble)


def _claim(tx: Tx, organization_id: str) -> MailboxRow | None:
    found = _LEASE.claim(tx, organization_id, returning=MAILBOXES.columns)
    return None if found is None else MailboxRow._make(found)


def _finish(tx: Tx, claimed: MailboxRow, trouble: str) -> None:
    row = of_organization(tx, claimed.organization_id)
    if row is None or row.changed_at != claimed.changed_at:
        return
    failures = row.failures + 1 if trouble else 0
    pause = min(EVERY * 2 ** min(failures, 10), _LONGEST_PAUSE)
    _LEASE.give_up(
        tx, row.organization_id, next_at=tx.now + pause, checked_at=tx.now, failures=failures, trouble=trouble
    )


class _Turn:
    """One look into a mailbox."""

    def __init__(self, context: Context, row: MailboxRow) -> None:
        self._context = context
        self._row = row
        self._mailboxes = context.part(Mailboxes)
        self._principal = Principal(row.organization_id, "admin", (row.organization_id,))
        self.messages = 0
        self.invoices = 0

    async def run(self) -> None:
        session = await _open(self._context, self._row)
        # However slowly a server answers, this ends.
        alarm = asyncio.get_running_loop().call_later(SECONDS_IN_ALL, session.abort)
        try:
            await self._read_new(session)
        finally:
            alarm.cancel()
            await self._mailboxes.pool.run_anyway(session.close)

    async def _read_new(self, session: Session) -> None:
        row, run = self._row, self._mailboxes.pool.run
        after = row.last_number if row.validity == session.validity else 0
        since = date.fromisoformat(row.since)
        for number in (await run(session.new, after, since))[:MESSAGES_AT_ONCE]:
            entry = await self._take(session, number)
            # One that brought nothing, or not everything, stays where people look for it.
            if entry is not None and not entry.trouble:
                if row.afterwards == "move":
                    await run(session.move, number, row.moved_to)
                elif row.afterwards == "delete":
                    await run(session.delete, number)
            await self._context.db.write(_remember, row, session.validity, number, entry)

    async def _take(self, session: Session, number: int) -> MailRow | None:
        """Takes in what a message brings. Returns what is to be said about it; None for one that brings nothing, or is gone."""
        try:
            content = await self._mailboxes.pool.run(session.message, number)
            if content is None:
                return None
            mail = await self._context.part(Pool).run(read, content)
        except (TooLong, Unreadable) as error:
            return self._entry("", "", trouble="too_long" if isinstance(error, TooLong) else "unreadable")
        self.messages += 1
        if not mail.files and not mail.left_out:
            return None
        invoices, unread = await self._take_files(mail)
        return self._entry(
            mail.sender, mail.subject, invoices, unread, trouble="file_too_long" if mail.left_out else ""
        )

    async def _take_files(self, mail: Mail) -> tuple[int, int]:
        """Returns how many invoices are in it, and how many files wait for a person."""
        found: dict[str, PayableRow] = {}
        unread: list[str] = []
        for file in mail.files:
            taken = await intake.take(self._context, self._principal, self._arrival(mail, file))
            if taken.payable is not None:
                found[taken.payable.id] = taken.payable
                self.invoices += taken.is_new
            else:
                unread.append(taken.file_id)
        if len(found) == 1:
            (payable,) = found.values()
            for file_id in unread:
                await self._context.db.write(intake.accompany, payable, file_id)
            unread = []
        return len(found), len(unread)

    def _arrival(self, mail: Mail, file: MailFile) -> Arrival:
        note = " · ".join(filter(None, (mail.sender, mail.subject)))
        digest = hashlib.sha256(file.content).hexdigest()
        return Arrival(self._row.organization_id, file.name, digest, file.content, MAILBOX, "", note)

    def _entry(self, sender: str, subject: str, invoices: int = 0, unread: int = 0, *, trouble: str = "") -> MailRow:
        return MailRow(self._row.organization_id, new_id(), sender, subject, invoices, unread, trouble, 0)


def _remember(tx: Tx, row: MailboxRow, validity: int, number: int, entry: MailRow | None) -> None:
    # Not of a mailbox that was changed meanwhile: its messages have other numbers.
    organization_id = row.organization_id
    tx.run(
        "UPDATE payables_mailboxes SET validity = ?, last_number = ? WHERE organization_id = ? AND changed_at = ?",
        validity, number, organization_id, row.changed_at,
    )  # fmt: skip
    if entry is not None:
        MAILS.insert(tx, entry._replace(created_at=tx.now))
    tx.run(
        "DELETE FROM payables_mails WHERE organization_id = ? AND created_at < ?",
        organization_id, tx.now - _DAYS_LISTED * DAY,
    )  # fmt: skip


# The mailbox that invoices come by, by call: which one it is, tried, read now, and no longer read. Nobody gets its
# password back.


_Line = Annotated[str, Meta(min_length=1, max_length=200)]
_AFTERWARDS = "what becomes of a mail with invoices; others are never touched"
_TROUBLE = "a word for what went wrong; null if nothing did"


class NewMailbox(Body, kw_only=True):
    host: Annotated[str, form("the name of a server", r"^[^ /:@]{1,200}$", examples=["imap.example.com"])]
    port: Annotated[int, Meta(ge=1, le=65535)] = imap.PORT
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
    return Data(view_of_mailbox(await call.read(find_mailbox, call.principal.organization(query.organization_id))))


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
    check(call.context.part(Mailboxes).rule, wanted)

    def unit(tx: Tx) -> Data[PayablesMailbox]:
        save(tx, call.context.vault, organization_id, wanted, call.actor)
        return Data(view_of_mailbox(find_mailbox(tx, organization_id)))

    return await call.commit(unit)


@post("/v2/payables/mailbox/readings", scope="payables:write", role="admin", statuses=(200,), errors=(403, 404))
async def read_payables_mailbox(call: Call, query: OrganizationQuery, body: NewMailboxReading) -> Data[MailboxReading]:
    """Read the mailbox now, or with `trial` only try whether it can be read. `trouble` says if it cannot."""
    organization_id = call.principal.organization(query.organization_id)
    row = await call.read(find_mailbox, organization_id)
    if body.trial:
        trouble = await trouble_of(call.context, row)
        return Data(MailboxReading(trial=True, messages=0, invoices=0, trouble=trouble or None))
    done = await fetch(call.context, organization_id)
    return Data(
        MailboxReading(trial=False, messages=done.messages, invoices=done.invoices, trouble=done.trouble or None)
    )


@delete("/v2/payables/mailbox", scope="payables:write", role="admin", errors=(403, 404))
async def remove_payables_mailbox(call: Call, query: OrganizationQuery) -> Data[RemovedMailbox]:
    """Read the mailbox no longer. Its password is forgotten; what came by it stays."""
    organization_id = call.principal.organization(query.organization_id)

    def unit(tx: Tx) -> Data[RemovedMailbox]:
        find_mailbox(tx, organization_id)
        return Data(RemovedMailbox(organization_id, remove(tx, organization_id, call.actor)))

    return await call.commit(unit)


def find_mailbox(tx: Tx, organization_id: str) -> MailboxRow:
    row = of_organization(tx, organization_id)
    if row is None:
        raise NotFound("No mailbox is set up.")
    return row


def view_of_mailbox(row: MailboxRow) -> PayablesMailbox:
    return from_row(PayablesMailbox, row, moved_to=row.moved_to or None, trouble=row.trouble or None)
