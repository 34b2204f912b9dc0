"""Transmissions to DATEV, and what became of it, in the browser."""

from __future__ import annotations

import html
from datetime import date

import httpx
import pytest

from kontobahn.access import audit
from kontobahn.datev import file_imports
from kontobahn.ledger import transmissions
from kontobahn.ledger.provider import Author
from simulators.datev import ALL_SERVICES, Datev
from simulators.datev_jobs import DONE, FAILED, PARTLY, RUNNING
from tests.dashboard.browsing import Browser
from tests.dashboard.test_books import hidden, link
from tests.harness import Service
from tests.ledger_builder import KASSENBUCH, entry, line
from tests.providers.datev.office import CLIENT, Office, running_datev

PDF = b"%PDF-1.4 a receipt"
FILE = b"EXTF"


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
            "Hauptkasse: Barverkauf 3,00 €", CLIENT,
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


def test_a_cash_entry_with_its_receipt_is_sent_from_the_page_and_its_state_shown(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    with running_datev() as datev:
        datev.add(CLIENT, services=ALL_SERVICES).open_year(date(2026, 1, 1), date(2026, 12, 31))
        office = Office(service, datev).sign_in()
        browser = Browser(service)
        service.user(office.owner, "anna@muster.example", "bookkeeping")
        assert browser.sign_in("anna@muster.example").status_code == 303
        page = html.unescape(browser.get("/dashboard/cash-book").text)
        assert "Nothing was sent yet" in page
        assert "Fetched from the accounting provider on 2\xa0Mar\xa02026, 10:00" in page
        assert "Nebenkasse</option>" in page
        form = _form(browser)
        done = _enter(browser, "Verkauf", "quittung.pdf", form)
        assert done.status_code == 303, done.text
        assert "/dashboard/cash-book?" in done.headers["location"]
        assert _enter(browser, "Verkauf", "quittung.pdf", form).headers["location"] == done.headers["location"]
        assert [(one.name, one.amount, one.text) for one in datev.ledger_jobs.booked] == [
            ("Nebenkasse", 1250, "Verkauf")
        ]
        listed = browser.get(done.headers["location"])
        assert "Nebenkasse: Verkauf 12,50 €" in listed.text
        assert "wurde empfangen!" in listed.text
        assert browser.get(link(listed, "/cash-book/receipts/")).content == PDF
        monkeypatch.setattr(transmissions, "WAIT_SECONDS", 0.0)
        datev.ledger_jobs.outcomes = [[RUNNING, DONE], [PARTLY], [FAILED]]
        sent = _enter(browser, "Porto")
        assert sent.headers["location"].endswith(f"{office.connection_id}/transmissions")
        assert "do not send it again" in html.unescape(browser.get(sent.headers["location"]).text)
        assert "under way" in browser.get("/dashboard/cash-book").text
        service.clock.advance(seconds=60)
        service.run(transmissions.carry_on(service.application.context))
        assert "under way" not in browser.get("/dashboard/cash-book").text
        partly = _enter(browser, "Blumen")
        assert "Only a part of the entry was booked" in browser.get(partly.headers["location"]).text
        failed = _enter(browser, "Kaffee")
        assert failed.status_code == 422
        assert "wurde nicht verarbeitet!" in html.unescape(failed.text)
        assert 'value="Kaffee"' in failed.text
        assert len(datev.ledger_jobs.booked) == 3
        service.run(office.provider.close())


@pytest.mark.either_engine
def test_a_person_sends_a_batch_that_failed_again_or_takes_its_file(service: Service) -> None:
    with running_datev() as datev:
        datev.add(CLIENT, services=ALL_SERVICES).open_year(date(2026, 1, 1), date(2026, 12, 31))
        office = Office(service, datev).sign_in()
        service.user(office.owner, "anna@muster.example", "bookkeeping")
        service.user(office.owner, "otto@muster.example", "read_only")
        browser, reader = Browser(service), Browser(service)
        assert browser.sign_in("anna@muster.example").status_code == 303
        assert reader.sign_in("otto@muster.example").status_code == 303
        path = f"/dashboard/ledger/connections/{office.connection_id}/transmissions"
        datev.files.usual = ["failed"]
        first, second = (_batch(office, f"EXTF_{number}.csv") for number in (1, 2))
        assert "/send-again" not in reader.get(path).text
        assert reader.post(f"{path}/{first}/send-again").status_code == 403
        asked = browser.get(link(browser.get(path), f"{first}/send-again"))
        assert "booked twice" in asked.text
        assert browser.post(f"{path}/{first}/send-again").headers["location"] == path
        assert browser.post(f"{path}/{first}/send-again").status_code == 409
        assert browser.post(f"{path}/{first}/file").status_code == 409
        taken = browser.post(f"{path}/{second}/file")
        assert (taken.content, "EXTF_2.csv" in taken.headers["content-disposition"]) == (FILE, True)
        assert browser.post(f"{path}/{second}/file").content == FILE
        assert browser.post(f"{path}/{second}/send-again").status_code == 409
        assert browser.post(f"{path}/0193b2a0-0000-7000-8000-000000000001/send-again").status_code == 404
        page = browser.get(path).text
        assert ("sent again" in page, "handed over as a file" in page, "waiting" in page) == (True, True, True)
        actions = [entry.action for entry in service.db.read_now(audit.entries, office.owner.id)]
        noted = [one.removeprefix("ledger_transmission.") for one in actions if one.startswith("ledger_transmission.")]
        assert noted == ["again", "file", "file"]
        office.service.run(office.provider.disconnect(office.ref))
        third = _batch(office, "EXTF_3.csv", is_failed=True)
        assert browser.post(f"{path}/{third}/send-again").status_code == 409
        service.run(office.provider.close())


def _batch(office: Office, name: str, *, is_failed: bool = False) -> str:
    """A batch that was sent, and refused; its id."""
    outgoing = file_imports.file(office.ref, CLIENT, name, FILE)
    made = office.service.db.write_now(transmissions.insert, outgoing, Author("req", "Dashboard"), office.owner.id)
    if is_failed:
        office.service.db.write_now(transmissions.give_up, office.ref)
    else:
        office.service.run(transmissions.carry_on(office.service.application.context))
    return made.id


def _form(browser: Browser) -> dict[str, str]:
    return hidden(browser.get("/dashboard/cash-book/new?kasse=Nebenkasse"))


def _enter(browser: Browser, text: str, receipt: str = "", form: dict[str, str] | None = None) -> httpx.Response:
    """Sends an entry by this form, or by one of its own."""
    fields = {"day": "2026-03-02", "direction": "in", "amount": "12.50", "text": text, "account": "4930"}
    files = {"receipt": (receipt, PDF if receipt else b"", "application/pdf")}
    sent = (form or _form(browser)) | fields
    origin = {"origin": browser.service.base_url}
    return browser.send("POST", "/dashboard/cash-book/new", data=sent, files=files, headers=origin)


def _send(office: Office, datev: Datev) -> None:
    datev.ledger_jobs.outcomes = [[PARTLY], [FAILED], [RUNNING, DONE]]
    for _ in range(4):
        office.service.post(
            KASSENBUCH, office.owner.key, params={"connectionId": office.connection_id}, json=entry(line(1.0), line(2.0))
        )  # fmt: skip
