"""Proposals: confirmed or rejected, one or many at a time."""

from __future__ import annotations

from typing import Annotated, NamedTuple

from msgspec import Meta

from kontobahn.access.audit import Actor
from kontobahn.access.principal import Principal, find_in_scope
from kontobahn.api.answers import Data
from kontobahn.api.call import Call
from kontobahn.api.declare import post
from kontobahn.api.wire import Answer, Body, Uuid
from kontobahn.db import Tx
from kontobahn.errors import Conflict, Refusal
from kontobahn.ledger.connections import ERRORS
from kontobahn.ledger.provider import Effect, OpenAmounts
from kontobahn.reconciliation import decisions, examples, store
from kontobahn.reconciliation.accounts import changed_meanwhile, of_account, open_books
from kontobahn.reconciliation.core.model import Key
from kontobahn.reconciliation.decisions import Choice
from kontobahn.reconciliation.inputs import open_now
from kontobahn.reconciliation.matches import view_of
from kontobahn.reconciliation.store import AccountSettings, Client, MatchRow, ProposalRow
from kontobahn.reconciliation.wire import BANK_SCOPE, Match, MatchProposal, lines_of, proposal_view
from kontobahn.sentences import said

# At most this many are confirmed at once: a page, for a person who goes through a month.
MAX_CONFIRMATIONS = 200


class NewConfirmations(Body):
    ids: Annotated[
        list[Uuid],
        Meta(min_length=1, max_length=MAX_CONFIRMATIONS, description="Proposals; for a transaction at most one."),
    ]


class Confirmation(Answer):
    id: Uuid
    # Null if it was refused, and then `error` says why.
    match_id: Uuid | None
    error: str | None


@post(
    "/v2/reconciliation/proposals/{id}/confirm",
    scope="ledger:write",
    also_scope=BANK_SCOPE,
    errors=ERRORS,
    example=examples.MATCHED,
)
async def confirm_proposal(call: Call, id: Uuid) -> Data[Match]:
    """Confirm a proposal: its transaction is matched with its lines.

    The documents and the transaction are looked at again: 409 if one was paid meanwhile, with what is open of it. Who pays for which
    person account is learned.
    """
    asked = await call.read(_asked, call.principal, id)
    access = await open_books(call.context, call.principal, asked.settings.connection_id, asked.settings.client_id)
    async with access.to("buchungen") as books:
        amounts = await open_now(call.context.db, books, asked.settings.organization_id, asked.keys)
        return await call.commit(confirm_now, call.principal, id, asked.settings.client, amounts, call.actor)


@post(
    "/v2/reconciliation/proposals/{id}/reject",
    scope="ledger:write",
    also_scope=BANK_SCOPE,
    statuses=(200,),
    errors=(403, 404, 409),
    example=examples.REJECTED,
)
async def reject_proposal(call: Call, id: Uuid) -> Data[MatchProposal]:
    """Reject a proposal: it is not made again for this transaction, which is never matched without asking any more.

    Rejecting it twice changes nothing.
    """
    return await call.commit(reject, call.principal, id, call.actor)


@post(
    "/v2/reconciliation/confirmations",
    scope="ledger:write",
    also_scope=BANK_SCOPE,
    statuses=(200,),
    errors=ERRORS,
    example=examples.CONFIRMATIONS,
    body_example={"ids": [examples.PROPOSAL]},
)
async def confirm_proposals(call: Call, body: NewConfirmations) -> Data[list[Confirmation]]:
    """Confirm many proposals at once.

    Each is confirmed or refused for itself, in the order given: the answer says which became which match, and why others did not.
    An unknown id refuses all of them.
    """
    ids = list(dict.fromkeys(id.lower() for id in body.ids))
    asked = await call.read(_all_asked, call.principal, ids)
    amounts: dict[Client, Effect[OpenAmounts]] = {}
    for client in dict.fromkeys(one.settings.client for one in asked):
        keys = {key for one in asked if one.settings.client == client for key in one.keys}
        access = await open_books(call.context, call.principal, client.connection_id, client.client_id)
        async with access.to("buchungen") as books:
            amounts[client] = await open_now(call.context.db, books, client.organization_id, keys)
    return await call.commit(_confirm_all, call.principal, ids, amounts, call.actor)


class _Asked(NamedTuple):
    settings: AccountSettings
    keys: frozenset[Key]


def find(tx: Tx, principal: Principal, proposal_id: str) -> ProposalRow:
    return find_in_scope(tx, store.PROPOSALS, principal, "Proposal", proposal_id.lower())


def _asked(tx: Tx, principal: Principal, proposal_id: str) -> _Asked:
    row = find(tx, principal, proposal_id)
    return _Asked(_settings(tx, row), frozenset(decisions.documents(lines_of(row))))


def _all_asked(tx: Tx, principal: Principal, ids: list[str]) -> list[_Asked]:
    return [_asked(tx, principal, id) for id in ids]


def _settings(tx: Tx, row: ProposalRow) -> AccountSettings:
    transaction = store.TRANSACTIONS.one(tx, "organization_id = ? AND id = ?", row.organization_id, row.transaction_id)
    assert transaction is not None, "a proposal is for a transaction that a run looked at"
    return of_account(tx, row.organization_id, transaction.account_id)


def confirm_now(
    tx: Tx, principal: Principal, proposal_id: str, client: Client, amounts: Effect[OpenAmounts], actor: Actor
) -> Data[Match]:
    row = find(tx, principal, proposal_id)
    store.lock(tx, row.organization_id)
    if _settings(tx, row).client != client:
        raise changed_meanwhile()
    return Data(view_of(tx, confirm(tx, principal, proposal_id, amounts(tx), actor)))


def confirm(tx: Tx, principal: Principal, proposal_id: str, amounts: OpenAmounts, actor: Actor) -> MatchRow:
    """Makes the proposal's match, under the lock. Raises Conflict if it is decided or outdated; then nothing was written."""
    row = find(tx, principal, proposal_id)
    if row.state != "open":
        raise Conflict(
            said("This proposal is {state} already.", state=row.state),
            status=row.state,
            transaction_id=str(row.transaction_id),
        )
    choice = Choice(row.transaction_id, lines_of(row), row.evidence, row.engine_version, row.id)
    return decisions.match(tx, _settings(tx, row), choice, amounts, actor)


def _confirm_all(
    tx: Tx, principal: Principal, ids: list[str], amounts: dict[Client, Effect[OpenAmounts]], actor: Actor
) -> Data[list[Confirmation]]:
    rows = [find(tx, principal, id) for id in ids]
    for organization_id in sorted({row.organization_id for row in rows}):
        store.lock(tx, organization_id)
    now = {client: effect(tx) for client, effect in amounts.items()}
    answers = []
    for row in rows:
        try:
            settings = _settings(tx, row)
            if settings.client not in now:
                raise changed_meanwhile()
            made = confirm(tx, principal, row.id, now[settings.client], actor)
            answers.append(Confirmation(id=row.id, match_id=made.id, error=None))
        except Refusal as refusal:
            answers.append(Confirmation(id=row.id, match_id=None, error=str(refusal)))
    return Data(answers)


def reject(tx: Tx, principal: Principal, proposal_id: str, actor: Actor) -> Data[MatchProposal]:
    found = find(tx, principal, proposal_id)
    store.lock(tx, found.organization_id)
    row = find(tx, principal, proposal_id)
    if row.state == "rejected":
        return Data(proposal_view(row))
    if row.state != "open":
        raise Conflict(
            said("This proposal is {state} already.", state=row.state),
            status=row.state,
            transaction_id=str(row.transaction_id),
        )
    row = store.PROPOSALS.update(tx, row, state="rejected", decided_by=actor.name, decided_at=tx.now)
    if not store.proposals_of(tx, row.organization_id, [row.transaction_id], "open"):
        tx.run(
            "UPDATE recon_transactions SET state = 'open', changed_at = ? WHERE organization_id = ? AND id = ?"
            " AND state = 'proposed'",
            tx.now, row.organization_id, row.transaction_id,
        )  # fmt: skip
    return Data(proposal_view(row))
