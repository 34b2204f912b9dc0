"""Connections to a service: one whose requests are called, one whose requests are awaited."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from types import TracebackType
from typing import Any, Generic, Self, TypeVar
from urllib.parse import quote

import httpx

from kontobahn_client.transport.exchange import (
    RETRIES,
    Caller,
    Outcome,
    Pause,
    Receipt,
    Request,
    Send,
    advance,
    decoded,
    next_page,
    receipt_of,
    talk,
)

# To connect, and between two parts of an answer: open items of a large client take their time.
TIMEOUT = httpx.Timeout(60, connect=10)
_BLOCK_BYTES = 256 * 1024
H = TypeVar("H", httpx.Client, httpx.AsyncClient)


class _Connected(Generic[H]):
    """The caller and the HTTP client, which both connections hold."""

    _new_http: Callable[..., H]

    def __init__(
        self,
        url: str,
        key: str | None = None,
        *,
        session: str | None = None,
        quelle: str | None = None,
        retries: int = RETRIES,
        http: H | None = None,
    ) -> None:
        """`session` is the token of a signed-in person, for the calls below /v2/auth/. `quelle` labels what comes from this program.

        `http` is a client of your own, with proxies, certificates and timeouts as you need them; closing it is yours too.
        """
        self._caller = _caller(url, key, session, quelle, retries)
        # Of the latest answer, and what all answers to this client cost together.
        self.receipt: Receipt | None = None
        self.credits_spent = 0
        self._owns_http = http is None
        self._http: H = self._new_http(timeout=TIMEOUT) if http is None else http

    def _kept(self, response: httpx.Response) -> httpx.Response:
        self.receipt = receipt_of(response)
        self.credits_spent += self.receipt.credits
        return response

    def __repr__(self) -> str:
        # Without the key.
        return f"{type(self).__name__}({str(self._caller.url)!r})"


def _caller(url: str, key: str | None, session: str | None, quelle: str | None, retries: int) -> Caller:
    if key is not None and session is not None:
        raise ValueError("Give an API key or the token of a session, not both.")
    parsed = httpx.URL(url)
    if parsed.scheme not in ("http", "https") or not parsed.host or parsed.query:
        raise ValueError(f"The address of the service must look like https://kontobahn.example, not {url!r}.")
    headers = {"user-agent": "kontobahn-client"}
    if key is not None:
        headers["x-api-key"] = key
    if session is not None:
        headers["authorization"] = f"Bearer {session}"
    return Caller(parsed, headers, quelle, retries)


def _named(sent: Send) -> dict[str, str]:
    """The headers of a file that is sent part by part."""
    assert isinstance(sent.content, os.PathLike)
    path = Path(sent.content)
    return {
        **sent.headers,
        "content-length": str(path.stat().st_size),
        "content-disposition": f"attachment; filename*=UTF-8''{quote(path.name)}",
    }


class Connection(_Connected[httpx.Client]):
    """Sends a request and returns its answer."""

    _new_http = httpx.Client

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        if self._owns_http:
            self._http.close()

    def send(self, request: Request) -> Any:
        return decoded(request, self._response(request))

    def send_for_page(self, request: Request) -> tuple[Any, Request | None]:
        """Returns the answer, and the request for the next page if there is one."""
        response = self._response(request)
        return decoded(request, response), next_page(request, response, self._caller)

    def _response(self, request: Request) -> httpx.Response:
        step = advance(steps := talk(self._caller, request))
        while not isinstance(step, httpx.Response):
            step = advance(steps, self._carry_out(step))
        return self._kept(step)

    def _carry_out(self, step: Send | Pause) -> Outcome:
        if isinstance(step, Pause):
            time.sleep(step.seconds)
            return None
        try:
            if isinstance(step.content, os.PathLike):
                with Path(step.content).open("rb") as file:
                    return self._http.request(step.method, step.url, headers=_named(step), content=file)
            return self._http.request(step.method, step.url, headers=step.headers, content=step.content)
        except httpx.TransportError as error:
            return error


class AsyncConnection(_Connected[httpx.AsyncClient]):
    """The same with `await`."""

    _new_http = httpx.AsyncClient

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        if self._owns_http:
            await self._http.aclose()

    async def send(self, request: Request) -> Any:
        return decoded(request, await self._response(request))

    async def send_for_page(self, request: Request) -> tuple[Any, Request | None]:
        response = await self._response(request)
        return decoded(request, response), next_page(request, response, self._caller)

    async def _response(self, request: Request) -> httpx.Response:
        step = advance(steps := talk(self._caller, request))
        while not isinstance(step, httpx.Response):
            step = advance(steps, await self._carry_out(step))
        return self._kept(step)

    async def _carry_out(self, step: Send | Pause) -> Outcome:
        if isinstance(step, Pause):
            await asyncio.sleep(step.seconds)
            return None
        try:
            if isinstance(step.content, os.PathLike):
                blocks = _blocks(Path(step.content))
                return await self._http.request(step.method, step.url, headers=_named(step), content=blocks)
            return await self._http.request(step.method, step.url, headers=step.headers, content=step.content)
        except httpx.TransportError as error:
            return error


async def _blocks(path: Path) -> AsyncIterator[bytes]:
    with path.open("rb") as file:
        while block := await asyncio.to_thread(file.read, _BLOCK_BYTES):
            yield block
