"""Proposals without a number: the payer is known or has the name, and an amount or a sum fits one way only."""

from __future__ import annotations

from collections.abc import Iterator

from kontobahn.reconciliation.core.case import Case, amount_reason, on_account, score_of
from kontobahn.reconciliation.core.items import discount_taken, lines_for
from kontobahn.reconciliation.core.model import EvidenceClass, Line, OpenItem, Proposal, Reason
from kontobahn.reconciliation.core.sums import MOST_ITEMS, exact_sums

# Items of one account that are looked at one by one, and candidates that are listed.
MOST_LOOKED_AT, MOST_LISTED = 200, 3


def propose(case: Case) -> Iterator[Proposal]:
    for konto in case.payer.known:
        yield from _known(case, konto)
    if not case.payer.known:
        yield from _named(case)
    yield from _listed(case)


def _of(case: Case, evidence: EvidenceClass, konto: str, lines: tuple[Line, ...], *more: Reason) -> Proposal:
    reasons = (*more, *case.payer.reasons(konto))
    return Proposal(evidence, score_of(reasons), lines, reasons)


def _fitting(case: Case, konto: str) -> list[tuple[OpenItem, int]]:
    """The account's items that the amount settles, with the discount taken; the oldest first."""
    paid = case.movement.amount_minor
    full = [(item, 0) for item in case.items.with_amount(paid, konto)]
    if full:
        return full
    found = []
    for item in case.items.of(konto, MOST_LOOKED_AT):
        discount = discount_taken(item, paid, case.movement.day)
        if discount is not None:
            found.append((item, discount))
    return found


def _known(case: Case, konto: str) -> Iterator[Proposal]:
    paid = case.movement.amount_minor
    fitting = _fitting(case, konto)
    alone = len(fitting) == 1
    for item, discount in fitting[:MOST_LISTED]:
        signal = "amount_less_skonto" if discount else "amount"
        twins = () if alone else (Reason("twins", str(len(fitting))),)
        lines = lines_for(item, paid, discount)
        yield _of(case, "B2" if alone else "C", konto, lines, amount_reason(signal, paid), *twins)
    if fitting or case.items.count(konto) > MOST_ITEMS:
        return
    items = case.items.of(konto, MOST_ITEMS)
    combinations = exact_sums([item.open_minor for item in items], paid)
    for combination in combinations:
        lines = tuple(line for place in combination for line in lines_for(items[place], items[place].open_minor))
        only = len(combinations) == 1
        yield _of(case, "B3" if only else "C", konto, lines, amount_reason("sum", paid))


def _named(case: Case) -> Iterator[Proposal]:
    """By name, only if one item of all accounts with such a name has the amount."""
    paid = case.movement.amount_minor
    fitting = [(konto, item, discount) for konto in case.payer.supported for item, discount in _fitting(case, konto)]
    alone = len(fitting) == 1
    for konto, item, discount in fitting[:MOST_LISTED]:
        reason = amount_reason("amount_less_skonto" if discount else "amount", paid)
        yield _of(case, "B4" if alone else "C", konto, lines_for(item, paid, discount), reason)


def _listed(case: Case) -> Iterator[Proposal]:
    """Candidates for a person to choose from: the payer's items in part, the account itself, items of the same amount."""
    paid = case.movement.amount_minor
    for konto in [*case.payer.known, *case.payer.supported][:MOST_LISTED]:
        same_way = [item for item in case.items.of(konto, MOST_LOOKED_AT) if (item.open_minor > 0) == (paid > 0)]
        nearest = sorted(same_way, key=lambda item: (abs(item.open_minor - paid), item.day, item.beleg))
        for item in nearest[:MOST_LISTED]:
            if item.open_minor == paid:
                continue
            part = paid if abs(paid) < abs(item.open_minor) else item.open_minor
            lines = (*lines_for(item, part), *on_account(konto, paid - part))
            distance = abs(item.open_minor - paid) / max(abs(paid), abs(item.open_minor))
            yield _of(case, "C", konto, lines, amount_reason("part", paid))._replace(score=round(5 - 4 * distance, 1))
        yield _of(case, "C", konto, on_account(konto, paid))._replace(score=0.5)
    if not case.payer.known and not case.payer.supported:
        for item in case.items.with_amount(paid, most=MOST_LISTED):
            yield Proposal("C", 0.0, lines_for(item, paid), (Reason("amount_only", item.beleg),))
