"""Facts of an invoice that is only text, proposed for a person to confirm: those that are written plainly, and only once."""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import date
from typing import NamedTuple, TypeVar

from kontobahn.formats.invoices.checks import is_iban

_LONGEST_TEXT = 200_000
_AMOUNT = r"(?P<amount>\d{1,3}(?:\.\d{3})+,\d{2}|\d{1,9},\d{2}|\d{1,3}(?:,\d{3})+\.\d{2}|\d{1,9}\.\d{2})"
_TOTAL = re.compile(
    r"(?:Rechnungsbetrag|Gesamtbetrag|Gesamtsumme|Endbetrag|Zahlbetrag|Bruttobetrag|Zu zahlen(?:der Betrag)?|Summe brutto"
    r"|Invoice total|Grand total|Total due|Amount due)\b"
    r"[^\d\n]{0,40}\n?[^\d\n]{0,20}" + _AMOUNT + r"(?!\d|[.,]\d)",
    re.IGNORECASE,
)
_IBAN = re.compile(r"\b[A-Z]{2}\d{2}(?: ?[A-Z0-9]{4}){2,7}(?: ?[A-Z0-9]{1,3})?\b")
_DAY = r"(?P<day>\d{1,2})\.(?P<month>\d{1,2})\.(?P<year>\d{4})|(?P<iso>\d{4}-\d{2}-\d{2})"
_ISSUED = re.compile(
    rf"(?:Rechnungsdatum|Datum der Rechnung|Invoice date|Datum)\b[^\d\n]{{0,20}}\n?(?:{_DAY})", re.IGNORECASE
)
_NUMBER = re.compile(
    r"(?:Rechnungsnummer|Rechnungs-?Nr\.?|Rechnung Nr\.?|Invoice (?:number|no\.?))\s{0,3}:?\s{0,3}(?P<number>[A-Z0-9][A-Z0-9./_-]{0,29})",
    re.IGNORECASE,
)
T = TypeVar("T")


class Proposal(NamedTuple):
    """None is what the text does not say plainly. Nothing of this is a fact until a person has said so."""

    number: str | None
    issued_on: date | None
    total_minor: int | None
    currency: str | None
    iban: str | None


def propose(text: str) -> Proposal:
    text = text[:_LONGEST_TEXT]
    totals = {_minor(match["amount"]) for match in _TOTAL.finditer(text)}
    compact = (re.sub(r"\s", "", match[0]) for match in _IBAN.finditer(text))
    total = _only(totals)
    return Proposal(
        number=_only({match["number"] for match in _NUMBER.finditer(text) if re.search(r"\d", match["number"])}),
        issued_on=_only({day for match in _ISSUED.finditer(text) if (day := _day(match))}),
        total_minor=total,
        currency="EUR" if total is not None and re.search(r"€|\bEUR\b", text) else None,
        iban=_only({iban for found in compact if (iban := _valid(found))}),
    )


def _only(found: Iterable[T]) -> T | None:
    """Two different ones are not plain."""
    values = list(found)
    return values[0] if len(values) == 1 else None


def _minor(amount: str) -> int:
    return int(re.sub(r"[.,]", "", amount))


def _valid(text: str) -> str | None:
    """The IBAN at the beginning of a text, behind which other words may stand."""
    return next((text[:length] for length in range(len(text), 14, -1) if is_iban(text[:length])), None)


def _day(match: re.Match[str]) -> date | None:
    try:
        if match["iso"]:
            return date.fromisoformat(match["iso"])
        return date(int(match["year"]), int(match["month"]), int(match["day"]))
    except ValueError:
        return None
