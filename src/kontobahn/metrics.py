"""Measurements for Prometheus. Labels are endpoints, statuses and jobs, never organisations or people."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from typing import NamedTuple

from prometheus_client import (
    CONTENT_TYPE_LATEST,
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    Info,
    ProcessCollector,
    generate_latest,
)

from kontobahn import __version__


class Backlog(NamedTuple):
    """Events that wait for their delivery."""

    events: int
    # How long the first of them has been due; 0 if none is.
    overdue_seconds: float


class Metrics:
    content_type = CONTENT_TYPE_LATEST

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        self._requests = Counter(
            "kontobahn_requests", "Calls by endpoint and status.", ["endpoint", "status"], registry=self._registry
        )
        self._seconds = Histogram(
            "kontobahn_request_seconds",
            "Time to answer, by endpoint.",
            ["endpoint"],
            buckets=(0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30),
            registry=self._registry,
        )
        self._of_calls: dict[tuple[str, int], tuple[Counter, Histogram]] = {}
        self._deliveries = Counter(
            "kontobahn_webhook_attempts",
            "Attempts to deliver an event, by outcome.",
            ["outcome"],
            registry=self._registry,
        )
        self._delivery_seconds = Histogram(
            "kontobahn_webhook_attempt_seconds",
            "Time an attempt took, by outcome.",
            ["outcome"],
            buckets=(0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 15, 30),
            registry=self._registry,
        )
        self._credits = Counter("kontobahn_credits_charged", "Credits charged.", registry=self._registry)
        # CPU, memory, open files and start time, as every exporter names them.
        ProcessCollector(registry=self._registry)
        Info("kontobahn_build", "The version that runs.", registry=self._registry).info(
            {"version": __version__, "python": platform.python_version()}
        )
        self._measure_installation()

    def _measure_installation(self) -> None:
        """What the database says; set by `note_installation`."""
        self._database_up = Gauge("kontobahn_database_up", "1 if the database answers.", registry=self._registry)
        self._job_lag = Gauge(
            "kontobahn_job_lag_seconds",
            "How long a scheduled job has been due without being run.",
            ["name"],  # `job` is Prometheus' own label
            registry=self._registry,
        )
        self._overdue = Gauge(
            "kontobahn_job_overdue_seconds",
            "How long ago a job should have run; 0 unless it is overdue by three intervals.",
            ["name"],
            registry=self._registry,
        )
        self._backlog = Gauge(
            "kontobahn_webhook_backlog", "Events that wait for their delivery.", registry=self._registry
        )
        self._backlog_overdue = Gauge(
            "kontobahn_webhook_backlog_overdue_seconds",
            "How long the first waiting event has been due.",
            registry=self._registry,
        )
        self._laid_aside = Gauge(
            "kontobahn_documents_laid_aside",
            "Invoices whose documents could not be made in three attempts.",
            registry=self._registry,
        )

    def note(self, endpoint: str, status: int, seconds: float, credits: int) -> None:
        # Kept, because looking up labels takes longer than counting.
        of_call = self._of_calls.get((endpoint, status))
        if of_call is None:
            of_call = self._requests.labels(endpoint, str(status)), self._seconds.labels(endpoint)
            self._of_calls[endpoint, status] = of_call
        count, seconds_taken = of_call
        count.inc()
        seconds_taken.observe(seconds)
        if credits:
            self._credits.inc(credits)

    def note_delivery(self, outcome: str, seconds: float) -> None:
        self._deliveries.labels(outcome).inc()
        self._delivery_seconds.labels(outcome).observe(seconds)

    def note_overdue(self, seconds_by_job: dict[str, int]) -> None:
        for job, seconds in seconds_by_job.items():
            self._overdue.labels(job).set(seconds)

    def note_installation(self, job_lags: Mapping[str, float], backlog: Backlog, documents_laid_aside: int) -> None:
        """What the database says at the moment; the same in every process."""
        self._database_up.set(1)
        self._laid_aside.set(documents_laid_aside)
        for job, seconds in job_lags.items():
            self._job_lag.labels(job).set(seconds)
        self._backlog.set(backlog.events)
        self._backlog_overdue.set(backlog.overdue_seconds)

    def note_database_away(self) -> None:
        """Nothing is said of what is not known: an old figure would look like a good one."""
        self._database_up.set(0)
        self._job_lag.clear()
        for gauge in (self._backlog, self._backlog_overdue, self._laid_aside):
            gauge.set(float("nan"))

    def render(self) -> bytes:
        return generate_latest(self._registry)
