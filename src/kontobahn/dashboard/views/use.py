"""What an organisation uses and has: first steps, calls by day, balances by day."""

from __future__ import annotations

from datetime import date, timedelta
from itertools import accumulate
from statistics import median
from typing import NamedTuple

from kontobahn.banking.accounts import AccountRow
from kontobahn.db import Tx

# So many movements of an account are added up for a line of its balance.
MAX_MOVEMENTS = 20_000


class Steps(NamedTuple):
    """The first steps of an organisation, each a fact in the database."""

    key_made: bool
    call_seen: bool
    bank_connected: bool
    event_received: bool


def first_steps(tx: Tx, organization_id: str) -> Steps:
    row = tx.one(
        "SELECT EXISTS (SELECT 1 FROM api_keys WHERE organization_id = ?),"
        " EXISTS (SELECT 1 FROM api_keys WHERE organization_id = ? AND last_used_at IS NOT NULL),"
        " EXISTS (SELECT 1 FROM banking_accounts WHERE organization_id = ?),"
        " EXISTS (SELECT 1 FROM webhook_deliveries WHERE organization_id = ? AND state = 'delivered')",
        organization_id, organization_id, organization_id, organization_id,
    )  # fmt: skip
    assert row is not None
    return Steps(*map(bool, row))


class DayUse(NamedTuple):
    day: date
    calls: int
    failed: int
    credits: int


def use_by_day(tx: Tx, organization_id: str, today: date, days: int) -> list[DayUse]:
    """Calls by Berlin calendar day, the earliest first; a day without calls has zeros."""
    first = today - timedelta(days=days - 1)
    found = {
        day: (int(calls), int(failed), int(spent))
        for day, calls, failed, spent in tx.all(
            "SELECT day, SUM(calls), SUM(failed), SUM(credits) FROM usage_counts WHERE organization_id = ? AND day >= ?"
            " GROUP BY day",
            organization_id, first.isoformat(),
        )
    }  # fmt: skip
    wanted = [first + timedelta(days=number) for number in range(days)]
    return [DayUse(day, *found.get(day.isoformat(), (0, 0, 0))) for day in wanted]


def days_left(available: int, use: list[DayUse]) -> int | None:
    """How long the credits last at the median day of use; None if nothing is used."""
    usual = median(day.credits for day in use) if use else 0
    return int(available / usual) if usual else None


def balance_by_day(tx: Tx, account: AccountRow, today: date, days: int) -> list[tuple[date, int]]:
    """An account's balance at the end of each day, counted back from what the bank says now; nothing if it does not say.

    Of an account with very many movements, only the latest of these days.
    """
    if account.balance is None:
        return []
    first = today - timedelta(days=days - 1)
    rows = tx.all(
        "SELECT made_on, SUM(CASE WHEN status = 'posted' THEN amount_minor ELSE 0 END), COUNT(*) FROM"
        " (SELECT made_on, amount_minor, status FROM banking_transactions WHERE account_id = ? AND made_on > ?"
        " ORDER BY made_on DESC, id DESC LIMIT ?) AS latest GROUP BY made_on ORDER BY made_on",
        account.id, first.isoformat(), MAX_MOVEMENTS,
    )  # fmt: skip
    moved = {day: int(amount) for day, amount, _ in rows}
    if sum(count for _, _, count in rows) == MAX_MOVEMENTS:
        # The day where it was cut off may have more; what is known is the balance at its end.
        days = max(1, (today - date.fromisoformat(rows[0][0])).days + 1)
    later_first = [today - timedelta(days=number) for number in range(days)]
    changes = [-moved.get(day.isoformat(), 0) for day in later_first[:-1]]
    return list(zip(later_first, accumulate(changes, initial=account.balance), strict=True))[::-1]
