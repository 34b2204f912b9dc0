"""Who is calling, and on whose behalf. Made from a key or a session; every scoped query starts from it."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple, TypeVar

from kontobahn.access.scopes import Scope
from kontobahn.db import Table, Tx
from kontobahn.errors import Forbidden, NotFound, Refusal

R = TypeVar("R", bound=tuple[Any, ...])

Role = Literal["owner", "admin", "member"]
ROLES: tuple[Role, ...] = ("member", "admin", "owner")


class Limits(NamedTuple):
    """What a key may pay, in cents: by one payment, and on one day by all of them."""

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
    # What the key is restricted to; None for a key without a list, and for a person.
    scopes: tuple[Scope, ...] | None = None
    limits: Limits = NO_LIMITS
    # The first key of its row of rotations: they share one daily limit.
    first_key_id: str | None = None

    @property
    def actor(self) -> str:
        """As the audit log names it."""
        return f"key:{self.key_id}" if self.key_id else f"user:{self.user_id}"

    def may(self, role: Role) -> bool:
        return ROLES.index(self.role) >= ROLES.index(role)

    def has_scope(self, wanted: tuple[Scope, ...]) -> bool:
        """Whether one of these scopes is its own. An endpoint that names none is closed to keys with a list."""
        return self.scopes is None or any(scope in self.scopes for scope in wanted)

    def missing(self, what: str) -> Refusal:
        """Returns the error for an id that does not exist or is out of scope; the two cannot be told apart."""
        # Choice 33: an agency gets 403, with the same message whether the id exists or not.
        if self.is_agency:
            return Forbidden(f"This agency key may not act on that {what.lower()}.")
        return NotFound(f"{what} not found.")

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
    row = table.one(tx, f"{in_scope(len(principal.scope))} AND id = ?", *principal.scope, row_id)
    if row is None:
        raise principal.missing(what)
    return row
