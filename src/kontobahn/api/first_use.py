"""Applications that are made when they are first asked for: what they need is not imported before."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from kontobahn.api.bodies import Receive
from kontobahn.api.exchange import Scope, Send
from kontobahn.api.pages import Asgi


class MadeAtFirstUse:
    """Made beside the event loop, once: whoever asks meanwhile waits for the same one, and not for one of his own."""

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
            # Who asked first may leave; the others still wait for it.
            return await asyncio.shield(making)
        finally:
            if making.done() and self._making is making:
                self._making = None
