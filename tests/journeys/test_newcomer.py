"""A newcomer starts the demo and does what it prints."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import httpx

from tests.journeys.process import ServerProcess, serving
from tests.waiting import PATIENCE_SECONDS

CONNECTIONS = "/v2/ledger-rewe-read/connections"


def run_curl(line: str) -> httpx.Response:
    """Does what curl would do with the options the demo uses."""
    words = shlex.split(line)
    assert words.pop(0) == "curl"
    headers, body, url = {}, None, ""
    while words:
        word = words.pop(0)
        if word == "-H":
            name, _, value = words.pop(0).partition(": ")
            headers[name] = value
        elif word == "-d":
            body = words.pop(0)
        else:
            url = word
    method = "POST" if body is not None else "GET"
    return httpx.request(
        method, url, headers=headers, content=body, timeout=PATIENCE_SECONDS, verify=False, trust_env=False
    )


def test_the_three_lines_printed_work_as_printed(tmp_path: Path) -> None:
    with serving(tmp_path, fresh=True) as server:
        lines = [line for line in server.log.splitlines() if line.startswith("curl ")]
        assert len(lines) == 3
        answers = [run_curl(line) for line in lines]
        assert [answer.status_code for answer in answers] == [200, 200, 201]
        assert answers[0].json()["connections"][0]["id"] == server.facts["ledger"]["connection_id"]
        assert answers[1].json()["data"][0]["email"] == server.facts["user"]["email"]
        server.stop()


def test_the_facts_of_the_demo_hold(tmp_path: Path) -> None:
    with serving(tmp_path, fresh=True) as server:
        facts = server.facts
        assert (tmp_path / "demo.json").stat().st_mode & 0o777 == 0o600
        assert set(facts) >= {
            "base_url", "dashboard", "api_key", "second_api_key", "agency_key", "organization_id", "user", "ledger", "banking",
            "mobility",
        }  # fmt: skip
        mine = [item["id"] for item in server.get(CONNECTIONS).json()["connections"]]
        other = [item["id"] for item in server.get(CONNECTIONS, facts["second_api_key"]).json()["connections"]]
        agency = [item["id"] for item in server.get(CONNECTIONS, facts["agency_key"]).json()["connections"]]
        assert mine == agency
        assert not set(mine) & set(other)
        outside = server.get(
            CONNECTIONS, facts["agency_key"], params={"organization_id": facts["second_organization_id"]}
        )
        assert outside.status_code == 403
        accounts = server.get("/v2/banking/accounts").json()["data"]
        [giro] = [account for account in accounts if account["id"] == facts["banking"]["account_id"]]
        paid_to = server.get("/v2/mobility/seller").json()["seller"]["iban"]
        assert paid_to == giro["extra"]["iban"], "invoices are to be paid to another account than the one shown"
        server.stop()


def test_a_second_start_keeps_keys_and_data(tmp_path: Path) -> None:
    with serving(tmp_path, fresh=True) as server:
        first = server.facts
        server.stop()
    with serving(tmp_path) as server:
        # Only where it is served may differ.
        assert server.facts["dashboard"] == {"url": f"{server.facts['base_url']}/dashboard"}
        place: dict[str, object] = {"base_url": "", "dashboard": {}}
        assert {**server.facts, **place} == {**first, **place}
        assert server.get(CONNECTIONS).status_code == 200
        server.stop()


def test_pages_outside_v2(tmp_path: Path) -> None:
    with serving(tmp_path) as server:
        server.get(CONNECTIONS)
        assert server.http.get("/healthz").json()["status"] == "ok"
        assert server.http.get("/readyz").json() == {"status": "ready", "jobs_overdue": []}
        metrics = server.http.get("/metrics")
        assert f'kontobahn_requests_total{{endpoint="GET {CONNECTIONS}",status="200"}} 1.0' in metrics.text
        assert server.facts["organization_id"] not in metrics.text
        document = server.http.get("/openapi.json").json()
        assert CONNECTIONS in document["paths"]
        assert CONNECTIONS in server.http.get("/docs").text
        assert server.http.get("/nothing").status_code == 404
        server.stop()


def test_no_secret_stands_in_the_log(tmp_path: Path) -> None:
    with serving(tmp_path, fresh=True, log_level="debug", log_requests="all") as server:
        server.get(CONNECTIONS)
        server.get(CONNECTIONS, params={"quelle": server.key})
        wrong = {"email": server.facts["user"]["email"], "password": "my other password"}
        server.http.post("/v2/auth/sessions", json=wrong)
        server.stop()
        lines = [json.loads(line) for line in server.log.splitlines() if line.startswith("{")]
        assert [line["status"] for line in lines if line["event"] == "call"] == [200, 200, 401]
        logged = "\n".join(line for line in server.log.splitlines() if line.startswith("{"))
        assert server.key[12:] not in logged
        assert "my other password" not in logged


def test_large_answers_are_compressed_for_those_who_take_it(tmp_path: Path) -> None:
    with serving(tmp_path) as server:
        _make_many_users(server)
        plain = server.get("/v2/auth/invitations")
        assert plain.headers["content-encoding"] == "gzip"
        raw = httpx.get(
            f"{server.facts['base_url']}/v2/auth/invitations",
            headers={"x-api-key": server.key, "accept-encoding": "identity"},
            timeout=PATIENCE_SECONDS,
            verify=False,
            trust_env=False,
        )
        assert "content-encoding" not in raw.headers
        assert raw.headers["vary"] == "accept-encoding"
        assert raw.json() == plain.json()
        server.stop()


def _make_many_users(server: ServerProcess) -> None:
    for number in range(12):
        body = {"email": f"person{number}@muster.example"}
        made = server.http.post("/v2/auth/invitations", json=body, headers={"x-api-key": server.key})
        assert made.status_code == 201
