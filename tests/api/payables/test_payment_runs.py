"""A payment run pays what may be paid, exactly, and never twice."""

from __future__ import annotations

from datetime import date
from typing import Any

import pytest

from kontobahn.access import keys
from kontobahn.access.principal import Principal
from kontobahn.banking.payments import bank
from kontobahn.banking.provider import Banking
from kontobahn.credits import NO_CALL
from kontobahn.db import Tx
from kontobahn.formats.invoices.model import CreditTransfer, DirectDebit
from kontobahn.payables import runs, settlement
from kontobahn.payables.run_store import open_payments, organizations_with_open_payments
from kontobahn.payables.runs import Made, NewPaymentRun, RunOrder
from tests.harness import ACTOR, Service
from tests.interleaving import on_postgres, overlap
from tests.paid_invoices import (
    RUNS,
    TEA_IBAN,
    Payer,
    credit_note,
    invoice,
    of_tea,
    without_skonto,
)
from tests.received_invoices import COFFEE, OTHER_IBAN, SELLER_IBAN


def reasons(answer: dict[str, Any]) -> dict[str, str]:
    return {one["number"]: one["reason"] for one in answer["left_out"]}


def sums(run: dict[str, Any]) -> list[tuple[str, float, str]]:
    return [(one["creditor_iban"], one["amount"], one["description"]) for one in run["payments"]]


def test_what_is_released_is_paid_with_one_file(service: Service) -> None:
    payer = Payer(service)
    coffee, more, tea = payer.released(), payer.released(invoice("R-8", 5000)), payer.released(of_tea("T-1"))
    shown = payer.trial(coffee, more, tea)
    assert (shown["id"], shown["amount"], shown["balance"]) == (None, 91.36, 1000.01)
    assert payer.payments() == []
    assert payer.statuses(coffee) == ["released"], "a trial writes nothing"
    run = payer.run(coffee, more, tea)
    assert sums(run) == [
        (SELLER_IBAN, 81.36, "Rechnungen R-7, R-8"),
        (TEA_IBAN, 10, "Rechnung T-1"),
    ]
    [first, second] = payer.payments()
    assert (first["amount"], first["creditor_name"], second["amount"]) == (81.36, "Roesterei Hafen GmbH", 10)
    assert payer.statuses(coffee, more, tea) == ["in_payment"] * 3
    assert payer.shown(coffee)["payment_id"] == first["id"]
    [file] = service.get("/v2/banking/order-files", payer.owner.key).json()["data"]
    assert run["order_file_ids"] == [file["id"]]
    assert (file["payment_ids"], file["amount"]) == ([first["id"], second["id"]], 91.36)
    assert service.get(f"{RUNS}/{run['id']}", payer.owner.key).json()["data"] == run
    assert service.get(RUNS, payer.owner.key).json()["data"] == [run]
    assert service.balance(payer.owner).reserved == 6, "a run costs what its payments cost"


def test_the_booked_debit_closes_the_invoice(service: Service) -> None:
    payer = Payer(service)
    coffee, tea = payer.released(), payer.released(of_tea("T-1"))
    payer.run(coffee, tea)
    payer.bank.book_debit(payer.payments()[0])
    payer.follow()
    assert payer.statuses(coffee, tea) == ["paid", "in_payment"]
    assert payer.events()[-1] == "payable.paid"
    payer.follow()
    assert payer.events().count("payable.paid") == 1
    [_, tea_payment] = [one["id"] for one in payer.payments()]
    assert [row.payment_id for row in service.db.read_now(open_payments, payer.owner.id)] == [int(tea_payment)]
    payer.bank.book_debit(payer.payments()[1])
    service.run(settlement.follow_payments(service.application.context))
    assert payer.statuses(coffee, tea) == ["paid", "paid"]
    assert payer.owner.id not in service.db.read_now(organizations_with_open_payments)
    history = service.get(f"/v2/payables/{coffee['id']}/history", payer.owner.key).json()["data"]
    assert [step["action"] for step in history] == ["receive", "release", "pay", "paid"]


@pytest.mark.either_engine
def test_skonto_is_taken_up_to_its_day_and_not_after(service: Service) -> None:
    payer = Payer(service)
    coffee = payer.released()
    on_its_day, later = payer.trial(coffee, date="2026-03-09"), payer.trial(coffee, date="2026-03-10")
    assert (on_its_day["amount"], on_its_day["payments"][0]["payables"][0]["skonto"]) == (32.36, 0.66)
    assert (later["amount"], later["payments"][0]["payables"][0]["skonto"]) == (33.02, 0)
    assert payer.trial(coffee, date="2026-03-09", take_skonto=False)["amount"] == 33.02
    service.clock.advance(seconds=8 * 86400)
    assert payer.trial(coffee)["amount"] == 33.02
    assert payer.run(coffee)["amount"] == 33.02


@pytest.mark.either_engine
def test_credit_notes_are_deducted_from_what_their_creditor_gets(service: Service) -> None:
    payer = Payer(service)
    coffee, credit = payer.released(without_skonto("R-8", 5000)), payer.released(credit_note("G-1", 2001))
    tea = payer.released(of_tea("T-1"))
    run = payer.run(coffee, credit, tea)
    assert sums(run)[0] == (SELLER_IBAN, 29.99, "Rechnung R-8 abzgl. G-1")
    assert payer.statuses(coffee, credit) == ["in_payment", "in_payment"]
    payer.bank.book_debit(payer.payments()[0])
    payer.follow()
    assert payer.statuses(coffee, credit, tea) == ["paid", "paid", "in_payment"]


@pytest.mark.either_engine
@pytest.mark.parametrize("cents", [5000, 5001])
def test_nothing_is_paid_to_one_who_owes_as_much(service: Service, cents: int) -> None:
    payer = Payer(service)
    coffee, credit = payer.released(without_skonto("R-8", 5000)), payer.released(credit_note("G-1", cents))
    refused = payer.ask(coffee, credit)
    assert refused.status_code == 409
    assert reasons(refused.json()) == {"R-8": "credit_exceeds", "G-1": "credit_exceeds"}
    assert payer.ask(credit).status_code == 409, "a credit note alone is no payment"
    assert payer.payments() == []


@pytest.mark.either_engine
@pytest.mark.parametrize("means", ["59", "49", "48", "54", "55", "10"])
def test_what_the_creditor_collects_or_has_is_never_paid(service: Service, means: str) -> None:
    payer = Payer(service)
    debit = DirectDebit("M-1", "DE98ZZZ09999999999") if means in ("59", "49") else None
    payment = COFFEE.payment._replace(means_code=means, direct_debit=debit, terms=None)
    collected = payer.released(invoice("R-8", 5000, payment=payment))
    assert reasons(payer.ask(collected).json()) == {"R-8": "not_to_be_paid"}
    assert payer.ask(due_by="2026-12-31").status_code == 409
    assert payer.payments() == []


@pytest.mark.either_engine
def test_what_is_not_released_rejected_or_being_paid_is_never_paid(service: Service) -> None:
    payer = Payer(service)
    waiting, coffee = payer.received(invoice("R-8")), payer.released()
    rejected = payer.received(invoice("R-9"))
    payer.decide(rejected, "reject", reason="nicht bestellt")
    refused = payer.ask(waiting, coffee, rejected)
    assert refused.status_code == 409
    assert reasons(refused.json()) == {"R-8": "not_released", "R-9": "not_released"}
    assert payer.statuses(coffee) == ["released"], "all of them or none"
    payer.run(coffee)
    assert reasons(payer.ask(coffee).json()) == {"R-7": "not_released"}
    assert len(payer.payments()) == 1


@pytest.mark.either_engine
def test_an_account_that_nobody_has_confirmed_is_never_paid(service: Service) -> None:
    payer = Payer(service, bankkonten=[])
    first = payer.released()
    other = invoice("R-8", 5000, payment=COFFEE.payment._replace(transfers=[CreditTransfer(OTHER_IBAN)]))
    second = payer.released(other)
    refused = payer.ask(first, second)
    assert reasons(refused.json()) == {"R-8": "iban_changed"}
    assert payer.payments() == []
    stopped = payer.shown(second)
    assert (stopped["status"], stopped["stops"]) == ("needs_person", ["iban_changed"])
    assert payer.run(first)["amount"] == 32.36


@pytest.mark.either_engine
def test_by_its_day_a_run_takes_what_is_due_or_becomes_dearer(service: Service) -> None:
    payer = Payer(service)
    payer.released()
    payer.released(without_skonto("R-8", 5000, date(2026, 3, 10)))
    payer.released(credit_note("G-1", 1000))
    payer.released(of_tea("T-1"))
    payer.released(without_skonto("R-1", 1, date(2026, 3, 16)))
    payer.received(without_skonto("R-9", 7000, date(2026, 3, 1)))

    def numbers(day: str) -> list[str]:
        run = payer.trial(due_by=day)
        return sorted(one["number"] for payment in run["payments"] for one in payment["payables"])

    assert numbers("2026-03-08") == []
    assert numbers("2026-03-09") == ["G-1", "R-7"], "the Skonto ends"
    assert numbers("2026-03-10") == ["G-1", "R-7", "R-8"]
    assert numbers("2026-03-16") == ["G-1", "R-1", "R-7", "R-8", "T-1"]


def test_a_repeated_call_pays_once(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    payer = Payer(service)
    coffee, tea = payer.released(), payer.released(of_tea("T-1"))
    asked, send = [], bank.send_to_bank

    async def dies(context: Any, row: Any) -> Any:
        asked.append(row.id)
        if len(asked) == 2:
            raise RuntimeError("the process is killed")
        return await send(context, row)

    async def never(context: Any, row: Any) -> Any:
        raise RuntimeError("the bank has answered")

    with monkeypatch.context() as patch:
        patch.setattr(bank, "send_to_bank", dies)
        assert payer.ask(coffee, tea, once="run-1").status_code == 500
    assert len(payer.payments()) == 2
    assert len(asked) == 2
    with monkeypatch.context() as patch:
        patch.setattr(bank, "recheck_unanswered", never)
        again = payer.ask(coffee, tea, once="run-1")
    assert again.status_code == 201, again.text
    assert [one["status"] for one in again.json()["data"]["payments"]] == ["initiated", "initiated"]
    payer.bank.book_debit(payer.payments()[0])
    assert payer.ask(coffee, tea, once="run-1").json() == again.json(), "what was answered is answered again"
    assert len(payer.payments()) == 2
    assert len(again.json()["data"]["order_file_ids"]) == 1
    assert payer.ask(coffee, once="run-1").status_code == 422, "the key stands for another run"


@pytest.mark.either_engine
def test_a_payment_that_the_bank_had_before_the_crash_is_found_there(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    payer = Payer(service)
    coffee, tea = payer.released(), payer.released(of_tea("T-1"))

    def dies(*given: Any) -> Any:
        raise RuntimeError("the process is killed")

    with monkeypatch.context() as patch:
        patch.setattr(bank, "apply_start", dies)
        assert payer.ask(coffee, tea, once="run-1").status_code == 500
    again = payer.ask(coffee, tea, once="run-1")
    assert again.status_code == 201, again.text
    [file_id] = again.json()["data"]["order_file_ids"]
    file = service.get(f"/v2/banking/order-files/{file_id}", payer.owner.key).json()["data"]
    assert file["payment_ids"] == [one["id"] for one in payer.payments()], "the one that was under way, too"


@pytest.mark.either_engine
def test_a_payment_that_fails_frees_its_invoices(service: Service) -> None:
    payer = Payer(service)
    coffee, credit = payer.released(), payer.released(credit_note("G-1", 1000))
    payer.run(coffee, credit)
    [payment] = payer.payments()
    cancelled = service.post(f"/v2/banking/payments/{payment['id']}/cancel", payer.owner.key)
    assert cancelled.status_code == 200, cancelled.text
    payer.follow()
    assert payer.statuses(coffee, credit) == ["released", "released"]
    assert payer.run(coffee)["amount"] == 32.36
    payer.follow()
    assert payer.statuses(coffee, credit) == ["in_payment", "released"], "the first payment is over"


@pytest.mark.either_engine
def test_a_payment_above_the_limit_waits_for_another_person(service: Service) -> None:
    payer = Payer(service)
    limit = service.request("PUT", "/v2/banking/payment-limit", payer.owner.key, json={"amount": 20})
    assert limit.status_code == 200, limit.text
    coffee, tea = payer.released(), payer.released(of_tea("T-1"))
    run = payer.run(coffee, tea)
    assert [one["waits_for_release"] for one in run["payments"]] == [True, False]
    [file] = service.get("/v2/banking/order-files", payer.owner.key).json()["data"]
    assert file["payment_ids"] == [run["payments"][1]["payment_id"]], "what waits is in no file"
    again = service.post(f"{RUNS}/{run['id']}/order-file", payer.owner.key)
    assert again.status_code == 409


@pytest.mark.either_engine
def test_a_key_that_may_not_pay_makes_no_run(service: Service) -> None:
    payer = Payer(service)
    coffee = payer.released()
    made = service.db.write_now(
        keys.create, service.vault, payer.owner.id, "inbox", ACTOR, scopes=("payables:read", "payables:write")
    )
    assert payer.ask(coffee, key=made.secret).status_code == 403
    assert payer.payments() == []


@pytest.mark.either_engine
def test_nobody_pays_the_invoices_or_from_the_account_of_others(service: Service) -> None:
    payer, other = Payer(service), Payer(service, service.organization("Andere GmbH"))
    mine, theirs = payer.released(), other.released()
    assert payer.ask(mine, theirs).status_code == 404
    assert payer.ask(mine, account_id=other.account).status_code == 404
    run = payer.run(mine)
    for method, path in (("GET", ""), ("POST", "/order-file")):
        assert service.request(method, f"{RUNS}/{run['id']}{path}", other.owner.key).status_code == 404
    assert service.get(RUNS, other.owner.key).json()["data"] == []


@pytest.mark.either_engine
def test_a_run_names_its_invalid_field(service: Service) -> None:
    payer = Payer(service)
    coffee = payer.released()
    for body, field in (
        ({}, "payable_ids"),
        ({"due_by": "2026-03-09", "payable_ids": [coffee["id"]]}, "payable_ids"),
        ({"due_by": "2026-03-09", "date": "2026-03-01"}, "date"),
        ({"due_by": "2026-03-09", "date": "2028-03-01"}, "date"),
        ({"due_by": "2026-03-09", "date": "2026-03-03", "template_identifier": "SEPA_INSTANT"}, "date"),
        ({"payable_ids": []}, "payable_ids"),
    ):
        refused = payer.ask(**body)
        assert (refused.status_code, refused.json()["field"]) == (400, field), body
    assert payer.trial(coffee, date="2026-03-02", template_identifier="SEPA_INSTANT")["amount"] == 32.36


@on_postgres
def test_two_runs_at_once_do_not_take_the_same_invoice(service: Service) -> None:
    payer = Payer(service)
    coffee = payer.released()
    principal = Principal(payer.owner.id, "owner", (payer.owner.id,))
    body = NewPaymentRun(account_id=payer.account, payable_ids=[coffee["id"]])
    order = RunOrder(principal, int(payer.account), body, "127.0.0.1", {})
    banking = service.application.context.part(Banking)

    def unit(tx: Tx) -> Made:
        return runs.make(tx, order, banking, price=0, cause=NO_CALL, claim=None, actor=ACTOR)

    outcome = overlap(service.db, unit, unit)
    assert outcome.lock == "payables"
    assert outcome.first.run is not None
    assert outcome.second.run is None
    assert len(payer.payments()) == 1


@pytest.mark.either_engine
def test_what_becomes_dearer_after_today_stands_on_top(service: Service) -> None:
    payer = Payer(service)
    payer.released(without_skonto("R-8", 5000, date(2026, 3, 8)))
    payer.received()
    payer.received(credit_note("G-1", 1000))
    payer.released(of_tea("T-1"))
    payer.run(payer.released(invoice("R-9", 4000)))
    payer.received(without_skonto("R-10", 0))
    debit = COFFEE.payment._replace(means_code="59", direct_debit=DirectDebit("M-1", "DE98ZZZ09999999999"), terms=None)
    payer.received(invoice("R-11", 5000, payment=debit))

    def listed(**query: str) -> list[tuple[str, float, str]]:
        found = service.get("/v2/payables/due", payer.owner.key, params=query).json()["data"]
        return [(one["number"], one["amount"], one["pay_by"]) for one in found]

    rows = [("G-1", -10, "2026-03-16"), ("T-1", 10, "2026-03-16")]
    assert listed() == [("R-8", 50, "2026-03-08"), ("R-7", 32.36, "2026-03-09"), *rows]
    assert listed(pay_by="2026-03-09") == listed()[:2]
    [tea] = [one for one in service.get("/v2/payables/due", payer.owner.key).json()["data"] if one["number"] == "T-1"]
    assert (tea["konto"], tea["skonto"], tea["skonto_until"]) == ("700020000", 0, None)
    service.clock.advance(seconds=7 * 86400)
    assert listed() == [("R-7", 32.36, "2026-03-09"), ("R-8", 50, "2026-03-08"), *rows]
    service.clock.advance(seconds=86400)
    assert listed()[1] == ("R-7", 33.02, "2026-03-16")
