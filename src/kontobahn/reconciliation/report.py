"""The success of matching, in figures: what was matched by whom, by class of evidence, and how much of it was taken back."""

from __future__ import annotations

from datetime import date, timedelta
from decimal import Decimal
from typing import Annotated, Any

from msgspec import Meta

from kontobahn.access.principal import Principal
from kontobahn.api.answers import Data
from kontobahn.api.call import Call
from kontobahn.api.declare import get
from kontobahn.api.wire import Answer, Query, check_date_range
from kontobahn.banking.connections import accounts
from kontobahn.banking.connections.accounts import AccountRow
from kontobahn.banking.wire import NumericId
from kontobahn.clock import DAY, berlin_date
from kontobahn.db import Tx
from kontobahn.money import from_minor
from kontobahn.reconciliation import wire
from kontobahn.reconciliation.wire import BANK_SCOPE

# An automatic match that is undone within this time was wrong: the measure of acting alone in real use.
JUDGED_DAYS = 90
_DEFAULT_DAYS = timedelta(days=365)


class ReportQuery(Query, kw_only=True):
    account_id: Annotated[NumericId, Meta(description="The bank account.")]
    from_date: Annotated[date, Meta(description="First value date; a year before the last when omitted.")] | None = None
    to_date: Annotated[date, Meta(description="Last value date; today when omitted.")] | None = None


class ReportClass(Answer):
    # `manual` for those that were made by hand.
    evidence_class: str
    matches: int
    automatic: int
    amount: Decimal
    undone: int


class ReportStates(Answer):
    open: int
    proposed: int
    matched: int
    ignored: int
    # The books show them already.
    booked: int


class ReconciliationReport(Answer):
    account_id: str
    from_date: date
    to_date: date
    # Of all transactions that runs have looked at, whatever their day.
    transactions: ReportStates
    classes: list[ReportClass]
    automatic: int
    # Automatic ones that were undone within 90 days, in all and for each 1,000; null if there is none to judge.
    automatic_undone: int
    undone_per_thousand: Decimal | None
    # Confirmed proposals that stood at the first place, of all confirmed by somebody.
    confirmed: int
    confirmed_first: int
    rejected: int


@get("/v2/reconciliation/report", scope="ledger:read", also_scope=BANK_SCOPE, errors=(403, 404), example=wire.REPORT)
async def get_report(call: Call, query: ReportQuery) -> Data[ReconciliationReport]:
    """Read how well matching works for an account: by class of evidence, and how much was taken back."""
    check_date_range(query.from_date, query.to_date)
    return Data(await call.read(_report, call.principal, query))


def _report(tx: Tx, principal: Principal, query: ReportQuery) -> ReconciliationReport:
    account = accounts.find(tx, principal, query.account_id)
    last = query.to_date or berlin_date(tx.now)
    first = query.from_date or last - min(_DEFAULT_DAYS, last - date.min)
    states: dict[str, int] = dict(
        tx.all(
            "SELECT state, COUNT(*) FROM recon_transactions WHERE organization_id = ? AND account_id = ? GROUP BY state",
            account.organization_id, account.id,
        )
    )  # fmt: skip
    automatic, undone = _automatic(tx, account, first, last)
    confirmed, at_first, rejected = _proposals(tx, account)
    return ReconciliationReport(
        account_id=str(account.id),
        from_date=first,
        to_date=last,
        transactions=ReportStates(**{name: states.get(name, 0) for name in ReportStates.__struct_fields__}),
        classes=_classes(tx, account, first, last),
        automatic=automatic,
        automatic_undone=undone,
        undone_per_thousand=(Decimal(undone) * 1000 / automatic).quantize(Decimal("0.1")) if automatic else None,
        confirmed=confirmed,
        confirmed_first=at_first,
        rejected=rejected,
    )


_DAYS = "m.organization_id = ? AND m.account_id = ? AND m.made_on >= ? AND m.made_on <= ?"


def _params(account: AccountRow, first: date, last: date) -> tuple[Any, ...]:
    return account.organization_id, account.id, first.isoformat(), last.isoformat()


def _classes(tx: Tx, account: AccountRow, first: date, last: date) -> list[ReportClass]:
    rows = tx.all(
        "SELECT m.evidence, COUNT(*), SUM(CASE WHEN m.made_by = 'engine' THEN 1 ELSE 0 END),"
        " SUM(CASE WHEN m.undo_id IS NULL THEN m.amount_minor ELSE 0 END),"
        " SUM(CASE WHEN m.undo_id IS NULL THEN 0 ELSE 1 END)"
        f" FROM recon_matches m WHERE {_DAYS} GROUP BY m.evidence ORDER BY m.evidence",
        *_params(account, first, last),
    )
    return [
        ReportClass(
            evidence_class=evidence or "manual",
            matches=made,
            automatic=automatic,
            amount=from_minor(int(amount)),
            undone=undone,
        )
        for evidence, made, automatic, amount, undone in rows
    ]


def _automatic(tx: Tx, account: AccountRow, first: date, last: date) -> tuple[int, int]:
    row = tx.one(
        "SELECT COUNT(*), COALESCE(SUM(CASE WHEN u.made_at <= m.made_at + ? THEN 1 ELSE 0 END), 0) FROM recon_matches m"
        " LEFT JOIN recon_undos u ON u.organization_id = m.organization_id AND u.id = m.undo_id"
        f" WHERE {_DAYS} AND m.made_by = 'engine'",
        JUDGED_DAYS * DAY, *_params(account, first, last),
    )  # fmt: skip
    assert row is not None
    return int(row[0]), int(row[1])


def _proposals(tx: Tx, account: AccountRow) -> tuple[int, int, int]:
    row = tx.one(
        "SELECT COALESCE(SUM(CASE WHEN p.state = 'confirmed' AND p.decided_by <> 'engine' THEN 1 ELSE 0 END), 0),"
        " COALESCE(SUM(CASE WHEN p.state = 'confirmed' AND p.decided_by <> 'engine' AND p.place = 1 THEN 1 ELSE 0 END), 0),"
        " COALESCE(SUM(CASE WHEN p.state = 'rejected' THEN 1 ELSE 0 END), 0)"
        " FROM recon_transactions t JOIN recon_proposals p ON p.organization_id = t.organization_id AND p.transaction_id = t.id"
        " WHERE t.organization_id = ? AND t.account_id = ?",
        account.organization_id, account.id,
    )  # fmt: skip
    assert row is not None
    return int(row[0]), int(row[1]), int(row[2])
