"""Parses the purpose text of a bank transaction by its SEPA tags: `EREF+`, `SVWZ+` …, or `EREF: ` at other banks.

Pure, and linear in the length of the text. The caller keeps the raw text; what belongs to no tag goes into `svwz` or
`additional`, so no word is lost.
"""

from __future__ import annotations

import re
from typing import TypeAlias

import msgspec

from kontobahn.formats.line_breaks import TAGS as _FOUR_LETTERS
from kontobahn.formats.line_breaks import join_lines


class Purpose(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What a text says, by tag.

    `additional` is the remainder: text before the first tag if there is an SVWZ, and repeated tags.
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


# Shorter than the 22 characters of a German IBAN; without them, text that follows would be read as part of the IBAN.
_SHORT_IBANS = {"NO": 15, "BE": 16, "DK": 18, "FI": 18, "NL": 18, "SI": 19, "AT": 20, "EE": 20, "LT": 20, "LU": 20,
                "CH": 21, "HR": 21, "LI": 21, "LV": 21}  # fmt: skip


def provided(value: str | None) -> str | None:
    """Returns the value stripped, or None if it is missing or NOTPROVIDED."""
    value = value.strip() if value else None
    if not value or (len(value) < 24 and value.upper().replace(" ", "") == "NOTPROVIDED"):
        return None
    return value


def reference(value: str | None) -> str | None:
    """Returns an end-to-end id or the like, or None if it only says that there is none."""
    value = provided(value)
    return None if value is not None and len(value) < 12 and value.upper().replace(" ", "") == "NONREF" else value


def parse(description: str) -> Purpose:
    text = join_lines(description.splitlines()) if "\n" in description or "\r" in description else description
    marks = _plus_marks(text) if "+" in text else []
    if not marks:
        marks = _colon_marks(text) if ":" in text else []
        return _Found().add(text, marks).purpose(text[: marks[0][0]]) if marks else Purpose(svwz=provided(text))
    found = _Found().add(text, marks)
    before = text[: marks[0][0]]
    tagged = found.fields[_SVWZ] or before
    # Some banks write a second list, with colons, behind the text. '+' wins: what a tag says again is left over.
    colons = _colon_marks(tagged) if ":" in tagged else []
    if colons:
        rest = tagged[: colons[0][0]]
        if found.fields[_SVWZ]:
            found.fields[_SVWZ] = provided(rest)
        else:
            before = rest
        found.add(tagged, colons)
    return found.purpose(before)


# The start of a tag, the start of its value, and the tag.
_Mark: TypeAlias = tuple[int, int, str]


def _plus_marks(text: str) -> list[_Mark]:
    marks = []
    plus = text.find("+")
    while plus >= 0:
        found = _tag_before(text, plus)
        if found is not None:
            marks.append((found[0], plus + 1, found[1]))
        plus = text.find("+", plus + 1)
    return marks


def _tag_before(text: str, plus: int) -> tuple[int, str] | None:
    """Returns the start of the tag that ends at the plus sign, and the tag; `1+1` and `C+A` are text."""
    four = text[max(0, plus - 4) : plus]
    if four in _FOUR_LETTERS:
        return plus - 4, four
    # Split by a line break that became a blank: `S VWZ+`, `BIC +`.
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
        found = _tag_before_colon(text, colon)
        if found is not None:
            marks.append((found[0], colon + 1, found[1]))
        colon = text.find(":", colon + 1)
    return _with_spelled_out(text, marks) if _SPELLED_OUT_MARK in text else marks


def _tag_before_colon(text: str, colon: int) -> tuple[int, str] | None:
    for letters in (4, 3):
        start = colon - letters
        if start < 0:
            continue
        word = text[start:colon]
        # A tag in capitals needs no blank before it: `MaiEREF: 5`.
        if _is_tag(upper := word.upper()) and not (
            _letter_before(text, start) and text[start - 1].isupper() if word == upper else _word_before(text, start)
        ):
            return start, upper
    # Split by a line break that became a blank: `ER EF: 5`, `IBAN : DE…`.
    for letters in (5, 4):
        start = colon - letters
        word = text[max(start, 0) : colon]
        torn = start >= 0 and word.count(" ") == 1 and word[0] != " " and not _word_before(text, start)
        if torn and _is_tag(whole := word.replace(" ", "")):
            return start, whole
    return None


def _with_spelled_out(text: str, marks: list[_Mark]) -> list[_Mark]:
    """Adds the names that some private banks spell out; they only count together with the end-to-end reference."""
    for found in _SPELLED_OUT.finditer(text):
        tag = "EREF" if found["eref"] else "MREF" if found["mref"] else "CRED"
        marks.append((found.start(), found.end(), tag))
    return sorted(marks)


_SPELLED_OUT_MARK = "End-to-End-Ref"
_SPELLED_OUT = re.compile(
    r"(?P<eref>End-to-End-Ref\.? ?:)|(?P<mref>(?:CORE / |B2B / )?Mandatsref\.? ?:)|Gl(?:ä|ae)ubiger-ID ?:"
)


def _is_tag(word: str) -> bool:
    return word in _FOUR_LETTERS or word == "BIC"


def _letter_before(text: str, position: int) -> bool:
    return position > 0 and text[position - 1].isalpha()


def _word_before(text: str, position: int) -> bool:
    return position > 0 and text[position - 1].isalnum()


class _Found:
    """Values by their position in a Purpose, and the text that belongs to none."""

    __slots__ = ("fields", "left_over")

    def __init__(self) -> None:
        self.fields: list[str | None] = [None] * len(Purpose.__struct_fields__)
        self.left_over: list[str] = []

    def add(self, text: str, marks: list[_Mark]) -> _Found:
        fields = self.fields
        following = len(marks)
        for number, (start, end, tag) in enumerate(marks, 1):
            value = text[end : marks[number][0]] if number < following else text[end:]
            position = _POSITIONS[tag]
            before = fields[position]
            if before is not None:
                # The first wins, unless it was empty.
                if (again := value.strip()) and _bare(again) != _bare(before):
                    self.left_over.append(text[start:end] + (" " if text[end - 1] == ":" else "") + again)
                continue
            if tag == "IBAN":
                value = self._cut(value, _iban_length(value), _IBAN)
            elif tag == "BIC":
                value = self._cut(value, 8, _BIC)
            elif tag == "CRED" and " " in value.strip():
                value = self._cut_creditor_id(value)
            fields[position] = reference(value) if tag in _REFERENCES else provided(value)
        return self

    def _cut_creditor_id(self, value: str) -> str:
        """Returns a German creditor id without what follows it; any other value as it is."""
        found = _GERMAN_CREDITOR.match(value)
        if found is None:
            return value
        if rest := value[found.end() :].strip():
            self.left_over.append(rest)
        return found[0].replace(" ", "")

    def _cut(self, value: str, length: int, shape: re.Pattern[str]) -> str:
        """Returns an IBAN or BIC without its blanks. It ends at the first blank after `length` characters."""
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

    def purpose(self, before: str) -> Purpose:
        """`before` is the text before the first tag, which becomes the purpose if SVWZ is missing or empty."""
        fields = self.fields
        if fields[_SVWZ] is None:
            fields[_SVWZ] = provided(before)
        elif before and not before.isspace():
            self.left_over.insert(0, before)
        if self.left_over:
            left_over = " ".join([part.strip() for part in self.left_over])
            fields[_SVWZ if fields[_SVWZ] is None else _ADDITIONAL] = left_over
        return Purpose(*fields)


_IBAN = re.compile(r"[A-Za-z]{2}\d{2}[A-Za-z0-9]{8,30}", re.ASCII)
_BIC = re.compile(r"[A-Za-z0-9]{8}(?:[A-Za-z0-9]{3})?", re.ASCII)
_GERMAN_CREDITOR = re.compile(r"\s*D ?E(?: ?\d){2}(?: ?[A-Z0-9]){3}(?: ?\d){11}(?!\w)", re.ASCII)
_REFERENCES = frozenset(("EREF", "KREF", "MREF"))
_POSITIONS = {
    tag: Purpose.__struct_fields__.index("end_to_end_id" if tag == "EREF" else tag.lower())
    for tag in (*_FOUR_LETTERS, "BIC")
}
_SVWZ = _POSITIONS["SVWZ"]
_ADDITIONAL = Purpose.__struct_fields__.index("additional")


def _bare(value: str) -> str:
    return value.replace(" ", "")


def _iban_length(value: str) -> int:
    return _SHORT_IBANS.get(value.lstrip()[:2].upper(), 22)
