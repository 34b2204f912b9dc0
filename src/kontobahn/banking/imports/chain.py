"""Where a statement belongs among those already imported: next, a repeat, filling a gap, or leaving one."""

from __future__ import annotations

import enum
import hashlib
from datetime import date
from typing import NamedTuple

import msgspec

from kontobahn.db import Tx
from kontobahn.formats.statements import Closing, Opening, StatementError, StatementState, follows, state_after
from kontobahn.money import amount_text


class Outcome(enum.Enum):
    ADDED = enum.auto()
    REPEATED = enum.auto()


class _Known(NamedTuple):
    identity: str
    sha256: str
    state: StatementState


class ChainPosition:
    """A statement's position among those of its account."""

    def __init__(
        self, account_id: int, opening: Opening, known: list[_Known], *, fills_gap: bool, allow_gaps: bool
    ) -> None:
        self._account_id = account_id
        self._opening = opening
        self._known = known
        self._fills_gap = fills_gap
        self._allow_gaps = allow_gaps
        self.identity = _identity(opening)
        self._before = next((item for item in known if item.identity == self.identity), None)

    @property
    def is_repeat(self) -> bool:
        return self._before is not None

    @property
    def has_statements(self) -> bool:
        return bool(self._known)

    def is_newest(self, closes_on: date) -> bool:
        return all(item.state.closing is None or item.state.closing.day <= closes_on for item in self._known)

    def close(self, tx: Tx, closing: Closing, sha256: str, source: str) -> Outcome:
        """Records the statement. Raises StatementError if it was imported with other entries, or does not lead to the next one."""
        if self._before is not None:
            if self._before.sha256 != sha256:
                raise _error(self._opening, "It was imported before with other entries.")
            return Outcome.REPEATED
        if self._fills_gap and not self._allow_gaps:
            self._check_leads_to_next(closing)
        day = closing.balance.day if closing.balance else self._opening.to_date or self._opening.from_date
        tx.run(
            "INSERT INTO banking_statements (account_id, position, identity, sha256, state, closes_on, entries, source, taken_at)"
            " SELECT ?, COALESCE(MAX(position), 0) + 1, ?, ?, ?, ?, ?, ?, ? FROM banking_statements WHERE account_id = ?",
            self._account_id, self.identity, sha256, msgspec.json.encode(state_after(closing)).decode(),
            day.isoformat() if day else "", closing.entries, source[:200], tx.now, self._account_id,
        )  # fmt: skip
        return Outcome.ADDED

    def _check_leads_to_next(self, closing: Closing) -> None:
        ends = closing.balance
        if ends is None:
            raise _error(
                self._opening, "It precedes statements that were already imported, and has no closing balance."
            )
        after = [
            item.state
            for item in self._known
            if (item.state.opening is not None and item.state.opening.day >= ends.day)
            or (item.state.closing is not None and item.state.closing.day > ends.day)
        ]
        fits = any(state.opening is not None and state.opening.amount_minor == ends.amount_minor for state in after)
        if after and not fits:
            raise _error(
                self._opening,
                f"It closes with {amount_text(ends.amount_minor)} {ends.currency}, but no imported statement opens with that:"
                " one between them is missing, or they overlap.",
            )


def find_position(tx: Tx, account_id: int, opening: Opening, *, allow_gaps: bool) -> ChainPosition:
    """Raises StatementError if the statement would leave a gap."""
    known = [
        _Known(identity, sha256, msgspec.json.decode(state, type=StatementState))
        for identity, sha256, state in tx.all(
            "SELECT identity, sha256, state FROM banking_statements WHERE account_id = ? ORDER BY closes_on, position",
            account_id,
        )
    ]
    fills_gap = False
    if opening.kind == "booked" and known and all(item.identity != _identity(opening) for item in known):
        sequel = follows(known[-1].state, opening)
        fills_gap = sequel.verdict == "overlap"
        if sequel.verdict == "gap" and not allow_gaps:
            raise _error(opening, sequel.sentence)
    return ChainPosition(account_id, opening, known, fills_gap=fills_gap, allow_gaps=allow_gaps)


def _identity(opening: Opening) -> str:
    parts = (
        opening.statement_id, opening.number, opening.page, opening.balance, opening.from_date, opening.to_date,
    )  # fmt: skip
    return hashlib.blake2b(msgspec.json.encode(parts), digest_size=16).hexdigest()


def _error(opening: Opening, sentence: str) -> StatementError:
    return StatementError(sentence, file=opening.file, statement=opening.statement_id, place=f"line {opening.line}")
