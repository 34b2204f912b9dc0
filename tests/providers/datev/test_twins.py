"""The same files in the built-in books and at DATEV: every answer that both can give is the same, byte for byte.

TWINS=100 takes so many ledgers on each engine; TWINS_FROM=seed begins with another one, and a failure names its seed.
"""

from __future__ import annotations

import os
import random
from datetime import date
from decimal import Decimal
from typing import Any

import pytest

from kontobahn.formats import extf
from kontobahn.ledger.connections import find_for_operator
from kontobahn.ledger.provider import ClientBooks, ConnectionRef
from kontobahn.ledger.wire import AccountSheet, SheetSelection
from simulators.datev import Datev
from tests.api.ledger.files import file
from tests.api.ledger.test_exports import written
from tests.api.ledger.test_whole_ledgers import file_of, taken, undo
from tests.api.ledger.whole_ledgers import CREDITORS, DEBTORS, LAST_DAYS, TODAY, YEARS, Chance, Row
from tests.harness import Service
from tests.ledger_builder import Books
from tests.providers.datev.office import CLIENT, READ, NewOffice, Office, books_of
from tests.unit.formats.extf.files import satz

LEDGERS = int(os.environ.get("TWINS") or 3)
FIRST_SEED = int(os.environ.get("TWINS_FROM") or 1)
PERIOD = extf.Zeitraum(15, 20, 0, 31, 0, 10, 1)
MASTER: dict[str, Any] = {
    "erzeugt_am": None, "berater": 29098, "mandant": 55003, "wj_beginn": date(2024, 1, 1), "sachkontenlaenge": 4, "skr": "03",
}  # fmt: skip


def master_data() -> list[bytes]:
    """Partners without terms, because DATEV does not tell theirs; and terms of every kind."""
    partners = [
        extf.Personenkonto(
            line=0, konto=konto, name="", vorname="", firmenname=f"Firma „{konto}“", name_ohne_angabe="", adressattyp="2",
            anrede="", ust_id="", adressen=(), telefon="", email="", fax="", bankverbindungen=(), zahlungsbedingung=0,
            kurzbezeichnung="", weitere="",
        )
        for konto in (*DEBTORS, *CREDITORS)
    ]  # fmt: skip
    zero, two, three = Decimal("0.00"), Decimal("2.00"), Decimal("3.50")
    terms = [
        extf.Zahlungsbedingung(0, 20, "sofort", 1, zero, 0, zero, 0, 0, (), 0),
        extf.Zahlungsbedingung(0, 30, "30 Tage, 10 Tage 2 %", 1, two, 10, zero, 0, 30, (), 0),
        extf.Zahlungsbedingung(0, 31, "zwei Skonti", 1, three, 8, two, 14, 30, (), 0),
        extf.Zahlungsbedingung(
            0, 40, "zum Monatsende", 2, two, 0, zero, 0, 0, (PERIOD, PERIOD._replace(rechnung_bis=31, faellig_monat=2)), 0
        ),
    ]  # fmt: skip
    return [
        written(extf.write_zahlungsbedingungen, extf.make_header(extf.ZAHLUNGSBEDINGUNGEN, **MASTER), terms),
        written(extf.write_personenkonten, extf.make_header(extf.PERSONENKONTEN, **MASTER), partners),
    ]


class Twins:
    """The books of one client, here and there."""

    def __init__(self, office: Office) -> None:
        self.office = office.sign_in()
        self.books = Books(office.service, office.owner, years=YEARS)
        books_of(office.datev).label_chart()

    def feed(self, *contents: bytes) -> None:
        for content in contents:
            self.books.import_extf(content)
            books_of(self.office.datev).feed(content)

    def compare_sheets(self, jahr: date) -> None:
        """The sheets of person accounts, page by page; ids of bookings differ, and a discount has a line of its own at DATEV."""
        service = self.office.service
        ours = service.run(service.ledger_providers["books"].open(find_of(service, self.books.connection_id), None))
        theirs = service.run(self.office.provider.open(self.office.ref, None))
        for konto in (*DEBTORS, *CREDITORS):
            sheets = [moved(service, books, jahr, f"{konto}0000") for books in (ours, theirs)]
            assert sheets[1] == sheets[0], f"{konto} {jahr}"

    def compare(self, what: str, **query: str) -> bytes:
        path = f"{READ}/{what}"
        answer = self.books.get(path, **query)
        assert answer.status_code == 200, answer.text
        ours = answer.content.partition(b',"platform"')[0]
        theirs = self.office.read(what, **query)
        assert theirs == ours, f"{what} {query}\nDATEV {theirs.decode()}\nbooks {ours.decode()}"
        return ours


def find_of(service: Service, connection_id: str) -> ConnectionRef:
    return service.db.read_now(find_for_operator, connection_id)


def moved(service: Service, books: ClientBooks, jahr: date, konto: str) -> tuple[dict[tuple[int, date, str], int], int]:
    """By period, day and document, what moved the account; and the balance at the end, which each line leads to."""
    found: dict[tuple[int, date, str], int] = {}
    after, saldo = "", 0
    while True:
        sheet: AccountSheet = service.run(books.account_sheet(SheetSelection(jahr, konto, after=after, limit=3)))
        assert sheet.saldo_davor == saldo
        for line in sheet.lines:
            saldo += line.soll - line.haben
            assert line.saldo == saldo
            key = line.periode, line.belegdatum, line.belegfeld1
            found[key] = found.get(key, 0) + line.soll - line.haben
        if sheet.next is None:
            # What was undone and its reversal are nothing together.
            return {key: betrag for key, betrag in found.items() if betrag}, saldo
        after = sheet.next


@pytest.fixture
def twins(new_office: NewOffice, datev: Datev) -> Twins:
    datev.add(CLIENT)
    return Twins(new_office())


def told_by_datev(row: Row) -> Row:
    """Without what DATEV's postings do not have: the due date of a row."""
    return row._replace(faellig="", closing=False, by_cash_book=False)


def test_a_ledger_has_the_same_figures_through_both(new_office: NewOffice, datev: Datev) -> None:
    for seed in range(FIRST_SEED, FIRST_SEED + LEDGERS):
        datev.add(CLIENT)
        books_of(datev).persons = ("as written", "contra", "account")[seed % 3]
        twins, chance, made = Twins(new_office()), random.Random(seed), Chance(seed)
        rows = [told_by_datev(row) for row in (*made.rows(chance.choice((5, 30, 60)), 0), *down_payment(made, chance))]
        mistakes = [told_by_datev(made.row()) for _ in range(chance.choice((0, 3, 8)))]
        twins.feed(*master_data())
        undone = [taken(twins.books, file_of([row])) for row in mistakes]
        for jahr in YEARS:
            of_year = [row for row in rows if row.jahr == jahr]
            twins.feed(*([file_of(of_year)] if of_year else []))
            books_of(datev).open_year(date.fromisoformat(jahr), date.fromisoformat(f"{jahr[:4]}-12-31"))
        for import_id in undone:
            undo(twins.books, import_id, None)
        try:
            compare_everything(twins, chance)
        except AssertionError as failure:
            raise AssertionError(f"Seed {seed}: {failure}") from failure


def down_payment(made: Chance, chance: random.Random) -> list[Row]:
    """Money that comes before its invoice: invoiced, paid, and deducted from the invoice of all, which may be of the next year."""
    person, amount = chance.choice(DEBTORS), made._amount()
    days = sorted(made._day() for _ in range(4))
    return [
        Row(days[0], amount, True, person, "1718", "3", "A1", "Anzahlungsrechnung"),
        Row(days[1], amount, True, "1200", person, "", "A1", "Anzahlung"),
        Row(days[2], amount * 3, True, person, "8400", "", "A2", "Schlussrechnung"),
        Row(days[3], amount, True, "1718", person, "3", "A2", "Anzahlung verrechnet"),
    ]


def compare_everything(twins: Twins, chance: random.Random) -> None:
    for jahr in YEARS:
        twins.compare("susa", geschaeftsjahrStartDatum=jahr)
        twins.compare("zahlungsbedingungen", geschaeftsjahrStartDatum=jahr)
        for last in ("3", "12"):
            twins.compare("bwa", geschaeftsjahrStartDatum=jahr, bisPeriode=last)
        twins.compare_sheets(date.fromisoformat(jahr))
    for day in (TODAY, *LAST_DAYS, f"2025-{chance.randint(1, 12):02}-{chance.randint(1, 28):02}", "2025-01-01"):
        for mode in ("reconcile", "raw"):
            twins.compare("opos", stichtag=day, ebModus=mode)
            twins.compare("faelligkeiten", stichtag=day, ebModus=mode)
        for side in ("debitors", "creditors"):
            twins.compare("opos", stichtag=day, filter=side)
        twins.compare("opos", stichtag=day, kontonummer=chance.choice((*DEBTORS, *CREDITORS)))


def test_a_payment_with_discount_clears_its_invoice_and_no_more(twins: Twins) -> None:
    twins.feed(
        file(
            satz("119,00;S;;;;;10010;8400;;1501;RE-1;;;Rechnung"),
            satz("116,62;S;;;;;1200;10010;;2501;RE-1;;2,38;Zahlung mit Skonto"),
            satz("119,00;S;;;;;10010;8400;;1601;RE-2;;;Rechnung"),
            satz("58,31;S;;;;;1200;10010;;2601;RE-2;;1,19;Teilzahlung mit Skonto"),
        )
    )
    answer = twins.compare("opos", stichtag="2026-03-02")
    assert b'"beleg":"RE-1"' not in answer
    assert b'"beleg":"RE-2","belegdatum":"2026-01-16","buchungstext":"Rechnung","saldo":59.50' in answer
    twins.compare("susa", geschaeftsjahrStartDatum="2026-01-01")


@pytest.mark.either_engine
@pytest.mark.parametrize("laenge", [4, 5, 6, 7, 8])
def test_accounts_of_every_length_come_back_as_they_were(new_office: NewOffice, datev: Datev, laenge: int) -> None:
    datev.add(CLIENT)
    office = new_office().sign_in()
    zeros = "0" * (laenge - 4)
    rows = [satz(f"119,00;S;;;;;10010{zeros};0027{zeros};40;1501;RE-1;;;Software")]
    books_of(datev).feed(file(*rows, header={14: str(laenge)}))
    year = {"geschaeftsjahrStartDatum": "2026-01-01"}
    sums = office.get("susa", **year).json()["data"]
    assert [row["kontonummer"] for row in sums] == ["00270000", "100100000"]
    assert office.get("susa", **year, kontonummer=f"0027{zeros}").json()["data"] == sums[:1]
    assert office.get("opos", kontonummer=f"10010{zeros}").json()["data"]["konten"][0]["kontonummer"] == "100100000"


def test_an_opening_balance_written_as_a_pair_counts_once(twins: Twins) -> None:
    books_of(twins.office.datev).open_year(date(2025, 1, 1), date(2025, 12, 31))
    twins.feed(
        file(
            satz("300,00;S;;;;;10010;8400;40;1506;RE-1;;;Rechnung"),
            header={13: "20250101", 15: "20250101", 16: "20251231"},
        ),
        file(
            satz("300,00;S;;;;;10010;9008;;0101;0;;;Saldovortrag"),
            satz("300,00;H;;;;;10010;9008;;0101;0;;;Gegenbuchung"),
        ),
    )
    for mode in ("reconcile", "raw"):
        answer = twins.compare("opos", stichtag="2026-03-02", ebModus=mode)
        assert b'"totalSaldo":300.00' in answer


def test_pairs_of_openings_in_two_years_are_told_apart(twins: Twins) -> None:
    """In one year a pair opens the account once; in the next, row by row in the same places, two documents are carried."""
    for year in (2024, 2025):
        books_of(twins.office.datev).open_year(date(year, 1, 1), date(year, 12, 31))
    twins.feed(
        file(
            satz("300,00;S;;;;;10010;9008;;0101;0;;;Saldovortrag"),
            satz("300,00;H;;;;;10010;9008;;0101;0;;;Gegenbuchung"),
            satz("70,00;S;;;;;10010;8400;40;1506;RE-1;;;Rechnung"),
            header={13: "20250101", 15: "20250101", 16: "20251231"},
        ),
        file(
            satz("400,00;S;;;;;10010;9008;;0101;RE-1;;;Saldovortrag"),
            satz("30,00;H;;;;;10010;9008;;0101;RE-2;;;Saldovortrag"),
            satz("30,00;S;;;;;10010;9008;;0101;RE-2;;;Saldovortrag"),
            satz("30,00;H;;;;;10010;9008;;0101;RE-3;;;Saldovortrag"),
        ),
    )
    for day in ("2025-12-31", "2026-03-02"):
        for mode in ("reconcile", "raw"):
            twins.compare("opos", stichtag=day, ebModus=mode)


def test_a_posting_between_two_persons_moves_both(twins: Twins) -> None:
    twins.feed(
        file(
            satz("119,00;S;;;;;10010;8400;;1501;RE-1;;;Rechnung"),
            satz("19,00;S;;;;;70001;10010;;2501;RE-1;;;Verrechnung"),
            satz("7,00;S;;;;;10010;10020;;2601;RE-1;;;Umbuchung"),
        )
    )
    for query in ({}, {"kontonummer": "10010"}, {"kontonummer": "70001"}, {"kontonummer": "10020"}):
        for what in ("opos", "faelligkeiten"):
            twins.compare(what, stichtag="2026-03-02", **query)
    books = twins.office.service.run(twins.office.provider.open(twins.office.ref, None))
    for konto, soll, haben in (("100100000", 126_00, 19_00), ("700010000", 19_00, 0), ("100200000", 0, 7_00)):
        found = twins.office.service.run(books.bookings_of_document(konto, "RE-1", "", 10))
        assert (found.soll, found.haben) == (soll, haben)
    moved_by = twins.office.service.run(books.belegbewegungen(date(2026, 1, 1), 10))
    assert {(one.konto, one.betrag) for one in moved_by} == {
        ("100100000", 119_00), ("100100000", -19_00), ("700010000", 19_00), ("100100000", 7_00), ("100200000", -7_00),
    }  # fmt: skip
