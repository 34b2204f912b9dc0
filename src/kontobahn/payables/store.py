"""The rows of received invoices: files by their content, payables by their identity, steps in the order in which they were taken."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import msgspec

from kontobahn.access.principal import Principal, ask_in_scope, find_in_scope, in_scope
from kontobahn.db import Rounds, Table, Tx, chunked, short_read
from kontobahn.formats.invoices.pdf import Proposal
from kontobahn.ids import new_id
from kontobahn.payables.rules import MAX_BELEG, OPEN, Kind, Status


class FileRow(NamedTuple):
    """A file without its bytes."""

    organization_id: str
    id: str
    sha256: str
    file_name: str
    media_type: str
    size: int
    actor: str
    created_at: int
    refused: str


class PayableRow(NamedTuple):
    organization_id: str
    id: str
    status: Status
    kind: Kind
    format: str
    profile: str
    number: str
    issue_date: str
    due_date: str | None
    currency_code: str
    total_minor: int
    payable_minor: int
    creditor_name: str
    creditor_vat_id: str
    creditor_tax_number: str
    creditor_iban: str
    identity: str
    connection_id: str
    client_id: str
    konto: str
    stops: str
    hold_until: str | None
    means_code: str
    invoice: str
    terms: str
    findings: str
    warnings: str
    proposal: str
    file_id: str
    document_guid: str
    payment_id: int | None
    match_id: str | None
    created_at: int
    updated_at: int
    rule_sets: str = "[]"


class DueRow(NamedTuple):
    """An invoice without what the file says, which may be long."""

    organization_id: str
    id: str
    status: Status
    kind: Kind
    number: str
    issue_date: str
    due_date: str | None
    currency_code: str
    payable_minor: int
    creditor_name: str
    creditor_iban: str
    connection_id: str
    client_id: str
    konto: str
    stops: str
    means_code: str
    terms: str
    payment_id: int | None
    match_id: str | None
    updated_at: int


class StepRow(NamedTuple):
    organization_id: str
    id: str
    payable_id: str
    action: str
    user_id: str
    actor: str
    comment: str
    created_at: int


class SettingsRow(NamedTuple):
    organization_id: str
    two_people_minor: int | None
    connection_id: str
    client_id: str
    changed_by: str
    changed_at: int
    book_on: str = ""


FILES = Table("payables_files", FileRow)
PAYABLES = Table("payables", PayableRow)
DUE = Table("payables", DueRow)
STEPS = Table("payables_steps", StepRow)
SETTINGS = Table("payables_settings", SettingsRow, key=("organization_id",))


def lock(tx: Tx, organization_id: str) -> None:
    """Serialises what comes in and what is decided about the invoices of an organisation."""
    tx.lock("payables", organization_id)


# --- Files


def file_by_content(tx: Tx, organization_id: str, sha256: str) -> FileRow | None:
    return FILES.one(tx, "organization_id = ? AND sha256 = ?", organization_id, sha256)


def file_by_id(tx: Tx, organization_id: str, file_id: str) -> FileRow | None:
    return FILES.one(tx, "organization_id = ? AND id = ?", organization_id, file_id)


def insert_file(tx: Tx, row: FileRow, content: bytes) -> None:
    marks = ", ".join("?" * (len(row) + 1))
    tx.put_large(f"INSERT INTO payables_files ({FILES.columns}, content) VALUES ({marks})", *row, content)


def find_file(tx: Tx, principal: Principal, file_id: str) -> FileRow:
    return find_in_scope(tx, FILES, principal, "File", file_id.lower())


def content_of(tx: Tx, file: FileRow) -> bytes:
    ((content,),) = tx.all(
        "SELECT content FROM payables_files WHERE organization_id = ? AND id = ?", file.organization_id, file.id
    )
    return bytes(content)


def add_arrival(tx: Tx, row: PayableRow, file_id: str) -> None:
    tx.run(
        "INSERT INTO payables_arrivals (organization_id, file_id, payable_id, created_at) VALUES (?, ?, ?, ?)",
        row.organization_id, file_id, row.id, tx.now,
    )  # fmt: skip


def payable_in(tx: Tx, organization_id: str, file_id: str) -> PayableRow | None:
    """Returns the invoice that came in this file."""
    arrival = tx.one(
        "SELECT payable_id FROM payables_arrivals WHERE organization_id = ? AND file_id = ?", organization_id, file_id
    )
    return None if arrival is None else get(tx, organization_id, arrival[0])


def files_of(tx: Tx, row: PayableRow) -> list[FileRow]:
    """Returns the files that an invoice came in, the first one first."""
    arrivals = tx.all(
        "SELECT file_id FROM payables_arrivals WHERE organization_id = ? AND payable_id = ?",
        row.organization_id,
        row.id,
    )
    found = [file_by_id(tx, row.organization_id, file_id) for (file_id,) in arrivals]
    return sorted((file for file in found if file is not None), key=lambda file: (file.id != row.file_id, file.id))


# --- Payables


@short_read
def find(principal: Principal, payable_id: str) -> Rounds[PayableRow]:
    return ask_in_scope(PAYABLES, principal, "Payable", payable_id.lower())


def get(tx: Tx, organization_id: str, payable_id: str) -> PayableRow | None:
    return PAYABLES.one(tx, "organization_id = ? AND id = ?", organization_id, payable_id)


def twins(tx: Tx, organization_id: str, identity: str) -> list[PayableRow]:
    """Returns the invoices of the same seller with the same number and day, whatever their sums."""
    return PAYABLES.all(tx, "organization_id = ? AND identity = ? ORDER BY id", organization_id, identity)


def konto_by_tax_number(tx: Tx, books: tuple[str, str, str], tax_number: str) -> str:
    """Returns the creditor of the latest invoice with this tax number in these books; empty if there is none."""
    row = tx.one(
        "SELECT konto FROM payables WHERE organization_id = ? AND creditor_tax_number = ? AND connection_id = ?"
        " AND client_id = ? AND konto <> '' ORDER BY id DESC LIMIT 1",
        books[0], tax_number, *books[1:],
    )  # fmt: skip
    return row[0] if row else ""


def paid_to(tx: Tx, organization_id: str, konto: str) -> list[str]:
    """Returns the accounts that invoices of this creditor were paid to."""
    rows = tx.all(
        "SELECT DISTINCT creditor_iban FROM payables WHERE organization_id = ? AND konto = ?"
        " AND (status = 'paid' OR status = 'in_payment')",
        organization_id, konto,
    )  # fmt: skip
    return [iban for (iban,) in rows if iban]


class Filter(NamedTuple):
    status: str | None = None
    due_before: str | None = None
    creditor: str | None = None
    number: str | None = None
    from_id: str | None = None


def listing(tx: Tx, organizations: tuple[str, ...], wanted: Filter, limit: int) -> list[PayableRow]:
    """Returns payables in the order in which they came."""
    bounds: Iterable[tuple[str, Any]] = (
        ("status = ?", wanted.status),
        ("due_date < ?", wanted.due_before),
        ("konto = ?", wanted.creditor),
        ("number = ?", wanted.number),
        ("id > ?", wanted.from_id),
    )
    given = [(condition, value) for condition, value in bounds if value is not None]
    condition = "".join(f" AND {text}" for text, _ in given)
    return PAYABLES.all(
        tx,
        f"{in_scope(len(organizations))}{condition} ORDER BY id LIMIT ?",
        *organizations, *(value for _, value in given), limit,
    )  # fmt: skip


def latest(tx: Tx, organization_id: str, status: Status | None, before: str, limit: int) -> list[PayableRow]:
    """Returns the newest first; `before` is the id of the last one of the page before."""
    bounds = [("status = ?", status), ("id < ?", before or None)]
    given = [(condition, value) for condition, value in bounds if value is not None]
    condition = "".join(f" AND {text}" for text, _ in given)
    return PAYABLES.all(
        tx, f"organization_id = ?{condition} ORDER BY id DESC LIMIT ?",
        organization_id, *(value for _, value in given), limit,
    )  # fmt: skip


def newest(tx: Tx, organization_id: str, limit: int) -> list[DueRow]:
    """Returns so many invoices without what their files say, whatever became of them, the newest first."""
    return DUE.all(tx, "organization_id = ? ORDER BY id DESC LIMIT ?", organization_id, limit)


def waiting(tx: Tx, organization_id: str) -> dict[Status, int]:
    """Returns how many invoices wait where; not those that are paid or rejected."""
    rows = tx.all(
        f"SELECT status, COUNT(*) FROM payables WHERE organization_id = ? AND status IN ({', '.join('?' * len(OPEN))})"
        " GROUP BY status",
        organization_id, *OPEN,
    )  # fmt: skip
    return {status: int(number) for status, number in rows}


def find_due(tx: Tx, principal: Principal, payable_id: str) -> DueRow:
    return find_in_scope(tx, DUE, principal, "Payable", payable_id.lower())


def due(tx: Tx, organization_id: str, statuses: Sequence[Status], limit: int) -> list[DueRow]:
    """Returns the invoices that stand in one of these statuses, in the order in which they came."""
    is_one = f"({', '.join('?' * len(statuses))})"
    return DUE.all(
        tx, f"organization_id = ? AND status IN {is_one} ORDER BY id LIMIT ?", organization_id, *statuses, limit
    )


def due_in(tx: Tx, organization_id: str, payable_ids: Iterable[str]) -> dict[str, DueRow]:
    """Returns these invoices by id."""
    return {
        row.id: row
        for some, is_one in chunked(payable_ids)
        for row in DUE.all(tx, f"organization_id = ? AND id {is_one}", organization_id, *some)
    }


def by_beleg(tx: Tx, organization_id: str, konto: str, beleg: str) -> list[DueRow]:
    """Returns the invoices of a creditor that the books may have under this document number."""
    if len(beleg) < MAX_BELEG:
        return DUE.all(
            tx, "organization_id = ? AND number = ? AND konto = ? ORDER BY id", organization_id, beleg, konto
        )
    return DUE.all(
        tx, f"organization_id = ? AND konto = ? AND substr(number, 1, {MAX_BELEG}) = ? ORDER BY id",
        organization_id, konto, beleg,
    )  # fmt: skip


def by_document(tx: Tx, organization_id: str, guids: Iterable[str]) -> list[PayableRow]:
    """Returns the invoices with these GUIDs."""
    return [
        row
        for some, is_one in chunked(guids)
        for row in PAYABLES.all(
            tx, f"organization_id = ? AND document_guid {is_one} ORDER BY id", organization_id, *some
        )
    ]


# --- Steps


def record_step(tx: Tx, row: PayableRow | DueRow, action: str, user_id: str, actor: str, comment: str) -> None:
    STEPS.insert(tx, StepRow(row.organization_id, new_id(), row.id, action, user_id, actor, comment, tx.now))


def steps_of(tx: Tx, row: PayableRow | DueRow) -> list[StepRow]:
    return STEPS.all(tx, "organization_id = ? AND payable_id = ? ORDER BY id", row.organization_id, row.id)


# --- Settings


def settings_of(tx: Tx, organization_id: str) -> SettingsRow | None:
    return SETTINGS.one(tx, "organization_id = ?", organization_id)


def save_settings(tx: Tx, row: SettingsRow) -> None:
    if settings_of(tx, row.organization_id) is None:
        SETTINGS.insert(tx, row)
    else:
        SETTINGS.update(tx, row, **row._asdict())


# Files that no invoice could be read from, waiting for a person who types what they say or sets them aside.


NOTHING_PROPOSED = Proposal(None, None, None, None, None)
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


def add_unread(tx: Tx, file: FileRow, proposal: Proposal | None, note: str) -> None:
    text = msgspec.json.encode(proposal or NOTHING_PROPOSED).decode()
    UNREAD.insert(tx, UnreadRow(file.organization_id, file.id, text, note, tx.now))


def remove_unread(tx: Tx, organization_id: str, file_id: str) -> bool:
    """Returns whether it waited."""
    return bool(
        tx.run("DELETE FROM payables_unread WHERE organization_id = ? AND file_id = ?", organization_id, file_id)
    )


def latest_unread(tx: Tx, organization_id: str, limit: int) -> list[Waiting]:
    """Returns the newest first."""
    rows = UNREAD.all(tx, "organization_id = ? ORDER BY file_id DESC LIMIT ?", organization_id, limit)
    found = [(row, file_by_id(tx, organization_id, row.file_id)) for row in rows]
    return [Waiting(row, file) for row, file in found if file is not None]


def find_unread(tx: Tx, organization_id: str, file_id: str) -> UnreadRow | None:
    return UNREAD.one(tx, "organization_id = ? AND file_id = ?", organization_id, file_id)
