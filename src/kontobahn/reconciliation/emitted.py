"""The events of reconciliation: what each one's `data` contains, and what emits it, in the transaction of the change."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import date
from decimal import Decimal
from typing import Annotated, Any

from msgspec import Meta

from kontobahn.api.wire import Answer, Uuid
from kontobahn.db import Tx
from kontobahn.money import from_minor
from kontobahn.reconciliation.core.model import Line, LineKind
from kontobahn.reconciliation.store import MatchRow, RunRow, UndoRow
from kontobahn.webhooks import outbox

_ID = Meta(examples=["1000000000042"])


class EmittedLine(Answer):
    art: Annotated[LineKind, Meta(examples=["posten"])]
    kontonummer: Annotated[str, Meta(examples=["100100000"])]
    beleg: Annotated[str, Meta(examples=["RE-2026-00123"])]
    betrag: Decimal


class MatchProposed(Answer):
    """A run has new proposals that a person must decide about. One event for the run. Only further webhook endpoints get it."""

    run_id: Uuid
    account_id: Annotated[str, Meta(examples=["1000000000001"])]
    vorgeschlagen: Annotated[int, Meta(description="Transactions with proposals.", examples=[12])]
    neu: Annotated[int, Meta(description="Of these, with one that no run made before.", examples=[3])]
    zugeordnet: Annotated[int, Meta(description="Transactions that were matched without asking.", examples=[30])]


class _OfMatch(Answer):
    match_id: Uuid
    transaction_id: Annotated[str, _ID]
    account_id: Annotated[str, Meta(examples=["1000000000001"])]
    made_on: date
    betrag: Decimal
    klasse: Annotated[str | None, Meta(description="Null if it was made by hand.", examples=["A2"])]
    zeilen: list[EmittedLine]


class MatchConfirmed(_OfMatch, kw_only=True):
    """A transaction was matched, by a person, a key or without asking. Only further webhook endpoints get it."""

    automatisch: bool


class MatchUndone(_OfMatch, kw_only=True):
    """A match was undone. Only further webhook endpoints get it."""

    grund: str


class BatchCreated(Answer):
    """Matches were handed over: booked, or listed for the office. Only further webhook endpoints get it."""

    batch_id: Uuid
    account_id: Annotated[str, Meta(examples=["1000000000001"])]
    bucht: Annotated[str, Meta(examples=["kanzlei"])]
    zuordnungen: Annotated[int, Meta(examples=[12])]
    stornos: Annotated[int, Meta(examples=[0])]


EVENTS: dict[str, type[Answer]] = {
    "match_proposed": MatchProposed,
    "match_confirmed": MatchConfirmed,
    "match_undone": MatchUndone,
    "batch_created": BatchCreated,
}


def emit_proposed(tx: Tx, run: RunRow, proposed: int, news: int, matched: int) -> None:
    data = MatchProposed(
        run_id=run.id, account_id=str(run.account_id), vorgeschlagen=proposed, neu=news, zugeordnet=matched
    )
    outbox.emit(tx, run.organization_id, "match_proposed", f"reconciliation:{run.account_id}", data)


def emit_confirmed(tx: Tx, row: MatchRow, lines: Iterable[Line]) -> None:
    data = MatchConfirmed(**_facts(row, lines), automatisch=row.made_by == "engine")
    outbox.emit(tx, row.organization_id, "match_confirmed", f"transaction:{row.transaction_id}", data)


def emit_undone(tx: Tx, row: MatchRow, undo: UndoRow, lines: Iterable[Line]) -> None:
    data = MatchUndone(**_facts(row, lines), grund=undo.grund)
    outbox.emit(tx, row.organization_id, "match_undone", f"transaction:{row.transaction_id}", data)


def emit_batch_created(
    tx: Tx, organization_id: str, batch_id: str, account_id: str, bucht: str, zuordnungen: int, stornos: int
) -> None:
    data = BatchCreated(batch_id=batch_id, account_id=account_id, bucht=bucht, zuordnungen=zuordnungen, stornos=stornos)
    outbox.emit(tx, organization_id, "batch_created", f"reconciliation:{account_id}", data)


def _facts(row: MatchRow, lines: Iterable[Line]) -> dict[str, Any]:
    return {
        "match_id": row.id,
        "transaction_id": str(row.transaction_id),
        "account_id": str(row.account_id),
        "made_on": date.fromisoformat(row.made_on),
        "betrag": from_minor(row.amount_minor),
        "klasse": row.evidence or None,
        "zeilen": [
            EmittedLine(art=line.kind, kontonummer=line.konto, beleg=line.beleg, betrag=from_minor(line.amount_minor))
            for line in lines
        ],
    }
