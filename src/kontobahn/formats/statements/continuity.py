"""Whether a statement adds up, and what is remembered of it. How statements stand to each other is the importer's part. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from kontobahn.formats.statements.model import Balance, Closing, Opening, StatementError, StatementWarning
from kontobahn.money import amount_text

INTERIM = "ITBD"
NEVERTHELESS = "Imported nevertheless, as was asked for."
TRIFLE = "Imported nevertheless: such a difference comes of rounding."
UNBALANCED = "Say --unbalanced (in a call: unbalanced=true) if it is to be imported as it is."


class StatementState(NamedTuple):
    """What is remembered of a statement."""

    statement_id: str
    number: int | None
    page: int | None
    last_page: bool
    opening: Balance | None
    closing: Balance | None


def state_after(closing: Closing) -> StatementState:
    opening = closing.opening
    return StatementState(
        opening.statement_id, opening.number, opening.page, closing.last_page, opening.balance, closing.balance
    )


class Tally:
    """Checks the statements of one file against their balances as they are read.

    `unbalanced` takes statements that do not add up, with a warning.
    """

    def __init__(self, *, unbalanced: bool = False) -> None:
        self.unbalanced = unbalanced
        # For pages without balances of their own: the balance after the page before.
        self._carried: dict[tuple[str, str | None], int] = {}

    def close(self, closing: Closing) -> Iterator[StatementWarning | Closing]:
        """Raises StatementError if opening balance and movements do not make the closing balance."""
        opening = closing.opening
        key = _key(opening)
        starts = [opening.balance.amount_minor] if opening.balance else []
        if (opening.page or 1) > 1 and key in self._carried:
            starts.append(self._carried[key])
        ends = [start + closing.moved_minor for start in starts]
        wrong = closing.balance and ends and closing.balance.amount_minor not in ends
        # A page may repeat the closing balance of the whole statement; only the last page must match it.
        if wrong and closing.balance and (closing.last_page or closing.balance.code == INTERIM):
            sentence = _does_not_add_up(closing, starts[0])
            is_trifle = (
                opening.format.startswith("camt") and min(abs(closing.balance.amount_minor - end) for end in ends) <= 1
            )
            if not is_trifle and not self.unbalanced:
                raise _error(opening, f"{sentence} {UNBALANCED}")
            yield StatementWarning(place_of(opening), sentence, TRIFLE if is_trifle else NEVERTHELESS)
            closing = closing._replace(adds_up=False)
        self._carried.pop(key, None)
        if not closing.last_page and ends:
            self._carried[key] = ends[-1]
        yield closing


def _key(opening: Opening) -> tuple[str, str | None]:
    return opening.account.iban, opening.account.currency


def _does_not_add_up(closing: Closing, start: int) -> str:
    assert closing.balance is not None
    stated, found = closing.balance.amount_minor, start + closing.moved_minor
    return (
        f"The balances do not add up: {amount_text(start)} at the beginning and {amount_text(closing.moved_minor)} in"
        f" {closing.entries} entries make {amount_text(found)} {closing.balance.currency}, but the statement closes with"
        f" {amount_text(stated)}, which is {amount_text(abs(stated - found))} {'more' if stated > found else 'less'}."
    )


def place_of(opening: Opening) -> str:
    return f"statement {opening.statement_id}, line {opening.line}"


def _error(opening: Opening, sentence: str) -> StatementError:
    return StatementError(sentence, file=opening.file, statement=opening.statement_id, place=f"line {opening.line}")
