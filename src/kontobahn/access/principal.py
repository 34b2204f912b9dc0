"""The caller, the organisations it acts for, and the scopes that its key may be restricted to.

Made from a key or a session; every scoped query starts from it. A key without a list of scopes may do all that its role allows.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import Any, Literal, NamedTuple, TypeVar, get_args

from kontobahn.db import Rounds, Table, Tx, run_in
from kontobahn.errors import BadRequest, Forbidden, NotFound, Refusal
from kontobahn.sentences import said

R = TypeVar("R", bound=tuple[Any, ...])

# Choice 48: the roles of people and keys. Each may do what the one before it may.
Role = Literal["read_only", "bookkeeping", "member", "admin", "owner"]
ROLES: tuple[Role, ...] = get_args(Role)
_RANKS = {role: rank for rank, role in enumerate(ROLES)}
# The roles that a person may have in an organisation that is not their own.
ClientRole = Literal["read_only", "bookkeeping", "member", "admin"]
CLIENT_ROLES: tuple[ClientRole, ...] = get_args(ClientRole)
# Choice 38: the scopes of keys; an endpoint's declaration says which it needs.
Scope = Literal[
    "ledger:read",
    "ledger:write",
    "banking:read",
    "banking:write",
    "payments",
    "mobility:read",
    "mobility:write",
    "payables:read",
    "payables:write",
    "webhooks",
    "admin",
]
SCOPES: tuple[Scope, ...] = get_args(Scope)
MEANINGS: dict[Scope, str] = {
    "ledger:read": "read the books: accounts, bookings, open items, cash books",
    "ledger:write": "book, import, undo",
    "banking:read": "read bank connections, accounts, transactions, payments and events",
    "banking:write": "connect and remove banks, refresh, import statements, prepare payments for a person",
    "payments": "make and cancel payments, fetch and make order files, read payments",
    "mobility:read": "read customers, tickets, invoices, the seller and the logo",
    "mobility:write": "change customers, tickets, the seller and the logo, issue invoices",
    "payables:read": "read received invoices, their files and what was decided about them",
    "payables:write": "send received invoices, assign their creditors, release, reject and hold them",
    "webhooks": "say where events are sent, read and resend them",
    "admin": "users, invitations, sessions and passwords, as far as the role allows",
}
# Longer than any scope; what is longer is not compared with them.
_LONGEST = 40


def parse_scopes(given: Iterable[str], *, field: str = "scopes") -> tuple[Scope, ...]:
    """Returns the scopes named, each once, in their usual order. Raises BadRequest for a name that is none."""
    wanted = {text.strip() for text in given}
    for text in sorted(wanted):
        if text not in SCOPES:
            near = difflib.get_close_matches(text[:_LONGEST], SCOPES, 1)
            hint = f" Did you mean `{near[0]}`?" if near else f" The scopes are {', '.join(SCOPES)}."
            raise BadRequest(said("“{text}” is not a scope.{hint}", text=text[:_LONGEST], hint=hint), field=field)
    if not wanted:
        raise BadRequest(
            "A key with an empty list of scopes could do nothing. Name one, or leave the list out.", field=field
        )
    return tuple(scope for scope in SCOPES if scope in wanted)


def scopes_to_text(scopes: Iterable[Scope] | None) -> str | None:
    """As they are stored: separated by blanks, or nothing for a key without a list."""
    return None if scopes is None else " ".join(scopes)


def scopes_from_text(text: str | None) -> tuple[Scope, ...] | None:
    if text is None:
        return None
    stored = text.split()
    return tuple(scope for scope in SCOPES if scope in stored)


class Limits(NamedTuple):
    """The most that a key may pay, in cents: by one payment, and on one day by all of them."""

    payment_minor: int | None = None
    daily_minor: int | None = None


NO_LIMITS = Limits()


class Principal(NamedTuple):
    organization_id: str
    role: Role
    # The organisations it may act for; its own comes first.
    scope: tuple[str, ...]
    is_agency: bool = False
    key_id: str | None = None
    user_id: str | None = None
    session_id: str | None = None
    valid_until: int | None = None
    # The scopes that the key is restricted to; None for a key without a list, and for a person.
    scopes: tuple[Scope, ...] | None = None
    limits: Limits = NO_LIMITS
    # The first key of its row of rotations: they share one daily limit.
    first_key_id: str | None = None
    # Of a session: when the person last showed who they are, and whether they lack the second factor that is required.
    confirmed_at: int = 0
    must_add_factor: bool = False
    # Of an assistant that a person has connected: the grant, and the name that it gives itself.
    grant_id: str | None = None
    assistant: str = ""
    # The clients whose books it is restricted to, by connection and number; None for everybody who is not.
    clients: tuple[tuple[str, str], ...] | None = None

    @property
    def caller_id(self) -> str | None:
        """The key, or the grant of an assistant, that calls are counted and listed by."""
        return self.key_id or self.grant_id

    @property
    def actor(self) -> str:
        """As the audit log names it."""
        if self.assistant:
            return f"assistant:{self.user_id}/{self.assistant}"
        return f"key:{self.key_id}" if self.key_id else f"user:{self.user_id}"

    def may(self, role: Role) -> bool:
        return _RANKS[self.role] >= _RANKS[role]

    def has_scope(self, wanted: tuple[Scope, ...]) -> bool:
        """Returns whether one of these scopes is its own. An endpoint that names none is closed to keys with a list."""
        return self.scopes is None or any(scope in self.scopes for scope in wanted)

    def missing(self, what: str) -> Refusal:
        """Returns the error for an id that does not exist or is out of scope; the two cannot be told apart."""
        # Choice 33: an agency gets 403, with the same message whether the id exists or not.
        if self.is_agency:
            return Forbidden(said("This agency key may not act on that {what}.", what=what.lower()))
        return NotFound(f"{what} not found.")

    def may_open(self, connection_id: str, client_id: str | None) -> bool:
        """Returns whether these books are among those it is restricted to. Whoever is restricted names the client."""
        return self.clients is None or (connection_id, client_id) in self.clients

    def organizations(self, organization_id: str | None) -> tuple[str, ...]:
        """The organisations a list covers: all in scope, or the one asked for."""
        if organization_id is None:
            return self.scope
        if organization_id not in self.scope:
            raise self.missing("Organisation")
        return (organization_id,)

    def organization(self, organization_id: str | None) -> str:
        """The organisation asked for, or the caller's own."""
        return self.organizations(organization_id or self.organization_id)[0]


# --- A principal's scope in SQL: every query for something by its id starts from here


def in_scope(count: int) -> str:
    """The SQL of a scope: ``organization_id IN (?, ?)``."""
    return "organization_id = ?" if count == 1 else f"organization_id IN ({', '.join('?' * count)})"


def find_in_scope(tx: Tx, table: Table[R], principal: Principal, what: str, row_id: Any) -> R:
    """Returns the row with this id. Raises the principal's “not found” if there is none in its scope."""
    return run_in(tx, ask_in_scope(table, principal, what, row_id))


def ask_in_scope(table: Table[R], principal: Principal, what: str, row_id: Any) -> Rounds[R]:
    """`find_in_scope` for a short read."""
    row = yield from table.ask_one(f"{in_scope(len(principal.scope))} AND id = ?", *principal.scope, row_id)
    if row is None:
        raise principal.missing(what)
    return row
