"""The standing after each decision: states, lessons, settings, and the figures of the report."""

from __future__ import annotations

from datetime import date
from typing import Any

import pytest

from kontobahn.ledger.opos import Belegbewegung
from kontobahn.reconciliation.core.model import Line
from kontobahn.reconciliation.decisions import _still_pending
from kontobahn.reconciliation.inputs import booked_of
from kontobahn.reconciliation.store import Taken
from tests.bank_builder import SECOND_IBAN, Bank, account_facts
from tests.harness import Service
from tests.reconciliation_desk import OTHER, Clerk, item, paid, refused


@pytest.mark.either_engine
def test_rejecting_the_last_proposal_of_a_transaction_opens_that_one_alone(service: Service) -> None:
    desk = Clerk(service, paid(119_00, "RE-2026-00123"), paid(238_00, "RE-2026-00124"))
    desk.store_run()
    id = desk.listed(119)["id"]
    waiting = desk.read(f"transactions/{id}")["proposals"]
    for number, proposal in enumerate(waiting, 1):
        assert desk.call("POST", f"proposals/{proposal['id']}/reject").status_code == 200
        left = "open" if number == len(waiting) else "proposed"
        assert (desk.listed(119)["status"], desk.listed(238)["status"]) == (left, "proposed")
        best = desk.listed(119)["best_proposal"]
        assert (best and best["id"]) == (waiting[number]["id"] if left == "proposed" else None)
    assert {one["status"] for one in desk.read(f"transactions/{id}")["proposals"]} == {"rejected"}
    found = desk.read("report", account_id=desk.account)
    assert (found["confirmed"], found["confirmed_first"], found["rejected"]) == (0, 0, len(waiting))


@pytest.mark.either_engine
def test_undoing_the_only_lesson_forgets_it_and_no_other(service: Service) -> None:
    desk = Clerk(
        service, paid(10_00, "RE-2026-00125", "Erika Zahlt", OTHER), paid(119_00, "RE-2026-00123"), automatic_classes=[]
    )
    books = {"connection_id": desk.books.connection_id}
    desk.store_run()
    assert desk.confirm(10).status_code == desk.confirm(119).status_code == 201
    known = {row["value"] for row in desk.read("knowledge", **books)}
    [first] = [one["id"] for one in desk.read("matches") if one["lines"][0]["beleg"] == "RE-2026-00125"]
    assert desk.undo(first).status_code == 200
    left = {row["value"] for row in desk.read("knowledge", **books)}
    assert known - left == {OTHER, "erika zahlt"}
    assert left
    for row in desk.read("knowledge", **books):
        assert desk.call("DELETE", f"knowledge/{row['id']}").status_code == 200
    [second] = [one["id"] for one in desk.read("matches", status="live")]
    assert desk.undo(second).status_code == 200, "what somebody deleted meanwhile stays deleted"
    assert desk.read("knowledge", **books) == []


@pytest.mark.either_engine
def test_settings_are_shown_as_they_were_made_and_the_change_is_on_record(service: Service) -> None:
    desk = Clerk(service)
    shown = desk.set_up(fee_konto=None, transfer_konto="1360", start_date="2026-02-01").json()["data"]
    assert (shown["konto"], shown["fee_konto"], shown["transfer_konto"]) == ("12000000", None, "13600000")
    assert shown["start_date"] == "2026-02-01"
    shown = desk.set_up().json()["data"]
    assert (shown["fee_konto"], shown["transfer_konto"], shown["start_date"]) == ("49700000", None, None)
    rows = desk.books.rows("SELECT details FROM audit_log WHERE action = 'reconciliation.settings' ORDER BY id")
    assert len(rows) == 3
    assert "12000000" in rows[0][0]


@pytest.mark.either_engine
def test_the_report_counts_what_stands_and_what_was_taken_back(service: Service) -> None:
    desk = Clerk(
        service, paid(119_00, "RE-2026-00123"), paid(238_00, "RE-2026-00124"), paid(77_00, "RE-2026-00126"),
        paid(50_00, "RE-2026-00125", "X", OTHER), automatic_classes=["A2"],
    )  # fmt: skip
    desk.books.post("2026-02-13 S 10010 8400 77,00 RE-2026-00126 Rechnung")
    assert desk.store_run()["matched"] == 3
    assert desk.confirm(50).status_code == 201
    by_amount = {one["lines"][0]["amount"]: one["id"] for one in desk.read("matches")}
    assert desk.undo(by_amount[119]).status_code == 200
    found = desk.read("report", account_id=desk.account)
    classes = {row.pop("evidence_class"): row for row in found["classes"]}
    assert classes == {
        "A2": {"matches": 3, "automatic": 3, "amount": 315, "undone": 1},
        "B1": {"matches": 1, "automatic": 0, "amount": 50, "undone": 0},
    }
    assert (found["automatic"], found["automatic_undone"], found["undone_per_thousand"]) == (3, 1, 333.3)
    assert (found["confirmed"], found["confirmed_first"], found["rejected"]) == (1, 1, 0)
    # With the cent that every account here begins with.
    assert found["transactions"] == {"open": 2, "proposed": 0, "matched": 3, "ignored": 0, "booked": 0}
    Bank(service).connected(desk.owner, accounts=[account_facts(iban=SECOND_IBAN)])
    listed = service.get("/v2/banking/accounts", desk.owner.key).json()["data"]
    [other] = [row["id"] for row in listed if row["id"] != desk.account]
    assert set(desk.read("report", account_id=other)["transactions"].values()) == {0}, "of one account"
    day = desk.listed(50)["made_on"]
    same = desk.read("report", account_id=desk.account, from_date=day, to_date=day)
    assert len(same["classes"]) == 2, "both days are in it"
    later = date.fromisoformat(day).replace(year=2027).isoformat()
    assert desk.read("report", account_id=desk.account, from_date=later, to_date=later)["classes"] == []


@pytest.mark.either_engine
def test_what_is_no_longer_ignored_waits_for_its_proposals_again(service: Service) -> None:
    desk = Clerk(service, paid(119_00, "RE-2026-00123"), automatic_classes=[])
    desk.store_run()
    row = desk.listed(119)
    for status, state in (("ignored", "ignored"), ("open", "proposed")):
        answer = desk.call("PUT", f"transactions/{row['id']}", json={"status": status})
        assert answer.json()["data"]["status"] == state


@pytest.mark.either_engine
def test_a_proposal_is_not_rejected_after_it_was_confirmed(service: Service) -> None:
    desk = Clerk(service, paid(119_00, "RE-2026-00123"), automatic_classes=[])
    desk.store_run()
    proposal = desk.listed(119)["best_proposal"]["id"]
    assert desk.confirm_id(proposal).status_code == 201
    assert refused(desk.call("POST", f"proposals/{proposal}/reject"), 409)["status"] == "confirmed"
    assert desk.listed(119)["status"] == "matched"


@pytest.mark.either_engine
def test_matches_are_listed_after_one_of_them(service: Service) -> None:
    desk = Clerk(service, paid(119_00, "RE-2026-00123"), paid(238_00, "RE-2026-00124"), automatic_classes=["A2"])
    assert desk.store_run()["matched"] == 2
    first, second = (one["id"] for one in desk.read("matches"))
    assert [one["id"] for one in desk.read("matches", from_id=first.upper())] == [second]


@pytest.mark.either_engine
def test_lines_by_hand_are_refused_by_the_field_that_is_wrong(service: Service) -> None:
    desk = Clerk(service, paid(117_00, "weniger"))
    wrong: tuple[tuple[dict[str, Any], str], ...] = (
        ({"kind": "on_account", "konto": "10010", "beleg": "RE-1", "amount": 117}, "beleg"),
        ({"kind": "on_account", "amount": 117}, "konto"),
        ({"kind": "difference", "amount": 117}, "konto"),
        (item("RE-2026-00123", 0), "amount"),
        (item("RE-2026-00123", 0.01, skonto=-0.01), "skonto"),
        ({"kind": "on_account", "konto": "10010", "amount": 117, "skonto": 1}, "skonto"),
    )
    with desk.books.unchanged():
        for line, field in wrong:
            refused(desk.by_hand(117, item("RE-2026-00123", 1), line), 400, f"lines[1].{field}")
    assert desk.by_hand(117, item("RE-2026-00123", 117, skonto=0.01)).status_code == 201, "a cent is a discount, too"


@pytest.mark.parametrize("sign", [1, -1])
def test_a_payment_of_the_books_has_the_sign_of_the_bank_and_its_discount_apart(sign: int) -> None:
    move = Belegbewegung("100100000", "RE-1", date(2026, 5, 4), -sign * 11_900, 238, True, date(2026, 5, 1), "", True)
    assert booked_of(move)[3:5] == (sign * 11_662, sign * 238)
    assert booked_of(move._replace(skonto=0))[3:5] == (sign * 11_900, 0)


@pytest.mark.parametrize(("pending", "left"), [(100, 100), (0, 0), (40, 40), (250, 100), (-40, 0)])
def test_of_a_line_as_much_is_taken_back_as_is_not_booked_yet(pending: int, left: int) -> None:
    line = Line("item", "100100000", "RE-1", 100)
    assert _still_pending((line,), {("100100000", "RE-1"): Taken(pending, 0)})[0].amount_minor == left
    back = line._replace(amount_minor=-100)
    assert _still_pending((back,), {("100100000", "RE-1"): Taken(-pending, 0)})[0].amount_minor == -left
    assert _still_pending((line,), {})[0].amount_minor == 0
