"""The mail server that messages are handed to, as the settings `smtp_url` and `mail_from` name it."""

from __future__ import annotations

import ipaddress
import smtplib
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from email.message import EmailMessage
from email.utils import parseaddr
from typing import NamedTuple
from urllib.parse import SplitResult, unquote, urlsplit

from kontobahn.errors import SetupError
from kontobahn.settings import Settings

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


def check(server: Server) -> None:
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
