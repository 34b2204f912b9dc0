"""One MT940 movement: the statement line (:61:) and its information to the account owner (:86:).

In Germany :86: has sub-fields (`?20`, `?21` …), whose separator may also occur in the text. What looks like a sub-field but
cannot be one at its position is treated as text, so nothing is lost.
"""

from __future__ import annotations

import re
from datetime import date
from typing import NamedTuple

from kontobahn.formats.purpose import Purpose, join_lines, parse, provided
from kontobahn.formats.statements import values
from kontobahn.formats.statements.model import NOBODY, Amount, Entry, Party, StatementError, Status

_LINE = re.compile(
    r"(?P<value>\d{6})(?P<booked>\d{4})?(?P<mark>E?R?[CD])(?P<funds>[A-Z])?(?P<amount>\d{1,15}(?:,\d*)?)"
    r"(?:(?P<code>[NFS][A-Z0-9]{3})(?P<rest>.*))?",
    re.ASCII,
)
_STRUCTURED = re.compile(r"(\d{3})([^\w\s])(?=\d\d)", re.ASCII)
_NO_REFERENCE = ("", "NONREF", "KREF+")
_FURTHER = re.compile(r"/(OCMT|CHGS)/([A-Z]{3})(\d{1,15}(?:,\d*)?)")
_IBAN = re.compile(r"[A-Z]{2}\d{2}[A-Z0-9]{11,30}", re.ASCII)
_BIC = re.compile(r"[A-Z]{4}[A-Z]{2}[A-Z0-9]{2}(?:[A-Z0-9]{3})?", re.ASCII)
_BANK = re.compile(r"\s*(?:[A-Z0-9]{8}|[A-Z0-9]{11}|)\s*", re.ASCII)
_ACCOUNT = re.compile(r"[A-Z0-9 /.-]{0,40}", re.ASCII)
_PURPOSE_CODES = frozenset((*range(20, 30), *range(60, 70)))
_CODES = _PURPOSE_CODES | {0, 10, *range(30, 39), 70, 71}


class Line(NamedTuple):
    """The statement line."""

    amount_minor: int
    value_date: date
    booking_date: date
    reversal: bool
    code: str | None
    customer_reference: str | None
    bank_reference: str | None
    original_amount: Amount | None
    charges: Amount | None
    further: str | None = None


def read_line(text: str) -> Line:
    """Reads the content of :61:, with its supplementary details on a second line."""
    first, _, further = text.partition("\n")
    found = _LINE.fullmatch(first.strip())
    if found is None:
        raise StatementError(f"The statement line (:61:) cannot be read: {first[:80]!r}.")
    value = short_day(found["value"])
    mark = found["mark"].lstrip("E")
    own, _, bank = (found["rest"] or "").partition("//")
    amounts = {kind: Amount(values.minor(amount), currency) for kind, currency, amount in _FURTHER.findall(further)}
    return Line(
        values.minor(found["amount"]) * (1 if mark in {"C", "RD"} else -1),
        value,
        _near(found["booked"], value) if found["booked"] else value,
        mark.startswith("R"),
        found["code"],
        None if own.strip() in _NO_REFERENCE else own.strip(),
        bank.strip() or None,
        amounts.get("OCMT"),
        amounts.get("CHGS"),
        None if amounts else further.strip() or None,
    )


def short_day(text: str) -> date:
    """Reads YYMMDD. No statement is older than 1980."""
    year = int(text[:2])
    try:
        return date(year + (1900 if year >= 80 else 2000), int(text[2:4]), int(text[4:6]))
    except ValueError:
        raise StatementError(f"{text} is not a date of the form YYMMDD.") from None


def _near(text: str, other: date) -> date:
    """Reads MMDD in the year that brings it nearest to the value date: a booking in January may be valued in December."""
    days = []
    for year in (other.year - 1, other.year, other.year + 1):
        try:
            days.append(date(year, int(text[:2]), int(text[2:])))
        except ValueError:
            pass
    if not days:
        raise StatementError(f"{text} is not a day of the form MMDD.")
    return min(days, key=lambda day: abs(day - other))


class Information(NamedTuple):
    """What :86: says."""

    description: str
    gvc: str | None = None
    booking_text: str | None = None
    primanota: str | None = None
    bank: str = ""
    account: str = ""
    name: str = ""


def read_information(lines: list[str]) -> Information:
    text = "".join(lines).lstrip()
    found = _STRUCTURED.match(text)
    if found is None:
        return Information(join_lines(lines).strip())
    fields = _sub_fields(text[3:], found[2])

    def joined(*codes: int) -> str:
        return "".join(text for code, text in fields if code in codes)

    further = [text.strip() for code, text in fields if code in {35, 36, 37, 70, 71} and text.strip()]
    return Information(
        " ".join([*filter(None, [joined(*_PURPOSE_CODES)]), *further]),
        found[1],
        joined(0).strip() or None,
        joined(10).strip() or None,
        joined(30).strip(),
        joined(31).strip() or joined(38).strip(),
        joined(32, 33).strip(),
    )


def _sub_fields(text: str, separator: str) -> list[tuple[int, str]]:
    """Codes ascend within :86:, so one that goes back, like one that does not exist, is text of the field before it."""
    marks = [mark for mark in re.finditer(f"{re.escape(separator)}([0-9]{{2}})", text) if int(mark[1]) in _CODES]
    fields: list[tuple[int, str]] = []
    last = -1
    for mark, following in zip(marks, [*marks[1:], None], strict=True):
        code, value = int(mark[1]), text[mark.end() : following.start() if following else len(text)]
        in_order = code >= last or (last >= 60 and 30 <= code <= 38)
        fits = (code != 30 or _BANK.fullmatch(value)) and (code != 31 or _ACCOUNT.fullmatch(value))
        if fields and not (in_order and fits):
            fields[-1] = (fields[-1][0], fields[-1][1] + mark[0] + value)
            continue
        fields.append((code, value))
        last = code
    return fields


def make_entry(line: Line, information: list[str], status: Status, currency: str, number: int, at: int) -> Entry:
    info = read_information(information)
    purpose = parse(info.description)
    other = _counterparty(info, purpose)
    incoming = (line.amount_minor >= 0) != line.reversal
    return Entry(
        status=status,
        amount_minor=line.amount_minor,
        currency=currency,
        booking_date=line.booking_date,
        value_date=line.value_date,
        description=info.description,
        purpose=purpose,
        counterparty=other,
        payer=other if incoming else NOBODY,
        payee=NOBODY if incoming else other,
        booking_text=info.booking_text or line.further,
        bank_reference=line.bank_reference,
        customer_reference=line.customer_reference,
        transaction_code=line.code,
        gvc=info.gvc,
        primanota=info.primanota,
        reversal=line.reversal,
        original_amount=line.original_amount,
        charges=line.charges,
        number=number,
        line=at,
    )


def _counterparty(info: Information, purpose: Purpose) -> Party:
    account = info.account.replace(" ", "")
    iban = account if _IBAN.fullmatch(account) else None
    bic = info.bank if _BIC.fullmatch(info.bank) else None
    number = None
    if iban is None and account:
        number = f"{info.bank}/{account}" if info.bank and bic is None else account
    found = Party(provided(info.name), iban or purpose.iban, number, bic or purpose.bic)
    return found if any(found) else NOBODY
