"""The way of a tool to the calls of the API: inside the service, or over HTTP from a command on somebody's own machine."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, NamedTuple, Protocol
from urllib.parse import parse_qs, urlencode, urlsplit

import msgspec

from kontobahn.access.principal import Principal
from kontobahn.api.exchange import INNER_CALLER
from kontobahn.json_text import encode
from kontobahn.outbound import OutboundClient, Refused, Unreached

# The label of every call that a tool makes.
QUELLE = "MCP"
MAX_ANSWER_BYTES = 50_000_000
ANSWER_SECONDS = 60
# Rows that one answer is made of, at most.
MAX_ROWS = 200_000


class Reply(NamedTuple):
    status: int
    answer: Any
    headers: Mapping[str, str]


class CallFailed(Exception):
    """A call that was refused, with the sentences of its answer: what is wrong, and what to do about it."""

    def __init__(self, status: int, answer: Any) -> None:
        texts = [answer.get("error"), answer.get("message")] if isinstance(answer, dict) else []
        super().__init__(" ".join(text for text in texts if text) or f"The service answered with {status}.")
        self.status = status


class TooMany(Exception):
    """A list with more rows than one answer can be made of."""


class Channel(Protocol):
    async def ask(self, method: str, path: str, query: Mapping[str, Any], body: bytes | None) -> Reply:
        """Makes one call, and returns its answer whatever the status."""


class Caller:
    """Calls of the API, as a tool makes them, and what they cost."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        # The price of this tool's calls so far.
        self.credits = 0

    async def get(self, path: str, **query: Any) -> Any:
        return (await self._ask("GET", path, query, None)).answer

    async def every(self, path: str, **query: Any) -> list[Any]:
        """Returns the rows of all pages of a list. Raises TooMany rather than leave some out."""
        rows: list[Any] = []
        while True:
            reply = await self._ask("GET", path, query, None)
            rows += reply.answer["data"]
            following = _following(reply.headers.get("link", ""))
            if following is None:
                return rows
            if len(rows) >= MAX_ROWS:
                raise TooMany
            query = query | following

    async def find_every(self, path: str, **query: Any) -> list[Any]:
        """The same; nothing if the key may not ask this."""
        try:
            return await self.every(path, **query)
        except CallFailed as failure:
            if failure.status == 403:
                return []
            raise

    async def find(self, path: str, **query: Any) -> Any | None:
        """Returns the answer; None if the key may not ask this, or there is no such thing."""
        try:
            return await self.get(path, **query)
        except CallFailed as failure:
            if failure.status in (403, 404):
                return None
            raise

    async def post(self, path: str, body: object, **query: Any) -> Any:
        return (await self._ask("POST", path, query, encode(body))).answer

    async def _ask(self, method: str, path: str, query: Mapping[str, Any], body: bytes | None) -> Reply:
        given = {name: value for name, value in query.items() if value is not None}
        reply = await self._channel.ask(method, path, given | {"quelle": QUELLE}, body)
        self.credits += int(reply.headers.get("x-credits-charged", 0))
        if reply.status >= 400:
            raise CallFailed(reply.status, reply.answer)
        return reply


def _following(link: str) -> dict[str, str] | None:
    """The place at which the next page begins, from the header `Link`."""
    address, mark, relation = link.partition(">")
    if not mark or 'rel="next"' not in relation:
        return None
    asked = parse_qs(urlsplit(address).query)
    return {name: asked[name][-1] for name in ("from_id", "cursor") if name in asked}


def query_text(query: Mapping[str, Any]) -> str:
    return urlencode([(name, str(value)) for name, value in query.items()])


# --- Inside the service

Asgi = Callable[[dict[str, Any], Any, Any, str], Awaitable[None]]


class InnerChannel:
    """Calls as requests of the application to itself: they are checked, limited, charged and listed as all others."""

    def __init__(self, api: Asgi, caller: str | Principal, ip: str) -> None:
        """`caller`: an API key, or the person for whom an assistant was let in, whose token counts nowhere else."""
        self._api, self._caller, self._ip = api, caller, ip

    async def ask(self, method: str, path: str, query: Mapping[str, Any], body: bytes | None) -> Reply:
        headers = [(b"content-type", b"application/json")]
        if isinstance(self._caller, str):
            headers.append((b"x-api-key", self._caller.encode()))
        scope: dict[str, Any] = {
            "type": "http", "method": method, "path": path, "query_string": query_text(query).encode(),
            "headers": headers, "client": (self._ip, 0),
        }  # fmt: skip
        if isinstance(self._caller, Principal):
            scope[INNER_CALLER] = self._caller
        status, sent, parts = 0, {}, []

        async def receive() -> dict[str, Any]:
            return {"type": "http.request", "body": body or b"", "more_body": False}

        async def send(message: dict[str, Any]) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                sent.update({name.decode().lower(): value.decode("latin-1") for name, value in message["headers"]})
            else:
                parts.append(message.get("body", b""))

        await self._api(scope, receive, send, self._ip)
        return Reply(status, msgspec.json.decode(b"".join(parts)), sent)


# --- From somebody's own machine


class HttpChannel:
    """Calls to a service elsewhere, at an address that its user chose."""

    def __init__(self, outbound: OutboundClient, url: str, token: str) -> None:
        self._outbound, self._url, self._token = outbound, url.rstrip("/"), token

    async def ask(self, method: str, path: str, query: Mapping[str, Any], body: bytes | None) -> Reply:
        headers = {"x-api-key": self._token, "content-type": "application/json"}
        url = f"{self._url}{path}?{query_text(query)}"
        try:
            reply = await self._outbound.send(
                method, url, headers=headers, body=body, seconds=ANSWER_SECONDS, max_bytes=MAX_ANSWER_BYTES, whole=True
            )
            answer = msgspec.json.decode(reply.content)
        except (Refused, Unreached) as error:
            raise CallFailed(503, {"error": f"The service at {self._url} cannot be reached. {error}"}) from None
        except msgspec.DecodeError:
            raise CallFailed(502, {"error": f"At {self._url} there is no Kontobahn."}) from None
        return Reply(reply.status, answer, {name.lower(): value for name, value in reply.headers.items()})
