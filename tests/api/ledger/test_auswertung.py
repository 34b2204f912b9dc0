"""VAT figures by tax key, and the profit and loss: to the cent what the accounts say, whatever was booked."""

from __future__ import annotations

import random
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest

from kontobahn.ledger.bwa import is_profit_and_loss
from kontobahn.ledger.kontierung import full
from kontobahn.ledger.steuer import TAX_ACCOUNTS
from tests.api.ledger.files import file, imported
from tests.harness import Service
from tests.ledger_builder import Books, refusal
from tests.unit.formats.extf.files import Columns, satz

UST, BWA, SUSA = (f"/v2/ledger-rewe-read/{name}" for name in ("umsatzsteuer", "bwa", "susa"))
YEAR = {"geschaeftsjahrStartDatum": "2026-01-01"}
NEXT_YEAR: Columns = {13: "20270101", 15: "20270101", 16: "20271231"}


@pytest.fixture
def books(service: Service) -> Books:
    return Books(service, service.organization(), years=("2020-01-01", "2026-01-01"))


def lines(found: dict[str, Any]) -> dict[tuple[str | None, str], tuple[Any, ...]]:
    """Key or account and kind → rate, base, output tax, input tax, number."""
    names = ("prozent", "bemessungsgrundlage", "umsatzsteuer", "vorsteuer", "anzahl")
    return {
        (row["buSchluessel"] or row["kontonummer"], row["art"]): tuple(row[name] for name in names) for row in found["zeilen"]
    }  # fmt: skip


LEDGER = """
    2026-01-01 S 10010 9008 500,00 EB
    2026-01-10 S 10010 8400 119,00 RE-1
    2026-01-11 S 10010 8400 0,04 RE-2
    2026-01-12 H 10010 8400 59,50 RE-1 bu=20 gu=1
    2026-02-01 S 4930 70001 26,87 ER-1 bu=9
    2026-02-02 H 4930 70001 11,90 ER-1 bu=29 gu=1
    2026-02-03 H 70002 3425 1000,00 ER-2
    2026-02-04 H 70002 4930 200,00 ER-3 bu=94
    2026-02-04 H 70002 4930 100,00 ER-4 bu=95
    2026-02-05 S 10020 8125 300,00 RE-3
    2026-03-01 S 1200 10010 48,31 RE-1 skonto=1,19
    2026-03-02 S 70001 1200 14,67 ER-1 skonto=0,30
    2026-03-03 S 10030 2700 777,00 RE-7 bu=777
    2026-03-04 S 10030 8410 88,00 RE-8
    2026-03-05 S 1576 1200 50,00 EUST
"""


def test_figures_stand_by_key_and_by_automatic_account(books: Books) -> None:
    books.post(LEDGER)
    found = books.read(UST, **YEAR)
    assert lines(found) == {
        ("84000000", "UMSATZSTEUER"): (19, 50.03, 9.51, 0, 3),
        ("9", "VORSTEUER"): (19, 12.58, 0, 2.39, 2),
        ("34250000", "INNERGEMEINSCHAFTLICHER_ERWERB"): (19, 1000, 190, 190, 1),
        ("94", "LEISTUNGSEMPFAENGER"): (19, 200, 38, 38, 1),
        ("95", "LEISTUNGSEMPFAENGER_OHNE_ABZUG"): (19, 100, 19, 0, 1),
        ("81250000", "STEUERFREI"): (0, 300, 0, 0, 1),
        (None, "SKONTO"): (19, -1.25, -0.19, -0.05, 2),
        ("777", "BRUTTO"): (0, 777, 0, 0, 1),
        ("84100000", "BRUTTO"): (0, 88, 0, 0, 1),
    }
    assert (found["summeUmsatzsteuer"], found["summeVorsteuer"]) == (256.32, 230.34)
    assert (found["direktUmsatzsteuer"], found["direktVorsteuer"]) == (0, 50)
    assert (found["bruttoGebucht"], found["bruttoAnzahl"]) == (865, 2)
    assert (found["vonDatum"], found["bisDatum"]) == ("2026-01-01", "2026-12-31")


def test_figures_of_some_days_only(books: Books) -> None:
    books.post(LEDGER)
    january = lines(books.read(UST, **YEAR, vonDatum="2026-01-11", bisDatum="2026-01-31"))
    assert january == {("84000000", "UMSATZSTEUER"): (19, -49.97, -9.49, 0, 2)}
    assert len(lines(books.read(UST, **YEAR, vonDatum="2026-03-01"))) == 3
    assert lines(books.read(UST, geschaeftsjahrStartDatum="2020-01-01")) == {}
    refusal(books.get(UST, **YEAR, vonDatum="2026-02-01", bisDatum="2026-01-31"), 400, "bisDatum")
    refusal(books.get(UST, geschaeftsjahrStartDatum="2019-01-01"), 404)
    refusal(books.get(BWA, geschaeftsjahrStartDatum="2019-01-01"), 404)
    refusal(books.get(BWA, **YEAR, bisPeriode="15"), 400, "bisPeriode")


@pytest.mark.either_engine
def test_days_outside_the_fiscal_year_are_refused(books: Books) -> None:
    for days, field in (
        ({"vonDatum": "2025-12-31"}, "vonDatum"),
        ({"bisDatum": "2027-01-01"}, "bisDatum"),
        ({"vonDatum": "2027-01-01"}, "vonDatum"),
        ({"vonDatum": "2020-01-01", "bisDatum": "2020-12-31"}, "vonDatum"),
    ):
        refusal(books.get(UST, **YEAR, **days), 400, field)
    assert books.read(UST, **YEAR, vonDatum="2026-01-01", bisDatum="2026-12-31") == books.read(UST, **YEAR)


def test_the_tax_period_of_a_row_decides_the_month(books: Books) -> None:
    """Column 116, else 115, else the day of the document; in whatever fiscal year the row was booked."""
    books.open_year("2027-01-01")
    rows = [
        satz("119,00;S;;;;;10010;8400;;1501;RE-1;;;Rechnung"),
        satz("238,00;S;;;;;10010;8400;;1501;RE-2;;;Rechnung", {115: "15022026"}),
        satz("357,00;S;;;;;10010;8400;;1501;RE-3;;;Rechnung", {115: "15022026", 116: "01032026"}),
        satz("476,00;S;;;;;10010;8400;;1501;RE-4;;;Rechnung", {116: "x", 115: "1032026"}),
        satz("11,90;S;;;;;1200;10010;;1501;RE-1;;1,19;Zahlung", {116: "28022026"}),
        satz("50,00;S;;;;;1576;1200;;1501;E;;;EUSt", {116: "28022026"}),
    ]
    imported(books, file(*rows))
    late = file(satz("595,00;S;;;;;10010;8400;;0501;RE-5;;;Rechnung", {116: "31122026"}), header=NEXT_YEAR)
    imported(books, late)

    def base(month: str, last: str) -> Any:
        found = books.read(UST, **YEAR, vonDatum=f"2026-{month}-01", bisDatum=f"2026-{month}-{last}")
        return sum(line["bemessungsgrundlage"] for line in found["zeilen"] if line["art"] == "UMSATZSTEUER")

    assert [base("01", "31"), base("02", "28"), base("03", "31"), base("12", "31")] == [100, 200, 700, 500]
    february = books.read(UST, **YEAR, vonDatum="2026-02-01", bisDatum="2026-02-28")
    assert (february["direktVorsteuer"], lines(february)[(None, "SKONTO")]) == (50, (19, -1, -0.19, 0, 1))
    assert books.read(UST, geschaeftsjahrStartDatum="2027-01-01")["zeilen"] == []


def test_a_profit_and_loss_by_line_and_period(books: Books) -> None:
    books.post(LEDGER)
    books.post("2026-02-10 S 4100 1200 400,00 L\n2026-02-11 S 4210 1200 100,00 M\n2026-02-12 S 4444 1200 7,00 X")
    found = books.read(BWA, **YEAR, bisPeriode="3")
    by_name = {row["bezeichnung"]: row for row in found["zeilen"]}
    assert by_name["Umsatzerlöse"]["perioden"] == [50.03, 300, 87]
    assert by_name["Material, Wareneinkauf, Fremdleistungen"]["kumuliert"] == -999.75
    assert by_name["Rohertrag"]["kumuliert"] == -562.72
    assert by_name["Personalkosten"]["perioden"] == [0, -400, 0]
    assert by_name["Raumkosten"]["kumuliert"] == -100
    assert by_name["Sonstiger neutraler Ertrag"]["perioden"] == [0, 0, 777]
    assert by_name["Nicht zugeordnet"]["kumuliert"] == -7
    assert found["nichtZugeordnet"] == [{"kontonummer": "44440000", "kontobeschriftung": "", "kumuliert": -7}]
    assert by_name["Vorläufiges Ergebnis"]["kumuliert"] == found["ergebnis"] == -624.3
    assert books.read(BWA, **YEAR, bisPeriode="1")["ergebnis"] == 50.03


@pytest.mark.parametrize("skr", ["SKR03", "SKR04"])
def test_figures_and_result_are_what_the_accounts_say_whatever_was_booked(service: Service, skr: str) -> None:
    books = Books(service, service.organization(), skr=skr, years=("2020-01-01", "2026-01-01"))
    chance = random.Random(skr)
    for _ in range(6):
        books.post("\n".join(any_booking(chance, books) for _ in range(60)))
    for year in ("2020-01-01", "2026-01-01"):
        accounts = balances(books, year)
        found = books.read(UST, geschaeftsjahrStartDatum=year)
        given, output = (
            sum(accounts.get(full(konto), 0) for konto in {getattr(item, side) for item in TAX_ACCOUNTS[skr].values()} - {""})
            for side in ("vorsteuer", "umsatzsteuer")
        )  # fmt: skip
        assert cents(found["summeUmsatzsteuer"]) + cents(found["direktUmsatzsteuer"]) == -output
        assert cents(found["summeVorsteuer"]) + cents(found["direktVorsteuer"]) == given
        assert found["zeilen"]
        result = -sum(amount for konto, amount in accounts.items() if is_profit_and_loss(skr, konto))
        assert cents(books.read(BWA, geschaeftsjahrStartDatum=year, bisPeriode="14")["ergebnis"]) == result


def any_booking(chance: random.Random, books: Books) -> str:
    numbers = [konto for konto in books.client.rahmen.beschriftungen if konto[0] != "9"]
    taxes = {konto for item in TAX_ACCOUNTS[books.client.kontenrahmen].values() for konto in item}
    persons = ["10010", "10020", "70001", "70002"]
    key = chance.choice(
        ["", "", "", "2", "3", "8", "9", "13", "19", "29", "69", "94", "34", "40", "20", "777", "506", "6506"]
    )
    other = chance.choice(persons + numbers if key else persons)
    konto = chance.choice([number for number in numbers if not key or number not in taxes])
    day = chance.choice(["2020-03-03", "2020-08-08", "2026-02-02", "2026-11-11"])
    skonto = f" skonto={chance.randrange(1, 999) / 100:.2f}".replace(".", ",") if chance.random() < 0.2 else ""
    if konto == other or (key and other in taxes):
        other = "10010"
    betrag = f"{chance.randrange(1, 99999) / 100:.2f}".replace(".", ",")
    pair = [konto, other] if chance.random() < 0.5 else [other, konto]
    return f"{day} {chance.choice('SH')} {pair[0]} {pair[1]} {betrag} RE-{chance.randrange(9)} bu={key}{skonto}"


def balances(books: Books, year: str) -> dict[str, int]:
    rows = books.read(SUSA, geschaeftsjahrStartDatum=year)
    return {row["kontonummer"]: cents(row["umsatzSoll"]) - cents(row["umsatzHaben"]) for row in rows}


def cents(value: Any) -> int:
    return int(Decimal(str(value)) * 100)


# --- Taxed by payments received


PAID = """
    2026-01-10 S 10010 8400 119,00 RE-1
    2026-01-10 S 10010 8300 107,00 RE-1
    2026-01-12 S 4930 70001 26,87 ER-1 bu=9
    2026-02-01 S 1200 10010 100,00 RE-1
    2026-02-10 S 10020 8400 119,00 RE-2
    2026-02-15 S 1200 10030 50,00 RE-3
    2026-02-20 S 1200 10020 116,62 RE-2 skonto=2,38
    2026-03-01 S 1200 10010 126,00 RE-1
    2026-03-05 S 1200 8400 11,90 BAR
    2026-03-06 S 10040 8400 238,00 RE-4
    2026-03-07 S 1200 10050 30,00 RE-5
    2026-03-08 S 10060 8125 300,00 RE-6
    2026-04-01 S 10030 8400 119,00 RE-3
    2026-04-02 S 1200 10030 80,00 RE-3
    2026-05-01 S 2700 10040 119,00 RE-4
    2026-05-02 S 70001 10040 119,00 RE-4
    2026-05-03 H 10010 8300 107,00 RE-1 bu=20 gu=1
"""


def _of_months(books: Books, last: int) -> dict[int, dict[tuple[str | None, str], tuple[Any, ...]]]:
    days = {month: (f"2026-{month:02}-01", f"2026-{month:02}-28") for month in range(1, last + 1)}
    return {
        month: lines(books.read(UST, **YEAR, vonDatum=first, bisDatum=until)) for month, (first, until) in days.items()
    }


def test_tax_by_payments_received_is_due_when_the_money_comes(books: Books) -> None:
    books.post(PAID)
    books.service.db.write_now(lambda tx: tx.run("UPDATE books_clients SET versteuerung = 'ist'"))
    sales, books_sold = ("84000000", "UMSATZSTEUER"), ("83000000", "UMSATZSTEUER")
    assert _of_months(books, 5) == {
        # Input tax by its invoice; nothing was paid.
        1: {("9", "VORSTEUER"): (19, 22.58, 0, 4.29, 1)},
        # A part of an invoice with two rates, one less Skonto, and one that is invoiced in April.
        2: {sales: (19, 184.26, 35.01, 0, 3), books_sold: (7, 44.25, 3.10, 0, 1)},
        # The rest of the first one, a sale without a customer's account, and money that nobody knows an invoice of.
        3: {
            sales: (19, 65.76, 12.49, 0, 2), books_sold: (7, 55.75, 3.90, 0, 1), ("100500000", "BRUTTO"): (0, 30, 0, 0, 1),
            ("81250000", "STEUERFREI"): (0, 300, 0, 0, 1),
        },
        # Paid by eleven euros too much.
        4: {sales: (19, 57.98, 11.02, 0, 1)},
        # Half of it is written off, the other half is set off against what we owe; and a sale is taken back.
        5: {sales: (19, 100.00, 19.00, 0, 1), books_sold: (7, -100.00, -7.00, 0, 1)},
    }  # fmt: skip


@pytest.mark.parametrize("seed", range(3))
def test_tax_by_payments_received_comes_to_that_of_the_invoices_once_all_are_paid(service: Service, seed: int) -> None:
    luck = random.Random(seed)
    by_invoice, by_payment = (Books(service, service.organization()) for _ in range(2))
    text, exact = _settled(luck)
    for books in (by_invoice, by_payment):
        books.post(text)
    service.db.write_now(
        lambda tx: tx.run("UPDATE books_clients SET versteuerung = 'ist' WHERE mandant = ?", by_payment.client.mandant)
    )
    by_rate: dict[int, int] = {}
    for row in by_invoice.read(UST, **YEAR)["zeilen"]:
        by_rate[row["prozent"]] = by_rate.get(row["prozent"], 0) + round(100 * row["umsatzsteuer"])
    months = _of_months(by_payment, 12)
    for rate in (19, 7):
        due = [sum(round(100 * row[2]) for row in month.values() if row[0] == rate) for month in months.values()]
        assert sum(due) == by_rate.get(rate, 0)
        # Each payment and each document may be rounded by a cent.
        for month, cents in zip(months, due, strict=True):
            assert abs(cents - exact.get((month, rate), 0)) <= 60
    assert not any(row == (None, "SKONTO") for month in months.values() for row in month)


def _settled(luck: random.Random) -> tuple[str, dict[tuple[int, int], Fraction]]:
    """Returns bookings of documents that are all paid in the end, and the tax in the money of each month by rate, unrounded."""
    rows: list[str] = []
    exact: dict[tuple[int, int], Fraction] = {}
    for number in range(20):
        person, document = 10_000 + luck.randrange(5), f"RE-{number}"
        parts = {konto: luck.randrange(1, 50_000) for konto in luck.sample((8400, 8300), luck.randint(1, 2))}
        issued = luck.randint(1, 6)
        rows += (f"2026-{issued:02}-05 S {person} {konto} {_comma(cents)} {document}" for konto, cents in parts.items())
        owed = sum(parts.values())
        # A discount is known to belong to one rate only.
        skonto = owed * 2 // 100 if len(parts) == 1 and luck.random() < 0.5 else 0
        left, paid = owed - skonto, sorted(luck.randint(1, 12) for _ in range(luck.randint(1, 3)))
        for turn, month in enumerate(paid, 1):
            is_last = turn == len(paid)
            amount = left if is_last else luck.randint(0, left - 1)
            left -= amount
            if not amount:
                continue
            less = f" skonto={_comma(skonto)}" if is_last and skonto else ""
            rows.append(f"2026-{month:02}-20 S 1200 {person} {_comma(amount)} {document}{less}")
            for konto, cents in parts.items():
                rate = 19 if konto == 8400 else 7
                share = Fraction(amount * cents, owed) * rate / (100 + rate)
                exact[month, rate] = exact.get((month, rate), Fraction()) + share
    return "\n".join(sorted(rows)), exact


def _comma(cents: int) -> str:
    return f"{cents // 100},{cents % 100:02}"
