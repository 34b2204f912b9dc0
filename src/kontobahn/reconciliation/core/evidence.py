"""One movement being matched, and what is proposed for it: by our own numbers in its text, and by its payer.

By number: one document, several, with Skonto, in part, too much, or paid before. By payer: it is known or has the name, and an amount
or a sum fits one way only.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from kontobahn.ledger.partner_names import NameIndex
from kontobahn.money import amount_text
from kontobahn.reconciliation.core.model import (
    CENT,
    MAX_ITEMS,
    EvidenceClass,
    Knowledge,
    Line,
    Movement,
    OpenItem,
    OpenItems,
    Proposal,
    Reason,
    discount_taken,
    discounts_on,
    exact_choice,
    exact_sums,
    lines_for,
    payments_of,
    same_way,
)
from kontobahn.reconciliation.core.numbers import MAX_SAME, CutText, Hit, NumberIndex, tokens_of

# The payer: what IBAN, mandate, customer number and name say about the person account. A name supports; it never
# decides.


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


BITS_OF_AMOUNT = 12.0
# A number on its own; one that needs a second signal; one that is never enough.
ALONE_BITS, FIRM_BITS, MIN_BITS = 20.0, 13.0, 6.6
MAX_NUMBERS = 60
_MAX_SUBSET = 12
_MIN_WRITTEN = 6
# Characters that join a number to digits beside it: then it is a part of something longer.
_JOINED = re.compile(r"\d[-/.]\||\|[-/.]\d")
# Weak forms that still name one document: an edit may name one that is not known any more, a label says what else it is.
_CONFIRMABLE = frozenset(("end", "beside digits", "torn", "alike"))
# Items of one account that are looked at one by one, and candidates that are listed.
MAX_LOOKED_AT = 200
MAX_LISTED = 3


class Case(NamedTuple):
    """A movement with everything that it is matched against."""

    movement: Movement
    texts: tuple[CutText, ...]
    payer: Payer
    items: OpenItems
    numbers: NumberIndex
    payers: PayerIndex
    hits: list[Hit]


def is_too_early(item: OpenItem, movement: Movement) -> bool:
    """Returns whether the document is dated after the payment: nobody pays what is not written yet."""
    return item.day > movement.day


def amount_reason(signal: str, amount: int) -> Reason:
    """Returns the reason: only an amount that fits exactly has weight, and never enough on its own."""
    exact = signal in ("amount", "amount_less_skonto", "sum")
    return Reason(signal, amount_text(amount), bits=BITS_OF_AMOUNT if exact else 0.0)


def on_account(konto: str, amount: int) -> tuple[Line, ...]:
    return (Line("on_account", konto, "", amount),) if amount else ()


def score_of(reasons: tuple[Reason, ...]) -> float:
    return round(sum(reason.bits for reason in reasons), 1)


# --- By number


class NamedItem(NamedTuple):
    """A document that the text names."""

    item: OpenItem
    hit: Hit


def by_number(case: Case) -> tuple[list[Proposal], bool]:
    """Returns what the numbers suggest, and whether there was a number that counts."""
    named, unclear = _resolve(case, case.hits)
    proposals: list[Proposal] = []
    for hit in unclear:
        proposals += _of_any(case, hit)
    if not named:
        return proposals, bool(unclear)
    clear = not unclear
    if len(named) == 1:
        proposals += _single(case, named[0], clear=clear)
    else:
        proposals += _several(case, named, clear=clear)
    return proposals, any(proposal.evidence != "C" for proposal in proposals)


def only_named(case: Case) -> NamedItem | None:
    """The document that the text names, if it names one and no other."""
    named, unclear = _resolve(case, case.hits)
    return named[0] if len(named) == 1 and not unclear else None


def _resolve(case: Case, hits: list[Hit]) -> tuple[list[NamedItem], list[Hit]]:
    """Returns the documents that are named, and the hits that could mean several accounts."""
    named: list[NamedItem] = []
    unclear: list[Hit] = []
    either: list[Hit] = []
    for hit in hits[: MAX_NUMBERS + 1]:
        if hit.weak or len(hit.keys) > MAX_SAME:
            continue
        items = [item for item in case.items.among(hit.keys) if not is_too_early(item, case.movement)]
        if not items:
            continue
        agreeing = [item for item in items if case.payer.agrees(item.konto)]
        if not (hit.bits >= FIRM_BITS or hit.has_word or agreeing):
            continue
        if case.payers.is_customer_number(hit.found) and not hit.has_word:
            # It is the customer's, unless a document that bears it too would be paid by exactly this.
            either += [hit] if any(item.open_minor == case.movement.amount_minor for item in agreeing) else []
            continue
        known = [item for item in items if item.konto in case.payer.known]
        chosen = known or agreeing or items
        if len(chosen) == 1:
            named.append(NamedItem(chosen[0], hit))
        else:
            unclear.append(hit)
    return named, [*unclear, *either] if named else unclear


def _number_reason(named: NamedItem) -> Reason:
    hit = named.hit
    return Reason("number", named.item.beleg, hit.field, hit.start, hit.end, round(hit.bits, 1))


def number_proposal(
    case: Case,
    evidence: EvidenceClass,
    named: Sequence[NamedItem],
    lines: tuple[Line, ...],
    *more: Reason,
    acts: bool = False,
) -> Proposal:
    kontos = dict.fromkeys(one.item.konto for one in named)
    payer = tuple(reason for konto in kontos for reason in case.payer.reasons(konto))
    reasons = (*map(_number_reason, named), *more, *payer)
    return Proposal(evidence, score_of(reasons), lines, reasons, acts)


def suffices(case: Case, named: Sequence[NamedItem]) -> bool:
    """Returns whether numbers and payer together are enough to act alone, given that the amount fits."""
    konto = named[0].item.konto
    if case.payer.contradicts(konto) or konto in case.payer.vague:
        return False
    if any(one.hit.bits < MIN_BITS or not one.item.has_account for one in named):
        return False
    if case.payer.agrees(konto):
        return all(_is_firm(case, one) for one in named)
    # A number that several accounts have names none of them without a payer, nor does one that a slip of the finger turns into another.
    return sum(one.hit.bits for one in named) >= ALONE_BITS and not any(_has_neighbour(case, one) for one in named)


def _has_neighbour(case: Case, named: NamedItem) -> bool:
    """Returns whether another document with the same amount differs in one character only."""
    near = case.items.among(case.numbers.near(named.item.key))
    return any(item.open_minor == named.item.open_minor and item.key != named.item.key for item in near)


def _is_firm(case: Case, named: NamedItem) -> bool:
    """Returns whether the number is firm: a short one needs a word for invoice before it, or that no other item of the account fits."""
    if named.hit.bits >= FIRM_BITS or named.hit.has_word or _is_as_written(named):
        return True
    return _is_only_one(case, named.item)


def _is_as_written(named: NamedItem) -> bool:
    """Returns whether the text has the number sign by sign, and it is more than digits: `17/2026` is no accident."""
    written = named.item.beleg.upper()
    return len(written) >= _MIN_WRITTEN and not written.isdigit() and named.hit.found.upper() == written


def _is_only_one(case: Case, item: OpenItem) -> bool:
    """Returns whether the account owes this amount only once."""
    return len(case.items.with_amount(item.open_minor, case.movement.day, item.konto)) == 1


def _single(case: Case, named: NamedItem, *, clear: bool) -> Iterator[Proposal]:
    item, paid = named.item, case.movement.amount_minor
    acts = clear and suffices(case, [named])
    if paid == item.open_minor:
        reason = amount_reason("amount", paid)
        yield number_proposal(case, "A2" if acts else "B1", [named], lines_for(item, paid), reason, acts=acts)
        return
    discount = discount_taken(item, paid, case.movement.day)
    if discount is not None:
        reason = amount_reason("amount_less_skonto", paid)
        yield number_proposal(case, "A3" if acts else "B1", [named], lines_for(item, paid, discount), reason, acts=acts)
        return
    yield from _other_amount(case, named)


def _other_amount(case: Case, named: NamedItem) -> Iterator[Proposal]:
    item, paid = named.item, case.movement.amount_minor
    rest = item.open_minor - paid
    if not item.open_minor:
        # Named by somebody else, it is more likely a typing error.
        evidence: EvidenceClass = "C" if case.payer.contradicts(item.konto) else "B1"
        yield number_proposal(case, evidence, [named], on_account(item.konto, paid), Reason("paid_before", item.beleg))
    elif not same_way(paid, item.open_minor):
        yield number_proposal(case, "C", [named], on_account(item.konto, paid), Reason("other_direction", item.beleg))
    elif same_way(rest, paid):
        yield number_proposal(case, "B1", [named], lines_for(item, paid), amount_reason("part", paid))
        for discount in discounts_on(item, case.movement.day, late=True):
            if abs(rest - discount) <= CENT:
                late = Reason("skonto_late", "")
                yield number_proposal(case, "B1", [named], lines_for(item, paid, rest), late)._replace(score=0.0)
    else:
        lines = (*lines_for(item, item.open_minor), *on_account(item.konto, -rest))
        yield number_proposal(case, "B1", [named], lines, amount_reason("over", -rest))


def _several(case: Case, named: list[NamedItem], *, clear: bool) -> Iterator[Proposal]:
    unpaid = [one for one in named if one.item.open_minor]
    if not unpaid:
        yield from _other_amount(case, named[0])
        return
    paid, kontos = case.movement.amount_minor, {one.item.konto for one in unpaid}
    is_whole = len(unpaid) == len(named) and len(named) <= MAX_NUMBERS
    ways = exact_choice([payments_of(one.item, case.movement.day) for one in unpaid], paid)
    if not ways:
        ways = exact_choice([payments_of(one.item, case.movement.day) for one in unpaid], paid, slack=CENT)
        ways = [way for way in ways if any(way)]
    if ways:
        lines = _settled_lines(case, unpaid, ways[0])
        acts = clear and is_whole and len(ways) == 1 and len(kontos) == 1 and suffices(case, unpaid)
        reason = amount_reason("sum", paid)
        yield number_proposal(case, "A4" if acts else "B1", unpaid, lines, reason, acts=acts)
        return
    yield from _some_of(case, unpaid)
    yield from _spread(case, unpaid)


def _settled_lines(case: Case, named: list[NamedItem], way: tuple[int, ...]) -> tuple[Line, ...]:
    """Lines that settle every document; a rounding cent goes to the last Skonto."""
    chosen = [
        (one.item, payments_of(one.item, case.movement.day)[place]) for one, place in zip(named, way, strict=True)
    ]
    slack = case.movement.amount_minor - sum(paid for _, paid in chosen)
    lines: list[Line] = []
    for item, share in reversed(chosen):
        takes = slack if share != item.open_minor else 0
        slack -= takes
        lines[:0] = lines_for(item, share + takes, item.open_minor - share - takes)
    return tuple(lines)


def _some_of(case: Case, named: list[NamedItem]) -> Iterator[Proposal]:
    """Proposes some of the documents named, if these alone make up the amount."""
    few = named[:_MAX_SUBSET]
    amounts = [one.item.open_minor for one in few]
    paid = case.movement.amount_minor
    combinations: list[tuple[int, ...]] = [(place,) for place, amount in enumerate(amounts) if amount == paid]
    combinations += exact_sums(amounts, paid)
    for combination in combinations[:MAX_LISTED]:
        chosen = [few[place] for place in combination]
        lines = tuple(line for one in chosen for line in lines_for(one.item, one.item.open_minor))
        yield number_proposal(case, "B1", chosen, lines, amount_reason("sum", paid))


def _spread(case: Case, named: list[NamedItem]) -> Iterator[Proposal]:
    """Proposes the documents in the order of the text until the amount is used up."""
    left = case.movement.amount_minor
    konto = named[0].item.konto
    if not all(same_way(one.item.open_minor, left) for one in named):
        yield number_proposal(case, "C", named[:1], on_account(konto, left), amount_reason("over", left))
        return
    lines: list[Line] = []
    used = []
    for one in named:
        part = min(left, one.item.open_minor, key=abs)
        if not part:
            break
        used.append(one)
        lines += lines_for(one.item, part)
        left -= part
    lines += on_account(konto, left)
    yield number_proposal(
        case, "B1", used, tuple(lines), amount_reason("over" if left else "part", case.movement.amount_minor)
    )


def _of_any(case: Case, hit: Hit) -> Iterator[Proposal]:
    """Proposes, for a number that several accounts have, each that the amount fits."""
    paid = case.movement.amount_minor
    for item in case.items.among(hit.keys):
        if paid in payments_of(item, case.movement.day):
            lines = lines_for(item, paid, item.open_minor - paid)
            reasons = (amount_reason("amount", paid), Reason("number_shared", item.beleg))
            yield number_proposal(case, "B1", [NamedItem(item, hit)], lines, *reasons)


def by_weak_number(case: Case) -> Iterator[Proposal]:
    """Proposes by numbers that are nearly ours, if the amount or the payer supports one."""
    paid = case.movement.amount_minor
    beside = [hit for hit in case.hits if hit.weak]
    for hit in [*beside, *case.numbers.find_weak(case.texts)][:MAX_SAME]:
        for item in case.items.among(hit.keys):
            if is_too_early(item, case.movement):
                continue
            discount = 0 if paid == item.open_minor else discount_taken(item, paid, case.movement.day)
            if discount is not None:
                lines = lines_for(item, paid, discount)
            elif hit.weak in ("end", "alike") and _may_be_part(case, item):
                lines = _part_lines(item, paid)
            else:
                continue
            acts = discount is not None and _is_confirmed(case, hit, item)
            reason = Reason(f"number_{hit.weak.replace(' ', '_')}", hit.found, hit.field, hit.start, hit.end, 4.0)
            amount = amount_reason("part" if discount is None else "amount_less_skonto" if discount else "amount", paid)
            reasons = (reason, amount, *case.payer.reasons(item.konto))
            evidence: EvidenceClass = "B4" if not acts else "A3" if discount else "A2"
            yield Proposal(evidence, score_of(reasons), lines, reasons, acts)


def _is_confirmed(case: Case, hit: Hit, item: OpenItem) -> bool:
    """Returns whether a number in a weak form is enough, given that the amount fits: the payer is certain, the form fits no other
    document of that payer, not even a settled one, and no other document of that payer has the amount."""
    if hit.weak not in _CONFIRMABLE or not item.has_account or not case.payer.is_certain(item.konto):
        return False
    text = next(text.text for text in case.texts if text.field == hit.field)
    if _JOINED.search(text[: hit.start][-2:] + "|" + text[hit.end :][:2]):
        return False
    return sum(konto == item.konto for konto, _ in hit.keys) == 1 and _is_only_one(case, item)


def _may_be_part(case: Case, item: OpenItem) -> bool:
    """Returns whether the item's own payer paid some amount in the item's direction."""
    payer, konto = case.payer, item.konto
    return (
        payer.agrees(konto) and not payer.contradicts(konto) and same_way(case.movement.amount_minor, item.open_minor)
    )


def _part_lines(item: OpenItem, paid: int) -> tuple[Line, ...]:
    """Lines that pay the item in part, or in full with the rest on account."""
    part = min(paid, item.open_minor, key=abs)
    return (*lines_for(item, part), *on_account(item.konto, paid - part))


# --- By payer


def by_payer(case: Case) -> Iterator[Proposal]:
    for konto in case.payer.known:
        yield from _of_known(case, konto)
    if not case.payer.known:
        yield from _of_named(case)
    yield from _candidates(case)


def _of_payer(case: Case, evidence: EvidenceClass, konto: str, lines: tuple[Line, ...], *more: Reason) -> Proposal:
    reasons = (*more, *case.payer.reasons(konto))
    return Proposal(evidence, score_of(reasons), lines, reasons)


def _fitting(case: Case, konto: str) -> list[tuple[OpenItem, int]]:
    """The account's items that the amount settles, with the discount taken; the oldest first."""
    paid = case.movement.amount_minor
    full = [(item, 0) for item in case.items.with_amount(paid, case.movement.day, konto)]
    if full:
        return full
    found = []
    for item in case.items.of(konto, case.movement.day, MAX_LOOKED_AT):
        discount = discount_taken(item, paid, case.movement.day)
        if discount is not None:
            found.append((item, discount))
    return found


def _of_known(case: Case, konto: str) -> Iterator[Proposal]:
    paid = case.movement.amount_minor
    fitting = _fitting(case, konto)
    alone = len(fitting) == 1
    for item, discount in fitting[:MAX_LISTED]:
        signal = "amount_less_skonto" if discount else "amount"
        twins = () if alone else (Reason("twins", str(len(fitting))),)
        lines = lines_for(item, paid, discount)
        yield _of_payer(case, "B2" if alone else "C", konto, lines, amount_reason(signal, paid), *twins)
    if not fitting:
        yield from _sums(case, konto)


def _sums(case: Case, konto: str) -> Iterator[Proposal]:
    paid, items = case.movement.amount_minor, case.items.of(konto, case.movement.day, MAX_ITEMS + 1)
    if len(items) > MAX_ITEMS:
        return
    combinations = exact_sums([item.open_minor for item in items], paid)
    for combination in combinations:
        lines = tuple(line for place in combination for line in lines_for(items[place], items[place].open_minor))
        only = len(combinations) == 1
        yield _of_payer(case, "B3" if only else "C", konto, lines, amount_reason("sum", paid))


def _of_named(case: Case) -> Iterator[Proposal]:
    """Proposes by name, only if one item of all accounts with such a name has the amount."""
    paid = case.movement.amount_minor
    fitting = [(konto, item, discount) for konto in case.payer.supported for item, discount in _fitting(case, konto)]
    alone = len(fitting) == 1
    for konto, item, discount in fitting[:MAX_LISTED]:
        reason = amount_reason("amount_less_skonto" if discount else "amount", paid)
        yield _of_payer(case, "B4" if alone else "C", konto, lines_for(item, paid, discount), reason)
    if not fitting:
        for konto in case.payer.supported:
            if case.payer.is_certain(konto):
                yield from _sums(case, konto)


def _candidates(case: Case) -> Iterator[Proposal]:
    """Candidates for a person to choose from: the payer's items in part, the account itself, items of the same amount."""
    paid = case.movement.amount_minor
    for konto in [*case.payer.known, *case.payer.supported][:MAX_LISTED]:
        owed = [
            item for item in case.items.of(konto, case.movement.day, MAX_LOOKED_AT) if same_way(item.open_minor, paid)
        ]
        nearest = sorted(owed, key=lambda item: (abs(item.open_minor - paid), item.day, item.beleg))
        for item in nearest[:MAX_LISTED]:
            if item.open_minor == paid:
                continue
            distance = abs(item.open_minor - paid) / max(abs(paid), abs(item.open_minor))
            yield _of_payer(case, "C", konto, _part_lines(item, paid), amount_reason("part", paid))._replace(
                score=round(5 - 4 * distance, 1)
            )
        yield _of_payer(case, "C", konto, on_account(konto, paid))._replace(score=0.5)
    if not case.payer.known and not case.payer.supported:
        for item in case.items.with_amount(paid, case.movement.day, most=MAX_LISTED):
            yield Proposal("C", 0.0, lines_for(item, paid), (Reason("amount_only", item.beleg),))
