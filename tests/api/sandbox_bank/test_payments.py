"""Payments at the sandbox bank: authorised on its page, then what its table of plans says, by creditor name and by amount."""

from __future__ import annotations

from typing import Any

import pytest

from kontobahn.bank_providers.sandbox import payments as sandbox_payments
from kontobahn.bank_providers.sandbox.rules import PLANS, amount_of, choose_plan
from kontobahn.banking.payments.bank import poll_due_payments
from kontobahn.money import amount_text
from tests.harness import Organization, Service
from tests.sandbox_visitor import Visitor, events, query_of, words

one_engine = pytest.mark.parametrize("engine", ["sqlite"], indirect=True)


@pytest.fixture
def owner(service: Service, visitor: Visitor) -> Organization:
    owner = service.organization()
    visitor.connect(owner)
    return owner


def statuses(service: Service, owner: Organization, payment: dict[str, Any]) -> list[str]:
    """Returns the statuses that events reported of a payment, in order."""
    return [data["status"] for _, data in events(service, owner) if data.get("payment_id") == payment["id"]]


def reserved(service: Service, owner: Organization) -> int:
    return service.balance(owner).reserved


def test_a_payment_is_authorised_on_the_page_and_settled_by_the_bank(
    service: Service, visitor: Visitor, owner: Organization
) -> None:
    before = visitor.accounts(owner)[0]["balance"]
    payment = visitor.order(owner, amount="1234.56", return_to="https://app.muster.example/bezahlt")
    url = payment["payment_url"]
    assert payment["status"] == "initiated"
    page = words(visitor.browser.get(url))
    assert all(text in page for text in ("1.234,56 EUR", "Papier GmbH", "Rechnung 4711", "DE75 5121"))
    visitor.sign_in(url)
    assert visitor.payment(owner, payment)["status"] == "authorizing"
    visitor.post(url, "tan", tan="123456")
    back = visitor.post(url, "confirm")
    assert query_of(back) == {"payment_id": payment["id"]}
    assert visitor.payment(owner, payment)["status"] == "processing"
    visitor.later(seconds=5)
    settled = visitor.payment(owner, payment)
    assert (settled["status"], settled["raw_provider_status"]) == ("settled", "ACCC")
    assert statuses(service, owner, payment) == ["initiated", "authorizing", "processing", "settled"]
    assert reserved(service, owner) == 0

    visitor.refresh(owner, payment["connection_id"])
    debit = visitor.transactions(owner, payment["connection_id"], sort="id")[-1]
    assert (debit["amount"], debit["payment_id"]) == (-1234.56, payment["id"])
    assert debit["extra"]["end_to_end_id"] == payment["end_to_end_id"]
    assert visitor.accounts(owner)[0]["balance"] == pytest.approx(before - 1234.56)


EXPECTED = {
    "at_once": ["initiated", "authorizing", "settled"],
    "tan": ["initiated", "initiated_info_required", "authorizing", "processing", "settled"],
    "rejected": ["initiated", "authorizing", "rejected"],
    "returned": ["initiated", "authorizing", "processing", "executed", "failed"],
    "executed": ["initiated", "authorizing", "processing", "executed", "settled"],
    "contradiction": ["initiated", "authorizing", "processing", "settled"],
    "repeats": ["initiated", "authorizing", "processing", "settled"],
    "disorder": ["initiated", "authorizing", "settled"],
    "unknown": ["initiated", "authorizing", "settled"],
}


def test_each_plan_by_creditor_name(service: Service, visitor: Visitor, owner: Organization) -> None:
    payments = {name: visitor.order(owner, f"Sandbox {name.replace('_', ' ')}") for name in EXPECTED}
    for payment in payments.values():
        visitor.authorise(payment)
    assert visitor.payment(owner, payments["executed"])["status"] == "processing"
    visitor.later(seconds=5)
    assert visitor.payment(owner, payments["executed"])["status"] == "executed"
    unknown = visitor.payment(owner, payments["unknown"])
    assert (unknown["status"], unknown["raw_provider_status"]) == ("authorizing", "BLCK")
    for seconds in (10, 3600, 86_400):
        visitor.later(seconds=seconds)
    service.clock.advance(seconds=60)
    visitor.deliver()
    assert {name: statuses(service, owner, payment) for name, payment in payments.items()} == EXPECTED
    assert reserved(service, owner) == 0
    progress = [data for name, data in events(service, owner) if name == "payment_progress"]
    assert [data["payment_id"] for data in progress] == [payments["tan"]["id"]]
    [contradiction] = service.db.read_now(
        lambda tx: tx.all("SELECT subject FROM audit_log WHERE action = 'payment.contradiction'")
    )
    assert contradiction[0] == payments["contradiction"]["id"]


@one_engine
def test_an_order_that_the_bank_refuses_at_once(service: Service, visitor: Visitor, owner: Organization) -> None:
    payment = visitor.order(owner, amount=amount_text(amount_of("refused")))
    assert (payment["status"], payment["raw_provider_status"], payment["payment_url"]) == ("rejected", "RJCT", None)
    assert reserved(service, owner) == 0


def test_a_creation_without_an_answer_is_found_or_given_up_and_never_repeated(
    service: Service, visitor: Visitor, owner: Organization
) -> None:
    there, lost = visitor.order(owner, "Sandbox lost answer"), visitor.order(owner, "Sandbox lost order")
    assert (there["status"], there["payment_url"], lost["payment_url"]) == ("initiated", None, None)
    assert reserved(service, owner) == 6
    service.clock.advance(seconds=3 * 60)
    service.run(poll_due_payments(service.application.context))
    assert [visitor.payment(owner, one)["status"] for one in (there, lost)] == ["initiated", "initiated"]
    service.clock.advance(seconds=6 * 60)
    service.run(poll_due_payments(service.application.context))
    given_up = visitor.payment(owner, lost)
    assert (given_up["status"], visitor.reason(owner, lost)) == ("failed", "PaymentInitiationTimeout")
    assert reserved(service, owner) == 3
    row = service.db.read_now(sandbox_payments.find_by_any_id, there["id"])
    assert row is not None
    visitor.authorise({"payment_url": f"/sandbox/pay/{row.token}"})
    visitor.later(seconds=5)
    assert visitor.payment(owner, there)["status"] == "settled"


@one_engine
def test_a_dated_transfer_waits_for_its_day(service: Service, visitor: Visitor, owner: Organization) -> None:
    payment = visitor.order(owner, date="2026-03-05")
    visitor.authorise(payment)
    assert visitor.payment(owner, payment)["status"] == "authorized"
    visitor.later(seconds=2 * 86_400)
    assert visitor.payment(owner, payment)["status"] == "authorized"
    visitor.later(seconds=86_400)
    assert visitor.payment(owner, payment)["status"] == "settled"


@one_engine
def test_sepa_instant_settles_in_one_step(service: Service, visitor: Visitor, owner: Organization) -> None:
    payment = visitor.order(owner, template_identifier="SEPA_INSTANT")
    visitor.authorise(payment)
    assert statuses(service, owner, payment) == ["initiated", "authorizing", "settled"]


@one_engine
def test_more_than_there_is_on_the_account_is_rejected(service: Service, visitor: Visitor, owner: Organization) -> None:
    payment = visitor.order(owner, amount="999999.99")
    visitor.authorise(payment)
    rejected = visitor.payment(owner, payment)
    assert (rejected["status"], visitor.reason(owner, payment)) == ("rejected", "PaymentFailed")
    assert "nicht ausgeführt" in words(visitor.browser.get(payment["payment_url"]))


@one_engine
def test_a_payer_can_cancel_and_can_fail_to_sign_in(visitor: Visitor, owner: Organization) -> None:
    cancelled, failed = visitor.order(owner, return_to="https://app.muster.example/"), visitor.order(owner)
    back = visitor.post(cancelled["payment_url"], "cancel")
    assert query_of(back) == {"payment_id": cancelled["id"], "error_class": "Cancelled"}
    ended = visitor.payment(owner, cancelled)
    assert (ended["status"], ended["raw_provider_status"]) == ("failed", "CANC")
    for user in ("niemand", "wrong"):
        assert visitor.sign_in(failed["payment_url"], user).status_code == 422
    assert visitor.payment(owner, failed)["status"] == "initiated"
    visitor.sign_in(failed["payment_url"], "demo", "wrong")
    assert visitor.reason(owner, failed) == "InvalidCredentials"
    # What is over stays over.
    visitor.authorise(failed)
    assert visitor.payment(owner, failed)["status"] == "failed"


@one_engine
def test_the_live_status_is_the_banks(service: Service, visitor: Visitor, owner: Organization) -> None:
    payment = visitor.order(owner)
    visitor.authorise(payment)
    service.clock.advance(seconds=6)
    assert visitor.payment(owner, payment)["status"] == "processing"
    live = service.get(f"/v2/banking/payments/{payment['id']}", owner.key).json()["data"]
    assert live["status"] == "settled"
    visitor.deliver()
    assert statuses(service, owner, payment).count("settled") == 1


@one_engine
def test_a_payment_nobody_authorises_fails_when_its_page_has_run_out(
    service: Service, visitor: Visitor, owner: Organization
) -> None:
    payment = visitor.order(owner)
    service.clock.advance(seconds=2 * 3600 + 1)
    assert visitor.browser.get(payment["payment_url"]).status_code == 404
    live = service.get(f"/v2/banking/payments/{payment['id']}", owner.key).json()["data"]
    assert (live["status"], visitor.reason(owner, payment)) == ("failed", "Unfinished")


@pytest.mark.parametrize("name", PLANS)
def test_a_plan_is_chosen_by_creditor_or_amount_and_by_nothing_else(name: str) -> None:
    words = name.replace("_", " ")
    if name != "usual":
        assert choose_plan("Papier GmbH", amount_of(name), "SEPA").name == name
    assert choose_plan(f"SANDBOX  {words.upper()}", 100, "SEPA").name == name
    assert choose_plan(words, 100, "SEPA").name == "usual"
    assert choose_plan(f"Sandbox {words} GmbH", 100, "SEPA_INSTANT").name == "at_once"
