"""Whether a line break in a bank's text stands for a blank, or splits a word.

Purpose texts come in lines. A form's full line may end in the middle of a word; a shorter one ends with a word, unless what
follows clearly belongs to it. Pure, and linear in the length of the text.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterable
from itertools import pairwise

# The tags of a purpose text with four letters; BIC is the one with three.
TAGS = frozenset((
    "IBAN", "EREF", "KREF", "MREF", "CRED", "DEBT", "COAM", "OAMT", "SVWZ", "ABWA", "ABWE", "PURP", "MDAT", "SQTP", "ORCR",
    "ORMR", "DDAT", "BREF", "RREF",
))  # fmt: skip
# MT940's sub-fields 27, DTA 35, :86: 65, SEPA 70 and 140.
WIDTHS = frozenset((27, 35, 65, 70, 140))
_NARROWEST = 27
_DECIDING = 80
SUB_FIELD = range(27, 1_000)  # some banks write longer ones
# Values without blanks of their own: a break at a form's width belongs to the form.
_CODED = frozenset(("EREF", "KREF", "MREF", "CRED", "IBAN", "BIC", "DEBT", "ORCR", "ORMR", "BREF", "RREF"))
_TAG = re.compile(rf"({'|'.join(sorted(TAGS))}|\bBIC) ?[+:]")
_TAG_START = re.compile(rf"(?:{'|'.join(sorted(TAGS))}|BIC) ?[+:]")
_DATE = re.compile(r"\d{1,2}\.\d{1,2}\.(?:\d{2}|\d{4})[,;.]?", re.ASCII)
_DATE_BEGUN = re.compile(r"\d{1,2}\.(?:\d{1,2}(?:\.\d{0,3})?)?", re.ASCII)
_AMOUNT = re.compile(r"\d[\d.]*,\d\d", re.ASCII)
_AMOUNT_BEGUN = re.compile(r"\d[\d.]*,\d?", re.ASCII)
_IBAN = re.compile(r"[A-Z]{2}\d{2}[A-Z0-9]{11,30}", re.ASCII)
_IBAN_BEGUN = re.compile(r"[A-Z]{2}\d{2}[A-Z0-9]*", re.ASCII)
_NAMES = ("paypal", "gmbh", "mbh", "ebay", "enbw", "iphone", "ipad", "kfw", "mcdonald", "mcfit", "lastpass", "youtube", "linkedin",
          "onlyfans", "wework", "microsoft", "facetime", "icloud", "ista")  # fmt: skip


def join_lines(lines: Iterable[str], widths: Container[int] = WIDTHS) -> str:
    """Joins lines into one text, with a blank where a word ended. Lines of these widths may end within one."""
    lines = [line for line in lines if line]
    if len(lines) < 2:
        return "".join(lines)
    shortest = _shortest(lines)
    joined: list[str] = []
    width, end, coded = 0, "", False  # of the line before; `end` is as much of the text so far as decides
    for line in lines:
        full = width in widths
        by_words = shortest < width - 1 and " " in end
        if joined and _parts(end, line, full=full, by_words=by_words, coded=coded):
            joined.append(" ")
            end = ""
        joined.append(line)
        for found in _TAG.finditer(line):
            coded = found[1] in _CODED
        width, end = len(line), (end + line)[-_DECIDING:]
    return "".join(joined)


def _shortest(lines: list[str]) -> int:
    """Returns the length of the shortest line that the next word, which is no tag, did not fit into.

    Only who wraps between words writes one that is shorter than others; a writer's own short line tells nothing.
    """
    return min(
        (
            len(line)
            for line, after in pairwise(lines)
            if len(line) + len(after[:_DECIDING].partition(" ")[0]) >= _NARROWEST and not _TAG_START.match(after)
        ),
        default=_DECIDING,
    )


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
    if word.isdigit() and following.isupper():
        return after[1:3].isalpha() and after[1:3].islower()
    return following.isdigit() and len(before) >= 3 and before.isalpha() and word.islower()


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
        or (_IBAN_BEGUN.fullmatch(before) and _IBAN.fullmatch(whole) and _is_iban(whole))
    )


def _is_iban(text: str) -> bool:
    """By its check digits."""
    return int("".join(str(int(letter, 36)) for letter in text[4:] + text[:4])) % 97 == 1
