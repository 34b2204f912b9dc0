"""The books beside our matches: paid by something else, booked already, removed by the bank, taxed in another way."""

from __future__ import annotations

from collections import Counter

import pytest

from kontobahn.books import verification
from tests.harness import Service
from tests.ledger_builder import refusal
from tests.reconciliation_desk import Office, item, paid, refused

PAID = (paid(119_00, "RE-2026-00123"), paid(238_00, "RE-2026-00124"))


def states(office: Office) -> dict[str, int]:
    """Counts the transactions in each state, without the cent that every account begins with."""
    return Counter(row["status"] for row in office.read("transactions") if row["amount"] != 0.01)


def test_what_cash_paid_since_is_left_out_with_the_figures(service: Service) -> None:
    office = Office(service, *PAID, booked_by="kontobahn")
    match = office.by_hand(119, item("RE-2026-00123", 119)).json()["data"]["id"]
    office.books.post("2026-03-02 H 10010 1000 119,00 RE-2026-00123 bar bezahlt")
    before = office.open_items()
    with office.books.unchanged():
        answer = refusal(office.make(), 409)
        assert (answer["open_amount"], answer["amount"], answer["beleg"]) == (0, 119, "RE-2026-00123")
        assert "something else was booked on it since" in answer["error"]
    assert office.by_hand(238, item("RE-2026-00124", 238)).status_code == 201
    made = office.made()
    assert [row["beleg"] for row in made["lines"]] == ["RE-2026-00124"]
    [left_out] = made["left_out"]
    assert (left_out["match_id"], left_out["open_amount"], left_out["amount"]) == (match, 0, 119)
    assert office.open_items() == {key: amount for key, amount in before.items() if key[1] != "RE-2026-00124"}
    # Undone, it opens nothing that cash has paid: the payment is one too many, and stays on account.
    assert office.undo(match).status_code == 200
    again = refused(office.by_hand(119, item("RE-2026-00123", 119)), 409)
    assert (again["open_amount"], again["amount"]) == (0, 119)
    office.store_run()
    assert states(office) == {"matched": 1, "proposed": 1}, "cash is not this payment: somebody must look at it"
    assert office.by_hand(119, {"kind": "on_account", "konto": "10010", "amount": 119}).status_code == 201
    assert office.made()["left_out"] == []
    assert office.open_items()["100100000", ""] == -119


def test_what_the_office_has_booked_is_listed_and_what_cash_paid_is_not(service: Service) -> None:
    office = Office(service, *PAID)
    office.match_two()
    office.books.post("2026-03-02 H 10010 1200 119,00 RE-2026-00123 Zahlung")
    office.books.post("2026-03-02 H 10010 1000 38,00 RE-2026-00124 bar")
    made = office.made()
    assert [row["beleg"] for row in made["lines"]] == ["RE-2026-00123"]
    assert [(one["beleg"], one["open_amount"], one["amount"]) for one in made["left_out"]] == [
        ("RE-2026-00124", 200, 238)
    ]


def test_what_the_books_show_is_not_booked_by_us_too(service: Service) -> None:
    office = Office(service, *PAID, booked_by="kontobahn")
    ids = office.match_two()
    office.books.post("2026-03-02 H 10010 1200 119,00 RE-2026-00123 von der Kanzlei")
    made = office.made()
    assert [row["beleg"] for row in made["lines"]] == ["RE-2026-00124"]
    assert "already, on 2026-03-02" in made["left_out"][0]["reason"]
    assert office.undo(ids[0]).status_code == 200
    office.store_run()
    assert states(office) == {"booked": 1, "matched": 1}


def test_two_part_payments_of_one_amount_are_two(service: Service) -> None:
    """The booking of the first has its transaction beside the document: it is not taken for the second."""
    office = Office(service, paid(50_00, "erste Rate"), paid(50_01, "zweite Rate"), booked_by="kontobahn")
    assert office.by_hand(50, item("RE-2026-00124", 50)).status_code == 201
    assert office.made()["matches"] == 1
    rest = {"kind": "on_account", "konto": "10010", "amount": 0.01}
    assert office.by_hand(50.01, item("RE-2026-00124", 50), rest).status_code == 201
    assert office.made()["matches"] == 1
    assert office.open_items()["100100000", "RE-2026-00124"] == 138


@pytest.mark.either_engine
def test_a_booked_transaction_waits_for_nobody_until_its_booking_is_taken_back(service: Service) -> None:
    office = Office(service, *PAID, booked_by="kontobahn")
    office.store_run()
    assert states(office) == {"proposed": 2}
    office.books.post("2026-03-02 H 10010 1200 119,00 RE-2026-00123 von der Kanzlei")
    run = office.store_run()
    assert (run["booked"], run["proposed"]) == (1, 1)
    assert states(office) == {"booked": 1, "proposed": 1}
    assert office.listed(119)["best_proposal"] is None
    assert [row["amount"] for row in office.read("transactions", status="booked")] == [119]
    # What we booked and then took back is proposed for at once: the next batch takes it back in the books.
    assert office.confirm(238).status_code == 201
    [made] = office.made()["lines"]
    assert office.undo(made["match_id"]).status_code == 200
    office.store_run()
    assert states(office) == {"booked": 1, "proposed": 1}
    assert office.listed(238)["best_proposal"]["lines"][0]["beleg"] == "RE-2026-00124"


def test_what_the_bank_has_removed_is_neither_booked_nor_waits(service: Service) -> None:
    office = Office(service, *PAID, booked_by="kontobahn")
    office.store_run()
    assert office.confirm(119).status_code == 201
    service.db.write_now(lambda tx: tx.run("DELETE FROM banking_transactions WHERE amount_minor IN (11900, 23800)"))
    with office.books.unchanged():
        assert "removed this transaction" in refusal(office.make(), 409)["error"]
    office.store_run()
    assert states(office) == {"matched": 1, "ignored": 1}, "a match stands until somebody undoes it"
    gone = [row for row in office.read("transactions") if row["removed"]]
    assert [row["best_proposal"] for row in gone] == [None, None]


@pytest.mark.parametrize(
    ("bookings", "konto", "key"),
    [
        ("2026-02-10 S 10010 8400 100,00 X-1 voll", "10010", "3"),
        ("2026-02-10 S 10010 8300 100,00 X-1 ermäßigt", "10010", "2"),
        ("2026-02-10 S 10010 8125 100,00 X-1 steuerfrei", "10010", ""),
        ("2026-02-10 H 70001 3300 100,00 X-1 ermäßigt", "70001", "8"),
        ("2026-02-10 H 70001 3120 100,00 X-1 §13b", "70001", None),
        ("2026-02-10 H 70001 3425 100,00 X-1 EU", "70001", None),
        ("2026-02-10 H 70001 3300 60,00 X-1 a\n2026-02-10 H 70001 3120 40,00 X-1 b", "70001", None),
        (
            "2026-02-10 S 10010 8400 60,00 X-1 a\n2026-02-10 S 10010 8300 30,00 X-1 b\n2026-02-10 S 10010 8200 10,00 X-1 c",
            "10010",
            None,
        ),
        ("2026-02-10 S 10010 8200 100,00 X-1 ohne", "10010", None),
    ],
)
@pytest.mark.parametrize("engine", ["sqlite"], indirect=True)
def test_a_discount_has_the_tax_of_its_document_or_is_left_out(
    service: Service, bookings: str, konto: str, key: str | None
) -> None:
    sign = 1 if konto == "10010" else -1
    office = Office(service, paid(sign * 98_00, "X-1"), booked_by="kontobahn")
    office.books.post(bookings)
    line = item("X-1", sign * 98, konto, skonto=sign * 2)
    match = office.by_hand(sign * 98, line).json()["data"]["id"]
    if key is None:
        with office.books.unchanged():
            answer = refusal(office.make(), 409)
            assert "document X-1 of account" in answer["error"]
            assert "which tax it reduces is not known" in answer["error"]
        assert office.undo(match).status_code == 200
        discount = {"kind": "ledger_account", "konto": "8730", "amount": sign * -2}
        assert office.by_hand(sign * 98, item("X-1", sign * 100, konto), discount).status_code == 201
        assert len(office.made()["lines"]) == 2
    else:
        made = office.made()
        [row] = office.call("GET", f"batches/{made['id']}/extf").content.decode("cp1252").splitlines()[2:]
        assert (row.split(";")[8], row.split(";")[12]) == (f'"{key}"', "2,00")
        [(split,)] = office.books.rows("SELECT aufteilung FROM books_bookings WHERE skonto > 0")
        assert not split.endswith("!"), "nothing was assumed"
    assert all(beleg != "X-1" for _, beleg in office.open_items())


@pytest.mark.parametrize(
    ("bookings", "konto", "parts"),
    [
        (
            "2026-02-10 S 10010 8400 71,40 X-1 voll\n2026-02-10 S 10010 8300 28,60 X-1 ermäßigt",
            "10010",
            [("28,03", "2", "0,57"), ("69,97", "3", "1,43")],
        ),
        (
            "2026-02-10 H 70001 3400 50,01 X-1 voll\n2026-02-10 H 70001 3300 49,99 X-1 ermäßigt",
            "70001",
            [("48,99", "8", "1,00"), ("49,01", "9", "1,00")],
        ),
        (
            "2026-02-10 S 10010 8400 71,40 X-1 voll\n2026-02-10 S 10010 8125 28,60 X-1 steuerfrei",
            "10010",
            [("28,03", "40", "0,57"), ("69,97", "3", "1,43")],
        ),
    ],
)
@pytest.mark.parametrize("engine", ["sqlite"], indirect=True)
def test_a_discount_on_several_rates_reduces_the_tax_of_each(
    service: Service, bookings: str, konto: str, parts: list[tuple[str, str, str]]
) -> None:
    sign = 1 if konto == "10010" else -1
    office = Office(service, paid(sign * 98_00, "X-1"), booked_by="kontobahn")
    office.books.post(bookings)
    match = office.by_hand(sign * 98, item("X-1", sign * 98, konto, skonto=sign * 2)).json()["data"]["id"]
    made = office.made()
    assert (made["total"], len(made["lines"])) == (sign * 98.0, len(parts))
    rows = [
        line.split(";")
        for line in office.call("GET", f"batches/{made['id']}/extf").content.decode("cp1252").splitlines()[2:]
    ]
    assert [(row[0], row[8].strip('"'), row[12]) for row in rows] == parts
    splits = [split for (split,) in office.books.rows("SELECT aufteilung FROM books_bookings WHERE skonto > 0")]
    assert not any(split.endswith("!") for split in splits), "nothing was assumed"
    assert len(set(splits)) == len(parts), "each by its own rate"
    assert all(beleg != "X-1" for _, beleg in office.open_items())
    assert office.undo(match).status_code == 200
    assert office.made()["total"] == sign * -98.0
    assert service.db.read_now(verification.find_differences, office.books.client.mandant) == []
    assert next(amount for (_, beleg), amount in office.open_items().items() if beleg == "X-1") == sign * 100


@pytest.mark.parametrize("engine", ["sqlite"], indirect=True)
def test_a_list_for_the_office_has_the_payment_once(service: Service) -> None:
    office = Office(service, paid(98_00, "X-1"), booked_by="adviser")
    office.books.post("2026-02-10 S 10010 8400 71,40 X-1 a\n2026-02-10 S 10010 8300 28,60 X-1 b")
    assert office.by_hand(98, item("X-1", 98, skonto=2)).status_code == 201
    assert [(line["amount"], line["skonto"]) for line in office.made()["lines"]] == [(98.0, 2.0)]
