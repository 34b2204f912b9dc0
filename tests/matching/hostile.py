"""Movements made to mislead: twins, numbers used twice, digits inside IBANs, equal amounts, other customers' numbers …

Each has a small client of its own. The truth is what really was paid; acting alone on anything else is wrong.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from datetime import date, timedelta
from typing import NamedTuple

from kontobahn.reconciliation.core.matcher import Matcher
from kontobahn.reconciliation.core.model import Discount, Knowledge, Line, OpenItem, OwnPayment, Person
from tests.matching.events import Event
from tests.matching.world import company, iban
from tests.statement_builder import Booking

DAY = date(2026, 5, 4)


class Trap(NamedTuple):
    event: Event
    matcher: Matcher


class Trapper:
    """A client with a few customers, whose first two the trap is about."""

    def __init__(self, r: random.Random, reference: str) -> None:
        self.r = r
        self.reference = reference
        self.persons = [Person(f"{10_001 + n}0000", company(r), (iban(r),), (str(10_001 + n),)) for n in range(6)]
        self.amount = r.choice((4_900, 9_900, 19_900, r.randint(2_000, 500_000)))
        self.items: list[OpenItem] = []
        self.width = r.choice((5, 6, 7))
        self.payments: tuple[OwnPayment, ...] = ()
        for _ in range(24):
            self.item(r.choice(self.persons), r.choice((4_900, 9_900, 19_900, r.randint(2_000, 500_000))))

    def number(self) -> str:
        return str(self.r.randint(10 ** (self.width - 1), 10**self.width - 1))

    def item(self, person: Person, amount: int, beleg: str = "", **changes: object) -> OpenItem:
        day = DAY - timedelta(self.r.randint(5, 40))
        item = OpenItem(person.konto, beleg or self.number(), day, amount)._replace(**changes)  # type: ignore[arg-type]
        self.items = [*(other for other in self.items if other.key != item.key), item]
        return item

    def trap(
        self,
        kind: str,
        text: str,
        amount: int,
        person: Person | None,
        *paid: OpenItem,
        reference: str | None = None,
        known: bool = True,
    ) -> Trap:
        """`person` pays; None is somebody who is in no books. `paid` is what that really settles."""
        name, account = (person.name, person.ibans[0]) if person else (company(self.r), iban(self.r))
        if not known and person:
            # His IBAN is in no books, only the name is.
            account = iban(self.r)
        booking = Booking(
            amount, text, name, account, None, reference, booked=DAY, valued=DAY, reference=self.reference
        )
        truth = tuple(Line("item", item.konto, item.beleg, item.open_minor) for item in paid)
        knowledge = Knowledge(persons=tuple(self.persons), payments=self.payments, fee_konto="49700000")
        return Trap(Event(kind, booking, truth), Matcher(self.items, knowledge))


def twins(t: Trapper) -> Trap:
    one, other = t.item(t.persons[0], t.amount), t.item(t.persons[0], t.amount)
    text = t.r.choice(("Zahlung", "Rechnung", f"{one.beleg} {other.beleg}", f"Rechnung {other.beleg} oder {one.beleg}"))
    return t.trap("twins", text, t.amount, t.persons[0], other)


def twin_paid_before(t: Trapper) -> Trap:
    paid = t.item(t.persons[0], 0)
    t.item(t.persons[0], t.amount)
    return t.trap("twin paid before", f"Rechnung {paid.beleg}", t.amount, t.persons[0])


def twin_names(t: Trapper) -> Trap:
    """Two customers whose names differ by a letter, with the same amount; the payer names no number."""
    erika, erik = t.persons[0]._replace(name="Erika Mustermann"), t.persons[1]._replace(name="Erik Mustermann")
    t.persons[:2] = [erika, erik]
    t.item(erika, t.amount)
    return t.trap("twin names", "Zahlung", t.amount, erik, t.item(erik, t.amount), known=False)


def reused(t: Trapper) -> Trap:
    one = t.item(t.persons[0], t.amount)
    other = t.item(t.persons[1], t.amount, one.beleg)
    return t.trap("number used twice", f"Rechnung {one.beleg}", t.amount, None, t.r.choice((one, other)))


def inside_iban(t: Trapper) -> Trap:
    """The payer's IBAN in the text contains a number of his own, with the right amount; he pays the other."""
    account = iban(t.r)
    digits = account[-t.width :] if t.r.random() < 0.5 else account[4 : 4 + t.width]
    if digits[0] == "0":
        digits, account = "1" + digits[1:], account[: -t.width] + "1" + account[1 - t.width :]
    t.item(t.persons[0], t.amount, digits)
    blanks = " ".join(account[start : start + 4] for start in range(0, len(account), 4))
    bank = f"Kto {account[-10:]} BLZ {account[4:12]}"
    text = t.r.choice((f"IBAN {account}", f"von Konto {blanks}", f"Zahlung {account} danke", bank, f"IBAN: {blanks}"))
    return t.trap("digits inside an IBAN", text, t.amount, t.persons[0], t.item(t.persons[0], t.amount))


def equal_amount(t: Trapper) -> Trap:
    t.item(t.persons[0], t.amount)
    return t.trap("same amount", t.r.choice(("Zahlung", "Rechnung", "Danke", "Spende")), t.amount, None)


def number_of_another(t: Trapper) -> Trap:
    """A payer writes a number that is another customer's, and both owe the same."""
    other = t.item(t.persons[1], t.amount)
    mine = t.item(t.persons[0], t.amount)
    text = t.r.choice((f"Rechnung {other.beleg}", f"Ihre Nr. {other.beleg}", other.beleg))
    return t.trap("another customer's number", text, t.amount, t.persons[0], mine, known=t.r.random() < 0.5)


def part_of_longer(t: Trapper) -> Trap:
    item = t.item(t.persons[0], t.amount)
    more = t.r.randint(10, 99)
    number = t.r.choice(
        (f"{more}{item.beleg}", f"{item.beleg}{more}", f"0171 {item.beleg}", f"{more}-{item.beleg}-{more}")
    )
    text = t.r.choice((f"Auftrag {number}", f"Bestellung {number}", f"Tel. {number}", number))
    return t.trap("part of a longer number", text, t.amount, t.persons[0], t.item(t.persons[0], t.amount))


def customer_number(t: Trapper) -> Trap:
    """The payer's customer number is also the number of one of his documents, with the right amount."""
    number = t.persons[0].numbers[0]
    t.item(t.persons[0], t.amount, number)
    text = t.r.choice((f"Kd-Nr. {number}", f"Kunde {number}", f"Kundennummer: {number}", number))
    return t.trap("customer number", text, t.amount, t.persons[0], t.item(t.persons[0], t.amount))


def year(t: Trapper) -> Trap:
    t.item(t.persons[0], t.amount, "2026")
    text = t.r.choice(("Jahresbeitrag 2026", "Wartung 05/2026", "Miete Mai 2026", "Leistung vom 04.05.2026", "2026"))
    return t.trap("a year", text, t.amount, t.persons[0], t.item(t.persons[0], t.amount))


def flat(t: Trapper) -> Trap:
    """A short number that stands for something else in the payer's text."""
    number = str(t.r.randint(11, 999))
    t.item(t.persons[0], t.amount, number)
    text = t.r.choice((f"Wohnung {number}", f"Zimmer {number}", f"Stellplatz {number}", f"Nutzung Raum {number}"))
    return t.trap("flat number", text, t.amount, t.persons[0], t.item(t.persons[0], t.amount))


def postcode(t: Trapper) -> Trap:
    number = str(t.r.randint(10_115, 99_998))
    t.item(t.persons[0], t.amount, number)
    text = t.r.choice((f"Baustelle {number} Berlin", f"Hauptstr. 5, {number} Hamburg", f"Objekt {number} Kassel"))
    return t.trap("postcode", text, t.amount, t.persons[0], t.item(t.persons[0], t.amount))


def other_direction(t: Trapper) -> Trap:
    item = t.item(t.persons[0], t.amount)
    return t.trap("other direction", f"Erstattung zu Rechnung {item.beleg}", -t.amount, t.persons[0])


def not_yet_written(t: Trapper) -> Trap:
    """The number will be that of a document dated weeks after the payment."""
    later = t.item(t.persons[0], t.amount, day=DAY + timedelta(t.r.randint(8, 60)))
    return t.trap("document after the payment", f"Rechnung {later.beleg}", t.amount, t.persons[0])


def discount_too_late(t: Trapper) -> Trap:
    amount, day = t.amount * 10, DAY - timedelta(t.r.randint(15, 60))
    item = t.item(t.persons[0], amount, day=day, discounts=(Discount(day + timedelta(10), "2", amount // 50),))
    return t.trap("Skonto too late", f"Rechnung {item.beleg}", amount - amount // 50, t.persons[0])


def sum_by_chance(t: Trapper) -> Trap:
    """Two numbers are named, one is another customer's, and the sum fits."""
    one, other = t.item(t.persons[0], t.amount), t.item(t.persons[1], t.amount * 2)
    return t.trap("two customers", f"{one.beleg} und {other.beleg}", t.amount * 3, t.persons[0], one, other)


def reference_of_the_payer(t: Trapper) -> Trap:
    """The payer's own document number, in the end-to-end id, is one of ours of somebody else."""
    other = t.item(t.persons[1], t.amount)
    mine = t.item(t.persons[0], t.amount)
    return t.trap("the payer's own number", "Zahlung", t.amount, t.persons[0], mine, reference=other.beleg)


def stolen_reference(t: Trapper) -> Trap:
    """The end-to-end id of one of our payments comes with another amount, or two payments share it."""
    item = t.item(t.persons[0]._replace(konto="700010000"), -t.amount)
    one = OwnPayment("KB-1", -t.amount, f"Rechnung {item.beleg}", (item.key,))
    t.payments = (one,) if t.r.random() < 0.5 else (one, one._replace(keys=()))
    amount = -t.amount - 1 if len(t.payments) == 1 else -t.amount
    return t.trap("end-to-end id again", "Zahlung", amount, None, reference="KB-1")


TRAPS: tuple[Callable[[Trapper], Trap], ...] = (
    twins, twin_paid_before, twin_names, reused, inside_iban, equal_amount, number_of_another, part_of_longer, customer_number, year,
    flat, postcode, other_direction, not_yet_written, discount_too_late, sum_by_chance, reference_of_the_payer, stolen_reference,
)  # fmt: skip


def make_traps(seed: int, count: int) -> list[Trap]:
    r = random.Random(seed)
    return [TRAPS[number % len(TRAPS)](Trapper(r, f"T{number:06d}")) for number in range(count)]
