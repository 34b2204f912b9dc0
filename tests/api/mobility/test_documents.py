"""PDF and XML of an invoice: valid, equal to the cent, made once, and made later if a process died in between."""

from __future__ import annotations

import asyncio
import io
import re
from typing import Any

import httpx
import pytest
from facturx import get_xml_from_pdf
from pypdf import PdfReader

from kontobahn.formats.cii import national
from kontobahn.mobility import customers
from kontobahn.mobility.invoices import documents
from kontobahn.mobility.invoices.store import issue, load
from kontobahn.mobility.invoices.typesetter import render
from tests.harness import Service
from tests.mobility_builder import Shop, broken_rules, ticket
from tests.waiting import PATIENCE_SECONDS


def _pages(pdf: bytes) -> str:
    pages = PdfReader(io.BytesIO(pdf)).pages
    return " ".join("\n".join(page.extract_text() for page in pages).split())


def test_both_documents_are_valid_and_agree(service: Service) -> None:
    shop = Shop(service)
    customer_id = shop.customer(
        *(ticket(f"PN-{number}", discount_in_cents=315, employer_share_in_cents=1575) for number in range(6)),
        ticket("PN-7", product="Stellplatz", price_in_cents=3500, vat_rate=19, reference="P-1"),
        ticket("PN-8", product="Schulung", price_in_cents=1000, vat_rate=0, valid_to="2026-05"),
    )
    invoice = shop.invoice(customer_id)
    pdf, xml = shop.document(invoice, "pdf"), shop.document(invoice, "xml")
    name, embedded = get_xml_from_pdf(pdf)
    assert name == "factur-x.xml"
    assert broken_rules(embedded, is_xrechnung=False) == set()
    assert broken_rules(xml, is_xrechnung=True) == set()
    assert national.violations(xml) == []
    assert (
        embedded.replace(b"urn:cen.eu:en16931:2017<", b"", 1).split()
        == xml.replace(b"urn:cen.eu:en16931:2017#compliant#urn:xeinkauf.de:kosit:xrechnung_3.0<", b"", 1).split()
    )
    text = _pages(pdf)
    assert f"Rechnung {invoice['invoice_number']}" in text
    for words in ("404,10 €", "Leistungszeitraum", "01.03.2026 – 31.05.2026", "16.03.2026", "DE02 1203 0000 0000 2020 51", "PN-5",
                  "Umsatzsteuerfrei nach § 4 Nr. 17 UStG", "DE136695976", "Seite 1 von 1", "HRB 12345"):  # fmt: skip
        assert words in text, words
    assert "<ram:DuePayableAmount>404.10</ram:DuePayableAmount>" in xml.decode()


def test_the_pdf_declares_pdf_a_3_and_factur_x(service: Service) -> None:
    shop = Shop(service)
    pdf = shop.document(shop.invoice(shop.customer(ticket())), "pdf")
    reader = PdfReader(io.BytesIO(pdf), strict=True)
    root: Any = reader.root_object
    xmp = root["/Metadata"].get_object().get_data().decode()
    for words in ("<pdfaid:part>3</pdfaid:part>", "<pdfaid:conformance>B</pdfaid:conformance>",
                  "<fx:DocumentFileName>factur-x.xml</fx:DocumentFileName>", "<fx:ConformanceLevel>EN 16931</fx:ConformanceLevel>",
                  "<fx:DocumentType>INVOICE</fx:DocumentType>", "<fx:Version>1.0</fx:Version>",
                  "<pdfaSchema:prefix>fx</pdfaSchema:prefix>"):  # fmt: skip
        assert words in xmp, words
    (attached,) = root["/AF"]
    assert attached.get_object()["/AFRelationship"] == "/Alternative"
    assert root["/OutputIntents"]
    assert "/ID" in reader.trailer
    fonts = {str(font) for page in reader.pages for font in page["/Resources"]["/Font"].values()}  # type: ignore[index]
    assert fonts
    assert reader.metadata is not None
    assert reader.metadata.title == "Rechnung RE-2026-00001"


def test_a_customer_without_an_electronic_address_gets_plain_en_16931(service: Service) -> None:
    shop = Shop(service)
    invoice = shop.invoice(shop.customer(ticket(), email=None))
    answer = shop.get(f"/invoices/{invoice['id']}/xml")
    assert answer.headers["content-type"] == "application/xml"
    assert answer.headers["content-disposition"].endswith("RE-2026-00001-en16931.xml")
    assert broken_rules(answer.content, is_xrechnung=False) == set()
    authority = shop.invoice(shop.customer(ticket(), email=None, buyer_reference="04011000-12345-03"))
    xml = shop.document(authority, "xml")
    assert b'<ram:URIID schemeID="0204">04011000-12345-03</ram:URIID>' in xml
    assert b"<ram:BuyerReference>04011000-12345-03</ram:BuyerReference>" in xml
    assert national.violations(xml) == []


def test_documents_are_made_later_when_the_process_died_before(service: Service) -> None:
    shop = Shop(service)

    def issue_only(customer_id: str) -> str:
        """Leaves the database as a process does that dies right after the transaction."""

        def unit(tx: Any) -> str:
            return issue(tx, customers.find_for_operator(tx, customer_id), []).invoice.id

        return service.db.write_now(unit)

    left = [issue_only(shop.customer(ticket())) for _ in range(3)]
    assert (shop.count("mobility_documents"), shop.count("mobility_documents_due")) == (0, 3)
    asked = shop.get(f"/invoices/{left[0]}/pdf")
    assert asked.content.startswith(b"%PDF")
    assert (shop.count("mobility_documents"), shop.count("mobility_documents_due")) == (2, 2)
    service.run(documents.make_due(service.db))
    assert (shop.count("mobility_documents"), shop.count("mobility_documents_due")) == (6, 0)
    assert shop.get(f"/invoices/{left[0]}/pdf").content == asked.content, "made once"


def test_making_a_document_twice_at_once_gives_the_same_one(service: Service) -> None:
    shop = Shop(service)
    invoice = shop.invoice(shop.customer(*(ticket(f"PN-{number}") for number in range(30))))
    before = shop.document(invoice, "pdf")

    async def both() -> None:
        await asyncio.gather(*(documents.make(service.db, shop.owner.id, invoice["id"]) for _ in range(2)))

    service.run(both())
    assert shop.document(invoice, "pdf") == before
    row, facts = service.db.read_now(load, shop.owner.id, invoice["id"])
    assert render(facts, row.invoiced_at)[0].content == before, "the same facts give the same bytes"


@pytest.mark.parametrize("engine", ["sqlite"])
def test_other_calls_are_not_held_up_by_a_large_invoice(service: Service) -> None:
    shop = Shop(service)
    customer_id = shop.customer(*(ticket(f"PN-{number}") for number in range(1000)))
    meanwhile = 0

    async def main() -> httpx.Response:
        nonlocal meanwhile
        async with httpx.AsyncClient(
            base_url=service.base_url, headers={"x-api-key": shop.key}, trust_env=False, timeout=PATIENCE_SECONDS
        ) as http:
            await http.get("/v2/ledger-duo/connections")
            issuing = asyncio.create_task(http.post(f"/v2/mobility/customers/{customer_id}/invoice"))
            while not issuing.done():
                await http.get("/v2/ledger-duo/connections")
                meanwhile += 1
            return await issuing

    answer = asyncio.run(main())
    assert answer.status_code == 201
    # One may be answered before it is begun, and one waits for its end if calls are held up.
    assert meanwhile > 3, "calls in between waited for the invoice"
    pdf = shop.document(answer.json(), "pdf")
    assert re.search(r"1000 × 63,00 € = 63\.000,00 €", _pages(pdf))
