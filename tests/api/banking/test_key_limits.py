"""Limits in euros on a key: by payment and by day, exact to the cent, and held when calls come at once."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest

from kontobahn.access import keys
from kontobahn.access.principal import Limits
from kontobahn.banking.provider import ProviderRefused
from tests.bank_builder import Bank, account_id, order
from tests.file_bank import FileBank
from tests.harness import ACTOR, Organization, Service

PAYMENTS = "/v2/banking/payments"


class Payer:
    """An organisation with an account, and a key with limits."""

    def __init__(self, service: Service, payment: int | None, daily: int | None) -> None:
        self.service, self.bank = service, Bank(service)
        self.owner: Organization = service.organization()
        self.bank.connected(self.owner)
        self.account = account_id(service, self.owner)
        self.key = service.db.write_now(
            keys.create,
            service.vault,
            self.owner.id,
            "payer",
            ACTOR,
            scopes=("payments",),
            limits=Limits(payment, daily),
        )

    def pay(self, amount: str, key: str | None = None, **headers: str) -> httpx.Response:
        body = order(self.account, amount=amount)
        return self.service.post(PAYMENTS, key or self.key.secret, json=body, headers=headers)

    def rotate(self) -> str:
        rotated = self.service.db.write_now(
            keys.rotate, self.service.vault, self.owner.id, self.key.key.id, ACTOR, overlap_seconds=3600
        )
        return rotated.secret


def refusal(answer: httpx.Response) -> dict[str, Any]:
    assert answer.status_code == 403, answer.text
    body: dict[str, Any] = answer.json()
    assert body["field"] == "amount"
    return body


def test_one_payment_may_reach_its_limit_and_not_exceed_it(service: Service) -> None:
    payer = Payer(service, 100_00, None)
    assert payer.pay("100.00").status_code == 201
    assert payer.pay("100.00").status_code == 201
    body = refusal(payer.pay("100.01"))
    assert (body["limit"], body["limit_amount"]) == ("payment", "100.00")
    assert "100.00 EUR by one payment" in body["error"]
    # Others of the organisation are not limited, and a refusal reserves nothing.
    assert payer.pay("100.01", payer.owner.key).status_code == 201
    assert service.balance(payer.owner).reserved == 9


def test_a_day_has_its_limit_and_what_failed_is_given_back(service: Service) -> None:
    payer = Payer(service, None, 100_00)
    first = payer.pay("60.00").json()["data"]
    body = refusal(payer.pay("40.01", **{"idempotency-key": "a"}))
    assert (body["limit"], body["limit_amount"], body["left"]) == ("daily", "100.00", "40.00")
    assert "40.00 EUR are left today" in body["error"]
    assert payer.pay("5.00", payer.owner.key).status_code == 201, "other keys are not counted"
    assert payer.pay("40.00").status_code == 201
    assert refusal(payer.pay("0.01"))["left"] == "0.00"

    cancelled = service.post(f"{PAYMENTS}/{first['id']}/cancel", payer.key.secret)
    assert cancelled.json()["data"]["status"] == "failed"
    payer.bank.provider.creation = ProviderRefused("x", "no", raw_status="RJCT")
    assert payer.pay("60.00").json()["data"]["status"] == "rejected"
    payer.bank.provider.creation = None
    # Refused before, possible now: the refusal was not kept under its idempotency key.
    assert payer.pay("40.01", **{"idempotency-key": "a"}).status_code == 201
    assert refusal(payer.pay("20.00"))["left"] == "19.99"

    service.clock.advance(seconds=14 * 3600 - 1)  # 23:59:59 in Berlin
    assert refusal(payer.pay("20.00"))["left"] == "19.99"
    service.clock.advance(seconds=1)
    assert payer.pay("100.00").status_code == 201


def test_an_order_that_was_fetched_counts_whatever_becomes_of_it(service: Service) -> None:
    bank = FileBank(service)
    key = service.db.write_now(
        keys.create, service.vault, bank.owner.id, "payer", ACTOR, scopes=("payments",), limits=Limits(None, 100_00)
    ).secret

    def pay(amount: str) -> httpx.Response:
        return service.post(PAYMENTS, key, json=order(bank.account_id(), amount=amount))

    def cancel(payment: str) -> None:
        assert service.post(f"{PAYMENTS}/{payment}/cancel", key).json()["data"]["status"] == "failed"

    untouched, alone, in_file = (pay("30.00").json()["data"]["id"] for _ in range(3))
    assert service.get(f"{PAYMENTS}/{alone}/order", key).status_code == 200
    made = service.post("/v2/banking/order-files", key, json={"payment_ids": [in_file]}).json()["data"]["id"]
    assert service.get(f"/v2/banking/order-files/{made}/file", key).status_code == 200
    assert service.request("DELETE", f"/v2/banking/order-files/{made}", key).status_code == 200
    for payment in (untouched, alone, in_file):
        cancel(payment)
    assert refusal(pay("40.01"))["left"] == "40.00"
    assert pay("40.00").status_code == 201


def test_a_rotated_key_and_its_successor_share_the_day(service: Service) -> None:
    payer = Payer(service, None, 100_00)
    assert payer.pay("60.00").status_code == 201
    successor = payer.rotate()
    service.forget_callers()
    assert refusal(payer.pay("50.00", successor))["left"] == "40.00"
    assert payer.pay("40.00", successor).status_code == 201
    assert refusal(payer.pay("0.01"))["left"] == "0.00"


@pytest.mark.parametrize("calls", [8])
def test_payments_at_once_do_not_exceed_the_day_together(service: Service, calls: int) -> None:
    payer = Payer(service, None, 30_00)
    with ThreadPoolExecutor(calls) as threads:
        answers = list(threads.map(lambda _: payer.pay("10.00"), range(calls)))
    assert sorted(answer.status_code for answer in answers) == [201] * 3 + [403] * 5
