"""GET /v2/ledger-rewe-read/konten and …/buchungen."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from typing import Any

import pytest

from tests.api.ledger.files import file, imported, undone
from tests.harness import Service
from tests.ledger_builder import KASSENBUCH, Books, entry, line, refusal
from tests.unit.formats.extf.files import satz

KONTEN, BUCHUNGEN = "/v2/ledger-rewe-read/konten", "/v2/ledger-rewe-read/buchungen"
YEAR = {"geschaeftsjahrStartDatum": "2026-01-01"}


@pytest.fixture
def books(service: Service) -> Books:
    return Books(service, service.organization(credits_granted=1_000), years=("2025-01-01", "2026-01-01"))


def walk(books: Books, path: str, limit: int, cursor: str) -> list[dict[str, Any]]:
    """Every page to the end; each but the last is full."""
    found: list[dict[str, Any]] = []
    query = {**YEAR, "limit": str(limit)}
    while page := books.read(path, **query):
        assert len(page) <= limit
        found += page
        query["from_id"] = page[-1][cursor]
        if len(page) < limit:
            assert books.read(path, **query) == []
    return found


def test_accounts_have_the_contract_s_shape_and_cost_one(books: Books) -> None:
    answer = books.get(KONTEN, **YEAR, limit="2")
    assert answer.headers["x-credits-charged"] == "1"
    assert answer.json() == {
        "data": [
            {"kontobeschriftung": "EDV-Software", "kontonummer": "00270000"},
            {"kontobeschriftung": "Pkw", "kontonummer": "03200000"},
        ],
        "platform": {"neuesGuthaben": 999},
    }


def test_bookings_have_the_contract_s_shape_and_cost_one(books: Books) -> None:
    books.post("2025-05-05 S 10010 8400 1,19 ALT\n2026-01-15 H 4930 70001 26,87 ER-7 Papier und Toner bu=9")
    answer = books.get(BUCHUNGEN, **YEAR)
    assert answer.headers["x-credits-charged"] == "1"
    shared = {
        "kostenstellen": {"kost1": None, "kost2": None},
        "buSchluessel": "9",
        "umsatz": 26.87,
        "belegfeld1": "ER-7",
        "belegdatum": "2026-01-15T00:00:00Z",
    }
    assert answer.json() == {
        "data": [
            {
                "id": "2",
                "waehrung": "EUR",
                "sollHabenKennzeichen": "HABEN",
                "buchungstext": "Papier und Toner",
                "buchungszeilen": [{"kontonummer": "49300000", **shared}, {"kontonummer": "700010000", **shared}],
                "skonto": None,
                "basisUmsatz": None,
                "generalumkehr": False,
            }
        ],
        "platform": {"neuesGuthaben": 999},
    }


@pytest.mark.either_engine
def test_what_is_read_of_a_person_account_adds_up_to_its_line_of_the_trial_balance(books: Books) -> None:
    imported(
        books,
        file(
            satz("119,00;S;;;;;10010;8400;;1501;RE-1;;;Rechnung"),
            satz("116,62;S;;;;;1200;10010;;0102;RE-1;;2,38;Zahlung mit Skonto"),
            satz("119,00;S;;;;;10010;8400;;1601;RE-2;;;Rechnung"),
            satz("119,00;H;;;;;10010;8400;;1701;RE-2;;;Storno", {118: "1"}),
            satz("100,00;H;CHF;1,0500;95,24;EUR;70001;4930;;1801;ER-1;;;Rechnung in Franken"),
            satz("23,80;S;;;;;70001;1200;;1802;ER-2;;0,48;Zahlung"),
        ),
    )
    undone(books, imported(books, file(satz("50,00;S;;;;;1200;10010;;0103;RE-1;;1,00;Irrtum")))["id"])
    read = books.read(BUCHUNGEN, **YEAR)
    for konto in ("100100000", "700010000"):
        (zeile,) = books.read("/v2/ledger-rewe-read/susa", **YEAR, kontonummer=konto)
        assert turnover(read, konto) == (Decimal(str(zeile["umsatzSoll"])), Decimal(str(zeile["umsatzHaben"])))


def turnover(read: list[dict[str, Any]], konto: str) -> tuple[Decimal, Decimal]:
    """Debit and credit of a person account, from nothing but what the call answers."""
    sums = {"SOLL": Decimal(), "HABEN": Decimal()}
    for item in read:
        numbers = [zeile["kontonummer"] for zeile in item["buchungszeilen"]]
        if konto not in numbers:
            continue
        sides = ["SOLL", "HABEN"] if item["sollHabenKennzeichen"] == "SOLL" else ["HABEN", "SOLL"]
        amount = item["buchungszeilen"][0]["umsatz"] if item["basisUmsatz"] is None else item["basisUmsatz"]
        amount = Decimal(str(amount)) + Decimal(str(item["skonto"] or 0))
        side = sides[numbers.index(konto)]
        if item["generalumkehr"]:
            side, amount = {"SOLL": "HABEN", "HABEN": "SOLL"}[side], -amount
        sums[side] += amount
    return sums["SOLL"], sums["HABEN"]


@pytest.mark.parametrize("limit", [1, 3, 7, 100])
def test_walking_the_bookings_misses_none_and_repeats_none(books: Books, limit: int) -> None:
    books.post("2025-05-05 S 10010 8400 1,19 ALT")
    books.post("\n".join(f"2026-01-{day:02} S 1200 1360 {day},00 B{day}" for day in range(1, 22)))
    books.post("2025-05-06 S 10010 8400 1,19 ALT")
    books.post("2026-01-01 S 1200 1360 99,00 spaet")
    found = walk(books, BUCHUNGEN, limit, "id")
    assert [item["buchungszeilen"][0]["umsatz"] for item in found] == [*range(1, 22), 99]
    ids = [int(item["id"]) for item in found]
    assert ids == sorted(set(ids))
    assert found == books.read(BUCHUNGEN, **YEAR)


@pytest.mark.parametrize("limit", [1, 10, 1000])
def test_walking_the_accounts_misses_none_and_repeats_none(books: Books, limit: int) -> None:
    number = {"kontaktTyp": "COMPANY", "kontenrahmen": "SKR03", "kontonummernLaenge": 4, "firmenname": "Firma"}
    for nummer in ("10010", "70001", "10000"):
        body = {**number, "personenkontoNummer": nummer, "geschaeftsjahrStartDatum": "2026-01-01"}
        assert books.send("/v2/ledger-rewe/personenkonto", body).status_code == 201
    found = walk(books, KONTEN, limit, "kontonummer")
    numbers = [item["kontonummer"] for item in found]
    assert len(numbers) == len(set(numbers)) > 60
    assert numbers == sorted(numbers, key=lambda item: (len(item), item))
    assert numbers[-3:] == ["100000000", "100100000", "700010000"]
    assert found == books.read(KONTEN, **YEAR)


def test_a_reader_behind_many_writers_misses_no_booking(books: Books) -> None:
    def write(number: int) -> None:
        assert books.send(KASSENBUCH, entry(line(1, "1360", belegNummer=f"N{number}"))).status_code == 201

    seen: list[str] = []
    cursor: dict[str, str] = {}
    with ThreadPoolExecutor(8) as pool:
        writes = [pool.submit(write, number) for number in range(40)]
        while len(seen) < 40:
            done = all(job.done() for job in writes)
            page = books.read(BUCHUNGEN, **YEAR, **cursor, limit="5")
            seen += [item["buchungszeilen"][0]["belegfeld1"] for item in page]
            if page:
                cursor["from_id"] = page[-1]["id"]
            assert page or not done, "a booking was passed over"
        for job in writes:
            job.result()
    assert sorted(seen) == sorted(f"N{number}" for number in range(40))


def test_years_are_told_apart(books: Books) -> None:
    books.post("2025-05-05 S 10010 8400 1,19 ALT\n2026-05-05 S 10010 8400 2,38 NEU")
    for year, umsatz in (("2025-01-01", 1.19), ("2026-01-01", 2.38)):
        (booking,) = books.read(BUCHUNGEN, geschaeftsjahrStartDatum=year)
        assert booking["buchungszeilen"][0]["umsatz"] == umsatz


@pytest.mark.parametrize("path", [KONTEN, BUCHUNGEN])
@pytest.mark.parametrize(
    ("query", "status", "field"),
    [
        ({}, 400, "geschaeftsjahrStartDatum"),
        ({**YEAR, "limit": "0"}, 400, "limit"),
        ({**YEAR, "limit": "-1"}, 400, "limit"),
        ({**YEAR, "limit": "100001"}, 400, "limit"),
        ({**YEAR, "limit": "zehn"}, 400, "limit"),
        ({**YEAR, "from_id": "abc"}, 400, "from_id"),
        ({**YEAR, "from_id": "-1"}, 400, "from_id"),
        ({**YEAR, "from_id": "9" * 19}, 400, "from_id"),
        ({"geschaeftsjahrStartDatum": "2024-01-01"}, 404, None),
    ],
)
@pytest.mark.either_engine
def test_a_wrong_question_is_refused_and_free(
    books: Books, path: str, query: dict[str, str], status: int, field: str | None
) -> None:
    with books.unchanged():
        refusal(books.get(path, **query), status, field)


@pytest.mark.parametrize("path", [KONTEN, BUCHUNGEN])
def test_past_the_end_there_is_nothing(books: Books, path: str) -> None:
    books.post("2026-05-05 S 10010 8400 2,38 NEU")
    assert books.read(path, **YEAR, from_id="9" * (18 if path == BUCHUNGEN else 9)) == []


@pytest.mark.parametrize("laenge", [4, 5, 6, 7, 8])
@pytest.mark.either_engine
def test_the_last_account_is_the_cursor_whatever_the_client_s_length(service: Service, laenge: int) -> None:
    books = Books(service, service.organization(credits_granted=1_000), laenge=laenge)
    everything = books.read(KONTEN, **YEAR)
    assert len(everything) > 60
    assert walk(books, KONTEN, 25, "kontonummer") == everything


def test_the_cursor_of_the_accounts_may_be_the_client_s_own_number(books: Books) -> None:
    assert books.read(KONTEN, **YEAR, from_id="8400") == books.read(KONTEN, **YEAR, from_id="84000000")
    refusal(books.get(KONTEN, **YEAR, from_id="840000"), 400, "from_id")


@pytest.mark.either_engine
def test_an_account_that_was_only_posted_to_is_listed_without_a_label(books: Books) -> None:
    books.post("2026-02-01 S 10010 4444 1,19 RE-1\n2025-02-01 S 10020 8400 1,19 RE-2")
    found = {row["kontonummer"]: row["kontobeschriftung"] for row in walk(books, KONTEN, 10, "kontonummer")}
    assert (found["100100000"], found["44440000"]) == ("", "")
    assert "100200000" not in found
    assert found["84000000"]
