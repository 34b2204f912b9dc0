"""Files that were imported, as a list by keyset; and who sent them."""

from __future__ import annotations

from kontobahn.api.tasks import TASKS
from kontobahn.banking.imports.history import IMPORTS, TASK_KIND, ImportRow, from_task
from kontobahn.db import Tx

_LAST = 2**62


def imports(tx: Tx, organization_id: str, after: str, limit: int) -> list[ImportRow]:
    """The latest first, with those that run; `after` is the time and the id of the last one of the page before."""
    at, _, last_id = after.partition("_")
    before = (int(at) if at.isascii() and at.isdigit() and len(at) < 19 else _LAST, last_id)
    where = "organization_id = ? AND (created_at, id) < (?, ?)"
    order = "ORDER BY created_at DESC, id DESC LIMIT ?"
    rows = IMPORTS.all(tx, f"{where} {order}", organization_id, *before, limit)
    tasks = TASKS.all(
        tx, f"{where} AND kind = ? AND status <> 'done' {order}", organization_id, *before, TASK_KIND, limit
    )
    found = [*map(from_task, tasks), *rows]
    return sorted(found, key=lambda row: (row.created_at, row.id), reverse=True)[:limit]


def actor_name(tx: Tx, organization_id: str, actor: str) -> str:
    """The name of a person or a key behind `user:…` or `key:…`; otherwise the actor as it is."""
    kind, _, number = actor.partition(":")
    table = {"user": "users", "key": "api_keys"}.get(kind)
    row = table and tx.one(f"SELECT name FROM {table} WHERE organization_id = ? AND id = ?", organization_id, number)
    return str(row[0]) if row else actor
