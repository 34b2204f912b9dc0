"""`POST /mcp`: the caller is known by an API key or a grant's token, the organisation has let assistants in, then the protocol begins.
Beside it the addresses at which a program gets such a token.

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
from kontobahn.access.principal import Principal
from kontobahn.access.sessions import Authenticator
from kontobahn.assistants import access, authorization, grants
from kontobahn.assistants.authorization import RESOURCE_PATH, resource_of
from kontobahn.assistants.grants import ACCESS_PREFIX, PRESETS, Preset
from kontobahn.db import Database
from kontobahn.errors import (
    BadRequest,
    Forbidden,
    KontobahnError,
    MethodNotAllowed,
    TooLarge,
    TooManyRequests,
    Unauthorized,
)
from kontobahn.ids import block_of
from kontobahn.json_text import encode
from kontobahn.limits import Group, Windows
from kontobahn.mcp.channel import Asgi, InnerChannel
from kontobahn.mcp.server import Rights, find_tool, make_server
from kontobahn.vault import Vault

METADATA = "/.well-known/oauth-protected-resource"
MAX_BODY_BYTES, MAX_FORM_BYTES = 256 * 1024, 16 * 1024
_RIGHTS = "kontobahn.rights"


class Dependencies(NamedTuple):
    api: Asgi
    authenticator: Authenticator
    db: Database
    vault: Vault
    windows: Windows
    groups: Mapping[str, Group]
    base_url: str


class Caller(NamedTuple):
    principal: Principal
    preset: Preset


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
        base_url, path = self._dependencies.base_url, scope["path"]
        try:
            if path == RESOURCE_PATH:
                await self._speak(scope, receive, send, ip)
            elif path in (authorization.TOKEN, authorization.REVOKE):
                await self._exchange(scope, receive, send, ip)
            elif path == authorization.METADATA:
                await _send_json(send, 200, authorization.describe_server(base_url), [])
            else:
                await _send_json(send, 200, _description(base_url), [])
        except KontobahnError as error:
            await self._refuse(send, error, _wanted_preset(scope, otherwise=PRESETS[0]) or PRESETS[0])

    async def _speak(self, scope: Any, receive: Any, send: Any, ip: str) -> None:
        self._check_origin(scope)
        rights = await self._let_in(scope, ip)
        body = await _read(receive, MAX_BODY_BYTES)
        _check_tool(rights, body)
        scope = dict(scope) | {_RIGHTS: rights}
        await self._manager.handle_request(scope, _replay(body, receive), send)

    def _check_origin(self, scope: Any) -> None:
        """Raises Forbidden for a page of another site, which the protocol demands: a browser tells whose page it is."""
        origin = dict(scope["headers"]).get(b"origin", b"").decode("latin-1")
        if origin and origin != self._dependencies.base_url:
            raise Forbidden("A page of another site may not ask here. Let the program ask that the page belongs to.")

    async def _let_in(self, scope: Any, ip: str) -> Rights:
        headers = dict(scope["headers"])
        bearer = headers.get(b"authorization", b"").decode("latin-1")
        token = (
            bearer[7:].strip() if bearer[:7].lower() == "bearer " else headers.get(b"x-api-key", b"").decode("latin-1")
        )
        found: Caller | None = None
        refusal = Unauthorized("Send `Authorization: Bearer <API key>`, or sign in.")
        if token:
            try:
                found = await self._recognise(token)
            except Unauthorized as error:
                refusal = error
        await self._count(found.principal if found else None, ip)
        if found is None:
            raise refusal
        principal, own = found
        await self._dependencies.db.read(access.check_enabled, principal.organization_id)
        wanted = _wanted_preset(scope)
        if wanted is None:
            raise BadRequest(f"The query parameter `tools` must be one of {', '.join(PRESETS)}.", field="tools")
        caller = principal if principal.grant_id else token
        channel = InnerChannel(self._dependencies.api, caller, ip)
        return Rights(channel, principal.role, principal.scopes, grants.narrower_preset(wanted, own))

    async def _recognise(self, token: str) -> Caller:
        """Returns whose token it is, and the widest preset that it has. Raises Unauthorized if it is nobody's."""
        dependencies = self._dependencies
        if not token.startswith(ACCESS_PREFIX):
            return Caller(await dependencies.authenticator.by_key(token), PRESETS[-1])
        digest, resource = dependencies.vault.token_hash(token), resource_of(dependencies.base_url)
        bearer = await dependencies.db.read(grants.authenticate, digest, resource)
        if bearer.is_to_be_noted:
            await dependencies.db.write(grants.note_use, bearer.grant)
        return Caller(bearer.principal, bearer.grant.preset)

    async def _exchange(self, scope: Any, receive: Any, send: Any, ip: str) -> None:
        """Gives tokens for a code or a token, or takes them back."""
        if scope["method"] != "POST":
            raise MethodNotAllowed(("POST",))
        await self._count(None, ip)
        body = await _read(receive, MAX_FORM_BYTES)
        dependencies = self._dependencies
        found = await authorization.answer_token_call(
            dependencies.db, dependencies.vault, dependencies.base_url, scope["path"], body
        )
        await _send_json(send, found.status, found.body, [])

    async def _count(self, principal: Principal | None, ip: str) -> None:
        group = self._dependencies.groups[limits.API]
        identity = f"key:{principal.caller_id}" if principal else f"ip:{block_of(ip)}"
        hit = await self._dependencies.windows.hit(group, identity)
        if not hit.allowed:
            raise TooManyRequests(
                f"Too many requests: {group.requests} in {group.window_seconds} seconds are allowed.",
                retry_after_seconds=hit.reset_seconds,
            )

    async def _refuse(self, send: Any, error: KontobahnError, preset: Preset) -> None:
        headers = []
        # The narrowest scope that is of use: a client that may ask for more asks for everything it is told.
        lacking = error.extra.get("missing_scope")
        if error.status == 401 or lacking:
            kind = 'error="insufficient_scope", ' if lacking else ""
            address = f"{self._dependencies.base_url}{METADATA}{RESOURCE_PATH}"
            challenge = f'Bearer {kind}resource_metadata="{address}", scope="{lacking or preset}"'
            headers.append((b"www-authenticate", challenge.encode()))
        if isinstance(error, TooManyRequests):
            headers.append((b"retry-after", str(error.retry_after_seconds).encode()))
        await _send_json(send, error.status, {"error": str(error)} | dict(error.extra), headers)


def _description(base_url: str) -> dict[str, Any]:
    """Says where the resource is and how it is entered (RFC 9728)."""
    return {
        "resource": resource_of(base_url),
        "resource_name": "Kontobahn",
        "authorization_servers": [base_url],
        "bearer_methods_supported": ["header"],
        "scopes_supported": list(PRESETS),
        "resource_documentation": f"{base_url}/docs/guide/assistants",
    }


def _rights_of(context: ServerRequestContext[Any, Any]) -> Rights:
    assert context.request is not None
    rights: Rights = context.request.scope[_RIGHTS]
    return rights


def _wanted_preset(scope: Any, otherwise: Preset = PRESETS[-1]) -> Preset | None:
    """The preset that the address names, or the other if it names none; None if there is no such preset."""
    return grants.find_preset(parse_qs(scope.get("query_string", b"").decode("latin-1")).get("tools", [otherwise])[-1])


async def _read(receive: Any, limit: int) -> bytes:
    parts, size = [], 0
    while True:
        message = await receive()
        if message["type"] != "http.request":
            raise BadRequest("The request ended before its body was whole.")
        parts.append(message.get("body", b""))
        size += len(parts[-1])
        if size > limit:
            raise TooLarge(f"A message has at most {limit} bytes.")
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
        raise Forbidden(f"You may not use {tool.name} with this key or sign-in.", missing_scope=tool.preset)


async def _send_json(send: Any, status: int, answer: object, headers: list[tuple[bytes, bytes]]) -> None:
    usual = [(b"content-type", b"application/json"), (b"cache-control", b"no-store")]
    await send({"type": "http.response.start", "status": status, "headers": usual + headers})
    await send({"type": "http.response.body", "body": encode(answer)})
