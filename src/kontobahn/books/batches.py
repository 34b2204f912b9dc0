"""Batches: everything that was brought in at once, by whom and when, with the protocol of what was found; a file is known by its content
(content.py)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import date
from typing import Any, NamedTuple

from kontobahn.books.store import Client, FiscalYear
from kontobahn.clock import berlin_datetime, to_datetime
from kontobahn.db import Statements, Table, Tx
from kontobahn.errors import Conflict
from kontobahn.formats.extf import CATEGORIES, RowError, RowWarning
from kontobahn.ids import new_id
from kontobahn.json_text import decode_kept, encode_kept
from kontobahn.ledger.wire import Import, ImportArt, ImportMitProtokoll, Protokollzeile
from kontobahn.sentences import joined, said

CASH, CALL, UNDO, RETAX = "kassenbuch", "buchungen", "storno", "retax"
FILE = "extf"


class BatchRow(NamedTuple):
    mandant: int
    id: str
    kind: str
    source: str
    # Over the bytes of the rows, for files that were imported before contents were kept; other kinds of batch have a name here.
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


class Batch(NamedTuple):
    """A batch that is being posted."""

    id: str
    jahr: FiscalYear
    is_closing: bool
    # A cash book has movements only: the document number 0 is a number like any other in it.
    is_cash: bool
    # Takes back another batch, whose effect on open items `undo.py` removes; here it has none.
    is_undo: bool


def open_batch(
    tx: Tx,
    client: Client,
    jahr: FiscalYear,
    *,
    kind: str,
    source: str,
    author: str = "",
    sha256: str = "",
    bezeichnung: str = "",
    undoes: str = "",
    batch_id: str = "",
    is_closing: bool = False,
) -> Batch:
    row = BatchRow(
        mandant=client.mandant, id=batch_id or new_id(), kind=kind, source=source, sha256=sha256, bezeichnung=bezeichnung,
        records=0, created_at=tx.now, jahr=jahr.start, author=author, content="", known=0, refused=0, warnings=0,
        first_booking=0, last_booking=0, undoes=undoes, undone_by="",
    )  # fmt: skip
    BATCHES.insert(tx, row)
    return Batch(row.id, jahr, is_closing, kind == CASH, bool(undoes))


def find(tx: Tx, client: Client, batch_id: str) -> BatchRow | None:
    return BATCHES.one(tx, "mandant = ? AND id = ?", client.mandant, batch_id)


def mandanten_of(tx: Tx, batch_id: str) -> list[int]:
    """Returns the client that has the batch, if any, for the operator's command line."""
    return [mandant for (mandant,) in tx.all("SELECT mandant FROM books_batches WHERE id = ?", batch_id)]


def listing(tx: Tx, client: Client, before: str | None, limit: int) -> list[BatchRow]:
    """Returns batches, the latest first; without those of cash books, whose entries are listed there."""
    below = "" if before is None else " AND id < ?"
    return BATCHES.all(
        tx, f"mandant = ? AND kind <> '{CASH}'{below} ORDER BY id DESC LIMIT ?",
        client.mandant, *(() if before is None else (before,)), limit,
    )  # fmt: skip


def protocol_text(tx: Tx, row: BatchRow) -> str:
    found = tx.one("SELECT protokoll FROM books_batches WHERE mandant = ? AND id = ?", row.mandant, row.id)
    return str(found[0]) if found else ""


def without_effect(tx: Statements, mandant: int) -> set[str]:
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
    """Stores the outcome with the batch; `records` is for master data only, because posting counts bookings."""
    count = "" if records is None else ", records = ?"
    tx.run(
        f"UPDATE books_batches SET known = ?, refused = ?, warnings = ?, protokoll = ?{count} WHERE mandant = ? AND id = ?",
        known, protocol.refused_count, protocol.warning_count, encode_kept(protocol.lines()).decode(),
        *(() if records is None else (records,)), client.mandant, batch_id,
    )  # fmt: skip


# --- Known by their content


def identify(tx: Tx, client: Client, batch_id: str, content: str) -> BatchRow | None:
    """Stores the content of the batch. Returns another one that was not undone and has the same."""
    tx.lock("books_batches", str(client.mandant))
    known = find_content(tx, client, content)
    tx.run("UPDATE books_batches SET content = ? WHERE mandant = ? AND id = ?", content, client.mandant, batch_id)
    return known


def find_content(tx: Statements, client: Client, content: str) -> BatchRow | None:
    return BATCHES.one(
        tx,
        "mandant = ? AND content = ? AND content <> '' AND undone_by = '' ORDER BY id LIMIT 1",
        client.mandant,
        content,
    )


def find_bytes(tx: Statements, client: Client, jahr: FiscalYear, kind: str, sha256: str) -> BatchRow | None:
    """Returns the batch of a file that was imported, byte by byte the same, before contents were kept."""
    return BATCHES.one(
        tx, "mandant = ? AND sha256 = ? AND content = '' AND undone_by = '' AND kind = ? AND (jahr = ? OR jahr = '')",
        client.mandant, sha256, kind, jahr.start,
    )  # fmt: skip


def has_batches_without_content(tx: Tx, client: Client) -> bool:
    found = tx.one(
        "SELECT 1 FROM books_batches WHERE mandant = ? AND content = '' AND kind LIKE 'extf %' LIMIT 1", client.mandant
    )
    return found is not None


def imported_before(known: BatchRow) -> Conflict:
    return Conflict(
        said("The same rows were imported before, {described}. Nothing was imported.", described=described(known))
    ).retryable()


def reversed_since(known: BatchRow, lines: Sequence[int], count: int) -> Conflict:
    """The refusal of a known file that would bring back what somebody reversed on purpose."""
    more = [said("and {count} more", count=count - len(lines))] if count > len(lines) else []
    return Conflict(
        said(
            "Rows of this file were booked before, {described}, and a Generalumkehr has reversed them since: {shown}. Nothing was"
            " booked. {hint}",
            described=described(known),
            shown=joined(", ", [*(said("line {line}", line=line) for line in lines), *more]),
            hint="To book them again, say so with --another (by call: another=true); with --partial (partial=true) the rest is"
            " imported without them.",
        ),
        abgelehnt=count,
    ).retryable()


def described(row: BatchRow) -> str:
    moment = f"{berlin_datetime(row.created_at):%Y-%m-%d %H:%M}"
    if not row.author:
        return said("from {source} on {moment} (batch {id})", source=row.source, moment=moment, id=row.id)
    return said(
        "from {source} on {moment} by {author} (batch {id})",
        source=row.source,
        moment=moment,
        author=row.author,
        id=row.id,
    )


# --- Protocols


KEPT = 1_000
_REFUSED = "The row was not booked."


class Protocol:
    """Refused rows and warnings of an import, line by line. The first thousand of each are kept, all are counted."""

    def __init__(self, warnings: Iterable[RowWarning] = ()) -> None:
        self.refused: list[RowError] = []
        self.warnings: list[RowWarning] = []
        self.refused_count = 0
        self.warning_count = 0
        for warning in warnings:
            self.add(warning)

    def add(self, finding: RowError | RowWarning) -> None:
        if isinstance(finding, RowError):
            self.refused_count += 1
            if len(self.refused) < KEPT:
                self.refused.append(finding)
        else:
            self.warning_count += 1
            if len(self.warnings) < KEPT:
                self.warnings.append(finding)

    def add_refused(self, findings: list[RowError], count: int) -> None:
        """Adds refused rows of which perhaps only the first were kept."""
        for finding in findings:
            self.add(finding)
        self.refused_count += count - len(findings)

    def lines(self) -> list[Protokollzeile]:
        """Returns both in one list, in the order of the file."""
        found = [
            Protokollzeile(art="ABGELEHNT", zeile=row.line, spalte=row.column, gefunden=row.reason, getan=_REFUSED)
            for row in self.refused
        ]
        found += [
            Protokollzeile(art="WARNUNG", zeile=row.line, spalte=row.column, gefunden=row.found, getan=row.done)
            for row in self.warnings
        ]
        return sorted(found, key=lambda line: (line.zeile, line.art))


# --- As answers


_KINDS: dict[str, ImportArt] = {CALL: "BUCHUNGEN", UNDO: "STORNO", RETAX: "KORREKTUR"}


def list_imports(tx: Tx, client: Client, before: str | None, limit: int) -> list[Import]:
    return [Import(**_import_fields(client, row)) for row in listing(tx, client, before, limit)]


def find_import(tx: Tx, clients: list[Client], batch_id: str) -> ImportMitProtokoll | None:
    for client in clients:
        row = find(tx, client, batch_id)
        if row is not None and row.kind != CASH:
            text = protocol_text(tx, row)
            protokoll = decode_kept(text, list[Protokollzeile]) if text else []
            return ImportMitProtokoll(**_import_fields(client, row), protokoll=protokoll)
    return None


def _import_fields(client: Client, row: BatchRow) -> dict[str, Any]:
    return {
        "id": row.id,
        "status": "undone" if row.undone_by else "done",
        "art": _KINDS.get(row.kind, "DATEI"),
        "quelle": row.source,
        "kategorie": _category(row.kind),
        "bezeichnung": row.bezeichnung,
        "clientId": client.client_id,
        "geschaeftsjahrStartDatum": date.fromisoformat(row.jahr) if row.jahr else None,
        "uebernommen": row.records,
        "bekannt": row.known,
        "abgelehnt": row.refused,
        "warnungen": row.warnings,
        "erstelltAm": to_datetime(row.created_at),
        "erstelltVon": row.author,
        "stornoVon": row.undoes or None,
        "stornoDurch": row.undone_by or None,
    }


def _category(kind: str) -> str | None:
    family, _, number = kind.partition(" ")
    return CATEGORIES[int(number)].name if family == FILE and number.isdigit() else None
