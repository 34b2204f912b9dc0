"""Banks at a real browser: connected with a TAN, paid from, fed by files; searched; and closed to strangers and hostile texts."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.bank_builder import CREDITOR_IBAN
from tests.browser.visitor import Visitor, visiting
from tests.harness import PASSWORD, Organization, Service, running_service
from tests.sandbox_visitor import Visitor as BankVisitor
from tests.statement_builder import DAY, IBAN, OTHER_IBAN, Booking, Sheet, camt

EMAIL = "erika@muster.example"
FIELDS = ("once", "account_id", "creditor_name", "creditor_iban", "amount", "description", "template_identifier")
HOSTILE = "<img src=x onerror=alert(1)>"


@pytest.fixture
def bank(tmp_path: Path) -> Iterator[Service]:
    # A file of more than 100 kB becomes a task.
    with running_service(tmp_path / "data", upload_task_bytes=100_000) as service:
        yield service


@pytest.fixture
def owner(bank: Service) -> Organization:
    organization = bank.organization()
    bank.user(organization, EMAIL)
    return organization


@pytest.fixture
def erika(browser: Browser, bank: Service, owner: Organization) -> Iterator[Visitor]:
    with visiting(browser, bank.base_url, locale="en") as visitor:
        visitor.sign_in(EMAIL, PASSWORD)
        yield visitor


def go_to_bank(erika: Visitor) -> Page:
    page = erika.open("/dashboard/connections")
    page.click("main >> text=Connect a bank")
    page.click("text=To the bank")
    page.wait_for_url("**/sandbox/connect/**")
    page.click("button:has-text('Weiter')")
    return page


def sign_in_at_bank(page: Page) -> None:
    page.fill("[name=user_name]", "demo")
    page.fill("[name=password]", "geheim")
    page.click("button:has-text('Anmelden')")
    page.fill("[name=tan]", "123456")
    page.click("button:has-text('Bestätigen')")


def connect(erika: Visitor) -> Page:
    page = go_to_bank(erika)
    sign_in_at_bank(page)
    page.click("button:has-text('Zugriff erlauben')")
    expect(page.locator(".notice.good")).to_contain_text("is connected")
    return page


def come_back_after(erika: Visitor, bank: Service, *, days: int) -> None:
    # A page that looks for news and finds its session ended reloads itself, even into a form that is being filled in.
    erika.page.goto("about:blank")
    bank.clock.advance(seconds=60 * 60 * 24 * days)
    erika.sign_in(EMAIL, PASSWORD)


def test_a_bank_is_connected_with_a_tan_and_deleted_again(erika: Visitor, bank: Service, owner: Organization) -> None:
    page = go_to_bank(erika)
    page.click("button:has-text('Abbrechen')")
    expect(page.locator(".notice.bad")).to_have_text("Not connected: You cancelled it.")
    page = connect(erika)
    expect(page.locator("main")).to_contain_text("New data arrives automatically")
    expect(page.locator("main")).to_contain_text("fine")
    connection_id = page.url.rpartition("/")[2]
    page.click("tbody a")
    expect(page.locator("figure .plot svg")).to_be_visible()
    page.click("text=One year")
    expect(page.locator(".spans [aria-current]")).to_have_text("One year")
    # Two weeks before the end it turns amber, and after it red; renewing keeps the accounts.
    row = BankVisitor(bank).shown(owner, connection_id)
    assert row["status"] == "active"
    come_back_after(erika, bank, days=170)
    erika.open("/dashboard/connections")
    expect(page.locator(f"#c-{connection_id} .badge.warn").filter(has_text="more days")).to_be_visible()
    come_back_after(erika, bank, days=20)
    erika.open("/dashboard/connections")
    expect(page.locator(f"#c-{connection_id} .badge.bad")).to_contain_text("ended")
    page.click(f"#c-{connection_id} button:has-text('Renew')")
    page.wait_for_url("**/sandbox/connect/**")
    sign_in_at_bank(page)
    page.click("button:has-text('Zugriff erlauben')")
    expect(page).to_have_url(f"{erika.base_url}/dashboard/connections/{connection_id}")
    page.click("text=Delete")
    expect(page.locator(".removes")).to_contain_text("transactions")
    page.click("button:has-text('Delete the connection')")
    expect(page.locator(".notice.good")).to_contain_text("has been deleted")
    assert bank.get("/v2/banking/accounts", owner.key).json()["data"] == []


def test_a_payment_is_made_authorised_and_settles(erika: Visitor, bank: Service, owner: Organization) -> None:
    connect(erika)
    page = erika.open("/dashboard/payments/new")
    page.fill("[name=creditor_name]", "Papier GmbH")
    page.type("[name=creditor_iban]", CREDITOR_IBAN[:-1] + str((int(CREDITOR_IBAN[-1]) + 1) % 10))
    expect(page.locator("#h-creditor_iban")).to_contain_text("not a valid IBAN")
    page.fill("[name=amount]", "1.012,34")
    page.fill("[name=description]", "Rechnung 4711")
    page.click("button:has-text('Continue')")
    expect(page.locator("#e-creditor_iban")).to_contain_text("IBAN")
    page.fill("[name=creditor_iban]", "")
    page.type("[name=creditor_iban]", CREDITOR_IBAN)
    expect(page.locator("#h-creditor_iban")).to_have_text(re.compile("^(Valid: |This IBAN is valid)"))
    form = {name: page.input_value(f"[name={name}]") for name in FIELDS}
    page.click("button:has-text('Continue')")
    expect(page.locator(".notice.good")).to_have_text("The payment has been created. Authorise it now.")
    address = page.url
    # Sent once more, the same form makes no second payment; with something else in it, it is asked what is meant.
    for more, status in (({}, 303), ({"amount": "5"}, 422)):
        headers = {"origin": bank.base_url}
        again = page.request.post(
            f"{bank.base_url}/dashboard/payments/new", form={**form, **more}, headers=headers, max_redirects=0
        )
        assert again.status == status
    assert len(bank.get("/v2/banking/payments", owner.key).json()["data"]) == 1
    page.click("text=Authorise at the bank")
    sign_in_at_bank(page)
    page.click("button:has-text('Jetzt bezahlen')")
    expect(page).to_have_url(address)
    visitor = BankVisitor(bank)
    visitor.later(5)
    visitor.later(60 * 60 * 24 * 2)
    # The page looks by itself.
    expect(page.locator("main .badge.good")).to_have_text("paid")
    expect(page.locator(".timeline")).to_contain_text("in progress")
    erika.open("/dashboard/payments?q=1012,34")
    expect(page.locator("tbody tr")).to_have_count(1)


def test_statement_files_overlap_and_contradict(erika: Visitor, tmp_path: Path) -> None:
    first = Sheet([Booking(500, "Miete März"), Booking(-200, f"Strom {HOSTILE}")])
    later = DAY + timedelta(days=1)
    second = first._replace(
        bookings=[*first.bookings, Booking(-1250, "Papier", booked=later, valued=later)], id="S-2", number=2
    )
    page = send(erika, tmp_path, "märz.xml", camt(first))
    expect(page.locator(".facts").first).to_contain_text("Transactions added 2", use_inner_text=True)
    page = send(erika, tmp_path, "überlappend.xml", camt(second))
    expect(page.locator(".facts").first).to_contain_text("Transactions added 1", use_inner_text=True)
    page = send(erika, tmp_path, "noch einmal.xml", camt(second))
    expect(page.locator(".notice.good")).to_contain_text("already known")
    page = send(erika, tmp_path, "falsch.xml", camt(first._replace(closing=999_999, id="S-3")))
    expect(page.locator("main .notice.bad")).to_contain_text("9,999.99")
    erika.open("/dashboard/statements")
    expect(page.locator("tbody tr")).to_have_count(4)
    expect(page.locator("tbody .badge.bad")).to_have_count(1)
    large = Sheet([Booking(1, f"Nr. {number}") for number in range(300)], iban="DE02120300000000202051", id="L")
    page = send(erika, tmp_path, "groß.xml", camt(large))
    # Above the limit it is a task, whose page shows in the end what came of it.
    expect(page.locator(".facts").first).to_contain_text("Transactions added 300", use_inner_text=True)
    for typed, count in (
        ("12,50", 1),
        ("-12,50", 1),
        ("+12,50", 0),
        ("miete MÄRZ", 1),
        ("miete papier", 0),
        ("Nr. 299", 1),
    ):
        erika.open("/dashboard/transactions")
        page.click(".filters summary")
        page.fill(".filters [name=q]", typed)
        page.press(".filters [name=q]", "Enter")
        expect(page.locator("tbody tr")).to_have_count(count)
    erika.open(f"/dashboard/transactions?q={OTHER_IBAN[:4]}+{OTHER_IBAN[4:]}&from_date=2026-03-03")
    expect(page.locator("tbody tr")).to_have_count(1)
    page.click("tbody a")
    expect(page.locator("main")).to_contain_text("Papier")
    erika.open("/dashboard/transactions?q=strom")
    expect(page.locator("tbody tr")).to_contain_text(HOSTILE)
    expect(page.locator("main img")).to_have_count(0)
    with page.expect_download() as download:
        page.click("text=As CSV")
    text = Path(download.value.path()).read_text("utf-8-sig").splitlines()
    assert len(text) == 2
    assert "-2.00" in text[1]


def send(erika: Visitor, folder: Path, name: str, content: bytes) -> Page:
    (folder / name).write_bytes(content)
    page = erika.open("/dashboard/statements")
    page.set_input_files("[name=file]", folder / name)
    page.click("button:has-text('Import the file')")
    expect(page.locator("form[data-sent]")).to_have_count(0)
    return page


def test_a_list_is_walked_to_its_end_without_gaps(erika: Visitor, tmp_path: Path) -> None:
    sheets = [
        Sheet([Booking(number, f"Umsatz {number:03}") for number in range(1, 61)], id=f"S-{iban}", iban=iban)
        for iban in (IBAN, OTHER_IBAN)
    ]
    send(erika, tmp_path, "zwei.xml", camt(*sheets))
    page = erika.open("/dashboard/transactions")
    seen: list[str] = []
    while True:
        seen += page.locator("tbody tr").evaluate_all("rows => rows.map(row => row.id)")
        if not page.locator("[rel=next]").count():
            break
        erika.open(page.locator("[rel=next]").get_attribute("href") or "")
    assert len(seen) == len(set(seen)) == 120


def test_orders_are_fetched_as_one_file(erika: Visitor, tmp_path: Path) -> None:
    send(erika, tmp_path, "auszug.xml", camt(Sheet([Booking(1)])))
    page = erika.page
    for name in ("Papier GmbH", "Strom AG"):
        erika.open("/dashboard/payments/new")
        page.fill("[name=creditor_name]", name)
        page.fill("[name=creditor_iban]", CREDITOR_IBAN)
        page.fill("[name=amount]", "10")
        page.fill("[name=description]", "Rechnung")
        page.click("button:has-text('Continue')")
        expect(page.locator("text=to be authorised")).to_be_visible()
    expect(page.locator("text=Put all 2 open orders into one file")).to_be_visible()
    erika.open("/dashboard/payments")
    page.click("text=Order files")
    page.click("text=Create the file")
    expect(page.locator(".notice.good")).to_have_text("The file holds 2 orders.")
    with page.expect_download() as download:
        page.click("text=Download the file")
    assert Path(download.value.path()).read_text().count("<CdtTrfTxInf>") == 2
    page.click("text=Discard")
    page.click("button:has-text('Discard the file')")
    expect(page.locator("tbody .badge")).to_have_text("discarded")


def test_a_stranger_finds_nothing(erika: Visitor, bank: Service, owner: Organization, tmp_path: Path) -> None:
    connect(erika)
    send(erika, tmp_path, "auszug.xml", camt(Sheet([Booking(1)])))
    imported = erika.page.url.rpartition("/")[2]
    visitor = BankVisitor(bank)
    payment = visitor.order(owner)
    [connection, *_] = bank.get("/v2/banking/connections", owner.key).json()["data"]
    account = visitor.accounts(owner)[0]
    transaction = visitor.transactions(owner, connection["id"])[0]
    paths = [
        f"accounts/{account['id']}", f"transactions/{transaction['id']}", f"connections/{connection['id']}",
        f"connections/{connection['id']}/delete", f"statements/{imported}", f"payments/{payment['id']}",
        f"payments/{payment['id']}/cancel", "payments/order-files/1", "accounts/x", "payments/99999999999999999999",
    ]  # fmt: skip
    other = bank.organization("Fremd GmbH")
    bank.user(other, "fremd@fremd.example")
    erika.context.clear_cookies()
    erika.sign_in("fremd@fremd.example", PASSWORD)
    statuses = {path: erika.page.request.get(f"{bank.base_url}/dashboard/{path}").status for path in paths}
    assert statuses == dict.fromkeys(paths, 404)
    forms = [f"connections/{connection['id']}/refresh", f"connections/{connection['id']}/reconnect",
             f"connections/{connection['id']}/delete", f"payments/{payment['id']}/ask", f"payments/{payment['id']}/order",
             f"payments/{payment['id']}/cancel"]  # fmt: skip
    for path in forms:
        erika.page.request.post(f"{bank.base_url}/dashboard/{path}", headers={"origin": bank.base_url}, max_redirects=0)
    assert visitor.payment(owner, payment)["status"] == payment["status"]
    assert visitor.shown(owner, connection["id"])["updated_at"] == connection["updated_at"]
    assert erika.open("/dashboard/transactions").locator("tbody tr").count() == 0
