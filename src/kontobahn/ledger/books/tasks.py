"""The protocol of writes: what the books did with each, kept as it was told."""

from __future__ import annotations

import msgspec

from kontobahn.api.wire import encode
from kontobahn.db import Tx
from kontobahn.ledger.books.store import Client
from kontobahn.ledger.model import Meldung
from kontobahn.ledger.provider import Urheber

SUCCESS = "SUCCESS"


def save_task(
    tx: Tx, client: Client, task: str, kind: str, status: str, meldungen: list[Meldung], urheber: Urheber
) -> None:
    tx.run(
        "INSERT INTO books_tasks (mandant, id, kind, status, meldungen, request_id, quelle, created_at)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
        client.mandant, task, kind, status, encode(meldungen).decode(), urheber.request_id, urheber.quelle, tx.now,
    )  # fmt: skip


def protocol(tx: Tx, client: Client, request_id: str) -> list[Meldung]:
    """The messages of the write that a request made."""
    row = tx.one("SELECT meldungen FROM books_tasks WHERE mandant = ? AND request_id = ?", client.mandant, request_id)
    return msgspec.json.decode(row[0], type=list[Meldung]) if row else []
