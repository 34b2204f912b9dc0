"""Invoices as suppliers send them, for tests."""

from __future__ import annotations

import io
from datetime import date
from decimal import Decimal
from functools import cache
from typing import Any

import httpx
import typst
from pypdf import PdfWriter

from kontobahn.formats import cii
from kontobahn.formats.invoices.model import (
    INVOICE,
    SEPA_TRANSFER,
    Address,
    CreditTransfer,
    Invoice,
    Line,
    Party,
    Payment,
    Totals,
    VatBreakdown,
)
from tests.harness import Organization, Service
from tests.ledger_builder import PERSONENKONTO, Books

FILES = "/v2/payables/files"
SELLER_IBAN, OTHER_IBAN = "DE02120300000000202051", "DE75512108001245126199"
SELLER_VAT_ID = "DE136695976"
_ADDRESS = Address("Hafenstraße 1", "20457", "Hamburg", "DE")
COFFEE = Invoice(
    number="R-7", type_code=INVOICE, issued_on=date(2026, 3, 2), currency="EUR",
    seller=Party("Rösterei Hafen GmbH", _ADDRESS, vat_id=SELLER_VAT_ID), buyer=Party("Muster GmbH", _ADDRESS),
    lines=[
        Line(
            id="1", name="Kaffee & Tee", quantity=Decimal("2.5"), net_price=Decimal("12.3456"), net_minor=3086,
            vat_category="S", vat_rate=Decimal(7), unit_code="KGM",
        )
    ],
    vat_breakdown=[VatBreakdown("S", Decimal(7), 3086, 216)],
    totals=Totals(lines_minor=3086, net_minor=3086, vat_minor=216, gross_minor=3302, due_minor=3302),
    payment=Payment(
        SEPA_TRANSFER, due_on=date(2026, 3, 16), transfers=[CreditTransfer(SELLER_IBAN)], terms="#SKONTO#TAGE=7#PROZENT=2.00#\n"
    ),
    delivered_on=date(2026, 2, 27),
)  # fmt: skip
CREDITOR = {
    "personenkontoNummer": "70001", "kontaktTyp": "COMPANY", "kontenrahmen": "SKR03", "kontonummernLaenge": 4,
    "geschaeftsjahrStartDatum": "2026-01-01", "firmenname": "Roesterei Hafen", "ustId": SELLER_VAT_ID,
    "bankkonten": [{"iban": SELLER_IBAN}],
}  # fmt: skip


def as_xml(invoice: Invoice = COFFEE, **changes: Any) -> bytes:
    (xml,) = cii.write(invoice._replace(**changes), "en16931")
    return xml


@cache
def plain_pdf(*lines: str) -> bytes:
    """A PDF of these lines, without any XML in it."""
    page = typst.compile("\n\n".join(lines).encode(), format="pdf")
    assert isinstance(page, bytes)
    return page


def as_pdf(xml: bytes, name: str = "factur-x.xml") -> bytes:
    """A PDF with this XML inside."""
    writer = PdfWriter()
    writer.add_blank_page(200, 200)
    writer.add_attachment(name, xml)
    out = io.BytesIO()
    writer.write(out)
    return out.getvalue()


def from_seller(**changes: Any) -> Invoice:
    return COFFEE._replace(seller=COFFEE.seller._replace(**changes))


def paid_to(iban: str, **changes: Any) -> Invoice:
    return COFFEE._replace(payment=COFFEE.payment._replace(transfers=[CreditTransfer(iban)]), **changes)


class Inbox:
    """An organisation with books, a creditor in them, and one who sends and decides."""

    def __init__(self, service: Service, owner: Organization | None = None, **creditor: Any) -> None:
        self.service = service
        self.owner = owner or service.organization()
        self.books = Books(service, self.owner)
        assert self.books.send(PERSONENKONTO, {**CREDITOR, **creditor}).status_code == 201

    def send(self, content: bytes | None = None, name: str = "rechnung.xml", **options: Any) -> httpx.Response:
        key = options.pop("key", self.owner.key)
        headers = {"Content-Type": "application/octet-stream"}
        content = as_xml() if content is None else content
        return self.service.post(FILES, key, content=content, headers=headers, params={"file_name": name, **options})

    def received(self, content: bytes | None = None, **options: Any) -> dict[str, Any]:
        answer = self.send(content, **options)
        assert answer.status_code == 201, answer.text
        return dict(answer.json()["data"])

    def decide(self, payable: dict[str, Any], action: str, key: str = "", **body: Any) -> httpx.Response:
        return self.service.post(f"/v2/payables/{payable['id']}/{action}", key or self.owner.key, json=body)

    def shown(self, payable: dict[str, Any]) -> dict[str, Any]:
        answer = self.service.get(f"/v2/payables/{payable['id']}", self.owner.key)
        assert answer.status_code == 200, answer.text
        return dict(answer.json()["data"])
