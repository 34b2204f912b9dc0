"""Batches as they travel and are stored: which matches still have to be handed over, and what was."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import date, timedelta
from decimal import Decimal
from typing import Annotated, NamedTuple

import msgspec
from msgspec import Meta

from kontobahn.access.principal import Principal, find_in_scope, in_scope
from kontobahn.api.wire import Answer, Body, ListQuery, Timestamp, Uuid
from kontobahn.banking.transactions.store import posted_among
from kontobahn.banking.wire import NumericId
from kontobahn.db import Table, Tx
from kontobahn.json_text import decode_kept
from kontobahn.ledger import transmissions
from kontobahn.ledger.provider import Transmission
from kontobahn.reconciliation import store
from kontobahn.reconciliation.booking_rows import Transfer
from kontobahn.reconciliation.core.model import Line
from kontobahn.reconciliation.decisions import with_accounts
from kontobahn.reconciliation.store import AccountSettings, BookedBy, MatchRow


class NewBatch(Body):
    account_id: Annotated[NumericId, Meta(description="The bank account.")]
    from_date: (
        Annotated[date, Meta(description="First value date; that of the fiscal year of `to_date` when omitted.")] | None
    ) = None
    to_date: Annotated[date, Meta(description="Last value date; today when omitted.")] | None = None


class BatchesQuery(ListQuery):
    account_id: Annotated[NumericId, Meta(description="Only of this bank account.")] | None = None
    from_id: Annotated[Uuid, Meta(description="Only what was made after this one: the last id seen.")] | None = None
    limit: Annotated[int, Meta(ge=1, le=500)] = 100


class Batch(Answer):
    id: Uuid
    account_id: str
    connection_id: Uuid
    client_id: str
    booked_by: BookedBy
    fiscal_year_start: date
    from_date: date
    to_date: date
    matches: int
    # Matches that an earlier batch had, and that were undone since.
    reversals: int
    # The amount that moved at the bank.
    total: Decimal
    # Null for a list.
    file_name: str | None
    sha256: str | None
    # The imports by which the bookings in our own books can be undone.
    import_ids: list[Uuid]
    created_by: str
    created_at: Timestamp


class BatchLine(Answer):
    match_id: Uuid
    transaction_id: str
    made_on: date
    reversal: bool
    konto: str
    beleg: str
    # Signed as at the bank.
    amount: Decimal
    skonto: Decimal
    text: str


class LeftOutMatch(Answer):
    match_id: Uuid
    transaction_id: str
    reason: str
    # For a document of which less is open than was matched: the open amount and the matched one. Null for any other reason.
    konto: str | None = None
    beleg: str | None = None
    open_amount: Decimal | None = None
    amount: Decimal | None = None


class BatchItem(Answer):
    """The open amount of a document before and after: SOLL positive, as in the open items."""

    konto: str
    beleg: str
    open_before: Decimal
    open_after: Decimal


class BatchWithLines(Batch, kw_only=True):
    lines: list[BatchLine]
    left_out: list[LeftOutMatch]
    items: list[BatchItem]


class StoredRows(Answer):
    """The rows of a batch as they are stored."""

    lines: list[BatchLine]
    left_out: list[LeftOutMatch]
    items: list[BatchItem]


def head(wire: str) -> Batch:
    return msgspec.json.decode(wire, type=Batch)


def view(row: BatchRow) -> BatchWithLines:
    rows = decode_kept(row.rows, StoredRows)
    return BatchWithLines(**msgspec.structs.asdict(head(row.wire)), **msgspec.structs.asdict(rows))


class BatchRow(NamedTuple):
    organization_id: str
    id: str
    account_id: int
    connection_id: str
    client_id: str
    booked_by: BookedBy
    wire: str
    rows: str
    file_name: str | None
    sha256: str | None
    content: bytes | None
    made_by: str
    made_at: int


# At most this many matches of the days of a batch are compared.
_MAX_TWINS = 20_000
_COUNTED_DAYS = 180
BATCHES = Table("recon_batches", BatchRow)
_OF_ACCOUNT = (
    "organization_id = ? AND account_id = ? AND connection_id = ? AND client_id = ? AND made_on >= ? AND made_on <= ?"
)
_HANDED_OVER = (
    "EXISTS (SELECT 1 FROM recon_batch_matches b WHERE b.organization_id = recon_matches.organization_id"
    " AND b.match_id = recon_matches.id AND b.is_undo = {})"
)
_BY_THE_SAME = (
    "EXISTS (SELECT 1 FROM recon_batch_matches b JOIN recon_batches o ON o.organization_id = b.organization_id AND o.id = b.batch_id"
    " WHERE b.organization_id = recon_matches.organization_id AND b.match_id = recon_matches.id AND o.booked_by = ?)"
)


def waiting(tx: Tx, settings: AccountSettings, first: date, last: date, limit: int) -> list[Transfer]:
    """Matches of an account that are not handed over yet, and those that were and are undone since; the oldest first.

    A match that was only listed for the office was never booked here: undoing it concerns the next list, not the books.
    """
    scope = (*settings.client[:1], settings.account_id, *settings.client[1:], first.isoformat(), last.isoformat())
    order = "ORDER BY made_on, id LIMIT ?"
    made = store.MATCHES.all(
        tx, f"{_OF_ACCOUNT} AND undo_id IS NULL AND NOT {_HANDED_OVER.format(0)} {order}", *scope, limit
    )
    undone = store.MATCHES.all(
        tx, f"{_OF_ACCOUNT} AND undo_id IS NOT NULL AND {_BY_THE_SAME} AND NOT {_HANDED_OVER.format(1)} {order}",
        *scope, settings.booked_by, limit,
    )  # fmt: skip
    lines = store.lines_of(tx, settings.organization_id, [row.id for row in (*undone, *made)])
    there = posted_among(tx, settings.account_id, [row.transaction_id for row in made])
    return [
        _transfer(
            settings, row, [Line(line.kind, line.konto, line.beleg, line.amount_minor) for line in lines[row.id]],
            is_removed=row.undo_id is None and row.transaction_id not in there,
        )
        for row in (*undone, *made)
    ]  # fmt: skip


def count_waiting(tx: Tx, organization_id: str, today: date) -> int:
    """Returns how many matches of the last months are not handed over yet, over all accounts; no more than MAX_COUNTED."""
    first, found = (today - timedelta(days=_COUNTED_DAYS)).isoformat(), 0
    for settings in store.all_settings(tx, organization_id):
        row = tx.one(
            f"SELECT COUNT(*) FROM (SELECT 1 FROM recon_matches WHERE {_OF_ACCOUNT} AND undo_id IS NULL"
            f" AND NOT {_HANDED_OVER.format(0)} LIMIT ?) AS waiting",
            *settings.client[:1], settings.account_id, *settings.client[1:], first, today.isoformat(), store.MAX_COUNTED,
        )  # fmt: skip
        found += row[0] if row else 0
    return min(found, store.MAX_COUNTED)


def have_twins(tx: Tx, settings: AccountSettings, transfers: Sequence[Transfer]) -> bool:
    """Returns whether one of them looks like a match that was handed over before: same day, account, document and amount."""
    days = sorted({transfer.day.isoformat() for transfer in transfers})
    before = store.MATCHES.all(
        tx, f"{_OF_ACCOUNT} AND {_HANDED_OVER.format(0)} ORDER BY made_on, id LIMIT ?",
        *settings.client[:1], settings.account_id, *settings.client[1:], days[0], days[-1], _MAX_TWINS,
    )  # fmt: skip
    before = [row for row in before if row.made_on in days]
    lines = store.lines_of(tx, settings.organization_id, [row.id for row in before])
    known = {(row.made_on, line.konto, line.beleg, line.amount_minor) for row in before for line in lines[row.id]}
    return any(
        (transfer.day.isoformat(), line.konto, line.beleg, line.amount_minor) in known
        for transfer in transfers
        for line in transfer.lines
    )


def _transfer(settings: AccountSettings, row: MatchRow, lines: list[Line], *, is_removed: bool) -> Transfer:
    return Transfer(
        match_id=row.id,
        transaction_id=row.transaction_id,
        day=date.fromisoformat(row.made_on),
        konto=settings.konto,
        # An account that the settings have named since then counts.
        lines=with_accounts(tuple(lines), settings),
        payer=row.payer,
        evidence=row.evidence,
        end_to_end_id=row.end_to_end_id or "",
        mandate=row.mandate or "",
        is_undone=row.undo_id is not None,
        is_removed=is_removed,
    )


def insert(tx: Tx, row: BatchRow, transfers: Iterable[Transfer], transmission_id: str | None = None) -> None:
    """Writes a batch; with a transmission its file goes to the provider by itself, and is to be fetched if that fails."""
    BATCHES.insert(tx, row)
    if row.content is not None:
        _forget_done(tx, row.organization_id)
        tx.run(
            "INSERT INTO recon_batches_to_fetch (organization_id, batch_id, transmission_id) VALUES (?, ?, ?)",
            row.organization_id, row.id, transmission_id,
        )  # fmt: skip
    tx.many(
        "INSERT INTO recon_batch_matches (organization_id, match_id, is_undo, batch_id) VALUES (?, ?, ?, ?)",
        [(row.organization_id, transfer.match_id, int(transfer.is_undone), row.id) for transfer in transfers],
    )


def to_fetch(tx: Tx, organization_id: str) -> frozenset[str]:
    """Returns the batches whose DATEV file somebody has to fetch; no more than MAX_COUNTED, the latest.

    Not one that goes to a provider by itself, unless that has failed.
    """
    return frozenset(
        batch_id
        for batch_id, sent in _unfetched(tx, organization_id)
        if sent is None or (sent.state == "FAILED" and sent.followed_by is None)
    )


def _unfetched(tx: Tx, organization_id: str) -> list[tuple[str, Transmission | None]]:
    rows = tx.all(
        "SELECT batch_id, transmission_id FROM recon_batches_to_fetch WHERE organization_id = ? ORDER BY batch_id DESC LIMIT ?",
        organization_id, store.MAX_COUNTED,
    )  # fmt: skip
    return [(batch_id, sent_as and transmissions.last_sent(tx, organization_id, sent_as)) for batch_id, sent_as in rows]


def _forget_done(tx: Tx, organization_id: str) -> None:
    """Deletes those whose file has reached the provider, or was handed over by a person in the end."""
    done = [
        (organization_id, batch_id)
        for batch_id, sent in _unfetched(tx, organization_id)
        if sent is not None and (sent.state in transmissions.TAKEN_EFFECT or sent.followed_by is not None)
    ]
    tx.many("DELETE FROM recon_batches_to_fetch WHERE organization_id = ? AND batch_id = ?", done)


def sent_file(tx: Tx, row: BatchRow) -> Transmission | None:
    """Returns the last transmission of a batch's file, if it goes to a provider by itself."""
    import_ids = head(row.wire).import_ids
    return transmissions.last_sent(tx, row.organization_id, import_ids[0]) if import_ids else None


def note_fetched(tx: Tx, row: BatchRow) -> None:
    sent = sent_file(tx, row)
    if sent is not None:
        transmissions.note_taken(tx, row.organization_id, sent.id)
        return
    tx.run("DELETE FROM recon_batches_to_fetch WHERE organization_id = ? AND batch_id = ?", row.organization_id, row.id)


def find(tx: Tx, principal: Principal, batch_id: str) -> BatchRow:
    return find_in_scope(tx, BATCHES, principal, "Batch", batch_id.lower())


def listing(
    tx: Tx, organizations: tuple[str, ...], account_id: int | None, from_id: str | None, limit: int
) -> list[tuple[str, str]]:
    """Ids and texts of batches, in the order in which they were made."""
    condition, params = in_scope(len(organizations)), list[object](organizations)
    for name, value in (("account_id =", account_id), ("id >", from_id and from_id.lower())):
        if value is not None:
            condition += f" AND {name} ?"
            params.append(value)
    return tx.all(f"SELECT id, wire FROM recon_batches WHERE {condition} ORDER BY id LIMIT ?", *params, limit)


def latest(tx: Tx, organization_id: str, before: str, limit: int) -> list[str]:
    """The texts of an organisation's batches, the latest first; only those made before one."""
    condition, params = ("organization_id = ? AND id < ?", (before,)) if before else ("organization_id = ?", ())
    return [
        wire
        for (wire,) in tx.all(
            f"SELECT wire FROM recon_batches WHERE {condition} ORDER BY id DESC LIMIT ?",
            organization_id,
            *params,
            limit,
        )
    ]
