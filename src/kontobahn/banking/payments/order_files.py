"""Files that hold several orders from one account: made, found, handed out, discarded; and which payments a report is about.

An order is in one file at a time, and not handed out by itself while it is: uploaded twice it would be paid twice.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Sequence
from typing import Literal, NamedTuple

from kontobahn.access.principal import Principal, find_in_scope, in_scope
from kontobahn.banking import accounts, numbers
from kontobahn.banking.payments import store
from kontobahn.banking.payments.create import as_order
from kontobahn.banking.payments.store import PAYMENTS, PaymentRow
from kontobahn.banking.payments.transitions import AWAITING_PAYER
from kontobahn.banking.provider import Banking, PaymentOrder
from kontobahn.clock import DAY
from kontobahn.db import Table, Tx
from kontobahn.errors import BadRequest, Conflict
from kontobahn.formats.statements import ReportedStatus

MESSAGE_PREFIX = "KBF"
MAX_PAYMENTS = 1000
_AWAITING = tuple(sorted(AWAITING_PAYER))
_IS_AWAITING = f"status IN ({', '.join('?' * len(_AWAITING))})"


OrderFileStatus = Literal["open", "void", "discarded"]


class OrderFileRow(NamedTuple):
    organization_id: str
    id: int
    provider: str
    account_id: int
    message_id: str
    debtor_name: str
    payments: int
    amount_minor: int
    created_at: int
    expires_at: int
    discarded_at: int | None


ORDER_FILES = Table("banking_order_files", OrderFileRow)


class Selection(NamedTuple):
    """Which orders are to be in a file: these payments, or all open ones of the account."""

    account_id: int | None
    payment_ids: Sequence[int] | None
    # Also orders that were fetched one by one; whoever says so knows that those files were not uploaded.
    include_taken: bool


def create(tx: Tx, principal: Principal, wanted: Selection, banking: Banking, days: int) -> OrderFileRow:
    """Puts orders into a new file. Raises Conflict, naming the payment, if one is not free for it."""
    rows = _open_of_account(tx, principal, wanted) if wanted.payment_ids is None else _named(tx, principal, wanted)
    first = rows[0]
    provider = banking.provider(first.provider)
    if not provider.orders_are_files:
        raise Conflict("Payments from this account are authorised at their `payment_url`; there are no files for them.")
    orders = [as_order(tx, row) for row in rows]
    number = numbers.take(tx, first.organization_id, "order_file")
    message_id = f"{MESSAGE_PREFIX}{number}-{secrets.token_hex(4).upper()}"
    written = provider.order_file(message_id, tx.now, orders)
    file = OrderFileRow(
        organization_id=first.organization_id, id=number, provider=first.provider, account_id=first.account_id,
        message_id=message_id, debtor_name=orders[0].debtor_name, payments=len(rows),
        amount_minor=sum(row.amount_minor for row in rows), created_at=tx.now,
        expires_at=max(tx.now + days * DAY, *(row.expires_at or 0 for row in rows)), discarded_at=None,
    )  # fmt: skip
    ORDER_FILES.insert(tx, file)
    tx.many(
        "INSERT INTO banking_order_file_payments (organization_id, order_file_id, payment_id, instruction_id)"
        " VALUES (?, ?, ?, ?)",
        [(file.organization_id, number, row.id, written.instruction_ids[row.end_to_end_id]) for row in rows],
    )
    # Decided again in the UPDATE: one of them may have been fetched, cancelled or put into another file meanwhile.
    taken = tx.run(
        "UPDATE banking_payments SET order_file_id = ?, order_taken_at = COALESCE(order_taken_at, ?)"
        f" WHERE organization_id = ? AND id IN ({', '.join('?' * len(rows))}) AND order_file_id IS NULL"
        f" AND (order_taken_at IS NULL OR ? = 1) AND {_IS_AWAITING}",
        number, tx.now, file.organization_id, *(row.id for row in rows), int(wanted.include_taken), *_AWAITING,
    )  # fmt: skip
    if taken != len(rows):
        raise Conflict("One of these payments has changed in the meantime. Try again.")
    return file


def _open_of_account(tx: Tx, principal: Principal, wanted: Selection) -> list[PaymentRow]:
    assert wanted.account_id is not None
    account = accounts.find(tx, principal, str(wanted.account_id))
    rows = PAYMENTS.all(
        tx,
        "organization_id = ? AND account_id = ? AND provider_ref IS NOT NULL AND order_file_id IS NULL"
        f" AND (order_taken_at IS NULL OR ? = 1) AND {_IS_AWAITING} AND (expires_at IS NULL OR expires_at > ?)"
        " ORDER BY id LIMIT ?",
        account.organization_id, account.id, int(wanted.include_taken), *_AWAITING, tx.now, MAX_PAYMENTS,
    )  # fmt: skip
    if not rows:
        raise Conflict("There are no open orders from this account that are not yet in a file.")
    return rows


def _named(tx: Tx, principal: Principal, wanted: Selection) -> list[PaymentRow]:
    rows: list[PaymentRow] = []
    for payment_id in dict.fromkeys(wanted.payment_ids or ()):
        row = store.find(tx, principal, str(payment_id))
        if row.account_id != (wanted.account_id or (rows[0] if rows else row).account_id):
            raise BadRequest("The field `payment_ids` must name payments from one account.", field="payment_ids")
        _check_free(row, include_taken=wanted.include_taken)
        rows.append(row)
    return rows


def _check_free(row: PaymentRow, *, include_taken: bool) -> None:
    if row.status not in AWAITING_PAYER:
        raise Conflict(f"The payment {row.id} is {row.status}.")
    if row.provider_ref is None:
        raise Conflict(f"The payment {row.id} has not been accepted yet. Try again in a few minutes.")
    if row.order_file_id is not None:
        raise Conflict(f"The payment {row.id} is in the order file {row.order_file_id}.")
    if row.order_taken_at is not None and not include_taken:
        raise Conflict(
            f"The order of payment {row.id} was fetched on its own. If it was not uploaded, send `include_taken`."
        )


# --- Found, handed out, discarded


def find(tx: Tx, principal: Principal, order_file_id: str) -> OrderFileRow:
    return find_in_scope(tx, ORDER_FILES, principal, "Order file", int(order_file_id))


def get(tx: Tx, organization_id: str, order_file_id: int) -> OrderFileRow | None:
    return ORDER_FILES.one(tx, "organization_id = ? AND id = ?", organization_id, order_file_id)


def listing(tx: Tx, organizations: Sequence[str], account_id: int | None, limit: int) -> list[OrderFileRow]:
    """Returns order files, newest first."""
    only, params = ("", ()) if account_id is None else (" AND account_id = ?", (account_id,))
    return ORDER_FILES.all(
        tx,
        f"{in_scope(len(organizations))}{only} ORDER BY created_at DESC, id DESC LIMIT ?",
        *organizations, *params, limit,
    )  # fmt: skip


def latest(tx: Tx, organization_id: str, before: int | None, limit: int) -> list[OrderFileRow]:
    """An organisation's order files, the last one made first; from the one before the given id on."""
    only, params = ("", ()) if before is None else (" AND id < ?", (before,))
    return ORDER_FILES.all(tx, f"organization_id = ?{only} ORDER BY id DESC LIMIT ?", organization_id, *params, limit)


def payments_of(tx: Tx, file: OrderFileRow) -> list[PaymentRow]:
    """Returns the payments that the file holds, in its order."""
    return PAYMENTS.all(
        tx,
        "organization_id = ? AND id IN (SELECT payment_id FROM banking_order_file_payments"
        " WHERE organization_id = ? AND order_file_id = ?) ORDER BY id",
        file.organization_id, file.organization_id, file.id,
    )  # fmt: skip


def status_of(file: OrderFileRow, rows: list[PaymentRow]) -> OrderFileStatus:
    """Whether a file with these payments is still to be uploaded."""
    if file.discarded_at is not None:
        return "discarded"
    return "void" if is_void(rows) else "open"


def is_void(rows: Iterable[PaymentRow]) -> bool:
    """Whether the file must not be uploaded any more, because one of its payments has failed or was cancelled."""
    return any(row.status in ("failed", "rejected") for row in rows)


def orders_of(tx: Tx, file: OrderFileRow) -> list[PaymentOrder]:
    """Returns the orders as they stand in the file. Raises Conflict if it must not be uploaded any more."""
    rows = payments_of(tx, file)
    if file.discarded_at is not None:
        raise Conflict("This order file was discarded.")
    if is_void(rows):
        raise Conflict(
            "A payment in this order file has failed or was cancelled. If the file was not uploaded, discard it and make another."
        )
    return [as_order(tx, row)._replace(debtor_name=file.debtor_name) for row in rows]


def discard(tx: Tx, file: OrderFileRow) -> OrderFileRow:
    """Frees the orders of a file that was not uploaded. Raises Conflict if the bank has reported on one of them."""
    tx.lock("banking_order_file", file.organization_id, str(file.id))
    again = get(tx, file.organization_id, file.id)
    assert again is not None
    if again.discarded_at is not None:
        return again
    # In the UPDATE: the bank may report on one of them at this moment.
    tx.run(
        "UPDATE banking_payments SET order_file_id = NULL, order_taken_at = NULL"
        f" WHERE organization_id = ? AND order_file_id = ? AND ({_IS_AWAITING} OR error_class IS NOT NULL)",
        file.organization_id, file.id, *_AWAITING,
    )  # fmt: skip
    for row in payments_of(tx, again):
        if row.order_file_id == file.id:
            raise Conflict(f"The payment {row.id} of this file is {row.status}: the bank has the file.")
    return ORDER_FILES.update(tx, again, discarded_at=tx.now)


# --- Reported on


def reported_on(tx: Tx, organization_id: str, item: ReportedStatus) -> list[int]:
    """Returns the ids of the payments that an item of a status report is about: one, those of an instruction, or a whole file."""
    if item.level == "transaction":
        row = store.by_end_to_end_id(tx, organization_id, item.end_to_end_id) if item.end_to_end_id else None
        return [] if row is None else [row.id]
    # A file with one order has the end-to-end id of its payment as message id.
    single = store.by_end_to_end_id(tx, organization_id, item.message_id)
    if single is not None:
        return [single.id]
    only, params = ("", ()) if item.level == "group" else (" AND p.instruction_id = ?", (item.payment_information_id,))
    found = tx.all(
        "SELECT p.payment_id FROM banking_order_files f JOIN banking_order_file_payments p"
        " ON p.organization_id = f.organization_id AND p.order_file_id = f.id"
        f" WHERE f.organization_id = ? AND f.message_id = ?{only} ORDER BY p.payment_id",
        organization_id, item.message_id, *params,
    )  # fmt: skip
    return [int(payment_id) for (payment_id,) in found]
