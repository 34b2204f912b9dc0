"""pain.001.001.09 files: SEPA credit transfers for a bank to carry out.

Every text is checked and converted to SEPA's characters (`sepa.py`), so a file is either valid or not written at all.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import date, datetime
from itertools import groupby
from typing import Literal, NamedTuple

from lxml import etree

from kontobahn.formats.pain import sepa
from kontobahn.formats.pain.places import MAX_LINE, Address, Remittance, place_reference
from kontobahn.money import amount_text

NAMESPACE = "urn:iso:std:iso:20022:tech:xsd:pain.001.001.09"
MAX_PAYMENTS = 10_000


class Transfer(NamedTuple):
    """One payment. `execution_date` is the day the bank is to carry it out."""

    end_to_end_id: str
    amount_minor: int
    creditor_name: str
    creditor_iban: str
    description: str
    execution_date: date
    reference: str | None = None
    template: Literal["SEPA", "SEPA_INSTANT"] = "SEPA"
    creditor_bic: str | None = None
    creditor_address: Address | None = None
    purpose_code: str | None = None
    currency: str = "EUR"


class Debtor(NamedTuple):
    name: str
    iban: str
    bic: str | None = None


def write_pain001(
    message_id: str,
    created_at: datetime,
    debtor: Debtor,
    transfers: Sequence[Transfer],
    earliest: date = date.min,
) -> bytes:
    """Returns the file. Raises BadRequest, naming the field, for whatever a bank would refuse.

    Transfers of one day and kind form one instruction (PmtInf), in their order. A day before the `earliest` is put off to it, in the
    same instructions: a file whose day has passed is issued again, and what is reported on the first issue is true of the second.
    """
    if not 1 <= len(transfers) <= MAX_PAYMENTS:
        raise sepa.NotSepa("transfers", f"must be between 1 and {MAX_PAYMENTS:,}")
    if created_at.tzinfo is None:
        raise sepa.NotSepa("created_at", "must have a time zone")
    ids = [transfer.end_to_end_id for transfer in transfers]
    if len(set(ids)) != len(ids):
        raise sepa.NotSepa("end_to_end_id", "must be unique within a file")
    name = sepa.check_text("debtor_name", debtor.name, sepa.MAX_NAME)
    message = etree.Element(f"{{{NAMESPACE}}}CstmrCdtTrfInitn", nsmap={None: NAMESPACE})
    header = _add(message, "GrpHdr")
    _add(header, "MsgId", sepa.check_id("message_id", message_id))
    _add(header, "CreDtTm", created_at.isoformat(timespec="seconds"))
    _totals(header, transfers)
    _add(_add(header, "InitgPty"), "Nm", name)
    for number, group in enumerate(_instructions(transfers), 1):
        day = max(group[0].execution_date, earliest)
        _instruction(message, f"{message_id}-{number}", debtor._replace(name=name), group, day)
    document = etree.Element(f"{{{NAMESPACE}}}Document", nsmap={None: NAMESPACE})
    document.append(message)
    return etree.tostring(document, xml_declaration=True, encoding="UTF-8", pretty_print=True)


def instruction_ids(message_id: str, transfers: Sequence[Transfer]) -> dict[str, str]:
    """Returns the instruction (PmtInfId) that each transfer stands in, by end-to-end id."""
    return {
        transfer.end_to_end_id: f"{message_id}-{number}"
        for number, group in enumerate(_instructions(transfers), 1)
        for transfer in group
    }


def _instructions(transfers: Sequence[Transfer]) -> Iterator[list[Transfer]]:
    def key(transfer: Transfer) -> tuple[date, str]:
        return transfer.execution_date, transfer.template

    for _, group in groupby(sorted(transfers, key=key), key=key):
        yield list(group)


def _totals(parent: etree._Element, transfers: Sequence[Transfer]) -> None:
    _add(parent, "NbOfTxs", str(len(transfers)))
    _add(parent, "CtrlSum", amount_text(sum(transfer.amount_minor for transfer in transfers)))


def _instruction(message: etree._Element, name: str, debtor: Debtor, transfers: list[Transfer], day: date) -> None:
    payment = _add(message, "PmtInf")
    _add(payment, "PmtInfId", sepa.check_id("message_id", name))
    _add(payment, "PmtMtd", "TRF")
    _add(payment, "BtchBookg", "false")  # each is booked separately, so that it can be matched by its id
    _totals(payment, transfers)
    kind = _add(payment, "PmtTpInf")
    _add(_add(kind, "SvcLvl"), "Cd", "SEPA")
    if transfers[0].template == "SEPA_INSTANT":
        _add(_add(kind, "LclInstrm"), "Cd", "INST")
    _add(_add(payment, "ReqdExctnDt"), "Dt", day.isoformat())
    _add(_add(payment, "Dbtr"), "Nm", debtor.name)
    _account(payment, "DbtrAcct", sepa.check_iban("debtor_iban", debtor.iban))
    agent = _add(_add(payment, "DbtrAgt"), "FinInstnId")
    if debtor.bic:
        _add(agent, "BICFI", sepa.check_bic("debtor_bic", debtor.bic))
    else:
        _add(_add(agent, "Othr"), "Id", "NOTPROVIDED")
    _add(payment, "ChrgBr", "SLEV")
    for transfer in transfers:
        _transfer(payment, transfer)


def _transfer(payment: etree._Element, transfer: Transfer) -> None:
    element = _add(payment, "CdtTrfTxInf")
    remittance = place_reference(transfer.description, transfer.reference)
    ids = _add(element, "PmtId")
    if remittance.instruction_id:
        _add(ids, "InstrId", remittance.instruction_id)
    _add(ids, "EndToEndId", sepa.check_id("end_to_end_id", transfer.end_to_end_id))
    amount = amount_text(sepa.check_amount("amount", transfer.amount_minor))
    _add(_add(element, "Amt"), "InstdAmt", amount).set("Ccy", sepa.check_currency("currency_code", transfer.currency))
    if transfer.creditor_bic:
        agent = _add(_add(element, "CdtrAgt"), "FinInstnId")
        _add(agent, "BICFI", sepa.check_bic("creditor_agent", transfer.creditor_bic))
    creditor = _add(element, "Cdtr")
    _add(creditor, "Nm", sepa.check_text("creditor_name", transfer.creditor_name, sepa.MAX_NAME))
    if transfer.creditor_address:
        _address(creditor, transfer.creditor_address)
    _account(element, "CdtrAcct", sepa.check_iban("creditor_iban", transfer.creditor_iban))
    if transfer.purpose_code:
        _add(_add(element, "Purp"), "Cd", sepa.check_purpose_code("purpose_code", transfer.purpose_code))
    _remittance(_add(element, "RmtInf"), remittance)


def _remittance(element: etree._Element, remittance: Remittance) -> None:
    if remittance.unstructured is not None:
        _add(element, "Ustrd", remittance.unstructured)
        return
    reference = _add(_add(element, "Strd"), "CdtrRefInf")
    kind = _add(reference, "Tp")
    _add(_add(kind, "CdOrPrtry"), "Cd", "SCOR")
    _add(kind, "Issr", "ISO")
    _add(reference, "Ref", remittance.creditor_reference)


def _address(creditor: etree._Element, address: Address) -> None:
    element = _add(creditor, "PstlAdr")
    for tag, field, text, max_length in (
        ("StrtNm", "street_name", address.street, 70),
        ("BldgNb", "building_number", address.building, 16),
        ("PstCd", "post_code", address.postcode, 16),
        ("TwnNm", "town_name", address.town, 35),
    ):
        if text:
            _add(element, tag, sepa.check_text(f"creditor_address.{field}", text, max_length))
    _add(element, "Ctry", sepa.check_country("creditor_address.country", address.country))
    for line in address.lines:
        _add(element, "AdrLine", sepa.check_text("creditor_address", line, MAX_LINE))


def _account(parent: etree._Element, tag: str, iban: str) -> None:
    _add(_add(_add(parent, tag), "Id"), "IBAN", iban)


def _add(parent: etree._Element, tag: str, text: str | None = None) -> etree._Element:
    element = etree.SubElement(parent, f"{{{NAMESPACE}}}{tag}")
    element.text = text
    return element
