"""camt files as banks and programs write them, each after the habits of what it is named after. All data is our own."""

from __future__ import annotations

import re
from datetime import date, timedelta

from tests.corpus.statements.sample import Row, Sample
from tests.statement_builder import BIC, DAY, IBAN, OTHER_IBAN, Booking, Sheet, archive, camt, follow_up

SECOND_IBAN = "DE75512108001245126199"
SWISS = "CH9300762011623852957"
QR_REFERENCE = "210000000003139471430009017"


def _entry(
    amount: str, *, sign: str = "CRDT", details: str = "", dates: str = "", more: str = "", currency: str = "EUR"
) -> str:
    dates = dates or f"<BookgDt><Dt>{DAY}</Dt></BookgDt><ValDt><Dt>{DAY}</Dt></ValDt>"
    return (
        f'<Ntry><Amt Ccy="{currency}">{amount}</Amt><CdtDbtInd>{sign}</CdtDbtInd><Sts>BOOK</Sts>{dates}'
        f"<BkTxCd/>{more}<NtryDtls>{details}</NtryDtls></Ntry>"
    )


def _details(text: str = "", refs: str = "", party: str = "", more: str = "") -> str:
    remittance = f"<RmtInf><Ustrd>{text}</Ustrd></RmtInf>" if text else ""
    return f"<TxDtls><Refs>{refs}</Refs>{more}<RltdPties>{party}</RltdPties>{remittance}</TxDtls>"


def _balance(code: str, amount: str, currency: str = "EUR") -> str:
    return (
        f"<Bal><Tp><CdOrPrtry><Cd>{code}</Cd></CdOrPrtry></Tp><Amt Ccy=\"{currency}\">{amount}</Amt>"
        f"<CdtDbtInd>CRDT</CdtDbtInd><Dt><Dt>{DAY}</Dt></Dt></Bal>"
    )  # fmt: skip


def _file(
    opening: str, closing: str, *entries: str, iban: str = IBAN, currency: str = "EUR", space: bool = True
) -> bytes:
    namespace = ' xmlns="urn:iso:std:iso:20022:tech:xsd:camt.053.001.02"' if space else ""
    balances = _balance("OPBD", opening, currency) + _balance("CLBD", closing, currency)
    return (
        f'<?xml version="1.0" encoding="UTF-8"?><Document{namespace}><BkToCstmrStmt><GrpHdr><MsgId>M</MsgId></GrpHdr>'
        f"<Stmt><Id>S-1</Id><ElctrncSeqNb>1</ElctrncSeqNb><Acct><Id><IBAN>{iban}</IBAN></Id><Ccy>{currency}</Ccy>"
        f"<Svcr><FinInstnId><BIC>{BIC}</BIC></FinInstnId></Svcr></Acct>{balances}{''.join(entries)}</Stmt>"
        "</BkToCstmrStmt></Document>"
    ).encode()


def _sample(content: bytes, *rows: Row, closing: int | None = None, warnings: tuple[str, ...] = ()) -> Sample:
    return Sample(content, rows, closing, warnings, name="statement.xml")


def amounts_without_zeros() -> Sample:
    """xs:decimal allows them."""
    content = _file("100", "101.2", _entry(".2", details=_details("a")), _entry("1", details=_details("b")))
    return _sample(content, Row(20, "a"), Row(100, "b"), closing=10_120)


def booked_with_a_value_date_only() -> Sample:
    content = _file("0", "5", _entry("5.0", details=_details("a"), dates=f"<ValDt><Dt>{DAY}</Dt></ValDt>"))
    return _sample(content, Row(500, "a", booking_date=DAY, value_date=DAY), closing=500)


def balance_off_by_a_cent() -> Sample:
    content = _file("10.00", "15.01", _entry("5.00", details=_details("a")))
    return _sample(content, Row(500, "a"), closing=1_501, warnings=("closes with 15.01, which is 0.01 more",))


def balance_calculated_in_binary() -> Sample:
    content = _file("10.00", "15.000000000000002", _entry("5.00", details=_details("a")))
    return _sample(content, Row(500, "a"), closing=1_500, warnings=("has more than two decimals",))


def spardabank() -> Sample:
    """Tags with colons within the text."""
    text = f"Strom Abschlag Maerz EREF: ZAA123 MREF: M-1 CRED: DE98ZZZ09999999999 IBAN: {OTHER_IBAN} BIC: BYLADEM1001"
    content = _file("100.00", "58.00", _entry("42.00", sign="DBIT", details=_details(text)))
    return _sample(content, Row(-4_200, "Strom Abschlag Maerz", None, OTHER_IBAN, "ZAA123"), closing=5_800)


def references_that_are_none() -> Sample:
    refs = "<AcctSvcrRef>NONREF</AcctSvcrRef><EndToEndId>NOTPROVIDED</EndToEndId>"
    content = _file("0.00", "1.00", _entry("1.00", details=_details("a", refs), more="<AcctSvcrRef>B-1</AcctSvcrRef>"))
    return _sample(content, Row(100, "a"), closing=100)


def batch_with_details() -> Sample:
    parts = "".join(
        _details(f"Lohn {number}", more=f'<AmtDtls><TxAmt><Amt Ccy="EUR">{number}.00</Amt></TxAmt></AmtDtls>')
        for number in (1, 2)
    )
    content = _file("10.00", "7.00", _entry("3.00", sign="DBIT", details=parts))
    return _sample(content, Row(-100, "Lohn 1"), Row(-200, "Lohn 2"), closing=700)


def batch_without_details() -> Sample:
    content = _file("10.00", "7.00", _entry("3.00", sign="DBIT", details="<Btch><NbOfTxs>2</NbOfTxs></Btch>"))
    return _sample(content, Row(-300), closing=700)


def swiss_qr_bill() -> Sample:
    kind = "<Tp><CdOrPrtry><Prtry>QRR</Prtry></CdOrPrtry></Tp>"
    structured = f"<RmtInf><Strd><CdtrRefInf>{kind}<Ref>{QR_REFERENCE}</Ref></CdtrRefInf></Strd></RmtInf>"
    party = "<Dbtr><Nm>Anna Muster</Nm></Dbtr>"
    details = _details("", "", party).replace("</TxDtls>", f"{structured}</TxDtls>")
    content = _file("0.00", "199.95", _entry("199.95", details=details, currency="CHF"), iban=SWISS, currency="CHF")
    return _sample(content, Row(19_995, QR_REFERENCE, "Anna Muster"), closing=19_995)


def without_a_namespace() -> Sample:
    content = _file("0.00", "1.00", _entry("1.00", details=_details("a")), space=False)
    return _sample(content, Row(100, "a"), closing=100)


def several_accounts() -> Sample:
    first = Sheet([Booking(100, text="a")])
    second = Sheet([Booking(-200, text="b")], iban=SECOND_IBAN, id="T-1")
    return _sample(camt(first, second), Row(100, "a"), Row(-200, "b"), closing=second.end)


def latin_1() -> Sample:
    content = camt(Sheet([Booking(100, text="Käse für Jürgen", name="Größe & Söhne")]), encoding="ISO-8859-1")
    return _sample(content, Row(100, "Käse für Jürgen", "Größe & Söhne"))


def latin_1_that_does_not_say_so() -> Sample:
    content = camt(Sheet([Booking(100, text="Käse für 5 €", name="Größe & Söhne")])).decode().encode("cp1252")
    undeclared = content.replace(b' encoding="UTF-8"', b"")
    return _sample(undeclared, Row(100, "Käse für 5 €", "Größe & Söhne"), warnings=("not in the encoding",))


def latin_1_that_says_utf_8() -> Sample:
    content = camt(Sheet([Booking(100, text="Käse")])).decode().encode("iso-8859-1")
    return _sample(content, Row(100, "Käse"), warnings=("not in the encoding",))


def a_version_to_come() -> Sample:
    return _sample(
        camt(Sheet([Booking(100, text="a"), Booking(-30, text="b")]), version="14"), Row(100, "a"), Row(-30, "b")
    )


def in_an_envelope() -> Sample:
    """A business application header before the document, both in one element of the bank's own."""
    document = camt(Sheet([Booking(100, text="a")])).partition(b"?>")[2]
    header = (
        b'<?xml version="1.0" encoding="UTF-8"?><BizMsg xmlns="urn:bank:envelope"><AppHdr'
        b' xmlns="urn:iso:std:iso:20022:tech:xsd:head.001.001.02"><Fr><FIId><FinInstnId><BICFI>COBADEFF</BICFI>'
        b"</FinInstnId></FIId></Fr><BizMsgIdr>1</BizMsgIdr><MsgDefIdr>camt.053.001.08</MsgDefIdr></AppHdr>"
    )
    return _sample(header + document.strip() + b"</BizMsg>", Row(100, "a"))


def balances_whose_sign_is_plain() -> Sample:
    """No indicator where the amount is nothing, has a sign, follows from the entries, or is not needed."""
    nothing, overdrawn = _balance("OPBD", "0.00"), _balance("CLBD", "42.00")
    expected, available = _balance("XPCD", "-42.00"), _balance("CLAV", "958.00")
    balances = "".join((nothing, overdrawn, expected, available)).replace("<CdtDbtInd>CRDT</CdtDbtInd>", "")
    content = _file("0", "0", _entry("42.00", sign="DBIT", details=_details("a")))
    content = re.sub(rb"<Bal>.*</Bal>", balances.encode(), content)
    return _sample(content, Row(-4_200, "a"), closing=-4_200, warnings=("balance CLAV is neither credit nor debit",))


def days_that_longer_months_have() -> Sample:
    dates = "<BookgDt><Dt>2026-03-02</Dt></BookgDt><ValDt><Dt>2026-02-30</Dt></ValDt>"
    content = _file("0", "5", _entry("5.0", details=_details("a"), dates=dates))
    return _sample(
        content, Row(500, "a", value_date=date(2026, 2, 28)), closing=500, warnings=("There is no 2026-02-30",)
    )


def an_original_amount_with_three_decimals() -> Sample:
    original = '<AmtDtls><InstdAmt><Amt Ccy="KWD">8.125</Amt></InstdAmt></AmtDtls>'
    content = _file("0", "25", _entry("25.00", details=_details("Kuwait", more=original)))
    return _sample(content, Row(2_500, "Kuwait"), closing=2_500, warnings=("8.125' has more than two decimals",))


def a_file_a_day() -> Sample:
    """A ZIP in another order than that of days, with an empty Document for a day without movements."""
    monday = Sheet([Booking(100, text="a")])
    tuesday = follow_up(monday, Booking(200, text="b", booked=DAY + timedelta(1), valued=DAY + timedelta(1)))
    nothing = b'<Document xmlns="urn:iso:std:iso:20022:tech:xsd:camt.053.001.08"/>'
    content = archive(**{"2.xml": camt(tuesday), "3.xml": nothing, "1.xml": camt(monday)})
    rows = (Row(100, "a"), Row(200, "b", booking_date=date(2026, 3, 3)))
    return Sample(content, rows, tuesday.end, ("no statement",), name="statements.zip")


def empty_document() -> Sample:
    content = (
        b'<?xml version="1.0"?><Document xmlns="urn:iso:std:iso:20022:tech:xsd:camt.053.001.08"><BkToCstmrStmt><GrpHdr>'
        b"<MsgId>M</MsgId></GrpHdr></BkToCstmrStmt></Document>"
    )
    return _sample(content, warnings=("no statement",))


ALL = {
    write.__name__: write
    for write in (
        amounts_without_zeros, booked_with_a_value_date_only, balance_off_by_a_cent,
        balance_calculated_in_binary, spardabank, references_that_are_none, batch_with_details,
        batch_without_details, swiss_qr_bill, without_a_namespace, several_accounts, latin_1, latin_1_that_does_not_say_so,
        latin_1_that_says_utf_8, a_version_to_come, in_an_envelope, balances_whose_sign_is_plain, days_that_longer_months_have,
        an_original_amount_with_three_decimals, a_file_a_day, empty_document,
    )
}  # fmt: skip
