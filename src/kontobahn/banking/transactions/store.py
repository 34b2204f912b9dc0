"""Reading transactions: lists, single ones, and what has changed. They are returned as they are stored, without being decoded.

`ingest.py` is the only writer.
"""

from __future__ import annotations

import heapq
from calendar import monthrange
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from datetime import date, timedelta
from itertools import compress, pairwise
from operator import itemgetter
from typing import Any, Literal, NamedTuple, cast

import msgspec

from kontobahn.access.principal import Principal, in_scope
from kontobahn.api.answers import Ready
from kontobahn.banking.connections import accounts
from kontobahn.banking.connections import store as connections
from kontobahn.banking.connections.accounts import AccountRow
from kontobahn.banking.transactions.wire import (
    MAX_ROWS,
    Change,
    ChangesAnswer,
    ChangesQuery,
    Transaction,
    TransactionsQuery,
)
from kontobahn.banking.wire import ESCAPE, LOOKED_THROUGH, Word, fits
from kontobahn.db import Rounds, Tx, ask_one, ask_texts, chunked, short_read
from kontobahn.errors import BadRequest, NotFound
from kontobahn.money import to_minor
from kontobahn.sentences import said

# This many rows are read in less time than it takes to hand the work to another thread.
INLINE_ROWS = 300
# SQLite joins in the order in which the inner statement returns the rows; older versions know no other way of saying it.
_JOINED = "CAST(group_concat(wire, ',') AS BLOB)"
# Texts in one part of an answer. A part of less than a few hundred kilobytes uses memory that the process already has; for a larger
# one the system first has to find and clear some, which takes longer than the reading.
_PART_ROWS = 200
# After this many parts they are ten times as long: such blocks return to the system when they are freed, smaller ones may not.
_SMALL_PARTS = 50
_POSTED = "t.account_id = {0}.account_id AND t.id = {0}.id AND t.status = 'posted'"
# The values of a row in the columns of the order; empty for the beginning of a list.
_Place = tuple[Any, ...]


def is_posted(table: str) -> str:
    """The condition that a row with `account_id` and `id` is about a posted transaction, for a table of another room."""
    return f"EXISTS (SELECT 1 FROM banking_transactions t WHERE {_POSTED.format(table)})"


def join_posted(table: str) -> str:
    """Joins, as `t`, the posted transactions that rows with `account_id` and `id` are about."""
    return f"JOIN banking_transactions t ON {_POSTED.format(table)}"


def select_accounts(
    tx: Tx, principal: Principal, connection_id: str | None, account_id: str | None
) -> list[AccountRow]:
    """Returns the accounts that `connection_id` and `account_id` select together."""
    if account_id is not None:
        account = accounts.find(tx, principal, account_id)
        if connection_id is not None and not accounts.is_reached(
            tx, account, connections.find(tx, principal, connection_id).id
        ):
            raise BadRequest(
                "The query parameter `account_id` is not an account of `connection_id`.", field="account_id"
            )
        return [account]
    if connection_id is None:
        raise BadRequest(
            "One of the query parameters `connection_id` and `account_id` is required.", field="connection_id"
        )
    connection = connections.find(tx, principal, connection_id)
    return accounts.of_connection(tx, connection.organization_id, connection.id)


class Page(NamedTuple):
    """The answer, joined from the stored texts, and the id that the next page begins after."""

    answer: Ready
    continues_after: str | None


@short_read
def read_short(principal: Principal, query: TransactionsQuery, *, joins_texts: bool) -> Rounds[Page | None]:
    """Returns the list of an account, read with one statement.

    Returns None if the list may be long, or if there is none: `read_list` says why.
    """
    if query.account_id is None or query.connection_id is not None:
        return None
    is_bounded = query.limit is not None and query.limit <= INLINE_ROWS and not _is_filtered(query)
    few = "" if is_bounded else f" AND posted + pending <= {INLINE_ROWS}"
    account = f"(SELECT id FROM banking_accounts WHERE {in_scope(len(principal.scope))} AND id = ?{few})"
    _, listed, params = _selection(_AccountId(account, (*principal.scope, int(query.account_id))), query)
    parts = list[bytes]()
    if joins_texts and query.limit is None:
        row = yield from ask_one(f"SELECT {_JOINED} FROM (SELECT wire {listed}) AS listed", *params, MAX_ROWS)
        assert row is not None
        if row[0] is None:
            return None
        _add(parts, row[0], is_last=True)
        return Page(Ready(parts), None)
    limit = query.limit or MAX_ROWS
    texts = yield from ask_texts(f"SELECT wire {listed}", *params, limit + 1)
    if not texts:
        return None
    _add(parts, b",".join(texts[:limit]), is_last=True)
    is_continued = len(texts) > limit and query.sort == "id"
    return Page(Ready(parts), _decode(texts[limit - 1]).id if is_continued else None)


def read_list(tx: Tx, principal: Principal, query: TransactionsQuery, *, joins_texts: bool) -> Page:
    chosen = select_accounts(tx, principal, query.connection_id, query.account_id)
    return _read(tx, chosen, query, joins_texts=joins_texts)


def _read(tx: Tx, chosen: list[AccountRow], query: TransactionsQuery, *, joins_texts: bool) -> Page:
    if query.limit is None and sum(account.posted + account.pending for account in chosen) > MAX_ROWS:
        _refuse_too_many(tx, chosen, query)
    # PostgreSQL is asked once, not for each part: after a large import, before it has counted what is there, it sorts the whole
    # account for each question.
    is_simple = joins_texts and len(chosen) == 1 and not _is_filtered(query)
    return _joined(tx, chosen[0].id, query) if is_simple else _merged(tx, chosen, query)


def _refuse_too_many(tx: Tx, chosen: list[AccountRow], query: TransactionsQuery) -> None:
    """Counts in the index, and no further than has to be known: the texts would be hundreds of megabytes."""
    left = MAX_ROWS + 1
    for account in chosen:
        where, params = _conditions(_plain(account.id), query)
        row = tx.one(
            f"SELECT COUNT(*) FROM (SELECT made_on FROM banking_transactions WHERE {where} LIMIT ?) AS listed",
            *params, left,
        )  # fmt: skip
        assert row is not None
        left -= row[0]
        if not left:
            raise _too_many()


def _is_filtered(query: TransactionsQuery) -> bool:
    """Returns whether the order's index does not find the rows alone: a limit does not bound the work then, many may be skipped."""
    return bool(query.from_date or query.to_date if query.sort == "id" else query.from_id)


def _joined(tx: Tx, account_id: int, query: TransactionsQuery) -> Page:
    """Joined by the database: ten thousand texts one by one would take twice as long."""
    parts = list[bytes]()
    left, after = query.limit or MAX_ROWS + 1, _Place()
    while True:
        asked = min(left, _rows_of_next(parts))
        order, listed, params = _selection(_plain(account_id), query, after)
        row = tx.one(
            f"SELECT {_JOINED}, COUNT(*), MAX(id) FROM (SELECT {order}, wire {listed}) AS listed", *params, asked
        )
        assert row is not None
        texts, count, greatest_id = row
        left -= count
        _add(parts, texts, is_last=count < asked or not left)
        if count < asked:
            return Page(Ready(parts), None)
        if query.sort == "id":
            after = (greatest_id,)
        elif left:
            last = tx.one(f"SELECT {order} {listed} OFFSET ?", *params, 1, asked - 1)
            assert last is not None
            after = last
        if not left:
            break
    if query.limit is None:
        raise _too_many()
    # By value date an id says nothing about what follows.
    is_continued = query.sort == "id" and _is_followed(tx, account_id, query, after)
    return Page(Ready(parts), str(after[0]) if is_continued else None)


def _is_followed(tx: Tx, account_id: int, query: TransactionsQuery, after: _Place) -> bool:
    _, listed, params = _selection(_plain(account_id), query, after)
    return tx.one(f"SELECT 1 {listed}", *params, 1) is not None


def _merged(tx: Tx, chosen: list[AccountRow], query: TransactionsQuery) -> Page:
    limit = query.limit or MAX_ROWS
    by_account = []
    for account in chosen:
        order, listed, params = _selection(_plain(account.id), query)
        by_account.append(tx.all(f"SELECT {order}, wire {listed}", *params, limit + 1))
    rows = list(heapq.merge(*by_account, key=itemgetter(0, 1)))
    has_more, rows = len(rows) > limit, rows[:limit]
    if query.limit is None and has_more:
        raise _too_many()
    continues_after = str(rows[-1][0]) if has_more and query.sort == "id" else None
    parts = list[bytes]()
    start = 0
    while start < len(rows) or not parts:
        some = rows[start : start + _rows_of_next(parts)]
        start += len(some)
        _add(parts, ",".join([row[-1] for row in some]).encode(), is_last=start >= len(rows))
    return Page(Ready(parts), continues_after)


def _rows_of_next(parts: list[bytes]) -> int:
    return _PART_ROWS if len(parts) < _SMALL_PARTS else 10 * _PART_ROWS


def _add(parts: list[bytes], texts: bytes | None, *, is_last: bool) -> None:
    """Adds transactions, joined by commas, to the parts of a Data[list[Transaction]]. They are copied only once."""
    begin = b'{"data":[' if not parts else b"," if texts else b""
    parts.append(b"%s%s%s" % (begin, texts or b"", b"]}" if is_last else b""))


def _too_many() -> BadRequest:
    return BadRequest(
        said(
            "More than {count} transactions: ask for fewer days, or walk with `sort=id`, `from_id` and `limit`.",
            count=MAX_ROWS,
        ),
        field="limit",
    )


class _AccountId(NamedTuple):
    """The id of an account in SQL."""

    sql: str
    params: Sequence[Any]


def _plain(account_id: int) -> _AccountId:
    return _AccountId("?", (account_id,))


def _selection(account: _AccountId, query: TransactionsQuery, after: _Place = ()) -> tuple[str, str, list[Any]]:
    """The columns of the order, what follows them in the statement, and its parameters but for the last, which is the limit."""
    order = "id" if query.sort == "id" else "made_on, id"
    where, params = _conditions(account, query, after)
    return order, f"FROM banking_transactions WHERE {where} ORDER BY {order} LIMIT ?", params


def _conditions(account: _AccountId, query: TransactionsQuery, after: _Place = ()) -> tuple[str, list[Any]]:
    where, params = [f"account_id = {account.sql}"], list[Any](account.params)
    if after:
        order = "id" if query.sort == "id" else "made_on, id"
        where.append(f"({order}) > ({', '.join('?' * len(after))})")
        params += after
    # The beginning of the list is left out if it goes on from another place: the database might look from there again.
    for condition, value in (
        (
            "made_on >= ?",
            None if after and query.sort == "made_on" else query.from_date and query.from_date.isoformat(),
        ),
        ("made_on <= ?", query.to_date and query.to_date.isoformat()),
        ("id > ?", None if after and query.sort == "id" else query.from_id and int(query.from_id)),
    ):
        if value:
            where.append(condition)
            params.append(value)
    return " AND ".join(where), params


_decode = msgspec.json.Decoder(Transaction).decode


def posted_between(
    tx: Tx, account_id: int, first: date, last: date, limit: int, *, latest_first: bool = False
) -> list[Transaction]:
    """The posted transactions of an account that is known to be the caller's, by value date, decoded."""
    order = "made_on DESC, id DESC" if latest_first else "made_on, id"
    rows = tx.all(
        "SELECT wire FROM banking_transactions WHERE account_id = ? AND made_on >= ? AND made_on <= ? AND status = 'posted'"
        f" ORDER BY {order} LIMIT ?",
        account_id, first.isoformat(), last.isoformat(), limit,
    )  # fmt: skip
    return [_decode(wire) for (wire,) in rows]


def find_posted(tx: Tx, account_id: int, transaction_id: int) -> Transaction | None:
    """A posted transaction of an account that is known to be the caller's, decoded; None if the bank has removed it."""
    row = tx.one(
        "SELECT wire FROM banking_transactions WHERE account_id = ? AND id = ? AND status = 'posted'",
        account_id, transaction_id,
    )  # fmt: skip
    return None if row is None else _decode(row[0])


def posted_among(tx: Tx, account_id: int, ids: Sequence[int]) -> set[int]:
    """Those of the transactions that the account still has, posted."""
    return {
        id
        for some, is_one in chunked(ids)
        for (id,) in tx.all(
            f"SELECT id FROM banking_transactions WHERE account_id = ? AND id {is_one} AND status = 'posted'",
            account_id,
            *some,
        )
    }


def account_with(tx: Tx, principal: Principal, transaction_id: str) -> AccountRow:
    """The account that has this transaction, posted or pending. Raises the principal's “not found” if none in its scope has."""
    row = tx.one(
        "SELECT a.id FROM banking_accounts a JOIN banking_transactions t ON t.account_id = a.id AND t.id = ?"
        f" WHERE a.{in_scope(len(principal.scope))}",
        int(transaction_id), *principal.scope,
    )  # fmt: skip
    if row is None:
        raise principal.missing("Transaction")
    return accounts.find(tx, principal, str(row[0]))


def read_one(tx: Tx, principal: Principal, account_id: str, transaction_id: str) -> Transaction:
    account = accounts.find(tx, principal, account_id)
    row = tx.one(
        "SELECT wire FROM banking_transactions WHERE account_id = ? AND id = ?", account.id, int(transaction_id)
    )
    if row is None:
        raise principal.missing("Transaction")
    return cast(Transaction, msgspec.Raw(row[0].encode()))


# --- Changes


class _Changed(NamedTuple):
    number: int
    first: int
    id: int
    account_id: int
    wire: str | None


# Choice 22: an id cursor cannot show a change; this feed does.
def read_changes(tx: Tx, principal: Principal, query: ChangesQuery) -> ChangesAnswer:
    cursor = int(query.cursor or 0)
    organization_id, chosen, connection_id, account_id = _scope(tx, principal, query)
    present = [_changed_of_account(tx, account.id, cursor, query.limit) for account in chosen]
    removed = _removed(tx, organization_id, cursor, query.limit, connection_id, account_id)
    in_order: Iterable[_Changed] = heapq.merge(*present, removed)
    found = list(in_order)[: query.limit + 1]
    has_more = len(found) > query.limit
    found = found[: query.limit]
    return ChangesAnswer(
        # Added and removed since the cursor: there is nothing to report, but the cursor moves past it.
        data=[_change(row, cursor) for row in found if row.wire is not None or row.first <= cursor],
        cursor=str(found[-1].number if found else cursor),
        has_more=has_more,
    )


def _scope(tx: Tx, principal: Principal, query: ChangesQuery) -> tuple[str, list[AccountRow], str | None, int | None]:
    if query.account_id is not None:
        [account] = select_accounts(tx, principal, query.connection_id, query.account_id)
        return account.organization_id, [account], None, account.id
    if query.connection_id is not None:
        connection = connections.find(tx, principal, query.connection_id)
        chosen = accounts.of_connection(tx, connection.organization_id, connection.id)
        return connection.organization_id, chosen, connection.id, None
    organizations = principal.organizations(query.organization_id)
    if len(organizations) > 1:
        # A cursor counts the changes of one organisation.
        raise BadRequest("The query parameter `organization_id` is required for this key.", field="organization_id")
    return organizations[0], accounts.of_organization(tx, organizations[0]), None, None


def _changed_of_account(tx: Tx, account_id: int, cursor: int, limit: int) -> list[_Changed]:
    return [
        _Changed(*row)
        for row in tx.all(
            "SELECT last_change, first_change, id, account_id, wire FROM banking_transactions"
            " WHERE account_id = ? AND last_change > ? ORDER BY last_change LIMIT ?",
            account_id, cursor, limit + 1,
        )
    ]  # fmt: skip


def _removed(
    tx: Tx, organization_id: str, cursor: int, limit: int, connection_id: str | None, account_id: int | None
) -> list[_Changed]:
    narrowed, params = "", list[Any]()
    if connection_id is not None:
        # Also those that other connections to the same accounts have removed.
        reached = accounts.of_connection(tx, organization_id, connection_id)
        marks = "".join(" OR account_id = ?" for _ in reached)
        narrowed, params = f" AND (connection_id = ?{marks})", [connection_id, *(account.id for account in reached)]
    if account_id is not None:
        narrowed, params = " AND account_id = ?", [account_id]
    rows = tx.all(
        "SELECT change_number, first_change, id, account_id FROM banking_removed_transactions"
        f" WHERE organization_id = ? AND change_number > ?{narrowed} ORDER BY change_number LIMIT ?",
        organization_id, cursor, *params, limit + 1,
    )  # fmt: skip
    return [_Changed(number, first, id_, account, None) for number, first, id_, account in rows]


def _change(row: _Changed, cursor: int) -> Change:
    return Change(
        change="removed" if row.wire is None else "added" if row.first > cursor else "modified",
        id=str(row.id),
        account_id=str(row.account_id),
        transaction=None if row.wire is None else cast(Transaction, msgspec.Raw(row.wire.encode())),
    )


# Transactions as people look for them: the latest first, by keyset, with a bound on what a search looks through.


# The number of rows that a row counts for whose text is read closely.
_CLOSE_LOOK = 5
_CHUNK = 1000
_MAX_PENDING = 1000
_LAST = 2**62


def find(tx: Tx, organization_id: str, transaction_id: str) -> Transaction:
    row = tx.one(
        "SELECT t.wire FROM banking_accounts a JOIN banking_transactions t ON t.account_id = a.id"
        " WHERE a.organization_id = ? AND t.id = ?",
        organization_id, int(transaction_id),
    )  # fmt: skip
    if row is None:
        raise NotFound("Transaction not found.")
    return _decode(row[0])


class Key(NamedTuple):
    """The place of a transaction in the list; ids are unique within an organisation."""

    made_on: str
    id: int


class TransactionSearch(NamedTuple):
    since: date | None = None
    until: date | None = None
    status: Literal["", "posted", "pending"] = ""
    words: Sequence[Word] = ()
    # The last one of the page before.
    after: Key | None = None


class FoundTransactions(NamedTuple):
    rows: list[Transaction]
    # The place where the search stopped, if it did not get to the end.
    stopped_at: Key | None


def search(tx: Tx, account_ids: Sequence[int], wanted: TransactionSearch, limit: int) -> FoundTransactions:
    """The latest first, of all these accounts together."""
    first = limit if len(account_ids) == 1 else max(10, 2 * limit // max(1, len(account_ids)))
    walks = [_walk(tx, account_id, wanted, first) for account_id in account_ids]
    found: list[Transaction] = []
    looked = 0
    for made_on, number, wire in heapq.merge(*walks, key=_place, reverse=True):
        looked += 1
        if wire is not None:
            transaction = _decode(wire)
            looked += _CLOSE_LOOK if wanted.words else 0
            if _fits(transaction, wanted.words):
                found.append(transaction)
        if len(found) == limit:
            return FoundTransactions(found, None)
        if looked >= LOOKED_THROUGH:
            return FoundTransactions(found, Key(made_on, number))
    return FoundTransactions(found, None)


def _walk(tx: Tx, account_id: int, wanted: TransactionSearch, first: int) -> Iterator[tuple[str, int, str | None]]:
    """One account's rows: day, id and, if it may be one that is wanted, the text. Read in growing chunks, as they are needed."""
    condition, params = _condition(wanted)
    since = wanted.since.isoformat() if wanted.since else ""
    before = wanted.after or Key(wanted.until.isoformat() if wanted.until else "9999-12-31", _LAST)
    columns = f"SELECT made_on, id, CASE WHEN {condition} THEN wire END FROM banking_transactions WHERE account_id = ?"
    if wanted.status == "pending":
        # There are few, and an index of their own finds them.
        rows = tx.all(
            f"{columns} AND status = 'pending' ORDER BY amount_minor LIMIT ?", *params, account_id, _MAX_PENDING
        )
        yield from sorted((row for row in rows if since <= row[0] and row[:2] < before), key=_place, reverse=True)
        return
    size = first
    while True:
        rows = tx.all(
            f"{columns} AND made_on >= ? AND (made_on, id) < (?, ?) ORDER BY made_on DESC, id DESC LIMIT ?",
            *params, account_id, since, *before, size,
        )  # fmt: skip
        yield from rows
        if len(rows) < size:
            return
        before, size = Key(*rows[-1][:2]), min(4 * size, _CHUNK)


def _place(row: tuple[Any, ...]) -> tuple[Any, ...]:
    return row[:2]


def _condition(wanted: TransactionSearch) -> tuple[str, list[Any]]:
    conditions, params = ["1 = 1"], list[Any]()
    if wanted.status == "posted":
        conditions.append("status = 'posted'")
    for word in wanted.words:
        either = [f"LOWER(wire) LIKE ? ESCAPE '{ESCAPE}'", *("amount_minor = ?" for _ in word.amounts)]
        conditions.append(f"({' OR '.join(either)})")
        params += [word.pattern, *word.amounts]
    return " AND ".join(conditions), params


def _fits(transaction: Transaction, words: Sequence[Word]) -> bool:
    if not words:
        return True
    texts = [transaction.description]
    for part in (transaction.extra, transaction.description_parsed):
        texts += [value for value in msgspec.structs.astuple(part) if isinstance(value, str)]
    return fits(words, texts, to_minor(transaction.amount), transaction.id)


# Movements that come every month: rent, wages, insurance, a customer's standing order.


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


def find_recurring(tx: Tx, accounts: Sequence[AccountRow], today: date) -> list[Recurring]:
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
