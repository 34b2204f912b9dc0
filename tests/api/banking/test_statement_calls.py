"""Statement files by call: imported as on the command line, reported, listed; large ones after the answer."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from kontobahn.api.tasks import TASKS, Tasks
from kontobahn.banking.imports import routes
from kontobahn.db import Tx
from kontobahn.formats import bank_files
from kontobahn.formats.statements import Item
from tests.harness import Organization, Service, ServiceFactory
from tests.statement_builder import IBAN, OTHER_IBAN, Booking, Sheet, archive, camt, follow_up, mt940
from tests.waiting import PATIENCE_SECONDS

STATEMENTS, IMPORTS = "/v2/banking/statements", "/v2/banking/imports"
FIRST = Sheet([Booking(-12_34, "Miete"), Booking(50_00)])
SECOND = follow_up(FIRST, Booking(-1_00, "Gebühr"))
THIRD = follow_up(SECOND, Booking(2_00))
CUSTOMER = {"name": "Verkehr AG", "street": "Ring 1", "postal_code": "10115", "city": "Berlin"}
COUNTS = ("accounts", "statements", "repeated", "added", "modified", "removed", "left_out", "payments")


@pytest.fixture
def owner(service: Service) -> Organization:
    return service.organization()


def send(service: Service, who: Organization, content: bytes, query: str = "", **options: Any) -> httpx.Response:
    return service.post(f"{STATEMENTS}?{query}" if query else STATEMENTS, who.key, content=content, **options)


def report(answer: httpx.Response, status: int = 201) -> dict[str, Any]:
    assert answer.status_code == status, answer.text
    return dict(answer.json()["data"])


def listed(service: Service, who: Organization, **query: Any) -> list[dict[str, Any]]:
    return list(service.get(IMPORTS, who.key, params=query).json()["data"])


def test_a_file_is_imported_and_reported(service: Service, owner: Organization) -> None:
    headers = {"content-disposition": 'attachment; filename="maerz.xml"'}
    done = report(send(service, owner, camt(FIRST), headers=headers))
    assert [done[name] for name in COUNTS] == [1, 1, 0, 2, 0, 0, 0, 0]
    assert (done["status"], done["file"], done["error"], done["warnings"]) == ("done", "maerz.xml", None, [])
    assert done["actor"] == f"key:{owner.key_id}"
    again = report(send(service, owner, camt(FIRST)))
    assert [again[name] for name in COUNTS] == [1, 0, 1, 0, 0, 0, 0, 0]
    assert listed(service, owner) == [again, done]
    assert report(service.get(f"{IMPORTS}/{done['id']}", owner.key), 200) == done
    assert listed(service, owner, limit=1) == [again]
    [event] = service.get("/v2/banking/events", owner.key).json()["data"]
    assert event["event"] == "refresh_complete"


def test_a_form_with_an_archive_is_a_file_too(service: Service, owner: Organization) -> None:
    content = archive(a=camt(FIRST), b=mt940(SECOND))
    form = {"file": ("auszuege.zip", content, "application/zip")}
    done = report(service.post(STATEMENTS, owner.key, files=form))
    assert (done["file"], done["statements"], done["added"]) == ("auszuege.zip", 2, 3)


@pytest.mark.either_engine
def test_a_refused_file_says_where_and_leaves_only_its_record(service: Service, owner: Organization) -> None:
    refused = send(service, owner, camt(FIRST._replace(closing=7)))
    assert refused.status_code == 400
    assert "do not add up" in refused.json()["error"]
    assert service.get("/v2/banking/accounts", owner.key).json() == {"data": []}
    [record] = listed(service, owner)
    assert (record["status"], record["added"]) == ("failed", 0)
    assert "do not add up" in record["error"]
    accepted = report(send(service, owner, camt(FIRST._replace(closing=7)), params={"unbalanced": "true"}))
    assert "do not add up" in accepted["warnings"][0]["found"]
    assert report(service.get(f"{IMPORTS}/{accepted['id']}", owner.key), 200) == accepted


def test_gaps_are_accepted_if_that_is_said(service: Service, owner: Organization) -> None:
    report(send(service, owner, camt(FIRST)))
    refused = send(service, owner, camt(THIRD)).json()["error"]
    assert "between the two is missing. Say --allow-gaps (in a call: allow_gaps=true)" in refused
    assert report(send(service, owner, camt(THIRD), params={"allow_gaps": "true"}))["added"] == 1
    assert report(send(service, owner, camt(SECOND)))["added"] == 1


def test_an_account_may_be_named(service: Service, owner: Organization) -> None:
    content = mt940(FIRST, account="Konto 7")
    assert send(service, owner, content).status_code == 400
    assert report(send(service, owner, content, params={"iban": f"Konto 7={IBAN}"}))["added"] == 2
    wrong = send(service, owner, content, params={"iban": "Konto 7"})
    assert (wrong.status_code, wrong.json()["field"]) == (400, "iban")


@pytest.mark.parametrize("form", ["iban=Konto+7={}&iban=Konto+8={}", "iban=Konto+7={},+Konto+8={}"])
def test_several_accounts_may_be_named(service: Service, owner: Organization, form: str) -> None:
    content = mt940(FIRST, account="Konto 7") + mt940(FIRST._replace(iban=OTHER_IBAN), account="Konto 8")
    assert report(send(service, owner, content, query=form.format(IBAN, OTHER_IBAN)))["accounts"] == 2
    twice = send(service, owner, content, query=f"iban=Konto+7={IBAN}&iban=Konto+7={OTHER_IBAN}")
    assert (twice.status_code, twice.json()["field"]) == (400, "iban")
    again = send(service, owner, content, query="allow_gaps=true&allow_gaps=true")
    assert (again.status_code, again.json()["field"]) == (400, "allow_gaps")


def test_a_repeat_under_one_key_imports_once(service: Service, owner: Organization) -> None:
    headers = {"idempotency-key": "auszug-1"}
    done = send(service, owner, camt(FIRST), headers=headers)
    again = send(service, owner, camt(FIRST), headers=headers)
    assert again.headers["idempotent-replayed"] == "true"
    assert again.json() == done.json()
    assert len(listed(service, owner)) == 1


def test_an_agency_imports_for_its_client(service: Service, owner: Organization) -> None:
    agency = service.agency(owner)
    done = report(send(service, agency, camt(FIRST), params={"organization_id": owner.id}))
    assert done["organization_id"] == owner.id
    assert [item["id"] for item in listed(service, owner)] == [done["id"]]
    assert [item["id"] for item in listed(service, agency)] == [done["id"]]


def test_a_large_file_is_imported_after_the_answer(start_service: ServiceFactory) -> None:
    service = start_service(upload_task_bytes=1_000)
    owner = service.organization()
    begun = report(send(service, owner, camt(FIRST)), 202)
    assert begun["status"] in ("running", "done")
    service.run(service.application.context.part(Tasks).finish_running(30))
    done = report(service.get(f"{IMPORTS}/{begun['id']}", owner.key), 200)
    assert (done["status"], done["added"]) == ("done", 2)
    assert listed(service, owner) == [done]

    wrong = report(send(service, owner, camt(SECOND._replace(closing=7))), 202)
    service.run(service.application.context.part(Tasks).finish_running(30))
    failed = report(service.get(f"{IMPORTS}/{wrong['id']}", owner.key), 200)
    assert failed["status"] == "failed"
    assert "do not add up" in failed["error"]
    assert [item["id"] for item in listed(service, owner)] == [failed["id"], done["id"]]
    # Done or failed, it is that of its organisation and of whoever acts for it.
    stranger = service.organization("Fremde GmbH")
    for who, expected in ((stranger, 404), (service.agency(stranger), 403), (service.agency(owner), 200)):
        found = [service.get(f"{IMPORTS}/{one['id']}", who.key).status_code for one in (done, failed)]
        assert found == [expected] * 2
        assert len(listed(service, who)) == (2 if expected == 200 else 0)

    def statuses(tx: Tx) -> list[str]:
        return sorted(row.status for row in TASKS.all(tx, "kind = 'statements'"))

    assert service.db.read_now(statuses) == ["done", "failed"]


def test_nobody_waits_while_a_file_is_read(start_service: ServiceFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    service = start_service(upload_task_bytes=1_000)
    owner, other = service.organization(), service.organization()
    reached, opened = threading.Event(), threading.Event()

    def held(*arguments: Any, **options: Any) -> Iterator[Item]:
        items = bank_files.read(*arguments, **options)
        yield next(items)
        reached.set()
        assert opened.wait(PATIENCE_SECONDS)
        yield from items

    monkeypatch.setattr(routes, "read", held)
    begun = report(send(service, owner, camt(FIRST)), 202)
    assert reached.wait(PATIENCE_SECONDS)
    try:
        assert service.post("/v2/mobility/customers", other.key, json=CUSTOMER).status_code == 201
        assert report(service.get(f"{IMPORTS}/{begun['id']}", owner.key), 200)["status"] == "running"
    finally:
        opened.set()
    service.run(service.application.context.part(Tasks).finish_running(PATIENCE_SECONDS))
    assert report(service.get(f"{IMPORTS}/{begun['id']}", owner.key), 200)["added"] == 2
