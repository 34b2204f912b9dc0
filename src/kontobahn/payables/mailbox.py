"""The mailbox that invoices come by: which one, how far it was read, and reading what is new.

A message is done once its files are taken in and, if told so, it was moved or deleted; only then is its number written down. Whoever is
killed in between reads it again, and what came in it is known by then.
"""

from __future__ import annotations

import asyncio
import hashlib
import ssl
from datetime import date
from typing import Literal, NamedTuple

from kontobahn import log
from kontobahn.access import audit
from kontobahn.access.audit import Actor
from kontobahn.access.principal import Principal
from kontobahn.api.call import Context
from kontobahn.clock import DAY, MINUTE
from kontobahn.db import Table, Tx, leases
from kontobahn.errors import BadRequest
from kontobahn.ids import new_id
from kontobahn.mail import imap
from kontobahn.mail.imap import Account, Session, TooLong, Trouble, Unread
from kontobahn.outbound import Refused, Resolver, Rule, SystemResolver, Unreached
from kontobahn.payables import attachments, intake
from kontobahn.payables.attachments import Mail, MailFile
from kontobahn.payables.intake import Arrival
from kontobahn.payables.store import PayableRow
from kontobahn.threads import Pool, work_for
from kontobahn.vault import Vault

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
            mail = await self._context.part(Pool).run(attachments.read, content)
        except (TooLong, attachments.Unreadable) as error:
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
