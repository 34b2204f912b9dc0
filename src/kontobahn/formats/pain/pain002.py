"""Reads pain.002: what a bank says about a file of payments, as a whole, by instruction and by transaction."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from lxml import etree

from kontobahn.formats.statements.model import Amount, Reason, ReportedStatus, StatementError, StatusReport
from kontobahn.formats.statements.source import Root, Source, currency_of, minor_of, parse
from kontobahn.formats.xml_source import PARSER_OPTIONS
from kontobahn.sentences import said

FIRST_VERSION = 3
Level = Literal["group", "payment", "transaction"]
# Checks of payees: match, close match, no match, not possible; and of several, with different results.
PAYEE_CODES = ("RCVC", "RVMC", "RVNM", "RVNA")
MIXED = "RVCM"
MAX_LINE = 105
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
            text += ("" if len(text) % MAX_LINE == 0 else " ") + (line.text or "").strip()
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
