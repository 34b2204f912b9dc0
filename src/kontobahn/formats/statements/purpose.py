"""Parses the purpose text of a bank transaction by its SEPA tags: `EREF+`, `SVWZ+` …, or `EREF: ` at other banks.

Purpose texts come in lines, so it also tells whether a line break stands for a blank or splits a word. Pure, and linear in the
length of the text. The caller keeps the raw text; what belongs to no tag goes into `svwz` or `additional`, so no word is lost.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterable
from functools import lru_cache
from itertools import pairwise
from typing import TypeAlias

import msgspec

# --- Line breaks: a form's full line may end in the middle of a word; a shorter one ends with a word, unless what follows clearly
# belongs to it

# The tags of a purpose text with four letters; BIC is the one with three.
TAGS = frozenset((
    "IBAN", "EREF", "KREF", "MREF", "CRED", "DEBT", "COAM", "OAMT", "SVWZ", "ABWA", "ABWE", "PURP", "MDAT", "SQTP", "ORCR",
    "ORMR", "DDAT", "BREF", "RREF",
))  # fmt: skip
# MT940's sub-fields 27, DTA 35, :86: 65, SEPA 70 and 140.
WIDTHS = frozenset((27, 35, 65, 70, 140))
_NARROWEST = 27
_NARROWEST_OWN = 20
# The weight with which a line speaks for a form that is cut (above 0) or for one that is wrapped between words.
_FULL, _ENDED_ON_PURPOSE, _NO_ROOM = 1.0, 2.0, -2.8
_DECIDING = 80
SUB_FIELD = range(27, 1_000)  # some banks write longer ones
# Values without blanks of their own: a break at a form's width belongs to the form.
_CODED = frozenset(("EREF", "KREF", "MREF", "CRED", "IBAN", "BIC", "DEBT", "ORCR", "ORMR", "BREF", "RREF"))
_TAG = re.compile(rf"({'|'.join(sorted(TAGS))}|\bBIC) ?[+:]")
_TAG_START = re.compile(rf"(?:{'|'.join(sorted(TAGS))}|BIC) ?[+:]")
_DATE = re.compile(r"\d{1,2}\.\d{1,2}\.(?:\d{2}|\d{4})[,;.]?", re.ASCII)
_NUMBER = re.compile(r"[\d.,/-]{4,}", re.ASCII)
_DATE_BEGUN = re.compile(r"\d{1,2}\.(?:\d{1,2}(?:\.\d{0,3})?)?", re.ASCII)
_AMOUNT = re.compile(r"\d[\d.]*,\d\d", re.ASCII)
_AMOUNT_BEGUN = re.compile(r"\d[\d.]*,\d?", re.ASCII)
_WHOLE_IBAN = re.compile(r"[A-Z]{2}\d{2}[A-Z0-9]{11,30}", re.ASCII)
_IBAN_BEGUN = re.compile(r"[A-Z]{2}\d{2}[A-Z0-9]*", re.ASCII)
_NAMES = ("paypal", "gmbh", "mbh", "ebay", "enbw", "iphone", "ipad", "kfw", "mcdonald", "mcfit", "lastpass", "youtube", "linkedin",
          "onlyfans", "wework", "microsoft", "facetime", "icloud", "ista")  # fmt: skip


def join_lines(lines: Iterable[str], widths: Container[int] = WIDTHS, indent: int = 0) -> str:
    """Joins lines into one text, with a blank where a word ended. Lines of these widths may end within one.

    `indent` is how much of its width the first line may have lost, because a tag stood there.
    """
    lines = [line for line in lines if line]
    if len(lines) < 2:
        return "".join(lines)
    indent = 0 if len(lines[0]) in widths else indent
    own_width, is_by_words = _form(lines, widths, indent)
    joined: list[str] = []
    width, end, coded = 0, "", False  # of the line before; `end` is as much of the text so far as decides
    for line in lines:
        full = width in widths or width == own_width
        by_words = is_by_words and " " in end
        if joined and _parts(end, line, full=full, by_words=by_words, coded=coded):
            joined.append(" ")
            end = ""
        joined.append(line)
        for found in _TAG.finditer(line):
            coded = found[1] in _CODED
        width, end, indent = len(line) + indent, (end + line)[-_DECIDING:], 0
    return "".join(joined)


def _form(lines: list[str], widths: Container[int], indent: int) -> tuple[int, bool]:
    """Returns a width of the writer's own at which lines are cut (0 if there is none), and whether they end with words instead.

    Lines that are full speak for a cut wherever it falls. So does one that the next word had fitted into: it was ended on purpose.
    One that it did not fit into speaks for a writer who wraps between words, more than a single full one speaks against that.
    """
    breaks = [
        (len(line) + (0 if at else indent), len(after[:_DECIDING].partition(" ")[0]))
        for at, (line, after) in enumerate(pairwise(lines))
        if not _TAG_START.match(after)
    ]
    longest = max((width for width, _ in breaks), default=0)
    is_own = _NARROWEST_OWN <= longest < _NARROWEST and sum(width == longest for width, _ in breaks) > 2
    form = longest if is_own or longest in WIDTHS else _NARROWEST
    score = 0.0
    for width, word in breaks:
        if width >= form or width in widths:
            score += _FULL
        elif width < form - 1:
            score += _ENDED_ON_PURPOSE if width + 1 + word <= form else _NO_ROOM
    return longest if is_own else 0, score < 0


def _parts(before: str, after: str, *, full: bool, by_words: bool, coded: bool) -> bool:
    """Returns whether the break stands for a blank. `coded`: the text before it is an id rather than words."""
    if before[-1] == " " or after[0] == " " or _tears_a_tag(before, after):
        return False
    if _TAG_START.match(after):
        return True
    last, first = before.rpartition(" ")[2].rpartition("+")[2], after[:_DECIDING].partition(" ")[0]
    if full and coded:
        return False
    if full and not by_words:
        return _starts_a_word(last, first)
    return not _goes_on(last, first)


def _tears_a_tag(before: str, after: str) -> bool:
    """`ER` and `EF+1`, `EREF` and `+1`."""
    for letters in (1, 2, 3, 4):
        sign = after[4 - letters : 5 - letters]
        if sign in ("+", ":") and sign and before[-letters:] + after[: 4 - letters] in TAGS:
            return len(before) == letters or sign == "+" or not before[-letters - 1].isalpha()
    return after[0] == "+" and before[-3:] == "BIC" and not before[-4:-3].isalpha()


def _starts_a_word(before: str, after: str) -> bool:
    """After a full line: whether the next one can only be a new word, because its capital or digit would not be within one."""
    if not before or not after:
        return False
    word, following = before[-1], after[0]
    if word.islower() and following.isupper():
        whole = (before + after).lower()
        return after[1:2].islower() and not any(
            name in whole and name not in before.lower() and name not in after.lower() for name in _NAMES
        )
    if word.isdigit() and following.isalpha():
        # A number goes on with a letter or two at most; what has letters itself may go on with any.
        return _NUMBER.fullmatch(before) is not None and after[:3].isalpha() and len(after) > 2
    return following.isdigit() and before.isalpha() and len(before) >= (3 if word.islower() else 5)


def _goes_on(before: str, after: str) -> bool:
    """After a short line: whether a word clearly goes on."""
    if not before or not after:
        return False
    if before[-1] in "-(/" and len(before) > 1:
        return True
    if after[0] in ",.;!?)/" or (after[0] == "-" and after[1:2].isalnum()):
        return True
    if before[-1].islower() and after[0].islower():
        return len(before) == 1 and before != "a"  # no German word has one letter
    whole = before + after
    return bool(
        (_DATE_BEGUN.fullmatch(before) and _DATE.fullmatch(whole))
        or (_AMOUNT_BEGUN.fullmatch(before) and _AMOUNT.fullmatch(whole))
        or (_IBAN_BEGUN.fullmatch(before) and _WHOLE_IBAN.fullmatch(whole) and _is_iban(whole))
    )


def _is_iban(text: str) -> bool:
    """By its check digits."""
    return int("".join(str(int(letter, 36)) for letter in text[4:] + text[:4])) % 97 == 1


# --- Tags


class Purpose(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The content of a text, by tag.

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


# A reader parses a text, and so does whoever stores the booking a moment later; in between come those of the same piece of the file.
@lru_cache(512)
def parse(description: str) -> Purpose:
    text = join_lines(description.splitlines()) if "\n" in description or "\r" in description else description
    marks = _plus_marks(text) if "+" in text else []
    if not marks:
        marks = _colon_marks(text) if ":" in text else []
        return _Found().add(text, marks).purpose(text[: marks[0][0]]) if marks else Purpose(svwz=provided(text))
    found = _with_lists(text, marks) if ":" in text else _Found().add(text, marks)
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


def _with_lists(text: str, marks: list[_Mark]) -> _Found:
    """Some banks write one tag with a plus sign, and the others with colons behind its value: `EREF+5 MREF: 7 SVWZ: Miete`."""
    ends = _ends(text, marks)
    lists = []
    for number, (_, start, tag) in enumerate(marks):
        value = text[start : ends[number]]
        colons = _colon_marks(value) if tag in _CODED and ":" in value else []
        # An id may begin with such a word itself.
        if colons and value[: colons[0][0]].strip() and value[colons[0][0] - 1] == " ":
            found = [(start + at, start + behind, name) for at, behind, name in colons]
            lists.append((found, [*(mark[0] for mark in found[1:]), ends[number]]))
            ends[number] = found[0][0]
    whole = _Found().add(text, marks, ends)
    for found, own_ends in lists:
        whole.add(text, found, own_ends)
    return whole


def _ends(text: str, marks: list[_Mark]) -> list[int]:
    """Returns where each tag's value ends: at the next tag."""
    return [*(start for start, _, _ in marks[1:]), len(text)]


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
    if four in TAGS:
        return plus - 4, four
    # Split by a line break that became a blank: `S VWZ+`, `BIC +`.
    five = text[max(0, plus - 5) : plus]
    if five.count(" ") == 1 and (whole := five.replace(" ", "")) in TAGS and five[0] != " ":
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
    return word in TAGS or word == "BIC"


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

    def add(self, text: str, marks: list[_Mark], ends: list[int] | None = None) -> _Found:
        fields = self.fields
        for (start, end, tag), stop in zip(marks, ends or _ends(text, marks), strict=True):
            value = text[end:stop]
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
    tag: Purpose.__struct_fields__.index("end_to_end_id" if tag == "EREF" else tag.lower()) for tag in (*TAGS, "BIC")
}
_SVWZ = _POSITIONS["SVWZ"]
_ADDITIONAL = Purpose.__struct_fields__.index("additional")


def _bare(value: str) -> str:
    return value.replace(" ", "")


def _iban_length(value: str) -> int:
    return _SHORT_IBANS.get(value.lstrip()[:2].upper(), 22)
