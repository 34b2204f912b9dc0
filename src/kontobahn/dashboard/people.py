"""Who is at the browser: the person of a session, and how they want the dashboard to look."""

from __future__ import annotations

from typing import NamedTuple

from kontobahn.access import factors, keys, organizations, sessions, users
from kontobahn.access.organizations import Organization
from kontobahn.access.principal import Principal
from kontobahn.access.sessions import Session
from kontobahn.access.users import User
from kontobahn.dashboard import attention
from kontobahn.dashboard.attention import Attention
from kontobahn.db import Tx
from kontobahn.errors import Unauthorized

THEMES = ("light", "dark")


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
    # What needs somebody, for the line at the top of each page.
    attention: list[Attention]
    # The organisation requires a second factor, and this person has none yet.
    must_add_factor: bool
    # Whose bank accounts, books and invoices are looked at: the person's own organisation, or a client of an agency.
    looking_at: Organization
    clients: list[tuple[str, str]]


def find(tx: Tx, token_hash: str, wanted: str = "") -> Person:
    """Returns the person of a session, looking at the wanted organisation. Raises Unauthorized if the session has ended."""
    session, principal = sessions.find(tx, token_hash)
    if session.idle_until is None:
        raise Unauthorized("A session of the API is not one of a browser.")
    clients = keys.agency_clients(tx, principal.organization_id)
    principal = principal._replace(scope=(principal.organization_id, *(client for client, _ in clients)))
    looking_at = organizations.get(tx, wanted if wanted in principal.scope else principal.organization_id)
    return Person(
        session=session,
        principal=principal,
        user=users.get(tx, principal, session.user_id),
        organization=organizations.get(tx, principal.organization_id),
        preferences=preferences(tx, principal),
        attention=attention.find(tx, looking_at.id),
        must_add_factor=factors.is_required(tx, principal.organization_id)
        and not factors.of_user(tx, principal.organization_id, session.user_id),
        looking_at=looking_at,
        clients=clients,
    )


def preferences(tx: Tx, principal: Principal) -> Preferences:
    row = tx.one(
        "SELECT language, theme, shortcuts FROM dashboard_preferences WHERE organization_id = ? AND user_id = ?",
        principal.organization_id, principal.user_id,
    )  # fmt: skip
    return Preferences(*row) if row else Preferences()


def save_preferences(tx: Tx, principal: Principal, wanted: Preferences) -> None:
    tx.run(
        "INSERT INTO dashboard_preferences (organization_id, user_id, language, theme, shortcuts) VALUES (?, ?, ?, ?, ?)"
        " ON CONFLICT (organization_id, user_id) DO UPDATE SET language = excluded.language, theme = excluded.theme,"
        " shortcuts = excluded.shortcuts",
        principal.organization_id, principal.user_id, *wanted,
    )  # fmt: skip
