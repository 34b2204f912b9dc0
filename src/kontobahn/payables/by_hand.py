"""A payable typed by hand from a file that no invoice could be read from: a PDF without XML, a scan. The file stays what is kept."""

from __future__ import annotations

from datetime import date
from decimal import Decimal
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from kontobahn.api.answers import Data
from kontobahn.api.call import Call
from kontobahn.api.declare import post
from kontobahn.api.wire import Body, Uuid, form
from kontobahn.banking.payments.wire import Amount
from kontobahn.db import Tx
from kontobahn.errors import BadRequest, Conflict
from kontobahn.formats.invoices.checks import is_iban
from kontobahn.formats.invoices.model import (
    CREDIT_NOTE,
    INVOICE,
    SEPA_TRANSFER,
    CreditTransfer,
    Discount,
    Finding,
    Invoice,
    Party,
    Payment,
    Totals,
)
from kontobahn.formats.pain import sepa
from kontobahn.ledger.wire import words_on_one_line
from kontobahn.money import to_minor
from kontobahn.payables import intake, store
from kontobahn.payables.intake import Arrival, Paper, Understood
from kontobahn.payables.rules import bare
from kontobahn.payables.store import FileRow
from kontobahn.payables.wire import Payable, payable_view
from kontobahn.sentences import said

BY_HAND = "by_hand"
_FIRST_DAY, _LAST_DAY = date(2000, 1, 1), date(2099, 12, 31)
Line = Annotated[str, words_on_one_line(200)]
Rate = Annotated[Decimal, Meta(description="In percent, with Skonto days.", examples=[2])]


class NewPayable(Body, kw_only=True):
    file_id: Annotated[Uuid, Meta(description="The file that it is typed from, which is kept.")]
    creditor_name: Annotated[Line, Meta(examples=["Beispiel Bürobedarf GmbH"])]
    number: Annotated[Line, Meta(examples=["RE-2026-00123"])]
    issue_date: date
    total: Annotated[Amount, Meta(description="With VAT; positive for a credit note too.")]
    kind: Literal["invoice", "credit_note"] = "invoice"
    due_date: date | None = None
    currency_code: Annotated[str, form("a currency like EUR", r"^[A-Z]{3}$", examples=["EUR"])] = "EUR"
    vat_amount: Annotated[Amount, Meta(description="The VAT in it.")] | None = None
    iban: Annotated[str, Meta(max_length=50, description="Where it is paid to.")] | None = None
    vat_id: Annotated[str, form("a VAT id", r"^[A-Z]{2}[A-Z0-9]{2,13}$", examples=["DE136695976"])] | None = None
    skonto_percent: Rate | None = None
    skonto_days: Annotated[int, Meta(ge=1, le=365)] | None = None


@post(
    "/v2/payables",
    scope="payables:write",
    statuses=(201, 200),
    errors=(403, 404, 409),
    body_example={
        "file_id": "01930000-0000-7000-8000-0000a1b2c3d4",
        "creditor_name": "Beispiel Bürobedarf GmbH",
        "number": "RE-2026-00123",
        "issue_date": "2026-03-31",
        "total": "119.00",
        "iban": "DE02120300000000202051",
    },
)
async def create_payable(call: Call, body: NewPayable) -> Data[Payable]:
    """Enter an invoice by hand that could not be read from its file, which `POST /v2/payables/files` kept.

    200 with the payable there is, if the file has one, or its seller, number, day and total are known.
    """
    invoice = _invoice(body)
    file, content = await call.read(_file, call, body.file_id)
    arrival = Arrival(
        file.organization_id, file.file_name, file.sha256, content, call.actor, call.principal.user_id or ""
    )
    books = await intake.books_for(call.context, call.principal, file.organization_id, None, None)
    findings = msgspec.json.decode(file.refused, type=list[Finding])
    understood = await intake.recognise(
        call.context, file.organization_id, Paper(invoice, BY_HAND, "", findings, ()), books
    )
    return await call.commit(_enter, call, arrival, understood)


def _file(tx: Tx, call: Call, file_id: str) -> tuple[FileRow, bytes]:
    file = store.find_file(tx, call.principal, file_id)
    if not file.refused:
        raise Conflict("An invoice could be read from this file. It is not typed by hand.")
    return file, store.content_of(tx, file)


def _enter(tx: Tx, call: Call, arrival: Arrival, understood: Understood) -> Data[Payable]:
    row, is_new = intake.enter(tx, arrival, understood)
    call.status = 201 if is_new else 200
    return Data(payable_view(row))


def _invoice(body: NewPayable) -> Invoice:
    """Returns what was typed as an invoice. Raises BadRequest."""
    total = _minor("total", body.total)
    vat = None if body.vat_amount is None else _minor("vat_amount", body.vat_amount)
    if vat is not None and vat >= total:
        raise BadRequest("The field `vat_amount` must be less than the total.", field="vat_amount")
    for field, day in (("issue_date", body.issue_date), ("due_date", body.due_date)):
        if day is not None and not _FIRST_DAY <= day <= _LAST_DAY:
            raise BadRequest(said("The field `{path}` must be a day between 2000 and 2099.", path=field), field=field)
    if body.due_date is not None and body.due_date < body.issue_date:
        raise BadRequest("The field `due_date` must not be before the day of the invoice.", field="due_date")
    iban = bare(body.iban or "")
    if body.iban and not is_iban(iban):
        raise BadRequest("The field `iban` must be a valid IBAN.", field="iban")
    return Invoice(
        number=body.number.strip(), type_code=CREDIT_NOTE if body.kind == "credit_note" else INVOICE,
        issued_on=body.issue_date, currency=body.currency_code,
        seller=Party(body.creditor_name.strip(), None, vat_id=body.vat_id), buyer=Party("", None),
        lines=(), vat_breakdown=(),
        totals=Totals(None, None if vat is None else total - vat, vat, total, total),
        payment=Payment(
            SEPA_TRANSFER if iban else None, due_on=body.due_date, transfers=[CreditTransfer(iban)] if iban else [],
            discounts=_discounts(body),
        ),
    )  # fmt: skip


def _discounts(body: NewPayable) -> list[Discount]:
    percent, days = body.skonto_percent, body.skonto_days
    if percent is None and days is None:
        return []
    if percent is None or days is None:
        missing = "skonto_percent" if percent is None else "skonto_days"
        raise BadRequest("Skonto needs both, the percentage and the days.", field=missing)
    if not 0 < percent < 100:
        raise BadRequest("The field `skonto_percent` must lie between 0 and 100.", field="skonto_percent")
    return [Discount(percent, days=days)]


def _minor(field: str, amount: Decimal) -> int:
    try:
        minor = to_minor(amount)
        sepa.check_amount(field, minor)
    except (sepa.NotSepa, ValueError) as error:
        reason = error.reason if isinstance(error, sepa.NotSepa) else error
        raise BadRequest(said("The field `{path}` {reason}.", path=field, reason=reason), field=field) from None
    return minor
