"""A creation without an answer: the payment is looked for, never made twice, and its address is found again."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from kontobahn.access import keys
from kontobahn.banking.payments import store
from kontobahn.banking.payments.bank import poll_due_payments, send_to_bank
from kontobahn.banking.provider import CANNOT_BE_KNOWN, PaymentReport, PaymentStart, ProviderDown
from kontobahn.clock import HOUR
from kontobahn.errors import DatabaseUnavailable
from tests.api.banking.test_payments import PAYMENTS, bank, owner, pay, status
from tests.bank_builder import Bank, account_id, order
from tests.harness import ACTOR, START, Organization, Service

__all__ = ["bank", "owner"]


def test_a_creation_without_an_answer_is_neither_repeated_nor_failed(
    service: Service, bank: Bank, owner: Organization
) -> None:
    bank.provider.creation = ProviderDown("timed out")
    payment = pay(service, owner).json()["data"]
    assert (payment["status"], payment["payment_url"]) == ("initiated", None)
    assert service.balance(owner).reserved == 3
    # The bank has it after all.
    bank.provider.found = PaymentStart(
        "found", "https://bank.example/pay/2", START + HOUR, PaymentReport("authorizing")
    )
    service.clock.advance(seconds=120)
    service.run(poll_due_payments(service.application.context))
    assert status(service, owner, payment) == "authorizing"
    assert [call[0] for call in bank.provider.asked] == ["create_payment", "find_payment"]


def test_what_the_bank_never_got_fails_after_it_was_looked_for(
    service: Service, bank: Bank, owner: Organization
) -> None:
    bank.provider.creation = ProviderDown("timed out")
    payment = pay(service, owner).json()["data"]
    service.run(poll_due_payments(service.application.context))
    service.clock.advance(seconds=90)
    service.run(poll_due_payments(service.application.context))
    assert status(service, owner, payment) == "initiated"
    service.clock.advance(seconds=600)
    service.run(poll_due_payments(service.application.context))
    assert status(service, owner, payment) == "failed"
    assert service.balance(owner).available == 100


def test_after_a_lost_answer_the_address_is_found_again(service: Service, bank: Bank, owner: Organization) -> None:
    key = {"idempotency-key": "rent-march"}
    made = pay(service, owner, headers=key).json()["data"]
    read = service.get(f"{PAYMENTS}/{made['id']}", owner.key).json()["data"]
    assert (read["payment_url"], read["expires_at"]) == (made["payment_url"], made["expires_at"])
    assert pay(service, owner, headers=key).json()["data"] == made
    service.clock.advance(seconds=HOUR // 1_000_000)
    later = service.get(f"{PAYMENTS}/{made['id']}", owner.key).json()["data"]
    assert not {"payment_url", "expires_at"} & set(later)


def test_a_repeat_looks_again_for_what_the_bank_did_not_answer(
    service: Service, bank: Bank, owner: Organization
) -> None:
    key = {"idempotency-key": "rent-march"}
    bank.provider.creation = bank.provider.found = ProviderDown("timed out")
    first = pay(service, owner, headers=key).json()["data"]
    # The bank is still silent: the same payment, with nothing new to say.
    assert pay(service, owner, headers=key).json()["data"] == first
    assert first["payment_url"] is None
    other = service.post(PAYMENTS, owner.key, json=order(account_id(service, owner), amount=1), headers=key)
    assert other.status_code == 422
    bank.provider.found = PaymentStart("found", "https://bank.example/pay/2", START + HOUR, PaymentReport("initiated"))
    found = pay(service, owner, headers=key)
    assert (found.status_code, found.json()["data"]["id"]) == (201, first["id"])
    assert found.json()["data"]["payment_url"] == "https://bank.example/pay/2"
    assert pay(service, owner, headers=key).json() == found.json()
    assert [call[0] for call in bank.provider.asked] == ["create_payment", "find_payment", "find_payment"]
    assert service.balance(owner).reserved == 3


@contextmanager
def failing(service: Service, *names: str) -> Iterator[None]:
    """The database cannot be reached from these units of work on: they have no effect."""
    write, context = service.db.write, service.application.context

    async def unreliable(fn: Any, *args: Any, **kwargs: Any) -> Any:
        if fn.__name__ in names:
            raise DatabaseUnavailable("the network is down")
        return await write(fn, *args, **kwargs)

    context.db.write = unreliable  # type: ignore[method-assign]
    try:
        yield
    finally:
        context.db.write = write  # type: ignore[method-assign]


@pytest.mark.parametrize("names", [("apply_start",), ("apply_start", "release", "complete", "abandon")])
def test_a_database_that_fails_behind_the_order_leaves_one_payment_under_its_key(
    service: Service, bank: Bank, owner: Organization, names: tuple[str, ...]
) -> None:
    key = {"idempotency-key": "rent-march"}
    with failing(service, *names):
        made = pay(service, owner, headers=key)
    # It was written and the bank was asked: a caller who is told of a failure would pay again.
    assert made.status_code == 201, made.text
    assert made.json()["data"]["status"] == "initiated"
    service.clock.advance(seconds=service.settings.call_hold_seconds)
    other = service.post(PAYMENTS, owner.key, json=order(account_id(service, owner), amount=1), headers=key)
    assert other.status_code == 422
    bank.provider.found = PaymentStart("found", "https://bank.example/pay/2", START + HOUR, PaymentReport("initiated"))
    again = pay(service, owner, headers=key).json()["data"]
    assert (again["id"], again["payment_url"]) == (made.json()["data"]["id"], "https://bank.example/pay/2")
    assert [call[0] for call in bank.provider.asked] == ["create_payment", "find_payment"]
    assert service.balance(owner).reserved == 3


def test_what_certainly_never_left_is_sent_by_a_repeat_and_by_no_other(
    service: Service, bank: Bank, owner: Organization
) -> None:
    key = {"idempotency-key": "rent-march"}
    # As if the process had died just before it sent the order.
    with failing(service, "claim_sending"):
        made = pay(service, owner, headers=key).json()["data"]
    row = service.db.read_now(store.get, owner.id, int(made["id"]))
    assert bank.provider.asked == []
    bank.provider.creation = ProviderDown("timed out")
    bank.provider.found = CANNOT_BE_KNOWN
    for _ in range(2):
        assert pay(service, owner, headers=key).json()["data"]["id"] == made["id"]
    service.clock.advance(seconds=600)
    service.run(poll_due_payments(service.application.context))
    # Now it may be at the bank: neither sent again nor failed, not even by a process that was not dead, only very slow.
    service.run(send_to_bank(service.application.context, row))
    assert [call[0] for call in bank.provider.asked] == ["create_payment", "find_payment", "find_payment"]
    assert status(service, owner, made) == "initiated"


def test_what_certainly_never_left_fails_and_is_not_sent_any_more(
    service: Service, bank: Bank, owner: Organization
) -> None:
    bank.provider.found = CANNOT_BE_KNOWN
    with failing(service, "claim_sending"):
        made = pay(service, owner).json()["data"]
    row = service.db.read_now(store.get, owner.id, int(made["id"]))
    service.clock.advance(seconds=90)
    service.run(poll_due_payments(service.application.context))
    assert (status(service, owner, made), service.balance(owner).reserved) == ("initiated", 3)
    service.clock.advance(seconds=600)
    service.run(poll_due_payments(service.application.context))
    assert status(service, owner, made) == "failed"
    assert service.balance(owner).available == 100
    # The process was not dead, only very slow.
    assert service.run(send_to_bank(service.application.context, row)).status == "failed"
    assert bank.provider.asked == []


def test_a_key_whose_claim_is_gone_still_answers_for_its_payment_only(
    service: Service, bank: Bank, owner: Organization
) -> None:
    key = {"idempotency-key": "rent-march"}
    made = pay(service, owner, headers=key).json()["data"]
    service.db.write_now(lambda tx: tx.run("DELETE FROM idempotency_keys"))
    account = account_id(service, owner)
    for changed in ({"amount": 1}, {"description": "Rechnung 4712"}):
        assert service.post(PAYMENTS, owner.key, json=order(account, **changed), headers=key).status_code == 422
    assert pay(service, owner, headers=key).json()["data"]["id"] == made["id"]
    assert len(service.get(PAYMENTS, owner.key).json()["data"]) == 1


def test_a_503_promises_nothing_and_keeps_the_key_for_its_call(service: Service, owner: Organization) -> None:
    key, path = {"idempotency-key": "k"}, "/v2/auth/invitations"
    with failing(service, "_commit"):
        refused = service.post(path, owner.key, json={"email": "a@muster.example"}, headers=key)
    assert refused.status_code == 503
    assert "written" not in refused.text
    assert "Idempotency-Key" in refused.json()["message"]
    assert service.post(path, owner.key, json={"email": "b@muster.example"}, headers=key).status_code == 422
    assert service.post(path, owner.key, json={"email": "a@muster.example"}, headers=key).status_code == 201


def test_a_payment_for_a_client_is_not_shown_to_a_sibling_key_without_that_client(
    service: Service, bank: Bank, owner: Organization
) -> None:
    agency, other = service.agency(owner), service.organization("Andere")
    sibling = service.db.write_now(keys.create, service.vault, agency.id, "b", ACTOR, clients=(other.id,)).secret
    narrow = service.db.write_now(keys.create, service.vault, agency.id, "c", ACTOR).secret
    body, headers = order(account_id(service, owner)), {"idempotency-key": "k"}
    made = service.post(PAYMENTS, agency.key, json=body, headers=headers)
    assert made.status_code == 201, made.text
    for claims in ("kept", "gone"):
        if claims == "gone":
            service.db.write_now(lambda tx: tx.run("DELETE FROM idempotency_keys"))
        for key in (sibling, narrow):
            refused = service.post(PAYMENTS, key, json=body, headers=headers)
            assert refused.status_code == 422, refused.text
            assert "creditor_iban" not in refused.text
    assert (
        service.post(PAYMENTS, agency.key, json=body, headers=headers).json()["data"]["id"] == made.json()["data"]["id"]
    )


@pytest.mark.parametrize("died", [False, True])
def test_a_key_is_free_for_another_payment_after_its_time_and_not_before(
    service: Service, bank: Bank, owner: Organization, died: bool
) -> None:
    """`died`: the first call wrote the payment and ended before it could store its answer, so only the payment knows the key."""
    key, days = {"idempotency-key": "rent-march"}, service.settings.idempotency_money_days
    made = pay(service, owner, headers=key).json()["data"]
    account = account_id(service, owner)

    def again(amount: str) -> Any:
        if died:
            service.db.write_now(lambda tx: tx.run("DELETE FROM idempotency_keys"))
        return service.post(PAYMENTS, owner.key, json=order(account, amount=amount), headers=key)

    service.clock.advance(seconds=days * 86_400 - 1)
    assert again("12.34").json()["data"]["id"] == made["id"]
    assert again("99.00").status_code == 422
    service.clock.advance(seconds=1)
    other = again("99.00")
    assert other.status_code == 201, other.text
    assert (other.json()["data"]["id"] > made["id"], other.json()["data"]["amount"]) == (True, 99)
    assert [call[0] for call in bank.provider.asked].count("create_payment") == 2
    # From now on the key stands for the later one.
    assert again("99.00").json()["data"]["id"] == other.json()["data"]["id"]
    assert again("12.34").status_code == 422


def test_a_late_answer_of_the_bank_changes_neither_reference_nor_address(
    service: Service, bank: Bank, owner: Organization
) -> None:
    bank.provider.creation = ProviderDown("timed out")
    payment = pay(service, owner).json()["data"]
    row = service.db.read_now(store.get, owner.id, int(payment["id"]))
    found = PaymentStart("found", "https://bank.example/pay/2", START + HOUR, PaymentReport("authorizing"))
    late = PaymentStart("late", "https://bank.example/pay/3", START + 9 * HOUR, PaymentReport("authorized"))
    service.db.write_now(store.apply_start, row, found, "asked")
    for told in (late, late._replace(payment_url=None, expires_at=None)):
        service.db.write_now(store.apply_start, row, told, "creation")
        now = service.db.read_now(store.get, owner.id, row.id)
        assert (now.provider_ref, now.payment_url, now.expires_at) == (
            "found", "https://bank.example/pay/2", START + HOUR,
        )  # fmt: skip
        assert now.status == "authorized", "what it says of the payment counts"
    # The first answer is about this payment alone.
    bank.provider.creation = ProviderDown("timed out")
    other = pay(service, owner).json()["data"]
    assert service.db.read_now(store.get, owner.id, int(other["id"])).provider_ref is None
