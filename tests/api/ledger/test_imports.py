"""POST and GET /v2/ledger-rewe/imports: files by call, whole and only once, with a protocol."""

from __future__ import annotations

from typing import Any

import pytest

from kontobahn.api.tasks import Tasks
from kontobahn.db import Tx
from kontobahn.formats.extf import KONTENBESCHRIFTUNGEN
from tests.api.ledger.files import (
    BAD,
    CORRECTED,
    IMPORTS,
    INVOICE,
    OF_2026,
    PAYMENT,
    PURCHASE,
    ROWS,
    count,
    file,
    imported,
    send_file,
    undone,
)
from tests.harness import Service, ServiceFactory
from tests.ledger_builder import Books
from tests.unit.formats.extf.files import Columns, satz, text_of


@pytest.fixture
def books(service: Service) -> Books:
    return Books(service, service.organization())


NEXT_YEAR: Columns = {13: "20270101", 15: "20270101", 16: "20271231"}


def test_a_file_is_imported_and_listed_with_who_and_when(books: Books) -> None:
    made = imported(books, file(*ROWS))
    assert made["status"] == "done"
    assert (made["uebernommen"], made["bekannt"], made["abgelehnt"], made["warnungen"]) == (3, 0, 0, 0)
    assert (made["quelle"], made["kategorie"], made["art"]) == ("maerz.csv", "Buchungsstapel", "DATEI")
    assert (made["clientId"], made["geschaeftsjahrStartDatum"]) == ("29098-55003", "2026-01-01")
    assert (made["erstelltVon"], made["erstelltAm"]) == (f"key:{books.owner.key_id}", "2026-03-02T09:00:00Z")
    assert (made["stornoVon"], made["stornoDurch"], made["protokoll"], made["fehler"]) == (None, None, [], None)
    (listed,) = books.read(IMPORTS)
    assert listed == {key: value for key, value in made.items() if key not in ("protokoll", "fehler")}
    assert books.read(f"{IMPORTS}/{made['id']}") == made
    posten = books.read("/v2/ledger-rewe-read/opos")["konten"]
    assert [(konto["kontonummer"], konto["totalSaldo"]) for konto in posten] == [
        ("100100000", 100.0),
        ("700010000", -59.5),
    ]


@pytest.mark.parametrize(
    "again",
    [
        file(*ROWS, end="\n"),
        file(*ROWS, encoding="utf-8-sig"),
        file(*reversed(ROWS)),
        file(*ROWS, header={6: "20270101000000000", 17: '"Anders"'}),
        file(*(row.replace("Wareneingang", '"Wareneingang"').rstrip(";") for row in ROWS)),
    ],
    ids=["line ends", "encoding", "order", "header", "quotes and empty columns"],
)
@pytest.mark.either_engine
def test_the_same_content_is_refused_with_the_import_that_brought_it(books: Books, again: bytes) -> None:
    first = imported(books, file(*ROWS))
    for query in ({}, {"partial": "true"}, {"another": "true"}):
        with books.unchanged():
            answer = send_file(books, again, "kopie.csv", **query)
            assert answer.status_code == 409
            assert f"(batch {first['id']})" in answer.json()["error"]
            assert f"from maerz.csv on 2026-03-02 10:00 by key:{books.owner.key_id}" in answer.json()["error"]


@pytest.mark.either_engine
def test_a_file_of_one_row_may_come_again_if_it_is_another_booking(books: Books) -> None:
    """Two equal coffees on one day, a file each; more rows than one are the same file."""
    first = imported(books, file(PAYMENT))
    with books.unchanged():
        assert f"(batch {first['id']})" in send_file(books, file(PAYMENT)).json()["error"]
    second = imported(books, file(PAYMENT), another="true")
    imported(books, file(PAYMENT), another="true")
    assert count(books) == 3
    undone(books, second["id"])
    undone(books, first["id"])
    with books.unchanged():
        assert send_file(books, file(PAYMENT)).status_code == 409
    assert imported(books, file(PAYMENT), another="true")["uebernommen"] == 1


def test_the_same_rows_of_another_year_are_other_bookings(books: Books) -> None:
    imported(books, file(*ROWS))
    imported(books, file(*ROWS, header=NEXT_YEAR))
    assert count(books) == 6


def test_rows_that_look_booked_already_are_named_and_nothing_is_written(books: Books) -> None:
    imported(books, file(*ROWS), "januar.csv")
    turned = satz("59,50;S;;;;;3400;70001;;1601;ER-1;;;Wareneingang")
    both = file(CORRECTED, INVOICE, turned)
    with books.unchanged():
        answer = send_file(books, both)
        assert answer.status_code == 409
        body = answer.json()
        assert "2 rows look booked already" in body["error"]
        assert "line 4 like booking 1 from januar.csv; line 5 like booking 3 from januar.csv" in body["error"]
        assert [(line["zeile"], line["art"]) for line in body["protokoll"]] == [(4, "ABGELEHNT"), (5, "ABGELEHNT")]
    assert imported(books, both, another="true")["uebernommen"] == 3
    assert count(books) == 6


@pytest.mark.parametrize(
    "changed",
    [{1: "119,01"}, {2: "H"}, {7: "10011"}, {8: "8300"}, {10: "1601"}, {11: "RE-2"}, {118: "1"}],
    ids=["amount", "side", "account", "counter-account", "day", "document", "Generalumkehr"],
)
@pytest.mark.either_engine
def test_a_row_that_differs_in_what_counts_is_another_booking(books: Books, changed: Columns) -> None:
    imported(books, file(INVOICE))
    assert imported(books, file(satz(INVOICE, changed)))["uebernommen"] == 1


def test_a_row_looks_booked_as_often_as_it_stands_in_the_books(books: Books) -> None:
    imported(books, file(INVOICE, INVOICE))
    with books.unchanged():
        answer = send_file(books, file(INVOICE, INVOICE, INVOICE, CORRECTED))
        assert "2 rows look booked already" in answer.json()["error"]
    partly = imported(books, file(INVOICE, INVOICE, INVOICE, CORRECTED), partial="true")
    assert (partly["uebernommen"], partly["abgelehnt"]) == (2, 2)
    assert "looks like booking 1 from maerz.csv" in partly["protokoll"][0]["gefunden"]
    assert count(books) == 4


def test_cash_entries_and_bookings_by_call_count_as_booked(books: Books) -> None:
    books.post("2026-01-15 S 10010 8400 119,00 RE-1 Rechnung Käse")
    assert send_file(books, file(INVOICE)).status_code == 409


@pytest.mark.either_engine
def test_refused_rows_are_a_bad_request_with_every_reason(books: Books) -> None:
    with books.unchanged():
        answer = send_file(books, file(*ROWS, BAD))
        assert answer.status_code == 400
        body = answer.json()
        assert (body["abgelehnt"], [line["zeile"] for line in body["protokoll"]]) == (1, [6])
        assert body["protokoll"][0]["getan"] == "The row was not booked."
    partly = imported(books, file(*ROWS, BAD), partial="true")
    assert (partly["uebernommen"], partly["abgelehnt"]) == (3, 1)
    assert books.read(f"{IMPORTS}/{partly['id']}")["protokoll"] == partly["protokoll"] != []
    whole = imported(books, file(*ROWS, CORRECTED))
    assert (whole["uebernommen"], whole["bekannt"]) == (1, 3)


def test_warnings_are_kept_with_the_import(books: Books) -> None:
    made = imported(books, file(satz(INVOICE, {14: "x" * 70})))
    assert made["warnungen"] == 1
    (warning,) = made["protokoll"]
    assert (warning["art"], warning["zeile"], warning["spalte"]) == ("WARNUNG", 3, "Buchungstext")
    assert warning["gefunden"]
    assert warning["getan"]
    assert books.read(f"{IMPORTS}/{made['id']}")["protokoll"] == [warning]


def test_a_protocol_keeps_the_first_thousand_and_counts_the_rest(books: Books) -> None:
    rows = [satz("1,00;S;;;;;10010;10010;;0202;RE-9;;;x") for _ in range(1_005)]
    body = send_file(books, file(*rows)).json()
    assert (body["abgelehnt"], len(body["protokoll"])) == (1_005, 1_000)


@pytest.mark.parametrize(("content", "words"), [(b"nonsense", "DATEV-format"), (b"\0\0", "")])
@pytest.mark.either_engine
def test_what_is_no_such_file_is_a_bad_request(books: Books, content: bytes, words: str) -> None:
    with books.unchanged():
        answer = send_file(books, content)
        assert answer.status_code == 400
        assert words in answer.json()["error"]


def test_the_file_says_whose_it_is_unless_the_caller_does(books: Books) -> None:
    books.another_client("29098-55004", years=("2026-01-01",))
    other = file(*ROWS, header={12: "55004"})
    assert imported(books, other)["clientId"] == "29098-55004"
    stranger = file(INVOICE, header={12: "1"})
    assert send_file(books, stranger).status_code == 409
    assert imported(books, stranger, clientId="29098-55003")["clientId"] == "29098-55003"
    (listed,) = books.read(IMPORTS, clientId="29098-55004")
    assert books.read(f"{IMPORTS}/{listed['id']}")["clientId"] == "29098-55004"


@pytest.mark.either_engine
def test_without_the_right_nothing_is_imported(books: Books) -> None:
    books.deny("buchungen")
    answer = send_file(books, file(*ROWS))
    assert (answer.status_code, answer.json()["code"]) == (403, "ledger_endpoint_not_authorized")
    assert count(books) == 0


def test_the_list_goes_on_after_an_id(books: Books) -> None:
    ids = [imported(books, file(row))["id"] for row in ROWS]
    first, second = books.read(IMPORTS, limit="2")
    assert [first["id"], second["id"]] == ids[:0:-1]
    (last,) = books.read(IMPORTS, limit="2", from_id=second["id"])
    assert last["id"] == ids[0]


def test_a_file_that_was_imported_before_contents_were_kept_is_known_by_its_bytes(books: Books) -> None:
    made = imported(books, file(*ROWS), "alt.csv")

    def forget_content(tx: Tx) -> None:
        tx.run(
            "UPDATE books_batches SET content = '', sha256 = ? WHERE id = ?",
            "30cd2f0c0d4b0a7fdbd2f5bb7a6a3d7b",
            made["id"],
        )

    books.service.db.write_now(forget_content)
    # Its rows are in the books, so it is known all the same; and byte by byte, by the batch.
    assert "look booked already" in send_file(books, file(*ROWS)).json()["error"]
    books.service.db.write_now(lambda tx: tx.run("UPDATE books_batches SET sha256 = ?", _rows_sha256(file(*ROWS))))
    for query in ({}, {"another": "true"}):
        answer = send_file(books, file(*ROWS, header={6: "20280101000000000"}), **query)
        assert "imported before, from alt.csv" in answer.json()["error"]
    assert imported(books, file(*ROWS, header=NEXT_YEAR))["uebernommen"] == 3


def _rows_sha256(content: bytes) -> str:
    import hashlib

    return hashlib.sha256(content.split(b"\n", 2)[2]).hexdigest()


# --- Large files


@pytest.fixture
def large(start_service: ServiceFactory) -> Books:
    """Every file is a large one here."""
    service = start_service(upload_task_bytes=10)
    return Books(service, service.organization())


def ended(books: Books, import_id: str) -> Any:
    books.service.run(books.service.application.context.part(Tasks).finish_running(30))
    return books.read(f"{IMPORTS}/{import_id}")


def test_a_large_file_is_imported_after_the_answer(large: Books) -> None:
    answer = send_file(large, file(*ROWS))
    assert answer.status_code == 202
    begun = answer.json()["data"]
    assert (begun["status"], begun["quelle"]) == ("running", "maerz.csv")
    done = ended(large, begun["id"])
    assert (done["status"], done["uebernommen"], done["erstelltVon"]) == ("done", 3, f"key:{large.owner.key_id}")
    assert [item["id"] for item in large.read(IMPORTS)] == [begun["id"]]


@pytest.mark.either_engine
def test_a_large_file_that_is_refused_is_failed_with_its_protocol(large: Books) -> None:
    begun = send_file(large, file(*ROWS, BAD)).json()["data"]
    failed = ended(large, begun["id"])
    assert (failed["status"], failed["uebernommen"], failed["abgelehnt"]) == ("failed", 0, 1)
    assert failed["fehler"] == "1 row was refused; nothing was imported."
    assert [line["zeile"] for line in failed["protokoll"]] == [6]
    (listed,) = large.read(IMPORTS)
    assert (listed["id"], listed["status"]) == (begun["id"], "failed")
    assert count(large) == 0


def test_a_large_file_that_cannot_be_read_is_refused_at_once(large: Books) -> None:
    assert send_file(large, b"nonsense, and quite a lot of it").status_code == 400


def test_two_different_rows_of_one_day_are_both_imported(books: Books) -> None:
    imported(books, file(INVOICE))
    assert imported(books, file(PAYMENT, PURCHASE))["uebernommen"] == 2


@pytest.mark.either_engine
def test_a_file_for_another_client_than_its_header_names_is_imported_with_a_warning(books: Books) -> None:
    other = {**OF_2026, 12: "4711"}
    stack = imported(books, file(INVOICE, header=other), clientId="29098-55003")
    labels = text_of("8400;Erlöse", category=KONTENBESCHRIFTUNGEN, header=other).encode("cp1252")
    for made in (stack, imported(books, labels, clientId="29098-55003")):
        assert [(line["art"], line["zeile"], line["spalte"]) for line in made["protokoll"]] == [
            ("WARNUNG", 1, "Mandant")
        ]
        assert "29098-4711" in made["protokoll"][0]["gefunden"]
        assert "29098-55003" in made["protokoll"][0]["getan"]
    assert imported(books, file(PAYMENT), clientId="29098-55003")["protokoll"] == []


@pytest.mark.either_engine
def test_a_discount_in_another_currency_is_refused(books: Books) -> None:
    row = satz("100,00;S;CHF;1,0000;95,00;EUR;1200;10010;;0102;RE-1;;2,00;Zahlung")
    with books.unchanged():
        answer = send_file(books, file(row))
        assert answer.status_code == 400
        (line,) = answer.json()["protokoll"]
        assert (line["zeile"], line["spalte"]) == (3, "Skonto")
        assert "CHF" in line["gefunden"]
