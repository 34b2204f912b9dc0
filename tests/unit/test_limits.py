"""Fixed windows, exact in memory and in Redis."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from kontobahn import limits
from kontobahn.clock import ManualClock, SystemClock
from kontobahn.limits import Group, MemoryWindows, RedisWindows, group_of
from kontobahn.settings import load
from tests.harness import START
from tests.services import RedisServer
from tests.waiting import PAUSE_SECONDS, take_time_async

GROUP = Group("api", 3, 10)


def test_a_window_opens_at_the_first_request_and_ends_on_time() -> None:
    clock = ManualClock(START)
    windows = MemoryWindows(clock)

    def hit() -> tuple[bool, int, int]:
        result = asyncio.run(windows.hit(GROUP, "a"))
        return result.allowed, result.remaining, result.reset_seconds

    assert [hit(), hit(), hit(), hit()] == [(True, 2, 10), (True, 1, 10), (True, 0, 10), (False, 0, 10)]
    clock.advance(seconds=9.5)
    assert hit() == (False, 0, 1)
    clock.advance(seconds=0.5)
    assert hit() == (True, 2, 10)


def test_a_window_lasts_as_long_as_it_says_when_the_clock_is_set_back() -> None:
    clock = ManualClock(START)
    windows = MemoryWindows(clock)
    for _ in range(4):
        asyncio.run(windows.hit(GROUP, "a"))
    clock.set_back(seconds=3600)
    late = asyncio.run(windows.hit(GROUP, "a"))
    assert (late.allowed, late.reset_seconds) == (False, 10)
    clock.advance(seconds=10)
    assert asyncio.run(windows.hit(GROUP, "a")).allowed


def test_a_window_in_redis_that_ends_too_late_is_cut(redis: RedisServer) -> None:
    async def main() -> None:
        windows = RedisWindows(redis.url, SystemClock())
        await windows.hit(GROUP, "set-back")
        # The rest of a window when the clock of Redis was set back by an hour.
        assert redis.ask(b"PEXPIRE kontobahn:limit:api:set-back 3605000") == b":1"
        assert (await windows.hit(GROUP, "set-back")).reset_seconds == 10
        await windows.close()

    redis.flush()
    asyncio.run(main())


def test_memory_forgets_windows_that_have_ended_once_a_minute() -> None:
    clock = ManualClock(START)
    windows = MemoryWindows(clock)
    minute = Group("api", 3, 60)
    for number in range(1000):
        asyncio.run(windows.hit(minute, str(number)))
    clock.advance(seconds=59)
    asyncio.run(windows.hit(minute, "x"))
    assert len(windows._open) == 1001
    for seconds in (1, 60):
        clock.advance(seconds=seconds)
        asyncio.run(windows.hit(minute, "y"))
        assert set(windows._open) <= {("api", "x"), ("api", "y")}


def test_redis_that_does_not_answer_is_left_alone_for_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    now, tries = 1_000.0, 0
    monkeypatch.setattr("kontobahn.limits.time.monotonic", lambda: now)

    async def fail(*_: object) -> list[int]:
        nonlocal tries
        tries += 1
        raise OSError("connection refused")

    async def main() -> None:
        nonlocal now
        windows = RedisWindows("redis://127.0.0.1:1/0", ManualClock(START))
        windows._ask = fail  # type: ignore[method-assign]
        for pause, expected in ((0, 1), (0, 1), (4.9, 1), (0.1, 2), (4.9, 2), (0.1, 3)):
            now = round(now + pause, 1)
            await windows.hit(GROUP, "a")
            assert tries == expected
        # Counted all the while, for this process alone.
        assert not (await windows.hit(GROUP, "a")).allowed
        await windows.close()

    asyncio.run(main())


def test_redis_windows_are_exact_and_end_by_themselves(redis: RedisServer) -> None:
    redis.flush()
    short = Group("short", 5, 1)

    async def main() -> None:
        first, second = (RedisWindows(redis.url, SystemClock()) for _ in range(2))
        hits = await asyncio.gather(*((first, second)[number % 2].hit(short, "a") for number in range(12)))
        assert sum(hit.allowed for hit in hits) == 5
        assert {hit.reset_seconds for hit in hits} == {1}
        # By Redis's own clock.
        while not (again := await second.hit(short, "a")).allowed:
            await take_time_async(PAUSE_SECONDS)
        assert again.remaining == 4
        await first.close()
        await second.close()

    asyncio.run(main())


def test_requests_that_wait_together_are_counted_in_one_round_trip_and_each_for_its_own_window(
    redis: RedisServer,
) -> None:
    redis.flush()
    wide = Group("auth", 50, 60)

    async def main() -> None:
        windows = RedisWindows(redis.url, SystemClock())
        ask, rounds = windows._ask, []

        async def noted(*arguments: Any) -> list[int]:
            rounds.append(arguments[0])
            return await ask(*arguments)

        windows._ask = noted  # type: ignore[method-assign]
        gone = asyncio.ensure_future(windows.hit(GROUP, "a"))
        others = [asyncio.ensure_future(windows.hit(GROUP, name)) for name in "abaaa"]
        others.append(asyncio.ensure_future(windows.hit(wide, "a")))
        await asyncio.sleep(0)
        gone.cancel()
        hits = await asyncio.gather(*others)
        assert rounds == [7]
        # The one who left was counted first.
        assert [hit.remaining for hit in hits] == [1, 2, 0, 0, 0, 49]
        assert [hit.allowed for hit in hits] == [True, True, True, False, False, True]
        assert [hit.reset_seconds for hit in hits] == [10] * 5 + [60]
        await windows.close()

    asyncio.run(main())


def test_requests_that_wait_while_redis_is_away_are_each_counted_here() -> None:
    async def main() -> None:
        windows = RedisWindows("redis://127.0.0.1:1/0", ManualClock(START))
        hits = await asyncio.gather(*(windows.hit(GROUP, "a") for _ in range(5)))
        assert [hit.allowed for hit in hits] == [True, True, True, False, False]
        await windows.close()

    asyncio.run(main())


def test_a_failure_that_nobody_expected_reaches_all_who_wait_and_the_next_request_is_counted() -> None:
    """And whoever closes waits for what is being counted."""

    async def main() -> None:
        windows = RedisWindows("redis://127.0.0.1:1/0", ManualClock(START))
        asked, goes_on = asyncio.Event(), asyncio.Event()
        answers: list[list[int]] = []
        done: list[str] = []

        async def answer(*_: object) -> list[int]:
            asked.set()
            await goes_on.wait()
            done.append("counted")
            return answers.pop()

        async def disconnect() -> None:
            done.append("closed")

        windows._ask = answer  # type: ignore[method-assign]
        windows._connection = SimpleNamespace(disconnect=disconnect)
        waiting = [asyncio.ensure_future(windows.hit(GROUP, "a")) for _ in range(3)]
        await asked.wait()
        waiting[0].cancel()
        goes_on.set()
        results = await asyncio.gather(*waiting, return_exceptions=True)
        assert [type(result) for result in results] == [asyncio.CancelledError, IndexError, IndexError]
        assert windows._counting is not None
        assert isinstance(windows._counting.exception(), IndexError)
        asked.clear()
        goes_on.clear()
        answers.append([1, 10_000])
        counted = asyncio.ensure_future(windows.hit(GROUP, "a"))
        await asked.wait()
        closing = asyncio.ensure_future(windows.close())
        await asyncio.sleep(0)
        goes_on.set()
        await closing
        assert (await counted).remaining == 2
        assert done == ["counted", "counted", "closed"]

    asyncio.run(main())


@pytest.mark.parametrize(("left_ms", "seconds"), [(-1, 1), (0, 1), (1, 1), (1000, 1), (1001, 2), (10_000, 10)])
def test_whoever_has_to_wait_is_told_whole_seconds_and_never_none(left_ms: int, seconds: int) -> None:
    assert limits._hit(GROUP, 4, left_ms * 1000).reset_seconds == seconds


def test_windows_are_exact_again_as_soon_as_redis_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    now, hundred = 1_000.0, Group("hundred", 100, 60)
    monkeypatch.setattr("kontobahn.limits.time.monotonic", lambda: now)

    async def main(redis: RedisServer) -> None:
        nonlocal now
        first, second = (RedisWindows(redis.url, SystemClock()) for _ in range(2))

        async def counts(name: str) -> list[int]:
            hits = await asyncio.gather(*(windows.hit(hundred, name) for windows in (first, second) for _ in range(5)))
            return sorted(100 - hit.remaining for hit in hits)

        assert await counts("a") == list(range(1, 11))
        redis.stop()
        await first.hit(hundred, "b")
        await second.hit(hundred, "b")
        redis.start()
        now += 5
        assert await counts("c") == list(range(1, 11))
        await first.close()
        await second.close()

    with RedisServer() as redis:
        asyncio.run(main(redis))


def test_a_redis_that_was_restarted_while_nobody_asked_counts_the_next_request() -> None:
    async def main(redis: RedisServer) -> None:
        first, second = (RedisWindows(redis.url, SystemClock()) for _ in range(2))
        await first.hit(GROUP, "a")
        redis.stop()
        redis.start()
        assert (await first.hit(GROUP, "b")).remaining == 2
        assert (await second.hit(GROUP, "b")).remaining == 1, "counted for all processes"
        await first.close()
        await second.close()

    with RedisServer() as redis:
        asyncio.run(main(redis))


def test_the_most_specific_group_counts() -> None:
    assert group_of("/v2/banking/webhooks/sandbox") == "webhooks"
    assert group_of("/v2/banking/webhook-url") == "api"
    assert group_of("/v2/auth/users") == "auth"
    assert group_of("/v2/authority") == "api"


def test_the_windows_are_as_long_as_the_contract_says() -> None:
    known = limits.groups(load({}))
    assert [(group.requests, group.window_seconds) for group in known.values()] == [
        (200, 900), (60, 60), (30, 900), (known["dropdown"].requests, 3600), (600, 60),
    ]  # fmt: skip
