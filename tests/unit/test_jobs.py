"""Jobs: one process at a time, on schedule, and a dead process's lease runs out."""

from __future__ import annotations

import asyncio

from kontobahn import jobs
from kontobahn.jobs import LEASE_SECONDS, Job, JobRunner
from tests.harness import Service


def test_a_job_runs_once_for_all_processes(service: Service) -> None:
    runs: list[str] = []

    async def main() -> None:
        async def work() -> None:
            runs.append("run")
            await asyncio.sleep(0.05)

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
    assert service.db.write_now(jobs._claim, "work", "dead")
    assert not service.db.write_now(jobs._claim, "work", "alive")
    service.clock.advance(seconds=LEASE_SECONDS)
    assert service.db.write_now(jobs._claim, "work", "alive")


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


def test_the_application_s_own_jobs_run(service: Service) -> None:
    from kontobahn.app import scheduled_jobs

    jobs_of_ours = scheduled_jobs(service.application.context)
    names = asyncio.run(JobRunner(service.db, jobs_of_ours).run_due())
    assert names == [job.name for job in jobs_of_ours]
    assert "expire reservations" in names
