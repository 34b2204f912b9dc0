"""The one way out to DATEV: every request goes through it, is bounded, and is kept for those who help, without a secret in it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from kontobahn.clock import DAY, Clock
from kontobahn.datev.failures import not_reached
from kontobahn.db import Database, Tx
from kontobahn.ids import new_id
from kontobahn.json_text import encode
from kontobahn.ledger.provider import ConnectionRef, SentRequest
from kontobahn.outbound import Refused, Reply, Unreached, redact

SECONDS = 60.0
MAX_BYTES = 4 * 1024 * 1024
# DATEV wants them for at least this long.
KEPT_DAYS = 14
MAX_BODY = 4_000
_PURGED_AT_ONCE = 1_000
_SECRET_HEADERS = ("authorization", "cookie")


class Network(Protocol):
    async def send(
        self, method: str, url: str, *, headers: Mapping[str, str], body: bytes | None, seconds: float, max_bytes: int, whole: bool
    ) -> Reply: ...  # fmt: skip

    async def close(self) -> None: ...


class Requests:
    def __init__(self, db: Database, clock: Clock, network: Network) -> None:
        self._db, self._clock, self._network = db, clock, network

    async def send(
        self,
        connection: ConnectionRef,
        method: str,
        url: str,
        *,
        headers: Mapping[str, str],
        body: bytes | None = None,
        secrets: tuple[str, ...] = (),
        tells_state: bool = False,
        hides_body: bool = False,
        max_bytes: int = MAX_BYTES,
    ) -> Reply:
        """Sends one request, once. Raises Refused or Unreached if there is no answer.

        The body of an answer is kept if it is an error or `tells_state`, but for an answer that `hides_body`: one with tokens in it.
        """
        sent_at = self._clock.now()
        reply: Reply | None = None
        failed = ""
        try:
            reply = await self._network.send(
                method, url, headers=headers, body=body, seconds=SECONDS, max_bytes=max_bytes, whole=True
            )
        except (Refused, Unreached) as error:
            failed = str(not_reached(error))
            raise
        finally:
            kept = failed
            if reply is not None and not hides_body and (reply.status >= 400 or tells_state):
                kept = reply.content[:MAX_BODY].decode("utf-8", "replace")
            given = reply.headers if reply is not None else {}
            await self._db.write(
                _keep,
                connection,
                SentRequest(
                    new_id(),
                    sent_at,
                    method,
                    redact(url, *secrets),
                    _public(headers, secrets),
                    reply.status if reply is not None else None,
                    given.get("X-Global-Transaction-ID", "")[:200],
                    given.get("V-Cap-Request-ID", "")[:200],
                    redact(kept, *secrets).replace("\x00", ""),
                ),
            )
        return reply

    async def close(self) -> None:
        await self._network.close()


def _public(headers: Mapping[str, str], secrets: tuple[str, ...]) -> str:
    shown = {name: value for name, value in headers.items() if name.lower() not in _SECRET_HEADERS}
    return redact(encode(shown).decode(), *secrets)


# --- Kept


def _keep(tx: Tx, connection: ConnectionRef, request: SentRequest) -> None:
    tx.run(
        "INSERT INTO datev_requests (organization_id, connection_id, id, sent_at, method, url, headers, status, transaction_id,"
        " request_id, body) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        connection.organization_id, connection.id, *request,
    )  # fmt: skip


def listing(tx: Tx, connection: ConnectionRef, before: str | None, limit: int) -> list[SentRequest]:
    """Returns the requests of a connection, the latest first."""
    rows = tx.all(
        "SELECT id, sent_at, method, url, headers, status, transaction_id, request_id, body FROM datev_requests"
        " WHERE organization_id = ? AND connection_id = ? AND id < ? ORDER BY id DESC LIMIT ?",
        connection.organization_id, connection.id, before or "g", limit,
    )  # fmt: skip
    return [SentRequest._make(row) for row in rows]


def purge(tx: Tx) -> int:
    """Deletes some of those that are old enough. Returns how many."""
    old = tx.all(
        "SELECT organization_id, id FROM datev_requests WHERE sent_at < ? ORDER BY sent_at LIMIT ?",
        tx.now - KEPT_DAYS * DAY, _PURGED_AT_ONCE,
    )  # fmt: skip
    tx.many("DELETE FROM datev_requests WHERE organization_id = ? AND id = ?", old)
    return len(old)
