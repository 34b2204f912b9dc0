"""Matches movements: one by one into ranked proposals, or a run of them, the best evidence first."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from kontobahn.reconciliation.core.evidence import Case, by_number, by_payer, by_weak_number
from kontobahn.reconciliation.core.items import OpenItems
from kontobahn.reconciliation.core.model import (
    ACTING_CLASSES,
    CLASSES,
    RULE_CLASS,
    EvidenceClass,
    Key,
    Knowledge,
    Line,
    MatchedMovement,
    Movement,
    OpenItem,
    Proposal,
    Reason,
)
from kontobahn.reconciliation.core.numbers import NumberIndex
from kontobahn.reconciliation.core.occasions import by_occasion, less_credit_note
from kontobahn.reconciliation.core.payer import PayerIndex
from kontobahn.reconciliation.core.special import BookedPayments, SpecialIndex
from kontobahn.reconciliation.core.text import cut

MAX_PROPOSALS = 10
CURRENCY = "EUR"
_ORDER = {evidence: place for place, evidence in enumerate(CLASSES)}
# A return opens an item again, which a later movement may pay: a run starts over at most this often.
_ROUNDS = 3


class Matcher:
    def __init__(self, items: Iterable[OpenItem], knowledge: Knowledge = Knowledge()) -> None:  # noqa: B008 - a tuple
        self.items = OpenItems(items)
        self._numbers = NumberIndex(self.items)
        self._payers = PayerIndex(knowledge)
        self._special = SpecialIndex(knowledge)
        self._booked = BookedPayments(knowledge.booked)
        self._recalled: set[str] = set()
        for movement in sorted(knowledge.earlier, key=lambda movement: (movement.day, movement.id)):
            self.is_booked(movement)

    def match(self, movement: Movement) -> list[Proposal]:
        """Returns proposals for one movement, the best first. Only the first can act alone."""
        # Only euro: another currency is never compared with what is owed in this one.
        if not movement.amount_minor or movement.currency != CURRENCY:
            return []
        case = self._case(movement)
        if self._recall(case):
            return []
        proposals = [*self._special.own_payment(case), *self._special.returned(case)]
        if not movement.is_return:
            of_numbers, has_number = by_number(case)
            proposals += of_numbers
            proposals += less_credit_note(case)
            proposals += self._special.transfer(case)
            if not any(proposal.acts for proposal in proposals):
                if not has_number:
                    proposals += by_occasion(case)
                    proposals += by_weak_number(case)
                proposals += by_payer(case)
        proposals += self._special.by_rule(case)
        return _ranked(proposals)

    def is_booked(self, movement: Movement) -> bool:
        """Returns whether the books show this movement already."""
        return movement.currency == CURRENCY and self._recall(self._case(movement))

    def _case(self, movement: Movement) -> Case:
        texts = tuple(cut(field, text) for field, text in movement.texts if text)
        payer = self._payers.find(movement, texts)
        hits = self._numbers.find(texts, self._payers.numbers_of(payer))
        return Case(movement, texts, payer, self.items, self._numbers, self._payers, hits)

    def _recall(self, case: Case) -> bool:
        """Returns whether the movement is booked; if it is, a return of it is recognised later."""
        lines = self._booked.lines(case)
        if lines:
            self._remember(case.movement, lines)
            kontos = {line.konto for line in lines}
            if len(kontos) == 1 and case.movement.id not in self._recalled:
                # Whoever booked it has confirmed the payer.
                self.learn(case.movement, kontos.pop())
            self._recalled.add(case.movement.id)
        return bool(lines)

    def settle(self, movement: Movement, proposal: Proposal) -> None:
        """Takes what a proposal says as done: later movements find the rest."""
        for line in proposal.lines:
            if line.kind in ("item", "return") and line.beleg:
                self.items.reduce((line.konto, line.beleg), line.amount_minor)
        self._remember(movement, proposal.lines)

    def _remember(self, movement: Movement, lines: tuple[Line, ...]) -> None:
        self._special.remember(
            MatchedMovement(
                movement.id, movement.amount_minor, lines, movement.end_to_end_id, movement.mandate,
                movement.bank_reference,
            )
        )  # fmt: skip

    def learn(self, movement: Movement, konto: str) -> None:
        """Takes the payer's IBAN as confirmed for this person account once more."""
        if movement.iban:
            self._payers.learn(movement.iban, konto)


class Outcome(NamedTuple):
    movement: Movement
    proposals: list[Proposal]
    acted: Proposal | None
    # The books show it already: there is nothing to propose.
    is_booked: bool


def run(
    matcher: Matcher,
    movements: Sequence[Movement],
    acting: frozenset[EvidenceClass] = frozenset(ACTING_CLASSES),
    hands_off: frozenset[str] = frozenset(),
) -> list[Outcome]:
    """Matches all of them: every A1 before the first A2 and so on, so that a better match never finds its item taken.

    Movements of `hands_off` are proposed for and never acted on: a person has judged a proposal for them before.
    """
    ordered = sorted(movements, key=lambda movement: (movement.day, movement.id))
    found = {movement.id: matcher.match(movement) for movement in ordered}
    acted: dict[str, Proposal] = {}
    for _ in range(_ROUNDS):
        touched = _act(matcher, [one for one in ordered if one.id not in hands_off], found, acted, acting)
        kontos = {konto for konto, _ in touched}
        for movement in ordered:
            if movement.id not in acted and (movement.is_return or _concerns(found[movement.id], kontos)):
                found[movement.id] = matcher.match(movement)
        if not touched:
            break
    _doubt_second_payments([movement.id for movement in ordered if movement.id not in acted], found)
    return [
        Outcome(movement, found[movement.id], acted.get(movement.id), matcher.is_booked(movement))
        for movement in ordered
    ]


def _act(
    matcher: Matcher,
    ordered: list[Movement],
    found: dict[str, list[Proposal]],
    acted: dict[str, Proposal],
    acting: frozenset[EvidenceClass],
) -> set[Key]:
    """Acts on what suffices, class by class. Returns the documents that were touched."""
    touched: set[Key] = set()
    # Last the rules, of class C: each was allowed by a person, whatever classes may act.
    for evidence in (*ACTING_CLASSES, RULE_CLASS):
        if evidence not in acting and evidence != RULE_CLASS:
            continue
        for movement in ordered:
            if movement.id in acted:
                continue
            if movement.is_return:
                found[movement.id] = matcher.match(movement)
            best = _acts_by(found[movement.id], evidence)
            if best is not None and not touched.isdisjoint(best.keys):
                # Paid in this run: looked at again.
                found[movement.id] = matcher.match(movement)
                best = _acts_by(found[movement.id], evidence)
            if best is not None:
                acted[movement.id] = best
                found[movement.id] = [best]
                matcher.settle(movement, best)
                touched.update((line.konto, line.beleg) for line in best.lines)
    return touched


def _doubt_second_payments(ids: list[str], found: dict[str, list[Proposal]]) -> None:
    """Only the first payment of a document is clear, also where nothing acts alone and both wait for a person."""
    claimed: set[Key] = set()
    for id in ids:
        best = found[id][0] if found[id] else None
        if best is None or not best.acts:
            continue
        second = sorted(claimed.intersection(best.keys))
        if second:
            reasons = (*best.reasons, Reason("named_before", second[0][1]))
            found[id] = _ranked([best._replace(evidence="B1", acts=False, reasons=reasons), *found[id][1:]])
        claimed.update(best.keys)


def _acts_by(proposals: list[Proposal], evidence: EvidenceClass) -> Proposal | None:
    best = proposals[0] if proposals else None
    return best if best is not None and best.acts and best.evidence == evidence else None


def _concerns(proposals: list[Proposal], kontos: set[str]) -> bool:
    return any(line.konto in kontos for proposal in proposals for line in proposal.lines)


def _ranked(proposals: list[Proposal]) -> list[Proposal]:
    best: dict[tuple[object, ...], Proposal] = {}
    for proposal in sorted(proposals, key=_place):
        best.setdefault(proposal.lines, proposal)
    ranked = list(best.values())[:MAX_PROPOSALS]
    return [proposal if place == 0 else proposal._replace(acts=False) for place, proposal in enumerate(ranked)]


def _place(proposal: Proposal) -> tuple[int, float]:
    """Among equals the order in which they were found stays: the oldest document first."""
    return _ORDER[proposal.evidence], -proposal.score
