"""Names of business partners: when two of them are the same, or alike. Pure.

A name supports, and never decides where money goes.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterable

AGREES, EXACT = 90, 100.0
MAX_NAME = 140
_MAX_FOUND = 5
_CACHED = 10_000
_LEGAL_FORMS = re.compile(
    r"\b(?:gmbh|mbh|ag|kg|kgaa|ohg|gbr|ug|haftungsbeschraenkt|e ?k|ev|e ?v|se|eg|co|und|ltd|inc|llc|bv|sarl|sa|spa|srl|partg|mbb|partner"
    r"|gesellschaft|beschraenkter|haftung|mit|herrn?|frau|dr|prof)\b"
)
_NO_WORD = re.compile(r"[^a-z0-9]+")
# One word alone is in many names: it is never enough to agree.
_ONE_WORD = 89.0
_MIN_LETTERS = 4
# Banks cut names off at 27 characters: a name of about that length may be the beginning of a longer one.
_CUT_OFF = 24
_ROMAN = frozenset(("i", "ii", "iii", "iv", "v", "vi"))
_UMLAUTS = {"ä": "ae", "ö": "oe", "ü": "ue", "Ä": "AE", "Ö": "OE", "Ü": "UE", "ß": "ss", "ẞ": "SS"}
_TRANSLATE = str.maketrans(_UMLAUTS)


def spelled_out(text: str) -> str:
    """Umlauts spelled out, everything else as it was."""
    return text if text.isascii() else text.translate(_TRANSLATE)


def normal_name(name: str) -> str:
    plain = _NO_WORD.sub(" ", spelled_out(name[:MAX_NAME]).lower())
    return " ".join(_LEGAL_FORMS.sub(" ", plain).split())


def written_name(name: str) -> str:
    """The name as it is written, legal form and all, in small letters and without signs."""
    return " ".join(_NO_WORD.sub(" ", spelled_out(name[:MAX_NAME]).lower()).split())


def name_similarity(one: str, other: str) -> float:
    """Returns how alike two names are, from 0 to 100; both as `normal_name` returns them."""
    if len(one) < _MIN_LETTERS or len(other) < _MIN_LETTERS:
        return 0.0
    if _figures(one) and _figures(other) and _figures(one) != _figures(other):
        # A club of 1905 is not the one of 1950, and house 12 is not house 21.
        return 0.0
    from rapidfuzz import fuzz

    score = fuzz.token_set_ratio(one, other)
    one_word = min(one.count(" "), other.count(" ")) == 0 and one != other
    return min(score, _ONE_WORD) if one_word else score


def _figures(name: str) -> list[str]:
    return [word for word in name.split() if word.isdigit() or word in _ROMAN]


class NameIndex:
    """The person accounts by name; a payer's name is compared with all of them once.

    A name that is exactly an account's own belongs to it, however alike others are: Schmitt is not Schmidt.
    """

    def __init__(self, names: Iterable[tuple[str, str]]) -> None:
        """Takes pairs of person account and name."""
        kontos: dict[str, list[str]] = {}
        self._written: dict[str, list[str]] = {}
        self._short: dict[str, list[str]] = {}
        for konto, name in names:
            bare = normal_name(name)
            if len(bare) >= _MIN_LETTERS and konto not in kontos.setdefault(bare, []):
                kontos[bare].append(konto)
                self._written.setdefault(written_name(name), []).append(konto)
            elif len(bare) < _MIN_LETTERS:
                self._short.setdefault(written_name(name), []).append(konto)
        self._in_order = sorted(self._written)
        self._kontos = kontos
        self._names = list(kontos)
        self._found: dict[str, tuple[tuple[str, float], ...]] = {}

    def find(self, name: str | None) -> tuple[tuple[str, float], ...]:
        """Returns the accounts whose names agree, the most alike first; only those that have exactly this name, if any has."""
        bare = normal_name(name or "")
        if len(bare) < _MIN_LETTERS:
            return ()
        written = written_name(name or "")
        found = self._found.get(written)
        if found is None:
            if len(self._found) >= _CACHED:
                self._found.clear()
            exact = self._exactly(written, bare)
            found = self._found[written] = tuple((konto, EXACT) for konto in exact[:_MAX_FOUND]) or self._alike(bare)
        return found

    def same(self, name: str) -> list[str]:
        """Returns the accounts of this name as it is written, else those that differ in the legal form only."""
        written = written_name(name)
        if not written:
            return []
        found = self._written.get(written) or self._short.get(written) or self._kontos.get(normal_name(name), [])
        return sorted(set(found))

    def _exactly(self, written: str, bare: str) -> list[str]:
        """The accounts of this name as it is written, banks cut off long ones; else those that differ in the legal form only."""
        exact = list(self._written.get(written, ()))
        if len(written) >= _CUT_OFF:
            place = bisect_left(self._in_order, written)
            longer = self._in_order[place : place + _MAX_FOUND + 1]
            exact += [konto for name in longer if name.startswith(written) for konto in self._written[name]]
        return sorted(set(exact) or self._kontos.get(bare, []))

    def _alike(self, bare: str) -> tuple[tuple[str, float], ...]:
        from rapidfuzz import fuzz, process

        near = process.extract(
            bare,
            self._names,
            scorer=fuzz.token_set_ratio,
            processor=None,
            limit=4 * _MAX_FOUND,
            score_cutoff=AGREES,
        )
        scored = [
            (konto, name_similarity(bare, text)) for text, _, _ in near for konto in self._kontos[text][:_MAX_FOUND]
        ]
        agreeing = sorted(
            ((konto, score) for konto, score in scored if score >= AGREES), key=lambda it: (-it[1], it[0])
        )
        return tuple(agreeing[:_MAX_FOUND])
