"""Credits: granted, reserved before a call, confirmed after it, expired when it fails. Whole numbers, double entry.

Every movement goes from one pot to another (issued → available → reserved → spent, or back, or lapsed) and is a line of the
statement. Which grant a credit came from is settled only when the set of live grants changes: until then the earliest to
expire counts as used first, and the order of the calls makes no difference.
"""

from __future__ import annotations

from typing import NamedTuple

from kontobahn.credits.moves import MOVEMENTS, Cause, Hold, Move, Movement, move_together, write_line
from kontobahn.db import Tx, do_alone, done_by
from kontobahn.errors import Conflict, NotFound, OutOfCredits, Unavailable
from kontobahn.ids import new_id

__all__ = [
    "MOVEMENTS",
    "Balance",
    "Cause",
    "Hold",
    "HoldLapsed",
    "Movement",
    "balance",
    "confirm",
    "expire",
    "expire_stale_holds",
    "find_discrepancies",
    "grant",
    "lapse_due_grants",
    "open_account",
    "reserve",
    "statement",
]


class Balance(NamedTuple):
    available: int
    reserved: int
    spent: int
    lapsed: int
    granted: int


class HoldLapsed(Unavailable):
    """The call took longer than its reservation; its effect must not be kept."""


def open_account(tx: Tx, organization_id: str) -> None:
    tx.run(
        "INSERT INTO credit_accounts (organization_id, available, reserved, spent, lapsed, granted, last_line, allocated)"
        " VALUES (?, 0, 0, 0, 0, 0, 0, 0)",
        organization_id,
    )


def balance(tx: Tx, organization_id: str) -> Balance:
    row = tx.one(
        "SELECT available, reserved, spent, lapsed, granted FROM credit_accounts WHERE organization_id = ?",
        organization_id,
    )
    if row is None:
        raise NotFound("There is no such organisation.")
    return Balance(*row)


def grant(tx: Tx, organization_id: str, amount: int, *, expires_at: int | None = None, note: str = "") -> str:
    """Grants credits, for ever or until an instant. Returns the grant's id."""
    if amount < 1:
        raise Conflict("A grant must be at least one credit.")
    if expires_at is not None and expires_at <= tx.now:
        raise Conflict("A grant cannot expire in the past.")
    _lapse(tx, organization_id)
    grant_id = new_id()
    _add_grant(tx, organization_id, grant_id, amount, expires_at, note)
    row = tx.one(
        "UPDATE credit_accounts SET available = available + ?, granted = granted + ?, last_line = last_line + 1"
        " WHERE organization_id = ? RETURNING last_line, available, reserved",
        amount, amount, organization_id,
    )  # fmt: skip
    write_line(tx, Move(organization_id, "grant", grant_id, amount), row)
    _set_next_lapse(tx, organization_id)
    return grant_id


def _reserve_slowly(tx: Tx, organization_id: str, amount: int, *, hold_seconds: int, cause: Cause) -> Hold:
    """Reserves after what has expired has lapsed, or refuses."""
    _lapse(tx, organization_id)
    hold = do_alone(tx, move_together, reserve.request(organization_id, amount, hold_seconds=hold_seconds, cause=cause))
    if not isinstance(hold, Hold):
        raise OutOfCredits(benoetigt=amount, verfuegbar=balance(tx, organization_id).available)
    return hold


@done_by(move_together, otherwise=_reserve_slowly)
def reserve(organization_id: str, amount: int, *, hold_seconds: int, cause: Cause) -> Move:
    """Sets credits aside for a call (`Call.cause` says which). Raises OutOfCredits if there are too few.

    For `hold_seconds`: a call's reservation lives as long as a call may take, a payment's until the payment is settled.
    """
    return Move(organization_id, "reserve", new_id(), amount, cause, hold_seconds)


def _refuse_to_confirm(tx: Tx, organization_id: str, hold_id: str) -> int:
    raise HoldLapsed("The call took longer than its credits were reserved. Nothing was charged.")


@done_by(move_together, otherwise=_refuse_to_confirm)
def confirm(organization_id: str, hold_id: str) -> Move:
    """Charges what was set aside, because the call succeeded. Returns the balance that the statement now shows."""
    return Move(organization_id, "confirm", hold_id)


def _leave_settled(tx: Tx, organization_id: str, hold_id: str) -> bool:
    return False


@done_by(move_together, otherwise=_leave_settled)
def expire(organization_id: str, hold_id: str) -> Move:
    """Gives back what was set aside, because the call failed. Returns False if it was settled before."""
    return Move(organization_id, "expire", hold_id)


def expire_stale_holds(tx: Tx, *, limit: int = 500) -> int:
    """Gives back what dead processes left reserved. Run it again while it returns `limit`."""
    stale = tx.all(
        "SELECT organization_id, id FROM credit_holds WHERE expires_at <= ?"
        " ORDER BY expires_at LIMIT ?",
        tx.now, limit,
    )  # fmt: skip
    # In one order of organisations, so that two processes doing this at once cannot block each other.
    for organization_id, hold_id in sorted(stale):
        expire(tx, organization_id, hold_id)
    return len(stale)


def lapse_due_grants(tx: Tx) -> int:
    due = tx.all(
        "SELECT organization_id FROM credit_accounts WHERE next_lapse_at <= ? ORDER BY organization_id", tx.now
    )
    for (organization_id,) in due:
        _lapse(tx, organization_id)
    return len(due)


def statement(tx: Tx, organization_id: str, *, after_line: int = 0, limit: int = 1_000_000) -> list[Movement]:
    condition = "organization_id = ? AND line > ? ORDER BY line LIMIT ?"
    return MOVEMENTS.all(tx, condition, organization_id, after_line, limit)


def find_discrepancies(tx: Tx) -> list[str]:
    """Returns where an account differs from what its statement adds up to: nothing, if all is well."""
    found = []
    for organization_id, *pots in tx.all(
        "SELECT organization_id, available, reserved, spent, lapsed, granted, last_line FROM credit_accounts"
    ):
        sums = {"available": 0, "reserved": 0, "spent": 0, "lapsed": 0, "issued": 0}
        lines = 0
        for movement in statement(tx, organization_id):
            sums[movement.from_pot] -= movement.amount
            sums[movement.to_pot] += movement.amount
            lines += 1
            if (movement.available_after, movement.reserved_after) != (sums["available"], sums["reserved"]):
                found.append(f"Organisation {organization_id}: line {movement.line} does not add up.")
        booked = [sums["available"], sums["reserved"], sums["spent"], sums["lapsed"], -sums["issued"], lines]
        if pots != booked:
            found.append(f"Organisation {organization_id}: the account says {pots}, its statement {booked}.")
        held = tx.one(
            "SELECT COALESCE(SUM(amount), 0) FROM credit_holds WHERE organization_id = ?",
            organization_id,
        )
        if held is None or int(held[0]) != sums["reserved"]:
            found.append(f"Organisation {organization_id}: open reservations do not add up to the reserved pot.")
    return found


def _lapse(tx: Tx, organization_id: str) -> None:
    """Works out which grants were used, then lapses those that have expired."""
    _allocate(tx, organization_id)
    for grant_id, remaining in tx.all(
        "SELECT id, remaining FROM credit_grants"
        " WHERE organization_id = ? AND lapsed_at IS NULL AND expires_at <= ? ORDER BY expires_at, id",
        organization_id, tx.now,
    ):  # fmt: skip
        tx.run(
            "UPDATE credit_grants SET remaining = 0, lapsed_at = ? WHERE organization_id = ? AND id = ?",
            tx.now, organization_id, grant_id,
        )  # fmt: skip
        if remaining:
            row = tx.one(
                "UPDATE credit_accounts SET available = available - ?, lapsed = lapsed + ?, last_line = last_line + 1"
                " WHERE organization_id = ? RETURNING last_line, available, reserved",
                remaining, remaining, organization_id,
            )  # fmt: skip
            write_line(tx, Move(organization_id, "lapse", grant_id, remaining), row)
    _set_next_lapse(tx, organization_id)


def _allocate(tx: Tx, organization_id: str) -> None:
    """Books the credits used since the last time to the live grants, those that expire first before the others."""
    # The UPDATE locks the account's row, so that no call can slip in between on PostgreSQL.
    row = tx.one(
        "UPDATE credit_accounts SET last_line = last_line WHERE organization_id = ? RETURNING reserved + spent - allocated",
        organization_id,
    )
    if row is None:
        raise NotFound("There is no such organisation.")
    used = row[0]
    grants = tx.all(
        "SELECT id, amount, remaining FROM credit_grants WHERE organization_id = ? AND lapsed_at IS NULL"
        " ORDER BY COALESCE(expires_at, 9223372036854775807), created_at, id",
        organization_id,
    )
    if used < 0:
        grants.reverse()
    for grant_id, amount, remaining in grants:
        step = min(used, remaining) if used > 0 else max(used, remaining - amount)
        if step:
            tx.run(
                "UPDATE credit_grants SET remaining = remaining - ? WHERE organization_id = ? AND id = ?",
                step, organization_id, grant_id,
            )  # fmt: skip
            used -= step
    if used < 0:
        # Set aside from a grant that has lapsed since, and given back now: the organisation keeps it.
        _add_grant(tx, organization_id, new_id(), -used, None, "returned from a reservation")
    tx.run("UPDATE credit_accounts SET allocated = reserved + spent WHERE organization_id = ?", organization_id)


def _add_grant(tx: Tx, organization_id: str, grant_id: str, amount: int, expires_at: int | None, note: str) -> None:
    tx.run(
        "INSERT INTO credit_grants (organization_id, id, amount, remaining, note, created_at, expires_at)"
        " VALUES (?, ?, ?, ?, ?, ?, ?)",
        organization_id, grant_id, amount, amount, note, tx.now, expires_at,
    )  # fmt: skip


def _set_next_lapse(tx: Tx, organization_id: str) -> None:
    tx.run(
        "UPDATE credit_accounts SET next_lapse_at = (SELECT MIN(expires_at) FROM credit_grants"
        " WHERE organization_id = ? AND lapsed_at IS NULL AND expires_at IS NOT NULL) WHERE organization_id = ?",
        organization_id, organization_id,
    )  # fmt: skip
