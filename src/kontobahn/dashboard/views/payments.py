"""Payments as a list by keyset, with a bound on what a search looks through."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, timedelta
from typing import NamedTuple

from kontobahn.banking.payments.store import PAYMENTS, PaymentRow
from kontobahn.banking.payments.transitions import AWAITING_PAYER
from kontobahn.clock import start_of_day
from kontobahn.dashboard.searching import Word, fits
from kontobahn.db import Tx

# So many payments are looked through for one page; then the page says how far it got.
LOOKED_THROUGH = 5_000
_CHUNK = 500
_LAST = 2**62
STATES: dict[str, frozenset[str]] = {
    "waiting": frozenset(AWAITING_PAYER),
    "underway": frozenset({"authorized", "processing", "executed"}),
    "settled": frozenset({"settled"}),
    "failed": frozenset({"failed", "rejected"}),
}


class Key(NamedTuple):
    created_at: int
    id: int


class Wanted(NamedTuple):
    since: date | None = None
    until: date | None = None
    state: str = ""
    account_id: str = ""
    words: Sequence[Word] = ()
    # The last one of the page before.
    after: Key | None = None


class Found(NamedTuple):
    rows: list[PaymentRow]
    # Where the search stopped, if it did not get to the end.
    stopped_at: Key | None


def payments(tx: Tx, organization_id: str, wanted: Wanted, limit: int) -> Found:
    """The latest first."""
    since = start_of_day(wanted.since) if wanted.since else 0
    before = wanted.after or Key(start_of_day(wanted.until + timedelta(days=1)) if wanted.until else _LAST, 0)
    found: list[PaymentRow] = []
    size = limit
    for _ in range(LOOKED_THROUGH // _CHUNK + 2):
        rows = PAYMENTS.all(
            tx, "organization_id = ? AND created_at >= ? AND (created_at, id) < (?, ?)"
            " ORDER BY created_at DESC, id DESC LIMIT ?",
            organization_id, since, *before, size,
        )  # fmt: skip
        found += [row for row in rows if _fits(row, wanted)]
        if len(found) >= limit or len(rows) < size:
            return Found(found[:limit], None)
        before, size = Key(rows[-1].created_at, rows[-1].id), _CHUNK
    return Found(found, before)


def _fits(row: PaymentRow, wanted: Wanted) -> bool:
    if wanted.state and row.status not in STATES.get(wanted.state, ()):
        return False
    if wanted.account_id and str(row.account_id) != wanted.account_id:
        return False
    if not wanted.words:
        return True
    texts = (row.creditor_name, row.creditor_iban, row.description, row.reference, row.end_to_end_id)
    return fits(wanted.words, texts, row.amount_minor, str(row.id))
