"""Structs that calls of reconciliation share: lines, reasons, proposals, matches; how proposals are stored; events; errors."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import date
from decimal import Decimal
from typing import Annotated, Any, ClassVar, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from kontobahn.api.answers import from_row
from kontobahn.api.wire import Answer, Timestamp, Uuid
from kontobahn.clock import to_datetime
from kontobahn.db import Tx
from kontobahn.ledger.errors import LedgerError
from kontobahn.money import from_minor
from kontobahn.reconciliation.core.model import ENGINE_VERSION, EvidenceClass, Line, LineKind, Proposal, Reason
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
    return from_row(
        Match,
        row,
        transaction_id=str(row.transaction_id),
        account_id=str(row.account_id),
        evidence_class=row.evidence or None,
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


# Examples that the documentation shows of reconciliation: one payment of one invoice, from proposal to undoing.


ACCOUNT, TRANSACTION = "1000000000001", "1000000000042"
CONNECTION, CLIENT = "0193b2a0-0000-7000-8000-000000000001", "29098-55003"
PROPOSAL, MATCH = "0193b2a0-0000-7000-8000-000000000021", "0193b2a0-0000-7000-8000-000000000031"
_UNDO, _LEARNED = "0193b2a0-0000-7000-8000-000000000041", "0193b2a0-0000-7000-8000-000000000051"
_RULE = "0193b2a0-0000-7000-8000-000000000061"
_AT = "2026-03-31T18:00:00Z"
LINES = [{"kind": "item", "konto": "100100000", "beleg": "RE-2026-00123", "amount": 119.0}]
REASONS = [
    {"signal": "number", "value": "RE-2026-00123", "field": "svwz", "start": 9, "end": 22, "bits": 9.9},
    {"signal": "amount", "value": "119.00", "field": None, "start": None, "end": None, "bits": 12.0},
    {"signal": "iban", "value": "2051 (master data)", "field": None, "start": None, "end": None, "bits": 20.0},
]
_SETTINGS = {
    "account_id": ACCOUNT, "connection_id": CONNECTION, "client_id": CLIENT, "konto": "12000000", "fee_konto": "49700000",
    "transfer_konto": None, "start_date": "2026-01-01", "booked_by": "adviser", "automatic_classes": ["A1", "A2"],
    "updated_by": "user:0193b2a0-0000-7000-8000-000000000002", "updated_at": _AT,
}  # fmt: skip
_PROPOSAL = {
    "id": PROPOSAL, "transaction_id": TRANSACTION, "status": "open", "rank": 1, "evidence_class": "A2", "clear": True,
    "score": 41.9, "lines": LINES, "reasons": REASONS, "engine_version": ENGINE_VERSION,
}  # fmt: skip
_MATCH = {
    "id": MATCH, "transaction_id": TRANSACTION, "account_id": ACCOUNT, "connection_id": CONNECTION, "client_id": CLIENT,
    "proposal_id": PROPOSAL, "evidence_class": "A2", "made_on": "2026-03-02", "amount": 119.0, "name": "Muster GmbH", "lines": LINES,
    "created_by": "user:0193b2a0-0000-7000-8000-000000000002", "created_at": _AT, "undo": None,
}  # fmt: skip
_TRANSACTION = {
    "id": TRANSACTION, "account_id": ACCOUNT, "status": "proposed", "removed": False, "made_on": "2026-03-02", "amount": 119.0,
    "currency_code": "EUR", "name": "Muster GmbH", "iban": "DE02120300000000202051",
    "purpose": "Rechnung RE-2026-00123 danke", "best_proposal": _PROPOSAL, "match_id": None,
}  # fmt: skip
_STORED_RULE = {
    "id": _RULE, "name": "Miete Büro", "konto": "42100000", "text": "Miete", "iban": "", "direction": "out",
    "min_amount": 700.0, "max_amount": 900.0, "automatic": False,
}  # fmt: skip

SETTINGS: dict[str, Any] = {"data": _SETTINGS}
ALL_SETTINGS: dict[str, Any] = {"data": [_SETTINGS]}
SETTINGS_SENT: dict[str, Any] = {"connection_id": CONNECTION, "konto": "1200", "automatic_classes": ["A1", "A2"]}
TRANSACTIONS: dict[str, Any] = {"data": [_TRANSACTION]}
ONE_TRANSACTION: dict[str, Any] = {"data": {**_TRANSACTION, "proposals": [_PROPOSAL], "matches": []}}
IGNORED: dict[str, Any] = {"data": {**_TRANSACTION, "status": "ignored", "proposals": [_PROPOSAL], "matches": []}}
REJECTED: dict[str, Any] = {"data": {**_PROPOSAL, "status": "rejected"}}
CONFIRMATIONS: dict[str, Any] = {"data": [{"id": PROPOSAL, "match_id": MATCH, "error": None}]}
MATCHED: dict[str, Any] = {"data": _MATCH}
MATCHES: dict[str, Any] = {"data": [_MATCH]}
MATCHED_BY_HAND: dict[str, Any] = {
    "data": {
        **_MATCH, "proposal_id": None, "evidence_class": None, "amount": 116.62,
        "lines": [*LINES, {"kind": "skonto", "konto": "100100000", "beleg": "RE-2026-00123", "amount": -2.38}],
    }
}  # fmt: skip
MATCH_SENT: dict[str, Any] = {
    "transaction_id": TRANSACTION,
    "lines": [{"kind": "item", "konto": "10010", "beleg": "RE-2026-00123", "amount": 116.62, "skonto": 2.38}],
}
UNDONE: dict[str, Any] = {
    "data": {
        **_MATCH,
        "undo": {"id": _UNDO, "reason": "anderer Kunde", "created_by": _MATCH["created_by"], "created_at": _AT},
    }
}
LEARNED: dict[str, Any] = {
    "id": _LEARNED, "kind": "iban", "value": "DE02120300000000202051", "konto": "100100000", "confirmations": 2,
    "effective": True, "first_at": _AT, "last_at": _AT,
}  # fmt: skip
RULES: dict[str, Any] = {"data": [_STORED_RULE]}
RULES_SENT: dict[str, Any] = {
    "rules": [
        {
            "name": "Miete Büro",
            "konto": "4210",
            "text": "Miete",
            "direction": "out",
            "min_amount": 700.0,
            "max_amount": 900.0,
        }
    ]
}
REPORT: dict[str, Any] = {
    "data": {
        "account_id": ACCOUNT, "from_date": "2025-04-01", "to_date": "2026-03-31",
        "transactions": {"open": 4, "proposed": 12, "matched": 180, "ignored": 2, "booked": 31},
        "classes": [{"evidence_class": "A2", "matches": 141, "automatic": 130, "amount": 61274.5, "undone": 0}],
        "automatic": 130, "automatic_undone": 0, "undone_per_thousand": 0.0, "confirmed": 50, "confirmed_first": 48,
        "rejected": 2,
    }
}  # fmt: skip
_BATCH = {
    "id": "0193b2a0-0000-7000-8000-000000000071", "account_id": ACCOUNT, "connection_id": CONNECTION, "client_id": CLIENT,
    "booked_by": "kontobahn", "fiscal_year_start": "2026-01-01", "from_date": "2026-01-01", "to_date": "2026-03-31",
    "matches": 1, "reversals": 0, "total": 119.0, "file_name": "EXTF_Buchungsstapel_29098_55003_20260302_20260302.csv",
    "sha256": "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
    "import_ids": ["0193b2a0-0000-7000-8000-000000000072"], "created_by": "user:0193b2a0-0000-7000-8000-000000000002", "created_at": _AT,
}  # fmt: skip
_ROWS = {
    "lines": [
        {
            "match_id": MATCH, "transaction_id": TRANSACTION, "made_on": "2026-03-02", "reversal": False, "konto": "100100000",
            "beleg": "RE-2026-00123", "amount": 119.0, "skonto": 0, "text": "Muster GmbH",
        }
    ],
    "left_out": [],
    "items": [{"konto": "100100000", "beleg": "RE-2026-00123", "open_before": 119.0, "open_after": 0}],
}  # fmt: skip
BATCHES: dict[str, Any] = {"data": [_BATCH]}
BATCH: dict[str, Any] = {"data": {**_BATCH, **_ROWS}}
BATCH_BOOKINGS: dict[str, Any] = {
    "data": [
        {
            "match_id": MATCH, "transaction_id": TRANSACTION, "made_on": "2026-03-02", "konto": "100100000", "beleg": "RE-2026-00123",
            "amount": 119.0, "skonto": 0, "outcome": "otherwise", "booked_on": "2026-03-09", "booked_konto": "100100000",
            "booked_beleg": "RE-2026-00123", "booked_amount": 117.0, "booked_skonto": 0, "difference": -2.0,
        }
    ]
}  # fmt: skip
NEW_BATCH: dict[str, Any] = {**BATCH, "platform": {"neuesGuthaben": 99}}
