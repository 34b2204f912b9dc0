"""Calls to DATEV's services for a connection: with a token that is valid, repeated once if it was refused, and never after a 5xx."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, TypeVar
from urllib.parse import quote

import msgspec

from kontobahn.clock import SECOND, Clock
from kontobahn.datev.requests import MAX_BYTES, Requests, ended, failure, not_reached
from kontobahn.datev.sessions import Access, Sessions
from kontobahn.datev.setup import Application
from kontobahn.db import Database
from kontobahn.json_text import decode_foreign
from kontobahn.ledger import connections
from kontobahn.ledger.errors import ProviderError
from kontobahn.ledger.provider import ConnectionRef
from kontobahn.outbound import Refused, Reply, Unreached, redact

# A page has 50,000 postings; a trial balance or a list of accounts is shorter.
MAX_LIST_BYTES = 96 * 1024 * 1024
T = TypeVar("T")


class Content(NamedTuple):
    """A body, with the headers that say what it is."""

    body: bytes
    headers: Mapping[str, str]


class Services:
    def __init__(self, db: Database, clock: Clock, requests: Requests, sessions: Sessions, ours: Application) -> None:
        self._db, self._clock = db, clock
        self._requests, self._sessions, self._ours = requests, sessions, ours
        # Until then DATEV wants no more requests of a connection.
        self._rest_until: dict[str, int] = {}

    async def ask(
        self,
        connection: ConnectionRef,
        method: str,
        service: str,
        path: str,
        *,
        tells_state: bool = False,
        max_bytes: int = MAX_BYTES,
        content: Content | None = None,
    ) -> Reply:
        """Returns an answer of the 2xx kind. Raises ProviderError for any other, and if there is none."""
        self._check_rest(connection)
        access = await self._sessions.access(connection)
        reply = await self._send(connection, method, service, path, access, tells_state, max_bytes, content)
        if reply.status == 401:
            access = await self._sessions.access(connection, refused=access.generation)
            reply = await self._send(connection, method, service, path, access, tells_state, max_bytes, content)
        if reply.status == 401:
            # Neither the token nor its successor: only a person can help, and every further call would renew it for nothing.
            await self._db.write(connections.set_status, connection, "error")
            raise ended("error")
        if reply.status == 429:
            rest = failure(reply).retry_after_seconds
            self._rest_until[connection.id] = self._clock.monotonic() + rest * SECOND
        if not 200 <= reply.status < 300:
            raise self._without_secrets(failure(reply), access)
        return reply

    def _check_rest(self, connection: ConnectionRef) -> None:
        left = self._rest_until.get(connection.id, 0) - self._clock.monotonic()
        if left > 0:
            raise ProviderError(
                429, "DATEV wants no more requests for a while", retry_after_seconds=max(1, left // SECOND)
            )

    async def _send(
        self,
        connection: ConnectionRef,
        method: str,
        service: str,
        path: str,
        access: Access,
        tells_state: bool,
        max_bytes: int,
        content: Content | None,
    ) -> Reply:
        headers = {
            "Authorization": f"Bearer {access.token}",
            "X-DATEV-Client-Id": self._ours.client_id,
            "Accept": "application/json, application/x-ndjson, application/problem+json",
            **(content.headers if content else {}),
        }
        try:
            return await self._requests.send(
                connection, method, self._ours.url(service, path), headers=headers, body=content and content.body,
                secrets=(access.token, self._ours.secret), tells_state=tells_state, max_bytes=max_bytes,
            )  # fmt: skip
        except (Refused, Unreached) as error:
            raise not_reached(error) from None

    def _without_secrets(self, error: ProviderError, access: Access) -> ProviderError:
        error.message = redact(error.message, access.token, self._ours.secret)
        return error

    async def get(
        self, connection: ConnectionRef, service: str, path: str, kind: type[T], *, tells_state: bool = False
    ) -> T:
        reply = await self.ask(connection, "GET", service, path, tells_state=tells_state)
        return understood(reply, kind)

    async def lines(self, connection: ConnectionRef, service: str, path: str, kind: type[T]) -> list[T]:
        """Returns the rows of an answer that has one on each line."""
        reply = await self.ask(connection, "GET", service, path, max_bytes=MAX_LIST_BYTES)
        return read_lines(reply.content, kind)


def understood(reply: Reply, kind: type[T]) -> T:
    try:
        return decode_foreign(reply.content, kind)
    except msgspec.DecodeError as error:
        raise not_understood(error) from None


def not_understood(error: Exception) -> ProviderError:
    return ProviderError(None, f"DATEV's answer was not understood: {error}", type="nonsense")


def read_lines(content: bytes, kind: type[T]) -> list[T]:
    try:
        if content[:1] == b"[":
            return msgspec.json.decode(content, type=list[kind])  # type: ignore[valid-type]
        return msgspec.json.Decoder(kind).decode_lines(content)
    except (msgspec.DecodeError, RecursionError, UnicodeError) as error:
        raise not_understood(error) from None


def part(text: str) -> str:
    """Returns an id as a part of a path."""
    return quote(text, safe="")
