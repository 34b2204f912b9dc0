"""Metrics as Prometheus sees them: the process, the build, jobs that lag, events that wait; and the dashboard that shows it."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families as parse

from kontobahn import __version__, jobs, metrics
from kontobahn.api.request_log import AT_ONCE, AnsweredCalls, Noted, RequestLog, Usage
from tests.harness import Service

# Counters of a process go on counting.
pytestmark = pytest.mark.alone
DASHBOARD = Path(__file__).parents[2] / "docs" / "grafana" / "kontobahn.json"


def _samples(service: Service) -> dict[tuple[str, str], float]:
    """Values by name and the values of their labels."""
    text = service.get("/metrics").text
    return {
        (item.name, " ".join(item.labels.values())): item.value for family in parse(text) for item in family.samples
    }


def test_the_process_and_the_build_are_measured(service: Service) -> None:
    found = _samples(service)
    assert found["process_resident_memory_bytes", ""] > 10**7
    assert found["process_cpu_seconds_total", ""] > 0
    assert 0 < found["process_open_fds", ""] < found["process_max_fds", ""]
    assert found["process_start_time_seconds", ""] > 1.7e9
    assert any(name == "kontobahn_build_info" and __version__ in labels for name, labels in found)
    assert found["kontobahn_database_up", ""] == 1


def test_a_job_that_is_due_lags_until_it_runs(service: Service) -> None:
    service.db.write_now(jobs._claim, "lapse grants", "a process", 60)
    service.clock.advance(seconds=5)
    assert _samples(service)["kontobahn_job_lag_seconds", "lapse grants"] == 0, "it is running"
    service.db.write_now(jobs._release, "lapse grants", "a process", 60, None)
    service.clock.advance(seconds=48)
    assert _samples(service)["kontobahn_job_lag_seconds", "lapse grants"] == 0, "it is due just now"
    service.clock.advance(seconds=100)
    assert _samples(service)["kontobahn_job_lag_seconds", "lapse grants"] == 100
    service.db.write_now(jobs._claim, "lapse grants", "another", 60)
    assert _samples(service)["kontobahn_job_lag_seconds", "lapse grants"] == 0


def test_events_that_wait_are_counted(service: Service) -> None:
    one, two = service.organization(), service.organization("Andere GmbH")
    assert _samples(service)["kontobahn_webhook_backlog", ""] == 0
    for owner in (one, two):
        service.request("PUT", "/v2/banking/webhook-url", owner.key, json={"webhook_url": "https://93.184.216.34/e"})
        service.post("/v2/banking/webhook-url/test", owner.key)
        service.clock.advance(seconds=30)
    found = _samples(service)
    assert found["kontobahn_webhook_backlog", ""] == 2
    assert found["kontobahn_webhook_backlog_overdue_seconds", ""] == 60


def test_metrics_without_a_database_say_so_and_nothing_stale(service: Service) -> None:
    service.db.write_now(jobs._claim, "lapse grants", "a process", 60)
    assert ("kontobahn_job_lag_seconds", "lapse grants") in _samples(service)
    service.db.close()
    found = _samples(service)
    assert found["kontobahn_database_up", ""] == 0
    assert ("kontobahn_job_lag_seconds", "lapse grants") not in found
    assert str(found["kontobahn_webhook_backlog", ""]) == "nan"


def test_every_query_of_the_dashboard_names_metrics_that_exist(service: Service) -> None:
    owner = service.organization()
    service.get("/v2/auth/users", owner.key)
    service.application.metrics.note_delivery("delivered", 0.1)
    service.application.metrics.note_overdue({"lapse grants": 0})
    service.db.write_now(jobs._claim, "lapse grants", "a process", 60)
    families = list(parse(service.get("/metrics").text))
    labels: dict[str, set[str]] = {}
    for item in (sample for family in families for sample in family.samples):
        labels.setdefault(item.name, {"job", "instance"}).update(item.labels)
    dashboard = json.loads(DASHBOARD.read_text("utf-8"))
    queries = [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]
    queries += [item["query"] for item in dashboard["templating"]["list"] if item["type"] == "query"]
    assert len(queries) > 15
    shown = set()
    for query in queries:
        named = re.findall(r"\b(?:kontobahn|process|python)_\w+", query)
        assert named, query
        assert set(named) <= labels.keys(), query
        wanted = re.findall(r"(\w+)=~?\"", query) + re.findall(r"by \(([\w, ]+)\)", query)
        for label in (part.strip() for text in wanted for part in text.split(",")):
            assert label in labels[named[0]], (query, label)
        shown |= set(named)
    ours = {name for name in labels if name.startswith("kontobahn_") and not name.endswith(("_created", "_sum"))}
    assert ours - shown <= {"kontobahn_webhook_attempt_seconds_count"}, "measured, but not shown"
    ids = [panel["id"] for panel in dashboard["panels"]]
    assert len(ids) == len(set(ids))


def test_times_are_counted_up_to_and_including_each_limit() -> None:
    measured = metrics.Metrics()
    for seconds in (0.001, 0.0011, 0.0025, 31):
        measured.note("GET /v2/a", 200, seconds, 2)
    measured.note("GET /v2/a", 404, 0.5, 0)
    found = {
        (item.name, *item.labels.values()): item.value
        for family in parse(measured.render().decode())
        for item in family.samples
    }
    name, endpoint = "kontobahn_request_seconds", "GET /v2/a"
    assert [found[f"{name}_bucket", endpoint, limit] for limit in ("0.001", "0.0025", "0.5", "30.0", "+Inf")] == [
        1, 3, 4, 4, 5,
    ]  # fmt: skip
    assert found[f"{name}_count", endpoint] == 5
    assert round(found[f"{name}_sum", endpoint], 4) == 31.5046
    assert (found["kontobahn_requests_total", endpoint, "200"], found["kontobahn_requests_total", endpoint, "404"]) == (
        4,
        1,
    )
    assert found["kontobahn_credits_charged_total",] == 8


def test_every_answered_call_is_entered_once_where_it_belongs() -> None:
    measured, usage, requests = metrics.Metrics(), Usage(None), RequestLog(None, 1_000)  # type: ignore[arg-type]
    answered = AnsweredCalls(measured, usage, requests)
    noted = Noted(0, "k", "n8n", None, "/v2/nowhere", b"", 404, "r", 0, 5_000)
    for number in range(AT_ONCE + 3):
        answered.note(noted, "mine", was_run=number % 2 == 0)
    answered.note(noted, None, was_run=True)
    assert usage._counts["mine", "unknown", "k", "n8n"][:2] == [AT_ONCE // 2] * 2, "entered without being asked for"
    text = answered.metrics().render().decode()
    assert f'kontobahn_requests_total{{endpoint="unknown",status="404"}} {AT_ONCE + 4}.0' in text
    assert usage._counts == {("mine", "unknown", "k", "n8n"): [AT_ONCE // 2 + 2, AT_ONCE // 2 + 2, 0]}
    assert requests._counts == {("mine", 0): [AT_ONCE + 3, AT_ONCE + 3]}
    assert requests._waiting == {"mine": [noted] * (AT_ONCE + 3)}
