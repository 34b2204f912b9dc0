"""The payer: what IBAN, mandate, customer number and name say about the person account. A name supports; it never decides."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from typing import NamedTuple

from kontobahn.ledger.partner_names import NameIndex
from kontobahn.reconciliation.core.model import Knowledge, Movement, Reason
from kontobahn.reconciliation.core.text import CutText, tokens_of

# A payer is known by its IBAN once it has been confirmed this often.
CONFIRMATIONS = 2
# At most this many accounts may share an IBAN, a mandate or a number; more say nothing.
MAX_ACCOUNTS = 20
BITS_OF_IBAN, BITS_OF_MANDATE, BITS_OF_CUSTOMER, BITS_OF_NAME = 20.0, 20.0, 12.0, 10.0


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
