"""The sheets of the books as pages, as CSV files and printed: each adds up to what the API answers."""

from __future__ import annotations

import csv
import html
import io
import re
from decimal import Decimal
from typing import Any

import httpx
import pytest
from pypdf import PdfReader

from kontobahn.dashboard import sheets
from tests.dashboard.browsing import Browser
from tests.dashboard.test_books import cells
from tests.ledger_builder import PERSONENKONTO, Books
from tests.reconciliation_desk import PERSON

POSTINGS = """
2026-01-10 S 10001 8400 119,00 RE-1 Rechnung eins bu=3
2026-01-20 S 1200 10001 100,00 RE-1 Zahlung
2026-02-01 H 70001 4930 59,50 ER/7 Papier bu=9
2026-02-03 S 10002 8300 107,00 RE-2 Bücher bu=2
2026-02-04 H 10002 8300 10,70 RE-2 Irrtum bu=2 gu=1
2026-05-05 S 4210 1200 800,00 M-5 Miete
"""
YEAR = {"geschaeftsjahrStartDatum": "2026-01-01"}


@pytest.fixture
def browser(books: Books, browser: Browser) -> Browser:
    """Somebody whose books are there from the start."""
    return browser


def rows(answer: httpx.Response) -> list[list[str]]:
    """The rows of a CSV file, without its head."""
    assert answer.status_code == 200, answer.text
    return list(csv.reader(io.StringIO(answer.text.removeprefix("\ufeff"))))[1:]


def column(found: list[list[str]], place: int) -> Decimal:
    return sum((Decimal(row[place]) for row in found), Decimal())


def sums(answer: httpx.Response) -> list[list[str]]:
    """The cells of a page's rows of sums."""
    found = re.findall(r'<tr class="sum">(.*?)</tr>', answer.text, re.DOTALL)
    return [_texts(row) for row in found]


def _texts(row: str) -> list[str]:
    texts = re.findall(r"<td[^>]*>(.*?)</td>", row, re.DOTALL)
    return [" ".join(html.unescape(re.sub(r"<[^>]+>", "", text)).split()) for text in texts]


def euros(text: str) -> Decimal:
    """An amount of a page in English; a credit balance is negative."""
    sign = -1 if text.endswith("H") else 1
    return sign * Decimal(re.sub(r"[€,SH ]", "", text).replace("−", "-") or "0")


def signed(saldo: dict[str, Any] | None) -> Decimal:
    if saldo is None:
        return Decimal()
    return Decimal(str(saldo["betrag"])) * (1 if saldo["sollHabenKennzeichen"] == "SOLL" else -1)


def test_the_sums_of_a_trial_balance_are_those_of_its_accounts(browser: Browser, books: Books) -> None:
    susa = books.read("/v2/ledger-rewe-read/susa", **YEAR)
    shown = sums(browser.get("/dashboard/trial-balance"))
    assert [row[1] for row in shown] == ["Ledger accounts (8)", "Customers (2)", "Suppliers (1)", "All accounts (11)"]
    must = [
        sum(signed(row["ebWert"]) for row in susa), sum(Decimal(str(row["umsatzSoll"])) for row in susa),
        sum(Decimal(str(row["umsatzHaben"])) for row in susa), sum(signed(row["saldo"]) for row in susa),
    ]  # fmt: skip
    assert [euros(text) for text in shown[-1][2:]] == must
    customers = [row for row in susa if len(row["kontonummer"]) == 9 and row["kontonummer"] < "7"]
    assert euros(shown[1][-1]) == sum(signed(row["saldo"]) for row in customers) == Decimal("115.30")
    assert [row[1] for row in sums(browser.get("/dashboard/trial-balance?kind=suppliers"))] == ["Suppliers (1)"]


@pytest.mark.either_engine
def test_a_list_is_sorted_by_any_column_and_keeps_its_order_in_files(browser: Browser) -> None:
    def names(address: str) -> list[str]:
        return [row[0] for row in rows(browser.get(f"/dashboard/trial-balance.csv?{address}"))]

    assert names("kind=ledger")[:2] == ["1200", "1576"]
    debit = [row[3] for row in rows(browser.get("/dashboard/trial-balance.csv?sort=-debit"))]
    assert debit == sorted(debit, key=Decimal, reverse=True)
    # A column that there is not changes nothing.
    assert names("sort=nothing") == names("")
    page = browser.get("/dashboard/trial-balance?sort=debit&kind=ledger")
    assert page.text.count("aria-sort") == 1
    (other_way,) = re.findall(r'aria-sort="ascending"><a href="([^"]+)">Debit<', page.text)
    assert other_way == "/dashboard/trial-balance?sort=-debit&amp;kind=ledger"
    first = [cells(page)[place] for place in (0, 3, 6)]
    assert first == ["1771", "€0.00", "1776"]


def test_open_items_show_customers_and_suppliers_apart_with_their_sums(browser: Browser, books: Books) -> None:
    opos = books.read("/v2/ledger-rewe-read/opos", stichtag="2026-12-31")["konten"]
    page = browser.get("/dashboard/open-items?stichtag=2026-12-31")
    assert re.findall("<h2>(Customers|Suppliers)</h2>", page.text) == ["Customers", "Suppliers"]
    _ages, customers, suppliers = sums(page)
    owed = [Decimal(str(one["totalSaldo"])) for one in opos]
    assert euros(customers[-1]) == sum(amount for amount in owed if amount > 0) == Decimal("115.30")
    assert euros(suppliers[-1]) == -sum(amount for amount in owed if amount < 0) == Decimal("59.50")
    assert column(rows(browser.get("/dashboard/open-items.csv?stichtag=2026-12-31")), 7) == sum(owed)
    assert len(sums(browser.get("/dashboard/open-items?side=creditors"))) == 2, "ages, and suppliers"
    # By the number that people write, and by an amount as they type it.
    assert "10002" in cells(browser.get("/dashboard/open-items?search=10002+96.30"))
    # The digits that fill it up to its technical length are in no number that a person reads.
    assert "10002" not in cells(browser.get("/dashboard/open-items?search=20000"))
    assert "8400" in cells(browser.get("/dashboard/trial-balance?search=8400"))
    assert "8400" not in cells(browser.get("/dashboard/trial-balance?search=40000"))


def test_due_dates_are_the_open_items_one_by_one(browser: Browser, books: Books) -> None:
    books.post("2026-01-11 S 10001 8400 1190,00 RE-9 Spät bu=3")
    found = rows(browser.get("/dashboard/open-items/due.csv?stichtag=2026-12-31"))
    items = books.read("/v2/ledger-rewe-read/faelligkeiten", stichtag="2026-12-31", filter="debitors")
    must = [
        (item["faelligAm"], item["beleg"], Decimal(str(item["saldo"]))) for konto in items["konten"] for item in konto["posten"]
    ]  # fmt: skip
    assert [(row[0], row[4], Decimal(row[7])) for row in found] == sorted(must)
    page = browser.get("/dashboard/open-items/due?stichtag=2026-12-31")
    assert euros(sums(page)[0][-1]) == sum(amount for _, _, amount in must)
    supplier = browser.get("/dashboard/open-items/due?side=creditors&stichtag=2026-12-31&search=59.50")
    assert "ER/7" in cells(supplier)
    assert "€59.50" in cells(supplier)
    overdue = rows(browser.get("/dashboard/open-items/due.csv?stichtag=2026-01-12&when=overdue"))
    assert [row[4] for row in overdue] == ["RE-1", "RE-9"]
    week = rows(browser.get("/dashboard/open-items/due.csv?stichtag=2026-01-12&when=overdue&sort=-amount&search=spät"))
    assert [row[4] for row in week] == ["RE-9"]


def test_vat_figures_are_those_of_the_api(browser: Browser, books: Books) -> None:
    page = browser.get("/dashboard/reports/vat")
    for span, days in (("", {}), ("q1", {"vonDatum": "2026-01-01", "bisDatum": "2026-03-31"}),
                       ("t2", {"vonDatum": "2026-02-01", "bisDatum": "2026-04-30"}),
                       ("m2", {"vonDatum": "2026-02-01", "bisDatum": "2026-02-28"})):  # fmt: skip
        must = books.read("/v2/ledger-rewe-read/umsatzsteuer", **YEAR, **days)
        found = rows(browser.get(f"/dashboard/reports/vat.csv?span={span}"))
        amounts = [
            [str(line[name]) for name in ("bemessungsgrundlage", "umsatzsteuer", "vorsteuer")]
            for line in must["zeilen"]
        ]
        assert [[str(float(text)) for text in row[4:]] for row in found] == amounts
        page = browser.get(f"/dashboard/reports/vat?span={span}")
        assert [euros(text) for text in sums(page)[0][1:]] == [
            Decimal(str(must["summeUmsatzsteuer"])), Decimal(str(must["summeVorsteuer"]))
        ]  # fmt: skip
    # In February 6.30 of output tax, 9.50 of input tax.
    assert re.search(r"Estimated VAT to get back</p><p class=\"value\">€3.20<", page.text)


MORE = """
2026-02-10 S 10003 8400 119,00 RE-3 Rechnung drei bu=3
2026-02-15 S 1200 10003 119,00 RE-3 mit Skonto skonto=2,38
2026-02-16 H 70001 3125 200,00 ER/8 Bauleistung bu=94
2026-02-17 H 70001 4930 11,90 ER/9 unbekannt bu=77
2026-03-01 H 10003 8400 11,90 RE-3 Gutschrift bu=23
"""


def taxed(books: Books, how: str) -> None:
    books.service.db.write_now(lambda tx: tx.run("UPDATE books_clients SET versteuerung = ?", how))


@pytest.mark.parametrize("how", ["soll", "ist"])
def test_each_line_of_vat_figures_opens_to_bookings_that_add_up_to_it(browser: Browser, books: Books, how: str) -> None:
    books.post(MORE)
    taxed(books, how)
    books.post(
        "".join(
            f"2026-02-{1 + number % 28:02} S 1000 8300 1,0{number % 8} B-{number} Bar bu=2\n" for number in range(60)
        )
    )
    kinds = set()
    for span in ("", "m2"):
        figures = browser.get(f"/dashboard/reports/vat?span={span}").text
        links = [
            html.unescape(found) for found in re.findall(r'href="(/dashboard/reports/vat/bookings[^"]+)"', figures)
        ]
        assert links
        for link in links:
            kinds.add(re.search(r"art=(\w+)", link)[1])  # type: ignore[index]
            shown, wanted, counted, count = [Decimal()] * 3, [Decimal()], "", 0
            address: str | None = link
            while address:
                page = browser.get(address).text
                wanted = [euros(text) for text in re.findall(r'class="value">(?:<span[^>]*>)?([^<]+)<', page)]
                counted = re.findall(r'class="hint">(\w+) bookings?<', page)[0]
                for row in re.findall(r"<tr>(.*?)</tr>", page.partition("<tbody>")[2], re.DOTALL):
                    shown = [total + euros(text) for total, text in zip(shown, _texts(row)[-3:], strict=True)]
                    count += 1
                following = re.search(r'href="([^"]*after=[^"]*)"', page)
                address = html.unescape(following[1]) if following else None
            assert shown == wanted, link
            listed = rows(browser.get(link.replace("bookings?", "bookings.csv?")))
            assert len(listed) == count
            assert [column(listed, place) for place in (6, 7, 8)] == wanted
            assert counted == ("one" if count == 1 else str(count))
    # A customer's discount is a smaller payment, where payments are taxed.
    assert kinds == {
        "UMSATZSTEUER",
        "VORSTEUER",
        "LEISTUNGSEMPFAENGER",
        "BRUTTO",
        *(["SKONTO"] if how == "soll" else []),
    }
    printed = browser.get("/dashboard/reports/vat/bookings.pdf?art=VORSTEUER&rate=19&key=9")
    assert "Total" in PdfReader(io.BytesIO(printed.content)).pages[0].extract_text()
    assert browser.get("/dashboard/reports/vat/bookings?art=VORSTEUER&rate=3").status_code == 404
    assert browser.get("/dashboard/reports/vat/bookings.csv?art=VORSTEUER&rate=3").status_code == 404


def test_figures_say_where_the_client_is_taxed_otherwise(browser: Browser, books: Books) -> None:
    def shown(how: str) -> str:
        taxed(books, how)
        return browser.get("/dashboard/reports/vat").text

    assert 'class="notice"' not in shown("soll")
    assert "taxed by payments received (Istversteuerung)" in shown("ist")
    assert "small business (§ 19 UStG)" in shown("kleinunternehmer")


def test_partners_are_sorted_by_number_or_name(browser: Browser, books: Books) -> None:
    def shown(address: str) -> list[str]:
        page = browser.get(f"/dashboard/partners?{address}").text
        return re.findall(r'<a href="/dashboard/partners/(\d{9})', page)

    for number, name in (("10001", "Zimmer GmbH"), ("10002", "Anton AG"), ("70001", "Meier")):
        body = {**PERSON, "personenkontoNummer": number, "firmenname": name, "bankkonten": []}
        assert books.send(PERSONENKONTO, body).status_code == 201
    numbers, names = shown(""), shown("sort=name")
    assert [one[:5] for one in numbers] == ["10001", "10002", "70001"]
    assert [one[:5] for one in names] == ["10002", "70001", "10001"]
    assert shown("sort=-account") == numbers[::-1]
    assert shown("sort=-name") == names[::-1]
    assert shown("sort=nothing") == numbers


def test_each_line_of_profit_and_loss_is_the_sum_of_its_accounts(browser: Browser, books: Books) -> None:
    must = books.read("/v2/ledger-rewe-read/bwa", **YEAR, bisPeriode="5")
    found = rows(browser.get("/dashboard/reports/profit-and-loss.csv?until=5"))
    assert [(row[0], Decimal(row[-1])) for row in found] == [
        (line["bezeichnung"], Decimal(str(line["kumuliert"]))) for line in must["zeilen"]
    ]
    shown = cells(browser.get("/dashboard/reports/profit-and-loss?until=5&accounts=true"))
    lines = [shown[place : place + 4] for place in range(0, len(shown), 4)]
    left: dict[str, Decimal] = {}
    name = ""
    for text, _of_period, cumulated, _share in lines:
        if text in {line["bezeichnung"] for line in must["zeilen"]}:
            name = text
            left[name] = euros(cumulated)
        else:
            left[name] -= euros(cumulated)
    assert not any(left[line["bezeichnung"]] for line in must["zeilen"] if not line["istSumme"]), left
    assert ["4210", "−€800.00"] in [[line[0].split()[0], line[1]] for line in lines]


def test_the_journal_has_every_booking_by_period(browser: Browser, books: Books) -> None:
    must = books.read("/v2/ledger-rewe-read/buchungen", **YEAR)
    found = rows(browser.get("/dashboard/reports/journal.csv"))
    assert [row[0] for row in found] == [booking["id"] for booking in must]
    # Debit, then credit; a Generalumkehr takes back.
    assert [row[4:6] + row[7:] for row in found[:3]] == [
        ["10001", "8400", "119.00"], ["1200", "10001", "100.00"], ["4930", "70001", "59.50"]
    ]  # fmt: skip
    assert found[4][4:6] + found[4][7:] == ["10002", "8300", "-10.70"]
    february = rows(browser.get("/dashboard/reports/journal.csv?period=2"))
    assert [row[2] for row in february] == ["ER/7", "RE-2", "RE-2"]
    books.post("\n".join(f"2026-06-{day:02} S 4210 1200 {day},00 M-{day}" for day in range(1, 29)))
    books.post("\n".join(f"2026-07-{day:02} S 4210 1200 {day},00 N-{day}" for day in range(1, 29)))
    page = browser.get("/dashboard/reports/journal")
    onward = html.unescape(re.findall(r'href="([^"]+)" rel="next"', page.text)[0])
    numbers = [
        row for part in (page, browser.get(onward)) for row in re.findall(r'class="number"[^>]*>(\d+)</td>', part.text)
    ]
    assert numbers == [booking["id"] for booking in books.read("/v2/ledger-rewe-read/buchungen", **YEAR)]


# The path of a sheet, its title, and texts in it.
PRINTED = [
    ("trial-balance.pdf", "Trial balance", ["8400", "All accounts (11)"]),
    ("open-items.pdf", "Open items", ["RE-1", "19.00", "Suppliers"]),
    ("open-items/due.pdf", "Due dates", ["RE-2", "96.30", "115.30"]),
    ("reports/vat.pdf", "VAT figures", ["Output tax", "19 %", "Amounts in euros."]),
    ("reports/profit-and-loss.pdf", "Profit and loss", ["Umsatzerlöse", "Vorläufiges Ergebnis"]),
    ("reports/journal.pdf", "Journal", ["Rechnung eins", "−10.70"]),
    ("trial-balance/84000000/sheet.pdf", "8400", ["Rechnung eins", "100.00 H"]),
]


@pytest.mark.either_engine
def test_every_sheet_is_printed_as_a_document(browser: Browser) -> None:
    for path, title, texts in PRINTED:
        answer = browser.get(f"/dashboard/{path}")
        assert (answer.status_code, answer.headers["content-type"]) == (200, "application/pdf"), path
        (page,) = PdfReader(io.BytesIO(answer.content)).pages
        shown = page.extract_text()
        for text in (title, "Muster GmbH", "29098-55003", "Printed on 2 Mar 2026", "Page 1 of 1", *texts):
            assert text in shown, (path, text, shown)


@pytest.mark.either_engine
def test_a_printed_account_sheet_has_the_turnover_of_the_trial_balance(browser: Browser, books: Books) -> None:
    """The opening is summed up apart; the balance of the months before a chosen one stands above its lines."""
    books.post("2026-01-01 S 1200 9000 500,00 EB Vortrag")
    for query, lines in (
        ("", ["Opening balance 500.00 0.00", "Movements 100.00 800.00", "Total 600.00 800.00 200.00 H"]),
        ("?period=5", ["Carried forward 600.00 S", "Total 0.00 800.00 200.00 H"]),
    ):
        printed = browser.get(f"/dashboard/trial-balance/12000000/sheet.pdf{query}").content
        shown = " ".join(PdfReader(io.BytesIO(printed)).pages[0].extract_text().split())
        for line in lines:
            assert line in shown, (line, shown)
    assert sums(browser.get("/dashboard/trial-balance/12000000")) == [
        ["Opening balance", "€500.00", "€0.00", ""],
        ["Movements", "€100.00", "€800.00", ""],
        ["Total", "€600.00", "€800.00", "€200.00H"],
    ]


@pytest.mark.either_engine
def test_printed_open_items_are_summed_up_for_each_partner(browser: Browser, books: Books) -> None:
    books.post("2026-02-20 S 10001 8400 50,00 RE-9 Rechnung neun bu=3")
    printed = browser.get("/dashboard/open-items.pdf").content
    shown = " ".join(PdfReader(io.BytesIO(printed)).pages[0].extract_text().split())
    assert "Total 10001 69.00 S" in shown
    assert "Total 10002" not in shown, "one item is its own sum"
    assert len(rows(browser.get("/dashboard/open-items.csv"))) == 4, "a spreadsheet adds up by itself"


@pytest.mark.either_engine
def test_a_german_sheet_has_whole_words(browser: Browser) -> None:
    """The page's words have places to break; on paper these are neither question marks nor words that run into each other."""
    answer = browser.get("/dashboard/reports/vat.pdf", **{"accept-language": "de"})
    (page,) = PdfReader(io.BytesIO(answer.content)).pages
    shown = page.extract_text()
    assert "Umsatzsteuerwerte" in shown
    assert "?" not in shown
    assert "Buchungen Bemessungsgrundlage" in shown


@pytest.mark.either_engine
def test_a_print_has_all_rows_and_its_head_on_every_page(browser: Browser, books: Books) -> None:
    books.post("\n".join(f"2026-03-01 S 4210 1200 1,00 N-{number}" for number in range(1, 121)))
    pages = PdfReader(io.BytesIO(browser.get("/dashboard/reports/journal.pdf?period=3").content)).pages
    texts = [page.extract_text() for page in pages]
    assert len(texts) > 1
    assert all("Journal" in text and f"Page {place} of {len(texts)}" in text for place, text in enumerate(texts, 1))
    assert sum(text.count("N-") for text in texts) == 120
    assert "120.00" in texts[-1]


@pytest.mark.either_engine
def test_more_rows_than_are_printed_are_refused(browser: Browser, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sheets, "MAX_PRINTED", 10)
    refused = browser.get("/dashboard/trial-balance.pdf")
    assert (refused.status_code, "At most 10 rows are printed." in refused.text) == (400, True)
    assert browser.get("/dashboard/trial-balance.pdf?kind=ledger").status_code == 200
