"""Receipts of cash entries: bytes stored once for each client, filed with the entries of a call, never changed."""

from __future__ import annotations

import hashlib
from typing import NamedTuple

from kontobahn.db import Tx
from kontobahn.errors import Conflict
from kontobahn.ids import new_id
from kontobahn.ledger.books.store import Client
from kontobahn.ledger.kassenbuch import Belegbild, ReceiptImage

# Whether one of the entries that a receipt was filed with is not reversed.
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
            f"The field `belegbilder[{number}]`: this file was stored before, as “{standing[0]}”, with an entry that is not"
            " reversed.",
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


def filings(tx: Tx, client: Client, kassenname: str, first: int, last: int) -> dict[str, list[Filing]]:
    """Returns the receipts of entries with these numbers, by task, in the order in which they were sent."""
    return _filings(tx, client, "kassenname = ? AND nummer BETWEEN ? AND ?", kassenname, first, last)


def filings_between(tx: Tx, client: Client, first_day: str, last_day: str) -> dict[str, list[Filing]]:
    """The same of all cash books, of entries of these days."""
    return _filings(tx, client, "datum BETWEEN ? AND ?", first_day, last_day)


def _filings(tx: Tx, client: Client, entries: str, *params: str | int) -> dict[str, list[Filing]]:
    found: dict[str, list[Filing]] = {}
    for row in tx.all(
        "SELECT f.task, r.id, f.dateiname, r.groesse, r.mime_typ, f.sha256 FROM books_receipt_filings f"
        " JOIN books_receipts r ON r.mandant = f.mandant AND r.sha256 = f.sha256 WHERE f.mandant = ? AND f.task IN"
        f" (SELECT task FROM books_cash_entries WHERE mandant = ? AND {entries}) ORDER BY f.task, f.platz",
        client.mandant, client.mandant, *params,
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
    """Returns the checksums of the receipts of each task, of those whose bytes are there."""
    found: dict[str, list[str]] = {}
    for task, sha256 in tx.all(
        "SELECT f.task, f.sha256 FROM books_receipt_filings f JOIN books_receipts r"
        " ON r.mandant = f.mandant AND r.sha256 = f.sha256 WHERE f.mandant = ? ORDER BY f.task, f.platz",
        client.mandant,
    ):
        found.setdefault(task, []).append(sha256)
    return found
