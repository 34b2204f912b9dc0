"""Those who wait for the next event are released by it, and by the end of the process."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from kontobahn.events import Watch
from kontobahn.webhooks.outbox import CHANNEL


class Listening:
    """Stands for the database: calls back whoever listens."""

    def __init__(self) -> None:
        self.wakes: list[Callable[[], None]] = []

    def listen(self, channel: str, wake: Callable[[], None]) -> Callable[[], None]:
        assert channel == CHANNEL
        self.wakes.append(wake)
        return self.wakes.clear


def test_a_ticket_is_for_the_next_event_and_none_is_left_waiting_at_the_end() -> None:
    async def main() -> Callable[[], None]:
        db: Any = Listening()
        watch = Watch(db)
        assert not watch.is_open
        watch.close()
        watch.start()
        [wake] = db.wakes
        first = watch.ticket()
        assert (watch.is_open, first.is_set()) == (True, False)
        await asyncio.to_thread(wake)
        await asyncio.sleep(0)
        second = watch.ticket()
        assert (first.is_set(), second.is_set()) == (True, False)
        watch.close()
        assert (watch.is_open, second.is_set(), db.wakes) == (False, True, [])
        return wake  # type: ignore[no-any-return]

    late = asyncio.run(main())
    late()
