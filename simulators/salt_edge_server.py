"""The HTTP side of the simulated Salt Edge: it checks headers, signature and time of each request, and breaks answers on command."""

from __future__ import annotations

import base64
import re
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Literal
from urllib.parse import parse_qsl, urlsplit

import msgspec
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
from cryptography.hazmat.primitives.hashes import SHA256

PATH = "/api/v6"
# Faults of an answer: an error instead; done, but the answer is lost; lost before it is done; a page that is no JSON; a page
# that stops in the middle; a refusal that repeats all that was sent. `late` waits for `release`.
Break = Literal["500", "503", "429", "lost", "not done", "nonsense", "torn", "echo", "late"]
numbers = msgspec.json.Encoder(decimal_format="number").encode
texts = msgspec.json.Encoder().encode


@cache
def key(name: str) -> rsa.RSAPrivateKey:
    """A key pair for each name; making one takes a moment."""
    return rsa.generate_private_key(65537, 2048)


@dataclass
class Shapes:
    customer: Literal["customer_id", "id"] = "customer_id"
    error: Literal["nested", "flat", "text", "bare"] = "nested"
    amounts: Literal["number", "text"] = "number"
    ids: Literal["text", "number"] = "text"
    # Whether the list of posted bookings leaves out the pending and duplicated ones.
    lists: Literal["apart", "together"] = "apart"
    from_date: Literal["honoured", "ignored", "refused"] = "honoured"
    # Whether the next page begins after the last row, or with it once more.
    next_id: Literal["next", "last"] = "next"
    refresh: Literal["connection", "attempt"] = "connection"
    custom_fields: Literal["object", "text"] = "object"
    consents: Literal["told", "not told"] = "told"
    callbacks_tell_time: bool = True
    # Whether a payment that is read tells its page.
    payments_tell_page: bool = True
    refreshed_payment: Literal["whole", "bare"] = "whole"


class Refusal(Exception):
    def __init__(self, status: int, error_class: str, message: str) -> None:
        super().__init__(message)
        self.status, self.error_class = status, error_class


class Server:
    def __init__(self, now: Callable[[], float] = time.time) -> None:
        self.now = now
        self.app_id, self.secret = "app-4711", "secret-0815"
        self.app_key, self.callback_key = key("app"), key("callbacks")
        self.must_sign = True
        self.shapes = Shapes()
        # Breaks for the next requests whose method and path match, each once.
        self.breaks: list[tuple[str, Break]] = []
        self.retry_after: str | None = None
        self.faults: list[str] = []
        self.asked: list[tuple[str, str]] = []
        # Of requests and of callbacks.
        self.signatures: set[str] = set()
        self.release = threading.Event()
        self._lock = threading.RLock()
        self._server: ThreadingHTTPServer | None = None

    def _route(self, method: str, path: str, query: dict[str, str], body: bytes) -> Any:
        """Does what is asked, and returns what is answered. Raises Refusal."""
        raise NotImplementedError

    def serve(self) -> str:
        """Starts on a free port and returns the address of the API."""
        simulator = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True

            def answer(self) -> None:
                simulator._answer(self)

            do_GET = do_POST = do_PUT = do_DELETE = answer

            def log_message(self, *args: Any) -> None:
                pass

        class Server(ThreadingHTTPServer):
            daemon_threads = True

            def handle_error(self, *args: Any) -> None:
                """Says nothing: cut connections are what it is for."""

        self._server = Server(("127.0.0.1", 0), Handler)
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()
        return f"http://127.0.0.1:{self._server.server_port}{PATH}"

    def stop(self) -> None:
        self.release.set()
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()

    def _answer(self, request: BaseHTTPRequestHandler) -> None:
        body = request.rfile.read(int(request.headers.get("Content-Length") or 0))
        path = urlsplit(request.path).path.removeprefix(PATH)
        self.asked.append((request.command, request.path))
        self.signatures.add(request.headers.get("Signature") or "")
        broken = self._next_break(f"{request.command} {path}")
        if broken == "late":
            self.release.wait(60)
        if broken == "not done":
            request.connection.close()
            request.close_connection = True
            return
        if broken in ("500", "503", "429"):
            status, content = (
                int(broken),
                self._error(int(broken), "RateLimitExceeded" if broken == "429" else "", broken),
            )
        elif broken == "echo":
            said = f"{dict(request.headers)} {body.decode()}"
            status, content = 400, self._error(400, "WrongRequestFormat", said)
        else:
            status, content = self._done(request, path, body)
        if broken == "lost":
            request.connection.close()
            request.close_connection = True
            return
        if broken in ("nonsense", "torn"):
            content = b"<html>maintenance</html>" if broken == "nonsense" else content[: len(content) // 2]
        request.send_response(status)
        request.send_header("Content-Type", "application/json")
        request.send_header("Content-Length", str(len(content)))
        if status == 429 and self.retry_after is not None:
            request.send_header("Retry-After", self.retry_after)
        request.end_headers()
        request.wfile.write(content)

    def _next_break(self, what: str) -> Break | None:
        with self._lock:
            for position, (pattern, kind) in enumerate(self.breaks):
                if re.fullmatch(pattern, what):
                    del self.breaks[position]
                    return kind
        return None

    def _done(self, request: BaseHTTPRequestHandler, path: str, body: bytes) -> tuple[int, bytes]:
        encode = numbers if self.shapes.amounts == "number" else texts
        with self._lock:
            try:
                self._check_request(request, body)
                query = dict(parse_qsl(urlsplit(request.path).query, keep_blank_values=True))
                return 200, encode(self._route(request.command, path, query, body))
            except Refusal as refusal:
                if refusal.status in (400, 401, 406):
                    self.faults.append(f"{request.command} {path}: {refusal.error_class}: {refusal}")
                return refusal.status, self._error(refusal.status, refusal.error_class, str(refusal))

    def _error(self, status: int, error_class: str, message: str) -> bytes:
        if status >= 500:
            return b"<html>Bad gateway</html>"
        match self.shapes.error:
            case "nested":
                return texts(
                    {"error": {"class": error_class, "message": message, "documentation_url": "x"}, "request": {}}
                )
            case "flat":
                return texts({"error_class": error_class, "error_message": message, "request": {}})
            case "text":
                return texts({"error": message})
            case "bare":
                return texts(message)

    def _check_request(self, request: BaseHTTPRequestHandler, body: bytes) -> None:
        headers = request.headers
        if headers.get("App-id") != self.app_id or headers.get("Secret") != self.secret:
            raise Refusal(401, "ApiKeyNotFound", "the API key was not found")
        if headers.get("Accept") != "application/json" or headers.get("Content-type") != "application/json":
            raise Refusal(406, "WrongRequestFormat", "headers must say application/json")
        if not self.must_sign and "Signature" not in headers:
            return
        if "Signature" not in headers:
            raise Refusal(400, "MissingSignature", "the signature is missing")
        expires_at = headers.get("Expires-at") or ""
        if not expires_at.isdigit() or int(expires_at) > self.now() + 3600:
            raise Refusal(400, "ExpiresAtInvalid", "Expires-at is invalid")
        if int(expires_at) < self.now():
            raise Refusal(400, "RequestExpired", "the request has expired")
        url = f"http://{headers['Host']}{request.path}"
        text = b"|".join((expires_at.encode(), request.command.encode(), url.encode(), body))
        try:
            signature = base64.b64decode(headers["Signature"], validate=True)
            self.app_key.public_key().verify(signature, text, PKCS1v15(), SHA256())
        except (InvalidSignature, ValueError):
            raise Refusal(400, "SignatureNotMatch", "the signature does not match") from None
