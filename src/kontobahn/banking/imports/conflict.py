"""What to say if a statement contradicts those imported before it: which balances, which sums, which bookings."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from kontobahn.banking.accounts import AccountRow
from kontobahn.banking.imports.overlap import Booking, Span, Stretch, match
from kontobahn.banking.transactions.wire import Transaction
from kontobahn.db import Tx
from kontobahn.money import amount_text

_SHOWN = 3


def contradiction(
    tx: Tx,
    account: AccountRow,
    stated: Stretch,
    bookings: Sequence[Booking],
    spans: Sequence[Span],
    rows: Sequence[Booking],
    texts: Callable[[set[int]], dict[int, str]],
) -> str:
    """Returns the sentences, with the figures. `texts` finds the texts of the statement's bookings by their numbers."""
    shared = match(bookings, rows)
    span = _most_involved(stated, spans, shared)
    known = span.known
    from_minor, from_on = max(
        (known.begins_on, known.opens_minor, known.opens_on), (stated.begins_on, stated.opens_minor, stated.opens_on)
    )[1:]
    to_minor, to_on = min(
        (known.ends_on, known.closes_minor, known.closes_on), (stated.ends_on, stated.closes_minor, stated.closes_on)
    )[1:]
    first, last = max(known.begins_on, stated.begins_on), min(known.ends_on, stated.ends_on)
    both = [row for row in shared.values() if row.span == span.number]
    in_rows = {row.number for row in both}
    only_file = [item for item in bookings if first <= item.booked_on <= last and item.number not in shared]
    only_rows = [row for row in rows if row.span == span.number and row.number not in in_rows]
    moved, expected = sum(row.amount_minor for row in both), to_minor - from_minor
    currency = account.currency_code
    wire = {row.number: _text_of(tx, account.id, row.number) for row in only_rows[:_SHOWN]}
    return (
        f"It contradicts statements imported before. Both cover the time from the balance {amount_text(from_minor)} {currency}"
        f" ({from_on}) to the balance {amount_text(to_minor)} {currency} ({to_on}), a difference of {amount_text(expected)};"
        f" but the {len(both)} bookings that are in both make {amount_text(moved)}, which is"
        f" {amount_text(abs(expected - moved))} {'less' if moved < expected else 'more'}."
        + _listed("Only in this file", only_file, texts({item.number for item in only_file[:_SHOWN]}))
        + _listed("Only in those imported before", only_rows, wire)
    )


def _most_involved(stated: Stretch, spans: Sequence[Span], shared: dict[int, Booking]) -> Span:
    counts = {span.number: 0 for span in spans}
    for row in shared.values():
        counts[row.span] = counts.get(row.span, 0) + 1

    def involvement(span: Span) -> tuple[bool, int, str]:
        meets = span.known.begins_on <= stated.ends_on and stated.begins_on <= span.known.ends_on
        return meets, counts[span.number], span.known.closes_on

    return max(spans, key=involvement)


def _text_of(tx: Tx, account_id: int, number: int) -> str:
    found = tx.one("SELECT wire FROM banking_transactions WHERE account_id = ? AND id = ?", account_id, number)
    return msgspec.json.decode(found[0], type=Transaction).description if found else ""


def _listed(title: str, bookings: Sequence[Booking], texts: dict[int, str]) -> str:
    if not bookings:
        return ""
    shown = [
        f"{item.booked_on} {amount_text(item.amount_minor)} “{texts.get(item.number, '')[:40]}”"
        for item in bookings[:_SHOWN]
    ]
    more = f" and {len(bookings) - _SHOWN} more" if len(bookings) > _SHOWN else ""
    return f" {title}: {'; '.join(shown)}{more}."
