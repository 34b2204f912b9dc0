"""What an API key may be restricted to. A key without a list of scopes may do all that its role allows."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import Literal, get_args

from kontobahn.errors import BadRequest

# Choice 38: the scopes of keys; an endpoint's declaration says which it needs.
Scope = Literal[
    "ledger:read",
    "ledger:write",
    "banking:read",
    "banking:write",
    "payments",
    "mobility:read",
    "mobility:write",
    "webhooks",
    "admin",
]
SCOPES: tuple[Scope, ...] = get_args(Scope)
MEANINGS: dict[Scope, str] = {
    "ledger:read": "read the books: accounts, bookings, open items, cash books",
    "ledger:write": "book, import, undo",
    "banking:read": "read bank connections, accounts, transactions, payments and events",
    "banking:write": "connect and remove banks, refresh, import statements",
    "payments": "make and cancel payments, fetch and make order files, read payments",
    "mobility:read": "read customers, tickets, invoices, the seller and the logo",
    "mobility:write": "change customers, tickets, the seller and the logo, issue invoices",
    "webhooks": "say where events are sent, read and resend them",
    "admin": "users, invitations, sessions and passwords, as far as the role allows",
}
# Longer than any scope; what is longer is not compared with them.
_LONGEST = 40


def parse(given: Iterable[str], *, field: str = "scopes") -> tuple[Scope, ...]:
    """Returns the scopes named, each once, in their usual order. Raises BadRequest for a name that is none."""
    wanted = {text.strip() for text in given}
    for text in sorted(wanted):
        if text not in SCOPES:
            near = difflib.get_close_matches(text[:_LONGEST], SCOPES, 1)
            hint = f" Did you mean `{near[0]}`?" if near else f" The scopes are {', '.join(SCOPES)}."
            raise BadRequest(f"“{text[:_LONGEST]}” is not a scope.{hint}", field=field)
    if not wanted:
        raise BadRequest(
            "A key with an empty list of scopes could do nothing. Name one, or leave the list out.", field=field
        )
    return tuple(scope for scope in SCOPES if scope in wanted)


def to_text(scopes: Iterable[Scope] | None) -> str | None:
    """As they are stored: separated by blanks, or nothing for a key without a list."""
    return None if scopes is None else " ".join(scopes)


def from_text(text: str | None) -> tuple[Scope, ...] | None:
    if text is None:
        return None
    stored = text.split()
    return tuple(scope for scope in SCOPES if scope in stored)
