"""How a bank writes a booking: purpose texts with SEPA tags in three styles, and the other party. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date
from typing import Any, NamedTuple

from kontobahn.banking.provider import Mode, TransactionStatus
from kontobahn.sandbox_bank.banks import BANKS, Bank, TextStyle, iban

LINE = 27


class Booking(NamedTuple):
    made_on: date
    amount_minor: int
    description: str
    category: str = "uncategorized"
    mode: Mode = "normal"
    status: TransactionStatus = "posted"
    end_to_end_id: str | None = None
    # Fields of the transaction's `extra`, without the balance, which is added when it is written.
    extra: Mapping[str, Any] = {}


class Party(NamedTuple):
    """Someone who pays the account holder or is paid."""

    name: str
    number: int
    category: str = "uncategorized"

    @property
    def iban(self) -> str:
        return iban(BANKS["volksbank_muster"], 7_000_000 + self.number) or ""

    @property
    def creditor_id(self) -> str:
        national = f"0{9_000_000_000 + self.number}"
        return f"DE{98 - int(f'{national}131400') % 97:02d}ZZZ{national}"


def purpose(style: TextStyle, text: str, **tags: str | None) -> str:
    """Returns the text with its tags, as this bank would write it."""
    present = {tag: value for tag, value in tags.items() if value}
    if style == "colon":
        return " ".join([text, *(f"{tag}: {value}" for tag, value in present.items())])
    whole = "".join(f"{tag}+{value} " for tag, value in present.items()) + f"SVWZ+{text}"
    if style == "plus":
        return whole
    return " ".join(whole[start : start + LINE] for start in range(0, len(whole), LINE))


def direct_debit(
    bank: Bank, day: date, amount_minor: int, party: Party, text: str, *, holder: str, time: str = "00:00:00"
) -> Booking:
    mandate, reference = f"MND-{party.number:05d}", f"{party.number}-{day:%Y%m%d}"
    written = purpose(bank.style, text, EREF=reference, MREF=mandate, CRED=party.creditor_id)
    return _with_party(day, -amount_minor, written, party, holder, time, "SEPA-Lastschrift", reference)


def transfer(
    bank: Bank, day: date, amount_minor: int, party: Party, text: str, *, holder: str, reference: str | None = None,
    time: str = "00:00:00", mode: Mode = "normal", original_party: str | None = None,
) -> Booking:  # fmt: skip
    """A transfer; a negative amount is outgoing."""
    tags = {"EREF": reference or "NOTPROVIDED", "IBAN": party.iban, "BIC": BANKS["volksbank_muster"].bic}
    written = purpose(bank.style, text, **tags, ABWA=original_party)
    kind = "Gutschrift" if amount_minor > 0 else "Überweisung"
    return _with_party(day, amount_minor, written, party, holder, time, kind, reference)._replace(mode=mode)


def card_purchase(day: date, amount_minor: int, merchant: Party, place: str, time: str) -> Booking:
    """No tags at all, as with many card payments."""
    text = f"{merchant.name.upper()}//{place.upper()}/DE {day.isoformat()}T{time} Debitk.1 2028-12"
    extra = {"time": time, "payee": merchant.name, "merchant_id": f"{44_000_000 + merchant.number}",
             "additional": "Kartenzahlung", "categorization_confidence": "0.87"}  # fmt: skip
    return Booking(day, -amount_minor, text, merchant.category, extra=extra)


def fee(day: date, amount_minor: int, text: str) -> Booking:
    return Booking(day, -amount_minor, text, "fees", "fee", extra={"additional": "Abschluss"})


def _with_party(
    day: date, amount_minor: int, text: str, party: Party, holder: str, time: str, kind: str, reference: str | None
) -> Booking:
    is_in = amount_minor > 0
    extra = {
        "time": time,
        "payee": holder if is_in else party.name,
        "payer": party.name if is_in else holder,
        "payer_information" if is_in else "payee_information": party.iban,
        "additional": kind,
        "categorization_confidence": "0.93",
    }
    return Booking(day, amount_minor, text, party.category, end_to_end_id=reference, extra=extra)
