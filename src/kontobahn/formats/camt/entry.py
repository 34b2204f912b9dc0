"""One camt entry (Ntry) as one Entry, or as one for each transaction of a batch if their amounts make up the whole."""

from __future__ import annotations

import re
from datetime import date
from functools import lru_cache

from lxml import etree

from kontobahn.formats.camt.paths import NO_DETAILS, DetailFields, EntryFields, FieldReader
from kontobahn.formats.line_breaks import join_lines
from kontobahn.formats.purpose import Purpose, parse, provided, reference
from kontobahn.formats.statements import values
from kontobahn.formats.statements.model import (
    NOBODY,
    Amount,
    Entry,
    Opening,
    Party,
    StatementAccount,
    StatementError,
    Status,
)
from kontobahn.money import amount_text

_STATUSES: dict[str, Status] = {"BOOK": "posted", "PDNG": "pending", "FUTR": "pending"}
_SIGNS = {"CRDT": 1, "DBIT": -1}
_TRUE = ("true", "1")
_CREDITOR_ID = re.compile(r"[A-Z]{2}\d{2}[A-Z0-9]{3}[A-Z0-9]{1,28}", re.ASCII | re.IGNORECASE)


class EntryReader:
    def __init__(self, space: str, *, nested_status: bool) -> None:
        self._space = space
        self._fields = FieldReader(space, nested_status=nested_status)

    def read(self, element: etree._Element, number: int, account: StatementAccount, opening: Opening) -> list[Entry]:
        """Returns no entry for one that only informs. Raises StatementError if something is missing or wrong."""
        fields, details = self._fields.read(element)
        status = _STATUSES.get(fields.status or "")
        if status is None:
            code = self._status_code(element, fields.status)
            if code == "INFO":
                return []
            status = _STATUSES[code]
        whole = _Whole(fields, status, number, element.sourceline or 0, account, opening)
        if len(details) == 1:
            return [whole.entry(details[0])]
        if len(details) > 1 and (amounts := whole.amounts_of(details)):
            return [
                whole.entry(part, amount, len(details), number)
                for number, (part, amount) in enumerate(zip(details, amounts, strict=True), 1)
            ]
        return [whole.entry(NO_DETAILS, None, len(details))]

    def _status_code(self, element: etree._Element, text: str | None) -> str:
        """Returns the status even if the bank writes it as another version of the format does."""
        nested = element.findtext(f"{self._space}Sts/{self._space}Cd")
        direct = element.findtext(f"{self._space}Sts")
        for code in ((text or "").strip(), (nested or "").strip(), (direct or "").strip()):
            if code == "INFO" or code in _STATUSES:
                return code
        raise StatementError("The entry's status (Sts) is missing or none of BOOK, PDNG, FUTR and INFO.")


class _Whole:
    """What belongs to the entry as a whole, and so to each of its parts."""

    __slots__ = ("_account", "_booked", "_currency", "_fields", "_line", "_number", "_reversal", "_sign", "_status", "_value",
                 "amount")  # fmt: skip

    def __init__(
        self,
        fields: EntryFields,
        status: Status,
        number: int,
        line: int,
        account: StatementAccount,
        opening: Opening,
    ) -> None:
        self._fields = fields
        self._status = status
        self._number = number
        self._line = line
        self._account = account
        if fields.amount is None:
            raise StatementError("The entry has no amount (Amt).")
        sign = fields.direction or ""
        direction = _SIGNS.get(sign) or _SIGNS.get(sign.strip())
        if direction is None:
            raise StatementError("The entry is neither credit nor debit (CdtDbtInd).")
        currency = fields.currency
        if currency is None or currency != account.currency:
            if account.currency is not None:
                raise StatementError(f"The account is kept in {account.currency}, but the entry is in {currency}.")
            currency = values.currency(currency)
        self._sign = direction
        self.amount = direction * values.minor(fields.amount)
        self._currency = currency
        self._value = values.day(fields.value_date) if fields.value_date else None
        self._booked = values.day(fields.booking_date) if fields.booking_date else self._without_booking_date(opening)
        self._reversal = fields.reversal is not None and fields.reversal.strip() in _TRUE

    def _without_booking_date(self, opening: Opening) -> date:
        if self._value is not None:
            return self._value
        if self._status == "pending" and opening.created_at:
            return values.day(opening.created_at)
        raise StatementError("The entry has no booking date (BookgDt), and no value date (ValDt) either.")

    def amounts_of(self, details: list[DetailFields]) -> list[int] | None:
        """Returns the parts' amounts if they make up the whole; money is never guessed."""
        amounts = []
        for part in details:
            if part.amount is None or part.currency != self._currency:
                return None
            amounts.append(_SIGNS.get(part.direction or "", self._sign) * values.minor(part.amount))
        return amounts if sum(amounts) == self.amount else None

    def entry(self, details: DetailFields, amount: int | None = None, count: int = 1, part: int = 0) -> Entry:
        fields = self._fields
        description = _description(details.lines, details.structured)
        code = details if details.domain is not None else fields
        german = details.proprietary_code or fields.proprietary_code
        gvc, primanota = german_code(german) if german else (None, None)
        charges = original = None
        charged = details if details.charges is not None else fields
        if charged.charges is not None:
            charges = Amount(values.minor(charged.charges), charged.charges_currency)
        if details.original is not None:
            original = Amount(values.minor(details.original), details.original_currency)
        payer = _party(details.debtor, details.debtor_iban, details.debtor_account, details.debtor_bic)
        payee = _party(details.creditor, details.creditor_iban, details.creditor_account, details.creditor_bic)
        amount = self.amount if amount is None else amount
        purpose = _purpose(description, details, original, charges)
        other = self._counterparty(payer, payee, amount, self._reversal or details.return_reason is not None)
        if purpose.iban is not None and other.iban is None:
            payer, payee, other = _with_account(payer, payee, other, purpose)
        if fields.batch_count is not None and part == 0:
            count = max(count, values.whole(fields.batch_count) or 1)
        return Entry(
            status=self._status,
            amount_minor=amount,
            currency=self._currency,
            booking_date=self._booked,
            value_date=self._value,
            description=description or details.information or fields.information or "",
            purpose=purpose,
            counterparty=other,
            payer=payer,
            payee=payee,
            booking_text=fields.information or details.information,
            bank_reference=_reference(details.bank_reference, fields.bank_reference, details.proprietary_reference),
            entry_reference=fields.reference,
            customer_reference=details.instruction_id,
            transaction_id=details.transaction_id,
            payment_information_id=details.payment_information_id or fields.batch_id,
            transaction_code=None if code.domain is None else f"{code.domain}-{code.family}-{code.subfamily}",
            gvc=gvc,
            primanota=primanota,
            reversal=self._reversal,
            return_reason=details.return_reason,
            original_amount=original,
            charges=charges,
            batch_size=max(count, 1),
            part=part,
            number=self._number,
            line=self._line,
        )

    def _counterparty(self, payer: Party, payee: Party, amount: int, returned: bool) -> Party:
        """Returns whichever is not the account itself. A returned payment keeps the payer and payee of the original."""
        if payer is NOBODY or (payer.iban is not None and payer.iban == self._account.iban):
            return payee
        if payee is NOBODY or (payee.iban is not None and payee.iban == self._account.iban):
            return payer
        return payer if (amount >= 0) != returned else payee


def _reference(*candidates: str | None) -> str | None:
    """Returns the first real reference: NONREF on every entry would make them all the same."""
    for candidate in candidates:
        if candidate is not None and (reference := candidate.strip()) and reference != "NONREF":
            return reference
    return None


def _description(lines: list[str] | None, structured: list[str] | None) -> str:
    if structured is None:
        if lines is None:
            return ""
        return lines[0] if len(lines) == 1 else join_lines(lines)
    unstructured = join_lines(lines or ())
    return " ".join([*filter(None, [unstructured]), *(line for line in structured if line not in unstructured)])


def _party(name: str | None, iban: str | None, account: str | None, bic: str | None) -> Party:
    if name is None and iban is None and account is None and bic is None:
        return NOBODY
    return Party(name and provided(name), iban and iban.strip(), account, bic and provided(bic))


def _with_account(payer: Party, payee: Party, other: Party, purpose: Purpose) -> tuple[Party, Party, Party]:
    """Adds the account to the counterparty if only the purpose text names it."""
    named = other._replace(iban=purpose.iban, bic=other.bic or purpose.bic)
    return named if payer is other else payer, named if payee is other and payer is not other else payee, named


def _purpose(description: str, details: DetailFields, original: Amount | None, charges: Amount | None) -> Purpose:
    """Structured fields win; the text fills the rest."""
    if "+" in description or ":" in description or "\n" in description:
        text = parse(description)
        svwz = text.svwz
    else:
        text = _NO_TAGS
        svwz = provided(description)
    creditor_id, mandate, instruction_id = details.creditor_id, details.mandate, details.instruction_id
    debtor_id, by, to = details.debtor_id, details.ultimate_debtor, details.ultimate_creditor
    code, end_to_end_id = details.purpose_code, details.end_to_end_id
    return Purpose(
        cred=(creditor_id and _creditor_id(creditor_id)) or text.cred,
        mref=(mandate and reference(mandate)) or text.mref,
        kref=(instruction_id and reference(instruction_id)) or text.kref,
        debt=(debtor_id and provided(debtor_id)) or text.debt,
        svwz=svwz,
        abwa=(by and provided(by)) or text.abwa,
        abwe=(to and provided(to)) or text.abwe,
        bic=text.bic,
        oamt=(original and _amount(original)) or text.oamt,
        coam=(charges and _amount(charges)) or text.coam,
        purp=(code and provided(code)) or text.purp,
        end_to_end_id=(end_to_end_id and reference(end_to_end_id)) or text.end_to_end_id,
        iban=text.iban,
        mdat=text.mdat,
        sqtp=text.sqtp,
        orcr=text.orcr,
        ormr=text.ormr,
        ddat=text.ddat,
        bref=text.bref,
        rref=text.rref,
        additional=text.additional,
    )


_NO_TAGS = Purpose()


@lru_cache(4096)
def _creditor_id(text: str) -> str | None:
    """Returns the identification if it is that of a SEPA creditor; parties have others too."""
    text = text.strip()
    return text if _CREDITOR_ID.fullmatch(text) else None


def _amount(amount: Amount) -> str:
    return f"{amount_text(amount.amount_minor)} {amount.currency}"


@lru_cache(4096)
def german_code(code: str) -> tuple[str | None, str | None]:
    """Returns Geschäftsvorfallcode and primanota from `NTRF+166+00931+997`, or from the code alone."""
    pieces = code.strip().split("+")
    for index, piece in enumerate(pieces):
        if len(piece) == 3 and piece.isdigit():
            return piece, (pieces[index + 1] or None) if index + 1 < len(pieces) else None
    return None, None
