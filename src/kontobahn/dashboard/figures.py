"""Amounts, numbers and days as people write them in German and in English, and back. Exact: cents or Decimal, never a float."""

from __future__ import annotations

import re
from datetime import date, datetime
from decimal import Decimal

from kontobahn.api.pages import Language
from kontobahn.clock import ENGLISH_MONTHS, berlin_date, berlin_datetime, to_datetime
from kontobahn.dashboard.words import language
from kontobahn.money import MINUS, SIGNS, euro

_SEPARATORS: dict[Language, tuple[str, str]] = {"de": (".", ","), "en": (",", ".")}
_GERMAN_MARKS = str.maketrans(",.", ".,")
_MONTHS: dict[Language, tuple[str, ...]] = {
    "de": ("Jan.", "Feb.", "März", "Apr.", "Mai", "Juni", "Juli", "Aug.", "Sep.", "Okt.", "Nov.", "Dez."),
    "en": ENGLISH_MONTHS,
}


def number(value: int | Decimal, places: int | None = None) -> str:
    """1234567 as 1.234.567 in German."""
    exact = Decimal(value)
    text = f"{abs(exact):,.{places}f}" if places is not None else f"{abs(exact):,f}"
    if language() == "de":
        text = text.translate(_GERMAN_MARKS)
    return (MINUS if exact < 0 else "") + text


def money(amount: int | Decimal, currency: str = "EUR") -> str:
    """Whole cents, or a Decimal of euros: 12.345,67 € in German, €12,345.67 in English."""
    exact = Decimal(amount).scaleb(-2) if isinstance(amount, int) else amount
    text, sign = number(exact, 2), SIGNS.get(currency)
    if sign is None or language() == "de":
        return f"{text}\N{NO-BREAK SPACE}{sign or currency}"
    return f"{MINUS}{sign}{text[1:]}" if text.startswith(MINUS) else f"{sign}{text}"


def axis_money(cents: int | Decimal, currency: str = "EUR") -> str:
    """For the scale of a chart: without cents, where there are none."""
    exact = Decimal(cents).scaleb(-2)
    text = money(exact, currency)
    return text if exact % 1 else text.replace(f"{_SEPARATORS[language()][1]}00", "")


def plain_amount(amount: int | Decimal) -> str:
    """As it is written into a field or a CSV: no thousands, no sign of the currency."""
    exact = Decimal(amount).scaleb(-2) if isinstance(amount, int) else amount
    return f"{exact:.2f}".replace(".", _SEPARATORS[language()][1])


def parse_amount(text: str) -> Decimal:
    """An amount as people type it: 1.234,56 or 1,234.56 or 1234.5. Raises ValueError if it is not clear what is meant."""
    typed = re.sub(r"[\s\u00a0\u202f€]|EUR", "", text).replace(MINUS, "-")
    marks = [character for character in typed if character in ".,"]
    thousands, point = _SEPARATORS[language()]
    if len(set(marks)) == 2:
        # Both: the last one is the decimal point.
        point, thousands = (marks[-1], "," if marks[-1] == "." else ".")
    elif len(marks) > 1:
        thousands, point = marks[0], "," if marks[0] == "." else "."
    elif marks:
        after = len(typed) - 1 - typed.index(marks[0])
        if after != 3:
            point, thousands = marks[0], "," if marks[0] == "." else "."
    whole, _, rest = typed.partition(point)
    if thousands in whole and not re.fullmatch(r"-?\d{1,3}(" + re.escape(thousands) + r"\d{3})+", whole):
        raise ValueError("not an amount")
    plain = f"{whole.replace(thousands, '') or '0'}.{rest or '0'}"
    if not re.search("[0-9]", typed) or not re.fullmatch(r"-?[0-9]*\.[0-9]+", plain):
        raise ValueError("not an amount")
    return euro(Decimal(plain))


def day(value: date | datetime | int) -> str:
    """A day, or the Berlin day of an instant: 31.03.2026 in German, 31 Mar 2026 in English."""
    if isinstance(value, int):
        value = berlin_date(value)
    elif isinstance(value, datetime):
        value = berlin_date(round(value.timestamp() * 1_000_000))
    if language() == "de":
        return f"{value.day:02}.{value.month:02}.{value.year:04}"
    return f"{value.day} {_MONTHS['en'][value.month - 1]} {value.year}"


def in_one_line(text: str) -> str:
    """Joins the parts of a day by spaces that do not break; its time may stand below it. Files keep plain spaces."""
    return text.replace(" ", "\N{NO-BREAK SPACE}").replace(",\N{NO-BREAK SPACE}", ", ")


def moment(value: datetime | int, *, seconds: bool = False) -> str:
    """A day with the time in Berlin; to the second where programs are looked into."""
    local = berlin_datetime(value if isinstance(value, int) else round(value.timestamp() * 1_000_000))
    return f"{day(local.date())}, {local:%H:%M:%S}" if seconds else f"{day(local.date())}, {local:%H:%M}"


def machine_time(value: datetime | int) -> str:
    """For the `datetime` attribute of a <time>."""
    return (to_datetime(value) if isinstance(value, int) else value).isoformat(timespec="seconds")


def short_day(value: date) -> str:
    """For the axis of a chart: 31. März, 31 Mar."""
    name = _MONTHS[language()][value.month - 1]
    return f"{value.day}. {name}" if language() == "de" else f"{value.day} {name}"


def months(first: str, last: str = "") -> str:
    """A month like 2026-03, or the months from one to another: 03/2026 in German, Mar 2026 in English."""
    shown = [_month(text) for text in dict.fromkeys((first, last or first))]
    return " – ".join(shown)


def _month(text: str) -> str:
    year, _, month = text.partition("-")
    return f"{month}/{year}" if language() == "de" else f"{_MONTHS['en'][int(month) - 1]} {year}"


def iban(text: str | None) -> str:
    """In groups of four."""
    return " ".join((text or "")[start : start + 4] for start in range(0, len(text or ""), 4))


def size(count: int) -> str:
    """Bytes, as people read them."""
    value, unit = Decimal(count), "B"
    for unit in ("B", "KB", "MB", "GB"):
        if value < 1024 or unit == "GB":
            break
        value /= 1024
    return f"{number(value, 0 if value == value.to_integral_value() else 1)} {unit}"
