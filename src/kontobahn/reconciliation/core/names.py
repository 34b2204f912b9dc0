"""Names of payers beside names of person accounts. A name supports; it never decides."""

from __future__ import annotations

import re
from collections.abc import Iterable

from kontobahn.reconciliation.core.text import spelled_out

AGREES = 90
MAX_NAME = 140
_MOST_FOUND = 5
_CACHED = 10_000
_LEGAL_FORMS = re.compile(
    r"\b(?:gmbh|mbh|ag|kg|kgaa|ohg|gbr|ug|haftungsbeschraenkt|e ?k|ev|e ?v|se|eg|co|und|ltd|inc|llc|bv|sarl|sa|spa|srl|partg|mbb|partner"
    r"|gesellschaft|beschraenkter|haftung|mit|herrn?|frau|dr|prof)\b"
)
_NO_WORD = re.compile(r"[^a-z0-9]+")
# One word alone is in many names: it is never enough to agree.
_ONE_WORD = 89.0
_LEAST_LETTERS = 4


def normal(name: str) -> str:
    plain = _NO_WORD.sub(" ", spelled_out(name[:MAX_NAME]).lower())
    return " ".join(_LEGAL_FORMS.sub(" ", plain).split())


def similarity(one: str, other: str) -> float:
    """How alike two names are, from 0 to 100; both as `normal` returns them."""
    if len(one) < _LEAST_LETTERS or len(other) < _LEAST_LETTERS:
        return 0.0
    from rapidfuzz import fuzz

    score = fuzz.token_set_ratio(one, other)
    one_word = min(one.count(" "), other.count(" ")) == 0 and one != other
    return min(score, _ONE_WORD) if one_word else score


class NameIndex:
    """The person accounts by name; a payer's name is compared with all of them once."""

    def __init__(self, names: Iterable[tuple[str, str]]) -> None:
        """Takes pairs of person account and name."""
        kontos: dict[str, list[str]] = {}
        for konto, name in names:
            bare = normal(name)
            if len(bare) >= _LEAST_LETTERS and konto not in kontos.setdefault(bare, []):
                kontos[bare].append(konto)
        self._kontos = kontos
        self._names = list(kontos)
        self._found: dict[str, tuple[tuple[str, float], ...]] = {}

    def find(self, name: str | None) -> tuple[tuple[str, float], ...]:
        """Returns the accounts whose names agree, the most alike first."""
        bare = normal(name or "")
        if len(bare) < _LEAST_LETTERS:
            return ()
        found = self._found.get(bare)
        if found is None:
            from rapidfuzz import fuzz, process

            near = process.extract(
                bare,
                self._names,
                scorer=fuzz.token_set_ratio,
                processor=None,
                limit=4 * _MOST_FOUND,
                score_cutoff=AGREES,
            )
            scored = [
                (konto, similarity(bare, text)) for text, _, _ in near for konto in self._kontos[text][:_MOST_FOUND]
            ]
            agreeing = sorted(
                ((konto, score) for konto, score in scored if score >= AGREES), key=lambda it: (-it[1], it[0])
            )
            if len(self._found) >= _CACHED:
                self._found.clear()
            found = self._found[bare] = tuple(agreeing[:_MOST_FOUND])
        return found
