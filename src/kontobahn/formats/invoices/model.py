"""An electronic invoice in the terms of EN 16931, whoever issued it, for writing and for reading. Pure data.

Amounts are hundredths with the sign they have in the document: a credit note (381) has positive sums. Quantities and unit prices
may have more than two decimals. None is what the document does not say; a text that is missing may be empty as well, and writers
leave out both. Sums that were read are those of the file, whether or not they add up.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import date
from decimal import Decimal
from typing import Literal, NamedTuple

from kontobahn.money import amount_text

# BT-3: an invoice, a credit note, and a corrected invoice.
INVOICE, CREDIT_NOTE, CORRECTION = 380, 381, 384
# Types that take an amount back; UBL has a document of its own for them.
CREDIT_NOTES = frozenset((81, 83, 261, 262, 296, 308, 381, 396, 420, 458, 502, 503, 532))
# BT-81: a SEPA credit transfer, and no payment at all.
SEPA_TRANSFER, NO_INSTRUMENT = "58", "1"
# BT-81: means by which the seller takes the money itself, or has it already.
CREDIT_TRANSFERS = frozenset(("30", "58"))
CARDS = frozenset(("48", "54", "55"))
DIRECT_DEBITS = frozenset(("49", "59"))
CASH = frozenset(("10",))
# BT-130: one piece.
PIECE = "C62"
# BT-118, BT-151: S is a standard rate, E exempt. A document that was read may have any other text.
VatCategory = Literal["S", "E", "Z", "AE", "K", "G", "O", "L", "M"]


class Address(NamedTuple):
    """BG-5, BG-8, BG-12, BG-15."""

    street: str
    postal_code: str
    city: str
    country_code: str
    street_2: str | None = None
    street_3: str | None = None
    region: str | None = None


class Contact(NamedTuple):
    """BG-6, BG-9."""

    name: str
    phone: str
    email: str


class ElectronicAddress(NamedTuple):
    """BT-34, BT-49: where electronic invoices are sent."""

    scheme: str
    value: str


class Identifier(NamedTuple):
    """An identifier, and the list it is from."""

    value: str
    scheme: str | None = None


class Party(NamedTuple):
    """The seller (BG-4), the buyer (BG-7) or the seller's tax representative (BG-11)."""

    name: str  # BT-27, BT-44, BT-62
    address: Address | None
    id: str | None = None  # BT-29, BT-46
    legal_information: str | None = None  # BT-33
    contact: Contact | None = None
    electronic_address: ElectronicAddress | None = None
    vat_id: str | None = None  # BT-31, BT-48, BT-63
    tax_number: str | None = None  # BT-32
    trading_name: str | None = None  # BT-28, BT-45
    registration: Identifier | None = None  # BT-30, BT-47
    global_id: Identifier | None = None  # BT-29, BT-46 with a scheme


class Payee(NamedTuple):
    """BG-10: who is paid, if it is not the seller."""

    name: str  # BT-59
    id: Identifier | None = None  # BT-60
    registration: Identifier | None = None  # BT-61


class Period(NamedTuple):
    """BG-14, BG-26. At least one of both days is known."""

    first: date | None
    last: date | None


class Delivery(NamedTuple):
    """BG-13, without its day."""

    name: str | None = None  # BT-70
    location: Identifier | None = None  # BT-71
    address: Address | None = None  # BG-15


class AllowanceCharge(NamedTuple):
    """An allowance (BG-20, BG-27), or a charge (BG-21, BG-28). VAT is given for the whole document only."""

    is_charge: bool
    amount_minor: int | None  # BT-92, BT-99, BT-136, BT-141
    base_minor: int | None = None  # BT-93, BT-100, BT-137, BT-142
    percent: Decimal | None = None  # BT-94, BT-101, BT-138, BT-143
    reason: str | None = None  # BT-97, BT-104, BT-139, BT-144
    reason_code: str | None = None  # BT-98, BT-105, BT-140, BT-145
    vat_category: str | None = None  # BT-95, BT-102
    vat_rate: Decimal | None = None  # BT-96, BT-103


class Line(NamedTuple):
    """BG-25."""

    id: str  # BT-126
    name: str  # BT-153
    quantity: Decimal | None  # BT-129
    net_price: Decimal | None  # BT-146
    net_minor: int | None  # BT-131
    vat_category: str | None  # BT-151
    vat_rate: Decimal | None  # BT-152
    unit_code: str | None = PIECE  # BT-130
    note: str | None = None  # BT-127
    period: Period | None = None
    attributes: Sequence[tuple[str, str]] = ()  # BT-160, BT-161
    description: str | None = None  # BT-154
    seller_item: str | None = None  # BT-155
    buyer_item: str | None = None  # BT-156
    standard_item: Identifier | None = None  # BT-157
    order_line: str | None = None  # BT-132
    accounting_reference: str | None = None  # BT-133
    gross_price: Decimal | None = None  # BT-148
    price_discount: Decimal | None = None  # BT-147
    base_quantity: Decimal | None = None  # BT-149
    base_unit: str | None = None  # BT-150
    allowances_charges: Sequence[AllowanceCharge] = ()
    # A line below another, and one that only groups or informs: neither counts towards the sum of the lines.
    parent_id: str | None = None
    is_counted: bool = True


class VatBreakdown(NamedTuple):
    """BG-23: one category and rate."""

    category: str | None  # BT-118
    rate: Decimal | None  # BT-119
    net_minor: int | None  # BT-116
    vat_minor: int | None  # BT-117
    exemption_reason: str | None = None  # BT-120
    exemption_code: str | None = None  # BT-121


class Totals(NamedTuple):
    """BG-22."""

    lines_minor: int | None  # BT-106
    net_minor: int | None  # BT-109
    vat_minor: int | None  # BT-110
    gross_minor: int | None  # BT-112
    due_minor: int | None  # BT-115
    rounding_minor: int = 0  # BT-114
    allowances_minor: int | None = None  # BT-107
    charges_minor: int | None = None  # BT-108
    prepaid_minor: int | None = None  # BT-113
    vat_accounting_minor: int | None = None  # BT-111, in the currency of BT-6


class CreditTransfer(NamedTuple):
    """BG-17."""

    iban: str  # BT-84; abroad it may be another kind of account number
    account_name: str | None = None  # BT-85
    bic: str | None = None  # BT-86


class Card(NamedTuple):
    """BG-18."""

    number: str  # BT-87: its last digits
    holder: str | None = None  # BT-88


class DirectDebit(NamedTuple):
    """BG-19."""

    mandate: str | None = None  # BT-89
    creditor_id: str | None = None  # BT-90
    iban: str | None = None  # BT-91: the account that is debited


class Discount(NamedTuple):
    """Skonto: a discount for payment within some days of the invoice, or until a day."""

    percent: Decimal | None
    days: int | None = None
    until: date | None = None
    base_minor: int | None = None  # all of the amount due, if it is not given
    amount_minor: int | None = None


class Payment(NamedTuple):
    """Means and day of the payment (BG-16)."""

    means_code: str | None  # BT-81
    reference: str | None = None  # BT-83
    terms: str | None = None  # BT-20
    due_on: date | None = None  # BT-9
    transfers: Sequence[CreditTransfer] = ()
    means_text: str | None = None  # BT-82
    card: Card | None = None
    direct_debit: DirectDebit | None = None
    discounts: Sequence[Discount] = ()
    # The standard has one means; a file may name others beside it.
    other_means_codes: Sequence[str] = ()


class PrecedingInvoice(NamedTuple):
    """BG-3."""

    number: str  # BT-25
    issued_on: date | None = None  # BT-26


class Note(NamedTuple):
    """BG-1."""

    text: str  # BT-22
    subject_code: str | None = None  # BT-21


class References(NamedTuple):
    """Documents and numbers that the invoice refers to."""

    order: str | None = None  # BT-13
    sales_order: str | None = None  # BT-14
    contract: str | None = None  # BT-12
    project: str | None = None  # BT-11
    despatch: str | None = None  # BT-16
    receipt: str | None = None  # BT-15
    tender: str | None = None  # BT-17
    object: Identifier | None = None  # BT-18
    accounting: str | None = None  # BT-19


class Attachment(NamedTuple):
    """BG-24: a document that supports the invoice. Its content is never opened or run."""

    id: str | None  # BT-122
    description: str | None = None  # BT-123
    uri: str | None = None  # BT-124
    name: str | None = None
    media_type: str | None = None
    content: bytes | None = None  # BT-125


class Invoice(NamedTuple):
    number: str  # BT-1
    type_code: int | None  # BT-3
    issued_on: date | None  # BT-2
    currency: str  # BT-5
    seller: Party
    buyer: Party
    lines: Sequence[Line]
    vat_breakdown: Sequence[VatBreakdown]
    totals: Totals
    payment: Payment
    buyer_reference: str | None = None  # BT-10
    notes: Sequence[Note] = ()
    delivered_on: date | None = None  # BT-72
    period: Period | None = None
    preceding: Sequence[PrecedingInvoice] = ()
    process: str | None = None  # BT-23
    specification: str | None = None  # BT-24
    vat_currency: str | None = None  # BT-6
    vat_point_on: date | None = None  # BT-7
    vat_point_code: str | None = None  # BT-8
    payee: Payee | None = None
    tax_representative: Party | None = None
    delivery: Delivery | None = None
    allowances_charges: Sequence[AllowanceCharge] = ()
    references: References = References()
    attachments: Sequence[Attachment] = ()

    @property
    def is_credit_note(self) -> bool:
        return self.type_code in CREDIT_NOTES


# Skonto in payment terms (BT-20): lines of the form that XRechnung prescribes, `#SKONTO#TAGE=14#PROZENT=2.00#`.


_LINE = re.compile(
    r"\s*#SKONTO#TAGE=(\d{1,4})#PROZENT=(\d{1,3}\.\d{2})(?:#BASISBETRAG=(-?\d{1,12})\.(\d{2}))?#\s*", re.ASCII
)


def discounts_of(terms: str | None) -> list[Discount]:
    """Returns the discounts that the terms promise in the prescribed form; a sentence of prose promises none."""
    if not terms or "#SKONTO#" not in terms:
        return []
    found = (_LINE.fullmatch(line) for line in terms.splitlines())
    return [
        Discount(Decimal(line[2]), days=int(line[1]), base_minor=int(line[3] + line[4]) if line[3] else None)
        for line in found
        if line
    ]


def terms_of(discounts: Sequence[Discount]) -> str:
    """Returns the lines for discounts that run for some days."""
    return "".join(
        f"#SKONTO#TAGE={item.days}#PROZENT={item.percent:.2f}"
        f"{'' if item.base_minor is None else f'#BASISBETRAG={amount_text(item.base_minor)}'}#\n"
        for item in discounts
    )


def has_wrong_line(terms: str | None) -> bool:
    """Tells whether a line begins like a discount and is none, or is not ended as it must be (BR-DE-18)."""
    lines = [line for line in (terms or "").splitlines() if line.strip().startswith("#")]
    return any(not _LINE.fullmatch(line) for line in lines) or bool(lines and terms and not terms.endswith("\n"))


# Findings about an invoice, in the three classes by which the tax administration judges faults, and warnings beside
# them.
#
# format: not fully readable, or in a form that is no electronic invoice in Germany. business_rule: breaks EN 16931 or a
# national rule. content: lacks a particular of section 14 of the German VAT Act.


Class = Literal["format", "business_rule", "content"]
Severity = Literal["error", "warning", "information"]
Language = Literal["de", "en"]


class Text(NamedTuple):
    """One sentence in both languages."""

    de: str
    en: str

    def filled(self, values: Mapping[str, str]) -> Text:
        """Returns both sentences with their holes filled; amounts and days as the language writes them."""
        if not values:
            return self
        german = {name: _german(value) if name in _FIGURES else value for name, value in values.items()}
        return Text(self.de.format_map(german), self.en.format_map(values))


# Values that each language writes in its own way.
_FIGURES = ("stated", "expected", "day")


def _german(value: str) -> str:
    if value.count("-") == 2:
        return ".".join(reversed(value.split("-")))
    whole, _, cents = value.partition(".")
    return f"{int(whole):,}".replace(",", ".") + f",{cents}" if whole != "-0" else f"-0,{cents}"


class Finding(NamedTuple):
    kind: Class
    rule: str  # BR-CO-10, BR-DE-15, …, or a name of ours
    rule_set: str
    path: str  # in the XML, with the prefixes that are usual for its syntax
    severity: Severity
    text: Text

    def message(self, language: Language) -> str:
        return self.text.de if language == "de" else self.text.en


class Remark(NamedTuple):
    """A warning: the file is taken as it is, and a person should know this."""

    code: str
    path: str
    text: Text

    def message(self, language: Language) -> str:
        return self.text.de if language == "de" else self.text.en


class Fault(NamedTuple):
    """A broken rule before its sentence is known. `values` fill the holes of the sentence."""

    rule: str
    path: str
    values: Mapping[str, str] = {}


class InvoiceError(Exception):
    """Nothing can be read. `finding` says why."""

    def __init__(self, finding: Finding) -> None:
        super().__init__(finding.text.en)
        self.finding = finding


class Refused(Exception):
    """Raised by readers; `invoice_files` makes an InvoiceError of it."""

    def __init__(self, rule: str, path: str = "", **values: object) -> None:
        super().__init__(rule)
        self.fault = Fault(rule, path, {name: str(value) for name, value in values.items()})
