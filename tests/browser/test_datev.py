"""The pages about DATEV in a real browser, for an adviser with forty clients: readable by everybody, on a phone and at night."""

from __future__ import annotations

from datetime import date

import pytest
from playwright.sync_api import Browser

from kontobahn.datev import file_imports
from kontobahn.ledger import transmissions
from kontobahn.ledger.provider import Author
from simulators.datev import ALL_SERVICES, DOCUMENTS
from simulators.datev_jobs import DONE, FAILED, PARTLY, RUNNING
from tests.browser.visitor import session_token, visiting
from tests.harness import PASSWORD, Service
from tests.ledger_builder import KASSENBUCH, entry, line
from tests.providers.datev.office import CLIENT, Office, running_datev

EMAIL = "anna@muster.example"


@pytest.mark.either_engine
@pytest.mark.parametrize("language", ["de", "en"])
def test_the_pages_about_datev_are_readable_by_everybody(
    browser: Browser, service: Service, monkeypatch: pytest.MonkeyPatch, language: str
) -> None:
    monkeypatch.setattr(transmissions, "WAIT_SECONDS", 0.0)
    with running_datev() as datev:
        datev.add(CLIENT, services=ALL_SERVICES).open_year(date(2026, 1, 1), date(2026, 12, 31))
        for number in range(1, 41):
            services = ALL_SERVICES if number % 4 else (DOCUMENTS,)
            datev.add(f"29098-{number}", f"Mandant {number} Donaudampfschifffahrtsgesellschaft mbH", services=services)
        office = Office(service, datev).sign_in()
        service.user(office.owner, EMAIL, "admin")
        send_some(office)
        base = f"/dashboard/ledger/connections/{office.connection_id}"
        paths = [
            "/dashboard/ledger/connections", base, f"{base}/transmissions", f"{base}/requests", f"{base}/disconnect",
            "/dashboard/cash-book", "/dashboard/cash-book/new",
        ]  # fmt: skip
        token = session_token(service.base_url, EMAIL, PASSWORD)
        with visiting(browser, service.base_url, token, locale=language) as visitor:
            found = []
            for path in paths:
                visitor.open(path)
                assert visitor.page.locator("h1").count() == 1, path
                found += visitor.look_closely()
            assert found == []
            assert visitor.problems == []
        service.run(office.provider.close())


def send_some(office: Office) -> None:
    """A cash entry in each state, and a batch that was refused."""
    office.datev.ledger_jobs.outcomes = [[DONE], [PARTLY], [FAILED], [RUNNING, DONE]]
    for _ in range(5):
        query = {"connectionId": office.connection_id}
        office.service.post(KASSENBUCH, office.owner.key, params=query, json=entry(line(1.0), line(2.0)))
    office.datev.files.usual = ["failed"]
    outgoing = file_imports.file(office.ref, CLIENT, "EXTF_Buchungsstapel_20260302_Bankbewegungen.csv", b"EXTF")
    office.service.db.write_now(transmissions.insert, outgoing, Author("req", "Dashboard"), office.owner.id)
    office.service.run(transmissions.carry_on(office.service.application.context))
