"""Order files at the sandbox bank: handed in, checked, answered with a status report (pain.002), booked by the bank's clock.

Accounts that the bank shows over a connection are booked there and reported. For accounts that are kept by files, and for those whose
connection has ended meanwhile, it writes the day's statement (camt.053), with the balances and the end-to-end ids.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import date, datetime
from decimal import Decimal
from itertools import groupby
from typing import NamedTuple

from lxml import etree

from kontobahn.bank_providers.sandbox import bank, store
from kontobahn.bank_providers.sandbox.rules import Booking, Plan, check_payee, choose_plan, purpose
from kontobahn.bank_providers.sandbox.store import SandboxAccount, SandboxConnection
from kontobahn.banking.provider import PayeeResult, Template
from kontobahn.banking.sandbox import HandedIn, OrderAccount, OrderDesk, SandboxStatement
from kontobahn.clock import DAY, HOUR, SECOND, berlin_date, berlin_datetime, start_of_day
from kontobahn.db import Table, Tx
from kontobahn.errors import BadRequest, Conflict
from kontobahn.formats.pain import sepa
from kontobahn.formats.pain.sepa import MAX_LINES, Address
from kontobahn.ids import new_id
from kontobahn.money import amount_text, to_minor
from kontobahn.xml_text import PARSER_OPTIONS

# Between these countries a payment needs neither the address of the payee nor the BIC of the payee's bank.
EEA = frozenset({
    "AT", "BE", "BG", "CY", "CZ", "DE", "DK", "EE", "ES", "FI", "FR", "GR", "HR", "HU", "IE", "IS", "IT", "LI", "LT", "LU",
    "LV", "MT", "NL", "NO", "PL", "PT", "RO", "SE", "SI", "SK",
})  # fmt: skip
MAX_ORDER_FILE_BYTES = 20_000_000
_OLDEST_VERSION = 9
_AMOUNT = re.compile(r"[0-9]{1,9}(?:\.[0-9]{1,2})?")
_REPORT = "urn:iso:std:iso:20022:tech:xsd:pain.002.001.10"
_STATEMENT = "urn:iso:std:iso:20022:tech:xsd:camt.053.001.08"
_LINE = 105
_MAX_ID = 35
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
    debtor_iban: str
    end_to_end_id: str
    amount: str
    currency: str
    name: str
    template: Template
    day: date | None
    payee: Payee
    text: str

    @property
    def amount_minor(self) -> int:
        """In cents; 0 if it is no amount of money."""
        return to_minor(Decimal(self.amount)) if _AMOUNT.fullmatch(self.amount) else 0

    @property
    def plan(self) -> Plan:
        return choose_plan(self.name, self.amount_minor, self.template)


class OrderMessage(NamedTuple):
    id: str
    # The name of its format, such as pain.001.001.09.
    name: str
    orders: list[Ordered]

    @property
    def refusal(self) -> Refused | None:
        version = self.name.rpartition(".")[2]
        if version.isdecimal() and int(version) >= _OLDEST_VERSION:
            return None
        return Refused("FF01", f"{self.name} is not taken any more: send pain.001.001.09.")


# The status of an order, and why if it is refused.
Verdict = tuple[str, Refused | None]


class Answer(NamedTuple):
    report: bytes
    accepted: int
    refused: int


def answer_order_file(content: bytes, now: datetime, *, payees: bool = False) -> Answer:
    """Reads a pain.001, and returns the status report on it; with `payees` that of the check of payees, before anybody authorises.

    Raises BadRequest if it is no such file.
    """
    message = read_order_file(content)
    verdicts = [_payee_status(order) if payees else _status(order, now.date()) for order in message.orders]
    return _answer(message, verdicts, now)


def read_order_file(content: bytes) -> OrderMessage:
    """Raises BadRequest if it is not an order file."""
    root = _parsed(content)
    space = etree.QName(root).namespace or ""
    message = _find(root, "CstmrCdtTrfInitn")
    if message is None or ":pain.001." not in space:
        raise BadRequest("The file holds no credit transfers (pain.001).", field="file")
    message_id = _text(message, "GrpHdr/MsgId")
    if not message_id or len(message_id) > _MAX_ID:
        raise BadRequest("The file has no usable id (GrpHdr/MsgId).", field="file")
    return OrderMessage(message_id, space.rpartition(":")[2], list(_orders(message)))


def _answer(message: OrderMessage, verdicts: list[Verdict], now: datetime) -> Answer:
    report = etree.Element(f"{{{_REPORT}}}CstmrPmtStsRpt", nsmap={None: _REPORT})
    head = _add(report, "GrpHdr")
    _add(head, "MsgId", f"SB{now:%Y%m%d%H%M%S%f}")
    _add(head, "CreDtTm", now.isoformat(timespec="seconds"))
    group = _add(report, "OrgnlGrpInfAndSts")
    _add(group, "OrgnlMsgId", message.id)
    _add(group, "OrgnlMsgNmId", message.name)
    if (why := message.refusal) is not None:
        _add(group, "GrpSts", "RJCT")
        _reason(group, why)
        return Answer(_document(report), 0, len(message.orders))
    refused = sum(status == "RJCT" for status, _ in verdicts)
    if verdicts and refused == len(verdicts):
        _add(group, "GrpSts", "RJCT")
    _add_payments(report, message.orders, verdicts)
    return Answer(_document(report), len(verdicts) - refused, refused)


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
                debtor_iban=_text(payment, "DbtrAcct/Id/IBAN"),
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
                text=_text(transfer, "RmtInf/Ustrd") or _text(transfer, "RmtInf/Strd/CdtrRefInf/Ref"),
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


def _status(order: Ordered, today: date) -> Verdict:
    if not order.amount_minor:
        return "RJCT", Refused("AM12", "The amount is not one in euros and cents.")
    if order.day is None or order.day < today:
        return "RJCT", Refused("DT01", "The day of execution has passed or is none.")
    if (found := refusal(order.payee)) is not None:
        return "RJCT", found
    if order.plan.name in ("rejected", "refused"):
        return "RJCT", Refused("MS03", "The bank refused the payment.")
    return ("ACTC" if order.day > today else "ACSC"), None


def _payee_status(order: Ordered) -> Verdict:
    found = check_payee(order.name, is_approved=False)
    if found is None:
        return _PAYEE_CODES["match"], None
    code = _PAYEE_CODES[found.result]
    return code, Refused(code, found.returned_name) if found.returned_name else None


def _add_payments(report: etree._Element, orders: list[Ordered], verdicts: list[Verdict]) -> None:
    payment, known = report, None
    for order, (status, why) in zip(orders, verdicts, strict=True):
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
    space = etree.QName(report).namespace or ""
    document = etree.Element(f"{{{space}}}Document", nsmap={None: space})
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
    element = etree.SubElement(parent, f"{{{etree.QName(parent).namespace}}}{tag}")
    element.text = text
    return element


# --- Handed in


class OrderFileRow(NamedTuple):
    ref: str
    customer: str
    message_id: str
    iban: str
    report: bytes
    accepted: int
    refused: int
    # The reason codes, with commas between them.
    codes: str
    amount_minor: int
    # In the bank's time.
    created_at: int


class OrderRow(NamedTuple):
    file_ref: str
    number: int
    customer: str
    iban: str
    # The account that the bank shows over a connection; None if it is kept by files.
    account_ref: str | None
    end_to_end_id: str
    amount_minor: int
    creditor_name: str
    creditor_iban: str
    description: str
    # 1 if the payee's bank sends it back an hour later.
    is_returned: int
    is_booked: int
    # In the bank's time: when it is booked, or comes back.
    next_at: int | None


class AccountRow(NamedTuple):
    customer: str
    iban: str
    balance_minor: int
    statements: int


FILES = Table("sandbox_order_files", OrderFileRow, key=("ref",))
ORDERS = Table("sandbox_orders", OrderRow, key=("file_ref", "number"))
ACCOUNTS = Table("sandbox_order_accounts", AccountRow, key=("customer", "iban"))


def hand_in(tx: Tx, customer: str, accounts: Mapping[str, OrderAccount], content: bytes) -> HandedIn:
    """Takes an order file for the customer's accounts, by IBAN. Raises BadRequest, or Conflict if the bank has it already."""
    store.begin_change(tx)
    message, now = read_order_file(content), store.bank_now(tx)
    if not message.orders:
        raise BadRequest("The file holds no credit transfers (pain.001).", field="file")
    if FILES.one(tx, "customer = ? AND message_id = ?", customer, message.id) is not None:
        raise Conflict("The bank has this file already. Nothing is paid twice.")
    # By our day: a clock that was moved ahead makes no file late.
    desk, today = _Desk(tx, customer, accounts), berlin_date(tx.now)
    verdicts = [desk.verdict(order, today) for order in message.orders]
    answer = _answer(message, verdicts, berlin_datetime(now))
    taken = [] if message.refusal else [
        order for order, (status, _) in zip(message.orders, verdicts, strict=True) if status != "RJCT"
    ]  # fmt: skip
    whys = [message.refusal] if message.refusal else [why for _, why in verdicts]
    file = OrderFileRow(
        ref=f"file_{new_id().replace('-', '')}", customer=customer, message_id=message.id,
        iban=message.orders[0].debtor_iban[:_MAX_ID], report=answer.report, accepted=answer.accepted, refused=answer.refused,
        codes=", ".join(sorted({why.code for why in whys if why})),
        amount_minor=sum(order.amount_minor for order in taken), created_at=now,
    )  # fmt: skip
    FILES.insert(tx, file)
    ORDERS.insert_many(
        tx, [_row(file, number, order, accounts[order.debtor_iban]) for number, order in enumerate(taken, 1)]
    )
    return _handed_in(tx, file)


class _Desk:
    """The money on the customer's accounts; every order that is accepted reduces it."""

    def __init__(self, tx: Tx, customer: str, accounts: Mapping[str, OrderAccount]) -> None:
        self._tx = tx
        self._customer = customer
        self._accounts = accounts
        self._left: dict[str, int] = {}

    def verdict(self, order: Ordered, today: date) -> Verdict:
        if order.debtor_iban not in self._accounts:
            return "RJCT", Refused("AC02", "The account to be debited is none of the customer's.")
        if order.currency != "EUR":
            return "RJCT", Refused("AM03", "The amount is not one in euros.")
        found = _status(order, today)
        if found[0] == "RJCT":
            return found
        left = self._funds(order.debtor_iban) - order.amount_minor
        if left < 0:
            return "RJCT", Refused("AM04", "There is not enough money on the account.")
        self._left[order.debtor_iban] = left
        return found

    def _funds(self, iban: str) -> int:
        if iban not in self._left:
            account = self._accounts[iban]
            balance = account.balance_minor if account.ref else _follow(self._tx, self._customer, iban, account)
            sql = "SELECT SUM(amount_minor) FROM sandbox_orders WHERE customer = ? AND iban = ? AND next_at > 0 AND is_booked = 0"
            row = self._tx.one(sql, self._customer, iban)
            self._left[iban] = balance - int(row[0] or 0 if row else 0)
        return self._left[iban]


def _follow(tx: Tx, customer: str, iban: str, account: OrderAccount) -> int:
    """Returns the balance that the bank continues from.

    Whoever has not imported all its statements yet has one of its earlier balances. Any other is from a statement of elsewhere.
    """
    row, told = ACCOUNTS.one(tx, "customer = ? AND iban = ?", customer, iban), account.balance_minor
    if row is None:
        ACCOUNTS.insert(tx, AccountRow(customer, iban, told, 0))
        return told
    known = tx.one(
        "SELECT 1 FROM sandbox_statements WHERE customer = ? AND iban = ? AND (opening_minor = ? OR closing_minor = ?) LIMIT 1",
        customer, iban, told, told,
    )  # fmt: skip
    return row.balance_minor if known else ACCOUNTS.update(tx, row, balance_minor=told).balance_minor


def _row(file: OrderFileRow, number: int, order: Ordered, account: OrderAccount) -> OrderRow:
    starts_at = file.created_at
    if order.day is not None:
        starts_at = max(starts_at, start_of_day(order.day))
    wait = {"at_once": 0, "executed": DAY}.get(order.plan.name, 5 * SECOND)
    return OrderRow(
        file_ref=file.ref, number=number, customer=file.customer, iban=order.debtor_iban, account_ref=account.ref,
        end_to_end_id=order.end_to_end_id[:_MAX_ID] or "NOTPROVIDED", amount_minor=order.amount_minor,
        creditor_name=order.name[:140], creditor_iban=order.payee.iban, description=order.text[:140],
        is_returned=int(order.plan.name == "returned"), is_booked=0, next_at=starts_at + wait,
    )  # fmt: skip


# --- Booked by the bank's clock


class _Booked(NamedTuple):
    order: OrderRow
    at: int
    # Negative for the debit, positive if it comes back.
    amount_minor: int

    @property
    def day(self) -> date:
        return berlin_date(self.at)


def settle(tx: Tx, now: int) -> None:
    """Books the orders that are due by now, and those that come back."""
    booked: list[_Booked] = []
    for order in ORDERS.all(tx, "next_at <= ? ORDER BY next_at, file_ref, number", now):
        row, at = order, order.next_at
        while at is not None and at <= now:
            booked.append(_Booked(order, at, order.amount_minor if row.is_booked else -order.amount_minor))
            at = at + HOUR if order.is_returned and not row.is_booked else None
            row = ORDERS.update(tx, row, is_booked=1, next_at=at)
    booked.sort(key=lambda one: (one.order.customer, one.order.iban, one.at))
    for (customer, iban, account_ref), of_account in groupby(
        booked, key=lambda one: (one.order.customer, one.order.iban, one.order.account_ref)
    ):
        if account_ref is not None:
            account = store.find_account(tx, account_ref)
            connection = store.find_connection(tx, account.connection_ref) if account else None
            if account is not None and connection is not None and connection.status == "open":
                _show(tx, account, connection, list(of_account))
                continue
            _keep_by_files(tx, customer, iban, account_ref)
        for day, of_day in groupby(of_account, key=lambda one: one.day):
            _write_statement(tx, customer, iban, day, list(of_day), now)


def _keep_by_files(tx: Tx, customer: str, iban: str, account_ref: str) -> None:
    """Keeps an account whose connection has ended by files: what was ordered from it appears in a statement, after its last balance."""
    account, row = store.find_account(tx, account_ref), ACCOUNTS.one(tx, "customer = ? AND iban = ?", customer, iban)
    balance = account.balance_minor if account else 0
    if row is None:
        ACCOUNTS.insert(tx, AccountRow(customer, iban, balance, 0))
    elif account is not None:
        ACCOUNTS.update(tx, row, balance_minor=balance)
    tx.run(
        "UPDATE sandbox_orders SET account_ref = NULL WHERE customer = ? AND iban = ? AND account_ref = ?",
        customer, iban, account_ref,
    )  # fmt: skip


def leave(tx: Tx, connection_ref: str) -> None:
    """Keeps by files what is still ordered from the accounts of a connection, before the bank forgets them."""
    waiting = "next_at > 0 AND account_ref IN (SELECT ref FROM sandbox_accounts WHERE connection_ref = ?)"
    orders = ORDERS.all(tx, waiting, connection_ref)
    for customer, iban, account_ref in {(one.customer, one.iban, one.account_ref) for one in orders}:
        if account_ref is not None:
            _keep_by_files(tx, customer, iban, account_ref)


def _show(tx: Tx, account: SandboxAccount, connection: SandboxConnection, booked: list[_Booked]) -> None:
    """Books on an account that the bank shows over a connection, and reports it."""
    style = connection.bank.style
    store.book(
        tx,
        account,
        [
            Booking(
                one.day, one.amount_minor,
                purpose(style, one.order.description, EREF=one.order.end_to_end_id, IBAN=one.order.creditor_iban), "transfer",
                end_to_end_id=one.order.end_to_end_id,
                extra={
                    "payee": one.order.creditor_name, "payer": account.holder_name,
                    "payee_information": one.order.creditor_iban, "additional": _said(one),
                },
            )
            for one in booked
        ],
    )  # fmt: skip
    bank.notify_new_data(tx, connection)


def _said(one: _Booked) -> str:
    return "Rücküberweisung" if one.amount_minor > 0 else "Überweisung"


def _write_statement(tx: Tx, customer: str, iban: str, day: date, booked: list[_Booked], now: int) -> None:
    row = ACCOUNTS.one(tx, "customer = ? AND iban = ?", customer, iban)
    assert row is not None, "an account is opened with its first order"
    opening, number = row.balance_minor, row.statements + 1
    closing = opening + sum(one.amount_minor for one in booked)
    content = _statement(iban, number, day, (opening, closing), booked, berlin_datetime(now))
    ACCOUNTS.update(tx, row, balance_minor=closing, statements=number)
    tx.run(
        "INSERT INTO sandbox_statements (customer, iban, number, made_on, opening_minor, closing_minor, bookings, content, created_at)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
        customer, iban, number, day.isoformat(), opening, closing, len(booked), content, now,
    )  # fmt: skip


def _statement(
    iban: str, number: int, day: date, balances: tuple[int, int], booked: list[_Booked], now: datetime
) -> bytes:
    message = etree.Element(f"{{{_STATEMENT}}}BkToCstmrStmt", nsmap={None: _STATEMENT})
    head = _add(message, "GrpHdr")
    _add(head, "MsgId", f"SB{now:%Y%m%d%H%M%S%f}")
    _add(head, "CreDtTm", now.isoformat(timespec="seconds"))
    statement = _add(message, "Stmt")
    _add(statement, "Id", f"SB{day:%Y%m%d}-{number}")
    # Without a yearly number, which would have to continue those of the account's statements from elsewhere.
    _add(statement, "CreDtTm", now.isoformat(timespec="seconds"))
    account = _add(statement, "Acct")
    _add(_add(account, "Id"), "IBAN", iban)
    _add(account, "Ccy", "EUR")
    for code, amount in zip(("OPBD", "CLBD"), balances, strict=True):
        balance = _add(statement, "Bal")
        _add(_add(_add(balance, "Tp"), "CdOrPrtry"), "Cd", code)
        _add_money(balance, amount)
        _add(_add(balance, "Dt"), "Dt", day.isoformat())
    for one in booked:
        _add_entry(statement, one)
    return _document(message)


def _add_entry(statement: etree._Element, one: _Booked) -> None:
    entry, day = _add(statement, "Ntry"), one.day.isoformat()
    _add_money(entry, one.amount_minor)
    _add(_add(entry, "Sts"), "Cd", "BOOK")
    _add(_add(entry, "BookgDt"), "Dt", day)
    _add(_add(entry, "ValDt"), "Dt", day)
    code = _add(entry, "BkTxCd")
    domain = _add(code, "Domn")
    _add(domain, "Cd", "PMNT")
    family = _add(domain, "Fmly")
    _add(family, "Cd", "ICDT")
    _add(family, "SubFmlyCd", "RRTN" if one.amount_minor > 0 else "ESCT")
    details = _add(_add(entry, "NtryDtls"), "TxDtls")
    _add(_add(details, "Refs"), "EndToEndId", one.order.end_to_end_id)
    _add_money(details, one.amount_minor)
    parties = _add(details, "RltdPties")
    _add(_add(_add(parties, "Cdtr"), "Pty"), "Nm", one.order.creditor_name)
    _add(_add(_add(parties, "CdtrAcct"), "Id"), "IBAN", one.order.creditor_iban)
    if one.order.description:
        _add(_add(details, "RmtInf"), "Ustrd", one.order.description)
    if one.amount_minor > 0:
        _add(_add(_add(details, "RtrInf"), "Rsn"), "Cd", "AC04")
    _add(entry, "AddtlNtryInf", _said(one))


def _add_money(element: etree._Element, amount_minor: int) -> None:
    _add(element, "Amt", amount_text(abs(amount_minor))).set("Ccy", "EUR")
    _add(element, "CdtDbtInd", "CRDT" if amount_minor >= 0 else "DBIT")


# --- Shown


_LATEST = 20


def desk(tx: Tx, customer: str) -> OrderDesk:
    """The latest files that the customer has handed in, and the latest statements."""
    files = FILES.all(tx, f"customer = ? ORDER BY created_at DESC, ref DESC LIMIT {_LATEST}", customer)
    statements = tx.all(
        "SELECT iban, number, made_on, opening_minor, closing_minor, bookings FROM sandbox_statements WHERE customer = ?"
        f" ORDER BY created_at DESC, iban, number DESC LIMIT {_LATEST}",
        customer,
    )
    return OrderDesk(
        [_handed_in(tx, file) for file in files],
        [
            SandboxStatement(iban, number, date.fromisoformat(day), *figures)
            for iban, number, day, *figures in statements
        ],
    )


def _handed_in(tx: Tx, file: OrderFileRow) -> HandedIn:
    # The one that waits longest.
    row = tx.one("SELECT MAX(next_at) FROM sandbox_orders WHERE file_ref = ? AND is_booked = 0", file.ref)
    return HandedIn(
        file.ref, file.message_id, file.iban, file.created_at, file.accepted, file.refused, file.codes, file.amount_minor,
        row[0] if row else None,
    )  # fmt: skip


def report(tx: Tx, customer: str, ref: str) -> bytes | None:
    row = FILES.one(tx, "customer = ? AND ref = ?", customer, ref)
    return None if row is None else bytes(row.report)


def statement(tx: Tx, customer: str, iban: str, number: int) -> bytes | None:
    row = tx.one(
        "SELECT content FROM sandbox_statements WHERE customer = ? AND iban = ? AND number = ?", customer, iban, number
    )
    return None if row is None else bytes(row[0])


def forget(tx: Tx, customer: str) -> None:
    """Removes everything of a customer."""
    for table in ("sandbox_orders", "sandbox_order_files", "sandbox_statements", "sandbox_order_accounts"):
        tx.run(f"DELETE FROM {table} WHERE customer = ?", customer)


def purge(tx: Tx) -> None:
    """Removes what was handed in and booked long ago. An account keeps its balance."""
    for (ref,) in tx.all("SELECT ref FROM sandbox_connections WHERE ended_at > 0"):
        leave(tx, ref)
    before = tx.now - 90 * DAY
    done = "SELECT ref FROM sandbox_order_files f WHERE f.created_at <= ? AND NOT EXISTS"
    done += " (SELECT 1 FROM sandbox_orders o WHERE o.file_ref = f.ref AND o.next_at IS NOT NULL)"
    for (ref,) in tx.all(done, before):
        tx.run("DELETE FROM sandbox_orders WHERE file_ref = ?", ref)
        tx.run("DELETE FROM sandbox_order_files WHERE ref = ?", ref)
    tx.run("DELETE FROM sandbox_statements WHERE created_at <= ?", before)
