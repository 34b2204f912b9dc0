"""A mail server on loopback that speaks as much of IMAP4rev1 as a reader of one folder needs, over TLS.

It notes each command that it was sent, writes nothing unless it was told to, and misbehaves as it is told.
"""

from __future__ import annotations

import base64
import re
import socketserver
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import date, datetime
from typing import Any, Literal

# Faults: it ends in the midst of a message, announces one of a terabyte, speaks something else, or lacks what is optional.
Trouble = Literal["", "half", "huge", "nonsense", "no capabilities"]
_WORD = re.compile(r'"((?:[^"\\]|\\.)*)"|\(([^)]*)\)|(\S+)')


@dataclass
class Message:
    uid: int
    content: bytes
    came_on: date


@dataclass
class Mailbox:
    user: str = "rechnung@muster.example"
    password: str = "geheim ß"
    validity: int = 7
    folders: dict[str, list[Message]] = field(default_factory=lambda: {"INBOX": [], "Erledigt": []})
    trouble: Trouble = ""
    commands: list[str] = field(default_factory=list)
    port: int = 0
    _last_uid: int = 0

    def deliver(self, content: bytes, *, folder: str = "INBOX", came_on: date = date(2026, 3, 2)) -> int:
        """Returns the number of the new message."""
        self._last_uid += 1
        self.folders[folder].append(Message(self._last_uid, content, came_on))
        return self._last_uid

    def uids(self, folder: str = "INBOX") -> list[int]:
        return [message.uid for message in self.folders[folder]]

    def said(self, word: str) -> list[str]:
        """The commands with this word in them."""
        return [command for command in self.commands if word in command]


class _Handler(socketserver.StreamRequestHandler):
    mailbox: Mailbox

    def handle(self) -> None:
        self._folder: list[Message] | None = None
        self._is_signed_in = self._is_read_only = False
        with suppress(ConnectionError, ssl.SSLError, ValueError):
            self._say("* HELO" if self.mailbox.trouble == "nonsense" else "* OK ready")
            while line := self.rfile.readline(65_536):
                tag, _, rest = line.decode().rstrip("\r\n").partition(" ")
                self.mailbox.commands.append(rest)
                if not self._answer(tag, rest):
                    return

    def _say(self, text: str) -> None:
        self.wfile.write(text.encode() + b"\r\n")

    def _answer(self, tag: str, rest: str) -> bool:
        """Returns False to end the connection."""
        command, _, arguments = rest.partition(" ")
        words = [next(filter(None, found), "") for found in _WORD.findall(arguments)]
        if command.upper() == "UID":
            command, words = words[0], words[1:]
        name = command.upper()
        if name == "LOGOUT":
            self._say("* BYE ended")
            self._say(f"{tag} OK done")
            return False
        handler = getattr(self, f"_{name.lower()}", None)
        outcome = handler(words) if handler else "BAD unknown"
        if outcome is None:
            return False
        self._say(f"{tag} {outcome}")
        return True

    def _capability(self, words: list[str]) -> str:
        more = "" if self.mailbox.trouble == "no capabilities" else " MOVE UIDPLUS"
        self._say(f"* CAPABILITY IMAP4rev1 AUTH=PLAIN{more if self._is_signed_in else ''}")
        return "OK done"

    def _authenticate(self, words: list[str]) -> str:
        self._say("+ ")
        _, user, password = base64.b64decode(self.rfile.readline()).decode().split("\0")
        self._is_signed_in = (user, password) == (self.mailbox.user, self.mailbox.password)
        return "OK done" if self._is_signed_in else "NO [AUTHENTICATIONFAILED] wrong"

    def _select(self, words: list[str]) -> str:
        return self._open(words[0], read_only=False)

    def _examine(self, words: list[str]) -> str:
        return self._open(words[0], read_only=True)

    def _open(self, folder: str, *, read_only: bool) -> str:
        if not self._is_signed_in or folder not in self.mailbox.folders:
            return "NO no such folder"
        self._folder, self._is_read_only = self.mailbox.folders[folder], read_only
        self._say(f"* {len(self._folder)} EXISTS")
        self._say(f"* OK [UIDVALIDITY {self.mailbox.validity}] valid")
        return "OK [READ-ONLY] done" if read_only else "OK [READ-WRITE] done"

    def _search(self, words: list[str]) -> str:
        assert self._folder is not None
        first = int(words[words.index("UID") + 1].partition(":")[0])
        since = datetime.strptime(words[words.index("SINCE") + 1], "%d-%b-%Y").date()
        last = max((message.uid for message in self._folder), default=0)
        found = [
            message.uid
            for message in self._folder
            # A range to the last one always has it in it.
            if (message.uid >= first or message.uid == last) and message.came_on >= since
        ]
        self._say(f"* SEARCH {' '.join(map(str, found))}".rstrip())
        return "OK done"

    def _fetch(self, words: list[str]) -> str | None:
        assert self._folder is not None
        for place, message in enumerate(self._folder, 1):
            if message.uid != int(words[0]):
                continue
            if "RFC822.SIZE" in words[1]:
                self._say(f"* {place} FETCH (UID {message.uid} RFC822.SIZE {len(message.content)})")
                continue
            assert "BODY.PEEK[]" in words[1], "another way would mark it as read"
            size = 10**12 if self.mailbox.trouble == "huge" else len(message.content)
            self.wfile.write(f"* {place} FETCH (UID {message.uid} BODY[] {{{size}}}\r\n".encode())
            if self.mailbox.trouble == "half":
                self.wfile.write(message.content[: len(message.content) // 2])
                return None
            self.wfile.write(message.content + b")\r\n")
        return "OK done"

    def _move(self, words: list[str]) -> str:
        if self._is_read_only or words[1] not in self.mailbox.folders:
            return "NO [TRYCREATE] no such folder"
        moved = self._taken_out(int(words[0]))
        for message in moved:
            self.mailbox.folders[words[1]].append(message)
        return "OK done"

    def _store(self, words: list[str]) -> str:
        return "NO read-only" if self._is_read_only else "OK done"

    def _expunge(self, words: list[str]) -> str:
        if self._is_read_only:
            return "NO read-only"
        self._taken_out(int(words[0]))
        return "OK done"

    def _taken_out(self, uid: int) -> list[Message]:
        assert self._folder is not None
        found = [message for message in self._folder if message.uid == uid]
        for message in found:
            self._folder.remove(message)
        return found


class _Server(socketserver.ThreadingTCPServer):
    allow_reuse_address = True
    daemon_threads = True
    tls: ssl.SSLContext

    def get_request(self) -> Any:
        plain, address = super().get_request()
        return self.tls.wrap_socket(plain, server_side=True, do_handshake_on_connect=False), address

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that does not trust the certificate ends in the midst of the handshake."""


@contextmanager
def running(mailbox: Mailbox, tls: ssl.SSLContext) -> Iterator[Mailbox]:
    handler = type("Handler", (_Handler,), {"mailbox": mailbox})
    with _Server(("127.0.0.1", 0), handler) as server:
        server.tls = tls
        mailbox.port = server.server_address[1]
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
        thread.start()
        try:
            yield mailbox
        finally:
            server.shutdown()
            thread.join()
