"""The way to DATEV's sign-in and back: authorisation code with PKCE. It belongs to the browser that set out, and is used once."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import secrets
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlencode

import msgspec
from msgspec import Struct

from kontobahn import log
from kontobahn.access.identity_provider import Rejected, verified_claims
from kontobahn.clock import HOUR, Clock
from kontobahn.datev import sessions
from kontobahn.datev.endpoints import Endpoints
from kontobahn.datev.failures import failure, not_reached
from kontobahn.datev.sessions import Sessions, TokenAnswer, read_tokens
from kontobahn.datev.setup import Application, check_return
from kontobahn.db import Database, Tx
from kontobahn.errors import Conflict, Forbidden
from kontobahn.json_text import decode_foreign
from kontobahn.ledger.errors import ProviderError
from kontobahn.ledger.provider import ConnectionRef
from kontobahn.outbound import Refused, Unreached
from kontobahn.vault import Vault

# DATEV refuses fewer than 20 characters; these have 43.
SECRET_BYTES = 32
LONGEST_WAY = HOUR
MAX_CODE = 4096
MAX_NAME = 200
_AGAIN = "This sign-in at DATEV has ended, or it began in another browser. Start again."
_SEALED = "datev_sign_ins"


class Way(Struct):
    nonce: str
    verifier: str


class SignIns:
    def __init__(
        self, db: Database, vault: Vault, clock: Clock, held: Sessions, endpoints: Endpoints, ours: Application
    ) -> None:
        self._db, self._vault, self._clock = db, vault, clock
        self._sessions, self._endpoints, self._ours = held, endpoints, ours

    async def begin(self, connection: ConnectionRef, session_id: str) -> str:
        check_return(self._ours)
        addresses = await self._endpoints.all()
        state, way = secrets.token_urlsafe(SECRET_BYTES), Way(*(secrets.token_urlsafe(SECRET_BYTES) for _ in range(2)))
        sealed = self._vault.seal(msgspec.json.encode(way), _SEALED)
        await self._db.write(_set_out, connection, self._vault.token_hash(state), session_id, sealed)
        challenge = base64.urlsafe_b64encode(hashlib.sha256(way.verifier.encode()).digest()).decode().rstrip("=")
        query = {
            "response_type": "code", "client_id": self._ours.client_id, "redirect_uri": self._ours.redirect_uri,
            "scope": self._ours.scopes, "state": state, "nonce": way.nonce, "code_challenge": challenge,
            "code_challenge_method": "S256", "enableWindowsSso": "true",
        }  # fmt: skip
        return f"{addresses['sign_in']}?{urlencode(query)}"

    async def finish(self, organization_id: str, session_id: str, query: dict[str, str]) -> ConnectionRef:
        """Takes the code that the browser came back with, and stores the sign-in in the place of the one before."""
        state_hash = self._vault.token_hash(query.get("state", ""))
        taken = await self._db.write(_take, organization_id, state_hash, session_id)
        if taken is None:
            raise Conflict(_AGAIN)
        connection, sealed = taken
        if query.get("error"):
            raise Forbidden("The sign-in was ended at DATEV. Nothing was connected.")
        code = query.get("code", "")
        if not code or len(code) > MAX_CODE:
            raise Conflict(_AGAIN)
        way = msgspec.json.decode(self._vault.open(sealed, _SEALED), type=Way)
        made = await self._redeem(connection, way, code)
        person = await self._person(made, way)
        try:
            # At most one sign-in lives.
            await self._sessions.revoke(connection)
        except ProviderError as error:
            log.warning("datev_old_sign_in_not_revoked", connection=connection.id, detail=error.message)
        await self._db.write(sessions.begin, connection, self._sessions.sealed(connection, made), made, person)
        return connection

    async def _redeem(self, connection: ConnectionRef, way: Way, code: str) -> TokenAnswer:
        form = {
            "grant_type": "authorization_code", "code": code, "redirect_uri": self._ours.redirect_uri,
            "code_verifier": way.verifier,
        }  # fmt: skip
        try:
            reply = await self._sessions.ask_token_endpoint(connection, "token", form)
        except (Refused, Unreached) as error:
            raise not_reached(error) from None
        if reply.status != 200:
            refused = failure(reply)
            raise ProviderError(
                refused.status, "DATEV did not accept the sign-in", type=refused.type, help_url=refused.help_url
            )
        return read_tokens(reply)

    async def _person(self, made: TokenAnswer, way: Way) -> str:
        """Returns the full name of the person that the ID token is about."""
        addresses = await self._endpoints.all()
        try:
            keys = decode_foreign(await self._endpoints.fetch(addresses["certs"]), dict[str, list[dict[str, Any]]])
            published: list[Mapping[str, Any]] = [*keys.get("keys", [])]
            claims = await asyncio.to_thread(
                verified_claims, made.id_token, published,
                issuer=addresses["issuer"], client_id=self._ours.client_id, nonce=way.nonce, now=self._clock.now(),
            )  # fmt: skip
        except (Rejected, msgspec.DecodeError) as error:
            log.warning("datev_sign_in_not_believed", reason=str(error))
            raise Forbidden(
                "DATEV's answer could not be accepted. Start again; if it continues, tell the operator."
            ) from None
        name = claims.get("name") or " ".join(
            str(claims[part]) for part in ("given_name", "family_name") if claims.get(part)
        )
        shown = str(name or claims.get("sub", ""))
        return "".join(character for character in shown if character.isprintable()).strip()[:MAX_NAME]


def _set_out(tx: Tx, connection: ConnectionRef, state_hash: str, session_id: str, sealed: bytes) -> None:
    tx.run(
        "INSERT INTO datev_sign_ins (organization_id, state_hash, connection_id, session_id, secrets, begun_at)"
        " VALUES (?, ?, ?, ?, ?, ?)",
        connection.organization_id, state_hash, connection.id, session_id, sealed, tx.now,
    )  # fmt: skip


def _take(tx: Tx, organization_id: str, state_hash: str, session_id: str) -> tuple[ConnectionRef, bytes] | None:
    row = tx.one(
        "DELETE FROM datev_sign_ins WHERE organization_id = ? AND state_hash = ? RETURNING connection_id, session_id, secrets, begun_at",
        organization_id, state_hash,
    )  # fmt: skip
    if row is None or row[1] != session_id or row[3] < tx.now - LONGEST_WAY:
        return None
    return ConnectionRef(organization_id, row[0], "datev", "pending"), row[2]


def purge(tx: Tx) -> None:
    tx.run("DELETE FROM datev_sign_ins WHERE begun_at < ?", tx.now - LONGEST_WAY)
