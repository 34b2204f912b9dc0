"""Grants: a person lets an assistant ask in their name, with a preset and no more rights than they have, until it is taken back.

A grant has a code, then pairs of tokens: one to ask with for an hour, one to get the next pair with. They are kept as hashes. A code or
a token for the next pair that comes a second time was stolen from somebody, so the grant ends. It ends as well with the person, with
the person's role, when a password or a second factor of the person is replaced or removed, and when the organisation keeps assistants
out.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
from typing import Literal, NamedTuple

import msgspec

from kontobahn.access import audit, users
from kontobahn.access.audit import SYSTEM, Actor
from kontobahn.access.principal import ROLES, Limits, Principal, Role, Scope
from kontobahn.access.users import User
from kontobahn.clock import DAY, HOUR, MINUTE, SECOND
from kontobahn.db import Table, Tx
from kontobahn.errors import BadRequest, Conflict, Forbidden, Unauthorized
from kontobahn.ids import new_id, new_token
from kontobahn.json_text import encode
from kontobahn.money import amount_text
from kontobahn.sentences import said
from kontobahn.vault import Vault

# The presets: sets of tools, each with those of the one before it, and the rights that they need. To OAuth they are the
# scopes.


Preset = Literal["read", "bookkeeping", "payments"]
PRESETS: tuple[Preset, ...] = ("read", "bookkeeping", "payments")
_READS: tuple[Scope, ...] = ("ledger:read", "banking:read", "payables:read")
_KEEPS_BOOKS: tuple[Scope, ...] = (*_READS, "ledger:write", "payables:write")
# None has `payments`: what an assistant prepares is paid by a person.
SCOPES_OF: dict[Preset, tuple[Scope, ...]] = {
    "read": _READS,
    "bookkeeping": _KEEPS_BOOKS,
    "payments": (*_KEEPS_BOOKS, "banking:write"),
}
_ROLES: dict[Preset, Role] = {"read": "read_only", "bookkeeping": "bookkeeping", "payments": "bookkeeping"}


def find_preset(name: str) -> Preset | None:
    return next((preset for preset in PRESETS if preset == name), None)


def narrower_preset(one: Preset, other: Preset) -> Preset:
    return min(one, other, key=PRESETS.index)


def role_of(preset: Preset, role: Role) -> Role:
    """The role that an assistant has with this preset, for a person of this role: never more than either needs."""
    return min(_ROLES[preset], role, key=ROLES.index)


def allowed_presets(role: Role, asked: Preset) -> list[Preset]:
    """The presets that a person of this role can pass on to an assistant that has asked for one: none is wider than that."""
    return [
        preset
        for preset in PRESETS
        if ROLES.index(_ROLES[preset]) <= ROLES.index(role) and narrower_preset(preset, asked) == preset
    ]


def of_books(scopes: tuple[Scope, ...]) -> tuple[Scope, ...]:
    """Those that are about the books of a client. Banks and received invoices belong to the whole organisation."""
    return tuple(scope for scope in scopes if scope.startswith("ledger:"))


CODE_PREFIX, ACCESS_PREFIX, REFRESH_PREFIX = "kb_code_", "kb_mcp_", "kb_next_"
# A code is fetched by a program at once; a token is stolen for an hour at most; an assistant that is not used for a month is forgotten.
CODE_TIME, ACCESS_TIME, REFRESH_TIME, GRANT_TIME = 5 * MINUTE, HOUR, 30 * DAY, 90 * DAY
KEPT_AFTER_END = 90 * DAY
MAX_GRANTS = 200
_USE_NOTED_EVERY = MINUTE
TokenKind = Literal["code", "access", "refresh"]
EndedBy = Literal["person", "client", "reuse", "mismatch", "user", "role", "ways", "switch"]


class GrantedClient(NamedTuple):
    """A client whose books an assistant may ask about, by the name that the person saw."""

    connection_id: str
    client_id: str
    name: str


class Grant(NamedTuple):
    organization_id: str
    id: str
    user_id: str
    # The person's role then: with another one they decide anew.
    role: Role
    client_id: str
    client_name: str
    redirect_uri: str
    resource: str
    challenge: str
    preset: Preset
    created_at: int
    expires_at: int
    # Set once the code was redeemed; until then there is nothing to list.
    connected_at: int | None
    used_at: int | None
    ended_at: int | None
    ended_by: str | None
    # The version of the person's ways to sign in.
    ways_version: int
    # The clients it is restricted to, as JSON; null for everything. What it may prepare a day, in cents; null without a limit.
    clients: str | None
    daily_limit_minor: int | None

    @property
    def granted_clients(self) -> list[GrantedClient] | None:
        return None if self.clients is None else msgspec.json.decode(self.clients, type=list[GrantedClient])


class Token(NamedTuple):
    organization_id: str
    id: str
    grant_id: str
    kind: TokenKind
    expires_at: int
    # A code or a token for the next pair is used once.
    used_at: int | None


class Asked(NamedTuple):
    """The wish of an assistant that a person decides about."""

    client_id: str
    client_name: str
    redirect_uri: str
    resource: str
    challenge: str
    state: str
    preset: Preset


class Agreed(NamedTuple):
    """The decision of a person who lets an assistant in."""

    preset: Preset
    # None: all books, and the banks and received invoices.
    clients: tuple[GrantedClient, ...] | None = None
    daily_limit_minor: int | None = None


class Pair(NamedTuple):
    access: str
    refresh: str
    seconds: int
    preset: Preset


class Refused(NamedTuple):
    """A refusal in the words of the protocol. It is an answer and no exception: what it ends must be written."""

    error: str
    description: str


class Bearer(NamedTuple):
    principal: Principal
    grant: Grant
    # Its last use was noted long enough ago.
    is_to_be_noted: bool


class Listed(NamedTuple):
    grant: Grant
    person: str


GRANTS = Table("assistants_grants", Grant)
TOKENS = Table("assistants_tokens", Token)
_INVALID = "invalid_grant"


# --- Giving


def give(tx: Tx, vault: Vault, asked: Asked, person: User, agreed: Agreed, actor: Actor) -> str:
    """Writes the grant of a person who has agreed, and returns its code. The caller holds the organisation's lock."""
    if agreed.preset not in allowed_presets(person.role, asked.preset):
        raise Forbidden("Your role does not suffice for that, or the assistant has not asked for it.")
    if agreed.clients is not None and agreed.preset == "payments":
        raise BadRequest("Payments concern the whole company: they need everything.", field="extent")
    if agreed.daily_limit_minor is not None and agreed.daily_limit_minor <= 0:
        raise BadRequest("The field `daily_limit` must be above zero.", field="daily_limit")
    if len(_standing(tx, person.organization_id)) >= MAX_GRANTS:
        raise Conflict(
            said("{number} assistants are connected already. Disconnect some of them first.", number=MAX_GRANTS)
        )
    grant = Grant(
        person.organization_id, new_id(), person.id, person.role, asked.client_id, asked.client_name, asked.redirect_uri,
        asked.resource, asked.challenge, agreed.preset, tx.now, tx.now + GRANT_TIME, None, None, None, None,
        person.ways_version, None if agreed.clients is None else encode(agreed.clients).decode(), agreed.daily_limit_minor,
    )  # fmt: skip
    GRANTS.insert(tx, grant)
    audit.record(
        tx, grant.organization_id, actor, "assistants.connect", grant.id, name=grant.client_name, url=grant.client_id,
        scopes=agreed.preset, clients=", ".join(one.client_id for one in agreed.clients or ()),
        daily_limit="" if agreed.daily_limit_minor is None else amount_text(agreed.daily_limit_minor),
    )  # fmt: skip
    return _make_token(tx, vault, grant, "code", CODE_TIME)


def _make_token(tx: Tx, vault: Vault, grant: Grant, kind: TokenKind, time: int) -> str:
    secret = new_token({"code": CODE_PREFIX, "access": ACCESS_PREFIX, "refresh": REFRESH_PREFIX}[kind])
    expires_at = min(tx.now + time, grant.expires_at)
    token = Token(grant.organization_id, new_id(), grant.id, kind, expires_at, None)
    TOKENS.insert(tx, token, token_hash=vault.token_hash(secret))
    return secret


def _make_pair(tx: Tx, vault: Vault, grant: Grant) -> Pair:
    seconds = min(ACCESS_TIME, grant.expires_at - tx.now) // SECOND
    bearer = _make_token(tx, vault, grant, "access", ACCESS_TIME)
    return Pair(bearer, _make_token(tx, vault, grant, "refresh", REFRESH_TIME), seconds, grant.preset)


# --- Codes and tokens for the next pair


def redeem(
    tx: Tx, vault: Vault, *, code: str, client_id: str, redirect_uri: str, verifier: str, resource: str
) -> Pair | Refused:
    """Returns the first pair for a code. Whoever has a code but not what belongs to it has spent it."""
    found = _take(tx, vault, "code", code)
    if isinstance(found, Refused):
        return found
    token, grant = found
    reason = _mismatch(grant, client_id, resource) or (
        "The redirect_uri is not the one that was asked with." if redirect_uri != grant.redirect_uri
        else "" if _is_proven(grant.challenge, verifier)
        else "The code_verifier does not belong to the code_challenge."
    )  # fmt: skip
    if reason:
        end(tx, grant, SYSTEM, "mismatch")
        return Refused(_INVALID, reason)
    TOKENS.update(tx, token, used_at=tx.now)
    return _make_pair(tx, vault, GRANTS.update(tx, grant, connected_at=tx.now))


def renew(tx: Tx, vault: Vault, *, token: str, client_id: str, resource: str) -> Pair | Refused:
    """Returns the next pair. The one before is over."""
    found = _take(tx, vault, "refresh", token)
    if isinstance(found, Refused):
        return found
    used, grant = found
    reason = _mismatch(grant, client_id, resource)
    if reason:
        end(tx, grant, SYSTEM, "mismatch")
        return Refused(_INVALID, reason)
    TOKENS.update(tx, used, used_at=tx.now)
    tx.run(
        "DELETE FROM assistants_tokens WHERE organization_id = ? AND grant_id = ? AND kind = 'access'",
        grant.organization_id, grant.id,
    )  # fmt: skip
    return _make_pair(tx, vault, grant)


def _take(tx: Tx, vault: Vault, kind: TokenKind, secret: str) -> tuple[Token, Grant] | Refused:
    """Finds an unused code or token of a grant that stands, under the lock of its grant: of two who use it, one does."""
    wanted = "token_hash = ? AND kind = ?", vault.token_hash(secret), kind
    known = TOKENS.one(tx, *wanted)
    if known is None:
        return Refused(_INVALID, "It is not known, or it has ended.")
    tx.lock("assistants_grant", known.grant_id)
    token = TOKENS.one(tx, *wanted)
    grant = GRANTS.one(tx, "organization_id = ? AND id = ?", known.organization_id, known.grant_id)
    if token is None or grant is None or grant.ended_at is not None:
        return Refused(_INVALID, "It has ended. Connect the assistant again.")
    if token.used_at is not None:
        end(tx, grant, SYSTEM, "reuse")
        return Refused(_INVALID, "It was used before, so the connection has ended. Connect the assistant again.")
    if token.expires_at <= tx.now:
        return Refused(_INVALID, "It has expired. Connect the assistant again.")
    why = _over(tx, grant)
    if why is not None:
        end(tx, grant, SYSTEM, why)
        return Refused(_INVALID, "The person's rights have changed. Connect the assistant again.")
    return token, grant


def _mismatch(grant: Grant, client_id: str, resource: str) -> str:
    if not hmac.compare_digest(grant.client_id.encode(), client_id.encode()):
        return "It belongs to another client."
    return "" if resource == grant.resource else "It belongs to another resource."


def _is_proven(challenge: str, verifier: str) -> bool:
    digest = hashlib.sha256(verifier.encode()).digest()
    return hmac.compare_digest(base64.urlsafe_b64encode(digest).rstrip(b"="), challenge.encode())


# --- Asking


def authenticate(tx: Tx, token_hash: str, resource: str) -> Bearer:
    """Returns who asks with a token. Raises Unauthorized if it, its grant or the person's rights have ended."""
    token = TOKENS.one(tx, "token_hash = ? AND kind = 'access'", token_hash)
    grant = None
    if token is not None and token.expires_at > tx.now:
        grant = GRANTS.one(tx, "organization_id = ? AND id = ?", token.organization_id, token.grant_id)
    if grant is None or grant.ended_at is not None or _over(tx, grant) is not None:
        raise Unauthorized("This token has ended. Get the next one, or connect the assistant again.")
    if grant.resource != resource:
        raise Unauthorized("This token is for another resource.")
    clients, scopes = grant.granted_clients, SCOPES_OF[grant.preset]
    principal = Principal(
        organization_id=grant.organization_id,
        role=role_of(grant.preset, grant.role),
        scope=(grant.organization_id,),
        user_id=grant.user_id,
        scopes=scopes if clients is None else of_books(scopes),
        limits=Limits(daily_minor=grant.daily_limit_minor),
        clients=None if clients is None else tuple((one.connection_id, one.client_id) for one in clients),
        grant_id=grant.id,
        assistant=grant.client_name,
    )
    return Bearer(principal, grant, tx.now - (grant.used_at or 0) >= _USE_NOTED_EVERY)


def note_use(tx: Tx, grant: Grant) -> None:
    tx.run(
        "UPDATE assistants_grants SET used_at = ? WHERE organization_id = ? AND id = ?",
        tx.now, grant.organization_id, grant.id,
    )  # fmt: skip


def _over(tx: Tx, grant: Grant) -> EndedBy | None:
    """Returns what the grant has ended with: the person, the person's role, or what the person signed in with."""
    person = users.find(tx, grant.user_id)
    if person is None or person.organization_id != grant.organization_id:
        return "user"
    if person.role != grant.role:
        return "role"
    return None if person.ways_version == grant.ways_version else "ways"


# --- Listing and ending


def listing(tx: Tx, organization_id: str) -> list[Listed]:
    """The assistants that are connected now, the latest first."""
    return [
        Listed(grant, person.name)
        for grant in _standing(tx, organization_id)
        if grant.connected_at is not None and _over(tx, grant) is None and (person := users.find(tx, grant.user_id))
    ]


def names(tx: Tx, organization_id: str) -> dict[str, str]:
    """The person and the assistant of each grant, as the list of requests names them; including those that have ended."""
    rows = GRANTS.all(tx, "organization_id = ? ORDER BY id DESC", organization_id)
    return {row.id: audit.name_of(tx, organization_id, actor_of(row)) for row in rows if row.connected_at is not None}


def actor_names(tx: Tx, organization_id: str) -> dict[str, str]:
    """The same by the actors of the audit log."""
    rows = GRANTS.all(tx, "organization_id = ? ORDER BY id", organization_id)
    return {actor_of(row): audit.name_of(tx, organization_id, actor_of(row)) for row in rows}


def actor_of(grant: Grant) -> str:
    return Principal(grant.organization_id, grant.role, (), user_id=grant.user_id, assistant=grant.client_name).actor


def _standing(tx: Tx, organization_id: str) -> list[Grant]:
    return GRANTS.all(
        tx, "organization_id = ? AND ended_at IS NULL AND expires_at > ? ORDER BY id DESC", organization_id, tx.now
    )


def disconnect(tx: Tx, principal: Principal, grant_id: str, actor: Actor) -> Grant:
    """Ends a grant of one's own, or of anybody for somebody who administers the organisation."""
    grant = GRANTS.one(tx, "organization_id = ? AND id = ?", principal.scope[0], grant_id)
    if grant is None:
        raise principal.missing("Assistant")
    if grant.user_id != principal.user_id and not principal.may("admin"):
        raise Forbidden("Only the person who connected it, or an administrator, may disconnect an assistant.")
    end(tx, grant, actor, "person")
    return grant


def revoke(tx: Tx, vault: Vault, *, token: str, client_id: str) -> None:
    """Ends the grant of a token that its client gives back. Nothing happens for a token that is none of its own."""
    known = TOKENS.one(tx, "token_hash = ?", vault.token_hash(token))
    grant = known and GRANTS.one(tx, "organization_id = ? AND id = ?", known.organization_id, known.grant_id)
    if grant and grant.client_id == client_id:
        end(tx, grant, SYSTEM, "client")


def end(tx: Tx, grant: Grant, actor: Actor, why: EndedBy) -> None:
    ended = tx.run(
        "UPDATE assistants_grants SET ended_at = ?, ended_by = ? WHERE organization_id = ? AND id = ? AND ended_at IS NULL",
        tx.now, why, grant.organization_id, grant.id,
    )  # fmt: skip
    tx.run("DELETE FROM assistants_tokens WHERE organization_id = ? AND grant_id = ?", grant.organization_id, grant.id)
    if ended:
        audit.record(
            tx, grant.organization_id, actor, "assistants.disconnect", grant.id, name=grant.client_name, reason=why
        )


def end_of_organization(tx: Tx, organization_id: str, actor: Actor) -> None:
    for grant in _standing(tx, organization_id):
        end(tx, grant, actor, "switch")


def end_of_user(tx: Tx, organization_id: str, user_id: str, actor: Actor) -> None:
    for grant in _standing(tx, organization_id):
        if grant.user_id == user_id:
            end(tx, grant, actor, "user")


def purge(tx: Tx) -> None:
    """Deletes tokens that have ended, codes that nobody has redeemed, and grants that have long been over."""
    tx.run("DELETE FROM assistants_tokens WHERE expires_at <= ?", tx.now)
    tx.run("DELETE FROM assistants_grants WHERE connected_at IS NULL AND created_at <= ?", tx.now - HOUR)
    tx.run("DELETE FROM assistants_grants WHERE expires_at <= ?", tx.now - KEPT_AFTER_END)
