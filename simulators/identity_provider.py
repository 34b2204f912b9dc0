"""An OpenID Connect provider on loopback, from the published description: discovery, keys, authorisation code with PKCE, sign-out.

It checks everything that a client sends, remembers what was wrong in `faults`, and misbehaves as it is told. Its tokens are signed
here by hand, so that the library that checks them does not check its own work.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import html
import json
import secrets
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Literal
from urllib.parse import parse_qsl, unquote_plus, urlencode, urlsplit

from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

# Faults of an ID token; the word behind it says how.
Lie = Literal[
    "", "nonce", "no nonce", "issuer", "audience", "several audiences", "another azp", "expired", "future", "no times", "none",
    "HS256", "HS256 with the key as JSON", "unknown key", "wrong signature", "no subject", "old", "not yet", "no claims", "no token",
    "encrypted", "short key", "other type of key",
]  # fmt: skip
# Faults of the way there: an error instead of a code, and answers that are late, too long, torn or something else.
Trouble = Literal[
    "", "denied", "late", "huge", "half", "nonsense", "500", "redirect", "echo", "wrong issuer in discovery",
    "private address", "no keys", "wrong iss",
]  # fmt: skip
Method = Literal["client_secret_basic", "client_secret_post", "none"]
ISSUER_PATH = "/realms/muster"


def _b64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def _number(value: int) -> str:
    return _b64(value.to_bytes((value.bit_length() + 7) // 8, "big"))


@cache
def rsa_key(name: str, bits: int = 2048) -> rsa.RSAPrivateKey:
    return rsa.generate_private_key(65537, bits)


@cache
def ec_key(name: str) -> ec.EllipticCurvePrivateKey:
    return ec.generate_private_key(ec.SECP256R1())


@dataclass
class Grant:
    """A code that was handed out, and everything that its redemption must fit."""

    subject: str
    asked: dict[str, str]
    auth_time: int
    is_used: bool = False


@dataclass
class Provider:
    # Seconds since 1970.
    now: Callable[[], int]
    client_id: str = "kontobahn"
    secret: str = "a secret that nobody may see"
    method: Method = "client_secret_basic"
    redirect_uri: str = ""
    algorithm: Literal["RS256", "ES256"] = "RS256"
    # Names of the keys that are published; tokens are signed with the last one. Without ids, `kid` is left out everywhere.
    keys: list[str] = field(default_factory=lambda: ["first"])
    with_ids: bool = True
    names_issuer: bool = False
    has_sign_out: bool = True
    lie: Lie = ""
    trouble: Trouble = ""
    # The path that the trouble is at; all of them if empty.
    trouble_at: str = ""
    accounts: dict[str, dict[str, Any]] = field(default_factory=dict)
    # The person at the browser; without one, a page asks. The seconds since this person has signed in, unless asked to sign in anew.
    present: str = ""
    signed_in_for: int = 0
    tells_auth_time: bool = True
    obeys_prompt: bool = True
    faults: list[str] = field(default_factory=list)
    requests: Counter[str] = field(default_factory=Counter)
    grants: dict[str, Grant] = field(default_factory=dict)
    go_on: threading.Event = field(default_factory=threading.Event)
    origin: str = ""

    @property
    def issuer(self) -> str:
        return self.origin + ISSUER_PATH

    def add(self, subject: str, **claims: Any) -> str:
        self.accounts[subject] = claims
        return subject

    # --- Answers: status, headers, content

    def respond(
        self, method: str, target: str, headers: dict[str, str], body: bytes
    ) -> tuple[int, dict[str, str], bytes]:
        parts = urlsplit(target)
        path = parts.path.removeprefix(ISSUER_PATH)
        query = dict(parse_qsl(parts.query, keep_blank_values=True))
        form = dict(parse_qsl(body.decode(), keep_blank_values=True))
        self.requests[path] += 1
        if path == "/.well-known/openid-configuration":
            return _json(self._discovery())
        if path == "/keys":
            return _json({"keys": [] if self.trouble == "no keys" else [self._public(name) for name in self.keys]})
        if path == "/authorize":
            return self._authorize(query, form.get("subject", self.present))
        if path == "/token" and method == "POST":
            return self._token(headers, form)
        if path == "/sign-out":
            self._expect("client_id", query.get("client_id"), self.client_id)
            return 302, {"Location": query.get("post_logout_redirect_uri", "")}, b""
        return 404, {}, b""

    def _discovery(self) -> dict[str, Any]:
        issuer = self.issuer + ("x" if self.trouble == "wrong issuer in discovery" else "")
        origin = "http://10.1.2.3" if self.trouble == "private address" else self.origin
        found = {
            "issuer": issuer,
            "authorization_endpoint": f"{self.issuer}/authorize?tenant=muster",
            "token_endpoint": f"{origin}{ISSUER_PATH}/token",
            "jwks_uri": f"{self.issuer}/keys",
            "token_endpoint_auth_methods_supported": [self.method],
            "authorization_response_iss_parameter_supported": self.names_issuer,
            "response_types_supported": ["code"],
            "subject_types_supported": ["public"],
            "id_token_signing_alg_values_supported": [self.algorithm],
        }
        return found | ({"end_session_endpoint": f"{self.issuer}/sign-out"} if self.has_sign_out else {})

    def _authorize(self, asked: dict[str, str], subject: str) -> tuple[int, dict[str, str], bytes]:
        self._check_question(asked)
        if self.trouble == "denied":
            return self._send_back(asked, error="access_denied", error_description="<script>alert(1)</script>")
        if not subject:
            buttons = "".join(
                f'<button name="subject" value="{html.escape(one)}">{html.escape(one)}</button>'
                for one in self.accounts
            )
            page = f'<!doctype html><html lang="en"><title>Sign in</title><form method="post">{buttons}</form>'
            return 200, {"Content-Type": "text/html"}, page.encode()
        is_new = self.obeys_prompt and ("login" in asked.get("prompt", "") or asked.get("max_age") == "0")
        code = secrets.token_urlsafe(24)
        self.grants[code] = Grant(subject, asked, self.now() - (0 if is_new else self.signed_in_for))
        return self._send_back(asked, code=code)

    def _check_question(self, asked: dict[str, str]) -> None:
        self._expect("tenant", asked.get("tenant"), "muster")
        self._expect("response_type", asked.get("response_type"), "code")
        self._expect("client_id", asked.get("client_id"), self.client_id)
        self._expect("redirect_uri", asked.get("redirect_uri"), self.redirect_uri)
        self._expect("code_challenge_method", asked.get("code_challenge_method"), "S256")
        if "openid" not in asked.get("scope", "").split():
            self.faults.append("scope without openid")
        if len(asked.get("code_challenge", "")) != 43:
            self.faults.append("code_challenge is no SHA-256")
        for name in ("state", "nonce"):
            if len(asked.get(name, "")) < 22:
                self.faults.append(f"{name} can be guessed")

    def _send_back(self, asked: dict[str, str], **answer: str) -> tuple[int, dict[str, str], bytes]:
        if self.names_issuer or self.trouble == "wrong iss":
            answer["iss"] = self.issuer + ("x" if self.trouble == "wrong iss" else "")
        query = urlencode({**answer, "state": asked.get("state", "")})
        return 302, {"Location": f"{self.redirect_uri}?{query}"}, b""

    def _token(self, headers: dict[str, str], form: dict[str, str]) -> tuple[int, dict[str, str], bytes]:
        self._check_client(headers, form)
        self._expect("grant_type", form.get("grant_type"), "authorization_code")
        self._expect("redirect_uri", form.get("redirect_uri"), self.redirect_uri)
        grant = self.grants.get(form.get("code", ""))
        if grant is None or grant.is_used:
            return _json({"error": "invalid_grant", "error_description": self.secret}, 400)
        grant.is_used = True
        challenge = _b64(hashlib.sha256(form.get("code_verifier", "").encode()).digest())
        self._expect("code_verifier", challenge, grant.asked.get("code_challenge"))
        if not 43 <= len(form.get("code_verifier", "")) <= 128:
            self.faults.append("code_verifier has not 43 to 128 characters")
        if self.faults:
            return _json({"error": "invalid_request"}, 400)
        token = {} if self.lie == "no token" else {"id_token": self.token(self._claims(grant))}
        return _json({"access_token": "at", "token_type": "Bearer", "expires_in": 300, **token})

    def _check_client(self, headers: dict[str, str], form: dict[str, str]) -> None:
        sent = headers.get("authorization", "")
        if self.method == "client_secret_basic":
            user, _, password = base64.b64decode(sent.removeprefix("Basic ")).decode().partition(":")
            self._expect("client", (unquote_plus(user), unquote_plus(password)), (self.client_id, self.secret))
        else:
            self._expect("Authorization", sent, "")
            self._expect("client_id", form.get("client_id"), self.client_id)
            self._expect("secret", form.get("client_secret"), None if self.method == "none" else self.secret)

    def _expect(self, what: str, sent: object, wanted: object) -> None:
        if sent != wanted:
            self.faults.append(what)

    # --- Tokens

    def _claims(self, grant: Grant) -> dict[str, Any]:
        now = self.now()
        claims: dict[str, Any] = {
            "iss": self.issuer, "sub": grant.subject, "aud": self.client_id, "exp": now + 300, "iat": now,
            "nonce": grant.asked["nonce"], **self.accounts.get(grant.subject, {}),
        }  # fmt: skip
        if self.tells_auth_time:
            claims["auth_time"] = grant.auth_time
        lies: dict[str, dict[str, Any]] = {
            "nonce": {"nonce": "another"}, "no nonce": {"nonce": None}, "issuer": {"iss": "https://evil.example"},
            "audience": {"aud": "another"}, "several audiences": {"aud": [self.client_id, "another"]},
            "another azp": {"aud": [self.client_id], "azp": "another"}, "expired": {"exp": now - 60},
            "future": {"iat": now + 61}, "no times": {"exp": None}, "no subject": {"sub": ""}, "old": {"iat": now - 3600},
            "not yet": {"nbf": now + 61},
        }  # fmt: skip
        return {name: value for name, value in {**claims, **lies.get(self.lie, {})}.items() if value is not None}

    def token(self, claims: dict[str, Any]) -> str:
        name = self.keys[-1]
        payload = _b64(b"[]" if self.lie == "no claims" else json.dumps(claims).encode())
        header: dict[str, str] = {"alg": self.algorithm, "typ": "JWT", "x5t": "unused"}
        if self.with_ids:
            header["kid"] = "unknown" if self.lie == "unknown key" else name
        if self.lie == "none":
            return f"{_b64(json.dumps({**header, 'alg': 'none'}).encode())}.{payload}."
        if self.lie.startswith("HS256"):
            header["alg"] = "HS256"
        if self.lie == "other type of key":
            header["alg"] = "ES256"
        signed = f"{_b64(json.dumps(header).encode())}.{payload}"
        if self.lie == "encrypted":
            return f"{signed}.{_b64(b'tag')}.{_b64(b'more')}.{_b64(b'parts')}"
        return f"{signed}.{_b64(self._signature(name, signed.encode()))}"

    def _signature(self, name: str, signed: bytes) -> bytes:
        if self.lie == "HS256":
            public = rsa_key(name).public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
            return hmac.digest(public, signed, "sha256")
        if self.lie == "HS256 with the key as JSON":
            return hmac.digest(json.dumps(self._public(name)).encode(), signed, "sha256")
        if self.lie == "wrong signature":
            name = "somebody else's"
        if self.algorithm == "ES256":
            pair = decode_dss_signature(ec_key(name).sign(signed, ec.ECDSA(SHA256())))
            return b"".join(number.to_bytes(32, "big") for number in pair)
        return self._rsa(name).sign(signed, padding.PKCS1v15(), SHA256())

    def _rsa(self, name: str) -> rsa.RSAPrivateKey:
        return rsa_key(name, 1024 if self.lie == "short key" else 2048)

    def _public(self, name: str) -> dict[str, str]:
        about = {"use": "sig", "alg": self.algorithm, **({"kid": name} if self.with_ids else {})}
        if self.algorithm == "ES256":
            point = ec_key(name).public_key().public_numbers()
            x, y = (_b64(number.to_bytes(32, "big")) for number in (point.x, point.y))
            return {"kty": "EC", "crv": "P-256", "x": x, "y": y, **about}
        numbers = self._rsa(name).public_key().public_numbers()
        return {"kty": "RSA", "n": _number(numbers.n), "e": _number(numbers.e), **about}


def _json(value: Any, status: int = 200) -> tuple[int, dict[str, str], bytes]:
    return status, {"Content-Type": "application/json"}, json.dumps(value).encode()


def _server_for(provider: Provider) -> ThreadingHTTPServer:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        wbufsize, disable_nagle_algorithm = -1, True

        def _any(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", "0")))
            headers = {name.lower(): value for name, value in self.headers.items()}
            status, more, content = provider.respond(self.command, self.path, headers, body)
            trouble = provider.trouble if provider.trouble_at in urlsplit(self.path).path else ""
            if trouble == "late":
                provider.go_on.wait()
            elif trouble == "huge":
                content += b" " * 1_000_000
            elif trouble == "nonsense":
                content = b"<html>down for maintenance</html>"
            elif trouble == "500":
                status = 500
            elif trouble == "echo":
                status, content = 400, json.dumps({"error": f"{headers} {body.decode()}"}).encode()
            elif trouble == "redirect":
                status, more = 302, {"Location": f"{provider.issuer}/elsewhere"}
            self.send_response(status)
            for name, value in {**more, "Content-Length": str(len(content))}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(content[: len(content) // 2] if trouble == "half" else content)
            self.close_connection = self.close_connection or trouble == "half"

        do_GET = do_POST = _any

        def log_message(self, *args: object) -> None:
            pass

    class Server(ThreadingHTTPServer):
        daemon_threads = True

        def handle_error(self, request: object, client_address: object) -> None:
            """A client that went away is no fault of the provider's."""

    return Server(("127.0.0.1", 0), Handler)


@contextmanager
def running(provider: Provider) -> Iterator[Provider]:
    server = _server_for(provider)
    provider.origin = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield provider
    finally:
        provider.go_on.set()
        server.shutdown()
        server.server_close()
        thread.join()
