"""Movements that the books show already: neither proposed again nor taken for a second payment.

By the document's number or a payer who is known, never by the amount alone. Each payment of the books stands for one movement.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from datetime import date, timedelta

from kontobahn.reconciliation.core.case import Case
from kontobahn.reconciliation.core.model import Booked, Key, Line

# How far a booking may be dated from its movement at the bank.
BOOKED_DAYS = timedelta(days=5)
# So many payments of one account on one day are added up.
_MOST_OF_A_DAY = 60


class BookedPayments:
    def __init__(self, booked: Iterable[Booked]) -> None:
        self._by_key: dict[Key, list[Booked]] = defaultdict(list)
        self._by_konto: dict[str, dict[date, list[Booked]]] = defaultdict(lambda: defaultdict(list))
        for payment in booked:
            self._by_key[payment.konto, payment.beleg].append(payment)
            self._by_konto[payment.konto][payment.day].append(payment)
        self._found: dict[str, tuple[Line, ...]] = {}

    def lines(self, case: Case) -> tuple[Line, ...]:
        """Returns what was booked of this movement; nothing if nothing was. The same answer however often it is asked."""
        if not self._by_key:
            return ()
        known = self._found.get(case.movement.id)
        if known is None:
            taken = self._named(case) or self._of_payer(case)
            for payment in taken:
                self._by_key[payment.konto, payment.beleg].remove(payment)
                self._by_konto[payment.konto][payment.day].remove(payment)
            known = self._found[case.movement.id] = tuple(line for payment in taken for line in _lines(payment))
        return known

    def _named(self, case: Case) -> list[Booked]:
        keys = dict.fromkeys(key for hit in case.numbers.find(case.texts) if not hit.weak for key in hit.keys)
        near = [found for found in (_nearest(case, self._by_key.get(key, ())) for key in keys) if found is not None]
        paid = case.movement.amount_minor
        if sum(payment.amount_minor for payment in near) == paid:
            return near
        return [payment for payment in near if payment.amount_minor == paid][:1]

    def _of_payer(self, case: Case) -> list[Booked]:
        paid = case.movement.amount_minor
        for konto in case.payer.known:
            days = self._by_konto.get(konto, {})
            for day in sorted(days, key=lambda day: (abs(day - case.movement.day), day)):
                if abs(day - case.movement.day) > BOOKED_DAYS:
                    break
                of_day = days[day]
                alone = [payment for payment in of_day if payment.amount_minor == paid]
                if alone:
                    return alone[:1]
                if 1 < len(of_day) <= _MOST_OF_A_DAY and sum(payment.amount_minor for payment in of_day) == paid:
                    return list(of_day)
        return []


def _nearest(case: Case, payments: Iterable[Booked]) -> Booked | None:
    """The payment of a document that was booked nearest to the movement, the same amount before any other."""
    movement = case.movement
    near = [
        payment
        for payment in payments
        if abs(payment.day - movement.day) <= BOOKED_DAYS and (payment.amount_minor > 0) == (movement.amount_minor > 0)
    ]
    return min(
        near,
        key=lambda payment: (
            payment.amount_minor != movement.amount_minor,
            abs(payment.day - movement.day),
            payment.day,
        ),
        default=None,
    )


def _lines(payment: Booked) -> Iterable[Line]:
    yield Line("posten", payment.konto, payment.beleg, payment.amount_minor + payment.skonto_minor)
    if payment.skonto_minor:
        yield Line("skonto", payment.konto, payment.beleg, -payment.skonto_minor)
