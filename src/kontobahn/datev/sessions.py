"""Sign-ins at DATEV: their tokens, sealed, renewed by one process at a time, and what has ended them.

A refresh token can be redeemed once; a second time ends the whole session at DATEV. So whoever renews holds a lease in the database,
counts the attempt before it is made, and the old token stays until the new one is stored.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import secrets
from collections.abc import Mapping
from typing import Any, NamedTuple
from urllib.parse import quote_plus, urlencode

import msgspec
from msgspec import Struct

from kontobahn import log
from kontobahn.access.identity_provider import Rejected, verified_claims
from kontobahn.clock import HOUR, SECOND, Clock
from kontobahn.datev.requests import Requests, ended, failure, is_unsent, not_reached, problem_of
from kontobahn.datev.setup import Application, Endpoints, check_return
from kontobahn.db import Database, Table, Tx
from kontobahn.db.leases import Lease
from kontobahn.errors import Conflict, Forbidden
from kontobahn.json_text import decode_foreign
from kontobahn.ledger import connections
from kontobahn.ledger.errors import ProviderError
from kontobahn.ledger.provider import ConnectionRef
from kontobahn.outbound import Refused, Reply, Unreached
from kontobahn.vault import Vault

# If DATEV does not say how long a session lives.
SESSION = 11 * HOUR
# An access token is renewed this long before it ends.
MARGIN = 30 * SECOND
# Longer than a request may take.
LEASE_SECONDS = 90.0
# For how long a call waits for the process that renews, looking this often.
PATIENCE_SECONDS, LOOK_SECONDS = 20.0, 0.05
# A refresh token is sent again once if the answer was lost, and never a third time.
MAX_TRIES = 2
_INVALID = ("invalid_grant", "invalid_token")


class Tokens(Struct):
    access: str
    refresh: str


class TokenAnswer(Struct):
    access_token: str
    refresh_token: str
    expires_in: int
    refresh_token_expires_in: int | None = None
    id_token: str = ""


class Session(NamedTuple):
    organization_id: str
    connection_id: str
    tokens: bytes
    access_until: int
    signed_in_at: int
    expires_at: int
    person: str
    generation: int
    tries: int


class Access(NamedTuple):
    token: str
    generation: int


SESSIONS = Table("datev_sessions", Session, key=("organization_id", "connection_id"))
_LEASE = Lease("datev_sessions", ("organization_id", "connection_id"), LEASE_SECONDS)


class Sessions:
    def __init__(
        self, db: Database, vault: Vault, clock: Clock, requests: Requests, endpoints: Endpoints, ours: Application
    ) -> None:
        self._db, self._vault, self._clock = db, vault, clock
        self._requests, self._endpoints, self._ours = requests, endpoints, ours

    async def access(self, connection: ConnectionRef, refused: int | None = None) -> Access:
        """Returns a token that is valid now, and of another generation than one that was refused. Raises ProviderError."""
        loop = asyncio.get_running_loop()
        give_up_at = loop.time() + PATIENCE_SECONDS
        while True:
            session = await self._db.read(find, connection)
            if session is None or not session.tokens:
                raise ended("revoked")
            now = self._clock.now()
            if now >= session.expires_at:
                await self._db.write(end, connection, session.generation, "expired")
                raise ended("expired")
            if session.generation != refused and session.access_until - MARGIN > now:
                return Access(self._opened(session).access, session.generation)
            tries = await self._db.write(_claim, connection, session.generation)
            if tries is not None:
                await self._renew(connection, session, tries)
            elif loop.time() >= give_up_at:
                raise ProviderError(503, "the sign-in at DATEV is being renewed", retry_after_seconds=5)
            else:
                await asyncio.sleep(LOOK_SECONDS)

    async def _renew(self, connection: ConnectionRef, session: Session, tries: int) -> None:
        """Redeems the refresh token while the lease is ours. Raises ProviderError if that leads to no new one."""
        if tries > MAX_TRIES:
            await self._db.write(end, connection, session.generation, "expired")
            raise ended("expired")
        tokens = self._opened(session)
        form = {"grant_type": "refresh_token", "refresh_token": tokens.refresh}
        try:
            reply = await self.ask_token_endpoint(connection, "token", form, tokens)
        except (Refused, Unreached) as error:
            if is_unsent(error):
                await self._db.write(_give_up, connection, tries=tries - 1)
                raise not_reached(error) from None
            # Perhaps it was redeemed. The old token stays, and is tried once more.
            log.warning("datev_refresh_lost", connection=connection.id, attempt=tries)
            await self._db.write(_give_up, connection, tries=tries)
            return
        except ProviderError:
            # Not even its address is known.
            await self._db.write(_give_up, connection, tries=tries - 1)
            raise
        if reply.status == 200:
            await self._keep_renewed(connection, session, reply)
        elif problem_of(reply).error in _INVALID:
            status: connections.ConnectionStatus = "revoked" if tries == 1 else "expired"
            await self._db.write(end, connection, session.generation, status)
            raise ended(status)
        else:
            # Nothing was redeemed, or nobody will ever know: to try again later costs nothing.
            await self._db.write(_give_up, connection, tries=tries - 1)
            refused = failure(reply)
            # A refusal of the application is no refusal of this person.
            raise ProviderError(503 if reply.status < 500 else reply.status, refused.message, type=refused.type)

    async def _keep_renewed(self, connection: ConnectionRef, session: Session, reply: Reply) -> None:
        made = read_tokens(reply)
        await self._db.write(
            _store_renewed, connection, session.generation, self.sealed(connection, made), made.expires_in
        )

    async def ask_token_endpoint(
        self, connection: ConnectionRef, endpoint: str, form: Mapping[str, str], tokens: Tokens | None = None
    ) -> Reply:
        """Sends a form as the application. Raises Refused or Unreached."""
        pair = f"{quote_plus(self._ours.client_id)}:{quote_plus(self._ours.secret)}"
        headers = {
            "Authorization": f"Basic {base64.b64encode(pair.encode()).decode()}",
            "Content-Type": "application/x-www-form-urlencoded",
            "Accept": "application/json",
        }
        hidden = (self._ours.secret, *form.values(), *((tokens.access, tokens.refresh) if tokens else ()))
        addresses = await self._endpoints.all()
        return await self._requests.send(
            connection, "POST", addresses[endpoint], headers=headers, body=urlencode(form).encode(),
            secrets=hidden, hides_body=True,
        )  # fmt: skip

    async def revoke(self, connection: ConnectionRef) -> bool:
        """Has DATEV forget both tokens, then forgets them here. Raises ProviderError, and forgets nothing, if it cannot.

        Returns False if DATEV names no address for that: they are forgotten here, and a person revokes them there.
        """
        session = await self._db.read(find, connection)
        if session is None or not session.tokens:
            return True
        tokens = self._opened(session)
        can_revoke = bool((await self._endpoints.all())["revoke"])
        both = (("access_token", tokens.access), ("refresh_token", tokens.refresh))
        for hint, token in both if can_revoke else ():
            try:
                form = {"token": token, "token_type_hint": hint}
                reply = await self.ask_token_endpoint(connection, "revoke", form, tokens)
            except (Refused, Unreached) as error:
                raise not_reached(error) from None
            if reply.status != 200:
                raise failure(reply)
        await self._db.write(end, connection, session.generation, "revoked")
        return can_revoke

    def sealed(self, connection: ConnectionRef, made: TokenAnswer) -> bytes:
        tokens = Tokens(made.access_token, made.refresh_token)
        return self._vault.seal(msgspec.json.encode(tokens), _context(connection.organization_id, connection.id))

    def _opened(self, session: Session) -> Tokens:
        opened = self._vault.open(session.tokens, _context(session.organization_id, session.connection_id))
        return msgspec.json.decode(opened, type=Tokens)


def _context(organization_id: str, connection_id: str) -> str:
    return f"datev_sessions {organization_id} {connection_id}"


def read_tokens(reply: Reply) -> TokenAnswer:
    try:
        return decode_foreign(reply.content, TokenAnswer)
    except msgspec.DecodeError:
        raise ProviderError(None, "DATEV's answer to the sign-in was not understood", type="nonsense") from None


# --- Rows


def find(tx: Tx, connection: ConnectionRef) -> Session | None:
    return SESSIONS.one(tx, "organization_id = ? AND connection_id = ?", connection.organization_id, connection.id)


def begin(tx: Tx, connection: ConnectionRef, sealed: bytes, made: TokenAnswer, person: str) -> None:
    """Stores a new sign-in in the place of the one before."""
    lifetime = SESSION if made.refresh_token_expires_in is None else made.refresh_token_expires_in * SECOND
    before = find(tx, connection)
    generation = before.generation + 1 if before else 1
    tx.run(
        "INSERT INTO datev_sessions (organization_id, connection_id, tokens, access_until, signed_in_at, expires_at, person,"
        " generation, tries, lease_until) VALUES (?, ?, ?, ?, ?, ?, ?, ?, 0, 0) ON CONFLICT (organization_id, connection_id)"
        " DO UPDATE SET tokens = excluded.tokens, access_until = excluded.access_until, signed_in_at = excluded.signed_in_at,"
        " expires_at = excluded.expires_at, person = excluded.person, generation = excluded.generation, tries = 0, lease_until = 0",
        connection.organization_id, connection.id, sealed, tx.now + made.expires_in * SECOND, tx.now, tx.now + lifetime,
        person, generation,
    )  # fmt: skip


def end(tx: Tx, connection: ConnectionRef, generation: int, status: connections.ConnectionStatus) -> None:
    """Forgets the tokens of a sign-in that has ended, unless there is a newer one by now."""
    is_it = tx.run(
        "UPDATE datev_sessions SET tokens = ?, lease_until = 0 WHERE organization_id = ? AND connection_id = ? AND generation = ?",
        b"", connection.organization_id, connection.id, generation,
    )  # fmt: skip
    if is_it:
        connections.set_status(tx, connection, status)


def expire_due(tx: Tx) -> None:
    """Ends the sign-ins whose time is over, so that people are asked to sign in again before a program fails."""
    for organization_id, connection_id, generation in tx.all(
        "SELECT organization_id, connection_id, generation FROM datev_sessions WHERE expires_at <= ? AND LENGTH(tokens) > 0",
        tx.now,
    ):
        end(tx, ConnectionRef(organization_id, connection_id, "datev", "connected"), generation, "expired")


def _claim(tx: Tx, connection: ConnectionRef, generation: int) -> int | None:
    """Takes the lease, and counts the attempt. Returns its number; None if somebody else renews, or has renewed."""
    row = _LEASE.claim(
        tx, connection.organization_id, connection.id,
        setting="tries = tries + 1", only_if="generation = ?", params=(generation,), returning="tries",
    )  # fmt: skip
    return None if row is None else int(row[0])


def _give_up(tx: Tx, connection: ConnectionRef, *, tries: int) -> None:
    _LEASE.give_up(tx, connection.organization_id, connection.id, tries=tries)


def _store_renewed(tx: Tx, connection: ConnectionRef, generation: int, sealed: bytes, expires_in: int) -> None:
    tx.run(
        "UPDATE datev_sessions SET tokens = ?, access_until = ?, generation = generation + 1, tries = 0, lease_until = 0"
        " WHERE organization_id = ? AND connection_id = ? AND generation = ?",
        sealed, tx.now + expires_in * SECOND, connection.organization_id, connection.id, generation,
    )  # fmt: skip


# The way to DATEV's sign-in and back: authorisation code with PKCE. It belongs to the browser that set out, and is used
# once.


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
        await self._db.write(begin, connection, self._sessions.sealed(connection, made), made, person)
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


def purge_sign_ins(tx: Tx) -> None:
    tx.run("DELETE FROM datev_sign_ins WHERE begun_at < ?", tx.now - LONGEST_WAY)
