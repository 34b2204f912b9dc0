"""An application that is made when it is first asked for is made once, however many ask at that moment."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from kontobahn.api.pages import LazyApp


async def nothing() -> dict[str, Any]:
    return {}


async def heard(message: Any) -> None:
    """Nobody answers."""


def test_those_who_ask_at_the_same_moment_wait_for_the_same_one() -> None:
    made: list[threading.Thread] = []
    answered: list[Any] = []
    go_on = threading.Event()

    def make() -> Any:
        made.append(threading.current_thread())
        go_on.wait()

        async def application(scope: Any, receive: Any, send: Any) -> None:
            answered.append(scope["path"])

        return application

    async def main() -> None:
        application = LazyApp(make)
        asking = [asyncio.ensure_future(application({"path": number}, nothing, heard)) for number in range(50)]
        await asyncio.sleep(0)
        # The one who asked first leaves.
        asking[0].cancel()
        await asyncio.sleep(0)
        go_on.set()
        await asyncio.gather(*asking[1:])
        await application({"path": "later"}, nothing, heard)

    asyncio.run(main())
    assert len(made) == 1
    assert made[0] is not threading.main_thread()
    assert answered == [*range(1, 50), "later"]


def test_what_could_not_be_made_is_tried_again() -> None:
    tries: list[str] = []

    def make() -> Any:
        tries.append("again")
        if len(tries) == 1:
            raise MemoryError

        async def application(scope: Any, receive: Any, send: Any) -> None:
            tries.append(scope["path"])

        return application

    async def main() -> None:
        application = LazyApp(make)
        with pytest.raises(MemoryError):
            await application({"path": "first"}, nothing, heard)
        await application({"path": "second"}, nothing, heard)

    asyncio.run(main())
    assert tries == ["again", "again", "second"]
