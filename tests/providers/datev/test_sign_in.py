"""The life of a sign-in at DATEV: begun, renewed by one at a time, lost, expired, revoked, replaced, ended."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path
from subprocess import PIPE
from typing import IO, Any, cast
from urllib.parse import parse_qs, urlsplit

import httpx
import msgspec
import pytest

from kontobahn.datev import adapter, sessions
from kontobahn.errors import Conflict, Forbidden, SetupError
from kontobahn.ledger.errors import ProviderError
from kontobahn.outbound import Reply
from simulators.datev import DOCUMENTS, Datev
from simulators.datev_sign_in import ACCESS_SECONDS, SESSION_SECONDS
from tests.providers.datev import worker
from tests.providers.datev.office import CLIENT, NewOffice, Office, provider_of, settings_for
from tests.providers.datev.worker import Task

ROOT = Path(__file__).parents[3]

YEAR = {"geschaeftsjahrStartDatum": "2026-01-01"}


def invalid(answer: httpx.Response, office: Office, reason: str) -> None:
    body = answer.json()
    assert (answer.status_code, body["code"]) == (409, "ledger_connection_invalid")
    assert body["reconnectUrl"].endswith(f"/dashboard/ledger/connections/{office.connection_id}/reconnect")
    assert reason in body["error"]


def test_a_person_signs_in_and_the_default_client_can_be_read(office: Office) -> None:
    office.sign_in()
    assert office.ref.status == "connected"
    assert office.session.person == "Sabine Beispiel"
    assert office.get("susa", **YEAR).status_code == 200
    tokens = office.rows("SELECT tokens FROM datev_sessions")[0][0]
    assert not any(secret.encode() in bytes(tokens) for secret in office.datev.sign_in.secrets if secret)


def test_twenty_calls_with_an_expired_token_renew_it_once(office: Office) -> None:
    office.sign_in()
    office.service.clock.advance(seconds=ACCESS_SECONDS)
    # Two that share nothing but the database, as two workers.
    workers = [office.provider, provider_of(office.service, office.datev)]

    ref = office.ref

    async def all_of_them() -> list[Any]:
        return await asyncio.gather(*(workers[number % 2]._sessions.access(ref) for number in range(20)))

    found = office.service.run(all_of_them())
    office.service.run(workers[1].close())
    assert len({one.token for one in found}) == 1
    assert office.datev.sign_in.refreshes == 1
    assert office.datev.sign_in.alive == 1


def test_twenty_calls_of_two_processes_with_an_expired_token_renew_it_once(office: Office) -> None:
    office.sign_in()
    office.service.clock.advance(seconds=ACCESS_SECONDS)
    settings = msgspec.structs.replace(office.service.settings, **settings_for(office.datev))
    task = Task(msgspec.structs.asdict(settings), office.service.clock.now(), office.ref, calls=10)
    made = [
        subprocess.Popen([sys.executable, "-m", worker.__name__], stdin=PIPE, stdout=PIPE, cwd=ROOT) for _ in range(2)
    ]
    said = [(one, cast(IO[bytes], one.stdin), cast(IO[bytes], one.stdout)) for one in made]
    for _, to, _ in said:
        to.write(msgspec.json.encode(task) + b"\n")
        to.flush()
    assert [answer.readline() for _, _, answer in said] == [b"ready\n"] * 2
    for _, to, _ in said:
        to.write(b"go\n")
        to.flush()
    told = [one.communicate()[0] for one in made]
    tokens = [token for answer in told for token in msgspec.json.decode(answer, type=list[str])]
    assert (len(tokens), len(set(tokens))) == (20, 1)
    assert (office.datev.sign_in.refreshes, office.datev.sign_in.alive) == (1, 1)


def test_a_token_that_is_refused_is_renewed_once_and_the_call_succeeds(office: Office) -> None:
    office.sign_in()
    office.datev.sign_in.expire_access()
    assert office.get("susa", **YEAR).status_code == 200
    assert office.datev.sign_in.refreshes == 1


def test_the_expiry_does_not_move_when_tokens_are_renewed(office: Office) -> None:
    office.sign_in()
    until = office.session.expires_at
    for _ in range(3):
        office.service.clock.advance(seconds=ACCESS_SECONDS)
        assert office.get("susa", **YEAR).status_code == 200
    assert office.datev.sign_in.refreshes == 3
    assert office.session.expires_at == until


def test_a_sign_in_expires_when_its_time_is_over(office: Office) -> None:
    office.sign_in()
    office.service.clock.advance(seconds=SESSION_SECONDS)
    asked = len(office.datev.asked)
    for _ in range(2):
        invalid(office.get("susa", **YEAR), office, "expired")
    assert office.ref.status == "expired"
    assert len(office.datev.asked) == asked


def test_the_job_notices_what_has_expired(office: Office) -> None:
    office.sign_in().begin()
    office.service.db.write_now(adapter.tidy)
    assert office.ref.status == "connected"
    assert len(office.rows("SELECT 1 FROM datev_sign_ins")) == 1
    office.service.clock.advance(seconds=SESSION_SECONDS)
    office.service.db.write_now(adapter.tidy)
    assert office.ref.status == "expired"
    assert office.rows("SELECT 1 FROM datev_sign_ins") == [], "nobody came back from there"


def test_what_a_person_revoked_at_datev_is_revoked(office: Office) -> None:
    office.sign_in()
    office.datev.sign_in.end_sessions()
    for _ in range(2):
        invalid(office.get("susa", **YEAR), office, "revoked")
    assert office.ref.status == "revoked"
    assert office.datev.sign_in.refreshes == 1


@pytest.mark.parametrize("losses", [1, 2])
def test_a_lost_answer_to_a_renewal_is_tried_once_more_and_then_it_has_expired(office: Office, losses: int) -> None:
    office.sign_in()
    office.service.clock.advance(seconds=ACCESS_SECONDS)
    office.datev.breaks = [("/token", "lost")] * losses
    for _ in range(3):
        invalid(office.get("susa", **YEAR), office, "expired")
    assert office.ref.status == "expired"
    assert office.datev.sign_in.refreshes == 2


def test_a_renewal_that_never_arrived_costs_nothing(office: Office) -> None:
    office.sign_in()
    office.service.clock.advance(seconds=ACCESS_SECONDS)
    office.datev.breaks = [("/token", "500")]
    answer = office.get("susa", **YEAR)
    assert answer.status_code == 503
    assert office.get("susa", **YEAR).status_code == 200
    assert office.datev.sign_in.alive == 1


@pytest.mark.either_engine
def test_a_renewal_whose_address_is_not_known_costs_no_try(office: Office, monkeypatch: pytest.MonkeyPatch) -> None:
    office.sign_in()
    office.service.clock.advance(seconds=ACCESS_SECONDS)

    async def unknown(*args: Any) -> None:
        raise ProviderError(503, "the address is not known")

    with monkeypatch.context() as patch:
        patch.setattr(office.provider._sessions, "ask_token_endpoint", unknown)
        for _ in range(sessions.MAX_TRIES + 1):
            assert office.get("susa", **YEAR).status_code == 503
    assert office.get("susa", **YEAR).status_code == 200
    assert office.ref.status == "connected"


@pytest.mark.either_engine
def test_if_a_new_token_is_refused_too_only_a_person_can_help(office: Office, monkeypatch: pytest.MonkeyPatch) -> None:
    office.sign_in()

    async def refuse(*args: Any) -> Reply:
        return Reply(401, {}, b"")

    monkeypatch.setattr(office.provider._services, "_send", refuse)
    invalid(office.get("susa", **YEAR), office, "broken")
    assert office.ref.status == "error"
    assert office.datev.sign_in.refreshes == 1


def test_a_process_that_died_while_it_renewed_leaves_a_sign_in_that_lives_or_has_expired(office: Office) -> None:
    office.sign_in()
    for _ in range(sessions.MAX_TRIES):
        office.service.clock.advance(seconds=ACCESS_SECONDS)
        session = office.service.db.read_now(sessions.find, office.ref)
        assert session is not None
        # Claimed, and then nothing more was heard of it.
        assert office.service.db.write_now(sessions._claim, office.ref, session.generation) is not None
    office.service.clock.advance(seconds=ACCESS_SECONDS)
    invalid(office.get("susa", **YEAR), office, "expired")
    assert office.datev.sign_in.refreshes == 0


def test_one_that_died_before_it_sent_anything_is_followed_by_one_that_renews(office: Office) -> None:
    office.sign_in()
    office.service.clock.advance(seconds=ACCESS_SECONDS)
    assert office.service.db.write_now(sessions._claim, office.ref, 1) == 1
    office.service.clock.advance(seconds=sessions.LEASE_SECONDS)
    assert office.get("susa", **YEAR).status_code == 200


def test_disconnecting_revokes_both_tokens_and_then_forgets_them(office: Office) -> None:
    office.sign_in()
    office.datev.breaks = [("/revoke", "500")]
    with pytest.raises(ProviderError):
        office.service.run(office.provider.disconnect(office.ref))
    assert office.ref.status == "connected"
    assert office.get("susa", **YEAR).status_code == 200
    office.service.run(office.provider.disconnect(office.ref))
    assert office.datev.sign_in.revoked == [("access_token", True), ("refresh_token", True)]
    assert office.datev.sign_in.alive == 0
    assert office.ref.status == "revoked"
    assert office.rows("SELECT LENGTH(tokens) FROM datev_sessions") == [(0,)]
    invalid(office.get("susa", **YEAR), office, "revoked")


@pytest.mark.either_engine
def test_disconnecting_works_where_datev_names_no_address_to_revoke_at(office: Office) -> None:
    office.datev.sign_in.names_revocation = False
    office.sign_in()
    assert office.service.run(office.provider.disconnect(office.ref)) is False
    assert (office.ref.status, office.datev.sign_in.revoked) == ("revoked", [])
    assert office.rows("SELECT LENGTH(tokens) FROM datev_sessions") == [(0,)]
    urls = {**settings_for(office.datev)["datev_urls"], "revoke": f"{office.datev.address}/revoke"}
    told = provider_of(office.service, office.datev, datev_urls=urls)
    office.sign_in()
    assert office.service.run(told.disconnect(office.ref)) is True
    office.service.run(told.close())
    assert office.datev.sign_in.revoked == [("access_token", True), ("refresh_token", True)]


def test_a_second_sign_in_revokes_the_first(office: Office) -> None:
    office.sign_in().sign_in()
    assert office.datev.sign_in.revoked == [("access_token", True), ("refresh_token", True)]
    assert office.datev.sign_in.alive == 1
    assert office.ref.status == "connected"
    assert office.get("susa", **YEAR).status_code == 200


def test_a_client_without_the_service_is_never_connected(new_office: NewOffice, datev: Datev) -> None:
    datev.companies[CLIENT].services = [DOCUMENTS]
    office = new_office().sign_in()
    assert office.ref.status == "error"
    invalid(office.get("susa", **YEAR), office, "broken")
    datev.companies[CLIENT].services.append(office.provider.needed_service)
    assert office.service.run(office.provider.look_again(office.ref)) is True
    assert office.ref.status == "connected"
    assert office.get("susa", **YEAR).status_code == 200


def test_a_service_that_ends_later_is_told_by_its_code(office: Office) -> None:
    office.sign_in()
    office.datev.companies[CLIENT].services = [DOCUMENTS]
    office.service.run(office.provider.look_again(office.ref))
    assert office.ref.status == "error"


def test_the_way_back_is_for_one_browser_and_for_once(office: Office) -> None:
    address = office.datev.sign_in.sign_in(office.begin())
    with pytest.raises(Conflict):
        office.come_back(address, session="another browser")
    with pytest.raises(Conflict):
        office.come_back(address)
    address = office.datev.sign_in.sign_in(office.begin())
    office.come_back(address)
    with pytest.raises(Conflict):
        office.come_back(address)
    with pytest.raises(Forbidden):
        office.come_back(office.datev.sign_in.refuse(office.begin()))
    assert office.ref.status == "connected"


def test_what_datev_is_asked_cannot_be_guessed(office: Office) -> None:
    first, second = (parse_qs(urlsplit(office.begin()).query) for _ in range(2))
    for name in ("state", "nonce", "code_challenge"):
        assert first[name] != second[name]
        assert len(first[name][0]) >= 20
    assert first["code_challenge_method"] == ["S256"]


@pytest.mark.either_engine
@pytest.mark.parametrize(
    "base_url", ["http://kontobahn.muster.example", "https://localhost", "https://192.0.2.1", "https://datev.muster.example", ""]
)  # fmt: skip
def test_production_refuses_an_address_that_nobody_could_come_back_to(office: Office, base_url: str) -> None:
    settings = msgspec.structs.replace(office.service.settings, base_url=base_url)
    office.service.settings, before = settings, office.service.settings
    strict = provider_of(office.service, office.datev, datev_sandbox=False)
    office.service.settings = before
    with pytest.raises(SetupError):
        office.service.run(strict.begin_sign_in(office.ref, "a browser"))
    assert office.rows("SELECT state_hash FROM datev_sign_ins") == []
