"""Movements that come every month: rent, wages, insurance, a customer's standing order."""

from __future__ import annotations

from calendar import monthrange
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from datetime import date, timedelta
from itertools import compress, pairwise
from typing import NamedTuple

from kontobahn.banking.connections.accounts import AccountRow
from kontobahn.banking.transactions.store import posted_between
from kontobahn.banking.transactions.wire import Transaction
from kontobahn.db import Tx
from kontobahn.money import to_minor

# Three in a row are a habit; a month has between these many days, with weekends and holidays around its ends.
TIMES = 3
SHORTEST, LONGEST = 26, 36
DAYS = TIMES * LONGEST
# One that is so late has ended.
LATE_DAYS = 10
# Amounts of one habit differ by less than a tenth.
_TOLERANCE = 10
# The latest movements of an account that are looked at.
MAX_LOOKED_AT = 2_000
# Of one partner: who pays more often does not pay by the month.
MAX_OF_PARTNER = 60


class Recurring(NamedTuple):
    account_id: int
    # The latest one, which says who and how much.
    transaction_id: str
    name: str
    amount_minor: int
    # The day on which the next one is expected.
    day: date


def find(tx: Tx, accounts: Sequence[AccountRow], today: date) -> list[Recurring]:
    """Returns what is expected next on these accounts, by day."""
    first = today - timedelta(days=DAYS + LATE_DAYS)
    found = []
    for account in accounts:
        looked_at = posted_between(tx, account.id, first, today, MAX_LOOKED_AT, latest_first=True)
        found += expected(account.id, looked_at, today)
    return sorted(found, key=lambda one: (one.day, one.name, one.transaction_id))


def expected(account_id: int, transactions: Iterable[Transaction], today: date) -> list[Recurring]:
    """Returns the next of each habit among the transactions of an account, which come with the latest first."""
    by_partner: dict[tuple[str, bool], list[Transaction]] = defaultdict(list)
    for transaction in transactions:
        partner = _iban(transaction) or _name(transaction).casefold()
        if partner:
            by_partner[partner, transaction.amount > 0].append(transaction)
    return [
        Recurring(account_id, latest.id, _name(latest) or _iban(latest), to_minor(latest.amount), max(day, today))
        for group in by_partner.values()
        for latest in _latest_of_habits(group[:MAX_OF_PARTNER])
        if (today - (day := _next_month(latest.made_on))).days <= LATE_DAYS
    ]


def _latest_of_habits(group: Sequence[Transaction]) -> Iterator[Transaction]:
    """Yields the latest movement of each habit of one partner, who may have several."""
    while group:
        latest = group[0]
        is_alike = [abs(one.amount - latest.amount) * _TOLERANCE <= abs(latest.amount) for one in group]
        if _is_monthly([one.made_on for one in compress(group, is_alike)][:TIMES]):
            yield latest
        group = [one for one, is_one in zip(group, is_alike, strict=True) if not is_one]


def _is_monthly(days: Sequence[date]) -> bool:
    gaps = [(later - earlier).days for later, earlier in pairwise(days)]
    return len(days) == TIMES and all(SHORTEST <= gap <= LONGEST for gap in gaps)


def _next_month(day: date) -> date:
    year, month = (day.year + 1, 1) if day.month == 12 else (day.year, day.month + 1)
    return date(year, month, min(day.day, monthrange(year, month)[1]))


def _name(transaction: Transaction) -> str:
    named = (transaction.extra.payee, transaction.extra.payer)
    return next(filter(None, named if transaction.amount < 0 else reversed(named)), None) or ""


def _iban(transaction: Transaction) -> str:
    named = (transaction.extra.payee_information, transaction.extra.payer_information)
    return next(filter(None, named if transaction.amount < 0 else reversed(named)), None) or ""
