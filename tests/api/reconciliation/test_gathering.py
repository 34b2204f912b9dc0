"""Knowledge of a run beyond open items: bookings, settlements and documents from elsewhere, and money that comes back."""

from __future__ import annotations

from datetime import date
from typing import Any

from tests.harness import Service
from tests.mobility_builder import Shop, ticket
from tests.reconciliation_desk import OTHER, Desk, lines, paid
from tests.statement_builder import DAY

SETTLED = """
2026-02-10 S 10010 8400 357,00 RE-2026-00131 Rechnung
2026-02-27 S 1200 10010 357,00 RE-2026-00131 Zahlung
"""


def by_amount(found: dict[str, Any]) -> dict[float, list[dict[str, Any]]]:
    return {row["amount"]: row["proposals"] for row in found["data"]}


def signals(proposal: dict[str, Any]) -> list[str]:
    return [reason["signal"] for reason in proposal["reasons"]]


def test_what_the_books_show_is_not_proposed_again_and_a_second_payment_is(service: Service) -> None:
    first = paid(357_00, "RE-2026-00131", valued=date(2026, 2, 28))
    desk = Desk(service, first, paid(357_00, "RE-2026-00131", valued=DAY), paid(100_00, "RE-2026-00124"))
    desk.books.post(SETTLED)
    desk.books.post("2026-03-01 S 1200 10010 100,00 RE-2026-00124 Teilzahlung")
    found = desk.run()
    assert (found["booked"], found["open_items"]) == (2, 4)
    rows = {(row["made_on"], row["amount"]): row["proposals"] for row in found["data"]}
    assert rows["2026-02-28", 357] == rows["2026-03-02", 100] == []
    again = rows["2026-03-02", 357][0]
    assert (again["evidence_class"], again["clear"], lines(again)) == (
        "B1",
        False,
        [("on_account", "100100000", "", 357)],
    )
    assert "paid_before" in signals(again)
    only_second = desk.run(from_date="2026-03-02")
    assert by_amount(only_second)[357][0] == again, (
        "the first one, before the days asked for, is the one that is booked"
    )


def test_a_booking_that_was_taken_back_is_open_again(service: Service) -> None:
    desk = Desk(service, paid(119_00, "Rechnung RE-2026-00123"))
    desk.books.post("2026-03-01 S 1200 10010 119,00 RE-2026-00123 Zahlung")
    assert (desk.run()["booked"], by_amount(desk.run())[119]) == (1, [])
    desk.books.post("2026-03-01 H 1200 10010 119,00 RE-2026-00123 Zahlung gu=1")
    found = desk.run()
    assert (found["booked"], by_amount(found)[119][0]["evidence_class"]) == (0, "A2")


def test_an_amount_alone_is_not_taken_for_what_is_booked(service: Service) -> None:
    desk = Desk(service, paid(357_00, "Danke", "Irgendwer", OTHER), paid(357_00, "Danke"))
    desk.books.post(SETTLED)
    found = desk.run()
    assert found["booked"] == 1
    [known] = [row for row in found["data"] if row["name"] == "ANNA MUSTER BAU"]
    assert known["proposals"] == [], "hers is the one that is booked"


def test_a_return_of_what_is_booked_opens_it_again_and_names_the_fee(service: Service) -> None:
    came = paid(357_00, "RE-2026-00131", end_to_end_id="E-77", valued=date(2026, 2, 27))
    back = paid(-360_50, "SVWZ+RUECKLASTSCHRIFT RREF+E-77 OAMT+357,00 COAM+3,50", end_to_end_id="E-77")
    desk = Desk(service, came, back)
    desk.books.post(SETTLED)
    for found in (desk.run(), desk.run(from_date="2026-03-02")):
        [best] = by_amount(found)[-360.5]
        assert (best["evidence_class"], best["clear"]) == ("A5", True)
        assert lines(best) == [
            ("return", "100100000", "RE-2026-00131", -357), ("fee", "49700000", "", -3.5),
        ]  # fmt: skip


def test_a_mobility_invoice_is_found_by_its_number(service: Service) -> None:
    desk = Desk(service)
    shop = Shop(service, desk.owner)
    known = shop.invoice(shop.customer(ticket(price_in_cents=6300), name="Anna Muster Bau GmbH"))
    strange = shop.invoice(shop.customer(ticket(price_in_cents=4900), name="Fremde Fahrten Nord GmbH"))
    booked = shop.invoice(shop.customer(ticket(price_in_cents=5800), name="Fremde Fahrten Nord GmbH"))
    number = booked["invoice_number"]
    desk.books.post(f"2026-03-01 S 10020 8300 58,00 {number} Rechnung")
    desk.bank.book(
        paid(63_00, f"Rechnung {known['invoice_number']}"),
        paid(49_00, f"Rechnung {strange['invoice_number']}", "FREMDE FAHRTEN NORD", OTHER),
        paid(58_00, f"Rechnung {number}", "FREMDE FAHRTEN NORD", OTHER),
    )
    found = by_amount(desk.run(to_date="2026-03-10"))
    assert lines(found[63][0]) == [("item", "100100000", known["invoice_number"], 63)]
    assert found[63][0]["evidence_class"] == "A2"
    assert lines(found[49][0]) == [("item", "K10002", strange["invoice_number"], 49)]
    assert (found[49][0]["evidence_class"], found[49][0]["clear"]) == ("B1", False), (
        "the books do not know the customer"
    )
    assert lines(found[58][0]) == [("item", "100200000", number, 58)], "what the books have is theirs"
