"""One camt entry (Ntry) as one Entry, or as one for each transaction of a batch whose amounts make up the whole."""

from __future__ import annotations

import re
from datetime import date
from functools import lru_cache
from typing import Any

from lxml import etree

from kontobahn.formats.camt import paths
from kontobahn.formats.purpose import Purpose, given, join_lines, parse
from kontobahn.formats.statements import values
from kontobahn.formats.statements.model import NOBODY, Account, Amount, Entry, Opening, Party, StatementError, Status
from kontobahn.money import amount_text

_STATUSES: dict[str, Status] = {"BOOK": "posted", "PDNG": "pending", "FUTR": "pending"}
_SIGNS = {"CRDT": 1, "DBIT": -1}
_TRUE = ("true", "1")
_CREDITOR_ID = re.compile(r"[A-Z]{2}\d{2}[A-Z0-9]{3}[A-Z0-9]{1,28}", re.ASCII | re.IGNORECASE)


class EntryReader:
    def __init__(self, space: str, *, nested_status: bool) -> None:
        self._space = space
        self._walk = paths.Walk(space, nested_status=nested_status)

    def read(self, element: etree._Element, number: int, account: Account, opening: Opening) -> list[Entry]:
        """Empty for an entry that only informs. StatementError where something is missing or wrong."""
        slots, details = self._walk.slots(element)
        status = _STATUSES.get(slots[3])
        if status is None:
            code = self._status_code(element, slots[3])
            if code == "INFO":
                return []
            status = _STATUSES[code]
        whole = _Whole(slots, status, number, element.sourceline or 0, account, opening)
        if len(details) == 1:
            return [whole.entry(details[0])]
        if len(details) > 1 and (amounts := whole.amounts_of(details)):
            return [
                whole.entry(part, amount, len(details), place)
                for place, (part, amount) in enumerate(zip(details, amounts, strict=True), 1)
            ]
        return [whole.entry([None] * self._walk.part_size, None, len(details))]

    def _status_code(self, element: etree._Element, text: str | None) -> str:
        """A version's status in the other version's writing, as some banks have it."""
        nested = element.findtext(f"{self._space}Sts/{self._space}Cd")
        direct = element.findtext(f"{self._space}Sts")
        for code in ((text or "").strip(), (nested or "").strip(), (direct or "").strip()):
            if code == "INFO" or code in _STATUSES:
                return code
        raise StatementError("The entry's status (Sts) is missing or none of BOOK, PDNG, FUTR and INFO.")


class _Whole:
    """What belongs to the entry as a whole, and with it to each of its parts."""

    __slots__ = ("_account", "_booked", "_currency", "_line", "_number", "_reversal", "_sign", "_slots", "_status",
                 "_value", "amount")  # fmt: skip

    def __init__(
        self, slots: paths.Slots, status: Status, number: int, line: int, account: Account, opening: Opening
    ) -> None:
        self._slots = slots
        self._status = status
        self._number = number
        self._line = line
        self._account = account
        amount, currency, sign, _, booked, valued, reversal = slots[:7]
        if amount is None:
            raise StatementError("The entry has no amount (Amt).")
        direction = _SIGNS.get(sign) or _SIGNS.get((sign or "").strip())
        if direction is None:
            raise StatementError("The entry is neither credit nor debit (CdtDbtInd).")
        if currency != account.currency and (account.currency is not None or not values.currency(currency)):
            raise StatementError(f"The account is kept in {account.currency}, but the entry is in {currency}.")
        self._sign = direction
        self.amount = direction * values.minor(amount)
        self._currency: str = currency
        self._value = values.day(valued) if valued else None
        self._booked = values.day(booked) if booked else self._instead_of_booking_date(opening)
        self._reversal = reversal is not None and reversal.strip() in _TRUE

    def _instead_of_booking_date(self, opening: Opening) -> date:
        if self._status == "pending":
            if self._value is not None:
                return self._value
            if opening.created_at:
                return values.day(opening.created_at)
        raise StatementError("The entry has no booking date (BookgDt).")

    def amounts_of(self, details: list[paths.Slots]) -> list[int] | None:
        """The parts' amounts if they make up the whole; money is never guessed."""
        amounts = []
        for part in details:
            if part[0] is None or part[1] != self._currency:
                return None
            amounts.append(_SIGNS.get(part[2], self._sign) * values.minor(part[0]))
        return amounts if sum(amounts) == self.amount else None

    def entry(self, details: paths.Slots, amount: int | None = None, count: int = 1, part: int = 0) -> Entry:
        (entry_ref, bank_ref, domain, family, subfamily, own_code, info,
         charge, charge_currency, batch_count, batch_id) = self._slots[7:]  # fmt: skip
        (_, _, _, original, original_currency, end_to_end, mandate, instruction, transaction, payment_info, reference, own_ref,
         debtor, debtor_id, debtor_iban, debtor_account, debtor_bic,
         creditor, creditor_id, creditor_iban, creditor_account, creditor_bic, by, to, lines, structured, purpose_code,
         part_domain, part_family, part_subfamily, part_code, reason,
         part_charge, part_charge_currency, part_info) = details  # fmt: skip
        description = _description(lines, structured)
        if part_charge is not None:
            charge, charge_currency = part_charge, part_charge_currency
        if part_domain is not None:
            domain, family, subfamily = part_domain, part_family, part_subfamily
        gvc, primanota = german_code(part_code or own_code) if part_code or own_code else (None, None)
        charged = Amount(values.minor(charge), charge_currency) if charge is not None else None
        initial = Amount(values.minor(original), original_currency) if original is not None else None
        payer = _party(debtor, debtor_iban, debtor_account, debtor_bic)
        payee = _party(creditor, creditor_iban, creditor_account, creditor_bic)
        amount = self.amount if amount is None else amount
        returned = self._reversal or reason is not None
        purpose = _purpose(
            description,
            end_to_end,
            mandate,
            instruction,
            creditor_id,
            debtor_id,
            by,
            to,
            purpose_code,
            initial,
            charged,
        )
        other = self._counterparty(payer, payee, amount, returned)
        if purpose.iban is not None and other.iban is None:
            payer, payee, other = _with_account(payer, payee, other, purpose)
        if batch_count is not None and part == 0:
            count = max(count, values.whole(batch_count) or 1)
        fields: tuple[Any, ...] = (
            self._status, amount, self._currency, self._booked, self._value,
            description or part_info or info or "", purpose, other, payer, payee,
            info or part_info, _reference(reference, bank_ref, own_ref), entry_ref, instruction, transaction, payment_info or batch_id,
            f"{domain}-{family}-{subfamily}" if domain is not None else None, gvc, primanota,
            self._reversal, reason, initial, charged, max(count, 1), part, self._number, self._line,
        )  # fmt: skip
        return Entry._make(fields)

    def _counterparty(self, payer: Party, payee: Party, amount: int, returned: bool) -> Party:
        """Whichever is not the account itself. A returned payment keeps its first direction's payer and payee."""
        if payer is NOBODY or (payer.iban is not None and payer.iban == self._account.iban):
            return payee
        if payee is NOBODY or (payee.iban is not None and payee.iban == self._account.iban):
            return payer
        return payer if (amount >= 0) != returned else payee


def _reference(*candidates: str | None) -> str | None:
    """The bank's own, if it has one: NONREF on every entry would make them all the same."""
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
    return Party(name and given(name), iban and iban.strip(), account, bic and given(bic))


def _with_account(payer: Party, payee: Party, other: Party, purpose: Purpose) -> tuple[Party, Party, Party]:
    """The counterparty with the account that only the purpose text tells."""
    told = other._replace(iban=purpose.iban, bic=other.bic or purpose.bic)
    return told if payer is other else payer, told if payee is other and payer is not other else payee, told


def _purpose(
    description: str,
    end_to_end: str | None,
    mandate: str | None,
    instruction: str | None,
    creditor_id: str | None,
    debtor_id: str | None,
    by: str | None,
    to: str | None,
    code: str | None,
    original: Amount | None,
    charges: Amount | None,
) -> Purpose:
    """Structured fields win; the text fills the rest."""
    if "+" in description or ":" in description or "\n" in description:
        text = parse(description)
        svwz = text.svwz
    else:
        text = _NO_TAGS
        svwz = given(description)
    return Purpose(
        (creditor_id and _creditor_id(creditor_id)) or text.cred,
        (mandate and given(mandate)) or text.mref,
        (instruction and given(instruction)) or text.kref,
        (debtor_id and given(debtor_id)) or text.debt,
        svwz,
        (by and given(by)) or text.abwa,
        (to and given(to)) or text.abwe,
        text.bic,
        (original and _amount(original)) or text.oamt,
        (charges and _amount(charges)) or text.coam,
        (code and given(code)) or text.purp,
        (end_to_end and given(end_to_end)) or text.end_to_end_id,
        *text[12:],
    )


_NO_TAGS = Purpose()


@lru_cache(4096)
def _creditor_id(text: str) -> str | None:
    """A party's identification may be another than that of a SEPA creditor."""
    text = text.strip()
    return text if _CREDITOR_ID.fullmatch(text) else None


def _amount(amount: Amount) -> str:
    return f"{amount_text(amount.amount_minor)} {amount.currency}"


@lru_cache(4096)
def german_code(code: str) -> tuple[str | None, str | None]:
    """Geschäftsvorfallcode and primanota from `NTRF+166+00931+997`, or from the code alone."""
    pieces = code.strip().split("+")
    for place, piece in enumerate(pieces):
        if len(piece) == 3 and piece.isdigit():
            return piece, (pieces[place + 1] or None) if place + 1 < len(pieces) else None
    return None, None
