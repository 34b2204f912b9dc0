"""Input and proposals of the matcher. Amounts are cents; money in and SOLL are positive.

A movement of x reduces open items by lines that sum to x: an item of 100.00 that is paid with 98.00 and 2.00 Skonto
has the lines `item` 100.00 and `skonto` -2.00.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from datetime import date, timedelta
from itertools import islice
from typing import Literal, NamedTuple

# Stored with each proposal: the same input and the same version give the same result.
ENGINE_VERSION = "2"

EvidenceClass = Literal["A1", "A2", "A3", "A4", "A5", "B1", "B2", "B3", "B4", "C"]
ACTING_CLASSES: tuple[EvidenceClass, ...] = ("A1", "A2", "A3", "A4", "A5")
CLASSES: tuple[EvidenceClass, ...] = (*ACTING_CLASSES, "B1", "B2", "B3", "B4", "C")
# The class in which rules act that a person has allowed to.
RULE_CLASS: EvidenceClass = "C"
LineKind = Literal["item", "skonto", "fee", "difference", "on_account", "return", "transfer", "ledger_account"]

Key = tuple[str, str]  # person account and document


class Discount(NamedTuple):
    """The discount that may be deducted from an item that is paid by a day."""

    until: date
    percent: str
    amount_minor: int


class OpenItem(NamedTuple):
    """A document of a person account. `open_minor` is 0 for one that is settled and still known by its number.

    A mobility invoice is an item too: its account is that of its customer, its document the invoice's number. If the books do not
    know the customer, the customer's number stands for the account.
    """

    konto: str
    beleg: str
    day: date
    open_minor: int
    due: date | None = None
    discounts: tuple[Discount, ...] = ()
    text: str = ""
    # True if the books have the account: a payment of what they do not know is never booked without a person.
    has_account: bool = True

    @property
    def key(self) -> Key:
        return self.konto, self.beleg


class Person(NamedTuple):
    """A person account. `numbers` are what texts call it by: the account's own number, a customer number."""

    konto: str
    name: str = ""
    ibans: tuple[str, ...] = ()
    numbers: tuple[str, ...] = ()
    mandates: tuple[str, ...] = ()


class Learned(NamedTuple):
    """A payer that was confirmed for a person account, and how often. Either an IBAN or a name."""

    konto: str
    times: int
    iban: str | None = None
    name: str | None = None


class Rule(NamedTuple):
    """Movements of a kind that belong to a ledger account: rent, fees, wages. Empty means any."""

    id: str
    konto: str
    text: str = ""
    iban: str = ""
    sign: Literal["in", "out", "any"] = "any"
    least_minor: int | None = None
    most_minor: int | None = None
    # A person has said that it may act alone.
    acts: bool = False


class OwnPayment(NamedTuple):
    """A payment that we ordered. `amount_minor` is negative; `keys` are the documents it was ordered for, if that is known.

    `lines` are what it pays of them to the cent, if that is known as well.
    """

    end_to_end_id: str
    amount_minor: int
    text: str = ""
    keys: tuple[Key, ...] = ()
    lines: tuple[Line, ...] = ()


class Line(NamedTuple):
    kind: LineKind
    konto: str
    beleg: str
    amount_minor: int


class MatchedMovement(NamedTuple):
    """A movement that is matched already: what a return would take back."""

    id: str
    amount_minor: int
    lines: tuple[Line, ...]
    end_to_end_id: str | None = None
    mandate: str | None = None
    bank_reference: str | None = None


class Booked(NamedTuple):
    """A payment that the books show already: what moved at the bank (signed as there), and the discount that was taken."""

    konto: str
    beleg: str
    day: date
    amount_minor: int
    skonto_minor: int = 0
    # The text beside the document: for a movement that we booked, its id.
    reference: str = ""


class Movement(NamedTuple):
    """A bank transaction, as far as the matcher looks at it. `texts` are named: svwz, eref, kref, additional."""

    id: str
    day: date
    amount_minor: int
    currency: str = "EUR"
    texts: tuple[tuple[str, str], ...] = ()
    name: str | None = None
    iban: str | None = None
    other_name: str | None = None  # ABWA, ABWE: on whose behalf
    end_to_end_id: str | None = None
    mandate: str | None = None
    bank_reference: str | None = None
    return_reference: str | None = None
    is_return: bool = False
    original_minor: int | None = None  # OAMT
    fee_minor: int = 0  # COAM, positive


class OwnMovement(NamedTuple):
    """A movement on another of our own accounts: the other side of a transfer."""

    id: str
    iban: str
    day: date
    amount_minor: int


class Knowledge(NamedTuple):
    """Everything that is known besides the open items. Empty by default: the matcher then goes by numbers and amounts."""

    persons: tuple[Person, ...] = ()
    learned: tuple[Learned, ...] = ()
    rules: tuple[Rule, ...] = ()
    payments: tuple[OwnPayment, ...] = ()
    matched: tuple[MatchedMovement, ...] = ()
    # Payments that the books show, and the movements before the first in question: those may be what was booked.
    booked: tuple[Booked, ...] = ()
    earlier: tuple[Movement, ...] = ()
    own_ibans: frozenset[str] = frozenset()
    own_movements: tuple[OwnMovement, ...] = ()
    fee_konto: str = ""
    transfer_konto: str = ""


class Reason(NamedTuple):
    """A reason: a signal, what it found, and where in which text. `bits` is what it weighs."""

    signal: str
    value: str
    field: str = ""
    start: int = 0
    end: int = 0
    bits: float = 0.0


class Proposal(NamedTuple):
    """`acts` is whether the evidence suffices to act alone; whether that is wanted is a switch of the account."""

    evidence: EvidenceClass
    score: float
    lines: tuple[Line, ...]
    reasons: tuple[Reason, ...]
    acts: bool = False

    @property
    def keys(self) -> tuple[Key, ...]:
        return tuple((line.konto, line.beleg) for line in self.lines if line.kind == "item")

    @property
    def sum_minor(self) -> int:
        return sum(line.amount_minor for line in self.lines)


# The open items of a client while they are matched: found by document, account and amount, and reduced as they are
# paid.


# Days by which a payment may miss a discount's deadline: a payer's bank takes its time.
GRACE = timedelta(days=3)
# A discount is rounded by the payer.
CENT = 1
MAX_TOGETHER = 5
# With more open items a sum that fits says little: by chance others fit too.
MAX_ITEMS = 10
# Ways to pay several named items: each in full or less one of its discounts.
MAX_STATES = 4_096


class OpenItems:
    def __init__(self, items: Iterable[OpenItem]) -> None:
        self._items: dict[Key, OpenItem] = {}
        self._by_konto: dict[str, dict[Key, None]] = defaultdict(dict)
        self._by_amount: dict[int, dict[Key, None]] = defaultdict(dict)
        self._ever: dict[str, list[Key]] = defaultdict(list)
        for item in sorted(items, key=lambda item: (item.day, item.konto, item.beleg)):
            if item.key not in self._items:
                self._items[item.key] = item
                self._ever[item.konto].append(item.key)
                self._file(item)

    def _file(self, item: OpenItem) -> None:
        if item.open_minor:
            self._by_konto[item.konto][item.key] = None
            self._by_amount[item.open_minor][item.key] = None

    def __iter__(self) -> Iterator[OpenItem]:
        return iter(self._items.values())

    def among(self, keys: Iterable[Key]) -> list[OpenItem]:
        """The documents of these keys that are known, open or not."""
        return [self._items[key] for key in keys if key in self._items]

    def of(self, konto: str, day: date, most: int) -> list[OpenItem]:
        """The account's open items that were written by a day, the oldest first, up to a limit."""
        found = (self._items[key] for key in self._by_konto.get(konto, ()))
        return list(islice((item for item in found if item.day <= day), most))

    def ever(self, konto: str) -> list[OpenItem]:
        """All documents of the account that are known, settled or not."""
        return [self._items[key] for key in self._ever.get(konto, ())]

    def with_amount(self, amount: int, day: date, konto: str | None = None, most: int = 50) -> list[OpenItem]:
        """The items that are open with exactly this amount and were written by a day, the oldest first: of an account, or of all."""
        keys = self._by_amount.get(amount, {})
        of_konto = keys if konto is None else self._by_konto.get(konto, {})
        both = (self._items[key] for key in min(keys, of_konto, key=len) if key in of_konto and key in keys)
        return list(islice((item for item in both if item.day <= day), most))

    def reduce(self, key: Key, amount: int) -> None:
        """A payment takes an amount from an item; a return gives it back."""
        item = self._items.get(key)
        if item is None:
            return
        self._by_amount[item.open_minor].pop(key, None)
        if not self._by_amount[item.open_minor]:
            del self._by_amount[item.open_minor]
        self._by_konto[item.konto].pop(key, None)
        self._items[key] = item._replace(open_minor=item.open_minor - amount)
        self._file(self._items[key])


def same_way(one: int, other: int) -> bool:
    """Returns whether both amounts come in, or both go out."""
    return one * other > 0


def payments_of(item: OpenItem, day: date) -> list[int]:
    """Returns what may be paid for an item on a day to settle it: all of it, or less a discount."""
    return [item.open_minor, *(item.open_minor - discount for discount in discounts_on(item, day))]


def discounts_on(item: OpenItem, day: date, *, late: bool = False) -> list[int]:
    """The discounts in cents, signed as the item; in time, or those whose time is over."""
    sign = 1 if item.open_minor > 0 else -1
    return [
        sign * discount.amount_minor
        for discount in item.discounts
        if _counts(discount, item) and (day - discount.until > GRACE) == late
    ]


def _counts(discount: Discount, item: OpenItem) -> bool:
    return 0 < discount.amount_minor < abs(item.open_minor)


def lines_for(item: OpenItem, paid: int, discount: int = 0) -> tuple[Line, ...]:
    """The lines of an item that is paid, less a discount; both signed as the item."""
    lines = (Line("item", item.konto, item.beleg, paid + discount),)
    return (*lines, Line("skonto", item.konto, item.beleg, -discount)) if discount else lines


def discount_taken(item: OpenItem, paid: int, day: date) -> int | None:
    """Returns the discount if the amount settles the item with one that is in time: to the cent, give or take one."""
    for discount in discounts_on(item, day):
        if abs(item.open_minor - discount - paid) <= CENT:
            return item.open_minor - paid
    return None


# --- Amounts that add up


def exact_sums(amounts: Sequence[int], target: int) -> list[tuple[int, ...]]:
    """Returns up to two combinations of two to five places whose amounts sum to the target."""

    def search(start: int, chosen: tuple[int, ...], left: int) -> Iterator[tuple[int, ...]]:
        if len(chosen) >= 2 and not left:
            yield chosen
        if len(chosen) < MAX_TOGETHER:
            for place in range(start, len(amounts)):
                yield from search(place + 1, (*chosen, place), left - amounts[place])

    return list(islice(search(0, (), target), 2))


def exact_choice(options: Sequence[Sequence[int]], target: int, slack: int = 0) -> list[tuple[int, ...]]:
    """Chooses one amount of each list so that they sum to the target. Returns up to two choices, as places.

    Returns nothing if that would take too many states: then only a person can tell.
    """
    states: dict[int, list[tuple[int, ...]]] = {0: [()]}
    for amounts in options:
        after: dict[int, list[tuple[int, ...]]] = {}
        for total, choices in states.items():
            for place, amount in enumerate(amounts):
                kept = after.setdefault(total + amount, [])
                kept += [(*choice, place) for choice in choices[: 2 - len(kept)]]
        if len(after) > MAX_STATES:
            return []
        states = after
    found: list[tuple[int, ...]] = []
    for total in sorted(states, key=lambda total: abs(total - target)):
        if abs(total - target) > slack:
            break
        found += states[total]
    return found[:2]
