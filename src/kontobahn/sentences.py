"""Sentences that remember what they were made of, so that whoever shows one can say it in another language.

To everything else a sentence is its English text. `said("The file is larger than {most} bytes.", most=10)` has the text with its hole
as its code, and the values as its parameters: `dashboard/refusals.py` looks the code up and fills the translation. Nobody reads
a text to find out what it says. A sentence that has no holes is its own code, and needs no `said`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Self


class Sentence(str):
    """A text with its code and its parameters. Parts of it, and what is put together with `+`, are plain texts again."""

    __slots__ = ("code", "values")
    code: str
    values: Mapping[str, str]

    def __new__(cls, code: str, values: Mapping[str, Any]) -> Self:
        texts = {name: value if isinstance(value, str) else str(value) for name, value in values.items()}
        self = super().__new__(cls, code.format_map(texts))
        self.code = code
        self.values = texts
        return self

    def __str__(self) -> str:
        # Not a copy without code and parameters: `str(error)` is how a reason is passed on.
        return self

    def __reduce__(self) -> tuple[type[Self], tuple[str, dict[str, str]]]:
        return type(self), (self.code, dict(self.values))


def said(code: str, /, **values: object) -> Sentence:
    """Returns the sentence with its holes filled. A value may be a sentence itself."""
    return Sentence(code, values)


def joined(separator: str, parts: Iterable[str]) -> str:
    """Returns the parts as one text, of which each part can still be translated."""
    found = {f"part{number}": part for number, part in enumerate(parts)}
    return Sentence(separator.join(f"{{{name}}}" for name in found), found)


def shortened(text: str, longest: int) -> str:
    """Returns the text, with each value of a sentence, or the whole of a plain text, cut to a beginning and an end of this length."""
    if isinstance(text, Sentence):
        return Sentence(text.code, {name: shortened(value, longest) for name, value in text.values.items()})
    return text if len(text) <= longest else f"{text[: longest // 2]} … {text[-longest // 2 :]}"


def without_stop(text: str) -> str:
    """Returns the text without the full stop at its end, for where another sentence goes on."""
    if isinstance(text, Sentence) and text.code.endswith("."):
        return Sentence(text.code.rstrip("."), text.values)
    return text.rstrip(".")


def same(text: str, *candidates: Sentence) -> str:
    """Returns the candidate that says what a stored text says, or the text: for rows that hold the parameters of their reason."""
    return next((one for one in candidates if one == text), text)
