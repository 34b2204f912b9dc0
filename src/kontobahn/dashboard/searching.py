"""What somebody types into the one search field of a list: an amount, an IBAN or words. Every word must be found.

The database looks for a pattern that finds too much rather than too little; what it finds is then looked at closely.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from kontobahn.dashboard import figures
from kontobahn.money import to_minor

MAX_WORDS = 8
MAX_LENGTH = 200
ESCAPE = "!"
_AMOUNT = re.compile(r"[-+−]?[0-9][0-9.,\s\u00a0\u202f]*\s*(€|EUR)?", re.IGNORECASE)
_IBAN = re.compile(r"[A-Z]{2}[0-9]{2}[A-Z0-9]{4,30}", re.IGNORECASE)


class Word(NamedTuple):
    """One thing that must be found: as text, or as one of these amounts in cents."""

    text: str
    # For LIKE with ESCAPE, on text in lower case.
    pattern: str
    amounts: tuple[int, ...] = ()


def words_of(typed: str) -> list[Word]:
    """An amount or an IBAN may contain blanks; everything else is taken word by word."""
    text = " ".join(typed[:MAX_LENGTH].split())
    if not text:
        return []
    amounts = _amounts(text)
    if amounts:
        return [Word(text.casefold(), _pattern(text), amounts)]
    compact = text.replace(" ", "")
    if _IBAN.fullmatch(compact) and any(character.isdigit() for character in compact[4:]):
        groups = [compact[start : start + 4] for start in range(0, len(compact), 4)]
        return [Word(compact.casefold(), "%".join(_pattern(group).strip("%") for group in groups).join("%%"))]
    return [Word(word.casefold(), _pattern(word), _amounts(word)) for word in text.split()[:MAX_WORDS]]


def fits(words: Sequence[Word], texts: Iterable[str | None], amount_minor: int, number: str) -> bool:
    """Whether every word is in a text, is the amount, or is the whole number of what is looked at."""
    said = "\n".join(filter(None, texts)).casefold()
    compact = "".join(said.split())
    return all(
        word.text in said or word.text in compact or amount_minor in word.amounts or word.text == number
        for word in words
    )


def _amounts(text: str) -> tuple[int, ...]:
    """The cents that are meant: without a sign, money in and money out."""
    if not _AMOUNT.fullmatch(text):
        return ()
    try:
        cents = to_minor(figures.parse_amount(text.lstrip("+")))
    except ValueError:
        return ()
    return (cents,) if text[0] in "-+−" else (cents, -cents)


def _pattern(word: str) -> str:
    return f"%{''.join(map(_letter, word.casefold().replace('ss', 'ß')))}%"


def _letter(character: str) -> str:
    if character.isascii() and character.isalnum():
        return character
    # A letter of another case may have more bytes, and the stored text may write it in another way.
    return "%" if character in 'ß"\\ ' or not character.isprintable() else "_"
