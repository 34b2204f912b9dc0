"""Structs that calls of reconciliation share: lines, reasons, proposals, matches; how proposals are stored; events; errors."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import date
from decimal import Decimal
from typing import Annotated, Any, ClassVar, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from kontobahn.api.wire import Answer, Timestamp, Uuid
from kontobahn.clock import to_datetime
from kontobahn.db import Tx
from kontobahn.ledger.errors import LedgerError
from kontobahn.money import from_minor
from kontobahn.reconciliation.core.model import EvidenceClass, Line, LineKind, Proposal, Reason
from kontobahn.reconciliation.store import LineRow, MatchRow, ProposalRow, ProposalState, RunRow, UndoRow
from kontobahn.webhooks import outbox

# Choice 44: English in snake_case, but for `beleg`, `konto` and `skonto`.

# Calls that read transactions need this scope beside the ledger's.
BANK_SCOPE: Literal["banking:read"] = "banking:read"
_ID = Meta(examples=["1000000000042"])


class ReconciliationError(LedgerError, kw_only=True):
    """An error of reconciliation: its own fields, or those of the ledger that it asked."""

    samples: ClassVar[Mapping[int, dict[str, Any]]] = {
        409: {
            "error": "This transaction is matched already: undo that match first.",
            "transaction_id": "1000000000001",
            "match_id": "01930000-0000-7000-8000-0000a1b2c3d4",
        },
        422: {
            "error": "The lines sum to 100.00, the transaction is 119.00.",
            "amount": Decimal("119.00"),
            "total": Decimal("100.00"),
            "difference": Decimal("19.00"),
        },
    }

    account_id: Annotated[str, Meta(description="409: the bank account that no books were named for.")] | UnsetType = (
        UNSET
    )
    connection_id: (
        Annotated[Uuid, Meta(description="409 of a run: the books the account is set up for.")] | UnsetType
    ) = UNSET
    client_id: Annotated[str, Meta(description="409 of a run: the client the account is set up for.")] | UnsetType = (
        UNSET
    )
    transaction_id: Annotated[str, Meta(description="409: the transaction that stands in the way.")] | UnsetType = UNSET
    currency_code: Annotated[str, Meta(description="409: its currency, which is not EUR.")] | UnsetType = UNSET
    status: Annotated[ProposalState, Meta(description="409: the state of the proposal.")] | UnsetType = UNSET
    match_id: Annotated[Uuid, Meta(description="409: the match that stands in the way.")] | UnsetType = UNSET
    undo_id: Annotated[Uuid, Meta(description="409: by which the match is undone.")] | UnsetType = UNSET
    konto: Annotated[str, Meta(description="409: the account that does not fit.")] | UnsetType = UNSET
    beleg: Annotated[str, Meta(description="409: the document of which less is open.")] | UnsetType = UNSET
    open_amount: Annotated[Decimal, Meta(description="409: what is open of it.")] | UnsetType = UNSET
    amount: Annotated[Decimal, Meta(description="409: that of the line; 422: that of the transaction.")] | UnsetType = (
        UNSET
    )
    total: Annotated[Decimal, Meta(description="422: what the lines sum to.")] | UnsetType = UNSET
    difference: Annotated[Decimal, Meta(description="422: the amount less the total.")] | UnsetType = UNSET
    left_out: (
        Annotated[int, Meta(description="409 of a batch: the matches that cannot be handed over.")] | UnsetType
    ) = UNSET
    booked_by: Annotated[str, Meta(description="409 of a batch's file: who books these payments.")] | UnsetType = UNSET


class MatchLine(Answer):
    kind: LineKind
    konto: str
    beleg: str
    amount: Decimal


class MatchReason(Answer):
    signal: str
    value: str
    # Its place in which text: null if it is in none.
    field: str | None
    start: int | None
    end: int | None
    bits: Decimal


class MatchProposal(Answer):
    id: Uuid
    transaction_id: str
    status: ProposalState
    rank: int
    evidence_class: EvidenceClass
    clear: bool
    score: Decimal
    lines: list[MatchLine]
    reasons: list[MatchReason]
    engine_version: str


class MatchUndo(Answer):
    id: Uuid
    reason: str
    created_by: str
    created_at: Timestamp


class Match(Answer):
    id: Uuid
    transaction_id: str
    account_id: str
    connection_id: Uuid
    client_id: str
    proposal_id: Uuid | None
    # Null if it was made by hand.
    evidence_class: EvidenceClass | None
    made_on: date
    amount: Decimal
    name: str | None
    lines: list[MatchLine]
    # `engine`, or who confirmed it as the audit log names them.
    created_by: str
    created_at: Timestamp
    undo: MatchUndo | None


def match_lines(lines: Sequence[Line | LineRow]) -> list[MatchLine]:
    return [
        MatchLine(kind=line.kind, konto=line.konto, beleg=line.beleg, amount=from_minor(line.amount_minor))
        for line in lines
    ]


def match_reasons(reasons: Sequence[Reason]) -> list[MatchReason]:
    return [
        MatchReason(
            signal=reason.signal,
            value=reason.value,
            field=reason.field or None,
            start=reason.start if reason.field else None,
            end=reason.end if reason.field else None,
            bits=tenths(reason.bits),
        )
        for reason in reasons
    ]


def tenths(bits: float) -> Decimal:
    return Decimal(f"{bits:.1f}")


# --- Stored


_LINES = msgspec.json.Decoder(tuple[Line, ...])
_REASONS = msgspec.json.Decoder(tuple[Reason, ...])


def stored_lines(lines: Sequence[Line]) -> str:
    """As a proposal keeps them: equal lines have equal texts."""
    return _text([tuple(line) for line in lines])


def stored_reasons(proposal: Proposal) -> str:
    return _text([tuple(reason) for reason in proposal.reasons])


def lines_of(row: ProposalRow) -> tuple[Line, ...]:
    return _LINES.decode(row.lines)


def _text(rows: Any) -> str:
    return msgspec.json.encode(rows).decode()


def proposal_view(row: ProposalRow) -> MatchProposal:
    return MatchProposal(
        id=row.id,
        transaction_id=str(row.transaction_id),
        status=row.state,
        rank=row.place,
        evidence_class=row.evidence,
        clear=bool(row.acts),
        score=Decimal(row.score_tenths).scaleb(-1),
        lines=match_lines(lines_of(row)),
        reasons=match_reasons(_REASONS.decode(row.reasons)),
        engine_version=row.engine_version,
    )


def match_view(row: MatchRow, lines: Sequence[LineRow], undo: UndoRow | None) -> Match:
    return Match(
        id=row.id,
        transaction_id=str(row.transaction_id),
        account_id=str(row.account_id),
        connection_id=row.connection_id,
        client_id=row.client_id,
        proposal_id=row.proposal_id,
        evidence_class=row.evidence or None,  # type: ignore[arg-type]
        made_on=date.fromisoformat(row.made_on),
        amount=from_minor(row.amount_minor),
        name=row.payer or None,
        lines=match_lines(lines),
        created_by=row.made_by,
        created_at=to_datetime(row.made_at),
        undo=None
        if undo is None
        else MatchUndo(id=undo.id, reason=undo.reason, created_by=undo.made_by, created_at=to_datetime(undo.made_at)),
    )


# --- Events: the `data` of each, and the function that emits it, in the transaction of the change


class EmittedLine(Answer):
    kind: Annotated[LineKind, Meta(examples=["item"])]
    konto: Annotated[str, Meta(examples=["100100000"])]
    beleg: Annotated[str, Meta(examples=["RE-2026-00123"])]
    amount: Decimal


class MatchProposed(Answer):
    """A run has new proposals that a person must decide about. One event for the run. Only further webhook endpoints get it."""

    run_id: Uuid
    account_id: Annotated[str, Meta(examples=["1000000000001"])]
    proposed: Annotated[int, Meta(description="Transactions with proposals.", examples=[12])]
    new: Annotated[int, Meta(description="Of these, with one that no run made before.", examples=[3])]
    matched: Annotated[int, Meta(description="Transactions that were matched without asking.", examples=[30])]


class _OfMatch(Answer):
    match_id: Uuid
    transaction_id: Annotated[str, _ID]
    account_id: Annotated[str, Meta(examples=["1000000000001"])]
    made_on: date
    amount: Decimal
    evidence_class: Annotated[str | None, Meta(description="Null if it was made by hand.", examples=["A2"])]
    lines: list[EmittedLine]


class MatchConfirmed(_OfMatch, kw_only=True):
    """A transaction was matched, by a person, a key or without asking. Only further webhook endpoints get it."""

    automatic: bool


class MatchUndone(_OfMatch, kw_only=True):
    """A match was undone. Only further webhook endpoints get it."""

    reason: str


class BatchCreated(Answer):
    """Matches were handed over: booked, or listed for the office. Only further webhook endpoints get it."""

    batch_id: Uuid
    account_id: Annotated[str, Meta(examples=["1000000000001"])]
    booked_by: Annotated[str, Meta(examples=["adviser"])]
    matches: Annotated[int, Meta(examples=[12])]
    reversals: Annotated[int, Meta(examples=[0])]


EVENTS: dict[str, type[Answer]] = {
    "match_proposed": MatchProposed,
    "match_confirmed": MatchConfirmed,
    "match_undone": MatchUndone,
    "batch_created": BatchCreated,
}


def emit_proposed(tx: Tx, run: RunRow, proposed: int, news: int, matched: int) -> None:
    data = MatchProposed(run_id=run.id, account_id=str(run.account_id), proposed=proposed, new=news, matched=matched)
    outbox.emit(tx, run.organization_id, "match_proposed", f"reconciliation:{run.account_id}", data)


def emit_confirmed(tx: Tx, row: MatchRow, lines: Iterable[Line]) -> None:
    data = MatchConfirmed(**_facts(row, lines), automatic=row.made_by == "engine")
    outbox.emit(tx, row.organization_id, "match_confirmed", f"transaction:{row.transaction_id}", data)


def emit_undone(tx: Tx, row: MatchRow, undo: UndoRow, lines: Iterable[Line]) -> None:
    data = MatchUndone(**_facts(row, lines), reason=undo.reason)
    outbox.emit(tx, row.organization_id, "match_undone", f"transaction:{row.transaction_id}", data)


def emit_batch_created(
    tx: Tx, organization_id: str, batch_id: str, account_id: str, booked_by: str, matches: int, reversals: int
) -> None:
    data = BatchCreated(
        batch_id=batch_id, account_id=account_id, booked_by=booked_by, matches=matches, reversals=reversals
    )
    outbox.emit(tx, organization_id, "batch_created", f"reconciliation:{account_id}", data)


def _facts(row: MatchRow, lines: Iterable[Line]) -> dict[str, Any]:
    return {
        "match_id": row.id,
        "transaction_id": str(row.transaction_id),
        "account_id": str(row.account_id),
        "made_on": date.fromisoformat(row.made_on),
        "amount": from_minor(row.amount_minor),
        "evidence_class": row.evidence or None,
        "lines": [
            EmittedLine(kind=line.kind, konto=line.konto, beleg=line.beleg, amount=from_minor(line.amount_minor))
            for line in lines
        ],
    }
