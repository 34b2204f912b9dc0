"""Files that no invoice could be read from, waiting for a person who types what they say or sets them aside."""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from kontobahn.db import Table, Tx
from kontobahn.formats.invoices.proposals import Proposal
from kontobahn.payables import store
from kontobahn.payables.store import FileRow

NOTHING = Proposal(None, None, None, None, None)
_decode = msgspec.json.Decoder(Proposal).decode


class UnreadRow(NamedTuple):
    organization_id: str
    file_id: str
    proposal: str
    note: str
    created_at: int

    @property
    def proposed(self) -> Proposal:
        return _decode(self.proposal)


UNREAD = Table("payables_unread", UnreadRow, key=("organization_id", "file_id"))


class Waiting(NamedTuple):
    row: UnreadRow
    file: FileRow


def add(tx: Tx, file: FileRow, proposal: Proposal | None, note: str) -> None:
    text = msgspec.json.encode(proposal or NOTHING).decode()
    UNREAD.insert(tx, UnreadRow(file.organization_id, file.id, text, note, tx.now))


def remove(tx: Tx, organization_id: str, file_id: str) -> bool:
    """Returns whether it waited."""
    return bool(
        tx.run("DELETE FROM payables_unread WHERE organization_id = ? AND file_id = ?", organization_id, file_id)
    )


def latest(tx: Tx, organization_id: str, limit: int) -> list[Waiting]:
    """Returns the newest first."""
    rows = UNREAD.all(tx, "organization_id = ? ORDER BY file_id DESC LIMIT ?", organization_id, limit)
    found = [(row, store.file_by_id(tx, organization_id, row.file_id)) for row in rows]
    return [Waiting(row, file) for row, file in found if file is not None]


def find(tx: Tx, organization_id: str, file_id: str) -> UnreadRow | None:
    return UNREAD.one(tx, "organization_id = ? AND file_id = ?", organization_id, file_id)
