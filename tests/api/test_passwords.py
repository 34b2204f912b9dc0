"""Passwords: changed by the person, or set anew through a link; what ends with the old one, and what is logged."""

from __future__ import annotations

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest

from kontobahn.access import audit
from kontobahn.db import Tx
from tests.harness import PASSWORD, Organization, Service
from tests.spec_pages import on_sqlite

ERIKA = "erika@muster.example"
NEW = "another horse battery"
SAME_ID = {"x-request-id": "fixed"}


@pytest.fixture
def mine(service: Service) -> Organization:
    return service.organization()


def sign_in(service: Service, password: str) -> int:
    return service.post("/v2/auth/sessions", json={"email": ERIKA, "password": password}).status_code


def change(service: Service, who: str, old: str, new: str = NEW) -> httpx.Response:
    return service.post("/v2/auth/password", who, json={"old_password": old, "new_password": new})


def reset(service: Service, token: str, password: str = NEW, **options: Any) -> httpx.Response:
    return service.post("/v2/auth/password/reset", json={"token": token, "password": password}, **options)


def link_for(service: Service, who: str, user_id: str) -> httpx.Response:
    return service.post(f"/v2/auth/users/{user_id}/password-link", who)


def test_a_changed_password_ends_the_other_sessions(service: Service, mine: Organization) -> None:
    user = service.user(mine, ERIKA)
    here, there = service.session(ERIKA), service.session(ERIKA)
    wrong = change(service, here, "not the password")
    assert (wrong.status_code, wrong.json()["field"]) == (403, "old_password")
    assert change(service, here, PASSWORD, "short").status_code == 400
    assert sign_in(service, PASSWORD) == 201
    open_link = link_for(service, here, user.id).json()["data"]["token"]
    done = change(service, here, PASSWORD)
    assert done.json() == {"data": {"user_id": user.id, "sessions_ended": 2}}
    service.forget_callers()
    assert service.get("/v2/auth/users", there).status_code == 401
    assert service.get("/v2/auth/users", here).status_code == 200
    assert (sign_in(service, PASSWORD), sign_in(service, NEW)) == (401, 201)
    assert reset(service, open_link).status_code == 404, "a link made before is no longer valid"
    logged = service.db.read_now(audit.entries, mine.id)
    assert [entry.actor for entry in logged if entry.action == "user.change_password"] == [f"user:{user.id}"]
    assert change(service, mine.key, PASSWORD).status_code == 403, "a key is nobody's password"


def test_a_link_sets_a_new_password_once(service: Service, mine: Organization) -> None:
    user = service.user(mine, ERIKA)
    session = service.session(ERIKA)
    first = link_for(service, session, user.id).json()["data"]["token"]
    made = link_for(service, session, user.id)
    assert made.status_code == 201
    data = made.json()["data"]
    assert data["link"] == f"{service.base_url}/dashboard/password?token={data['token']}"
    assert data["expires_at"] == "2026-03-03T09:00:00Z"
    assert data["token"] not in service.db.read_now(_dump)
    assert reset(service, data["token"], "short").json()["field"] == "password"
    done = reset(service, data["token"])
    assert (done.status_code, done.json()["data"]["email"]) == (200, ERIKA)
    service.forget_callers()
    assert service.get("/v2/auth/users", session).status_code == 401
    assert (sign_in(service, PASSWORD), sign_in(service, NEW)) == (401, 201)
    # Used, replaced, mistyped, never made: nobody can tell them apart.
    answers = [reset(service, token, headers=SAME_ID) for token in (data["token"], first, "kb_reset_x", "nonsense")]
    assert {(answer.status_code, answer.content) for answer in answers} == {(404, answers[0].content)}
    actions = [entry.action for entry in service.db.read_now(audit.entries, mine.id)]
    assert actions.count("password_reset.create") == 2
    assert actions.count("password_reset.use") == 1


def test_a_link_expires_and_two_uses_at_once_are_one(service: Service, mine: Organization) -> None:
    user = service.user(mine, ERIKA, role="member")
    late = link_for(service, mine.key, user.id).json()["data"]["token"]
    service.clock.advance(seconds=24 * 3600)
    assert reset(service, late).status_code == 404
    token = link_for(service, mine.key, user.id).json()["data"]["token"]
    with ThreadPoolExecutor(4) as threads:
        passwords = [f"{number} horses battery" for number in range(4)]
        answers = list(threads.map(lambda password: reset(service, token, password).status_code, passwords))
    assert sorted(answers) == [200, 404, 404, 404]
    assert sign_in(service, passwords[answers.index(200)]) == 201


@on_sqlite
def test_nobody_makes_a_link_for_somebody_above_them(service: Service, mine: Organization) -> None:
    owner = service.user(mine, ERIKA)
    member = service.user(mine, "mia@muster.example", role="member")
    assert link_for(service, mine.key, owner.id).status_code == 403, "the key is an admin's"
    assert link_for(service, mine.key, member.id).status_code == 201
    assert link_for(service, service.session(member.email), member.id).status_code == 403
    assert link_for(service, service.session(ERIKA), owner.id).status_code == 201


def _dump(tx: Tx) -> str:
    return repr(tx.all("SELECT * FROM password_resets")) + repr(tx.all("SELECT * FROM audit_log"))


def test_an_installation_hashes_slowly() -> None:
    """The tests' own hasher is quick; this asks a process without it."""
    code = "from kontobahn.access import users; print(users.hash_password('correct horse battery'))"
    made = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert made.startswith("$argon2id$v=19$m=65536,t=3,p=4$")
