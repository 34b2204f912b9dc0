"""From what Enable Banking answers to accounts and transactions. Pure; the part that runs for every booking is written to be quick."""

from __future__ import annotations

import re
from collections.abc import Collection
from datetime import date
from typing import Any

from kontobahn import log
from kontobahn.banking.provider import AccountFacts, Mode, ProviderRefused, TransactionFacts
from kontobahn.banking.providers.enable_banking.codes import BALANCES, NATURES, TRANSACTIONS
from kontobahn.banking.providers.enable_banking.wire import Account, AccountId, Amount, Balance, Transaction
from kontobahn.formats.line_breaks import join_lines
from kontobahn.money import from_minor

_AMOUNT = re.compile(r"-?[0-9]{1,13}(\.[0-9]{1,10})?", re.ASCII)
_FEES = frozenset({"CHRG", "COMM", "FEES"})
# No field carries the end-to-end id. Ours is recognised wherever a bank puts it.
_OURS = re.compile(r"\bKB[0-9]+-[0-9A-F]{8}\b")
# ISO 4217: three times the letter, for no currency.
_NO_CURRENCY = 3 * "X"


def minor(amount: Amount) -> int:
    """Returns whole cents, exactly. Raises ProviderRefused if there are fractions of one: nothing is rounded."""
    text = amount.amount
    # Nearly all: whole euros, a dot and two digits.
    if text[-3:-2] == "." and len(text) < 17 and (digits := text[:-3] + text[-2:]).isdecimal() and digits.isascii():
        return int(digits)
    if _AMOUNT.fullmatch(text) is None:
        raise ProviderRefused("ProviderError", f"An amount of the bank is not a number: “{text[:40]}”")
    whole, _, fraction = text.partition(".")
    if len(fraction) != 2:
        fraction = fraction.rstrip("0").ljust(2, "0")
        if len(fraction) > 2:
            raise ProviderRefused("ProviderError", f"An amount of the bank has fractions of a cent: “{text}”")
    return int(whole + fraction)


def exact(amount: Amount) -> int | None:
    """Returns whole cents; None if there are fractions of one."""
    try:
        return minor(amount)
    except ProviderRefused:
        return None


# --- Accounts


def account_facts(account: Account, uid: str, balances: list[Balance]) -> AccountFacts:
    balance = _balance(account.currency, balances)
    cents = None if balance is None else exact(balance.balance_amount)
    if cents is None:
        log.warning("balance_not_told", provider="enable_banking", account=uid)
    currency = account.currency
    if currency == _NO_CURRENCY and balance is not None:
        currency = balance.balance_amount.currency
    iban = iban_of(account)
    other = account.account_id.other.identification if account.account_id and account.account_id.other else None
    return AccountFacts(
        provider_ref=uid,
        name=account.details or account.product or iban or other or "Konto",
        nature=NATURES.get(account.cash_account_type, "account"),
        balance_minor=cents,
        currency_code=currency,
        iban=iban,
        holder_name=account.name,
        # The hash is of the account's number, which accounts in several currencies share.
        identity=f"{account.identification_hash}/{account.currency}",
    )


def iban_of(account: Account) -> str | None:
    if account.account_id is not None and account.account_id.iban:
        return account.account_id.iban.replace(" ", "")
    named = [one.identification for one in account.all_account_ids or () if one.scheme_name == "IBAN"]
    return named[0].replace(" ", "") if named else None


def _balance(currency: str, balances: list[Balance]) -> Balance | None:
    own = [one for one in balances if currency in (one.balance_amount.currency, _NO_CURRENCY)]
    ranked = sorted(
        own,
        key=lambda one: (_rank(one.balance_type), -(one.reference_date or date.min).toordinal()),
    )
    return ranked[0] if ranked else None


def _rank(kind: str) -> int:
    return BALANCES.index(kind) if kind in BALANCES else len(BALANCES)


# --- Transactions


def transaction_facts(
    transactions: list[Transaction], account_ref: str, own_ibans: Collection[str | None], today: date
) -> list[TransactionFacts]:
    """Returns what happened or is about to. Raises ProviderRefused for what cannot be booked rightly: half a list is worse than none."""
    found: list[TransactionFacts] = []
    for one in transactions:
        status = TRANSACTIONS.get(one.status, "pending")
        if status is None:
            continue
        made_on = one.value_date or one.booking_date or one.transaction_date
        if made_on is None:
            if status == "posted":
                raise ProviderRefused("ProviderError", "The bank reports a booked transaction without a date")
            made_on = today
        amount = minor(one.transaction_amount)
        is_debit = one.credit_debit_indicator == "DBIT"
        if not is_debit and (amount < 0 or one.credit_debit_indicator != "CRDT"):
            raise ProviderRefused(
                "ProviderError", "The bank reports a transaction of which it is not clear who was paid"
            )
        # With a debit the sign is said twice, by some banks.
        amount = -abs(amount) if is_debit else amount
        other = one.creditor_account if is_debit else one.debtor_account
        description = _description(one)
        ours = _OURS.search(description) if is_debit and "KB" in description else None
        # By position and past the constructor, in the order of the fields of TransactionFacts.
        found.append(
            _new(TransactionFacts, (
                account_ref, made_on, amount, one.transaction_amount.currency, description, status, one.entry_reference or None,
                _mode(one, other, own_ibans), "uncategorized", ours[0] if ours else None, _NOTHING, _extra(one), None, None, None,
            ))
        )  # fmt: skip
    return found


_NOTHING: dict[str, str | None] = {}
_new: Any = tuple.__new__


def _description(one: Transaction) -> str:
    lines = one.remittance_information
    text = (lines[0] if len(lines) == 1 else join_lines(lines)) if lines else ""
    if one.reference_number and one.reference_number not in text:
        text = f"{text} {one.reference_number}".strip()
    if not text and one.bank_transaction_code is not None:
        text = one.bank_transaction_code.description or ""
    return text


def _mode(one: Transaction, other: AccountId | None, own_ibans: Collection[str | None]) -> Mode:
    code = one.bank_transaction_code
    if code is not None and (code.code in _FEES or code.sub_code in _FEES):
        return "fee"
    return "transfer" if other is not None and other.iban and other.iban in own_ibans else "normal"


def _extra(one: Transaction) -> dict[str, Any]:
    extra: dict[str, Any] = {"posting_date": one.booking_date, "bank_reference": one.entry_reference}
    if one.debtor is not None:
        extra["payer"] = one.debtor.name
    if one.creditor is not None:
        extra["payee"] = one.creditor.name
    if (account := one.debtor_account) is not None:
        extra["payer_information"] = account.iban or _number(account)
    if (account := one.creditor_account) is not None:
        extra["payee_information"] = account.iban or _number(account)
    code = one.bank_transaction_code
    if code is not None or one.note:
        said = code.description if code is not None else None
        extra["additional"] = f"{said} {one.note}" if said and one.note else said or one.note or None
    if one.balance_after_transaction is not None:
        extra["account_balance_snapshot"] = from_minor(minor(one.balance_after_transaction))
    return extra


def _number(account: AccountId) -> str | None:
    return (account.other.identification if account.other is not None else None) or None
