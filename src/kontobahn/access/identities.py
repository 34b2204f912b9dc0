"""Accounts of people at the identity provider: who comes in with one, and with which role.

Somebody is found by issuer and subject alone. An account is linked by the person, signed in here; by an invitation; or, if the
operator has decided so, by an e-mail address that the provider has verified.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from kontobahn.access import audit, invitations, organizations, sessions, users
from kontobahn.access.audit import Actor
from kontobahn.access.principal import ROLES, ClientRole, Principal
from kontobahn.access.users import User
from kontobahn.db import Table, Tx
from kontobahn.errors import Conflict, Forbidden, Unauthorized
from kontobahn.ids import new_id
from kontobahn.vault import Vault

# The author of what follows from the provider's word, in the audit log.
PROVIDER = "identity provider"
UNKNOWN = (
    "Nobody here has this account yet. Sign in with your password and link the account on your profile, or ask for an"
    " invitation."
)
WITHOUT_ROLE = "This account has no role here, or no longer. Ask whoever looks after your accounts."


class Identity(NamedTuple):
    organization_id: str
    id: str
    user_id: str
    issuer: str
    subject: str
    # The name that the person knows the account by.
    label: str
    created_at: int
    last_used_at: int | None


_IDENTITIES = Table("user_identities", Identity)


class Shown(NamedTuple):
    """Somebody, as the provider has just described them."""

    issuer: str
    subject: str
    # Only an address that the provider has verified; otherwise empty.
    email: str
    name: str
    label: str
    # The values of the claim that roles follow from.
    groups: tuple[str, ...]
    authenticated_at: int | None
    with_second_factor: bool


class Admission(NamedTuple):
    """The rules of this installation for whom it does not know yet, and for roles; all of them for one organisation."""

    organization_id: str = ""
    new_people: bool = False
    link_by_email: bool = False
    # Empty if people here decide about roles.
    roles: Mapping[str, ClientRole] = {}

    def role_of(self, shown: Shown) -> ClientRole | None:
        """The highest role that the provider gives; None if it gives none."""
        given = [self.roles[group] for group in shown.groups if group in self.roles]
        return max(given, key=ROLES.index, default=None)


def of_user(tx: Tx, organization_id: str, user_id: str) -> list[Identity]:
    return _IDENTITIES.all(
        tx, "organization_id = ? AND user_id = ? ORDER BY created_at, id", organization_id, user_id
    )  # fmt: skip


def has_one(tx: Tx, user: User, issuer: str) -> bool:
    return any(one.issuer == issuer for one in of_user(tx, user.organization_id, user.id))


def by_subject(tx: Tx, issuer: str, subject: str) -> Identity | None:
    return _IDENTITIES.one(tx, "issuer = ? AND subject = ?", issuer, subject)


def check_same(tx: Tx, user: User, shown: Shown) -> None:
    """Raises Unauthorized unless this is the person's own account."""
    found = by_subject(tx, shown.issuer, shown.subject)
    if found is None or (found.organization_id, found.user_id) != (user.organization_id, user.id):
        raise Unauthorized("This is not the account that is linked to you.")
    _IDENTITIES.update(tx, found, last_used_at=tx.now)


# --- Coming in


def enter(tx: Tx, admission: Admission, shown: Shown, actor: Actor) -> User | None:
    """Returns the user that somebody from the provider is, with the role that they have now.

    None for a person from whom the provider has withdrawn every role: that is written, so it is not raised. Raises Forbidden
    for somebody who is nobody here.
    """
    by_provider = actor._replace(name=PROVIDER)
    identity = by_subject(tx, shown.issuer, shown.subject)
    if identity is None:
        user = _link_by_email(tx, admission, shown, by_provider) or _add(tx, admission, shown, by_provider)
    else:
        _IDENTITIES.update(tx, identity, last_used_at=tx.now, label=shown.label)
        user = users.by_id(tx, identity.organization_id, identity.user_id)
    return _with_role(tx, admission, shown, user, by_provider)


def accept_invitation(tx: Tx, vault: Vault, admission: Admission, token: str, shown: Shown, actor: Actor) -> User:
    """Makes the invited person a user who signs in at the provider, and has no password."""
    if by_subject(tx, shown.issuer, shown.subject) is not None:
        raise Conflict("This account belongs to somebody here already. Sign in with it to accept the invitation.")
    email = invitations.find_pending(tx, vault, token).email
    user = invitations.accept(tx, vault, token, name=shown.name or email, password_hash="", actor=actor)
    _insert(tx, user, shown, actor, by="invitation")
    decided = _with_role(tx, admission, shown, user, actor._replace(name=PROVIDER))
    if decided is None:
        raise Forbidden(WITHOUT_ROLE)
    return decided


def _link_by_email(tx: Tx, admission: Admission, shown: Shown, actor: Actor) -> User | None:
    if not admission.link_by_email or not shown.email:
        return None
    known = users.by_email(tx, shown.email)
    if known is None or known[0].organization_id != admission.organization_id:
        return None
    # An address that was given to somebody new at the provider must not open the account of whoever had it before.
    if has_one(tx, known[0], shown.issuer):
        raise Forbidden(UNKNOWN, operator="the person with this e-mail address has another account at the provider")
    _insert(tx, known[0], shown, actor, by="verified e-mail address")
    return known[0]


def _add(tx: Tx, admission: Admission, shown: Shown, actor: Actor) -> User:
    if not admission.new_people:
        raise Forbidden(UNKNOWN)
    if not shown.email:
        raise Forbidden(
            "The identity provider does not say that your e-mail address is verified, so no account was made for you here."
        )
    role = admission.role_of(shown)
    if admission.roles and role is None:
        raise Forbidden(WITHOUT_ROLE)
    if not organizations.exists(tx, admission.organization_id):
        raise Forbidden(UNKNOWN, operator="the setting oidc_organization names no organisation")
    try:
        user = users.create(
            tx, admission.organization_id,
            email=shown.email, name=shown.name or shown.email, role=role or "read_only", password_hash="", actor=actor,
        )  # fmt: skip
    except Conflict:
        raise Forbidden(UNKNOWN, operator="somebody has this e-mail address, and the account is not linked") from None
    _insert(tx, user, shown, actor, by="new person")
    return user


def _with_role(tx: Tx, admission: Admission, shown: Shown, user: User, actor: Actor) -> User | None:
    """Gives the person the role that the provider says. An owner stays one, so that nobody is locked out by a change elsewhere."""
    if not admission.roles or user.organization_id != admission.organization_id:
        return user
    users.lock(tx, user.organization_id)
    user = users.by_id(tx, user.organization_id, user.id)
    if user.role == "owner":
        return user
    given = admission.role_of(shown)
    if user.role != (given or "read_only"):
        user = users.set_role(tx, user, given or "read_only", actor)
    if given is not None:
        return user
    sessions.end_all(tx, user.organization_id, user.id)
    audit.record(tx, user.organization_id, actor, "session.refuse", user.id, reason="no role at the identity provider")
    return None


# --- Linking


def link(tx: Tx, user: User, shown: Shown, actor: Actor) -> None:
    """Links an account to the person who is signed in here and has just signed in there."""
    if has_one(tx, user, shown.issuer):
        raise Conflict("An account is linked to you already. Unlink it first.")
    _insert(tx, user, shown, actor, by="person")


def unlink(tx: Tx, principal: Principal, identity_id: str, issuer: str, actor: Actor) -> Identity:
    """Ends the link of one of the caller's own accounts, and the sessions that were opened with it but the one that asks."""
    user_id = principal.user_id or ""
    tx.lock("user_factors", principal.organization_id, user_id)
    mine = of_user(tx, principal.organization_id, user_id)
    found = next((one for one in mine if one.id == identity_id), None)
    if found is None:
        raise principal.missing("Account")
    # One of an earlier provider opens nothing any more.
    if found.issuer == issuer and users.ways_in(tx, principal.organization_id, user_id, issuer) == 1:
        raise Conflict("You could not sign in any more without this account. Set a password or a passkey first.")
    tx.run("DELETE FROM user_identities WHERE organization_id = ? AND id = ?", principal.organization_id, found.id)
    ended = sessions.end_of_provider(tx, principal.organization_id, user_id, principal.session_id)
    users.note_ways_changed(tx, principal.organization_id, user_id)
    audit.record(
        tx, principal.organization_id, actor, "identity.unlink", user_id, account=found.label, sessions_ended=ended
    )
    return found


def _insert(tx: Tx, user: User, shown: Shown, actor: Actor, *, by: str) -> None:
    inserted = tx.run(
        f"INSERT INTO user_identities ({_IDENTITIES.columns}) VALUES (?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING",
        *Identity(
            user.organization_id, new_id(), user.id, shown.issuer, shown.subject, shown.label, tx.now, tx.now
        ),
    )  # fmt: skip
    if not inserted:
        raise Conflict("This account is linked to somebody already.")
    audit.record(tx, user.organization_id, actor, "identity.link", user.id, account=shown.label, by=by)
