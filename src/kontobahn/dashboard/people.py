"""The person at the browser: the user of a session, and how they want the dashboard to look."""

from __future__ import annotations

from typing import NamedTuple

from kontobahn.access import client_access, factors, keys, organizations, sessions, users
from kontobahn.access.client_access import Client
from kontobahn.access.organizations import Organization
from kontobahn.access.principal import Principal, Role
from kontobahn.access.sessions import Session
from kontobahn.access.users import User
from kontobahn.assistants import grants
from kontobahn.banking.connections import store as connections
from kontobahn.banking.provider import SANDBOX
from kontobahn.dashboard import todo
from kontobahn.dashboard.declare import Page
from kontobahn.dashboard.todo import Attention
from kontobahn.dashboard.words import N_
from kontobahn.db import Tx
from kontobahn.errors import Unauthorized

THEMES = ("light", "dark")
ROLE_NAMES: dict[Role, str] = {
    "read_only": N_("read only"),
    "bookkeeping": N_("bookkeeping"),
    "member": N_("bookkeeping and payments"),
    "admin": N_("administration"),
    "owner": N_("owner"),
}


class Preferences(NamedTuple):
    """None follows the browser."""

    language: str | None = None
    theme: str | None = None
    shortcuts: int = 1


class Person(NamedTuple):
    session: Session
    principal: Principal
    user: User
    organization: Organization
    preferences: Preferences
    # Matters that need somebody, for the line at the top of each page.
    attention: list[Attention]
    # The organisation that is looked at has an account at the sandbox bank: every page says so.
    has_sandbox: bool
    # The person's organisation, or the one that is looked at, requires a second factor, and this person has none yet.
    must_add_factor: bool
    # The organisation whose bank accounts, books and invoices are looked at: the person's own organisation, or a client of an agency.
    looking_at: Organization
    clients: list[Client]
    # The person in the organisation that is looked at: with the role there, and nothing beyond it in reach.
    acting: Principal

    def acting_as(self, *, own: bool) -> Principal:
        """Returns the person on a page of their own organisation, or on one of the organisation that is looked at."""
        return self.principal if own else self.acting

    def may_use(self, page: Page) -> bool:
        return self.acting_as(own=page.own).may(page.role)


def find(tx: Tx, token_hash: str, wanted: str = "") -> Person:
    """Returns the person of a session, looking at the wanted organisation. Raises Unauthorized if the session has ended."""
    session, principal = sessions.find(tx, token_hash, tx.now)
    if session.idle_until is None:
        raise Unauthorized("A session of the API is not one of a browser.")
    clients = client_access.of_user(tx, principal.organization_id, session.user_id)
    client = next((client for client in clients if client.id == wanted), None)
    acting = _acting(principal, client)
    looking_at = organizations.get(tx, acting.scope[0])
    return Person(
        session=session,
        principal=principal,
        user=users.get(tx, principal, session.user_id),
        organization=organizations.get(tx, principal.organization_id),
        preferences=preferences(tx, principal),
        attention=todo.find_attention(tx, looking_at.id),
        has_sandbox=connections.has_any_at(tx, looking_at.id, SANDBOX),
        must_add_factor=not session.provider_factor
        and any(factors.is_required(tx, one) for one in {principal.organization_id, looking_at.id})
        and not factors.of_user(tx, principal.organization_id, session.user_id),
        looking_at=looking_at,
        clients=clients,
        acting=acting,
    )


def look_at(person: Person, organization_id: str) -> Person:
    """Returns the person with the role that they have in another organisation of theirs; what else they see there is not known yet."""
    client = next((client for client in person.clients if client.id == organization_id), None)
    return person._replace(acting=_acting(person.principal, client))


def _acting(principal: Principal, client: Client | None) -> Principal:
    return principal if client is None else principal._replace(role=client.role, scope=(client.id,))


def preferences(tx: Tx, principal: Principal) -> Preferences:
    row = tx.one(
        "SELECT language, theme, shortcuts FROM dashboard_preferences WHERE organization_id = ? AND user_id = ?",
        principal.organization_id, principal.user_id,
    )  # fmt: skip
    return Preferences(*row) if row else Preferences()


def language(tx: Tx, user: User) -> str | None:
    """The language that the person has chosen, for what reaches them outside a page."""
    row = tx.one(
        "SELECT language FROM dashboard_preferences WHERE organization_id = ? AND user_id = ?",
        user.organization_id, user.id,
    )  # fmt: skip
    return row[0] if row else None


def save_preferences(tx: Tx, principal: Principal, wanted: Preferences) -> None:
    tx.run(
        "INSERT INTO dashboard_preferences (organization_id, user_id, language, theme, shortcuts) VALUES (?, ?, ?, ?, ?)"
        " ON CONFLICT (organization_id, user_id) DO UPDATE SET language = excluded.language, theme = excluded.theme,"
        " shortcuts = excluded.shortcuts",
        principal.organization_id, principal.user_id, *wanted,
    )  # fmt: skip


# The names behind the calls of programs: keys, and people with the assistants that they have connected.


def caller_names(tx: Tx, organization_id: str) -> dict[str, str]:
    """By the id that the lists of calls and credits name."""
    return {key.id: key.name for key in keys.listing(tx, organization_id)} | grants.names(tx, organization_id)
