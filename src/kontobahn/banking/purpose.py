"""The purpose text of a bank transaction taken apart by its SEPA tags: `EREF+`, `SVWZ+` …, or `EREF: ` at other banks.

Pure, and linear in the length of the text. The caller keeps the raw text; what no tag claims is in `svwz` or `additional`, so
every word of it is somewhere.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple


class Purpose(NamedTuple):
    """The contract's eleven keys first, in its order; then what goes elsewhere in a transaction.

    `additional` is what found no place: text before the first tag where there is an SVWZ, a tag that came again.
    """

    cred: str | None = None
    mref: str | None = None
    kref: str | None = None
    debt: str | None = None
    svwz: str | None = None
    abwa: str | None = None
    abwe: str | None = None
    bic: str | None = None
    oamt: str | None = None
    coam: str | None = None
    purp: str | None = None
    end_to_end_id: str | None = None
    iban: str | None = None
    mdat: str | None = None
    sqtp: str | None = None
    orcr: str | None = None
    ormr: str | None = None
    ddat: str | None = None
    bref: str | None = None
    rref: str | None = None
    additional: str | None = None

    def parsed(self) -> dict[str, str | None]:
        """The transaction's `description_parsed`."""
        return dict(zip(_CONTRACT, self, strict=False))


_CONTRACT = Purpose._fields[:11]
_FOUR_LETTERS = frozenset((
    "IBAN", "EREF", "KREF", "MREF", "CRED", "DEBT", "COAM", "OAMT", "SVWZ", "ABWA", "ABWE", "PURP", "MDAT", "SQTP", "ORCR",
    "ORMR", "DDAT", "BREF", "RREF",
))  # fmt: skip
# Lines of these lengths were cut by a bank's form (MT940 27, DTA 35, :86: 65, SEPA 70 and 140), in the middle of a word or not.
_WIDTHS = frozenset((27, 35, 65, 70, 140))
# Shorter than the 22 characters of the German IBAN, so that text behind one is not taken for a part of it.
_SHORT_IBANS = {"NO": 15, "BE": 16, "DK": 18, "FI": 18, "NL": 18, "SI": 19, "AT": 20, "EE": 20, "LT": 20, "LU": 20,
                "CH": 21, "HR": 21, "LI": 21, "LV": 21}  # fmt: skip


def join_lines(lines: Iterable[str]) -> str:
    """Lines as one text: without anything between where the first was cut at a form's width, else with a blank."""
    joined: list[str] = []
    for line in lines:
        if joined and len(joined[-1]) not in _WIDTHS and not joined[-1].endswith(" "):
            joined.append(" ")
        joined.append(line)
    return "".join(joined)


def given(value: str | None) -> str | None:
    """None where a value is missing or stands for a missing one."""
    value = value.strip() if value else None
    if not value or (len(value) < 24 and value.upper().replace(" ", "") == "NOTPROVIDED"):
        return None
    return value


def parse(description: str) -> Purpose:
    text = join_lines(description.splitlines()) if "\n" in description or "\r" in description else description
    marks = _plus_marks(text) if "+" in text else []
    if not marks:
        return Purpose(svwz=given(text)) if ":" not in text else _by_colons(text)
    found = _Found()
    before = text[: marks[0].start]
    found.take(text, marks)
    purpose_text = found.purpose_text(before)
    # '+' wins over ':', so only tags that did not come with '+' are looked for.
    colons = [mark for mark in _colon_marks(purpose_text) if mark.tag not in found.values and mark.tag != "SVWZ"]
    if colons:
        found.take(purpose_text, colons)
        purpose_text = purpose_text[: colons[0].start]
    return found.purpose(purpose_text)


class _Mark(NamedTuple):
    """Where a tag stands: its value begins at `end`."""

    start: int
    end: int
    tag: str


def _plus_marks(text: str) -> list[_Mark]:
    marks = []
    plus = text.find("+")
    while plus >= 0:
        found = _tag_before(text, plus)
        if found is not None:
            marks.append(_Mark(found[0], plus + 1, found[1]))
        plus = text.find("+", plus + 1)
    return marks


def _tag_before(text: str, plus: int) -> tuple[int, str] | None:
    """A tag that ends at the plus sign, and where it begins; `1+1` and `C+A` are text."""
    four = text[max(0, plus - 4) : plus]
    if four in _FOUR_LETTERS:
        return plus - 4, four
    # Torn by a wrap that became a blank: `S VWZ+`, `BIC +`.
    five = text[max(0, plus - 5) : plus]
    if five.count(" ") == 1 and (whole := five.replace(" ", "")) in _FOUR_LETTERS and five[0] != " ":
        return plus - 5, whole
    for letters in (4, 3):
        word = text[max(0, plus - letters) : plus]
        if word.replace(" ", "") == "BIC" and word[0] == "B" and not _letter_before(text, plus - letters):
            return plus - letters, "BIC"
        if _is_tag(word.upper()) and not _word_before(text, plus - letters):
            return plus - letters, word.upper()
    return None


def _colon_marks(text: str) -> list[_Mark]:
    marks = []
    colon = text.find(":")
    while colon >= 0:
        for letters in (4, 3):
            word = text[max(0, colon - letters) : colon].upper()
            if _is_tag(word) and not _word_before(text, colon - letters):
                marks.append(_Mark(colon - letters, colon + 1, word))
        colon = text.find(":", colon + 1)
    return marks


def _is_tag(word: str) -> bool:
    return word in _FOUR_LETTERS or word == "BIC"


def _letter_before(text: str, position: int) -> bool:
    return position > 0 and text[position - 1].isalpha()


def _word_before(text: str, position: int) -> bool:
    return position > 0 and text[position - 1].isalnum()


def _by_colons(text: str) -> Purpose:
    marks = _colon_marks(text)
    if not marks:
        return Purpose(svwz=given(text))
    found = _Found()
    found.take(text, marks)
    return found.purpose(found.purpose_text(text[: marks[0].start]))


class _Found:
    """Values by tag, and the text that belongs to none."""

    def __init__(self) -> None:
        self.values: dict[str, str] = {}
        self.left_over: list[str] = []

    def take(self, text: str, marks: list[_Mark]) -> None:
        for mark, following in zip(marks, [*marks[1:], None], strict=True):
            value = text[mark.end : following.start if following else len(text)]
            if mark.tag == "IBAN" and not (self.values.get("IBAN") or "").strip():
                value = self._cut(value, _iban_length(value), _IBAN)
            elif mark.tag == "BIC" and not (self.values.get("BIC") or "").strip():
                value = self._cut(value, 8, _BIC)
            # The first wins, unless it was empty.
            before = self.values.get(mark.tag, "").strip()
            if not before:
                self.values[mark.tag] = value
            elif value.strip() and value.strip() != before:
                self.left_over.append(text[mark.start : mark.end] + value)

    def _cut(self, value: str, length: int, shape: re.Pattern[str]) -> str:
        """An IBAN or BIC written with blanks, without them. It ends at the first blank after so many characters."""
        taken = ""
        pieces = value.split(" ")
        for number, piece in enumerate(pieces):
            if len(taken) >= length:
                rest = " ".join(pieces[number:])
                break
            taken += piece
            if len(taken) > 64:
                rest = " ".join(pieces[number + 1 :])
                break
        else:
            rest = ""
        if not shape.fullmatch(taken):
            taken, rest = "", value
        if rest.strip():
            self.left_over.append(rest)
        return taken.upper()

    def purpose_text(self, before: str) -> str:
        """The SVWZ, or the text before the first tag where that is missing or empty."""
        tagged = self.values.pop("SVWZ", "")
        if not tagged.strip():
            return before
        if before.strip():
            self.left_over.insert(0, before)
        return tagged

    def purpose(self, purpose_text: str) -> Purpose:
        svwz = given(purpose_text)
        left_over = " ".join(part.strip() for part in self.left_over)
        if svwz is None and left_over:
            svwz, left_over = left_over, ""
        values = {_FIELDS[tag]: given(value) for tag, value in self.values.items()}
        return Purpose(svwz=svwz, additional=left_over or None, **values)


_IBAN = re.compile(r"[A-Za-z]{2}\d{2}[A-Za-z0-9]{8,30}", re.ASCII)
_BIC = re.compile(r"[A-Za-z0-9]{8}(?:[A-Za-z0-9]{3})?", re.ASCII)
_FIELDS = {tag: tag.lower() for tag in _FOUR_LETTERS if tag != "SVWZ"} | {"BIC": "bic", "EREF": "end_to_end_id"}


def _iban_length(value: str) -> int:
    return _SHORT_IBANS.get(value.lstrip()[:2].upper(), 22)
