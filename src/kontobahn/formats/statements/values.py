"""Single values as statement files write them: amounts, days, accounts. Each is read exactly, or a StatementError is raised."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import date
from functools import lru_cache

from kontobahn.formats.statements.model import StatementError

_MAX_DIGITS = 14  # in hundredths: what money.MAX_AMOUNT allows
_DECIMAL = re.compile(r"\+?(?:(\d{1,18})(?:[.,](\d{0,2})0*)?|[.,](\d{1,2})0*)", re.ASCII)
_LONG_DECIMAL = re.compile(
    r"(\d{1,18}\.\d\d)(\d)\d{0,30}", re.ASCII
)  # as written by a program that calculates in binary
_DAY = re.compile(r"(\d{4}-\d\d-\d\d)(?:Z|[+-]\d\d:\d\d|T.*)?", re.ASCII)
_GERMAN_ACCOUNT = re.compile(r"(\d{8})[/ ]?(\d{1,10})", re.ASCII)
_CURRENCY = re.compile(r"[A-Z]{3}", re.ASCII)


def minor(text: str | None) -> int:
    """Returns an unsigned amount in hundredths: 12, 12.3, .2, 12,34 (MT940), 12.3400."""
    # The usual form, checked without a pattern: this takes half the time.
    if text and text[-3:-2] == "." and len(text) < 15:
        digits = text[:-3] + text[-2:]
        if digits.isdigit() and digits.isascii():
            return int(digits)
    found = _DECIMAL.fullmatch(text.strip()) if text else None
    if found is None:
        raise StatementError(_wrong_amount(text))
    digits = (found[1] or "") + (found[2] or found[3] or "").ljust(2, "0")
    if len(digits.lstrip("0")) > _MAX_DIGITS:
        raise StatementError(f"The amount {text} is too large.")
    return int(digits)


def nearly_minor(text: str | None) -> tuple[int, bool]:
    """Returns an amount to the nearest hundredth, and whether it was none: for balances, which the entries prove."""
    try:
        return minor(text), False
    except StatementError:
        found = _LONG_DECIMAL.fullmatch(text.strip()) if text else None
        if found is None:
            raise
    return minor(found[1]) + (found[2] >= "5"), True


def _wrong_amount(text: str | None) -> str:
    if text and re.fullmatch(r"\s*\+?\d*[.,]\d+\s*", text, re.ASCII):
        return f"The amount {_shown(text)} has more than two decimals; it would have to be rounded."
    return f"{_shown(text)} is not an amount."


@lru_cache(4096)
def day(text: str | None) -> date:
    """Returns the day of an ISO date or date-time, as the bank wrote it."""
    found = _DAY.fullmatch(text.strip()) if text else None
    try:
        if found is None:
            raise ValueError
        return date.fromisoformat(found[1])
    except ValueError:
        raise StatementError(f"{_shown(text)} is not a date of the form YYYY-MM-DD.") from None


def currency(text: str | None) -> str:
    if text is None or not _CURRENCY.fullmatch(text):
        raise StatementError(f"{_shown(text)} is not a currency code.")
    return text


@lru_cache(1024)
def _iban_fault(iban: str) -> str | None:
    from schwifty import IBAN
    from schwifty.exceptions import SchwiftyException

    try:
        IBAN(iban)
    except SchwiftyException as error:
        return str(error)
    return None


def valid_iban(text: str | None) -> str:
    iban = re.sub(r"\s", "", text or "").upper()
    fault = _iban_fault(iban)
    if fault is not None:
        raise StatementError(f"The account's IBAN {_shown(text)} is not valid ({fault}).")
    return iban


def own_iban(identification: str, ibans: Mapping[str, str]) -> str:
    """Returns the IBAN of a statement's account from what the file calls it: an IBAN, or bank code and account number."""
    named = ibans.get(identification)
    if named is not None:
        return valid_iban(named)
    if identification[:2].isalpha() and identification[2:4].isdigit():
        return valid_iban(identification)
    found = _GERMAN_ACCOUNT.fullmatch(identification)
    iban = _iban_from(found[1], found[2]) if found else None
    if iban is None:
        raise StatementError(
            f"The account is given as {_shown(identification)}, from which no IBAN can be made for certain."
            f" Name its IBAN: --iban {identification or 'ACCOUNT'}=DE… (in a call: iban=…)."
        )
    return iban


@lru_cache(1024)
def _iban_from(bank_code: str, account: str) -> str | None:
    """Returns None if the bank is unknown: its account numbers may follow a rule of their own."""
    from schwifty import IBAN
    from schwifty.exceptions import SchwiftyException

    try:
        iban = IBAN.generate("DE", bank_code=bank_code, account_code=account)
    except SchwiftyException:
        return None
    return str(iban) if iban.bank is not None else None


def whole(text: str | None) -> int | None:
    """Returns a whole number such as a statement's, or None if the text is not one."""
    text = (text or "").strip()
    return int(text) if text.isdigit() and text.isascii() and len(text) <= 18 else None


def _shown(text: str | None) -> str:
    """Quotes a text for a message, shortened if it is long."""
    return repr(text if len(text or "") <= 60 else f"{(text or '')[:60]}…") if text else "An empty text"
