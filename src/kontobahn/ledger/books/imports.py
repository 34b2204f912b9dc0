"""Batches as answers: imports with their status and their protocol."""

from __future__ import annotations

from datetime import date
from typing import Any

import msgspec

from kontobahn.clock import to_datetime
from kontobahn.db import Tx
from kontobahn.formats.extf import CATEGORIES
from kontobahn.ledger.books import batches
from kontobahn.ledger.books.batches import CALL, FILE, RETAX, UNDO, BatchRow
from kontobahn.ledger.books.store import Client
from kontobahn.ledger.imports import Import, ImportArt, ImportMitProtokoll, Protokollzeile

_KINDS: dict[str, ImportArt] = {CALL: "BUCHUNGEN", UNDO: "STORNO", RETAX: "KORREKTUR"}


def listing(tx: Tx, client: Client, before: str | None, limit: int) -> list[Import]:
    return [Import(**_fields(client, row)) for row in batches.listing(tx, client, before, limit)]


def find(tx: Tx, clients: list[Client], batch_id: str) -> ImportMitProtokoll | None:
    for client in clients:
        row = batches.find(tx, client, batch_id)
        if row is not None and row.kind != batches.CASH:
            text = batches.protocol_text(tx, row)
            protokoll = msgspec.json.decode(text, type=list[Protokollzeile]) if text else []
            return ImportMitProtokoll(**_fields(client, row), protokoll=protokoll)
    return None


def _fields(client: Client, row: BatchRow) -> dict[str, Any]:
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
