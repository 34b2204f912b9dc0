"""Changes between the look at the books and the decision, and lines that the documents do not bear: nothing is written."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection
from typing import Any

import httpx
import pytest

from kontobahn.books import bookings
from kontobahn.books.adapter import OpenBooks
from kontobahn.ledger.buchungen import NeueBuchung
from kontobahn.ledger.provider import Effect, OpenAmounts
from tests.harness import Service
from tests.ledger_builder import Books, refusal
from tests.reconciliation_desk import OTHER, Office, item, paid, refused

PAID = (paid(119_00, "RE-2026-00123"), paid(238_00, "RE-2026-00124"))
Meanwhile = Callable[[Callable[[], httpx.Response], int], None]


@pytest.fixture
def meanwhile(monkeypatch: pytest.MonkeyPatch) -> Meanwhile:
    """Has something done over HTTP while a call waits for the books: when it asks for the n-th time what is open."""
    original = OpenBooks.offene_betraege

    def begin(change: Callable[[], httpx.Response], time: int = 1) -> None:
        asked = 0

        async def interrupted(self: OpenBooks, konten: Collection[str]) -> Effect[OpenAmounts]:
            nonlocal asked
            asked += 1
            if asked == time:
                answer = await asyncio.to_thread(change)
                assert answer.status_code < 300, answer.text
            return await original(self, konten)

        monkeypatch.setattr(OpenBooks, "offene_betraege", interrupted)

    return begin


# --- Lines against the document's direction


@pytest.mark.parametrize("how", ["alone", "beside others"])
@pytest.mark.parametrize(("konto", "beleg", "open_amount"), [("10010", "RE-2026-00123", 119), ("70001", "L-4711", -77)])
@pytest.mark.either_engine
def test_a_line_never_goes_against_what_is_open(
    service: Service, konto: str, beleg: str, open_amount: int, how: str
) -> None:
    """A payment out does not settle an invoice of ours, nor one that comes in a supplier's."""
    office = Office(service, paid(-open_amount * 100, "falsch herum", "X", OTHER), paid(500_00, "beides", "X", OTHER))
    against = item(beleg, -open_amount, konto)
    amount, lines = -open_amount, [against]
    if how == "beside others":
        amount, lines = 500, [against, {"kind": "ledger_account", "konto": "8400", "amount": 500 + open_amount}]
    with office.books.unchanged():
        answer = refused(office.by_hand(amount, *lines), 409)
    assert (answer["open_amount"], answer["amount"], answer["beleg"]) == (open_amount, -open_amount, beleg)
    assert office.read("matches") == []


def test_a_match_whose_document_turned_round_is_not_booked(service: Service) -> None:
    """Since it was matched a credit note made it ours to pay: a payment that came in settles none of it."""
    office = Office(service, *PAID, booked_by="kontobahn")
    office.match_two()
    office.books.post("2026-02-20 H 10010 8400 300,00 RE-2026-00123 Gutschrift")
    made = office.made()
    assert [row["beleg"] for row in made["lines"]] == ["RE-2026-00124"]
    [left_out] = made["left_out"]
    assert (left_out["beleg"], left_out["open_amount"], left_out["amount"]) == ("RE-2026-00123", -181, 119)


# --- The client


CALLS = {
    "by hand": lambda office: office.by_hand(119, item("RE-2026-00123", 119)),
    "confirmation": lambda office: office.confirm(119),
    "batch": lambda office: office.make(),
}


@pytest.mark.parametrize("call", CALLS)
def test_nothing_is_decided_for_a_client_that_was_changed_meanwhile(
    service: Service, meanwhile: Meanwhile, call: str
) -> None:
    office = Office(service, *PAID, booked_by="kontobahn")
    if call == "batch":
        office.match_two()
    else:
        office.store_run()
        office.listed(119)
    other = Books(service, office.owner)
    other.post("2026-02-10 S 10010 8400 119,00 RE-2026-00123 Rechnung")
    matches = office.read("matches")
    meanwhile(lambda: office.set_up(booked_by="kontobahn", connection_id=other.connection_id), 1)
    with office.books.unchanged(), other.unchanged():
        answer = CALLS[call](office)
    assert (answer.status_code, "changed meanwhile" in answer.json()["error"]) == (409, True)
    assert office.read("matches") == matches
    assert office.read("batches") == []


@pytest.mark.either_engine
def test_many_at_once_are_not_confirmed_for_another_client_either(service: Service, meanwhile: Meanwhile) -> None:
    office = Office(service, *PAID)
    office.store_run()
    ids = [office.listed(amount)["best_proposal"]["id"] for amount in (119, 238)]
    other = Books(service, office.owner)
    meanwhile(lambda: office.set_up(connection_id=other.connection_id), 1)
    answer = office.call("POST", "confirmations", json={"ids": ids})
    assert [(one["match_id"], "changed meanwhile" in one["error"]) for one in answer.json()["data"]] == [
        (None, True), (None, True),
    ]  # fmt: skip
    assert office.read("matches") == []


# --- A batch


def undone(office: Office, ids: list[str]) -> httpx.Response:
    return office.undo(ids[0])


def matched(office: Office, ids: list[str]) -> httpx.Response:
    return office.by_hand(60, {"kind": "on_account", "konto": "10010", "amount": 60})


def set_up_anew(office: Office, ids: list[str]) -> httpx.Response:
    return office.set_up(booked_by="kontobahn", konto="1210")


@pytest.mark.parametrize(("change", "then"), [(undone, 1), (matched, 3), (set_up_anew, 2)])
def test_a_batch_books_no_other_matches_than_there_are_when_it_is_written(
    service: Service, meanwhile: Meanwhile, change: Callable[[Office, list[str]], httpx.Response], then: int
) -> None:
    office = Office(service, *PAID, paid(60_00, "voraus"), booked_by="kontobahn")
    ids = office.match_two()
    # First for the plan, then for what the books show when it is written.
    meanwhile(lambda: change(office, ids), 2)
    before = office.open_items()
    answer = refusal(office.make(), 409)
    assert "meanwhile" in answer["error"]
    assert office.read("batches") == []
    assert office.open_items() == before
    assert office.made()["matches"] == then


@pytest.mark.parametrize("booked", ["less", "more", "another"])
def test_a_batch_is_booked_as_predicted_or_not_at_all(
    service: Service, monkeypatch: pytest.MonkeyPatch, booked: str
) -> None:
    office = Office(service, *PAID, booked_by="kontobahn")
    office.match_two()
    book = bookings.book

    def wrongly(tx: Any, client: Any, sent: list[NeueBuchung], *args: Any, **options: Any) -> Any:
        rows = {"less": sent[:-1], "more": [*sent, sent[-1]], "another": [sent[0], sent[0]]}[booked]
        return book(tx, client, rows, *args, **{**options, "another": True})

    monkeypatch.setattr(bookings, "book", wrongly)
    with office.books.unchanged():
        answer = refusal(office.make(), 409)
    assert "nothing was booked" in answer["error"]
    assert answer["konto"] == "100100000"
    assert office.read("batches") == []
    monkeypatch.undo()
    assert office.made()["matches"] == 2
