"""The data of the simulator of Enable Banking: accounts, transactions and banks in the published shapes."""

from __future__ import annotations

import base64
from dataclasses import dataclass, field
from typing import Any


@dataclass
class Account:
    iban: str
    owner: str = "Muster GmbH"
    details: str | None = "Geschäftskonto"
    currency: str = "EUR"
    kind: str = "CACC"
    balances: list[tuple[str, str]] = field(default_factory=lambda: [("CLAV", "2042.50"), ("ITBD", "1042.50")])
    transactions: list[dict[str, Any]] = field(default_factory=list)
    # A bank may stop telling the IBAN, and tell a number of its own instead.
    number: str = ""
    # Blocked at the bank: it has no uid. Or it has one, and cannot be read all the same.
    is_blocked: bool = False
    is_readable: bool = True

    @property
    def hash(self) -> str:
        return "WwpbCiJhY2NvdW50Il0." + base64.b64encode(self.iban.encode()).decode()


def transaction(
    amount: str, text: str, day: str | None = "2026-03-01", ref: str | None = None, status: str = "BOOK", **more: Any
) -> dict[str, Any]:
    """A transaction as it is answered; the sign of the amount becomes the indicator."""
    is_debit = amount.startswith("-")
    return {
        "entry_reference": ref,
        "transaction_amount": {"currency": "EUR", "amount": amount.lstrip("-")},
        "credit_debit_indicator": "DBIT" if is_debit else "CRDT",
        "status": status,
        "booking_date": day if status == "BOOK" else None,
        "value_date": day,
        "remittance_information": [text],
        **more,
    }


def bank(name: str = "Musterbank", country: str = "DE", **more: Any) -> dict[str, Any]:
    kinds = [
        {"payment_type": kind, "psu_type": psu_type, "requested_execution_date_supported": kind == "SEPA",
         "debtor_account_required": True, "remittance_information_lines": [{"min_length": 1, "max_length": 140}]}
        for kind in ("SEPA", "INST_SEPA") for psu_type in ("personal", "business")
    ]  # fmt: skip
    return {
        "name": name, "country": country, "logo": f"https://enablebanking.example/brands/{country}/{name}/",
        "psu_types": ["personal", "business"], "auth_methods": [], "maximum_consent_validity": 180 * 86_400,
        "beta": False, "bic": "MUSTDEFFXXX", "required_psu_headers": ["Psu-Ip-Address"], "payments": kinds, **more,
    }  # fmt: skip
