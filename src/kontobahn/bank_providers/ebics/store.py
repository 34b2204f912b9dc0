"""Accesses, kept sealed and claimed by one process at a time; and downloads, stored segment by segment before the bank has a receipt."""

from __future__ import annotations

from datetime import date
from typing import NamedTuple

import msgspec

from kontobahn.bank_providers.ebics.wire import Access
from kontobahn.banking.connections.store import used_by_connection
from kontobahn.banking.provider import SubmissionState
from kontobahn.clock import DAY, MINUTE, start_of_day
from kontobahn.db import Table, Tx
from kontobahn.ids import new_id
from kontobahn.vault import Vault

NAME = "ebics"
# Longer than a bank may take for one message.
CLAIM_TIME = 5 * MINUTE
# Letters take weeks, and are forgotten for longer; whoever comes back later begins anew.
LETTER_TIME = 180 * DAY
# Downloads are read again for this long after their transactions were stored.
KEPT_TIME = 30 * DAY
_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Access).decode


def create(tx: Tx, vault: Vault, organization_id: str, ref: str, access: Access) -> None:
    tx.run(
        "INSERT INTO ebics_accesses (organization_id, ref, sealed, created_at, holder, until) VALUES (?, ?, ?, ?, '', 0)",
        organization_id, ref, vault.seal(_encode(access), _context(ref)), tx.now,
    )  # fmt: skip


def save(tx: Tx, vault: Vault, organization_id: str, ref: str, access: Access) -> None:
    tx.run(
        "UPDATE ebics_accesses SET sealed = ? WHERE organization_id = ? AND ref = ?",
        vault.seal(_encode(access), _context(ref)), organization_id, ref,
    )  # fmt: skip


def find(tx: Tx, vault: Vault, ref: str) -> tuple[str, Access] | None:
    """Returns the organisation and its access."""
    row = tx.one("SELECT organization_id, sealed FROM ebics_accesses WHERE ref = ?", ref)
    return None if row is None else (str(row[0]), _decode(vault.open(bytes(row[1]), _context(ref))))


def signs(tx: Tx, ref: str) -> bool:
    """Returns whether people may sign orders with the access."""
    row = tx.one("SELECT signs_orders FROM ebics_accesses WHERE ref = ?", ref)
    return row is not None and bool(row[0])


def allow_signing(tx: Tx, organization_id: str, ref: str, *, allowed: bool) -> None:
    tx.run(
        "UPDATE ebics_accesses SET signs_orders = ? WHERE organization_id = ? AND ref = ?", int(allowed), organization_id, ref
    )  # fmt: skip


def unfinished(tx: Tx, vault: Vault, organization_id: str) -> list[tuple[str, Access]]:
    """Returns the organisation's accesses that wait for the bank or for the comparison, the newest first."""
    rows = tx.all(
        "SELECT ref, sealed FROM ebics_accesses WHERE organization_id = ? AND"
        f" NOT {used_by_connection('ebics_accesses')} ORDER BY created_at DESC",
        organization_id, NAME,
    )  # fmt: skip
    return [(str(ref), _decode(vault.open(bytes(sealed), _context(ref)))) for ref, sealed in rows]


def remove(tx: Tx, ref: str) -> None:
    tx.run("DELETE FROM ebics_accesses WHERE ref = ?", ref)


def remove_orphans(tx: Tx) -> None:
    """Removes accesses that nobody has finished."""
    tx.run(
        f"DELETE FROM ebics_accesses WHERE created_at <= ? AND NOT {used_by_connection('ebics_accesses')}",
        tx.now - LETTER_TIME, NAME,
    )  # fmt: skip


def claim(tx: Tx, ref: str, holder: str) -> bool:
    """Takes the access for one piece of work. False if another process has it."""
    taken = tx.one(
        "UPDATE ebics_accesses SET holder = ?, until = ? WHERE ref = ? AND (until <= ? OR holder = ?) RETURNING ref",
        holder, tx.now + CLAIM_TIME, ref, tx.now, holder,
    )  # fmt: skip
    return taken is not None


def release(tx: Tx, ref: str, holder: str) -> None:
    tx.run("UPDATE ebics_accesses SET holder = '', until = 0 WHERE ref = ? AND holder = ?", ref, holder)


def _context(ref: str) -> str:
    return f"ebics_accesses:{ref}"


# --- Order files


class OrderRow(NamedTuple):
    organization_id: str
    message_id: str
    ref: str
    transaction_id: str
    order_id: str
    state: SubmissionState
    said: str
    created_at: int
    updated_at: int
    # The hash of the data that were sent; empty for files from before it was kept.
    digest: str = ""


ORDERS = Table("ebics_orders", OrderRow, key=("organization_id", "message_id"))


def begin_order(tx: Tx, organization_id: str, ref: str, message_id: str, digest: str) -> OrderRow | None:
    """Writes that a file is about to be sent. Returns None if it was before, and the bank may have it."""
    tx.lock("ebics_order", organization_id, message_id)
    known = find_order(tx, organization_id, message_id)
    if known is not None and known.state not in ("refused", "missing"):
        return None
    row = OrderRow(organization_id, message_id, ref, "", "", "sending", "", tx.now, tx.now, digest)
    if known is None:
        ORDERS.insert(tx, row)
        return row
    return ORDERS.update(tx, known, **{**row._asdict(), "organization_id": organization_id, "message_id": message_id})


def find_order(tx: Tx, organization_id: str, message_id: str) -> OrderRow | None:
    return ORDERS.one(tx, "organization_id = ? AND message_id = ?", organization_id, message_id)


def change_order(tx: Tx, row: OrderRow, /, **values: str) -> OrderRow:
    return ORDERS.update(tx, row, updated_at=tx.now, **values)


def open_orders(tx: Tx, organization_id: str, ref: str) -> list[OrderRow]:
    """Returns the files about which the bank has not said its last word."""
    return ORDERS.all(
        tx, "organization_id = ? AND ref = ? AND state IN ('sending', 'unknown', 'waiting') ORDER BY created_at",
        organization_id, ref,
    )  # fmt: skip


# --- Downloads


class DownloadRow(NamedTuple):
    organization_id: str
    ref: str
    id: str
    kind: str
    order_name: str
    transaction_id: str
    sealed_key: bytes
    segments: int
    is_whole: int
    created_at: int
    receipt_at: int | None


DOWNLOADS = Table("ebics_downloads", DownloadRow, key=("organization_id", "ref", "id"))


class NewDownload(NamedTuple):
    organization_id: str
    ref: str
    kind: str
    order_name: str
    transaction_id: str
    key: bytes
    content: bytes
    is_whole: bool


def begin(tx: Tx, vault: Vault, new: NewDownload) -> DownloadRow:
    """Stores a download with its first segment."""
    number = new_id()
    row = DownloadRow(
        new.organization_id, new.ref, number, new.kind, new.order_name, new.transaction_id,
        vault.seal(new.key, _key_context(number)), 1, int(new.is_whole), tx.now, None,
    )  # fmt: skip
    DOWNLOADS.insert(tx, row)
    _add_segment(tx, row, 1, new.content)
    return row


def add_segment(tx: Tx, row: DownloadRow, content: bytes, *, is_last: bool) -> DownloadRow:
    _add_segment(tx, row, row.segments + 1, content)
    return DOWNLOADS.update(tx, row, segments=row.segments + 1, is_whole=int(is_last))


def cut(tx: Tx, row: DownloadRow, segments: int) -> DownloadRow:
    """Forgets what follows a segment: the bank goes on from there."""
    tx.run(
        "DELETE FROM ebics_segments WHERE organization_id = ? AND ref = ? AND download_id = ? AND number > ?",
        row.organization_id, row.ref, row.id, segments,
    )  # fmt: skip
    return DOWNLOADS.update(tx, row, segments=segments)


def _add_segment(tx: Tx, row: DownloadRow, number: int, content: bytes) -> None:
    tx.run(
        "INSERT INTO ebics_segments (organization_id, ref, download_id, number, content) VALUES (?, ?, ?, ?, ?)",
        row.organization_id, row.ref, row.id, number, content,
    )  # fmt: skip


def has_receipt(tx: Tx, row: DownloadRow) -> None:
    DOWNLOADS.update(tx, row, receipt_at=tx.now)


def drop(tx: Tx, row: DownloadRow) -> None:
    tx.run(
        "DELETE FROM ebics_downloads WHERE organization_id = ? AND ref = ? AND id = ?", row.organization_id, row.ref, row.id
    )  # fmt: skip


def open_downloads(tx: Tx, organization_id: str, ref: str) -> list[DownloadRow]:
    """Returns the downloads that are not whole, or that the bank has no receipt for."""
    return DOWNLOADS.all(
        tx, "organization_id = ? AND ref = ? AND receipt_at IS NULL ORDER BY created_at", organization_id, ref
    )


def since(tx: Tx, organization_id: str, ref: str, day: date | None) -> list[DownloadRow]:
    """Returns the whole downloads since a day, oldest first; those of long before it are forgotten.

    The day is weeks before the last time that transactions were stored, so what came before it has been stored.
    """
    first = 0 if day is None else start_of_day(day)
    tx.run(
        "DELETE FROM ebics_downloads WHERE organization_id = ? AND ref = ? AND receipt_at < ?",
        organization_id, ref, first - KEPT_TIME,
    )  # fmt: skip
    return DOWNLOADS.all(
        tx, "organization_id = ? AND ref = ? AND is_whole = 1 AND created_at >= ? ORDER BY created_at, id",
        organization_id, ref, first,
    )  # fmt: skip


def segment(tx: Tx, row: DownloadRow, number: int) -> bytes:
    found = tx.one(
        "SELECT content FROM ebics_segments WHERE organization_id = ? AND ref = ? AND download_id = ? AND number = ?",
        row.organization_id, row.ref, row.id, number,
    )  # fmt: skip
    assert found is not None
    return bytes(found[0])


def key_of(vault: Vault, row: DownloadRow) -> bytes:
    return vault.open(row.sealed_key, _key_context(row.id))


def _key_context(number: str) -> str:
    return f"ebics_downloads:{number}"
