"""The log of requests: every call of a key, with what people need and nothing about persons; bounded, and never in a call's way."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from kontobahn.api import request_log
from kontobahn.clock import DAY, HOUR
from kontobahn.errors import Unavailable
from tests.dashboard.browsing import Browser
from tests.dashboard.test_bank_lists import rows_of
from tests.harness import START, Organization, Service, running_service
from tests.ledger_builder import Books

EMAIL = "erika@muster.example"
FREE = "/v2/ledger-rewe-read/connections"


def written(service: Service) -> None:
    service.run(service.application.upkeep())


def stored(service: Service, organization: Organization, columns: str = "id, endpoint, target, status") -> list[Any]:
    written(service)
    sql = f"SELECT {columns} FROM request_log WHERE organization_id = ? ORDER BY id"
    return service.db.read_now(lambda tx: tx.all(sql, organization.id))


def test_a_call_is_listed_found_by_filters_and_repeated(
    service: Service, muster: Organization, browser: Browser
) -> None:
    assert service.get(f"{FREE}?quelle=Kasse%20%3Cb%3E", muster.key).status_code == 200
    assert service.get("/v2/banking/accounts/17", muster.key).status_code == 404
    assert service.get("/v2/nowhere", muster.key).status_code == 404
    target = f"/v2/ledger-rewe-read/opos?connectionId={Books(service, muster).connection_id}&stichtag=2026-01-31"
    paid = service.get(target, muster.key)
    assert paid.status_code == 200
    other = service.organization("Fremde GmbH")
    service.get(FREE, other.key)
    written(service)

    def shown(query: str = "") -> list[str]:
        page = browser.get(f"/dashboard/requests{query}")
        assert page.status_code == 200
        return re.findall(r'<tr id="r-(\d+)"', page.text)

    assert shown() == ["4", "3", "2", "1"]
    assert shown("?status=4") == ["3", "2"]
    assert shown("?status=5") == []
    assert shown("?quelle=Kasse+%3Cb%3E") == ["1"]
    assert shown("?endpoint=GET+/v2/banking/accounts/%7Bid%7D") == ["2"]
    assert shown(f"?key={muster.key_id}&status=2") == ["4", "1"]
    assert shown(f"?key={other.key_id}") == []
    assert shown(f"?request_id={paid.headers['x-request-id']}") == ["4"]
    page = html.unescape(browser.get("/dashboard/requests").text)
    assert "key of Muster GmbH" in page
    assert "Kasse &lt;b&gt;" in browser.get("/dashboard/requests").text
    one = html.unescape(browser.get("/dashboard/requests/4").text)
    charged = paid.headers["x-credits-charged"]
    assert re.search(rf"<dt>Credits</dt><dd>{charged}</dd>", one)
    assert f"""curl -i -H "x-api-key: $KONTOBAHN_KEY" '{service.base_url}{target}'""" in one
    assert muster.key not in one
    assert browser.get("/dashboard/requests/5").status_code == 404
    assert browser.get("/dashboard/requests/x").status_code == 404
    # The organisation's own; of the other one's numbers nothing is known here.
    assert "4 failed" not in browser.get("/dashboard").text
    assert re.search(
        r'The last 24 hours</p><p class="value"><a href="/dashboard/requests">4</a></p><p class="hint">2 failed',
        browser.get("/dashboard").text,
    )


def test_nothing_about_persons_is_kept(service: Service, muster: Organization) -> None:
    ours = service.ledger_connection(muster)
    for path in (
        "/v2/banking/accounts/DE89370400440532013000",
        "/v2/banking/events?subject=payment:17&delivery=failed&limit=5",
        f"/v2/ledger-rewe-read/opos?connectionId={ours}&kontonummer=10001&filter=all&stichtag=2026-01-31",
        "/v2/banking/accounts?connection_id=secret-token&secret=kb_live_1&limit=erika@muster.example",
        "/v2/banking/accounts?api=erika",
        "/v2/banking/events?limit=erika",
        f"/v2/erika@muster.example?api_key={muster.key}",
    ):
        service.get(path, muster.key)
    service.post("/v2/banking/connect", muster.key, json={"return_to": "https://app.example/erika"})
    assert [target for (target,) in stored(service, muster, "target")] == [
        "/v2/banking/accounts/…",
        "/v2/banking/events?subject=…&delivery=failed&limit=5",
        f"/v2/ledger-rewe-read/opos?connectionId={ours}&kontonummer=…&filter=all&stichtag=2026-01-31",
        "/v2/banking/accounts?connection_id=…",
        "/v2/banking/accounts?api=…",
        "/v2/banking/events?limit=…",
        "…",
        "/v2/banking/connect",
    ]
    everything = repr(stored(service, muster, "*"))
    assert "erika" not in everything
    assert muster.key not in everything


@pytest.mark.either_engine
def test_refusals_and_replays_are_listed_and_a_stranger_is_nobodys(service: Service, muster: Organization) -> None:
    headers = {"idempotency-key": "eins"}
    body = {"return_to": "https://app.example/done"}
    first = service.post("/v2/banking/connect", muster.key, json=body, headers=headers)
    again = service.post("/v2/banking/connect", muster.key, json=body, headers=headers)
    assert again.headers["idempotent-replayed"] == "true"
    assert service.post("/v2/banking/connect", muster.key, json={"nonsense": 1}).status_code == 400
    assert service.get(FREE, "kb_live_" + "x" * 43).status_code == 401
    service.user(muster, "person@muster.example", "admin")
    assert service.get("/v2/auth/users", service.session("person@muster.example")).status_code == 200
    rows = stored(service, muster, "endpoint, status, api_key_id")
    assert rows == [
        ("POST /v2/banking/connect", first.status_code, muster.key_id),
        ("POST /v2/banking/connect", again.status_code, muster.key_id),
        ("POST /v2/banking/connect", 400, muster.key_id),
        ("GET /v2/auth/users", 200, ""),
    ]


@contextmanager
def broken_database(service: Service, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    async def refuse(*args: Any) -> None:
        raise Unavailable("The database is away.", operator="planted")

    with monkeypatch.context() as patch:
        patch.setattr(service.application.requests._db, "write", refuse)
        yield


def test_it_is_bounded_in_number_and_age_and_waits_for_the_database(
    service: Service, muster: Organization, browser: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = service.application.requests
    monkeypatch.setattr(request_log, "BATCH", 7)
    monkeypatch.setattr(request_log, "MAX_WAITING_OF_ONE", 60)
    monkeypatch.setattr(log, "_rows_kept", 55)
    other = service.organization("Andere GmbH")

    def note(organization: Organization, number: int, status: int = 200) -> None:
        for _ in range(number):
            noted = request_log.Noted(service.clock.now(), "k", "API", None, "", b"", status, "r", 0, 5)
            log.note(organization.id, noted)

    note(muster, 58)
    note(other, 3)
    with broken_database(service, monkeypatch):
        service.run(log.flush())  # Nobody notices.
    note(muster, 5, 500)  # Two more are listed, all are counted.
    assert [row[0] for row in stored(service, muster)] == list(range(6, 61))
    assert [row[3] for row in stored(service, muster)][-3:] == [200, 500, 500]
    assert len(stored(service, other)) == 3
    found, pages = rows_of(browser, "/dashboard/requests")
    assert (found[0], found[-1], len(set(found)), pages) == ("r-60", "r-6", 55, 2)

    def counted() -> Any:
        sql = "SELECT hour_at, calls, failed FROM request_hours WHERE organization_id = ?"
        return service.db.read_now(lambda tx: tx.all(sql, muster.id))

    assert counted() == [(START // HOUR * HOUR, 63, 5)]

    def purge(kept: int) -> None:
        service.run(request_log.purge(service.db, days=30, rows_kept=kept))

    purge(20)
    assert [row[0] for row in stored(service, muster)] == list(range(41, 61))
    assert len(stored(service, other)) == 3
    service.clock.advance(seconds=30 * DAY / 1_000_000 - 1)
    note(muster, 1)
    purge(20)
    assert len(stored(service, other)) == 3
    service.clock.advance(seconds=1)
    purge(20)
    assert stored(service, other) == []
    assert [row[0] for row in stored(service, muster)] == [61]
    assert [calls for _, calls, _ in counted()] == [1]


def test_what_was_noted_is_written_when_the_service_ends(tmp_path: Path) -> None:
    with running_service(tmp_path) as service:
        organization = service.organization()
        service.get(FREE, organization.key)
    with running_service(tmp_path) as service:
        assert stored(service, organization, "endpoint") == [(f"GET {FREE}",)]


def test_a_refused_call_says_why_and_never_what_was_sent(
    service: Service, muster: Organization, browser: Browser
) -> None:
    private = "Erika Mustermann"
    sent = {
        "account_id": "17",
        "amount": "1.00",
        "creditor_name": private,
        "creditor_iban": "DE00",
        "description": private,
    }
    assert service.post("/v2/banking/payments", muster.key, json=sent).status_code == 400
    assert service.post("/v2/banking/payments", muster.key, json={private: 1}).status_code == 400
    assert service.get(f"{FREE}?x=1", muster.key).status_code == 400
    rows = stored(service, muster, "field, error")
    assert rows[0][0] == "creditor_iban"
    assert all(error for _, error in rows)
    assert private not in str(rows)
    listed = browser.get("/dashboard/requests").text
    assert "<code>creditor_iban</code>" in listed
    assert re.search(r"02/03/2026, 10:00:\d\d|2\sMar\s2026, 10:00:\d\d", listed)
    listed = browser.get("/dashboard/requests", **{"accept-language": "de"}).text
    assert "Unbekannt: Parameter" in listed
    assert "Unknown" not in listed
    one = browser.get("/dashboard/requests/1").text
    assert "creditor_iban" in one
    assert "IBAN" in html.unescape(one)
