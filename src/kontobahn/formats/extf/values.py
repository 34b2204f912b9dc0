"""How values are written in a DATEV-format file: texts, amounts, accounts, and what is only carried along.

A value that cannot be taken is refused with Abgelehnt; nothing is rounded, cut off or guessed.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import compress
from typing import TypeVar

import msgspec

from kontobahn.formats.extf.format import Abgelehnt, Kategorie

_K = TypeVar("_K")
_V = TypeVar("_V")

EUR = "EUR"


class Memo(dict[_K, _V]):
    """The results of a function by its argument, for values that come again and again; of bounded size."""

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


def unquote(text: str) -> str:
    return text[1:-1].replace('""', '"')


def is_digits(text: str, most: int) -> bool:
    """One to so many of the digits 0 to 9. Python's own notion of digits has far more of them."""
    return 0 < len(text) <= most and text.isascii() and text.isdigit()


def parse_betrag(text: str) -> int:
    """Cents, exactly. Without a comma the amount is whole euros."""
    whole, comma, decimals = text.partition(",")
    digits = whole + decimals
    if digits.isdigit() and digits.isascii() and 0 < len(whole) <= 10 and (0 < len(decimals) <= 2 or not comma):
        return int(digits) * (1, 10, 100)[2 - len(decimals)]
    if not text:
        raise Abgelehnt("The amount is missing.")
    raise Abgelehnt(f"'{text}' is not an amount: up to ten digits, then perhaps a comma and one or two more.")


def format_betrag(cents: int) -> str:
    return f"{cents // 100},{cents % 100:02d}"


def kontonummer(sachkontenlaenge: int) -> Callable[[str], str]:
    """A check of account numbers: a Sachkonto with its leading zeros, or a Personenkonto with one digit more."""

    def parse(text: str) -> str:
        if is_digits(text, sachkontenlaenge + 1) and text.strip("0"):
            if len(text) <= sachkontenlaenge:
                return text.zfill(sachkontenlaenge)
            if text[0] != "0":
                return text
        raise Abgelehnt(
            f"'{text}' is neither a Sachkonto of {sachkontenlaenge} digits "
            f"nor a Personenkonto of {sachkontenlaenge + 1} that begins with 1 to 9."
            if text
            else "The account is missing."
        )

    return parse


def check_lengths(felder: list[str], longest: dict[int, int]) -> None:
    """The texts in these columns, by number, must not be longer than the format allows."""
    for number, length in longest.items():
        if len(felder[number - 1]) > length:
            raise Abgelehnt(f"'{felder[number - 1]}' is longer than {length} characters.", number)


def whole_number(text: str, most: int) -> int:
    if not text:
        return 0
    if not (is_digits(text, 9) and int(text) <= most):
        raise Abgelehnt(f"'{text}' is not a number from 0 to {most}.")
    return int(text)


def weitere_reader(kategorie: Kategorie, columns: range) -> Callable[[list[str]], str]:
    """Makes the JSON text that keeps what we give no meaning to: the filled fields of these columns by their number."""
    numbers = {index: str(number) for index, number in enumerate(columns) if number not in kategorie.gedeutet}
    indices = range(len(columns))
    encode = msgspec.json.Encoder().encode

    def weitere_of(felder: list[str]) -> str:
        filled = {numbers[index]: felder[index] for index in compress(indices, felder) if index in numbers}
        return encode(filled).decode() if filled else ""

    return weitere_of


def join_weitere(first: str, second: str) -> str:
    return f"{first[:-1]},{second[1:]}" if first and second else first or second


_PLAIN_NUMBER = re.compile(r"[0-9]*(?:,[0-9]+)?")


def felder_of(kategorie: Kategorie) -> Callable[[str], list[str]]:
    """A reader of that JSON text: all fields of a row as they are written, filled only where the text says so."""
    allowed = {str(number) for number in kategorie.weitere}
    empty = ["" if number in kategorie.zahlen else quote("") for number in range(1, len(kategorie.titel) + 1)]

    def decode(weitere: str) -> list[str]:
        felder = empty.copy()
        for number, value in _decode(weitere).items():
            if number not in allowed:
                raise Abgelehnt(f"'{number}' is not the number of a further column.")
            index = int(number) - 1
            bare = index + 1 in kategorie.zahlen and _PLAIN_NUMBER.fullmatch(value)
            felder[index] = value if bare else quote(value)
        return felder

    return decode


def _decode(weitere: str) -> dict[str, str]:
    try:
        return msgspec.json.decode(weitere, type=dict[str, str]) if weitere else {}
    except msgspec.MsgspecError as error:
        raise Abgelehnt(f"'{weitere[:40]}' is not a JSON object of texts.") from error
