"""Credits: granted, reserved before a call, confirmed after it, expired when it fails. Whole numbers, double entry.

Every movement goes from one pot to another (issued → available → reserved → spent, or back, or lapsed) and is a line of the
statement. Which grant a credit came from is settled only when the set of live grants changes: until then the earliest to
expire counts as used first, and the order of the calls makes no difference.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from kontobahn.clock import SECOND
from kontobahn.db import LEFT_OUT, Question, Rounds, Row, Table, Tx, ask, ask_one, do_alone, done_by, short_read
from kontobahn.errors import Conflict, NotFound, OutOfCredits, Unavailable
from kontobahn.ids import new_id

# --- Movements: one for a call, or one for all that wait at the same moment


class Cause(NamedTuple):
    """The reason of a movement, as the statement shows it."""

    request_id: str
    endpoint: str
    api_key_id: str | None
    quelle: str


NO_CALL = Cause(request_id="", endpoint="", api_key_id=None, quelle="")


class Hold(NamedTuple):
    """Credits set aside, and what is left available."""

    id: str
    amount: int
    available: int


class Movement(NamedTuple):
    line: int
    at: int
    kind: str
    from_pot: str
    to_pot: str
    amount: int
    available_after: int
    reserved_after: int
    reference: str
    request_id: str
    endpoint: str
    api_key_id: str | None
    quelle: str


class HoldRow(NamedTuple):
    organization_id: str
    id: str
    amount: int
    created_at: int
    expires_at: int
    request_id: str
    endpoint: str
    api_key_id: str | None
    quelle: str


_HOLDS = Table("credit_holds", HoldRow)
MOVEMENTS = Table("credit_movements", Movement)
_INSERT_MOVEMENT = (
    f"INSERT INTO credit_movements (organization_id, {MOVEMENTS.columns}) VALUES (?{', ?' * len(Movement._fields)})"
)


# From which pot to which; and what that is for the pots of an account that a call changes: available, reserved, spent.
_POTS = {
    "grant": ("issued", "available"),
    "reserve": ("available", "reserved"),
    "confirm": ("reserved", "spent"),
    "expire": ("reserved", "available"),
    "lapse": ("available", "lapsed"),
}
_CHANGES = {"reserve": (-1, 1, 0), "confirm": (0, -1, 1), "expire": (1, -1, 0)}


class Move(NamedTuple):
    """Credits from one pot to another; `reference` is the hold or the grant. What a hold is for is known once it is settled."""

    organization_id: str
    kind: str
    reference: str
    amount: int = 0
    cause: Cause = NO_CALL
    # For a new hold.
    hold_seconds: int = 0


class _Account:
    """The moves of one account, each with its position among all, and what they come to."""

    __slots__ = ("available", "id", "moves", "reserved", "spent", "taken")

    def __init__(self, id: str) -> None:
        self.id = id
        self.moves: list[tuple[int, Move]] = []
        self.available = self.reserved = self.spent = self.taken = 0

    def add(self, position: int, move: Move) -> None:
        available, reserved, spent = _CHANGES[move.kind]
        self.moves.append((position, move))
        self.available += available * move.amount
        self.reserved += reserved * move.amount
        self.spent += spent * move.amount
        if available < 0:
            self.taken += move.amount

    def without_reservations(self) -> _Account:
        account = _Account(self.id)
        for position, move in self.moves:
            if move.kind != "reserve":
                account.add(position, move)
        return account

    def changing(self, now: int) -> Question:
        """The statement that makes the moves, if there are enough credits and nothing has to lapse first."""
        return ask(
            "UPDATE credit_accounts SET available = available + ?, reserved = reserved + ?, spent = spent + ?,"
            " last_line = last_line + ? WHERE organization_id = ? AND available >= ?"
            " AND (next_lapse_at IS NULL OR next_lapse_at > ?) RETURNING last_line, available, reserved",
            self.available, self.reserved, self.spent, len(self.moves), self.id, self.taken, now if self.taken else -1,
        )  # fmt: skip

    def lines(self, after: Row | None) -> Iterator[tuple[int, Move, Row]]:
        """The last line, what is available and what is reserved after each of the moves; `after` is that after all of them."""
        if after is None:
            raise NotFound("There is no such organisation.")
        line, available, reserved = after[0] - len(self.moves), after[1] - self.available, after[2] - self.reserved
        for position, move in self.moves:
            change, reserved_change, _ = _CHANGES[move.kind]
            line += 1
            available += change * move.amount
            reserved += reserved_change * move.amount
            yield position, move, (line, available, reserved)


def move_together(tx: Tx, wanted: Sequence[Move]) -> Rounds[Sequence[object]]:
    """Changes each account once; the lines of its statement are as if the moves were made one after another.

    Leaves out what was settled before, and reservations of an account with too few credits for all of them or with grants to lapse.
    """
    held = iter((yield [_settling(move) for move in wanted if move.kind != "reserve"]))
    moved: dict[str, _Account] = {}
    for position, move in enumerate(wanted):
        known: Move | None = move if move.kind == "reserve" else _settled(move, next(held))
        if known is not None:
            if move.organization_id not in moved:
                moved[move.organization_id] = _Account(move.organization_id)
            moved[move.organization_id].add(position, known)
    # In one order, so that two processes doing this at once cannot block each other.
    accounts = [moved[id] for id in sorted(moved)]
    after = yield [account.changing(tx.now) for account in accounts]
    made = [
        line for account, row in zip(accounts, after, strict=True) if row is not None for line in account.lines(row)
    ]
    refused = [account.without_reservations() for account, row in zip(accounts, after, strict=True) if row is None]
    # A hold that is settled stays so, though its neighbours get none.
    again = [account for account in refused if account.moves]
    after = yield [account.changing(tx.now) for account in again]
    made += [line for account, row in zip(again, after, strict=True) for line in account.lines(row)]
    _HOLDS.insert_many(tx, [_new_hold(tx, move) for _, move, _ in made if move.kind == "reserve"])
    tx.many(_INSERT_MOVEMENT, [_movement(tx, move, account) for _, move, account in made])
    results = {position: _result(move, account) for position, move, account in made}
    return [results.get(position, LEFT_OUT) for position in range(len(wanted))]


def _settling(move: Move) -> Question:
    return ask(
        "DELETE FROM credit_holds WHERE organization_id = ? AND id = ?"
        " RETURNING amount, request_id, endpoint, api_key_id, quelle",
        move.organization_id,
        move.reference,
    )


def _settled(move: Move, hold: Row | None) -> Move | None:
    """The move, with what its hold was over and what for; None if there is no such hold any more."""
    if hold is None:
        return None
    return Move(move.organization_id, move.kind, move.reference, hold[0], Cause._make(hold[1:]))


def _result(move: Move, account: Row) -> Hold | int | bool:
    if move.kind == "reserve":
        return Hold(move.reference, move.amount, account[1])
    return int(account[1]) if move.kind == "confirm" else True


def _new_hold(tx: Tx, move: Move) -> HoldRow:
    return HoldRow(
        organization_id=move.organization_id,
        id=move.reference,
        amount=move.amount,
        created_at=tx.now,
        expires_at=tx.now + move.hold_seconds * SECOND,
        request_id=move.cause.request_id,
        endpoint=move.cause.endpoint,
        api_key_id=move.cause.api_key_id,
        quelle=move.cause.quelle,
    )


def _movement(tx: Tx, move: Move, account: Row) -> tuple[object, ...]:
    """The line of the statement, as its organisation's row."""
    line, available, reserved = account
    from_pot, to_pot = _POTS[move.kind]
    movement = Movement(
        line=line,
        at=tx.now,
        kind=move.kind,
        from_pot=from_pot,
        to_pot=to_pot,
        amount=move.amount,
        available_after=available,
        reserved_after=reserved,
        reference=move.reference,
        request_id=move.cause.request_id,
        endpoint=move.cause.endpoint,
        api_key_id=move.cause.api_key_id,
        quelle=move.cause.quelle,
    )
    return move.organization_id, *movement


def write_line(tx: Tx, move: Move, account: Row | None) -> None:
    if account is None:
        raise NotFound("There is no such organisation.")
    tx.put(_INSERT_MOVEMENT, *_movement(tx, move, account))


# --- Accounts


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


@short_read
def balance(organization_id: str) -> Rounds[Balance]:
    row = yield from ask_one(
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


def _reserve_after_lapse(tx: Tx, organization_id: str, amount: int, *, hold_seconds: int, cause: Cause) -> Hold:
    """Reserves after what has expired has lapsed, or refuses."""
    _lapse(tx, organization_id)
    hold = do_alone(tx, move_together, reserve.request(organization_id, amount, hold_seconds=hold_seconds, cause=cause))
    if not isinstance(hold, Hold):
        raise OutOfCredits(benoetigt=amount, verfuegbar=balance(tx, organization_id).available)
    return hold


@done_by(move_together, otherwise=_reserve_after_lapse)
def reserve(organization_id: str, amount: int, *, hold_seconds: int, cause: Cause) -> Move:
    """Sets credits aside for a call (`Call.cause` says which). Raises OutOfCredits if there are too few.

    For `hold_seconds`: a call's reservation lives as long as a call may take, a payment's until the payment is settled.
    """
    return Move(organization_id, "reserve", new_id(), amount, cause, hold_seconds)


def held(tx: Tx, organization_id: str, hold_id: str) -> HoldRow | None:
    """Returns what is set aside under this id, and what for; None if it was settled or has lapsed."""
    return _HOLDS.one(tx, "organization_id = ? AND id = ?", organization_id, hold_id)


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


def latest(
    tx: Tx, organization_id: str, limit: int, *, kind: str = "", endpoint: str = "", key: str = "", before: int = 0
) -> list[Movement]:
    """Returns the newest lines first; `before` is the last line of the page before."""
    bounds: list[tuple[str, str | int]] = [
        ("organization_id = ?", organization_id),
        ("line < ?", before),
        ("kind = ?", kind),
        ("endpoint = ?", endpoint),
        ("api_key_id = ?", key),
    ]
    given = [(condition, value) for condition, value in bounds if value]
    where = " AND ".join(condition for condition, _ in given)
    return MOVEMENTS.all(tx, f"{where} ORDER BY line DESC LIMIT ?", *(value for _, value in given), limit)


class Reservation(NamedTuple):
    id: str
    amount: int
    created_at: int
    expires_at: int
    endpoint: str


def reservations(tx: Tx, organization_id: str, limit: int = 20) -> list[Reservation]:
    """Returns the credits set aside for calls and payments under way, the oldest first."""
    rows = tx.all(
        "SELECT id, amount, created_at, expires_at, endpoint FROM credit_holds"
        " WHERE organization_id = ? ORDER BY created_at, id LIMIT ?",
        organization_id, limit,
    )  # fmt: skip
    return [Reservation(*row) for row in rows]


class Grant(NamedTuple):
    id: str
    amount: int
    created_at: int
    expires_at: int | None
    note: str


def grants(tx: Tx, organization_id: str) -> list[Grant]:
    """Returns the grants that have not lapsed, the first to expire before the others."""
    rows = tx.all(
        "SELECT id, amount, created_at, expires_at, note FROM credit_grants WHERE organization_id = ? AND lapsed_at IS NULL"
        " ORDER BY COALESCE(expires_at, 9223372036854775807), created_at, id LIMIT 100",
        organization_id,
    )
    return [Grant(*row) for row in rows]


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
