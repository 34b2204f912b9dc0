"""Serves /v2: the way of a request from the socket to its handler and back.

In this order: request id, route, caller, rate limit, key, scope, role, query, body, idempotency key, handler. Whatever fails on the way
becomes a JSON error with the headers every answer carries.
"""

from __future__ import annotations

import asyncio
import time
from functools import partial
from typing import Any, NamedTuple

import msgspec

from kontobahn import limits, log
from kontobahn.access.sessions import Authenticator
from kontobahn.api import idempotency
from kontobahn.api.answers import Ready
from kontobahn.api.bodies import BodyMemory, Pace, Receive, max_body_of, read_body
from kontobahn.api.call import Call, Context, DeferredWrites, check_allowed, check_session, next_page, warning
from kontobahn.api.declare import Endpoint
from kontobahn.api.exchange import (
    DECODE_INLINE_BYTES,
    INNER_CALLER,
    Exchange,
    Routes,
    Scope,
    Send,
    decode_body,
    encode_in_slices,
    error_body,
    error_headers,
    is_long,
    send_file,
    send_json,
)
from kontobahn.api.idempotency import StoredAnswer
from kontobahn.api.request_log import AnsweredCalls, Noted
from kontobahn.api.uploads import Uploads
from kontobahn.api.wire import Download, FileDownload, Query, plain_words
from kontobahn.clock import Clock
from kontobahn.errors import (
    BadRequest,
    KontobahnError,
    MethodNotAllowed,
    NotFound,
    Refusal,
    TooManyRequests,
    Unauthorized,
    Unavailable,
)  # fmt: skip
from kontobahn.ids import block_of, new_request_id
from kontobahn.json_text import encode
from kontobahn.limits import Group, Windows
from kontobahn.sentences import said
from kontobahn.threads import Pool, work_for

# No path of ours is longer, and looking for one that is costs time.
MAX_PATH_LENGTH = 1000
# Choice 6: refusals that are stored as the answer to repeats. The others are transient (no credits, something down) or for
# the caller to correct, and nothing was written: the same key may be sent again.
_STORED_REFUSALS = (403, 404, 409)


class ApiDependencies(NamedTuple):
    """The parts that the server is built from."""

    context: Context
    clock: Clock
    authenticator: Authenticator
    windows: Windows
    groups: dict[str, Group]
    answered: AnsweredCalls
    routes: Routes


class Api:
    """The ASGI application below /v2."""

    def __init__(self, dependencies: ApiDependencies) -> None:
        self._context, self._settings = dependencies.context, dependencies.context.settings
        self._clock, self._routes = dependencies.clock, dependencies.routes
        self._authenticator, self._answered = dependencies.authenticator, dependencies.answered
        self._windows, self._groups = dependencies.windows, dependencies.groups
        self._prices = {
            item.name: self._settings.prices.get(item.name, item.cost) for item in dependencies.routes.endpoints
        }
        self._limit_headers = {
            group.name: ((b"ratelimit-limit", b"%d" % group.requests), (b"ratelimit-policy", group.policy.encode()))
            for group in dependencies.groups.values()
        }
        self._pool = dependencies.context.part(Pool)
        self._bodies, self._pace = BodyMemory(self._settings.body_memory_bytes), Pace(self._settings)
        self.uploads = Uploads(self._settings, self._pace)
        self._lowest_logged = log.lowest_status(self._settings.log_requests)
        self._running = 0
        # Made by whoever waits for the end of running calls.
        self._idle: asyncio.Event | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send, ip: str) -> None:
        self._running += 1
        exchange = Exchange(scope, ip)
        try:
            answer, headers = await self._answer(exchange, receive)
            self._record(exchange, answer.status)
            if answer.media_type:
                await send_file(send, answer, headers, exchange.header(b"accept"))
            else:
                accepted = exchange.headers.get(b"accept-encoding")
                await send_json(send, self._pool, answer, headers, accepted)
        finally:
            if exchange.held is not None:
                exchange.held.release()
            upload = exchange.upload
            if upload is not None and not upload.work_goes_on:
                upload.file.close()
            self._running -= 1
            if not self._running and self._idle is not None:
                self._idle.set()

    async def finish_running(self, seconds: float) -> None:
        """Waits for running calls to end."""
        self._idle = asyncio.Event()
        try:
            async with asyncio.timeout(seconds):
                while self._running:
                    self._idle.clear()
                    await self._idle.wait()
        except TimeoutError:
            log.warning("shutdown_left_calls_running", calls=self._running)
        await self._context.part(DeferredWrites).close()

    def close(self) -> None:
        """Ends the threads, once no call is running."""
        self._pool.close()
        self.uploads.close()

    async def _answer(self, exchange: Exchange, receive: Receive) -> tuple[StoredAnswer, list[tuple[bytes, bytes]]]:
        extra: list[tuple[bytes, bytes]] = []
        try:
            answer = await self._handle(exchange, receive)
            if exchange.call is None:
                extra.append((b"idempotent-replayed", b"true"))
        except KontobahnError as error:
            answer = StoredAnswer(error.status, error_body(error, exchange.request_id))
            exchange.error = str(error), str(error.extra.get("field", ""))
            extra += error_headers(error)
            if error.operator or error.status >= 500:
                log.warning(
                    "call_failed",
                    request_id=exchange.request_id,
                    status=error.status,
                    error=str(error),
                    detail=error.operator,
                )
            # Its frames hold the request's body, some of them in circles that only the garbage collector would find.
            error.__traceback__ = error.__context__ = None
        except Exception as error:
            log.exception(
                "call_crashed", error, request_id=exchange.request_id, path=exchange.scope["path"][:MAX_PATH_LENGTH]
            )
            message = "Something went wrong on our side. The operator finds the cause under this request_id."
            answer = StoredAnswer(500, encode({"error": message, "request_id": exchange.request_id}))
        return answer, self._headers(exchange) + extra

    async def _handle(self, exchange: Exchange, receive: Receive) -> StoredAnswer:
        scope = exchange.scope
        path = scope["path"]
        found = self._routes.find(path) if len(path) <= MAX_PATH_LENGTH else None
        endpoint = exchange.endpoint = found[0].get(scope["method"]) if found else None
        refusal = await self._identify(exchange)
        work_for(exchange.principal.organization_id if exchange.principal else block_of(exchange.ip))
        await self._count(exchange)
        if found is None:
            raise NotFound("There is no such path. The API is described at /docs.")
        if endpoint is None:
            raise MethodNotAllowed(tuple(sorted(found[0])))
        if endpoint.caller != "anybody":
            if exchange.principal is None:
                raise refusal or _missing_key(endpoint)
            check_allowed(endpoint, exchange.principal)
            if exchange.principal.session_id is not None:
                check_session(endpoint, exchange.principal, self._clock.now())
        parameters = _path_parameters(endpoint, found[1])
        query = endpoint.query_decoder.decode(scope.get("query_string", b""))
        arguments: dict[str, Any] = parameters
        if endpoint.query is not Query:
            arguments["query"] = query
        if endpoint.takes_upload:
            arguments["body"] = await self.uploads.receive(
                exchange, receive, limit=max_body_of(endpoint, self._settings)
            )
        elif endpoint.method in ("POST", "PUT"):
            body = await self._body(exchange, endpoint, receive)
            if body is not None:
                arguments["body"] = body
        call = Call(self._context, endpoint, exchange.principal, exchange.request_id, exchange.ip, query.quelle)
        if endpoint.walk_warning:
            call.headers |= warning(endpoint, query)
        call.price = self._prices[endpoint.name]
        if call.price and endpoint.free_as_dropdown:
            call.price = await self._price_as_dropdown(exchange, call.price, query)
        if endpoint.method in ("POST", "PUT"):
            replayed = await self._claim(exchange, endpoint, call)
            if replayed is not None:
                return replayed
            # Nobody asks for its bytes any more, and what they say may be as large again.
            exchange.body = b""
        exchange.call = call
        return await self._run(call, endpoint, arguments)

    async def _body(self, exchange: Exchange, endpoint: Endpoint, receive: Receive) -> Any:
        principal = exchange.principal
        sender = principal.organization_id if principal else block_of(exchange.ip)
        exchange.held = self._bodies.hold(sender)
        # Choice 37: the limit is the endpoint's; the setting can only lower it.
        limit = max_body_of(endpoint, self._settings)
        exchange.body = await read_body(receive, exchange.headers, limit, self._pace, exchange.held)
        return await decode_body(exchange, endpoint, self._pool)

    async def _run(self, call: Call, endpoint: Endpoint, arguments: dict[str, Any]) -> StoredAnswer:
        try:
            if call.price and not endpoint.cost:
                # Free by the contract, priced by a setting: its handler does not charge.
                async with call.charge():
                    answer = await endpoint.handler(call, **arguments)
            else:
                answer = await endpoint.handler(call, **arguments)
        except BaseException as error:
            if call.claim is not None:
                await self._settle_claim_of_failure(call, error)
            raise
        if call.stored_answer is not None:
            return StoredAnswer(call.status, call.stored_answer)
        if isinstance(answer, FileDownload):
            return StoredAnswer(call.status, b"", answer.media_type, answer.file_name, answer)
        if isinstance(answer, Download):
            return StoredAnswer(call.status, answer.content, answer.media_type, answer.file_name)
        if isinstance(answer, Ready):
            return StoredAnswer(call.status, b"", parts=answer.parts)
        body = await encode_in_slices(answer, self._pool) if is_long(answer) else encode(answer)
        stored = StoredAnswer(call.status, body)
        if call.claim is not None:
            await call.context.db.write_together(
                call.claim.scope, idempotency.complete, call.context.vault, call.claim, stored
            )
        return stored

    async def _settle_claim_of_failure(self, call: Call, error: BaseException) -> None:
        assert call.claim is not None
        vault, claim = call.context.vault, call.claim
        if isinstance(error, KontobahnError) and error.status in _STORED_REFUSALS and error.is_final:
            stored = StoredAnswer(error.status, error_body(error, call.request_id))
            await call.settle_claim(idempotency.complete, vault, claim, stored)
        elif isinstance(error, Refusal):
            await call.settle_claim(idempotency.abandon, claim)
        else:
            # Something may have been written: the key stays bound to this request.
            await call.settle_claim(idempotency.release, claim)

    async def _identify(self, exchange: Exchange) -> Unauthorized | None:
        """Finds the principal. Returns the refusal of a key or token, to be raised once the request has been counted."""
        exchange.principal = exchange.scope.get(INNER_CALLER)
        if exchange.principal is not None:
            return None
        key = exchange.header(b"x-api-key")
        try:
            if key is not None:
                exchange.principal = await self._authenticator.by_key(key.strip())
            elif exchange.endpoint is not None and exchange.endpoint.caller == "key or session":
                bearer = exchange.header(b"authorization")
                if bearer is not None and bearer[:7].lower() == "bearer ":
                    exchange.principal = await self._authenticator.by_session(bearer[7:].strip())
        except Unauthorized as refusal:
            return refusal
        except Unavailable:
            # Nobody can be authenticated now, but the request still counts.
            await self._count(exchange)
            raise
        return None

    async def _count(self, exchange: Exchange) -> None:
        if exchange.hit is not None:
            return
        endpoint, principal = exchange.endpoint, exchange.principal
        name = endpoint.group if endpoint is not None else limits.group_of(exchange.scope["path"])
        by_key = principal is not None and name == limits.API
        identity = f"key:{principal.caller_id}" if principal and by_key else f"ip:{block_of(exchange.ip)}"
        group = self._groups[name]
        exchange.hit = hit = await self._windows.hit(group, identity)
        exchange.group = name
        if not hit.allowed:
            raise TooManyRequests(
                said(
                    "Too many requests: {requests} in {window} seconds are allowed. Try again in {seconds} seconds.",
                    requests=group.requests,
                    window=group.window_seconds,
                    seconds=hit.reset_seconds,
                ),
                retry_after_seconds=hit.reset_seconds,
            )

    async def _price_as_dropdown(self, exchange: Exchange, price: int, query: Query) -> int:
        if exchange.principal is None:
            return price
        # Choice 10: dropdown use is free, 60 times an hour for a key.
        purpose = exchange.header(b"x-request-purpose") or getattr(query, "zweck", None) or ""
        if purpose.strip().lower() != "dropdown":
            return price
        group = self._groups[limits.DROPDOWN]
        hit = await self._windows.hit(group, f"key:{exchange.principal.caller_id}")
        return 0 if hit.allowed else price

    async def _claim(self, exchange: Exchange, endpoint: Endpoint, call: Call) -> StoredAnswer | None:
        raw_key = exchange.header(b"idempotency-key")
        if raw_key is None or endpoint.takes_raw_body:
            return None
        scope, context = exchange.scope, self._context
        make_claim = partial(
            idempotency.make_claim,
            scope=exchange.principal.organization_id if exchange.principal else f"{idempotency.PUBLIC}/{exchange.ip}",
            raw_key=raw_key,
            method=endpoint.method,
            target=scope["path"].encode() + b"?" + scope.get("query_string", b""),
            body=exchange.body,
            organizations=exchange.principal.scope if exchange.principal else (),
            owner=new_request_id(),
            money=endpoint.moves_money,
            settings=self._settings,
        )
        is_large = len(exchange.body) > DECODE_INLINE_BYTES
        call.claim = await self._pool.run(make_claim) if is_large else make_claim()
        return await context.db.write_together(call.claim.scope, idempotency.begin, context.vault, call.claim)

    def _headers(self, exchange: Exchange) -> list[tuple[bytes, bytes]]:
        headers = [(b"x-request-id", exchange.request_id.encode())]
        hit = exchange.hit
        if hit is not None:
            # Choice 5: on every response, errors included.
            headers += self._limit_headers[exchange.group]
            headers.append((b"ratelimit-remaining", b"%d" % hit.remaining))
            headers.append((b"ratelimit-reset", b"%d" % hit.reset_seconds))
        if exchange.call is not None:
            if exchange.call.headers:
                headers += exchange.call.headers.items()
            if exchange.call.continues_after is not None:
                headers += self._link(exchange, exchange.call)
        if exchange.endpoint is not None and self._prices[exchange.endpoint.name]:
            headers.append((b"x-credits-charged", b"%d" % (exchange.call.charged if exchange.call else 0)))
        return headers

    def _link(self, exchange: Exchange, call: Call) -> list[tuple[bytes, bytes]]:
        if call.continues_after is None or call.endpoint.pages_by is None:
            return []
        path, query = exchange.scope["path"], exchange.scope.get("query_string", b"")
        return [
            (b"link", next_page(self._settings.base_url, path, query, call.endpoint.pages_by, call.continues_after))
        ]

    def _record(self, exchange: Exchange, status: int) -> None:
        call, principal, scope = exchange.call, exchange.principal, exchange.scope
        seconds = time.perf_counter() - exchange.started
        organization_id = principal.organization_id if principal else None
        noted = Noted(
            self._clock.now(), principal.caller_id if principal else None, call.quelle if call else "",
            exchange.endpoint, scope["path"], scope.get("query_string", b""), status, exchange.request_id,
            call.charged if call else 0, round(seconds * 1_000_000), *exchange.error,
        )  # fmt: skip
        self._answered.note(noted, organization_id, was_run=call is not None)
        if status >= self._lowest_logged:
            log.info(
                "call", request_id=exchange.request_id,
                endpoint=exchange.endpoint.name if exchange.endpoint else "unknown", method=scope["method"],
                path=scope["path"][:MAX_PATH_LENGTH], status=status, milliseconds=round(seconds * 1000, 2),
                ip=exchange.ip, organization_id=organization_id,
            )  # fmt: skip


def _missing_key(endpoint: Endpoint) -> Unauthorized:
    # Choice 4: the message carries the header line to send.
    message = "Send the header line `x-api-key: <your key>`."
    if endpoint.caller == "key or session":
        message += " A signed-in person may send `Authorization: Bearer <session token>` instead."
    return Unauthorized("The API key is missing.", message=message)


def _path_parameters(endpoint: Endpoint, values: dict[str, str]) -> dict[str, Any]:
    converted: dict[str, Any] = {}
    for name, kind in endpoint.path_parameters.items():
        if "\0" in values[name]:
            raise BadRequest(said("The path's `{name}` contains a NUL character.", name=name), field=name)
        try:
            converted[name] = msgspec.convert(values[name], kind, strict=False)
        except msgspec.ValidationError as error:
            raise BadRequest(
                said("The path's `{name}` {reason}.", name=name, reason=plain_words(str(error))), field=name
            ) from None
    return converted
