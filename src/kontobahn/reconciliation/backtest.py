"""Measures the matcher with a client's own history: the history says which payment cleared which document; that is
hidden, and found again.

Pure. Bookings come from Buchungsstapel files, texts and IBANs from bank statements where there are any. Only counts leave.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from datetime import date, timedelta
from typing import NamedTuple

from kontobahn.formats.extf import Buchungssatz
from kontobahn.formats.statements import Entry
from kontobahn.ledger.konto import is_personenkonto
from kontobahn.reconciliation.core.matcher import Matcher
from kontobahn.reconciliation.core.model import Key, Knowledge, Line, Movement, OpenItem, Person, Proposal
from kontobahn.reconciliation.inputs import movement_of_entry

# 1200 to 1299 in SKR03, 1800 to 1899 in SKR04.
USUAL_BANKS = ("12", "18")
# Days by which a booking may be dated from its movement at the bank.
PAIRING = timedelta(days=5)
_OPENINGS = ("9000", "9008", "9009")


class Found(NamedTuple):
    """A class of evidence, and how often its best proposal was what really happened."""

    evidence: str
    payments: int
    would_act: int
    right: int
    wrong: int
    first: int
    first_three: int


class Report(NamedTuple):
    """`unknown` counts payments of documents that the history does not contain: nobody could find those."""

    payments: int
    with_statement: int
    unknown: int
    classes: list[Found]

    @property
    def all_classes(self) -> Found:
        sums = [sum(getattr(one, name) for one in self.classes) for name in Found._fields[1:]]
        return Found("all", *sums)


class _Leg(NamedTuple):
    """The effect of a booking on a person account: `amount` in cents, SOLL positive, Skonto included."""

    day: date
    konto: str
    beleg: str
    amount: int
    skonto: int
    text: str
    reference: str
    is_bank: bool


class _Payment(NamedTuple):
    day: date
    amount: int
    truth: tuple[Line, ...]
    text: str
    reference: str


def backtest(
    records: Iterable[Buchungssatz],
    persons: Iterable[Person] = (),
    entries: Iterable[Entry] = (),
    banks: tuple[str, ...] = USUAL_BANKS,
) -> Report:
    """`banks` are the beginnings of the bank's account numbers."""
    legs = [leg for record in records for leg in _legs(record, banks)]
    payments = _payments(leg for leg in legs if leg.is_bank)
    invoices = sorted(
        (leg for leg in legs if not leg.is_bank and leg.beleg), key=lambda leg: (leg.day, leg.konto, leg.beleg)
    )
    paired = _paired(payments, entries)
    gross, first = _documents(invoices)
    matcher = Matcher([OpenItem(*key, first[key], amount) for key, amount in gross.items()], Knowledge(tuple(persons)))
    for key, amount in gross.items():
        matcher.items.reduce(key, amount)
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    unknown = coming = 0
    for number, payment in enumerate(payments):
        while coming < len(invoices) and invoices[coming].day <= payment.day:
            leg = invoices[coming]
            matcher.items.reduce((leg.konto, leg.beleg), -leg.amount)
            coming += 1
        movement = _movement(number, payment, paired.get(number))
        if any(line.beleg and not matcher.items.among([(line.konto, line.beleg)]) for line in payment.truth):
            unknown += 1
            continue
        proposals = matcher.match(movement)
        evidence = proposals[0].evidence if proposals else "-"
        _count(counts[evidence], proposals, payment.truth)
        matcher.settle(movement, Proposal("C", 0.0, payment.truth, ()))
        for konto in {line.konto for line in payment.truth}:
            matcher.learn(movement, konto)
    found = [Found(evidence, *(counts[evidence][name] for name in Found._fields[1:])) for evidence in sorted(counts)]
    return Report(len(payments), len(paired), unknown, found)


def _legs(record: Buchungssatz, banks: tuple[str, ...]) -> Iterable[_Leg]:
    """The person account's side of a booking; none if it has none, or is an opening balance."""
    amount = record.umsatz if record.basis_umsatz is None else record.basis_umsatz
    for konto, other, is_soll in (
        (record.konto, record.gegenkonto, record.soll),
        (record.gegenkonto, record.konto, not record.soll),
    ):
        if not is_personenkonto(konto) or other.startswith(_OPENINGS):
            continue
        sign = 1 if is_soll != record.generalumkehr else -1
        yield _Leg(
            date.fromisoformat(record.belegdatum), konto, record.belegfeld1, sign * (amount + record.skonto), sign * record.skonto,
            record.buchungstext, record.belegfeld2, not is_personenkonto(other) and other.startswith(banks),
        )  # fmt: skip


def _payments(legs: Iterable[_Leg]) -> list[_Payment]:
    """One transfer may be several rows: the same day, account, text and statement."""
    groups: dict[tuple[date, str, str, str], list[_Leg]] = defaultdict(list)
    for leg in legs:
        groups[leg.day, leg.konto, leg.text, leg.reference].append(leg)
    payments = []
    for (day, _, text, reference), rows in sorted(groups.items()):
        lines: list[Line] = []
        for row in rows:
            # The person account moves against the bank.
            lines.append(Line("item" if row.beleg else "on_account", row.konto, row.beleg, -row.amount))
            if row.skonto:
                lines.append(Line("skonto", row.konto, row.beleg, row.skonto))
        amount = sum(line.amount_minor for line in lines)
        if amount:
            payments.append(_Payment(day, amount, tuple(lines), text, reference))
    return payments


def _documents(invoices: list[_Leg]) -> tuple[dict[Key, int], dict[Key, date]]:
    gross: dict[Key, int] = defaultdict(int)
    first: dict[Key, date] = {}
    for leg in invoices:
        gross[leg.konto, leg.beleg] += leg.amount
        first.setdefault((leg.konto, leg.beleg), leg.day)
    return gross, first


def _paired(payments: list[_Payment], entries: Iterable[Entry]) -> dict[int, Entry]:
    """Finds each payment's movement at the bank: the amount, a day near by, and no second one as near."""
    by_amount: dict[int, list[Entry]] = defaultdict(list)
    for entry in entries:
        if entry.status == "posted":
            by_amount[entry.amount_minor].append(entry)
    paired: dict[int, Entry] = {}
    for number, payment in enumerate(payments):
        near = sorted(
            ((abs(entry.booking_date - payment.day), place) for place, entry in enumerate(by_amount[payment.amount])),
        )[:2]
        if near and near[0][0] <= PAIRING and (len(near) == 1 or near[0][0] < near[1][0]):
            paired[number] = by_amount[payment.amount].pop(near[0][1])
    return paired


def _movement(number: int, payment: _Payment, entry: Entry | None) -> Movement:
    if entry is not None:
        return movement_of_entry(str(number), entry)
    # Without a statement, what the office wrote is all there is: mostly the payer's name.
    texts = (("svwz", payment.text), ("kref", payment.reference))
    return Movement(
        str(number), payment.day, payment.amount, texts=tuple(text for text in texts if text[1]), name=payment.text
    )


def _count(counts: Counter[str], proposals: list[Proposal], truth: tuple[Line, ...]) -> None:
    wanted = _plain(truth)
    places = [place for place, proposal in enumerate(proposals) if _plain(proposal.lines) == wanted]
    acts = bool(proposals) and proposals[0].acts
    counts["payments"] += 1
    counts["would_act"] += acts
    counts["right"] += acts and 0 in places
    counts["wrong"] += acts and 0 not in places
    counts["first"] += 0 in places
    counts["first_three"] += bool(places) and places[0] < 3


def _plain(lines: Iterable[Line]) -> dict[tuple[str, str, bool], int]:
    """By account and document, Skonto apart; whether a line is called a return makes no difference."""
    sums: dict[tuple[str, str, bool], int] = defaultdict(int)
    for line in lines:
        sums[line.konto, line.beleg, line.kind == "skonto"] += line.amount_minor
    return {key: amount for key, amount in sums.items() if amount}
