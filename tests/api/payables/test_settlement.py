"""An invoice is paid when its payment is: by our own end-to-end id, by a match of its document, and no longer when that is undone."""

from __future__ import annotations

from typing import Any

import pytest

from tests.harness import Organization, Service
from tests.paid_invoices import Payer, credit_note, without_skonto
from tests.received_invoices import SELLER_IBAN
from tests.sandbox_visitor import Visitor
from tests.statement_builder import Booking


class Bookkeeper(Payer):
    """One who pays, and whose account is reconciled with books that have the invoices."""

    def __init__(
        self, service: Service, bookings: str, owner: Organization | None = None, account_id: str = ""
    ) -> None:
        super().__init__(service, owner, account_id)
        self.books.post(bookings)
        body = {"connection_id": self.books.connection_id, "konto": "1200", "automatic_classes": ["A1", "A2"]}
        answer = service.request("PUT", f"/v2/reconciliation/accounts/{self.account}", self.owner.key, json=body)
        assert answer.status_code == 200, answer.text

    def match(self) -> list[dict[str, Any]]:
        answer = self.service.post(
            "/v2/reconciliation/runs", self.owner.key, json={"account_id": self.account, "trial": False}
        )
        assert answer.status_code == 201, answer.text
        return list(self.service.get("/v2/reconciliation/matches", self.owner.key).json()["data"])

    def undo(self, match: dict[str, Any]) -> None:
        answer = self.service.post(f"/v2/reconciliation/matches/{match['id']}/undo", self.owner.key, json={})
        assert answer.status_code == 200, answer.text

    def match_by_hand(self, cents: int, beleg: str, kind: str = "item") -> dict[str, Any]:
        """Matches a debit of this amount, from somewhere else than a run, to a document; or its return, of a negative amount."""
        self.bank.book(Booking(-cents, "Ueberweisung", "Roesterei Hafen", SELLER_IBAN, None))
        [(id,)] = self.books.rows("SELECT id FROM banking_transactions WHERE amount_minor = ?", -cents)
        line = {"kind": kind, "konto": "70001", "beleg": beleg, "amount": -cents / 100}
        answer = self.service.post(
            "/v2/reconciliation/matches", self.owner.key, json={"transaction_id": str(id), "lines": [line]}
        )
        assert answer.status_code == 201, answer.text
        return dict(answer.json()["data"])


def lines(match: dict[str, Any]) -> list[tuple[str, str, str, float]]:
    return [(line["kind"], line["konto"], line["beleg"], line["amount"]) for line in match["lines"]]


def test_the_payment_of_a_run_is_matched_by_its_own_id(service: Service) -> None:
    keeper = Bookkeeper(service, "2026-03-02 H 70001 3300 33,02 R-7")
    coffee = keeper.released()
    keeper.run(coffee)
    [payment] = keeper.payments()
    # The bank tells nothing but our id.
    keeper.bank.book(Booking(-3236, "Ueberweisung", None, None, None, end_to_end_id=payment["end_to_end_id"]))
    [match] = keeper.match()
    assert (match["evidence_class"], match["created_by"]) == ("A1", "engine")
    assert lines(match) == [("item", "700010000", "R-7", -33.02), ("skonto", "700010000", "R-7", 0.66)]
    shown = keeper.shown(coffee)
    assert (shown["status"], shown["match_id"], shown["payment_id"]) == ("paid", match["id"], payment["id"])
    keeper.follow()
    assert keeper.events().count("payable.paid") == 1
    keeper.undo(match)
    shown = keeper.shown(coffee)
    assert (shown["status"], shown["match_id"]) == ("paid", None), "the bank has booked it all the same"


@pytest.mark.either_engine
def test_a_run_over_a_connected_bank_is_authorised_there_and_closed_by_what_the_bank_reports(service: Service) -> None:
    visitor, owner = Visitor(service), service.organization()
    connection = visitor.connect(owner, "demo", accounts=(0,))
    [account] = visitor.accounts(owner)
    keeper = Bookkeeper(service, "2026-03-02 H 70001 3300 33,02 R-7", owner, account["id"])
    coffee = keeper.released()
    run = keeper.run(coffee)
    [payment] = run["payments"]
    assert (run["order_file_ids"], payment["amount"], keeper.statuses(coffee)) == ([], 32.36, ["in_payment"])
    visitor.authorise(payment)
    visitor.later(3600)
    assert visitor.refresh(owner, connection["id"]).status_code == 202
    [match] = [one for one in keeper.match() if any(line["beleg"] == "R-7" for line in one["lines"])]
    assert (match["evidence_class"], match["created_by"], keeper.statuses(coffee)) == ("A1", "engine", ["paid"])


@pytest.mark.either_engine
def test_a_credit_note_that_was_deducted_is_settled_with_the_invoice(service: Service) -> None:
    keeper = Bookkeeper(service, "2026-03-02 H 70001 3300 50,00 R-8\n2026-03-02 S 70001 3300 20,01 G-1")
    coffee, credit = keeper.released(without_skonto("R-8", 5000)), keeper.released(credit_note("G-1", 2001))
    keeper.run(coffee, credit)
    keeper.bank.book_debit(keeper.payments()[0])
    [match] = keeper.match()
    assert match["evidence_class"] == "A1"
    assert sorted(lines(match)) == [("item", "700010000", "G-1", 20.01), ("item", "700010000", "R-8", -50)]
    assert keeper.statuses(coffee, credit) == ["paid", "paid"]


@pytest.mark.either_engine
def test_what_was_paid_elsewhere_is_paid_by_its_match_and_open_again_without(service: Service) -> None:
    keeper = Bookkeeper(service, "2026-03-02 H 70001 3300 50,00 RE-2026-00008")
    coffee = keeper.released(without_skonto("RE-2026-00008", 5000))
    match = keeper.match_by_hand(5000, "RE-2026-00008")
    assert keeper.shown(coffee)["match_id"] == match["id"]
    assert keeper.statuses(coffee) == ["paid"]
    assert keeper.ask(coffee).status_code == 409
    keeper.undo(match)
    assert (keeper.shown(coffee)["status"], keeper.shown(coffee)["match_id"]) == ("released", None)


@pytest.mark.either_engine
def test_what_comes_back_is_open_again_and_paid_once_the_return_is_undone(service: Service) -> None:
    keeper = Bookkeeper(service, "2026-03-02 H 70001 3300 50,00 RE-2026-00008")
    coffee = keeper.released(without_skonto("RE-2026-00008", 5000))
    keeper.match_by_hand(5000, "RE-2026-00008")
    back = keeper.match_by_hand(-5000, "RE-2026-00008", "return")
    assert keeper.statuses(coffee) == ["released"]
    keeper.undo(back)
    assert keeper.statuses(coffee) == ["paid"]
    assert keeper.events().count("payable.paid") == 2
    # Somebody who has decided otherwise since then is not overruled.
    back = keeper.match_by_hand(-5001, "RE-2026-00008", "return")
    assert keeper.decide(coffee, "reject", reason="Doppelt").status_code == 200
    keeper.undo(back)
    assert keeper.statuses(coffee) == ["rejected"]


@pytest.mark.either_engine
def test_a_payment_before_the_release_pays_with_the_release(service: Service) -> None:
    keeper = Bookkeeper(service, "2026-03-02 H 70001 3300 50,00 RE-2026-00008")
    coffee = keeper.received(without_skonto("RE-2026-00008", 5000))
    keeper.match_by_hand(5000, "RE-2026-00008")
    assert keeper.statuses(coffee) == ["to_release"], "somebody has to look at it all the same"
    assert keeper.decide(coffee, "release").json()["data"]["status"] == "paid"
    assert keeper.events() == ["payable.received", "payable.released", "payable.paid"]


@pytest.mark.either_engine
def test_a_part_payment_does_not_pay(service: Service) -> None:
    keeper = Bookkeeper(service, "2026-03-02 H 70001 3300 50,00 RE-2026-00008")
    coffee = keeper.released(without_skonto("RE-2026-00008", 5000))
    keeper.match_by_hand(4999, "RE-2026-00008")
    assert keeper.statuses(coffee) == ["released"]


@pytest.mark.either_engine
def test_a_cent_is_paid_by_a_cent_and_a_credit_note_when_all_of_it_comes_in(service: Service) -> None:
    keeper = Bookkeeper(
        service,
        "2026-03-02 H 70001 3300 0,01 R-1\n2026-03-02 S 70001 3300 20,01 G-1\n2026-03-02 S 70001 3300 30,00 G-2",
    )
    cent, credit, part = (
        keeper.released(one) for one in (without_skonto("R-1", 1), credit_note("G-1", 2001), credit_note("G-2", 3000))
    )
    keeper.match_by_hand(1, "R-1")
    keeper.match_by_hand(-2001, "G-1")
    keeper.match_by_hand(-2999, "G-2")
    assert keeper.statuses(cent, credit, part) == ["paid", "paid", "released"]


@pytest.mark.either_engine
def test_a_match_taken_back_leaves_the_invoice_in_its_own_run(service: Service) -> None:
    keeper = Bookkeeper(service, "2026-03-02 H 70001 3300 50,00 R-8\n2026-03-02 H 70001 3300 60,00 R-9")
    first, second = keeper.released(without_skonto("R-8", 5000)), keeper.released(without_skonto("R-9", 6000))
    keeper.run(first)
    keeper.run(second)
    match = keeper.match_by_hand(6000, "R-9")
    assert keeper.statuses(first, second) == ["in_payment", "paid"]
    keeper.undo(match)
    assert keeper.statuses(first, second) == ["in_payment", "in_payment"], "its payment is under way all the same"
