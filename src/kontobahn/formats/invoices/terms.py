"""The terms of the standard and their values in an invoice, for rules that are about one term."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from operator import attrgetter
from typing import Any, NamedTuple

from kontobahn.formats.invoices.model import Invoice

# Of the document itself. What is on the way and None makes a rule about the term not apply.
_DOCUMENT = {
    "BT-1": "number", "BT-2": "issued_on", "BT-3": "type_code", "BT-5": "currency", "BT-6": "vat_currency", "BT-10": "buyer_reference",
    "BT-23": "process", "BT-24": "specification", "BT-27": "seller.name", "BG-5": "seller.address", "BT-37": "seller.address.city",
    "BT-38": "seller.address.postal_code", "BT-40": "seller.address.country_code", "BT-34": "seller.electronic_address",
    "BT-34s": "seller.electronic_address.scheme", "BT-44": "buyer.name", "BG-8": "buyer.address", "BT-52": "buyer.address.city",
    "BT-53": "buyer.address.postal_code", "BT-55": "buyer.address.country_code", "BT-49": "buyer.electronic_address",
    "BT-49s": "buyer.electronic_address.scheme", "BT-59": "payee.name", "BT-62": "tax_representative.name",
    "BG-12": "tax_representative.address", "BT-63": "tax_representative.vat_id", "BT-69": "tax_representative.address.country_code",
    "BT-77": "delivery.address.city", "BT-78": "delivery.address.postal_code", "BT-80": "delivery.address.country_code",
    "BT-81": "payment.means_code", "BT-87": "payment.card.number", "BT-106": "totals.lines_minor", "BT-109": "totals.net_minor",
    "BT-112": "totals.gross_minor", "BT-115": "totals.due_minor",
}  # fmt: skip
# Of a group that is repeated: its name, where its members are, and what counts as one.
_REPEATED = {
    "BT-126": ("BG-25", "id"), "BT-129": ("BG-25", "quantity"), "BT-130": ("BG-25", "unit_code"), "BT-131": ("BG-25", "net_minor"),
    "BT-153": ("BG-25", "name"), "BT-146": ("BG-25", "net_price"), "BT-151": ("BG-25", "vat_category"),
    "BT-157s": ("BG-25", "standard_item.scheme"), "BT-92": ("BG-20", "amount_minor"), "BT-95": ("BG-20", "vat_category"),
    "BT-99": ("BG-21", "amount_minor"), "BT-102": ("BG-21", "vat_category"), "BT-136": ("BG-27", "amount_minor"),
    "BT-141": ("BG-28", "amount_minor"), "BT-116": ("BG-23", "net_minor"), "BT-117": ("BG-23", "vat_minor"),
    "BT-118": ("BG-23", "category"), "BT-84": ("BG-17", "iban"), "BT-122": ("BG-24", "id"), "BT-125m": ("BG-24", "media_type"),
    "BT-25": ("BG-3", "number"),
}  # fmt: skip
_EMPTY: Mapping[str, int] = {}
_OF_LINE = attrgetter("allowances_charges")


class Member(NamedTuple):
    """One member of a repeated group, and its number for places."""

    numbers: Mapping[str, int]
    value: Any


def members(invoice: Invoice, group: str) -> Iterator[Member]:
    """Yields the members of a group. Allowances and charges share their numbers, since they share their place."""
    if group in ("BG-27", "BG-28"):
        if not any(map(_OF_LINE, invoice.lines)):
            return
        for number, line in enumerate(invoice.lines, 1):
            for inner, item in enumerate(line.allowances_charges, 1):
                if item.is_charge == (group == "BG-28"):
                    yield Member({"BG-25": number, "BG-27": inner}, item)
    elif group in ("BG-20", "BG-21"):
        for number, item in enumerate(invoice.allowances_charges, 1):
            if item.is_charge == (group == "BG-21"):
                yield Member({"BG-20": number}, item)
    else:
        place = "BG-16" if group == "BG-17" else group
        for number, item in enumerate(_plain(invoice, group), 1):
            yield Member({place: number}, item)


def _plain(invoice: Invoice, group: str) -> Sequence[Any]:
    match group:
        case "BG-25":
            return invoice.lines
        case "BG-23":
            return invoice.vat_breakdown
        case "BG-24":
            return invoice.attachments
        case "BG-17":
            return invoice.payment.transfers
    return invoice.preceding


class Term:
    """A term that rules ask for: `values` yields each occurrence, where its group is."""

    def __init__(self, name: str) -> None:
        if name not in _DOCUMENT and name not in _REPEATED:
            raise KeyError(name)
        self.name = name
        self.group, path = _REPEATED.get(name, ("", _DOCUMENT.get(name, "")))
        *self.way, self.last = path.split(".")
        self._way = [attrgetter(part) for part in self.way]
        self._get = attrgetter(self.last)

    def values(self, invoice: Invoice) -> Iterator[Member]:
        """Yields the value of each group that has the term's own group."""
        if not self.group:
            yield from self._of(invoice, _EMPTY)
            return
        for numbers, member in members(invoice, self.group):
            yield from self._of(member, numbers)

    def missing(self, invoice: Invoice) -> Iterator[Mapping[str, int]]:
        """Yields the places where the term is missing though its group is there."""
        yield from (member.numbers for member in self.values(invoice) if member.value is None or member.value == "")

    def others(self, invoice: Invoice, codes: frozenset[str]) -> Iterator[Member]:
        """Yields each value that is there and is none of the codes."""
        if not self._way:
            if self.group == "BG-25" and codes.issuperset(map(self._get, invoice.lines)):
                return
            if not self.group and self._get(invoice) in codes:
                return
        for member in self.values(invoice):
            if member.value is not None and member.value != "" and str(member.value) not in codes:
                yield member

    def _of(self, value: Any, numbers: Mapping[str, int]) -> Iterator[Member]:
        for step in self._way:
            value = step(value)
            if value is None:
                return
        yield Member(numbers, self._get(value))


class Presence:
    """Several terms at once: most invoices have what they need, which is told without a step in Python for each term and line."""

    def __init__(self, terms: Iterable[Term]) -> None:
        lasts: dict[tuple[str, tuple[str, ...]], list[str]] = {}
        for term in terms:
            lasts.setdefault((term.group, tuple(term.way)), []).append(term.last)
        self._document = [
            ([attrgetter(part) for part in way], attrgetter(*names, names[0]))
            for (group, way), names in lasts.items()
            if not group
        ]
        # The last of two equal names makes a tuple of a single one, too.
        self._groups = [
            (group, [attrgetter(part) for part in way], attrgetter(*names, names[0]))
            for (group, way), names in lasts.items()
            if group
        ]

    def is_plain(self, invoice: Invoice) -> bool:
        """Tells that no term is missing where its group is there. False says nothing: a zero, for one, is looked at more closely."""
        return all(_has_all(invoice, way, get) for way, get in self._document) and all(
            all(map(all, map(get, invoice.lines)))
            if group == "BG-25" and not way
            else all(_has_all(member.value, way, get) for member in members(invoice, group))
            for group, way, get in self._groups
        )


def _has_all(value: Any, way: Sequence[Any], get: Any) -> bool:
    for step in way:
        value = step(value)
        if value is None:
            return True
    return all(get(value))
