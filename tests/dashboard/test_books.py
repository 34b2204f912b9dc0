"""The books in a browser: open items, trial balance down to the booking, cash entries with a receipt, files and undoing."""

from __future__ import annotations

import html
import io
import json
import re
import zipfile
from typing import Any

import httpx
import pytest

from kontobahn.dashboard.views import books as views
from kontobahn.db import Tx
from tests.api.ledger.files import INVOICE, file
from tests.dashboard.browsing import Browser
from tests.dashboard.test_bank_lists import rows_of
from tests.harness import Organization, Service
from tests.ledger_builder import Books

PNG = b"\x89PNG\r\n\x1a\n" + bytes(64)
POSTINGS = """
2026-01-10 S 10001 8400 119,00 RE-1 Rechnung eins bu=3
2026-01-20 S 1200 10001 100,00 RE-1 Zahlung
2026-02-01 H 70001 4930 59,50 ER/7 Papier bu=9
"""


@pytest.fixture
def muster(service: Service) -> Organization:
    organization = service.organization()
    service.user(organization, "erika@muster.example", "member")
    return organization


@pytest.fixture
def books(service: Service, muster: Organization) -> Books:
    made = Books(service, muster)
    made.post(POSTINGS)
    return made


@pytest.fixture
def browser(service: Service, books: Books) -> Browser:
    found = Browser(service)
    assert found.sign_in("erika@muster.example").status_code == 303
    return found


def cells(answer: httpx.Response) -> list[str]:
    """The texts of a page's table cells, without markup."""
    assert answer.status_code == 200, answer.text
    found = re.findall(r"<td[^>]*>(.*?)</td>", answer.text, re.DOTALL)
    return [html.unescape(re.sub(r"<[^>]+>", "", cell)).replace("\u00a0", " ").strip() for cell in found]


def link(answer: httpx.Response, begins: str) -> str:
    return next(html.unescape(found) for found in re.findall(r'href="([^"]+)"', answer.text) if begins in found)


def hidden(answer: httpx.Response) -> dict[str, str]:
    found = re.findall(r'type="hidden" name="(\w+)" value="([^"]*)"', answer.text)
    return {name: html.unescape(value) for name, value in found if name != "next"}


def test_from_open_items_to_the_document(browser: Browser) -> None:
    shown = browser.get("/dashboard/open-items?side=debitors")
    assert cells(shown)[-5:] == ["100010000", "", "1", "€19.00", "€19.00"]
    statement = browser.get(link(shown, "/open-items/100010000"))
    assert "€19.00" in cells(statement)
    document = browser.get(link(statement, "/document?"))
    assert "€119.00" in cells(document)
    assert "€100.00" in cells(document)
    assert "100010000" not in cells(browser.get("/dashboard/open-items?search=nobody"))
    assert "100010000" in cells(browser.get("/dashboard/open-items?search=re-1+19.00"))
    file_ = browser.get("/dashboard/open-items.csv?side=creditors")
    assert file_.headers["content-disposition"].startswith("attachment")
    assert "700010000" in file_.text
    assert "-59.50" in file_.text
    # A document number may hold anything, a slash too.
    statement = browser.get("/dashboard/open-items/700010000")
    assert "€59.50" in cells(browser.get(link(statement, "/document?")))


def test_from_the_trial_balance_to_the_bookings(browser: Browser) -> None:
    shown = browser.get("/dashboard/trial-balance?kind=ledger")
    assert "84000000" in cells(shown)
    assert "100010000" not in cells(shown)
    account = browser.get(link(shown, "/trial-balance/84000000"))
    row = cells(account)
    assert row[3:8] == ["Rechnung eins", "100010000", "3", "", "€119.00"]
    assert browser.get("/dashboard/trial-balance/99990000").status_code == 404
    assert browser.get("/dashboard/trial-balance.csv").text.count("\n") > 5


def test_the_bookings_of_an_account_are_found_by_index_page_by_page(
    service: Service, browser: Browser, books: Books, engine: str
) -> None:
    books.post("".join(
        f"2026-03-01 {'S' if number % 2 else 'H'} {'8401 1200' if number % 3 else '1200 8401'} 1,00 B-{number} Text\n"
        for number in range(110)
    ))  # fmt: skip
    books.post("2026-03-02 S 8401 8402 5,00 C-1 andere")
    found, pages = rows_of(browser, "/dashboard/trial-balance/84010000")
    assert (len(found), len(set(found)), pages) == (111, 111, 3)
    assert rows_of(browser, "/dashboard/trial-balance/84020000")[0] == found[-1:]
    if engine == "sqlite":
        plans = service.db.read_now(_plans, books)
        assert not [line for line in plans if "SCAN books_" in line or "SCAN b" in line], plans


def _plans(tx: Tx, books: Books) -> list[str]:
    """How SQLite finds the bookings of an account."""
    found: list[str] = []

    class Explained:
        def one(self, sql: str, *params: Any) -> Any:
            found.extend(line for *_, line in tx.all(f"EXPLAIN QUERY PLAN {sql}", *params))
            return tx.one(sql, *params)

        def all(self, sql: str, *params: Any) -> Any:
            found.extend(line for *_, line in tx.all(f"EXPLAIN QUERY PLAN {sql}", *params))
            return tx.all(sql, *params)

    explained: Any = Explained()
    arguments = (books.connection_id, books.client.client_id, "2026-01-01", "84010000", 0, 51)
    assert len(views.bookings_of_account(explained, *arguments)) == 51
    assert sum("books_bookings_by_" in line for line in found) == 2
    return found


def test_a_cash_entry_with_its_receipt_is_written_once_and_reversed(browser: Browser, books: Books) -> None:
    form = browser.get("/dashboard/cash-book/new")
    entry: dict[str, Any] = {
        **hidden(form), "day": "2026-03-02", "direction": "in", "amount": "12.50", "text": "Verkauf", "account": "8400",
    }  # fmt: skip

    def send(receipt: tuple[str, bytes], **changed: str) -> httpx.Response:
        origin = {"origin": browser.service.base_url}
        path, sent = "/dashboard/cash-book/new", {**entry, **changed}
        return browser.send("POST", path, data=sent, files={"receipt": receipt}, headers=origin)

    refused = send(("", b""), direction="out")
    assert refused.status_code == 422
    assert 'value="12.50"' in refused.text
    made = send(("quittung.png", PNG))
    assert made.status_code == 303, made.text
    assert send(("quittung.png", PNG)).headers["location"] == made.headers["location"]
    month = browser.get(made.headers["location"])
    assert cells(month).count("Verkauf") == 1
    image = browser.get(link(month, "/cash-book/receipts/"))
    assert image.content == PNG
    assert image.headers["content-type"] == "image/png"
    assert "frame-ancestors 'self'" in image.headers["content-security-policy"]
    asked = browser.get(link(month, "/reverse"))
    done = browser.post("/dashboard/cash-book/1/reverse", {**hidden(asked), "reason": "Falsch"})
    assert done.status_code == 303, done.text
    after = browser.get(done.headers["location"])
    assert "reversed by 2" in after.text
    assert cells(after)[-2] == "€0.00"


@pytest.mark.either_engine
def test_a_receipt_that_a_browser_could_run_is_only_ever_saved(browser: Browser, books: Books) -> None:
    form = hidden(browser.get("/dashboard/cash-book/new"))
    entry = {**form, "day": "2026-03-02", "direction": "in", "amount": "1.00", "text": "Verkauf", "account": "8400"}
    hostile = b'<?xml version="1.0"?><svg xmlns="http://www.w3.org/2000/svg" onload="alert(1)"/>'
    origin = {"origin": browser.service.base_url}
    path, file_ = "/dashboard/cash-book/new", {"receipt": ("beleg.xml", hostile, "image/svg+xml")}
    made = browser.send("POST", path, data=entry, files=file_, headers=origin)
    assert made.status_code == 303, made.text
    saved = browser.get(link(browser.get(made.headers["location"]), "/cash-book/receipts/"))
    assert saved.content == hostile
    assert saved.headers["content-disposition"].startswith("attachment")
    assert saved.headers["content-security-policy"].startswith("sandbox")
    assert saved.headers["x-content-type-options"] == "nosniff"
    assert "svg" not in saved.headers["content-type"]
    page = {"receipt": ("beleg.html", b"<!doctype html><script>alert(1)</script>", "text/html")}
    refused = browser.send("POST", path, data={**entry, **hidden(browser.get(path))}, files=page, headers=origin)
    assert refused.status_code == 422
    assert "PDF, JPEG" in refused.text


def test_a_file_is_read_with_its_protocol_and_undone(browser: Browser, books: Books) -> None:
    origin = {"origin": browser.service.base_url}
    form = hidden(browser.get("/dashboard/batches"))

    def send(content: bytes, name: str = "stapel.csv") -> httpx.Response:
        return browser.send("POST", "/dashboard/batches", data=form, files={"file": (name, content)}, headers=origin)

    assert "Please choose a file." in send(b"", "").text
    assert send(b"nonsense").status_code == 422
    taken = send(file(INVOICE))
    assert taken.status_code == 303, taken.text
    assert send(file(INVOICE)).status_code == 422
    batch = browser.get(taken.headers["location"])
    assert "One record was imported." in batch.text
    asked = browser.get(link(batch, "/undo"))
    undone = browser.post(link(batch, "/undo").partition("?")[0], hidden(asked))
    assert undone.status_code == 303, undone.text
    assert "To the batch that it undoes" in browser.get(undone.headers["location"]).text
    assert send(file(INVOICE)).status_code == 303


def test_a_year_is_taken_out_as_files(browser: Browser) -> None:
    taken = browser.get(link(browser.get("/dashboard/books"), "/books/export"))
    assert taken.headers["content-disposition"].startswith("attachment")
    with zipfile.ZipFile(io.BytesIO(taken.content)) as archive:
        assert any(b"RE-1" in archive.read(name) for name in archive.namelist())
    # Its place is free again.
    assert browser.get(link(browser.get("/dashboard/books"), "/books/export")).status_code == 200


def test_a_partner_is_added_and_changed_without_losing_anything(browser: Browser, books: Books) -> None:
    form = {**hidden(browser.get("/dashboard/partners/new")), "number": "10999", "name": "Neu GmbH", "iban": "DE00"}
    refused = browser.post("/dashboard/partners/new", form)
    assert refused.status_code == 422
    assert 'id="e-iban"' in refused.text
    assert 'id="e-number"' in browser.post("/dashboard/partners/new", {**form, "number": "9"}).text
    record = {
        "personenkontoNummer": "10999", "kontaktTyp": "COMPANY", "kontenrahmen": "SKR03", "kontonummernLaenge": 4,
        "geschaeftsjahrStartDatum": "2026-01-01", "firmenname": "Neu GmbH", "kontaktpersonen": [{"nachname": "Muster"}],
        "emailAdressen": [{"email": "a@neu.example", "typ": "INVOICE"}, {"email": "b@neu.example"}],
    }  # fmt: skip
    assert books.send("/v2/ledger-rewe/personenkonto", record).status_code == 201
    page = browser.get(link(browser.get("/dashboard/partners?search=neu"), "/partners/109990000"))
    assert 'value="a@neu.example"' in page.text
    changed = {**hidden(page), "number": "10999", "name": "Neuer Name GmbH", "email": "c@neu.example"}
    assert browser.post("/dashboard/partners/109990000", changed).status_code == 303
    ((stored,),) = books.rows("SELECT record FROM books_persons WHERE konto = ?", "109990000")
    kept = json.loads(stored)
    assert kept["firmenname"] == "Neuer Name GmbH"
    assert [item["email"] for item in kept["emailAdressen"]] == ["c@neu.example", "b@neu.example"]
    assert kept["emailAdressen"][0]["typ"] == "INVOICE"
    assert kept["kontaktpersonen"][0]["nachname"] == "Muster"
    assert browser.get("/dashboard/partners/123450000").status_code == 404
    assert "No partner" in browser.get("/dashboard/partners?search=%25").text


def test_books_of_others_are_not_there(service: Service, browser: Browser) -> None:
    foreign = Books(service, service.organization("Fremde GmbH"))
    for path in ("books", "open-items", "trial-balance", "cash-book", "batches", "partners"):
        assert browser.get(f"/dashboard/{path}?connection={foreign.connection_id}").status_code == 404
        assert browser.get(f"/dashboard/{path}?client=1-1&year=1999-01-01").status_code == 200


@pytest.mark.parametrize("engine", ["sqlite"])
def test_without_books_every_page_says_so_and_nothing_in_them_is_found(service: Service, muster: Organization) -> None:
    browser = Browser(service)
    assert browser.sign_in("erika@muster.example").status_code == 303
    for path in ("books", "open-items", "trial-balance", "cash-book", "cash-book/new", "batches", "partners/terms"):
        shown = browser.get(f"/dashboard/{path}")
        assert (shown.status_code, "No books yet" in shown.text) == (200, True), path
    for path in ("trial-balance/1200", "partners/10001", "batches/1"):
        assert browser.get(f"/dashboard/{path}").status_code == 404, path
