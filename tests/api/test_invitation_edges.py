"""The edges of invitations: to whom, until when, and what two organisations know of each other's."""

from __future__ import annotations

from typing import Any

import pytest

from kontobahn.access import audit, invitations, users
from kontobahn.access.audit import Actor
from kontobahn.access.invitations import Invitation, NewInvitation
from kontobahn.access.principal import Principal, Role
from kontobahn.errors import Conflict, Forbidden, NotFound
from tests.harness import Organization, Service

# What both engines do alike is tried on one: the statements are those of the other tests of invitations.
pytestmark = pytest.mark.parametrize("engine", ["sqlite"], indirect=True)
ACTOR = Actor("test")
MAX = "max@muster.example"


class Inviting:
    def __init__(self, service: Service, owner: Organization, role: Role = "owner") -> None:
        self.service, self.owner = service, owner
        self.principal = Principal(owner.id, role, (owner.id,))

    def invite(self, email: str = MAX, role: Role = "member", days: int = 7) -> NewInvitation:
        return self.service.db.write_now(
            invitations.create, self.service.vault, self.principal, email=email, role=role, days=days, actor=ACTOR
        )

    def revoke(self, invitation_id: str) -> Invitation:
        return self.service.db.write_now(invitations.revoke, self.principal, invitation_id, ACTOR)

    def accept(self, secret: str) -> Any:
        return self.service.db.write_now(
            invitations.accept, self.service.vault, secret, name="Max", password_hash="x", actor=ACTOR
        )

    def told(self) -> list[str]:
        entries = self.service.db.read_now(audit.entries, self.owner.id)
        return [entry.action for entry in entries if entry.action.startswith("invitation.")]


@pytest.fixture
def mine(service: Service) -> Inviting:
    return Inviting(service, service.organization())


def test_an_invitation_ends_at_its_instant(service: Service, mine: Inviting) -> None:
    first, other = mine.invite(), mine.invite("eva@muster.example")
    assert first.invitation.expires_at - first.invitation.created_at == 7 * 86_400 * 1_000_000
    service.clock.advance(seconds=7 * 86_400 - 1)
    with pytest.raises(Conflict):
        mine.invite()
    assert mine.accept(other.secret).email == "eva@muster.example"
    service.clock.advance(seconds=1)
    with pytest.raises(Conflict, match="expired"):
        mine.accept(first.secret)
    mine.accept(mine.invite().secret)
    with pytest.raises(Conflict, match="belongs to the organisation"):
        mine.invite()


def test_organisations_know_nothing_of_each_other_s_invitations(service: Service, mine: Inviting) -> None:
    theirs = Inviting(service, service.organization("Fremde GmbH"))
    sent, also = mine.invite(), theirs.invite()
    assert sent.invitation.id != also.invitation.id
    with pytest.raises(NotFound):
        theirs.revoke(sent.invitation.id)
    assert mine.revoke(sent.invitation.id).status == "revoked"
    assert [item.status for item in service.db.read_now(invitations.listing, theirs.owner.id)] == ["pending"]
    user = theirs.accept(also.secret)
    assert (user.organization_id, user.role) == (theirs.owner.id, "member")
    with pytest.raises(Conflict, match="cannot be accepted"):
        mine.accept(mine.invite().secret)
    assert service.db.read_now(users.listing, mine.owner.id) == []


def test_an_invitation_is_settled_once(service: Service, mine: Inviting) -> None:
    taken, revoked = mine.invite(), mine.invite("eva@muster.example")
    mine.accept(taken.secret)
    with pytest.raises(Conflict, match="accepted"):
        mine.accept(taken.secret)
    with pytest.raises(Conflict, match="already been accepted"):
        mine.revoke(taken.invitation.id)
    first = mine.revoke(revoked.invitation.id)
    service.clock.advance(seconds=5)
    assert mine.revoke(revoked.invitation.id) == first
    with pytest.raises(Conflict, match="withdrawn"):
        mine.accept(revoked.secret)
    with pytest.raises(NotFound):
        mine.accept("kb_inv_unknown")
    assert sorted(mine.told()) == [
        "invitation.accept", "invitation.create", "invitation.create", "invitation.revoke",
    ]  # fmt: skip
    assert {item.settled_at for item in service.db.read_now(invitations.listing, mine.owner.id)} == {first.settled_at}


def test_only_an_owner_invites_an_owner(service: Service, mine: Inviting) -> None:
    admin = Inviting(service, mine.owner, "admin")
    with pytest.raises(Forbidden):
        admin.invite(role="owner")
    assert admin.invite(role="admin").invitation.role == "admin"
    assert mine.invite("eva@muster.example", role="owner").invitation.role == "owner"
