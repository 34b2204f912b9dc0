"""The HTTP server of the simulator of Enable Banking, which loses, cuts and delays answers as it is told."""

from __future__ import annotations

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Literal, Protocol

# unheard: it never got the request. lost: it did what was asked, and the answer is lost. half: the answer ends in the middle.
# echo: a refusal that repeats all that was sent. late: the answer waits until `go_on` is set. held: the request itself does.
# dropped: it does too, and then never gets there.
How = Literal[
    "500", "502", "408", "429", "bank-429", "unheard", "lost", "half", "nonsense", "echo", "late", "held", "dropped"
]


class Answering(Protocol):
    go_on: threading.Event

    def broken(self, asked: str) -> How | None:
        """`asked` is the method and the path."""

    def respond(
        self, method: str, target: str, headers: dict[str, str], body: bytes, how: How | None
    ) -> tuple[int, dict[str, str], bytes]: ...


def server_for(bank: Answering) -> ThreadingHTTPServer:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        wbufsize, disable_nagle_algorithm = -1, True

        def _any(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", "0")))
            how = bank.broken(f"{self.command} {self.path}")
            if how == "unheard":
                self.close_connection = True
                self.connection.close()
                return
            headers = {name.lower(): value for name, value in self.headers.items()}
            status, more, content = bank.respond(self.command, self.path, headers, body, how)
            if how == "late":
                bank.go_on.wait()
            if how == "lost":
                self.close_connection = True
                self.connection.close()
                return
            self.send_response(status)
            for name, value in {
                "Content-Type": "application/json",
                "Content-Length": str(len(content)),
                **more,
            }.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(content[: len(content) // 2] if how == "half" else content)
            if how == "half":
                self.close_connection = True

        do_GET = do_POST = do_PUT = do_DELETE = _any

        def log_message(self, *args: object) -> None:
            pass

    class Server(ThreadingHTTPServer):
        daemon_threads = True
        request_queue_size = 128

        def handle_error(self, request: object, client_address: object) -> None:
            """A client that went away is no fault of the bank's."""

    return Server(("127.0.0.1", 0), Handler)
