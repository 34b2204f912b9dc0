"""A mail server for tests, which keeps what it is given. It speaks as much SMTP as a client needs, without TLS."""

from __future__ import annotations

import email
import email.policy
import socketserver
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from email.message import EmailMessage

Refusal = Callable[[str, str], str | None]


class PostOffice:
    """`refuses` returns the answer to a command that is not to be obeyed, by the command's first word and the rest of its line."""

    def __init__(self, refuses: Refusal = lambda verb, rest: None) -> None:
        self.refuses = refuses
        self.taken: list[EmailMessage] = []
        office = self

        class Session(socketserver.StreamRequestHandler):
            def handle(self) -> None:
                self._say("220 post office")
                while line := self.rfile.readline():
                    verb, _, rest = line.decode().strip().partition(" ")
                    refusal = office.refuses(verb.upper(), rest)
                    if refusal is not None:
                        self._say(refusal)
                    elif verb.upper() == "DATA":
                        self._say("354 go ahead")
                        office.taken.append(self._message())
                        self._say("250 taken")
                    elif verb.upper() == "QUIT":
                        self._say("221 bye")
                        return
                    else:
                        self._say("250 ok")

            def _message(self) -> EmailMessage:
                lines = b""
                while (line := self.rfile.readline()) != b".\r\n":
                    lines += line.removeprefix(b".") if line.startswith(b"..") else line
                return email.message_from_bytes(lines, policy=email.policy.default)

            def _say(self, text: str) -> None:
                self.wfile.write(text.encode() + b"\r\n")

        class Server(socketserver.ThreadingTCPServer):
            daemon_threads = True
            allow_reuse_address = True

        self._server = Server(("127.0.0.1", 0), Session)
        self.url = f"smtp://127.0.0.1:{self._server.server_address[1]}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


@contextmanager
def post_office(refuses: Refusal = lambda verb, rest: None) -> Iterator[PostOffice]:
    office = PostOffice(refuses)
    try:
        yield office
    finally:
        office.close()
