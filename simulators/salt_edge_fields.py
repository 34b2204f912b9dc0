"""The fields that Salt Edge's calls take, as the published descriptions say: which fields, which must be there, and of what form."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

Check = Callable[[Any], bool]
_DAY = re.compile(r"\d{4}-\d{2}-\d{2}")
SCOPES = {"accounts", "holder_info", "transactions"}


def _text(longest: int = 1000) -> Check:
    return lambda value: isinstance(value, str) and 0 < len(value) <= longest


def _among(*words: str) -> Check:
    return lambda value: value in words


def _scopes(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and set(value) <= SCOPES


def _fetch_scopes(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and set(value) <= SCOPES | {"balance"}


def _day(value: Any) -> bool:
    return isinstance(value, str) and bool(_DAY.fullmatch(value))


def _bool(value: Any) -> bool:
    return isinstance(value, bool)


def _days(value: Any) -> bool:
    return isinstance(value, int) and 0 < value <= 3650


def _custom(value: Any) -> bool:
    return isinstance(value, dict) and len(repr(value)) <= 1024


def _amount(value: Any) -> bool:
    return isinstance(value, str) and bool(re.fullmatch(r"\d+\.\d{2}", value)) and float(value) > 0


def _address(value: Any) -> bool:
    return isinstance(value, str) and len(value) <= 2040 and bool(re.match(r"https?://", value))


def _iban(value: Any) -> bool:
    if not isinstance(value, str) or not re.fullmatch(r"[A-Z]{2}\d{2}[A-Z0-9]{11,30}", value):
        return False
    return int("".join(str(int(letter, 36)) for letter in value[4:] + value[:4])) % 97 == 1


# A name with `!` must be there. A dictionary is an object with fields of its own.
_ATTEMPT = {
    "custom_fields": _custom,
    "fetch_scopes!": _fetch_scopes,
    "fetch_from_date": _day,
    "return_to": _address,
    "locale": _among("de", "en"),
    "unduplication_strategy": _among("mark_as_pending", "mark_as_duplicate", "delete_duplicated"),
}
_FLOW: dict[str, Any] = {
    "consent!": {"scopes!": _scopes, "from_date!": _day, "period_days": _days},
    "attempt!": _ATTEMPT,
    "return_connection_id": _bool,
    "return_error_class": _bool,
}
CONNECT = {
    **_FLOW,
    "customer_id!": _text(),
    "automatic_refresh": _bool,
    "provider": {"code": _text(), "include_sandboxes": _bool},
    "kyc": {"type_of_account": _among("personal", "shared", "business")},
}
RECONNECT = _FLOW
REFRESH = {"attempt!": _ATTEMPT}
CUSTOMER = {"identifier!": _text(100)}
PAYMENT = {
    "customer_id!": _text(),
    "provider!": {"code!": _text()},
    "template_identifier!": _among("SEPA", "SEPA_INSTANT"),
    "attempt": {"custom_fields": _custom, "return_to": _address, "locale": _among("de", "en")},
    "payment_attributes!": {
        "end_to_end_id!": _text(35),
        "customer_ip_address!": _text(45),
        "creditor_name!": _text(70),
        "creditor_country_code!": lambda value: isinstance(value, str) and bool(re.fullmatch("[A-Z]{2}", value)),
        "creditor_iban!": _iban,
        "amount!": _amount,
        "currency_code!": _among("EUR"),
        "description!": _text(1000),
        "reference": _text(35),
        "debtor_iban": _iban,
        "debtor_name": _text(70),
        "date": _day,
        "creditor_address": _text(140),
        "creditor_street_name": _text(70),
        "creditor_building_number": _text(16),
        "creditor_post_code": _text(16),
        "creditor_town": _text(35),
    },
}


def wrong(value: Any, fields: dict[str, Any], where: str = "data") -> str | None:
    """Returns what is wrong with an object, as a sentence; None if nothing is."""
    if not isinstance(value, dict):
        return f"{where} parameter must be an object"
    known = {name.rstrip("!"): rule for name, rule in fields.items()}
    for name in fields:
        if name.endswith("!") and name.rstrip("!") not in value:
            return f"{where}.{name.rstrip('!')} parameter must be filled"
    for name, part in value.items():
        rule = known.get(name)
        if rule is None:
            return f"{where}.{name} is not a parameter"
        if isinstance(rule, dict):
            found = wrong(part, rule, f"{where}.{name}")
            if found is not None:
                return found
        elif not rule(part):
            return f"{where}.{name} has an invalid value"
    return None
