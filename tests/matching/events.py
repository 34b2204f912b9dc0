"""Events on the made-up client's bank account: movements with the truth about each."""

from __future__ import annotations

import random
from collections.abc import Iterator
from datetime import date, timedelta
from typing import NamedTuple

from kontobahn.reconciliation.core.model import Knowledge, Line, OpenItem, OwnPayment, Rule
from tests.matching import texts
from tests.matching.mixes import Mix
from tests.matching.world import Payer, World, company, iban
from tests.statement_builder import Booking

FEE_KONTO, TRANSFER_KONTO, OWN_IBAN = "49700000", "13600000", "DE21500500009876543210"
_NOISE = (
    ("Miete Lagerhalle {month}", "Hansen Grundbesitz KG", -185_000),
    ("Lohn/Gehalt {month}", "Karla Beispiel", -241_318),
    ("Entgelt Kontofuehrung {month}", "Ihre Bank", -1_290),
    ("Strom Abschlag Vertrag 8830{six}", "Stadtwerke", -31_200),
    ("Kartenzahlung Tankstelle {six}", "Tankstelle Nord", -7_412),
    ("Steuererstattung", "Finanzamt Mitte", 48_211),
    ("Spende", "Unbekannt", 2_500),
)


class Event(NamedTuple):
    """A movement and the truth: the lines of the right match; none if it has no counterpart."""

    kind: str
    booking: Booking
    truth: tuple[Line, ...]

    @property
    def has_counterpart(self) -> bool:
        return bool(self.truth)


class Happenings:
    """Draws events until a number is reached or the open items are used up."""

    def __init__(self, r: random.Random, world: World, mix: Mix) -> None:
        self._r = r
        self._world = world
        self._mix = mix
        self._open: dict[str, list[OpenItem]] = {}
        for item in world.items:
            self._open.setdefault(item.konto, []).append(item)
        self._count = 0
        self.payments: list[OwnPayment] = []
        self.rules = (Rule("rent", "42100000", text="miete lagerhalle", sign="out"),)

    def draw(self, count: int) -> list[Event]:
        events: list[Event] = []
        kinds, weights = zip(*self._mix["events"].items(), strict=True)
        misses = 0
        while len(events) < count and misses < 300:
            kind = self._r.choices(kinds, weights)[0]
            drawn = list(getattr(self, f"_{kind}")())
            misses = 0 if drawn else misses + 1
            events += drawn
        return sorted(events, key=lambda event: event.booking.booked)

    def knowledge(self) -> Knowledge:
        return Knowledge(
            persons=tuple(payer.person for payer in self._world.payers.values()),
            rules=self.rules,
            payments=tuple(self.payments),
            own_ibans=frozenset((OWN_IBAN,)),
            fee_konto=FEE_KONTO,
            transfer_konto=TRANSFER_KONTO,
        )

    # --- What is drawn

    def _take(
        self, *, creditor: bool = False, least: int = 1, terms: bool = False
    ) -> tuple[Payer, list[OpenItem]] | None:
        """Takes open items of a payer: `least` of them, the oldest first or any."""
        kontos = [
            konto for konto, items in self._open.items()
            if len(items) >= least and (konto >= "7") == creditor and (not terms or self._world.payers[konto].has_terms)
        ]  # fmt: skip
        if not kontos:
            return None
        items = self._open[konto := self._r.choice(kontos)]
        chosen = [items.pop(self._r.randrange(len(items))) for _ in range(least)]
        return self._world.payers[konto], sorted(chosen, key=lambda item: item.day)

    def _booking(
        self, payer: Payer, items: list[OpenItem], amount: int, days: tuple[int, int] = (4, 40), **changes: object
    ) -> Booking:
        day = max(item.day for item in items) + timedelta(self._r.randint(*days))
        text, reference = texts.about(self._r, payer.habit, items, payer.person.numbers[0])
        booking = Booking(
            amount, text, payer.name, payer.iban, None, reference, booked=day, valued=day, reference=self._next()
        )
        return booking._replace(**changes)  # type: ignore[arg-type]

    def _next(self) -> str:
        self._count += 1
        return f"B{self._count:08d}"

    def _full(self) -> Iterator[Event]:
        if taken := self._take():
            payer, items = taken
            yield Event("full", self._booking(payer, items, items[0].open_minor), _paid(items))

    def _skonto(self) -> Iterator[Event]:
        if taken := self._take(terms=True):
            payer, items = taken
            lines = _paid(items, discounted=True)
            yield Event("skonto", self._booking(payer, items, _sum(lines), (2, 11)), lines)

    def _skonto_late(self) -> Iterator[Event]:
        if taken := self._take(terms=True):
            payer, items = taken
            amount = _sum(_paid(items, discounted=True))
            yield Event("skonto_late", self._booking(payer, items, amount, (15, 30)), _part(items[0], amount))

    def _skonto_too_high(self) -> Iterator[Event]:
        if taken := self._take(terms=True):
            payer, items = taken
            amount = items[0].open_minor - (items[0].open_minor * 3 + 50) // 100
            yield Event("skonto_too_high", self._booking(payer, items, amount, (2, 10)), _part(items[0], amount))

    def _several(self) -> Iterator[Event]:
        if taken := self._take(least=self._r.choice((2, 2, 2, 3, 3, 4, 6))):
            payer, items = taken
            lines = _paid(items)
            yield Event("several", self._booking(payer, items, _sum(lines)), lines)

    def _several_skonto(self) -> Iterator[Event]:
        if taken := self._take(least=2, terms=True):
            payer, items = taken
            day = items[-1].day + timedelta(5)
            lines = tuple(line for item in items for line in _paid([item], discounted=day <= item.discounts[0].until))
            yield Event("several_skonto", self._booking(payer, items, _sum(lines), (5, 5)), lines)

    def _part(self) -> Iterator[Event]:
        if taken := self._take():
            payer, items = taken
            first = items[0].open_minor * self._r.choice((30, 40, 50)) // 100
            booking = self._booking(payer, items, first)
            yield Event("part", booking, _part(items[0], first))
            if self._r.random() < 0.5:
                rest = items[0].open_minor - first
                later = booking._replace(amount=rest, booked=booking.booked + timedelta(20), reference=self._next())
                yield Event("part_rest", later._replace(valued=later.booked), _part(items[0], rest))

    def _over(self) -> Iterator[Event]:
        if taken := self._take():
            payer, items = taken
            more = self._r.choice((100, 1_000, 500, 4_711))
            lines = (*_paid(items), Line("on_account", payer.person.konto, "", more))
            yield Event("over", self._booking(payer, items, _sum(lines)), lines)

    def _double(self) -> Iterator[Event]:
        if taken := self._take():
            payer, items = taken
            amount = items[0].open_minor
            booking = self._booking(payer, items, amount)
            yield Event("full", booking, _paid(items))
            day = booking.booked + timedelta(self._r.randint(1, 9))
            again = booking._replace(booked=day, valued=day, reference=self._next())
            yield Event("double", again, (Line("on_account", payer.person.konto, "", amount),))

    def _two_customers(self) -> Iterator[Event]:
        one, other = self._take(), self._take()
        if one and other:
            items = [*one[1], *other[1]]
            lines = _paid(items)
            yield Event("two_customers", self._booking(one[0], items, _sum(lines)), lines)

    def _deviating(self) -> Iterator[Event]:
        """Somebody else pays, who is in nobody's books."""
        if taken := self._take():
            payer, items = taken
            booking = self._booking(payer, items, items[0].open_minor, name=company(self._r), iban=iban(self._r))
            yield Event("deviating", booking, _paid(items))

    def _returned(self) -> Iterator[Event]:
        """A direct debit of ours comes in, and goes back with a fee."""
        if taken := self._take():
            payer, items = taken
            amount, reference = items[0].open_minor, f"DD{self._next()}"
            booking = self._booking(payer, items, amount, end_to_end_id=reference, mandate=f"M{payer.person.konto}")
            yield Event("full", booking, _paid(items))
            fee, day = self._r.choice((300, 350, 0)), booking.booked + timedelta(self._r.randint(2, 8))
            tags = f"OAMT+{amount // 100},{amount % 100:02d}" + (f" COAM+{fee // 100},{fee % 100:02d}" if fee else "")
            text = f"Ruecklastschrift AC04 Konto erloschen RREF+{booking.reference} {tags}"
            back = booking._replace(
                amount=-amount - fee, text=text, booked=day, valued=day, reference=self._next(), reversal=True
            )
            lines = [Line("return", items[0].konto, items[0].beleg, -amount)]
            lines += [Line("fee", FEE_KONTO, "", -fee)] if fee else []
            yield Event("returned", back, tuple(lines))

    def _refund(self) -> Iterator[Event]:
        """Money out to a customer, with the number of a document that he owes: nothing that can be settled."""
        if taken := self._take():
            payer, items = taken
            amount = -(items[0].open_minor // 3)
            truth = (Line("on_account", payer.person.konto, "", amount),)
            yield Event("refund", self._booking(payer, items, amount), truth)

    def _supplier(self) -> Iterator[Event]:
        """Paid from elsewhere: only the bank statement shows it."""
        if taken := self._take(creditor=True):
            payer, items = taken
            yield Event("supplier", self._booking(payer, items, items[0].open_minor), _paid(items))

    def _own_payment(self) -> Iterator[Event]:
        if taken := self._take(creditor=True):
            payer, items = taken
            reference, amount = f"KB-{self._next()}", items[0].open_minor
            keys = (items[0].key,) if self._r.random() < 0.5 else ()
            self.payments.append(OwnPayment(reference, amount, f"Rechnung {items[0].beleg}", keys))
            yield Event("own_payment", self._booking(payer, items, amount, end_to_end_id=reference), _paid(items))

    def _noise(self) -> Iterator[Event]:
        text, name, amount = self._r.choice(_NOISE)
        day = date(2026, 1, 10) + timedelta(self._r.randint(0, 280))
        said = text.format(month=f"{day:%m/%Y}", six=self._r.randint(100_000, 999_999))
        truth = (Line("ledger_account", "42100000", "", amount),) if "Miete" in text else ()
        yield Event("noise", self._plain(amount, said, name, iban(self._r), day), truth)

    def _transfer(self) -> Iterator[Event]:
        amount = self._r.choice((-1, 1)) * self._r.choice((100_000, 250_000, 500_000))
        day = date(2026, 1, 10) + timedelta(self._r.randint(0, 280))
        truth = (Line("transfer", TRANSFER_KONTO, "", amount),)
        yield Event("transfer", self._plain(amount, "Umbuchung", "Muster GmbH", OWN_IBAN, day), truth)

    def _plain(self, amount: int, text: str, name: str, account: str, day: date) -> Booking:
        return Booking(amount, text, name, account, None, booked=day, valued=day, reference=self._next())


def _paid(items: list[OpenItem], *, discounted: bool = False) -> tuple[Line, ...]:
    lines: list[Line] = []
    for item in items:
        lines.append(Line("item", item.konto, item.beleg, item.open_minor))
        if discounted:
            lines.append(Line("skonto", item.konto, item.beleg, -item.discounts[0].amount_minor))
    return tuple(lines)


def _part(item: OpenItem, amount: int) -> tuple[Line, ...]:
    return (Line("item", item.konto, item.beleg, amount),)


def _sum(lines: tuple[Line, ...]) -> int:
    return sum(line.amount_minor for line in lines)
