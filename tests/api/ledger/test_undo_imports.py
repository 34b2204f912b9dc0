"""POST /v2/ledger-rewe/imports/{id}/undo: an import is taken back by Generalumkehr, and the books are as before."""

from __future__ import annotations

from typing import Any

import pytest

from kontobahn.books.satz import Satz
from tests.api.ledger.files import (
    CORRECTED,
    IMPORTS,
    INVOICE,
    PAYMENT,
    PURCHASE,
    ROWS,
    count,
    differences,
    file,
    imported,
    send_file,
    undone,
)
from tests.harness import Service
from tests.ledger_builder import KASSENBUCH, Books, entry, line
from tests.unit.formats.extf.files import Columns, satz, text_of

OPOS, SUSA = "/v2/ledger-rewe-read/opos", "/v2/ledger-rewe-read/susa"


@pytest.fixture
def books(service: Service) -> Books:
    return Books(service, service.organization(), years=("2025-01-01", "2026-01-01"))


def undo(books: Books, import_id: str, **headers: str) -> Any:
    return books.service.post(f"{IMPORTS}/{import_id}/undo", books.owner.key, params=books.query(), headers=headers)


def balances(books: Books) -> dict[str, Any]:
    """The trial balance, without accounts on which nothing is left."""
    lines = books.read(SUSA, geschaeftsjahrStartDatum="2026-01-01")
    found = {
        item["kontonummer"]: (item["saldo"], item["umsatzSoll"], item["umsatzHaben"])
        for item in lines
        if item["umsatzSoll"] or item["umsatzHaben"] or item["saldo"]["betrag"]
    }
    return found


def test_an_undone_import_leaves_balances_and_open_items_as_they_were(books: Books) -> None:
    imported(books, file(PAYMENT, PURCHASE))
    before = books.read(OPOS), balances(books)
    made = imported(books, file(INVOICE, satz(INVOICE, {1: "7,00", 118: "1"})))
    assert (books.read(OPOS), balances(books)) != before
    taken_back = undone(books, made["id"])
    assert (books.read(OPOS), balances(books)) == before
    assert (taken_back["art"], taken_back["stornoVon"], taken_back["uebernommen"]) == ("STORNO", made["id"], 2)
    after = books.read(f"{IMPORTS}/{made['id']}")
    assert (after["status"], after["stornoDurch"]) == ("undone", taken_back["id"])
    rows = books.rows("SELECT soll, generalumkehr, umsatz, belegdatum, buchungstext FROM books_bookings ORDER BY id")
    assert rows[2:] == [
        (1, 0, 11900, "2026-01-15", "Rechnung Käse"),
        (1, 1, 700, "2026-01-15", "Rechnung Käse"),
        (0, 1, 11900, "2026-01-15", "Rechnung Käse"),
        (0, 0, 700, "2026-01-15", "Rechnung Käse"),
    ]


def test_a_reversal_says_all_that_its_booking_says(books: Books) -> None:
    """In every column, held back and written by itself or copied from its booking."""
    full = satz(
        "50,00;S;USD;1,250000;40,00;;10001;8400;;1503;RE-7;OP-7;;Text", {37: "K1", 38: "K2", 93: "07", 116: "01022026"}
    )
    rows = [
        full,
        satz("119,00;H;;;;;70001;4900;9;1503;ER-1;;;Büro"),
        satz(INVOICE, {1: "7,00", 118: "1"}),
        satz(PAYMENT, {13: "3,57"}),
    ]
    made = imported(books, file(*(satz(row, {11: f"B{number}"}) for number, row in enumerate(rows * 3))))
    undone(books, made["id"])
    columns = ["jahr", "periode", "aufteilung", "steuertag", *Satz._fields]
    booked = [
        dict(zip(columns, row, strict=True))
        for row in books.rows(f"SELECT {', '.join(columns)} FROM books_bookings ORDER BY id")
    ]
    for original, reversal in zip(booked[: len(booked) // 2], booked[len(booked) // 2 :], strict=True):
        others = {"soll": 1 - original["soll"], "generalumkehr": 1 - original["generalumkehr"]}
        assert reversal == original | others
    assert [name for name in columns if not any(row[name] for row in booked)] == []
    assert differences(books) == []


def test_an_undone_file_may_come_again_and_be_undone_again(books: Books) -> None:
    for times in range(1, 4):
        made = imported(books, file(*ROWS))
        assert count(books) == 6 * times - 3
        undone(books, made["id"])
    assert books.read(OPOS)["konten"] == []
    assert [item["status"] for item in books.read(IMPORTS)] == ["done", "undone"] * 3


def test_undoing_twice_is_refused_and_so_is_undoing_the_undoing(books: Books) -> None:
    made = imported(books, file(*ROWS))
    taken_back = undone(books, made["id"])
    with books.unchanged():
        twice = undo(books, made["id"])
        assert twice.status_code == 409
        assert twice.json()["error"] == "The batch was undone before on 2026-03-02."
        assert undo(books, taken_back["id"]).status_code == 409


def test_the_same_idempotency_key_undoes_once(books: Books) -> None:
    made = imported(books, file(*ROWS))
    first = undo(books, made["id"], **{"idempotency-key": "k"})
    again = undo(books, made["id"], **{"idempotency-key": "k"})
    assert (again.status_code, again.content) == (201, first.content)
    assert again.headers["idempotent-replayed"] == "true"
    assert count(books) == 6


def test_an_undone_carry_over_does_not_leave_the_year_carried(books: Books) -> None:
    before_2026: Columns = {13: "20250101", 15: "20250101", 16: "20251231"}
    imported(books, file(INVOICE, header=before_2026))
    plain = books.read(OPOS)
    openings = file(
        satz("119,00;S;;;;;10010;9008;;0101;;;;EB-Wert"), satz("80,00;S;;;;;10020;9008;;0101;;;;EB-Wert Alt")
    )
    carried = imported(books, openings)
    assert books.read(OPOS) != plain
    assert books.rows("SELECT jahr FROM books_years WHERE has_eb = 1") == [("2026-01-01",)]
    undone(books, carried["id"])
    assert books.read(OPOS) == plain
    assert books.rows("SELECT jahr FROM books_years WHERE has_eb = 1") == []
    assert books.rows("SELECT * FROM books_carry_rests") == []


def test_a_year_stays_carried_while_another_opening_is_left(books: Books) -> None:
    imported(books, file(satz("80,00;S;;;;;10020;9008;;0101;;;;B Vortrag")))
    before = books.read(OPOS, ebModus="raw")
    made = imported(books, file(satz("5,00;S;;;;;10020;9008;;0101;;;;A Vortrag")))
    undone(books, made["id"])
    assert books.read(OPOS, ebModus="raw") == before
    assert books.rows("SELECT jahr FROM books_years WHERE has_eb = 1") == [("2026-01-01",)]


def test_a_document_has_no_date_or_text_of_an_undone_import(books: Books) -> None:
    wrong = imported(books, file(satz(INVOICE, {10: "0201", 14: "Falsch"})))
    imported(books, file(INVOICE, PAYMENT))
    undone(books, wrong["id"])
    (konto,) = books.read(OPOS)["konten"]
    assert [(item["belegdatum"], item["buchungstext"]) for item in konto["posten"]] == [("2026-01-15", "Rechnung Käse")]


def test_a_payment_without_its_undone_invoice_is_one_sided_at_every_cut_off(books: Books) -> None:
    imported(books, file(PAYMENT))
    before = [books.read(OPOS, stichtag=day) for day in ("2026-01-10", "2026-02-20", "2026-12-31")]
    made = imported(books, file(satz(INVOICE, {10: "0103"})))
    undone(books, made["id"])
    assert [books.read(OPOS, stichtag=day) for day in ("2026-01-10", "2026-02-20", "2026-12-31")] == before


def test_undone_rows_look_booked_no_more(books: Books) -> None:
    made = imported(books, file(INVOICE))
    undone(books, made["id"])
    assert imported(books, file(INVOICE, CORRECTED))["uebernommen"] == 2


def test_a_closing_entry_is_taken_back_in_its_period(books: Books) -> None:
    made = imported(books, file(satz(INVOICE, {10: "3112"}), header={19: "2"}))
    undone(books, made["id"])
    assert books.rows("SELECT DISTINCT periode FROM books_bookings") == [(13,)]
    assert balances(books) == {}


def test_an_undone_partial_import_leaves_nothing_to_mend(books: Books) -> None:
    bad = satz("1,00;S;;;;;10010;10010;;0202;RE-9;;;Konto gleich Gegenkonto")
    made = imported(books, file(*ROWS, bad), partial="true")
    undone(books, made["id"])
    whole = imported(books, file(*ROWS, CORRECTED))
    assert (whole["uebernommen"], whole["bekannt"]) == (4, 0)


def test_cash_entries_master_data_and_strangers_are_not_undone(books: Books) -> None:
    books.send(KASSENBUCH, entry(line(5)))
    ((cash,),) = books.rows("SELECT id FROM books_batches")
    with books.unchanged():
        refused = undo(books, cash)
        assert refused.status_code == 409
        assert "reverse its entry" in refused.json()["error"]
        assert undo(books, "0193b2a0-0000-7000-8000-00000000abcd").status_code == 404
    from kontobahn.formats.extf import KONTENBESCHRIFTUNGEN

    header: Columns = {11: "29098", 12: "55003", 13: "20260101"}
    labels = text_of('8400;"Erlöse";"de-DE"', category=KONTENBESCHRIFTUNGEN, header=header).encode("cp1252")
    made = imported(books, labels)
    assert (made["uebernommen"], made["kategorie"]) == (1, KONTENBESCHRIFTUNGEN.name)
    refused = undo(books, made["id"])
    assert refused.status_code == 409
    assert "master data" in refused.json()["error"]
    assert send_file(books, labels).status_code == 409
    assert differences(books) == []
