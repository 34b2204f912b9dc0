"""Threads are shared: the work of one organisation, however much and however long, is never all that is done."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator

import pytest

from kontobahn import threads
from kontobahn.errors import Unavailable
from kontobahn.threads import Pool


@pytest.fixture
def pool() -> Iterator[Pool]:
    made = Pool("test", threads=2, waiting=6)
    yield made
    made.close()


class Held:
    """Work that goes on until the test lets it end."""

    def __init__(self) -> None:
        self.begun, self.end = threading.Event(), threading.Event()

    def work(self) -> str:
        self.begun.set()
        self.end.wait()
        return "done"


async def _for(share: str, pool: Pool, fn: object, *args: object) -> object:
    threads.work_for(share)
    return await pool.run(fn, *args)  # type: ignore[arg-type]


def test_another_organisation_is_served_while_ones_work_is_held(pool: Pool) -> None:
    async def try_it() -> None:
        held = Held()
        mine = [asyncio.create_task(_for("a", pool, held.work)) for _ in range(3)]
        await asyncio.to_thread(held.begun.wait)
        assert await _for("b", pool, str, 1) == "1"
        assert not any(task.done() for task in mine)
        held.end.set()
        assert await asyncio.gather(*mine) == ["done"] * 3

    asyncio.run(try_it())


def test_turns_go_round_among_those_that_wait(pool: Pool) -> None:
    async def try_it() -> None:
        held, order = [Held(), Held()], list[str]()
        blocking = [asyncio.create_task(_for(name, pool, one.work)) for name, one in zip("xy", held, strict=True)]
        for one in held:
            await asyncio.to_thread(one.begun.wait)
        waiting = [asyncio.create_task(_for(name, pool, order.append, name)) for name in "aaabc"]
        await asyncio.sleep(0)
        held[0].end.set()
        await asyncio.gather(*waiting)
        held[1].end.set()
        await asyncio.gather(*blocking)
        assert order == ["a", "b", "c", "a", "a"]

    asyncio.run(try_it())


def test_one_cannot_take_all_places_and_an_answer_is_never_refused_one(pool: Pool) -> None:
    async def try_it() -> None:
        held = Held()
        mine = [asyncio.create_task(_for("a", pool, held.work)) for _ in range(4)]
        await asyncio.to_thread(held.begun.wait)
        with pytest.raises(Unavailable):
            await _for("a", pool, str, 1)
        assert await _for("b", pool, str, 1) == "1"
        threads.work_for("a")
        encoded = asyncio.create_task(pool.run_anyway(str, 2))
        await asyncio.sleep(0)
        held.end.set()
        assert await encoded == "2"
        await asyncio.gather(*mine)
        assert await _for("a", pool, str, 1) == "1"

    asyncio.run(try_it())


def test_whoever_gives_up_waiting_leaves_a_place(pool: Pool) -> None:
    async def try_it() -> None:
        held = Held()
        first = asyncio.create_task(_for("a", pool, held.work))
        await asyncio.to_thread(held.begun.wait)
        for _ in range(10):
            waiting = [asyncio.create_task(_for("a", pool, str, 1)) for _ in range(3)]
            await asyncio.sleep(0)
            for task in waiting:
                task.cancel()
            ended = await asyncio.gather(*waiting, return_exceptions=True)
            assert [type(one) for one in ended] == [asyncio.CancelledError] * 3
        assert await _for("b", pool, str, 1) == "1"
        held.end.set()
        await first
        assert await _for("a", pool, str, 1) == "1"

    asyncio.run(try_it())
