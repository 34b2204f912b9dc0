"""Movements of credits: an account changed, and its statement's lines written, for one call or for all that wait at the same moment."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from kontobahn.clock import SECOND
from kontobahn.db import LEFT_OUT, Question, Rounds, Row, Table, Tx, ask
from kontobahn.errors import NotFound


class Cause(NamedTuple):
    """What a movement is for, as the statement shows it."""

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


class _HoldRow(NamedTuple):
    organization_id: str
    id: str
    amount: int
    created_at: int
    expires_at: int
    request_id: str
    endpoint: str
    api_key_id: str | None
    quelle: str


_HOLDS = Table("credit_holds", _HoldRow)
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


def move_together(tx: Tx, wanted: Sequence[Move]) -> Rounds:
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


def _new_hold(tx: Tx, move: Move) -> _HoldRow:
    return _HoldRow(
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
