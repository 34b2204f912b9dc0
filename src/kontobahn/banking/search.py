"""The words of a search, and where they are found. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

ESCAPE = "!"
# One unit of work looks through at most this many rows; then it says how far it got.
LOOKED_THROUGH = 5_000


class Word(NamedTuple):
    """One thing that must be found: as text, or as one of these amounts in cents."""

    text: str
    # For LIKE with ESCAPE, on text in lower case. Finds too much rather than too little; what it finds is then looked at closely.
    pattern: str
    amounts: tuple[int, ...] = ()


def fits(words: Sequence[Word], texts: Iterable[str | None], amount_minor: int, number: str) -> bool:
    """Returns whether every word is in a text, is the amount, or is the whole number of what is looked at."""
    said = "\n".join(filter(None, texts)).casefold()
    compact = "".join(said.split())
    return all(
        word.text in said or word.text in compact or amount_minor in word.amounts or word.text == number
        for word in words
    )
