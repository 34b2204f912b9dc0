"""The books in a browser: open items, trial balance down to the booking, cash entries with a receipt, files and undoing."""

from __future__ import annotations

import html
import io
import json
import re
import zipfile
from datetime import date
from decimal import Decimal
from typing import Any

import httpx
import pytest

from kontobahn.books import bookings, store
from kontobahn.dashboard.components import unbroken
from kontobahn.db import Tx
from kontobahn.ledger.errors import ProviderError
from kontobahn.ledger.wire import Periode, SheetSelection, Zahlungsbedingung
from tests.api.ledger.files import INVOICE, file, imported, undone
from tests.dashboard.browsing import Browser
from tests.dashboard.test_bank_lists import rows_of
from tests.harness import Organization, Service
from tests.ledger_builder import Books
from tests.providers.scripted import ScriptedProvider
from tests.unit.formats.extf.files import satz

PNG = b"\x89PNG\r\n\x1a\n" + bytes(64)
POSTINGS = """
2026-01-10 S 10001 8400 119,00 RE-1 Rechnung eins bu=3
2026-01-20 S 1200 10001 100,00 RE-1 Zahlung
2026-02-01 H 70001 4930 59,50 ER/7 Papier bu=9
"""


@pytest.fixture
def browser(books: Books, browser: Browser) -> Browser:
    """Somebody whose books are there from the start."""
    return browser


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
    assert cells(shown)[-10:-5] == ["10001", "10001", "1", "€19.00", "€19.00"]
    statement = browser.get(link(shown, "/open-items/100010000"))
    assert "€19.00" in cells(statement)
    document = browser.get(link(statement, "/document?"))
    assert "€119.00" in cells(document)
    assert "€100.00" in cells(document)
    assert "10001" not in cells(browser.get("/dashboard/open-items?search=nobody"))
    assert "10001" in cells(browser.get("/dashboard/open-items?search=re-1+19.00"))
    file_ = browser.get("/dashboard/open-items.csv?side=creditors")
    assert file_.headers["content-disposition"].startswith("attachment")
    assert "\n70001," in file_.text
    assert "-59.50" in file_.text
    # A document number may hold anything, a slash too.
    statement = browser.get("/dashboard/open-items/700010000")
    assert "€59.50" in cells(browser.get(link(statement, "/document?")))


def columns(answer: httpx.Response, *, last: int = 0) -> Decimal:
    """Debit less credit of the lines of a page, which have these two last, before `last` other columns."""
    total, found = Decimal(), cells(answer)
    width = answer.text.count('<th scope="col"')
    for start in range(0, len(found) // width * width, width):
        end = start + width - last
        debit, credit = (re.sub("[€,]", "", text).replace("−", "-") or "0" for text in found[end - 2 : end])
        total += Decimal(debit) - Decimal(credit)
    return total


def test_every_page_of_a_document_is_there_and_all_of_it_adds_up(browser: Browser, books: Books) -> None:
    """Discounts, general reversals and other currencies too; not what was undone."""
    books.post("2026-02-01 S 10002 8400 500,00 R Ä")
    books.post(
        "\n".join(f"2026-02-{day:02} S 1200 10002 1,0{day % 10} R skonto=0,0{day % 9 + 1}" for day in range(2, 29))
    )
    books.post("\n".join(f"2026-03-{day:02} S 10002 8400 2,00 R gu={day % 2}" for day in range(2, 29)))
    books.import_extf(file(satz("100,00;S;CHF;1,0500;95,24;EUR;10002;8400;;0103;R;;;Franken")))
    undone(books, imported(books, file(satz("77,00;S;;;;;10002;8400;;0203;R;;;Irrtum")))["id"])
    statement = browser.get("/dashboard/open-items/100020000")
    total, rows = Decimal(), 0
    page = browser.get(link(statement, "/document?"))
    while True:
        total += columns(page)
        rows += len(set(re.findall(r">(\d+)</td>", page.text)))
        # Paper says that there is more.
        assert "Printed is one page of a longer list." in page.text
        if 'rel="next"' not in page.text:
            break
        page = browser.get(link(page, "after="))
    (item,) = books.read("/v2/ledger-rewe-read/opos", stichtag="2026-12-31", kontonummer="10002")["konten"]
    assert (total, rows) == (Decimal(str(item["totalSaldo"])), 56)
    assert "Irrtum" not in page.text


def test_the_bookings_of_an_account_add_up_to_its_balance(browser: Browser, books: Books) -> None:
    books.post(
        "2026-02-01 S 10002 8400 119,00 R2\n2026-02-02 S 1200 10002 116,62 R2 skonto=2,38\n2026-02-03 S 10002 8400 10,00 R3 gu=1"
    )
    susa = {
        row["kontonummer"]: row["saldo"]
        for row in books.read("/v2/ledger-rewe-read/susa", geschaeftsjahrStartDatum="2026-01-01")
    }
    assert {"17760000", "87360000"} <= set(susa)
    for konto, saldo in susa.items():
        must = Decimal(str(saldo["betrag"])) * (1 if saldo["sollHabenKennzeichen"] == "SOLL" else -1)
        page = browser.get(f"/dashboard/trial-balance/{konto}")
        assert columns(page, last=1) == must, konto
        side = "" if not must else "S" if must > 0 else "H"
        assert cells(page)[-1] == f"€{abs(must):,.2f}{side}"
        lines = browser.get(f"/dashboard/trial-balance/{konto}/sheet.csv").text.splitlines()
        assert lines[-1].endswith(f",{must:.2f}") or f'"{must:,.2f}"' in lines[-1]
        of_february = browser.get(f"/dashboard/trial-balance/{konto}/sheet.csv?period=2").text.splitlines()
        assert of_february[1:] == [line for line in lines if ",2026-02-" in line]


def test_from_the_trial_balance_to_the_bookings(browser: Browser) -> None:
    shown = browser.get("/dashboard/trial-balance?kind=ledger")
    assert "8400" in cells(shown)
    assert "10001" not in cells(shown)
    account = browser.get(link(shown, "/trial-balance/84000000"))
    row = cells(account)
    # Net: the tax is on its own account.
    assert row[1:7] == ["Rechnung eins\nRE-1 · Booking 1", "10001", "3", "", "€100.00", "€100.00H"]
    tax = cells(browser.get("/dashboard/trial-balance/17760000"))
    assert tax[1:7] == ["Rechnung eins\nRE-1 · Booking 1", "10001", "3", "", "€19.00", "€19.00H"]
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
        service.db.read_now(_check_plans, books)


def _check_plans(tx: Tx, books: Books) -> None:
    """SQLite finds the bookings of an account by their places on its sheet, behind the page before."""
    found: list[str] = []

    class Explained:
        def one(self, sql: str, *params: Any) -> Any:
            found.extend(line for *_, line in tx.all(f"EXPLAIN QUERY PLAN {sql}", *params))
            return tx.one(sql, *params)

        def all(self, sql: str, *params: Any) -> Any:
            found.extend(line for *_, line in tx.all(f"EXPLAIN QUERY PLAN {sql}", *params))
            return tx.all(sql, *params)

    explained: Any = Explained()
    for konto in ("84010000", "17760000"):
        found.clear()
        bookings.sheet_page(explained, books.client, SheetSelection(date(2026, 1, 1), konto, after="3.2026-03-01.9"))
        places = [line for line in found if "blatt=?" in line]
        assert places
        assert all("(periode,belegdatum,booking)>(?,?,?)" in line for line in places), places
        assert all("id=?" in line for line in found if "SEARCH books_bookings" in line), found
        assert not [line for line in found if "SCAN books_" in line or "SCAN b" in line], found


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
    # The name of the person who imported it.
    assert "Erika Muster" in batch.text
    assert "Erika Muster" in browser.get("/dashboard/batches").text
    assert "user:" not in batch.text
    assert cells(batch)[2:] == ["Rechnung KäseRE-1", "10010", "8400", "–", "€119.00"]
    assert link(browser.get("/dashboard/batches"), "#booked").partition("?")[0] in taken.headers["location"]
    asked = browser.get(link(batch, "/undo"))
    undone = browser.post(link(batch, "/undo").partition("?")[0], hidden(asked))
    assert undone.status_code == 303, undone.text
    reversal = browser.get(undone.headers["location"])
    assert "To the batch that it undoes" in reversal.text
    assert "<h1>Reversal" in reversal.text
    assert cells(reversal)[-1] == "−€119.00"
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
    # A summary above the form names each field and leads to it.
    assert re.search(r'role="alert" tabindex="-1" autofocus>.*<a href="#f-iban">IBAN: \w', refused.text, re.DOTALL)
    assert "IBAN: This must have at least 15 characters." in refused.text
    assert 'id="f-iban"' in refused.text
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
        by_another = "An administrator of your organisation sets them up." in shown.text
        assert by_another != ("/dashboard/books/new" in shown.text), path
    for path in ("trial-balance/1200", "partners/10001", "batches/1"):
        assert browser.get(f"/dashboard/{path}").status_code == 404, path


def test_pages_show_the_books_of_another_provider(service: Service, muster: Organization, browser: Browser) -> None:
    service.ledger_providers["scripted"] = ScriptedProvider()
    connection_id = service.ledger_connection(muster, provider="scripted")
    for path, text in (
        ("/dashboard/books", "Anderswo GmbH"),
        ("/dashboard/partners", "Beispiel Anderswo"),
        ("/dashboard/partners?search=lieferant", "Lieferant Anderswo"),
        ("/dashboard/partners/100100000", "Beispiel Anderswo"),
        ("/dashboard/trial-balance/100100000", "Rechnung anderswo"),
        ("/dashboard/open-items/100100000/document?beleg=RE-1", "Zahlung anderswo"),
    ):
        page = browser.get(f"{path}{'&' if '?' in path else '?'}connection={connection_id}")
        assert page.status_code == 200, (path, page.text)
        assert text in page.text, path


def test_a_page_says_what_another_provider_refuses(service: Service, muster: Organization, browser: Browser) -> None:
    provider = service.ledger_providers["scripted"] = ScriptedProvider()
    connection_id = service.ledger_connection(muster, provider="scripted")
    provider.script.trouble["partners"] = ProviderError(501, "partners are not told by this program")
    page = browser.get(f"/dashboard/partners?connection={connection_id}")
    assert page.status_code == 503


def test_terms_by_periods_name_the_discount_of_each(browser: Browser, books: Books) -> None:
    span = Periode("Rechnungen vom 1. bis 15.", "20. des laufenden Monats", None, "Monatsende des laufenden Monats")
    terms = Zahlungsbedingung(
        id="40", bezeichnung="Monatsweise", skontoFrist1=None, skontoSatz1=Decimal(2), skontoFrist2=None, skontoSatz2=Decimal(0),
        nettoFrist=None, faelligkeitsart="ALS_ZEITRAUM", perioden=[span],
    )  # fmt: skip
    books.service.db.write_now(store.save_payment_terms, books.client, terms)
    page = " ".join(html.unescape(browser.get("/dashboard/partners/terms").text).split())
    assert "invoices from day 1 to day 15: 2.00 % by day 20 of the month, net by the end of the month" in page
    page = " ".join(html.unescape(browser.get("/dashboard/partners/terms", **{"accept-language": "de"}).text).split())
    assert (
        "Rechnungen vom 1. bis 15.: 2,00 % bis 20. des laufenden Monats, netto bis Monatsende des laufenden Monats"
        in page
    )


def test_what_is_due_by_age_leads_to_the_documents_that_add_up_to_it(browser: Browser, books: Books) -> None:
    books.post("2026-02-25 S 10001 8400 238,00 RE-2 Rechnung zwei bu=3")
    shown = browser.get("/dashboard/open-items?stichtag=2026-02-28")
    sums = re.findall(r'href="(/dashboard/open-items/due[^"]*side=[^"]*)"><span[^>]*>([^<]+)<', shown.text)
    # Of five ages and the total, of customers and of suppliers, those that have documents.
    assert [words for _, words in sums] == ["€238.00", "€59.50", "€19.00", "€257.00", "€59.50"]
    for address, words in sums:
        assert cells(browser.get(html.unescape(address)))[-1] == words, address
    assert "Age: up to 30 days" in browser.get(html.unescape(sums[0][0])).text


def test_numbers_of_documents_and_accounts_stay_in_one_line() -> None:
    iban = "DE89 3704 0044 0532 0130 00"
    assert unbroken(f"IBAN: {iban}, Name: A") == f'IBAN: <span class="iban">{iban}</span>, Name: A'
    assert 'Zahlung <span class="whole">RE-2026-0141</span> &amp; Rest' in unbroken("Zahlung RE-2026-0141 & Rest")
    long = f"RE-{'1' * 30}"
    assert unbroken(long) == long
