"""Payments by Salt Edge: created once whatever happens to the answer, and never failed because nobody knows."""

from __future__ import annotations

from typing import Any

import pytest

from kontobahn.banking.payments.bank import poll_due_payments
from simulators.salt_edge import SaltEdge, Shapes
from tests.bank_builder import order
from tests.harness import Service
from tests.providers.salt_edge.person import GIRO, RETURN_TO, Person
from tests.sandbox_visitor import query_of

PAYMENTS = "/v2/banking/payments"
CREATE = "POST /payments/create"


def pay(person: Person, **more: Any) -> dict[str, Any]:
    accounts = person.service.get("/v2/banking/accounts", person.owner.key).json()["data"]
    [account] = [one["id"] for one in accounts if one["extra"]["iban"] == GIRO]
    answer = person.service.post(PAYMENTS, person.owner.key, json=order(account, **more))
    assert answer.status_code == 201, answer.text
    found: dict[str, Any] = answer.json()["data"]
    return found


def now(person: Person, payment: dict[str, Any]) -> tuple[str, str | None]:
    answer = person.service.get(f"{PAYMENTS}/{payment['id']}", person.owner.key)
    assert answer.status_code == 200, answer.text
    row = person.service.db.read_now(
        lambda tx: tx.one("SELECT status, error_class FROM banking_payments WHERE id = ?", int(payment["id"]))
    )
    assert row is not None
    assert row[0] == answer.json()["data"]["status"]
    return row[0], row[1]


def poll(service: Service) -> None:
    service.clock.advance(seconds=120)
    service.run(poll_due_payments(service.application.context))


@pytest.mark.parametrize("refreshed", ["whole", "bare"])
def test_a_payment_goes_through_all_its_states(person: Person, remote: SaltEdge, refreshed: Any) -> None:
    remote.shapes = Shapes(refreshed_payment=refreshed)
    person.connect(provider_code="salt_edge_musterbank_de")
    address = {"street_name": "Hauptstr.", "building_number": "7", "post_code": "10115", "town_name": "Berlin"}
    payment = pay(person, return_to=RETURN_TO, reference="RE-1", creditor_address=address, date="2026-03-05")
    [(ref, sent)] = remote.payments.items()
    assert payment["payment_url"] == sent["payment_url"]
    attributes = sent["payment_attributes"]
    assert (attributes["amount"], attributes["end_to_end_id"]) == ("12.34", payment["end_to_end_id"])
    parts = [attributes[f"creditor_{name}"] for name in ("street_name", "building_number", "post_code", "town")]
    assert (parts, attributes["date"]) == (["Hauptstr.", "7", "10115", "Berlin"], "2026-03-05")
    assert "creditor_address" not in attributes
    # The payer comes back to our page, and from there to the application.
    answer = person.come_back(sent["return_to"])
    assert (answer.headers["location"].startswith(RETURN_TO), query_of(answer)["payment_id"]) == (True, payment["id"])
    for status in ("initiated", "initiated_info_required", "authorizing", "authorized", "executed"):
        remote.pay(ref, status, "ACCP")
    # In any order and more than once, it ends where the bank is.
    assert set(remote.deliver(times=2, backwards=True)) == {200}
    assert now(person, payment)[0] == "executed"
    remote.pay(ref, "settled", "ACSC")
    # By asking, before the callback comes, and by the callback.
    assert now(person, payment) == ("settled", None)
    assert remote.deliver() == [200]
    assert person.service.balance(person.owner).spent == 3
    assert remote.faults == []


@pytest.mark.parametrize("broken", ["lost", "nonsense"])
@pytest.mark.parametrize("tells_page", [True, False])
def test_a_payment_whose_answer_was_lost_is_found_and_never_made_again(
    person: Person, remote: SaltEdge, broken: Any, tells_page: bool
) -> None:
    person.connect()
    remote.shapes.payments_tell_page = tells_page
    other = pay(person)
    remote.breaks = [(CREATE, broken)]
    payment = pay(person)
    assert payment["payment_url"] is None
    remote.pay(list(remote.payments)[-1], "executed")
    # Its news come before we know that it is ours.
    remote.deliver()
    poll(person.service)
    assert now(person, payment)[0] == "executed"
    assert now(person, other)[0] == "initiated"
    assert len(remote.payments) == 2


@pytest.mark.parametrize("broken", ["not done", "500"])
def test_a_payment_that_nobody_knows_of_stays_open_until_its_debit(
    person: Person, remote: SaltEdge, broken: Any
) -> None:
    connection = person.connect()
    remote.breaks = [(CREATE, broken)]
    payment = pay(person)
    for _ in range(5):
        poll(person.service)
    assert now(person, payment) == ("initiated", None)
    assert remote.payments == {}
    extra = {"end_to_end_id": payment["end_to_end_id"]}
    remote.book(connection, connection.accounts[0]["id"], "-12.34", "2026-03-02", "Rechnung 4711", extra=extra)
    remote.tell("success", connection, stage="finish")
    assert remote.deliver() == [200]
    assert now(person, payment)[0] == "settled"


def test_what_was_certainly_not_made_has_failed(person: Person, remote: SaltEdge) -> None:
    connection = person.connect()
    remote.breaks, remote.retry_after = [(CREATE, "429")], "30"
    assert now(person, pay(person)) == ("failed", "RateLimitExceeded")
    # While we are to wait, nothing is sent.
    assert now(person, pay(person)) == ("failed", "ProviderUnavailable")
    person.service.clock.advance(seconds=31)
    remote.providers[0]["payment_templates"] = []
    assert now(person, pay(person)) == ("failed", "PaymentTemplateNotSupported")
    connection.accounts.clear()
    remote.providers[0]["payment_templates"] = ["SEPA"]
    assert now(person, pay(person)) == ("failed", "AccountNotFound")
    remote.breaks = [("GET /connections/.*", "500")] * 4
    assert now(person, pay(person)) == ("failed", "ProviderUnavailable")
    assert remote.payments == {}
    assert person.service.balance(person.owner).reserved == 0


def test_a_failure_that_may_be_none_leaves_it_open(person: Person, remote: SaltEdge) -> None:
    person.connect()
    payment = pay(person)
    [ref] = remote.payments
    for unknown in ("PaymentStatusUnknown", "PaymentInitiationTimeout", "ExecutionTimeout"):
        remote.pay(ref, "failed", "XXXX", unknown)
        assert remote.deliver() == [200]
        assert now(person, payment)[0] == "initiated"
    path = f"{PAYMENTS}/{payment['id']}/cancel"
    assert "cancels no payments" in person.service.post(path, person.owner.key).text
    remote.pay(ref, "failed", "RJCT", "PaymentFailed")
    assert remote.deliver() == [200]
    assert now(person, payment) == ("failed", "PaymentFailed")
