"""The office's bookings of what was handed over: each row of a batch booked so, booked otherwise with the difference, or not booked."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import date
from decimal import Decimal
from typing import Literal

from kontobahn.api.answers import Data
from kontobahn.api.call import Call
from kontobahn.api.declare import get
from kontobahn.api.wire import Answer, Uuid
from kontobahn.days import days_later
from kontobahn.ledger.connections import ERRORS
from kontobahn.ledger.konto import is_personenkonto
from kontobahn.money import from_minor, to_minor
from kontobahn.reconciliation import batch_store, store, wire
from kontobahn.reconciliation.accounts import open_books
from kontobahn.reconciliation.batch_store import BatchLine
from kontobahn.reconciliation.core.model import Booked
from kontobahn.reconciliation.core.special_cases import BOOKED_DAYS
from kontobahn.reconciliation.inputs import MAX_MOVES, booked_of, is_bank_payment
from kontobahn.reconciliation.store import Client
from kontobahn.reconciliation.wire import BANK_SCOPE

Outcome = Literal["as_matched", "otherwise", "not_booked"]


class BatchBooking(Answer):
    """A row of a batch, and the payment that the books show for it; null if they show none."""

    match_id: Uuid
    transaction_id: str
    made_on: date
    konto: str
    beleg: str
    amount: Decimal
    skonto: Decimal
    outcome: Outcome
    booked_on: date | None = None
    booked_konto: str | None = None
    booked_beleg: str | None = None
    booked_amount: Decimal | None = None
    booked_skonto: Decimal | None = None
    # The booked amount less the matched one.
    difference: Decimal | None = None


@get(
    "/v2/reconciliation/batches/{id}/bookings",
    scope="ledger:read",
    also_scope=BANK_SCOPE,
    errors=ERRORS,
    example=wire.BATCH_BOOKINGS,
)
async def list_batch_bookings(call: Call, id: Uuid) -> Data[list[BatchBooking]]:
    """Compare what was handed over with what the books show by now: booked so, booked otherwise, or not booked.

    Rows of person accounts, without those that take an earlier match back.
    """
    row = await call.read(batch_store.find, call.principal, id)
    lines = [line for line in batch_store.view(row).lines if is_personenkonto(line.konto) and not line.reversal]
    client = Client(row.organization_id, row.connection_id, row.client_id)
    elsewhere = await call.read(store.ledger_accounts_elsewhere, client, row.account_id)
    access = await open_books(call.context, call.principal, row.connection_id, row.client_id)
    async with access.to("buchungen") as books:
        first = min((line.made_on for line in lines), default=date.max)
        moves = await books.belegbewegungen(days_later(first, -BOOKED_DAYS.days), MAX_MOVES) if lines else []
    payments = [booked_of(move) for move in moves if is_bank_payment(move, elsewhere)]
    return Data(await call.off_loop(compared, lines, payments))


def compared(lines: Sequence[BatchLine], payments: Iterable[Booked]) -> list[BatchBooking]:
    """Each payment stands for one row: those that are booked as matched first, then those of the document, then of the amount."""
    left = sorted(payments, key=lambda payment: (payment.day, payment.konto, payment.beleg))
    found: dict[int, Booked] = {}
    for fits in (_is_as_matched, _is_of_document, _is_of_amount):
        for place, line in enumerate(lines):
            if place not in found and (payment := _nearest(line, left, fits)) is not None:
                found[place] = payment
                left.remove(payment)
    return [_booking(line, found.get(place)) for place, line in enumerate(lines)]


def _nearest(line: BatchLine, payments: list[Booked], fits: Callable[[BatchLine, Booked], bool]) -> Booked | None:
    earliest = days_later(line.made_on, -BOOKED_DAYS.days)
    near = [payment for payment in payments if payment.day >= earliest and fits(line, payment)]
    return min(near, key=lambda payment: abs(payment.day - line.made_on), default=None)


def _is_as_matched(line: BatchLine, payment: Booked) -> bool:
    same = (payment.amount_minor, abs(payment.skonto_minor)) == (to_minor(line.amount), to_minor(line.skonto))
    return same and _is_of_document(line, payment)


def _is_of_document(line: BatchLine, payment: Booked) -> bool:
    return (payment.konto, payment.beleg) == (line.konto, line.beleg)


def _is_of_amount(line: BatchLine, payment: Booked) -> bool:
    return payment.amount_minor == to_minor(line.amount) and abs(payment.day - line.made_on) <= BOOKED_DAYS


def _booking(line: BatchLine, payment: Booked | None) -> BatchBooking:
    known = {
        name: getattr(line, name)
        for name in ("match_id", "transaction_id", "made_on", "konto", "beleg", "amount", "skonto")
    }
    if payment is None:
        return BatchBooking(**known, outcome="not_booked")
    return BatchBooking(
        **known,
        outcome="as_matched" if _is_as_matched(line, payment) else "otherwise",
        booked_on=payment.day,
        booked_konto=payment.konto,
        booked_beleg=payment.beleg,
        booked_amount=from_minor(payment.amount_minor),
        booked_skonto=from_minor(abs(payment.skonto_minor)),
        difference=from_minor(payment.amount_minor - to_minor(line.amount)),
    )
