"""From a bank transaction as it is stored to what the matcher looks at. Pure."""

from __future__ import annotations

import re
from decimal import Decimal

from kontobahn.banking.transactions.wire import Transaction, TransactionExtra
from kontobahn.formats.statements import Entry, purpose
from kontobahn.money import to_minor
from kontobahn.reconciliation.core.model import Movement

_AMOUNT = re.compile(r"(?<![\d.,])(\d{1,12})(?:[.,](\d{1,2}))?(?![.,]?\d)")
# The DK's codes for what comes back: direct debits (108, 109), transfers (159), and credits given again (181).
_RETURNS = frozenset(("108", "109", "159", "181"))


def movement_of(transaction: Transaction, own_iban: str | None = None) -> Movement:
    """`own_iban` is that of the account: a bank may name payer and payee of a return as they were in the payment that comes back."""
    parsed, extra = transaction.description_parsed, transaction.extra
    is_in = transaction.amount > 0
    name, account = _other_side(extra, is_in=is_in, own_iban=own_iban)
    texts = (
        ("svwz", parsed.svwz),
        ("end_to_end_id", extra.end_to_end_id),
        ("kref", parsed.kref),
        ("additional", extra.additional),
    )
    # Not a field of the transaction's answer, so it is looked for in the text.
    reference = purpose.parse(transaction.description).rref if "RREF" in transaction.description else None
    return Movement(
        id=transaction.id,
        day=transaction.made_on,
        amount_minor=to_minor(transaction.amount),
        currency=transaction.currency_code,
        texts=tuple((field, text) for field, text in texts if text),
        name=name,
        iban=account,
        other_name=parsed.abwa if is_in else parsed.abwe,
        end_to_end_id=extra.end_to_end_id,
        mandate=parsed.mref,
        bank_reference=extra.bank_reference,
        return_reference=reference,
        is_return=bool(extra.return_reason or reference or extra.gvc in _RETURNS),
        original_minor=_cents(parsed.oamt),
        fee_minor=_cents(parsed.coam) or 0,
    )


def _other_side(extra: TransactionExtra, *, is_in: bool, own_iban: str | None) -> tuple[str | None, str | None]:
    """Name and account of whoever is not ourselves."""
    sides = (extra.payer, extra.payer_information), (extra.payee, extra.payee_information)
    expected, other = sides if is_in else sides[::-1]
    is_ours = own_iban is not None and expected[1] == own_iban
    return (
        other if (is_ours or expected == (None, None)) and other != (None, None) and other[1] != own_iban else expected
    )


def movement_of_entry(id: str, entry: Entry) -> Movement:
    """The same from a statement that was read and not imported."""
    said, other = entry.purpose, entry.counterparty
    texts = (
        ("svwz", said.svwz),
        ("end_to_end_id", said.end_to_end_id),
        ("kref", said.kref),
        ("additional", said.additional),
    )
    return Movement(
        id=id,
        day=entry.value_date or entry.booking_date,
        amount_minor=entry.amount_minor,
        currency=entry.currency,
        texts=tuple((field, text) for field, text in texts if text),
        name=other.name,
        iban=other.iban or other.account,
        other_name=said.abwa if entry.amount_minor > 0 else said.abwe,
        end_to_end_id=said.end_to_end_id,
        mandate=said.mref,
        bank_reference=entry.bank_reference,
        return_reference=said.rref,
        is_return=bool(entry.return_reason or said.rref or entry.gvc in _RETURNS),
        original_minor=_cents(said.oamt),
        fee_minor=_cents(said.coam) or 0,
    )


def _cents(text: str | None) -> int | None:
    """Reads `EUR 12,34`, `12.34` or `12`; an amount with thousands separators is not understood, and so not used."""
    found = _AMOUNT.search(text or "")
    if found is None or len(re.findall(r"[.,]", text or "")) > 1:
        return None
    return to_minor(Decimal(f"{found[1]}.{(found[2] or '0').ljust(2, '0')}"))
