"""The sandbox bank's controls in a browser: each does what its command does, to one's own connections and payments only."""

from __future__ import annotations

import html
import io
import re
from typing import Any

import httpx
import pytest
from pypdf import PdfReader

from kontobahn.bank_providers.sandbox import adapter, store
from kontobahn.banking.provider import Banking
from kontobahn.clock import DAY, SECOND
from tests.dashboard.browsing import Browser
from tests.file_bank import FileBank, transactions
from tests.harness import Organization, Service, ServiceFactory
from tests.ledger_builder import Books
from tests.sandbox_visitor import Visitor
from tests.statement_builder import IBAN

PAGE = "/dashboard/sandbox"
EMAIL = "erika@muster.example"


@pytest.fixture
def visitor(service: Service) -> Visitor:
    return Visitor(service)


@pytest.fixture
def owner(service: Service) -> Organization:
    organization = service.organization()
    service.user(organization, EMAIL, "admin")
    return organization


@pytest.fixture
def browser(service: Service, owner: Organization) -> Browser:
    found = Browser(service)
    assert found.sign_in(EMAIL).status_code == 303
    return found


def do(visitor: Visitor, browser: Browser, path: str, **fields: str) -> str:
    """Presses a button, and lets the bank's reports arrive. Returns what the page says then."""
    answer = browser.post(f"{PAGE}{path}", fields)
    assert answer.status_code == 303, answer.text
    visitor.deliver()
    return browser.get(PAGE).text


def test_what_happens_at_the_bank_reaches_the_service(
    visitor: Visitor, owner: Organization, browser: Browser, service: Service
) -> None:
    assert "No connection to the sandbox bank" in browser.get(PAGE).text
    connection = visitor.connect(owner, "pending", accounts=(0,))
    number = connection["id"]
    page = browser.get(PAGE).text
    account = html.unescape(re.findall(r'<option value="(\d+ acc_[^"]+)"', page)[0])
    before = visitor.transactions(owner, number, sort="id")
    booking = {"account": account, "amount": "-12.50", "text": "Porto <b>", "name": "Post"}
    assert "Booked." in do(visitor, browser, "/book", **booking)
    [new] = visitor.transactions(owner, number, sort="id", from_id=before[-1]["id"])
    assert (new["amount"], new["description"], new["extra"]["payee"]) == (-12.5, "Porto <b>", "Post")
    for wrong in (
        {"amount": "0"},
        {"amount": "1000000.01"},
        {"amount": "1.001"},
        {"amount": "many"},
        {"text": "x" * 141},
    ):
        assert browser.post(f"{PAGE}/book", {**booking, **wrong}).status_code == 422, wrong
    do(visitor, browser, f"/connections/{number}/do/post-pending")
    assert {row["status"] for row in visitor.transactions(owner, number)} == {"posted"}
    assert len(visitor.transactions(owner, number)) == len(before) + 1
    payment = visitor.order(owner)
    assert f'id="p-{payment["id"]}"' in browser.get(PAGE).text
    page = do(visitor, browser, f"/payments/{payment['id']}", status="rejected")
    assert visitor.payment(owner, payment)["status"] == "rejected"
    assert f'id="p-{payment["id"]}"' not in page
    do(visitor, browser, f"/connections/{number}/fail", error_class="InvalidCredentials")
    assert visitor.shown(owner, number)["error_class"] == "InvalidCredentials"
    assert browser.post(f"{PAGE}/connections/{number}/fail", {"error_class": "Whatever"}).status_code == 422

    do(visitor, browser, f"/connections/{number}/do/expire-consent")
    assert visitor.shown(owner, number)["error_class"] == "AispConsentExpired"
    assert browser.post(f"{PAGE}/connections/{number}/do/explode").status_code == 404
    assert "No connection to the sandbox bank" in do(visitor, browser, f"/connections/{number}/do/destroy")
    assert service.get(f"/v2/banking/connections/{number}", owner.key).status_code == 404
    assert browser.post(f"{PAGE}/connections/{number}/do/report").status_code == 404
    done = service.db.read_now(
        lambda tx: tx.all("SELECT action FROM audit_log WHERE action LIKE 'sandbox.%' ORDER BY id")
    )
    assert [action for (action,) in done] == [
        f"sandbox.{what}" for what in ("book", "post_pending", "payment", "fail", "expire_consent", "destroy")
    ]


def hand_in(browser: Browser, content: bytes) -> httpx.Response:
    origin = {"origin": browser.service.base_url}
    return browser.send("POST", f"{PAGE}/orders", files={"file": ("auftrag.xml", content)}, headers=origin)


def order_file(files: FileBank, **names: str) -> tuple[list[dict[str, Any]], bytes]:
    """Payments with these amounts to these payees, and their order file."""
    made = [files.pay(amount=float(amount.strip("_")), creditor_name=name) for amount, name in names.items()]
    body = {"payment_ids": [one["id"] for one in made]}
    answer = files.service.post("/v2/banking/order-files", files.key, json=body)
    assert answer.status_code == 201, answer.text
    path = f"/v2/banking/order-files/{answer.json()['data']['id']}/file"
    return made, files.service.get(path, files.key).content


def links(browser: Browser, kind: str) -> list[str]:
    return re.findall(rf'href="({PAGE}/orders/{kind}/[^"]+)"', browser.get(f"{PAGE}/orders").text)


def test_an_order_file_is_checked_booked_and_returned_as_a_bank_does(
    visitor: Visitor, owner: Organization, browser: Browser, service: Service
) -> None:
    files = FileBank(service, owner)
    made, content = order_file(
        files, _30="Papier GmbH", _20="Sandbox rejected", _40="Sandbox returned", _2000="Zu teuer GmbH"
    )
    assert hand_in(browser, content).status_code == 303
    page = browser.get(f"{PAGE}/orders").text
    assert "The bank has accepted 2 orders. The bank has refused 2 orders: AM04, MS03." in page
    assert "in process" in page
    assert not links(browser, "statements")
    files.take(browser.get(links(browser, "reports")[0]).content, "report.xml")
    assert [files.payment(one)["status"] for one in made] == ["executed", "rejected", "executed", "rejected"]
    # Sent again, nothing is paid twice.
    again = hand_in(browser, content)
    assert (again.status_code, "has this file already" in again.text) == (422, True)
    visitor.later(10)
    [day_one] = links(browser, "statements")
    files.take(browser.get(day_one).content)
    assert [files.payment(one)["status"] for one in made][:3:2] == ["settled", "settled"]
    [account] = visitor.accounts(owner)
    assert account["balance"] == 1000.01 - 30 - 40
    visitor.later(3600)
    [back, _] = links(browser, "statements")
    # Another file follows on the statement that is not imported yet.
    _, more = order_file(files, _5="Papier GmbH")
    assert hand_in(browser, more).status_code == 303
    visitor.later(10)
    for link in (back, links(browser, "statements")[0]):
        files.take(browser.get(link).content)
    [account] = visitor.accounts(owner)
    assert account["balance"] == 1000.01 - 30 - 5
    [returned] = [one for one in transactions(service, owner) if one["amount"] == 40]
    assert made[2]["end_to_end_id"] in str(returned), "it came back with our id"
    # Statements from elsewhere move the balance that the bank goes on with.
    files.sheet = files.sheet._replace(opening=96_501, bookings=())
    files.book_debit(files.pay(amount=1.0), days=1)
    _, last = order_file(files, _4="Papier GmbH")
    visitor.later(2 * 86_400)
    hand_in(browser, last)
    visitor.later(10)
    files.take(browser.get(links(browser, "statements")[0]).content)
    assert visitor.accounts(owner)[0]["balance"] == 1000.01 - 30 - 5 - 1 - 4
    assert "Order file handed in at the sandbox bank" in browser.get("/dashboard/audit").text


@pytest.mark.either_engine
def test_an_order_file_for_a_connected_account_comes_back_by_itself(
    visitor: Visitor, owner: Organization, browser: Browser, service: Service
) -> None:
    files = FileBank(service, owner)
    [payment], content = order_file(files, _30="Papier GmbH")
    connection = visitor.connect(owner, "notan", accounts=(0,))
    iban = next(one for one in visitor.accounts(owner) if one["extra"].get("is_sandbox"))["extra"]["iban"]
    assert hand_in(browser, content.replace(IBAN.encode(), iban.encode())).status_code == 303
    visitor.later(10)
    [paid] = [one for one in visitor.transactions(owner, connection["id"]) if payment["end_to_end_id"] in str(one)]
    assert (paid["amount"], paid["extra"]["payee"]) == (-30, "Papier GmbH")
    assert not links(browser, "statements")
    assert len(links(browser, "reports")) == 1


@pytest.mark.parametrize("ended_by", ["bank", "service"])
def test_an_order_on_an_account_whose_connection_has_ended_stands_in_a_statement(
    visitor: Visitor, owner: Organization, browser: Browser, service: Service, ended_by: str
) -> None:
    files = FileBank(service, owner)
    [payment, returned], content = order_file(files, _30="Papier GmbH", _5="Sandbox returned")
    connection = visitor.connect(owner, "notan", accounts=(0,))
    shown = next(one for one in visitor.accounts(owner) if one["extra"].get("is_sandbox"))
    iban, balance = shown["extra"]["iban"], shown["balance"]
    content = content.replace(IBAN.encode(), iban.encode())
    assert hand_in(browser, content).status_code == 303
    if ended_by == "bank":
        do(visitor, browser, f"/connections/{connection['id']}/do/destroy")
    else:
        path = f"/v2/banking/connections/{connection['id']}"
        assert service.request("DELETE", path, owner.key).status_code in (200, 204)
    service.db.write_now(adapter.tidy)
    visitor.later(10)
    [statement] = links(browser, "statements")
    told = browser.get(statement).text
    ids = [payment["end_to_end_id"], returned["end_to_end_id"]]
    assert re.findall("<EndToEndId>([^<]+)", told) == ids
    assert re.findall("<Amt Ccy=[^>]+>([0-9.]+)", told)[:2] == [f"{balance:.2f}", f"{balance - 35:.2f}"]
    visitor.later(3 * 3600)
    assert len(links(browser, "statements")) == 2, "what comes back stands in one too"
    again = content.replace(b"<MsgId>", b"<MsgId>2", 1)
    assert hand_in(browser, again).status_code == 303
    assert "The bank has refused 2 orders: AC02." in browser.get(f"{PAGE}/orders").text


@pytest.mark.either_engine
def test_order_files_of_others_and_other_files_are_refused(
    visitor: Visitor, owner: Organization, browser: Browser, service: Service
) -> None:
    other = FileBank(service, service.organization("Fremde GmbH"))
    _, content = order_file(other, _30="Papier GmbH")
    assert hand_in(browser, content).status_code == 303
    assert "The bank has refused one order: AC02." in browser.get(f"{PAGE}/orders").text
    for wrong in (b"nothing", b"<Document/>", content.replace(b"<MsgId>", b"<MsgId>" + b"x" * 36)):
        assert hand_in(browser, wrong).status_code == 422, wrong
    [report] = links(browser, "reports")
    stranger = Browser(service)
    service.user(other.owner, "max@muster.example", "admin")
    stranger.sign_in("max@muster.example")
    assert hand_in(stranger, content).status_code == 303
    visitor.later(10)
    [statement] = links(stranger, "statements")
    assert (stranger.get(report).status_code, browser.get(statement).status_code) == (404, 404)
    for path in ("reports/x", f"statements/{IBAN}/0", f"statements/{IBAN}/x", f"statements/{IBAN}/{'9' * 30}"):
        assert stranger.get(f"{PAGE}/orders/{path}").status_code == 404, path


@pytest.mark.either_engine
def test_the_clock_is_moved_forward_and_back_while_nobody_else_goes_by_it(
    visitor: Visitor, owner: Organization, browser: Browser, service: Service
) -> None:
    connection = visitor.connect(owner, "notan", accounts=(0,))

    def ahead() -> int:
        return service.db.read_now(store.ahead)

    do(visitor, browser, "/clock", step="half-year")
    assert ahead() == 180 * DAY
    assert visitor.shown(owner, connection["id"])["error_class"] == "AispConsentExpired"
    do(visitor, browser, "/clock", step="half-year")
    refused = browser.post(f"{PAGE}/clock", {"step": "half-year"})
    assert (refused.status_code, ahead()) == (422, 360 * DAY)
    do(visitor, browser, "/clock", step="reset")
    assert ahead() == 0
    do(visitor, browser, "/clock", step="hour")
    assert ahead() == 3600 * SECOND
    visitor.connect(service.organization("Fremde GmbH"), "notan", accounts=(0,))
    assert "the operator moves its clock" in browser.get(PAGE).text
    assert browser.post(f"{PAGE}/clock", {"step": "day"}).status_code == 422
    assert ahead() == 3600 * SECOND


@pytest.mark.either_engine
def test_nobody_touches_what_belongs_to_others(
    visitor: Visitor, owner: Organization, browser: Browser, service: Service
) -> None:
    other = service.organization("Fremde GmbH")
    theirs = visitor.connect(other, "notan", accounts=(0,))
    account_ref = service.db.read_now(store.accounts_of_connection, visitor.connection().ref)[0].ref
    payment = visitor.order(other)
    mine = visitor.connect(owner, "notan", accounts=(0,))
    before = len(visitor.transactions(other, theirs["id"]))
    for path, fields in (
        (f"/connections/{theirs['id']}/do/destroy", {}),
        (f"/connections/{theirs['id']}/fail", {"error_class": "ProviderError"}),
        (f"/payments/{payment['id']}", {"status": "failed"}),
    ):
        # Numbers are an organisation's own: the same one may be another thing of ours.
        if path.startswith("/connections") and theirs["id"] == mine["id"]:
            continue
        assert browser.post(f"{PAGE}{path}", fields).status_code == 404, path
    for connection_id in (theirs["id"], mine["id"]):
        booking = {"account": f"{connection_id} {account_ref}", "amount": "1", "text": "Fremd"}
        assert browser.post(f"{PAGE}/book", booking).status_code in (404, 422)
    visitor.deliver()
    assert visitor.shown(other, theirs["id"])["status"] == "active"
    assert visitor.payment(other, payment)["status"] != "failed"
    assert len(visitor.transactions(other, theirs["id"])) == before


@pytest.mark.parametrize("engine", ["sqlite"])
def test_only_administrators_find_it_and_only_where_the_sandbox_is_the_bank(start_service: ServiceFactory) -> None:
    service = start_service()
    organization = service.organization()
    service.user(organization, EMAIL, "member")
    browser = Browser(service)
    browser.sign_in(EMAIL)
    assert PAGE not in browser.get("/dashboard").text
    assert browser.get(PAGE).status_code == 403
    assert browser.post(f"{PAGE}/clock", {"step": "day"}).status_code == 403
    elsewhere = start_service(connect_provider="files")
    elsewhere.user(organization, "max@muster.example", "owner")
    browser = Browser(elsewhere)
    browser.sign_in("max@muster.example")
    assert f'"{PAGE}"' not in browser.get("/dashboard").text
    assert browser.get(PAGE).status_code == 404
    assert browser.post(f"{PAGE}/clock", {"step": "day"}).status_code == 404


def test_everything_of_the_bank_says_what_it_is_and_can_be_removed(
    visitor: Visitor, owner: Organization, browser: Browser, service: Service
) -> None:
    """The bookings from it too; and nothing of a bank that exists."""
    assert 'class="sandbox"' not in browser.get("/dashboard").text
    FileBank(service, owner)
    visitor.connect(owner, accounts=(0,))
    [kept, account] = visitor.accounts(owner)
    assert (account["extra"]["is_sandbox"], kept["extra"].get("is_sandbox")) == (True, None)
    [row, *_] = [one for one in visitor.transactions(owner, "", account_id=account["id"]) if one["status"] == "posted"]
    books = Books(service, owner, years=(f"{row['made_on'][:4]}-01-01",))
    settings = {"connection_id": books.connection_id, "konto": "1200", "booked_by": "kontobahn"}
    assert service.request("PUT", f"/v2/reconciliation/accounts/{account['id']}", owner.key, json=settings).is_success
    line = {"kind": "ledger_account", "konto": "1590", "amount": row["amount"]}
    match = {"transaction_id": row["id"], "lines": [line]}
    assert service.post("/v2/reconciliation/matches", owner.key, json=match).status_code == 201
    handed = {"account_id": account["id"], "to_date": row["made_on"]}
    batch = service.post("/v2/reconciliation/batches", owner.key, json=handed).json()["data"]
    file = service.get(f"/v2/reconciliation/batches/{batch['id']}/extf", owner.key).text
    assert "SANDBOX" in file.splitlines()[0]
    before = service.balance(owner)
    visitor.order(owner, account_id=account["id"])
    assert service.balance(owner).available < before.available
    for path in ("/dashboard", "/dashboard/accounts", "/dashboard/open-items", "/dashboard/profile"):
        assert 'class="sandbox"' in browser.get(path).text
    assert f"{account['name']} (sandbox)" in browser.get("/dashboard/transactions.csv").text
    assert (
        "sandbox-handover" in browser.get(f"/dashboard/handovers/{batch['id']}/list.csv").headers["content-disposition"]
    )
    sheet = browser.get("/dashboard/trial-balance.csv")
    assert "Sandbox%20Trial" in sheet.headers["content-disposition"]
    printed = browser.get("/dashboard/trial-balance.pdf")
    assert "Sandbox" in PdfReader(io.BytesIO(printed.content)).pages[0].extract_text()
    assert "with one account" in browser.get(f"{PAGE}/remove").text
    assert browser.post(f"{PAGE}/remove").status_code == 303
    assert 'class="sandbox"' not in browser.get("/dashboard").text
    assert "Sandbox" not in browser.get("/dashboard/trial-balance.csv").headers["content-disposition"]
    assert visitor.accounts(owner) == [kept]
    assert kept["extra"]["transactions_count"]["posted"]
    assert service.get("/v2/banking/payments", owner.key).json()["data"] == []
    assert service.balance(owner).reserved == before.reserved, "what the payment had reserved is back"
    turnover = books.rows("SELECT generalumkehr, COUNT(*) FROM books_bookings GROUP BY generalumkehr ORDER BY 1")
    assert turnover == [(0, 1), (1, 1)], "booked once, and taken back"
    assert service.get("/v2/reconciliation/accounts", owner.key).json()["data"] == []
    assert "Everything of the sandbox bank removed" in browser.get("/dashboard/audit").text
    assert browser.get(f"{PAGE}/remove").status_code == 303


def test_the_bank_is_off_unless_it_is_named(start_service: ServiceFactory) -> None:
    service = start_service(connect_provider="")
    organization = service.organization()
    service.user(organization, EMAIL, "owner")
    assert service.get("/v2/banking/providers", organization.key).json()["data"] == []
    assert service.post("/v2/banking/connect", organization.key, json={}).status_code == 409
    browser = Browser(service)
    browser.sign_in(EMAIL)
    assert browser.get(PAGE).status_code == 404


@pytest.mark.parametrize("engine", ["sqlite"])
def test_its_pages_are_there_while_it_is_offered_whenever_the_first_page_was_opened(
    start_service: ServiceFactory,
) -> None:
    service = start_service()
    organization = service.organization()
    service.user(organization, EMAIL, "admin")
    parts: Any = service.application.context.parts
    with_it = parts[Banking]
    parts[Banking] = with_it._replace(connect_providers=())
    browser = Browser(service)
    browser.sign_in(EMAIL)
    assert browser.get(PAGE).status_code == 404
    parts[Banking] = with_it
    assert browser.get(PAGE).status_code == 200
    assert browser.post(f"{PAGE}/clock", {"step": "day"}).status_code == 303
