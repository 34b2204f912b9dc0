"""Bank files for tests, made from our own data: camt.052/053/054 in two versions, MT940, pain.002."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Iterable, Iterator, Sequence
from datetime import date, timedelta
from typing import NamedTuple
from xml.sax.saxutils import escape

IBAN = "DE89370400440532013000"
OTHER_IBAN = "DE02120300000000202051"
BIC = "COBADEFFXXX"
DAY = date(2026, 3, 2)
MESSAGES = {
    "052": ("BkToCstmrAcctRpt", "Rpt"),
    "053": ("BkToCstmrStmt", "Stmt"),
    "054": ("BkToCstmrDbtCdtNtfctn", "Ntfctn"),
}


class Booking(NamedTuple):
    """One entry as a test needs it; `parts` make it a batch."""

    amount: int
    text: str = "Rechnung 4711"
    name: str | None = "Muster GmbH"
    iban: str | None = OTHER_IBAN
    bic: str | None = "BYLADEM1001"
    end_to_end_id: str | None = None
    mandate: str | None = None
    creditor_id: str | None = None
    reference: str | None = None
    booked: date = DAY
    valued: date = DAY
    status: str = "BOOK"
    reversal: bool = False
    booking_text: str | None = None
    parts: tuple[Booking, ...] = ()


class Sheet(NamedTuple):
    """One statement. The closing balance is calculated from the opening balance and the posted entries, unless it is given."""

    bookings: Sequence[Booking] = ()
    opening: int = 100_000
    closing: int | None = None
    id: str = "S-1"
    number: int | None = 1
    day: date = DAY
    iban: str = IBAN
    currency: str = "EUR"
    page: tuple[int, bool] | None = None
    balances: str = "OPBD CLBD"

    @property
    def end(self) -> int:
        moved = sum(booking.amount for booking in self.bookings if booking.status == "BOOK")
        return self.opening + moved if self.closing is None else self.closing


def follow_up(sheet: Sheet, *bookings: Booking, days: int = 1) -> Sheet:
    """The statement after this one."""
    number = (sheet.number or 0) + 1
    return sheet._replace(
        bookings=bookings,
        opening=sheet.end,
        closing=None,
        id=f"S-{number}",
        number=number,
        day=sheet.day + timedelta(days),
    )


def camt(*sheets: Sheet, kind: str = "053", version: str = "08", encoding: str = "UTF-8") -> bytes:
    return "".join(camt_pieces(sheets, kind, version, encoding)).encode(encoding)


def camt_pieces(sheets: Iterable[Sheet], kind: str, version: str, encoding: str = "UTF-8") -> Iterator[str]:
    message, statement = MESSAGES[kind]
    yield f'<?xml version="1.0" encoding="{encoding}"?>\n'
    yield f'<Document xmlns="urn:iso:std:iso:20022:tech:xsd:camt.{kind}.001.{version}"><{message}>\n'
    yield "<GrpHdr><MsgId>M-1</MsgId><CreDtTm>2026-03-02T20:00:00+01:00</CreDtTm></GrpHdr>\n"
    for sheet in sheets:
        yield f"<{statement}>" + _camt_head(sheet, kind, version)
        for booking in sheet.bookings:
            yield camt_entry(booking, sheet.currency, version)
        yield f"</{statement}>\n"
    yield f"</{message}></Document>\n"


def _camt_head(sheet: Sheet, kind: str, version: str) -> str:
    bic = "BIC" if version == "02" else "BICFI"
    page = ""
    if sheet.page:
        page = f"<StmtPgntn><PgNb>{sheet.page[0]}</PgNb><LastPgInd>{str(sheet.page[1]).lower()}</LastPgInd></StmtPgntn>"
    number = f"<ElctrncSeqNb>{sheet.number}</ElctrncSeqNb>" if sheet.number is not None else ""
    amounts = {
        "OPBD": sheet.opening,
        "PRCD": sheet.opening,
        "CLBD": sheet.end,
        "ITBD>": sheet.opening,
        "ITBD": sheet.end,
    }
    balances = [] if kind == "054" else [(code.rstrip(">"), amounts[code]) for code in sheet.balances.split()]
    return (
        f"<Id>{sheet.id}</Id>{page}{number}<CreDtTm>{sheet.day}T20:00:00+01:00</CreDtTm>"
        f"<Acct><Id><IBAN>{sheet.iban}</IBAN></Id><Ccy>{sheet.currency}</Ccy><Ownr><Nm>Laden &amp; Söhne</Nm></Ownr>"
        f"<Svcr><FinInstnId><{bic}>{BIC}</{bic}></FinInstnId></Svcr></Acct>\n"
        + "".join(
            f"<Bal><Tp><CdOrPrtry><Cd>{code}</Cd></CdOrPrtry></Tp>{_money(amount, sheet.currency)}"
            f"<Dt><Dt>{sheet.day}</Dt></Dt></Bal>\n"
            for code, amount in balances
        )
    )


def _money(amount: int, currency: str, *, sign: bool = True) -> str:
    text = f'<Amt Ccy="{currency}">{abs(amount) // 100}.{abs(amount) % 100:02d}</Amt>'
    return text + (f"<CdtDbtInd>{'CRDT' if amount >= 0 else 'DBIT'}</CdtDbtInd>" if sign else "")


def camt_entry(booking: Booking, currency: str = "EUR", version: str = "08") -> str:
    status = booking.status if version == "02" else f"<Cd>{booking.status}</Cd>"
    details = "".join(_camt_details(part, currency, version) for part in booking.parts or (booking,))
    return (
        f"<Ntry>{_money(booking.amount, currency)}"
        + (f"<RvslInd>{str(booking.reversal).lower()}</RvslInd>" if booking.reversal else "")
        + f"<Sts>{status}</Sts><BookgDt><Dt>{booking.booked}</Dt></BookgDt><ValDt><Dt>{booking.valued}</Dt></ValDt>"
        + _element("AcctSvcrRef", booking.reference)
        + "<BkTxCd><Domn><Cd>PMNT</Cd><Fmly><Cd>RCDT</Cd><SubFmlyCd>ESCT</SubFmlyCd></Fmly></Domn>"
        "<Prtry><Cd>NTRF+166+00931</Cd><Issr>DK</Issr></Prtry></BkTxCd>"
        f"<NtryDtls>{details}</NtryDtls>{_element('AddtlNtryInf', booking.booking_text)}</Ntry>\n"
    )


def _camt_details(booking: Booking, currency: str, version: str) -> str:
    new = version != "02"
    role = "Dbtr" if (booking.amount >= 0) != booking.reversal else "Cdtr"
    amount = _money(booking.amount, currency) if new else ""
    old_amount = "" if new else f"<AmtDtls><TxAmt>{_money(booking.amount, currency, sign=False)}</TxAmt></AmtDtls>"
    creditor = f"<Id><PrvtId><Othr><Id>{booking.creditor_id}</Id></Othr></PrvtId></Id>" if booking.creditor_id else ""
    party = _element("Nm", booking.name) + (creditor if role == "Cdtr" else "")
    parties = ""
    if party:
        parties = f"<{role}><Pty>{party}</Pty></{role}>" if new else f"<{role}>{party}</{role}>"
    if booking.iban:
        parties += f"<{role}Acct><Id><IBAN>{booking.iban}</IBAN></Id></{role}Acct>"
    if creditor and role == "Dbtr":
        parties += f"<Cdtr><Pty>{creditor}</Pty></Cdtr>" if new else f"<Cdtr>{creditor}</Cdtr>"
    bic = "BICFI" if new else "BIC"
    agents = f"<{role}Agt><FinInstnId>{_element(bic, booking.bic)}</FinInstnId></{role}Agt>" if booking.bic else ""
    references = _element("EndToEndId", booking.end_to_end_id) + _element("MndtId", booking.mandate)
    return (
        f"<TxDtls><Refs>{references}</Refs>{amount}{old_amount}<RltdPties>{parties}</RltdPties>"
        + (f"<RltdAgts>{agents}</RltdAgts>" if agents else "")
        + (f"<RmtInf>{_element('Ustrd', booking.text)}</RmtInf>" if booking.text else "")
        + "</TxDtls>"
    )


def _element(name: str, text: str | None) -> str:
    return f"<{name}>{escape(text)}</{name}>" if text is not None else ""


def mt940(
    *sheets: Sheet, newline: str = "\r\n", encoding: str = "utf-8", envelope: bool = False, account: str = ""
) -> bytes:
    messages = []
    for sheet in sheets:
        lines = [
            ":20:STARTUMS",
            f":25:{account or sheet.iban}",
            f":28C:{sheet.number or 0:05d}/{sheet.page[0] if sheet.page else 1:03d}",
            f":60{'M' if sheet.page and sheet.page[0] > 1 else 'F'}:{mt_balance(sheet.opening, sheet)}",
        ]
        for booking in sheet.bookings:
            lines += mt_entry(booking)
        lines += [f":62{'M' if sheet.page and not sheet.page[1] else 'F'}:{mt_balance(sheet.end, sheet)}", "-"]
        if envelope:
            lines[0] = "{1:F01COBADEFFXXXX0000000000}{2:O9401200260302COBADEFFXXXX00000000002603021200N}{4:"
            lines.insert(1, ":20:STARTUMS")
            lines[-1] = "-}{5:{CHK:0123456789AB}}"
        messages += lines
    return (newline.join(messages) + newline).encode(encoding)


def mt_balance(amount: int, sheet: Sheet) -> str:
    return f"{'C' if amount >= 0 else 'D'}{sheet.day:%y%m%d}{sheet.currency}{mt_amount(amount)}"


def mt_amount(amount: int) -> str:
    return f"{abs(amount) // 100},{abs(amount) % 100:02d}"


def mt_entry(booking: Booking) -> list[str]:
    mark = "C" if booking.amount >= 0 else "D"
    if booking.reversal:
        mark = "RD" if booking.amount >= 0 else "RC"
    reference = f"//{booking.reference}" if booking.reference else ""
    tags = [
        ("EREF+", booking.end_to_end_id),
        ("MREF+", booking.mandate),
        ("CRED+", booking.creditor_id),
        ("SVWZ+", booking.text),
    ]
    text = "".join(tag + value for tag, value in tags if value)
    pieces = [text[start : start + 27] for start in range(0, len(text), 27)]
    codes = [*range(20, 30), *range(60, 64)]
    assert len(pieces) <= len(codes), "too long for MT940"
    name = booking.name or ""
    fields = [
        f"166?00{booking.booking_text or ''}?1000931",
        *(f"?{code}{piece}" for code, piece in zip(codes[:10], pieces, strict=False)),
        f"?30{booking.bic or ''}?31{booking.iban or ''}?32{name[:27]}" + (f"?33{name[27:54]}" if name[27:] else ""),
        *(f"?{code}{piece}" for code, piece in zip(codes[10:], pieces[10:], strict=False)),
    ]
    line = f":61:{booking.valued:%y%m%d}{booking.booked:%m%d}{mark}{mt_amount(booking.amount)}N166NONREF{reference}"
    return [line, f":86:{fields[0]}", *fields[1:]]


def pain002(
    *transactions: tuple[str, str, str],
    message_id: str = "KB-1",
    version: str = "10",
    group: str | None = None,
    payment: str | None = None,
) -> bytes:
    """Transactions as end-to-end id, status and reason."""
    levels = {"GrpSts": group, "PmtInfSts": payment}
    texts = {name: _element(name, status) for name, status in levels.items()}
    items = "".join(
        f"<TxInfAndSts><StsId>1</StsId><OrgnlEndToEndId>{escape(reference)}</OrgnlEndToEndId><TxSts>{status}</TxSts>"
        + (
            f"<StsRsnInf><Rsn><Cd>{reason}</Cd></Rsn><AddtlInf>Konto</AddtlInf><AddtlInf>erloschen</AddtlInf></StsRsnInf>"
            if reason
            else ""
        )
        + '<OrgnlTxRef><Amt><InstdAmt Ccy="EUR">12.34</InstdAmt></Amt></OrgnlTxRef></TxInfAndSts>'
        for reference, status, reason in transactions
    )
    return (
        f'<?xml version="1.0" encoding="UTF-8"?>\n<Document xmlns="urn:iso:std:iso:20022:tech:xsd:pain.002.001.{version}">'
        "<CstmrPmtStsRpt><GrpHdr><MsgId>B-1</MsgId><CreDtTm>2026-03-02T12:00:00</CreDtTm></GrpHdr>"
        f"<OrgnlGrpInfAndSts><OrgnlMsgId>{message_id}</OrgnlMsgId><OrgnlMsgNmId>pain.001.001.09</OrgnlMsgNmId>"
        f"{texts['GrpSts']}</OrgnlGrpInfAndSts>"
        f"<OrgnlPmtInfAndSts><OrgnlPmtInfId>P-1</OrgnlPmtInfId>{texts['PmtInfSts']}{items}</OrgnlPmtInfAndSts>"
        "</CstmrPmtStsRpt></Document>\n"
    ).encode()


def archive(**members: bytes) -> bytes:
    """A ZIP of files, in this order."""
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as file:
        for name, content in members.items():
            file.writestr(name, content)
    return target.getvalue()
