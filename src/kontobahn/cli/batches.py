"""`kontobahn books batches` and `kontobahn books undo`: what was brought in at once, and taking it back."""

from __future__ import annotations

from typing import Annotated

import typer

from kontobahn.access import audit
from kontobahn.cli.common import DataOption, JsonOption, installation, moment, say, say_table
from kontobahn.db import Database, Tx
from kontobahn.errors import NotFound
from kontobahn.ids import new_id
from kontobahn.ledger.books import batches, store
from kontobahn.ledger.books.batches import BatchRow
from kontobahn.ledger.books.sliced_undo import Undoing
from kontobahn.ledger.books.store import Client
from kontobahn.ledger.connections import find_for_operator


def list_batches(
    connection_id: Annotated[str, typer.Argument(metavar="CONNECTION_ID", help="Id of the connection.")],
    client: Annotated[
        str | None, typer.Option("--client", metavar="ID", help="Client; the default one when omitted.")
    ] = None,
    limit: Annotated[int, typer.Option("--limit", min=1, max=1_000_000, help="How many, the latest first.")] = 100,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """List what was brought into the books, batch by batch: by whom, when, how much, undone or not.

    Example: kontobahn books batches 0193…
    """

    def read(tx: Tx) -> list[BatchRow]:
        return batches.listing(tx, store.find_client(tx, find_for_operator(tx, connection_id), client), None, limit)

    with installation(data) as here:
        found = here.db.read_now(read)
    columns = (
        "batch",
        "kind",
        "source",
        "year",
        "records",
        "known",
        "refused",
        "warnings",
        "by",
        "at",
        "undone_by",
        "undoes",
    )
    rows = [
        (
            row.id, row.kind, row.source, row.jahr, row.records, row.known, row.refused, row.warnings, row.author,
            moment(row.created_at), row.undone_by or None, row.undoes or None,
        )
        for row in found
    ]  # fmt: skip
    say_table(columns, rows, as_json=as_json, empty="Nothing was brought in yet.")


def undo_batch(
    batch: Annotated[str, typer.Argument(metavar="BATCH", help="Id of the batch, from `kontobahn books batches`.")],
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Undo an import of bookings by Generalumkehr; nothing is deleted. After that the file may be imported again.

    Example: kontobahn books undo 0193…
    """
    with installation(data) as here:
        made = _undo(here.db, batch)
    say(
        {"batch": made.id, "undoes": batch, "records": made.records},
        f"Batch {made.id} undoes batch {batch}: {made.records} bookings were reversed.",
        as_json=as_json,
    )


def _undo(db: Database, batch_id: str) -> BatchRow:
    def find(tx: Tx) -> Client:
        for mandant in batches.mandanten_of(tx, batch_id):
            return store.client_of_mandant(tx, mandant)
        raise NotFound(f"There is no batch {batch_id}. `kontobahn books batches` lists them.")

    def commit(tx: Tx) -> BatchRow:
        made, client = work.commit(tx, undo_id), find(tx)
        assert made is not None
        subject = f"{client.connection_id}/{client.client_id}"
        audit.record(tx, client.organization_id, audit.COMMAND_LINE, "books.undo", subject, batch=batch_id, by=made.id)
        return made

    work, undo_id = Undoing(db, find, batch_id, audit.COMMAND_LINE.name), new_id()
    try:
        work.prepare(undo_id)
        return db.write_now(commit)
    finally:
        work.tidy(undo_id)
