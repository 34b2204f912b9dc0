"""The documents of an invoice: made once from its frozen facts, off the event loop, stored, and never changed.

The invoice comes first: a process that dies before its documents are stored leaves a row in mobility_documents_due. Then the job
or the first request for a document makes them. If two make them at once, those stored first stay.
"""

from __future__ import annotations

import asyncio
import hashlib
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Literal, NamedTuple

from kontobahn import log
from kontobahn.clock import SECOND
from kontobahn.db import Database, Tx
from kontobahn.errors import KontobahnError
from kontobahn.formats import cii
from kontobahn.mobility.invoices import pdf
from kontobahn.mobility.invoices.electronic import to_cii
from kontobahn.mobility.invoices.facts import Facts
from kontobahn.mobility.invoices.store import load

Kind = Literal["pdf", "xml"]
MEDIA_TYPES: dict[Kind, str] = {"pdf": "application/pdf", "xml": "application/xml"}
MAX_PER_RUN = 100


class Document(NamedTuple):
    kind: Kind
    file_name: str
    content: bytes


@cache
def _typesetter() -> ThreadPoolExecutor:
    """One thread: typesetting then uses one core and leaves the others free. Typst works outside Python's lock."""
    return ThreadPoolExecutor(1, "typesetter")


def render(facts: Facts, issued_at: int) -> list[Document]:
    """Returns both documents. The same facts give the same bytes."""
    invoice = to_cii(facts)
    profile = cii.profile_of(invoice)
    embedded, alone = cii.write(invoice, "en16931", profile)
    name = facts.number.replace("/", "-")
    return [
        Document("pdf", f"{name}.pdf", pdf.make(facts, embedded, issued_at // SECOND)),
        Document("xml", f"{name}-{profile}.xml", alone),
    ]


async def make(db: Database, organization_id: str, invoice_id: str) -> None:
    row, facts = await db.read(load, organization_id, invoice_id)
    made = await asyncio.get_running_loop().run_in_executor(_typesetter(), render, facts, row.invoiced_at)
    await db.write(_store, organization_id, invoice_id, made)


async def try_make(db: Database, organization_id: str, invoice_id: str) -> None:
    """Makes the documents right after the invoice was issued. A failure is logged and left to the job: the invoice stands."""
    try:
        await make(db, organization_id, invoice_id)
    except KontobahnError as error:
        log.warning("documents_left_to_the_job", invoice_id=invoice_id, detail=error.operator or str(error))
    except Exception as error:
        log.exception("documents_left_to_the_job", error, invoice_id=invoice_id)


async def fetch(db: Database, organization_id: str, invoice_id: str, kind: Kind) -> Document:
    """Returns the stored document, making it first if it is not there yet."""
    found = await db.read(_find, organization_id, invoice_id, kind)
    if found is None:
        await make(db, organization_id, invoice_id)
        found = await db.read(_find, organization_id, invoice_id, kind)
    assert found is not None
    return found


async def make_due(db: Database) -> None:
    """The job: makes the documents that are still due. One that cannot be made does not hold up the others."""
    failures = []
    for organization_id, invoice_id in await db.read(_due):
        try:
            await make(db, organization_id, invoice_id)
        except KontobahnError:
            raise
        except Exception as error:
            log.exception("documents_failed", error, invoice_id=invoice_id)
            failures.append(invoice_id)
    if failures:
        raise RuntimeError(f"the documents of these invoices cannot be made: {', '.join(failures)}")


def _due(tx: Tx) -> list[tuple[str, str]]:
    rows = tx.all(
        "SELECT organization_id, invoice_id FROM mobility_documents_due ORDER BY invoice_id LIMIT ?", MAX_PER_RUN
    )
    return [(organization_id, invoice_id) for organization_id, invoice_id in rows]


def _store(tx: Tx, organization_id: str, invoice_id: str, made: list[Document]) -> None:
    for document in made:
        tx.run(
            "INSERT INTO mobility_documents (organization_id, invoice_id, kind, file_name, sha256, content, created_at)"
            " VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING",
            organization_id, invoice_id, document.kind, document.file_name, hashlib.sha256(document.content).hexdigest(),
            document.content, tx.now,
        )  # fmt: skip
    tx.run(
        "DELETE FROM mobility_documents_due WHERE organization_id = ? AND invoice_id = ?", organization_id, invoice_id
    )


def _find(tx: Tx, organization_id: str, invoice_id: str, kind: Kind) -> Document | None:
    row = tx.one(
        "SELECT file_name, content FROM mobility_documents WHERE organization_id = ? AND invoice_id = ? AND kind = ?",
        organization_id, invoice_id, kind,
    )  # fmt: skip
    return Document(kind, row[0], bytes(row[1])) if row else None
