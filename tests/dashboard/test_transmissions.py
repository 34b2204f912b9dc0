"""What was sent to DATEV, and what became of it, in the browser."""

from __future__ import annotations

import html

import pytest

from kontobahn.ledger import transmissions
from simulators.datev import ALL_SERVICES, Datev
from simulators.datev_jobs import DONE, FAILED, PARTLY, RUNNING
from tests.dashboard.browsing import Browser
from tests.harness import Service
from tests.ledger_builder import KASSENBUCH, entry, line
from tests.providers.datev.office import CLIENT, Office, running_datev


def test_each_state_is_shown_with_its_protocol_and_what_to_do(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transmissions, "WAIT_SECONDS", 0.0)
    with running_datev() as datev:
        datev.add(CLIENT, services=ALL_SERVICES)
        office = Office(service, datev).sign_in()
        browser = Browser(service)
        service.user(office.owner, "anna@muster.example", "admin")
        assert browser.sign_in("anna@muster.example").status_code == 303
        path = f"/dashboard/ledger/connections/{office.connection_id}"
        assert f"{path}/transmissions" in browser.get(path).text
        assert "Nothing was sent yet" in browser.get(f"{path}/transmissions").text
        _send(office, datev)
        page = html.unescape(browser.get(f"{path}/transmissions").text)
        for shown in (
            "done in part", "Enter that alone", "refused", "wurde nicht verarbeitet!", "under way", "waiting",
            "Hauptkasse: Barverkauf 3.00", CLIENT,
        ):  # fmt: skip
            assert shown in page, shown
        datev.ledger_jobs.jobs.clear()
        service.clock.advance(seconds=60)
        service.run(transmissions.carry_on(service.application.context))
        page = html.unescape(browser.get(f"{path}/transmissions").text)
        assert "before you send it again" in page
        assert (
            browser.get("/dashboard/ledger/connections/0193b2a0-0000-7000-8000-000000000001/transmissions").status_code
            == 404
        )
        service.run(office.provider.close())


def _send(office: Office, datev: Datev) -> None:
    datev.ledger_jobs.outcomes = [[PARTLY], [FAILED], [RUNNING, DONE]]
    for _ in range(4):
        office.service.post(
            KASSENBUCH, office.owner.key, params={"connectionId": office.connection_id}, json=entry(line(1.0), line(2.0))
        )  # fmt: skip
