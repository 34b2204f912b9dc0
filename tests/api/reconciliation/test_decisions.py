"""Proposals confirmed and rejected, matches made and undone: what is decided, and what is refused with the figures."""

from __future__ import annotations

import pytest

from tests.harness import Service
from tests.reconciliation_desk import OTHER, Clerk, lines, paid, posten, refused


def test_a_run_proposes_and_a_confirmation_matches(service: Service) -> None:
    desk = Clerk(service, paid(119_00, "Rechnung RE-2026-00123 danke"), paid(100_00, "RE 2026 00124"))
    before = service.balance(desk.owner).available
    run = desk.store_run()
    assert (run["zugeordnet"], run["vorgeschlagen"], run["ueberholt"]) == (0, 2, 0), "nothing acts until it may"
    assert service.balance(desk.owner).available == before - 1
    listed = desk.listed(119)
    assert (listed["status"], listed["vorschlag"]["klasse"], listed["match_id"]) == ("proposed", "A2", None)
    assert desk.store_run()["vorgeschlagen"] == 2
    assert desk.listed(119)["vorschlag"]["id"] == listed["vorschlag"]["id"], "made again, it stays the same proposal"
    made = desk.confirm(119)
    match = made.json()["data"]
    assert made.status_code == 201
    assert (lines(match), match["klasse"]) == ([("posten", "100100000", "RE-2026-00123", 119)], "A2")
    assert match["von"].startswith("key:")
    assert match["ruecknahme"] is None
    assert (desk.listed(119)["status"], desk.listed(119)["match_id"]) == ("matched", match["id"])
    assert refused(desk.call("POST", f"proposals/{listed['vorschlag']['id']}/confirm"), 409)["status"] == "confirmed"
    assert desk.read(f"matches/{match['id']}") == match
    assert desk.read("matches", account_id=desk.account) == [match]
    assert desk.events() == ["match_proposed", "match_confirmed"], "the second run proposed nothing new"
    # The document is paid, although the books do not show it yet; the part payment leaves a rest.
    once = [desk.confirm_id(desk.listed(100)["vorschlag"]["id"], headers={"Idempotency-Key": "a"})]
    path = f"proposals/{once[0].json()['data']['proposal_id']}/confirm"
    once.append(desk.call("POST", path, headers={"Idempotency-Key": "a"}))
    assert [answer.status_code for answer in once] == [201, 201]
    assert once[0].json() == once[1].json()
    trial = desk.run()
    assert trial["transaktionen"] == 1
    answer = refused(desk.by_hand(0.01, posten("RE-2026-00123", 0.01)), 409)
    assert (answer["offen"], answer["betrag"], answer["beleg"]) == (0, 0.01, "RE-2026-00123")
    assert desk.by_hand(0.01, posten("RE-2026-00124", 0.01)).status_code == 201
    found = desk.read("report", account_id=desk.account)
    assert {row["klasse"]: row["zuordnungen"] for row in found["klassen"]} == {"A2": 1, "B1": 1, "hand": 1}
    assert (found["bestaetigt"], found["davon_erster_platz"], found["je_tausend"]) == (2, 2, None)
    assert found["transaktionen"] == {"open": 0, "proposed": 0, "matched": 3, "ignored": 0, "booked": 0}


@pytest.mark.either_engine
def test_a_match_by_hand_adds_up_or_is_refused_with_the_figures(service: Service) -> None:
    desk = Clerk(service, paid(117_00, "weniger"), paid(-9_90, "Entgelt", "Bank", OTHER))
    with desk.books.unchanged():
        answer = refused(desk.by_hand(117, posten("RE-2026-00123", 119)), 422)
        assert (answer["betrag"], answer["summe"], answer["differenz"]) == (117, 119, -2)
        refused(desk.by_hand(117, posten("RE-2026-00123", 117), posten("RE-2026-00123", 1)), 400, "zeilen")
        refused(desk.by_hand(117, posten("RE-2026-00123", 117, skonto=-2)), 400, "zeilen[0].skonto")
        refused(desk.by_hand(117, posten("", 117)), 400, "zeilen[0].beleg")
        refused(desk.by_hand(117, posten("RE-2026-00123", 117, konto="1200")), 400, "zeilen[0].kontonummer")
        refused(desk.by_hand(117, {"art": "sachkonto", "betrag": 117}), 400, "zeilen[0].kontonummer")
        refused(desk.by_hand(117, {"art": "sachkonto", "betrag": 117, "kontonummer": "10010"}), 400)
        skonto = {"art": "skonto", "kontonummer": "10010", "beleg": "RE-1", "betrag": -2}
        refused(desk.by_hand(117, posten("RE-2026-00123", 119), skonto), 400, "zeilen")
        unknown = refused(desk.by_hand(117, posten("RE-2026-99999", 117)), 409)
        assert (unknown["offen"], unknown["beleg"]) == (0, "RE-2026-99999")
        answer = refused(desk.by_hand(117, posten("RE-2026-00123", 117, skonto=2.01)), 409)
        assert (answer["offen"], answer["betrag"]) == (119, 119.01)
    made = desk.by_hand(117, posten("RE-2026-00123", 117, skonto=2))
    assert made.status_code == 201, made.text
    assert lines(made.json()["data"]) == [
        ("posten", "100100000", "RE-2026-00123", 119), ("skonto", "100100000", "RE-2026-00123", -2),
    ]  # fmt: skip
    assert refused(desk.by_hand(117, posten("RE-2026-00124", 117)), 409)["match_id"] == made.json()["data"]["id"]
    fee = desk.by_hand(-9.9, {"art": "gebuehr", "betrag": -9.9})
    assert lines(fee.json()["data"]) == [("gebuehr", "49700000", "", -9.9)]
    assert [row["art"] for row in desk.read("knowledge", connectionId=desk.books.connection_id)] == ["iban", "name"]


def test_what_changed_meanwhile_is_refused_and_the_rest_goes_on(service: Service) -> None:
    desk = Clerk(
        service, paid(119_00, "RE-2026-00123"), paid(238_00, "RE-2026-00124"), paid(50_00, "RE-2026-00125", "X", OTHER)
    )
    desk.store_run()
    ids = [desk.listed(amount)["vorschlag"]["id"] for amount in (119, 238, 50)]
    desk.books.post("2026-02-20 H 10010 1200 19,00 RE-2026-00123 bar bezahlt")
    [(removed,)] = desk.books.rows("SELECT id FROM banking_transactions WHERE amount_minor = ?", 50_00)
    service.db.write_now(lambda tx: tx.run("DELETE FROM banking_transactions WHERE id = ?", removed))
    answer = refused(desk.confirm_id(ids[0]), 409)
    assert (answer["offen"], answer["betrag"]) == (100, 119)
    assert refused(desk.confirm_id(ids[2]), 409)["transaction_id"] == str(removed)
    assert desk.read("matches") == []
    many = desk.call("POST", "confirmations", json={"ids": [*ids, ids[1]]})
    assert many.status_code == 200
    first, second, third = many.json()["data"]
    assert first["match_id"] is None
    assert "only 100.00 is open" in first["fehler"]
    assert second["match_id"] == desk.read("matches")[0]["id"]
    assert second["fehler"] is None
    assert third["match_id"] is None
    assert "removed" in third["fehler"]
    gone = desk.read(f"transactions/{removed}")
    assert (gone["entfernt"], gone["betrag"], len(gone["vorschlaege"])) == (True, None, 1)
    # The next run sees the documents as they are: the payment is more than is open.
    desk.store_run()
    assert {line[0] for line in lines(desk.listed(119)["vorschlag"])} == {"posten", "akonto"}
    refused(desk.call("POST", "confirmations", json={"ids": []}), 400, "ids")
    refused(desk.call("POST", "confirmations", json={"ids": [ids[0]] * 201}), 400, "ids")


def test_undoing_is_a_row_that_opens_everything_again(service: Service) -> None:
    desk = Clerk(service, paid(119_00, "RE-2026-00123"), automatisch=["A2"])
    assert desk.store_run()["zugeordnet"] == 1
    [match] = desk.read("matches")
    assert match["von"] == "engine"
    # The office books it: what is open stays the same.
    desk.books.post("2026-03-02 H 10010 1200 119,00 RE-2026-00123 Zahlung")
    undone = desk.undo(match["id"], "falscher Kunde").json()["data"]
    assert undone["ruecknahme"]["grund"] == "falscher Kunde"
    assert undone["zeilen"] == match["zeilen"], "the match itself stays as it was"
    assert refused(desk.undo(match["id"]), 409)["undo_id"] == undone["ruecknahme"]["id"]
    assert desk.read("matches", status="live") == []
    found = desk.read("report", account_id=desk.account)
    assert (found["automatisch"], found["automatisch_zurueckgenommen"], found["je_tausend"]) == (1, 1, 1000)
    # The books still show the payment: nothing to propose, but somebody may say what else it was for, or the same again.
    run = desk.store_run()
    assert (run["zugeordnet"], run["vorgeschlagen"], run["gebucht"]) == (0, 0, 1)
    assert desk.by_hand(119, posten("RE-2026-00123", 119)).status_code == 201
    desk.books.set_status("revoked")
    [again] = desk.read("matches", status="live")
    assert desk.undo(again["id"]).status_code == 200, "books that cannot be asked do not stand in the way"
    assert [event for event in desk.events() if event == "match_undone"] == ["match_undone"] * 2
    assert desk.read(f"transactions/{again['transaction_id']}")["zuordnungen"][0]["id"] == match["id"]


@pytest.mark.either_engine
def test_a_rejected_proposal_is_not_made_again(service: Service) -> None:
    desk = Clerk(service, paid(119_00, "RE-2026-00123"))
    desk.store_run()
    rejected = desk.listed(119)["vorschlag"]["id"]
    for _ in range(2):
        assert desk.call("POST", f"proposals/{rejected}/reject").json()["data"]["status"] == "rejected"
    refused(desk.confirm_id(rejected), 409)
    desk.set_up(automatisch=["A1", "A2", "A3", "A4"])
    assert desk.store_run()["zugeordnet"] == 0, "somebody has judged it"
    assert desk.listed(119)["vorschlag"] is None
    id = desk.listed(119)["id"]
    assert desk.call("PUT", f"transactions/{id}", json={"status": "ignored"}).json()["data"]["status"] == "ignored"
    assert desk.store_run()["transaktionen"] == 1
    desk.call("PUT", f"transactions/{id}", json={"status": "open"})
    assert desk.by_hand(119, posten("RE-2026-00123", 119)).status_code == 201
    refused(desk.call("PUT", f"transactions/{id}", json={"status": "ignored"}), 409)
    [confirmed] = desk.read("matches")
    assert confirmed["klasse"] is None
