"""Refusals and warnings of the areas, in the language of the request.

The areas speak English; `locale/de/refusals*.po`, kept by hand, have the German. A sentence is looked up by its code, the text with its
holes, and the translation is filled with its values (`kontobahn/sentences.py`). A value that has an entry itself is translated too, so
that a sentence about a field and the reason behind it need one entry each. A value called `amount…` or `day…` is written as the language
writes it.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from datetime import date
from decimal import Decimal
from functools import cache

from kontobahn.api.pages import Language
from kontobahn.dashboard import figures, words
from kontobahn.dashboard.words import FOLDER, _, language
from kontobahn.errors import KontobahnError, OutOfCredits
from kontobahn.sentences import Sentence

CATALOGUES = "refusals*.po"
_AMOUNT = re.compile(r"(-?[0-9]{1,15}(?:\.[0-9]{1,2})?)(?: ([A-Z]{3}))?")


@cache
def _book(chosen: Language) -> dict[str, str]:
    return {
        message.text: message.translations[0]
        for path in sorted((FOLDER / chosen).glob(CATALOGUES))
        for message in words.read_catalogue(path.read_text("utf-8"))
    }


def refusal(sentence: str, *, left_out: Collection[str] = ()) -> str:
    """The sentence in the language of the request; as it is where no catalogue has it. `left_out` are parts that are not shown."""
    book = _book(language())
    if not isinstance(sentence, Sentence):
        return book.get(sentence, sentence)
    code, values = next(
        ((code, values) for code, values in _codes(sentence) if code in book), (sentence.code, sentence.values)
    )
    translation = book.get(code)
    filled = {
        name: refusal(value, left_out=left_out) if value not in left_out else "" for name, value in values.items()
    }
    filled |= {name: _written(name, value) for name, value in values.items() if name.startswith(("amount", "day"))}
    return (translation or code).format_map(filled).rstrip()


def _codes(sentence: Sentence) -> Iterator[tuple[str, Mapping[str, str]]]:
    """The codes that may have an entry, the most particular first: with this reason for this field, with it for any field, with any."""
    reason = sentence.values.get("reason")
    if reason is not None:
        inner, further = (reason.code, reason.values) if isinstance(reason, Sentence) else (reason, {})
        code, values = sentence.code.replace("{reason}", inner), {**sentence.values, **further}
        yield code.replace("{path}", values.get("path", "")).replace("{what}", values.get("what", "")), values
        yield code.replace("{path}", values.get("path", "")), values
        yield code, values
    yield sentence.code, sentence.values


def _written(name: str, value: str) -> str:
    if name.startswith("day"):
        try:
            return figures.day(date.fromisoformat(value))
        except ValueError:
            return value
    match = _AMOUNT.fullmatch(value)
    if match is None:
        return value
    exact = Decimal(match[1])
    return figures.money(exact, match[2]) if match[2] else figures.number(exact, 2)


def help_url_of(error: KontobahnError) -> str:
    """Returns the page on which a provider explains its refusal; empty if it names none."""
    details = error.extra.get("details")
    found = details.get("helpUrl", "") if isinstance(details, dict) else ""
    return found if isinstance(found, str) and found.startswith("https://") else ""


def words_of(error: KontobahnError) -> str:
    """The sentence of an error, in the language of the request."""
    if isinstance(error, OutOfCredits):
        return _(
            "There are not enough credits: this needs %(needed)s, and %(left)s are left.",
            needed=figures.number(int(error.extra["benoetigt"])),
            left=figures.number(int(error.extra["verfuegbar"])),
        )
    instead = error.extra.get("message")
    return f"{refusal(str(error))} {refusal(instead)}" if isinstance(instead, Sentence) else refusal(str(error))
