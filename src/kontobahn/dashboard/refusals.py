"""What areas say when they refuse or warn, in the language of the request. They speak English; `locale/de/refusals*.po`, kept by
hand, have the German.

In a catalogue `{name}` stands for whatever is written there. What was found in such a hole is looked up itself, so that a sentence
about a field and the reason behind it need one entry each. A hole called `amount…` or `day…` is written as the language writes it.
"""

from __future__ import annotations

import re
from datetime import date
from decimal import Decimal
from functools import cache
from typing import NamedTuple

from kontobahn.dashboard import figures, po
from kontobahn.dashboard.words import FOLDER, Language, language

CATALOGUES = "refusals*.po"
# Nothing that an area says is longer; a hostile text might be.
_LONGEST = 4_000
_DEEPEST = 6
_HOLE = re.compile(r"\{(\w+)\}")
_AMOUNT = re.compile(r"(-?[0-9]{1,15}(?:\.[0-9]{1,2})?)(?: ([A-Z]{3}))?")


class _Sentence(NamedTuple):
    # The longest part without a hole: what does not contain it is not this sentence.
    part: str
    pattern: re.Pattern[str]
    translation: str


class _Book(NamedTuple):
    texts: dict[str, str]
    # The most particular ones first.
    sentences: tuple[_Sentence, ...]


@cache
def _book(chosen: Language) -> _Book:
    texts: dict[str, str] = {}
    sentences: list[tuple[int, _Sentence]] = []
    for path in sorted((FOLDER / chosen).glob(CATALOGUES)):
        for message in po.read(path.read_text("utf-8")):
            parts = _HOLE.split(message.text)
            if len(parts) == 1:
                texts[message.text] = message.translations[0]
                continue
            literals = parts[::2]
            pattern = "".join(
                re.escape(part) if number % 2 == 0 else f"(?P<{part}>.+?)" for number, part in enumerate(parts)
            )
            found = _Sentence(max(literals, key=len), re.compile(pattern, re.DOTALL), message.translations[0])
            sentences.append((sum(map(len, literals)), found))
    return _Book(texts, tuple(found for _, found in sorted(sentences, key=lambda item: -item[0])))


def refusal(sentence: str) -> str:
    """The sentence in the language of the request; as it is where no catalogue has it."""
    return _translated(sentence, _DEEPEST)


def _translated(text: str, depth: int) -> str:
    book = _book(language())
    if text in book.texts:
        return book.texts[text]
    if len(text) > _LONGEST or not depth:
        return text
    for sentence in book.sentences:
        if sentence.part in text and (match := sentence.pattern.fullmatch(text)):
            filled = {name: _filled(name, value, depth - 1) for name, value in match.groupdict().items()}
            return sentence.translation.format(**filled)
    return text


def _filled(name: str, value: str, depth: int) -> str:
    if name.startswith("amount") and (match := _AMOUNT.fullmatch(value)):
        exact = Decimal(match[1])
        return figures.money(exact, match[2]) if match[2] else figures.number(exact, 2)
    if name.startswith("day"):
        try:
            return figures.day(date.fromisoformat(value))
        except ValueError:
            return value
    return _translated(value, depth)
