"""One movement being matched, with everything it is matched against."""

from __future__ import annotations

from datetime import timedelta
from typing import NamedTuple

from kontobahn.money import amount_text
from kontobahn.reconciliation.core.items import OpenItems
from kontobahn.reconciliation.core.model import Line, Movement, OpenItem, Reason
from kontobahn.reconciliation.core.numbers import NumberIndex
from kontobahn.reconciliation.core.payer import Payer, PayerIndex
from kontobahn.reconciliation.core.text import CutText

BITS_OF_AMOUNT = 12.0
# How far a document may be dated after its payment.
MAX_AHEAD = timedelta(days=7)


class Case(NamedTuple):
    movement: Movement
    texts: tuple[CutText, ...]
    payer: Payer
    items: OpenItems
    numbers: NumberIndex
    payers: PayerIndex


def is_too_early(item: OpenItem, movement: Movement) -> bool:
    """Whether the document is dated well after the payment: then the number is perhaps another's."""
    return item.day - movement.day > MAX_AHEAD


def amount_reason(signal: str, amount: int) -> Reason:
    """Only what fits exactly weighs anything, and never on its own."""
    exact = signal in ("amount", "amount_less_skonto", "sum")
    return Reason(signal, amount_text(amount), bits=BITS_OF_AMOUNT if exact else 0.0)


def on_account(konto: str, amount: int) -> tuple[Line, ...]:
    return (Line("akonto", konto, "", amount),) if amount else ()


def score_of(reasons: tuple[Reason, ...]) -> float:
    return round(sum(reason.bits for reason in reasons), 1)
