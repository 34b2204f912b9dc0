"""The office's bookings of a hand-over, row by row."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal
from typing import Any

from kontobahn.reconciliation.batch_store import BatchLine
from kontobahn.reconciliation.core.model import Booked
from kontobahn.reconciliation.office_bookings import compared
from tests.unit.reconciliation.client import ANNA, BERT, DAY

NOTHING = Decimal(0)
PAID = Booked(ANNA.konto, "RE-1", DAY + timedelta(9), 11_900)


def line(beleg: str = "RE-1", amount: str = "119.00", **changes: Any) -> BatchLine:
    facts: dict[str, Any] = {
        "match_id": "m", "transaction_id": "1", "made_on": DAY, "reversal": False, "konto": ANNA.konto, "beleg": beleg,
        "amount": Decimal(amount), "skonto": Decimal(0), "text": "",
    }  # fmt: skip
    return BatchLine(**facts | changes)


def outcome(*booked: Booked, **changes: Any) -> tuple[str, Decimal | None]:
    [found] = compared([line(**changes)], booked)
    return found.outcome, found.difference


def test_a_row_is_booked_so_otherwise_or_not_at_all() -> None:
    assert outcome(PAID) == ("as_matched", NOTHING)
    assert outcome(PAID._replace(day=DAY + timedelta(60))) == ("as_matched", NOTHING), "however late"
    assert outcome() == ("not_booked", None)
    assert outcome(PAID._replace(amount_minor=11_662)) == ("otherwise", Decimal("-2.38"))
    assert outcome(PAID._replace(skonto_minor=238)) == ("otherwise", NOTHING), "Skonto was not matched"
    assert outcome(PAID._replace(skonto_minor=238), skonto=Decimal("2.38")) == ("as_matched", NOTHING)
    assert outcome(PAID._replace(beleg="RE-2", konto=BERT.konto)) == ("otherwise", NOTHING), "for another document"
    assert outcome(PAID._replace(beleg="RE-2", day=DAY + timedelta(11))) == ("not_booked", None)
    assert outcome(PAID._replace(day=DAY - timedelta(11))) == ("not_booked", None), "that was another payment"
    for days in (-10, 10):
        assert outcome(PAID._replace(day=DAY + timedelta(days))) == ("as_matched", NOTHING)
        assert outcome(PAID._replace(beleg="RE-2", day=DAY + timedelta(days))) == ("otherwise", NOTHING)


def test_each_booking_stands_for_one_row() -> None:
    rows = [line(), line(made_on=DAY + timedelta(1)), line("RE-2")]
    found = compared(rows, [PAID])
    assert [it.outcome for it in found] == ["as_matched", "not_booked", "not_booked"]
    found = compared([line("RE-2"), line()], [PAID])
    assert [it.outcome for it in found] == ["not_booked", "as_matched"], "the better fit first"
