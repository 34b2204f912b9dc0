"""Payments and the invoices that they paid. Names are those of the API."""

from __future__ import annotations

from datetime import date, datetime
from decimal import Decimal
from typing import Literal

import msgspec

from kontobahn_client.models.common import Answer, Body


class NewRun(Body, kw_only=True):
    account_id: str
    connection_id: str | None = None
    client_id: str | None = None
    from_date: date | None = None
    to_date: date | None = None
    trial: bool = True
    limit: int = 100


class RunClass(Answer, kw_only=True):
    evidence_class: str
    count: int
    clear: int
    amount: Decimal


class MatchReason(Answer, kw_only=True):
    signal: str
    value: str
    field: str | None
    start: int | None
    end: int | None
    bits: Decimal


class MatchLine(Answer, kw_only=True):
    kind: str
    konto: str
    beleg: str
    amount: Decimal


class RunProposal(Answer, kw_only=True):
    evidence_class: str
    clear: bool
    score: Decimal
    lines: list[MatchLine]
    reasons: list[MatchReason]


class RunTransaction(Answer, kw_only=True):
    id: str
    made_on: date
    amount: Decimal
    name: str | None
    proposals: list[RunProposal]


class Run(Answer, kw_only=True):
    id: str | None
    trial: bool
    engine_version: str
    account_id: str
    from_date: date
    to_date: date
    transactions: int
    open_items: int
    booked: int
    partners_known: bool
    matched: int
    proposed: int
    outdated: int
    classes: list[RunClass]
    data: list[RunTransaction]


class NewReconciliationSettings(Body, kw_only=True):
    connection_id: str
    konto: str
    client_id: str | None = None
    fee_konto: str | None = None
    transfer_konto: str | None = None
    start_date: date | None = None
    booked_by: Literal["adviser", "kontobahn"] = "adviser"
    automatic_classes: list[Literal["A1", "A2", "A3", "A4", "A5"]] = msgspec.field(default_factory=list)


class ReconciliationSettings(Answer, kw_only=True):
    account_id: str
    connection_id: str
    client_id: str
    konto: str
    fee_konto: str | None
    transfer_konto: str | None
    start_date: date | None
    booked_by: str
    automatic_classes: list[str]
    updated_by: str
    updated_at: datetime


class MatchProposal(Answer, kw_only=True):
    id: str
    transaction_id: str
    status: str
    rank: int
    evidence_class: str
    clear: bool
    score: Decimal
    lines: list[MatchLine]
    reasons: list[MatchReason]
    engine_version: str


class MatchUndo(Answer, kw_only=True):
    id: str
    reason: str
    created_by: str
    created_at: datetime


class Match(Answer, kw_only=True):
    id: str
    transaction_id: str
    account_id: str
    connection_id: str
    client_id: str
    proposal_id: str | None
    evidence_class: str | None
    made_on: date
    amount: Decimal
    name: str | None
    lines: list[MatchLine]
    created_by: str
    created_at: datetime
    undo: MatchUndo | None


class NewMatchLine(Body, kw_only=True):
    kind: Literal["item", "skonto", "fee", "difference", "on_account", "return", "transfer", "ledger_account"]
    amount: Decimal
    konto: str | None = None
    beleg: str = ""
    skonto: Decimal | None = None


class NewMatch(Body, kw_only=True):
    transaction_id: str
    lines: list[NewMatchLine]


class NewMatchUndo(Body, kw_only=True):
    reason: str = ""


class NewConfirmations(Body, kw_only=True):
    ids: list[str]


class Confirmation(Answer, kw_only=True):
    id: str
    match_id: str | None
    error: str | None


class NewTransactionStatus(Body, kw_only=True):
    status: Literal["ignored", "open"]


class ReconciledTransaction(Answer, kw_only=True):
    id: str
    account_id: str
    status: str
    removed: bool
    made_on: date | None
    amount: Decimal | None
    currency_code: str | None
    name: str | None
    iban: str | None
    purpose: str | None
    best_proposal: MatchProposal | None
    match_id: str | None


class ReconciledTransactionWithProposals(ReconciledTransaction, kw_only=True):
    proposals: list[MatchProposal]
    matches: list[Match]


class LearnedPayer(Answer, kw_only=True):
    id: str
    kind: str
    value: str
    konto: str
    confirmations: int
    effective: bool
    first_at: datetime
    last_at: datetime


class NewMatchRule(Body, kw_only=True):
    name: str
    konto: str
    text: str = ""
    iban: str = ""
    direction: Literal["in", "out", "any"] = "any"
    min_amount: Decimal | None = None
    max_amount: Decimal | None = None
    automatic: bool = False


class NewMatchRules(Body, kw_only=True):
    rules: list[NewMatchRule]


class MatchRule(Answer, kw_only=True):
    id: str
    name: str
    konto: str
    text: str
    iban: str
    direction: str
    min_amount: Decimal | None
    max_amount: Decimal | None
    automatic: bool


class ReportClass(Answer, kw_only=True):
    evidence_class: str
    matches: int
    automatic: int
    amount: Decimal
    undone: int


class ReportStates(Answer, kw_only=True):
    open: int
    proposed: int
    matched: int
    ignored: int
    booked: int


class ReconciliationReport(Answer, kw_only=True):
    account_id: str
    from_date: date
    to_date: date
    transactions: ReportStates
    classes: list[ReportClass]
    automatic: int
    automatic_undone: int
    undone_per_thousand: Decimal | None
    confirmed: int
    confirmed_first: int
    rejected: int


class NewBatch(Body, kw_only=True):
    account_id: str
    from_date: date | None = None
    to_date: date | None = None


class Batch(Answer, kw_only=True):
    id: str
    account_id: str
    connection_id: str
    client_id: str
    booked_by: str
    fiscal_year_start: date
    from_date: date
    to_date: date
    matches: int
    reversals: int
    total: Decimal
    file_name: str | None
    sha256: str | None
    import_ids: list[str]
    created_by: str
    created_at: datetime


class BatchLine(Answer, kw_only=True):
    match_id: str
    transaction_id: str
    made_on: date
    reversal: bool
    konto: str
    beleg: str
    amount: Decimal
    skonto: Decimal
    text: str


class BatchBooking(Answer, kw_only=True):
    match_id: str
    transaction_id: str
    made_on: date
    konto: str
    beleg: str
    amount: Decimal
    skonto: Decimal
    outcome: str
    booked_on: date | None
    booked_konto: str | None
    booked_beleg: str | None
    booked_amount: Decimal | None
    booked_skonto: Decimal | None
    difference: Decimal | None


class LeftOutMatch(Answer, kw_only=True):
    match_id: str
    transaction_id: str
    reason: str
    konto: str | None
    beleg: str | None
    open_amount: Decimal | None
    amount: Decimal | None


class BatchItem(Answer, kw_only=True):
    konto: str
    beleg: str
    open_before: Decimal
    open_after: Decimal


class BatchWithLines(Batch, kw_only=True):
    lines: list[BatchLine]
    left_out: list[LeftOutMatch]
    items: list[BatchItem]
