"""A bank is connected and read while the service is killed again and again: nothing may be lost, nothing be there twice.

After each kill the person goes on where the page is. Whatever a killed process has begun is either there as a whole or not at all, and
what it held is free again after minutes: here that time is made to pass in the database.

    python -m torture.banks --provider fints --kills 50
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import httpx

from torture.bank_trials import TRIALS, Person, Trial, let_time_pass
from torture.others import Target

# Sooner than any answer, to later than the last one.
SPREAD = 1.3
PATIENCE_SECONDS = 600


class Killed:
    """A service that is killed while something happens, and started again."""

    def __init__(self, data: Path, trial: Trial, chance: random.Random) -> None:
        self._data, self._trial, self._chance = data, trial, chance
        self.running = self._start()
        self.kills = self.amid = 0

    def _start(self) -> Target:
        # Its port is a new one, so the facts of the one before lead nowhere.
        return Target(
            self._data, limit_api_requests=10**9, limit_auth_requests=10**9, log_level="error", **self._trial.settings
        )

    def while_doing(self, seconds: float, action: Any) -> bool:
        """Kills the service at some moment of the action. Returns whether the action was over by then."""
        failures: list[BaseException] = []

        def act() -> None:
            try:
                action(self.running)
            except httpx.HTTPError:
                pass
            except BaseException as error:
                failures.append(error)

        acting = threading.Thread(target=act)
        acting.start()
        acting.join(self._chance.uniform(0, SPREAD * seconds))
        is_over = not acting.is_alive()
        self.running.process.kill()
        self.running.process.wait()
        acting.join()
        if failures:
            raise failures[0]
        self.kills += 1
        self.amid += not is_over
        let_time_pass(self._data, self._trial)
        self.running = self._start()
        return is_over

    def stop(self) -> None:
        self.running.process.kill()
        self.running.process.wait()


def run(data: Path, provider: str, kills: int, seed: int) -> str:
    chance = random.Random(seed)
    trial = TRIALS[provider]()
    trial.book(20)
    service = Killed(data, trial, chance)
    try:
        seconds = _measure(service.running, trial)
        for number in range(1, (kills + 1) // 2 + 1):
            _one_person(service, trial, number, seconds)
    finally:
        service.stop()
        trial.close()
    assert trial.faults == [], trial.faults[:3]
    return f"{service.kills} kills, {service.amid} of them amid something: no booking lost, none twice, no fault at the bank."


def _measure(running: Target, trial: Trial) -> float:
    """Returns how long somebody takes who is not disturbed. The first one waits for what is loaded once."""
    seconds = 0.0
    for number in (900, 901):
        person = Person(trial, number)
        started = time.monotonic()
        person.begin(running)
        person.walk(running)
        seconds = time.monotonic() - started
    return seconds


def _one_person(service: Killed, trial: Trial, number: int, seconds: float) -> None:
    person = Person(trial, number)
    trial.asks_for_confirmation(True)
    person.begin(service.running)
    service.while_doing(seconds, person.walk)
    _check(person, service.running, trial, must_be_whole=False)
    person.walk(service.running)
    before = _check(person, service.running, trial)
    trial.book(7)
    trial.asks_for_confirmation(False)
    let_time_pass(service.running.data, trial)
    service.while_doing(seconds, person.refresh)
    ids, seen = person.transactions(service.running)
    assert len(ids) in (len(before), trial.booked().total()), "half of a fetch was stored"
    answer = person.refresh(service.running)
    # The killed one had stored it all, and said when the next one may be: then there is nothing left to fetch.
    assert answer.status_code == 202 or (answer.status_code == 409 and seen == trial.booked()), answer.text
    # The call does not wait for a slow bank.
    deadline = time.monotonic() + PATIENCE_SECONDS
    while person.transactions(service.running)[1] != trial.booked() and time.monotonic() < deadline:
        time.sleep(0.2)
    after = _check(person, service.running, trial)
    assert after[: len(before)] == before, "what was stored has moved"


def _check(person: Person, running: Target, trial: Trial, *, must_be_whole: bool = True) -> list[int]:
    """Everything is there once, or nothing yet."""
    connection = person.connection(running)
    if connection["status"] == "pending_connect":
        assert not must_be_whole, connection
        return []
    assert connection["status"] == "active", connection
    ids, seen = person.transactions(running)
    assert seen == trial.booked(), (seen - trial.booked(), trial.booked() - seen)
    assert ids == sorted(set(ids)), "ids do not rise"
    return ids


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--provider", choices=sorted(TRIALS), default="fints")
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--seed", type=int, default=1)
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="kontobahn-torture-") as folder:
        print(run(Path(folder), chosen.provider, chosen.kills, chosen.seed))
    return 0


if __name__ == "__main__":
    sys.exit(main())
