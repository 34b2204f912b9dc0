"""Matches: which lines a transaction was matched with. Listed, made by hand, undone; never changed or deleted."""

from __future__ import annotations

from decimal import Decimal
from typing import Annotated, Literal, NamedTuple

from msgspec import Meta

from kontobahn.access.audit import Actor
from kontobahn.access.principal import Principal, find_in_scope, in_scope
from kontobahn.api.answers import Data
from kontobahn.api.call import Call, page
from kontobahn.api.declare import get, post
from kontobahn.api.wire import Answer, Body, ListQuery, Uuid
from kontobahn.banking.connections import accounts
from kontobahn.banking.transactions import store as transactions
from kontobahn.banking.wire import NumericId
from kontobahn.db import Tx
from kontobahn.errors import BadRequest, Conflict, KontobahnError, Refusal
from kontobahn.ledger.connections import ERRORS
from kontobahn.ledger.errors import ProviderError
from kontobahn.ledger.konto import is_personenkonto
from kontobahn.ledger.provider import Effect, OpenAmounts
from kontobahn.ledger.wire import one_line
from kontobahn.money import to_minor
from kontobahn.reconciliation import decisions, store, wire
from kontobahn.reconciliation.accounts import (
    Konto,
    changed_meanwhile,
    in_full,
    konto_laenge,
    ledger_account,
    of_account,
    open_books,
)
from kontobahn.reconciliation.core.model import Key, Line, LineKind
from kontobahn.reconciliation.decisions import Choice
from kontobahn.reconciliation.inputs import open_now
from kontobahn.reconciliation.store import AccountSettings, Client, MatchRow, ProposalRow
from kontobahn.reconciliation.wire import BANK_SCOPE, Match, MatchProposal, lines_of, match_view, proposal_view
from kontobahn.sentences import said

MAX_LINES = 100
_OF_PERSONS: tuple[LineKind, ...] = ("item", "skonto", "on_account", "return")
_WITH_DOCUMENT: tuple[LineKind, ...] = ("item", "skonto")
_CONDITIONS = {"live": " AND undo_id IS NULL", "undone": " AND undo_id IS NOT NULL", None: ""}


class NewMatchLine(Body):
    kind: LineKind
    amount: Annotated[Decimal, Meta(description="Signed as the transaction; the amounts of all lines sum to it.")]
    konto: Konto | None = None
    beleg: Annotated[str, one_line(60)] = ""
    skonto: (
        Annotated[Decimal, Meta(description="Only for `item`: what the document is settled with beside `amount`.")]
        | None
    ) = None


class NewMatch(Body):
    transaction_id: NumericId
    lines: Annotated[list[NewMatchLine], Meta(min_length=1, max_length=MAX_LINES)]


class NewMatchUndo(Body):
    reason: Annotated[str, Meta(max_length=500, description="Why, for whoever looks at it later.")] = ""


class MatchesQuery(ListQuery):
    status: Annotated[Literal["live", "undone"], Meta(description="Both when omitted.")] | None = None
    account_id: Annotated[NumericId, Meta(description="Only of this bank account.")] | None = None
    from_id: Annotated[Uuid, Meta(description="Only what was made after this one: the last id seen.")] | None = None
    limit: Annotated[int, Meta(ge=1, le=500)] = 100


@get(
    "/v2/reconciliation/matches",
    scope="ledger:read",
    also_scope=BANK_SCOPE,
    pages_by="from_id",
    errors=(403, 404),
    example=wire.MATCHES,
)
async def list_matches(call: Call, query: MatchesQuery) -> Data[list[Match]]:
    """List matches in the order in which they were made, those that were undone among them."""
    found = await call.read(_listing, call.principal, query)
    return Data(page(call, found, query.limit, lambda match: match.id))


@get(
    "/v2/reconciliation/matches/{id}",
    scope="ledger:read",
    also_scope=BANK_SCOPE,
    errors=(403, 404),
    example=wire.MATCHED,
)
async def get_match(call: Call, id: Uuid) -> Data[Match]:
    """Read a match with its lines, and who undid it."""
    return Data(await call.read(_one, call.principal, id))


@post(
    "/v2/reconciliation/matches",
    scope="ledger:write",
    also_scope=BANK_SCOPE,
    errors=ERRORS,
    example=wire.MATCHED_BY_HAND,
    body_example=wire.MATCH_SENT,
)
async def create_match(call: Call, body: NewMatch) -> Data[Match]:
    """Match a transaction by hand.

    The amounts of the lines must sum to the transaction: 422 with the figures if they do not. 409 if more is taken from a document
    than is open of it, or the transaction is matched already.
    """
    settings = await call.read(_settings_for, call.principal, body.transaction_id)
    access = await open_books(call.context, call.principal, settings.connection_id, settings.client_id)
    async with access.to("buchungen") as books:
        lines = _lines(body.lines, await konto_laenge(books))
        amounts = await open_now(call.context.db, books, settings.organization_id, decisions.documents(lines))
        choice = Choice(int(body.transaction_id), lines)
        return await call.commit(_match, call.principal, settings, choice, amounts, call.actor)


@post(
    "/v2/reconciliation/matches/{id}/undo",
    scope="ledger:write",
    also_scope=BANK_SCOPE,
    statuses=(200,),
    errors=(403, 404, 409),
    example=wire.UNDONE,
    body_example={"reason": "anderer Kunde"},
)
async def undo_match(call: Call, id: Uuid, body: NewMatchUndo) -> Data[Match]:
    """Undo a match: its documents are open again, and what was learned from it is taken back.

    The match stays, with who undid it and why. Its transaction is proposed for again, and never matched without asking.
    """
    row = await call.read_inline(store.find_match, call.principal, id)
    lines = await call.read(store.lines_of, row.organization_id, [row.id])
    amounts: Effect[OpenAmounts] | None = None
    try:
        access = await open_books(call.context, call.principal, row.connection_id, row.client_id)
        async with access.to("buchungen") as books:
            keys = [(line.konto, line.beleg) for line in lines[row.id]]
            amounts = await open_now(call.context.db, books, row.organization_id, keys)
            return await call.commit(undo, call.principal, id, body.reason, amounts, call.actor)
    except KontobahnError as error:
        # Books that can no longer be asked must not stand in the way: then what they showed last counts.
        if not isinstance(error.__cause__, ProviderError):
            raise
    return await call.commit(undo, call.principal, id, body.reason, None, call.actor)


def view_of(tx: Tx, row: MatchRow) -> Match:
    return views(tx, row.organization_id, [row])[0]


def views(tx: Tx, organization_id: str, rows: list[MatchRow]) -> list[Match]:
    ids = [row.id for row in rows]
    lines, undos = store.lines_of(tx, organization_id, ids), store.undos_of(tx, organization_id, ids)
    return [match_view(row, lines[row.id], undos.get(row.id)) for row in rows]


def _one(tx: Tx, principal: Principal, match_id: str) -> Match:
    return view_of(tx, store.find_match(tx, principal, match_id))


def _listing(tx: Tx, principal: Principal, query: MatchesQuery) -> list[Match]:
    organizations = principal.organizations(query.organization_id)
    condition, params = in_scope(len(organizations)) + _CONDITIONS[query.status], list[object](organizations)
    if query.account_id is not None:
        condition += " AND account_id = ?"
        params.append(accounts.find(tx, principal, query.account_id).id)
    if query.from_id is not None:
        condition += " AND id > ?"
        params.append(query.from_id.lower())
    rows = store.MATCHES.all(tx, f"{condition} ORDER BY id LIMIT ?", *params, query.limit + 1)
    shown: dict[str, Match] = {}
    for organization_id in {row.organization_id for row in rows}:
        mine = [row for row in rows if row.organization_id == organization_id]
        shown.update({view.id: view for view in views(tx, organization_id, mine)})
    return [shown[row.id] for row in rows]


# --- By hand


def _settings_for(tx: Tx, principal: Principal, transaction_id: str) -> AccountSettings:
    account = transactions.account_with(tx, principal, transaction_id)
    return of_account(tx, account.organization_id, account.id)


def _lines(sent: list[NewMatchLine], length: int) -> tuple[Line, ...]:
    lines: list[Line] = []
    for place, line in enumerate(sent):
        at = f"lines[{place}]"
        konto = _konto(line, at, length)
        if line.kind in _WITH_DOCUMENT and not line.beleg:
            raise BadRequest(
                said("The field `{at}.beleg` is required for `{kind}`.", at=at, kind=line.kind), field=f"{at}.beleg"
            )
        if line.kind == "on_account" and line.beleg:
            raise BadRequest(said("The field `{at}.beleg` must be empty for `on_account`.", at=at), field=f"{at}.beleg")
        amount, skonto = to_minor(line.amount), to_minor(line.skonto or Decimal(0))
        if not amount:
            raise BadRequest(said("The field `{at}.amount` must not be 0.", at=at), field=f"{at}.amount")
        if skonto and (line.kind != "item" or (skonto > 0) != (amount > 0)):
            raise BadRequest(
                said("The field `{at}.skonto` is for `item` only, with the sign of `amount`.", at=at),
                field=f"{at}.skonto",
            )
        lines.append(Line(line.kind, konto, line.beleg, amount + skonto))
        if skonto:
            lines.append(Line("skonto", konto, line.beleg, -skonto))
    _check_documents(lines)
    return tuple(lines)


def _konto(line: NewMatchLine, at: str, length: int) -> str:
    field = f"{at}.konto"
    if line.kind not in _OF_PERSONS:
        if line.kind in ("ledger_account", "difference") and not line.konto:
            raise BadRequest(
                said("The field `{field}` is required for `{kind}`.", field=field, kind=line.kind), field=field
            )
        return ledger_account(field, line.konto, length)
    if not line.konto:
        raise BadRequest(
            said("The field `{field}` is required for `{kind}`.", field=field, kind=line.kind), field=field
        )
    konto = in_full(field, line.konto, length)
    if not is_personenkonto(konto):
        raise BadRequest(
            said("The field `{field}` must be a person account for `{kind}`.", field=field, kind=line.kind), field=field
        )
    return konto


def _check_documents(lines: list[Line]) -> None:
    documents = [(line.konto, line.beleg) for line in lines if line.kind == "item"]
    if len(documents) != len(set(documents)):
        raise BadRequest("The field `lines` names a document twice: one line for each.", field="lines")
    for line in lines:
        if line.kind == "skonto" and (line.konto, line.beleg) not in documents:
            raise BadRequest("The field `lines` has `skonto` for a document without a line `item`.", field="lines")


def _match(
    tx: Tx,
    principal: Principal,
    asked: AccountSettings,
    choice: Choice,
    amounts: Effect[OpenAmounts],
    actor: Actor,
) -> Data[Match]:
    store.lock(tx, asked.organization_id)
    settings = of_account(tx, asked.organization_id, asked.account_id)
    if settings.client != asked.client:
        raise changed_meanwhile()
    return Data(view_of(tx, decisions.match(tx, settings, choice, amounts(tx), actor)))


def undo(
    tx: Tx, principal: Principal, match_id: str, reason: str, amounts: Effect[OpenAmounts] | None, actor: Actor
) -> Data[Match]:
    found = store.find_match(tx, principal, match_id)
    store.lock(tx, found.organization_id)
    row = store.find_match(tx, principal, match_id)
    decisions.undo(tx, row, reason, None if amounts is None else amounts(tx), actor)
    return Data(_one(tx, principal, match_id))


# Proposals: confirmed or rejected, one or many at a time.


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
    example=wire.MATCHED,
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
    example=wire.REJECTED,
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
    example=wire.CONFIRMATIONS,
    body_example={"ids": [wire.PROPOSAL]},
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
