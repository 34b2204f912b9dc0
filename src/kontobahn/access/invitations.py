"""Invitations: how a person joins an organisation. The token is shown once, to the person who invites."""

from __future__ import annotations

from typing import NamedTuple

from kontobahn import mail
from kontobahn.access import audit, client_access, organizations, users
from kontobahn.access.audit import Actor
from kontobahn.access.client_access import ClientAccess
from kontobahn.access.principal import Principal, Role
from kontobahn.access.users import NewPasswordReset, User
from kontobahn.clock import DAY, berlin_datetime
from kontobahn.db import Table, Tx
from kontobahn.errors import Conflict, Forbidden, NotFound
from kontobahn.ids import INVITATION_PREFIX, new_id, new_token
from kontobahn.mail import Mail
from kontobahn.settings import Settings
from kontobahn.vault import Vault


class Invitation(NamedTuple):
    organization_id: str
    id: str
    email: str
    role: Role
    status: str
    invited_by: str | None
    created_at: int
    expires_at: int
    settled_at: int | None
    key_id: str | None

    def state(self, now: int) -> str:
        return "expired" if self.status == "pending" and self.expires_at <= now else self.status


_PAGE = "/dashboard/invitation"
_INVITATIONS = Table("invitations", Invitation)


class NewInvitation(NamedTuple):
    invitation: Invitation
    secret: str


def create(
    tx: Tx, vault: Vault, principal: Principal, *, email: str, role: Role, days: int, actor: Actor
) -> NewInvitation:
    least: Role = "owner" if role == "owner" else "admin"
    expires_at = users.check_maker(tx, principal, least, tx.now + days * DAY)
    tx.lock("invitations", principal.organization_id)
    email = users.normal_email(email)
    if role == "owner" and not principal.may("owner"):
        raise Forbidden("Only an owner may invite an owner.")
    if any(item.email == email and item.state(tx.now) == "pending" for item in listing(tx, principal.organization_id)):
        raise Conflict("There is an open invitation for this e-mail address. Revoke it first.")
    if any(user.email == email for user in users.listing(tx, principal.organization_id)):
        raise Conflict("This person already belongs to the organisation.")
    secret = new_token(INVITATION_PREFIX)
    invitation = Invitation(
        organization_id=principal.organization_id,
        id=new_id(),
        email=email,
        role=role,
        status="pending",
        invited_by=principal.user_id,
        created_at=tx.now,
        expires_at=expires_at,
        settled_at=None,
        key_id=principal.key_id,
    )
    _INVITATIONS.insert(tx, invitation, token_hash=vault.token_hash(secret))
    audit.record(tx, principal.organization_id, actor, "invitation.create", invitation.id, email=email, role=role)
    return NewInvitation(invitation, secret)


def link(base_url: str, secret: str) -> str:
    """The address to hand to the person."""
    return f"{base_url}{_PAGE}/{secret}"


def any_made(tx: Tx, organization_id: str) -> bool:
    return tx.one("SELECT 1 FROM invitations WHERE organization_id = ? LIMIT 1", organization_id) is not None


def listing(tx: Tx, organization_id: str) -> list[Invitation]:
    return _INVITATIONS.all(tx, "organization_id = ? ORDER BY created_at, id", organization_id)


def revoke(tx: Tx, principal: Principal, invitation_id: str, actor: Actor) -> Invitation:
    tx.lock("invitations", principal.organization_id)
    invitation = _INVITATIONS.one(tx, "organization_id = ? AND id = ?", principal.organization_id, invitation_id)
    if invitation is None:
        raise principal.missing("Invitation")
    if invitation.status == "accepted":
        raise Conflict("This invitation has already been accepted. Delete the user instead.")
    if invitation.status == "revoked":
        return invitation
    audit.record(tx, principal.organization_id, actor, "invitation.revoke", invitation_id)
    return _INVITATIONS.update(tx, invitation, status="revoked", settled_at=tx.now)


_ENDED = {
    "accepted": "This invitation was accepted already. Sign in.",
    "revoked": "This invitation was withdrawn. Ask for a new one.",
    "expired": "This invitation has expired. Ask for a new one.",
}


def find_pending(tx: Tx, vault: Vault, token: str) -> Invitation:
    """Returns the invitation of a token. Raises NotFound or Conflict if it cannot be accepted."""
    found = _INVITATIONS.one(tx, "token_hash = ?", vault.token_hash(token))
    if found is None:
        raise NotFound("This invitation is not known. Ask for a new one.")
    state = found.state(tx.now)
    if state != "pending":
        raise Conflict(_ENDED[state])
    return found


def accept(tx: Tx, vault: Vault, token: str, *, name: str, password_hash: str, actor: Actor) -> User:
    """Makes the invited person a user."""
    organization_id = find_pending(tx, vault, token).organization_id
    tx.lock("invitations", organization_id)
    invitation = find_pending(tx, vault, token)
    try:
        user = users.create(
            tx, organization_id,
            email=invitation.email, name=name, role=invitation.role, password_hash=password_hash, actor=actor,
        )  # fmt: skip
    except Conflict:
        # It is not said who else has this address: that may be another organisation.
        raise Conflict(
            "This invitation cannot be accepted. Ask whoever sent it for one to another e-mail address."
        ) from None
    _INVITATIONS.update(tx, invitation, status="accepted", settled_at=tx.now)
    audit.record(tx, organization_id, actor, "invitation.accept", invitation.id, user_id=user.id)
    return user


def join(tx: Tx, vault: Vault, principal: Principal, token: str, actor: Actor) -> ClientAccess:
    """Gives an invited person who is a user of another organisation access to this one."""
    organization_id = find_pending(tx, vault, token).organization_id
    tx.lock("invitations", organization_id)
    invitation = find_pending(tx, vault, token)
    user = users.get(tx, principal, principal.user_id or "")
    if invitation.email != user.email:
        raise Forbidden("This invitation is for another e-mail address than the one you signed in with.")
    if invitation.role == "owner":
        raise Conflict("Only somebody of the organisation can be its owner. Ask for an invitation with another role.")
    made = client_access.give_by_operator(tx, user, organization_id, invitation.role, actor)
    _INVITATIONS.update(tx, invitation, status="accepted", settled_at=tx.now)
    audit.record(tx, organization_id, actor, "invitation.accept", invitation.id, user_id=user.id)
    return made


# Letters to people whose language is not known yet: German first, English below.


MINUTES_BETWEEN_LINKS = 10
_DAY_DE, _DAY_EN = "%d.%m.%Y, %H:%M Uhr", "%d %B %Y, %H:%M"

_INVITED = "Einladung zu {organization} / Invitation to {organization}"
_INVITATION = """\
Guten Tag,

Sie sind eingeladen, bei Kontobahn für {organization} mitzuarbeiten. Mit diesem Link nehmen Sie die Einladung an.
Haben Sie hier noch kein Konto, legen Sie dabei Ihr Passwort fest; sonst melden Sie sich mit Ihrem an:

{link}

Der Link funktioniert einmal und bis {until_de}. Wenn Sie die Einladung nicht erwartet haben, können Sie diese E-Mail ignorieren.

--

Hello,

You are invited to work with {organization} on Kontobahn. Open this link to accept the invitation. If you have no account here
yet, choose a password; otherwise sign in with yours:

{link}

It works once, until {until_en}. If you did not expect this invitation, ignore this mail.
"""

_NEW_PASSWORD = """\
Guten Tag {name},

mit diesem Link legen Sie ein neues Passwort für Kontobahn fest:

{link}

Der Link funktioniert einmal und bis {until_de}. Wenn Sie ihn nicht angefordert haben, können Sie diese E-Mail ignorieren:
Ihr Passwort bleibt, wie es ist.

--

Hello {name},

Open this link to choose a new password for Kontobahn:

{link}

It works once, until {until_en}. If you did not ask for it, ignore this mail: your password stays as it is.
"""


def send_invitation(tx: Tx, vault: Vault, settings: Settings, new: NewInvitation) -> bool:
    """Returns False if there is no mail server, and the link is to be handed over by whoever invites."""
    if not settings.smtp_url:
        return False
    invitation = new.invitation
    name = organizations.get(tx, invitation.organization_id).name
    text = _INVITATION.format(
        organization=name, link=link(settings.base_url, new.secret), **_both(invitation.expires_at)
    )
    mail.put(tx, vault, invitation.organization_id, Mail(invitation.email, _INVITED.format(organization=name), text))
    return True


def send_password_link(tx: Tx, vault: Vault, settings: Settings, new: NewPasswordReset) -> bool:
    """Returns False if there is no mail server, and the link is to be handed over by whoever made it."""
    if not settings.smtp_url:
        return False
    user = new.user
    text = _NEW_PASSWORD.format(
        name=user.name, link=users.reset_link(settings.base_url, new.secret), **_both(new.reset.expires_at)
    )
    mail.put(tx, vault, user.organization_id, Mail(user.email, "Neues Passwort / New password", text))
    return True


def send_requested_link(tx: Tx, vault: Vault, settings: Settings, email: str, actor: Actor) -> None:
    """Sends whoever has this address a link, at most one in ten minutes. Nothing says whether anybody has it."""
    found = users.by_email(tx, users.normal_email(email))
    if found is None or users.has_recent_reset(tx, found[0], minutes=MINUTES_BETWEEN_LINKS):
        return
    user, _ = found
    new = users.create_reset(tx, vault, user, hours=settings.password_reset_hours, actor=actor)
    send_password_link(tx, vault, settings, new)


def _both(until: int) -> dict[str, str]:
    moment = berlin_datetime(until)
    return {"until_de": moment.strftime(_DAY_DE), "until_en": moment.strftime(_DAY_EN)}
