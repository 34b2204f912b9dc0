"""GET /v2/ledger-duo/kassenbuch, POST …/{nummer}/storno, and the clients of a connection under /v2/ledger-duo."""

from __future__ import annotations

import base64
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from kontobahn.books import cash_book, verification
from tests.harness import Service
from tests.ledger_builder import KASSENBUCH, Books, entry, line, refusal

LISTING = "/v2/ledger-duo/kassenbuch"
BALANCES = ("anfangsbestand", "endbestand")
IMAGE = {"content": base64.b64encode(b"%PDF-1.7").decode(), "dateiname": "Beleg.pdf"}


@pytest.fixture
def books(service: Service) -> Books:
    return Books(service, service.organization(), years=("2025-01-01", "2026-01-01"))


def agree(books: Books) -> None:
    assert books.service.db.read_now(verification.find_differences, books.client.mandant) == []


def listed(books: Books, **query: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = books.read(LISTING, kassenname="Hauptkasse", **query)
    return found


def send(books: Books, betrag: float, day: str, **fields: Any) -> None:
    body = entry(line(betrag, "8400" if betrag > 0 else "4930"), transaktionsdatum=f"{day}T10:00:00+01:00", **fields)
    answer = books.send(KASSENBUCH, body)
    assert answer.status_code == 201, answer.text


def reverse(books: Books, nummer: int, **options: Any) -> Any:
    body = {"kassenname": options.pop("kassenname", "Hauptkasse"), "grund": "falsch erfasst"}
    return books.send(f"{LISTING}/{nummer}/storno", body, **options)


def test_an_entry_is_listed_with_all_it_has_and_costs_one(books: Books) -> None:
    sent = entry(
        line(11.9, belegNummer="K-1", kostenstelle1="VERTRIEB", steuersatz={"buSchluessel": "40"}), belegbilder=[IMAGE]
    )
    images = books.send(KASSENBUCH, sent).json()["belegbilder"]
    answer = books.get(LISTING, kassenname="Hauptkasse")
    assert answer.headers["x-credits-charged"] == "1"
    assert answer.json() == {
        "data": [
            {
                "id": "2026-03-02.1", "art": "EINTRAG", "nummer": 1, "buchungId": "1",
                "datum": "2026-03-02", "betrag": 11.9, "saldo": 11.9, "belegtext": "Barverkauf", "gegenkonto": "8400",
                "belegnummer": "K-1", "buSchluessel": "40", "kostenstellen": [{"name": "VERTRIEB"}], "belegbilder": images,
                "gebuchtAm": answer.json()["data"][0]["gebuchtAm"], "stornoVon": None, "storniertDurch": None,
            }
        ],
        "anfangsbestand": 0, "endbestand": 11.9, "platform": {"neuesGuthaben": 98},
    }  # fmt: skip


def test_pages_and_days_narrow_the_list(books: Books) -> None:
    for number, day in enumerate(("2026-01-05", "2026-02-01", "2026-01-10", "2026-03-01"), 1):
        send(books, number, day)
    assert [item["nummer"] for item in listed(books)] == [1, 3, 2, 4]
    assert [item["nummer"] for item in listed(books, limit="2")] == [1, 3]
    assert [item["nummer"] for item in listed(books, from_id="3", limit="1")] == [2]
    assert [item["nummer"] for item in listed(books, from_id=listed(books)[1]["id"])] == [2, 4]
    assert [item["nummer"] for item in listed(books, from_date="2026-01-10", to_date="2026-02-01")] == [3, 2]
    # The balance is that of the cash book, whatever part of it is shown.
    assert [item["saldo"] for item in listed(books, from_date="2026-02-01")] == [6, 10]
    refusal(books.get(LISTING, kassenname="Hauptkasse", from_date="2026-02-01", to_date="2026-01-01"), 400, "from_date")
    refusal(books.get(LISTING, kassenname="Portokasse"), 400, "kassenname")
    refusal(books.get(LISTING), 400, "kassenname")


def test_the_balance_counts_what_is_on_the_account_besides(books: Books) -> None:
    send(books, 100, "2025-06-01")
    books.post("2026-01-01 S 1000 9000 500,00 EB\n2026-02-01 S 4930 1000 30,00 B")
    send(books, -20, "2026-01-15")
    send(books, 5, "2026-02-02")
    send(books, 7, "2025-07-01")
    send(books, 1, "2026-02-03")
    rows = listed(books)
    assert [(item["art"], item["nummer"], item["betrag"], item["saldo"]) for item in rows] == [
        ("EINTRAG", 1, 100, 100),
        ("EINTRAG", 4, 7, 107),
        ("SALDOVORTRAG", None, 393, 500),
        ("EINTRAG", 2, -20, 480),
        ("BUCHUNG", None, -30, 450),
        ("EINTRAG", 3, 5, 455),
        ("EINTRAG", 5, 1, 456),
    ]
    assert [item["saldo"] for item in listed(books, from_id="2")] == [450, 455, 456]
    assert listed(books, from_id=rows[2]["id"]) == rows[3:]
    by_number = listed(books, sort="nummer")
    assert [(item["nummer"], item["saldo"]) for item in by_number] == [(1, 100), (2, 480), (3, 455), (4, 107), (5, 456)]
    assert listed(books, sort="nummer", from_id="3") == by_number[3:]
    assert [books.get(LISTING, kassenname="Hauptkasse", sort="nummer").json()[name] for name in BALANCES] == [
        None,
        None,
    ]


def test_what_cannot_be_a_place_in_the_list_is_refused(books: Books) -> None:
    send(books, 1, "2026-01-05")
    for place in ("2", "2026-01-05", "2026-01-05.", "x"):
        refusal(books.get(LISTING, kassenname="Hauptkasse", from_id=place), 400, "from_id")
    refusal(books.get(LISTING, kassenname="Hauptkasse", from_id="2026-01-05.1", sort="nummer"), 400, "from_id")


def test_a_reversal_is_the_opposite_of_today_and_both_say_so(books: Books) -> None:
    send(books, 119, "2026-02-01", belegbilder=[IMAGE])
    answer = reverse(books, 1)
    assert answer.status_code == 201, answer.text
    assert answer.headers["x-credits-charged"] == "1"
    made = answer.json()["data"]
    assert (made["nummer"], made["datum"], made["betrag"], made["saldo"]) == (2, "2026-03-02", -119, 0)
    assert (made["stornoVon"], made["belegtext"]) == (1, "Storno 1: falsch erfasst")
    assert [(item["stornoVon"], item["storniertDurch"]) for item in listed(books)] == [(None, 2), (1, None)]
    tasks = books.rows("SELECT meldungen FROM books_tasks ORDER BY created_at, id")
    assert "durch 2 storniert" in tasks[-1][0]
    with books.unchanged():
        assert "by entry 2" in refusal(reverse(books, 1), 409)["error"]
        refusal(reverse(books, 7), 404)
        refusal(reverse(books, 1, kassenname="Portokasse"), 400, "kassenname")
    agree(books)


@pytest.mark.either_engine
def test_a_reversal_that_would_make_it_negative_is_refused(books: Books) -> None:
    send(books, 100, "2026-02-01")
    send(books, -60, "2026-02-02")
    with books.unchanged():
        assert refusal(reverse(books, 1), 409)["kassensaldo"] == 40


def test_a_repeated_call_reverses_once(books: Books) -> None:
    send(books, 10, "2026-02-01")
    headers = {"Idempotency-Key": "storno-1"}
    first, again = reverse(books, 1, headers=headers), reverse(books, 1, headers=headers)
    assert (first.status_code, again.status_code, again.content) == (201, 201, first.content)
    assert len(listed(books)) == 2


def test_of_several_reversals_at_once_one_succeeds(books: Books) -> None:
    send(books, 10, "2026-02-01")
    with ThreadPoolExecutor(4) as pool:
        statuses = sorted(answer.status_code for answer in pool.map(lambda _: reverse(books, 1), range(4)))
    assert statuses == [201, 409, 409, 409]
    agree(books)


def test_every_call_reaches_the_client_that_is_named(books: Books) -> None:
    other = books.another_client("29098-7", years=("2026-01-01",))
    books.service.db.write_now(cash_book.create_cash_book, other, "Zweitkasse", "10000000")
    of_other = {"clientId": "29098-7"}
    assert books.read("/v2/ledger-duo/kassenbuecher", **of_other) == [{"bezeichnung": "Zweitkasse"}]
    sent = entry(line(5), kassenname="Zweitkasse", belegbilder=[IMAGE])
    refusal(books.send(KASSENBUCH, sent), 400, "kassenname")
    image = books.send(KASSENBUCH, sent, query=of_other).json()["belegbilder"][0]
    path = f"/v2/ledger-duo/belegbilder/{image['id']}"
    assert (books.get(path).status_code, books.get(path, **of_other).status_code) == (404, 200)
    assert len(books.read(LISTING, kassenname="Zweitkasse", **of_other)) == 1
    assert reverse(books, 1, kassenname="Zweitkasse", query=of_other).status_code == 201
    for name in ("rechnungsordner", "belegtypen"):
        assert books.get(f"/v2/ledger-duo/{name}", **of_other).status_code == 200
        assert books.get(f"/v2/ledger-duo/{name}", clientId="29098-9").json()["field"] == "clientId"
