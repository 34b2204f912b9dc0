"""The presets: sets of tools, each with those of the one before it, and the rights that they need. To OAuth they are the scopes."""

from __future__ import annotations

from typing import Literal

from kontobahn.access.principal import ROLES, Role, Scope

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


def find(name: str) -> Preset | None:
    return next((preset for preset in PRESETS if preset == name), None)


def narrower(one: Preset, other: Preset) -> Preset:
    return min(one, other, key=PRESETS.index)


def role_of(preset: Preset, role: Role) -> Role:
    """The role that an assistant has with this preset, for a person of this role: never more than either needs."""
    return min(_ROLES[preset], role, key=ROLES.index)


def allowed(role: Role, asked: Preset) -> list[Preset]:
    """The presets that a person of this role can pass on to an assistant that has asked for one: none is wider than that."""
    return [
        preset
        for preset in PRESETS
        if ROLES.index(_ROLES[preset]) <= ROLES.index(role) and narrower(preset, asked) == preset
    ]


def of_books(scopes: tuple[Scope, ...]) -> tuple[Scope, ...]:
    """Those that are about the books of a client. Banks and received invoices belong to the whole organisation."""
    return tuple(scope for scope in scopes if scope.startswith("ledger:"))
