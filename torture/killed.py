"""A service that is killed while something happens, until that was in the middle of each kind of thing often enough.

What a killed process had claimed is free again after minutes; here that time is made to pass in the database.
"""

from __future__ import annotations

import random
import sqlite3
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx

from tests.forked_commands import commands
from torture.others import Target

PATIENCE_SECONDS = 600
# A kill comes at any moment up to a little later than the thing usually takes; that is learned on the way.
SPREAD, FIRST_GUESS = 1.2, 0.3
# The time that a connect flow may be half made, in microseconds.
QUARTER_OF_AN_HOUR = 15 * 60 * 1_000_000
Act = Callable[[], Any]
_CLAIMS = (
    "UPDATE banking_inbox SET next_attempt_at = 0 WHERE state = 'received'",
    "UPDATE banking_interactions SET claimed_until = 0",
    "UPDATE banking_connections SET refresh_started_at = NULL, refresh_type = '', next_refresh_possible_at = 0"
    " WHERE status = 'active'",
    "UPDATE idempotency_keys SET lease_until = 0 WHERE lease_until IS NOT NULL",
    "UPDATE job_leases SET lease_until = 0",
)


def report(trial: Callable[[Path], str]) -> int:
    """Runs a trial in a folder of its own, and prints what came of it and how long that took."""
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="kontobahn-torture-") as folder:
        print(trial(Path(folder)))
    print(f"{time.monotonic() - started:.0f} seconds")
    return 0


class _Acting:
    """An act in a thread of its own. That the service goes away is no failure of it."""

    def __init__(self, act: Act) -> None:
        self._act, self._failures, self._ended = act, list[BaseException](), 0.0
        self.thread = threading.Thread(target=self._run)
        self.thread.start()

    def _run(self) -> None:
        try:
            self._act()
        except (httpx.HTTPError, OSError):
            pass
        except BaseException as error:
            self._failures.append(error)
        self._ended = time.monotonic()

    def finish(self) -> float:
        """Waits for its end, and returns when that was. Raises whatever else went wrong in it."""
        self.thread.join()
        if self._failures:
            raise self._failures[0]
        return self._ended


class Killed:
    """The service; `running` is the process that serves now, at another port after each kill."""

    def __init__(
        self, data: Path, seed: int, settings: dict[str, Any], time_passes: tuple[str, ...] = (), prepare: str = ""
    ) -> None:
        self.data, self.chance = data, random.Random(seed)
        self._settings, self._time_passes = settings, (*_CLAIMS, *time_passes)
        self.kills: Counter[str] = Counter()
        # Those that came while the thing was still under way.
        self.amid: Counter[str] = Counter()
        self._usual: dict[str, float] = {}
        self._prepare = prepare
        self.running = self._start()

    def _start(self) -> Target:
        unlimited: dict[str, Any] = {f"limit_{name}_requests": 10**9 for name in ("api", "auth", "webhook")}
        return Target(self.data, forked_from=commands(self._prepare), **unlimited, log_level="error", **self._settings)

    def next_kind(self, kinds: tuple[str, ...], wanted: int) -> Iterator[str]:
        """Names the kind that was interrupted least, until each was often enough. Raises AssertionError if that never ends."""
        while (kind := min(kinds, key=lambda one: self.amid[one])) and self.amid[kind] < wanted:
            assert self.kills.total() <= 20 * wanted * len(kinds), f"kills come too late: {self}"
            yield kind

    def while_doing(self, kind: str, act: Act) -> bool:
        """Kills the service at some moment of the act, and starts it again. Returns whether the act was over by then."""
        acting, started, usual = _Acting(act), time.monotonic(), self._usual.get(kind, FIRST_GUESS)
        acting.thread.join(self.chance.uniform(0, SPREAD * usual))
        is_over = not acting.thread.is_alive()
        self.stop()
        ended = acting.finish()
        self._usual[kind] = ended - started if is_over else usual * 1.1
        self._count(kind, is_amid=not is_over)
        return is_over

    def when_reached(self, kind: str, act: Act, reached: threading.Event, go_on: threading.Event) -> None:
        """Kills the service at the moment of the act that somebody else says, who goes on afterwards; and starts it again."""
        acting = _Acting(act)
        while not reached.wait(0.1):
            assert acting.thread.is_alive(), f"{kind} was over before its moment came"
        self.stop()
        go_on.set()
        acting.finish()
        reached.clear()
        go_on.clear()
        self._count(kind, is_amid=True)

    def _count(self, kind: str, *, is_amid: bool) -> None:
        self.kills[kind] += 1
        self.amid[kind] += is_amid
        self.let_claims_end()
        self.running = self._start()

    def let_claims_end(self) -> None:
        self.change(*self._time_passes)

    def change(self, *statements: str) -> None:
        database = sqlite3.connect(self.data / "kontobahn.sqlite3", timeout=60)
        try:
            with database:
                for statement in statements:
                    database.execute(statement)
        finally:
            database.close()

    def check_nothing_half_made(self) -> int:
        """Lets a quarter of an hour pass, and waits until nothing is half made any more. Returns how much was before."""
        half_made = len(self._half_made())
        self.stop()
        self.change(
            # The job that tidies up is due.
            "UPDATE job_leases SET lease_until = 0, next_at = 0",
            f"UPDATE banking_connections SET created_at = created_at - {QUARTER_OF_AN_HOUR} WHERE status = 'pending_connect'",
            f"UPDATE banking_connections SET refresh_started_at = refresh_started_at - {QUARTER_OF_AN_HOUR}"
            " WHERE status = 'pending'",
        )
        self.running = self._start()
        until(lambda: not self._half_made(), "a connection stays half made")
        return half_made

    def _half_made(self) -> list[str]:
        url = f"http://127.0.0.1:{self.running.port}/v2/banking/connections"
        answer = httpx.get(url, headers={"x-api-key": self.running.key}, timeout=60, trust_env=False)
        rows = answer.raise_for_status().json()["data"]
        return [str(row["id"]) for row in rows if row["status"] in ("pending_connect", "pending")]

    def stop(self) -> None:
        self.running.process.kill()
        self.running.process.wait()

    def __str__(self) -> str:
        told = [f"{self.amid[kind]} of {self.kills[kind]} amid {kind}" for kind in sorted(self.kills)]
        return f"{self.kills.total()} kills: {', '.join(told)}"


def until(is_so: Callable[[], bool], complaint: str = "it did not come about") -> None:
    given_up = time.monotonic() + PATIENCE_SECONDS
    while not is_so():
        assert time.monotonic() < given_up, complaint
        time.sleep(0.2)
