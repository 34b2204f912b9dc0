"""POST /v2/ledger-rewe/buchungen: one booking or many, all of them or none, by the rules of a file."""

from __future__ import annotations

import io
import zipfile
from typing import Any

import httpx
import pytest

from kontobahn.access import audit
from kontobahn.books import store
from kontobahn.books.export import export_zip
from tests.api.ledger.files import IMPORTS, count, differences, file, imported, undone
from tests.harness import START, Service
from tests.ledger_builder import KASSENBUCH, NOT_ONE_LINE, Books, entry, line, refusal
from tests.unit.formats.extf.files import satz

BUCHUNGEN = "/v2/ledger-rewe/buchungen"


@pytest.fixture
def books(service: Service) -> Books:
    return Books(service, service.organization(), years=("2025-01-01", "2026-01-01"))


def buchung(**changed: Any) -> dict[str, Any]:
    return {
        "umsatz": 119, "sollHabenKennzeichen": "SOLL", "konto": "10010", "gegenkonto": "8400", "belegdatum": "2026-01-15",
        "belegfeld1": "RE-1", "buchungstext": "Rechnung Käse", **changed,
    }  # fmt: skip


def send(books: Books, *buchungen: dict[str, Any], **options: Any) -> httpx.Response:
    return books.send(BUCHUNGEN, {"buchungen": list(buchungen)}, **options)


def booked(books: Books, *buchungen: dict[str, Any], **options: Any) -> Any:
    answer = send(books, *buchungen, **options)
    assert answer.status_code == 201, answer.text
    assert differences(books) == []
    return answer.json()


def test_bookings_are_answered_in_their_order_and_read_back(books: Books) -> None:
    made = booked(
        books, buchung(), buchung(belegdatum="2025-12-30"), buchung(umsatz=19, konto="1200", gegenkonto="10010")
    )
    assert made["ids"] == ["2", "1", "3"]
    assert made["platform"] == {"neuesGuthaben": 99}
    assert made["ledgerAntwort"].keys() == {"status", "information"}
    assert made["ledgerAntwort"]["status"] == "SUCCESS"
    assert len(made["importe"]) == 2
    read = books.read("/v2/ledger-rewe-read/buchungen", geschaeftsjahrStartDatum="2026-01-01")
    assert [item["id"] for item in read] == ["2", "3"]
    (konto,) = books.read("/v2/ledger-rewe-read/opos")["konten"]
    assert (konto["kontonummer"], konto["totalSaldo"]) == ("100100000", 219.0)


def test_every_field_is_that_of_a_row_of_a_file(books: Books) -> None:
    row = "25,00;S;USD;1,2500;20,00;;10010;8200;3;1501;RE-7;B2;;Text"
    imported(books, file(satz(row, {37: "K1", 38: "K2", 117: "31122026", 118: "1"})))
    booked(
        books,
        buchung(
            umsatz=25, gegenkonto="8200", waehrung="USD", kurs="1.2500", basisUmsatz=20,
            buSchluessel="03", belegfeld1="RE-7", belegfeld2="B2",
            buchungstext="Text", kostenstellen={"kost1": "K1", "kost2": "K2"}, faelligkeit="2026-12-31", generalumkehr=True,
        ),
        query={"another": "true"},
    )  # fmt: skip
    columns = (
        "umsatz, soll, waehrung, kurs, basis_umsatz, konto, gegenkonto, bu_schluessel, belegdatum, belegfeld1, belegfeld2, skonto,"
        " buchungstext, kost1, kost2, generalumkehr, weitere, periode"
    )
    first, second = books.rows(f"SELECT {columns} FROM books_bookings ORDER BY id")
    assert first == second


@pytest.mark.either_engine
def test_one_wrong_booking_and_none_is_booked(books: Books) -> None:
    with books.unchanged():
        refusal(send(books, buchung(), buchung(gegenkonto="10010", konto="10010")), 400)


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"umsatz": 0}, "umsatz"),
    ({"umsatz": -1}, "umsatz"),
    ({"umsatz": 1.005}, "umsatz"),
    ({"konto": "123"}, "konto"),
    ({"gegenkonto": "012345678"}, "gegenkonto"),
    # No file can hold them.
    ({"konto": "0000"}, "konto"),
    ({"gegenkonto": "00000000"}, "gegenkonto"),
    ({"skonto": -1}, "skonto"),
    ({"waehrung": "USD"}, "basisUmsatz"),
    ({"basisUmsatz": 0}, "basisUmsatz"),
    *(({"buchungstext": text}, "buchungstext") for text in NOT_ONE_LINE),
    ({"belegfeld1": "RE-1\n"}, "belegfeld1"),
    ({"belegfeld2": "a\rb"}, "belegfeld2"),
    ({"kostenstellen": {"kost1": "K\n"}}, "kostenstellen.kost1"),
    ({"umsatz": 10_000_000_000}, "umsatz"),
    ({"umsatz": "119.00"}, "umsatz"),
    ({"basisUmsatz": 10_000_000_000}, "basisUmsatz"),
    ({"skonto": 10_000_000_000}, "skonto"),
    ({"waehrung": "USD", "kurs": "0.00", "basisUmsatz": 1}, "kurs"),
    ({"buchungstext": "x" * 61}, "buchungstext"),
    ({"belegfeld1": "x" * 37}, "belegfeld1"),
    ({"belegdatum": "2026-02-30"}, "belegdatum"),
    ({"soll": True}, "soll"),
]


@pytest.mark.either_engine
def test_a_field_that_cannot_be_is_named(books: Books) -> None:
    with books.unchanged():
        for changed, field in WRONG:
            body = refusal(send(books, buchung(), buchung(**changed)), 400)
            # A position is named where it is our rule and not one of the form.
            assert body["field"].endswith(f"].{field}"), (changed, body)


@pytest.mark.parametrize("engine", ["sqlite"])
def test_whatever_is_taken_can_leave_the_books_again(books: Books) -> None:
    """The edges of what calls accept, written as a DATEV-format file and read back."""
    texts = (' "x";', "'", "€ Łódź 🙂", "Ã¼", "x" * 60, " ", "=1+1", "\ufeffx", "a\u00a0b")
    booked(
        books,
        *(buchung(buchungstext=text, belegfeld1=text[:36], kostenstellen={"kost1": text[:36]}) for text in texts),
        buchung(umsatz=9_999_999_999.99, gegenkonto="8200"),
        *(
            buchung(gegenkonto="8200", buSchluessel=key, belegfeld1=key)
            for key in ("29", "0029", "34", "9999", "0", "69")
        ),
        buchung(waehrung="USD", kurs="99999.999999", basisUmsatz=9_999_999_999.99, faelligkeit="2026-12-31"),
    )
    assert books.send(KASSENBUCH, entry(line(9_999_999_999.99, belegtext=' "=;'))).status_code == 201
    jahr = books.service.db.read_now(store.year_of_date, books.client, "2026-01-01")
    assert jahr is not None
    target = io.BytesIO()
    exported = export_zip(books.service.db, books.client, jahr, target, START, with_receipts=False)
    assert exported.notes.count == 0, "nothing had to be changed or left out"
    with zipfile.ZipFile(target) as archive:
        (name,) = [name for name in archive.namelist() if "Buchungsstapel" in name]
        content = archive.read(name)
    other = Books(books.service, books.service.organization())
    assert other.import_extf(content).imported == len(texts) + 9


@pytest.mark.either_engine
def test_a_day_without_a_fiscal_year_is_refused_until_there_is_one(books: Books) -> None:
    with books.unchanged():
        refusal(send(books, buchung(belegdatum="2031-01-01")), 409, "buchungen[0].belegdatum")


@pytest.mark.either_engine
def test_what_looks_booked_already_is_refused_unless_it_is_meant(books: Books) -> None:
    imported(books, file(satz("119,00;S;;;;;10010;8400;;1501;RE-1;;;Rechnung Käse")), "januar.csv")
    with books.unchanged():
        body = refusal(send(books, buchung(belegfeld1="RE-2"), buchung()), 409)
        assert "1 row looks booked already" in body["error"]
        assert "booking 2 like booking 1 from januar.csv" in body["error"]
    assert booked(books, buchung(), query={"another": "true"})["ids"] == ["2"]
    assert booked(books, buchung(belegfeld1="RE-3"), buchung(belegfeld1="RE-3"))["ids"] == ["3", "4"]


def test_a_repeated_key_books_once_and_costs_once(books: Books) -> None:
    first = send(books, buchung(), headers={"idempotency-key": "k"})
    again = send(books, buchung(), headers={"idempotency-key": "k"})
    assert (again.status_code, again.content) == (201, first.content)
    assert (count(books), books.service.balance(books.owner).spent) == (1, 1)


def test_bookings_by_call_are_listed_and_undone(books: Books) -> None:
    made = booked(books, buchung())
    (listed,) = books.read(IMPORTS)
    assert (listed["id"], listed["art"], listed["uebernommen"]) == (made["importe"][0], "BUCHUNGEN", 1)
    undone(books, listed["id"])
    assert books.read("/v2/ledger-rewe-read/opos")["konten"] == []
    *_, entry_of_log = books.service.db.read_now(audit.entries, books.owner.id)
    assert (entry_of_log.action, entry_of_log.actor) == ("books.undo", f"key:{books.owner.key_id}")
    assert listed["id"] in entry_of_log.details
    assert booked(books, buchung())["ids"] == ["3"]


@pytest.mark.either_engine
def test_without_the_right_nothing_is_booked(books: Books) -> None:
    books.deny("buchungen")
    with books.unchanged():
        assert refusal(send(books, buchung()), 403)["code"] == "ledger_endpoint_not_authorized"


@pytest.mark.either_engine
def test_an_unknown_tax_key_is_booked_gross_and_told(books: Books) -> None:
    made = booked(books, buchung(gegenkonto="8200"), buchung(gegenkonto="8200", buSchluessel="777", belegfeld1="RE-2"))
    (warning,) = made["protokoll"]
    assert (warning["art"], warning["zeile"], warning["spalte"]) == ("WARNUNG", 2, "BU-Schlüssel")
    told, booked_ones = made["ledgerAntwort"]["information"]
    assert told["message"].startswith("Buchung 2: ")
    at = "2026-03-02T09:00:00Z"
    assert told | {"message": ""} == {"filename": None, "message": "", "timestamp": at, "type": "WARNUNG"}
    assert booked_ones == {
        "filename": None, "message": "2 Buchungen wurden gebucht.", "timestamp": at, "type": "INFO",
    }  # fmt: skip
    assert books.read(f"{IMPORTS}/{made['importe'][0]}")["protokoll"] == [warning]


def test_a_cash_book_that_becomes_negative_is_told_in_german(books: Books) -> None:
    made = booked(books, buchung(konto="1000", gegenkonto="1200", sollHabenKennzeichen="HABEN", umsatz=5))
    told = [item["message"] for item in made["ledgerAntwort"]["information"] if item["type"] == "WARNUNG"]
    assert told == ["Die Kasse „Hauptkasse“ ist am 2026-01-15 negativ: -5.00 EUR."]


@pytest.mark.either_engine
def test_a_discount_whose_invoice_follows_in_the_call_is_not_warned_about(books: Books) -> None:
    paid = buchung(konto="1200", gegenkonto="10010", belegfeld1="RE-7", skonto=2.38, belegdatum="2026-01-20")
    assert booked(books, paid, buchung(belegfeld1="RE-7"))["protokoll"] == []


@pytest.mark.either_engine
def test_what_a_file_is_warned_about_is_told_of_a_booking_by_call_too(books: Books) -> None:
    """The document number, the tax key, the discount without a rate: each by its number, in the protocol and in German."""
    made = booked(
        books,
        buchung(),
        buchung(belegfeld1="RE 4 (März)"),
        buchung(konto="1200", gegenkonto="10010", belegfeld1="Ü-1", skonto=2.38),
    )
    row = satz("119,00;S;;;;;1200;10010;;1501;Ü-2;;2,38;Zahlung")
    of_file = imported(books, file(row))["protokoll"]
    told = [(line["zeile"], line["spalte"]) for line in made["protokoll"]]
    assert told == [(2, "Belegfeld 1"), (3, "Belegfeld 1"), (3, "Skonto")]
    assert [line["getan"] for line in of_file] == [line["getan"] for line in made["protokoll"][1:]]
    meldungen = [item["message"] for item in made["ledgerAntwort"]["information"] if item["type"] == "WARNUNG"]
    assert [text.split(":")[0] for text in meldungen] == ["Buchung 2", "Buchung 3", "Buchung 3"]
    assert "RE 4 (März)" in meldungen[0]


def test_a_discount_in_another_currency_is_refused(books: Books) -> None:
    with books.unchanged():
        answer = send(books, buchung(waehrung="CHF", basisUmsatz=100, konto="1200", gegenkonto="10010", skonto=2))
        assert refusal(answer, 400)["field"] == "buchungen[0].skonto"
