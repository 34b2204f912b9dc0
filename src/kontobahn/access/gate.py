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
        return await self._recognise(token, API_KEY_PREFIX, "an API key", keys.authenticate)

    async def by_session(self, token: str) -> Principal:
        return await self._recognise(token, SESSION_PREFIX, "a session token", sessions.authenticate)

    def forget_all(self) -> None:
        self._known.clear()

    async def _recognise(self, token: str, prefix: str, kind: str, authenticate: Authenticate) -> Principal:
        known = self._known.get(token)
        if known is None or known[0] < time.monotonic():
            if not is_well_formed(token, prefix):
                raise Unauthorized(f"This is not {kind}: it is mistyped or cut off (its checksum does not match).")
            outcome = await self._db.read_inline(_look_up, authenticate, self._vault.token_hash(token))
            known = time.monotonic() + REMEMBERED_SECONDS, outcome
            if len(self._known) >= MOST_REMEMBERED:
                self._known.clear()
            self._known[token] = known
        outcome = known[1]
        if isinstance(outcome, Unauthorized):
            raise Unauthorized(str(outcome))
        if outcome.valid_until is not None and outcome.valid_until <= self._clock.now():
            self._known.pop(token, None)
            raise Unauthorized(
                "This API key has expired." if outcome.key_id else "This session has ended. Sign in again."
            )
        return outcome


def _look_up(tx: Tx, authenticate: Authenticate, digest: str) -> Principal | Unauthorized:
    try:
        return authenticate(tx, digest)
    except Unauthorized as refusal:
        return refusal
