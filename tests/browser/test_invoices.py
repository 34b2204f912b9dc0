"""Invoices in the browser: from a file of tickets to the PDF beside the page."""

from __future__ import annotations

from pathlib import Path

from playwright.sync_api import expect

from tests.browser.visitor import Visitor

TICKETS = """product;holder_reference;valid_from;price_in_cents;vat_rate
Deutschlandticket;<i>P-1</i>;2026-03;5800;7
Deutschlandticket;P-2;2026-03;5800;7
"""


def test_from_a_file_of_tickets_to_an_invoice(visitor: Visitor, tmp_path: Path) -> None:
    page = visitor.open("/dashboard/customers/new")
    for name, value in {
        "name": "Beispiel & <b>Söhne</b>", "street": "Weg 1", "postal_code": "10115", "city": "Berlin",
        "email": "rechnung@beispiel.example",
    }.items():  # fmt: skip
        page.fill(f"[name={name}]", value)
    page.click("main form.fields button")
    expect(page.locator("h1")).to_have_text("Beispiel & <b>Söhne</b>")
    wrong, right = tmp_path / "wrong.csv", tmp_path / "tickets.csv"
    wrong.write_text(TICKETS.replace("5800;7\n", "58,00;7\n", 1), "utf-8")
    right.write_text(TICKETS, "utf-8")
    page.set_input_files("[name=file]", wrong)
    page.get_by_role("button", name="Import the file").click()
    page.get_by_text("Rows that cannot be imported").first.wait_for()
    expect(page.locator("main")).to_contain_text("price_in_cents")
    page.set_input_files("[name=file]", right)
    page.get_by_role("button", name="Import the file").click()
    page.get_by_text("2 tickets are new.").wait_for()
    page.get_by_role("link", name="Create an invoice").click()
    expect(page.locator("main")).to_contain_text("€116.00")
    page.get_by_role("button", name="Create the invoice").click()
    page.wait_for_url("**/dashboard/invoices/*")
    expect(page.locator("main")).to_contain_text("<i>P-1</i>")
    # Elsewhere a frame around a PDF would be an empty box.
    assert page.locator("iframe.document").is_visible() == page.evaluate("navigator.pdfViewerEnabled")
    answer = page.request.get(page.url + "/view")
    assert answer.headers["content-type"] == "application/pdf"
    assert answer.body().startswith(b"%PDF-")
    assert b"CrossIndustryInvoice" in page.request.get(page.url + "/xml").body()


def test_a_strangers_invoice_and_customer_are_not_there(visitor: Visitor) -> None:
    for path in ("invoices", "customers"):
        answer = visitor.page.request.get(f"{visitor.base_url}/dashboard/{path}/01890000-0000-7000-8000-000000000000")
        assert answer.status == 404
