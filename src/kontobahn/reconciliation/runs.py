"""Runs over an account's transactions: what is matched to which open items, and why. A trial run writes nothing."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from datetime import date, timedelta
from decimal import Decimal
from typing import Annotated, Literal, NamedTuple

from msgspec import Meta

from kontobahn.access.audit import Actor
from kontobahn.access.principal import Principal
from kontobahn.api.answers import NOT_YET_KNOWN, Charged
from kontobahn.api.call import Call, Context
from kontobahn.api.declare import post
from kontobahn.api.wire import Answer, Body, Uuid
from kontobahn.banking.connections import accounts
from kontobahn.banking.connections.accounts import AccountRow
from kontobahn.banking.transactions.store import is_posted
from kontobahn.banking.wire import NumericId
from kontobahn.clock import berlin_date
from kontobahn.db import Database, Tx
from kontobahn.errors import BadRequest, Conflict, Forbidden
from kontobahn.ids import new_id
from kontobahn.json_text import encode
from kontobahn.ledger.connections import ERRORS, ClientId
from kontobahn.ledger.connections import find as find_connection
from kontobahn.ledger.provider import ClientBooks, Effect, OpenAmounts
from kontobahn.money import from_minor
from kontobahn.reconciliation import decisions, store
from kontobahn.reconciliation import wire as examples
from kontobahn.reconciliation.accounts import changed_meanwhile, not_set_up, open_books
from kontobahn.reconciliation.core.matcher import Matcher, Outcome, run
from kontobahn.reconciliation.core.model import (
    ACTING_CLASSES,
    ENGINE_VERSION,
    RULE_CLASS,
    EvidenceClass,
    Key,
    Knowledge,
    Movement,
    OpenItem,
    Proposal,
)
from kontobahn.reconciliation.decisions import Choice, documents
from kontobahn.reconciliation.inputs import Material, gather, open_now, read_known, with_known
from kontobahn.reconciliation.store import AccountSettings, Client, ProposalRow, RunRow, TransactionState
from kontobahn.reconciliation.wire import (
    BANK_SCOPE,
    MatchLine,
    MatchReason,
    emit_proposed,
    match_lines,
    match_reasons,
    stored_lines,
    stored_reasons,
    tenths,
)
from kontobahn.sentences import said
from kontobahn.threads import Pool

MAX_LISTED = 500
MAX_SECONDS = 120
_DEFAULT_DAYS = timedelta(days=90)
ClassOrNone = Literal["A1", "A2", "A3", "A4", "A5", "B1", "B2", "B3", "B4", "C", "-"]
# The best three are what a person chooses from.
KEPT_PROPOSALS = 3


class NewRun(Body):
    account_id: Annotated[NumericId, Meta(description="The bank account.")]
    connection_id: (
        Annotated[
            Uuid,
            Meta(
                description="The ledger connection whose open items are looked at; that of the account's settings when omitted."
            ),
        ]
        | None
    ) = None
    client_id: ClientId | None = None
    from_date: Annotated[date, Meta(description="First value date; 90 days before the last when omitted.")] | None = (
        None
    )
    to_date: Annotated[date, Meta(description="Last value date; today when omitted.")] | None = None
    trial: Annotated[
        bool, Meta(description="False: proposals are stored, and matches made where acting alone is switched on.")
    ] = True
    limit: Annotated[
        int,
        Meta(ge=0, le=MAX_LISTED, description="How many transactions to list with their proposals; all are counted."),
    ] = 100


class RunClass(Answer):
    evidence_class: ClassOrNone
    count: int
    # The number of those that are clear enough to act alone, and their sum.
    clear: int
    amount: Decimal


class RunProposal(Answer):
    evidence_class: EvidenceClass
    clear: bool
    score: Decimal
    lines: list[MatchLine]
    reasons: list[MatchReason]


class RunTransaction(Answer):
    id: str
    made_on: date
    amount: Decimal
    name: str | None
    proposals: list[RunProposal]


class Run(Answer):
    # Null for a trial run.
    id: Uuid | None
    trial: bool
    engine_version: str
    account_id: str
    from_date: date
    to_date: date
    transactions: int
    open_items: int
    # Transactions that the books show already: they have no proposals.
    booked: int
    # False if the books did not give IBANs and names of partners.
    partners_known: bool
    # Stored: matched without asking, proposed, and outdated before they could be matched. 0 in a trial run.
    matched: int
    proposed: int
    outdated: int
    classes: list[RunClass]
    data: list[RunTransaction]


_EXAMPLE = {
    "data": {
        "id": None,
        "trial": True,
        "engine_version": ENGINE_VERSION,
        "account_id": examples.ACCOUNT,
        "from_date": "2026-01-01",
        "to_date": "2026-03-31",
        "transactions": 1,
        "open_items": 12,
        "booked": 0,
        "partners_known": True,
        "matched": 0,
        "proposed": 0,
        "outdated": 0,
        "classes": [{"evidence_class": "A2", "count": 1, "clear": 1, "amount": 119.0}],
        "data": [
            {
                "id": examples.TRANSACTION,
                "made_on": "2026-03-02",
                "amount": 119.0,
                "name": "Muster GmbH",
                "proposals": [
                    {
                        "evidence_class": "A2",
                        "clear": True,
                        "score": 41.9,
                        "lines": examples.LINES,
                        "reasons": examples.REASONS,
                    }
                ],
            }
        ],
    },
    "platform": {"neuesGuthaben": 99},
}


@post(
    "/v2/reconciliation/runs",
    scope="ledger:read",
    also_scope=BANK_SCOPE,
    statuses=(200, 201),
    cost=1,
    errors=ERRORS,
    example=_EXAMPLE,
    body_example={
        "account_id": examples.ACCOUNT,
        "connection_id": examples.CONNECTION,
        "from_date": "2026-01-01",
        "to_date": "2026-03-31",
    },
)
async def run_matching(call: Call, body: NewRun) -> Charged[Run]:
    """Find which transactions pay which open items.

    Counts by class of evidence, and the proposals of the latest transactions with their reasons. A trial run (the default) stores
    nothing and answers 200. With `trial: false` the proposals are stored for somebody to confirm, and where acting alone is
    switched on for the account and the class, matches are made: 201. A restricted key needs `ledger:write` as well if it is no
    trial. At most 2,000 transactions at a time.
    """
    if not body.trial and not call.principal.has_scope(("ledger:write",)):
        raise Forbidden("This call needs the scope ledger:write as well.", missing_scope="ledger:write")
    plan = await call.read(make_plan, call.principal, body)
    access = await open_books(call.context, call.principal, plan.connection_id, plan.client_id)
    async with call.charge() as charge, access.to("buchungen") as books:
        found = await match_undecided(call.context, books, plan)
        answer = answer_of(plan, found, body.limit)
        if not plan.is_trial:
            findings = await findings_of(call.context.db, books, plan, found)
            call.status = 201
            return await call.commit(_write, findings, call.actor, answer)
    return Charged(answer, platform=charge.platform)


class Matching(Pool):
    """Threads for runs, which take seconds: beside those for what takes milliseconds."""


class Plan(NamedTuple):
    account: AccountRow
    settings: AccountSettings | None
    connection_id: str
    client_id: str | None
    first: date
    last: date
    is_trial: bool


class RunResult(NamedTuple):
    material: Material
    outcomes: list[Outcome]
    # Documents that matches took from and the books do not show yet.
    pending: frozenset[Key]


def make_plan(tx: Tx, principal: Principal, body: NewRun) -> Plan:
    first, last = _days(body, berlin_date(tx.now))
    account = accounts.find(tx, principal, body.account_id)
    settings = store.account_settings(tx, account.organization_id, account.id)
    connection_id, client_id = body.connection_id, body.client_id
    if connection_id is None:
        if settings is None:
            raise not_set_up(account.id)
        connection_id, client_id = settings.connection_id, client_id or settings.client_id
    connection = find_connection(tx, principal, connection_id)
    if connection.organization_id != account.organization_id:
        raise Conflict("The bank account and the books belong to different organisations.", field="connection_id")
    if not body.trial:
        if settings is None:
            raise not_set_up(account.id)
        if connection.id != settings.connection_id or (client_id or settings.client_id) != settings.client_id:
            raise Conflict(
                "The account is set up for other books: only a trial run can look at these.",
                connection_id=settings.connection_id, client_id=settings.client_id,
            )  # fmt: skip
        client_id = settings.client_id
        if settings.start_date:
            first = max(first, date.fromisoformat(settings.start_date))
    return Plan(account, settings, connection.id, client_id, first, last, body.trial)


def _days(body: NewRun, today: date) -> tuple[date, date]:
    to_date = body.to_date or today
    from_date = body.from_date or to_date - min(_DEFAULT_DAYS, to_date - date.min)
    if from_date > to_date:
        raise BadRequest("The field `from_date` must not be after `to_date`.", field="from_date")
    return from_date, to_date


async def match_undecided(context: Context, books: ClientBooks, plan: Plan) -> RunResult:
    """Matches what is not decided yet. Nothing is written."""
    db, account, settings = context.db, plan.account, plan.settings
    today = berlin_date(context.clock.now())
    client = Client(account.organization_id, plan.connection_id, books.client_id)
    elsewhere = await db.read(store.ledger_accounts_elsewhere, client, account.id)
    pool = context.part(Pool)
    material = await gather(db, pool, books, account, today, plan.first, plan.last, elsewhere)
    ids = [movement.id for movement in material.movements]
    known = await db.read(read_known, client, account.id, ids, plan.first, plan.last)
    material = await pool.run(
        with_known, material, known, today,
        fee_konto=settings.fee_konto if settings else "", transfer_konto=settings.transfer_konto if settings else "",
    )  # fmt: skip
    acting = frozenset(ACTING_CLASSES) if plan.is_trial or settings is None else settings.acting
    outcomes = await context.part(Matching).run(match_all, material, acting, known.judged)
    return RunResult(material, _without_rejected(outcomes, known.rejected), frozenset(known.taken))


def _without_rejected(outcomes: list[Outcome], rejected: Mapping[str, frozenset[str]]) -> list[Outcome]:
    """Leaves out what a person has rejected: in a trial, too, it is not proposed again."""
    return [
        outcome._replace(proposals=[it for it in outcome.proposals if stored_lines(it.lines) not in refused])
        if (refused := rejected.get(outcome.movement.id))
        else outcome
        for outcome in outcomes
    ]


async def findings_of(db: Database, books: ClientBooks, plan: Plan, found: RunResult) -> Findings:
    """Returns what `write_findings` needs of a run that is no trial."""
    assert plan.settings is not None
    acted = {key for outcome in found.outcomes if outcome.acted for key in documents(outcome.acted.lines)}
    amounts = await open_now(db, books, plan.account.organization_id, acted | found.pending)
    days = (plan.first.isoformat(), plan.last.isoformat())
    return Findings(plan.settings, *days, found.outcomes, found.pending, amounts)


def match_all(
    material: Material,
    acting: frozenset[EvidenceClass] = frozenset(ACTING_CLASSES),
    judged: frozenset[str] = frozenset(),
) -> list[Outcome]:
    """Raises BadRequest if it takes too long, which what `check_size` lets through does not."""
    return run(_BoundedMatcher(material.items, material.knowledge), material.movements, acting, judged)


class _BoundedMatcher(Matcher):
    """Gives its thread back after a while, whatever the texts of a bank are made of."""

    def __init__(self, items: Iterable[OpenItem], knowledge: Knowledge) -> None:
        self._until = time.monotonic() + MAX_SECONDS
        super().__init__(items, knowledge)

    def match(self, movement: Movement) -> list[Proposal]:
        if time.monotonic() > self._until:
            raise BadRequest(
                said("The run took longer than {seconds} seconds: ask for fewer days.", seconds=MAX_SECONDS),
                field="to_date",
            )
        return super().match(movement)


def _write(tx: Tx, findings: Findings, actor: Actor, answer: Run) -> Charged[Run]:
    return Charged(write_run(tx, findings, actor, answer), platform=NOT_YET_KNOWN)


def write_run(tx: Tx, findings: Findings, actor: Actor, answer: Run) -> Run:
    """Stores what was found, and completes the answer."""
    written = write_findings(tx, findings, actor, encode(answer.classes).decode())
    answer.id, answer.matched, answer.proposed = written.run_id, written.matched, written.proposed
    answer.outdated = written.outdated
    return answer


def answer_of(plan: Plan, found: RunResult, limit: int) -> Run:
    return Run(
        id=None,
        trial=plan.is_trial,
        engine_version=ENGINE_VERSION,
        account_id=str(plan.account.id),
        from_date=plan.first,
        to_date=plan.last,
        transactions=len(found.outcomes),
        open_items=sum(item.open_minor != 0 for item in found.material.items),
        booked=sum(outcome.is_booked for outcome in found.outcomes),
        partners_known=found.material.has_partners,
        matched=0,
        proposed=0,
        outdated=0,
        classes=classes(found.outcomes),
        data=[_transaction(outcome) for outcome in found.outcomes[::-1][:limit]],
    )


def classes(outcomes: Sequence[Outcome]) -> list[RunClass]:
    """The classes of the best proposals, `-` for transactions that have none."""
    counted: dict[ClassOrNone, list[Outcome]] = {}
    for outcome in outcomes:
        counted.setdefault(outcome.proposals[0].evidence if outcome.proposals else "-", []).append(outcome)
    return [
        RunClass(
            evidence_class=evidence,
            count=len(found),
            clear=sum(outcome.acted is not None for outcome in found),
            amount=from_minor(sum(outcome.movement.amount_minor for outcome in found if outcome.acted is not None)),
        )
        for evidence, found in sorted(counted.items())
    ]


def _transaction(outcome: Outcome) -> RunTransaction:
    movement = outcome.movement
    return RunTransaction(
        id=movement.id,
        made_on=movement.day,
        amount=from_minor(movement.amount_minor),
        name=movement.name,
        proposals=[_proposal(proposal) for proposal in outcome.proposals[:KEPT_PROPOSALS]],
    )


def _proposal(proposal: Proposal) -> RunProposal:
    return RunProposal(
        evidence_class=proposal.evidence,
        clear=proposal.acts,
        score=tenths(proposal.score),
        lines=match_lines(proposal.lines),
        reasons=match_reasons(proposal.reasons),
    )


# --- Stored: proposals, and matches where acting alone is switched on. One transaction, under the lock.


class Findings(NamedTuple):
    """The findings of a run for an account, with these settings; `amounts` says what the books show when it is written."""

    settings: AccountSettings
    first: str
    last: str
    outcomes: Sequence[Outcome]
    pending: frozenset[Key]
    amounts: Effect[OpenAmounts]


class Written(NamedTuple):
    """The number of transactions that were matched, have proposals, and were outdated before they could be matched."""

    run_id: str
    matched: int
    proposed: int
    outdated: int


def write_findings(tx: Tx, findings: Findings, actor: Actor, wire: str) -> Written:
    """Raises Conflict if the settings of the account were changed meanwhile."""
    settings = findings.settings
    store.lock(tx, settings.organization_id)
    if store.account_settings(tx, settings.organization_id, settings.account_id) != settings:
        raise changed_meanwhile()
    run = RunRow(
        settings.organization_id, new_id(), settings.account_id, settings.connection_id, settings.client_id,
        findings.first, findings.last, ENGINE_VERSION, wire, actor.name, tx.now,
    )  # fmt: skip
    store.RUNS.insert(tx, run)
    ids = [int(outcome.movement.id) for outcome in findings.outcomes]
    states = store.states_of(tx, settings.organization_id, ids)
    known = store.proposals_of(tx, settings.organization_id, ids, "open", "rejected")
    amounts = findings.amounts(tx)
    _note_booked(tx, settings.client, findings.pending, amounts)
    _drop_removed(tx, settings)
    allowed = {row.id for row in store.rules(tx, settings.client) if row.acts}
    matched = proposed = news = outdated = 0
    for id, outcome in zip(ids, findings.outcomes, strict=True):
        if states.get(id) in ("matched", "ignored"):
            continue
        standing = {row.id for row in known.get(id, []) if row.state == "open"}
        kept = _store_proposals(tx, run, id, outcome.proposals, known.get(id, []))
        state: TransactionState = "booked" if outcome.is_booked else "proposed" if kept else "open"
        decisions.set_state(tx, settings, id, state, run.id)
        if outcome.acted is None or not kept or not _may_still(outcome.acted, allowed):
            proposed += bool(kept)
            news += not standing.issuperset(kept)
            continue
        try:
            choice = Choice(id, outcome.acted.lines, outcome.acted.evidence, ENGINE_VERSION, kept[0])
            decisions.match(tx, settings, choice, amounts, decisions.ENGINE)
            matched += 1
        except Conflict:
            # Paid or removed since it was looked at: the next run sees it as it is now.
            _replace_open(tx, run.organization_id, id)
            decisions.set_state(tx, settings, id, "open", run.id)
            outdated += 1
    if news:
        emit_proposed(tx, run, proposed, news, matched)
    return Written(run.id, matched, proposed, outdated)


def _may_still(acted: Proposal, allowed: set[str]) -> bool:
    """Returns whether nobody has taken it back from the rule meanwhile, if it is a rule that acts."""
    rules = {reason.value for reason in acted.reasons if reason.signal == "rule"}
    return acted.evidence != RULE_CLASS or rules <= allowed


def _note_booked(tx: Tx, client: Client, keys: frozenset[Key], amounts: OpenAmounts) -> None:
    """Takes note of what the books have booked of earlier matches, before something else moves their documents."""
    for key, taken in store.taken_from(tx, client).items():
        now = taken.left_of(amounts.get(key, 0))
        if key in keys and now != taken:
            store.put_taken(tx, client, key, now)


def _drop_removed(tx: Tx, settings: AccountSettings) -> None:
    """Drops the proposals of what the bank has removed. A match of it stands until somebody undoes it, and is not handed over."""
    gone = (
        "organization_id = ? AND account_id = ? AND state IN ('open', 'proposed', 'booked')"
        f" AND NOT {is_posted('recon_transactions')}"
    )
    for row in store.TRANSACTIONS.all(tx, gone, settings.organization_id, settings.account_id):
        _replace_open(tx, row.organization_id, row.id)
        store.TRANSACTIONS.update(tx, row, state="ignored", changed_at=tx.now)


def _replace_open(tx: Tx, organization_id: str, transaction_id: int) -> None:
    tx.run(
        "UPDATE recon_proposals SET state = 'replaced' WHERE organization_id = ? AND transaction_id = ? AND state = 'open'",
        organization_id, transaction_id,
    )  # fmt: skip


def _store_proposals(
    tx: Tx, run: RunRow, id: int, proposals: Sequence[Proposal], known: Sequence[ProposalRow]
) -> list[str]:
    """Stores the best proposals. One that is known keeps its id; one that was rejected is not proposed again."""
    rejected = {row.lines for row in known if row.state == "rejected"}
    standing = {row.lines: row for row in known if row.state == "open"}
    wanted = [(stored_lines(proposal.lines), proposal) for proposal in proposals]
    kept: list[str] = []
    for lines, proposal in [pair for pair in wanted if pair[0] not in rejected][:KEPT_PROPOSALS]:
        place, score_tenths = len(kept) + 1, round(proposal.score * 10)
        facts = (
            run.id,
            place,
            proposal.evidence,
            int(proposal.acts),
            score_tenths,
            stored_reasons(proposal),
            ENGINE_VERSION,
        )
        row = standing.pop(lines, None)
        if row is None:
            row_id = new_id()
            tx.run(
                "INSERT INTO recon_proposals (run_id, place, evidence, acts, score_tenths, reasons, engine_version,"
                " organization_id, id, transaction_id, lines, state, made_at)"
                " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 'open', ?)",
                *facts, run.organization_id, row_id, id, lines, tx.now,
            )  # fmt: skip
        else:
            row_id = row.id
            tx.run(
                "UPDATE recon_proposals SET run_id = ?, place = ?, evidence = ?, acts = ?, score_tenths = ?, reasons = ?,"
                " engine_version = ? WHERE organization_id = ? AND id = ?",
                *facts, run.organization_id, row_id,
            )  # fmt: skip
        kept.append(row_id)
    for row in standing.values():
        tx.run(
            "UPDATE recon_proposals SET state = 'replaced' WHERE organization_id = ? AND id = ? AND state = 'open'",
            run.organization_id, row.id,
        )  # fmt: skip
    return kept
