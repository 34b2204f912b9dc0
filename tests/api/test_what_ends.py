"""Things that somebody made end with them: links, invitations and sessions when their maker or key is deleted, demoted or revoked."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta

import httpx
import pytest

from kontobahn.access import factors, keys
from kontobahn.access.principal import Principal
from kontobahn.clock import SECOND, to_datetime
from tests.dashboard.browsing import Browser
from tests.harness import ACTOR, PASSWORD, Organization, Service

USERS, INVITE = "/v2/auth/users", "/v2/auth/invitations"
NEW = "a password nobody knows"


class House:
    """An organisation with an owner who signs in, an administrator who makes things, and somebody they are made for."""

    def __init__(self, service: Service) -> None:
        self.service = service
        self.organization: Organization = service.organization(role="owner")
        self.member = service.user(self.organization, "member@muster.example", "member")
        self.admin = service.user(self.organization, "admin@muster.example", "admin")
        made = service.db.write_now(
            keys.create, service.vault, self.organization.id, "maker", ACTOR, role="admin", expires_at=None
        )
        self.key_id, self.key = made.key.id, made.secret

    def link(self, by: str) -> str:
        made = self.service.post(f"{USERS}/{self.member.id}/password-link", by)
        assert made.status_code == 201, made.text
        return str(made.json()["data"]["token"])

    def invitation(self, by: str, email: str) -> str:
        made = self.service.post(INVITE, by, json={"email": email})
        assert made.status_code == 201, made.text
        return str(made.json()["data"]["token"])

    def uses_link(self, token: str) -> int:
        return self.service.post("/v2/auth/password/reset", json={"token": token, "password": NEW}).status_code

    def accepts(self, token: str) -> int:
        body = {"token": token, "name": "Neu", "password": NEW}
        return self.service.post(f"{INVITE}/accept", json=body).status_code


@pytest.fixture
def house(service: Service) -> House:
    return House(service)


def delete_admin(house: House) -> None:
    assert house.service.request("DELETE", f"{USERS}/{house.admin.id}", house.organization.key).status_code == 200


def demote_admin(house: House) -> None:
    path, body = f"{USERS}/{house.admin.id}", {"role": "member"}
    assert house.service.request("PUT", path, house.organization.key, json=body).status_code == 200


@pytest.mark.parametrize("end", [delete_admin, demote_admin])
def test_what_a_person_made_ends_with_the_person(house: House, end: Callable[[House], None]) -> None:
    session = house.service.session(house.admin.email)
    link, invitation = house.link(session), house.invitation(session, "neu@muster.example")
    end(house)
    house.service.forget_callers()
    assert (house.uses_link(link), house.accepts(invitation)) == (404, 409)
    assert house.service.get(USERS, session).status_code == 401


def test_what_a_key_made_ends_with_the_key(house: House) -> None:
    link, invitation = house.link(house.key), house.invitation(house.key, "neu@muster.example")
    other = house.invitation(house.organization.key, "andere@muster.example")
    house.service.db.write_now(keys.revoke, house.organization.id, house.key_id, ACTOR)
    assert (house.uses_link(link), house.accepts(invitation)) == (404, 409)
    shown = house.service.get(INVITE, house.organization.key).json()["data"]
    assert [one["status"] for one in shown] == ["revoked", "pending"]
    assert house.accepts(other) == 201


def test_a_password_set_through_a_link_of_a_key_ends_with_the_key(house: House) -> None:
    service, own = house.service, service_session(house, house.admin.email, PASSWORD)
    assert house.uses_link(house.link(house.key)) == 200
    theirs = service_session(house, house.member.email, NEW)
    assert service.get(USERS, theirs).status_code == 200
    service.db.write_now(keys.revoke, house.organization.id, house.key_id, ACTOR)
    service.forget_callers()
    assert service.get(USERS, theirs).status_code == 401
    for password in (NEW, "the password of nobody"):
        assert sign_in(house, house.member.email, password).status_code == 401, "whoever knows it signs in again"
    assert service.get(USERS, own).status_code == 200
    assert ("user.end_password", house.member.id) in logged(house)
    assert house.uses_link(house.link(house.organization.key)) == 200
    assert service.get(USERS, service_session(house, house.member.email, NEW)).status_code == 200


def test_a_password_that_the_person_has_chosen_since_outlives_the_key_of_a_link(house: House) -> None:
    service = house.service
    assert house.uses_link(house.link(house.key)) == 200
    session, chosen = service_session(house, house.member.email, NEW), "a password of my own"
    changed = service.post("/v2/auth/password", session, json={"old_password": NEW, "new_password": chosen})
    assert changed.status_code == 200, changed.text
    service.db.write_now(keys.revoke, house.organization.id, house.key_id, ACTOR)
    service.forget_callers()
    assert service.get(USERS, session).status_code == 200
    assert sign_in(house, house.member.email, chosen).status_code == 201


def test_whoever_revokes_a_key_is_not_locked_out(house: House) -> None:
    token = house.service.post(f"{USERS}/{house.admin.id}/password-link", house.key).json()["data"]["token"]
    assert (house.uses_link(token), house.uses_link(house.link(house.key))) == (200, 200)
    browser = Browser(house.service)
    browser.sign_in(house.admin.email, NEW)
    assert browser.post(f"/dashboard/keys/{house.key_id}/revoke").status_code == 303
    assert browser.get("/dashboard").status_code == 200
    assert sign_in(house, house.admin.email, NEW).status_code == 201
    assert sign_in(house, house.member.email, NEW).status_code == 401


def sign_in(house: House, email: str, password: str) -> httpx.Response:
    return house.service.post("/v2/auth/sessions", json={"email": email, "password": password})


def service_session(house: House, email: str, password: str) -> str:
    opened = sign_in(house, email, password)
    assert opened.status_code == 201, opened.text
    return str(opened.json()["data"]["token"])


def logged(house: House) -> set[tuple[str, str]]:
    return set(house.service.db.read_now(lambda tx: tx.all("SELECT action, subject FROM audit_log")))


def test_what_a_key_made_lasts_no_longer_than_the_key(house: House) -> None:
    link, invitation = house.link(house.key), house.invitation(house.key, "neu@muster.example")
    house.service.db.write_now(
        keys.rotate, house.service.vault, house.organization.id, house.key_id, ACTOR, overlap_seconds=600
    )
    late = house.invitation(house.key, "spaet@muster.example")
    house.service.clock.advance(seconds=601)
    assert (house.uses_link(link), house.accepts(invitation), house.accepts(late)) == (404, 409, 409)


def test_a_link_that_ends_before_its_key_is_not_prolonged(house: House) -> None:
    link, hours = house.link(house.key), house.service.settings.password_reset_hours
    house.service.db.write_now(
        keys.rotate, house.service.vault, house.organization.id, house.key_id, ACTOR, overlap_seconds=hours * 7200
    )
    house.service.clock.advance(seconds=hours * 3600)
    assert house.uses_link(link) == 404


def test_a_link_does_not_rise_with_the_person_it_is_for(house: House) -> None:
    link = house.link(house.key)
    path = f"{USERS}/{house.member.id}"
    assert house.service.request("PUT", path, house.organization.key, json={"role": "owner"}).status_code == 200
    assert house.uses_link(link) == 404


def test_nothing_is_made_in_the_moment_after_a_right_was_lost(house: House) -> None:
    session = house.service.session(house.admin.email)
    assert house.service.get(USERS, session).status_code == 200  # known for a moment now
    house.service.db.write_now(lambda tx: tx.run("UPDATE users SET role = 'member' WHERE id = ?", house.admin.id))
    assert house.service.post(INVITE, session, json={"email": "neu@muster.example"}).status_code == 401
    assert house.service.post(f"{USERS}/{house.member.id}/password-link", session).status_code == 401


# --- Sessions of the API and of browsers


def test_the_cookie_of_a_browser_is_no_token_of_the_api(house: House) -> None:
    browser = Browser(house.service)
    browser.sign_in(house.admin.email)
    assert browser.get("/dashboard").status_code == 200
    answer = house.service.get(USERS, browser.token)
    assert answer.status_code == 401
    assert "browser" in answer.json()["error"]


def test_what_matters_needs_a_confirmation_of_the_last_ten_minutes(house: House) -> None:
    service, session = house.service, house.service.session(house.admin.email)
    service.clock.advance(seconds=600)
    house.invitation(session, "neu@muster.example")
    service.clock.advance(seconds=1)
    paths = (
        ("POST", INVITE, {"email": "andere@muster.example"}), ("PUT", f"{USERS}/{house.member.id}", {"role": "admin"}),
        ("DELETE", f"{USERS}/{house.member.id}", None), ("POST", f"{USERS}/{house.member.id}/password-link", None),
    )  # fmt: skip
    for method, path, body in paths:
        refused = service.request(method, path, session, json=body)
        assert refused.status_code == 403, path
        assert "/v2/auth/sessions/confirm" in refused.json()["message"]
    assert service.get(USERS, session).status_code == 200
    confirm = "/v2/auth/sessions/confirm"
    assert service.post(confirm, session, json={"password": "wrong password!!"}).status_code == 403
    assert service.post(confirm, house.key, json={"password": PASSWORD}).status_code == 403
    confirmed = service.post(confirm, session, json={"password": PASSWORD})
    assert confirmed.status_code == 201, confirmed.text
    until = datetime.fromisoformat(confirmed.json()["data"]["confirmed_until"])
    assert until - to_datetime(service.clock.now()) == timedelta(minutes=10)
    service.forget_callers()
    assert service.get(USERS, session).status_code == 401
    house.invitation(confirmed.json()["data"]["token"], "andere@muster.example")


def test_a_required_second_factor_is_required_of_the_api_too(house: House) -> None:
    service, session = house.service, house.service.session(house.admin.email)
    service.db.write_now(
        lambda tx: tx.run("UPDATE organizations SET second_factor_required = 1 WHERE id = ?", house.organization.id)
    )
    service.forget_callers()
    refused = service.get(USERS, session)
    assert (refused.status_code, "second factor" in refused.json()["error"]) == (403, True)
    body = {"email": house.admin.email, "password": PASSWORD}
    refused = service.post("/v2/auth/sessions", json=body)
    assert (refused.status_code, "requires a second factor" in refused.json()["error"]) == (401, True)
    assert service.get(USERS, house.key).status_code == 200
    secret = factors.new_secret()
    principal = Principal(house.organization.id, "admin", (house.organization.id,), user_id=house.admin.id)
    now = service.clock.now() // SECOND // factors.STEP_SECONDS
    service.db.write_now(factors.add_totp, service.vault, principal, secret, factors.totp(secret, now), "App", ACTOR)
    service.forget_callers()
    assert service.get(USERS, session).status_code == 200
    assert service.post("/v2/auth/sessions", json=body).status_code == 401
