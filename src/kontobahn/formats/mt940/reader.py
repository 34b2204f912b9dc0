"""Reads MT940 (end of day) and MT942 (intraday) as a stream: statements and their balances.

Letters are read in `lines.py`, frames and fields in `fields.py`, entries in `entry.py`.
"""

from __future__ import annotations

import re
from collections.abc import Generator, Iterable, Iterator, Mapping

from kontobahn.formats.mt940.entry import Line, make_entry, read_line, short_day
from kontobahn.formats.mt940.fields import END, INTRADAY, Field, read_fields
from kontobahn.formats.statements import values
from kontobahn.formats.statements.model import (
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
from kontobahn.formats.statements.source import Source
from kontobahn.money import amount_text

_BALANCE = re.compile(r"([CD])(\d{6})\s?([A-Z]{3})\s?(\d{1,15}(?:[,.]\d*)?|,\d+)", re.ASCII)
_TOTAL = re.compile(r"(\d{1,5})([A-Z]{3})(\d{1,15}(?:[,.]\d*)?|,\d+)", re.ASCII)
_ACCOUNT = re.compile(r"(.*\d)\s?([A-Z]{3})", re.DOTALL)
_IBAN = re.compile(r"[A-Z]{2}\d\d[A-Z0-9 ]{11,40}", re.ASCII)
_BALANCE_CODES = {"60F": "OPBD", "60M": INTERIM, "62F": "CLBD", "62M": INTERIM, "64": "CLAV", "65": "FWAV"}


def read_mt940(source: Source, ibans: Mapping[str, str], tally: Tally) -> Iterator[Item]:
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
                statement = _Statement(source.name, field, ibans, tally, is_intraday=is_intraday)
                is_intraday = False
                count += 1
        elif statement is None:
            raise StatementError(
                f"The field :{field.tag}: is outside a statement, which begins with :20:.",
                file=source.name,
                place=f"line {field.at}",
            )
        else:
            yield from statement.add(field)
    if statement is not None:
        yield from statement.end()
    if not count:
        raise StatementError("The file has no statement (:20:).", file=source.name)


class _Statement:
    """A statement in progress, filled field by field."""

    def __init__(self, file: str, begin: Field, ibans: Mapping[str, str], tally: Tally, *, is_intraday: bool) -> None:
        self._file = file
        self._reference = begin.text.strip()
        self._at = begin.at
        self._ibans = ibans
        self._tally = tally
        self._is_intraday = is_intraday
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
            yield self._open(balance)
        elif field.tag in {"34F", "13", "13D"} and self._opening is None:
            yield self._open(None, field.text if field.tag == "34F" else "")
        elif field.tag == "61":
            if self._opening is None and self._is_intraday:
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
        return self._opening

    def _balance(self, field: Field) -> Generator[StatementWarning, None, Balance]:
        found = _BALANCE.fullmatch(field.text.strip())
        if found is None:
            raise StatementError(f"The balance (:{field.tag}:) cannot be read: {field.text[:60]!r}.")
        mark, on, currency, amount = found.groups()
        signed = values.minor(amount) * (1 if mark == "C" else -1)
        shifted: list[str] = []
        balance = Balance(_BALANCE_CODES[field.tag], signed, currency, short_day(on, shifted))
        yield from self._shifted(shifted, field)
        if self._opening is not None and currency != self._opening.account.currency:
            raise StatementError(
                f"The account is kept in {self._opening.account.currency}, but a balance is in {currency}."
            )
        self._balances.append(balance)
        return balance

    def _shifted(self, days: Iterable[str], field: Field) -> Iterator[StatementWarning]:
        for day in days:
            yield StatementWarning(
                self._place(field), f"There is no {day}.", "It was read as the last day of the month, as banks mean it."
            )

    def _place(self, field: Field) -> str:
        entry = f", entry {self._number}" if field.tag == "61" else ""
        return f"statement {self.name}{entry}, line {field.at}"

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
        yield from self._shifted(line.shifted, field)
        yield entry

    def _check_total(self, field: Field) -> Iterator[StatementWarning]:
        """MT942 has no balances, but states the number and the sum of debits and credits."""
        found = _TOTAL.fullmatch(field.text.strip())
        if found is None:
            raise StatementError(f"The total (:{field.tag}:) cannot be read: {field.text[:60]!r}.")
        count, amount = self._sums[1 if field.tag == "90C" else -1]
        if (count, amount) != (int(found[1]), values.minor(found[3])):
            yield self._unbalanced(
                f"The total (:{field.tag}:) says {found[1]} entries of {found[3]}; the statement has {count}"
                f" of {amount_text(amount)}.",
                f"line {field.at}",
            )

    def _unbalanced(self, sentence: str, place: str) -> StatementWarning:
        """Raises StatementError unless the file may be unbalanced."""
        if not self._tally.unbalanced:
            raise StatementError(f"{sentence} {UNBALANCED}", file=self._file, statement=self.name, place=place)
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
