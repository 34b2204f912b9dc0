"""A provider that fails: every failure ends as a clear error, the reservation is given back, and nothing is charged."""

from __future__ import annotations

import asyncio
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import httpx
import pytest

from kontobahn import credits
from kontobahn.ledger.errors import AREAS, ProviderError
from tests.harness import Organization, Service
from tests.ledger_builder import KASSENBUCH, PERSONENKONTO, entry, line
from tests.providers.scripted import Script, ScriptedProvider
from tests.waiting import eventually

PERMISSIONS = "/v2/ledger-rewe-read/permissions"
YEAR = {"geschaeftsjahrStartDatum": "2026-01-01"}
PERSON = {
    "personenkontoNummer": "10010", "kontaktTyp": "COMPANY", "kontenrahmen": "SKR03", "kontonummernLaenge": 4,
    "geschaeftsjahrStartDatum": "2026-01-01", "firmenname": "Beispiel GmbH",
}  # fmt: skip
NEEDS_YEAR = ("konten", "buchungen", "susa", "zahlungsbedingungen")
# Path, what it needs, and the provider's call behind it.
CALLS: list[tuple[str, dict[str, str], Any, str]] = [
    ("/v2/ledger-rewe-read/opos", {}, None, "offene_posten"),
    ("/v2/ledger-rewe-read/faelligkeiten", {}, None, "faelligkeiten"),
    ("/v2/ledger-rewe-read/susa", YEAR, None, "susa"),
    ("/v2/ledger-rewe-read/konten", YEAR, None, "konten"),
    ("/v2/ledger-rewe-read/buchungen", YEAR, None, "buchungen"),
    ("/v2/ledger-rewe-read/zahlungsbedingungen", YEAR, None, "zahlungsbedingungen"),
    ("/v2/ledger-duo/kassenbuecher", {}, None, "kassenbuecher"),
    ("/v2/ledger-duo/rechnungsordner", {}, None, "rechnungsordner"),
    ("/v2/ledger-duo/belegtypen", {}, None, "belegtypen"),
    (KASSENBUCH, {}, entry(line(1)), "create_kassenbucheintrag"),
    (KASSENBUCH, {}, entry(line(1)), "effect"),
    ("/v2/ledger-duo/kassenbuch", {"kassenname": "Hauptkasse"}, None, "kassenbuchzeilen"),
    (PERSONENKONTO, {}, PERSON, "save_personenkonto"),
    (PERSONENKONTO, {}, PERSON, "effect"),
    ("/v2/ledger-rewe-read/umsatzsteuer", YEAR, None, "umsatzsteuer"),
    ("/v2/ledger-rewe-read/bwa", YEAR, None, "bwa"),
]
OPOS, CASH_ENTRY, PERSON_ACCOUNT = (
    next(call for call in CALLS if call[3] == name)
    for name in ("offene_posten", "create_kassenbucheintrag", "save_personenkonto")
)


class Remote(NamedTuple):
    service: Service
    owner: Organization
    connection_id: str
    script: Script

    def ask(self, call: tuple[str, dict[str, str], Any, str] = OPOS, **headers: str) -> httpx.Response:
        path, query, body, _ = call
        options: dict[str, Any] = {"params": {"connectionId": self.connection_id, **query}, "headers": headers}
        if body is None:
            return self.service.get(path, self.owner.key, **options)
        return self.service.post(path, self.owner.key, json=body, **options)

    def fail(self, name: str, status: int | None, message: str = "raw words", type: str | None = "its-type") -> None:
        self.script.trouble = {name: ProviderError(status, message, type=type)}

    def is_untouched(self) -> None:
        """Nothing charged, nothing reserved, and the statement adds up."""
        balance = self.service.balance(self.owner)
        assert (balance.available, balance.reserved, balance.spent) == (100, 0, 0)
        assert self.service.db.read_now(credits.find_discrepancies) == []


@pytest.fixture
def remote(service: Service) -> Remote:
    provider = ScriptedProvider()
    service.ledger_providers[provider.name] = provider
    owner = service.organization()
    return Remote(service, owner, service.ledger_connection(owner, provider=provider.name), provider.script)


@pytest.mark.parametrize("status", [None, 500, 502, 503, 504, 408, 429, 200, 0, 999])
@pytest.mark.either_engine
def test_a_provider_in_trouble_is_503_with_when_to_retry_and_what_it_said(remote: Remote, status: int | None) -> None:
    for call in CALLS:
        for name in ("open", call[3]) if call[3] != "effect" else (call[3],):
            remote.fail(name, status)
            answer = remote.ask(call)
            assert answer.status_code == 503, (call[0], answer.text)
            assert int(answer.headers["retry-after"]) > 0
            body = answer.json()
            assert body["details"] == {"httpStatus": status, "type": "its-type", "message": "raw words"}
            assert "code" not in body
            assert "Nothing was charged" in body["error"]
    remote.is_untouched()


@pytest.mark.parametrize(
    ("status", "expected"), [(400, 400), (404, 404), (409, 409), (422, 400), (405, 400), (410, 400)]
)
@pytest.mark.either_engine
def test_a_request_the_provider_rejects_is_reported_as_one_with_its_words(
    remote: Remote, status: int, expected: int
) -> None:
    for call in CALLS:
        for name in ("open", call[3]) if call[3] != "effect" else (call[3],):
            remote.fail(name, status)
            answer = remote.ask(call)
            assert answer.status_code == expected, (call[0], answer.text)
            assert "retry-after" not in answer.headers
            body = answer.json()
            assert body["message"] == "raw words"
            assert body["details"] == {"httpStatus": status, "type": "its-type", "message": "raw words"}
            assert "code" not in body
    remote.is_untouched()


@pytest.mark.parametrize("status", [401, 403, 404, 409])
@pytest.mark.either_engine
def test_once_the_provider_s_no_is_put_right_the_same_idempotency_key_succeeds(remote: Remote, status: int) -> None:
    call = CASH_ENTRY
    remote.fail("create_kassenbucheintrag", status)
    assert remote.ask(call, **{"idempotency-key": "Kasse-1"}).status_code in (403, 404, 409)
    remote.script.trouble = {}
    answer = remote.ask(call, **{"idempotency-key": "Kasse-1"})
    assert (answer.status_code, answer.headers.get("idempotent-replayed")) == (201, None)


@pytest.mark.either_engine
def test_a_key_the_provider_no_longer_accepts_is_409_with_where_to_renew_it(remote: Remote) -> None:
    for call in CALLS:
        for name in ("open", call[3]) if call[3] != "effect" else (call[3],):
            remote.fail(name, 401)
            answer = remote.ask(call)
            assert answer.status_code == 409, (call[0], answer.text)
            body = answer.json()
            assert body["code"] == "ledger_connection_invalid"
            assert body["reconnectUrl"].startswith(f"{remote.service.base_url}/")
            assert remote.connection_id in body["reconnectUrl"]
    remote.is_untouched()


@pytest.mark.either_engine
def test_a_refusal_for_want_of_a_service_lists_what_is_booked(remote: Remote) -> None:
    remote.script.subscriptions = ["Anderes"]
    for call in CALLS:
        remote.fail(call[3], 403)
        answer = remote.ask(call)
        assert answer.status_code == 403, (call[0], answer.text)
        assert answer.json()["code"] == "ledger_export_service_missing"
        assert answer.json()["activeSubscriptions"] == ["Anderes"]
    remote.is_untouched()


@pytest.mark.either_engine
def test_a_refusal_with_the_service_booked_is_for_want_of_the_right(remote: Remote) -> None:
    for call in CALLS:
        remote.fail(call[3], 403)
        answer = remote.ask(call)
        assert answer.status_code == 403, (call[0], answer.text)
        assert answer.json()["code"] == "ledger_endpoint_not_authorized"
    remote.is_untouched()


@pytest.mark.either_engine
def test_a_refusal_of_unknown_cause_has_no_code(remote: Remote) -> None:
    remote.fail("offene_posten", 403)
    remote.script.trouble["active_subscriptions"] = ProviderError(500, "down")
    for _ in range(2):
        answer = remote.ask()
        assert answer.status_code == 403, answer.text
        assert "code" not in answer.json()
        assert answer.json()["details"]["httpStatus"] == 403
        remote.fail("open", 403)
    remote.is_untouched()


@pytest.mark.parametrize("error", [ValueError("secret text"), KeyError("secret"), TimeoutError(), OSError("secret")])
@pytest.mark.either_engine
def test_an_adapter_that_breaks_its_word_is_500_without_a_word_of_it(remote: Remote, error: Exception) -> None:
    for call in CALLS:
        remote.script.trouble = {call[3]: error}
        answer = remote.ask(call)
        assert answer.status_code == 500, (call[0], answer.text)
        assert answer.json()["request_id"]
        assert "secret" not in answer.text
    remote.is_untouched()


def test_after_the_trouble_the_same_idempotency_key_succeeds(remote: Remote) -> None:
    call = CASH_ENTRY
    remote.fail("create_kassenbucheintrag", None)
    assert remote.ask(call, **{"idempotency-key": "Kasse-1"}).status_code == 503
    remote.script.trouble = {}
    for replayed in (None, "true"):
        answer = remote.ask(call, **{"idempotency-key": "Kasse-1"})
        assert answer.status_code == 201, answer.text
        assert answer.headers.get("idempotent-replayed") == replayed
    assert len(remote.script.entries) == 1
    assert remote.service.balance(remote.owner).spent == 1


def test_a_connection_to_a_provider_that_is_not_set_up_is_an_error_and_free(remote: Remote) -> None:
    del remote.service.ledger_providers["scripted"]
    answer = remote.ask()
    assert answer.status_code == 500
    assert "scripted" in answer.json()["error"]
    remote.is_untouched()


# --- Slow


def test_a_slow_provider_is_waited_for_and_charged_once_it_has_answered(remote: Remote) -> None:
    remote.script.seconds = 0.2
    started = time.monotonic()
    answer = remote.ask()
    assert (answer.status_code, answer.headers["x-credits-charged"]) == (200, "5")
    assert time.monotonic() - started >= 0.4


def close_the_gate(remote: Remote) -> None:
    async def make() -> asyncio.Event:
        return asyncio.Event()

    remote.script.gate = remote.service.run(make())


def open_the_gate(remote: Remote) -> None:
    gate, remote.script.gate = remote.script.gate, None

    async def let_go() -> None:
        assert gate is not None
        gate.set()

    remote.service.run(let_go())


def test_calls_that_wait_for_a_provider_keep_nobody_else_waiting(remote: Remote) -> None:
    close_the_gate(remote)
    with ThreadPoolExecutor(20) as pool:
        waiting = [pool.submit(remote.ask) for _ in range(20)]
        eventually(lambda: remote.script.waiting == 20)
        answer = remote.service.get("/v2/ledger-rewe-read/connections", remote.owner.key)
        assert answer.status_code == 200
        assert remote.script.waiting == 20, "the others are still waiting"
        open_the_gate(remote)
        assert {call.result().status_code for call in waiting} == {200}
    assert remote.service.balance(remote.owner) == credits.Balance(
        available=0, reserved=0, spent=100, lapsed=0, granted=100
    )


def test_credits_are_set_aside_while_the_provider_is_asked(remote: Remote) -> None:
    remote.script.trouble = {}
    close_gate_for_reading(remote)
    with ThreadPoolExecutor(1) as pool:
        call = pool.submit(remote.ask)
        eventually(lambda: remote.service.balance(remote.owner).reserved == 5)
        assert remote.service.balance(remote.owner).available == 95
        open_the_gate(remote)
        assert call.result().status_code == 200
    assert remote.service.balance(remote.owner).spent == 5


def close_gate_for_reading(remote: Remote) -> None:
    """Let the books be opened, and hold the question itself."""
    original = remote.script.call

    async def call(name: str) -> None:
        if name == "open":
            return
        await original(name)

    remote.script.call = call  # type: ignore[method-assign]
    close_the_gate(remote)


@pytest.mark.parametrize("call", [OPOS, CASH_ENTRY, PERSON_ACCOUNT], ids=["read", "cash entry", "person"])
def test_an_answer_later_than_the_reservation_lives_is_503_and_free(
    remote: Remote, call: tuple[str, dict[str, str], Any, str]
) -> None:
    close_gate_for_reading(remote)
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(remote.ask, call)
        eventually(lambda: remote.script.waiting == 1)
        remote.service.clock.advance(seconds=remote.service.settings.call_hold_seconds)
        assert remote.service.db.write_now(credits.expire_stale_holds) == 1
        open_the_gate(remote)
        answer = running.result()
    assert answer.status_code == 503, answer.text
    assert answer.headers["x-credits-charged"] == "0"
    remote.is_untouched()


# --- The probe


def probes(remote: Remote) -> dict[str, dict[str, Any]]:
    answer = remote.service.get(PERMISSIONS, remote.owner.key, params={"connectionId": remote.connection_id})
    assert answer.status_code == 200, answer.text
    data: dict[str, dict[str, Any]] = answer.json()["data"]
    assert list(data) == list(AREAS)
    return data


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        (403, "permission"),
        (401, "expired"),
        (500, "error"),
        (503, "error"),
        (429, "error"),
        (404, "error"),
        (None, "error"),
    ],
)
@pytest.mark.either_engine
def test_each_area_is_classified_by_what_the_provider_answers(
    remote: Remote, status: int | None, expected: str
) -> None:
    for area in AREAS[1:]:
        remote.fail(f"probe {area}", status)
        found = probes(remote)
        assert found[area] == {
            "status": expected,
            "httpStatus": status,
            "maesnType": "its-type",
            "message": "raw words",
        }
        assert {probe["status"] for name, probe in found.items() if name != area} == {"ok"}
    remote.is_untouched()


@pytest.mark.parametrize(
    ("status", "expected"), [(403, "permission"), (401, "expired"), (500, "error"), (None, "error")]
)
@pytest.mark.parametrize("name", ["probe stammdaten", "geschaeftsjahre"])
@pytest.mark.either_engine
def test_without_master_data_what_needs_the_year_is_unknown(
    remote: Remote, name: str, status: int | None, expected: str
) -> None:
    remote.fail(name, status)
    found = {name: probe["status"] for name, probe in probes(remote).items()}
    assert found.pop("stammdaten") == expected
    assert {name for name, status in found.items() if status == "unknown"} == set(NEEDS_YEAR)
    assert {name for name, status in found.items() if status == "ok"} == {"personenkonten", "kassenbuch", "belege"}


@pytest.mark.parametrize(
    ("status", "expected"), [(403, "permission"), (401, "expired"), (500, "error"), (None, "error")]
)
@pytest.mark.either_engine
def test_books_that_do_not_open_are_classified_by_the_reason(remote: Remote, status: int | None, expected: str) -> None:
    remote.fail("open", status)
    found = {name: probe["status"] for name, probe in probes(remote).items()}
    assert {name for name, status in found.items() if status == "unknown"} == set(NEEDS_YEAR)
    assert {status for name, status in found.items() if name not in NEEDS_YEAR} == {expected}


def test_a_client_without_fiscal_years_is_no_crash(remote: Remote) -> None:
    remote.script.years = []
    found = probes(remote)
    assert found["stammdaten"]["status"] == "ok"
    assert {found[name]["status"] for name in NEEDS_YEAR} == {"unknown"}
