"""What a batch hands over, and what it leaves out and why: days of one fiscal year, and matches whose documents are open still.

A match is left out if its document is not open by what was matched: something else has paid it since, cash for example, and a
booking would pay it twice. Pure.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from datetime import date, timedelta
from typing import NamedTuple

from kontobahn.errors import BadRequest, Conflict
from kontobahn.ledger.accounting import Geschaeftsjahr
from kontobahn.ledger.opos import Belegbewegung
from kontobahn.money import amount_text, from_minor
from kontobahn.reconciliation import booking_rows
from kontobahn.reconciliation.batch_wire import NeuerStapel, StapelAuslassung
from kontobahn.reconciliation.booking_rows import MAX_BELEGFELD2, Transfer, reference_of
from kontobahn.reconciliation.core.booked import BOOKED_DAYS
from kontobahn.reconciliation.core.model import Key, Line
from kontobahn.reconciliation.deciding import OF_ITEMS
from kontobahn.reconciliation.gathering import of_bank

# A month of a small company; more are for a second batch.
MAX_MATCHES = 1_000
# How long before the year the invoice of a discount may have been booked.
INVOICED_BEFORE = timedelta(days=400)


class Span(NamedTuple):
    """Days of one fiscal year."""

    first: date
    last: date
    jahr: Geschaeftsjahr


def span_of(body: NeuerStapel, years: list[Geschaeftsjahr], today: date) -> Span:
    last = body.to_date or today
    jahr = next((year for year in years if year.start <= last <= year.end), None)
    if jahr is None:
        raise Conflict(
            f"The client has no fiscal year for {last.isoformat()}: it is opened in the books first.", field="to_date"
        ).retryable()
    first = body.from_date or jahr.start
    if not jahr.start <= first <= last:
        raise BadRequest(
            f"The field `from_date` must be a day of the fiscal year from {jahr.start} on, and not after `to_date`.",
            field="from_date",
        )
    return Span(first, last, jahr)


class Shown(NamedTuple):
    """What the books say of documents: the rates of their tax, and which payments of a bank they show."""

    rates: dict[Key, int]
    paid: dict[Key, list[Belegbewegung]]


def shown_by(moves: Iterable[Belegbewegung], elsewhere: frozenset[str]) -> Shown:
    """`elsewhere` are the ledger accounts of other bank accounts."""
    shown = Shown({}, defaultdict(list))
    for move in moves:
        key = (move.konto, move.beleg)
        if move.steuersatz is not None:
            shown.rates[key] = move.steuersatz
        if of_bank(move, elsewhere):
            shown.paid[key].append(move)
    return shown


class Plan(NamedTuple):
    transfers: list[Transfer]
    left_out: list[StapelAuslassung]


def make_plan(waiting: list[Transfer], amounts: Mapping[Key, int], shown: Shown, *, books_itself: bool) -> Plan:
    """Raises Conflict if there is nothing to hand over, BadRequest if there is too much.

    `amounts` is what is open of the documents, without these matches. `books_itself` is false for a list: the office books, and
    may have booked already.
    """
    if len(waiting) > MAX_MATCHES:
        raise BadRequest(
            f"There are more than {MAX_MATCHES} matches up to `to_date`: ask for fewer days.", field="to_date"
        )
    plan, judge = Plan([], []), _Judge(amounts, shown, books_itself=books_itself)
    for transfer in waiting:
        refused = judge.refuses(transfer)
        if refused is None:
            plan.transfers.append(transfer)
        else:
            plan.left_out.append(refused)
    if not plan.transfers:
        first = plan.left_out[0] if plan.left_out else None
        names = () if first is None or first.offen is None else ("kontonummer", "beleg", "offen", "betrag")
        why = f" {first.grund}" if first else ""
        raise Conflict(
            f"There is nothing to hand over in these days.{why}",
            ausgelassen=len(plan.left_out),
            **{name: getattr(first, name) for name in names},
        ).retryable()
    return plan


class _Judge:
    """Looks at matches in the order of the batch; each that goes on takes from what is open for the next."""

    def __init__(self, amounts: Mapping[Key, int], shown: Shown, *, books_itself: bool) -> None:
        self._left = dict(amounts)
        self._rates = shown.rates
        self._paid = {key: list(moves) for key, moves in shown.paid.items()}
        self._books_itself = books_itself

    def refuses(self, transfer: Transfer) -> StapelAuslassung | None:
        reason = booking_rows.problem(transfer)
        if reason is None and transfer.is_removed:
            reason = "The bank has removed this transaction: undo the match."
        if reason is None and self._books_itself:
            reason = self._taxed_unknown(transfer)
        if reason is not None:
            return _left_out(transfer, reason)
        taken: dict[Key, int] = defaultdict(int)
        for line in transfer.lines:
            if line.kind not in OF_ITEMS or not line.beleg:
                continue
            key = (line.konto, line.beleg)
            if line.kind == "posten" and not transfer.is_undone:
                booked = self._booked(transfer, line)
                if booked is not None and not self._books_itself:
                    continue
                left = self._left.get(key, 0) - taken[key]
                low, high = sorted((0, left))
                if booked is not None or not low <= line.amount_minor <= high:
                    return _left_out(transfer, _not_open(line, left, booked), line, left)
            taken[key] += -line.amount_minor if transfer.is_undone else line.amount_minor
        for key, amount in taken.items():
            self._left[key] = self._left.get(key, 0) - amount
        return None

    def _taxed_unknown(self, transfer: Transfer) -> str | None:
        for key in booking_rows.discounted(transfer):
            if not booking_rows.has_key(key, transfer.day, self._rates):
                return (
                    f"The discount on document {key[1]} of account {key[0]} cannot be booked: which tax it reduces is not known,"
                    " as with reverse charge, several rates or a balance carried forward. Match it by hand, with a line for the"
                    " discount's ledger account."
                )
        return None

    def _booked(self, transfer: Transfer, line: Line) -> Belegbewegung | None:
        """The payment of the books that is this very one; each stands for one match."""
        moves = self._paid.get((line.konto, line.beleg), [])
        own = reference_of(transfer.transaction_id)
        for move in moves:
            # One with the id of another movement beside it was booked for that one.
            is_others = len(move.belegfeld2) == MAX_BELEGFELD2 and move.belegfeld2.isdigit() and move.belegfeld2 != own
            if (
                -move.betrag == line.amount_minor
                and abs(move.belegdatum - transfer.day) <= BOOKED_DAYS
                and not is_others
            ):
                moves.remove(move)
                return move
        return None


def _not_open(line: Line, left: int, booked: Belegbewegung | None) -> str:
    if booked is not None:
        return (
            f"The books show the payment of {amount_text(line.amount_minor)} for document {line.beleg} of account {line.konto}"
            f" already, on {booked.belegdatum.isoformat()}: undo the match."
        )
    return (
        f"Of document {line.beleg} of account {line.konto} only {amount_text(left)} is open, not {amount_text(line.amount_minor)}:"
        " something else was booked on it since. Undo the match, or take that booking back."
    )


def _left_out(transfer: Transfer, reason: str, line: Line | None = None, left: int = 0) -> StapelAuslassung:
    answer = StapelAuslassung(match_id=transfer.match_id, transaction_id=str(transfer.transaction_id), grund=reason)
    if line is not None:
        answer.kontonummer, answer.beleg = line.konto, line.beleg
        answer.offen, answer.betrag = from_minor(left), from_minor(line.amount_minor)
    return answer
