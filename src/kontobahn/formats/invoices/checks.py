"""Conditions of rules that are about more than one term: EN 16931 (BR-…), XRechnung (BR-DE-…) and the German VAT Act (UStG-…).

A check yields what it finds broken, whether or not a rule set knows the rule: the sets are data, and decide what is reported. Names
without capitals are remarks: they are told beside the findings.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from decimal import ROUND_HALF_UP, Decimal
from functools import cache, lru_cache
from itertools import groupby
from operator import attrgetter
from typing import Any, NamedTuple

from kontobahn.formats.invoices.model import (
    CARDS,
    CORRECTION,
    CREDIT_TRANSFERS,
    Invoice,
    Line,
    VatBreakdown,
    has_wrong_line,
)
from kontobahn.money import amount_text

# Lists of codes: those that a rule names one by one, and those of the standards for countries and currencies.


# Codes that are used in invoices and that the standard's list of countries does not have.
_MORE_COUNTRIES = ("1A", "XI", "EL")


@cache
def code_list(named: str) -> frozenset[str]:
    """Returns `countries`, `currencies`, or the codes of a text with blanks between them."""
    if named not in ("countries", "currencies"):
        return frozenset(named.split())
    import pycountry

    if named == "currencies":
        return frozenset(currency.alpha_3 for currency in pycountry.currencies)
    return frozenset((*(country.alpha_2 for country in pycountry.countries), *_MORE_COUNTRIES))


# The terms of the standard and their values in an invoice, for rules that are about one term.


# Of the document itself. What is on the way and None makes a rule about the term not apply.
_TERM_DOCUMENT = {
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
_RATE_OF_LINE = attrgetter("vat_category", "vat_rate")


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


def has_members(invoice: Invoice, group: str) -> bool:
    """Tells whether there may be any: False says that there are none."""
    if group in ("BG-20", "BG-21"):
        return bool(invoice.allowances_charges)
    if group in ("BG-27", "BG-28"):
        return any(map(_OF_LINE, invoice.lines))
    return bool(_plain(invoice, group))


class Term:
    """A term that rules ask for: `values` yields each occurrence, where its group is."""

    def __init__(self, name: str) -> None:
        if name not in _TERM_DOCUMENT and name not in _REPEATED:
            raise KeyError(name)
        self.name = name
        self.group, path = _REPEATED.get(name, ("", _TERM_DOCUMENT.get(name, "")))
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

    def others(self, invoice: Invoice, codes: frozenset[str]) -> Sequence[Member]:
        """Returns each value that is there and is none of the codes."""
        if not self._way:
            if self.group == "BG-25" and codes.issuperset(map(self._get, invoice.lines)):
                return ()
            if not self.group and self._get(invoice) in codes:
                return ()
            if self.group and not has_members(invoice, self.group):
                return ()
        return [
            member
            for member in self.values(invoice)
            if member.value is not None and member.value != "" and str(member.value) not in codes
        ]

    def _of(self, value: Any, numbers: Mapping[str, int]) -> Iterator[Member]:
        for step in self._way:
            value = step(value)
            if value is None:
                return
        yield Member(numbers, self._get(value))


class Presence:
    """Several terms at once: most invoices have what they need, which is found out without a step in Python for each term and line."""

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
        for way, get in self._document:
            if not _has_all(invoice, way, get):
                return False
        lines = invoice.lines
        for group, way, get in self._groups:
            if group != "BG-25":
                if has_members(invoice, group) and not all(
                    _has_all(member.value, way, get) for member in members(invoice, group)
                ):
                    return False
            elif not way:
                if not all(map(all, map(get, lines))):
                    return False
            elif any(map(way[0], lines)) and not all(_has_all(line, way, get) for line in lines):
                return False
        return True


def _has_all(value: Any, way: Sequence[Any], get: Any) -> bool:
    for step in way:
        value = step(value)
        if value is None:
            return True
    return all(get(value))


# The letters before the hyphen in rules about a VAT category, where they are not the category itself.
PREFIXES = {"K": "IC", "L": "AF", "M": "AG"}
_ZERO_RATED = ("Z", "E", "AE", "K", "G")
_WITH_RATES = ("S", "L", "M")
_WITH_REASON = ("E", "AE", "K", "G", "O")
# The standard lets taxable amounts by rate, and taxes, differ by less than one unit of the currency.
_TOLERANCE = 100
_SMALL_AMOUNT = 25_000  # section 33 UStDV
_XRECHNUNG = re.compile(
    r"urn:cen\.eu:en16931:2017#(compliant|conformant)#urn:(xoev-de:kosit:(standard|extension):|xeinkauf\.de:kosit:(extension:)?)"
    r"xrechnung_\d\.\d(#conformant#urn:xeinkauf\.de:kosit:extension:xrechnung_\d\.\d)?"
)
_EMAIL = re.compile(r"[^@\s]+@([^@.\s]+\.){1,100}[^@.\s]+")
_DIGIT = re.compile("[0-9]")
_VAT_ID = re.compile(r"[A-Z]{2}")
_DOCUMENT: Mapping[str, int] = {}


class Broken(NamedTuple):
    """A broken rule, the term that it is reported at, and the numbers of the groups around it."""

    rule: str
    term: str
    numbers: Mapping[str, int] = _DOCUMENT
    values: Mapping[str, str] = {}


def check(invoice: Invoice) -> Iterator[Broken]:
    """Yields every broken rule."""
    yield from _sums(invoice)
    yield from _lines(invoice)
    yield from _document(invoice)
    yield from _allowances(invoice)
    yield from _vat(invoice)
    yield from _germany(invoice)
    yield from _payment(invoice)
    yield from _vat_act(invoice)


def _differs(rule: str, term: str, stated: int, expected: int, numbers: Mapping[str, int] = _DOCUMENT) -> Broken:
    return Broken(rule, term, numbers, {"stated": amount_text(stated), "expected": amount_text(expected)})


# --- EN 16931


def _sums(invoice: Invoice) -> Iterator[Broken]:
    totals = invoice.totals
    lines = sum([line.net_minor or 0 for line in invoice.lines if line.is_counted])
    allowances, charges = totals.allowances_minor or 0, totals.charges_minor or 0
    own = invoice.allowances_charges
    if totals.lines_minor is not None and totals.lines_minor != lines:
        yield _differs("BR-CO-10", "BT-106", totals.lines_minor, lines)
    expected = sum(item.amount_minor or 0 for item in own if not item.is_charge)
    if expected != allowances:
        yield _differs("BR-CO-11", "BT-107", allowances, expected)
    expected = sum(item.amount_minor or 0 for item in own if item.is_charge)
    if expected != charges:
        yield _differs("BR-CO-12", "BT-108", charges, expected)
    if totals.lines_minor is not None and totals.net_minor is not None:
        expected = totals.lines_minor - allowances + charges
        if totals.net_minor != expected:
            yield _differs("BR-CO-13", "BT-109", totals.net_minor, expected)
    expected = sum(item.vat_minor or 0 for item in invoice.vat_breakdown)
    if totals.vat_minor is not None and invoice.vat_breakdown and totals.vat_minor != expected:
        yield _differs("BR-CO-14", "BT-110", totals.vat_minor, expected)
    if totals.net_minor is not None and totals.gross_minor is not None:
        expected = totals.net_minor + (totals.vat_minor or 0)
        if totals.gross_minor != expected:
            yield _differs("BR-CO-15", "BT-112", totals.gross_minor, expected)
    if totals.gross_minor is not None and totals.due_minor is not None:
        expected = totals.gross_minor - (totals.prepaid_minor or 0) + totals.rounding_minor
        if totals.due_minor != expected:
            yield _differs("BR-CO-16", "BT-115", totals.due_minor, expected)


def _lines(invoice: Invoice) -> Iterator[Broken]:
    if not invoice.lines:
        yield Broken("BR-16", "BG-25")
    for number, line in enumerate(invoice.lines, 1):
        price = line.net_price
        expected = _expected_net(line)
        if expected is not None and expected != line.net_minor:
            yield from _net_differs(line.net_minor or 0, int(expected), {"BG-25": number})
        if price is not None and price.is_signed() and price:
            yield Broken("BR-27", "BT-146", {"BG-25": number})
        if line.gross_price is not None and line.gross_price < 0:
            yield Broken("BR-28", "BT-148", {"BG-25": number})
        if line.period and line.period.first and line.period.last and line.period.last < line.period.first:
            yield Broken("BR-30", "BT-135", {"BG-25": number})
        if line.attributes and not all(name and value for name, value in line.attributes):
            yield Broken("BR-54", "BG-32", {"BG-25": number})


def _net_differs(stated: int, expected: int, numbers: Mapping[str, int]) -> Iterator[Broken]:
    for rule, most in (("line-differs", 1), ("PEPPOL-EN16931-R120", 2)):
        if abs(expected - stated) > most:
            yield _differs(rule, "BT-131", stated, expected, numbers)


def _document(invoice: Invoice) -> Iterator[Broken]:
    period = invoice.period
    if period and period.first and period.last and period.last < period.first:
        yield Broken("BR-29", "BT-74")
    if invoice.vat_point_on and invoice.vat_point_code:
        yield Broken("BR-CO-03", "BT-8")
    if (
        invoice.vat_currency
        and invoice.vat_currency != invoice.currency
        and invoice.totals.vat_accounting_minor is None
    ):
        yield Broken("BR-53", "BT-6")
    if not invoice.vat_breakdown:
        yield Broken("BR-CO-18", "BG-23")
    seller, representative = invoice.seller, invoice.tax_representative
    if not (seller.id or seller.global_id or seller.registration or seller.vat_id):
        yield Broken("BR-CO-26", "BT-29")
    for term, vat_id in (
        ("BT-31", seller.vat_id), ("BT-48", invoice.buyer.vat_id), ("BT-63", representative and representative.vat_id),
    ):  # fmt: skip
        if vat_id and not (_VAT_ID.match(vat_id) and (vat_id[:2] in code_list("countries"))):
            yield Broken("BR-CO-09", term)


def _allowances(invoice: Invoice) -> Iterator[Broken]:
    for group, term, rules in (
        ("BG-20", "BT-97", ("BR-33", "BR-CO-21")), ("BG-21", "BT-104", ("BR-38", "BR-CO-22")),
        ("BG-27", "BT-139", ("BR-42", "BR-CO-23")), ("BG-28", "BT-144", ("BR-44", "BR-CO-24")),
    ):  # fmt: skip
        for numbers, item in members(invoice, group):
            if not (item.reason or item.reason_code):
                yield from (Broken(rule, term, numbers) for rule in rules)


# --- VAT by category


class _Use(NamedTuple):
    """Places where a category is used with a rate: lines, allowances or charges."""

    category: str
    rate: Decimal | None
    suffixes: tuple[str, str, str]  # of the rules about parties, about the rate, and about being alone
    term: str  # of the rate


_OF_LINES, _OF_ALLOWANCES, _OF_CHARGES = ("02", "05", "12"), ("03", "06", "13"), ("04", "07", "14")


def _uses(invoice: Invoice) -> dict[_Use, int]:
    """Returns every use of a category, with the sum of its amounts."""
    uses: dict[_Use, int] = {}
    by_rate: dict[tuple[str | None, Decimal | None], int] = {}
    # Decimals are slow to hash, and lines with the same rate mostly follow each other.
    for key, lines in groupby(invoice.lines, _RATE_OF_LINE):
        by_rate[key] = by_rate.get(key, 0) + sum(line.net_minor or 0 for line in lines if line.is_counted)
    for (category, rate), amount in by_rate.items():
        if category:
            uses[_Use(category, rate, _OF_LINES, "BT-152")] = amount
    for item in invoice.allowances_charges:
        if item.vat_category:
            suffixes, sign = (_OF_CHARGES, 1) if item.is_charge else (_OF_ALLOWANCES, -1)
            use = _Use(item.vat_category, item.vat_rate, suffixes, "BT-96")
            uses[use] = uses.get(use, 0) + sign * (item.amount_minor or 0)
    return uses


def _places(invoice: Invoice, use: _Use) -> Iterator[Mapping[str, int]]:
    if use.suffixes is _OF_LINES:
        for number, line in enumerate(invoice.lines, 1):
            if line.is_counted and (line.vat_category, line.vat_rate) == (use.category, use.rate):
                yield {"BG-25": number}
        return
    for number, item in enumerate(invoice.allowances_charges, 1):
        is_one = item.is_charge == (use.suffixes is _OF_CHARGES)
        if is_one and (item.vat_category, item.vat_rate) == (use.category, use.rate):
            yield {"BG-20": number}


def _vat(invoice: Invoice) -> Iterator[Broken]:
    uses = _uses(invoice)
    used = {use.category for use in uses}
    sums: dict[tuple[str, Decimal | None], int] = {}
    for use, amount in uses.items():
        key = (use.category, use.rate if use.category in _WITH_RATES else None)
        sums[key] = sums.get(key, 0) + amount
    for category in sorted(used):
        broken_down = sum(1 for item in invoice.vat_breakdown if item.category == category)
        if not broken_down or (broken_down > 1 and category not in _WITH_RATES):
            yield Broken(_rule(category, "01"), "BG-23")
        if not _has_parties(invoice, category):
            suffixes = {use.suffixes[0] for use in uses if use.category == category}
            yield from (Broken(_rule(category, suffix), "BT-31") for suffix in sorted(suffixes))
    for use in uses:
        if not _fits(use.category, use.rate):
            for numbers in _places(invoice, use):
                yield Broken(_rule(use.category, use.suffixes[1]), use.term, numbers)
    for number, item in enumerate(invoice.vat_breakdown, 1):
        yield from _breakdown(item, {"BG-23": number}, sums)
    yield from _alone(invoice, uses)


def _rule(category: str, suffix: str) -> str:
    return f"BR-{PREFIXES.get(category, category)}-{suffix}"


def _has_parties(invoice: Invoice, category: str) -> bool:
    seller, buyer, representative = invoice.seller, invoice.buyer, invoice.tax_representative
    represented = bool(representative and representative.vat_id)
    match category:
        case "O":
            return not (seller.vat_id or buyer.vat_id or represented)
        case "K":
            return bool((seller.vat_id or represented) and buyer.vat_id)
        case "G":
            return bool(seller.vat_id or represented)
        case "AE":
            is_buyer_known = buyer.vat_id or buyer.registration
            return bool((seller.vat_id or seller.tax_number or represented) and is_buyer_known)
    return bool(seller.vat_id or seller.tax_number or represented)


def _fits(category: str, rate: Decimal | None) -> bool:
    if category == "O":
        return rate is None
    if category in _ZERO_RATED:
        return rate is not None and rate == 0
    if category == "S":
        return rate is not None and rate > 0
    return category not in _WITH_RATES or (rate is not None and rate >= 0)


def _breakdown(
    item: VatBreakdown, numbers: Mapping[str, int], sums: Mapping[tuple[str, Decimal | None], int]
) -> Iterator[Broken]:
    category, net, vat = item.category or "", item.net_minor, item.vat_minor
    if item.rate is None and category != "O":
        yield Broken("BR-48", "BT-119", numbers)
        yield Broken("BR-DE-14", "BT-119", numbers)
    has_rates = category in _WITH_RATES
    expected = sums.get((category, item.rate if has_rates else None), 0)
    is_near = net is None or (abs(net - expected) < _TOLERANCE if has_rates else net == expected)
    if category and not is_near and not (has_rates and item.rate is None):
        yield _differs(_rule(category, "08"), "BT-116", net or 0, expected, numbers)
    if net is not None and vat is not None and item.rate is not None:
        tax = _tax_of(net, item.rate)
        if abs(vat - tax) > 1:
            yield _differs("vat-differs", "BT-117", vat, tax, numbers)
        if abs(vat - tax) >= _TOLERANCE:
            yield _differs("BR-CO-17", "BT-117", vat, tax, numbers)
            if has_rates:
                yield _differs(_rule(category, "09"), "BT-117", vat, tax, numbers)
    if vat and category in (*_ZERO_RATED, "O"):
        yield _differs(_rule(category, "09"), "BT-117", vat, 0, numbers)
    has_reason = bool(item.exemption_reason or item.exemption_code)
    if category and has_reason != (category in _WITH_REASON):
        yield Broken(_rule(category, "10"), "BT-120", numbers)


def _tax_of(net_minor: int, rate: Decimal) -> int:
    """The tax on an amount, to the cent."""
    return int((net_minor * rate / 100).to_integral_value(ROUND_HALF_UP))


def _alone(invoice: Invoice, uses: Iterable[_Use]) -> Iterator[Broken]:
    """Categories that go with nothing else, or need to know where the goods went."""
    categories = {item.category for item in invoice.vat_breakdown}
    if "O" in categories:
        if len(categories) > 1:
            yield Broken("BR-O-11", "BG-23")
        for suffix in sorted({use.suffixes[2] for use in uses if use.category != "O"}):
            yield Broken(f"BR-O-{suffix}", "BG-23")
    if "K" in categories:
        if not (invoice.delivered_on or invoice.period):
            yield Broken("BR-IC-11", "BT-72")
        if not (invoice.delivery and invoice.delivery.address and invoice.delivery.address.country_code):
            yield Broken("BR-IC-12", "BT-80")


# --- XRechnung


def _germany(invoice: Invoice) -> Iterator[Broken]:
    contact = invoice.seller.contact
    if contact is None:
        yield Broken("BR-DE-2", "BT-41")
    else:
        for rule, term, text in (
            ("BR-DE-5", "BT-41", contact.name), ("BR-DE-6", "BT-42", contact.phone), ("BR-DE-7", "BT-43", contact.email)
        ):  # fmt: skip
            if not text:
                yield Broken(rule, term)
    if len(_DIGIT.findall(contact.phone if contact else "")) < 3:
        yield Broken("BR-DE-27", "BT-42")
    if not _EMAIL.fullmatch(contact.email if contact else ""):
        yield Broken("BR-DE-28", "BT-43")
    seller = invoice.seller
    taxed = any(line.vat_category not in (None, "O") for line in invoice.lines) or any(
        item.vat_category not in (None, "O") for item in invoice.allowances_charges
    )
    if taxed and not (seller.vat_id or seller.tax_number or invoice.tax_representative):
        yield Broken("BR-DE-16", "BT-31")
    if not _XRECHNUNG.fullmatch(invoice.specification or ""):
        yield Broken("BR-DE-21", "BT-24")
    names = [item.name for item in invoice.attachments if item.content is not None or item.name]
    if len(names) != len(set(names)):
        yield Broken("BR-DE-22", "BG-24")
    if invoice.type_code == CORRECTION and not invoice.preceding:
        yield Broken("BR-DE-26", "BG-3")
    has_line_periods = bool(invoice.lines) and all(line.period for line in invoice.lines)
    if not (invoice.period or invoice.delivered_on or has_line_periods):
        yield Broken("BR-DE-TMP-32", "BT-72")
    yield from _line_periods(invoice)


def _line_periods(invoice: Invoice) -> Iterator[Broken]:
    first, last = invoice.period or (None, None)
    for number, line in enumerate(invoice.lines, 1):
        if line.period is None:
            continue
        if first and line.period.first and line.period.first < first:
            yield Broken("PEPPOL-EN16931-R110", "BT-134", {"BG-25": number})
        if last and line.period.last and line.period.last > last:
            yield Broken("PEPPOL-EN16931-R111", "BT-135", {"BG-25": number})


def _expected_net(line: Line) -> Decimal | None:
    """The net amount of a line by its quantity, price, allowances and charges; None if it does not tell."""
    quantity, price, base = line.quantity, line.net_price, line.base_quantity
    if quantity is None or price is None or line.net_minor is None or (base is not None and not base):
        return None
    exact = quantity * price * 100
    if base is not None:
        exact /= base
    for item in line.allowances_charges:
        exact += (item.amount_minor or 0) * (1 if item.is_charge else -1)
    return exact.to_integral_value(ROUND_HALF_UP)


def _payment(invoice: Invoice) -> Iterator[Broken]:
    payment = invoice.payment
    code, debit = payment.means_code, payment.direct_debit
    has_account, has_card, has_debit = bool(payment.transfers), payment.card is not None, debit is not None
    if code is None:
        yield Broken("BR-DE-1", "BT-81")
        if has_account or has_card or payment.means_text:
            yield Broken("BR-49", "BT-81")
    if code in CREDIT_TRANSFERS:
        if not has_account:
            yield Broken("BR-DE-23-a", "BT-84")
        if not any(transfer.iban for transfer in payment.transfers):
            yield Broken("BR-61", "BT-84")
        if has_card or has_debit:
            yield Broken("BR-DE-23-b", "BT-81")
        if code == "58" and not all(is_iban(transfer.iban) for transfer in payment.transfers):
            yield Broken("BR-DE-19", "BT-84")
    elif code in CARDS:
        if not has_card:
            yield Broken("BR-DE-24-a", "BT-87")
        if has_account or has_debit:
            yield Broken("BR-DE-24-b", "BT-81")
    elif code == "59":
        if not has_debit:
            yield Broken("BR-DE-25-a", "BT-89")
        if has_account or has_card:
            yield Broken("BR-DE-25-b", "BT-81")
        if not is_iban((debit and debit.iban) or ""):
            yield Broken("BR-DE-20", "BT-91")
    if debit and not debit.creditor_id:
        yield Broken("BR-DE-30", "BT-90")
    if debit and not debit.iban:
        yield Broken("BR-DE-31", "BT-91")
    if has_wrong_line(payment.terms):
        yield Broken("BR-DE-18", "BT-20")


@lru_cache(4096)
def is_iban(text: str) -> bool:
    from schwifty import IBAN

    return IBAN(text, allow_invalid=True).is_valid


# --- The German VAT Act


def _vat_act(invoice: Invoice) -> Iterator[Broken]:
    gross = invoice.totals.gross_minor
    is_small = gross is not None and abs(gross) <= _SMALL_AMOUNT
    seller, buyer = invoice.seller, invoice.buyer
    if not _is_complete(seller.name or seller.trading_name, seller.address and seller.address.city):
        yield Broken("UStG-14-4-1-seller", "BT-27")
    if not invoice.issued_on:
        yield Broken("UStG-14-4-3", "BT-2")
    for number, line in enumerate(invoice.lines, 1):
        if not line.name or (line.quantity is None and line.is_counted):
            yield Broken("UStG-14-4-5", "BT-153", {"BG-25": number})
    if not invoice.vat_breakdown or any(item.net_minor is None for item in invoice.vat_breakdown):
        yield Broken("UStG-14-4-7", "BG-23")
    for number, item in enumerate(invoice.vat_breakdown, 1):
        has_reason = item.exemption_reason or item.exemption_code
        if item.vat_minor is None or not (item.rate is not None or has_reason):
            yield Broken("UStG-14-4-8", "BT-117", {"BG-23": number})
        elif item.category in ("E", "K", "G") and not has_reason:
            yield Broken("UStG-14-4-8", "BT-120", {"BG-23": number})
        elif item.category == "AE" and not has_reason:
            yield Broken("UStG-14a-5", "BT-120", {"BG-23": number})
        if item.category == "K" and not (seller.vat_id and buyer.vat_id):
            yield Broken("UStG-14a-3", "BT-48", {"BG-23": number})
    if is_small:
        return
    if not _is_complete(buyer.name or buyer.trading_name, buyer.address and buyer.address.city):
        yield Broken("UStG-14-4-1-buyer", "BT-44")
    if not (seller.vat_id or seller.tax_number):
        yield Broken("UStG-14-4-2", "BT-31")
    if not invoice.number:
        yield Broken("UStG-14-4-4", "BT-1")
    has_periods = bool(invoice.lines) and all(line.period for line in invoice.lines)
    if not (invoice.delivered_on or invoice.period or has_periods):
        yield Broken("UStG-14-4-6", "BT-72")


def _is_complete(name: str | None, city: str | None) -> bool:
    return bool(name and city)
