"""MT940 and MT942: statements in the text format of SWIFT, as German banks write it."""

from __future__ import annotations

import re
from collections.abc import Generator, Iterable, Iterator, Mapping
from itertools import chain, pairwise
from typing import Literal, NamedTuple, TypeAlias

from kontobahn.formats.mt940.entry import AMOUNT, Line, make_entry, read_line, short_day
from kontobahn.formats.statements import (
    INTERIM,
    NEVERTHELESS,
    UNBALANCED,
    Balance,
    Closing,
    Item,
    Opening,
    StatementAccount,
    StatementError,
    StatementWarning,
    Tally,
)
from kontobahn.formats.statements.source import Remark, Source, currency_of, minor_of, own_iban, whole_number
from kontobahn.money import amount_text
from kontobahn.sentences import joined, said

# Reads MT940 (end of day) and MT942 (intraday) as a stream: letters, frames and fields, statements and their balances.
#
# Entries are read in `entry.py`.


_BALANCE = re.compile(rf"([CD])(\d{{6}})\s?([A-Z]{{3}})\s?({AMOUNT})", re.ASCII)
_TOTAL = re.compile(rf"(\d{{1,5}})([A-Z]{{3}})({AMOUNT})", re.ASCII)
_ACCOUNT = re.compile(r"(.*\d)\s?([A-Z]{3})", re.DOTALL)
_IBAN = re.compile(r"[A-Z]{2}\d\d[A-Z0-9 ]{11,40}", re.ASCII)
_BALANCE_CODES = {"60F": "OPBD", "60M": INTERIM, "62F": "CLBD", "62M": INTERIM, "64": "CLAV", "65": "FWAV"}
END = "-"
INTRADAY = "942"
_MAX_LINES = 1_000
_TAG = re.compile(r":(20|21|25P?|28C?|60[FM]|61|86|62[FM]|64|65|34F|13D?|90[CD]|NS):")
_ENVELOPE = re.compile(r"\{(?:[1235S]:(?:[^{}]|\{[^{}]*\})*\}|4:)")
_SEVERAL_LINES = frozenset(("25P", "61", "86", "NS"))
# After these, or outside a statement, the frame of the next message may follow.
_LAST = frozenset(("62F", "62M", "64", "65", "90C", "90D"))
# Known frames: BICs, the number of the message, a bank's count of messages, marks between messages.
_FRAME = re.compile(
    r"[A-Z]{6}[A-Z0-9]{2,6}(?:\s+\d+)?|:?94[02]:?(?:\s*\d{2})?|0000 \d\d[A-Z]{6}[A-Z0-9]{2,6}\d*|[A-Z]\d{2}[A-Z0-9]{8,14}\d*|[-$]+"
)
_IS_942 = re.compile(r"^:?942:?(?:\s*\d{2})?$|\{2:[IO]942")


class Field(NamedTuple):
    tag: str
    lines: list[str]
    at: int

    @property
    def text(self) -> str:
        return "\n".join(self.lines)


def read_fields(source: Source) -> Iterator[Field | StatementWarning]:
    """Yields the fields in order; the end of a message is a field with the tag `-`, the frame of an MT942 one with `942`.

    A line outside every statement that is not a known frame is left out with a warning.
    """
    field: Field | None = None
    for number, (line, following) in enumerate(pairwise(chain(read_lines(source), [None])), 1):
        assert line is not None
        text, ended = _without_envelope(line, following, field)
        if ended or ((field is None or field.tag in _LAST) and _FRAME.fullmatch(text.strip())):
            if field is not None:
                yield field
                field = None
            yield Field(INTRADAY if _IS_942.search(line.strip()) else END, [], number)
            if not ended:
                continue
        found = _TAG.match(text)
        if found:
            if field is not None:
                yield field
            field = Field(found[1], [text[found.end() :]], number)
        elif field is not None and field.tag in _SEVERAL_LINES:
            _add(field, text, source, number)
        elif text.strip():
            yield StatementWarning(
                f"line {number}",
                said("The line {text} belongs to no field.", text=f"{text[:60]!r}"),
                "It was left out.",
            )
    if field is not None:
        yield field


def _without_envelope(line: str, following: str | None, field: Field | None) -> tuple[str, bool]:
    """Returns the line without marks and blocks of SWIFT, and whether they end a message."""
    text = line
    ended = text.startswith("-}") or (text.strip() == "-" and not _is_text(following, field))
    if ended:
        text = text.strip()[2:].lstrip("$")
    if text.startswith("{"):
        text = _ENVELOPE.sub("", text)
        ended = ended or text != line
    return text, ended


def _is_text(following: str | None, field: Field | None) -> bool:
    """A hyphen alone on a line of :86: is text if the statement goes on after it."""
    if field is None or field.tag != "86" or following is None:
        return False
    found = _TAG.match(following)
    return found is not None and found[1] not in {"20", "21", "25", "25P"}


def _add(field: Field, text: str, source: Source, number: int) -> None:
    if text:
        field.lines.append(text)
    if len(field.lines) > _MAX_LINES:
        raise StatementError(
            said("The field :{tag}: has more than {most} lines.", tag=field.tag, most=_MAX_LINES),
            file=source.name,
            place=f"line {number}",
        )


# --- The lines as text. Nothing in the file names its code page: UTF-8 is recognised by itself; the code pages of DOS and Windows,
# and the seven-bit German of ISO 646, by where their umlauts would stand.

_MAX_LINE_BYTES = 65_536
# Some banks' FinTS writes two of these where a line ends.
_SIGNS_FOR_LINES = re.compile(rb"@@:(?:20|25|28C|60F|61|86):")
_CONTROLS = "\x00\x01\x02\x03\x04\x1a"
_CodePage: TypeAlias = Literal["cp1252", "cp850", "iso-8859-1"]

# Ä Ö Ü ä ö ü ß in the code page of Windows, and in that of DOS: there within words only, as they are marks in the other.
_WINDOWS = re.compile(rb"[\xc4\xd6\xdc\xe4\xf6\xfc\xdf]")
_DOS = re.compile(rb"\x81|(?<=[A-Za-z])[\x84\x94\xe1](?=[a-z\xe1])|(?<![a-z])[\x8e\x99\x9a](?=[A-Za-z])")
_NOT_WINDOWS = re.compile(rb"[\x81\x8d\x8f\x90\x9d]")
_HIGH = re.compile(rb"[\x80-\xff]")

# In ISO 646 for Germany these are Ä Ö Ü ä ö ü ß. Braces and brackets are sure signs within a word, the others only together.
_SEVEN_BIT = str.maketrans("[\\]{|}", "ÄÖÜäöü")
_SHARP_S = re.compile(r"~(?!\d\d)")
_SURE = re.compile(rb"(?<=[A-Za-z])[}{](?=[a-z~])|(?<=[A-Z])[\]\[](?=[A-Z])")
_UNSURE = re.compile(rb"(?<=[A-Za-z|])[|\\~](?=[A-Za-z~])")
_BLOCK = ("{", "-}")


def read_lines(source: Source) -> Iterator[str]:
    """Raises StatementError if a line is longer than any in a bank statement."""
    decode = _Decoder(source.head)
    newline = b"\r" if b"\r" in source.head and b"\n" not in source.head else b"\n"
    has_signs = _SIGNS_FOR_LINES.search(source.head) is not None
    rest = b""
    first = True
    while chunk := source.read():
        if first:
            chunk = chunk.removeprefix(b"\xef\xbb\xbf")
            first = False
        text = rest + chunk
        *lines, rest = (text.replace(b"@@", newline) if has_signs else text).split(newline)
        for line in lines:
            yield decode.line(line)
        if len(rest) > _MAX_LINE_BYTES:
            raise StatementError("A line is longer than any in a bank statement.", file=source.name)
    if rest:
        yield decode.line(rest)


class _Decoder:
    """Decides by the head of the file, or otherwise by the first line that shows it."""

    def __init__(self, head: bytes) -> None:
        self._page = _code_page(head)
        self._is_seven_bit = not _HIGH.search(head) and _is_seven_bit(head)

    def line(self, line: bytes) -> str:
        line = line.rstrip(b"\r")
        try:
            text = line.decode("utf-8")
        except UnicodeDecodeError:
            if self._page is None:
                self._page = _code_page(line)
            page = self._page or "cp1252"
            if page == "cp1252" and _NOT_WINDOWS.search(line):
                page = "iso-8859-1"
            text = line.decode(page)
        text = text.strip(_CONTROLS)
        if self._is_seven_bit and not text.startswith(_BLOCK):
            text = _SHARP_S.sub("ß", text.translate(_SEVEN_BIT))
        return text


def _code_page(text: bytes) -> _CodePage | None:
    """Returns None if nothing shows it."""
    windows, dos = len(_WINDOWS.findall(text)), len(_DOS.findall(text))
    if windows == dos == 0:
        return None
    return "cp850" if dos > windows else "cp1252"


def _is_seven_bit(head: bytes) -> bool:
    return bool(_SURE.search(head)) or len(set(_UNSURE.findall(head))) > 1


def read_mt940(source: Source, ibans: Mapping[str, str], tally: Tally, *, pending: bool = False) -> Iterator[Item]:
    """`pending`: whoever handed the file out says that nothing in it is booked yet, whatever form it has."""
    statement: _Statement | None = None
    count = 0
    is_intraday = False
    for field in read_fields(source):
        if isinstance(field, StatementWarning):
            yield field
        elif field.tag in {END, INTRADAY, "20"}:
            if statement is not None:
                yield from statement.end()
            statement = None
            is_intraday = is_intraday or field.tag == INTRADAY
            if field.tag == "20":
                kind: _Kind = "pending" if pending else "intraday" if is_intraday else ""
                statement = _Statement(source.name, field, ibans, tally, kind)
                is_intraday = False
                count += 1
        elif statement is None:
            raise StatementError(
                said("The field :{tag}: is outside a statement, which begins with :20:.", tag=field.tag),
                file=source.name,
                place=f"line {field.at}",
            )
        else:
            yield from statement.add(field)
    if statement is not None:
        yield from statement.end()
    if not count:
        raise StatementError("The file has no statement (:20:).", file=source.name)


# Known of a statement before it is read: that it has nothing but pending movements, that it is an MT942, or nothing.
_Kind: TypeAlias = Literal["pending", "intraday", ""]


class _Statement:
    """A statement in progress, filled field by field."""

    def __init__(self, file: str, begin: Field, ibans: Mapping[str, str], tally: Tally, kind: _Kind) -> None:
        self._file = file
        self._reference = begin.text.strip()
        self._at = begin.at
        self._ibans = ibans
        self._tally = tally
        self._kind = kind
        self._account = ""
        self._sequence = ""
        self._opening: Opening | None = None
        self._closing: Balance | None = None
        self._balances: list[Balance] = []
        self._line: Field | None = None
        self._information: list[str] = []
        self._number = 0
        self._sums = {1: [0, 0], -1: [0, 0]}
        self._moved = 0

    @property
    def name(self) -> str:
        return f"{self._reference} {self._sequence}".strip()

    def add(self, field: Field) -> Iterator[Item]:
        try:
            yield from self._add(field)
        except StatementError as error:
            place = f"entry {self._number}, " if self._line is not None else ""
            raise error.at(self._file, self.name, f"{place}line {field.at}") from None

    def _add(self, field: Field) -> Iterator[Item]:
        if field.tag == "86":
            if self._line is not None:
                self._information += field.lines
            return
        yield from self._finished_entry()
        if field.tag in {"25", "25P"}:
            self._account = field.lines[0].strip()
        elif field.tag in {"28", "28C"}:
            self._sequence = field.text.strip()
        elif field.tag in {"60F", "60M"}:
            balance = yield from self._balance(field)
            if self._kind != "pending":
                yield self._open(balance)
            elif self._opening is None:
                yield self._open(None, balance.currency)
        elif field.tag in {"34F", "13", "13D"} and self._opening is None:
            yield self._open(None, field.text if field.tag == "34F" else "")
        elif field.tag == "61":
            if self._opening is None and self._kind:
                yield self._open(None)
            if self._opening is None:
                raise StatementError("A movement (:61:) comes before the opening balance (:60F:).")
            if self._closing is not None:
                raise StatementError("A movement (:61:) comes after the closing balance (:62F:).")
            self._line = field
            self._number += 1
        elif field.tag in {"62F", "62M"}:
            self._closing = yield from self._balance(field)
        elif field.tag in {"64", "65"}:
            yield from self._balance(field)
        elif field.tag in {"90C", "90D"}:
            yield from self._check_total(field)

    def _open(self, balance: Balance | None, floor: str = "") -> Opening:
        if self._opening is not None:
            raise StatementError("The statement has a second opening balance (:60F:).")
        if not self._account:
            raise StatementError("The statement does not say which account it is about (:25:).")
        found = _ACCOUNT.fullmatch(self._account)
        identification = found[1] if found else self._account
        # `/IBAN` and `BIC/IBAN` are in use too.
        last = identification.rpartition("/")[2].strip()
        identification = last if _IBAN.fullmatch(last) else identification
        currency = balance.currency if balance else currency_of(floor[:3] or (found[2] if found else "EUR"))
        number, _, page = self._sequence.partition("/")
        self._opening = Opening(
            file=self._file,
            format="MT940" if balance else "MT942",
            kind="booked" if balance else "intraday",
            account=StatementAccount(own_iban(identification, self._ibans), self._account, currency),
            statement_id=self.name,
            number=whole_number(number),
            page=whole_number(page),
            balance=balance,
            line=self._at,
        )
        return self._opening

    def _balance(self, field: Field) -> Generator[StatementWarning, None, Balance]:
        found = _BALANCE.fullmatch(field.text.strip())
        if found is None:
            raise StatementError(
                said("The balance (:{tag}:) cannot be read: {text}.", tag=field.tag, text=f"{field.text[:60]!r}")
            )
        mark, on, currency, amount = found.groups()
        signed = minor_of(amount) * (1 if mark == "C" else -1)
        remarks: list[Remark] = []
        balance = Balance(_BALANCE_CODES[field.tag], signed, currency, short_day(on, remarks))
        yield from self._warnings(remarks, field)
        if self._opening is not None and currency != self._opening.account.currency:
            raise StatementError(
                said(
                    "The account is kept in {currency}, but a balance is in {other}.",
                    currency=self._opening.account.currency,
                    other=currency,
                )
            )
        self._balances.append(balance)
        return balance

    def _warnings(self, remarks: Iterable[Remark], field: Field) -> Iterator[StatementWarning]:
        entry = f", entry {self._number}" if field.tag == "61" else ""
        for remark in remarks:
            yield StatementWarning(f"statement {self.name}{entry}, line {field.at}", *remark)

    def _finished_entry(self) -> Iterator[Item]:
        field, self._line = self._line, None
        if field is None or self._opening is None:
            return
        lines, self._information = self._information, []
        try:
            line: Line = read_line(field.text)
            entry = make_entry(
                line,
                lines,
                "posted" if self._opening.kind == "booked" else "pending",
                self._opening.account.currency or "",
                self._number,
                field.at,
            )
        except StatementError as error:
            raise error.at(self._file, self.name, f"entry {self._number}, line {field.at}") from None
        self._moved += entry.amount_minor
        total = self._sums[1 if entry.amount_minor >= 0 else -1]
        total[0] += 1
        total[1] += abs(entry.amount_minor)
        yield from self._warnings(line.remarks, field)
        yield entry

    def _check_total(self, field: Field) -> Iterator[StatementWarning]:
        """MT942 has no balances, but states the number and the sum of debits and credits."""
        found = _TOTAL.fullmatch(field.text.strip())
        if found is None:
            raise StatementError(
                said("The total (:{tag}:) cannot be read: {text}.", tag=field.tag, text=f"{field.text[:60]!r}")
            )
        count, amount = self._sums[1 if field.tag == "90C" else -1]
        if (count, amount) != (int(found[1]), minor_of(found[3])):
            yield self._unbalanced(
                said(
                    "The total (:{tag}:) says {count} entries of {amount}; the statement has {found} of"
                    " {amount_found}.",
                    tag=field.tag,
                    count=found[1],
                    amount=found[3],
                    found=count,
                    amount_found=amount_text(amount),
                ),
                f"line {field.at}",
            )

    def _unbalanced(self, sentence: str, place: str) -> StatementWarning:
        """Raises StatementError unless the file may be unbalanced."""
        if not self._tally.unbalanced:
            raise StatementError(joined(" ", [sentence, UNBALANCED]), file=self._file, statement=self.name, place=place)
        return StatementWarning(f"statement {self.name}, {place}", sentence, NEVERTHELESS)

    def end(self) -> Iterator[Item]:
        yield from self._finished_entry()
        after = f"after entry {self._number}" if self._number else f"line {self._at}"
        if self._opening is None:
            raise StatementError(
                "The statement ends without an opening balance (:60F:): it is cut off or incomplete.",
                file=self._file,
                statement=self.name,
                place=after,
            )
        has_balances = self._opening.kind != "booked" or self._closing is not None
        if not has_balances:
            yield self._unbalanced(
                "The statement ends without a closing balance (:62F:): it is cut off or incomplete.", after
            )
        last = self._closing is None or self._closing.code != INTERIM
        moved = self._moved if self._opening.kind == "booked" else 0
        yield from self._tally.close(
            Closing(
                self._opening,
                self._closing,
                tuple(self._balances),
                self._number,
                moved,
                last_page=last,
                adds_up=has_balances,
            )
        )
