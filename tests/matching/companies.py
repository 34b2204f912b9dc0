"""Six made-up companies, each with numbers, prices and customers of its own kind: the second set of worlds that the matcher is judged
with, made from what bookkeepers report and not from what the rules know.

Everything follows from a seed.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from datetime import date, timedelta
from typing import NamedTuple

from kontobahn.reconciliation.core.model import Discount, Knowledge, Learned, Line, OpenItem, OwnPayment, Person, Rule
from tests.matching.world import company, iban
from tests.statement_builder import Booking

FIRST_DAY, DAYS = date(2026, 1, 5), 270
OWN_IBAN, FEE_KONTO, TRANSFER_KONTO = "DE21500500009876543210", "49700000", "13600000"
MONTHS = (
    "Januar", "Februar", "März", "April", "Mai", "Juni", "Juli", "August", "September", "Oktober", "November", "Dezember",
)  # fmt: skip
STREETS = (
    "Lindenstr.", "Hafenweg", "Am Markt", "Goethestr.", "Ringstr.", "Bergstr.", "Mühlenweg", "Parkallee", "Kirchgasse", "Uferweg",
)  # fmt: skip

# From the running number, the day and how many were written that day before to a document's number.
Numbering = Callable[[int, date, int], str]
# From the running number, the day and the document's number to what a payer writes instead of the number.
Saying = Callable[[int, date, str], str]


class Trade(NamedTuple):
    """The kind of a company: how it numbers its documents, how payers write that, its prices, and who has terms or pays by the month."""

    numbering: Numbering
    documents: int
    sayings: tuple[Saying, ...]
    prices: tuple[int, ...]  # none: any amount
    terms: float = 0.0
    standing: float = 0.0


TRADES: dict[str, Trade] = {
    "caretaker": Trade(
        lambda n, day, _: f"{n}/{day:%Y}",
        700,
        (
            lambda n, day, _: f"{n}/{day:%y}",
            lambda n, day, _: f"{n}-{day:%Y}",
            lambda n, day, _: f"{n} / {day:%Y}",
            lambda n, day, _: f"{day:%Y}/{n}",
            lambda n, day, _: f"{n:04d}/{day:%Y}",
        ),
        (11_900, 17_850, 23_800, 35_700, 8_925),
        standing=0.5,
    ),
    "craftsman": Trade(
        lambda n, day, _: f"{day:%y}-{n:04d}",
        600,
        (
            lambda n, day, _: f"{day:%y}{n:04d}",
            lambda n, day, _: f"{day:%y}/{n:04d}",
            lambda n, day, _: f"{day:%y}-{n}",
            lambda n, day, _: f"{day:%Y}-{n:04d}",
            lambda n, day, _: f"{n:04d}/{day:%y}",
        ),
        (),
        terms=0.5,
    ),
    "wholesaler": Trade(
        lambda n, day, _: str(104_000 + n),
        900,
        (
            lambda n, day, _: f"{104_000 + n:,}".replace(",", "."),
            lambda n, day, _: f"{104_000 + n:,}".replace(",", " "),
            lambda n, day, _: f"{str(104_000 + n)[:4]} {str(104_000 + n)[4:]}",
            lambda n, day, _: f"{104_000 + n:,}".replace(",", "."),
            lambda n, day, _: f"{104_000 + n:08d}",
        ),
        (),
        terms=0.3,
    ),
    "laboratory": Trade(
        lambda n, day, nth: f"{day:%Y%m%d}" + (f"-{nth}" if nth else ""),
        500,
        (
            lambda n, day, beleg: f"{day:%d.%m.%Y}{beleg[8:]}",
            lambda n, day, beleg: f"{day:%Y-%m-%d}{beleg[8:]}",
            lambda n, day, beleg: beleg.replace("-", "/"),
            lambda n, day, beleg: f"{day:%Y %m %d}{beleg[8:]}",
        ),
        (6_500, 9_900, 14_250, 19_900, 28_400, 31_150, 47_600),
    ),
    "software": Trade(
        lambda n, day, _: f"RE-{day:%Y}-{n:05d}",
        800,
        (
            lambda n, day, _: f"RE {day:%Y} {n:05d}",
            lambda n, day, _: f"RE{day:%Y}{n:05d}",
            lambda n, day, _: f"{n}/{day:%Y}",
            lambda n, day, _: f"{n:05d} vom {day:%d.%m.%y}",
            lambda n, day, _: f"RE-{day:%Y}-{n}",
            lambda n, day, _: f"RE-{day:%Y}-{f'{n:05d}'[:2]} {f'{n:05d}'[2:]}",
        ),
        (4_900, 9_900, 19_900),
        standing=0.3,
    ),
    "club": Trade(
        lambda n, day, _: f"R{900 + n}",
        600,
        (
            lambda n, day, _: f"R {900 + n}",
            lambda n, day, _: f"{900 + n}",
            lambda n, day, _: f"r{900 + n}",
            lambda n, day, _: f"R-{900 + n}",
            lambda n, day, _: f"R{900 + n} vom {day:%d.%m.%Y}",
        ),
        (6_000, 12_000, 18_000, 24_000, 9_000),
    ),
}


class Document(NamedTuple):
    """An open item with the running number behind its own number, and its person."""

    item: OpenItem
    running: int
    person: Person

    @property
    def beleg(self) -> str:
        return self.item.beleg

    @property
    def amount(self) -> int:
        return self.item.open_minor


class Company:
    """One company's customers and documents, and what its bank account saw."""

    def __init__(self, r: random.Random, kind: str) -> None:
        self.r = r
        self.kind = kind
        self.trade = TRADES[kind]
        self.persons: dict[str, Person] = {}
        self.items: list[OpenItem] = []
        self.settled: list[OpenItem] = []
        self.learned: list[Learned] = []
        self.rules: tuple[Rule, ...] = ()
        self.payments: list[OwnPayment] = []
        self._free = list(range(1, self.trade.documents + 1))
        r.shuffle(self._free)
        self._on_day: dict[date, int] = {}
        self._count = 0
        self._drawn: set[str] = set()

    def knowledge(self) -> Knowledge:
        return Knowledge(
            persons=tuple(self.persons.values()),
            learned=tuple(self.learned),
            rules=self.rules,
            payments=tuple(self.payments),
            own_ibans=frozenset((OWN_IBAN,)),
            fee_konto=FEE_KONTO,
            transfer_konto=TRANSFER_KONTO,
        )

    def customer(self, name: str = "", *, known: float = 0.5, account: str = "") -> Person:
        """A new customer whose IBAN the books know with a likelihood of `known`."""
        number = 10_001 + len(self.persons)
        account = account or iban(self.r)
        ibans = (account,) if self.r.random() < known else ()
        person = Person(f"{number}0000", name or self.unused_name(), ibans, (str(number),))
        self.persons[person.konto] = person
        return person

    def unused_name(self) -> str:
        """A name that nobody bears, and that no customer who comes later will bear."""
        taken = {person.name for person in self.persons.values()} | self._drawn
        while (name := company(self.r)) in taken:
            pass
        self._drawn.add(name)
        return name

    def price(self) -> int:
        return self.r.choice(self.trade.prices) if self.trade.prices else self.r.randint(1_500, 900_000)

    def document(
        self,
        person: Person,
        amount: int = 0,
        *,
        running: int | None = None,
        terms: bool = False,
        text: str = "",
        day: date | None = None,
    ) -> Document:
        """A new document; its number and day follow from its running number."""
        running = self._take(running)
        day = day or FIRST_DAY + timedelta(running * DAYS // self.trade.documents)
        nth = self._on_day[day] = self._on_day.get(day, -1) + 1
        beleg = self.trade.numbering(running, day, nth + 1 if nth else 0)
        amount = amount or self.price()
        discounts = (Discount(day + timedelta(10), "2", (amount * 2 + 50) // 100),) if terms else ()
        item = OpenItem(person.konto, beleg, day, amount, day + timedelta(30), discounts, text)
        self.items.append(item)
        return Document(item, running, person)

    def _take(self, running: int | None) -> int:
        if running is None:
            if not self._free:
                # Beyond the year's plan: the numbers go on, on the last days.
                self.trade = self.trade._replace(documents=self.trade.documents + 50)
                self._free = list(range(self.trade.documents - 49, self.trade.documents + 1))
                self.r.shuffle(self._free)
            return self._free.pop()
        self._free.remove(running)
        return running

    def free(self, fits: Callable[[int], bool]) -> int | None:
        """A running number that is not used yet and fits."""
        return next((running for running in self._free if fits(running)), None)

    def settle(self, document: Document) -> None:
        """The office has booked its payment before: only the number is known."""
        self.items.remove(document.item)
        self.settled.append(document.item._replace(open_minor=0))

    def said(self, document: Document) -> str:
        return self.r.choice(self.trade.sayings)(document.running, document.item.day, document.beleg)

    def booking(
        self, amount: int, text: str, payer: Person | None, day: date, *, account: str | None = None, name: str | None = None,
        reference: str | None = None,
    ) -> Booking:  # fmt: skip
        """`payer` pays; None is somebody who is in no books."""
        if payer:
            name = payer.name if name is None else name
            account = account or (payer.ibans[0] if payer.ibans else iban(self.r))
        self._count += 1
        return Booking(
            amount, text, name or self.unused_name(), account or iban(self.r), None, reference, booked=day, valued=day,
            reference=f"{self.kind[:3].upper()}{self._count:07d}",
        )  # fmt: skip


def paid(*documents: Document) -> tuple[Line, ...]:
    return tuple(Line("item", document.item.konto, document.beleg, document.amount) for document in documents)


def on_account(person: Person, amount: int) -> tuple[Line, ...]:
    return (Line("on_account", person.konto, "", amount),)
