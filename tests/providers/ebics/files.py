"""Payment files as a client of any make would send them."""

from __future__ import annotations

GIRO = "DE89370400440532013000"
PAYEE = "DE02120300000000202051"
OTHER_PAYEE = "DE02500105170137075030"


def transfers(*payments: tuple[str, str, str, str], message: str = "MSG-1", debtor: str = GIRO) -> bytes:
    """A pain.001 with payments of (end-to-end id, amount, name, IBAN)."""
    total = sum(int(amount.replace(".", "")) for _, amount, _, _ in payments)
    parts = "".join(
        f"<CdtTrfTxInf><PmtId><EndToEndId>{reference}</EndToEndId></PmtId>"
        f'<Amt><InstdAmt Ccy="EUR">{amount}</InstdAmt></Amt><Cdtr><Nm>{name}</Nm></Cdtr>'
        f"<CdtrAcct><Id><IBAN>{iban}</IBAN></Id></CdtrAcct><RmtInf><Ustrd>Rechnung {reference}</Ustrd></RmtInf></CdtTrfTxInf>"
        for reference, amount, name, iban in payments
    )
    return (
        '<?xml version="1.0" encoding="UTF-8"?><Document xmlns="urn:iso:std:iso:20022:tech:xsd:pain.001.001.09">'
        f"<CstmrCdtTrfInitn><GrpHdr><MsgId>{message}</MsgId><CreDtTm>2026-03-02T10:00:00</CreDtTm>"
        f"<NbOfTxs>{len(payments)}</NbOfTxs><CtrlSum>{total // 100}.{total % 100:02d}</CtrlSum>"
        "<InitgPty><Nm>Muster GmbH</Nm></InitgPty></GrpHdr>"
        "<PmtInf><PmtInfId>PART-1</PmtInfId><PmtMtd>TRF</PmtMtd><ReqdExctnDt><Dt>2026-03-02</Dt></ReqdExctnDt>"
        f"<Dbtr><Nm>Muster GmbH</Nm></Dbtr><DbtrAcct><Id><IBAN>{debtor}</IBAN></Id></DbtrAcct>"
        "<DbtrAgt><FinInstnId><Othr><Id>NOTPROVIDED</Id></Othr></FinInstnId></DbtrAgt>"
        f"{parts}</PmtInf></CstmrCdtTrfInitn></Document>"
    ).encode()
