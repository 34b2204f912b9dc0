"""What is found for some words: sections in which all of them occur, the most telling first. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

MAX_QUERY = 100
MAX_WORDS = 8
MAX_RESULTS = 30
_SNIPPET = 180
# A hit in a heading tells more than one in the text, all words in a row most of all; a repeated word soon tells no more.
_IN_TITLE, _IN_HEADING, _IN_A_ROW, _MOST_REPEATS = 3, 6, 8, 4


_ENDINGS, _SHORTEST_STEM = ("ing", "es", "ed", "s", "e"), 4


class Passage(NamedTuple):
    """A section of a page, as the search knows it."""

    address: str
    page_title: str
    heading: str
    text: str
    # Whether it is read by users; records of decisions come after.
    is_for_users: bool


class Result(NamedTuple):
    passage: Passage
    # Pieces of the text; every second one is a hit.
    snippet: list[str]


def words_of(query: str) -> list[str]:
    """What is looked for: the words without common endings, so that “upgrade” finds “upgrading”."""
    return list(dict.fromkeys(map(_stem, query.casefold().split())))[:MAX_WORDS]


def _stem(word: str) -> str:
    ending = next((ending for ending in _ENDINGS if word.endswith(ending)), "")
    return word.removesuffix(ending) if word.isalpha() and len(word) - len(ending) >= _SHORTEST_STEM else word


def search(passages: Iterable[Passage], query: str) -> list[Result]:
    words = words_of(query)
    if not words:
        return []
    found = [(score, passage) for passage in passages if (score := _score(passage, words))]
    found.sort(key=lambda item: -item[0])
    return [Result(passage, _snippet(passage.text, words)) for _, passage in found[:MAX_RESULTS]]


def _score(passage: Passage, words: list[str]) -> int:
    title, heading, text = passage.page_title.casefold(), passage.heading.casefold(), passage.text.casefold()
    total = 0
    for word in words:
        score = min(text.count(word), _MOST_REPEATS)
        score += _IN_HEADING if word in heading else 0
        score += _IN_TITLE if word in title else 0
        if not score:
            return 0
        total += score
    if len(words) > 1 and " ".join(words) in f"{title} {heading} {text}":
        total += _IN_A_ROW
    return total * 2 if passage.is_for_users else total


def _snippet(text: str, words: list[str]) -> list[str]:
    """A piece of the text around its first hit, cut at the hits."""
    pattern = re.compile("|".join(sorted(map(re.escape, words), key=len, reverse=True)), re.IGNORECASE)
    first = pattern.search(text)
    start = max(0, (first.start() if first else 0) - _SNIPPET // 3)
    if start:
        start = text.find(" ", start) + 1
    piece = text[start : start + _SNIPPET]
    if start + _SNIPPET < len(text):
        piece = piece.rpartition(" ")[0] + " …"
    pieces, end = [], 0
    for match in pattern.finditer(piece):
        pieces += [piece[end : match.start()], match[0]]
        end = match.end()
    return [("… " if start else "") + (pieces[0] if pieces else piece), *pieces[1:], *([piece[end:]] if pieces else [])]
