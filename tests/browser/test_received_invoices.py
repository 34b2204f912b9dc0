"""Received invoices in the browser: several files dropped at once, and a PDF typed beside it."""

from __future__ import annotations

import base64

from playwright.sync_api import expect

from tests.browser.visitor import Visitor
from tests.received_invoices import as_xml, from_seller, plain_pdf

_DROP = """(form, files) => {
    const dropped = new DataTransfer();
    for (const [name, type, content] of files) {
        const bytes = Uint8Array.from(atob(content), (sign) => sign.charCodeAt(0));
        dropped.items.add(new File([bytes], name, { type }));
    }
    form.dispatchEvent(new DragEvent("drop", { dataTransfer: dropped, bubbles: true, cancelable: true }));
}"""


def _file(name: str, kind: str, content: bytes) -> tuple[str, str, str]:
    return name, kind, base64.b64encode(content).decode()


def test_several_files_are_dropped_and_the_one_without_xml_is_typed(visitor: Visitor) -> None:
    page = visitor.open("/dashboard/payables")
    scan = plain_pdf("Rechnungsnummer: D-3", "Rechnungsdatum: 01.03.2026", "Rechnungsbetrag: 59,50 EUR")
    sellers = [from_seller(name=f"Ablage {place} GmbH", vat_id=f"DE29999999{place}") for place in (1, 2)]
    files = [
        *(_file(f"{place}.xml", "application/xml", as_xml(seller)) for place, seller in enumerate(sellers)),
        _file("abgelegt.pdf", "application/pdf", scan),
    ]
    with page.expect_navigation():
        page.locator("form[data-several]").evaluate(_DROP, files)
    for name in ("Ablage 1 GmbH", "Ablage 2 GmbH"):
        expect(page.get_by_role("link", name=name)).to_be_visible()
    page.get_by_role("link", name="abgelegt.pdf").click()
    expect(page.locator("[name=number]")).to_have_value("D-3")
    expect(page.locator("[name=issue_date]")).to_have_value("2026-03-01")
    # A browser without a reader of PDFs would show an empty frame.
    shows_pdf = page.evaluate("navigator.pdfViewerEnabled")
    expect(page.locator("iframe.document")).to_be_visible(visible=shows_pdf)
    page.fill("[name=creditor_name]", "Ablage 3 GmbH")
    page.get_by_role("button", name="Enter the invoice").click()
    page.get_by_text("The invoice has been entered.").wait_for()
    expect(page.locator("main")).to_contain_text("€59.50")
    expect(page.locator("iframe.document")).to_be_visible(visible=shows_pdf)


def test_a_file_that_is_empty_is_told_among_several(visitor: Visitor) -> None:
    page = visitor.open("/dashboard/payables")
    empty = _file("leer.xml", "application/xml", b"")
    good = _file("gut.xml", "application/xml", as_xml(from_seller(name="Ablage 4 GmbH", vat_id="DE299999994")))
    page.locator("form[data-several]").evaluate(_DROP, [good, empty])
    page.get_by_text("The file is empty.").wait_for()
    expect(page.get_by_role("link", name="Ablage 4 GmbH")).to_be_visible()
