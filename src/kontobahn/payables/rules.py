"""The life of a payable, its creditor, and what may be proposed for it. Pure."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import date, timedelta
from decimal import ROUND_HALF_UP, Decimal
from typing import Literal, NamedTuple, get_args

from kontobahn.formats.invoices.model import CARDS, CASH, DIRECT_DEBITS, Discount
from kontobahn.ledger.konto import is_debitor, is_personenkonto
from kontobahn.ledger.partner_names import NameIndex, normal_name, written_name
from kontobahn.ledger.personenkonto import Geschaeftspartner
from kontobahn.ledger.steuer import EU_ERWERB, LEISTUNGSEMPFAENGER, kind_of_key

# Choice 47: the statuses of a payable.
Status = Literal["new", "to_release", "released", "in_payment", "paid", "rejected", "needs_person"]
STATUSES: tuple[Status, ...] = get_args(Status)
# Those in which something is still to be done.
OPEN: tuple[Status, ...] = ("new", "to_release", "released", "in_payment", "needs_person")
# Choice 47: the kinds of documents.
Kind = Literal["invoice", "credit_note", "correction", "prepayment"]
Action = Literal["release", "reject", "hold", "assign", "confirm_iban", "confirm_another"]
# The statuses that each action may be taken in.
MAY: dict[Action, frozenset[Status]] = {
    "release": frozenset(("to_release",)),
    "reject": frozenset(("new", "to_release", "released", "needs_person")),
    "hold": frozenset(("new", "to_release", "released", "needs_person")),
    "assign": frozenset(("new", "to_release", "needs_person")),
    "confirm_iban": frozenset(("needs_person",)),
    "confirm_another": frozenset(("needs_person",)),
}
# The reasons why a person has to look: money would go to an account that the creditor never had; the number stands for other sums already.
Stop = Literal["iban_changed", "number_known"]
# Reasons why an invoice is not paid by a payment run.
Why = Literal[
    "not_released", "iban_changed", "not_to_be_paid", "not_euro", "no_iban", "not_named", "credit_exceeds", "too_much"
]
# Means by which the creditor gets the money without us.
_PAID_OTHERWISE = CASH | CARDS | DIRECT_DEBITS


def status_of(konto: str, stops: Iterable[str]) -> Status:
    """Returns where a payable stands that nobody has decided about."""
    if list(stops):
        return "needs_person"
    return "to_release" if konto else "new"


def is_collected(means_code: str) -> bool:
    """Returns whether the creditor gets the money without us: by direct debit or card, or has had it in cash."""
    return means_code in _PAID_OTHERWISE


def is_to_be_paid(means_code: str, payable_minor: int) -> bool:
    """Returns whether money is to be sent for it: not if the creditor takes it, and not if nothing is owed."""
    return not is_collected(means_code) and payable_minor > 0


# A document number in books has at most so many characters.
MAX_BELEG = 36


def beleg_of(number: str) -> str:
    """Returns the number of an invoice as books write it."""
    return number[:MAX_BELEG]


# --- Skonto


class Skonto(NamedTuple):
    """A discount that may be deducted up to and including a day."""

    percent: Decimal
    days: int
    until: date
    amount_minor: int


def skonto_of(discounts: Iterable[Discount], issued_on: date, due_minor: int) -> list[Skonto]:
    """Returns the Skonto of an invoice, the largest first; none that lacks its rate or its day, or is no part of what is due."""
    found = []
    for one in discounts:
        until = one.until or (None if one.days is None else issued_on + timedelta(days=one.days))
        if one.percent is None or until is None or not 0 < one.percent < 100 or due_minor <= 0:
            continue
        base = due_minor if one.base_minor is None else one.base_minor
        amount = one.amount_minor
        if amount is None:
            amount = int((base * one.percent / 100).quantize(Decimal(1), ROUND_HALF_UP))
        if 0 < amount < due_minor:
            found.append(Skonto(one.percent, (until - issued_on).days, until, amount))
    return sorted(found, key=lambda skonto: (-skonto.amount_minor, skonto.until))


# --- The same invoice in another form


def identity(vat_id: str, tax_number: str, name: str, number: str, issued_on: date) -> str:
    """Returns seller, number and day in a form that does not depend on how a file writes them."""
    seller = bare(vat_id) or bare(tax_number) or _plain_name(name)
    return f"{seller}|{bare(number)}|{issued_on.isoformat()}"


def bare(text: str) -> str:
    """Letters and digits alone, in capitals."""
    return re.sub(r"[^0-9A-Z]", "", text.upper())


def _plain_name(name: str) -> str:
    """Returns a name without its legal form; as it is written if nothing else is in it."""
    return normal_name(name) or written_name(name)


# --- The creditor


class Seller(NamedTuple):
    """The one who sent an invoice, as far as the books may know it."""

    name: str
    vat_id: str
    ibans: tuple[str, ...]
    # The creditor of an earlier invoice with the same tax number, which books do not keep.
    konto: str = ""


class KnownCreditor(NamedTuple):
    """A creditor in the books of a client."""

    connection_id: str
    client_id: str
    konto: str
    ibans: tuple[str, ...]


def find_creditor(seller: Seller, partners: Sequence[Geschaeftspartner]) -> Geschaeftspartner | None:
    """Returns the creditor, if exactly one fits by the first of VAT id, tax number, IBAN and name that any fits by.

    Somebody with another VAT id is somebody else, whatever the name and the account.
    """
    vat_id = bare(seller.vat_id)
    same = [one for one in partners if vat_id and bare(one.ust_id) == vat_id and _is_creditor(one)]
    if same:
        return _only(same)
    creditors = _possible(seller, partners)
    by_tax_number = [one for one in creditors if one.konto == seller.konto]
    if by_tax_number:
        return _only(by_tax_number)
    ibans = set(seller.ibans)
    by_iban = [one for one in creditors if ibans.intersection(one.ibans)]
    if by_iban:
        return _only(by_iban)
    return _only(_of_name(seller.name, creditors))


def _of_name(name: str, creditors: Sequence[Geschaeftspartner]) -> list[Geschaeftspartner]:
    kontos = NameIndex((one.konto, one.name) for one in creditors).same(name)
    return [one for one in creditors if one.konto in kontos]


def _only(found: Sequence[Geschaeftspartner]) -> Geschaeftspartner | None:
    return found[0] if len(found) == 1 else None


def look_alikes(seller: Seller, partners: Sequence[Geschaeftspartner]) -> list[Geschaeftspartner]:
    """Returns creditors of the same name that have another VAT id."""
    vat_id = bare(seller.vat_id)
    others = [
        one for one in partners if vat_id and one.ust_id and bare(one.ust_id) != vat_id and not is_debitor(one.konto)
    ]
    return _of_name(seller.name, others)


def alike(seller: Seller, partners: Sequence[Geschaeftspartner]) -> list[Geschaeftspartner]:
    """Returns creditors whose names are so alike that a person should look whether it is one of them."""
    creditors = _possible(seller, partners)
    kontos = [konto for konto, _ in NameIndex((one.konto, one.name) for one in creditors).find(seller.name)]
    return [one for one in creditors if one.konto in kontos]


def _possible(seller: Seller, partners: Sequence[Geschaeftspartner]) -> list[Geschaeftspartner]:
    """Returns the creditors, without those who have another VAT id."""
    return [one for one in partners if _is_creditor(one) and not (seller.vat_id and one.ust_id)]


def _is_creditor(partner: Geschaeftspartner) -> bool:
    return is_personenkonto(partner.konto) and not is_debitor(partner.konto)


def is_changed_iban(ibans: Sequence[str], known: Iterable[str]) -> bool:
    """Returns whether none of the accounts that an invoice names is one the creditor is known by."""
    known = set(known)
    return bool(ibans and known) and not known.intersection(ibans)


# --- Account and tax key


class Proposal(NamedTuple):
    """The account that an invoice may be booked to, its tax key, and why: never booked without a person."""

    # Empty if only the key is proposed.
    konto: str
    steuer: str
    # The share of the latest invoices that were booked so; empty if there are none.
    reason: str
    # The VAT category that the key follows from, if it does.
    category: str = ""


class EarlierLeg(NamedTuple):
    """An invoice of the creditor that is booked: the account on the other side, and the tax key."""

    gegenkonto: str
    bu_schluessel: str


# Fewer say little about a habit; beyond these older ones say little about today.
_FEWEST, LATEST = 2, 24


# Purchases whose tax the buyer owes, at the full rate: from the Union, and by reverse charge. No invoice says the rate.
_KEYS_OF_CATEGORIES = {"K": (EU_ERWERB, "19"), "AE": (LEISTUNGSEMPFAENGER, "94")}


def propose(legs: Sequence[EarlierLeg], categories: Iterable[str | None] = ()) -> Proposal | None:
    """Returns the account that most of the creditor's latest invoices were booked to, if most of them agree.

    Where the invoice is of one VAT category whose tax the buyer owes, the key is one of that kind, whatever the habit.
    """
    habit, only = _habit(legs), set(categories)
    (category,) = only if len(only) == 1 else (None,)
    if category not in _KEYS_OF_CATEGORIES:
        return habit
    kind, key = _KEYS_OF_CATEGORIES[category]
    if habit is not None and kind_of_key(habit.steuer) == kind:
        return habit
    return Proposal(habit.konto if habit else "", key, habit.reason if habit else "", category)


def _habit(legs: Sequence[EarlierLeg]) -> Proposal | None:
    counted = Counter(legs[-LATEST:])
    if not counted:
        return None
    (leg, times), total = counted.most_common(1)[0], counted.total()
    if total < _FEWEST or times * 2 <= total:
        return None
    return Proposal(leg.gegenkonto, leg.bu_schluessel, f"{times}/{total}")
