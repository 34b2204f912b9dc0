"""The order in which rows and files come leaves no trace: due dates, discounts, trial balance and VAT figures are the same."""

from __future__ import annotations

from itertools import permutations
from typing import Any

import pytest

from tests.api.ledger.files import differences, file, imported, undone
from tests.harness import Service
from tests.ledger_builder import Books
from tests.unit.formats.extf.files import satz

YEAR = {"geschaeftsjahrStartDatum": "2026-01-01"}
DOWN_PAYMENT = satz("50,00;S;;;;;1200;10010;;0501;RE-1;;;Anzahlung")
INVOICE = satz("107,00;S;;;;;10010;8300;;1501;RE-1;;;Rechnung", {117: "14022026"})
PAYMENT = satz("40,00;S;;;;;1200;10010;;2001;RE-1;;3,50;Zahlung mit Skonto")
SUPPLIER = satz("53,50;H;;;;;70001;3300;;1001;ER-1;;;Eingangsrechnung")
SUPPLIER_PAID = satz("30,00;S;;;;;70001;1200;;0901;ER-1;;1,07;Zahlung vorab")


def everything(books: Books) -> dict[str, Any]:
    names = ("susa", "umsatzsteuer", "bwa")
    found = {name: books.read(f"/v2/ledger-rewe-read/{name}", **YEAR) for name in names}
    for name in ("opos", "faelligkeiten"):
        found[name] = books.read(f"/v2/ledger-rewe-read/{name}", stichtag="2026-12-31")
    return found


def balances(found: dict[str, Any]) -> dict[str, float]:
    return {row["kontonummer"]: row["umsatzSoll"] - row["umsatzHaben"] for row in found["susa"]}


def of(service: Service, *files: bytes) -> Books:
    books = Books(service, service.organization(credits_granted=1_000))
    for number, content in enumerate(files):
        imported(books, content, f"{number}.csv")
    return books


def test_a_discount_is_split_at_the_rate_of_its_invoice_whatever_came_first(service: Service) -> None:
    """3.50 at 7 % are 3.27 and 0.23; as a discount of 19 % they would be 2.94 and 0.56."""
    rows = (DOWN_PAYMENT, INVOICE, PAYMENT)
    ways = [of(service, *map(file, order)) for order in permutations(rows)]
    ways += [of(service, file(*order)) for order in permutations(rows)]
    first, *others = [everything(books) for books in ways]
    assert [other == first for other in others] == [True] * 11
    assert {"87310000": 3.27, "17710000": -6.77}.items() <= balances(first).items()
    assert "87360000" not in balances(first)
    (line,) = [line for line in first["umsatzsteuer"]["zeilen"] if line["art"] == "SKONTO"]
    assert (line["prozent"], line["bemessungsgrundlage"], line["umsatzsteuer"]) == (7, -3.27, -0.23)


def test_a_file_is_not_warned_about_a_discount_whose_invoice_follows_in_it(service: Service) -> None:
    books = of(service)
    assert imported(books, file(PAYMENT, INVOICE))["protokoll"] == []
    other = satz("20,00;S;;;;;1200;10010;;2001;RE-2;;3,50;Zahlung")
    assert [line["spalte"] for line in imported(books, file(other))["protokoll"]] == ["Skonto"]


@pytest.mark.either_engine
def test_a_document_that_begins_with_a_payment_is_due_when_its_invoice_is(service: Service) -> None:
    books = of(service, file(SUPPLIER_PAID), file(PAYMENT, DOWN_PAYMENT, INVOICE), file(SUPPLIER))
    konten = everything(books)["faelligkeiten"]["konten"]
    found = {item["beleg"]: item for konto in konten for item in konto["posten"]}
    assert (found["RE-1"]["belegdatum"], found["RE-1"]["faelligAm"]) == ("2026-01-05", "2026-02-14")
    assert found["RE-1"]["faelligkeitsquelle"] == "zeile"
    assert (found["ER-1"]["belegdatum"], found["ER-1"]["faelligAm"]) == ("2026-01-09", "2026-01-10")
    # Before the invoice was there, money was owed the other way, at once.
    early = books.read("/v2/ledger-rewe-read/faelligkeiten", stichtag="2026-01-09")["konten"]
    assert {item["beleg"]: item["faelligAm"] for konto in early for item in konto["posten"]} == {
        "RE-1": "2026-01-05",
        "ER-1": "2026-01-09",
    }


@pytest.mark.either_engine
def test_a_credit_note_is_due_when_it_says_so(service: Service) -> None:
    credit = satz("20,00;H;;;;;10010;8400;;1001;GS-1;;;Gutschrift", {117: "31012026"})
    overpaid = satz("150,00;S;;;;;1200;10010;;0102;RE-1;;;Zahlung")
    konten = everything(of(service, file(credit, INVOICE, overpaid)))["faelligkeiten"]["konten"]
    found = {item["beleg"]: (item["faelligAm"], item["faelligkeitsquelle"]) for item in konten[0]["posten"]}
    assert found == {"GS-1": ("2026-01-31", "zeile"), "RE-1": ("2026-01-15", "belegdatum")}


@pytest.mark.either_engine
def test_an_import_that_was_undone_leaves_no_trace_in_any_figure(service: Service) -> None:
    """Neither its discounts nor its invoices, in whatever order it came and went; and once more, it counts again."""
    plain = everything(of(service, file(SUPPLIER), file(PAYMENT)))
    whole = everything(of(service, file(SUPPLIER), file(PAYMENT), file(INVOICE, DOWN_PAYMENT)))
    for order in permutations((file(SUPPLIER), file(PAYMENT), file(INVOICE, DOWN_PAYMENT))):
        books = of(service)
        made = {content: imported(books, content)["id"] for content in order}
        assert everything(books) == whole
        undone(books, made[file(INVOICE, DOWN_PAYMENT)])
        assert everything(books) == plain
        undone(books, made[file(PAYMENT)])
        undone(books, made[file(SUPPLIER)])
        assert everything(books)["susa"] == []
        for content in reversed(order):
            imported(books, content)
        assert everything(books) == whole
        assert differences(books) == []
