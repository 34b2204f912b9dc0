"""Whether statements add up and follow one another: checked by readers within a file, and by the importer across files. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, NamedTuple, TypeAlias

from kontobahn.formats.statements.model import Balance, Closing, Opening, StatementError, StatementWarning
from kontobahn.money import amount_text

# next: without a gap. repeat: the same one. overlap: begins before the previous one ended. unknown: nothing to compare.
Verdict: TypeAlias = Literal["next", "repeat", "overlap", "unknown", "gap"]
INTERIM = "ITBD"
NEVERTHELESS = "Imported nevertheless, as was asked for."
TRIFLE = "Imported nevertheless: such a difference comes of rounding."
UNBALANCED = "Say --unbalanced (in a call: unbalanced=true) if it is to be imported as it is."


class StatementState(NamedTuple):
    """What must be remembered of an account's last statement to judge the next."""

    statement_id: str
    number: int | None
    page: int | None
    last_page: bool
    opening: Balance | None
    closing: Balance | None


class Sequel(NamedTuple):
    """`sentence` says what is missing if the verdict is a gap; otherwise it is empty."""

    verdict: Verdict
    sentence: str = ""


def state_after(closing: Closing) -> StatementState:
    opening = closing.opening
    return StatementState(
        opening.statement_id, opening.number, opening.page, closing.last_page, opening.balance, closing.balance
    )


def follows(previous: StatementState, opening: Opening) -> Sequel:
    """Compares a statement with the one before it of the same account, currency and kind.

    Only booked statements must follow one another. A gap is an opening balance that differs from the closing balance before
    it, a number left out, or a missing page.
    """
    if opening.kind != "booked":
        return Sequel("unknown")
    identity = (previous.statement_id, previous.number, previous.page, previous.opening)
    if identity == (opening.statement_id, opening.number, opening.page, opening.balance):
        return Sequel("repeat")
    before, after = previous.closing, opening.balance
    if not previous.last_page:
        return _next_page(previous, opening)
    number_left_out = _number_left_out(previous, opening)
    if before is None or after is None:
        return number_left_out or Sequel("unknown")
    if before.amount_minor == after.amount_minor:
        if after.day < before.day and number_left_out:
            return Sequel("overlap")
        return number_left_out or Sequel("next")
    if after.day < before.day:
        return Sequel("overlap")
    return Sequel(
        "gap",
        f"It opens with {_text(after)}, but statement {previous.statement_id} before it closed with {_text(before)}:"
        f" a statement between the two is missing.",
    )


def _next_page(previous: StatementState, opening: Opening) -> Sequel:
    before, after = previous.closing, opening.balance
    both_interim = before and after and before.code == after.code == INTERIM
    if both_interim and before and after and before.amount_minor != after.amount_minor:
        return Sequel("gap", f"The page opens with {_text(after)}, but the page before it ended with {_text(before)}.")
    if both_interim or opening.page == (previous.page or 0) + 1:
        return Sequel("next")
    if after and before and after.day < before.day:
        return Sequel("overlap")
    return Sequel("gap", f"Page {(previous.page or 0) + 1} of statement {previous.statement_id} is missing before it.")


def _number_left_out(previous: StatementState, opening: Opening) -> Sequel | None:
    """Numbers restart each year, and are always 0 or the same at banks that do not count."""
    if not previous.number or not opening.number or opening.number <= previous.number + 1:
        return None
    first, last = previous.number + 1, opening.number - 1
    missing = f"number {first} is" if first == last else f"numbers {first} to {last} are"
    return Sequel("gap", f"Its number is {opening.number}, the one before it {previous.number}: {missing} missing.")


def _text(balance: Balance) -> str:
    return f"{amount_text(balance.amount_minor)} {balance.currency} ({balance.day.isoformat()})"


class Tally:
    """Checks the statements of one file against their balances and each other as they are read.

    `unbalanced` takes statements that do not add up, with a warning.
    """

    def __init__(self, *, allow_gaps: bool = False, unbalanced: bool = False) -> None:
        self._allow_gaps = allow_gaps
        self.unbalanced = unbalanced
        self._states: dict[tuple[str, str | None], StatementState] = {}
        # For pages without balances of their own: the balance after the page before.
        self._carried: dict[tuple[str, str | None], int] = {}

    def open(self, opening: Opening) -> None:
        """Raises StatementError if there is a gap between the statement and the one before it."""
        previous = self._states.get(_key(opening))
        if previous is None or self._allow_gaps:
            return
        sequel = follows(previous, opening)
        if sequel.verdict == "gap":
            raise _error(opening, sequel.sentence)

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
        if opening.kind == "booked":
            self._states[key] = state_after(closing)
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
