"""POST /v2/reconciliation/runs: what would be matched, over real statements and real books."""

from __future__ import annotations

import pytest

from kontobahn.access import keys
from kontobahn.access.principal import Scope
from kontobahn.reconciliation import inputs
from tests.harness import ACTOR, Service
from tests.ledger_builder import refusal
from tests.reconciliation_desk import OTHER, SECOND, Desk, lines, paid
from tests.statement_builder import Booking, Sheet, camt


def test_a_run_counts_by_class_and_says_why(service: Service) -> None:
    desk = Desk(
        service,
        paid(119_00, "Rechnung RE-2026-00123 danke"),
        paid(100_00, "RE 2026 00124"),
        paid(1_23, "x", "Y", OTHER),
    )
    before = service.balance(desk.owner).available
    tables = desk.books.everything()
    answer = desk.ask()
    found = answer.json()["data"]
    assert answer.json()["platform"] == {"neuesGuthaben": before - 1}
    assert (found["transactions"], found["open_items"], found["partners_known"]) == (4, 4, True)
    assert (found["from_date"], found["to_date"]) == ("2025-12-02", "2026-03-02")
    counts = {row["evidence_class"]: (row["count"], row["clear"], row["amount"]) for row in found["classes"]}
    assert counts == {"A2": (1, 1, 119), "B1": (1, 0, 0), "-": (2, 0, 0)}
    by_amount = {row["amount"]: row for row in found["data"]}
    [best] = by_amount[119]["proposals"]
    assert (best["evidence_class"], best["clear"]) == ("A2", True)
    assert lines(best) == [("item", "100100000", "RE-2026-00123", 119)]
    reasons = {reason["signal"]: reason for reason in best["reasons"]}
    assert set(reasons) == {"number", "amount", "iban", "name"}
    number = reasons["number"]
    assert ("Rechnung RE-2026-00123 danke"[number["start"] : number["end"]], number["field"]) == (
        "RE-2026-00123",
        "svwz",
    )
    part = by_amount[100]["proposals"][0]
    assert lines(part) == [("item", "100100000", "RE-2026-00124", 100)]
    assert desk.run(limit=1)["data"] == found["data"][:1]
    assert desk.books.everything() == tables, "a trial run writes nothing into the books"


def test_our_own_payment_and_a_transfer_are_recognised(service: Service) -> None:
    desk = Desk(service)
    ordered = desk.bank.pay(amount=77.00, description="Rechnung L-4711")
    reference = next(
        row[0] for row in desk.books.rows("SELECT end_to_end_id FROM banking_payments WHERE id = ?", int(ordered["id"]))
    )
    second = Sheet([Booking(500, "Umbuchung", "Muster", desk.bank.sheet.iban, None)], iban=SECOND)
    desk.bank.take(camt(second))
    desk.bank.take(
        camt(
            desk.bank.sheet._replace(
                bookings=[
                    paid(-77_00, "irgendwas", "Lieferant", OTHER, end_to_end_id=reference), paid(-500, "Umbuchung", "Muster", SECOND),
                ],
                id="S-2", number=2, opening=desk.bank.sheet.end,
            )
        )
    )  # fmt: skip
    by_amount = {row["amount"]: row["proposals"] for row in desk.run()["data"]}
    assert (by_amount[-77][0]["evidence_class"], lines(by_amount[-77][0])) == (
        "A1",
        [("item", "700010000", "L-4711", -77)],
    )
    assert lines(by_amount[-5][0]) == [("transfer", "13600000", "", -5)]
    assert [reason["signal"] for reason in by_amount[-5][0]["reasons"]] == ["own_account", "other_side"]


@pytest.mark.either_engine
def test_without_the_right_to_partners_names_of_open_items_remain(service: Service) -> None:
    desk = Desk(service, paid(119_00, "danke"))
    desk.books.deny("personenkonten")
    found = desk.run()
    assert found["partners_known"] is False
    assert {row["evidence_class"] for row in found["classes"]} == {"B4", "-"}


@pytest.mark.either_engine
def test_bad_input_is_refused_and_costs_nothing(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    desk = Desk(service, paid(119_00, "danke"))
    refusal(desk.ask(from_date="2026-03-01", to_date="2026-02-01"), 400, "from_date")
    refusal(desk.ask(limit=501), 400, "limit")
    refusal(desk.ask(client_id="29098-1"), 400, "client_id")
    monkeypatch.setattr(inputs, "MAX_MOVEMENTS", 1)
    refusal(desk.ask(), 400, "to_date")
    monkeypatch.setattr(inputs, "MAX_MOVEMENTS", 2)
    assert desk.run()["transactions"] == 2
    monkeypatch.setattr(inputs, "MAX_ITEMS", 3)
    refusal(desk.ask(), 400, "client_id")
    desk.books.deny("buchungen")
    assert refusal(desk.ask(), 403)["code"] == "ledger_endpoint_not_authorized"
    assert desk.ask(to_date="0001-01-01").status_code == 403, "the ends of the calendar are days like others"
    assert desk.ask(from_date="0001-01-01", to_date="9999-12-31").status_code == 403


@pytest.mark.either_engine
def test_what_belongs_to_others_is_not_there(service: Service) -> None:
    mine, theirs = Desk(service), Desk(service)
    unknown = mine.ask(account_id="777").json()
    answer = refusal(mine.ask(account_id=theirs.account), 404)
    assert answer["error"] == unknown["error"]
    refusal(mine.ask(connection_id=theirs.books.connection_id), 404)
    agency = service.agency(mine.owner, theirs.owner)
    assert mine.ask(agency.key).status_code == 200
    refusal(mine.ask(agency.key, connection_id=theirs.books.connection_id), 409, "connection_id")
    refusal(mine.ask(service.agency(theirs.owner).key), 403)


@pytest.mark.parametrize(
    ("scopes", "missing"), [(("ledger:read",), "banking:read"), (("banking:read",), "ledger:read"), (("ledger:read", "banking:read"), None)]
)  # fmt: skip
@pytest.mark.either_engine
def test_a_restricted_key_needs_both_scopes(service: Service, scopes: tuple[Scope, ...], missing: str | None) -> None:
    desk = Desk(service)
    key = service.db.write_now(keys.create, service.vault, desk.owner.id, "restricted", ACTOR, scopes=scopes).secret
    answer = desk.ask(key)
    assert answer.status_code == (200 if missing is None else 403)
    assert answer.json().get("missing_scope") == missing


def test_a_repeat_under_its_key_is_not_charged_again(service: Service) -> None:
    desk = Desk(service, paid(119_00, "danke"))
    first = desk.ask(headers={"Idempotency-Key": "a"})
    again = desk.ask(headers={"Idempotency-Key": "a"})
    assert again.json() == first.json()
    assert service.balance(desk.owner).available == first.json()["platform"]["neuesGuthaben"]
