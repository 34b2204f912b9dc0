"""A bank is connected and read while the service is killed again and again: nothing may be lost, nothing be there twice.

After each kill the person goes on where the page is, or gives up. Whatever a killed process has begun is either there as a whole or
not at all, what it held is free again after minutes, and what nobody goes on with is gone after a quarter of an hour.

    python -m torture.banks --provider fints --kills 50
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from torture import killed
from torture.bank_trials import TRIALS, Person, Trial
from torture.killed import Killed, until

KINDS = ("connect", "fetch")
# Of those who are interrupted while they connect, one in so many gives up.
GIVES_UP = 5


def run(data: Path, provider: str, kills: int, seed: int) -> str:
    """Kills the service in the middle of connecting and of reading, so often each."""
    trial = TRIALS[provider]()
    # Few pages, however much is booked on the way: there are kills enough between two.
    trial.per_page = 25
    trial.book(60)
    service = Killed(data, seed, trial.settings, trial.time_passes)
    try:
        for number, kind in enumerate(service.next_kind(KINDS, kills)):
            _one_person(service, trial, number % trial.people, kind)
            print(service, flush=True)
        half_made = service.check_nothing_half_made()
    finally:
        service.stop()
        trial.close()
    assert trial.faults == [], trial.faults[:3]
    return (
        f"{service}; {half_made} left half made, and gone in time. No booking lost, none twice, no fault at the bank."
    )


def _one_person(service: Killed, trial: Trial, number: int, kind: str) -> None:
    person = Person(trial, number)
    trial.asks_for_confirmation(True)
    person.begin(service.running)
    if kind == "connect":
        service.while_doing(kind, lambda: person.walk(service.running))
        check(person, service, trial, must_be_whole=False)
        if not service.chance.randrange(GIVES_UP):
            return
    person.walk(service.running)
    before = check(person, service, trial)
    if kind == "fetch":
        _read_again(person, service, trial, before)
    person.remove(service.running)


def _read_again(person: Person, service: Killed, trial: Trial, before: list[int]) -> None:
    trial.book(7)
    trial.asks_for_confirmation(False)
    service.let_claims_end()
    service.while_doing("fetch", lambda: person.refresh(service.running))
    ids, seen = person.transactions(service.running)
    assert len(ids) in (len(before), trial.booked().total()), "half of a fetch was stored"
    answer = person.refresh(service.running)
    # The killed one had stored it all, and said when the next one may be: then there is nothing left to fetch.
    assert answer.status_code == 202 or (answer.status_code == 409 and seen == trial.booked()), answer.text
    # The call does not wait for a slow bank.
    until(lambda: person.transactions(service.running)[1] == trial.booked(), "a booking is missing")
    after = check(person, service, trial)
    assert after[: len(before)] == before, "what was stored has moved"


def check(person: Person, service: Killed, trial: Trial, *, must_be_whole: bool = True) -> list[int]:
    """Everything is there once, or nothing yet."""
    connection = person.connection(service.running)
    if connection["status"] == "pending_connect":
        assert not must_be_whole, connection
        return []
    assert connection["status"] == "active", connection
    ids, seen = person.transactions(service.running)
    assert seen == trial.booked(), (seen - trial.booked(), trial.booked() - seen)
    assert ids == sorted(set(ids)), "ids do not rise"
    return ids


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--provider", choices=sorted(TRIALS), default="fints")
    parser.add_argument("--kills", type=int, default=50, help="in the middle of each kind of thing")
    parser.add_argument("--seed", type=int, default=1)
    chosen = parser.parse_args()
    return killed.report(lambda folder: run(folder, chosen.provider, chosen.kills, chosen.seed))


if __name__ == "__main__":
    sys.exit(main())
