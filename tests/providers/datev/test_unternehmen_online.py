"""Cash books, folders and document types of a client at DATEV: what names them, how long it is kept, and who may see it."""

from __future__ import annotations

import pytest

from kontobahn.clock import HOUR, SECOND
from simulators.datev import ALL_SERVICES, CASH, EXPORT, Datev
from tests.ledger_builder import PERSONENKONTO
from tests.providers.datev.office import CLIENT, NewOffice, Office
from tests.providers.datev.test_files import BOOKING, BUCHUNGEN, PERSON

DUO = "/v2/ledger-duo"


@pytest.fixture
def booked(new_office: NewOffice, datev: Datev) -> Office:
    """An office whose client has booked every service."""
    datev.companies[CLIENT].services = list(ALL_SERVICES)
    return new_office().sign_in()


def test_cash_books_and_folders_are_named_by_jobs_that_are_thrown_away_and_kept(booked: Office) -> None:
    datev = booked.datev
    for _ in range(2):
        found = booked.get("kassenbuecher", area=DUO).json()["data"]
        assert found == [{"bezeichnung": "Hauptkasse"}, {"bezeichnung": "Nebenkasse"}]
        folders = booked.get("rechnungsordner", area=DUO).json()["data"]
        assert folders == [
            {"bezeichnung": "Eingangsrechnungen", "ordnertyp": "EINGANGSRECHNUNG"},
            {"bezeichnung": "Ausgangsrechnungen", "ordnertyp": "AUSGANGSRECHNUNG"},
        ]
    assert datev.ledger_jobs.jobs == {}, "a job was left behind"
    begun = [one for one in datev.asked if one[0] == "POST" and one[1].endswith("/dxso-jobs")]
    assert len(begun) == 3
    booked.service.clock.advance(seconds=600)
    for what in ("kassenbuecher", "rechnungsordner"):
        assert booked.get(what, area=DUO).headers["x-data-as-of"] == "2026-03-02T09:00:00Z"
    datev.ledger_jobs.cash_ledgers = ["Kasse Nord"]
    booked.service.clock.advance(seconds=HOUR // SECOND)
    assert booked.get("kassenbuecher", area=DUO).json()["data"] == [{"bezeichnung": "Kasse Nord"}]
    types = booked.get("belegtypen", area=DUO).json()["data"]
    assert {"bezeichnung": "Rechnungseingang", "kategorie": "invoices_received"} in types
    booked.service.run(booked.provider.disconnect(booked.ref))
    assert booked.rows("SELECT names FROM datev_folders") == [], "what was read stays behind"


def test_a_job_that_cannot_be_thrown_away_does_no_harm(booked: Office) -> None:
    booked.datev.breaks = [("DELETE /dxso", "500")]
    assert booked.get("kassenbuecher", area=DUO).status_code == 200
    (left,) = booked.datev.ledger_jobs.jobs.values()
    assert not left.is_released


@pytest.mark.either_engine
def test_the_probe_touches_every_area(booked: Office) -> None:
    found = booked.get("permissions").json()["data"]
    assert {area: entry["status"] for area, entry in found.items()} == dict.fromkeys(found, "ok")
    booked.datev.denied = {"dxso", "extf"}
    booked.service.clock.advance(seconds=HOUR // SECOND)
    found = booked.get("permissions").json()["data"]
    assert {area for area, entry in found.items() if entry["status"] != "ok"} == {"kassenbuch", "personenkonten"}


@pytest.mark.either_engine
def test_a_service_that_is_not_booked_is_named(new_office: NewOffice, datev: Datev) -> None:
    office = new_office().sign_in()
    answer = office.get("kassenbuecher", area=DUO)
    assert (answer.status_code, answer.json()["code"]) == (403, "ledger_export_service_missing")
    assert (answer.json()["activeSubscriptions"], CASH in answer.json()["error"]) == ([EXPORT], True)
    assert answer.json()["details"]["helpUrl"].startswith("https://")
    where = {"connectionId": office.connection_id}
    asked = len(datev.asked)
    for path, body in ((PERSONENKONTO, PERSON), (BUCHUNGEN, {"buchungen": [BOOKING]})):
        sent = office.service.post(path, office.owner.key, params=where, json=body)
        assert (sent.status_code, sent.json()["code"]) == (403, "ledger_export_service_missing")
    assert len(datev.asked) == asked, "what is not booked is not asked for"
