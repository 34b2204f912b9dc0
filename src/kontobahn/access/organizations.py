"""Organisations: the owners of data and credits."""

from __future__ import annotations

from typing import NamedTuple

from kontobahn import credits
from kontobahn.access import audit, client_access
from kontobahn.access.audit import Actor
from kontobahn.db import Tx
from kontobahn.errors import NotFound
from kontobahn.ids import new_id
from kontobahn.sentences import said


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
