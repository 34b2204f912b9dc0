"""Payments that are not to happen: cancelled while it is not too late, or expired unfetched; credits go back once."""

from __future__ import annotations

import pytest

from kontobahn.access import audit
from kontobahn.banking.payments.bank import poll_due_payments
from kontobahn.banking.payments.store import apply
from kontobahn.banking.provider import CANCELLED, PaymentReport, ProviderDown, ProviderRefused
from kontobahn.clock import DAY
from tests.api.banking.test_payments import PAYMENTS, bank, owner, pay, report, status
from tests.bank_builder import Bank
from tests.file_bank import FileBank
from tests.harness import Organization, Service
from tests.sandbox_visitor import Visitor, words
from tests.statement_builder import pain002

__all__ = ["bank", "owner"]
DAY_SECONDS = DAY // 1_000_000


@pytest.fixture
def files(service: Service) -> FileBank:
    return FileBank(service)


def cancel(service: Service, key: str, payment: dict[str, str]) -> tuple[int, str]:
    answer = service.post(f"{PAYMENTS}/{payment['id']}/cancel", key)
    body = answer.json()
    return answer.status_code, body["data"]["status"] if answer.status_code == 200 else body["error"]


def test_an_order_file_is_cancelled_and_its_credits_come_back(service: Service, files: FileBank) -> None:
    payment = files.pay()
    assert service.balance(files.owner).reserved == 3
    for _ in range(2):
        assert cancel(service, files.key, payment) == (200, "failed")
    assert (service.balance(files.owner).reserved, service.balance(files.owner).available) == (0, 100)
    assert files.history(payment)[-1] == ("cancellation", "failed", "moved")
    assert files.order_file(payment).status_code == 409
    assert "Der Auftrag wurde abgebrochen" in words(service.http.get(payment["payment_url"]))
    assert service.http.get(f"{payment['payment_url']}/file").status_code == 303
    [entry] = [row for row in service.db.read_now(audit.entries, files.owner.id) if row.action == "payment.cancel"]
    assert entry.subject == payment["id"]


def test_the_payer_cancels_on_the_page(service: Service, files: FileBank) -> None:
    payment = files.pay()
    service.http.post(payment["payment_url"], data={"action": "nothing"})
    assert files.payment(payment)["status"] == "initiated"
    back = service.http.post(payment["payment_url"], data={"action": "cancel"})
    assert (back.status_code, service.base_url + back.headers["location"]) == (303, payment["payment_url"])
    assert files.payment(payment)["status"] == "failed"
    assert service.http.post(payment["payment_url"], data={"action": "cancel"}).status_code == 303
    assert service.http.post(payment["payment_url"] + "x", data={"action": "cancel"}).status_code == 404


@pytest.mark.parametrize(("code", "expected"), [("ACTC", 200), ("ACSP", 409), ("ACSC", 409), ("RJCT", 409)])
@pytest.mark.either_engine
def test_what_the_bank_carries_out_cannot_be_cancelled(
    service: Service, files: FileBank, code: str, expected: int
) -> None:
    payment = files.pay()
    files.take(pain002((payment["end_to_end_id"], code, ""), message_id=payment["end_to_end_id"]))
    before = files.payment(payment)["status"]
    assert cancel(service, files.key, payment)[0] == expected
    assert files.payment(payment)["status"] == ("failed" if expected == 200 else before)


def test_a_settled_one_stays_settled(service: Service, files: FileBank) -> None:
    payment = files.pay()
    files.book_debit(payment)
    assert cancel(service, files.key, payment)[0] == 409
    assert service.balance(files.owner).spent == 3


def test_a_debit_after_the_cancellation_is_a_contradiction(service: Service, files: FileBank) -> None:
    payment = files.pay()
    cancel(service, files.key, payment)
    files.book_debit(payment)
    assert files.payment(payment)["status"] == "failed"
    assert files.history(payment)[-1] == ("booked debit", "settled", "contradicts")
    actions = [row.action for row in service.db.read_now(audit.entries, files.owner.id)]
    assert "payment.contradiction" in actions
    assert service.balance(files.owner).spent == 0


@pytest.mark.either_engine
def test_an_order_that_nobody_fetched_expires_with_its_credits(service: Service, files: FileBank) -> None:
    payment = files.pay()
    service.clock.advance(seconds=30 * DAY_SECONDS)
    service.run(poll_due_payments(service.application.context))
    assert files.payment(payment)["status"] == "initiated"
    service.clock.advance(seconds=2 * DAY_SECONDS)
    service.run(poll_due_payments(service.application.context))
    assert status(service, files.owner, payment) == "failed"
    assert files.history(payment)[-1] == ("time", "failed", "moved")
    assert service.balance(files.owner).available == 100
    assert files.order_file(payment).status_code == 409


def test_an_order_that_was_fetched_does_not_expire(service: Service, files: FileBank) -> None:
    by_call, by_page, dated = files.pay(), files.pay(), files.pay(date="2026-06-01")
    files.order_file(by_call)
    service.http.get(f"{by_page['payment_url']}/file")
    service.clock.advance(seconds=60 * DAY_SECONDS)
    service.run(poll_due_payments(service.application.context))
    assert {status(service, files.owner, one) for one in (by_call, by_page, dated)} == {"initiated"}
    assert "payment_url" not in files.payment(by_call)
    assert files.payment(dated)["payment_url"] == dated["payment_url"]
    files.book_debit(by_call)
    assert status(service, files.owner, by_call) == "settled"
    assert cancel(service, files.key, by_page) == (200, "failed")


# --- At a bank that is reached


def test_the_provider_has_the_last_word(service: Service, bank: Bank, owner: Organization) -> None:
    payment = pay(service, owner).json()["data"]
    bank.provider.cancellation = ProviderRefused("PaymentAlreadyAuthorized", "The payer has authorised it")
    assert cancel(service, owner.key, payment) == (
        409,
        "This payment cannot be cancelled: The payer has authorised it.",
    )
    bank.provider.cancellation = ProviderDown("timed out")
    assert cancel(service, owner.key, payment)[0] == 503
    assert status(service, owner, payment) == "initiated"
    assert service.balance(owner).reserved == 3


def test_what_happened_meanwhile_is_seen_under_the_lock(service: Service, bank: Bank, owner: Organization) -> None:
    payment = pay(service, owner).json()["data"]
    agree = bank.provider.cancel_payment

    async def executed_first(provider_ref: str) -> object:
        answered = await agree(provider_ref)
        await service.application.db.write(apply, owner.id, int(payment["id"]), PaymentReport("processing"), "webhook")
        return answered

    bank.provider.cancel_payment = executed_first  # type: ignore[method-assign,assignment]
    assert cancel(service, owner.key, payment)[0] == 409
    assert status(service, owner, payment) == "processing"


def test_what_is_not_known_to_be_at_the_bank_is_looked_for_first(
    service: Service, bank: Bank, owner: Organization
) -> None:
    bank.provider.creation = bank.provider.found = ProviderDown("timed out")
    payment = pay(service, owner).json()["data"]
    answer = cancel(service, owner.key, payment)
    assert (answer[0], "not known yet" in answer[1]) == (409, True)


def test_a_payment_under_way_is_not_asked_for(service: Service, bank: Bank, owner: Organization) -> None:
    payment = pay(service, owner).json()["data"]
    report(bank, payment, "processing", "ACSP")
    assert cancel(service, owner.key, payment)[0] == 409
    assert "cancel_payment" not in [call[0] for call in bank.provider.asked]


def test_the_sandbox_bank_cancels_before_the_payer_has_authorised(service: Service) -> None:
    owner, visitor = service.organization(), Visitor(service)
    visitor.connect(owner)
    first, second = visitor.order(owner), visitor.order(owner)
    assert cancel(service, owner.key, first) == (200, "failed")
    visitor.deliver()
    visitor.authorise(second)
    assert cancel(service, owner.key, second)[0] == 409
    assert CANCELLED in service.get(f"{PAYMENTS}/{first['id']}/history", owner.key).text
