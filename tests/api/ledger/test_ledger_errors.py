"""Obstacles between a caller and the books: the three ledger codes, unfinished connections, strangers; and the probe."""

from __future__ import annotations

from typing import Any, NamedTuple

import httpx
import pytest

from kontobahn.books import store
from kontobahn.ledger.errors import AREAS, Area
from tests.harness import Organization, Service
from tests.ledger_builder import KASSENBUCH, PERSONENKONTO, Books, entry, line

PERMISSIONS = "/v2/ledger-rewe-read/permissions"
UNKNOWN = "0193b2a0-0000-7000-8000-00000000abcd"
YEAR = {"geschaeftsjahrStartDatum": "2026-01-01"}
EXPORT, RECHNUNGSDATEN = "Exportdatenservice Rechnungswesen", "Rechnungsdatenservice"
BELEGBILDER, BUCHUNGSDATEN = "Belegbilderservice", "Buchungsdatenservice"
PERSON = {
    "personenkontoNummer": "10010", "kontaktTyp": "COMPANY", "kontenrahmen": "SKR03", "kontonummernLaenge": 4,
    "geschaeftsjahrStartDatum": "2026-01-01", "firmenname": "Beispiel GmbH",
}  # fmt: skip
NEEDS_YEAR = ("konten", "buchungen", "susa", "zahlungsbedingungen")


class Endpoint(NamedTuple):
    path: str
    area: Area
    service: str
    query: dict[str, str]
    body: Any = None


STORNO = {"kassenname": "Hauptkasse", "grund": "Irrtum"}
ENDPOINTS = [
    Endpoint("/v2/ledger-rewe-read/opos", "buchungen", EXPORT, {}),
    Endpoint("/v2/ledger-rewe-read/susa", "susa", EXPORT, YEAR),
    Endpoint("/v2/ledger-rewe-read/zahlungsbedingungen", "zahlungsbedingungen", EXPORT, YEAR),
    Endpoint("/v2/ledger-rewe-read/buchungen", "buchungen", EXPORT, YEAR),
    Endpoint("/v2/ledger-rewe-read/konten", "konten", EXPORT, YEAR),
    Endpoint(PERSONENKONTO, "personenkonten", BUCHUNGSDATEN, {}, PERSON),
    Endpoint("/v2/ledger-duo/kassenbuecher", "kassenbuch", RECHNUNGSDATEN, {}),
    Endpoint("/v2/ledger-duo/kassenbuch", "kassenbuch", RECHNUNGSDATEN, {"kassenname": "Hauptkasse"}),
    Endpoint("/v2/ledger-duo/rechnungsordner", "kassenbuch", RECHNUNGSDATEN, {}),
    Endpoint("/v2/ledger-duo/belegtypen", "belege", BELEGBILDER, {}),
    Endpoint(f"/v2/ledger-duo/belegbilder/{UNKNOWN}", "belege", BELEGBILDER, {}),
    Endpoint(KASSENBUCH, "kassenbuch", RECHNUNGSDATEN, {}, entry(line(1))),
    Endpoint("/v2/ledger-duo/kassenbuch/1/storno", "kassenbuch", RECHNUNGSDATEN, {}, STORNO),
]


@pytest.fixture
def books(service: Service) -> Books:
    return Books(service, service.organization())


def ask(books: Books, endpoint: Endpoint, *, who: Organization | None = None, **query: str) -> httpx.Response:
    options: dict[str, Any] = {
        "params": {**books.query(), **endpoint.query, **query},
        "headers": {"x-request-id": "same"},
    }
    key = (who or books.owner).key
    if endpoint.body is None:
        return books.service.get(endpoint.path, key, **options)
    return books.service.post(endpoint.path, key, json=endpoint.body, **options)


def refused(answer: httpx.Response, status: int, code: str | None = None) -> dict[str, Any]:
    assert answer.status_code == status, answer.text
    assert answer.headers.get("x-credits-charged", "0") == "0"
    body: dict[str, Any] = answer.json()
    assert body.get("code") == code
    return body


@pytest.mark.parametrize(("status", "word"), [("expired", "expired"), ("revoked", "revoked"), ("error", "broken")])
@pytest.mark.either_engine
def test_an_ended_connection_is_409_with_where_to_renew_it(books: Books, status: Any, word: str) -> None:
    books.set_status(status)
    with books.unchanged():
        for endpoint in ENDPOINTS:
            body = refused(ask(books, endpoint), 409, "ledger_connection_invalid")
            assert word in body["error"]
            expected = f"{books.service.base_url}/dashboard/ledger/connections/{books.connection_id}/reconnect"
            assert body["reconnectUrl"] == expected
            assert "activeSubscriptions" not in body


def test_a_renewed_connection_works_again(books: Books) -> None:
    books.set_status("expired")
    refused(ask(books, ENDPOINTS[0]), 409, "ledger_connection_invalid")
    books.set_status("connected")
    assert ask(books, ENDPOINTS[0]).status_code == 200


@pytest.mark.either_engine
def test_a_write_refused_for_an_ended_connection_goes_through_with_its_key_once_renewed(books: Books) -> None:
    def send() -> httpx.Response:
        return books.send(KASSENBUCH, entry(line(1)), headers={"idempotency-key": "Kasse-7"})

    for status in ("expired", "pending"):
        books.set_status(status)
        assert send().status_code == 409
    books.set_status("connected")
    first, second = send(), send()
    assert (first.status_code, "idempotent-replayed" in first.headers) == (201, False)
    assert (second.status_code, "idempotent-replayed" in second.headers) == (201, True)


@pytest.mark.either_engine
def test_an_unfinished_connection_is_409_without_a_code(books: Books) -> None:
    books.set_status("pending")
    with books.unchanged():
        for endpoint in ENDPOINTS:
            body = refused(ask(books, endpoint), 409)
            assert "not finished" in body["error"]
            assert "reconnectUrl" not in body
        assert books.get(PERMISSIONS).status_code == 409


@pytest.mark.either_engine
def test_without_its_service_a_call_is_403_with_what_is_booked(books: Books) -> None:
    for endpoint in ENDPOINTS:
        books.unsubscribe(endpoint.service)
        with books.unchanged():
            body = refused(ask(books, endpoint), 403, "ledger_export_service_missing")
        assert endpoint.service in body["error"]
        assert body["activeSubscriptions"] == sorted({*store.SUBSCRIPTIONS} - {endpoint.service})
        assert "reconnectUrl" not in body
        books.service.db.write_now(store.subscribe, books.client, endpoint.service)


@pytest.mark.either_engine
def test_a_client_that_has_booked_nothing_is_refused_so(books: Books) -> None:
    for name in store.SUBSCRIPTIONS:
        books.unsubscribe(name)
    for endpoint in ENDPOINTS:
        assert refused(ask(books, endpoint), 403, "ledger_export_service_missing")["activeSubscriptions"] == []


def test_a_client_named_in_the_call_is_judged_by_its_own_services(books: Books) -> None:
    books.another_client("29098-2", subscriptions=(BELEGBILDER,), years=["2026-01-01"])
    with books.unchanged():
        for endpoint in ENDPOINTS:
            if endpoint.service == BELEGBILDER:
                continue
            body = refused(ask(books, endpoint, clientId="29098-2"), 403, "ledger_export_service_missing")
            assert body["activeSubscriptions"] == [BELEGBILDER]
    for endpoint in ENDPOINTS:
        if UNKNOWN not in endpoint.path:
            assert ask(books, endpoint, clientId="29098-55003").status_code in (200, 201)


def test_where_the_default_client_lacks_the_service_another_one_may_have_it(books: Books) -> None:
    books.another_client("29098-2", years=["2026-01-01"])
    books.unsubscribe(EXPORT)
    for endpoint in ENDPOINTS:
        if endpoint.service == EXPORT:
            refused(ask(books, endpoint), 403, "ledger_export_service_missing")
            assert ask(books, endpoint, clientId="29098-2").status_code == 200


@pytest.mark.either_engine
def test_without_the_right_a_call_is_403_and_reconnecting_does_not_help(books: Books) -> None:
    for endpoint in ENDPOINTS:
        books.deny(endpoint.area)
        with books.unchanged():
            body = refused(ask(books, endpoint), 403, "ledger_endpoint_not_authorized")
        assert endpoint.area in body["error"]
        assert "Reconnecting does not help" in body["message"]
        assert "reconnectUrl" not in body
        assert "activeSubscriptions" not in body
        books.service.db.write_now(store.allow, books.client, endpoint.area)
        if UNKNOWN not in endpoint.path:
            assert ask(books, endpoint).status_code in (200, 201)


@pytest.mark.either_engine
def test_a_missing_service_comes_before_a_missing_right(books: Books) -> None:
    books.unsubscribe(EXPORT)
    books.deny("susa")
    refused(books.get("/v2/ledger-rewe-read/susa", **YEAR), 403, "ledger_export_service_missing")


@pytest.mark.either_engine
def test_another_organisation_s_connection_is_404_like_one_that_is_not_there(books: Books) -> None:
    stranger = books.service.organization("Fremde")
    for endpoint in [*ENDPOINTS, Endpoint(PERMISSIONS, "stammdaten", EXPORT, {})]:
        theirs = ask(books, endpoint, who=stranger)
        unknown = ask(books, endpoint, who=stranger, connectionId=UNKNOWN)
        refused(theirs, 404)
        assert theirs.content == unknown.content
    assert books.service.balance(stranger).spent == 0


@pytest.mark.either_engine
def test_an_agency_reads_within_its_scope_and_is_refused_outside_the_same_way_for_all(books: Books) -> None:
    inside = books.service.agency(books.owner)
    outside = books.service.agency(books.service.organization("Andere"))
    for endpoint in ENDPOINTS:
        if UNKNOWN in endpoint.path:
            continue
        assert ask(books, endpoint, who=inside).status_code in (200, 201)
        theirs = ask(books, endpoint, who=outside)
        refused(theirs, 403)
        assert theirs.content == ask(books, endpoint, who=outside, connectionId=UNKNOWN).content
    spent = books.service.balance(inside).spent
    assert spent == 5 + 10
    assert (books.service.balance(outside).spent, books.service.balance(books.owner).spent) == (0, 0)


@pytest.mark.either_engine
def test_a_client_of_another_connection_is_400(books: Books) -> None:
    other = Books(books.service, books.owner)
    other.another_client("29098-7", years=["2026-01-01"])
    with books.unchanged():
        for endpoint in [*ENDPOINTS, Endpoint(PERMISSIONS, "stammdaten", EXPORT, {})]:
            body = refused(ask(books, endpoint, clientId="29098-7"), 400)
            assert body["field"] == "clientId"
            assert "29098-7" in body["error"]


@pytest.mark.parametrize(
    "client_id", ["55003", "29098-", "-1", "029098-1", "29098-055003", "29098_55003", "290-1", "12345678-1"]
)
@pytest.mark.either_engine
def test_a_client_number_of_another_form_is_400(books: Books, client_id: str) -> None:
    for endpoint in ENDPOINTS:
        assert refused(ask(books, endpoint, clientId=client_id), 400)["field"] == "clientId"


def test_a_connection_is_asked_for_by_name_and_form(books: Books) -> None:
    for endpoint in ENDPOINTS:
        for given in ("abc", "", UNKNOWN[:-1]):
            assert refused(ask(books, endpoint, connectionId=given), 400)["field"] == "connectionId"
        options: dict[str, Any] = {} if endpoint.body is None else {"json": endpoint.body}
        method = "POST" if options else "GET"
        answer = books.service.request(method, endpoint.path, books.owner.key, params=endpoint.query, **options)
        assert "`connectionId` is required" in refused(answer, 400)["error"]


@pytest.mark.either_engine
def test_a_connection_without_a_client_is_404(service: Service) -> None:
    owner = service.organization()
    connection_id = service.ledger_connection(owner)
    answer = service.get("/v2/ledger-rewe-read/opos", owner.key, params={"connectionId": connection_id})
    assert "no client" in refused(answer, 404)["error"]


# --- The permission probe


def statuses(books: Books, **query: str) -> dict[str, str]:
    answer = books.get(PERMISSIONS, **query)
    assert answer.status_code == 200, answer.text
    assert "x-credits-charged" not in answer.headers
    assert list(answer.json()) == ["data"]
    data = answer.json()["data"]
    assert list(data) == list(AREAS)
    for probe in data.values():
        assert sorted(probe) == ["httpStatus", "maesnType", "message", "status"]
    return {name: probe["status"] for name, probe in data.items()}


def every(status: str, **others: str) -> dict[str, str]:
    return {**dict.fromkeys(AREAS, status), **others}


def test_the_probe_is_ok_for_every_area_and_free(books: Books) -> None:
    assert statuses(books) == every("ok")
    probe = books.read(PERMISSIONS)["susa"]
    assert probe == {"status": "ok", "httpStatus": 200, "maesnType": None, "message": None}
    assert books.service.balance(books.owner).spent == 0


def test_the_probe_works_without_any_credit(service: Service) -> None:
    assert statuses(Books(service, service.organization(credits_granted=0))) == every("ok")


@pytest.mark.parametrize("area", [name for name in AREAS if name != "stammdaten"])
@pytest.mark.either_engine
def test_the_probe_tells_a_missing_right_for_its_area_alone(books: Books, area: Area) -> None:
    books.deny(area)
    assert statuses(books) == every("ok", **{area: "permission"})
    probe = books.read(PERMISSIONS)[area]
    assert (probe["httpStatus"], probe["maesnType"]) == (403, "right")
    assert area in probe["message"]


@pytest.mark.either_engine
def test_the_probe_tells_a_missing_service_for_all_it_covers(books: Books) -> None:
    books.unsubscribe(BUCHUNGSDATEN)
    assert statuses(books) == every("ok", personenkonten="permission")
    books.unsubscribe(EXPORT)
    unknown = dict.fromkeys(NEEDS_YEAR, "unknown")
    assert statuses(books) == every("ok", stammdaten="permission", personenkonten="permission", **unknown)


@pytest.mark.either_engine
def test_without_master_data_what_needs_the_fiscal_year_is_unknown(books: Books) -> None:
    books.deny("stammdaten")
    assert statuses(books) == every("ok", stammdaten="permission", **dict.fromkeys(NEEDS_YEAR, "unknown"))
    probe = books.read(PERMISSIONS)["susa"]
    assert (probe["httpStatus"], probe["maesnType"]) == (None, None)
    assert "fiscal year" in probe["message"]


@pytest.mark.either_engine
def test_a_client_without_a_fiscal_year_cannot_be_checked(books: Books) -> None:
    books.another_client("29098-2")
    expected = every("ok", stammdaten="error", **dict.fromkeys(NEEDS_YEAR, "unknown"))
    assert statuses(books, clientId="29098-2") == expected


@pytest.mark.parametrize("status", ["expired", "revoked", "error"])
def test_the_probe_of_an_ended_connection_is_an_answer_not_an_error(books: Books, status: Any) -> None:
    books.set_status(status)
    assert statuses(books) == every("expired", **dict.fromkeys(NEEDS_YEAR, "unknown"))
    probe = books.read(PERMISSIONS)["stammdaten"]
    assert probe["httpStatus"] == 401
    assert "connection" in probe["message"]
