"""Input and proposals of the matcher. Amounts are cents; money in and SOLL are positive.

A movement of x reduces open items by lines that sum to x: an item of 100.00 that is paid with 98.00 and 2.00 Skonto
has the lines `item` 100.00 and `skonto` -2.00.
"""

from __future__ import annotations

from datetime import date
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
