"""Writes what a run found: proposals, and matches where acting alone is switched on. One transaction, under the lock."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from kontobahn.access.audit import Actor
from kontobahn.db import Tx
from kontobahn.errors import Conflict
from kontobahn.ids import new_id
from kontobahn.ledger.provider import Effect, OpenAmounts
from kontobahn.reconciliation import deciding, store
from kontobahn.reconciliation.core.matcher import Outcome
from kontobahn.reconciliation.core.model import ENGINE_VERSION, Key, Proposal
from kontobahn.reconciliation.deciding import Choice
from kontobahn.reconciliation.emitted import emit_proposed
from kontobahn.reconciliation.settings import changed_meanwhile
from kontobahn.reconciliation.store import AccountSettings, Client, ProposalRow, RunRow, TransactionState
from kontobahn.reconciliation.wire import stored_lines, stored_reasons

# The best three are what a person chooses from.
KEPT_PROPOSALS = 3


class Findings(NamedTuple):
    """What a run found for an account, with these settings; `amounts` says what the books show when it is written."""

    settings: AccountSettings
    first: str
    last: str
    outcomes: Sequence[Outcome]
    pending: frozenset[Key]
    amounts: Effect[OpenAmounts]


class Written(NamedTuple):
    """How many transactions were matched, have proposals, and were outdated before they could be matched."""

    run_id: str
    matched: int
    proposed: int
    outdated: int


def write(tx: Tx, findings: Findings, actor: Actor, wire: str) -> Written:
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
    _look_again(tx, settings.client, findings.pending, amounts)
    _leave_out_removed(tx, settings)
    matched = proposed = news = outdated = 0
    for id, outcome in zip(ids, findings.outcomes, strict=True):
        if states.get(id) in ("matched", "ignored"):
            continue
        standing = {row.id for row in known.get(id, []) if row.state == "open"}
        kept = _keep(tx, run, id, outcome.proposals, known.get(id, []))
        state: TransactionState = "booked" if outcome.is_booked else "proposed" if kept else "open"
        deciding.set_state(tx, settings, id, state, run.id)
        if outcome.acted is None or not kept:
            proposed += bool(kept)
            news += not standing.issuperset(kept)
            continue
        try:
            choice = Choice(id, outcome.acted.lines, outcome.acted.evidence, ENGINE_VERSION, kept[0])
            deciding.match(tx, settings, choice, amounts, deciding.ENGINE)
            matched += 1
        except Conflict:
            # Paid or removed since it was looked at: the next run sees it as it is now.
            _replace_open(tx, run.organization_id, id)
            deciding.set_state(tx, settings, id, "open", run.id)
            outdated += 1
    if news:
        emit_proposed(tx, run, proposed, news, matched)
    return Written(run.id, matched, proposed, outdated)


def _look_again(tx: Tx, client: Client, keys: frozenset[Key], amounts: OpenAmounts) -> None:
    """Takes note of what the books have booked of earlier matches, before something else moves their documents."""
    for key, taken in store.taken_from(tx, client).items():
        now = taken.left_of(amounts.get(key, 0))
        if key in keys and now != taken:
            store.put_taken(tx, client, key, now)


def _leave_out_removed(tx: Tx, settings: AccountSettings) -> None:
    """What the bank has removed waits for nobody. A match of it stands until somebody undoes it, and is not handed over."""
    gone = (
        "organization_id = ? AND account_id = ? AND state IN ('open', 'proposed', 'booked') AND NOT EXISTS ("
        "SELECT 1 FROM banking_transactions t WHERE t.account_id = recon_transactions.account_id"
        " AND t.id = recon_transactions.id AND t.status = 'posted')"
    )
    for row in store.TRANSACTIONS.all(tx, gone, settings.organization_id, settings.account_id):
        _replace_open(tx, row.organization_id, row.id)
        store.TRANSACTIONS.update(tx, row, state="ignored", changed_at=tx.now)


def _replace_open(tx: Tx, organization_id: str, transaction_id: int) -> None:
    tx.run(
        "UPDATE recon_proposals SET state = 'replaced' WHERE organization_id = ? AND transaction_id = ? AND state = 'open'",
        organization_id, transaction_id,
    )  # fmt: skip


def _keep(tx: Tx, run: RunRow, id: int, proposals: Sequence[Proposal], known: Sequence[ProposalRow]) -> list[str]:
    """Stores the best proposals. One that is known keeps its id; one that was rejected is not proposed again."""
    rejected = {row.lines for row in known if row.state == "rejected"}
    standing = {row.lines: row for row in known if row.state == "open"}
    wanted = [(stored_lines(proposal.lines), proposal) for proposal in proposals]
    kept: list[str] = []
    for lines, proposal in [pair for pair in wanted if pair[0] not in rejected][:KEPT_PROPOSALS]:
        place, tenths = len(kept) + 1, round(proposal.score * 10)
        facts = (run.id, place, proposal.evidence, int(proposal.acts), tenths, stored_reasons(proposal), ENGINE_VERSION)
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
