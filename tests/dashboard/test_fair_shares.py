"""Nobody waits for another's work: while one organisation's is held by the test, calls and pages of others are answered."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from kontobahn import threads
from kontobahn.dashboard import lists
from kontobahn.dashboard.pages import open_items
from kontobahn.reconciliation import inputs, runs
from tests.dashboard.browsing import Browser
from tests.harness import Organization, Service, running_service
from tests.reconciliation_desk import Desk, paid
from tests.waiting import PATIENCE_SECONDS

EMAIL = "erika@muster.example"


@pytest.fixture
def desk(service: Service) -> Desk:
    found = Desk(service, paid(119_00, "Rechnung RE-2026-00123"))
    service.user(found.owner, EMAIL, "admin")
    return found


@pytest.fixture
def browser(service: Service, desk: Desk) -> Browser:
    found = Browser(service)
    assert found.sign_in(EMAIL).status_code == 303
    return found


@contextmanager
def holding(
    monkeypatch: pytest.MonkeyPatch, module: Any, name: str, organization: Organization
) -> Iterator[threading.Event]:
    """Holds the organisation's work in a function for as long as the block lasts. The event is set once it has begun."""
    begun, end, real = threading.Event(), threading.Event(), getattr(module, name)

    def held(*args: Any, **kwargs: Any) -> Any:
        if threads.worked_for() == organization.id:
            begun.set()
            end.wait()
        return real(*args, **kwargs)

    with monkeypatch.context() as patched:
        patched.setattr(module, name, held)
        try:
            yield begun
        finally:
            end.set()


@pytest.mark.parametrize(("module", "name"), [(runs, "match_all"), (inputs, "_put_together"), (runs, "with_known")])
def test_runs_of_one_hold_up_no_run_of_another(
    service: Service, desk: Desk, monkeypatch: pytest.MonkeyPatch, module: Any, name: str
) -> None:
    other = Desk(service, paid(119_00, "Rechnung RE-2026-00123"), owner=service.organization("Andere GmbH"))
    with ThreadPoolExecutor(6) as callers:
        with holding(monkeypatch, module, name, desk.owner) as begun:
            asked = [callers.submit(desk.ask) for _ in range(6)]
            assert begun.wait(PATIENCE_SECONDS)
            assert other.run()["transactions"] == 2
            assert not any(call.done() for call in asked)
        assert {call.result().status_code for call in asked} == {200}


@pytest.mark.parametrize(
    ("module", "name", "path"),
    [
        (lists, "write_csv", "/dashboard/open-items.csv"),
        (open_items, "_searched", "/dashboard/open-items.csv"),
        (open_items, "_searched", "/dashboard/open-items"),
        (open_items, "plain", "/dashboard/open-items"),
        (lists, "write_csv", "/dashboard/trial-balance.csv"),
        (lists, "write_csv", "/dashboard/transactions.csv"),
    ],
)
def test_long_lists_of_one_hold_up_nobody_else(
    service: Service, desk: Desk, browser: Browser, monkeypatch: pytest.MonkeyPatch, module: Any, name: str, path: str
) -> None:
    other = service.organization("Andere GmbH")
    with ThreadPoolExecutor(1) as callers:
        with holding(monkeypatch, module, name, desk.owner) as begun:
            asked = callers.submit(browser.get, path)
            assert begun.wait(PATIENCE_SECONDS)
            assert service.get("/v2/banking/accounts", other.key).status_code == 200
            assert not asked.done()
        assert asked.result().status_code == 200


def test_what_a_run_cannot_take_is_told_before_the_work(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    began: list[Any] = []
    monkeypatch.setattr(runs, "match_all", lambda *material: began.append(material))
    monkeypatch.setattr(inputs, "MAX_PAIRS", 7)
    refused = desk.ask()
    assert (refused.status_code, refused.json()["field"]) == (400, "to_date")
    assert "With 4 open items a run takes at most 1 transactions, and there are 2" in refused.json()["error"]
    assert began == []


def test_a_run_that_takes_too_long_is_given_up(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    before = desk.service.balance(desk.owner).available
    monkeypatch.setattr(runs, "MAX_SECONDS", -1)
    refused = desk.ask()
    assert (refused.status_code, refused.json()["field"]) == (400, "to_date")
    assert "ask for fewer days" in refused.json()["error"]
    assert desk.service.balance(desk.owner).available == before


def test_pages_have_a_limit_for_each_person_and_address(tmp_path: Path) -> None:
    with running_service(tmp_path, limit_page_requests=5, limit_page_window_seconds=60) as service:
        people = []
        for name in ("erika", "otto"):
            service.user(service.organization(name), f"{name}@muster.example", "admin")
            people.append(Browser(service))
            # As a stranger: twice of the five that the address has.
            assert people[-1].sign_in(f"{name}@muster.example").status_code == 303
        erika, otto = people
        assert [erika.get("/dashboard/profile").status_code for _ in range(6)] == [200] * 5 + [429]
        refused = erika.get("/dashboard/profile")
        assert refused.headers["retry-after"].isdecimal()
        assert "Too many" in refused.text
        assert otto.get("/dashboard/profile").status_code == 200
        stranger = Browser(service)
        assert [stranger.get("/dashboard/sign-in").status_code for _ in range(4)] == [200] * 3 + [429]
        service.clock.advance(seconds=61)
        assert erika.get("/dashboard/profile").status_code == 200


def test_a_form_has_a_bound_on_its_parts(browser: Browser, service: Service) -> None:
    def send(parts: int) -> str:
        part = '--x\r\nContent-Disposition: form-data; name="a"\r\n\r\n\r\n'
        file = '--x\r\nContent-Disposition: form-data; name="file"; filename="a.csv"\r\n\r\nEXTF\r\n--x--\r\n'
        sent = {"origin": service.base_url, "content-type": "multipart/form-data; boundary=x"}
        return browser.send("POST", "/dashboard/batches", content=(part * parts + file).encode(), headers=sent).text

    assert "more than 600 parts" not in send(599)
    assert "more than 600 parts" in send(600)
