"""Accounts and bookings, and the files that tell of them: camt.052, camt.053 and camt.054."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import date
from decimal import Decimal
from xml.sax.saxutils import escape

_MESSAGES = {
    "C52": ("camt.052.001.08", "BkToCstmrAcctRpt", "Rpt"),
    "C53": ("camt.053.001.08", "BkToCstmrStmt", "Stmt"),
    "C54": ("camt.054.001.08", "BkToCstmrDbtCdtNtfctn", "Ntfctn"),
}


@dataclass(frozen=True)
class Booking:
    """A booked amount, negative if it left the account."""

    day: date
    amount: Decimal
    text: str
    reference: str
    name: str = ""
    iban: str = ""
    end_to_end_id: str = ""


@dataclass
class Account:
    iban: str
    owner: str = "Muster GmbH"
    currency: str = "EUR"
    opening: Decimal = Decimal("10000.00")
    bookings: list[Booking] = field(default_factory=list)
    # The number of bookings that stand in a statement already, and of statements.
    stated: int = 0
    statements: int = 0

    def book(self, day: date, amount: str | Decimal, text: str, **more: str) -> Booking:
        reference = more.pop("reference", f"{self.iban[-4:]}{len(self.bookings) + 1:08d}")
        booking = Booking(day, Decimal(amount), text, reference, **more)
        self.bookings.append(booking)
        return booking

    def balance(self, bookings: int | None = None) -> Decimal:
        """The balance after so many bookings, all of them if it is not said."""
        return self.opening + sum((booking.amount for booking in self.bookings[:bookings]), Decimal())

    def statement(self, day: date) -> bytes:
        """A camt.053 of all that is in no statement yet; afterwards it is."""
        since, self.stated = self.stated, len(self.bookings)
        self.statements += 1
        return camt("C53", self, day, self.bookings[since:], opening=self.balance(since), number=self.statements)


def camt(
    kind: str,
    account: Account,
    day: date,
    bookings: Iterable[Booking],
    *,
    opening: Decimal = Decimal(),
    number: int = 1,
) -> bytes:
    name, message, part = _MESSAGES[kind]
    entries, total = [], opening
    for booking in bookings:
        entries.append(_entry(booking, account.currency))
        total += booking.amount
    balances = _balance("OPBD", opening, account, day) + _balance("CLBD", total, account, day) if kind == "C53" else ""
    number_of = f"<ElctrncSeqNb>{number}</ElctrncSeqNb>" if kind == "C53" else ""
    return (
        f'<?xml version="1.0" encoding="UTF-8"?><Document xmlns="urn:iso:std:iso:20022:tech:xsd:{name}"><{message}>'
        f"<GrpHdr><MsgId>{kind}-{account.iban[-8:]}-{day:%Y%m%d}-{number}</MsgId><CreDtTm>{day}T20:00:00</CreDtTm></GrpHdr>"
        f"<{part}><Id>{kind}-{account.iban[-8:]}-{day:%Y%m%d}-{number}</Id>{number_of}<CreDtTm>{day}T20:00:00</CreDtTm>"
        f"<Acct><Id><IBAN>{account.iban}</IBAN></Id><Ccy>{account.currency}</Ccy><Ownr><Nm>{escape(account.owner)}</Nm></Ownr></Acct>"
        f"{balances}{''.join(entries)}</{part}></{message}></Document>"
    ).encode()


def _balance(code: str, amount: Decimal, account: Account, day: date) -> str:
    return (
        f'<Bal><Tp><CdOrPrtry><Cd>{code}</Cd></CdOrPrtry></Tp><Amt Ccy="{account.currency}">{abs(amount):.2f}</Amt>'
        f"<CdtDbtInd>{_sign(amount)}</CdtDbtInd><Dt><Dt>{day}</Dt></Dt></Bal>"
    )


def _sign(amount: Decimal) -> str:
    return "DBIT" if amount < 0 else "CRDT"


def _entry(booking: Booking, currency: str) -> str:
    other = "Cdtr" if booking.amount < 0 else "Dbtr"
    party = f"<{other}><Pty><Nm>{escape(booking.name)}</Nm></Pty></{other}>" if booking.name else ""
    account = f"<{other}Acct><Id><IBAN>{booking.iban}</IBAN></Id></{other}Acct>" if booking.iban else ""
    parties = f"<RltdPties>{party}{account}</RltdPties>" if party or account else ""
    code = "ICDT" if booking.amount < 0 else "RCDT"
    return (
        f'<Ntry><Amt Ccy="{currency}">{abs(booking.amount):.2f}</Amt><CdtDbtInd>{_sign(booking.amount)}</CdtDbtInd>'
        f"<Sts><Cd>BOOK</Cd></Sts><BookgDt><Dt>{booking.day}</Dt></BookgDt><ValDt><Dt>{booking.day}</Dt></ValDt>"
        f"<AcctSvcrRef>{booking.reference}</AcctSvcrRef>"
        f"<BkTxCd><Domn><Cd>PMNT</Cd><Fmly><Cd>{code}</Cd><SubFmlyCd>ESCT</SubFmlyCd></Fmly></Domn></BkTxCd>"
        f"<NtryDtls><TxDtls><Refs><AcctSvcrRef>{booking.reference}</AcctSvcrRef>"
        f"<EndToEndId>{escape(booking.end_to_end_id) or 'NOTPROVIDED'}</EndToEndId></Refs>"
        f'<Amt Ccy="{currency}">{abs(booking.amount):.2f}</Amt><CdtDbtInd>{_sign(booking.amount)}</CdtDbtInd>{parties}'
        f"<RmtInf><Ustrd>{escape(booking.text)}</Ustrd></RmtInf></TxDtls></NtryDtls></Ntry>"
    )
