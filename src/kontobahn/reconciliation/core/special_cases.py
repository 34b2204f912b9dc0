"""Movements that are no new payment of a customer: those that the books show already, our own payments, returns, transfers, rules.

A movement that is booked is neither proposed again nor taken for a second payment: by the document's number or a payer who is known,
never by the amount alone. Each payment of the books stands for one movement.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from datetime import date, timedelta

from kontobahn.ledger.partner_names import spelled_out
from kontobahn.reconciliation.core.evidence import MAX_LISTED, Case, amount_reason, score_of
from kontobahn.reconciliation.core.model import (
    Booked,
    Key,
    Knowledge,
    Line,
    MatchedMovement,
    Movement,
    OpenItem,
    OwnMovement,
    OwnPayment,
    Proposal,
    Reason,
    Rule,
    exact_choice,
    lines_for,
    payments_of,
    same_way,
)
from kontobahn.reconciliation.core.numbers import MAX_TEXT, cut

TRANSFER_DAYS = timedelta(days=5)
BITS_OF_REFERENCE = 40.0
MAX_RULES = 500
_MAX_SAME = 20
# Days by which a booking may be dated from its movement at the bank: offices book by the week.
BOOKED_DAYS = timedelta(days=10)
# At most this many payments of one account on one day are added up.
_MAX_OF_A_DAY = 60


class BookedPayments:
    def __init__(self, booked: Iterable[Booked]) -> None:
        self._by_key: dict[Key, list[Booked]] = defaultdict(list)
        self._by_konto: dict[str, dict[date, list[Booked]]] = defaultdict(lambda: defaultdict(list))
        for payment in booked:
            self._by_key[payment.konto, payment.beleg].append(payment)
            self._by_konto[payment.konto][payment.day].append(payment)
        self._found: dict[str, tuple[Line, ...]] = {}

    def lines(self, case: Case) -> tuple[Line, ...]:
        """Returns what was booked of this movement; nothing if nothing was. The same answer every time."""
        if not self._by_key:
            return ()
        known = self._found.get(case.movement.id)
        if known is None:
            taken = self._named(case) or self._of_payer(case)
            for payment in taken:
                self._by_key[payment.konto, payment.beleg].remove(payment)
                self._by_konto[payment.konto][payment.day].remove(payment)
            known = self._found[case.movement.id] = tuple(line for payment in taken for line in _booked_lines(payment))
        return known

    def _named(self, case: Case) -> list[Booked]:
        keys = dict.fromkeys(key for hit in case.hits if not hit.weak for key in hit.keys)
        near = [found for found in (_nearest(case, self._by_key.get(key, ())) for key in keys) if found is not None]
        paid = case.movement.amount_minor
        if sum(payment.amount_minor for payment in near) == paid:
            return near
        return [payment for payment in near if payment.amount_minor == paid][:1]

    def _of_payer(self, case: Case) -> list[Booked]:
        paid = case.movement.amount_minor
        certain = (konto for konto in case.payer.supported if case.payer.is_certain(konto))
        for konto in dict.fromkeys((*case.payer.known, *certain)):
            days = self._by_konto.get(konto, {})
            for day in sorted(days, key=lambda day: (abs(day - case.movement.day), day)):
                if abs(day - case.movement.day) > BOOKED_DAYS:
                    break
                of_day = days[day]
                alone = [payment for payment in of_day if payment.amount_minor == paid]
                if alone:
                    return alone[:1]
                if len(of_day) <= _MAX_OF_A_DAY and sum(payment.amount_minor for payment in of_day) == paid:
                    return list(of_day)
        return []


def _nearest(case: Case, payments: Iterable[Booked]) -> Booked | None:
    """The payment of a document that was booked nearest to the movement, the same amount before any other."""
    movement = case.movement
    near = [
        payment
        for payment in payments
        if abs(payment.day - movement.day) <= BOOKED_DAYS and same_way(payment.amount_minor, movement.amount_minor)
    ]
    return min(
        near,
        key=lambda payment: (
            payment.amount_minor != movement.amount_minor,
            abs(payment.day - movement.day),
            payment.day,
        ),
        default=None,
    )


def _booked_lines(payment: Booked) -> Iterable[Line]:
    yield Line("item", payment.konto, payment.beleg, payment.amount_minor + payment.skonto_minor)
    if payment.skonto_minor:
        yield Line("skonto", payment.konto, payment.beleg, -payment.skonto_minor)


class SpecialIndex:
    def __init__(self, knowledge: Knowledge) -> None:
        self._payments: dict[str, list[OwnPayment]] = defaultdict(list)
        for payment in knowledge.payments:
            self._payments[payment.end_to_end_id].append(payment)
        self._matched: dict[str, dict[str, MatchedMovement]] = defaultdict(dict)
        for matched in knowledge.matched:
            self.remember(matched)
        self._own: dict[tuple[int, str], list[OwnMovement]] = defaultdict(list)
        for own in knowledge.own_movements:
            self._own[own.amount_minor, own.iban].append(own)
        self._own_ibans = knowledge.own_ibans
        self._rules = Rules(knowledge.rules)
        self._fee_konto = knowledge.fee_konto
        self._transfer_konto = knowledge.transfer_konto

    def remember(self, matched: MatchedMovement) -> None:
        for reference in {matched.end_to_end_id, matched.mandate, matched.bank_reference} - {None, ""}:
            self._matched[str(reference)][matched.id] = matched

    # --- A1

    def own_payment(self, case: Case) -> Iterator[Proposal]:
        movement = case.movement
        found = [
            payment
            for payment in self._payments.get(movement.end_to_end_id or "", ())
            if payment.amount_minor == movement.amount_minor
        ]
        if len(found) != 1:
            return
        reason = Reason("end_to_end_id", movement.end_to_end_id or "", bits=BITS_OF_REFERENCE)
        items = _ordered_for(case, found[0])
        if not items:
            return
        if found[0].lines:
            if _are_open(items, found[0].lines):
                reasons = (reason, amount_reason("amount", movement.amount_minor))
                yield Proposal("A1", score_of(reasons), found[0].lines, reasons, acts=True)
            return
        ways = exact_choice([payments_of(item, movement.day) for item in items], movement.amount_minor)
        if not ways:
            return
        lines: tuple[Line, ...] = ()
        for item, place in zip(items, ways[0], strict=True):
            paid = payments_of(item, movement.day)[place]
            lines += lines_for(item, paid, item.open_minor - paid)
        only = len(ways) == 1 and len({item.konto for item in items}) == 1
        reasons = (reason, amount_reason("amount", movement.amount_minor))
        yield Proposal("A1" if only else "B1", score_of(reasons), lines, reasons, acts=only)

    # --- A5

    def returned(self, case: Case) -> Iterator[Proposal]:
        movement = case.movement
        if not movement.is_return:
            return
        candidates = {
            matched.id: (matched, reference)
            for reference in (movement.return_reference, movement.end_to_end_id, movement.mandate)
            for matched in list(self._matched.get(reference or "", {}).values())[-_MAX_SAME:]
            if _takes_back(movement, matched)
        }
        only = len(candidates) == 1
        for matched, reference in list(candidates.values())[:MAX_LISTED]:
            lines = [
                Line("return" if line.kind != "skonto" else "skonto", line.konto, line.beleg, -line.amount_minor)
                for line in matched.lines
            ]
            fee = movement.amount_minor + matched.amount_minor
            if fee:
                lines.append(Line("fee", self._fee_konto, "", fee))
            reasons = (
                Reason("return_of", matched.id),
                Reason("reference", reference or "", bits=BITS_OF_REFERENCE),
                amount_reason("amount", matched.amount_minor),
            )
            yield Proposal("A5" if only else "B1", score_of(reasons), tuple(lines), reasons, acts=only)

    # --- C

    def transfer(self, case: Case) -> Iterator[Proposal]:
        movement = case.movement
        if movement.iban not in self._own_ibans:
            return
        others = [
            other
            for other in self._own.get((-movement.amount_minor, movement.iban or ""), ())
            if abs(other.day - movement.day) <= TRANSFER_DAYS
        ]
        line = Line("transfer", self._transfer_konto, "", movement.amount_minor)
        reasons: tuple[Reason, ...] = (Reason("own_account", (movement.iban or "")[-4:], bits=BITS_OF_REFERENCE),)
        if others:
            nearest = min(others, key=lambda other: (abs(other.day - movement.day), other.id))
            reasons += (Reason("other_side", nearest.id, bits=10.0),)
        yield Proposal("C", score_of(reasons), (line,), reasons)

    def by_rule(self, case: Case) -> Iterator[Proposal]:
        rule = self._rules.first(case.movement)
        if rule is not None:
            reasons = (Reason("rule", rule.id, bits=15.0),)
            line = Line("ledger_account", rule.konto, "", case.movement.amount_minor)
            yield Proposal("C", score_of(reasons), (line,), reasons, acts=rule.acts)


class Rules:
    """Rules in their order: the first that fits counts. Umlauts fit however they are written."""

    def __init__(self, rules: Sequence[Rule]) -> None:
        self._rules = [(rule, spelled_out(rule.text).casefold()) for rule in rules[:MAX_RULES]]

    def first(self, movement: Movement) -> Rule | None:
        if not self._rules:
            return None
        said = [*(text[:MAX_TEXT] for _, text in movement.texts), movement.name or ""]
        text = spelled_out(" ".join(said)).casefold()
        return next((rule for rule, wanted in self._rules if _applies(rule, wanted, text, movement)), None)


def _ordered_for(case: Case, payment: OwnPayment) -> list[OpenItem]:
    """The documents a payment was ordered for: as was said, or as its own text names them."""
    keys = list(payment.keys)
    if not keys:
        for hit in case.numbers.find([cut("payment", payment.text)]):
            known = [key for key in hit.keys if key[0] in case.payer.known] or list(hit.keys)
            if hit.weak or len(known) != 1:
                return []
            keys += known
    items = case.items.among(keys)
    return items if len(items) == len(keys) else []


def _are_open(items: Iterable[OpenItem], lines: Iterable[Line]) -> bool:
    """Returns whether no more is paid of a document than is open of it."""
    left = {(item.konto, item.beleg): item.open_minor for item in items}
    return all(
        min(0, left[line.konto, line.beleg]) <= line.amount_minor <= max(0, left[line.konto, line.beleg])
        for line in lines
        if line.kind == "item"
    )


def _takes_back(movement: Movement, matched: MatchedMovement) -> bool:
    """Returns whether the return is of all of it: by the original amount it names, and nothing but the fee on top."""
    if same_way(movement.amount_minor, matched.amount_minor):
        return False
    if movement.original_minor is not None and abs(movement.original_minor) != abs(matched.amount_minor):
        return False
    kept = -movement.amount_minor - matched.amount_minor
    # Of a payment of ours that comes back the fee may be charged apart.
    return kept == movement.fee_minor or (matched.amount_minor < 0 and not kept)


def _applies(rule: Rule, wanted: str, text: str, movement: Movement) -> bool:
    amount = abs(movement.amount_minor)
    return (
        bool(wanted or rule.iban)
        and wanted in text
        and (not rule.iban or rule.iban == movement.iban)
        and (rule.sign == "any" or (rule.sign == "in") == (movement.amount_minor > 0))
        and (rule.least_minor is None or amount >= rule.least_minor)
        and (rule.most_minor is None or amount <= rule.most_minor)
    )
