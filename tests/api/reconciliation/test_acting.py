"""Acting alone where it is switched on; what is learned and can be forgotten; rules; returns; books that catch up."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from kontobahn.access import keys
from kontobahn.access.principal import Principal
from kontobahn.db import Tx
from kontobahn.errors import Conflict
from kontobahn.reconciliation import matches
from kontobahn.reconciliation.store import Client
from tests.harness import ACTOR, Service
from tests.interleaving import on_postgres, overlap
from tests.reconciliation_desk import OTHER, Clerk, item, lines, paid, refused


@pytest.mark.either_engine
def test_only_what_is_switched_on_acts_alone(service: Service) -> None:
    desk = Clerk(service, paid(119_00, "RE-2026-00123"), paid(100_00, "RE-2026-00124"), automatic_classes=["A1"])
    assert desk.store_run()["matched"] == 0, "A2 is not switched on"
    assert desk.set_up(automatic_classes=["A2"]).json()["data"]["automatic_classes"] == ["A2"]
    assert desk.read("accounts")[0]["booked_by"] == "adviser"
    run = desk.store_run()
    assert (run["matched"], run["proposed"]) == (1, 1), "a part payment waits for somebody"
    [match] = desk.read("matches")
    assert (match["created_by"], match["evidence_class"], match["amount"]) == ("engine", "A2", 119)
    assert desk.read("knowledge", connection_id=desk.books.connection_id) == [], "it teaches itself nothing"
    desk.undo(match["id"])
    assert desk.store_run()["matched"] == 0, "undone, it is never matched again without asking"
    # A return takes back what was matched, and its fee goes to the account of the settings.
    desk.set_up(automatic_classes=["A2", "A5"], start_date="2026-03-03")
    assert desk.confirm(119).status_code == 201


def test_a_return_opens_the_document_again(service: Service) -> None:
    debit = paid(119_00, "RE-2026-00123", reference="REF-1")
    desk = Clerk(service, debit, automatic_classes=["A2", "A5"])
    assert desk.store_run()["matched"] == 1
    desk.bank.sheet = desk.bank.sheet._replace(bookings=(debit,), opening=desk.bank.sheet.end, id="S-2", number=2)
    returned = paid(-122_00, "Ruecklastschrift RREF+REF-1 OAMT+119,00 COAM+3,00", reference="REF-2", reversal=True)
    desk.bank.book(returned)
    run = desk.store_run()
    [back] = desk.read("matches")[1:]
    assert (run["matched"], back["evidence_class"]) == (1, "A5")
    assert lines(back) == [("return", "100100000", "RE-2026-00123", -119), ("fee", "49700000", "", -3)]
    desk.bank.book(paid(119_01, "RE-2026-00123"))
    answer = refused(desk.by_hand(119.01, item("RE-2026-00123", 119.01)), 409)
    assert answer["open_amount"] == 119, "it is open again"


def test_what_is_learned_is_seen_used_and_forgotten(service: Service) -> None:
    desk = Clerk(
        service,
        paid(10_00, "RE-2026-00125", "Erika Zahlt", OTHER),
        paid(11_00, "RE-2026-00125", "Erika Zahlt", OTHER),
        paid(29_00, "danke", "Erika Zahlt", OTHER),
    )
    books = {"connection_id": desk.books.connection_id}
    desk.store_run()
    assert desk.listed(29)["best_proposal"] is None
    for amount in (10, 11):
        [effective] = {row["effective"] for row in desk.read("knowledge", **books)} or {False}
        assert effective is False
        assert desk.confirm(amount).status_code == 201
    found = {row["kind"]: row for row in desk.read("knowledge", **books)}
    assert (found["iban"]["value"], found["name"]["value"]) == (OTHER, "erika zahlt")
    assert {(row["konto"], row["confirmations"], row["effective"]) for row in found.values()} == {
        ("100200000", 2, True)
    }
    desk.store_run()
    assert desk.listed(29)["best_proposal"]["evidence_class"] == "B2", (
        "known by its IBAN, and one document has this rest"
    )
    # Undoing takes one lesson back, deleting all of them.
    undone = desk.read("matches")[0]["id"]
    assert desk.undo(undone).status_code == 200
    assert {row["confirmations"] for row in desk.read("knowledge", **books)} == {1}
    for row in found.values():
        assert desk.call("DELETE", f"knowledge/{row['id']}").json()["data"]["value"] == row["value"]
        refused(desk.call("DELETE", f"knowledge/{row['id']}"), 404)
    assert desk.read("knowledge", **books) == []
    [log] = desk.books.rows("SELECT details FROM audit_log WHERE action = 'reconciliation.forget' ORDER BY id LIMIT 1")
    assert OTHER not in log[0]


def test_rules_propose_a_ledger_account(service: Service) -> None:
    desk = Clerk(service, paid(-800_00, "Miete Maerz Buero", "Vermieter", OTHER), paid(-9_90, "Entgelt", "Bank", OTHER))
    query = {"connection_id": desk.books.connection_id}
    rent = {"name": "Miete", "konto": "4210", "text": "miete", "direction": "out", "min_amount": 700, "max_amount": 900}
    fee = {"name": "Entgelt", "konto": "4970", "text": "Entgelt", "direction": "in"}

    def put(*rules: dict[str, Any]) -> list[dict[str, Any]]:
        answer = desk.call("PUT", "rules", params=query, json={"rules": list(rules)})
        assert answer.status_code == 200, answer.text
        return list(answer.json()["data"])

    stored = put(rent, fee)
    assert [row["konto"] for row in stored] == ["42100000", "49700000"]
    again = put(fee, rent)
    assert [row["id"] for row in again] == [stored[1]["id"], stored[0]["id"]], "a rule that stays keeps its id"
    assert desk.read("rules", **query) == again
    desk.store_run()
    proposal = desk.listed(-800)["best_proposal"]
    assert (proposal["evidence_class"], lines(proposal)) == ("C", [("ledger_account", "42100000", "", -800)])
    assert proposal["reasons"][0]["value"] == stored[0]["id"]
    assert desk.listed(-9.9)["best_proposal"] is None, "the rule is for money that comes in"
    assert desk.confirm(-800).status_code == 201

    def wrong(field: str, **changes: object) -> None:
        refused(
            desk.call("PUT", "rules", params=query, json={"rules": [{**rent, **changes}]}), 400, f"rules[0].{field}"
        )

    wrong("text", text="x")
    wrong("iban", iban="DE00123")
    wrong("max_amount", max_amount=1)
    wrong("konto", konto="10010")
    refused(desk.call("PUT", "rules", params=query, json={"rules": [rent] * 201}), 400, "rules")
    assert desk.read("rules", **query) == again, "nothing half written"


def test_a_rule_acts_alone_where_a_person_says_so_until_it_is_taken_back(service: Service) -> None:
    desk = Clerk(
        service, paid(-9_90, "Entgelt Maerz", "Bank", OTHER), paid(-4_90, "Entgelt April", "Bank", OTHER),
        paid(-800_00, "Miete Maerz", "Vermieter", OTHER),
    )  # fmt: skip
    query = {"connection_id": desk.books.connection_id}
    fee = {"name": "Entgelt", "konto": "4970", "text": "Entgelt", "direction": "out"}
    rent = {"name": "Miete", "konto": "4210", "text": "Miete", "direction": "out"}

    def put(*rules: dict[str, Any]) -> list[dict[str, Any]]:
        answer = desk.call("PUT", "rules", params=query, json={"rules": list(rules)})
        assert answer.status_code == 200, answer.text
        return list(answer.json()["data"])

    def allowed() -> list[tuple[str, bool]]:
        rows = desk.books.rows("SELECT details FROM audit_log WHERE action = 'reconciliation.rule_acts' ORDER BY id")
        return [(details["name"], details["automatic"]) for (text,) in rows for details in [json.loads(text)]]

    first = put(fee, rent)
    assert [row["automatic"] for row in first] == [False, False]
    assert allowed() == []
    again = put({**fee, "automatic": True}, rent)
    assert [row["automatic"] for row in again] == [True, False]
    assert [row["id"] for row in again] == [row["id"] for row in first], "it is still the same rule"
    assert allowed() == [("Entgelt", True)]
    trial = desk.run()
    assert [(row["evidence_class"], row["count"], row["clear"]) for row in trial["classes"]][1:] == [("C", 3, 2)]
    assert desk.read("matches") == [], "a trial shows what it would do, and does nothing"
    assert desk.store_run()["matched"] == 2
    assert {amount: desk.listed(amount)["status"] for amount in (-9.9, -4.9, -800)} == {
        -9.9: "matched", -4.9: "matched", -800: "proposed",
    }  # fmt: skip
    put(fee, rent)
    assert allowed() == [("Entgelt", True), ("Entgelt", False)]


def test_what_the_office_books_counts_once(service: Service) -> None:
    desk = Clerk(service, paid(100_00, "RE-2026-00124"))
    desk.store_run()
    assert desk.confirm(100).status_code == 201
    desk.books.post("2026-03-02 H 10010 1200 100,00 RE-2026-00124 Zahlung")
    desk.bank.sheet = desk.bank.sheet._replace(
        bookings=(paid(100_00, ""),), opening=desk.bank.sheet.end, id="S-2", number=2
    )
    desk.bank.book(*(paid(amount, "RE-2026-00124") for amount in (138_01, 138_00, 100_00)))
    answer = refused(desk.by_hand(138.01, item("RE-2026-00124", 138.01)), 409)
    assert answer["open_amount"] == 138, "100 of 238 were matched, and booked: not 200"
    # A run takes note of what is booked, so that a later increase is not taken for the payment going back.
    assert desk.store_run()["booked"] == 0, (
        "what is booked is the payment that was matched: the other 100 is a second one"
    )
    desk.books.post("2026-03-02 S 10010 8400 50,00 RE-2026-00124 Nachberechnung")
    less = {"kind": "ledger_account", "konto": "8400", "amount": -50}
    answer = refused(desk.by_hand(138.01, item("RE-2026-00124", 188.01), less), 409)
    assert answer["open_amount"] == 188
    assert desk.by_hand(138, item("RE-2026-00124", 138)).status_code == 201


@pytest.mark.either_engine
def test_an_account_must_be_set_up_and_scopes_hold(service: Service) -> None:
    desk = Clerk(service, paid(119_00, "RE-2026-00123"))
    other = Clerk(service)
    refused(desk.set_up(konto="10010"), 400, "konto")
    refused(desk.set_up(konto="12"), 400, "konto")
    refused(desk.set_up(automatic_classes=["B1"]), 400, "automatic_classes[0]")
    agency = service.agency(desk.owner, other.owner)
    body = {"connection_id": other.books.connection_id, "konto": "1200"}
    refused(desk.call("PUT", f"accounts/{desk.account}", agency.key, json=body), 409, "connection_id")
    service.db.write_now(lambda tx: tx.run("DELETE FROM recon_accounts WHERE account_id = ?", int(desk.account)))
    for answer in (
        desk.ask(trial=False),
        desk.ask(connection_id=None),
        desk.by_hand(119, item("RE-2026-00123", 119)),
    ):
        assert refused(answer, 409)["account_id"] == desk.account
    assert desk.ask().status_code == 200, "a trial run needs no settings"
    desk.set_up()
    made = service.db.write_now(
        keys.create, service.vault, desk.owner.id, "restricted", ACTOR, scopes=("ledger:read", "banking:read")
    )
    assert refused(desk.ask(made.secret, trial=False), 403)["missing_scope"] == "ledger:write"
    assert desk.call("GET", "matches", made.secret).status_code == 200


@on_postgres
def test_two_confirmations_of_one_document_wait_for_each_other(service: Service) -> None:
    desk = Clerk(service, paid(119_00, "RE-2026-00123"), paid(119_00, "RE-2026-00123 nochmal"))
    desk.store_run()
    ids = [row["best_proposal"]["id"] for row in desk.read("transactions", status="proposed")]
    principal = Principal(desk.owner.id, "owner", (desk.owner.id,), user_id="1")
    client = Client(desk.owner.id, desk.books.connection_id, desk.read("accounts")[0]["client_id"])

    def confirm(id: str) -> Callable[[Tx], object]:
        amounts = {("100100000", "RE-2026-00123"): 119_00}
        return lambda tx: matches.confirm_now(tx, principal, id, client, lambda tx: amounts, ACTOR)

    outcome = overlap(service.db, confirm(ids[0]), confirm(ids[1]))
    assert outcome.lock == "reconciliation"
    assert isinstance(outcome.second, Conflict)
    assert "only 0.00 is open" in str(outcome.second)
