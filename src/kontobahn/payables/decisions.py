"""Decisions of people about a received invoice: its creditor, its release, that it is rejected or waits. Units of work.

Each looks at the payable again under the lock of its organisation, writes a step and an entry of the audit log, and takes no money.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import date
from typing import NamedTuple

from kontobahn.access import audit, factors
from kontobahn.access.audit import Actor
from kontobahn.access.principal import Principal
from kontobahn.db import Tx
from kontobahn.errors import Conflict, Forbidden
from kontobahn.payables import rules, settlement, store
from kontobahn.payables.rules import Action, Stop
from kontobahn.payables.store import PayableRow, StepRow
from kontobahn.payables.wire import emit_rejected, emit_released

# A unit that decides: of the transaction, the decision, and what else it needs.
Unit = Callable[..., PayableRow]
_IMPOSSIBLE: dict[Action, str] = {
    "release": "This invoice cannot be released as it stands.",
    "reject": "This invoice can no longer be rejected.",
    "hold": "This invoice can no longer be held back.",
    "assign": "The creditor of this invoice can no longer be changed.",
    "confirm_iban": "Nothing of this kind stops the invoice.",
    "confirm_another": "Nothing of this kind stops the invoice.",
}


class Decision(NamedTuple):
    """The payable, who decides about it, and a comment."""

    principal: Principal
    payable_id: str
    actor: Actor
    comment: str = ""

    @property
    def user_id(self) -> str:
        """The person, also where a key of theirs is used."""
        return self.principal.user_id or ""


def _take(tx: Tx, decision: Decision, action: Action) -> PayableRow:
    """Returns the payable under its lock. Raises Conflict if it does not stand where this can be done."""
    found = store.find(tx, decision.principal, decision.payable_id)
    store.lock(tx, found.organization_id)
    row = store.find(tx, decision.principal, decision.payable_id)
    if row.status not in rules.MAY[action]:
        raise Conflict(_IMPOSSIBLE[action], status=row.status)
    return row


def _record(tx: Tx, decision: Decision, action: Action, row: PayableRow) -> None:
    store.record_step(tx, row, action, decision.user_id, decision.actor.name, decision.comment)
    audit.record(
        tx, row.organization_id, decision.actor, f"payable.{action}", row.id,
        number=row.number, status=row.status, comment=decision.comment,
    )  # fmt: skip


def release(tx: Tx, decision: Decision) -> PayableRow:
    """Releases for payment; above the organisation's sum it takes two people, and until the second it stays where it is."""
    row = _take(tx, decision, "release")
    settings = store.settings_of(tx, row.organization_id)
    limit = None if settings is None else settings.two_people_minor
    needs_two = limit is not None and abs(row.payable_minor) > limit
    if needs_two:
        if not decision.user_id:
            raise Forbidden("Above the organisation's sum people release, and this key belongs to nobody.")
        earlier = _releases(store.steps_of(tx, row))
        if decision.user_id in earlier:
            raise Conflict("You have released this invoice: above the organisation's sum a second person does.")
        needs_two = not earlier
    _record(tx, decision, "release", row)
    row = store.PAYABLES.update(
        tx, row, status=row.status if needs_two else "released", hold_until=None, updated_at=tx.now
    )
    if needs_two:
        return row
    emit_released(tx, row)
    if row.match_id is None:
        return row
    # The bank was sooner: a direct debit, for example.
    settlement.mark_paid(tx, store.find_due(tx, decision.principal, row.id))
    return store.find(tx, decision.principal, row.id)


def _releases(steps: list[StepRow]) -> set[str]:
    """Returns the people who have released it since anything else was done with it."""
    found: set[str] = set()
    for step in steps:
        found = found | {step.user_id} if step.action == "release" else set()
    return found


def reject(tx: Tx, decision: Decision) -> PayableRow:
    row = _take(tx, decision, "reject")
    _record(tx, decision, "reject", row)
    row = store.PAYABLES.update(tx, row, status="rejected", updated_at=tx.now)
    emit_rejected(tx, row, decision.comment)
    return row


def hold(tx: Tx, decision: Decision, until: date | None) -> PayableRow:
    """Lets it wait, and takes a release back."""
    row = _take(tx, decision, "hold")
    _record(tx, decision, "hold", row)
    return store.PAYABLES.update(
        tx, row, status=rules.status_of(row.konto, row.stops.split()),
        hold_until=until.isoformat() if until else None, updated_at=tx.now,
    )  # fmt: skip


def assign(tx: Tx, decision: Decision, creditor: rules.KnownCreditor) -> PayableRow:
    """Says whose invoice it is. If the creditor is known by other accounts than the invoice names, it stops."""
    row = _take(tx, decision, "assign")
    stops = set(row.stops.split()) - {"iban_changed"}
    known = {*creditor.ibans, *store.paid_to(tx, row.organization_id, creditor.konto)}
    if row.creditor_iban and rules.is_changed_iban((row.creditor_iban,), known):
        stops.add("iban_changed")
    row = row._replace(connection_id=creditor.connection_id, client_id=creditor.client_id, konto=creditor.konto)
    _record(tx, decision, "assign", row)
    return store.PAYABLES.update(
        tx, row, connection_id=row.connection_id, client_id=row.client_id, konto=row.konto,
        stops=" ".join(sorted(stops)), status=rules.status_of(row.konto, stops), updated_at=tx.now,
    )  # fmt: skip


def confirm(tx: Tx, decision: Decision, stop: Stop) -> PayableRow:
    """Says that what stopped an invoice is right: only a person with a second factor may."""
    action: Action = "confirm_iban" if stop == "iban_changed" else "confirm_another"
    principal = decision.principal
    if principal.session_id is None:
        raise Forbidden("Only a signed-in person may say so: send a session token instead of an API key.")
    if not factors.of_user(tx, principal.organization_id, decision.user_id):
        raise Forbidden("This needs a second factor. Add one in the dashboard, under your profile.").retryable()
    row = _take(tx, decision, action)
    if stop not in row.stops.split():
        raise Conflict(_IMPOSSIBLE[action], status=row.status)
    stops = set(row.stops.split()) - {stop}
    _record(tx, decision, action, row)
    return store.PAYABLES.update(
        tx, row, stops=" ".join(sorted(stops)), status=rules.status_of(row.konto, stops), updated_at=tx.now
    )
