"""The documents of an invoice: made once from its frozen facts, in a process of their own, stored, and never changed.

The invoice comes first: a process that dies before its documents are stored leaves a row in mobility_documents_due. Then the job
or the first request for a document makes them. Each try is counted before it begins; what failed three times is laid aside until
somebody says to try again. If only the service died, three times and perhaps for other reasons, it is tried again hours later.
"""

from __future__ import annotations

import asyncio
import hashlib
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import date
from functools import cache
from typing import NamedTuple

from kontobahn import log
from kontobahn.clock import HOUR, SECOND
from kontobahn.db import Database, Tx
from kontobahn.errors import KontobahnError, NotFound, Unavailable
from kontobahn.formats.invoices.model import INVOICE
from kontobahn.mobility.invoices.rules import Buyer, Facts, Line, Sum
from kontobahn.mobility.invoices.store import load
from kontobahn.mobility.invoices.typesetter import Document, Failed, Kind, Typesetter
from kontobahn.mobility.seller import Logo, Seller
from kontobahn.sentences import said

MEDIA_TYPES: dict[Kind, str] = {"pdf": "application/pdf", "xml": "application/xml"}
MAX_PER_RUN = 100
MAX_TRIES = 3
# A service that dies during a try may have died of the document. So after three such tries it is tried rarely, and not for ever.
PAUSE_AFTER_DEATHS = HOUR
MAX_TRIES_WITH_DEATHS = MAX_TRIES + 24
# `busy_until` is when the claim of the last try ended.
_MAY_BE_TRIED = "busy_until <= ? AND (tries < ? OR (last_error IS NULL AND tries < ? AND busy_until <= ?))"
# A try is claimed this long, and the claim renewed while it waits its turn and runs: if it expires, its process has died.
CLAIM_SECONDS = 15
RENEW_SECONDS = 5
# The time that a request waits for documents that another one is making.
WAIT_SECONDS = 10
LOOK_AGAIN_SECONDS = 0.25


class GaveUp(NamedTuple):
    """Documents that could not be made."""

    organization_id: str
    invoice_id: str
    invoice_number: str
    error: str


@cache
def _thread() -> ThreadPoolExecutor:
    """One thread: documents are made one after the other, by one process that uses one core."""
    return ThreadPoolExecutor(1, "typesetter")


@cache
def _typesetter() -> Typesetter:
    return Typesetter()


def _render(facts: Facts, issued_at: int) -> list[Document]:
    return _typesetter().render(facts, issued_at)


async def make(db: Database, organization_id: str, invoice_id: str) -> bool:
    """Makes and stores the documents. Returns False if they exist, are being made or were laid aside. Raises Failed if they cannot be."""
    until = await db.write(_begin, organization_id, invoice_id)
    if until is None:
        return False
    try:
        row, facts = await db.read(load, organization_id, invoice_id)
        rendering = asyncio.get_running_loop().run_in_executor(_thread(), _render, facts, row.invoiced_at)
        while not (await asyncio.wait({rendering}, timeout=RENEW_SECONDS))[0]:
            with suppress(KontobahnError):
                until = await db.write(_renew, organization_id, invoice_id, until)
        await db.write(_store, organization_id, invoice_id, await rendering)
    except (KontobahnError, asyncio.CancelledError):
        # Not the documents' fault: the try does not count.
        with suppress(KontobahnError):
            await db.write(_take_back, organization_id, invoice_id, until)
        raise
    except Exception as error:
        tries = await db.write(_note_failure, organization_id, invoice_id, until, str(error) or type(error).__name__)
        note = log.error if tries >= MAX_TRIES else log.warning
        event = "documents_laid_aside" if tries >= MAX_TRIES else "documents_failed"
        note(event, invoice_id=invoice_id, tries=tries, detail=str(error))
        raise
    return True


async def can_be_printed(logo: Logo) -> bool:
    """Returns whether an invoice with this logo can be made; found out by making one, within the limits of all documents."""
    try:
        await asyncio.get_running_loop().run_in_executor(_thread(), _render, _sample(logo), 0)
    except Failed as error:
        log.info("logo_refused", sha256=logo.sha256, detail=str(error))
        return False
    return True


async def try_make(db: Database, organization_id: str, invoice_id: str) -> None:
    """Makes the documents right after the invoice was issued. A failure is logged and left to the job: the invoice stands."""
    try:
        await make(db, organization_id, invoice_id)
    except KontobahnError as error:
        log.warning("documents_left_to_the_job", invoice_id=invoice_id, detail=error.operator or str(error))
    except Failed:
        pass  # logged, and counted
    except Exception as error:
        log.exception("documents_left_to_the_job", error, invoice_id=invoice_id)


async def fetch(db: Database, organization_id: str, invoice_id: str, kind: Kind) -> Document:
    """Returns the stored document, making it first if it is not there yet. Raises Unavailable if it cannot be made now."""
    ends_at = time.monotonic() + WAIT_SECONDS
    while (found := await db.read(_find, organization_id, invoice_id, kind)) is None:
        try:
            made = await make(db, organization_id, invoice_id)
        except Failed:
            made = False
        if made:
            continue
        tries, is_under_way = await db.read(_state, organization_id, invoice_id)
        if not is_under_way:
            raise _not_made(tries)
        if time.monotonic() > ends_at:
            raise Unavailable("The documents of this invoice are being made right now.", retry_after_seconds=10)
        await asyncio.sleep(LOOK_AGAIN_SECONDS)
    return found


def _not_made(tries: int) -> Unavailable:
    if tries < MAX_TRIES:
        message = "The documents of this invoice could not be made this time. They are tried again within a minute."
        return Unavailable(message, retry_after_seconds=60)
    message = "The documents of this invoice could not be made and were laid aside. The invoice itself is valid; the operator can"
    return Unavailable(
        said("{what} see why, and try again with `kontobahn invoices retry`.", what=message), retry_after_seconds=3600
    )


async def make_due(db: Database) -> None:
    """The job: makes the documents that are still due. One that cannot be made does not hold up the others."""
    for organization_id, invoice_id in await db.read(_due):
        with suppress(Failed):
            await make(db, organization_id, invoice_id)


# --- Laid aside


def given_up(tx: Tx) -> list[GaveUp]:
    rows = tx.all(
        "SELECT d.organization_id, d.invoice_id, i.invoice_number, COALESCE(d.last_error, 'the process ended in each try')"
        " FROM mobility_documents_due d JOIN mobility_invoices i"
        " ON i.organization_id = d.organization_id AND i.id = d.invoice_id"
        " WHERE d.tries >= ? AND d.busy_until <= ? ORDER BY d.invoice_id",
        MAX_TRIES, tx.now,
    )  # fmt: skip
    return [GaveUp(*row) for row in rows]


def allow_again(tx: Tx, invoice_id: str | None) -> list[GaveUp]:
    """Lets the documents of this invoice, or of all, be tried again. Returns those that were laid aside."""
    found = [item for item in given_up(tx) if invoice_id in (None, item.invoice_id, item.invoice_number)]
    if invoice_id is not None and not found:
        raise NotFound(f"No documents of the invoice {invoice_id} have been laid aside.")
    for item in found:
        tx.run(
            "UPDATE mobility_documents_due SET tries = 0 WHERE organization_id = ? AND invoice_id = ? AND tries >= ?",
            item.organization_id, item.invoice_id, MAX_TRIES,
        )  # fmt: skip
    return found


# --- Rows


def _now(tx: Tx) -> tuple[int, int, int, int]:
    return tx.now, MAX_TRIES, MAX_TRIES_WITH_DEATHS, tx.now - PAUSE_AFTER_DEATHS


def _due(tx: Tx) -> list[tuple[str, str]]:
    rows = tx.all(
        f"SELECT organization_id, invoice_id FROM mobility_documents_due WHERE {_MAY_BE_TRIED}"
        " ORDER BY tries, invoice_id LIMIT ?",
        *_now(tx), MAX_PER_RUN,
    )  # fmt: skip
    return [(organization_id, invoice_id) for organization_id, invoice_id in rows]


def _begin(tx: Tx, organization_id: str, invoice_id: str) -> int | None:
    """Counts a try before it begins: one during which this process dies counts too. Returns until when it is ours."""
    until = tx.now + CLAIM_SECONDS * SECOND
    begun = tx.run(
        "UPDATE mobility_documents_due SET tries = tries + 1, busy_until = ?"
        f" WHERE organization_id = ? AND invoice_id = ? AND {_MAY_BE_TRIED}",
        until, organization_id, invoice_id, *_now(tx),
    )  # fmt: skip
    return until if begun else None


def _renew(tx: Tx, organization_id: str, invoice_id: str, until: int) -> int:
    """Returns until when the try is ours now; as before if another process has taken it over."""
    longer = tx.now + CLAIM_SECONDS * SECOND
    renewed = tx.run(
        "UPDATE mobility_documents_due SET busy_until = ? WHERE organization_id = ? AND invoice_id = ? AND busy_until = ?",
        longer, organization_id, invoice_id, until,
    )  # fmt: skip
    return longer if renewed else until


def _take_back(tx: Tx, organization_id: str, invoice_id: str, until: int) -> None:
    tx.run(
        "UPDATE mobility_documents_due SET tries = tries - 1, busy_until = 0"
        " WHERE organization_id = ? AND invoice_id = ? AND busy_until = ?",
        organization_id, invoice_id, until,
    )  # fmt: skip


def _note_failure(tx: Tx, organization_id: str, invoice_id: str, until: int, error: str) -> int:
    row = tx.one(
        "UPDATE mobility_documents_due SET busy_until = 0, last_error = ?"
        " WHERE organization_id = ? AND invoice_id = ? AND busy_until = ? RETURNING tries",
        error[:500], organization_id, invoice_id, until,
    )  # fmt: skip
    return 0 if row is None else int(row[0])


def _state(tx: Tx, organization_id: str, invoice_id: str) -> tuple[int, bool]:
    """Returns how often it was tried, and whether a try is under way; no row means that they were stored just now."""
    row = tx.one(
        "SELECT tries, busy_until FROM mobility_documents_due WHERE organization_id = ? AND invoice_id = ?",
        organization_id, invoice_id,
    )  # fmt: skip
    return (0, True) if row is None else (int(row[0]), row[1] > tx.now)


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


# --- An invoice that nobody gets, to find out whether a logo can be printed before the first real one needs it

_DAY = date(2026, 1, 31)


def _sample(logo: Logo) -> Facts:
    seller = Seller(
        name="Muster GmbH", street="Musterweg 1", postal_code="10115", city="Berlin", tax_number="37/123/45678",
        iban="DE02120300000000202051", contact_name="Erika Muster", contact_phone="030 1234567",
        contact_email="rechnung@muster.example",
    )  # fmt: skip
    buyer = Buyer(
        customer_number="K1", name="Beispiel GmbH", street="Beispielweg 2", postal_code="20095", city="Hamburg",
        country_code="DE", email=None, buyer_reference=None, vat_id=None,
    )  # fmt: skip
    line = Line(
        position=1, ticket_id="t", reference=None, product="Ticket", holder_reference="P1", valid_from="2026-01",
        valid_to="2026-01", price_in_cents=6300, discount_in_cents=0, employer_share_in_cents=None, vat_rate=7,
        amount_in_cents=6300, net_in_cents=5888, credited_number=None, credited_on=None,
    )  # fmt: skip
    return Facts("MUSTER", INVOICE, _DAY, _DAY, seller, buyer, [line], [Sum(7, 5888, 412, 0, 6300)], logo)
