"""The loop of the deliverer: when it looks, when it waits, and in which order it stops, without a database or a network."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from kontobahn.clock import ManualClock
from kontobahn.errors import Unavailable
from kontobahn.metrics import Metrics
from kontobahn.outbound import OutboundClient, Reply, Rule
from kontobahn.settings import load
from kontobahn.vault import Vault
from kontobahn.webhooks import claims, deliverer
from kontobahn.webhooks.claims import Claimed, Cycle, Outcome
from kontobahn.webhooks.deliverer import Deliverer
from tests.harness import START

CLAIMED = Claimed(
    "mine", "webhook-url", 1, "payment:1", 0, 0, "evt_1", "payment_update", "{}", "https://receiver.example/", SimpleNamespace(),  # type: ignore[arg-type]
    None,
)  # fmt: skip
FAILING = CLAIMED._replace(receiver_id="other", subject="payment:2", failing_since=START)


class Desk:
    """Stands for the database and the receivers: notes what it is asked for, and answers what the test says."""

    has_one_process = True

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.done: list[str] = []
        self.capacities: list[claims.Capacity] = []
        self.outcomes: list[list[Outcome]] = []
        self.claimed: list[list[Claimed]] = []
        self.failures: list[Exception] = []
        self.answered = asyncio.Event()
        self.seconds = self.takes = 0.0
        self.deliverer = Deliverer(
            self, Vault(b"k" * 32), OutboundClient(Rule()), load({}, webhook_concurrency=8), ManualClock(START), Metrics(),  # type: ignore[arg-type]
        )  # fmt: skip
        self.deliverer._keys = SimpleNamespace(of=lambda *_: [])  # type: ignore[assignment]
        self.deliverer._posts = SimpleNamespace(post=self.post, close=lambda: self.done.append("closed"))  # type: ignore[assignment]
        self.pause = asyncio.sleep
        # Nothing here happens because time has passed.
        monkeypatch.setattr(deliverer, "POLL_SECONDS", 3600.0)
        monkeypatch.setattr(deliverer, "time", SimpleNamespace(perf_counter=lambda: self.seconds))
        monkeypatch.setattr("kontobahn.webhooks.deliverer.asyncio.sleep", self.sleep)

    def listen(self, channel: str, wake: Callable[[], None]) -> Callable[[], None]:
        return lambda: self.done.append("no longer listening")

    async def write(self, fn: Callable[..., Any], *args: Any, **_: Any) -> Any:
        await self.turns(1)
        self.done.append(fn.__name__)
        if fn is claims.run_cycle:
            self.outcomes.append(args[1])
            self.capacities.append(args[2])
            if self.failures:
                raise self.failures.pop(0)
            return Cycle([], self.claimed.pop(0) if self.claimed else [], [])
        return None

    async def post(self, *_: Any, **__: Any) -> Reply:
        try:
            await self.answered.wait()
        except asyncio.CancelledError:
            await self.turns(3)
            self.done.append("left")
            raise
        self.seconds += self.takes
        return Reply(200, {}, b"")

    async def sleep(self, seconds: float) -> None:
        self.done.append(f"pause {seconds:g}")
        await self.turns(1)

    async def turns(self, count: int = 40) -> None:
        """Lets everything else go on for a while."""
        for _ in range(count):
            await self.pause(0)


def test_what_a_dead_process_had_is_released_once_and_it_looks_again_when_it_is_woken(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def main() -> None:
        desk = Desk(monkeypatch)
        desk.deliverer.start()
        await desk.turns()
        assert desk.done == ["release_all", "run_cycle"]
        desk.deliverer.wake()
        await desk.turns()
        assert desk.done == ["release_all", "run_cycle", "run_cycle"]
        await desk.deliverer.stop()

    asyncio.run(main())


@pytest.mark.parametrize("failure", [Unavailable("not now"), ValueError("a fault of ours")])
def test_after_a_turn_that_failed_it_pauses_and_looks_again_unasked(
    monkeypatch: pytest.MonkeyPatch, failure: Exception
) -> None:
    async def main() -> None:
        desk = Desk(monkeypatch)
        desk.failures = [failure, failure]
        desk.deliverer.start()
        await desk.turns()
        again = ["run_cycle", "pause 3600"]
        assert desk.done == ["release_all", *again, *again, "run_cycle"]
        await desk.deliverer.stop()

    asyncio.run(main())


def test_receivers_that_fail_have_a_quarter_of_the_places_and_what_has_ended_is_recorded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def main() -> None:
        desk = Desk(monkeypatch)
        desk.claimed = [[CLAIMED, FAILING]]
        desk.deliverer.start()
        await desk.turns(10)
        places = [(capacity.quick, capacity.failing_or_slow) for capacity in desk.capacities]
        assert places[:2] == [(6, 2), (5, 1)]
        assert set(desk.capacities[1].lanes) == {CLAIMED.lane, FAILING.lane}
        assert not any(desk.outcomes)
        desk.answered.set()
        await desk.turns()
        assert [[one.claimed for one in ended] for ended in desk.outcomes if ended] == [[CLAIMED, FAILING]]
        last = desk.capacities[-1]
        assert (last.quick, last.failing_or_slow, last.lanes, dict(last.in_flight)) == (6, 2, frozenset(), {})
        assert f"pause {deliverer.GATHER_SECONDS:g}" in desk.done, "outcomes are recorded together"
        await desk.deliverer.stop()

    asyncio.run(main())


def test_an_attempt_is_timed_and_a_receiver_is_slow_until_it_is_quick_again(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        desk = Desk(monkeypatch)
        desk.answered.set()
        desk.deliverer.start()
        found = []
        for takes in (0.0005, 2.0, 2.001, 1.5):
            desk.takes = takes
            desk.claimed.append([CLAIMED])
            desk.deliverer.wake()
            await desk.turns()
            [outcome] = next(ended for ended in reversed(desk.outcomes) if ended)
            found.append((outcome.milliseconds, CLAIMED.receiver in desk.capacities[-1].slow))
        assert found == [(0, False), (2000, False), (2001, True), (1500, False)]
        await desk.deliverer.stop()

    asyncio.run(main())


def test_stopping_ends_the_attempts_then_the_connections_and_releases_what_is_left(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def main() -> None:
        monkeypatch.setattr(deliverer, "STOP_SECONDS", 0.0)
        desk = Desk(monkeypatch)
        desk.claimed = [[CLAIMED]]
        desk.deliverer.start()
        await desk.turns(10)
        begun = len(desk.done)
        await desk.deliverer.stop()
        ending = [done for done in desk.done[begun:] if not done.startswith("pause")]
        assert ending[0] == "no longer listening"
        assert ending[-4:] == ["left", "closed", "run_cycle", "release"]
        last = desk.capacities[-1]
        assert (last.quick, last.failing_or_slow, dict(last.in_flight)) == (0, 0, {}), "nothing more is claimed"
        await desk.deliverer.stop()
        assert desk.done[-1] == "release", "only once"

    asyncio.run(main())
