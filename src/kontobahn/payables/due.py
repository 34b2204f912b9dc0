"""The due list: what is to be transferred and when, with what costs more after today at the top."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import date
from decimal import Decimal
from typing import Annotated, NamedTuple

from msgspec import Meta

from kontobahn.api.answers import Data, from_row
from kontobahn.api.call import Call
from kontobahn.api.declare import get
from kontobahn.api.wire import Answer, OrganizationQuery, Uuid
from kontobahn.clock import berlin_date
from kontobahn.db import Tx
from kontobahn.ledger.buchungen import EUR
from kontobahn.money import from_minor, to_minor
from kontobahn.payables import run_rules, store
from kontobahn.payables.rules import Status, is_collected
from kontobahn.payables.store import DueRow

# Those that money is still to be sent for; what is being paid is not.
WAITING: tuple[Status, ...] = ("new", "to_release", "released", "needs_person")
# More than a small company has open at once.
MAX_DUE = 2_000


class DueQuery(OrganizationQuery):
    pay_by: Annotated[date, Meta(description="Only what is due, or loses its Skonto, up to this day.")] | None = None


class DuePayable(Answer):
    payable_id: Uuid
    status: Status
    number: str
    creditor_name: str
    konto: str | None
    currency_code: str
    due_date: date | None
    payable_amount: Annotated[Decimal, Meta(description="Of a credit note negative.")]
    skonto: Annotated[Decimal, Meta(description="What may be deducted today; 0 for nothing.")]
    skonto_until: date | None
    pay_by: Annotated[date, Meta(description="The last day that costs nothing: of the Skonto, else the due day.")]
    amount: Annotated[Decimal, Meta(description="What it takes today.")]


class Due(NamedTuple):
    """An invoice that waits to be paid, as it stands today; amounts in cents."""

    row: DueRow
    skonto_minor: int
    skonto_until: date | None
    pay_by: date

    @property
    def amount_minor(self) -> int:
        return self.row.payable_minor - self.skonto_minor

    @property
    def due_on(self) -> date | None:
        return date.fromisoformat(self.row.due_date) if self.row.due_date else None


@get("/v2/payables/due", scope="payables:read", errors=(403, 404))
async def list_due_payables(call: Call, query: DueQuery) -> Data[list[DuePayable]]:
    """List what is to be transferred, by the day up to which it costs nothing more; what loses its Skonto today comes first.

    With credit notes, which a payment run deducts; without what the creditor collects. The first 2,000 that came.
    """
    organization_id = call.principal.organization(query.organization_id)
    found = await call.read(listing, organization_id, berlin_date(call.context.clock.now()), query.pay_by)
    return Data([_view(one) for one in found])


def listing(tx: Tx, organization_id: str, today: date, pay_by: date | None = None) -> list[Due]:
    """Returns what waits to be paid, the most urgent first; up to a day only, if one is given."""
    found = ordered(store.due(tx, organization_id, WAITING, MAX_DUE), today)
    return [one for one in found if pay_by is None or one.pay_by <= pay_by]


def ordered(rows: Iterable[DueRow], today: date) -> list[Due]:
    found = [_due(row, today) for row in rows if row.payable_minor and not is_collected(row.means_code)]
    return sorted(found, key=lambda one: (one.skonto_until != today, one.pay_by, one.row.id))


def total(rows: Iterable[Due]) -> int:
    """Returns what they take today, in cents; those in euros only."""
    return sum(one.amount_minor for one in rows if one.row.currency_code == EUR)


def _due(row: DueRow, today: date) -> Due:
    term = run_rules.skonto_on(row, today)
    until, amount = (None, 0) if term is None else (term.until, to_minor(term.amount))
    return Due(row, amount, until, run_rules.pay_by(row, today))


def _view(one: Due) -> DuePayable:
    row = one.row
    return from_row(
        DuePayable, row, payable_id=row.id, konto=row.konto or None, due_date=one.due_on,
        payable_amount=from_minor(row.payable_minor), skonto=from_minor(one.skonto_minor), skonto_until=one.skonto_until,
        pay_by=one.pay_by, amount=from_minor(one.amount_minor),
    )  # fmt: skip
