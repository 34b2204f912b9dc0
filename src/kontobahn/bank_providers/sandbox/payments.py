"""Payments at the sandbox bank: ordered, authorised by the payer on a page, then executed by the bank's clock.

A payment's plan decides what happens to it. Every change queues a report.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterator
from datetime import date, datetime
from decimal import Decimal
from typing import Any, NamedTuple

from lxml import etree

from kontobahn.bank_providers.file_payments import address_of
from kontobahn.bank_providers.sandbox import bank, store, webhooks
from kontobahn.bank_providers.sandbox.rules import (
    APP_ERRORS,
    MESSAGES,
    PLANS,
    Booking,
    Person,
    Plan,
    PlanStep,
    check_payee,
    choose_plan,
    purpose,
)
from kontobahn.banking.payments.rules import TRANSITIONS
from kontobahn.banking.provider import (
    CANCELLED,
    PayeeFinding,
    PayeeResult,
    PaymentOrder,
    PaymentReport,
    ProviderRefused,
    Template,
)
from kontobahn.clock import HOUR, SECOND, berlin_date, berlin_datetime, start_of_day
from kontobahn.db import Table, Tx
from kontobahn.errors import BadRequest
from kontobahn.formats.pain import sepa
from kontobahn.formats.pain.sepa import MAX_LINES, Address
from kontobahn.ids import new_id
from kontobahn.money import to_minor
from kontobahn.xml_text import PARSER_OPTIONS

# Order files at the sandbox bank: what it refuses of a payment, with its reason code, and its status report (pain.002).
# Pure.
#
# Nothing is booked: the accounts that files are paid from are kept elsewhere.


# Between these countries a payment needs neither the address of the payee nor the BIC of the payee's bank.
EEA = frozenset({
    "AT", "BE", "BG", "CY", "CZ", "DE", "DK", "EE", "ES", "FI", "FR", "GR", "HR", "HU", "IE", "IS", "IT", "LI", "LT", "LU",
    "LV", "MT", "NL", "NO", "PL", "PT", "RO", "SE", "SI", "SK",
})  # fmt: skip
MAX_ORDER_FILE_BYTES = 20_000_000
_OLDEST_VERSION = 9
_AMOUNT = re.compile(r"[0-9]{1,9}(?:\.[0-9]{1,2})?")
_REPORT = "urn:iso:std:iso:20022:tech:xsd:pain.002.001.10"
_LINE = 105
_PAYEE_CODES: dict[PayeeResult, str] = {
    "match": "RCVC", "close_match": "RVMC", "no_match": "RVNM", "not_possible": "RVNA", "pending": "PDNG",
}  # fmt: skip


class Refused(NamedTuple):
    """A reason code of ISO 20022, and what the bank says with it."""

    code: str
    sentence: str


class Payee(NamedTuple):
    iban: str
    bic: str | None
    # Without a town or a country it is an address in lines alone.
    address: Address | None


def refusal(payee: Payee) -> Refused | None:
    """Returns why a bank would refuse to pay this payee; None if it would not."""
    try:
        iban = sepa.check_iban("creditor_iban", payee.iban)
    except sepa.NotSepa as error:
        return Refused("AC03", f"The payee's IBAN {error.reason}.")
    address = payee.address
    if address is not None and (wrong := _wrong_address(address)):
        return wrong
    if iban[:2] not in EEA:
        if address is None:
            return Refused("BE04", "The payee's address is missing: outside the EEA it is required.")
        if not payee.bic:
            return Refused("RC04", "The BIC of the payee's bank is missing: outside the EEA it is required.")
    return None


# Since November 2026 banks refuse addresses in lines alone.
def _wrong_address(address: Address) -> Refused | None:
    if not address.country or not address.town:
        return Refused("BE04", "The payee's address has no town and country in fields of their own.")
    if len(address.country) != 2 or not address.country.isalpha():
        return Refused("BE11", "The country of the payee's address is no country code.")
    if len(address.lines) > MAX_LINES:
        return Refused("BE04", f"The payee's address has more than {MAX_LINES} lines beside its fields.")
    if any(address.town.casefold() in line.casefold() for line in address.lines):
        return Refused("BE04", "A line of the payee's address repeats the town.")
    return None


# --- A file, and the report on it


class Ordered(NamedTuple):
    instruction_id: str
    end_to_end_id: str
    amount: str
    currency: str
    name: str
    template: Template
    day: date | None
    payee: Payee


class Answer(NamedTuple):
    report: bytes
    accepted: int
    refused: int


def answer_order_file(content: bytes, now: datetime, *, payees: bool = False) -> Answer:
    """Reads a pain.001, and returns the status report on it; with `payees` that of the check of payees, before anybody authorises.

    Raises BadRequest if it is no such file.
    """
    root = _parsed(content)
    space = etree.QName(root).namespace or ""
    message = _find(root, "CstmrCdtTrfInitn")
    if message is None or ":pain.001." not in space:
        raise BadRequest("The file holds no credit transfers (pain.001).", field="file")
    message_id = _text(message, "GrpHdr/MsgId")
    if not message_id:
        raise BadRequest("The file has no id (GrpHdr/MsgId).", field="file")
    report = etree.Element(f"{{{_REPORT}}}CstmrPmtStsRpt", nsmap={None: _REPORT})
    head = _add(report, "GrpHdr")
    _add(head, "MsgId", f"SB{now:%Y%m%d%H%M%S%f}")
    _add(head, "CreDtTm", now.isoformat(timespec="seconds"))
    group = _add(report, "OrgnlGrpInfAndSts")
    _add(group, "OrgnlMsgId", message_id)
    name = space.rpartition(":")[2]
    _add(group, "OrgnlMsgNmId", name)
    orders = list(_orders(message))
    version = name.rpartition(".")[2]
    if not version.isdecimal() or int(version) < _OLDEST_VERSION:
        _add(group, "GrpSts", "RJCT")
        _reason(group, Refused("FF01", f"{name} is not taken any more: send pain.001.001.09."))
        return Answer(_document(report), 0, len(orders))
    statuses = [_payee_status(order) if payees else _status(order, now.date()) for order in orders]
    refused = sum(status == "RJCT" for status, _ in statuses)
    if orders and refused == len(orders):
        _add(group, "GrpSts", "RJCT")
    _add_payments(report, orders, statuses)
    return Answer(_document(report), len(orders) - refused, refused)


def _parsed(content: bytes) -> etree._Element:
    if len(content) > MAX_ORDER_FILE_BYTES:
        raise BadRequest("The file is too large.", field="file")
    try:
        parser = etree.XMLParser(**PARSER_OPTIONS)
        return etree.fromstring(content, parser)
    except (etree.XMLSyntaxError, ValueError) as error:
        raise BadRequest("The file cannot be read as XML.", field="file") from error


def _orders(message: etree._Element) -> Iterator[Ordered]:
    for payment in _all(message, "PmtInf"):
        is_instant = _text(payment, "PmtTpInf/LclInstrm/Cd") == "INST"
        for transfer in _all(payment, "CdtTrfTxInf"):
            amount = _find(transfer, "Amt/InstdAmt")
            yield Ordered(
                instruction_id=_text(payment, "PmtInfId"),
                end_to_end_id=_text(transfer, "PmtId/EndToEndId"),
                amount="" if amount is None else (amount.text or "").strip(),
                currency="" if amount is None else amount.get("Ccy", ""),
                name=_text(transfer, "Cdtr/Nm"),
                template="SEPA_INSTANT" if is_instant else "SEPA",
                day=_day(_text(payment, "ReqdExctnDt/Dt")),
                payee=Payee(
                    _text(transfer, "CdtrAcct/Id/IBAN"),
                    _text(transfer, "CdtrAgt/FinInstnId/BICFI") or None,
                    _address(_find(transfer, "Cdtr/PstlAdr")),
                ),
            )


def _address(element: etree._Element | None) -> Address | None:
    if element is None:
        return None
    lines = tuple((line.text or "").strip() for line in _all(element, "AdrLine"))
    return Address(_text(element, "Ctry"), _text(element, "TwnNm"), lines=lines)


def _day(text: str) -> date | None:
    try:
        return date.fromisoformat(text)
    except ValueError:
        return None


def _status(order: Ordered, today: date) -> tuple[str, Refused | None]:
    if not _AMOUNT.fullmatch(order.amount):
        return "RJCT", Refused("AM12", "The amount is not one in euros and cents.")
    if order.day is None or order.day < today:
        return "RJCT", Refused("DT01", "The day of execution has passed or is none.")
    if (found := refusal(order.payee)) is not None:
        return "RJCT", found
    plan = choose_plan(order.name, to_minor(Decimal(order.amount)), order.template)
    if plan.name in ("rejected", "refused"):
        return "RJCT", Refused("MS03", "The bank refused the payment.")
    return ("ACTC" if order.day > today else "ACSC"), None


def _payee_status(order: Ordered) -> tuple[str, Refused | None]:
    found = check_payee(order.name, is_approved=False)
    if found is None:
        return _PAYEE_CODES["match"], None
    code = _PAYEE_CODES[found.result]
    return code, Refused(code, found.returned_name) if found.returned_name else None


def _add_payments(report: etree._Element, orders: list[Ordered], statuses: list[tuple[str, Refused | None]]) -> None:
    payment, known = report, None
    for order, (status, why) in zip(orders, statuses, strict=True):
        if known != order.instruction_id:
            known = order.instruction_id
            payment = _add(report, "OrgnlPmtInfAndSts")
            _add(payment, "OrgnlPmtInfId", known)
        element = _add(payment, "TxInfAndSts")
        _add(element, "OrgnlEndToEndId", order.end_to_end_id)
        _add(element, "TxSts", status)
        if why is not None:
            _reason(element, why)
        reference = _add(element, "OrgnlTxRef")
        _add(_add(reference, "Amt"), "InstdAmt", order.amount).set("Ccy", order.currency)
        _add(_add(_add(reference, "Cdtr"), "Pty"), "Nm", order.name)
        _add(_add(_add(reference, "CdtrAcct"), "Id"), "IBAN", order.payee.iban)


def _reason(element: etree._Element, why: Refused) -> None:
    reason = _add(element, "StsRsnInf")
    _add(_add(reason, "Rsn"), "Cd", why.code)
    for start in range(0, len(why.sentence), _LINE):
        _add(reason, "AddtlInf", why.sentence[start : start + _LINE])


def _document(report: etree._Element) -> bytes:
    document = etree.Element(f"{{{_REPORT}}}Document", nsmap={None: _REPORT})
    document.append(report)
    return etree.tostring(document, xml_declaration=True, encoding="UTF-8", pretty_print=True)


def _all(element: etree._Element, tag: str) -> list[etree._Element]:
    return element.findall(f"{{*}}{tag}")


def _find(element: etree._Element, path: str) -> etree._Element | None:
    return element.find("/".join(f"{{*}}{tag}" for tag in path.split("/")))


def _text(element: etree._Element, path: str) -> str:
    found = _find(element, path)
    return "" if found is None else (found.text or "").strip()


def _add(parent: etree._Element, tag: str, text: str | None = None) -> etree._Element:
    element = etree.SubElement(parent, f"{{{_REPORT}}}{tag}")
    element.text = text
    return element


PAGE_LIFETIME = HOUR
FINAL = ("settled", "failed", "rejected")


class SandboxPayment(NamedTuple):
    ref: str
    token: str
    end_to_end_id: str
    connection_ref: str
    account_ref: str
    template_identifier: Template
    amount_minor: int
    currency_code: str
    creditor_name: str
    creditor_iban: str
    debtor_iban: str
    description: str
    execute_on: str | None
    return_to: str | None
    plan: str
    position: int
    next_at: int | None
    status: str
    raw_status: str
    error_class: str | None
    error_message: str | None
    step: str
    wrong_entries: int
    created_at: int
    expires_at: int
    # In the bank's time: when the banking app answers, if the payment is approved there.
    approval_at: int | None

    @property
    def page(self) -> str:
        """The page that the payer sees: the step, or that the bank waits for the app."""
        return "wait" if self.step == "tan" and self.approval_at is not None else self.step


PAYMENTS = Table("sandbox_payments", SandboxPayment, key=("ref",))


def by_ref(tx: Tx, ref: str) -> SandboxPayment | None:
    return PAYMENTS.one(tx, "ref = ?", ref)


def by_token(tx: Tx, token: str) -> SandboxPayment | None:
    return PAYMENTS.one(tx, "token = ?", token)


def by_order(tx: Tx, order: PaymentOrder) -> SandboxPayment | None:
    return PAYMENTS.one(tx, "connection_ref = ? AND end_to_end_id = ?", order.connection_ref, order.end_to_end_id)


def find_by_any_id(tx: Tx, name: str) -> SandboxPayment | None:
    """Finds a payment by the bank's ref, its end-to-end id, or the number that the end-to-end id begins with."""
    return PAYMENTS.one(tx, "ref = ? OR end_to_end_id = ? OR end_to_end_id LIKE ?", name, name, f"KB{name}-%")


def report_of(row: SandboxPayment) -> PaymentReport:
    # An unknown status is not guessed at.
    status: Any = row.status if row.status in TRANSITIONS else None
    return PaymentReport(status, row.raw_status, row.error_class, row.error_message, payee=payee_of(row))


def payee_of(row: SandboxPayment) -> PayeeFinding | None:
    """The check of the payee, which the bank makes as soon as the payer has signed in."""
    return None if row.step == "login" else check_payee(row.creditor_name, is_approved=row.step != "tan")


def create(tx: Tx, order: PaymentOrder) -> SandboxPayment:
    """Accepts an order; a repeated one returns the existing payment."""
    store.begin_change(tx)
    known = by_order(tx, order)
    if known is not None:
        return known
    connection = store.find_connection(tx, order.connection_ref)
    account = store.find_account(tx, order.account_ref)
    if connection is None or connection.status != "open" or account is None or account.connection_ref != connection.ref:
        raise ProviderRefused("ConnectionNotFound", "The bank knows no such connection or account")
    if order.template_identifier not in connection.bank.templates:
        raise ProviderRefused("PaymentTemplateNotSupported", f"The bank has no {order.template_identifier} payments")
    _check_payee(order)
    plan = choose_plan(order.creditor_name, order.amount_minor, order.template_identifier)
    if plan.creation == "refused":
        raise ProviderRefused("PaymentFailed", "The bank refused the order", "RJCT")
    row = SandboxPayment(
        ref=f"pay_{new_id().replace('-', '')}", token=secrets.token_urlsafe(32), end_to_end_id=order.end_to_end_id,
        connection_ref=connection.ref, account_ref=account.ref, template_identifier=order.template_identifier,
        amount_minor=order.amount_minor, currency_code=order.currency_code, creditor_name=order.creditor_name,
        creditor_iban=order.creditor_iban, debtor_iban=order.debtor_iban, description=order.description,
        execute_on=order.details.get("date"), return_to=order.return_to, plan=plan.name, position=0, next_at=None,
        status="initiated", raw_status="RCVD", error_class=None, error_message=None, step="login", wrong_entries=0,
        created_at=tx.now, expires_at=tx.now + PAGE_LIFETIME, approval_at=None,
    )  # fmt: skip
    PAYMENTS.insert(tx, row)
    return row


def _check_payee(order: PaymentOrder) -> None:
    """Raises ProviderRefused for a payee whom banks refuse to pay, with their reason code."""
    agent = order.details.get("creditor_agent")
    payee = Payee(order.creditor_iban, agent if isinstance(agent, str) else None, address_of(order))
    if (found := refusal(payee)) is not None:
        raise ProviderRefused("PaymentFailed", f"{found.code}: {found.sentence}", "RJCT")


# --- The payer


def sign_in(tx: Tx, row: SandboxPayment, person: Person) -> SandboxPayment:
    store.begin_change(tx)
    needs_approval = person.approval != "none" or PLANS[row.plan].needs_extra_confirmation
    row = PAYMENTS.update(
        tx, row, step="tan" if needs_approval else "confirm", wrong_entries=0,
        approval_at=store.app_answers_at(tx, person),
    )  # fmt: skip
    if PLANS[row.plan].needs_extra_confirmation:
        return _set_status(tx, row, "initiated_info_required", "PATC")
    return _set_status(tx, row, "authorizing", "PDNG")


def approve(tx: Tx, row: SandboxPayment) -> SandboxPayment:
    """The TAN was right, or the payer has confirmed in the banking app."""
    store.begin_change(tx)
    before = payee_of(row)
    row = PAYMENTS.update(tx, row, step="confirm", wrong_entries=0)
    if row.status == "initiated_info_required":
        return _set_status(tx, row, "authorizing", "ACTC")
    if payee_of(row) != before:
        _report(tx, row)
    return row


def receive_app_answers(tx: Tx, now: int) -> None:
    """Continues or ends the payments whose payer's banking app has answered by now."""
    for row in PAYMENTS.all(tx, "approval_at <= ? ORDER BY approval_at, ref", now):
        answered = PAYMENTS.update(tx, row, approval_at=None)
        if row.page != "wait" or row.expires_at <= tx.now:
            continue
        connection = store.find_connection(tx, row.connection_ref)
        error_class = APP_ERRORS.get(connection.person.approval) if connection else None
        if error_class is not None:
            fail(tx, answered, error_class, MESSAGES[error_class], "RJCT")
        else:
            approve(tx, answered)


def count_wrong_entry(tx: Tx, row: SandboxPayment, error_class: str, max_entries: int) -> SandboxPayment:
    store.begin_change(tx)
    row = PAYMENTS.update(tx, row, wrong_entries=row.wrong_entries + 1)
    return row if row.wrong_entries < max_entries else fail(tx, row, error_class, MESSAGES[error_class], "RJCT")


def fail(tx: Tx, row: SandboxPayment, error_class: str, message: str, raw_status: str) -> SandboxPayment:
    store.begin_change(tx)
    return _set_status(tx, PAYMENTS.update(tx, row, step="done"), "failed", raw_status, error_class, message)


def cancel(tx: Tx, ref: str) -> SandboxPayment:
    """Cancels a payment by command of whoever ordered it; once the payer has authorised it, the bank refuses."""
    store.begin_change(tx)
    row = by_ref(tx, ref)
    if row is None:
        raise ProviderRefused("PaymentNotFound", "The bank knows no such payment")
    if row.step == "done" and row.error_class != CANCELLED:
        raise ProviderRefused("PaymentAlreadyFinished", "The payer has authorised or ended it at the bank")
    return row if row.step == "done" else fail(tx, row, CANCELLED, "The payment was cancelled.", "CANC")


def confirm(tx: Tx, row: SandboxPayment) -> SandboxPayment:
    """The payer has authorised it. From here on the bank acts alone."""
    store.begin_change(tx)
    row, now = PAYMENTS.update(tx, row, step="done"), store.bank_now(tx)
    account = store.find_account(tx, row.account_ref)
    if account is None or account.balance_minor < row.amount_minor:
        return _set_status(tx, row, "rejected", "RJCT", "PaymentFailed", "There is not enough money on the account.")
    starts_at, day = now, date.fromisoformat(row.execute_on) if row.execute_on else None
    if day is not None and day > berlin_date(now):
        row, starts_at = _set_status(tx, row, "authorized", "ACTC"), start_of_day(day)
    first = PLANS[row.plan].steps[0]
    return advance_one(tx, PAYMENTS.update(tx, row, next_at=starts_at + first.after_seconds * SECOND), now)


# --- The bank


def advance(tx: Tx, now: int) -> None:
    """Advances every payment that is due by the bank's clock."""
    for row in PAYMENTS.all(tx, "next_at <= ? ORDER BY next_at, ref", now):
        advance_one(tx, row, now)


def advance_one(tx: Tx, row: SandboxPayment, now: int) -> SandboxPayment:
    steps = PLANS[row.plan].steps
    while row.next_at is not None and row.next_at <= now:
        done_at, step = row.next_at, steps[row.position]
        position = row.position + 1
        next_at = None if position == len(steps) else done_at + steps[position].after_seconds * SECOND
        row = _perform(tx, PAYMENTS.update(tx, row, position=position, next_at=next_at), step, done_at)
    return row


def _perform(tx: Tx, row: SandboxPayment, step: PlanStep, at: int) -> SandboxPayment:
    if step.books_debit:
        _book_debit(tx, row, at)
    if step.notifies:
        connection = store.find_connection(tx, row.connection_ref)
        if connection is not None and connection.status == "open":
            bank.notify_new_data(tx, connection)
    if step.status is None:
        return row
    if step.is_untrue:
        claimed = row._replace(status=step.status, raw_status=step.raw_status, error_class=step.error_class)
        _report(tx, claimed._replace(error_message=step.error_message))
        return row
    return _set_status(tx, row, step.status, step.raw_status, step.error_class, step.error_message)


def _book_debit(tx: Tx, row: SandboxPayment, at: int) -> None:
    """Books the debit on the payer's account, with our end-to-end id."""
    account, connection = store.find_account(tx, row.account_ref), store.find_connection(tx, row.connection_ref)
    if account is None or connection is None or _is_booked(tx, row):
        return
    text = purpose(connection.bank.style, row.description, EREF=row.end_to_end_id, IBAN=row.creditor_iban)
    extra = {
        "time": f"{berlin_datetime(at):%H:%M:%S}", "payee": row.creditor_name, "payer": account.holder_name,
        "payee_information": row.creditor_iban, "additional": "Überweisung",
    }  # fmt: skip
    booking = Booking(
        berlin_date(at), -row.amount_minor, text, "transfer", end_to_end_id=row.end_to_end_id, extra=extra
    )
    store.book(tx, account, [booking])


def _is_booked(tx: Tx, row: SandboxPayment) -> bool:
    sql = "SELECT 1 FROM sandbox_bookings WHERE account_ref = ? AND end_to_end_id = ?"
    return tx.one(sql, row.account_ref, row.end_to_end_id) is not None


def force_status(tx: Tx, row: SandboxPayment, status: str, raw_status: str) -> SandboxPayment:
    """Sets the status by command, whatever the plan was."""
    store.begin_change(tx)
    row = PAYMENTS.update(tx, row, next_at=None, step="done")
    if status == "settled":
        _book_debit(tx, row, store.bank_now(tx))
    error = ("PaymentFailed", "By command.") if status in ("failed", "rejected") else (None, None)
    return _set_status(tx, row, status, raw_status, *error)


def _set_status(
    tx: Tx,
    row: SandboxPayment,
    status: str,
    raw_status: str,
    error_class: str | None = None,
    error_message: str | None = None,
) -> SandboxPayment:
    row = PAYMENTS.update(
        tx, row, status=status, raw_status=raw_status, error_class=error_class, error_message=error_message
    )
    _report(tx, row)
    return row


def _report(tx: Tx, row: SandboxPayment) -> None:
    data = {
        "payment_ref": row.ref,
        "status": row.status,
        "raw_status": row.raw_status,
        "error_class": row.error_class,
        "error_message": row.error_message,
        "payee": payee_of(row),
    }
    for _ in range(2 if plan_of(row).repeats else 1):
        webhooks.queue(tx, row.ref, data)


def plan_of(row: SandboxPayment) -> Plan:
    return PLANS[row.plan]
