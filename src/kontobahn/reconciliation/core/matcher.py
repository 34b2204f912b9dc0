"""Matches movements: one by one into ranked proposals, or a run of them, the best evidence first."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from datetime import date
from typing import NamedTuple

from kontobahn.ledger.partner_names import spelled_out
from kontobahn.reconciliation.core.evidence import (
    Case,
    PayerIndex,
    amount_reason,
    by_number,
    by_payer,
    by_weak_number,
    number_proposal,
    only_named,
    score_of,
    suffices,
)
from kontobahn.reconciliation.core.model import (
    ACTING_CLASSES,
    CLASSES,
    MAX_ITEMS,
    RULE_CLASS,
    EvidenceClass,
    Key,
    Knowledge,
    Line,
    MatchedMovement,
    Movement,
    OpenItem,
    OpenItems,
    Proposal,
    Reason,
    exact_sums,
    lines_for,
)
from kontobahn.reconciliation.core.numbers import NumberIndex, cut, tokens_of
from kontobahn.reconciliation.core.special_cases import BookedPayments, SpecialIndex

# The occasion that a payment without a number names: a month, a house, everything that is open; or an invoice less a
# credit note.
#
# Only for a payer who is certain, and only where one way fits: a month that is paid already or not written yet names
# nothing.


BITS_OF_OCCASION = 10.0
# More documents of one account than these are not told apart by words.
_MAX_EVER = 500
_MIN_WORD = 3
_MONTHS = (
    "JANUAR",
    "FEBRUAR",
    "MAERZ",
    "APRIL",
    "MAI",
    "JUNI",
    "JULI",
    "AUGUST",
    "SEPTEMBER",
    "OKTOBER",
    "NOVEMBER",
    "DEZEMBER",
)
_SHORT = {
    "JAN": 1, "FEB": 2, "MRZ": 3, "MAR": 3, "APR": 4, "JUN": 6, "JUL": 7, "AUG": 8, "SEP": 9, "SEPT": 9, "OKT": 10, "NOV": 11, "DEZ": 12,
}  # fmt: skip
_NAMED_MONTH = re.compile(rf"(?<![A-Z])({'|'.join(_MONTHS)})(?![A-Z])(?:[ ./-]{{0,2}}((?:20)?\d\d)(?!\d))?")
_SHORT_MONTH = re.compile(rf"(?<![A-Z])({'|'.join(_SHORT)})(?![A-Z])[ ./-]{{0,2}}((?:20)?\d\d)(?!\d)")
_MONTH_NUMBER = re.compile(r"(?<![\d./-])(0?[1-9]|1[0-2])[/.-]((?:20)?\d\d)(?![\d/.-])")
_EVERYTHING = re.compile(
    r"(?<![A-Z])(?:ALLE RECHNUNGEN|ALLER RECHNUNGEN|ALLE OFFENEN|OFFENE POSTEN|OFFENER POSTEN|OFFENE RECHNUNGEN|KONTOAUSGLEICH"
    r"|SALDENAUSGLEICH|SAMMELZAHLUNG|SAMMELUEBERWEISUNG|GESAMTSALDO|RESTSALDO)(?![A-Z])"
)
_CREDIT_NOTE = re.compile(r"(?<![A-Z])(?:GUTSCHR|GUTSCHRIFT(?:EN)?|GS|ABZ|ABZGL|ABZUEGLICH|MINUS|VERRECHN\w*)(?![A-Z])")
Month = tuple[int, int]


def by_occasion(case: Case) -> Iterator[Proposal]:
    """Proposes what the words say; to be asked if no number of ours is in the text."""
    for konto in dict.fromkeys([*case.payer.known, *case.payer.supported]):
        if not case.hits and case.payer.is_certain(konto) and not _has_other_number(case, konto):
            yield from _of_words(case, konto)
            yield from _everything(case, konto)


def less_credit_note(case: Case) -> Iterator[Proposal]:
    """Proposes an invoice less the one credit note that makes up the difference, if the text speaks of one."""
    if not _CREDIT_NOTE.search(_said(case)) or (named := only_named(case)) is None:
        return
    item, paid = named.item, case.movement.amount_minor
    notes = [
        note
        for note in case.items.of(item.konto, case.movement.day, _MAX_EVER)
        if note.open_minor * item.open_minor < 0
    ]
    fitting = [note for note in notes if item.open_minor + note.open_minor == paid]
    if len(fitting) != 1 or exact_sums([note.open_minor for note in notes[:MAX_ITEMS]], paid - item.open_minor):
        return
    lines = (*lines_for(item, item.open_minor), *lines_for(fitting[0], fitting[0].open_minor))
    reasons = (Reason("credit_note", fitting[0].beleg, bits=BITS_OF_OCCASION), amount_reason("sum", paid))
    acts = suffices(case, [named])
    yield number_proposal(case, "A4" if acts else "B1", [named], lines, *reasons, acts=acts)


def _said(case: Case) -> str:
    return " ".join(text.text.upper() for text in case.texts)


# --- A month, a house


def _of_words(case: Case, konto: str) -> Iterator[Proposal]:
    ever = [item for item in case.items.ever(konto) if item.text and item.day <= case.movement.day]
    if len(ever) > _MAX_EVER:
        return
    named = _named(case, ever)
    paid = case.movement.amount_minor
    if len(named) != 1 or named[0].open_minor != paid or not named[0].has_account:
        return
    occasion = Reason("occasion", named[0].text, bits=BITS_OF_OCCASION)
    reasons = (occasion, amount_reason("amount", paid), *case.payer.reasons(konto))
    yield Proposal("A2", score_of(reasons), lines_for(named[0], paid), reasons, acts=True)


def _named(case: Case, ever: list[OpenItem]) -> list[OpenItem]:
    """The documents whose month and whose words the text has; with several, those of which it has the most words."""
    said = _said(case)
    months = set(_months(said, case.movement.day))
    pool = [item for item in ever if not months.isdisjoint(_months(_plain(item), item.day))] if months else ever
    usual = _usual_words(ever) | set(_words(case.movement.name or ""))
    spoken = set(_words(said))
    counted = [
        (len(words), item)
        for item in pool
        if (words := set(_words(_plain(item))) - usual - _MONTH_WORDS) and words <= spoken
    ]
    if counted:
        most = max(count for count, _ in counted)
        return [item for count, item in counted if count == most]
    return pool if months else []


def _usual_words(ever: list[OpenItem]) -> set[str]:
    """The words that do not tell the account's documents apart: those of more than a third of them. Of one it is not known."""
    counts = Counter(word for item in ever for word in set(_words(item.text)))
    return {word for word, count in counts.items() if count * 3 > len(ever)} if len(ever) > 2 else set(counts)


def _plain(item: OpenItem) -> str:
    return spelled_out(item.text).upper()


def _words(text: str) -> list[str]:
    return [run for run, _ in tokens_of(text)]


_YEARS = frozenset(str(year) for year in range(2000, 2100))
_MONTH_WORDS = frozenset((*_MONTHS, *_SHORT)) | _YEARS


def _months(said: str, near: date) -> Iterator[Month]:
    """The months that a text names, as month and year; a year that is not named is the one nearest to a day."""
    for found in _NAMED_MONTH.finditer(said):
        yield _MONTHS.index(found[1]) + 1, _year(_MONTHS.index(found[1]) + 1, found[2], near)
    for found in _SHORT_MONTH.finditer(said):
        yield _SHORT[found[1]], _year(_SHORT[found[1]], found[2], near)
    for found in _MONTH_NUMBER.finditer(said):
        yield int(found[1]), _year(int(found[1]), found[2], near)


def _year(month: int, written: str | None, near: date) -> int:
    if written:
        return int(written) % 100 + 2000
    distance = month - near.month
    return near.year - 1 if distance > 6 else near.year + 1 if distance < -6 else near.year


def _has_other_number(case: Case, konto: str) -> bool:
    """Returns whether the text has a number that nothing explains: then it is for what that number means."""
    explained = {word for item in case.items.ever(konto) for word in _words(item.text)} | case.payers.numbers_of(
        case.payer
    )
    for text in case.texts:
        for token in text.tokens:
            in_block = any(block.start <= token.start and token.end <= block.end for block in text.blocks)
            is_other = token.is_digits and len(token.text) >= _MIN_WORD and not in_block
            if is_other and token.text.lstrip("0") not in explained and token.text not in _YEARS:
                return True
    return False


# --- Everything that is open


def _everything(case: Case, konto: str) -> Iterator[Proposal]:
    if not _EVERYTHING.search(_said(case)):
        return
    paid, items = case.movement.amount_minor, case.items.of(konto, case.movement.day, MAX_ITEMS + 1)
    if not 2 <= len(items) <= MAX_ITEMS or _sum(items) != paid or not all(item.has_account for item in items):
        return
    amounts = [item.open_minor for item in items]
    others = [way for way in exact_sums(amounts, paid) if len(way) < len(items)]
    if others or paid in amounts:
        return
    reasons = (
        Reason("everything", str(len(items)), bits=BITS_OF_OCCASION),
        amount_reason("sum", paid),
        *case.payer.reasons(konto),
    )
    lines = tuple(line for item in items for line in lines_for(item, item.open_minor))
    yield Proposal("A4", score_of(reasons), lines, reasons, acts=True)


def _sum(items: Iterable[OpenItem]) -> int:
    return sum(item.open_minor for item in items)


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
    """Only the first payment of a document is clear, even where nothing acts alone and both wait for a person."""
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
