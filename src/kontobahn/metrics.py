"""Counters for Prometheus. Labels are endpoints and statuses, never organisations or people."""

from __future__ import annotations

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, Counter, Gauge, Histogram, generate_latest


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
        self._overdue = Gauge(
            "kontobahn_job_overdue_seconds",
            "How long ago a job should have run; 0 unless it is overdue by three intervals.",
            ["job"],
            registry=self._registry,
        )
        self._credits = Counter("kontobahn_credits_charged", "Credits charged.", registry=self._registry)

    def note(self, endpoint: str, status: int, seconds: float, credits: int) -> None:
        self._requests.labels(endpoint, str(status)).inc()
        self._seconds.labels(endpoint).observe(seconds)
        if credits:
            self._credits.inc(credits)

    def note_delivery(self, outcome: str, seconds: float) -> None:
        self._deliveries.labels(outcome).inc()
        self._delivery_seconds.labels(outcome).observe(seconds)

    def note_overdue(self, seconds_by_job: dict[str, int]) -> None:
        for job, seconds in seconds_by_job.items():
            self._overdue.labels(job).set(seconds)

    def render(self) -> bytes:
        return generate_latest(self._registry)
