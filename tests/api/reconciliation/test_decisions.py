"""Proposals confirmed and rejected, matches made and undone: what is decided, and what is refused with the figures."""

from __future__ import annotations

import pytest

from tests.harness import Service
from tests.reconciliation_desk import OTHER, Clerk, item, lines, paid, refused


def test_a_run_proposes_and_a_confirmation_matches(service: Service) -> None:
    desk = Clerk(service, paid(119_00, "Rechnung RE-2026-00123 danke"), paid(100_00, "RE 2026 00124"))
    before = service.balance(desk.owner).available
    run = desk.store_run()
    assert (run["matched"], run["proposed"], run["outdated"]) == (0, 2, 0), "nothing acts until it may"
    assert service.balance(desk.owner).available == before - 1
    listed = desk.listed(119)
    assert (listed["status"], listed["best_proposal"]["evidence_class"], listed["match_id"]) == ("proposed", "A2", None)
    assert desk.store_run()["proposed"] == 2
    assert desk.listed(119)["best_proposal"]["id"] == listed["best_proposal"]["id"], (
        "made again, it stays the same proposal"
    )
    made = desk.confirm(119)
    match = made.json()["data"]
    assert made.status_code == 201
    assert (lines(match), match["evidence_class"]) == ([("item", "100100000", "RE-2026-00123", 119)], "A2")
    assert match["created_by"].startswith("key:")
    assert match["undo"] is None
    assert (desk.listed(119)["status"], desk.listed(119)["match_id"]) == ("matched", match["id"])
    assert (
        refused(desk.call("POST", f"proposals/{listed['best_proposal']['id']}/confirm"), 409)["status"] == "confirmed"
    )
    assert desk.read(f"matches/{match['id']}") == match
    assert desk.read("matches", account_id=desk.account) == [match]
    assert desk.events() == ["match_proposed", "match_confirmed"], "the second run proposed nothing new"
    # The document is paid, although the books do not show it yet; the part payment leaves a rest.
    once = [desk.confirm_id(desk.listed(100)["best_proposal"]["id"], headers={"Idempotency-Key": "a"})]
    path = f"proposals/{once[0].json()['data']['proposal_id']}/confirm"
    once.append(desk.call("POST", path, headers={"Idempotency-Key": "a"}))
    assert [answer.status_code for answer in once] == [201, 201]
    assert once[0].json() == once[1].json()
    trial = desk.run()
    assert trial["transactions"] == 1
    answer = refused(desk.by_hand(0.01, item("RE-2026-00123", 0.01)), 409)
    assert (answer["open_amount"], answer["amount"], answer["beleg"]) == (0, 0.01, "RE-2026-00123")
    assert desk.by_hand(0.01, item("RE-2026-00124", 0.01)).status_code == 201
    found = desk.read("report", account_id=desk.account)
    assert {row["evidence_class"]: row["matches"] for row in found["classes"]} == {"A2": 1, "B1": 1, "manual": 1}
    assert (found["confirmed"], found["confirmed_first"], found["undone_per_thousand"]) == (2, 2, None)
    assert found["transactions"] == {"open": 0, "proposed": 0, "matched": 3, "ignored": 0, "booked": 0}


@pytest.mark.either_engine
def test_a_match_by_hand_adds_up_or_is_refused_with_the_figures(service: Service) -> None:
    desk = Clerk(service, paid(117_00, "weniger"), paid(-9_90, "Entgelt", "Bank", OTHER))
    with desk.books.unchanged():
        answer = refused(desk.by_hand(117, item("RE-2026-00123", 119)), 422)
        assert (answer["amount"], answer["total"], answer["difference"]) == (117, 119, -2)
        refused(desk.by_hand(117, item("RE-2026-00123", 117), item("RE-2026-00123", 1)), 400, "lines")
        refused(desk.by_hand(117, item("RE-2026-00123", 117, skonto=-2)), 400, "lines[0].skonto")
        refused(desk.by_hand(117, item("", 117)), 400, "lines[0].beleg")
        refused(desk.by_hand(117, item("RE-2026-00123", 117, konto="1200")), 400, "lines[0].konto")
        refused(desk.by_hand(117, {"kind": "ledger_account", "amount": 117}), 400, "lines[0].konto")
        refused(desk.by_hand(117, {"kind": "ledger_account", "amount": 117, "konto": "10010"}), 400)
        skonto = {"kind": "skonto", "konto": "10010", "beleg": "RE-1", "amount": -2}
        refused(desk.by_hand(117, item("RE-2026-00123", 119), skonto), 400, "lines")
        unknown = refused(desk.by_hand(117, item("RE-2026-99999", 117)), 409)
        assert (unknown["open_amount"], unknown["beleg"]) == (0, "RE-2026-99999")
        answer = refused(desk.by_hand(117, item("RE-2026-00123", 117, skonto=2.01)), 409)
        assert (answer["open_amount"], answer["amount"]) == (119, 119.01)
    made = desk.by_hand(117, item("RE-2026-00123", 117, skonto=2))
    assert made.status_code == 201, made.text
    assert lines(made.json()["data"]) == [
        ("item", "100100000", "RE-2026-00123", 119), ("skonto", "100100000", "RE-2026-00123", -2),
    ]  # fmt: skip
    assert refused(desk.by_hand(117, item("RE-2026-00124", 117)), 409)["match_id"] == made.json()["data"]["id"]
    fee = desk.by_hand(-9.9, {"kind": "fee", "amount": -9.9})
    assert lines(fee.json()["data"]) == [("fee", "49700000", "", -9.9)]
    assert [row["kind"] for row in desk.read("knowledge", connection_id=desk.books.connection_id)] == ["iban", "name"]


def test_what_changed_meanwhile_is_refused_and_the_rest_goes_on(service: Service) -> None:
    desk = Clerk(
        service, paid(119_00, "RE-2026-00123"), paid(238_00, "RE-2026-00124"), paid(50_00, "RE-2026-00125", "X", OTHER)
    )
    desk.store_run()
    ids = [desk.listed(amount)["best_proposal"]["id"] for amount in (119, 238, 50)]
    desk.books.post("2026-02-20 H 10010 1200 19,00 RE-2026-00123 bar bezahlt")
    [(removed,)] = desk.books.rows("SELECT id FROM banking_transactions WHERE amount_minor = ?", 50_00)
    service.db.write_now(lambda tx: tx.run("DELETE FROM banking_transactions WHERE id = ?", removed))
    answer = refused(desk.confirm_id(ids[0]), 409)
    assert (answer["open_amount"], answer["amount"]) == (100, 119)
    assert refused(desk.confirm_id(ids[2]), 409)["transaction_id"] == str(removed)
    assert desk.read("matches") == []
    many = desk.call("POST", "confirmations", json={"ids": [*ids, ids[1]]})
    assert many.status_code == 200
    first, second, third = many.json()["data"]
    assert first["match_id"] is None
    assert "only 100.00 is open" in first["error"]
    assert second["match_id"] == desk.read("matches")[0]["id"]
    assert second["error"] is None
    assert third["match_id"] is None
    assert "removed" in third["error"]
    gone = desk.read(f"transactions/{removed}")
    assert (gone["removed"], gone["amount"], len(gone["proposals"])) == (True, None, 1)
    # The next run sees the documents as they are: the payment is more than is open.
    desk.store_run()
    assert {line[0] for line in lines(desk.listed(119)["best_proposal"])} == {"item", "on_account"}
    refused(desk.call("POST", "confirmations", json={"ids": []}), 400, "ids")
    refused(desk.call("POST", "confirmations", json={"ids": [ids[0]] * 201}), 400, "ids")


def test_undoing_is_a_row_that_opens_everything_again(service: Service) -> None:
    desk = Clerk(service, paid(119_00, "RE-2026-00123"), automatic_classes=["A2"])
    assert desk.store_run()["matched"] == 1
    [match] = desk.read("matches")
    assert match["created_by"] == "engine"
    # The office books it: what is open stays the same.
    desk.books.post("2026-03-02 H 10010 1200 119,00 RE-2026-00123 Zahlung")
    undone = desk.undo(match["id"], "falscher Kunde").json()["data"]
    assert undone["undo"]["reason"] == "falscher Kunde"
    assert undone["lines"] == match["lines"], "the match itself stays as it was"
    assert refused(desk.undo(match["id"]), 409)["undo_id"] == undone["undo"]["id"]
    assert desk.read("matches", status="live") == []
    found = desk.read("report", account_id=desk.account)
    assert (found["automatic"], found["automatic_undone"], found["undone_per_thousand"]) == (1, 1, 1000)
    # The books still show the payment: nothing to propose, but somebody may say what else it was for, or the same again.
    run = desk.store_run()
    assert (run["matched"], run["proposed"], run["booked"]) == (0, 0, 1)
    assert desk.by_hand(119, item("RE-2026-00123", 119)).status_code == 201
    desk.books.set_status("revoked")
    [again] = desk.read("matches", status="live")
    assert desk.undo(again["id"]).status_code == 200, "books that cannot be asked do not stand in the way"
    assert [event for event in desk.events() if event == "match_undone"] == ["match_undone"] * 2
    assert desk.read(f"transactions/{again['transaction_id']}")["matches"][0]["id"] == match["id"]


@pytest.mark.either_engine
def test_a_rejected_proposal_is_not_made_again(service: Service) -> None:
    desk = Clerk(service, paid(119_00, "RE-2026-00123"))
    desk.store_run()
    was = desk.listed(119)["best_proposal"]
    rejected = was["id"]
    for _ in range(2):
        assert desk.call("POST", f"proposals/{rejected}/reject").json()["data"]["status"] == "rejected"
    refused(desk.confirm_id(rejected), 409)
    [looked_at] = [one for one in desk.run()["data"] if one["amount"] == 119]
    assert lines(was) not in [lines(it) for it in looked_at["proposals"]], "nor is it by a trial"
    desk.set_up(automatic_classes=["A1", "A2", "A3", "A4"])
    assert desk.store_run()["matched"] == 0, "somebody has judged it"
    assert desk.listed(119)["best_proposal"] is None
    id = desk.listed(119)["id"]
    assert desk.call("PUT", f"transactions/{id}", json={"status": "ignored"}).json()["data"]["status"] == "ignored"
    assert desk.store_run()["transactions"] == 1
    desk.call("PUT", f"transactions/{id}", json={"status": "open"})
    assert desk.by_hand(119, item("RE-2026-00123", 119)).status_code == 201
    refused(desk.call("PUT", f"transactions/{id}", json={"status": "ignored"}), 409)
    [confirmed] = desk.read("matches")
    assert confirmed["evidence_class"] is None
