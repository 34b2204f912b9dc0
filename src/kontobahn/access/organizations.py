"""Organisations: the owners of data and credits; the first of an installation is made by whoever has the code that `serve` prints."""

from __future__ import annotations

import base64
import hmac
from typing import NamedTuple

from kontobahn import credits
from kontobahn.access import audit, client_access, users
from kontobahn.access.audit import Actor
from kontobahn.access.users import User
from kontobahn.db import Tx
from kontobahn.errors import Conflict, NotFound
from kontobahn.ids import new_id
from kontobahn.sentences import said
from kontobahn.vault import Vault

# The credits that the first organisation may spend to begin with: whoever runs the service grants more with `kontobahn credits grant`.
FIRST_CREDITS = 10_000


class Organization(NamedTuple):
    id: str
    name: str
    created_at: int


def create(tx: Tx, name: str, actor: Actor) -> Organization:
    organization = Organization(new_id(), name, tx.now)
    tx.run("INSERT INTO organizations (id, name, created_at) VALUES (?, ?, ?)", *organization)
    credits.open_account(tx, organization.id)
    audit.record(tx, organization.id, actor, "organization.create", organization.id, name=name)
    return organization


def rename(tx: Tx, organization_id: str, name: str, actor: Actor) -> Organization:
    tx.lock("organization", organization_id)
    old = get(tx, organization_id)
    tx.run("UPDATE organizations SET name = ? WHERE id = ?", name, organization_id)
    audit.record(tx, organization_id, actor, "organization.rename", organization_id, old=old.name, new=name)
    return old._replace(name=name)


def set_closed(tx: Tx, organization_id: str, at: int | None) -> None:
    tx.run("UPDATE organizations SET closed_at = ? WHERE id = ?", at, organization_id)


def get(tx: Tx, organization_id: str) -> Organization:
    row = tx.one("SELECT id, name, created_at FROM organizations WHERE id = ?", organization_id)
    if row is None:
        raise NotFound(said("There is no organisation {id}.", id=organization_id))
    return Organization(*row)


def exists(tx: Tx, organization_id: str) -> bool:
    return tx.one("SELECT 1 FROM organizations WHERE id = ?", organization_id) is not None


def remove(tx: Tx, organization_id: str) -> None:
    """Removes the row, and what lets agencies and their people act for it; everything else of it has been removed before."""
    tx.run("DELETE FROM agency_clients WHERE client_organization_id = ?", organization_id)
    client_access.remove_client(tx, organization_id)
    tx.run("DELETE FROM organizations WHERE id = ?", organization_id)


def all_organizations(tx: Tx) -> list[Organization]:
    return [
        Organization(*row) for row in tx.all("SELECT id, name, created_at FROM organizations ORDER BY created_at, id")
    ]


def is_first_run_due(tx: Tx) -> bool:
    """Returns whether this installation still waits for its first run."""
    return not users.any_exists(tx)


def first_run_code(vault: Vault) -> str:
    """Returns the code of this installation: the same in every process and after a restart, and worth nothing once there is a user."""
    text = base64.b32encode(vault.derive("first run"))[:12].decode()
    return "-".join(text[start : start + 4] for start in range(0, 12, 4))


def is_first_run_code(vault: Vault, typed: str) -> bool:
    plain = "".join(character for character in typed.upper() if character.isalnum())
    return hmac.compare_digest(plain.encode(), first_run_code(vault).replace("-", "").encode())


def create_first(tx: Tx, *, organization: str, email: str, name: str, password_hash: str, actor: Actor) -> User:
    """Makes the first organisation and its owner. Raises Conflict once there is a user."""
    tx.lock("first run")
    if not is_first_run_due(tx):
        raise Conflict("This installation has already been set up. Sign in.")
    made = create(tx, organization, actor)
    credits.grant(tx, made.id, FIRST_CREDITS, note="first run")
    return users.create(
        tx, made.id, email=email, name=name, role="owner", password_hash=password_hash, actor=actor
    )  # fmt: skip
