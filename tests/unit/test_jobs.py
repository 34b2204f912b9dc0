"""Jobs: one process at a time, on schedule, and a dead process's lease runs out."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from kontobahn import jobs, log
from kontobahn.cli import doctor
from kontobahn.errors import Unavailable
from kontobahn.jobs import LEASE_SECONDS, Job, JobRunner
from kontobahn.schedule import scheduled_jobs
from tests.harness import Service
from tests.waiting import take_time_async

METRIC = 'kontobahn_job_overdue_seconds{name="lapse grants"}'


def test_a_job_runs_once_for_all_processes(service: Service) -> None:
    runs: list[str] = []

    async def main() -> None:
        async def work() -> None:
            runs.append("run")
            await take_time_async(0.05)

        runners = [JobRunner(service.db, [Job("work", 60, work)]) for _ in range(5)]
        await asyncio.gather(*(runner.run_due() for runner in runners))

    asyncio.run(main())
    assert runs == ["run"]
    asyncio.run(main())
    assert runs == ["run"], "not due yet"
    service.clock.advance(seconds=60)
    asyncio.run(main())
    assert runs == ["run", "run"]


def test_a_lease_of_a_dead_process_runs_out(service: Service) -> None:
    assert service.db.write_now(jobs._claim, "work", "dead", 60)
    assert not service.db.write_now(jobs._claim, "work", "alive", 60)
    service.clock.advance(seconds=LEASE_SECONDS)
    assert service.db.write_now(jobs._claim, "work", "alive", 60)


def test_a_job_that_fails_is_seen_and_runs_again(service: Service) -> None:
    outcomes = iter((RuntimeError("broken"), None))

    async def work() -> None:
        outcome = next(outcomes)
        if outcome:
            raise outcome

    runner = JobRunner(service.db, [Job("work", 10, work)])
    assert asyncio.run(runner.run_due()) == []
    assert service.db.read_now(jobs.failed) == [("work", "RuntimeError: broken")]
    service.clock.advance(seconds=10)
    assert asyncio.run(runner.run_due()) == ["work"]
    assert service.db.read_now(jobs.failed) == []


def test_a_job_that_finds_no_database_is_postponed_and_has_not_failed(service: Service) -> None:
    outcomes = iter((Unavailable("not now"), None))

    async def work() -> None:
        outcome = next(outcomes)
        if outcome:
            raise outcome

    runner = JobRunner(service.db, [Job("work", 60, work)])
    assert asyncio.run(runner.run_due()) == []
    assert service.db.read_now(jobs.failed) == []
    service.clock.advance(seconds=LEASE_SECONDS)
    assert asyncio.run(runner.run_due()) == ["work"]


def test_a_job_is_due_after_four_fifths_of_its_interval_and_lags_from_then_on_unless_it_runs(service: Service) -> None:
    async def work() -> None: ...

    runner = JobRunner(service.db, [Job("work", 100, work)])
    asyncio.run(runner.run_due())
    assert service.db.write_now(jobs._claim, "new", "dead", 100)
    service.clock.advance(seconds=79)
    assert asyncio.run(runner.run_due()) == []
    assert service.db.read_now(jobs.lags) == {"work": 0, "new": 0}, "what never ran is not late"
    service.clock.advance(seconds=11)
    assert service.db.read_now(jobs.lags) == {"work": 10, "new": 0}
    assert service.db.write_now(jobs._claim, "work", "running", 100)
    assert service.db.read_now(jobs.lags) == {"work": 0, "new": 0}
    service.clock.advance(seconds=LEASE_SECONDS)
    assert service.db.read_now(jobs.lags) == {"work": 10 + LEASE_SECONDS, "new": 0}
    assert asyncio.run(runner.run_due()) == ["work"]


@pytest.mark.parametrize("in_time", [True, False])
@pytest.mark.either_engine
def test_stopping_waits_for_a_job_and_ends_one_that_takes_too_long(
    service: Service, monkeypatch: pytest.MonkeyPatch, in_time: bool
) -> None:
    done: list[str] = []
    if not in_time:
        monkeypatch.setattr(jobs, "STOP_SECONDS", 0)

    async def main() -> None:
        begun, goes_on = asyncio.Event(), asyncio.Event()

        async def work() -> None:
            begun.set()
            try:
                await goes_on.wait()
                done.append("finished")
            except asyncio.CancelledError:
                await asyncio.sleep(0)
                done.append("ended")
                raise

        runner = JobRunner(service.db, [Job("work", 60, work)])
        await runner.stop()
        runner.start()
        await begun.wait()
        stopping = asyncio.ensure_future(runner.stop())
        if in_time:
            asyncio.get_running_loop().call_soon(goes_on.set)
        await stopping
        done.append("stopped")

    asyncio.run(main())
    assert done == (["finished", "stopped"] if in_time else ["ended", "stopped"])


def test_the_application_s_own_jobs_run(service: Service) -> None:
    jobs_of_ours = scheduled_jobs(service.application.context)
    names = asyncio.run(JobRunner(service.db, jobs_of_ours).run_due())
    assert names == [job.name for job in jobs_of_ours]
    assert "expire reservations" in names


def test_a_clock_set_back_delays_no_job(service: Service) -> None:
    runs: list[str] = []

    async def work() -> None:
        runs.append("run")

    runner = JobRunner(service.db, [Job("work", 300, work)])
    assert asyncio.run(runner.run_due()) == ["work"]
    service.clock.set_back(seconds=3600)
    assert asyncio.run(runner.run_due()) == ["work"], "its next turn is an hour too far ahead"
    assert asyncio.run(runner.run_due()) == [], "it ran just now"
    assert service.db.write_now(jobs._claim, "other", "dead", 300)
    service.clock.set_back(seconds=3600)
    assert service.db.write_now(jobs._claim, "other", "alive", 300), "a lease reaches twelve seconds ahead, not an hour"
    service.clock.set_back(seconds=30)
    assert not service.db.write_now(jobs._claim, "other", "third", 300), "clocks of machines differ by seconds"


def test_a_job_is_overdue_three_intervals_after_its_turn(service: Service) -> None:
    async def work() -> None: ...

    scheduled = [Job("often", 2, work), Job("work", 60, work), Job("new", 60, work)]

    def overdue(since: int | None = None) -> list[tuple[str, int]]:
        return [(name, seconds) for name, seconds in service.db.read_now(jobs.overdue, scheduled, since)]

    assert overdue() == []
    asyncio.run(JobRunner(service.db, scheduled[:2]).run_due())
    started = service.clock.now()
    service.clock.advance(seconds=32)
    assert overdue() == [], "an interval of seconds is given half a minute"
    service.clock.advance(seconds=1)
    assert overdue() == [("often", 31)]
    service.clock.advance(seconds=240 - 33)
    assert overdue() == [("often", 238)]
    service.clock.advance(seconds=1)
    assert overdue(started) == [("often", 239), ("work", 181), ("new", 181)]


def test_the_service_tells_which_jobs_are_overdue(service: Service) -> None:
    scheduled = scheduled_jobs(service.application.context)
    asyncio.run(JobRunner(service.db, scheduled).run_due())

    def told() -> tuple[list[str], str]:
        service.run(service.application.upkeep())
        ready = service.get("/readyz")
        assert ready.status_code == 200, "calls are answered all the same"
        metric = next(line for line in service.get("/metrics").text.splitlines() if line.startswith(f"{METRIC} "))
        return ready.json()["jobs_overdue"], metric

    assert told() == ([], f"{METRIC} 0.0")
    service.clock.advance(seconds=241)
    late, metric = told()
    assert "lapse grants" in late
    assert "purge what has expired" not in late
    assert metric == f"{METRIC} 181.0"
    findings = [item for item in doctor._jobs(service.settings, service.db) if "lapse grants" in item.text]
    assert [(item.state, item.text) for item in findings] == [("failed", "“lapse grants” should have run 181 s ago")]
    service.clock.advance(seconds=3600)
    (finding,) = doctor._jobs(service.settings, service.db)
    assert (finding.state, "kontobahn serve" in finding.remedy) == ("warning", True)
    asyncio.run(JobRunner(service.db, scheduled).run_due())
    assert told()[0] == []


def test_a_job_loop_survives_a_failure_of_its_own_and_a_log_that_cannot_be_written(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    claim, failures = jobs._claim, iter((RuntimeError("broken"), OSError("broken")))

    def failing_claim(*args: Any) -> bool:
        failure = next(failures, None)
        if failure is not None:
            raise failure
        return claim(*args)

    monkeypatch.setattr(jobs, "_claim", failing_claim)

    async def main() -> None:
        ran = asyncio.Event()

        async def work() -> None:
            ran.set()
            raise RuntimeError("the job itself fails too")

        runner = JobRunner(service.db, [Job("work", 0.01, work)])
        runner.start()
        await ran.wait()
        await runner.stop()

    with open("/dev/full", "w") as full:
        log.configure("debug", full)
        try:
            asyncio.run(main())
            assert log._State.lost > 0
        finally:
            log.configure("info")
            log._State.lost = 0
