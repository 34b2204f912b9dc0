"""Signing in: guesses are slowed down by account and address, the owner is not locked out, and nobody waits for it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import httpx
import pytest

from kontobahn.access import audit, sessions, users
from kontobahn.access.audit import Actor
from kontobahn.access.sessions import SignIns
from kontobahn.access.users import PasswordWork
from kontobahn.db import Tx
from kontobahn.errors import Unauthorized, Unavailable
from tests.harness import PASSWORD, Organization, Service, ServiceFactory
from tests.interleaving import on_postgres, overlap

ERIKA, NOBODY = "erika@muster.example", "nobody@muster.example"
HOME = "2001:db8:1:1::1"


@pytest.fixture
def service(start_service: ServiceFactory) -> Service:
    return start_service(trusted_proxies="127.0.0.0/8")


@pytest.fixture
def mine(service: Service) -> Organization:
    return service.organization()


@pytest.fixture
def erika(service: Service, mine: Organization) -> users.User:
    return service.user(mine, ERIKA)


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Checks passwords without the work, for tests that count."""
    monkeypatch.setattr(users, "password_matches", lambda stored, password: bool(stored) and password == PASSWORD)


def sign_in(service: Service, address: str, password: str = "x", email: str = ERIKA) -> httpx.Response:
    headers = {"x-forwarded-for": address, "x-request-id": "fixed"}
    return service.post("/v2/auth/sessions", json={"email": email, "password": password}, headers=headers)


@pytest.mark.usefixtures("quick")
def test_guesses_from_one_address_have_to_wait(service: Service, erika: users.User) -> None:
    for number in range(sessions.FREE_FROM_ADDRESS):
        # One household has all addresses of its /64.
        assert sign_in(service, f"2001:db8:9:9::{number:x}").status_code == 401
    refused = sign_in(service, "2001:db8:9:9:ffff::1", PASSWORD)
    assert (refused.status_code, refused.headers["retry-after"]) == (429, "1")
    assert sign_in(service, "2001:db8:9:8::1", PASSWORD).status_code == 201
    service.clock.advance(seconds=1)
    assert sign_in(service, "2001:db8:9:9::1").status_code == 401
    assert sign_in(service, "2001:db8:9:9::1").headers["retry-after"] == "2"
    service.clock.advance(seconds=2)
    assert sign_in(service, "2001:db8:9:9::1", PASSWORD).status_code == 201
    # Whoever got in begins anew.
    assert sign_in(service, "2001:db8:9:9::1").status_code == 401


@pytest.mark.usefixtures("quick")
def test_the_wait_grows_to_a_minute_and_is_forgotten_after_an_hour(service: Service, erika: users.User) -> None:
    waits = []
    for _ in range(sessions.FREE_FROM_ADDRESS + 8):
        assert sign_in(service, HOME).status_code == 401
        refused = sign_in(service, HOME)
        if refused.status_code == 429:
            waits.append(int(refused.headers["retry-after"]))
            service.clock.advance(seconds=waits[-1])
    # Two attempts at a time while they are free.
    assert waits == [1, 2, 4, 8, 16, 32, 60, 60, 60, 60, 60]
    service.clock.advance(seconds=3601)
    assert [sign_in(service, HOME).status_code for _ in range(sessions.FREE_FROM_ADDRESS)] == [401] * 5


@pytest.mark.usefixtures("quick")
def test_guesses_from_many_addresses_have_to_wait_and_the_owner_at_home_has_not(
    service: Service, erika: users.User
) -> None:
    assert sign_in(service, HOME, PASSWORD).status_code == 201
    strangers = [f"203.0.113.{number}" for number in range(sessions.FREE_FROM_STRANGERS)]
    for email in (ERIKA, NOBODY):
        # Erika's own attempt above was a right one.
        assert {sign_in(service, address, email=email).status_code for address in strangers} == {401}
    refused = [sign_in(service, "198.51.100.1", PASSWORD, email) for email in (ERIKA, NOBODY)]
    assert [answer.status_code for answer in refused] == [429, 429]
    assert refused[0].content == refused[1].content
    assert sign_in(service, HOME, PASSWORD).status_code == 201
    assert sign_in(service, "2001:db8:1:1:2::2", PASSWORD).status_code == 201


def test_failures_are_in_the_audit_log(service: Service, mine: Organization, erika: users.User) -> None:
    sign_in(service, HOME)
    sign_in(service, HOME, PASSWORD, NOBODY)
    [entry] = [item for item in service.db.read_now(audit.entries, mine.id) if item.action == "session.refuse"]
    assert (entry.actor, entry.subject, entry.ip, entry.request_id) == ("anybody", erika.id, HOME, "fixed")


def test_a_password_changed_meanwhile_opens_no_session(service: Service, erika: users.User) -> None:
    verified = service.run(service.application.context.part(SignIns).verify(ERIKA, PASSWORD, Actor("anybody", ip=HOME)))
    service.db.write_now(lambda tx: tx.run("UPDATE users SET password_hash = ? WHERE id = ?", "another", erika.id))
    with pytest.raises(Unauthorized):
        service.db.write_now(sessions.open_session, service.vault, verified, hours=1, actor=Actor("anybody"))
    assert service.db.read_now(lambda tx: tx.all("SELECT 1 FROM sessions")) == []


@pytest.mark.usefixtures("quick")
def test_old_attempts_and_places_are_purged(service: Service, erika: users.User) -> None:
    sign_in(service, HOME)
    sign_in(service, "192.0.2.1", PASSWORD)

    def rows(tx: Tx) -> list[int]:
        return [len(tx.all(f"SELECT 1 FROM sign_in_{name}")) for name in ("attempts", "places")]

    service.db.write_now(sessions.purge_attempts)
    assert service.db.read_now(rows) == [2, 1]
    service.clock.advance(seconds=3601)
    service.db.write_now(sessions.purge_attempts)
    assert service.db.read_now(rows) == [0, 1]
    service.clock.advance(seconds=90 * 24 * 3600)
    service.db.write_now(sessions.purge_attempts)
    assert service.db.read_now(rows) == [0, 0]


@pytest.mark.usefixtures("quick")
def test_a_user_has_as_many_places_as_are_kept(service: Service, mine: Organization, erika: users.User) -> None:
    colleague = service.user(mine, "max@muster.example")
    assert sign_in(service, "192.0.2.200", PASSWORD, colleague.email).status_code == 201
    for number in range(sessions.PLACES + 2):
        service.clock.advance(seconds=1)
        assert sign_in(service, f"192.0.2.{number}", PASSWORD).status_code == 201
    places = service.db.read_now(lambda tx: tx.all("SELECT user_id, last_at FROM sign_in_places ORDER BY last_at"))
    assert [user_id for user_id, _ in places] == [colleague.id, *[erika.id] * sessions.PLACES]
    assert places[1][1] == service.clock.now() - (sessions.PLACES - 1) * 1_000_000


# --- Nobody else waits for it


@pytest.fixture
def stuck(monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """Checking a password takes until the test ends."""
    end = threading.Event()

    def check(stored: str | None, password: str) -> bool:
        end.wait()
        return False

    monkeypatch.setattr(users, "password_matches", check)
    yield end
    end.set()


@pytest.mark.parametrize("engine", ["sqlite"], indirect=True)
def test_too_many_at_once_are_refused_and_other_calls_answered(
    service: Service, mine: Organization, stuck: threading.Event
) -> None:
    work = service.application.context.part(SignIns)._work
    with ThreadPoolExecutor(users.ROOM_FOR_ADDRESS) as callers:
        waiting = [callers.submit(sign_in, service, HOME, "x", f"{n}@muster.example") for n in range(4)]
        while work._under_way.total() < users.ROOM_FOR_ADDRESS:
            assert service.get("/v2/auth/users", mine.key).status_code == 200
        refused = sign_in(service, HOME)
        assert (refused.status_code, refused.headers["retry-after"]) == (503, "2")
        stuck.set()
        assert [future.result().status_code for future in waiting] == [401] * 4
    assert not work._under_way


@pytest.mark.parametrize("engine", ["sqlite"], indirect=True)
def test_hashing_a_password_needs_an_invitation(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    hashed: list[str] = []
    monkeypatch.setattr(users, "hash_password", hashed.append)
    body = {"token": "kb_inv_nothing", "name": "Max", "password": PASSWORD}
    assert service.post("/v2/auth/invitations/accept", json=body).status_code == 404
    assert hashed == []


def test_there_is_more_room_for_those_who_were_here_before() -> None:
    work = PasswordWork()
    with ExitStack() as inside:

        def fill(count: int, *, is_familiar: bool) -> None:
            for number in range(count):
                inside.enter_context(work.room_for(f"{is_familiar}{number}", is_familiar=is_familiar))

        fill(users.ROOM_FOR_STRANGERS, is_familiar=False)
        with pytest.raises(Unavailable):
            fill(1, is_familiar=False)
        fill(users.ROOM - users.ROOM_FOR_STRANGERS, is_familiar=True)
        with pytest.raises(Unavailable):
            fill(1, is_familiar=True)


def test_passwords_are_worked_on_by_threads_that_step_back() -> None:
    def niceness() -> tuple[int, str]:
        import os

        return os.getpriority(os.PRIO_PROCESS, threading.get_native_id()), threading.current_thread().name

    nice, name = asyncio.run(PasswordWork().run(niceness))
    assert nice > 0
    assert name.startswith("passwords")


# --- Two at once


@on_postgres
def test_attempts_at_once_are_counted_one_by_one(service: Service) -> None:
    attempt = service.application.context.part(SignIns)._attempt(ERIKA, HOME)
    for _ in range(sessions.FREE_FROM_ADDRESS - 1):
        service.db.write_now(sessions._admit, attempt, ERIKA)
    outcome = overlap(service.db, *(lambda tx: sessions._admit(tx, attempt, ERIKA),) * 2)
    assert outcome.lock == "sign_in"
    assert outcome.first.wait_until is None
    assert outcome.second.wait_until is not None


@on_postgres
def test_no_session_is_opened_beside_a_change_of_the_password(service: Service, erika: users.User) -> None:
    verified = service.run(service.application.context.part(SignIns).verify(ERIKA, PASSWORD, Actor("anybody", ip=HOME)))

    def change(tx: Tx) -> None:
        users.lock(tx, erika.organization_id)
        tx.run("UPDATE users SET password_hash = ? WHERE id = ?", "another", erika.id)
        tx.run("DELETE FROM sessions WHERE user_id = ?", erika.id)

    outcome = overlap(
        service.db,
        change,
        lambda tx: sessions.open_session(tx, service.vault, verified, hours=1, actor=Actor("anybody")),
    )
    assert outcome.lock == "users"
    assert isinstance(outcome.second, Unauthorized)
