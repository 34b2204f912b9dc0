"""Payments above the organisation's limit: nothing reaches a bank before a second person has released it with a second factor."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import httpx
import pytest

from kontobahn.access import keys, sessions
from kontobahn.access.principal import Role
from kontobahn.banking.payments import releases
from kontobahn.banking.payments.bank import poll_due_payments
from kontobahn.banking.payments.store import PAYMENTS as ROWS
from tests.bank_builder import Bank, account_id, events, order
from tests.dashboard.browsing import Browser
from tests.dashboard.test_second_factor import STEP, Person
from tests.file_bank import PAYMENTS, FileBank
from tests.harness import ACTOR, Organization, Service
from tests.interleaving import on_postgres, overlap

LIMIT = "/v2/banking/payment-limit"
DAY = 86_400


class Releaser(Person):
    """Somebody with a role and an app."""

    def __init__(self, service: Service, organization: Organization, email: str, role: Role = "member") -> None:
        super().__init__(service, organization, email)
        service.db.write_now(lambda tx: tx.run("UPDATE users SET role = ? WHERE id = ?", role, self.user.id))
        self.browser = Browser(service)
        self.browser.sign_in(email)
        self.add_app()

    def act(self, path: str, data: dict[str, str] | None = None) -> httpx.Response:
        """Sends a form, with a new code when the page asks for one."""
        # A code is taken once.
        self.service.clock.advance(seconds=STEP)
        return self.browser.post(path, {**(data or {}), "_code": self.code()})

    def release(self, payment: dict[str, Any]) -> httpx.Response:
        return self.act(f"/dashboard/payments/{payment['id']}/release")


@pytest.fixture
def bank(service: Service) -> Bank:
    return Bank(service)


@pytest.fixture
def owner(service: Service, bank: Bank) -> Organization:
    owner = service.organization()
    bank.connected(owner)
    return owner


def limit_to(service: Service, owner: Organization, amount: str) -> None:
    answer = service.request("PUT", LIMIT, owner.key, json={"amount": amount})
    assert answer.status_code == 200, answer.text


def ask(service: Service, owner: Organization, **more: Any) -> httpx.Response:
    return service.post(PAYMENTS, owner.key, json=order(account_id(service, owner), **more))


def pay(service: Service, owner: Organization, **more: Any) -> dict[str, Any]:
    answer = ask(service, owner, **more)
    assert answer.status_code == 201, answer.text
    return dict(answer.json()["data"])


def shown(service: Service, owner: Organization, payment: dict[str, Any]) -> dict[str, Any]:
    return dict(service.get(f"{PAYMENTS}/{payment['id']}", owner.key).json()["data"])


def audited(service: Service, action: str) -> int:
    [(count,)] = service.db.read_now(lambda tx: tx.all("SELECT COUNT(*) FROM audit_log WHERE action = ?", action))
    return int(count)


def test_a_payment_above_the_limit_reaches_the_bank_when_a_second_person_has_released_it(
    service: Service, bank: Bank, owner: Organization
) -> None:
    limit_to(service, owner, "100.00")
    below, above = pay(service, owner, amount="100.00"), pay(service, owner, amount="100.01")
    assert (below["release"], below["payment_url"]) == (None, "https://bank.example/pay")
    assert (above["status"], above["payment_url"], above["release"]["state"]) == ("initiated", None, "waiting")
    assert above["release"]["limit"] == 100.0
    assert [call[0] for call in bank.provider.asked] == ["create_payment"], "for the one below"
    assert service.balance(owner).reserved == 6
    service.clock.advance(seconds=1800)
    service.run(poll_due_payments(service.application.context))
    assert shown(service, owner, above)["release"]["state"] == "waiting"

    karl = Releaser(service, owner, "karl@muster.example")
    page = f"/dashboard/payments/{above['id']}"
    shown_to_karl = karl.browser.get(page).text
    assert ("Release it" in shown_to_karl, "It waits for your release." in shown_to_karl) == (True, True)
    assert "waits for your release" in karl.browser.get("/dashboard").text
    asked = karl.browser.post(f"{page}/release")
    assert asked.status_code == 200
    assert "_code" in asked.text
    assert 'name="_password"' not in asked.text, "a password is not enough"
    assert shown(service, owner, above)["release"]["state"] == "waiting"
    assert karl.release(above).status_code == 303
    after = shown(service, owner, above)
    assert (after["status"], after["release"]["state"]) == ("initiated", "released")
    assert [call[0] for call in bank.provider.asked].count("create_payment") == 2
    assert "waits for your release" not in karl.browser.get("/dashboard").text
    assert audited(service, "payment.release") == 1
    statuses = [
        event["data"]["status"] for event in events(service, owner) if event["data"]["payment_id"] == above["id"]
    ]
    assert statuses == ["initiated"], "no status that the contract does not have"
    assert karl.release(above).status_code == 303
    assert [call[0] for call in bank.provider.asked].count("create_payment") == 2, "released once"


def test_the_maker_does_not_release_it_by_whatever_way(service: Service, bank: Bank, owner: Organization) -> None:
    maker = Releaser(service, owner, "erika@muster.example")
    # Before the key is used: whose it is, is remembered for a moment.
    service.db.write_now(
        lambda tx: tx.run("UPDATE api_keys SET created_by = ? WHERE organization_id = ?", maker.user.id, owner.id)
    )
    limit_to(service, owner, "100.00")
    by_key = pay(service, owner, amount="500.00")
    sent = {
        "account_id": account_id(service, owner), "creditor_name": "Papier GmbH", "creditor_iban": "DE75512108001245126199",
        "amount": "500,00", "description": "Rechnung", "template_identifier": "SEPA", "once": "eins",
    }  # fmt: skip
    made = maker.act("/dashboard/payments/new", sent)
    assert made.status_code == 303, made.text
    by_page = {"id": made.headers["location"].rpartition("/")[2]}
    for payment in (by_key, by_page):
        page = maker.browser.get(f"/dashboard/payments/{payment['id']}").text
        assert "You made this payment" in page
        assert "Release it" not in page
        maker.release(payment)
        maker.act(f"/dashboard/payments/{payment['id']}/refuse", {"reason": "nein"})
        assert shown(service, owner, payment)["release"]["state"] == "waiting"
    assert "waits for your release" not in maker.browser.get("/dashboard").text
    assert bank.provider.asked == []


@pytest.mark.parametrize("role", ["read_only", "bookkeeping"])
@pytest.mark.either_engine
def test_whoever_may_not_pay_may_not_release(service: Service, bank: Bank, owner: Organization, role: Role) -> None:
    limit_to(service, owner, "100.00")
    payment = pay(service, owner, amount="500.00")
    other = Releaser(service, owner, "otto@muster.example", role)
    assert other.release(payment).status_code == 403
    assert "waits for your release" not in other.browser.get("/dashboard").text
    stranger = Releaser(service, service.organization("Fremde GmbH"), "fremd@fremd.example", "owner")
    assert stranger.release(payment).status_code in (303, 404)
    assert shown(service, owner, payment)["release"]["state"] == "waiting"


@pytest.mark.either_engine
def test_somebody_without_a_second_factor_is_sent_to_add_one(service: Service, bank: Bank, owner: Organization) -> None:
    limit_to(service, owner, "100.00")
    payment = pay(service, owner, amount="500.00")
    service.user(owner, "paula@muster.example", "member")
    browser = Browser(service)
    browser.sign_in("paula@muster.example")
    answer = browser.post(f"/dashboard/payments/{payment['id']}/release")
    assert (answer.status_code, answer.headers["location"]) == (303, "/dashboard/profile/second-factor")
    assert shown(service, owner, payment)["release"]["state"] == "waiting"


def test_a_refused_payment_fails_with_the_reason_and_gives_its_credits_back(
    service: Service, bank: Bank, owner: Organization
) -> None:
    limit_to(service, owner, "100.00")
    payment = pay(service, owner, amount="500.00")
    karl = Releaser(service, owner, "karl@muster.example")
    page = f"/dashboard/payments/{payment['id']}"
    assert karl.act(f"{page}/refuse", {"reason": ""}).status_code == 422
    assert karl.act(f"{page}/refuse", {"reason": "Rechnung falsch"}).status_code == 303
    after = shown(service, owner, payment)
    assert (after["status"], after["release"]["state"]) == ("failed", "refused")
    assert "Rechnung falsch" in karl.browser.get(page).text
    assert (service.balance(owner).reserved, bank.provider.asked) == (0, [])
    assert audited(service, "payment.refuse") == 1
    karl.release(payment)
    assert shown(service, owner, payment)["status"] == "failed"


def test_a_payment_that_waits_can_be_cancelled_and_ends_by_itself(
    service: Service, bank: Bank, owner: Organization
) -> None:
    limit_to(service, owner, "100.00")
    cancelled, forgotten, dated = (
        pay(service, owner, amount="500.00", **more) for more in ({}, {}, {"date": "2026-04-30"})
    )
    assert service.post(f"{PAYMENTS}/{cancelled['id']}/cancel", owner.key).status_code == 200
    assert shown(service, owner, cancelled)["release"]["state"] == "withdrawn"
    service.clock.advance(seconds=15 * DAY)
    service.run(poll_due_payments(service.application.context))
    after = shown(service, owner, forgotten)
    assert (after["status"], after["release"]["state"]) == ("failed", "expired")
    assert shown(service, owner, dated)["release"]["state"] == "waiting", "until its day"
    assert (service.balance(owner).reserved, bank.provider.asked) == (3, [])


def test_a_repeated_call_makes_no_second_payment_and_goes_around_nothing(
    service: Service, bank: Bank, owner: Organization
) -> None:
    limit_to(service, owner, "100.00")
    body = order(account_id(service, owner), amount="500.00")
    answers = [service.post(PAYMENTS, owner.key, json=body, headers={"Idempotency-Key": "a"}) for _ in range(2)]
    first, second = (answer.json()["data"] for answer in answers)
    assert first == second
    assert bank.provider.asked == []
    Releaser(service, owner, "karl@muster.example").release(first)
    again = service.post(PAYMENTS, owner.key, json=body, headers={"Idempotency-Key": "a"}).json()["data"]
    assert (again["id"], again["release"]["state"]) == (first["id"], "released")
    assert [call[0] for call in bank.provider.asked].count("create_payment") == 1
    assert service.balance(owner).reserved == 3


def test_a_payment_that_waits_is_in_no_file(service: Service) -> None:
    files = FileBank(service)
    limit_to(service, files.owner, "100.00")
    free, held = files.pay(amount="10.00"), files.pay(amount="500.00")
    assert files.order_file(held).status_code == 409
    refused = service.post("/v2/banking/order-files", files.key, json={"payment_ids": [free["id"], held["id"]]})
    assert (refused.status_code, held["id"] in refused.json()["error"]) == (409, True)
    made = service.post("/v2/banking/order-files", files.key, json={"account_id": files.account_id()}).json()["data"]
    assert made["payment_ids"] == [free["id"]]
    service.clock.advance(seconds=3 * DAY)
    Releaser(service, files.owner, "karl@muster.example").release(held)
    released = files.payment(held)
    assert released["payment_url"]
    assert "<Dt>2026-03-05</Dt>" in files.order_file(released).text


# --- The limit


def test_a_key_lowers_the_limit_and_a_person_with_a_second_factor_raises_it(
    service: Service, bank: Bank, owner: Organization
) -> None:
    assert service.get(LIMIT, owner.key).json()["data"] == {"amount": None, "currency_code": "EUR", "changed_at": None}
    limit_to(service, owner, "100.00")
    limit_to(service, owner, "50.00")
    for body in ({"amount": "50.01"}, {"amount": None}):
        assert service.request("PUT", LIMIT, owner.key, json=body).status_code == 403
    admin = Releaser(service, owner, "anna@muster.example", "admin")
    assert "_code" in admin.browser.post("/dashboard/company/payment-limit", {"limit": "1000"}).text
    assert admin.act("/dashboard/company/payment-limit", {"limit": "1.000,00"}).status_code == 303
    assert service.get(LIMIT, owner.key).json()["data"]["amount"] == 1000
    assert 'value="1000.00"' in admin.browser.get("/dashboard/company").text
    assert admin.act("/dashboard/company/payment-limit", {"limit": ""}).status_code == 303
    assert service.get(LIMIT, owner.key).json()["data"]["amount"] is None
    assert audited(service, "payment_limit.change") == 4
    assert (
        Releaser(service, owner, "m@muster.example").act("/dashboard/company/payment-limit", {"limit": "1"}).status_code
        == 403
    )


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"amount": "100.00", "currency_code": "USD"}, "currency_code"),
        ({"amount": "1e3"}, "amount"),
        ({"amount": -1}, "amount"),
        ({"amount": 0}, "amount"),
        ({}, "amount"),
    ],
)
@pytest.mark.either_engine
def test_a_limit_is_an_amount_in_euros(service: Service, owner: Organization, body: dict[str, Any], field: str) -> None:
    answer = service.request("PUT", LIMIT, owner.key, json=body)
    assert (answer.status_code, answer.json()["field"]) == (400, field)
    assert service.get(LIMIT, owner.key).json()["data"]["amount"] is None


# --- Two at once


@on_postgres
def test_of_two_who_release_at_once_one_does(service: Service, bank: Bank, owner: Organization) -> None:
    limit_to(service, owner, "100.00")
    payment = pay(service, owner, amount="500.00")
    people = [Releaser(service, owner, f"{name}@muster.example") for name in ("karl", "lena")]
    principals = [
        service.db.read_now(sessions.find, service.vault.token_hash(one.browser.token), service.clock.now())[1]
        for one in people
    ]

    def deciding(which: int) -> Callable[..., Any]:
        return lambda tx: releases.release(tx, principals[which], payment["id"], ACTOR)

    outcome = overlap(service.db, deciding(0), deciding(1))
    assert outcome.lock == "banking_payment"
    assert "no longer waits" in str(outcome.second)
    [row] = service.db.read_now(ROWS.all, "id = ?", int(payment["id"]))
    assert row.released_by == people[0].user.id


@on_postgres
def test_two_who_change_the_limit_at_once_do_so_one_after_the_other(service: Service, owner: Organization) -> None:
    key = service.db.read_now(keys.authenticate, service.vault.token_hash(owner.key), service.clock.now())

    def setting(amount_minor: int) -> Callable[..., Any]:
        return lambda tx: releases.set_limit(tx, owner.id, amount_minor, ACTOR, by=key)

    outcome = overlap(service.db, setting(100_00), setting(200_00))
    assert outcome.lock == "banking_payment_limit"
    assert "only lower" in str(outcome.second), "the first is known to the second"
