"""The whole way of a received invoice at a browser: by mail, released, paid at the sandbox bank, matched, in the adviser's package."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.api.payables.test_booking import assert_row_and_document
from tests.api.payables.test_settlement import Bookkeeper
from tests.browser.visitor import Visitor, visiting
from tests.harness import PASSWORD, Service, running_service
from tests.invoice_corpus import XRECHNUNG, written
from tests.mailbox_builder import HOST, mail, mail_server
from tests.received_invoices import COFFEE
from tests.sandbox_visitor import Visitor as BankVisitor

EMAIL = "erika@muster.example"


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    with running_service(tmp_path / "data") as service:
        yield service


@pytest.fixture
def keeper(service: Service) -> Bookkeeper:
    keeper = Bookkeeper(service, "")
    service.user(keeper.owner, EMAIL)
    return keeper


@pytest.fixture
def erika(browser: Browser, service: Service, keeper: Bookkeeper) -> Iterator[Visitor]:
    with visiting(browser, service.base_url, locale="en") as visitor:
        visitor.sign_in(EMAIL, PASSWORD)
        yield visitor


def saved(page: Page, selector: str) -> bytes:
    """The file that a click saves."""
    with page.expect_download() as download:
        page.click(selector)
    return Path(download.value.path()).read_bytes()


def test_an_invoice_comes_by_mail_and_ends_in_the_advisers_package(
    erika: Visitor, keeper: Bookkeeper, service: Service, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    content = written(COFFEE, "cii", XRECHNUNG)
    with mail_server(service, monkeypatch, tmp_path) as server:
        server.deliver(bytes(mail(("rechnung 7.xml", content))))
        page = erika.open("/dashboard/payables/mailbox")
        for name, value in (
            ("host", HOST), ("port", str(server.port)), ("username", server.user), ("password", server.password), ("since", "2026-03-01"),
        ):  # fmt: skip
            page.fill(f"[name={name}]", value)
        page.get_by_role("button", name="Save and read it").click()
        expect(page.locator(".notice.good")).to_have_text("1 new invoice was in the mailbox.")
    page = erika.open("/dashboard/payables/settings")
    page.select_option("[name=book_on]", "acceptance")
    page.get_by_role("button", name="Save").click()
    page = erika.open("/dashboard/payables")
    page.get_by_role("link", name="Rösterei Hafen GmbH").click()
    expect(page.locator("main")).to_contain_text("70001")
    page.get_by_label("Account 1").fill("3300")
    page.get_by_role("button", name="Accept the accounts").click()
    expect(page.locator(".notice.good")).to_have_text("The invoice is booked.")
    page.get_by_role("button", name="Release", exact=True).click()
    expect(page.locator(".notice.good")).to_have_text("The invoice is released.")
    pay_at_the_sandbox_bank(erika, service, keeper, tmp_path)
    page = erika.open("/dashboard/reconciliation")
    page.get_by_role("button", name="Look for matches").click()
    expect(page.locator(".notice.good")).to_be_visible()
    page = erika.open("/dashboard/payables?status=paid")
    page.get_by_role("link", name="Rösterei Hafen GmbH").click()
    expect(page.locator("main")).to_contain_text("Paid")
    (payable,) = service.get("/v2/payables", keeper.owner.key).json()["data"]
    (match,) = service.get("/v2/reconciliation/matches", keeper.owner.key).json()["data"]
    assert (payable["status"], payable["match_id"], match["evidence_class"]) == ("paid", match["id"], "A1")
    page = erika.open("/dashboard/books")
    assert_row_and_document(saved(page, "a[href*='/dashboard/books/export']"), payable, content)
    erika.open("/dashboard/sandbox/orders")
    assert erika.look_closely() == []


def pay(erika: Visitor) -> bytes:
    """Pays what is chosen, and returns the order file."""
    page = erika.open("/dashboard/payables/due")
    page.check("[name=payable]")
    page.get_by_role("button", name="Pay the chosen ones").click()
    expect(page.locator("main")).to_contain_text("€32.36")
    page.get_by_role("button", name="Confirm and pay").click()
    expect(page.locator(".notice.good")).to_have_text("One payment was made.")
    page.get_by_role("link", name="Order file").click()
    return saved(page, "a[href$='/file']")


def pay_at_the_sandbox_bank(erika: Visitor, service: Service, keeper: Bookkeeper, folder: Path) -> None:
    """Hands in the order file, and brings the bank's answers in by the door of every bank."""
    order, report, statement = (folder / name for name in ("auftrag.xml", "bericht.xml", "auszug.xml"))
    order.write_bytes(pay(erika))
    page = erika.page
    page.get_by_role("link", name="hand the file in at the sandbox bank").click()
    page.set_input_files("[name=file]", str(order))
    page.get_by_role("button", name="Hand in", exact=True).click()
    expect(page.locator(".notice.good")).to_have_text("The bank has accepted one order.")
    report.write_bytes(saved(page, "a[href*='/orders/reports/']"))
    bring_in(erika, report)
    (payment,) = service.get("/v2/banking/payments", keeper.owner.key).json()["data"]
    assert payment["status"] == "executed"
    BankVisitor(service).later(10)
    page = erika.open("/dashboard/sandbox/orders")
    statement.write_bytes(saved(page, "a[href*='/orders/statements/']"))
    bring_in(erika, statement)


def bring_in(erika: Visitor, file: Path) -> None:
    page = erika.open("/dashboard/statements")
    page.set_input_files("[name=file]", str(file))
    page.get_by_role("button", name="Import the file").click()
    expect(page.locator(".notice.good")).to_be_visible()
