"""DATEV's sign-in, simulated: authorisation code with PKCE, tokens that roll, revocation, who it was, and keys.

A session lives from the sign-in on, and no refresh prolongs it. A refresh token that is used a second time ends the session.
"""

from __future__ import annotations

import base64
import hashlib
import secrets
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl, unquote_plus, urlencode, urlsplit

from simulators.identity_provider import Provider

ACCESS_SECONDS = 15 * 60
SESSION_SECONDS = 11 * 3600
OFFLINE_SECONDS = 2 * 365 * 24 * 3600
SHORTEST = 20
HINTS = ("access_token", "refresh_token")


class OAuthRefusal(Exception):
    def __init__(self, error: str, status: int = 400) -> None:
        super().__init__(error)
        self.error, self.status = error, status


@dataclass
class Session:
    person: str
    scopes: frozenset[str]
    until: float
    refresh_token: str = ""
    access: dict[str, float] = field(default_factory=dict)
    used: set[str] = field(default_factory=set)
    is_alive: bool = True


@dataclass
class SignIn:
    now: Callable[[], float]
    client_id: str = "2e7a5c0b9d"
    client_secret: str = "a secret of the application"
    redirect_uris: list[str] = field(default_factory=list)
    people: dict[str, str] = field(default_factory=lambda: {"t-1": "Sabine Beispiel"})
    is_sandbox: bool = True
    # Without it the answer does not say how long a refresh token lives.
    tells_lifetime: bool = True
    # Whether its document says where tokens are revoked.
    names_revocation: bool = True
    faults: list[str] = field(default_factory=list)
    sessions: list[Session] = field(default_factory=list)
    refreshes: int = 0
    # The hint and whether there was such a token, of each revocation.
    revoked: list[tuple[str, bool]] = field(default_factory=list)
    # Everything that nobody may ever read in a log.
    secrets: set[str] = field(default_factory=set)
    address: str = ""
    _codes: dict[str, dict[str, str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._keys = Provider(lambda: int(self.now()), client_id=self.client_id)

    @property
    def issuer(self) -> str:
        return f"{self.address}/openid"

    # --- The browser

    def sign_in(self, url: str, person: str = "t-1") -> str:
        """The person signs in and agrees. Returns where the browser goes then."""
        asked = self.check_question(url)
        code = secrets.token_urlsafe(24)
        self.secrets.add(code)
        self._codes[code] = {**asked, "person": person}
        return f"{asked['redirect_uri']}?{urlencode({'code': code, 'state': asked['state']})}"

    def refuse(self, url: str) -> str:
        asked = self.check_question(url)
        query = urlencode({"error": "access_denied", "state": asked["state"]})
        return f"{asked['redirect_uri']}?{query}"

    def check_question(self, url: str) -> dict[str, str]:
        """Raises OAuthRefusal if the page would not be shown."""
        asked = dict(parse_qsl(urlsplit(url).query, keep_blank_values=True))
        wrong = [
            name
            for name, is_right in {
                "response_type": asked.get("response_type") == "code",
                "client_id": asked.get("client_id") == self.client_id,
                "redirect_uri": asked.get("redirect_uri") in self.redirect_uris,
                "scope": "openid" in asked.get("scope", "").split(),
                "state": len(asked.get("state", "")) >= SHORTEST,
                "nonce": len(asked.get("nonce", "")) >= SHORTEST,
                "code_challenge_method": asked.get("code_challenge_method") == "S256",
                "code_challenge": len(asked.get("code_challenge", "")) == 43,
                "enableWindowsSso": asked.get("enableWindowsSso") == "true",
            }.items()
            if not is_right
        ]
        self.secrets |= {asked.get("state", "-" * SHORTEST), asked.get("nonce", "-" * SHORTEST)}
        if not self.is_sandbox and not asked.get("redirect_uri", "").startswith("https://"):
            wrong.append("redirect_uri")
        if wrong:
            self.faults += [f"authorize: {name}" for name in wrong]
            raise OAuthRefusal("invalid_request")
        return asked

    # --- The application

    def token(self, headers: dict[str, str], form: dict[str, str]) -> dict[str, Any]:
        self._check_client(headers)
        if form.get("grant_type") == "authorization_code":
            return self._redeem(form)
        if form.get("grant_type") == "refresh_token":
            return self._refresh(form.get("refresh_token", ""))
        self.faults.append(f"token: grant_type {form.get('grant_type')}")
        raise OAuthRefusal("unsupported_grant_type")

    def _check_client(self, headers: dict[str, str]) -> None:
        sent = base64.b64decode(headers.get("authorization", "").removeprefix("Basic ")).decode().partition(":")
        if (unquote_plus(sent[0]), unquote_plus(sent[2])) != (self.client_id, self.client_secret):
            self.faults.append("token: client")
            raise OAuthRefusal("invalid_client", 401)

    def _redeem(self, form: dict[str, str]) -> dict[str, Any]:
        asked = self._codes.pop(form.get("code", ""), None)
        verifier = form.get("code_verifier", "")
        self.secrets.add(verifier)
        challenge = base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).decode().rstrip("=")
        if asked is None or asked["code_challenge"] != challenge or asked["redirect_uri"] != form.get("redirect_uri"):
            raise OAuthRefusal("invalid_grant")
        scopes = frozenset(asked["scope"].split())
        is_offline = "offline_access" in scopes and any(one.startswith("datev:iam:client:") for one in scopes)
        session = Session(asked["person"], scopes, self.now() + (OFFLINE_SECONDS if is_offline else SESSION_SECONDS))
        self.sessions.append(session)
        return {**self._tokens(session), "id_token": self._id_token(session, asked["nonce"])}

    def _refresh(self, token: str) -> dict[str, Any]:
        self.refreshes += 1
        session = next((one for one in self.sessions if token == one.refresh_token or token in one.used), None)
        if session is None or not session.is_alive or self.now() >= session.until:
            raise OAuthRefusal("invalid_grant")
        if token in session.used:
            session.is_alive = False
            raise OAuthRefusal("invalid_grant")
        session.used.add(token)
        return self._tokens(session)

    def _tokens(self, session: Session) -> dict[str, Any]:
        access, session.refresh_token = secrets.token_urlsafe(24), secrets.token_urlsafe(32)
        self.secrets |= {access, session.refresh_token}
        session.access[access] = self.now() + ACCESS_SECONDS
        made = {
            "access_token": access, "refresh_token": session.refresh_token, "token_type": "bearer",
            "expires_in": ACCESS_SECONDS, "scope": " ".join(sorted(session.scopes)),
        }  # fmt: skip
        if self.tells_lifetime:
            made["refresh_token_expires_in"] = int(session.until - self.now())
        return made

    def _id_token(self, session: Session, nonce: str) -> str:
        now = int(self.now())
        given, _, family = self.people[session.person].rpartition(" ")
        claims = {
            "iss": self.issuer, "sub": session.person, "aud": self.client_id, "iat": now, "exp": now + 300,
            "nonce": nonce, "name": f"{given} {family}",
        }  # fmt: skip
        return self._keys.token(claims)

    def revoke(self, headers: dict[str, str], form: dict[str, str]) -> dict[str, Any]:
        self._check_client(headers)
        token, hint = form.get("token", ""), form.get("token_type_hint", "")
        if hint not in HINTS:
            self.faults.append("revoke: token_type_hint")
            raise OAuthRefusal("invalid_request")
        found = next((one for one in self.sessions if token == one.refresh_token or token in one.access), None)
        self.revoked.append((hint, found is not None))
        if found is not None and hint == "refresh_token":
            found.is_alive = False
        elif found is not None:
            found.access.pop(token)
        return {}

    def certs(self) -> dict[str, Any]:
        return {"keys": [self._keys._public("first")]}

    def userinfo(self, session: Session) -> dict[str, Any]:
        return {"sub": session.person, "name": self.people[session.person]}

    def discovery(self) -> dict[str, Any]:
        found = {
            "issuer": self.issuer, "authorization_endpoint": f"{self.issuer}/authorize",
            "token_endpoint": f"{self.address}/token", "revocation_endpoint": f"{self.address}/revoke",
            "userinfo_endpoint": f"{self.address}/userinfo", "jwks_uri": f"{self.address}/certs",
        }  # fmt: skip
        return (
            found if self.names_revocation else {name: url for name, url in found.items() if "revocation" not in name}
        )

    def session_of(self, headers: dict[str, str]) -> Session | None:
        """Returns the session that an access token belongs to, as long as both live."""
        token = headers.get("authorization", "").removeprefix("Bearer ")
        return next(
            (one for one in self.sessions if one.is_alive and one.access.get(token, 0) > self.now() < one.until), None
        )

    def expire_access(self) -> None:
        """The access tokens of every session end now."""
        for session in self.sessions:
            session.access = dict.fromkeys(session.access, 0.0)

    def end_sessions(self) -> None:
        """A person revokes what was granted, on DATEV's own page."""
        for session in self.sessions:
            session.is_alive = False

    @property
    def alive(self) -> int:
        return sum(one.is_alive and self.now() < one.until for one in self.sessions)
