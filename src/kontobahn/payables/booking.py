"""Received invoices in built-in books: the accounts that a person accepts, and the booking, at once or with the release.

Nothing is booked by a proposal. A booking opens the item that the payment closes, and carries the due day and the GUID of the
document, under which the adviser gets the file. What is accepted and not booked here waits to be handed over (`handover.py`).
"""

from __future__ import annotations

from datetime import date
from decimal import Decimal
from typing import Annotated, Literal, NamedTuple

import msgspec
from msgspec import Meta

from kontobahn.access import audit
from kontobahn.access.audit import Actor
from kontobahn.api.answers import Data
from kontobahn.api.call import Call
from kontobahn.api.declare import get, put
from kontobahn.api.wire import Answer, Body, Timestamp, Uuid, form
from kontobahn.banking.payments.wire import Amount
from kontobahn.clock import optional_datetime
from kontobahn.db import Table, Tx
from kontobahn.errors import BadRequest, Conflict
from kontobahn.ledger.buchungen import EUR, GebuchteBuchungen, NeueBuchung
from kontobahn.ledger.connections import ERRORS, open_books
from kontobahn.ledger.konto import is_personenkonto, technical
from kontobahn.ledger.provider import Author, ClientBooks, Effect
from kontobahn.ledger.wire import Kontonummer
from kontobahn.money import amount_text, from_minor, to_minor
from kontobahn.payables import store
from kontobahn.payables.rules import Status, beleg_of
from kontobahn.payables.store import PayableRow
from kontobahn.sentences import said

State = Literal["none", "accepted", "booked", "known", "handed_over"]
MAX_ROWS, _MAX_TEXT = 20, 60
# An invoice that is released stays so for the books, whatever its payment does.
RELEASED: tuple[Status, ...] = ("released", "in_payment", "paid")


class BookingAccount(Body, kw_only=True):
    konto: Kontonummer
    amount: Annotated[Amount, Meta(description="Gross, above 0, for a credit note too.")]
    steuer: Annotated[str, form("a tax key of up to 4 digits", r"^[0-9]{0,4}$", examples=["9"])] = ""


class NewPayableBooking(Body, kw_only=True):
    accounts: Annotated[
        list[BookingAccount], Meta(min_length=1, max_length=MAX_ROWS, description="Together the total of the invoice.")
    ]


class BookedAccount(Answer):
    konto: Annotated[str, Meta(description="In full.")]
    amount: Decimal
    steuer: str


class PayableBooking(Answer, kw_only=True):
    payable_id: Uuid
    state: Annotated[
        State,
        Meta(
            description="`none`: nobody has accepted accounts. `accepted`: it will be booked with the release, or waits to be handed over."
            " `booked`. `known`: the books had the document already. `handed_over`: whoever keeps the books has got it."
        ),
    ]
    accounts: list[BookedAccount]
    import_ids: Annotated[list[Uuid], Meta(description="What it can be undone by in the books.")]
    booked_at: Timestamp | None
    handover_id: Uuid | None


class BookingRow(NamedTuple):
    organization_id: str
    payable_id: str
    accounts: str
    state: Literal["accepted", "booked", "known"]
    import_ids: str
    accepted_by: str
    accepted_at: int
    booked_at: int | None
    handover_id: str | None = None


class Account(NamedTuple):
    konto: str
    steuer: str
    amount_minor: int


BOOKINGS = Table("payables_bookings", BookingRow, key=("organization_id", "payable_id"))
accounts_of = msgspec.json.Decoder(list[Account]).decode


# --- The calls


@get("/v2/payables/{id}/booking", scope="payables:read", errors=(403, 404))
async def get_payable_booking(call: Call, id: Uuid) -> Data[PayableBooking]:
    """Read the accounts that were accepted for an invoice, and whether it is booked."""

    def unit(tx: Tx) -> PayableBooking:
        row = store.find(tx, call.principal, id)
        return view(row.id, of_payable(tx, row))

    return Data(await call.read(unit))


@put(
    "/v2/payables/{id}/booking",
    scope="payables:write", also_scope="ledger:write", errors=ERRORS,
    body_example={"accounts": [{"konto": "4930", "amount": 33.02, "steuer": "9"}]},
)  # fmt: skip
async def accept_accounts(call: Call, id: Uuid, body: NewPayableBooking) -> Data[PayableBooking]:
    """Accept the accounts and tax keys of an invoice: it is booked now, with the release, or handed over, as the settings say.

    The amounts must sum to the invoice's total. 409 if it is booked (undo that in the books first) or was handed over.
    """
    row = await call.read_inline(store.find, call.principal, id)
    _check(row, body)
    access = await open_books(call.context, call.principal, row.connection_id, row.client_id or None)
    async with access.to("buchungen") as books:
        accounts = await _in_full(books, body)
        is_due = await call.read(_is_due, row)
        writing = await _prepare(books, row, accounts, _author(call)) if is_due else None
        return await call.commit(_accept, row, accounts, writing, call.actor)


def _check(row: PayableRow, body: NewPayableBooking) -> None:
    if not row.konto:
        raise Conflict("Say first whose invoice it is.", status=row.status)
    if row.status == "rejected":
        raise Conflict("A rejected invoice is not booked.", status=row.status)
    if row.currency_code != EUR:
        raise Conflict("Only invoices in euros are booked from here.", status=row.status)
    total = sum(to_minor(one.amount) for one in body.accounts)
    if any(to_minor(one.amount) <= 0 for one in body.accounts) or total != abs(row.total_minor):
        raise BadRequest(
            said(
                "The amounts must each be above 0 and sum to {total}, not to {found}.",
                total=amount_text(abs(row.total_minor)),
                found=amount_text(total),
            ),
            field="accounts",
        )


async def _in_full(books: ClientBooks, body: NewPayableBooking) -> list[Account]:
    years = await books.geschaeftsjahre()
    length = max(years).konto_laenge if years else 4
    found = []
    for number, one in enumerate(body.accounts):
        path = f"accounts[{number}].konto"
        try:
            konto = technical(one.konto, length)
        except ValueError as error:
            raise BadRequest(said("The field `{path}` {reason}.", path=path, reason=error), field=path) from None
        if is_personenkonto(konto):
            raise BadRequest(said("The field `{path}` must be no person account.", path=path), field=path)
        found.append(Account(konto, one.steuer, to_minor(one.amount)))
    return found


def _author(call: Call) -> Author:
    return Author(call.request_id, call.quelle, call.actor.name)


# --- Booking


class Writing(NamedTuple):
    """The booking of an invoice, ready to be written; `booked` is None if the books have the document."""

    booked: Effect[GebuchteBuchungen] | None


async def _prepare(books: ClientBooks, row: PayableRow, accounts: list[Account], author: Author) -> Writing:
    known = await books.bookings_of_document(row.konto, beleg_of(row.number), "", 1)
    if (known.haben if row.total_minor > 0 else known.soll) >= abs(row.total_minor) > 0:
        return Writing(None)
    bookings = [
        NeueBuchung(
            umsatz=from_minor(one.amount_minor),
            sollHabenKennzeichen="HABEN" if row.total_minor > 0 else "SOLL",
            konto=row.konto,
            gegenkonto=one.konto,
            buSchluessel=one.steuer or None,
            belegdatum=date.fromisoformat(row.issue_date),
            belegfeld1=beleg_of(row.number),
            buchungstext=text_of(row) or None,
            faelligkeit=date.fromisoformat(row.due_date) if row.due_date else None,
        )
        for one in accounts
    ]
    return Writing(await books.book(bookings, author, another=False, document=row.document_guid))


def text_of(row: PayableRow) -> str:
    return " ".join(row.creditor_name.split())[:_MAX_TEXT]


async def prepare_release(call: Call, payable_id: str) -> Writing | None:
    """Returns the booking that the release of an invoice brings; None if it brings none."""

    def unit(tx: Tx) -> tuple[PayableRow, BookingRow | None, str]:
        row = store.find(tx, call.principal, payable_id)
        settings = store.settings_of(tx, row.organization_id)
        return row, of_payable(tx, row), settings.book_on if settings else ""

    row, accepted, book_on = await call.read(unit)
    if book_on != "release" or accepted is None or accepted.state != "accepted" or row.status != "to_release":
        return None
    access = await open_books(call.context, call.principal, row.connection_id, row.client_id or None)
    async with access.to("buchungen") as books:
        return await _prepare(books, row, accounts_of(accepted.accounts), _author(call))


def book_released(tx: Tx, row: PayableRow, writing: Writing | None, actor: Actor) -> None:
    """Books an invoice that has just been released."""
    accepted = of_payable(tx, row)
    if writing is not None and accepted is not None and accepted.state == "accepted" and row.status in RELEASED:
        _book(tx, row, accepted, writing, actor)


def _is_due(tx: Tx, row: PayableRow) -> bool:
    """Returns whether accounts that are accepted now are booked at once."""
    settings = store.settings_of(tx, row.organization_id)
    book_on = settings.book_on if settings else ""
    return book_on == "acceptance" or (book_on == "release" and row.status in RELEASED)


def _accept(
    tx: Tx, found: PayableRow, accounts: list[Account], writing: Writing | None, actor: Actor
) -> Data[PayableBooking]:
    store.lock(tx, found.organization_id)
    row = store.get(tx, found.organization_id, found.id)
    earlier = of_payable(tx, found)
    if row is None or row.konto != found.konto or row.status == "rejected" or _is_due(tx, row) != (writing is not None):
        raise Conflict("This invoice has changed in the meantime. Try again.").retryable()
    if earlier is not None and earlier.state == "booked" and (writing is None or writing.booked is None):
        raise Conflict("This invoice is booked: undo its booking in the books first.", status=row.status)
    if earlier is not None and earlier.handover_id is not None:
        raise Conflict("This invoice was handed over: whoever keeps the books changes it there.", status=row.status)
    text = msgspec.json.encode(accounts).decode()
    accepted = BookingRow(row.organization_id, row.id, text, "accepted", "", actor.name, tx.now, None)
    if earlier is None:
        BOOKINGS.insert(tx, accepted)
    else:
        BOOKINGS.update(tx, earlier, **accepted._asdict())
    store.record_step(tx, row, "accept", "", actor.name, "")
    if writing is not None:
        accepted = _book(tx, row, accepted, writing, actor)
    return Data(view(row.id, accepted))


def _book(tx: Tx, row: PayableRow, accepted: BookingRow, writing: Writing, actor: Actor) -> BookingRow:
    imports = [] if writing.booked is None else writing.booked(tx).importe
    store.record_step(tx, row, "book", "", actor.name, "")
    audit.record(tx, row.organization_id, actor, "payable.book", row.id, number=row.number, imports=" ".join(imports))
    return BOOKINGS.update(
        tx, accepted, state="known" if writing.booked is None else "booked", import_ids=" ".join(imports),
        booked_at=tx.now,
    )  # fmt: skip


# --- Rows


def of_payable(tx: Tx, row: PayableRow) -> BookingRow | None:
    return BOOKINGS.one(tx, "organization_id = ? AND payable_id = ?", row.organization_id, row.id)


def view(payable_id: str, row: BookingRow | None) -> PayableBooking:
    if row is None:
        return PayableBooking(
            payable_id=payable_id, state="none", accounts=[], import_ids=[], booked_at=None, handover_id=None
        )
    return PayableBooking(
        payable_id=payable_id, state="handed_over" if row.handover_id else row.state,
        accounts=[BookedAccount(one.konto, from_minor(one.amount_minor), one.steuer) for one in accounts_of(row.accounts)],
        import_ids=row.import_ids.split(), booked_at=optional_datetime(row.booked_at), handover_id=row.handover_id,
    )  # fmt: skip
