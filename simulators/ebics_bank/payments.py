"""Payment orders: pain.001 read, payees compared, and pain.002 written: the status of an order, and the result of the comparison."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from decimal import Decimal, InvalidOperation
from xml.sax.saxutils import escape

from lxml import etree

from simulators.ebics_bank.codes import Refusal
from simulators.ebics_bank.envelope import find, parse, text

_PAIN002 = "urn:iso:std:iso:20022:tech:xsd:pain.002.001.10"


@dataclass(frozen=True)
class Transfer:
    part: str
    debtor: str
    day: date | None
    instruction: str
    end_to_end_id: str
    amount: Decimal
    currency: str
    name: str
    iban: str
    text: str


@dataclass(frozen=True)
class TransferFile:
    message_id: str
    transfers: list[Transfer]

    @property
    def total(self) -> Decimal:
        return sum((transfer.amount for transfer in self.transfers), Decimal())


def read_transfers(content: bytes) -> TransferFile:
    """Reads a pain.001; refused if it is none, or if its sums are wrong."""
    try:
        message = find(parse(content), "CstmrCdtTrfInitn")
        header = find(message, "GrpHdr")
        if message is None or header is None:
            raise Refusal("090004")
        found = [
            transfer for part in message if etree.QName(part).localname == "PmtInf" for transfer in _transfers_of(part)
        ]
        if int(text(header, "NbOfTxs")) != len(found):
            raise Refusal("090004")
        control = text(header, "CtrlSum")
        file = TransferFile(text(header, "MsgId"), found)
        if not found or (control and Decimal(control) != file.total):
            raise Refusal("090004")
    except (ValueError, InvalidOperation) as error:
        raise Refusal("090004") from error
    except Refusal as error:
        raise Refusal("090004") from error
    return file


def _transfers_of(part: etree._Element) -> list[Transfer]:
    day = text(part, "ReqdExctnDt", "Dt") or text(part, "ReqdExctnDt")
    debtor = text(part, "DbtrAcct", "Id", "IBAN")
    found = []
    for element in part:
        if etree.QName(element).localname != "CdtTrfTxInf":
            continue
        amount = find(element, "Amt", "InstdAmt")
        if amount is None:
            raise Refusal("090004")
        found.append(
            Transfer(
                part=text(part, "PmtInfId"),
                debtor=debtor,
                day=date.fromisoformat(day) if day else None,
                instruction=text(element, "PmtId", "InstrId"),
                end_to_end_id=text(element, "PmtId", "EndToEndId"),
                amount=Decimal(amount.text or ""),
                currency=amount.get("Ccy", ""),
                name=text(element, "Cdtr", "Nm"),
                iban=text(element, "CdtrAcct", "Id", "IBAN"),
                text=text(element, "RmtInf", "Ustrd"),
            )
        )
    return found


def compare(submitted: str, known: str | None) -> str:
    """The code of the payee check: RVNA if the other bank tells nothing."""
    if known is None:
        return "RVNA"
    mine, theirs = _plain(submitted), _plain(known)
    if mine == theirs:
        return "RCVC"
    return "RVMC" if mine.split()[:1] == theirs.split()[:1] else "RVNM"


def _plain(name: str) -> str:
    for letter, instead in (("ä", "ae"), ("ö", "oe"), ("ü", "ue"), ("ß", "ss")):
        name = name.lower().replace(letter, instead)
    return " ".join(name.replace(".", " ").replace("-", " ").split())


def payee_report(file: TransferFile, results: list[tuple[str, str | None]], day: date, number: str) -> bytes:
    """The result of the payee check: each payment's code, with the name that the other bank returned."""
    codes = {code for code, _ in results}
    group = codes.pop() if len(codes) == 1 else "RVCM"
    parts: list[tuple[str, str]] = []
    for transfer, (code, known) in zip(file.transfers, results, strict=True):
        returned = f"<AddtlInf>{escape(known)}</AddtlInf>" if code == "RVMC" and known else ""
        reason = "<StsRsnInf><Rsn><Cd>AG11</Cd></Rsn></StsRsnInf>" if code == "RVNA" else ""
        reason = f"<StsRsnInf>{returned}</StsRsnInf>" if returned else reason
        parts.append((transfer.part, _transaction(transfer, code, reason)))
    return _report(file, group, parts, day, number)


def status_report(file: TransferFile, refusals: list[str], day: date, number: str, *, accepted: str = "ACSC") -> bytes:
    """The status of an order: settled, or why not, payment by payment (an empty reason is none)."""
    states = {"RJCT" if reason else accepted for reason in refusals}
    group = states.pop() if len(states) == 1 else "PART"
    parts = [
        (
            transfer.part,
            _transaction(
                transfer,
                "RJCT" if reason else accepted,
                f"<StsRsnInf><Rsn><Cd>{reason}</Cd></Rsn></StsRsnInf>" if reason else "",
            ),
        )
        for transfer, reason in zip(file.transfers, refusals, strict=True)
    ]
    return _report(file, group, parts, day, number)


def _transaction(transfer: Transfer, code: str, reason: str) -> str:
    instruction = f"<OrgnlInstrId>{escape(transfer.instruction)}</OrgnlInstrId>" if transfer.instruction else ""
    return (
        f"<TxInfAndSts>{instruction}<OrgnlEndToEndId>{escape(transfer.end_to_end_id)}</OrgnlEndToEndId><TxSts>{code}</TxSts>{reason}"
        f'<OrgnlTxRef><Amt><InstdAmt Ccy="{transfer.currency}">{transfer.amount}</InstdAmt></Amt>'
        f"<Cdtr><Pty><Nm>{escape(transfer.name)}</Nm></Pty></Cdtr>"
        f"<CdtrAcct><Id><IBAN>{transfer.iban}</IBAN></Id></CdtrAcct></OrgnlTxRef></TxInfAndSts>"
    )


def _report(file: TransferFile, group: str, transactions: list[tuple[str, str]], day: date, number: str) -> bytes:
    parts = "".join(
        f"<OrgnlPmtInfAndSts><OrgnlPmtInfId>{escape(part)}</OrgnlPmtInfId>"
        f"{''.join(found for of, found in transactions if of == part)}</OrgnlPmtInfAndSts>"
        for part in dict.fromkeys(part for part, _ in transactions)
    )
    return (
        f'<?xml version="1.0" encoding="UTF-8"?><Document xmlns="{_PAIN002}"><CstmrPmtStsRpt>'
        f"<GrpHdr><MsgId>{number}</MsgId><CreDtTm>{day}T12:00:00</CreDtTm></GrpHdr>"
        f"<OrgnlGrpInfAndSts><OrgnlMsgId>{escape(file.message_id)}</OrgnlMsgId><OrgnlMsgNmId>pain.001.001.09</OrgnlMsgNmId>"
        f"<OrgnlNbOfTxs>{len(file.transfers)}</OrgnlNbOfTxs><GrpSts>{group}</GrpSts></OrgnlGrpInfAndSts>"
        f"{parts}</CstmrPmtStsRpt></Document>"
    ).encode()
