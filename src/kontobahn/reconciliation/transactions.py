"""Transactions as reconciliation sees them: open, proposed for, matched or ignored; with their proposals."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from decimal import Decimal
from typing import Annotated, Any, Literal

from msgspec import Meta

from kontobahn.access.audit import Actor
from kontobahn.access.principal import Principal, find_in_scope, in_scope
from kontobahn.api.answers import Data
from kontobahn.api.call import Call, page
from kontobahn.api.declare import get, put
from kontobahn.api.wire import Answer, Body, ListQuery, Uuid
from kontobahn.banking.connections import accounts
from kontobahn.banking.transactions import store as transactions
from kontobahn.banking.wire import FromId, NumericId
from kontobahn.db import Tx, chunked
from kontobahn.errors import Conflict
from kontobahn.reconciliation import store, wire
from kontobahn.reconciliation.inputs import movement_of
from kontobahn.reconciliation.matches import views
from kontobahn.reconciliation.store import TransactionRow, TransactionState
from kontobahn.reconciliation.wire import BANK_SCOPE, Match, MatchProposal, proposal_view

# A transaction as the bank reported it.
_SAID = ("made_on", "amount", "currency_code", "name", "iban", "purpose")


class ReconciledTransactionsQuery(ListQuery):
    status: Annotated[TransactionState, Meta(description="Only these.")] | None = None
    account_id: Annotated[NumericId, Meta(description="Only of this bank account.")] | None = None
    from_id: FromId | None = None
    limit: Annotated[int, Meta(ge=1, le=500)] = 100


class NewTransactionStatus(Body):
    status: Annotated[
        Literal["ignored", "open"], Meta(description="`ignored`: nothing to match. `open`: look at it again.")
    ]


class ReconciledTransaction(Answer):
    id: str
    account_id: str
    status: TransactionState
    # True if the bank has removed it: then what it said is null.
    removed: bool
    made_on: date | None
    amount: Decimal | None
    currency_code: str | None
    name: str | None
    iban: str | None
    purpose: str | None
    # The best that is open.
    best_proposal: MatchProposal | None
    match_id: Uuid | None


class ReconciledTransactionWithProposals(ReconciledTransaction, kw_only=True):
    proposals: list[MatchProposal]
    # Of the past too: those that were undone.
    matches: list[Match]


@get(
    "/v2/reconciliation/transactions",
    scope="ledger:read",
    also_scope=BANK_SCOPE,
    pages_by="from_id",
    errors=(403, 404),
    example=wire.TRANSACTIONS,
)
async def list_reconciled_transactions(
    call: Call, query: ReconciledTransactionsQuery
) -> Data[list[ReconciledTransaction]]:
    """List the transactions that runs have looked at, each with its best proposal."""
    found = await call.read(listing, call.principal, query)
    return Data(page(call, found, query.limit, lambda one: one.id))


@get(
    "/v2/reconciliation/transactions/{id}",
    scope="ledger:read",
    also_scope=BANK_SCOPE,
    errors=(403, 404),
    example=wire.ONE_TRANSACTION,
)
async def get_reconciled_transaction(call: Call, id: NumericId) -> Data[ReconciledTransactionWithProposals]:
    """Read a transaction with all its proposals and their reasons, and its matches."""
    return Data(await call.read(_one, call.principal, id))


@put(
    "/v2/reconciliation/transactions/{id}",
    scope="ledger:write",
    also_scope=BANK_SCOPE,
    errors=(403, 404, 409),
    example=wire.IGNORED,
)
async def set_transaction_status(
    call: Call, id: NumericId, body: NewTransactionStatus
) -> Data[ReconciledTransactionWithProposals]:
    """Leave a transaction out of reconciliation, or take it in again.

    409 if it is matched: undo the match first.
    """
    return await call.commit(_set_status, call.principal, id, body.status, call.actor)


def find(tx: Tx, principal: Principal, transaction_id: str) -> TransactionRow:
    return find_in_scope(tx, store.TRANSACTIONS, principal, "Transaction", int(transaction_id))


def listing(tx: Tx, principal: Principal, query: ReconciledTransactionsQuery) -> list[ReconciledTransaction]:
    organizations = principal.organizations(query.organization_id)
    condition, params = in_scope(len(organizations)), list[object](organizations)
    for name, value in (
        ("account_id =", query.account_id and accounts.find(tx, principal, query.account_id).id),
        ("state =", query.status),
        ("id >", query.from_id and int(query.from_id)),
    ):
        if value is not None:
            condition += f" AND {name} ?"
            params.append(value)
    rows = store.TRANSACTIONS.all(tx, f"{condition} ORDER BY id LIMIT ?", *params, query.limit + 1)
    best = {}
    for organization_id in {row.organization_id for row in rows}:
        ids = [row.id for row in rows if row.organization_id == organization_id]
        best.update({id: found[0] for id, found in store.proposals_of(tx, organization_id, ids, "open").items()})
    return [_view(tx, row, proposal_view(best[row.id]) if row.id in best else None) for row in rows]


def views_of(tx: Tx, organization_id: str, ids: Sequence[int]) -> list[ReconciledTransaction]:
    """These transactions of an organisation with their best proposals, in this order."""
    rows = {
        row.id: row
        for some, is_one in chunked(ids)
        for row in store.TRANSACTIONS.all(tx, f"organization_id = ? AND id {is_one}", organization_id, *some)
    }
    best = store.proposals_of(tx, organization_id, ids, "open")
    return [_view(tx, rows[id], proposal_view(best[id][0]) if best.get(id) else None) for id in ids if id in rows]


def _one(tx: Tx, principal: Principal, transaction_id: str) -> ReconciledTransactionWithProposals:
    row = find(tx, principal, transaction_id)
    proposals = store.proposals_of(tx, row.organization_id, [row.id], "open", "confirmed", "rejected")[row.id]
    matches = store.MATCHES.all(
        tx, "organization_id = ? AND transaction_id = ? ORDER BY id", row.organization_id, row.id
    )
    shown = [proposal_view(one) for one in proposals]
    best = next((one for one in shown if one.status == "open"), None)
    facts = _view(tx, row, best)
    return ReconciledTransactionWithProposals(
        **{name: getattr(facts, name) for name in ReconciledTransaction.__struct_fields__},
        proposals=shown,
        matches=views(tx, row.organization_id, matches),
    )


def _view(tx: Tx, row: TransactionRow, best: MatchProposal | None) -> ReconciledTransaction:
    found = transactions.find_posted(tx, row.account_id, row.id)
    match = store.live_match(tx, row.organization_id, row.id) if row.state == "matched" else None
    said: dict[str, Any] = dict.fromkeys(_SAID)
    if found is not None:
        movement = movement_of(found)
        text = found.description_parsed.svwz or found.description
        said = dict(
            zip(
                _SAID,
                (found.made_on, found.amount, found.currency_code, movement.name, movement.iban, text),
                strict=True,
            )
        )
    return ReconciledTransaction(
        id=str(row.id),
        account_id=str(row.account_id),
        status=row.state,
        removed=found is None,
        best_proposal=best,
        match_id=match.id if match else None,
        **said,
    )


def _set_status(
    tx: Tx, principal: Principal, transaction_id: str, status: Literal["ignored", "open"], actor: Actor
) -> Data[ReconciledTransactionWithProposals]:
    found = find(tx, principal, transaction_id)
    store.lock(tx, found.organization_id)
    row = find(tx, principal, transaction_id)
    if row.state == "matched":
        raise Conflict("This transaction is matched: undo the match first.", transaction_id=transaction_id).retryable()
    state: TransactionState = status
    if status == "open" and store.proposals_of(tx, row.organization_id, [row.id], "open"):
        state = "proposed"
    store.TRANSACTIONS.update(tx, row, state=state, changed_at=tx.now)
    return Data(_one(tx, principal, transaction_id))
