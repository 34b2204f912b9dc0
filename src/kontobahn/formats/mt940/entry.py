"""One MT940 movement: the statement line (:61:) and its information to the account owner (:86:).

In Germany :86: has sub-fields (`?20`, `?21` …), whose separator may also occur in the text. What looks like a sub-field but
cannot be one at its position is treated as text, so nothing is lost.
"""

from __future__ import annotations

import re
from datetime import date
from itertools import pairwise, zip_longest
from typing import NamedTuple

import msgspec

from kontobahn.formats.statements import NOBODY, Amount, Entry, Party, StatementError, Status
from kontobahn.formats.statements.purpose import SUB_FIELD, Purpose, join_lines, parse, provided, reference
from kontobahn.formats.statements.source import Remark, amount_beside, end_of_month, minor_of
from kontobahn.sentences import said

# Fifteen digits by the form; some programs write more, which are zeros.
AMOUNT = r"\d{1,40}(?:[,.]\d{0,20})?|,\d{1,20}"
# SWIFT's transaction codes, to tell a stray letter before the code from its first one.
_KNOWN_CODES = (
    "BNK|BOE|BRF|CAR|CAS|CHG|CHK|CLR|CM[INPSTZ]|COL|COM|CPN|DCR|DDT|DIS|DIV|EQA|EXT|FEX|INT|LBX|LDP|MAR|MAT|MGT|MSC|NWI|ODC"
    "|OPT|PCH|POP|PRN|REC|RED|RIG|RTI|SAL|SEC|SLE|STO|STP|SUB|SWP|TAX|TCK|TCM|TRA|TRF|TRN|UWC|VDA|WAR"
)
# The entry date may be left blank, or be zeros. The code may lack its three characters, or all four: then the reference follows.
_LINE = re.compile(
    rf"(?P<value>\d{{6}})(?:0000|(?P<booked>\d{{4}}))?\s{{0,4}}(?P<mark>E?R?[CD])(?P<funds>[A-Z])?\s?(?P<amount>{AMOUNT})(?![0-9,.])"
    rf"\s?(?:(?:[A-Z](?=[NFS](?:{_KNOWN_CODES})))?"
    r"(?P<code>[NFS](?=\s|//|NONREF|$)|(?!NONREF)[A-Z][A-Z0-9]{2}[A-Z0-9 ])?(?P<rest>.*))",
    re.ASCII,
)
# Not with a separator that numbers and dates have.
_STRUCTURED = re.compile(r"(\d{3})([^\w\s/.,:()-])(?=\d\d)", re.ASCII)
_NO_REFERENCE = ("", "NONREF", "KREF+")
_FURTHER = re.compile(r"/(OCMT|CHGS)/([A-Z]{3})(\d{1,15}(?:,\d*)?)")
_IBAN = re.compile(r"[A-Z]{2}\d{2}[A-Z0-9]{11,30}", re.ASCII)
_BIC = re.compile(r"[A-Z]{4}[A-Z]{2}[A-Z0-9]{2}(?:[A-Z0-9]{3})?", re.ASCII)
_BANK = re.compile(r"\s{0,100}(?:[A-Z0-9]{8}|[A-Z0-9]{11}|)\s{0,100}", re.ASCII)
_ACCOUNT = re.compile(r"[A-Z0-9 /.-]{0,40}", re.ASCII)
_PURPOSE_CODES = frozenset((*range(20, 30), *range(60, 70)))
_FURTHER_CODES = frozenset((35, 36, 37, 70, 71))
_RETURNS = frozenset(("108", "109", "159", "181", "182", "183", "184", "185"))
_RETURN_REASON = re.compile(r"9\d\d", re.ASCII)
_FORM_WIDTH, _TAG_WIDTH = 65, len(":86:")
_SHORT_LINE = 55
_TORN = re.compile(r"[^\w\s]\d?$")  # the line may end within the mark of a sub-field
_CODES = _PURPOSE_CODES | {0, 10, *range(30, 39), 70, 71}


class Line(NamedTuple):
    """The statement line. `remarks` say what in it is not as it should be."""

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
    remarks: tuple[Remark, ...] = ()


def read_line(text: str) -> Line:
    """Reads the content of :61:, with its supplementary details on a second line."""
    first, _, further = text.partition("\n")
    found = _LINE.fullmatch(first.strip())
    if found is None:
        raise StatementError(said("The statement line (:61:) cannot be read: {text}.", text=f"{first[:80]!r}"))
    remarks: list[Remark] = []
    value = short_day(found["value"], remarks)
    mark = found["mark"].lstrip("E")
    own, _, bank = (found["rest"] or "").partition("//")
    amounts = {kind: amount_beside(amount, currency, remarks) for kind, currency, amount in _FURTHER.findall(further)}
    return Line(
        minor_of(found["amount"]) * (1 if mark in {"C", "RD"} else -1),
        value,
        _near(found["booked"], value, remarks) if found["booked"] else value,
        mark.startswith("R"),
        found["code"] and found["code"].rstrip(),
        None if own.strip() in _NO_REFERENCE else own.strip(),
        None if bank.strip() in _NO_REFERENCE else bank.strip(),
        amounts.get("OCMT"),
        amounts.get("CHGS"),
        None if amounts else further.strip() or None,
        tuple(remarks),
    )


def short_day(text: str, remarks: list[Remark]) -> date:
    """Reads YYMMDD. No statement is older than 1980.

    Interest is calculated with months of thirty days, so a value date may be 30 February: a day that its month does not have is
    read as the month's last, with a remark.
    """
    year = int(text[:2])
    day = _day(year + (1900 if year >= 80 else 2000), text[2:], remarks)
    if day is None:
        raise StatementError(said("{text} is not a date of the form YYMMDD.", text=text))
    return day


def _day(year: int, text: str, remarks: list[Remark] | None) -> date | None:
    try:
        return date(year, int(text[:2]), int(text[2:]))
    except ValueError:
        return None if remarks is None else end_of_month(year, int(text[:2]), int(text[2:]), remarks)


def _near(text: str, other: date, remarks: list[Remark]) -> date:
    """Reads MMDD in the year that brings it nearest to the value date: a booking in January may be valued in December."""
    years = range(other.year - 1, other.year + 2)
    days = [day for year in years if (day := _day(year, text, None)) is not None]
    if not days and (day := _day(other.year, text, remarks)) is not None:
        return day
    if not days:
        raise StatementError(said("{text} is not a day of the form MMDD.", text=text))
    return min(days, key=lambda day: abs(day - other))


class Information(NamedTuple):
    """The content of :86:."""

    description: str
    gvc: str | None = None
    booking_text: str | None = None
    primanota: str | None = None
    bank: str = ""
    account: str = ""
    name: str = ""
    return_reason: str | None = None
    purpose: Purpose | None = None


def read_information(lines: list[str]) -> Information:
    text = lines[0].lstrip() if lines else ""
    found = _STRUCTURED.match(text) or _STRUCTURED.match("".join([text, *lines[1:2]]))
    if found is None:
        return _unstructured(join_lines(lines, indent=_TAG_WIDTH).strip())
    fields = _sub_fields(_one_text(lines, found[2]).lstrip()[3:], found[2])
    if not fields:
        return _unstructured(join_lines(lines, indent=_TAG_WIDTH).strip())

    def joined(*codes: int) -> str:
        return join_lines([text for code, text in fields if code in codes], SUB_FIELD).strip()

    further = [text.strip() for code, text in fields if code in _FURTHER_CODES and text.strip()]
    code = joined(34)
    return Information(
        " ".join([*filter(None, [joined(*_PURPOSE_CODES)]), *further]),
        found[1],
        joined(0) or None,
        joined(10) or None,
        joined(30),
        joined(31) or joined(38),
        joined(32, 33),
        # The bank's number for the reason, which is in use for returns only. No code of ISO 20022: tables differ.
        code if found[1] in _RETURNS and _RETURN_REASON.fullmatch(code) else None,
    )


def _one_text(lines: list[str], separator: str) -> str:
    """Lines end anywhere in a sub-field; one shorter than the form's width that no sub-field follows lost its blank."""
    text, indent = lines[0], _TAG_WIDTH
    for before, line in pairwise(lines):
        width, indent = len(before) + indent, 0
        is_short = width < _SHORT_LINE or width == _FORM_WIDTH - 1
        lost = is_short and not before.endswith(" ") and not line.startswith((" ", separator))
        text += f" {line}" if lost and not _TORN.search(before) else line
    return text


def _unstructured(text: str) -> Information:
    found = _read_slashes(text) if text.startswith("/") or "/REMI/" in text or "/EREF/" in text else None
    if found is None:
        return Information(text)
    return Information(
        text,
        booking_text=found.booking_text,
        bank=found.bic,
        account=found.account,
        name=found.name,
        return_reason=found.return_reason,
        purpose=found.purpose,
    )


def _sub_fields(text: str, separator: str) -> list[tuple[int, str]]:
    """Codes ascend within :86:, so one that goes back, like one that does not exist, is text of the field before it."""
    marks = [mark for mark in re.finditer(f"{re.escape(separator)}([0-9]{{2}})", text) if int(mark[1]) in _CODES]
    fields: list[tuple[int, str]] = []
    last = -1
    for mark, following in zip_longest(marks, marks[1:]):
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
    purpose = _with_amounts(info.purpose or parse(info.description), line)
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
        return_reason=info.return_reason,
        original_amount=line.original_amount,
        charges=line.charges,
        number=number,
        line=at,
    )


def _with_amounts(purpose: Purpose, line: Line) -> Purpose:
    """Gives a purpose that names no amounts of a return those of the statement line: the original amount, and the fees in it."""
    return msgspec.structs.replace(
        purpose,
        oamt=purpose.oamt or (line.original_amount and line.original_amount.text),
        coam=purpose.coam or (line.charges and line.charges.text),
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


# --- An unstructured :86: with code words between slashes, as Dutch and other banks outside Germany write it:
# /EREF/E-1//CNTP/NL91ABNA0417164300/ABNANL2A/Jan Jansen///REMI/USTD//Factuur 5/
# /TRTP/SEPA OVERBOEKING/IBAN/NL91ABNA0417164300/BIC/ABNANL2A/NAME/Jan Jansen/REMI/Factuur 5/EREF/NOTPROVIDED
# /ORDP//NAME/Jan Jansen/REMI/Factuur 5/

_WORDS = frozenset((
    "EREF", "REMI", "NAME", "IBAN", "BIC", "BENM", "ORDP", "CNTP", "CSID", "MARF", "PREF", "CREF", "KREF", "RTRN", "TRTP",
    "TRCD", "PURP", "ULTB", "ULTD", "ULTC", "ADDR", "ISDT", "SVCL", "INIT", "ACCW", "SUBF", "CHGS", "OCMT", "EXCH", "RREF",
    "MDAT", "ID",
))  # fmt: skip
# The slash that ends a value also begins the next word.
_WORD = re.compile(rf"/({'|'.join(sorted(_WORDS))})(?=/)")
_KIND = re.compile(r"\s*(USTD|STRD(?:/CUR)?)/{1,2}")


class _Slashed(NamedTuple):
    purpose: Purpose
    name: str
    account: str
    bic: str
    booking_text: str | None
    return_reason: str | None


def _read_slashes(text: str) -> _Slashed | None:
    """Returns None if it contains no code word that we use."""
    marks = list(_WORD.finditer(text))
    found: dict[str, str] = {}
    left_over = [text[: marks[0].start()].strip()] if marks else []
    for mark, following in zip_longest(marks, marks[1:]):
        word = mark[1]
        value = text[mark.end() + 1 : following.start() if following else len(text)].strip().strip("/").strip()
        if not value:
            continue
        if word in found:
            left_over.append(f"/{word}/{value}")
        else:
            found[word] = value
    if not found:
        return None
    account, bic, name = _other_side(found)
    remittance = found.pop("REMI", "")
    kind = _KIND.match(remittance)
    purpose = Purpose(
        cred=provided(found.pop("CSID", None)),
        mref=reference(found.pop("MARF", None)),
        kref=reference(found.pop("KREF", None) or found.pop("CREF", None)),
        svwz=provided(remittance[kind.end() :].lstrip("/") if kind else remittance),
        abwa=provided(found.pop("ULTD", None)),
        abwe=provided(found.pop("ULTB", None) or found.pop("ULTC", None)),
        purp=provided(found.pop("PURP", None)),
        end_to_end_id=reference(found.pop("EREF", None)),
        rref=reference(found.pop("RREF", None)),
    )
    booking_text, return_reason = found.pop("TRTP", None), found.pop("RTRN", None)
    rest = " ".join([*filter(None, left_over), *(f"/{word}/{value}" for word, value in found.items())])
    return _Slashed(_with_rest(purpose, rest), name, account, bic, booking_text, return_reason)


def _other_side(found: dict[str, str]) -> tuple[str, str, str]:
    """Returns account, BIC and name of the other side: each after its word, or all after CNTP."""
    account, bic, name = (found.pop(word, "") for word in ("IBAN", "BIC", "NAME"))
    for party in ("BENM", "ORDP"):
        name = name or found.pop(party, "")
    pieces = [piece.strip() for piece in found.pop("CNTP", "").split("/")]
    pieces += [""] * (3 - len(pieces))
    return account or pieces[0], bic or pieces[1], name or pieces[2]


def _with_rest(purpose: Purpose, rest: str) -> Purpose:
    if not rest:
        return purpose
    name = "additional" if purpose.svwz else "svwz"
    return msgspec.structs.replace(purpose, **{name: rest})
