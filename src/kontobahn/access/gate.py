"""The gate: from the token a request carries to its principal, remembered for less than a second."""

from __future__ import annotations

import time
from collections.abc import Callable

from kontobahn.access import keys, sessions
from kontobahn.access.principal import Principal
from kontobahn.clock import Clock
from kontobahn.db import Database, Tx
from kontobahn.errors import Unauthorized
from kontobahn.ids import API_KEY_PREFIX, SESSION_PREFIX, is_well_formed
from kontobahn.vault import Vault

# A revoked key must be refused by every process within a second.
REMEMBERED_SECONDS = 0.7
MOST_REMEMBERED = 20_000

Authenticate = Callable[[Tx, str], Principal]


class Gate:
    def __init__(self, db: Database, vault: Vault, clock: Clock) -> None:
        self._db = db
        self._vault = vault
        self._clock = clock
        self._known: dict[str, tuple[float, Principal | Unauthorized]] = {}

    async def by_key(self, token: str) -> Principal:
        if not is_well_formed(token, API_KEY_PREFIX):
            raise Unauthorized("This is not an API key: it is mistyped or cut off (its checksum does not match).")
        return await self._recognise(token, keys.authenticate)

    async def by_session(self, token: str) -> Principal:
        if not is_well_formed(token, SESSION_PREFIX):
            raise Unauthorized("This is not a session token: it is mistyped or cut off (its checksum does not match).")
        return await self._recognise(token, sessions.authenticate)

    def forget_all(self) -> None:
        self._known.clear()

    async def _recognise(self, token: str, authenticate: Authenticate) -> Principal:
        digest = self._vault.token_hash(token)
        known = self._known.get(digest)
        if known is None or known[0] < time.monotonic():
            known = time.monotonic() + REMEMBERED_SECONDS, await self._db.read(_look_up, authenticate, digest)
            if len(self._known) >= MOST_REMEMBERED:
                self._known.clear()
            self._known[digest] = known
        outcome = known[1]
        if isinstance(outcome, Unauthorized):
            raise Unauthorized(str(outcome))
        if outcome.valid_until is not None and outcome.valid_until <= self._clock.now():
            self._known.pop(digest, None)
            raise Unauthorized(
                "This API key has expired." if outcome.key_id else "This session has ended. Sign in again."
            )
        return outcome


def _look_up(tx: Tx, authenticate: Authenticate, digest: str) -> Principal | Unauthorized:
    try:
        return authenticate(tx, digest)
    except Unauthorized as refusal:
        return refusal
