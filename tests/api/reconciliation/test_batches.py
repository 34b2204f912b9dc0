"""Batches: matches handed over once, booked or listed, and taken back by Generalumkehr when they are undone."""

from __future__ import annotations

import hashlib

import pytest

from kontobahn.reconciliation import batches
from tests.harness import Service
from tests.ledger_builder import refusal
from tests.reconciliation_desk import OTHER, Office, item, lines, paid, refused

PAID = (
    paid(119_00, "Rechnung RE-2026-00123"),
    paid(233_24, "RE-2026-00124"),
    paid(60_00, "RE-2026-00125", "Bert", OTHER),
)


def test_what_is_booked_is_what_was_predicted(service: Service) -> None:
    office = Office(service, *PAID, booked_by="kontobahn")
    office.match_all()
    open_before = office.open_items()
    before = service.balance(office.owner).available
    answer = office.make()
    made = answer.json()["data"]
    assert answer.json()["platform"] == {"neuesGuthaben": before - 1}
    assert (made["booked_by"], made["matches"], made["reversals"], made["total"]) == ("kontobahn", 3, 0, 412.24)
    assert [(row["konto"], row["beleg"], row["amount"], row["skonto"]) for row in made["lines"]] == [
        ("100100000", "RE-2026-00123", 119, 0), ("100100000", "RE-2026-00124", 233.24, 4.76),
        ("100200000", "RE-2026-00125", 50, 0), ("100200000", "", 10, 0),
    ]  # fmt: skip
    predicted = {(row["konto"], row["beleg"]): row["open_after"] for row in made["items"]}
    assert [row["open_before"] for row in made["items"]] == [119, 238, 50]
    untouched = {key: amount for key, amount in open_before.items() if key not in predicted}
    left = {key: amount for key, amount in predicted.items() if amount}
    assert office.open_items() == untouched | left | {("100200000", ""): -10}
    assert len(made["import_ids"]) == 1
    file = office.call("GET", f"batches/{made['id']}/extf")
    assert (file.status_code, hashlib.sha256(file.content).hexdigest()) == (200, made["sha256"])
    assert made["file_name"] in file.headers["content-disposition"]
    rows = file.content.decode("cp1252").splitlines()[2:]
    assert len(rows) == 4
    assert rows[1].startswith('233,24;"S";"";;;"";1200;10010;"3";0203;"RE-2026-00124";'), (
        "the key of the invoice's 19 %"
    )
    assert ";4,76;" in rows[1]
    assert office.read(f"batches/{made['id']}") == made
    assert [one["id"] for one in office.read("batches", account_id=office.account)] == [made["id"]]


def test_a_match_is_handed_over_once_and_taken_back_once(service: Service) -> None:
    office = Office(service, *PAID, booked_by="kontobahn")
    open_before = office.open_items()
    refusal(office.make(), 409)
    matches = office.match_all()
    assert office.undo(matches["60"]).status_code == 200
    assert office.made()["matches"] == 2, "what was undone before it was handed over was never booked"
    refusal(office.make(), 409)
    for name in ("119", "233.24"):
        assert office.undo(matches[name]).status_code == 200
    again = office.made()
    assert (again["matches"], again["reversals"], again["total"]) == (0, 2, -352.24)
    assert [(row["beleg"], row["amount"], row["reversal"]) for row in again["lines"]] == [
        ("RE-2026-00123", -119, True), ("RE-2026-00124", -233.24, True),
    ]  # fmt: skip
    assert office.open_items() == open_before
    file = office.call("GET", f"batches/{again['id']}/extf").content.decode("cp1252")
    assert all(row.split(";")[117] == '"1"' for row in file.splitlines()[2:]), "Generalumkehr"
    turnover = office.books.rows(
        "SELECT generalumkehr, soll FROM books_bookings WHERE belegfeld1 = ? AND konto = ?", "RE-2026-00124", "12000000"
    )
    assert sorted(turnover) == [(0, 1), (1, 0)]
    refusal(office.make(), 409)


def test_a_list_for_the_office_books_nothing(service: Service) -> None:
    office = Office(service, *PAID)
    matches = office.match_all()
    tables = office.books.everything()
    listed = office.made()
    assert (listed["booked_by"], listed["matches"], listed["file_name"], listed["import_ids"]) == (
        "adviser",
        3,
        None,
        [],
    )
    assert [(row["open_before"], row["open_after"]) for row in listed["items"]] == [(119, 0), (238, 0), (50, 0)]
    assert office.books.everything() == tables
    assert "book them twice" in refused(office.call("GET", f"batches/{listed['id']}/extf"), 409)["error"]
    office.set_up(booked_by="kontobahn")
    refusal(office.make(), 409)
    assert office.undo(matches["119"]).status_code == 200
    refusal(office.make(), 409)
    assert office.books.everything() == tables, "what was only listed is not taken back in the books"
    office.set_up()
    assert [row["reversal"] for row in office.made()["lines"]] == [True]


@pytest.mark.either_engine
def test_what_cannot_be_booked_is_named_and_left_out(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    office = Office(service, *PAID, booked_by="kontobahn")
    assert office.by_hand(60, {"kind": "transfer", "amount": 60}).status_code == 201
    assert "no account" in refusal(office.make(), 409)["error"]
    assert office.by_hand(119, item("RE-2026-00123", 119)).status_code == 201
    monkeypatch.setattr(batches, "MAX_MATCHES", 1)
    refusal(office.make(), 400, "to_date")
    monkeypatch.undo()
    refusal(office.make(from_date="2026-03-05", to_date="2026-03-01"), 400, "from_date")
    refusal(office.make(from_date="2025-12-31"), 400, "from_date")
    refusal(office.make(to_date="2031-01-01"), 409, "to_date")
    refusal(office.make(to_date="2026-02-28"), 409)
    made = office.made()
    assert [row["beleg"] for row in made["lines"]] == ["RE-2026-00123"]
    assert ["no account" in one["reason"] for one in made["left_out"]] == [True]
    office.set_up(booked_by="kontobahn", transfer_konto="1360")
    assert [row["konto"] for row in office.made()["lines"]] == ["13600000"]


def test_what_the_books_show_already_is_not_booked_again(service: Service) -> None:
    office = Office(service, *PAID, booked_by="kontobahn")
    assert office.by_hand(119, item("RE-2026-00123", 119)).status_code == 201
    body, headers = {"account_id": office.account}, {"Idempotency-Key": "b"}
    first, again = (office.call("POST", "batches", json=body, headers=headers) for _ in range(2))
    assert (first.status_code, again.json()) == (201, first.json())
    assert len(office.read("batches")) == 1
    assert office.books.rows("SELECT COUNT(*) FROM books_bookings WHERE konto = ?", "12000000") == [(1,)]
    assert office.call("GET", "batches", params={"account_id": "777"}).status_code == 404
    events = office.books.rows("SELECT event FROM webhook_events ORDER BY sequence")
    assert events[-1] == ("batch_created",)


def test_an_agency_lists_one_client_or_all(service: Service) -> None:
    one, other = (
        Office(service, paid(119_00, "RE-2026-00123"), owner=service.organization(name), booked_by="kontobahn")
        for name in ("Eine", "Andere")
    )
    for office in (one, other):
        office.store_run()
        assert office.confirm(119).status_code == 201
        office.made()
    agency = service.agency(one.owner, other.owner)
    for path in ("transactions", "matches", "batches"):

        def listed(path: str = path, **query: str) -> list[str]:
            answer = one.call("GET", path, agency.key, params=query)
            assert answer.status_code == 200, answer.text
            return [row["id"] for row in answer.json()["data"]]

        of_one, of_other = (listed(organization_id=office.owner.id) for office in (one, other))
        assert of_one
        assert of_other
        assert sorted(of_one + of_other) == sorted(listed())
        assert listed(organization_id=one.owner.id, account_id=other.account) == []
        refused(one.call("GET", path, agency.key, params={"organization_id": service.organization().id}), 403)
        refused(one.call("GET", path, params={"organization_id": other.owner.id}), 404)


def test_skonto_is_proposed_again_after_an_undo_that_the_books_do_not_show_yet(service: Service) -> None:
    office = Office(service, paid(117_00, "RE-2026-00123"), booked_by="kontobahn")
    office.store_run()
    made = office.by_hand(117, item("RE-2026-00123", 117, skonto=2)).json()["data"]
    office.made()
    assert office.undo(made["id"]).status_code == 200
    office.store_run()
    proposal = office.listed(117)["best_proposal"]
    assert lines(proposal) == [
        ("item", "100100000", "RE-2026-00123", 119), ("skonto", "100100000", "RE-2026-00123", -2),
    ]  # fmt: skip
    assert office.read("matches")[-1]["id"] == made["id"], "and a person decides"


def test_a_hand_over_shows_what_the_office_did_with_it(service: Service) -> None:
    office = Office(
        service, paid(119_00, "RE-2026-00123"), paid(50_00, "RE-2026-00124"), paid(29_00, "danke", "Erika", OTHER)
    )
    for amount, document in ((119, "RE-2026-00123"), (50, "RE-2026-00124")):
        assert office.by_hand(amount, item(document, amount)).status_code == 201
    assert office.by_hand(29, {"kind": "on_account", "konto": "10020", "amount": 29}).status_code == 201
    made = office.made()

    def outcomes() -> dict[str, tuple[str, float | None, float | None]]:
        found = office.read(f"batches/{made['id']}/bookings")
        return {row["beleg"]: (row["outcome"], row["booked_amount"], row["difference"]) for row in found}

    nothing = ("not_booked", None, None)
    assert outcomes() == {"RE-2026-00123": nothing, "RE-2026-00124": nothing, "": nothing}
    # Days later, one of them as it was matched and one with another amount.
    office.books.post("2026-03-11 H 10010 1200 119,00 RE-2026-00123 Zahlung")
    office.books.post("2026-03-11 H 10010 1200 48,00 RE-2026-00124 Zahlung")
    assert outcomes() == {
        "RE-2026-00123": ("as_matched", 119, 0), "RE-2026-00124": ("otherwise", 48, -2), "": nothing,
    }  # fmt: skip
