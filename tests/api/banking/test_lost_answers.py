"""A creation without an answer: the payment is looked for, never made twice, and its address is found again."""

from __future__ import annotations

from kontobahn.banking.payments.poll import poll_due_payments
from kontobahn.banking.provider import PaymentReport, PaymentStart, ProviderDown
from kontobahn.clock import HOUR
from tests.api.banking.test_payments import PAYMENTS, bank, owner, pay, status
from tests.bank_builder import Bank, account_id, order
from tests.harness import START, Organization, Service

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
