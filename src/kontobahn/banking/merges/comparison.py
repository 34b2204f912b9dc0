"""Comparing two accounts with one IBAN: which bookings are the same, which move, and what speaks against making them one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import date
from functools import partial
from typing import Any, Literal, NamedTuple

import msgspec
from msgspec import UNSET

from kontobahn.banking.connections.accounts import AccountRow
from kontobahn.banking.imports import store as statements
from kontobahn.banking.imports.rules import Span, Stretch
from kontobahn.banking.provider import TransactionFacts
from kontobahn.banking.transactions.recognition import Delivery, Recognition
from kontobahn.banking.transactions.wire import Reported, Transaction
from kontobahn.db import Table, Tx
from kontobahn.sentences import said

decode_transaction = msgspec.json.Decoder(Transaction).decode
# A decision that a transaction has elsewhere: a match that stands, or that nothing is to be matched.
Standing = Literal["matched", "decided"]
# Ids that a sentence names at most.
_NAMED = 5


class StoredRow(NamedTuple):
    """A transaction with all its columns."""

    account_id: int
    id: int
    made_on: str
    amount_minor: int
    status: Literal["posted", "pending"]
    provider_ref: str | None
    fingerprint: str
    statement: str | None
    end_to_end_id: str | None
    payment_id: int | None
    first_change: int
    last_change: int
    wire: str
    booked_on: str | None
    balance_minor: int | None
    source: str | None
    batch: int | None


STORED = Table("banking_transactions", StoredRow, key=("account_id", "id"))


class Same(NamedTuple):
    """One booking that both accounts have: a row each, or a sum here and its parts there."""

    kept: list[StoredRow]
    gone: list[StoredRow]


class Comparison(NamedTuple):
    account: AccountRow
    merged: AccountRow
    same: list[Same]
    # Rows of the account that is merged that nobody else has, or that stay instead of the other's.
    moved: list[StoredRow]
    # Rows that are left out: the statements of their days have other bookings.
    denied: list[StoredRow]
    # The spans after it, with the numbers that they had, and whose they were.
    spans: list[JoinedSpan]
    # Sentences: the reasons against it.
    problems: list[str]

    @property
    def added(self) -> list[StoredRow]:
        """The rows that come to the account and that it has in no form."""
        kept = {row.id for same in self.same for row in same.kept}
        return [row for row in self.moved if row.id not in kept]

    @property
    def gone(self) -> list[StoredRow]:
        return [*(row for same in self.same for row in same.gone), *self.denied]


class JoinedSpan(NamedTuple):
    known: Stretch
    of_account: list[int]
    of_merged: list[int]


def compare(tx: Tx, account: AccountRow, merged: AccountRow, standing: Mapping[int, Standing]) -> Comparison:
    ours, theirs = _rows(tx, account), _rows(tx, merged)
    reported = [_reported(row) for row in theirs.values()]
    rows = {id(booking): row for booking, row in zip(reported, theirs.values(), strict=True)}
    delivery = Delivery(merged.connection_id, is_whole=True)
    outcome = Recognition(tx, account, delivery).recognise(reported) if reported else None
    same, denied, new = list[Same](), list[StoredRow](), set[int]()
    if outcome is not None:
        same += [_chosen([ours[one.known.id]], [rows[id(one.booking)]], standing) for one in outcome.found]
        same += [
            _chosen([ours[known.id] for known in parts.known], [rows[id(one)] for one in parts.reported], standing)
            for parts in outcome.batches
        ]
        new = {rows[id(booking)].id for booking, _ in outcome.new}
    paired = {row.id for one in same for row in (*one.kept, *one.gone)}
    denied += [row for row in theirs.values() if row.id not in paired and row.id not in new]
    others = Recognition(tx, merged, Delivery(account.connection_id))
    denied += [
        row for row in ours.values() if row.id not in paired and not row.statement and others.denies(_reported(row))
    ]
    stay = {row.id for one in same for row in one.kept} | new
    moved = [row for row in theirs.values() if row.id in stay]
    found = Comparison(account, merged, same, moved, denied, [], _problems(same, denied, standing))
    return _with_spans(tx, found, [*ours.values(), *theirs.values()])


def _rows(tx: Tx, account: AccountRow) -> dict[int, StoredRow]:
    return {row.id: row for row in STORED.all(tx, "account_id = ? ORDER BY id", account.id)}


def _reported(row: StoredRow) -> Reported:
    """The row as if it were reported now: outside any statement, since those of two accounts say nothing of each other."""
    return Reported(
        made_on=date.fromisoformat(row.made_on), amount_minor=row.amount_minor, status=row.status,
        provider_ref=row.provider_ref, end_to_end_id=row.end_to_end_id, duplicated=None, statement=None,
        balance_minor=None, booked_on=row.booked_on, fingerprint=row.fingerprint,
        batch=None if row.batch is None else str(row.batch), texts=None, facts=partial(facts_of, row),
    )  # fmt: skip


def facts_of(row: StoredRow) -> TransactionFacts:
    told = decode_transaction(row.wire)
    extra: dict[str, Any] = msgspec.structs.asdict(told.extra)
    return TransactionFacts(
        account_ref="", made_on=told.made_on, amount_minor=row.amount_minor, currency_code=told.currency_code,
        description=told.description, status=told.status, provider_ref=row.provider_ref, mode=told.mode,
        category=told.category, end_to_end_id=row.end_to_end_id, parsed=msgspec.structs.asdict(told.description_parsed),
        extra={name: value for name, value in extra.items() if value is not UNSET and name != "end_to_end_id"},
    )  # fmt: skip


def _chosen(ours: list[StoredRow], theirs: list[StoredRow], standing: Mapping[int, Standing]) -> Same:
    """Keeps the side that something was decided about, else the booked one, else that of a payment, else ours."""

    def weight(side: list[StoredRow]) -> tuple[bool, ...]:
        return (
            any(standing.get(row.id) == "matched" for row in side),
            all(row.status == "posted" for row in side),
            any(row.id in standing for row in side),
            any(row.payment_id is not None for row in side),
        )

    return Same(theirs, ours) if weight(theirs) > weight(ours) else Same(ours, theirs)


def _problems(same: list[Same], denied: list[StoredRow], standing: Mapping[int, Standing]) -> list[str]:
    found = list[str]()
    twice = [one.gone[0].id for one in same if any(standing.get(row.id) == "matched" for row in one.gone)]
    if twice:
        found.append(
            said(
                "Both accounts have a match for the same booking. Undo one of each first: transactions {ids}.",
                ids=_listed(twice),
            )
        )
    matched = [row.id for row in denied if standing.get(row.id) == "matched"]
    if matched:
        found.append(
            said(
                "The statements of the other account lack a booking that has a match. Undo it first: transactions {ids}.",
                ids=_listed(matched),
            )
        )
    stated = [row.id for row in denied if row.statement]
    if stated:
        found.append(
            said("The statements of the two accounts contradict each other: transactions {ids}.", ids=_listed(stated))
        )
    return found


def _listed(ids: list[int]) -> str:
    more = f" (+{len(ids) - _NAMED})" if len(ids) > _NAMED else ""
    return ", ".join(map(str, ids[:_NAMED])) + more


# --- Spans: times that statements cover without a gap


def _with_spans(tx: Tx, found: Comparison, rows: Iterable[StoredRow]) -> Comparison:
    spans = [(span, True) for span in statements.load_spans(tx, found.account.id)]
    spans += [(span, False) for span in statements.load_spans(tx, found.merged.id)]
    gone = {row.id for row in found.gone}
    stated = {row.id: row for row in rows if row.statement}
    for one in found.same:
        given = statement_given(one)
        stated |= {row.id: row._replace(booked_on=given.booked_on) for row in one.kept if given and not row.statement}
    moved = [(row.booked_on or row.made_on, row.amount_minor) for row in stated.values() if row.id not in gone]
    joined, problems = list[JoinedSpan](), list(found.problems)
    for group in _overlapping(spans):
        union = _union(group)
        if union.of_account and union.of_merged and not problems:
            known = union.known
            sum_minor = sum(amount for day, amount in moved if known.begins_on <= day <= known.ends_on)
            if sum_minor != known.closes_minor - known.opens_minor:
                problems.append(
                    said(
                        "The statements of the two accounts do not make up one balance between {day_first} and {day_last}.",
                        day_first=known.begins_on, day_last=known.ends_on,
                    )
                )  # fmt: skip
        joined.append(union)
    return found._replace(spans=joined, problems=problems)


def statement_given(same: Same) -> StoredRow | None:
    """The row that goes and whose place in a statement the kept one takes, if it has none of its own."""
    return next((row for row in reversed(same.gone) if row.statement), None)


def _overlapping(spans: list[tuple[Span, bool]]) -> list[list[tuple[Span, bool]]]:
    """Groups the spans that share days with one of the other account; all others stand alone."""
    groups: list[list[tuple[Span, bool]]] = []
    for one in spans:
        met = [group for group in groups if any(_share_days(one, other) for other in group)]
        groups = [group for group in groups if group not in met]
        groups.append([one, *(other for group in met for other in group)])
    return groups


def _share_days(one: tuple[Span, bool], other: tuple[Span, bool]) -> bool:
    (this, is_ours), (that, is_ours_too) = one, other
    return (
        is_ours != is_ours_too
        and this.known.begins_on <= that.known.ends_on
        and that.known.begins_on <= this.known.ends_on
    )


def _union(group: list[tuple[Span, bool]]) -> JoinedSpan:
    first = min((span.known for span, _ in group), key=lambda known: (known.begins_on, known.opens_on))
    last = max((span.known for span, _ in group), key=lambda known: (known.ends_on, known.closes_on))
    known = last._replace(
        opens_minor=first.opens_minor, opens_on=first.opens_on, begins_on=first.begins_on, first_number=first.first_number
    )  # fmt: skip
    return JoinedSpan(
        known,
        sorted(span.number for span, is_ours in group if is_ours),
        sorted(span.number for span, is_ours in group if not is_ours),
    )
