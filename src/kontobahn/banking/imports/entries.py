"""From an entry of a statement to a transaction, whichever way the statement came: as a file, or from the bank directly."""

from __future__ import annotations

from collections.abc import Collection
from datetime import date
from typing import Any

import msgspec

from kontobahn.banking.provider import TransactionFacts
from kontobahn.formats.statements import Entry
from kontobahn.money import from_minor

_FEES = ("CHRG", "COMM", "FEES")


def entry_facts(
    entry: Entry, account_ref: str, own_ibans: Collection[str | None], *, reference: str | None = None,
    statement: str | None = None, balance: int | None = None,
) -> TransactionFacts:  # fmt: skip
    payer, payee = entry.payer, entry.payee
    extra: dict[str, Any] = {
        "payer": payer.name,
        "payee": payee.name,
        "payer_information": payer.iban or payer.account,
        "payee_information": payee.iban or payee.account,
        "additional": " ".join(filter(None, (entry.booking_text, entry.purpose.additional))) or None,
        "posting_date": entry.booking_date,
        "bank_reference": entry.bank_reference,
        "gvc": entry.gvc,
        "primanota": entry.primanota,
        "return_reason": entry.return_reason,
    }
    if balance is not None:
        extra["account_balance_snapshot"] = from_minor(balance)
    return TransactionFacts(
        account_ref=account_ref,
        made_on=made_on(entry),
        amount_minor=entry.amount_minor,
        currency_code=entry.currency,
        description=entry.description,
        status=entry.status,
        provider_ref=reference,
        mode="fee" if _is_fee(entry) else "transfer" if entry.counterparty.iban in own_ibans else "normal",
        end_to_end_id=entry.end_to_end_id,
        parsed=msgspec.structs.asdict(entry.purpose),
        extra=extra,
        statement=statement,
        balance_minor=balance,
    )


def made_on(entry: Entry) -> date:
    return entry.value_date or entry.booking_date


def reference_of(entry: Entry) -> str | None:
    """Returns the bank's reference. The parts of a batch share that of the batch."""
    reference = entry.bank_reference
    return f"{reference}/{entry.part}" if reference and entry.part else reference


def _is_fee(entry: Entry) -> bool:
    return bool(
        (entry.gvc or "").startswith("8") or any(part in _FEES for part in (entry.transaction_code or "").split("-"))
    )
