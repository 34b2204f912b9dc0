"""Structs that the calls of payables share: a payable as it is shown, its findings, its steps; events; errors."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date
from decimal import Decimal
from typing import Annotated, Any, ClassVar

import msgspec
from msgspec import UNSET, Meta, UnsetType

from kontobahn.api.answers import Error, from_row
from kontobahn.api.wire import Answer, Timestamp, Uuid
from kontobahn.db import Tx
from kontobahn.formats.invoices.model import Class, Finding, Remark, Severity
from kontobahn.formats.invoices.rule_sets import Used
from kontobahn.money import from_minor
from kontobahn.payables.rules import Kind, Status, Stop, Why, is_to_be_paid
from kontobahn.payables.store import DueRow, PayableRow, StepRow
from kontobahn.webhooks import outbox


class PayableFinding(Answer):
    # After the letter of the ministry of finance.
    finding_class: Class = msgspec.field(name="class")
    rule: Annotated[str, Meta(examples=["BR-CO-15"])]
    rule_set: Annotated[str, Meta(examples=["EN 16931 1.3.16"])]
    path: str
    severity: Severity
    message: str


class PayableCreditor(Answer):
    name: str
    vat_id: str | None
    iban: str | None
    konto: Annotated[str | None, Meta(description="The person account; null while none is assigned.")]


class SkontoTerm(Answer):
    percent: Decimal
    days: int
    until: date
    amount: Annotated[Decimal, Meta(description="What is deducted.")]


class PayableProposal(Answer):
    konto: Annotated[str, Meta(description="Empty if only the tax key is proposed.")]
    steuer: Annotated[str, Meta(description="The tax key; empty for none.")]
    reason: Annotated[str, Meta(description="The share of the creditor's latest invoices.", examples=["5/6"])]
    category: Annotated[
        str, Meta(description="The VAT category that the key follows from; empty if it is a habit.")
    ] = ""


class PayableRuleSet(Answer):
    name: Annotated[str, Meta(examples=["xrechnung"])]
    version: Annotated[str, Meta(examples=["2.6.0"])]
    valid_from: date
    is_outdated: bool


class Payable(Answer, kw_only=True):
    id: Uuid
    organization_id: Uuid
    status: Status
    kind: Kind
    number: str
    issue_date: date
    due_date: date | None
    currency_code: str
    total: Decimal
    payable_amount: Decimal
    creditor: PayableCreditor
    terms: Annotated[list[SkontoTerm], Meta(description="Skonto, the largest first.")]
    format: str
    profile: str
    findings: list[PayableFinding]
    rule_sets: Annotated[list[PayableRuleSet], Meta(description="What it was checked by when it came.")]
    warnings: list[str]
    proposals: PayableProposal | None
    stops: Annotated[list[Stop], Meta(description="Why a person has to look at it.")]
    hold_until: date | None
    to_be_paid: Annotated[
        bool, Meta(description="False if nothing is owed, or the creditor takes the money (direct debit, card, cash).")
    ]
    connection_id: Uuid | None
    client_id: str | None
    payment_id: str | None
    match_id: Uuid | None
    document_guid: Uuid
    created_at: Timestamp
    updated_at: Timestamp


class PayableStep(Answer):
    action: str
    actor: str
    comment: str
    created_at: Timestamp


class RunLeftOut(Answer):
    """An invoice that a payment run does not pay, and why."""

    payable_id: Uuid
    number: str
    reason: Annotated[Why, Meta(description="For programs; `message` says the same in words.")]
    message: str


class PayablesError(Error, kw_only=True):
    """An error of payables."""

    samples: ClassVar[Mapping[int, dict[str, Any]]] = {
        409: {"error": "This invoice cannot be released as it stands.", "status": "rejected"},
        422: {
            "error": "No invoice could be read from the file. It is kept.",
            "file_id": "01930000-0000-7000-8000-0000a1b2c3d4",
            "findings": [],
        },
    }

    status: Annotated[Status, Meta(description="409: that of the payable.")] | UnsetType = UNSET
    file_id: Annotated[Uuid, Meta(description="422: by which the file is kept.")] | UnsetType = UNSET
    findings: Annotated[list[PayableFinding], Meta(description="422: what is wrong with the file.")] | UnsetType = UNSET
    left_out: Annotated[list[RunLeftOut], Meta(description="409: what a payment run cannot pay.")] | UnsetType = UNSET


_findings = msgspec.json.Decoder(list[Finding]).decode
_warnings = msgspec.json.Decoder(list[Remark]).decode
_terms = msgspec.json.Decoder(list[SkontoTerm]).decode
_rule_sets = msgspec.json.Decoder(list[Used]).decode
_proposal = msgspec.json.Decoder(PayableProposal | None).decode


def payable_view(row: PayableRow) -> Payable:
    return from_row(
        Payable,
        row,
        total=from_minor(row.total_minor),
        payable_amount=from_minor(row.payable_minor),
        creditor=PayableCreditor(
            name=row.creditor_name,
            vat_id=row.creditor_vat_id or None,
            iban=row.creditor_iban or None,
            konto=row.konto or None,
        ),
        terms=_terms(row.terms),
        findings=[finding_view(one) for one in _findings(row.findings)],
        warnings=[one.message("en") for one in _warnings(row.warnings)],
        rule_sets=[PayableRuleSet(*one) for one in _rule_sets(row.rule_sets)],
        proposals=_proposal(row.proposal),
        stops=row.stops.split(),
        to_be_paid=is_to_be_paid(row.means_code, row.payable_minor),
        connection_id=row.connection_id or None,
        client_id=row.client_id or None,
        payment_id=None if row.payment_id is None else str(row.payment_id),
    )


def finding_view(finding: Finding) -> PayableFinding:
    return from_row(PayableFinding, finding, finding_class=finding.kind, message=finding.message("en"))


def step_view(row: StepRow) -> PayableStep:
    return from_row(PayableStep, row)


# --- Events: the `data` of each, and the function that emits it, in the transaction of the change


class _OfPayable(Answer):
    payable_id: Uuid
    number: Annotated[str, Meta(examples=["RE-2026-00123"])]
    creditor_name: Annotated[str, Meta(examples=["Beispiel Bürobedarf GmbH"])]
    payable_amount: Decimal
    currency_code: Annotated[str, Meta(examples=["EUR"])]
    due_date: date | None


class PayableReceived(_OfPayable, kw_only=True):
    """An invoice came in that was not known in any form. Only further webhook endpoints get it."""

    status: Annotated[str, Meta(examples=["to_release"])]


class PayableReleased(_OfPayable, kw_only=True):
    """An invoice was released for payment, by as many people as its sum needs. Only further webhook endpoints get it."""


class PayablePaid(_OfPayable, kw_only=True):
    """An invoice was paid: the bank has booked its payment, or a payment was matched to it. Only further webhook endpoints get it."""

    payment_id: Annotated[str | None, Meta(description="The payment made here; null if it was paid otherwise.")]
    match_id: Uuid | None


class PayableRejected(_OfPayable, kw_only=True):
    """An invoice was rejected. Only further webhook endpoints get it."""

    reason: str


EVENTS: dict[str, type[Answer]] = {
    "payable.received": PayableReceived,
    "payable.released": PayableReleased,
    "payable.rejected": PayableRejected,
    "payable.paid": PayablePaid,
}


def emit_received(tx: Tx, row: PayableRow) -> None:
    _emit(tx, row, "payable.received")


def emit_released(tx: Tx, row: PayableRow) -> None:
    _emit(tx, row, "payable.released")


def emit_rejected(tx: Tx, row: PayableRow, reason: str) -> None:
    _emit(tx, row, "payable.rejected", reason=reason)


def emit_paid(tx: Tx, row: DueRow) -> None:
    _emit(tx, row, "payable.paid", payment_id=None if row.payment_id is None else str(row.payment_id))


def _emit(tx: Tx, row: PayableRow | DueRow, event: str, **further: str | None) -> None:
    data = from_row(EVENTS[event], row, payable_id=row.id, payable_amount=from_minor(row.payable_minor), **further)
    outbox.emit(tx, row.organization_id, event, f"payable:{row.id}", data)
