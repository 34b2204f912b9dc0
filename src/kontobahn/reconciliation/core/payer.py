"""The payer: what IBAN, mandate, customer number and name say about the person account. A name supports; it never decides."""

from __future__ import annotations

import re
from bisect import bisect_left
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
        for konto, name in names:
            bare = normal_name(name)
            if len(bare) >= _MIN_LETTERS and konto not in kontos.setdefault(bare, []):
                kontos[bare].append(konto)
                self._written.setdefault(written_name(name), []).append(konto)
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


class Payer(NamedTuple):
    """Person accounts by how they are recognised. `known`: by IBAN or mandate; `supported`: by name or customer number.

    `vague` are those of the supported whose only support is a name that several of them could have.
    """

    known: dict[str, Reason]
    supported: dict[str, Reason]
    vague: frozenset[str] = frozenset()

    def agrees(self, konto: str) -> bool:
        return konto in self.known or konto in self.supported

    def is_certain(self, konto: str) -> bool:
        """Returns whether the payer is this account rather than any other."""
        return self.agrees(konto) and not self.contradicts(konto) and konto not in self.vague

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
        self._numbers: dict[str, list[str]] = defaultdict(list)
        names = [(person.konto, person.name) for person in knowledge.persons]
        for person in knowledge.persons:
            for iban in person.ibans:
                self._ibans[_bare(iban)][person.konto] = "master data"
            for mandate in person.mandates:
                self._mandates[mandate].append(person.konto)
            for number in person.numbers:
                self._customers[normal_number(number)].append(person.konto)
                self._numbers[person.konto].append(normal_number(number))
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
        by_name: set[str] = set()
        for name in (movement.name, movement.other_name):
            for konto, score in self._names.find(name):
                if konto not in supported:
                    supported[konto] = Reason("name", f"{name} ({score:.0f})", bits=BITS_OF_NAME)
                    by_name.add(konto)
        for konto, source in sorted(self._seen_once.get(iban, {}).items())[:MAX_ACCOUNTS]:
            supported.setdefault(konto, Reason("iban_seen", f"{iban[-4:]} ({source})", bits=BITS_OF_NAME))
        vague = by_name - set(known) if len(by_name) > 1 else frozenset[str]()
        return Payer(known, supported, frozenset(vague))

    def numbers_of(self, payer: Payer) -> set[str]:
        """The numbers of the accounts that the payer may be."""
        return {number for konto in (*payer.known, *payer.supported) for number in self._numbers.get(konto, ())}

    def is_customer_number(self, found: str) -> bool:
        return normal_number(found) in self._customers


def normal_number(number: str) -> str:
    return "".join((run.lstrip("0") or "0") if digits else run for run, digits in tokens_of(number))


def _bare(iban: str) -> str:
    return iban.replace(" ", "").upper()
