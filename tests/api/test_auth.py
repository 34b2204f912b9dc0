"""/v2/auth/: sessions, invitations and users, and the log of all of it."""

from __future__ import annotations

import pytest

from kontobahn.access import audit, sessions
from kontobahn.db import Tx
from tests.harness import PASSWORD, Organization, Service

ERIKA = "erika@muster.example"
UNKNOWN = "0193b2a0-0000-7000-8000-00000000abcd"
SAME_ID = {"x-request-id": "fixed"}


@pytest.fixture
def mine(service: Service) -> Organization:
    return service.organization()


def actions(service: Service, organization: Organization) -> list[str]:
    return [entry.action for entry in service.db.read_now(audit.entries, organization.id)]


def test_signing_in_gives_a_token_that_works_until_it_ends(service: Service, mine: Organization) -> None:
    user = service.user(mine, ERIKA)
    answer = service.post("/v2/auth/sessions", json={"email": " Erika@MUSTER.example", "password": PASSWORD})
    assert answer.status_code == 400  # a blank belongs to no address
    answer = service.post("/v2/auth/sessions", json={"email": "Erika@MUSTER.example", "password": PASSWORD})
    assert answer.status_code == 201
    data = answer.json()["data"]
    assert data["user"]["id"] == user.id
    assert data["expires_at"] == "2026-03-02T21:00:00Z"
    listed = service.get("/v2/auth/sessions", data["token"]).json()["data"]
    assert [(item["id"], item["current"]) for item in listed] == [(data["id"], True)]
    assert service.get("/v2/auth/users", data["token"]).json()["data"][0]["email"] == ERIKA
    service.clock.advance(seconds=12 * 3600)
    ended = service.get("/v2/auth/users", data["token"])
    assert ended.status_code == 401
    assert "ended" in ended.json()["error"]


@pytest.mark.either_engine
def test_a_wrong_password_and_an_unknown_address_look_the_same(service: Service, mine: Organization) -> None:
    service.user(mine, ERIKA)
    wrong = service.post("/v2/auth/sessions", json={"email": ERIKA, "password": "x"}, headers=SAME_ID)
    unknown = service.post("/v2/auth/sessions", json={"email": "a@b.de", "password": "x"}, headers=SAME_ID)
    assert wrong.status_code == unknown.status_code == 401
    assert wrong.content == unknown.content


def test_a_session_can_be_ended_by_its_owner_alone(service: Service, mine: Organization) -> None:
    service.user(mine, ERIKA)
    service.user(mine, "max@muster.example", role="admin")
    erika, maxi = service.session(ERIKA), service.session("max@muster.example")
    session_id = service.get("/v2/auth/sessions", erika).json()["data"][0]["id"]
    foreign = service.request("DELETE", f"/v2/auth/sessions/{session_id}", maxi, headers=SAME_ID)
    unknown = service.request("DELETE", f"/v2/auth/sessions/{UNKNOWN}", maxi, headers=SAME_ID)
    assert foreign.status_code == 404
    assert foreign.content == unknown.content
    done = service.request("DELETE", f"/v2/auth/sessions/{session_id}", erika)
    assert done.json() == {"data": {"id": session_id, "removed": True}}
    service.forget_callers()
    assert service.get("/v2/auth/users", erika).status_code == 401
    assert "session.end" in actions(service, mine)


def test_an_invited_person_joins_with_the_role_offered(service: Service, mine: Organization) -> None:
    invited = service.post("/v2/auth/invitations", mine.key, json={"email": "Max@muster.example", "role": "admin"})
    assert invited.status_code == 201
    invitation = invited.json()["data"]
    assert (invitation["email"], invitation["status"]) == ("max@muster.example", "pending")
    body = {"token": invitation["token"], "name": "Max Muster", "password": PASSWORD}
    joined = service.post("/v2/auth/invitations/accept", json=body)
    assert joined.status_code == 201
    assert joined.json()["data"]["role"] == "admin"
    listed = service.get("/v2/auth/invitations", mine.key).json()["data"]
    assert [(item["status"], "token" in item) for item in listed] == [("accepted", False)]
    assert service.session("max@muster.example")
    again = service.post("/v2/auth/invitations/accept", json=body)
    assert again.status_code == 409
    assert actions(service, mine)[-4:] == ["invitation.create", "user.create", "invitation.accept", "session.create"]


@pytest.mark.either_engine
def test_a_revoked_or_expired_invitation_lets_nobody_in(service: Service, mine: Organization) -> None:
    tokens = []
    for email in ("a@muster.example", "b@muster.example"):
        answer = service.post("/v2/auth/invitations", mine.key, json={"email": email}).json()["data"]
        tokens.append((answer["id"], answer["token"]))
    revoked = service.request("DELETE", f"/v2/auth/invitations/{tokens[0][0]}", mine.key)
    assert revoked.json()["data"]["status"] == "revoked"
    assert service.request("DELETE", f"/v2/auth/invitations/{tokens[0][0]}", mine.key).status_code == 200
    service.clock.advance(seconds=7 * 86400)
    for (_, token), state in zip(tokens, ("withdrawn", "expired"), strict=True):
        body = {"token": token, "name": "X", "password": PASSWORD}
        answer = service.post("/v2/auth/invitations/accept", json=body)
        assert answer.status_code == 409
        assert state in answer.json()["error"]
    assert [user["email"] for user in service.get("/v2/auth/users", mine.key).json()["data"]] == []


@pytest.mark.either_engine
def test_nobody_is_invited_twice_and_no_address_used_twice(service: Service, mine: Organization) -> None:
    other = service.organization("Andere")
    service.user(mine, ERIKA)
    assert service.post("/v2/auth/invitations", mine.key, json={"email": ERIKA}).status_code == 409
    assert service.post("/v2/auth/invitations", mine.key, json={"email": "a@b.de"}).status_code == 201
    assert service.post("/v2/auth/invitations", mine.key, json={"email": "A@b.de"}).status_code == 409
    # Whoever invites is not told whether an address is known elsewhere, nor is who holds the invitation told where it is known.
    invited = service.post("/v2/auth/invitations", other.key, json={"email": ERIKA})
    assert invited.status_code == 201
    body = {"token": invited.json()["data"]["token"], "name": "X", "password": PASSWORD}
    refused = service.post("/v2/auth/invitations/accept", json=body)
    assert refused.status_code == 409
    assert not any(word in refused.json()["error"] for word in ("user", "already", "exist", ERIKA, mine.id))
    assert service.get("/v2/auth/invitations", other.key).json()["data"][0]["status"] == "pending"


def test_an_invitation_ends_with_the_rights_of_who_sent_it(service: Service, mine: Organization) -> None:
    service.user(mine, ERIKA)
    senders = [service.user(mine, f"{name}@muster.example", role="admin") for name in ("max", "mia", "kai")]
    tokens = {}
    for sender in senders:
        body = {"email": f"guest-of-{sender.email}"}
        sent = service.post("/v2/auth/invitations", service.session(sender.email), json=body).json()["data"]
        tokens[sender.email] = sent["token"]
    erika = service.session(ERIKA)
    owner_wanted = service.post("/v2/auth/invitations", erika, json={"email": "boss@muster.example", "role": "owner"})
    removed, demoted, _ = senders
    assert service.request("DELETE", f"/v2/auth/users/{removed.id}", erika).status_code == 200
    assert service.request("PUT", f"/v2/auth/users/{demoted.id}", erika, json={"role": "member"}).status_code == 200
    statuses = {item["email"]: item["status"] for item in service.get("/v2/auth/invitations", erika).json()["data"]}
    assert list(statuses.values()) == ["revoked", "revoked", "pending", "pending"]
    for sender, status in zip(senders, (409, 409, 201), strict=True):
        body = {"token": tokens[sender.email], "name": "X", "password": PASSWORD}
        assert service.post("/v2/auth/invitations/accept", json=body).status_code == status
    # An owner who becomes an admin could invite no owner any more, but anybody else.
    others = service.post("/v2/auth/invitations", erika, json={"email": "staff@muster.example"}).json()["data"]
    service.user(mine, "second@muster.example")
    erikas_id = service.get("/v2/auth/users", erika).json()["data"][0]["id"]
    second = service.session("second@muster.example")
    assert service.request("PUT", f"/v2/auth/users/{erikas_id}", second, json={"role": "admin"}).status_code == 200
    states = {item["id"]: item["status"] for item in service.get("/v2/auth/invitations", second).json()["data"]}
    assert (states[owner_wanted.json()["data"]["id"]], states[others["id"]]) == ("revoked", "pending")
    assert actions(service, mine).count("invitation.revoke") == 3


@pytest.mark.either_engine
def test_an_unknown_invitation_is_404_and_a_short_password_400(service: Service) -> None:
    body = {"token": "kb_inv_nothing", "name": "X", "password": PASSWORD}
    assert service.post("/v2/auth/invitations/accept", json=body).status_code == 404
    short = service.post("/v2/auth/invitations/accept", json={**body, "password": "short"})
    assert short.status_code == 400
    assert short.json()["field"] == "password"


def test_roles_are_changed_by_admins_and_owners_by_owners(service: Service, mine: Organization) -> None:
    owner = service.user(mine, ERIKA)
    admin = service.user(mine, "max@muster.example", role="admin")
    member = service.user(mine, "mia@muster.example", role="member")
    as_owner, as_admin, as_member = (service.session(user.email) for user in (owner, admin, member))

    def change(who: str, user_id: str, role: str) -> int:
        return service.request("PUT", f"/v2/auth/users/{user_id}", who, json={"role": role}).status_code

    assert change(as_member, member.id, "admin") == 403
    assert change(as_admin, member.id, "admin") == 200
    assert change(as_admin, member.id, "owner") == 403
    assert change(as_admin, owner.id, "member") == 403
    assert change(as_owner, owner.id, "member") == 409  # the last owner
    assert change(as_owner, admin.id, "owner") == 200
    assert change(as_owner, owner.id, "member") == 200
    assert change(as_owner, UNKNOWN, "member") in (403, 404)


def test_a_deleted_user_is_out_at_once(service: Service, mine: Organization) -> None:
    owner = service.user(mine, ERIKA)
    member = service.user(mine, "mia@muster.example", role="member")
    as_owner, as_member = service.session(owner.email), service.session(member.email)
    gone = service.request("DELETE", f"/v2/auth/users/{member.id}", as_owner)
    assert gone.json() == {"data": {"id": member.id, "removed": True}}
    service.forget_callers()
    assert service.get("/v2/auth/users", as_member).status_code == 401
    body = {"email": member.email, "password": PASSWORD}
    assert service.post("/v2/auth/sessions", json=body).status_code == 401
    assert service.request("DELETE", f"/v2/auth/users/{owner.id}", as_owner).status_code == 409
    assert service.request("DELETE", f"/v2/auth/users/{member.id}", as_owner).status_code == 404
    assert service.db.read_now(sessions.of_user, mine.id, member.id) == []


def test_an_agency_key_never_manages_its_clients_users(service: Service, mine: Organization) -> None:
    user = service.user(mine, ERIKA)
    agency = service.agency(mine)
    assert service.get("/v2/auth/users", agency.key).json() == {"data": []}
    assert service.request("DELETE", f"/v2/auth/users/{user.id}", agency.key).status_code == 403


def _run(tx: Tx, sql: str) -> None:
    tx.run(sql)


def test_the_audit_log_and_the_statement_cannot_be_changed(service: Service, mine: Organization) -> None:
    for table in ("audit_log", "credit_movements"):
        for statement in (f"DELETE FROM {table}", f"UPDATE {table} SET at = 0"):
            with pytest.raises(Exception, match="append-only"):
                service.db.write_now(_run, statement)
    assert actions(service, mine)[:2] == ["organization.create", "api_key.create"]
