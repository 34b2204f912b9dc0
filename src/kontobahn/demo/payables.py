"""Received invoices in the demo: eight of its suppliers, as they came by mail, and a letter that is only a PDF.

Two have something wrong with them, and one names another bank account than the one its supplier is known by.
"""

from __future__ import annotations

import hashlib
import io
from datetime import date, timedelta
from decimal import ROUND_HALF_UP, Decimal
from typing import NamedTuple

from kontobahn.api.wire import OrganizationQuery
from kontobahn.bank_providers.sandbox.rules import COMPANY
from kontobahn.demo import trade
from kontobahn.demo.reconciliation import Books, Desk
from kontobahn.formats import cii
from kontobahn.formats.invoices.model import (
    INVOICE,
    SEPA_TRANSFER,
    Address,
    Contact,
    CreditTransfer,
    ElectronicAddress,
    Invoice,
    Line,
    Party,
    Payment,
    Totals,
    VatBreakdown,
)
from kontobahn.mobility.invoices.pdf import typeset
from kontobahn.payables import intake, routes
from kontobahn.payables.intake import Arrival
from kontobahn.payables.mailbox import MAILBOX
from kontobahn.payables.routes import NewPayablesSettings

_BUYER = Party(
    COMPANY, Address("Beispielallee 12", "10115", "Berlin", "DE"), vat_id="DE123456788",
    electronic_address=ElectronicAddress("rechnung@demo-handel.example", "EM"),
)  # fmt: skip
_PAGE = b"""#let d = sys.inputs
#set page(margin: 25mm)
#set text(size: 11pt)
= #d.title
#for line in d.text.split("\\n") [#line \\ ]
"""
# Far above the numbers of bills that are booked already.
_FIRST_NUMBER = 8_101
_RATE = Decimal(19)


class _Bill(NamedTuple):
    supplier: str
    text: str
    quantity: int
    net_price: Decimal
    days_ago: int
    due_days: int | None = 14
    skonto: str = ""
    has_new_iban: bool = False
    # Cents by which its total is wrong.
    off: int = 0
    says_delivery: bool = True
    is_pdf: bool = False


_BILLS = (
    _Bill("Großhandel Zentral GmbH", "Handelsware lt. Lieferschein", 40, Decimal("86.50"), 2, 30, "#SKONTO#TAGE=10#PROZENT=2.00#\n"),
    _Bill("Papier & Mehr GmbH", "Kopierpapier A4, Karton", 25, Decimal("21.90"), 6),
    _Bill("Spedition Rollfix KG", "Transport Hamburg – Berlin", 3, Decimal("245.00"), 4, is_pdf=True),
    _Bill("Software Allee AG", "Warenwirtschaft, Lizenz je Platz", 8, Decimal("49.00"), 1),
    _Bill("Verpackung Nord GmbH", "Versandkartons 400 × 300", 1_200, Decimal("0.64"), 9, None, says_delivery=False),
    _Bill("Werbeagentur Laut", "Gestaltung des Katalogs", 12, Decimal("95.00"), 3, off=100),
    _Bill("Möbelfabrik Süd GmbH", "Regal, Buche", 6, Decimal("318.00"), 0, has_new_iban=True),
    _Bill("Telekomnetz AG", "Anschlüsse und Gespräche", 1, Decimal("187.40"), 5),
)  # fmt: skip
_LETTER = (
    "Büroreinigung Blitz",
    "Rechnungsnummer: {number}\nRechnungsdatum: {day}\nUnterhaltsreinigung\nRechnungsbetrag: 535,50 EUR\nIBAN: {iban}",
)


async def receive_invoices(desk: Desk, books: Books, today: date) -> None:
    """Takes them in as they come by mail, the oldest first."""
    settings = NewPayablesSettings(connection_id=books.connection_id, client_id=books.client_id)
    await desk.ask(routes.set_payables_settings, query=OrganizationQuery(), body=settings)
    for place, bill in sorted(enumerate(_BILLS), key=lambda item: -item[1].days_ago):
        invoice = _invoice(bill, place, today)
        (xml,) = cii.write(invoice, "en16931")
        name = f"{invoice.number.replace('/', '-')}.{'pdf' if bill.is_pdf else 'xml'}"
        await _take(desk, bill.supplier, name, _hybrid(invoice, xml, today) if bill.is_pdf else xml)
    await _letter(desk, today)


def _invoice(bill: _Bill, place: int, today: date) -> Invoice:
    issued_on, position = today - timedelta(days=bill.days_ago), trade.place_of(bill.supplier)
    net = int((bill.quantity * bill.net_price * 100).to_integral_value(ROUND_HALF_UP))
    vat = int((net * _RATE / 100).to_integral_value(ROUND_HALF_UP))
    gross = net + vat + bill.off
    due_on = None if bill.due_days is None else issued_on + timedelta(days=bill.due_days)
    return Invoice(
        number=_number(bill.supplier, place, issued_on), type_code=INVOICE, issued_on=issued_on, currency="EUR",
        seller=_seller(bill.supplier, position), buyer=_BUYER,
        lines=[
            Line(
                id="1", name=bill.text, quantity=Decimal(bill.quantity), net_price=bill.net_price, net_minor=net,
                vat_category="S", vat_rate=_RATE, unit_code="C62",
            )
        ],
        vat_breakdown=[VatBreakdown("S", _RATE, net, vat)],
        totals=Totals(lines_minor=net, net_minor=net, vat_minor=vat, gross_minor=gross, due_minor=gross),
        payment=Payment(
            SEPA_TRANSFER, due_on=due_on, terms=bill.skonto or None,
            transfers=[CreditTransfer(trade.iban_of(position + 500 if bill.has_new_iban else position))],
        ),
        delivered_on=issued_on if bill.says_delivery else None,
    )  # fmt: skip


def _number(supplier: str, place: int, day: date) -> str:
    return trade.SUPPLIERS[supplier].format(year=day.year, month=day.month, number=_FIRST_NUMBER + place)


def _seller(name: str, position: int) -> Party:
    mail = trade.mail_of(name)
    return Party(
        name, Address(f"Musterstraße {position + 1}", f"{10115 + position * 97:05d}", "Musterstadt", "DE"),
        vat_id=f"DE{300_000_000 + position}",
        contact=Contact("Buchhaltung", "+49 30 5550200", mail),
        electronic_address=ElectronicAddress(mail, "EM"),
    )  # fmt: skip


def _hybrid(invoice: Invoice, xml: bytes, today: date) -> bytes:
    from pypdf import PdfReader, PdfWriter

    total = f"{Decimal(invoice.totals.gross_minor or 0) / 100:.2f} EUR"
    page = _page(
        invoice.seller.name, f"Rechnung {invoice.number}\n{invoice.lines[0].name}\nRechnungsbetrag: {total}", today
    )
    writer = PdfWriter(clone_from=PdfReader(io.BytesIO(page)))
    writer.add_attachment("factur-x.xml", xml)
    made = io.BytesIO()
    writer.write(made)
    return made.getvalue()


def _page(title: str, text: str, today: date) -> bytes:
    at_seconds = (today - date(1970, 1, 1)).days * 86_400
    return typeset(_PAGE, {"title": title, "text": text}, at_seconds)


async def _letter(desk: Desk, today: date) -> None:
    supplier, text = _LETTER
    number = trade.SUPPLIERS[supplier].format(year=today.year, month=today.month)
    iban = trade.iban_of(trade.place_of(supplier))
    page = _page(supplier, text.format(number=number, day=f"{today:%d.%m.%Y}", iban=iban), today)
    await _take(desk, supplier, f"Rechnung {number}.pdf", page)


async def _take(desk: Desk, supplier: str, name: str, content: bytes) -> None:
    note = f"{supplier} <{trade.mail_of(supplier)}>"
    digest = hashlib.sha256(content).hexdigest()
    arrival = Arrival(desk.principal.organization_id, name, digest, content, MAILBOX, "", note)
    await intake.take(desk.context, desk.principal, arrival)
