"""Measurements for Prometheus. Labels are endpoints, statuses and jobs, never organisations or people.

Noted on the event loop as plain numbers, because every call is: the library that writes them as Prometheus reads them is imported
when somebody asks for them.
"""

from __future__ import annotations

import platform
from bisect import bisect_left
from collections.abc import Iterable, Mapping
from functools import cached_property
from itertools import accumulate
from typing import TYPE_CHECKING, NamedTuple

from kontobahn import __version__

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric

_UNKNOWN = float("nan")


class Backlog(NamedTuple):
    """Events that wait for their delivery."""

    # Not a number where it is not known.
    events: float
    # The seconds that the first of them has been due; 0 if none is.
    overdue_seconds: float


class _Times:
    """Counts how often something took how long, by label."""

    def __init__(self, *limits: float) -> None:
        self._limits = limits
        # One more than there are limits, for what took longer; and the sum.
        self._of_label: dict[str, tuple[list[int], list[float]]] = {}

    def note(self, label: str, seconds: float) -> None:
        found = self._of_label.get(label)
        if found is None:
            found = self._of_label[label] = [0] * (len(self._limits) + 1), [0.0]
        counts, total = found
        counts[bisect_left(self._limits, seconds)] += 1
        total[0] += seconds

    def add_to(self, family: HistogramMetricFamily) -> HistogramMetricFamily:
        names = [*map(str, map(float, self._limits)), "+Inf"]
        for label, (counts, total) in self._of_label.items():
            family.add_metric([label], list(zip(names, accumulate(counts), strict=True)), total[0])
        return family


class Metrics:
    def __init__(self) -> None:
        self._calls: dict[tuple[str, int], int] = {}
        self._seconds = _Times(0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)
        self._attempts: dict[str, int] = {}
        self._attempt_seconds = _Times(0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 15, 30)
        self._credits = 0
        self._overdue: dict[str, int] = {}
        # Figures of the database; see `note_installation`.
        self._database_up = 0
        self._job_lags: Mapping[str, float] = {}
        self._backlog = Backlog(0, 0)
        self._given_up: float = 0

    def note(self, endpoint: str, status: int, seconds: float, credits: int) -> None:
        key = endpoint, status
        self._calls[key] = self._calls.get(key, 0) + 1
        self._seconds.note(endpoint, seconds)
        self._credits += credits

    def note_delivery(self, outcome: str, seconds: float) -> None:
        self._attempts[outcome] = self._attempts.get(outcome, 0) + 1
        self._attempt_seconds.note(outcome, seconds)

    def note_overdue(self, seconds_by_job: dict[str, int]) -> None:
        self._overdue |= seconds_by_job

    def note_installation(self, job_lags: Mapping[str, float], backlog: Backlog, documents_given_up: int) -> None:
        """Figures of the database at the moment; the same in every process."""
        self._database_up = 1
        self._job_lags = {**self._job_lags, **job_lags}
        self._backlog = backlog
        self._given_up = documents_given_up

    def note_database_away(self) -> None:
        """Nothing is said of what is not known: an old figure would look like a good one."""
        self._database_up = 0
        self._job_lags = {}
        self._backlog = Backlog(_UNKNOWN, _UNKNOWN)
        self._given_up = _UNKNOWN

    @property
    def content_type(self) -> str:
        from prometheus_client import CONTENT_TYPE_LATEST

        return CONTENT_TYPE_LATEST

    def render(self) -> bytes:
        from prometheus_client import generate_latest

        return generate_latest(self._registry)

    @cached_property
    def _registry(self) -> CollectorRegistry:
        from prometheus_client import CollectorRegistry, ProcessCollector

        registry = CollectorRegistry()
        registry.register(self)
        # CPU, memory, open files and start time, as every exporter names them.
        ProcessCollector(registry=registry)
        return registry

    def collect(self) -> Iterable[Metric]:
        """Called by the registry."""
        from prometheus_client.core import HistogramMetricFamily, InfoMetricFamily

        yield _counts(
            "kontobahn_requests", "Calls by endpoint and status.", ("endpoint", "status"),
            {(endpoint, str(status)): count for (endpoint, status), count in self._calls.items()},
        )  # fmt: skip
        yield self._seconds.add_to(
            HistogramMetricFamily("kontobahn_request_seconds", "Time to answer, by endpoint.", labels=["endpoint"])
        )
        yield _counts(
            "kontobahn_webhook_attempts", "Attempts to deliver an event, by outcome.", ("outcome",),
            {(outcome,): count for outcome, count in self._attempts.items()},
        )  # fmt: skip
        yield self._attempt_seconds.add_to(
            HistogramMetricFamily(
                "kontobahn_webhook_attempt_seconds", "Time an attempt took, by outcome.", labels=["outcome"]
            )
        )
        yield _counts("kontobahn_credits_charged", "Credits charged.", (), {(): self._credits})
        build = {"version": __version__, "python": platform.python_version()}
        yield InfoMetricFamily("kontobahn_build", "The version that runs.", build)
        yield from self._collect_of_installation()

    def _collect_of_installation(self) -> Iterable[Metric]:
        yield _gauge("kontobahn_database_up", "1 if the database answers.", self._database_up)
        yield _gauges(
            "kontobahn_job_lag_seconds", "How long a scheduled job has been due without being run.", self._job_lags
        )
        yield _gauges(
            "kontobahn_job_overdue_seconds",
            "How long ago a job should have run; 0 unless it is overdue by three intervals.",
            self._overdue,
        )
        yield _gauge("kontobahn_webhook_backlog", "Events that wait for their delivery.", self._backlog.events)
        yield _gauge(
            "kontobahn_webhook_backlog_overdue_seconds",
            "How long the first waiting event has been due.",
            self._backlog.overdue_seconds,
        )
        yield _gauge(
            "kontobahn_documents_laid_aside",
            "Invoices whose documents could not be made in three attempts.",
            self._given_up,
        )


def _counts(
    name: str, text: str, labels: tuple[str, ...], counts: Mapping[tuple[str, ...], int]
) -> CounterMetricFamily:
    from prometheus_client.core import CounterMetricFamily

    family = CounterMetricFamily(name, text, labels=labels)
    for values, count in counts.items():
        family.add_metric(values, count)
    return family


def _gauge(name: str, text: str, value: float) -> GaugeMetricFamily:
    from prometheus_client.core import GaugeMetricFamily

    return GaugeMetricFamily(name, text, value)


def _gauges(name: str, text: str, by_job: Mapping[str, float]) -> GaugeMetricFamily:
    from prometheus_client.core import GaugeMetricFamily

    family = GaugeMetricFamily(name, text, labels=["name"])  # `job` is Prometheus' own label
    for job, value in by_job.items():
        family.add_metric([job], value)
    return family
