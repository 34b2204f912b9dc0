"""Order files at the sandbox bank: what it refuses of a payment, with its reason code, and its status report (pain.002). Pure.

Nothing is booked: the accounts that files are paid from are kept elsewhere.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import date, datetime
from decimal import Decimal
from typing import NamedTuple

from lxml import etree

from kontobahn.bank_providers.sandbox.rules import check_payee, choose_plan
from kontobahn.banking.provider import PayeeResult, Template
from kontobahn.errors import BadRequest
from kontobahn.formats.pain import sepa
from kontobahn.formats.pain.places import MAX_LINES, Address
from kontobahn.formats.xml_source import PARSER_OPTIONS
from kontobahn.money import to_minor

# Between these countries a payment needs neither the address of the payee nor the BIC of the payee's bank.
EEA = frozenset({
    "AT", "BE", "BG", "CY", "CZ", "DE", "DK", "EE", "ES", "FI", "FR", "GR", "HR", "HU", "IE", "IS", "IT", "LI", "LT", "LU",
    "LV", "MT", "NL", "NO", "PL", "PT", "RO", "SE", "SI", "SK",
})  # fmt: skip
MAX_BYTES = 20_000_000
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


def answer(content: bytes, now: datetime, *, payees: bool = False) -> Answer:
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
    if len(content) > MAX_BYTES:
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
