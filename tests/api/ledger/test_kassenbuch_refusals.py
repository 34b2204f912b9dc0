"""POST /v2/ledger-duo/kassenbuch-advanced: what is refused names its field, writes nothing and costs nothing."""

from __future__ import annotations

from typing import Any

import pytest

from tests.harness import Service
from tests.ledger_builder import KASSENBUCH, NOT_ONE_LINE, Books, entry, line, refusal

MALFORMED: list[tuple[dict[str, Any], str]] = [
    # The sum, to the cent.
    (entry(line(10), betrag=10.01), "betrag"),
    (entry(line(10), line(20), betrag=29.99), "betrag"),
    (entry(line(10), betrag=-10), "betrag"),
    (entry(line(0.1), line(0.2), betrag=0.31), "betrag"),
    (entry(line(10), betrag=10.001), "betrag"),
    (entry(line(10), betrag="zehn"), "betrag"),
    (entry(line(10), betrag=None), "betrag"),
    (entry(line(10), betrag=True), "betrag"),
    (entry(line(10), betrag="10.00"), "betrag"),
    ({**entry(line(1)), "belegzeilen": [{**line(1), "betrag": "1"}]}, "belegzeilen[0].betrag"),
    (entry(line(10), betrag=1e15), "betrag"),
    # The lines.
    (entry(betrag=0), "belegzeilen"),
    (entry(line(0)), "belegzeilen[0].betrag"),
    (entry(line(5), line(0.00)), "belegzeilen[1].betrag"),
    (entry(line(1), line(2), gegenkonto="8400"), "gegenkonto"),
    (entry(line(1), {**line(2), "belegText": "x"}), "belegzeilen[1].belegText"),
    (entry(line(1), line(2, belegtext="")), "belegzeilen[1].belegtext"),
    (entry(line(1, belegtext="x" * 61)), "belegzeilen[0].belegtext"),
    *((entry(line(1, belegtext=text)), "belegzeilen[0].belegtext") for text in ("   ", "\u00a0", " \u2003", "\u200b\ufeff")),
    (entry(line(1, kostenstelle1=" ")), "belegzeilen[0].kostenstelle1"),
    # What no line of an export can hold; a line break at the very end is one too.
    *((entry(line(1), line(1, belegtext=text)), "belegzeilen[1].belegtext") for text in NOT_ONE_LINE),
    (entry(line(1, kostenstelle2="K\n1")), "belegzeilen[0].kostenstelle2"),
    (entry(line(1, belegNummer="RE1\n")), "belegzeilen[0].belegNummer"),
    (entry(line(1, "8400\n")), "belegzeilen[0].gegenkonto"),
    (entry(line(10_000_000_000)), "belegzeilen[0].betrag"),
    (entry(line(1), line(-10_000_000_000)), "belegzeilen[1].betrag"),
    (entry(line(1, steuersatz={"buSchluessel": "29"})), "belegzeilen[0].steuersatz.buSchluessel"),
    (entry(line(1, belegNummer="RE 1")), "belegzeilen[0].belegNummer"),
    (entry(line(1, belegNummer="R" * 37)), "belegzeilen[0].belegNummer"),
    (entry(line(1, kostenstelle1="K" * 37)), "belegzeilen[0].kostenstelle1"),
    (entry(line(1, steuersatz={"prozent": 19.005})), "belegzeilen[0].steuersatz.prozent"),
    (entry(line(1, steuersatz={"buSchluessel": "9a"})), "belegzeilen[0].steuersatz.buSchluessel"),
    (entry(line(1, steuersatz={"buSchluessel": 9})), "belegzeilen[0].steuersatz.buSchluessel"),
    (entry(line(1, steuersatz={"satz": 19})), "belegzeilen[0].steuersatz.satz"),
    # Accounts: of the client's length, and none that the booking cannot be split over.
    (entry(line(1, "840")), "belegzeilen[0].gegenkonto"),
    (entry(line(1, "8400a")), "belegzeilen[0].gegenkonto"),
    (entry(line(1, "840000")), "belegzeilen[0].gegenkonto"),
    (entry(line(1, "8400000")), "belegzeilen[0].gegenkonto"),
    (entry(line(1), line(1, "84001234")), "belegzeilen[1].gegenkonto"),
    (entry(line(1, "100100001")), "belegzeilen[0].gegenkonto"),
    (entry(line(1, "01001")), "belegzeilen[0].gegenkonto"),
    (entry(line(1, "0000")), "belegzeilen[0].gegenkonto"),
    (entry(line(1, "1000")), "belegzeilen[0].gegenkonto"),
    (entry(line(1, "10000000")), "belegzeilen[0].gegenkonto"),
    # A rate is booked or refused: against the key, against the account, unknown, or where nothing can carry it.
    (entry(line(107, "2700", steuersatz={"prozent": 7, "buSchluessel": "3"})), "belegzeilen[0].steuersatz.prozent"),
    (entry(line(119, steuersatz={"prozent": 7})), "belegzeilen[0].steuersatz.prozent"),
    (entry(line(119, steuersatz={"prozent": 0})), "belegzeilen[0].steuersatz.prozent"),
    (entry(line(119, steuersatz={"prozent": 19, "buSchluessel": "40"})), "belegzeilen[0].steuersatz.prozent"),
    (entry(line(1), line(119, "2700", steuersatz={"prozent": 20})), "belegzeilen[1].steuersatz.prozent"),
    (entry(line(119, "2700", steuersatz={"prozent": 10.7})), "belegzeilen[0].steuersatz.prozent"),
    (entry(line(119, "10010", steuersatz={"prozent": 19})), "belegzeilen[0].steuersatz.prozent"),
    (entry(line(119, "1200", steuersatz={"prozent": 19})), "belegzeilen[0].steuersatz.prozent"),
    (entry(line(119, "8125", steuersatz={"prozent": 19})), "belegzeilen[0].steuersatz.prozent"),
    (entry(line(119, "2700", steuersatz={"prozent": 19, "buSchluessel": "777"})), "belegzeilen[0].steuersatz.buSchluessel"),
    (entry(line(119, steuersatz={"prozent": 19, "buSchluessel": "9"})), "belegzeilen[0].steuersatz.buSchluessel"),
    # The rest of the entry.
    (entry(line(1), waehrung="USD"), "waehrung"),
    (entry(line(1), waehrung="eur"), "waehrung"),
    (entry(line(1), kassenname="Portokasse"), "kassenname"),
    (entry(line(1), kassenname="hauptkasse"), "kassenname"),
    (entry(line(1), kassenname=""), "kassenname"),
    (entry(line(1), transaktionsdatum="2026-03-02"), "transaktionsdatum"),
    (entry(line(1), transaktionsdatum="2026-03-02T10:00:00"), "transaktionsdatum"),
    (entry(line(1), transaktionsdatum="2026-02-30T10:00:00Z"), "transaktionsdatum"),
    (entry(line(1), transaktionsdatum="2026-03-03T00:00:00+01:00"), "transaktionsdatum"),
    (entry(line(1), transaktionsdatum="2026-03-02T23:30:00Z"), "transaktionsdatum"),
    (entry(line(1), transaktionsdatum="9999-12-31T23:59:59-14:00"), "transaktionsdatum"),
    (entry(line(1), transaktionsdatum="0001-01-01T00:00:00+14:00"), "transaktionsdatum"),
    (entry(line(1), transaktionsDatum="2026-03-02T10:00:00Z"), "transaktionsDatum"),
]  # fmt: skip


@pytest.fixture
def books(service: Service) -> Books:
    return Books(service, service.organization(), years=("2025-01-01", "2026-01-01"))


@pytest.mark.either_engine
def test_a_malformed_entry_is_400_names_the_field_and_leaves_no_trace(books: Books) -> None:
    books.send(KASSENBUCH, entry(line(50)))
    with books.unchanged():
        for body, field in MALFORMED:
            refusal(books.send(KASSENBUCH, body), 400, field)


@pytest.mark.parametrize("field", ["waehrung", "kassenname", "betrag", "transaktionsdatum", "belegzeilen"])
@pytest.mark.either_engine
def test_what_an_entry_must_have_is_asked_for_by_name(books: Books, field: str) -> None:
    body = entry(line(1))
    del body[field]
    with books.unchanged():
        assert "is required" in refusal(books.send(KASSENBUCH, body), 400, field)["error"]


@pytest.mark.parametrize("field", ["belegtext", "gegenkonto", "betrag"])
@pytest.mark.either_engine
def test_what_a_line_must_have_is_asked_for_by_name(books: Books, field: str) -> None:
    body = entry(line(1))
    del body["belegzeilen"][0][field]
    with books.unchanged():
        assert "is required" in refusal(books.send(KASSENBUCH, body), 400, f"belegzeilen[0].{field}")["error"]


@pytest.mark.either_engine
def test_a_third_decimal_is_refused_even_where_the_sum_would_fit(books: Books) -> None:
    with books.unchanged():
        answer = books.send(KASSENBUCH, entry(line(1), line(1.004), line(1.996), betrag=4))
        assert "two decimals" in refusal(answer, 400, "belegzeilen[1].betrag")["error"]


@pytest.mark.either_engine
def test_five_thousand_and_one_lines_are_too_many(books: Books) -> None:
    with books.unchanged():
        refusal(books.send(KASSENBUCH, entry(*[line(1)] * 5_001)), 400, "belegzeilen")


@pytest.mark.either_engine
def test_an_unknown_cash_book_is_answered_with_the_known_ones(books: Books) -> None:
    books.cash_book("Nebenkasse", "1010")
    with books.unchanged():
        error = refusal(books.send(KASSENBUCH, entry(line(1), kassenname="Kasse")), 400, "kassenname")["error"]
    assert "“Hauptkasse”" in error
    assert "“Nebenkasse”" in error


def test_the_day_itself_may_be_booked_to_its_last_minute(books: Books) -> None:
    answer = books.send(KASSENBUCH, entry(line(1), transaktionsdatum="2026-03-02T23:59:59+01:00"))
    assert answer.status_code == 201, answer.text


@pytest.mark.either_engine
def test_a_day_without_a_fiscal_year_is_409(books: Books) -> None:
    with books.unchanged():
        for instant in ("2024-12-31T12:00:00+01:00", "1999-01-01T00:00:00Z"):
            refusal(books.send(KASSENBUCH, entry(line(1), transaktionsdatum=instant)), 409, "transaktionsdatum")


def negative(books: Books, body: dict[str, Any], field: str, kassensaldo: str) -> None:
    with books.unchanged():
        answer = books.send(KASSENBUCH, body)
        assert refusal(answer, 409, field)["kassensaldo"] == float(kassensaldo)
        assert f'"kassensaldo":{kassensaldo},'.encode() in answer.content


def test_an_entry_that_would_overdraw_is_409_with_what_is_there(books: Books) -> None:
    negative(books, entry(line(-0.01, "4930")), "belegzeilen[0].betrag", "0.00")
    books.send(KASSENBUCH, entry(line(50)))
    negative(books, entry(line(-50.01, "4930")), "belegzeilen[0].betrag", "50.00")
    assert books.send(KASSENBUCH, entry(line(-50, "4930"))).status_code == 201


def test_lines_are_added_up_in_their_order(books: Books) -> None:
    books.send(KASSENBUCH, entry(line(20)))
    negative(books, entry(line(-30, "4930"), line(100)), "belegzeilen[0].betrag", "20.00")
    negative(books, entry(line(5), line(-30, "4930"), line(100)), "belegzeilen[1].betrag", "25.00")
    assert books.send(KASSENBUCH, entry(line(100), line(-30, "4930"))).status_code == 201


def test_an_earlier_day_does_not_spend_what_came_later(books: Books) -> None:
    books.send(KASSENBUCH, entry(line(100), transaktionsdatum="2026-02-10T12:00:00Z"))
    early = entry(line(-1, "4930"), transaktionsdatum="2026-02-09T12:00:00Z")
    negative(books, early, "belegzeilen[0].betrag", "0.00")


def test_an_earlier_day_does_not_take_what_a_later_one_needed(books: Books) -> None:
    for day, betrag in (("05", 100), ("10", -80), ("15", 500)):
        instant = f"2026-02-{day}T12:00:00Z"
        assert books.send(KASSENBUCH, entry(line(betrag, "1360"), transaktionsdatum=instant)).status_code == 201
    late = entry(line(-30, "4930"), transaktionsdatum="2026-02-07T12:00:00Z")
    negative(books, late, "betrag", "20.00")
    fits = entry(line(-20, "4930"), transaktionsdatum="2026-02-07T12:00:00Z")
    assert books.send(KASSENBUCH, fits).status_code == 201


def test_every_cash_book_has_its_own_balance(books: Books) -> None:
    books.cash_book("Nebenkasse", "1010")
    books.send(KASSENBUCH, entry(line(100)))
    negative(books, entry(line(-1, "4930"), kassenname="Nebenkasse"), "belegzeilen[0].betrag", "0.00")


@pytest.mark.either_engine
def test_without_credits_nothing_is_booked(service: Service) -> None:
    books = Books(service, service.organization(credits_granted=0))
    with books.unchanged():
        body = refusal(books.send(KASSENBUCH, entry(line(1))), 402)
    assert (body["benoetigt"], body["verfuegbar"]) == (1, 0)


@pytest.mark.either_engine
def test_a_refused_entry_may_be_corrected_under_the_same_idempotency_key(books: Books) -> None:
    headers = {"idempotency-key": "Kasse-1"}
    with books.unchanged():
        refusal(books.send(KASSENBUCH, entry(line(1), kassenname="Kasse"), headers=headers), 400, "kassenname")
    assert books.send(KASSENBUCH, entry(line(1)), headers=headers).status_code == 201


@pytest.mark.either_engine
def test_a_client_that_the_connection_does_not_have_is_refused(books: Books) -> None:
    with books.unchanged():
        refusal(books.send(KASSENBUCH, entry(line(1)), query={"clientId": "29098-9"}), 400, "clientId")


def test_a_number_that_may_be_a_ledger_or_a_person_account_is_never_guessed(service: Service) -> None:
    """Eight digits, where own numbers have seven, may be a ledger account in full or a person account."""
    books = Books(service, service.organization(), laenge=7)
    assert books.send(KASSENBUCH, entry(line(1, "84000000"))).status_code == 201
    assert books.rows("SELECT gegenkonto FROM books_bookings") == [("84000000",)]
    with books.unchanged():
        body = refusal(books.send(KASSENBUCH, entry(line(1, "49990000"))), 400, "belegzeilen[0].gegenkonto")
        assert "4999000 or the person account 499900000" in body["error"]
    for meant, konto in (("4999000", "49990000"), ("499800000", "499800000"), ("49980000", "499800000")):
        assert books.send(KASSENBUCH, entry(line(1, meant))).status_code == 201
        assert books.rows("SELECT gegenkonto FROM books_bookings ORDER BY id DESC LIMIT 1") == [(konto,)]


@pytest.mark.parametrize(
    ("when", "words"),
    [
        ("2026-03-02T10:00:00", "must say its time zone"),
        ("2026-02-31T10:00:00+01:00", "must be a time of the calendar"),
    ],
)
@pytest.mark.either_engine
def test_a_time_without_a_zone_or_off_the_calendar_is_refused_as_such(service: Service, when: str, words: str) -> None:
    books = Books(service, service.organization())
    with books.unchanged():
        refused = books.send(KASSENBUCH, entry(line(1), transaktionsdatum=when))
        assert words in refusal(refused, 400, "transaktionsdatum")["error"]
