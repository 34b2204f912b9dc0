"""Batches: what was brought in at once, by whom and when; a file is known again by its content.

The content is that of the rows as they were read: neither encoding, line ends and quoting nor the order of the rows matter.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from operator import itemgetter
from typing import Any, NamedTuple

from msgspec.json import Encoder

from kontobahn.clock import berlin_datetime
from kontobahn.db import Table, Tx
from kontobahn.errors import Conflict
from kontobahn.formats.extf import Header
from kontobahn.ids import new_id
from kontobahn.json_text import encode
from kontobahn.ledger.books.protocol import Protocol
from kontobahn.ledger.books.store import Client, FiscalYear

CASH, CALL, UNDO, RETAX = "kassenbuch", "buchungen", "storno", "retax"
FILE = "extf"

# What makes the content of a booking, in this order. Stored digests are made of it: it must not change.
_CONTENT_OF_BOOKING = (
    "umsatz", "soll", "konto", "gegenkonto", "belegdatum", "bu_schluessel", "belegfeld1", "buchungstext", "waehrung", "kurs",
    "basis_umsatz", "belegfeld2", "skonto", "kost1", "kost2", "generalumkehr", "weitere",
)  # fmt: skip


class BatchRow(NamedTuple):
    mandant: int
    id: str
    kind: str
    source: str
    # Over the bytes of the rows, of files that were imported before the content was known; or what names another kind of batch.
    sha256: str
    bezeichnung: str
    records: int
    created_at: int
    jahr: str
    author: str
    content: str
    # Rows that had been booked before, rows that were refused, and warnings.
    known: int
    refused: int
    warnings: int
    first_booking: int
    last_booking: int
    undoes: str
    undone_by: str


BATCHES = Table("books_batches", BatchRow, key=("mandant", "id"))


class NewBatch(NamedTuple):
    """A batch to be opened."""

    kind: str
    source: str
    author: str
    sha256: str = ""
    bezeichnung: str = ""
    undoes: str = ""
    id: str = ""


def create(tx: Tx, client: Client, jahr: FiscalYear, new: NewBatch) -> BatchRow:
    row = BatchRow(
        mandant=client.mandant, id=new.id or new_id(), kind=new.kind, source=new.source, sha256=new.sha256,
        bezeichnung=new.bezeichnung, records=0, created_at=tx.now, jahr=jahr.start, author=new.author, content="", known=0,
        refused=0, warnings=0, first_booking=0, last_booking=0, undoes=new.undoes, undone_by="",
    )  # fmt: skip
    BATCHES.insert(tx, row)
    return row


def find(tx: Tx, client: Client, batch_id: str) -> BatchRow | None:
    return BATCHES.one(tx, "mandant = ? AND id = ?", client.mandant, batch_id)


def mandanten_of(tx: Tx, batch_id: str) -> list[int]:
    """Whose batch it is, for the operator's command line: one client, or none."""
    return [mandant for (mandant,) in tx.all("SELECT mandant FROM books_batches WHERE id = ?", batch_id)]


def listing(tx: Tx, client: Client, before: str | None, limit: int) -> list[BatchRow]:
    """Returns batches, the latest first; without those of cash books, whose entries are listed there."""
    below = "" if before is None else " AND id < ?"
    return BATCHES.all(
        tx, f"mandant = ? AND kind <> ?{below} ORDER BY id DESC LIMIT ?",
        client.mandant, CASH, *(() if before is None else (before,)), limit,
    )  # fmt: skip


def protocol_text(tx: Tx, row: BatchRow) -> str:
    found = tx.one("SELECT protokoll FROM books_batches WHERE mandant = ? AND id = ?", row.mandant, row.id)
    return str(found[0]) if found else ""


def without_effect(tx: Tx, mandant: int) -> set[str]:
    """Returns the batches that were undone and those that undid them: together they have no effect."""
    return {
        batch
        for (batch,) in tx.all(
            "SELECT id FROM books_batches WHERE mandant = ? AND (undone_by <> '' OR undoes <> '')", mandant
        )
    }


def describe(
    tx: Tx, client: Client, batch_id: str, known: int, protocol: Protocol, *, records: int | None = None
) -> None:
    """Keeps with the batch what became of its rows; `records` of master data, for bookings count themselves."""
    count = "" if records is None else ", records = ?"
    tx.run(
        f"UPDATE books_batches SET known = ?, refused = ?, warnings = ?, protokoll = ?{count} WHERE mandant = ? AND id = ?",
        known, protocol.refused_count, protocol.warning_count, encode(protocol.lines()).decode(),
        *(() if records is None else (records,)), client.mandant, batch_id,
    )  # fmt: skip


# --- Content


class Content:
    """Adds up a file's rows while they are read."""

    def __init__(self, header: Header) -> None:
        self._header = (header.category, header.wj_beginn, header.datum_von, header.datum_bis)
        self._sum = 0
        self.count = 0
        self._encode: Callable[[Any], bytes] = Encoder().encode

    def add(self, row: tuple[Any, ...]) -> None:
        digest = hashlib.blake2b(self._encode(row), digest_size=16).digest()
        # A sum, so that the order does not matter; equal rows count as often as they stand there.
        self._sum += int.from_bytes(digest, "little")
        self.count += 1

    def digest(self) -> str:
        whole = self._encode((*self._header, self.count, f"{self._sum % (1 << 128):032x}"))
        return hashlib.blake2b(whole, digest_size=32).hexdigest()


def content_of(fields: tuple[str, ...]) -> Callable[[tuple[Any, ...]], tuple[Any, ...]]:
    """Returns what picks the content of a booking from a tuple with these fields."""
    return itemgetter(*map(fields.index, _CONTENT_OF_BOOKING))


def identify(tx: Tx, client: Client, batch_id: str, content: str) -> None:
    """Gives the batch its content. Raises Conflict if a batch has it that was not undone."""
    tx.lock("books_batches", str(client.mandant))
    refuse_known_content(tx, client, content)
    tx.run("UPDATE books_batches SET content = ? WHERE mandant = ? AND id = ?", content, client.mandant, batch_id)


def refuse_known_content(tx: Tx, client: Client, content: str) -> None:
    known = BATCHES.one(tx, "mandant = ? AND content = ? AND undone_by = ''", client.mandant, content)
    if known is not None:
        raise imported_before(known)


def refuse_known_bytes(tx: Tx, client: Client, jahr: FiscalYear, kind: str, sha256: str) -> None:
    """Raises Conflict if the file is, byte by byte, one that was imported before contents were kept."""
    known = BATCHES.one(
        tx, "mandant = ? AND sha256 = ? AND content = '' AND undone_by = '' AND kind = ? AND (jahr = ? OR jahr = '')",
        client.mandant, sha256, kind, jahr.start,
    )  # fmt: skip
    if known is not None:
        raise imported_before(known)


def has_batches_without_content(tx: Tx, client: Client) -> bool:
    found = tx.one(
        "SELECT 1 FROM books_batches WHERE mandant = ? AND content = '' AND kind LIKE 'extf %' LIMIT 1", client.mandant
    )
    return found is not None


def imported_before(known: BatchRow) -> Conflict:
    return Conflict(f"The same rows were imported before, {described(known)}. Nothing was imported.").retryable()


def described(row: BatchRow) -> str:
    by = f" by {row.author}" if row.author else ""
    return f"from {row.source} on {berlin_datetime(row.created_at):%Y-%m-%d %H:%M}{by} (batch {row.id})"
