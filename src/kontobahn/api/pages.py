"""Pages for people: their forms are small and arrive in time, and the application behind them is made at the first request."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from typing import Any, Literal, cast, get_args

from kontobahn.api.bodies import Pace, Receive, read_body
from kontobahn.api.exchange import Scope, Send
from kontobahn.errors import Refusal, TooLarge
from kontobahn.settings import Settings

Asgi = Callable[[Scope, Receive, Any], Awaitable[None]]
# Choice 37: no form of ours has more than a few short fields.
MAX_FORM_BYTES = 16 * 1024
# Of a page that takes a sheet of paper as a file.
MAX_SHEET_BYTES = 1024 * 1024
_TOO_LARGE, _TOO_SLOW = "Das Formular ist zu groß.\n", "Das Formular ist nicht rechtzeitig angekommen.\n"


def bounded_pages(
    pages: Asgi, settings: Settings, *, but_not: str | None = None, with_sheets: str | None = None
) -> Asgi:
    """Wraps the pages: a body is received here, whole, before they see the request.

    Those below `but_not` declare their own; those below `with_sheets` take forms with a file.
    """
    pace = Pace(settings)

    async def bounded(scope: Scope, receive: Receive, send: Send) -> None:
        is_elsewhere = but_not is not None and f"{scope['path']}/".startswith(f"{but_not}/")
        if is_elsewhere or scope["method"] in ("GET", "HEAD"):
            await pages(scope, receive, send)
            return
        try:
            headers = dict(scope["headers"])
            has_sheet = (
                with_sheets is not None and scope["path"].startswith(f"{with_sheets}/") and is_multipart(headers)
            )
            body = await read_body(receive, headers, MAX_SHEET_BYTES if has_sheet else MAX_FORM_BYTES, pace)
        except Refusal as refusal:
            await _refuse(send, refusal)
            return
        await pages(scope, _replay(body, receive), send)

    return bounded


def is_multipart(headers: Mapping[bytes, bytes]) -> bool:
    return headers.get(b"content-type", b"").lower().startswith(b"multipart/form-data")


def _replay(body: bytes, receive: Receive) -> Receive:
    messages: list[MutableMapping[str, Any]] = [{"type": "http.request", "body": body, "more_body": False}]

    async def replayed() -> MutableMapping[str, Any]:
        return messages.pop() if messages else await receive()

    return replayed


async def _refuse(send: Send, refusal: Refusal) -> None:
    is_too_large = isinstance(refusal, TooLarge)
    text = (_TOO_LARGE if is_too_large else _TOO_SLOW).encode()
    headers = [
        (b"content-type", b"text/plain; charset=utf-8"), (b"content-length", b"%d" % len(text)),
        (b"x-content-type-options", b"nosniff"), (b"connection", b"close"),
    ]  # fmt: skip
    await send({"type": "http.response.start", "status": refusal.status if is_too_large else 408, "headers": headers})
    await send({"type": "http.response.body", "body": text})


class LazyApp:
    """An application that is made when it is first asked for, so that its imports wait until then.

    It is made beside the event loop, once: whoever asks meanwhile waits for the same one.
    """

    def __init__(self, make: Callable[[], Asgi]) -> None:
        self._make = make
        self._made: Asgi | None = None
        self._making: asyncio.Future[Asgi] | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self._made is None:
            self._made = await self._wait()
        await self._made(scope, receive, send)

    async def _wait(self) -> Asgi:
        if self._making is None:
            self._making = asyncio.ensure_future(asyncio.to_thread(self._make))
        making = self._making
        try:
            # Whoever asked first may leave; the others still wait for it.
            return await asyncio.shield(making)
        finally:
            if making.done() and self._making is making:
                self._making = None


# The languages of pages, and which of them a visitor would like to read.


Language = Literal["de", "en"]
LANGUAGES: dict[Language, str] = {"de": "Deutsch", "en": "English"}


def wished(*wishes: str | None) -> Language | None:
    """The first wish that is a language of ours."""
    return next((cast(Language, wish) for wish in wishes if wish in get_args(Language)), None)


def accepted(header: str) -> Language | None:
    """The language of ours that a browser prefers."""
    weighed = []
    for position, part in enumerate(header.lower().split(",")[:20]):
        tag, _, quality = part.strip().partition(";q=")
        try:
            weight = float(quality) if quality else 1.0
        except ValueError:
            continue
        weighed.append((-weight, position, tag.partition("-")[0].strip()))
    return wished(*(tag for weight, _, tag in sorted(weighed) if weight < 0))
