"""Receipts of cash entries: bytes stored once for each client, filed with the entries of a call, never changed."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import NamedTuple

from kontobahn.books.store import Client
from kontobahn.db import Tx, chunked
from kontobahn.errors import Conflict
from kontobahn.ids import new_id
from kontobahn.ledger.kassenbuch import Belegbild, ReceiptImage
from kontobahn.sentences import said

# An entry that a receipt was filed with and that is not reversed.
_STANDING = (
    "SELECT f.dateiname FROM books_receipt_filings f JOIN books_cash_entries e ON e.mandant = f.mandant AND e.task = f.task"
    " WHERE f.mandant = ? AND f.sha256 = ? AND e.storno_von IS NULL AND NOT EXISTS (SELECT 1 FROM books_cash_entries s"
    " WHERE s.mandant = e.mandant AND s.kassenname = e.kassenname AND s.storno_von = e.nummer) LIMIT 1"
)


def file_image(tx: Tx, client: Client, task: str, number: int, image: ReceiptImage) -> Belegbild:
    """Stores and files a receipt. Raises Conflict if it is filed with an entry that is not reversed."""
    # Another cash book may be filing the same receipt right now.
    tx.lock("belegbild", str(client.mandant), image.sha256)
    standing = tx.one(_STANDING, client.mandant, image.sha256)
    if standing is not None:
        raise Conflict(
            said(
                "The field `belegbilder[{number}]`: this file was stored before, as “{name}”, with an"
                " entry that is not reversed.",
                number=number,
                name=standing[0],
            ),
            field=f"belegbilder[{number}]",
        )
    tx.put_large(
        "INSERT INTO books_receipts (mandant, sha256, id, task, dateiname, groesse, mime_typ, content, created_at)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (mandant, sha256) DO NOTHING",
        client.mandant, image.sha256, new_id(), task, image.dateiname, len(image.content), image.mime_typ, image.content, tx.now,
    )  # fmt: skip
    tx.run(
        "INSERT INTO books_receipt_filings (mandant, task, platz, sha256, dateiname) VALUES (?, ?, ?, ?, ?)",
        client.mandant, task, number + 1, image.sha256, image.dateiname,
    )  # fmt: skip
    (row,) = tx.all("SELECT id FROM books_receipts WHERE mandant = ? AND sha256 = ?", client.mandant, image.sha256)
    return Belegbild(
        id=row[0], dateiname=image.dateiname, groesse=len(image.content), mimeTyp=image.mime_typ, sha256=image.sha256
    )


def find_image(tx: Tx, client: Client, image_id: str) -> ReceiptImage | None:
    row = tx.one(
        "SELECT dateiname, mime_typ, sha256, content FROM books_receipts WHERE mandant = ? AND id = ?",
        client.mandant, image_id.lower(),
    )  # fmt: skip
    return None if row is None else ReceiptImage(row[0], row[1], row[2], bytes(row[3]))


class Filing(NamedTuple):
    """A receipt as it was filed; `id` is that of its bytes."""

    task: str
    id: str
    dateiname: str
    groesse: int
    mime_typ: str
    sha256: str


def filings(tx: Tx, client: Client, tasks: Iterable[str]) -> dict[str, list[Filing]]:
    """Returns the receipts that were filed with these tasks, in the order in which they were sent."""
    found: dict[str, list[Filing]] = {}
    for some, is_one in chunked(sorted(set(tasks))):
        found.update(_filings(tx, client, f"f.task {is_one}", *some))
    return found


def filings_between(tx: Tx, client: Client, first_day: str, last_day: str) -> dict[str, list[Filing]]:
    """Returns the receipts of the entries of these days, in all cash books, by task."""
    entries = "f.task IN (SELECT task FROM books_cash_entries WHERE mandant = ? AND datum BETWEEN ? AND ?)"
    return _filings(tx, client, entries, client.mandant, first_day, last_day)


def _filings(tx: Tx, client: Client, condition: str, *params: str | int) -> dict[str, list[Filing]]:
    found: dict[str, list[Filing]] = {}
    for row in tx.all(
        "SELECT f.task, r.id, f.dateiname, r.groesse, r.mime_typ, f.sha256 FROM books_receipt_filings f"
        " JOIN books_receipts r ON r.mandant = f.mandant AND r.sha256 = f.sha256"
        f" WHERE f.mandant = ? AND {condition} ORDER BY f.task, f.platz",
        client.mandant, *params,
    ):  # fmt: skip
        found.setdefault(row[0], []).append(Filing._make(row))
    return found


def size_between(tx: Tx, client: Client, first_day: str, last_day: str) -> int:
    found = filings_between(tx, client, first_day, last_day).values()
    return sum({item.id: item.groesse for items in found for item in items}.values())


def differences(tx: Tx, client: Client) -> list[str]:
    """Compares the bytes of every receipt with its checksum, one receipt at a time: together they may be gigabytes."""
    found = []
    for sha256, image_id, groesse in tx.all(
        "SELECT sha256, id, groesse FROM books_receipts WHERE mandant = ? ORDER BY id", client.mandant
    ):
        ((content,),) = tx.all(
            "SELECT content FROM books_receipts WHERE mandant = ? AND sha256 = ?", client.mandant, sha256
        )
        if hashlib.sha256(content).hexdigest() != sha256 or len(content) != groesse:
            found.append(f"receipt {image_id}: its bytes are not those that were stored.")
    return found


def filed(tx: Tx, client: Client) -> dict[str, list[str]]:
    """Returns task → checksums of its receipts, if their bytes are stored."""
    found: dict[str, list[str]] = {}
    for task, sha256 in tx.all(
        "SELECT f.task, f.sha256 FROM books_receipt_filings f JOIN books_receipts r"
        " ON r.mandant = f.mandant AND r.sha256 = f.sha256 WHERE f.mandant = ? ORDER BY f.task, f.platz",
        client.mandant,
    ):
        found.setdefault(task, []).append(sha256)
    return found
