"""The values of a DATEV-format file as they are written: texts, amounts, accounts, and columns that are kept as they are.

A value that cannot be read raises InvalidValue; nothing is rounded, truncated or guessed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from itertools import compress
from typing import TypeVar

import msgspec

from kontobahn.formats.extf.format import Category, InvalidValue, RowWarning
from kontobahn.sentences import said

_K = TypeVar("_K")
_V = TypeVar("_V")

EUR = "EUR"
_MAX_KONTO_WIDTH = 18
KEPT = "It was kept as it is."
LEFT_OUT = "It was left out."


class Memo(dict[_K, _V]):
    """Caches the results of a function by its argument; of bounded size."""

    def __init__(self, compute: Callable[[_K], _V], size: int = 65_536) -> None:
        super().__init__()
        self._compute, self._size = compute, size

    def __missing__(self, key: _K) -> _V:
        value = self._compute(key)
        if len(self) >= self._size:
            self.clear()
        self[key] = value
        return value


def quote(text: str) -> str:
    return '"' + text.replace('"', '""') + '"'


def is_digits(text: str, maximum: int) -> bool:
    """Returns whether the text is 1 to `maximum` of the digits 0 to 9. str.isdigit alone would accept those of other scripts."""
    return 0 < len(text) <= maximum and text.isascii() and text.isdigit()


def parse_amount(text: str) -> int:
    """Returns cents, exactly. Without a comma the amount is in whole euros."""
    whole, comma, decimals = text.partition(",")
    digits = whole + decimals
    if digits.isdigit() and digits.isascii() and 0 < len(whole) <= 10 and (0 < len(decimals) <= 2 or not comma):
        return int(digits) * (1, 10, 100)[2 - len(decimals)]
    if not text:
        raise InvalidValue("The amount is missing.")
    raise InvalidValue(
        said("'{text}' is not an amount: up to ten digits, then perhaps a comma and one or two more.", text=text)
    )


def format_amount(cents: int) -> str:
    return f"{cents // 100},{cents % 100:02d}"


def kontonummer_parser(sachkontenlaenge: int) -> Callable[[str], str]:
    """Parses account numbers: a Sachkonto with its leading zeros, or a Personenkonto with one digit more.

    The column is a number, so zeros before it mean nothing: some programs pad all accounts to one width.
    """

    def parse(text: str) -> str:
        number = text.lstrip("0")
        if is_digits(text, _MAX_KONTO_WIDTH) and 0 < len(number) <= sachkontenlaenge + 1:
            return number.zfill(sachkontenlaenge)
        raise InvalidValue(
            said(
                "'{text}' is neither a Sachkonto of {digits} digits nor a Personenkonto of {persons}"
                " that begins with 1 to 9.",
                text=text,
                digits=sachkontenlaenge,
                persons=sachkontenlaenge + 1,
            )
            if text
            else "The account is missing."
        )

    return parse


def too_long(category: Category, line: int, fields: list[str], max_lengths: dict[int, int]) -> Iterator[RowWarning]:
    """Yields a warning for each text that is longer than the format allows; `max_lengths` is by index of the column."""
    for column, length in max_lengths.items():
        text = fields[column]
        if len(text) > length:
            found = said(
                "'{text}' has {count} characters, {most} are allowed.", text=text, count=len(text), most=length
            )
            yield RowWarning.of(category, line, column, found, KEPT)


def parse_number(text: str, maximum: int) -> int:
    if not text:
        return 0
    if not (is_digits(text, 9) and int(text) <= maximum):
        raise InvalidValue(said("'{text}' is not a number from 0 to {high}.", text=text, high=maximum))
    return int(text)


def weitere_reader(category: Category, columns: range) -> Callable[[list[str]], str]:
    """Encodes what we give no meaning to as JSON (``weitere``): the filled fields of these columns, by column number."""
    numbers = {index: str(number) for index, number in enumerate(columns) if number not in category.understood}
    indices = range(len(columns))
    encode = msgspec.json.Encoder().encode

    def weitere_of(fields: list[str]) -> str:
        filled = {numbers[index]: fields[index] for index in compress(indices, fields) if index in numbers}
        return encode(filled).decode() if filled else ""

    return weitere_of


def join_weitere(first: str, second: str) -> str:
    return f"{first[:-1]},{second[1:]}" if first and second else first or second


_PLAIN_NUMBER = re.compile(r"[0-9]*(?:,[0-9]+)?")


def row_maker(category: Category) -> Callable[[str], list[str]]:
    """Makes the written fields of a row from the JSON text in ``weitere``; all other fields are empty."""
    allowed = {str(number) for number in category.not_understood}
    empty = ["" if number in category.numeric else quote("") for number in range(1, len(category.titles) + 1)]

    def make_row(weitere: str) -> list[str]:
        fields = empty.copy()
        for number, value in decode_weitere(weitere).items():
            if number not in allowed:
                raise InvalidValue(said("'{text}' is not the number of a further column.", text=number))
            index = int(number) - 1
            bare = index + 1 in category.numeric and _PLAIN_NUMBER.fullmatch(value)
            fields[index] = value if bare else quote(value)
        return fields

    return make_row


def decode_weitere(weitere: str) -> dict[str, str]:
    """Further columns by number."""
    try:
        return msgspec.json.decode(weitere, type=dict[str, str]) if weitere else {}
    except msgspec.MsgspecError as error:
        raise InvalidValue(said("'{text}' is not a JSON object of texts.", text=weitere[:40])) from error


def encode_weitere(columns: dict[str, str]) -> str:
    """The same as the text that is kept: in the order of the columns, and empty if there are none."""
    by_number = dict(sorted(columns.items(), key=lambda item: int(item[0])))
    return msgspec.json.encode(by_number).decode() if by_number else ""
