"""IBANs while somebody types: whether one is complete and right, and which bank it belongs to, where that is known."""

from __future__ import annotations

import re

from kontobahn.dashboard.words import _
from kontobahn.errors import BadRequest
from kontobahn.formats.pain import sepa

MAX_LENGTH = 60
_LENGTH = {"DE": 22, "AT": 20, "CH": 21, "FR": 27, "IT": 27, "NL": 18, "ES": 24, "BE": 16, "LU": 20, "PL": 28}


def describe(typed: str) -> str:
    """One line for the hint beside the field."""
    text = re.sub(r"\s", "", typed).upper()
    length = _LENGTH.get(text[:2])
    if length is not None and len(text) < length:
        return (
            _("%(left)s more characters", left=length - len(text))
            if length - len(text) > 1
            else _("one more character")
        )
    try:
        iban = sepa.check_iban("iban", text)
    except BadRequest:
        return _("This is not a valid IBAN of the SEPA area. Please compare it with the invoice.")
    bank = bank_of(iban)
    return _("Valid: %(bank)s", bank=bank) if bank else _("This IBAN is valid.")


def bank_of(iban: str) -> str:
    """The bank's name; empty where it is not known."""
    # Loading the registry takes a moment, so not before it is needed.
    from schwifty import IBAN
    from schwifty.exceptions import SchwiftyException

    try:
        found = IBAN(iban)
        bank = found.bank
        name = str(bank.name or "") if bank else ""
        bic = str(found.bic or "")
    except SchwiftyException:
        return ""
    return f"{name} ({bic})" if name and bic else name or bic
