"""The messages: pain.001, by which a bank is told to pay, and pain.002, by which it says what became of that."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import date, datetime
from itertools import groupby
from typing import Literal, NamedTuple

from lxml import etree

from kontobahn.formats.pain import sepa
from kontobahn.formats.pain.sepa import MAX_LINE, Address, Remittance, place_reference
from kontobahn.formats.statements import Amount, Reason, ReportedStatus, StatementError, StatusReport
from kontobahn.formats.statements.source import Root, Source, currency_of, minor_of, parse
from kontobahn.money import amount_text
from kontobahn.sentences import said
from kontobahn.xml_text import PARSER_OPTIONS

# pain.001.001.09 files: SEPA credit transfers for a bank to carry out.
#
# Every text is checked and converted to SEPA's characters (`sepa.py`), so a file is either valid or not written at all.


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


# Reads pain.002: what a bank says about a file of payments, as a whole, by instruction and by transaction.


FIRST_VERSION = 3
Level = Literal["group", "payment", "transaction"]
# Checks of payees: match, close match, no match, not possible; and of several, with different results.
PAYEE_CODES = ("RCVC", "RVMC", "RVNM", "RVNA")
MIXED = "RVCM"
MAX_STATUS_LINE = 105
MAX_COUNT_DIGITS = 15


def read_pain002(source: Source, root: Root) -> StatusReport:
    """Reads versions from .03 on. Those that are known differ only in elements we do not use."""
    if int(root.message[-2:]) < FIRST_VERSION:
        raise StatementError(
            said("{message} is a version of pain.002 that cannot be read.", message=root.message), file=source.name
        )
    parser = etree.XMLPullParser(events=("end",), tag=f"{root.space}Document", **PARSER_OPTIONS)
    document = None
    try:
        for _ in parse(parser, source):
            document = next((element for _, element in parser.read_events()), document)
    except StatementError as error:
        raise error.at(source.name) from None
    if document is None:
        raise StatementError("The file is not a status report (Document).", file=source.name)
    return _Report(source.name, root).read(document)


def _counted(counts: tuple[tuple[str, int], ...]) -> str | None:
    """The status of a level that has none of its own, if it counts checks of payees: that of checks with different results."""
    return MIXED if any(status in PAYEE_CODES for status, _ in counts) else None


class _Report:
    def __init__(self, file: str, root: Root) -> None:
        self._file = file
        self._root = root
        self._space = root.space

    def read(self, document: etree._Element) -> StatusReport:
        body = next(iter(document), None)
        group = self._find(body, "OrgnlGrpInfAndSts")
        message_id = self._text(body, "GrpHdr/MsgId")
        original = self._text(group, "OrgnlMsgId")
        if body is None or group is None or message_id is None or original is None:
            raise StatementError(
                "The status report does not say which file it is about (GrpHdr/MsgId, OrgnlGrpInfAndSts/OrgnlMsgId).",
                file=self._file,
            )
        items = tuple(self._items(body, group, original))
        if not items:
            raise StatementError("The status report holds no status.", file=self._file)
        return StatusReport(
            self._file, self._root.message, message_id, original, self._text(body, "GrpHdr/CreDtTm"), items
        )

    def _items(self, body: etree._Element, group: etree._Element, message: str) -> Iterator[ReportedStatus]:
        if status := self._text(group, "GrpSts") or _counted(self._counts(group)):
            yield self._item("group", status, group, message, None)
        for payment in body.findall(f"{self._space}OrgnlPmtInfAndSts"):
            payment_id = self._text(payment, "OrgnlPmtInfId")
            if status := self._text(payment, "PmtInfSts") or _counted(self._counts(payment)):
                yield self._item("payment", status, payment, message, payment_id)
            for transaction in payment.findall(f"{self._space}TxInfAndSts"):
                # A transaction without a status of its own has that of its instruction or its file.
                own = (
                    self._text(transaction, "TxSts") or self._text(payment, "PmtInfSts") or self._text(group, "GrpSts")
                )
                if own is None:
                    raise StatementError(
                        "A transaction has no status (TxSts).", file=self._file, place=f"line {transaction.sourceline}"
                    )
                yield self._item("transaction", own, transaction, message, payment_id)

    def _item(
        self, level: Level, status: str, element: etree._Element, message: str, payment: str | None
    ) -> ReportedStatus:
        return ReportedStatus(
            level,
            status,
            message,
            payment,
            self._text(element, "OrgnlEndToEndId"),
            self._text(element, "OrgnlInstrId"),
            self._text(element, "AcctSvcrRef"),
            tuple(self._reason(reason) for reason in element.findall(f"{self._space}StsRsnInf")),
            self._text(element, "AccptncDtTm"),
            self._amount(element),
            element.sourceline or 0,
            self._text(element, "OrgnlTxRef/Cdtr/Pty/Nm") or self._text(element, "OrgnlTxRef/Cdtr/Nm"),
            self._text(element, "OrgnlTxRef/CdtrAcct/Id/IBAN"),
            self._counts(element),
        )

    def _counts(self, element: etree._Element) -> tuple[tuple[str, int], ...]:
        found = []
        for counted in element.findall(f"{self._space}NbOfTxsPerSts"):
            status, number = self._text(counted, "DtldSts"), self._text(counted, "DtldNbOfTxs")
            if status and number and number.isdecimal() and len(number) <= MAX_COUNT_DIGITS:
                found.append((status, int(number)))
        return tuple(found)

    def _reason(self, element: etree._Element) -> Reason:
        text = ""
        for line in element.findall(f"{self._space}AddtlInf"):
            # A full line ends where the space ends, maybe within a word.
            text += ("" if len(text) % MAX_STATUS_LINE == 0 else " ") + (line.text or "").strip()
        return Reason(self._text(element, "Rsn/Cd") or self._text(element, "Rsn/Prtry"), text.strip() or None)

    def _amount(self, element: etree._Element) -> Amount | None:
        amount = self._find(element, "OrgnlTxRef/Amt/InstdAmt")
        if amount is None:
            return None
        try:
            return Amount(minor_of(amount.text), currency_of(amount.get("Ccy")))
        except StatementError:
            # Ours are euros and cents: it is somebody else's payment among them, whose status concerns nobody here.
            return None

    def _find(self, element: etree._Element | None, path: str) -> etree._Element | None:
        return None if element is None else element.find(self._space + path.replace("/", f"/{self._space}"))

    def _text(self, element: etree._Element | None, path: str) -> str | None:
        found = self._find(element, path)
        return ((found.text if found is not None else None) or "").strip() or None
