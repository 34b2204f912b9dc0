"""Statements by EBICS: each booking once, none lost, and no receipt before the statement is stored, whatever the line does."""

from __future__ import annotations

from datetime import date
from decimal import Decimal
from typing import Any

import pytest

from simulators.ebics_bank import Break
from simulators.ebics_bank.books import camt
from simulators.ebics_bank.payments import Transfer, TransferFile, status_report
from tests.providers.ebics.person import GIRO, PARTNER, USER, Person
from tests.statement_builder import Booking, Sheet, mt940

FIRST, SECOND = (-12.34, "Strom", "posted"), (119.0, "Rechnung 1", "posted")


def stored_segments(person: Person) -> list[tuple[Any, ...]]:
    """Each download: its order, whether it is whole, whether the bank has a receipt, and the segments that are here."""
    count = "SELECT COUNT(*) FROM ebics_segments WHERE download_id = ebics_downloads.id"
    query = f"SELECT kind, is_whole, receipt_at IS NOT NULL, ({count}) FROM ebics_downloads ORDER BY created_at, id"
    return [tuple(row) for row in person.service.db.read_now(lambda tx: tx.all(query))]


def test_each_day_brings_its_bookings_once(person: Person) -> None:
    person.book("-12.34", "Strom")
    person.connect()
    assert person.bookings() == [FIRST]
    # Nothing new is no failure.
    assert person.refresh().status_code == 202
    person.bank.today = date(2026, 3, 3)
    person.book("119.00", "Rechnung 1", date(2026, 3, 3))
    assert person.refresh().status_code == 202
    assert person.bookings() == [FIRST, SECOND]
    # The same statement as a file, and the bank offers it once more: nothing is there twice.
    account = person.bank.partners[PARTNER].accounts[0]
    file = camt("C53", account, date(2026, 3, 3), account.bookings[1:], opening=account.balance(1), number=2)
    answer = person.service.post("/v2/banking/statements", person.owner.key, content=file)
    assert answer.status_code == 201, answer.text
    for delivery in person.bank.partners[PARTNER].deliveries:
        delivery.is_fetched = False
    assert person.refresh().status_code == 202
    assert person.bookings() == [FIRST, SECOND]
    assert person.bank.faults == []


def test_days_that_nobody_asked_for_come_with_the_next(person: Person) -> None:
    person.connect()
    for day in range(3, 8):
        person.bank.today = date(2026, 3, day)
        person.book(f"{day}.00", f"Tag {day}", date(2026, 3, day))
    assert person.refresh().status_code == 202
    assert person.bookings() == [(float(day), f"Tag {day}", "posted") for day in range(3, 8)]


def test_a_balance_holds_until_the_next_statement(person: Person) -> None:
    person.book("-12.34", "Strom")
    person.connect()
    person.service.clock.advance(seconds=120 * 86_400)
    assert person.refresh().status_code == 202
    assert person.refresh().status_code == 202
    assert stored_segments(person) == []
    [account] = person.accounts()
    assert account["balance"] == 9987.66
    assert person.bookings() == [FIRST]


@pytest.mark.either_engine
def test_reports_on_orders_of_others_spoil_nothing(person: Person) -> None:
    person.connect()
    file = TransferFile(
        "MSG-1", [Transfer("P", GIRO, None, "", "E-1", Decimal("1.00"), "EUR", "Papier GmbH", GIRO, "")]
    )
    person.bank.deliver(PARTNER, "CRZ", status_report(file, [""], person.bank.today, "R1"))
    person.book("-12.34", "Strom")
    assert person.refresh().status_code == 202
    assert person.bookings() == [FIRST]


def test_reports_of_the_day_give_way_to_the_statement(person: Person) -> None:
    person.connect()
    account = person.bank.partners[PARTNER].accounts[0]
    account.book(date(2026, 3, 2), "5.00", "Eins")
    person.bank.deliver(PARTNER, "C52", camt("C52", account, date(2026, 3, 2), account.bookings, number=1))
    assert person.refresh().status_code == 202
    account.book(date(2026, 3, 2), "5.00", "Eins")
    person.bank.deliver(PARTNER, "C52", camt("C52", account, date(2026, 3, 2), account.bookings, number=2))
    assert person.refresh().status_code == 202
    assert person.bookings() == [(5.0, "Eins", "posted")] * 2
    person.bank.deliver(PARTNER, "C53", account.statement(date(2026, 3, 2)))
    assert person.refresh().status_code == 202
    assert person.bookings() == [(5.0, "Eins", "posted")] * 2


@pytest.mark.either_engine
def test_mt940_and_notifications_are_read_where_there_is_nothing_better(person: Person) -> None:
    user = person.bank.partners[PARTNER].users[USER]
    user.rights = {"STA"}
    person.connect()
    day = date(2026, 3, 2)
    sheet = Sheet([Booking(11900, "Rechnung 1", booked=day, valued=day)], day=day, iban=GIRO)
    person.bank.deliver(PARTNER, "STA", mt940(sheet))
    assert person.refresh().status_code == 202
    assert person.bookings() == [SECOND]
    # Another bank gives notifications of single credits, and nothing else.
    user.rights = {"C54"}
    person.bank.partners[PARTNER].accounts[0].book(date(2026, 3, 3), "5.00", "Einzeln")
    person.bank.close_day(PARTNER)
    assert person.refresh().status_code == 202
    assert person.refresh().status_code == 202
    assert person.bookings() == [(5.0, "Einzeln", "posted"), SECOND]
    assert person.bank.faults == []


def test_no_receipt_before_everything_is_stored(person: Person) -> None:
    person.bank.segment_size = 400
    person.connect()
    person.book("-12.34", "Strom")
    seen: list[tuple[Any, ...]] = []
    person.bank.on_receipt = lambda kind: seen.extend((kind, *row) for row in stored_segments(person))
    assert person.refresh().status_code == 202
    stored = [row for row in seen if row[0] == "C53"]
    assert [(row[1], row[2], row[3]) for row in stored] == [("camt.053", 1, 0)]
    assert stored[0][4] > 1
    assert person.bookings() == [FIRST]


PLACES = [("Initialisation", 0), ("Transfer", 2), ("Transfer", 3), ("Receipt", 0)]


@pytest.mark.either_engine
@pytest.mark.parametrize("how", ["unheard", "lost", "500", "cut", "nonsense"])
def test_a_line_that_breaks_anywhere_loses_and_doubles_nothing(person: Person, how: Any) -> None:
    person.bank.segment_size = 300
    person.connect()
    expected = []
    for number, (phase, segment) in enumerate(PLACES, 3):
        person.bank.today = date(2026, 3, number)
        person.book(f"{number}.00", f"Tag {number}", date(2026, 3, number))
        person.bank.breaks.append(Break(how, phase=phase, order="C53", segment=segment))
        assert person.refresh().status_code == 503
        assert person.bank.breaks == []
        assert person.refresh().status_code == 202
        expected.append((float(number), f"Tag {number}", "posted"))
        assert person.bookings() == expected
    assert person.bank.faults == []


@pytest.mark.either_engine
def test_a_bank_that_resumes_or_forgets_is_followed(person: Person) -> None:
    person.bank.segment_size = 300
    person.connect()
    person.book("-12.34", "Strom")
    person.bank.breaks.append(Break("code", phase="Transfer", order="C53", segment=3, code="061101"))
    assert person.refresh().status_code == 202
    assert person.bookings() == [FIRST]
    person.bank.today = date(2026, 3, 3)
    person.book("119.00", "Rechnung 1", date(2026, 3, 3))
    person.bank.breaks.append(Break("unheard", phase="Transfer", order="C53", segment=2))
    assert person.refresh().status_code == 503
    person.bank.transactions.clear()
    assert person.refresh().status_code == 202
    assert person.bookings() == [FIRST, SECOND]


@pytest.mark.either_engine
@pytest.mark.parametrize(
    "how",
    [
        "wrong_signature", "no_signature", "foreign_signature", "wrapped", "entities", "external_entity", "two_bodies", "two_ids",
        "short_segment",
    ],
)  # fmt: skip
def test_answers_that_are_not_the_bank_s_are_refused(person: Person, how: Any) -> None:
    person.connect()
    person.book("-12.34", "Strom")
    person.bank.breaks.append(Break(how, order="C53", phase="Initialisation"))
    assert person.refresh().status_code in (409, 503)
    assert person.bookings() == []
    assert stored_segments(person) == []
    assert person.refresh().status_code == 202
    assert person.bookings() == [FIRST]


@pytest.mark.either_engine
def test_rights_that_are_missing_are_told_in_words(person: Person) -> None:
    person.bank.partners[PARTNER].users[USER].rights = {"CCT"}
    person.connect()
    [account] = person.accounts()
    assert "camt.053" in str(account["extra"]["not_read"])
    assert "EOP:DE::camt.053" in str(account["extra"]["not_read"])


@pytest.mark.either_engine
def test_a_user_that_is_locked_needs_its_person(person: Person) -> None:
    person.connect()
    person.bank.suspend(PARTNER, USER)
    assert person.refresh().status_code == 409
    assert person.connection()["status"] == "inactive"
    heard = len(person.bank.heard)
    assert person.refresh().status_code == 409
    assert len(person.bank.heard) == heard
