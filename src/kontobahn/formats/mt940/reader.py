"""Reads MT940 (end of day) and MT942 (intraday) as a stream: frames, fields and balances. Entries are read in `entry.py`.

A field begins with `:tag:` at the start of a line and includes the lines that follow without one. SWIFT's envelope is removed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from kontobahn.formats.mt940.entry import make_entry, read_line, short_day
from kontobahn.formats.statements import values
from kontobahn.formats.statements.continuity import INTERIM, Tally
from kontobahn.formats.statements.model import Balance, Closing, Entry, Item, Opening, StatementAccount, StatementError
from kontobahn.formats.statements.source import Source
from kontobahn.money import amount_text

_MAX_LINE_BYTES = 65_536
_MAX_LINES = 1_000
_TAG = re.compile(r":(20|21|25|28C?|60[FM]|61|86|62[FM]|64|65|34F|13D?|90[CD]|NS):")
_ENVELOPE = re.compile(r"\{(?:[1235]:(?:[^{}]|\{[^{}]*\})*\}|4:)")
_BALANCE = re.compile(r"([CD])(\d{6})([A-Z]{3})(\d{1,15}(?:,\d*)?)", re.ASCII)
_TOTAL = re.compile(r"(\d{1,5})([A-Z]{3})(\d{1,15}(?:,\d*)?)", re.ASCII)
_BALANCE_CODES = {"60F": "OPBD", "60M": INTERIM, "62F": "CLBD", "62M": INTERIM, "64": "CLAV", "65": "FWAV"}
_END = "-"


class _Field(NamedTuple):
    tag: str
    lines: list[str]
    at: int

    @property
    def text(self) -> str:
        return "\n".join(self.lines)


def read_mt940(source: Source, ibans: Mapping[str, str], tally: Tally) -> Iterator[Item]:
    statement: _Statement | None = None
    count = 0
    for field in _fields(source):
        if field.tag in {_END, "20"}:
            if statement is not None:
                yield from statement.end()
            statement = None
            if field.tag == "20":
                statement = _Statement(source.name, field.text.strip(), field.at, ibans, tally)
                count += 1
        elif statement is None:
            raise StatementError(
                f"The field :{field.tag}: stands outside a statement, which begins with :20:.",
                file=source.name,
                place=f"line {field.at}",
            )
        else:
            yield from statement.add(field)
    if statement is not None:
        yield from statement.end()
    if not count:
        raise StatementError("The file has no statement (:20:).", file=source.name)


def _fields(source: Source) -> Iterator[_Field]:
    """Yields the fields in order; the end of a message is a field with the tag `-`."""
    field: _Field | None = None
    for number, line in enumerate(_lines(source), 1):
        text = line
        ended = text.rstrip() == "-" or text.startswith("-}")
        if ended:
            text = text.rstrip()[2:]
        if text.startswith("{"):
            text = _ENVELOPE.sub("", text)
            ended = ended or text != line
        if ended:
            if field is not None:
                yield field
                field = None
            yield _Field(_END, [], number)
        found = _TAG.match(text)
        if found:
            if field is not None:
                yield field
            field = _Field(found[1], [text[found.end() :]], number)
        elif field is not None and (text.strip() or not ended):
            if text:
                field.lines.append(text)
            if len(field.lines) > _MAX_LINES:
                raise StatementError(
                    f"The field :{field.tag}: has more than {_MAX_LINES} lines.",
                    file=source.name,
                    place=f"line {number}",
                )
        elif text.strip():
            raise StatementError(
                f"This line belongs to no field: {text[:60]!r}.", file=source.name, place=f"line {number}"
            )
    if field is not None:
        yield field


def _lines(source: Source) -> Iterator[str]:
    rest = b""
    first = True
    while chunk := source.read():
        if first:
            chunk = chunk.removeprefix(b"\xef\xbb\xbf")
            first = False
        *lines, rest = (rest + chunk).split(b"\n")
        for line in lines:
            yield _decoded(line)
        if len(rest) > _MAX_LINE_BYTES:
            raise StatementError("A line is longer than any in a bank statement.", file=source.name)
    if rest:
        yield _decoded(rest)


def _decoded(line: bytes) -> str:
    """Decodes UTF-8, or else the code pages of older banking software."""
    line = line.rstrip(b"\r")
    try:
        return line.decode("utf-8")
    except UnicodeDecodeError:
        return line.decode("cp1252") if not re.search(rb"[\x81\x8d\x8f\x90\x9d]", line) else line.decode("latin-1")


class _Statement:
    """A statement in progress, filled field by field."""

    def __init__(self, file: str, reference: str, at: int, ibans: Mapping[str, str], tally: Tally) -> None:
        self._file = file
        self._reference = reference
        self._at = at
        self._ibans = ibans
        self._tally = tally
        self._account = ""
        self._sequence = ""
        self._opening: Opening | None = None
        self._closing: Balance | None = None
        self._balances: list[Balance] = []
        self._line: _Field | None = None
        self._information: list[str] = []
        self._number = 0
        self._sums = {1: [0, 0], -1: [0, 0]}
        self._moved = 0

    @property
    def name(self) -> str:
        return f"{self._reference} {self._sequence}".strip()

    def add(self, field: _Field) -> Iterator[Item]:
        try:
            yield from self._add(field)
        except StatementError as error:
            place = f"entry {self._number}, " if self._line is not None else ""
            raise error.at(self._file, self.name, f"{place}line {field.at}") from None

    def _add(self, field: _Field) -> Iterator[Item]:
        if field.tag == "86":
            if self._line is not None:
                self._information += field.lines
            return
        yield from self._finished_entry()
        if field.tag == "25":
            self._account = field.text.strip()
        elif field.tag in {"28", "28C"}:
            self._sequence = field.text.strip()
        elif field.tag in {"60F", "60M"}:
            yield self._open(self._balance(field))
        elif field.tag in {"34F", "13", "13D"} and self._opening is None:
            yield self._open(None, field.text if field.tag == "34F" else "")
        elif field.tag == "61":
            if self._opening is None:
                raise StatementError("A movement (:61:) comes before the opening balance (:60F:).")
            if self._closing is not None:
                raise StatementError("A movement (:61:) comes after the closing balance (:62F:).")
            self._line = field
            self._number += 1
        elif field.tag in {"62F", "62M"}:
            self._closing = self._balance(field)
        elif field.tag in {"64", "65"}:
            self._balance(field)
        elif field.tag in {"90C", "90D"}:
            self._check_total(field)

    def _open(self, balance: Balance | None, floor: str = "") -> Opening:
        if self._opening is not None:
            raise StatementError("The statement has a second opening balance (:60F:).")
        if not self._account:
            raise StatementError("The statement does not say which account it is about (:25:).")
        found = re.fullmatch(r"(.*\d)\s?([A-Z]{3})", self._account)
        identification = found[1] if found else self._account
        currency = balance.currency if balance else values.currency(floor[:3] or (found[2] if found else "EUR"))
        number, _, page = self._sequence.partition("/")
        self._opening = Opening(
            file=self._file,
            format="MT940" if balance else "MT942",
            kind="booked" if balance else "intraday",
            account=StatementAccount(values.own_iban(identification, self._ibans), self._account, currency),
            statement_id=self.name,
            number=values.whole(number),
            page=values.whole(page),
            balance=balance,
            line=self._at,
        )
        self._tally.open(self._opening)
        return self._opening

    def _balance(self, field: _Field) -> Balance:
        found = _BALANCE.fullmatch(field.text.strip())
        if found is None:
            raise StatementError(f"The balance (:{field.tag}:) cannot be read: {field.text[:60]!r}.")
        mark, on, currency, amount = found.groups()
        signed = values.minor(amount) * (1 if mark == "C" else -1)
        balance = Balance(_BALANCE_CODES[field.tag], signed, currency, short_day(on))
        if self._opening is not None and currency != self._opening.account.currency:
            raise StatementError(
                f"The account is kept in {self._opening.account.currency}, but a balance is in {currency}."
            )
        self._balances.append(balance)
        return balance

    def _finished_entry(self) -> Iterator[Entry]:
        field, self._line = self._line, None
        if field is None or self._opening is None:
            return
        lines, self._information = self._information, []
        try:
            entry = make_entry(
                read_line(field.text),
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
        yield entry

    def _check_total(self, field: _Field) -> None:
        """MT942 has no balances, but states the number and the sum of debits and credits."""
        found = _TOTAL.fullmatch(field.text.strip())
        if found is None:
            raise StatementError(f"The total (:{field.tag}:) cannot be read: {field.text[:60]!r}.")
        count, amount = self._sums[1 if field.tag == "90C" else -1]
        if (count, amount) != (int(found[1]), values.minor(found[3])):
            raise StatementError(
                f"The total (:{field.tag}:) says {found[1]} entries of {found[3]}; the statement has {count}"
                f" of {amount_text(amount)}."
            )

    def end(self) -> Iterator[Item]:
        yield from self._finished_entry()
        missing = "opening balance (:60F:)" if self._opening is None else "closing balance (:62F:)"
        if self._opening is None or (self._opening.kind == "booked" and self._closing is None):
            after = f"after entry {self._number}" if self._number else f"line {self._at}"
            raise StatementError(
                f"The statement ends without a {missing}: it is cut off or incomplete.",
                file=self._file,
                statement=self.name,
                place=after,
            )
        last = self._closing is None or self._closing.code != INTERIM
        moved = self._moved if self._opening.kind == "booked" else 0
        yield from self._tally.close(
            Closing(self._opening, self._closing, tuple(self._balances), self._number, moved, 0, last)
        )
