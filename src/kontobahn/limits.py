"""Rate limits: fixed windows that open at a caller's first request. In memory for one process, in Redis for several.

Both count every request exactly once. While Redis is unavailable, each process counts in its own memory.
"""

from __future__ import annotations

import asyncio
import time
from typing import Any, NamedTuple, Protocol

import msgspec

from kontobahn import log
from kontobahn.clock import SECOND, Clock
from kontobahn.settings import Settings

API = "api"
WEBHOOKS = "webhooks"
AUTH = "auth"
DROPDOWN = "dropdown"
PAGES = "pages"
SWEEP_SECONDS = 60
REDIS_TIMEOUT_SECONDS = 1.0
REDIS_PAUSE_SECONDS = 5.0


class Group(NamedTuple):
    name: str
    requests: int
    window_seconds: int

    @property
    def policy(self) -> str:
        return f"{self.requests};w={self.window_seconds}"


class Hit(msgspec.Struct, frozen=True, gc=False):
    allowed: bool
    limit: int
    remaining: int
    reset_seconds: int


class Windows(Protocol):
    async def hit(self, group: Group, identity: str) -> Hit:
        """Counts one request."""

    async def close(self) -> None: ...


def groups(settings: Settings) -> dict[str, Group]:
    return {
        group.name: group
        for group in (
            Group(API, settings.limit_api_requests, settings.limit_api_window_seconds),
            Group(WEBHOOKS, settings.limit_webhook_requests, settings.limit_webhook_window_seconds),
            Group(AUTH, settings.limit_auth_requests, settings.limit_auth_window_seconds),
            Group(DROPDOWN, settings.dropdown_free_calls_per_hour, 3600),
            Group(PAGES, settings.limit_page_requests, settings.limit_page_window_seconds),
        )
    }


def group_of(path: str) -> str:
    # Choice 5: only the most specific group counts a request.
    if path.startswith("/v2/banking/webhooks/"):
        return WEBHOOKS
    return AUTH if path.startswith("/v2/auth/") else API


def _hit(group: Group, count: int, left_microseconds: int) -> Hit:
    allowed = count <= group.requests
    # By position: this is on the way of every call.
    return Hit(
        allowed,
        group.requests,
        group.requests - count if allowed else 0,
        max(1, -(-left_microseconds // SECOND)),
    )


class MemoryWindows:
    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._open: dict[tuple[str, str], tuple[int, int]] = {}
        self._next_sweep = 0

    async def hit(self, group: Group, identity: str) -> Hit:
        now = self._clock.monotonic()
        if now >= self._next_sweep:
            self._sweep(now)
        key = (group.name, identity)
        ends_at, count = self._open.get(key, (0, 0))
        if ends_at <= now:
            ends_at, count = now + group.window_seconds * SECOND, 0
        count += 1
        self._open[key] = (ends_at, count)
        return _hit(group, count, ends_at - now)

    async def close(self) -> None:
        """Nothing to close."""

    def _sweep(self, now: int) -> None:
        self._open = {key: window for key, window in self._open.items() if window[0] > now}
        self._next_sweep = now + SWEEP_SECONDS * SECOND


# Counting and expiry in one step, so that a window can never be left without an end. One that ends later than a whole window
# from now was opened before the clock of Redis was set back.
_SCRIPT = """
local found = {}
for place, key in ipairs(KEYS) do
  local count = redis.call('INCR', key)
  local left = redis.call('PTTL', key)
  local whole = tonumber(ARGV[place])
  if left < 0 or left > whole then
    left = whole
    redis.call('PEXPIRE', key, left)
  end
  found[2 * place - 1] = count
  found[2 * place] = left
end
return found
"""
# Each is a few microseconds of the one thread that Redis has.
_HITS_AT_ONCE = 256


class _Waiting(NamedTuple):
    """A request that is not counted yet."""

    group: Group
    identity: str
    hit: asyncio.Future[Hit]


class RedisWindows:
    """Requests that wait at the same moment are counted in one round trip: one each would be most of what a short call costs."""

    def __init__(self, url: str, clock: Clock) -> None:
        from redis.asyncio import ConnectionPool

        # One connection, used directly: what the library's client does around each command takes longer than the command.
        self._connection: Any = ConnectionPool.from_url(url).make_connection()  # type: ignore[no-untyped-call]
        self._fallback = MemoryWindows(clock)
        self._try_again_at = 0.0
        self._waiting: list[_Waiting] = []
        self._counting: asyncio.Task[None] | None = None

    async def hit(self, group: Group, identity: str) -> Hit:
        if time.monotonic() < self._try_again_at:
            return await self._fallback.hit(group, identity)
        hit: asyncio.Future[Hit] = asyncio.get_running_loop().create_future()
        self._waiting.append(_Waiting(group, identity, hit))
        if self._counting is None or self._counting.done():
            self._counting = asyncio.create_task(self._count_waiting())
        return await hit

    async def close(self) -> None:
        if self._counting is not None:
            await asyncio.wait([self._counting])
        await self._connection.disconnect()

    async def _count_waiting(self) -> None:
        while self._waiting:
            some, self._waiting = self._waiting[:_HITS_AT_ONCE], self._waiting[_HITS_AT_ONCE:]
            try:
                hits = await self._count(some)
            except BaseException as error:
                for waiting in some:
                    if not waiting.hit.done():
                        waiting.hit.set_exception(error)
                raise
            for waiting, hit in zip(some, hits, strict=True):
                # Whoever waited may have gone.
                if not waiting.hit.done():
                    waiting.hit.set_result(hit)

    async def _count(self, some: list[_Waiting]) -> list[Hit]:
        from redis.exceptions import RedisError

        keys = [f"kontobahn:limit:{group.name}:{identity}" for group, identity, _ in some]
        try:
            found = await self._ask(len(keys), *keys, *[group.window_seconds * 1000 for group, _, _ in some])
        except (RedisError, OSError) as error:
            self._try_again_at = time.monotonic() + REDIS_PAUSE_SECONDS
            log.warning(
                "redis_unavailable",
                detail=str(error) or type(error).__name__,
                consequence="rate limits count for each process on its own",
            )
            return [await self._fallback.hit(group, identity) for group, identity, _ in some]
        return [
            _hit(waiting.group, count, left_ms * 1000)
            for waiting, count, left_ms in zip(some, found[::2], found[1::2], strict=True)
        ]

    async def _ask(self, *arguments: Any) -> list[int]:
        from redis.exceptions import ConnectionError

        was_connected = self._connection.is_connected
        try:
            # After any failure the connection is closed, and the next command opens it.
            async with asyncio.timeout(REDIS_TIMEOUT_SECONDS):
                await self._connection.send_command("EVAL", _SCRIPT, *arguments)
                return await self._connection.read_response()  # type: ignore[no-any-return]
        except ConnectionError:
            if not was_connected:
                raise
        # Redis was restarted, or has closed a connection that was idle for long.
        return await self._ask(*arguments)


def open_windows(settings: Settings, clock: Clock) -> Windows:
    return RedisWindows(settings.redis_url, clock) if settings.redis_url else MemoryWindows(clock)
