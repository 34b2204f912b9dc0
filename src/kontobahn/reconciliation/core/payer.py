"""The payer: what IBAN, mandate, customer number and name say about the person account. A name supports; it never decides."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable
from typing import NamedTuple

from kontobahn.reconciliation.core.model import Knowledge, Movement, Reason
from kontobahn.reconciliation.core.text import CutText, spelled_out, tokens_of

# A payer is known by its IBAN once it has been confirmed this often.
CONFIRMATIONS = 2
# At most this many accounts may share an IBAN, a mandate or a number; more say nothing.
MAX_ACCOUNTS = 20
BITS_OF_IBAN, BITS_OF_MANDATE, BITS_OF_CUSTOMER, BITS_OF_NAME = 20.0, 20.0, 12.0, 10.0
AGREES = 90
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


def normal_name(name: str) -> str:
    plain = _NO_WORD.sub(" ", spelled_out(name[:MAX_NAME]).lower())
    return " ".join(_LEGAL_FORMS.sub(" ", plain).split())


def name_similarity(one: str, other: str) -> float:
    """Returns how alike two names are, from 0 to 100; both as `normal_name` returns them."""
    if len(one) < _MIN_LETTERS or len(other) < _MIN_LETTERS:
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
            bare = normal_name(name)
            if len(bare) >= _MIN_LETTERS and konto not in kontos.setdefault(bare, []):
                kontos[bare].append(konto)
        self._kontos = kontos
        self._names = list(kontos)
        self._found: dict[str, tuple[tuple[str, float], ...]] = {}

    def find(self, name: str | None) -> tuple[tuple[str, float], ...]:
        """Returns the accounts whose names agree, the most alike first."""
        bare = normal_name(name or "")
        if len(bare) < _MIN_LETTERS:
            return ()
        found = self._found.get(bare)
        if found is None:
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
            if len(self._found) >= _CACHED:
                self._found.clear()
            found = self._found[bare] = tuple(agreeing[:_MAX_FOUND])
        return found


class Payer(NamedTuple):
    """Person accounts by how they are recognised. `known`: by IBAN or mandate; `supported`: by name or customer number."""

    known: dict[str, Reason]
    supported: dict[str, Reason]

    def agrees(self, konto: str) -> bool:
        return konto in self.known or konto in self.supported

    def contradicts(self, konto: str) -> bool:
        """Returns whether somebody else seems to have paid: an account of its own that is not this one."""
        return konto not in self.known and (bool(self.known) or (bool(self.supported) and konto not in self.supported))

    def reasons(self, konto: str) -> tuple[Reason, ...]:
        return tuple(found[konto] for found in (self.known, self.supported) if konto in found)


class PayerIndex:
    def __init__(self, knowledge: Knowledge) -> None:
        self._ibans: dict[str, dict[str, str]] = defaultdict(dict)
        self._seen_once: dict[str, dict[str, str]] = defaultdict(dict)
        self._mandates: dict[str, list[str]] = defaultdict(list)
        self._customers: dict[str, list[str]] = defaultdict(list)
        names = [(person.konto, person.name) for person in knowledge.persons]
        for person in knowledge.persons:
            for iban in person.ibans:
                self._ibans[_bare(iban)][person.konto] = "master data"
            for mandate in person.mandates:
                self._mandates[mandate].append(person.konto)
            for number in person.numbers:
                self._customers[normal_number(number)].append(person.konto)
        for learned in knowledge.learned:
            if learned.iban:
                known = self._ibans if learned.times >= CONFIRMATIONS else self._seen_once
                known[_bare(learned.iban)].setdefault(learned.konto, f"{learned.times} confirmations")
            elif learned.name and learned.times >= CONFIRMATIONS:
                names.append((learned.konto, learned.name))
        self._names = NameIndex(names)
        self._times: Counter[tuple[str, str]] = Counter()

    def learn(self, iban: str, konto: str) -> None:
        """Counts that a person confirmed this payer for this account."""
        bare = _bare(iban)
        self._times[bare, konto] += 1
        times = self._times[bare, konto]
        known = self._ibans if times >= CONFIRMATIONS else self._seen_once
        known[bare].setdefault(konto, f"{times} confirmations")

    def find(self, movement: Movement, texts: Iterable[CutText]) -> Payer:
        known: dict[str, Reason] = {}
        supported: dict[str, Reason] = {}
        iban = _bare(movement.iban or "")
        for konto, source in sorted(self._ibans.get(iban, {}).items())[:MAX_ACCOUNTS]:
            known[konto] = Reason("iban", f"{iban[-4:]} ({source})", bits=BITS_OF_IBAN)
        for konto in sorted(self._mandates.get(movement.mandate or "", ()))[:MAX_ACCOUNTS]:
            known.setdefault(konto, Reason("mandate", movement.mandate or "", bits=BITS_OF_MANDATE))
        for text in texts:
            for block in text.blocks:
                if block.kind == "customer":
                    number = normal_number(block.value)
                    for konto in sorted(self._customers.get(number, ()))[:MAX_ACCOUNTS]:
                        supported[konto] = Reason(
                            "customer_number", block.value, text.field, block.start, block.end, BITS_OF_CUSTOMER
                        )
        for name in (movement.name, movement.other_name):
            for konto, score in self._names.find(name):
                supported.setdefault(konto, Reason("name", f"{name} ({score:.0f})", bits=BITS_OF_NAME))
        for konto, source in sorted(self._seen_once.get(iban, {}).items())[:MAX_ACCOUNTS]:
            supported.setdefault(konto, Reason("iban_seen", f"{iban[-4:]} ({source})", bits=BITS_OF_NAME))
        return Payer(known, supported)

    def is_customer_number(self, found: str) -> bool:
        return normal_number(found) in self._customers


def normal_number(number: str) -> str:
    return "".join((run.lstrip("0") or "0") if digits else run for run, digits in tokens_of(number))


def _bare(iban: str) -> str:
    return iban.replace(" ", "").upper()
