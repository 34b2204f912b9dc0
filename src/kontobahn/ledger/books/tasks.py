"""The log of writes: the messages that each was answered with."""

from __future__ import annotations

from kontobahn.db import Tx
from kontobahn.json_text import encode
from kontobahn.ledger.accounting import Meldung
from kontobahn.ledger.books.store import Client
from kontobahn.ledger.provider import Author

SUCCESS = "SUCCESS"


def save_task(
    tx: Tx, client: Client, task: str, kind: str, status: str, meldungen: list[Meldung], author: Author
) -> None:
    tx.run(
        "INSERT INTO books_tasks (mandant, id, kind, status, meldungen, request_id, quelle, created_at)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
        client.mandant, task, kind, status, encode(meldungen).decode(), author.request_id, author.quelle, tx.now,
    )  # fmt: skip
