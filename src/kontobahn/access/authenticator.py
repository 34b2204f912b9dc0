"""Authentication: from the token that a request carries to its principal, cached for less than a second."""

from __future__ import annotations

import time

from kontobahn.access import keys, sessions
from kontobahn.access.principal import Principal
from kontobahn.clock import Clock
from kontobahn.db import Database, Rounds, ShortRead, short_read
from kontobahn.errors import Unauthorized
from kontobahn.ids import API_KEY_PREFIX, SESSION_PREFIX, is_well_formed
from kontobahn.vault import Vault

# A revoked key must be refused by every process within a second.
CACHE_SECONDS = 0.7
MAX_CACHED = 20_000

Authenticate = ShortRead[[str, int], Principal]


class Authenticator:
    def __init__(self, db: Database, vault: Vault, clock: Clock) -> None:
        self._db = db
        self._vault = vault
        self._clock = clock
        self._cached: dict[str, tuple[float, Principal | Unauthorized]] = {}

    async def by_key(self, token: str) -> Principal:
        return await self._authenticate(token, API_KEY_PREFIX, "an API key", keys.authenticate)

    async def by_session(self, token: str) -> Principal:
        return await self._authenticate(token, SESSION_PREFIX, "a session token", sessions.authenticate)

    async def _authenticate(self, token: str, prefix: str, kind: str, authenticate: Authenticate) -> Principal:
        # A cached session says nothing about a key: no token is both.
        known = self._cached.get(token) if token.startswith(prefix) else None
        if known is None or known[0] < time.monotonic():
            if not is_well_formed(token, prefix):
                raise Unauthorized(f"This is not {kind}: it is mistyped or cut off (its checksum does not match).")
            outcome = await self._db.read_inline(
                _look_up, authenticate, self._vault.token_hash(token), self._clock.now()
            )
            known = time.monotonic() + CACHE_SECONDS, outcome
            if len(self._cached) >= MAX_CACHED:
                self._cached.clear()
            self._cached[token] = known
        outcome = known[1]
        if isinstance(outcome, Unauthorized):
            raise Unauthorized(str(outcome))
        if outcome.valid_until is not None and outcome.valid_until <= self._clock.now():
            self._cached.pop(token, None)
            raise Unauthorized(
                "This API key has expired." if outcome.key_id else "This session has ended. Sign in again."
            )
        return outcome


@short_read
def _look_up(authenticate: Authenticate, digest: str, now: int) -> Rounds[Principal | Unauthorized]:
    try:
        return (yield from authenticate.rounds(digest, now))
    except Unauthorized as refusal:
        return refusal
