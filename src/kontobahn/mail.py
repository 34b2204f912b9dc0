"""Mail to people, from an outbox in the database to a server.

A mail is written in the transaction that gives cause for it, handed over afterwards, and tried again for three days.
"""

from __future__ import annotations

import asyncio
import ipaddress
import smtplib
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from email.message import EmailMessage
from email.utils import formatdate, parseaddr
from typing import NamedTuple
from urllib.parse import SplitResult, unquote, urlsplit

import msgspec

from kontobahn import log
from kontobahn.clock import DAY, HOUR, MINUTE, SECOND
from kontobahn.db import Database, Tx, leases
from kontobahn.errors import SetupError
from kontobahn.ids import new_id
from kontobahn.settings import Settings
from kontobahn.vault import Vault

SECONDS = 30
_PORTS = {"smtp": 587, "smtps": 465}


class Server(NamedTuple):
    """The mail server that messages are handed to, as the settings `smtp_url` and `mail_from` name it."""

    host: str
    port: int
    user: str
    password: str
    # From the first byte on; otherwise the server must offer STARTTLS, unless it is on this machine.
    tls_at_once: bool
    sender: str


class NotTaken(Exception):
    """The server did not take a message."""

    def __init__(self, reason: str, *, for_good: bool) -> None:
        super().__init__(reason)
        self.for_good = for_good


def find_server(settings: Settings) -> Server | None:
    """Returns the server of the settings; None if there is none, and no mail is sent. Raises SetupError if it cannot be used."""
    if not settings.smtp_url:
        return None
    parts = _parts(settings.smtp_url)
    if parts.hostname is None:
        raise SetupError("The setting smtp_url must be like smtp://user:password@host:587 or smtps://host.")
    sender = parseaddr(settings.mail_from)[1]
    if sender.count("@") != 1:
        raise SetupError("The setting smtp_url needs mail_from as well: the address that mail comes from.")
    return Server(
        parts.hostname, parts.port or _PORTS[parts.scheme], unquote(parts.username or ""), unquote(parts.password or ""),
        parts.scheme == "smtps", settings.mail_from,
    )  # fmt: skip


def _parts(url: str) -> SplitResult:
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError:
        raise SetupError("The setting smtp_url is not an address.") from None
    if parts.scheme not in _PORTS:
        raise SetupError("The setting smtp_url must begin with smtp:// or smtps://.")
    return parts


def hand_over(server: Server, message: EmailMessage) -> None:
    """Blocks until the server has taken the message. Raises NotTaken."""
    with _session(server) as session:
        session.send_message(message)


def check_server(server: Server) -> None:
    """Signs in and sends nothing. Raises NotTaken."""
    with _session(server) as session:
        session.noop()


@contextmanager
def _session(server: Server) -> Iterator[smtplib.SMTP]:
    try:
        with _connected(server) as session:
            yield session
    except smtplib.SMTPRecipientsRefused as error:
        [(code, answer), *_] = error.recipients.values()
        raise NotTaken(_said(code, answer), for_good=code >= 500) from None
    except smtplib.SMTPAuthenticationError as error:
        # The setting is wrong: once it is right, the same message can go.
        raise NotTaken(_said(error.smtp_code, error.smtp_error), for_good=False) from None
    except smtplib.SMTPResponseException as error:
        raise NotTaken(_said(error.smtp_code, error.smtp_error), for_good=error.smtp_code >= 500) from None
    except (smtplib.SMTPException, OSError) as error:
        raise NotTaken(str(error) or type(error).__name__, for_good=False) from None


@contextmanager
def _connected(server: Server) -> Iterator[smtplib.SMTP]:
    trust = ssl.create_default_context()
    if server.tls_at_once:
        connection: smtplib.SMTP = smtplib.SMTP_SSL(server.host, server.port, timeout=SECONDS, context=trust)
    else:
        connection = smtplib.SMTP(server.host, server.port, timeout=SECONDS)
    with connection as session:
        session.ehlo()
        if not server.tls_at_once and (session.has_extn("starttls") or not _is_here(server.host)):
            session.starttls(context=trust)
        if server.user:
            session.login(server.user, server.password)
        yield session


def _is_here(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _said(code: int, answer: bytes | str) -> str:
    text = answer.decode("utf-8", "replace") if isinstance(answer, bytes) else answer
    return f"{code} {text}"[:500]


# Longer than a server may take for the steps of one message.
_LEASE = leases.Lease("mail_outbox", key=("organization_id", "id"), seconds=10 * SECONDS)
_PAUSES = (MINUTE, 5 * MINUTE, 30 * MINUTE, 2 * HOUR, 6 * HOUR, 12 * HOUR, DAY, DAY)
AT_ONCE = 50
DAYS_KEPT = 30


class Mail(NamedTuple):
    recipient: str
    subject: str
    text: str
    # The address of a page on which the person ends mail of this kind.
    unsubscribe: str = ""


class Waiting(NamedTuple):
    organization_id: str
    id: str
    attempts: int
    created_at: int
    mail: Mail


def put(tx: Tx, vault: Vault, organization_id: str, mail: Mail) -> str:
    """Writes the mail down to be sent after the transaction. It is sealed: a link in it is as good as a password."""
    mail_id = new_id()
    tx.run(
        "INSERT INTO mail_outbox (organization_id, id, sealed, created_at, next_at, attempts) VALUES (?, ?, ?, ?, ?, 0)",
        organization_id, mail_id, vault.seal(msgspec.json.encode(mail), _context(mail_id)), tx.now, tx.now,
    )  # fmt: skip
    return mail_id


async def send_due(db: Database, vault: Vault, server: Server | None) -> None:
    """Hands over what is due. A server that cannot be reached is not asked again for each."""
    if server is None:
        return
    for organization_id, mail_id in await db.read(_due):
        waiting = await db.write(_claim, vault, organization_id, mail_id)
        if waiting is None:
            continue
        try:
            await asyncio.to_thread(hand_over, server, _message(server, waiting))
        except NotTaken as error:
            log.warning("mail_not_taken", mail_id=mail_id, attempt=waiting.attempts, detail=str(error))
            await db.write(_put_off, waiting, str(error), for_good=error.for_good)
            if not error.for_good:
                return
        else:
            log.info("mail_sent", mail_id=mail_id, attempt=waiting.attempts)
            await db.write(_remove, waiting)


def _due(tx: Tx) -> list[tuple[str, str]]:
    rows = tx.all(
        "SELECT organization_id, id FROM mail_outbox WHERE given_up_at IS NULL AND next_at <= ? ORDER BY next_at LIMIT ?",
        tx.now, AT_ONCE,
    )  # fmt: skip
    return [(organization_id, mail_id) for organization_id, mail_id in rows]


def _claim(tx: Tx, vault: Vault, organization_id: str, mail_id: str) -> Waiting | None:
    row = _LEASE.claim(
        tx, organization_id, mail_id, setting="attempts = attempts + 1", only_if="given_up_at IS NULL",
        returning="attempts, created_at, sealed",
    )  # fmt: skip
    if row is None:
        return None
    attempts, created_at, sealed = row
    mail = msgspec.json.decode(vault.open(bytes(sealed), _context(mail_id)), type=Mail)
    return Waiting(organization_id, mail_id, attempts, created_at, mail)


def _put_off(tx: Tx, waiting: Waiting, reason: str, *, for_good: bool) -> None:
    given_up = for_good or waiting.attempts > len(_PAUSES)
    pause = 0 if given_up else _PAUSES[waiting.attempts - 1]
    _LEASE.give_up(
        tx, waiting.organization_id, waiting.id,
        next_at=tx.now + pause, last_error=reason, given_up_at=tx.now if given_up else None,
    )  # fmt: skip


def _remove(tx: Tx, waiting: Waiting) -> None:
    tx.run("DELETE FROM mail_outbox WHERE organization_id = ? AND id = ?", waiting.organization_id, waiting.id)


def purge(tx: Tx) -> int:
    return tx.run("DELETE FROM mail_outbox WHERE given_up_at <= ?", tx.now - DAYS_KEPT * DAY)


class State(NamedTuple):
    """For `kontobahn doctor`."""

    late: int
    given_up: int
    last_error: str | None


def state(tx: Tx) -> State:
    late = tx.one(
        "SELECT COUNT(*) FROM mail_outbox WHERE given_up_at IS NULL AND next_at <= ?", tx.now - 10 * MINUTE
    ) or (0,)
    failed = tx.one("SELECT COUNT(*), MAX(last_error) FROM mail_outbox WHERE given_up_at > ?", tx.now - 7 * DAY) or (
        0,
        None,
    )
    return State(late[0], failed[0], failed[1])


def _message(server: Server, waiting: Waiting) -> EmailMessage:
    mail, message = waiting.mail, EmailMessage()
    message["From"] = server.sender
    message["To"] = mail.recipient
    message["Subject"] = " ".join(mail.subject.split())
    message["Date"] = formatdate(waiting.created_at / SECOND)
    # The same at every attempt, so that a mailbox that has it already can tell.
    message["Message-ID"] = f"<{waiting.id}@{server.sender.rpartition('@')[2].rstrip('> ')}>"
    message["Auto-Submitted"] = "auto-generated"
    if mail.unsubscribe:
        message["List-Unsubscribe"] = f"<{mail.unsubscribe}>"
    message.set_content(mail.text)
    return message


def _context(mail_id: str) -> str:
    return f"mail_outbox {mail_id}"
