"""A folder of somebody's mailbox, over IMAP and TLS: what is new in it, message by message, within bounds. Everything here blocks."""

from __future__ import annotations

import base64
import imaplib
import re
import socket
import ssl
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import date
from typing import Any, Literal, NamedTuple

from kontobahn.clock import ENGLISH_MONTHS

PORT = 993
SECONDS = 20
MAX_MESSAGE_BYTES = 40_000_000
# A word for each thing that can go wrong: the dashboard has a sentence for it.
Trouble = Literal[
    "name", "address", "connect", "tls", "timeout", "sign_in", "folder", "cannot_move", "cannot_delete", "protocol"
]


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
        super().__init__(account.host, account.port, SECONDS)

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
        # Some servers offer more once somebody has signed in.
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
        day = f"{since.day:02}-{ENGLISH_MONTHS[since.month - 1]}-{since.year}"
        said = self._ask("SEARCH", "UID", f"{after + 1}:*", "SINCE", day)
        # `n:*` always includes the last message, even if its number is lower.
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
            # Without it, one can only remove everything that is marked, including what others have marked.
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
