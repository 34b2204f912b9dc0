"""Mail to people, from an outbox in the database to a server; and mail from them, out of a folder that is read over IMAP."""

from __future__ import annotations

import asyncio
import base64
import imaplib
import ipaddress
import re
import smtplib
import socket
import ssl
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import date
from email.message import EmailMessage
from email.utils import formatdate, parseaddr
from typing import Any, Literal, NamedTuple
from urllib.parse import SplitResult, unquote, urlsplit

import msgspec

from kontobahn import log
from kontobahn.clock import DAY, HOUR, MINUTE, SECOND
from kontobahn.db import Database, Tx, leases
from kontobahn.errors import SetupError
from kontobahn.ids import new_id
from kontobahn.settings import Settings
from kontobahn.vault import Vault

# Mail that is to be sent: written in the transaction that gives cause for it, handed over afterwards, tried again for
# three days.


# The mail server that messages are handed to, as the settings `smtp_url` and `mail_from` name it.


SECONDS = 30
_PORTS = {"smtp": 587, "smtps": 465}


class Server(NamedTuple):
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


# A folder of somebody's mailbox, over IMAP and TLS: what is new in it, message by message, within bounds. Only what
# blocks is here.


IMAP_PORT = 993
IMAP_SECONDS = 20
MAX_MESSAGE_BYTES = 40_000_000
# A word for each thing that can go wrong: the dashboard has a sentence for it.
Trouble = Literal[
    "name", "address", "connect", "tls", "timeout", "sign_in", "folder", "cannot_move", "cannot_delete", "protocol"
]
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")


class Account(NamedTuple):
    host: str
    port: int
    user: str
    password: str
    folder: str


class Unread(Exception):
    """The mailbox could not be read; says in a word why, and for the log what the server said."""

    def __init__(self, trouble: Trouble, detail: str = "") -> None:
        super().__init__(f"{trouble}: {detail}" if detail else trouble)
        self.trouble = trouble


class TooLong(Exception):
    """A message that is longer than we read."""


class _Connection(imaplib.IMAP4):
    """Connects to addresses that were checked already, and takes no more than it asked for."""

    def __init__(self, account: Account, addresses: Sequence[str], tls: ssl.SSLContext) -> None:
        self._addresses, self._tls = addresses, tls
        super().__init__(account.host, account.port, IMAP_SECONDS)

    def _create_socket(self, timeout: float | None) -> ssl.SSLSocket:
        *others, last = self._addresses
        for address in others:
            with suppress(OSError):
                return self._wrapped(socket.create_connection((address, self.port), timeout))
        return self._wrapped(socket.create_connection((last, self.port), timeout))

    def _wrapped(self, plain: socket.socket) -> ssl.SSLSocket:
        try:
            return self._tls.wrap_socket(plain, server_hostname=self.host)
        except BaseException:
            plain.close()
            raise

    def read(self, size: int) -> bytes:
        if size > MAX_MESSAGE_BYTES:
            raise Unread("protocol", f"{size} bytes at once")
        return super().read(size)


class Session:
    """One session with a folder open. Each method blocks; only one at a time may be called, `abort` from anywhere."""

    def __init__(self, account: Account, addresses: Sequence[str], tls: ssl.SSLContext, *, may_write: bool) -> None:
        """Signs in and opens the folder. Raises Unread."""
        with _troubles():
            self._connection = _Connection(account, addresses, tls)
        try:
            with _troubles():
                self._sign_in(account)
                answer, said = self._connection.select(_quoted(_encoded(account.folder)), readonly=not may_write)
            if answer != "OK":
                raise Unread("folder", _text(said))
            self.validity = self._number("UIDVALIDITY")
        except BaseException:
            self.close()
            raise

    def _sign_in(self, account: Account) -> None:
        connection = self._connection
        try:
            if "AUTH=PLAIN" in connection.capabilities:
                connection.authenticate("PLAIN", lambda _: f"\0{account.user}\0{account.password}".encode())
            else:
                connection.login(_quoted(account.user), account.password)
        except imaplib.IMAP4.abort:
            raise
        except (imaplib.IMAP4.error, UnicodeEncodeError) as error:
            raise Unread("sign_in", str(error)) from None
        # Some servers offer more once it is known who asks.
        answer, said = connection.capability()
        if answer == "OK":
            connection.capabilities = tuple(_text(said).upper().split())

    def _number(self, name: str) -> int:
        _, said = self._connection.response(name)
        text = _text(said)
        if not text.isdigit():
            raise Unread("protocol", f"no {name}")
        return int(text)

    def new(self, after: int, since: date) -> list[int]:
        """Returns the numbers of messages above this one that came on this day or later, in their order."""
        day = f"{since.day:02}-{_MONTHS[since.month - 1]}-{since.year}"
        said = self._ask("SEARCH", "UID", f"{after + 1}:*", "SINCE", day)
        # `n:*` always names the last one, also if its number is lower.
        return sorted({int(word) for word in _text(said).split() if word.isdigit() and int(word) > after})

    def message(self, number: int) -> bytes | None:
        """Returns a message, which stays unread; None if it is gone. Raises TooLong."""
        size = re.search(rb"RFC822\.SIZE (\d+)", _bytes(self._ask("FETCH", str(number), "(UID RFC822.SIZE)")))
        if size is None:
            return None
        if int(size[1]) > MAX_MESSAGE_BYTES:
            raise TooLong
        for part in self._ask("FETCH", str(number), "(UID BODY.PEEK[])"):
            if isinstance(part, tuple):
                return bytes(part[1])
        return None

    def move(self, number: int, folder: str) -> None:
        if "MOVE" not in self._connection.capabilities:
            raise Unread("cannot_move")
        try:
            self._ask("MOVE", str(number), _quoted(_encoded(folder)))
        except Unread as error:
            raise Unread("cannot_move", str(error)) if error.trouble == "protocol" else error from None

    def delete(self, number: int) -> None:
        if "UIDPLUS" not in self._connection.capabilities:
            # Without it, only everything that is marked could be removed, also what others have marked.
            raise Unread("cannot_delete")
        self._ask("STORE", str(number), "+FLAGS.SILENT", r"(\Deleted)")
        self._ask("EXPUNGE", str(number))

    def _ask(self, command: str, *words: str) -> list[Any]:
        with _troubles():
            answer, said = self._connection.uid(command, *words)
        if answer != "OK":
            raise Unread("protocol", _text(said))
        return list(said)

    def abort(self) -> None:
        """Ends whatever is being waited for."""
        with suppress(OSError):
            # Not the method of the TLS socket, which another thread is reading from.
            socket.socket.shutdown(self._connection.sock, socket.SHUT_RDWR)

    def close(self) -> None:
        with suppress(OSError, imaplib.IMAP4.error, ValueError):
            self._connection.logout()
        with suppress(OSError):
            # A session that was broken off has not been closed by that.
            self._connection.shutdown()


@contextmanager
def _troubles() -> Iterator[None]:
    """Around what speaks with the server: everything that can go wrong becomes Unread."""
    try:
        yield
    except ssl.SSLError as error:
        raise Unread("tls", str(error)) from None
    except TimeoutError:
        raise Unread("timeout") from None
    except OSError as error:
        raise Unread("connect", str(error)) from None
    except imaplib.IMAP4.abort as error:
        raise Unread("connect", str(error)) from None
    except (imaplib.IMAP4.error, ValueError, AttributeError) as error:
        raise Unread("protocol", str(error)) from None


def _bytes(said: Sequence[Any]) -> bytes:
    return b" ".join(part for part in said if isinstance(part, bytes))


def _text(said: Sequence[Any]) -> str:
    return _bytes(said).decode("utf-8", "replace")


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _encoded(folder: str) -> str:
    """Returns the name of a folder as it is sent: other letters than ASCII in UTF-7 of a kind that only IMAP has."""
    parts = re.split(r"([^\x20-\x7e]+)", folder)
    return "".join(_utf7(part) if place % 2 else part.replace("&", "&-") for place, part in enumerate(parts))


def _utf7(text: str) -> str:
    return "&" + base64.b64encode(text.encode("utf-16-be")).decode().rstrip("=").replace("/", ",") + "-"
