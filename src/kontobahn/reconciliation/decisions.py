"""Decisions: what makes a match, and what undoes one. Under the lock of `store.lock`, with every check before the first write.

So a decision that is refused has written nothing, and the next one of the same transaction can still be made.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from kontobahn.access import audit
from kontobahn.access.audit import Actor
from kontobahn.banking.transactions import store as transactions
from kontobahn.db import Tx
from kontobahn.errors import Conflict, DoesNotAddUp
from kontobahn.ids import new_id
from kontobahn.ledger.konto import is_debitor, is_personenkonto
from kontobahn.ledger.provider import OpenAmounts
from kontobahn.money import amount_text, from_minor
from kontobahn.payables import settlement
from kontobahn.payables.settlement import MatchedDocument
from kontobahn.reconciliation import knowledge, store
from kontobahn.reconciliation.core.matcher import CURRENCY
from kontobahn.reconciliation.core.model import Key, Line, LineKind, Movement
from kontobahn.reconciliation.inputs import movement_of
from kontobahn.reconciliation.store import AccountSettings, Client, LineRow, MatchRow, Taken, TransactionState, UndoRow
from kontobahn.reconciliation.wire import emit_confirmed, emit_undone
from kontobahn.sentences import said

# The author of a match that nobody confirmed.
ENGINE = Actor("engine")
# These take from a document, or give back to it.
OF_ITEMS: tuple[LineKind, ...] = ("item", "return")


class Choice(NamedTuple):
    """The lines of a match to be. `evidence` is empty for one that is made by hand."""

    transaction_id: int
    lines: tuple[Line, ...]
    evidence: str = ""
    engine_version: str = ""
    proposal_id: str | None = None


def documents(lines: Iterable[Line]) -> list[Key]:
    """The person accounts and documents that the lines take from or give back to."""
    return [(line.konto, line.beleg) for line in lines if line.kind in OF_ITEMS and line.beleg]


# --- Matching


def match(tx: Tx, settings: AccountSettings, choice: Choice, amounts: OpenAmounts, actor: Actor) -> MatchRow:
    """Makes the match. Raises Conflict if its transaction or a document is not as it was, DoesNotAddUp if its lines do not.

    `amounts` is what the books show now of the documents.
    """
    movement = _free_movement(tx, settings, choice.transaction_id)
    lines = with_accounts(choice.lines, settings)
    check_sum(movement, lines)
    taken = _taken_now(tx, settings.client, documents(lines), amounts)
    before = {key: amounts.get(key, 0) - taken[key].pending_minor for key in taken}
    _check_items(lines, before)
    row = _write(tx, settings, choice, movement, lines, before, actor)
    _take(tx, settings.client, taken, lines)
    set_state(tx, settings, choice.transaction_id, "matched")
    tx.run(
        "UPDATE recon_proposals SET state = CASE WHEN id = ? THEN 'confirmed' ELSE 'replaced' END, decided_by = ?, decided_at = ?"
        " WHERE organization_id = ? AND transaction_id = ? AND state = 'open'",
        choice.proposal_id or "", actor.name, tx.now, settings.organization_id, choice.transaction_id,
    )  # fmt: skip
    if actor != ENGINE:
        knowledge.learn(tx, settings.client, row, lines)
        audit.record(
            tx, settings.organization_id, actor, "reconciliation.match", row.id,
            transaction_id=str(row.transaction_id), amount=amount_text(row.amount_minor),
        )  # fmt: skip
    settlement.note_match(tx, settlement.Client(*settings.client), row.id, _received(lines))
    emit_confirmed(tx, row, lines)
    return row


def _received(lines: Iterable[Line]) -> list[MatchedDocument]:
    """The documents that may be received invoices."""
    return [
        MatchedDocument(line.konto, line.beleg, line.amount_minor, line.kind == "return")
        for line in lines
        if line.kind in OF_ITEMS and line.beleg and is_personenkonto(line.konto) and not is_debitor(line.konto)
    ]


def _free_movement(tx: Tx, settings: AccountSettings, transaction_id: int) -> Movement:
    """The transaction as it is now, if it can be matched."""
    found = transactions.find_posted(tx, settings.account_id, transaction_id)
    if found is None:
        raise Conflict(
            "The bank has removed this transaction, or not posted it yet.", transaction_id=str(transaction_id)
        ).retryable()
    movement = movement_of(found)
    if movement.currency != CURRENCY:
        raise Conflict(
            said("Only transactions in {euro} can be matched; this one is in {currency}.", euro=CURRENCY, currency=movement.currency),
            transaction_id=movement.id, currency_code=movement.currency,
        )  # fmt: skip
    known = store.live_match(tx, settings.organization_id, transaction_id)
    if known is not None:
        raise Conflict(
            "This transaction is matched already: undo that match first.", transaction_id=movement.id, match_id=known.id
        ).retryable()
    return movement


def with_accounts(lines: tuple[Line, ...], settings: AccountSettings) -> tuple[Line, ...]:
    """Gives fees and transfers without an account that of the settings, which may be empty as well."""
    usual = {"fee": settings.fee_konto, "transfer": settings.transfer_konto}
    return tuple(line if line.konto else line._replace(konto=usual.get(line.kind, "")) for line in lines)


def check_sum(movement: Movement, lines: tuple[Line, ...]) -> None:
    total = sum(line.amount_minor for line in lines)
    if total != movement.amount_minor:
        raise DoesNotAddUp(
            said(
                "The lines sum to {total}, the transaction is {amount}.",
                total=amount_text(total),
                amount=amount_text(movement.amount_minor),
            ),
            amount=from_minor(movement.amount_minor),
            total=from_minor(total),
            difference=from_minor(movement.amount_minor - total),
        )


def _check_items(lines: tuple[Line, ...], before: dict[Key, int]) -> None:
    for line in lines:
        if line.kind != "item":
            continue
        left = before[line.konto, line.beleg]
        low, high = sorted((0, left))
        if not low <= line.amount_minor <= high:
            raise Conflict(
                said(
                    "Of document {beleg} of account {konto} only {left} is open, not {amount}.",
                    beleg=line.beleg, konto=line.konto, left=amount_text(left), amount=amount_text(line.amount_minor),
                ),
                konto=line.konto, beleg=line.beleg, open_amount=from_minor(left), amount=from_minor(line.amount_minor),
            ).retryable()  # fmt: skip


def _write(
    tx: Tx,
    settings: AccountSettings,
    choice: Choice,
    movement: Movement,
    lines: tuple[Line, ...],
    before: dict[Key, int],
    actor: Actor,
) -> MatchRow:
    row = MatchRow(
        organization_id=settings.organization_id,
        id=new_id(),
        transaction_id=choice.transaction_id,
        account_id=settings.account_id,
        connection_id=settings.connection_id,
        client_id=settings.client_id,
        proposal_id=choice.proposal_id,
        evidence=choice.evidence,
        engine_version=choice.engine_version,
        made_on=movement.day.isoformat(),
        amount_minor=movement.amount_minor,
        payer=movement.name or "",
        iban=movement.iban or "",
        end_to_end_id=movement.end_to_end_id,
        mandate=movement.mandate,
        bank_reference=movement.bank_reference,
        made_by=actor.name,
        made_at=tx.now,
        undo_id=None,
    )
    # The lines first: the database refuses a match whose lines do not sum to it.
    store.LINES.insert_many(
        tx,
        (
            LineRow(row.organization_id, row.id, place, *line, before.get((line.konto, line.beleg), 0))
            for place, line in enumerate(lines, 1)
        ),
    )
    store.MATCHES.insert(tx, row)
    return row


def set_state(
    tx: Tx, settings: AccountSettings, transaction_id: int, state: TransactionState, run_id: str | None = None
) -> None:
    tx.run(
        "INSERT INTO recon_transactions (organization_id, id, account_id, state, run_id, changed_at) VALUES (?, ?, ?, ?, ?, ?)"
        " ON CONFLICT (organization_id, id) DO UPDATE SET state = excluded.state, changed_at = excluded.changed_at,"
        " run_id = COALESCE(excluded.run_id, recon_transactions.run_id)",
        settings.organization_id, transaction_id, settings.account_id, state, run_id, tx.now,
    )  # fmt: skip


# --- Amounts that documents have left


def _taken_now(tx: Tx, client: Client, keys: list[Key], amounts: OpenAmounts) -> dict[Key, Taken]:
    """Returns what is pending of each document, now that the books show these amounts."""
    known = store.taken_from_these(tx, client, keys)
    return {key: known.get(key, Taken(0, 0)).left_of(amounts.get(key, 0)) for key in keys}


def _take(tx: Tx, client: Client, taken: dict[Key, Taken], lines: Iterable[Line], *, sign: int = 1) -> None:
    for line in lines:
        key = (line.konto, line.beleg)
        if line.kind in OF_ITEMS and line.beleg:
            taken[key] = taken[key]._replace(pending_minor=taken[key].pending_minor + sign * line.amount_minor)
    for key, now in taken.items():
        store.put_taken(tx, client, key, now)


# --- Undoing


def undo(tx: Tx, row: MatchRow, reason: str, amounts: OpenAmounts | None, actor: Actor) -> UndoRow:
    """Takes a match back, by a row of its own. Raises Conflict if it is undone already.

    `amounts` is None if the books cannot be asked: then what they showed last counts.
    """
    if row.undo_id is not None:
        raise Conflict("This match is undone already.", match_id=row.id, undo_id=row.undo_id)
    made = UndoRow(row.organization_id, new_id(), row.id, reason, actor.name, tx.now)
    store.UNDOS.insert(tx, made)
    store.MATCHES.update(tx, row, undo_id=made.id)
    client = Client(row.organization_id, row.connection_id, row.client_id)
    stored = store.lines_of(tx, row.organization_id, [row.id])[row.id]
    lines = tuple(Line(line.kind, line.konto, line.beleg, line.amount_minor) for line in stored)
    keys = documents(lines)
    if amounts is None:
        # A document without a row here was booked in full: the books showed the rest.
        rests = {(line.konto, line.beleg): line.open_minor - line.amount_minor for line in stored}
        known = store.taken_from_these(tx, client, keys)
        amounts = {key: known[key].seen_minor if key in known else rests[key] for key in keys}
    taken = _taken_now(tx, client, keys, amounts)
    _take(tx, client, taken, _still_pending(lines, taken) if _never_booked(tx, row) else lines, sign=-1)
    tx.run(
        "UPDATE recon_transactions SET state = 'open', changed_at = ? WHERE organization_id = ? AND id = ?",
        tx.now, row.organization_id, row.transaction_id,
    )  # fmt: skip
    knowledge.unlearn(tx, client, row, lines)
    audit.record(
        tx,
        row.organization_id,
        actor,
        "reconciliation.undo",
        row.id,
        transaction_id=str(row.transaction_id),
        reason=reason,
    )
    settlement.note_undo(tx, settlement.Client(*client), row.id, _received(lines))
    emit_undone(tx, row, made, lines)
    return made


def _never_booked(tx: Tx, row: MatchRow) -> bool:
    """Returns whether the books cannot show this match: only we book the account, and it was not handed over."""
    settings = store.account_settings(tx, row.organization_id, row.account_id)
    return settings is not None and settings.booked_by == "kontobahn" and not store.was_handed_over(tx, row)


def _still_pending(lines: tuple[Line, ...], taken: dict[Key, Taken]) -> tuple[Line, ...]:
    """Returns the lines less what has left the books since: something else took that, and undoing the match opens none of it."""
    found = []
    for line in lines:
        known = taken.get((line.konto, line.beleg))
        low, high = sorted((0, known.pending_minor if known else 0))
        found.append(line._replace(amount_minor=min(max(line.amount_minor, low), high)))
    return tuple(found)
