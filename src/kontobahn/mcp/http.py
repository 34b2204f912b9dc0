"""`POST /mcp`: the caller is known by an API key, the organisation has let assistants in, then the protocol begins.

No session is kept, so any worker answers any request.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, NamedTuple
from urllib.parse import parse_qs

import msgspec
from mcp.server.context import ServerRequestContext
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

from kontobahn import limits
from kontobahn.access.authenticator import Authenticator
from kontobahn.access.principal import Principal
from kontobahn.assistants import access
from kontobahn.db import Database
from kontobahn.errors import BadRequest, Forbidden, KontobahnError, TooLarge, TooManyRequests, Unauthorized
from kontobahn.ids import block_of
from kontobahn.json_text import encode
from kontobahn.limits import Group, Windows
from kontobahn.mcp.channel import Asgi, InnerChannel
from kontobahn.mcp.server import Rights, find_tool, make_server
from kontobahn.mcp.tools import PRESETS, Preset

PATH = "/mcp"
METADATA = "/.well-known/oauth-protected-resource"
MAX_BODY_BYTES = 256 * 1024
_RIGHTS = "kontobahn.rights"
# The narrowest scope that is of use: a client that may ask for more asks for everything it is told.
_SCOPE = "ledger:read"


class Dependencies(NamedTuple):
    api: Asgi
    authenticator: Authenticator
    db: Database
    windows: Windows
    groups: Mapping[str, Group]
    base_url: str


class Assistants:
    """The ASGI application at /mcp."""

    def __init__(self, dependencies: Dependencies) -> None:
        self._dependencies = dependencies
        self._manager = StreamableHTTPSessionManager(make_server(_rights_of), json_response=True, stateless=True)
        self._ready, self._over = asyncio.Event(), asyncio.Event()
        self._runner: asyncio.Task[None] | None = None

    async def start(self) -> None:
        self._runner = asyncio.create_task(self._run())
        await self._ready.wait()

    async def stop(self) -> None:
        self._over.set()
        if self._runner is not None:
            with suppress(asyncio.CancelledError):
                await self._runner

    async def _run(self) -> None:
        async with self._manager.run():
            self._ready.set()
            await self._over.wait()

    async def __call__(self, scope: Any, receive: Any, send: Any, ip: str) -> None:
        if scope["path"] != PATH:
            await self._describe(send)
            return
        try:
            rights = await self._let_in(scope, ip)
            body = await _read(receive)
            _check_tool(rights, body)
        except KontobahnError as error:
            await self._refuse(send, error)
            return
        scope = dict(scope) | {_RIGHTS: rights}
        await self._manager.handle_request(scope, _replay(body, receive), send)

    async def _let_in(self, scope: Any, ip: str) -> Rights:
        headers = dict(scope["headers"])
        bearer = headers.get(b"authorization", b"").decode("latin-1")
        token = (
            bearer[7:].strip() if bearer[:7].lower() == "bearer " else headers.get(b"x-api-key", b"").decode("latin-1")
        )
        principal: Principal | None = None
        refusal = Unauthorized("Send `Authorization: Bearer <API key>`.")
        if token:
            try:
                principal = await self._dependencies.authenticator.by_key(token)
            except Unauthorized as error:
                refusal = error
        await self._count(principal, ip)
        if principal is None:
            raise refusal
        await self._dependencies.db.read(access.check_enabled, principal.organization_id)
        preset = parse_qs(scope.get("query_string", b"").decode("latin-1")).get("tools", [PRESETS[-1]])[-1]
        if preset not in PRESETS:
            raise BadRequest(f"The query parameter `tools` must be one of {', '.join(PRESETS)}.", field="tools")
        return Rights(
            InnerChannel(self._dependencies.api, token, ip), principal.role, principal.scopes, _preset(preset)
        )

    async def _count(self, principal: Principal | None, ip: str) -> None:
        group = self._dependencies.groups[limits.API]
        identity = f"key:{principal.key_id}" if principal else f"ip:{block_of(ip)}"
        hit = await self._dependencies.windows.hit(group, identity)
        if not hit.allowed:
            raise TooManyRequests(
                f"Too many requests: {group.requests} in {group.window_seconds} seconds are allowed.",
                retry_after_seconds=hit.reset_seconds,
            )

    async def _refuse(self, send: Any, error: KontobahnError) -> None:
        headers = []
        if error.status in (401, 403):
            kind = "" if error.status == 401 else 'error="insufficient_scope", '
            challenge = (
                f'Bearer {kind}resource_metadata="{self._dependencies.base_url}{METADATA}{PATH}", scope="{_SCOPE}"'
            )
            headers.append((b"www-authenticate", challenge.encode()))
        if isinstance(error, TooManyRequests):
            headers.append((b"retry-after", str(error.retry_after_seconds).encode()))
        await _send_json(send, error.status, {"error": str(error)} | dict(error.extra), headers)

    async def _describe(self, send: Any) -> None:
        """Answers where the resource is and how it is entered (RFC 9728). No authorisation server yet: keys are typed in."""
        base_url = self._dependencies.base_url
        described = {
            "resource": f"{base_url}{PATH}",
            "resource_name": "Kontobahn",
            "bearer_methods_supported": ["header"],
            "scopes_supported": [_SCOPE],
            "resource_documentation": f"{base_url}/docs/guide/assistants",
        }
        await _send_json(send, 200, described, [])


def _rights_of(context: ServerRequestContext[Any, Any]) -> Rights:
    assert context.request is not None
    rights: Rights = context.request.scope[_RIGHTS]
    return rights


def _preset(text: str) -> Preset:
    return next(preset for preset in PRESETS if preset == text)


async def _read(receive: Any) -> bytes:
    parts, size = [], 0
    while True:
        message = await receive()
        if message["type"] != "http.request":
            raise BadRequest("The request ended before its body was whole.")
        parts.append(message.get("body", b""))
        size += len(parts[-1])
        if size > MAX_BODY_BYTES:
            raise TooLarge(f"A message has at most {MAX_BODY_BYTES} bytes.")
        if not message.get("more_body"):
            return b"".join(parts)


def _replay(body: bytes, receive: Any) -> Any:
    is_sent = False

    async def again() -> Any:
        nonlocal is_sent
        if is_sent:
            return await receive()
        is_sent = True
        return {"type": "http.request", "body": body, "more_body": False}

    return again


def _check_tool(rights: Rights, body: bytes) -> None:
    """Raises Forbidden for a call of a tool that the key does not see: whoever sends it has not got it from the list."""
    try:
        message = msgspec.json.decode(body)
    except msgspec.DecodeError:
        return
    if not isinstance(message, dict) or message.get("method") != "tools/call":
        return
    params = message.get("params")
    tool = find_tool(params.get("name")) if isinstance(params, dict) else None
    if tool is not None and not rights.may(tool):
        raise Forbidden(f"This key may not use {tool.name}.")


async def _send_json(send: Any, status: int, answer: object, headers: list[tuple[bytes, bytes]]) -> None:
    usual = [(b"content-type", b"application/json"), (b"cache-control", b"no-store")]
    await send({"type": "http.response.start", "status": status, "headers": usual + headers})
    await send({"type": "http.response.body", "body": encode(answer)})
