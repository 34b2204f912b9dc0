"""Merges: an account that stands twice becomes one, by a person, with a preview and an undoing."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from typing import NamedTuple

from msgspec import UNSET

from kontobahn.access.principal import Principal, in_scope
from kontobahn.banking import ids
from kontobahn.banking.connections import accounts
from kontobahn.banking.connections import store as connections
from kontobahn.banking.connections.accounts import ACCOUNTS, AccountRow
from kontobahn.banking.connections.sources import SOURCES
from kontobahn.banking.merges.comparison import (
    STORED,
    Comparison,
    Same,
    StoredRow,
    decode_transaction,
    facts_of,
    statement_given,
)
from kontobahn.banking.payments import order_files
from kontobahn.banking.payments import store as payments
from kontobahn.banking.transactions.ingest import details_of
from kontobahn.banking.transactions.wire import TransactionDetail
from kontobahn.clock import DAY, to_datetime
from kontobahn.db import Table, Tx
from kontobahn.errors import BadRequest, Conflict
from kontobahn.ids import new_id
from kontobahn.json_text import decode_kept, encode, encode_kept
from kontobahn.sentences import said

# Merges as rows: two accounts made one in a transaction, with what it takes to make them two again.


# For so long a merge can be undone.
UNDONE_WITHIN = 30 * DAY
_PURGED_AT_ONCE = 20


class Report(NamedTuple):
    """The counts of a merge."""

    # Bookings that both had, that came to the other account, and that its statements show not to be.
    same: int = 0
    moved: int = 0
    left_out: int = 0
    payments: int = 0
    order_files: int = 0
    connections: int = 0
    statements: int = 0


class MergeRow(NamedTuple):
    organization_id: str
    id: str
    account_id: int
    merged_id: int
    iban: str
    report: str
    kept: str | None
    made_by: str
    made_at: int
    undone_by: str | None
    undone_at: int | None

    @property
    def counts(self) -> Report:
        return decode_kept(self.report, Report)

    @property
    def undo_until(self) -> int | None:
        """The instant until which it can be undone, if nothing stands against it; None if it cannot be any more."""
        return None if self.kept is None else self.made_at + UNDONE_WITHIN


MERGES = Table("banking_account_merges", MergeRow)


class StatementRow(NamedTuple):
    account_id: int
    position: int
    identity: str
    sha256: str
    state: str
    closes_on: str
    entries: int
    source: str
    taken_at: int
    span: int | None


class SpanRow(NamedTuple):
    account_id: int
    number: int
    opens_minor: int
    opens_on: str
    closes_minor: int
    closes_on: str
    begins_on: str
    ends_on: str
    first_number: int | None
    last_number: int | None
    last_id: str


_STATEMENTS = Table("banking_statements", StatementRow, key=("account_id", "position"))
_SPANS = Table("banking_statement_spans", SpanRow, key=("account_id", "number"))


class Changed(NamedTuple):
    """A row that stayed and took something over, as it was before."""

    id: int
    statement: str | None
    booked_on: str | None
    balance_minor: int | None
    payment_id: int | None
    had_details: bool


class Kept(NamedTuple):
    """All that is needed to undo a merge, beside the rows that went."""

    account: AccountRow
    merged: AccountRow
    moved: list[int]
    changed: list[Changed]
    # The connections of the account that was merged, and of the other.
    connections: list[str]
    other_connections: list[str]
    payments: list[int]
    order_files: list[int]
    statements: list[StatementRow]
    spans: list[SpanRow]
    aliases: list[int]
    # The number of the last transaction: later ones have come since.
    last_transaction: int
    # Of another room, in its own form.
    elsewhere: str = ""


# --- The two accounts, and whether they are one


def check_twins(tx: Tx, principal: Principal, account_id: str, merged_id: str) -> tuple[AccountRow, AccountRow]:
    """Returns the two accounts. Raises if they are not one account at the bank."""
    account, merged = accounts.find(tx, principal, account_id), accounts.find(tx, principal, merged_id)
    if account.id == merged.id:
        raise BadRequest("The two are one account already.", field="merged_account_id")
    if account.organization_id != merged.organization_id:
        raise BadRequest("The accounts belong to different organisations.", field="merged_account_id")
    if account.iban is None or (account.iban, account.currency_code) != (merged.iban, merged.currency_code):
        raise BadRequest("The accounts have different IBANs or currencies, or none.", field="merged_account_id")
    if set(_connections(tx, account)) & set(_connections(tx, merged)):
        # A card that is settled by the account has its IBAN.
        raise Conflict("One bank connection reports both accounts, so they are two at the bank.")
    return account, merged


def lock(tx: Tx, *both: AccountRow) -> None:
    """Serialises with everything that writes to the two accounts. Raises StillRunning if a large file is being imported into one."""
    for connection_id in sorted({one for account in both for one in _connections(tx, account)}):
        connections.lock(tx, both[0].organization_id, connection_id)
    connections.lock_accounts(tx, both[0].organization_id, [account.iban for account in both])
    for account in both:
        accounts.check_unclaimed(tx, account.organization_id, account.id)


def _connections(tx: Tx, account: AccountRow) -> list[str]:
    rows = SOURCES.all(tx, "organization_id = ? AND account_id = ?", account.organization_id, account.id)
    return sorted({row.connection_id for row in rows})


def _last_transaction(tx: Tx, account: AccountRow, merged: AccountRow) -> int:
    found = tx.all(
        "SELECT MAX(id) FROM banking_transactions WHERE account_id = ?"
        " UNION ALL SELECT MAX(id) FROM banking_transactions WHERE account_id = ?",
        account.id, merged.id,
    )  # fmt: skip
    return max((last for (last,) in found if last is not None), default=0)


def last_changes(tx: Tx, *both: AccountRow) -> list[int | None]:
    """The number of the last change of a transaction of each account, and of the last that was removed."""
    found: list[int | None] = []
    for account in both:
        row = tx.one("SELECT MAX(last_change) FROM banking_transactions WHERE account_id = ?", account.id)
        found.append(row[0] if row else None)
    removed = tx.one(
        "SELECT MAX(change_number) FROM banking_removed_transactions WHERE organization_id = ?", both[0].organization_id
    )
    return [*found, removed[0] if removed else None]


def count(tx: Tx, found: Comparison) -> Report:
    merged = found.merged
    return Report(
        same=len(found.same),
        moved=len(found.added),
        left_out=len(found.denied),
        payments=len(payments.ids_of_account(tx, merged.organization_id, merged.id)),
        order_files=len(order_files.ids_of_account(tx, merged.organization_id, merged.id)),
        connections=len(_connections(tx, merged)),
        statements=len(_STATEMENTS.all(tx, "account_id = ?", merged.id)),
    )


# --- Made one


class Rewrite(NamedTuple):
    """A row as it is, the account that it is written to, and what else of it changes."""

    row: StoredRow
    account_id: int
    columns: Changed | None = None
    # The parts of a batch, shown with its sum; an empty list takes them back.
    details: list[TransactionDetail] | None = None


class Prepared(NamedTuple):
    """A comparison, and all that can be made of it before the transaction, for which others wait."""

    found: Comparison
    # The rows that go, as they are kept.
    laid_aside: list[str]
    taken_over: list[tuple[Changed, Rewrite]]


def prepare(found: Comparison) -> Prepared:
    taken_over = [one for same in found.same for one in _take_over(found.account, same)]
    return Prepared(found, [encode_kept(row).decode() for row in found.gone], taken_over)


def merge(tx: Tx, prepared: Prepared, actor: str, elsewhere: str) -> MergeRow:
    """Makes one account of the two. They are locked, and nothing speaks against it."""
    found, taken_over = prepared.found, prepared.taken_over
    account, merged = found.account, found.merged
    organization_id = account.organization_id
    report = count(tx, found)
    row = MergeRow(
        organization_id, new_id(), account.id, merged.id, account.iban or "", encode_kept(report).decode(), None,
        actor, tx.now, None, None,
    )  # fmt: skip
    kept = Kept(
        account=account,
        merged=merged,
        moved=[one.id for one in found.moved],
        changed=[had for had, _ in taken_over],
        connections=_connections(tx, merged),
        other_connections=_connections(tx, account),
        payments=payments.ids_of_account(tx, organization_id, merged.id),
        order_files=order_files.ids_of_account(tx, organization_id, merged.id),
        statements=_STATEMENTS.all(tx, "account_id = ? OR account_id = ? ORDER BY account_id, position", account.id, merged.id),
        spans=_SPANS.all(tx, "account_id = ? OR account_id = ? ORDER BY account_id, number", account.id, merged.id),
        aliases=_aliases_of(tx, organization_id, merged.id),
        last_transaction=_last_transaction(tx, account, merged),
        elsewhere=elsewhere,
    )  # fmt: skip
    _lay_aside(tx, row, account.id, found.gone, prepared.laid_aside)
    rewrites = {one.id: Rewrite(one, account.id) for one in found.moved}
    _write(tx, organization_id, list((rewrites | {had.id: one for had, one in taken_over}).values()))
    _join_statements(tx, found, kept)
    payments.move_to_account(tx, organization_id, kept.payments, account.id)
    order_files.move_to_account(tx, organization_id, kept.order_files, account.id)
    _move_sources(tx, organization_id, kept.connections, merged.id, account.id)
    _set_aliases(tx, organization_id, [merged.id, *kept.aliases], account.id)
    tx.run("DELETE FROM banking_accounts WHERE organization_id = ? AND id = ?", organization_id, merged.id)
    latest = later_balance(account, merged)
    _settle(tx, account if latest is account else _with_balance_of(tx, account, latest))
    row = row._replace(kept=encode_kept(kept).decode())
    MERGES.insert(tx, row)
    return row


def _lay_aside(tx: Tx, merge_row: MergeRow, account_id: int, rows: list[StoredRow], contents: list[str]) -> None:
    """Takes rows out; the change feed reports them as removed from the account that both are now."""
    if not rows:
        return
    organization_id = merge_row.organization_id
    tx.many(
        "INSERT INTO banking_merged_transactions (organization_id, merge_id, id, content) VALUES (?, ?, ?, ?)",
        [(organization_id, merge_row.id, row.id, content) for row, content in zip(rows, contents, strict=True)],
    )
    first = ids.take(tx, organization_id, "change", len(rows))
    tx.many(
        "INSERT INTO banking_removed_transactions"
        " (organization_id, change_number, account_id, connection_id, id, first_change, removed_at) VALUES (?, ?, ?, ?, ?, ?, ?)",
        [
            (organization_id, first + number, account_id, row.source or "", row.id, row.first_change, tx.now)
            for number, row in enumerate(rows)
        ],
    )  # fmt: skip
    tx.many(
        "DELETE FROM banking_transactions WHERE account_id = ? AND id = ?", [(row.account_id, row.id) for row in rows]
    )


# A row that stays in its account keeps its place in most indexes.
_COLUMNS = "last_change = ?, wire = ?, statement = ?, booked_on = ?, balance_minor = ?, payment_id = ?"
_CHANGE = f"UPDATE banking_transactions SET {_COLUMNS} WHERE account_id = ? AND id = ?"
_MOVE = f"UPDATE banking_transactions SET {_COLUMNS}, account_id = ? WHERE account_id = ? AND id = ?"


def _write(tx: Tx, organization_id: str, rewrites: Sequence[Rewrite]) -> None:
    """Writes the rows all at once, which the change feed reports as changes: everybody who writes waits for it."""
    if not rewrites:
        return
    first = ids.take(tx, organization_id, "change", len(rewrites))
    time = to_datetime(tx.now)
    changed, moved = [], []
    for number, one in enumerate(rewrites):
        values, row = _after(one, first + number, time), one.row
        if one.account_id == row.account_id:
            changed.append((*values, row.account_id, row.id))
        else:
            moved.append((*values, one.account_id, row.account_id, row.id))
    tx.many(_CHANGE, changed)
    tx.many(_MOVE, moved)


def _after(one: Rewrite, change: int, time: datetime) -> tuple[int | str | None, ...]:
    row, new = one.row, one.columns
    told = decode_transaction(row.wire)
    told.account_id, told.updated_at = str(one.account_id), time
    if new is None:
        columns = row.statement, row.booked_on, row.balance_minor, row.payment_id
    else:
        columns = new.statement, new.booked_on, new.balance_minor, new.payment_id
        told.payment_id = None if new.payment_id is None else str(new.payment_id)
    if one.details is not None:
        told.extra.details = one.details or UNSET
    return change, encode(told).decode(), *columns


def _take_over(account: AccountRow, same: Same) -> Iterator[tuple[Changed, Rewrite]]:
    """Gives the rows that stay what those that go have beside them: their statement, their payment, the parts of a batch."""
    given = statement_given(same)
    payment = next((row.payment_id for row in same.gone if row.payment_id is not None), None)
    details = details_of(map(facts_of, same.gone)) if len(same.gone) > 1 and len(same.kept) == 1 else None
    for row in same.kept:
        is_stated = given is not None and not row.statement
        is_paid = payment is not None and row.payment_id is None and len(same.kept) == 1
        is_detailed = details is not None and decode_transaction(row.wire).extra.details is UNSET
        if not (is_stated or is_paid or is_detailed):
            continue
        had = new = Changed(row.id, row.statement, row.booked_on, row.balance_minor, row.payment_id, not is_detailed)
        if is_stated:
            assert given is not None
            balance = given.balance_minor if len(same.kept) == 1 else None
            new = new._replace(statement=given.statement, booked_on=given.booked_on, balance_minor=balance)
        if is_paid:
            new = new._replace(payment_id=payment)
        yield had, Rewrite(row, account.id, new, details if is_detailed else None)


def _join_statements(tx: Tx, found: Comparison, kept: Kept) -> None:
    if not any(row.account_id == found.merged.id for row in kept.statements):
        return
    account_id = found.account.id
    numbers: dict[tuple[int, int], int] = {}
    spans = []
    for number, one in enumerate(found.spans, 1):
        spans.append(SpanRow(account_id, number, *one.known))
        numbers |= {(account_id, old): number for old in one.of_account}
        numbers |= {(found.merged.id, old): number for old in one.of_merged}
    ours_first = sorted(kept.statements, key=lambda row: (row.account_id != account_id, row.position))
    unique = {row.identity: row for row in reversed(ours_first)}
    joined = [row for row in ours_first if unique[row.identity] is row]
    statements = [
        row._replace(
            account_id=account_id,
            position=position,
            span=row.span and numbers.get((row.account_id, row.span), row.span),
        )
        for position, row in enumerate(joined, 1)
    ]
    _write_statements(tx, (account_id, found.merged.id), statements, spans)


def _write_statements(
    tx: Tx, account_ids: tuple[int, int], statements: list[StatementRow], spans: list[SpanRow]
) -> None:
    for table in (_STATEMENTS.name, _SPANS.name):
        tx.run(f"DELETE FROM {table} WHERE account_id = ? OR account_id = ?", *account_ids)
    _STATEMENTS.insert_many(tx, statements)
    _SPANS.insert_many(tx, spans)


def _move_sources(tx: Tx, organization_id: str, found: Iterable[str], before: int, after: int) -> None:
    tx.many(
        "UPDATE banking_account_sources SET account_id = ? WHERE organization_id = ? AND connection_id = ? AND account_id = ?",
        [(after, organization_id, connection_id, before) for connection_id in found],
    )


def _aliases_of(tx: Tx, organization_id: str, account_id: int) -> list[int]:
    rows = tx.all(
        "SELECT id FROM banking_account_aliases WHERE organization_id = ? AND account_id = ? ORDER BY id",
        organization_id, account_id,
    )  # fmt: skip
    return [number for (number,) in rows]


def _set_aliases(tx: Tx, organization_id: str, numbers: list[int], account_id: int) -> None:
    tx.many(
        "INSERT INTO banking_account_aliases (organization_id, id, account_id) VALUES (?, ?, ?)"
        " ON CONFLICT (organization_id, id) DO UPDATE SET account_id = excluded.account_id",
        [(organization_id, number, account_id) for number in numbers],
    )


def later_balance(account: AccountRow, merged: AccountRow) -> AccountRow:
    """Returns the account whose balance was reported last."""
    is_later = (merged.balance_on or "") > (account.balance_on or "")
    return merged if merged.balance is not None and (account.balance is None or is_later) else account


def _with_balance_of(tx: Tx, account: AccountRow, other: AccountRow) -> AccountRow:
    return ACCOUNTS.update(
        tx, account, balance_minor=other.balance_minor, balance_known=other.balance_known, balance_on=other.balance_on,
        balance_from=other.balance_from or other.connection_id,
    )  # fmt: skip


def _settle(tx: Tx, account: AccountRow) -> None:
    """Counts the account's transactions anew, and chooses the connection that it is paid from."""
    counts: dict[str, int] = dict(
        tx.all("SELECT status, COUNT(*) FROM banking_transactions WHERE account_id = ? GROUP BY status", account.id)
    )
    ACCOUNTS.update(
        tx, account, posted=counts.get("posted", 0), pending=counts.get("pending", 0), updated_at=tx.now
    )  # fmt: skip
    connections.lead(tx, account.organization_id, account.id)


# --- Made two again


def listing(tx: Tx, organizations: tuple[str, ...]) -> list[MergeRow]:
    return MERGES.all(tx, f"{in_scope(len(organizations))} ORDER BY made_at DESC, id DESC", *organizations)


def any_made(tx: Tx, organization_id: str) -> bool:
    """Returns whether two accounts of the organisation were ever made one."""
    return tx.one("SELECT 1 FROM banking_account_merges WHERE organization_id = ? LIMIT 1", organization_id) is not None


def find(tx: Tx, principal: Principal, merge_id: str) -> MergeRow:
    row = MERGES.one(tx, f"{in_scope(len(principal.scope))} AND id = ?", *principal.scope, merge_id.lower())
    if row is None:
        raise principal.missing("Merge")
    return row


def undo_problem(tx: Tx, row: MergeRow) -> str | None:
    """Says why a merge cannot be undone; None if it can."""
    if row.undone_at is not None:
        return "The merge was undone already."
    if row.kept is None or tx.now > row.made_at + UNDONE_WITHIN:
        return said("A merge can be undone within {count} days.", count=UNDONE_WITHIN // DAY)
    kept = decode_kept(row.kept, Kept)
    account = accounts.look_up(tx, row.organization_id, row.account_id)
    if account is None:
        return "The account does not exist any more, or was made part of another one: undo that first."
    if {*kept.connections, *kept.other_connections} - set(_connections(tx, account)):
        return "A bank connection of the two accounts was removed since."
    known = {statement.identity for statement in kept.statements}
    later = [one for one in _STATEMENTS.all(tx, "account_id = ?", account.id) if one.identity not in known]
    if later:
        return said(
            "A statement has come since, which counts for both: {source} of {day}.",
            source=later[0].source, day=later[0].closes_on,
        )  # fmt: skip
    return None


class Undone(NamedTuple):
    row: MergeRow
    kept: Kept
    # The transactions that the account has again, with those that have come by its connections since.
    returned: list[int]


class Parting(NamedTuple):
    """All that undoing a merge writes to transactions, made before the transaction, for which others wait."""

    kept: Kept
    rewrites: list[Rewrite]
    returned: list[int]
    put_back: list[StoredRow]
    # Equal for as long as nothing has changed of the account and its bookings.
    marks: tuple[AccountRow | None, list[int | None]]


def prepare_undo(tx: Tx, row: MergeRow) -> Parting | None:
    """Returns None if the merge cannot be undone any more."""
    if row.kept is None:
        return None
    kept = decode_kept(row.kept, Kept)
    rewrites, returned = _part_again(tx, row, kept)
    return Parting(kept, rewrites, returned, _laid_aside(tx, row), _marks(tx, row))


def _marks(tx: Tx, row: MergeRow) -> tuple[AccountRow | None, list[int | None]]:
    account = accounts.look_up(tx, row.organization_id, row.account_id)
    return account, [] if account is None else last_changes(tx, account)


def undo(tx: Tx, row: MergeRow, actor: str, prepared: Parting | None = None) -> Undone:
    """Makes two accounts of one again. It is locked, and nothing stands against it."""
    holds = prepared is not None and prepared.marks == _marks(tx, row)
    parting = prepared if holds else prepare_undo(tx, row)
    assert parting is not None
    kept = parting.kept
    organization_id = row.organization_id
    now = accounts.look_up(tx, organization_id, row.account_id)
    assert now is not None
    ACCOUNTS.insert(tx, kept.merged)
    _set_aliases(tx, organization_id, kept.aliases, row.merged_id)
    tx.run("DELETE FROM banking_account_aliases WHERE organization_id = ? AND id = ?", organization_id, row.merged_id)
    _write(tx, organization_id, parting.rewrites)
    _put_back(tx, row, parting.put_back)
    _write_statements(tx, (row.account_id, row.merged_id), kept.statements, kept.spans)
    own = set(kept.connections)
    payments.move_to_account(tx, organization_id, kept.payments, row.merged_id)
    payments.move_of_connections(tx, organization_id, own, row.account_id, row.merged_id, since=row.made_at)
    order_files.move_to_account(tx, organization_id, kept.order_files, row.merged_id)
    _move_sources(tx, organization_id, kept.connections, row.account_id, row.merged_id)
    if now.balance_from in own:
        # It is the other's balance by now.
        _settle(tx, _with_balance_of(tx, kept.merged, now))
        _settle(tx, _with_balance_of(tx, now, kept.account))
    else:
        _settle(tx, kept.merged)
        _settle(tx, now)
    # One of them may lack what came since by the other: each is asked for everything again.
    for connection_id in sorted(own | set(kept.other_connections)):
        connection = connections.get(tx, organization_id, connection_id)
        connections.change(tx, connection, fetched_at=None)
    return Undone(MERGES.update(tx, row, kept=None, undone_by=actor, undone_at=tx.now), kept, parting.returned)


def _part_again(tx: Tx, row: MergeRow, kept: Kept) -> tuple[list[Rewrite], list[int]]:
    """Takes back whatever rows took over, and lets those return that moved or have come by the other's connections since; their ids."""
    moved, own = set(kept.moved), set(kept.connections)
    changed = {one.id: one for one in kept.changed}
    rewrites, returned = [], []
    for one in STORED.all(tx, "account_id = ? ORDER BY id", row.account_id):
        returns = one.id in moved or (one.id > kept.last_transaction and one.source in own)
        had = changed.get(one.id)
        if returns:
            returned.append(one.id)
        if returns or had is not None:
            details: list[TransactionDetail] | None = [] if had is not None and not had.had_details else None
            rewrites.append(Rewrite(one, row.merged_id if returns else row.account_id, had, details))
    return rewrites, returned


_OF_MERGE = "organization_id = ? AND merge_id = ?"


def _laid_aside(tx: Tx, row: MergeRow) -> list[StoredRow]:
    found = tx.all(
        f"SELECT content FROM banking_merged_transactions WHERE {_OF_MERGE} ORDER BY id", row.organization_id, row.id
    )
    return [decode_kept(content, StoredRow) for (content,) in found]


def _put_back(tx: Tx, row: MergeRow, rows: list[StoredRow]) -> None:
    if rows:
        first = ids.take(tx, row.organization_id, "change", len(rows))
        STORED.insert_many(
            tx,
            [one._replace(first_change=first + number, last_change=first + number) for number, one in enumerate(rows)],
        )
    _forget(tx, row)


def _forget(tx: Tx, row: MergeRow) -> None:
    tx.run(f"DELETE FROM banking_merged_transactions WHERE {_OF_MERGE}", row.organization_id, row.id)


def purge(tx: Tx) -> None:
    """Forgets what it would take to undo merges that cannot be undone any more."""
    condition = "kept IS NOT NULL AND made_at < ? ORDER BY made_at LIMIT ?"
    for row in MERGES.all(tx, condition, tx.now - UNDONE_WITHIN, _PURGED_AT_ONCE):
        _forget(tx, row)
        MERGES.update(tx, row, kept=None)
