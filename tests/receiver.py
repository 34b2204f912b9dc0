"""A receiver of events: a real HTTP or HTTPS server that records what arrived and answers as scripted."""

from __future__ import annotations

import datetime
import ipaddress
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from tests.waiting import take_time


class Delivered(NamedTuple):
    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def id(self) -> str:
        return self.headers["webhook-id"]

    @property
    def event(self) -> str:
        return str(self.json["event"])

    @property
    def data(self) -> Any:
        return self.json["data"]

    @property
    def json(self) -> Any:
        return msgspec.json.decode(self.body)


class Answer(NamedTuple):
    status: int = 204
    headers: dict[str, str] = {}  # noqa: RUF012
    body: bytes = b""
    seconds: float = 0
    # Nothing is answered before it is set.
    held_until: threading.Event | None = None


Script = Callable[[Delivered], Answer | int]


class Receiver:
    """Answers 204, or what its script says about a delivery."""

    def __init__(self, script: Script | None = None, tls: ssl.SSLContext | None = None) -> None:
        self.script = script
        self.deliveries: list[Delivered] = []
        self.connections = 0
        self.server_names: list[str | None] = []
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def setup(self) -> None:
                receiver.connections += 1
                super().setup()

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"] or 0))
                headers = {name.lower(): value for name, value in self.headers.items()}
                receiver.answer(self, Delivered(self.path, headers, body))

            do_GET = do_POST

            def log_message(self, format: str, *args: Any) -> None:
                pass

        class Server(ThreadingHTTPServer):
            daemon_threads = True
            request_queue_size = 128

            def handle_error(self, request: Any, client_address: Any) -> None:
                pass  # a client that hangs up is part of several tests

        self._server = Server(("127.0.0.1", 0), Handler)
        if tls is not None:
            tls.sni_callback = lambda _, name, __: self.server_names.append(name)
            self._server.socket = tls.wrap_socket(self._server.socket, server_side=True, do_handshake_on_connect=False)
        self.port: int = self._server.server_port
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)
        self._thread.start()

    @property
    def url(self) -> str:
        return f"http://localhost:{self.port}/events"

    @property
    def allow(self) -> str:
        return f"localhost:{self.port}"

    def answer(self, handler: BaseHTTPRequestHandler, delivered: Delivered) -> None:
        with self._lock:
            answer = self.script(delivered) if self.script else Answer()
            self.deliveries.append(delivered)
        if isinstance(answer, int):
            answer = Answer(answer)
        take_time(answer.seconds)
        if answer.held_until is not None:
            answer.held_until.wait()
        handler.send_response(answer.status)
        for name, value in answer.headers.items():
            handler.send_header(name, value)
        handler.send_header("content-length", str(len(answer.body)))
        handler.end_headers()
        handler.wfile.write(answer.body)

    def ids(self) -> list[str]:
        return [delivered.id for delivered in self.deliveries]

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()


@contextmanager
def receiving(script: Script | None = None, tls: ssl.SSLContext | None = None) -> Iterator[Receiver]:
    receiver = Receiver(script, tls)
    try:
        yield receiver
    finally:
        receiver.stop()


class Authority:
    """A certificate authority for one test."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "Test CA")])
        self._certificate = self._sign(self._name, self._key.public_key(), is_authority=True)

    def client(self) -> ssl.SSLContext:
        """Trusts this authority and no other."""
        return ssl.create_default_context(cadata=self._certificate.public_bytes(serialization.Encoding.PEM).decode())

    def server(self, *names: str) -> ssl.SSLContext:
        key = ec.generate_private_key(ec.SECP256R1())
        alternatives: list[x509.GeneralName] = []
        for name in names:
            is_address = name.replace(".", "").isdigit()
            alternatives.append(x509.IPAddress(ipaddress.ip_address(name)) if is_address else x509.DNSName(name))
        subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, names[0])])
        certificate = self._sign(subject, key.public_key(), alternatives)
        pem = key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        ) + certificate.public_bytes(serialization.Encoding.PEM)
        path = self._folder / f"{names[0]}.pem"
        path.write_bytes(pem)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(path)
        return context

    def _sign(
        self,
        subject: x509.Name,
        public_key: ec.EllipticCurvePublicKey,
        alternatives: list[x509.GeneralName] | None = None,
        *,
        is_authority: bool = False,
    ) -> x509.Certificate:
        now = datetime.datetime.now(datetime.UTC)
        usage = x509.KeyUsage(
            digital_signature=True, key_cert_sign=is_authority, crl_sign=is_authority, content_commitment=False,
            key_encipherment=False, data_encipherment=False, key_agreement=False, encipher_only=False, decipher_only=False,
        )  # fmt: skip
        builder = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(public_key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - datetime.timedelta(days=1))
            .not_valid_after(now + datetime.timedelta(days=1))
            .add_extension(x509.BasicConstraints(ca=is_authority, path_length=None), critical=True)
            .add_extension(usage, critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(public_key), critical=False)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()), critical=False)
        )
        if alternatives:
            builder = builder.add_extension(x509.SubjectAlternativeName(alternatives), critical=False)
        return builder.sign(self._key, hashes.SHA256())


class FakeNames:
    """A resolver that answers from a table; a name that is not in it does not exist. A list of lists is answered in turn."""

    def __init__(self, **names: list[str] | list[list[str]]) -> None:
        self.names = {name.replace("_", "."): answers for name, answers in names.items()}
        self.asked: list[str] = []

    async def addresses(self, host: str, port: int) -> list[str]:
        self.asked.append(host)
        answers: Any = self.names.get(host)
        if answers is None:
            raise OSError("no such name")
        if isinstance(answers[0], list):
            return list(answers.pop(0) if len(answers) > 1 else answers[0])
        return list(answers)
