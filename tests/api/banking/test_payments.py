"""Payments: status, credits and events change together, whatever is reported by whom and in which order."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from kontobahn.api import request_log
from kontobahn.api.call import Context
from kontobahn.banking.connections import store as connections
from kontobahn.banking.payments.bank import poll_due_payments
from kontobahn.banking.provider import PaymentReport, ProviderDown, ProviderRefused
from kontobahn.banking.reports import webhooks
from kontobahn.clock import DAY, HOUR, SECOND, berlin_date
from tests.bank_builder import CREDITOR_IBAN, IBAN, Bank, account_facts, account_id, events, facts, order
from tests.harness import Organization, Service

PAYMENTS = "/v2/banking/payments"


@pytest.fixture
def bank(service: Service) -> Bank:
    return Bank(service)


@pytest.fixture
def owner(service: Service, bank: Bank) -> Organization:
    owner = service.organization()
    bank.connected(owner)
    return owner


def pay(service: Service, owner: Organization, **more: Any) -> Any:
    headers = more.pop("headers", {})
    body = order(account_id(service, owner), **more)
    return service.post(PAYMENTS, owner.key, json=body, headers=headers)


def payment_events(service: Service, owner: Organization) -> list[tuple[str, str]]:
    return [
        (event["event"], event["data"]["status"]) for event in events(service, owner) if "payment_id" in event["data"]
    ]


def report(bank: Bank, payment: dict[str, Any], *reported: Any, delivery_id: str | None = None) -> None:
    answer = bank.deliver(
        delivery_id, kind="PaymentReported", provider_ref=f"bank-{payment['end_to_end_id']}", report=list(reported)
    )
    assert answer.status_code == 200, answer.text


def status(service: Service, owner: Organization, payment: dict[str, Any]) -> str:
    [row] = [row for row in service.get(PAYMENTS, owner.key).json()["data"] if row["id"] == payment["id"]]
    return str(row["status"])


def test_a_payment_is_made_with_its_credits_reserved(service: Service, bank: Bank, owner: Organization) -> None:
    answer = pay(service, owner, custom_fields={"rechnung": 4711}, amount=12.34)
    assert answer.status_code == 201, answer.text
    payment = answer.json()["data"]
    assert payment["payment_id"] == payment["id"]
    assert payment["payment_url"] == "https://bank.example/pay"
    assert payment["expires_at"]
    assert payment["status"] == "initiated"
    assert payment["raw_provider_status"] == "RCVD"
    assert (payment["amount"], payment["currency_code"]) == (12.34, "EUR")
    assert (payment["creditor_iban"], payment["debtor_iban"]) == (CREDITOR_IBAN, IBAN)
    assert payment["custom_fields"] == {"rechnung": 4711}
    assert payment["organization_id"] == owner.id
    assert answer.headers["x-credits-charged"] == "0"
    balance = service.balance(owner)
    assert (balance.reserved, balance.spent) == (3, 0)
    [(_, asked)] = [call for call in bank.provider.asked if call[0] == "create_payment"]
    assert (asked.amount_minor, asked.creditor_iban, asked.end_to_end_id) == (
        1234,
        CREDITOR_IBAN,
        payment["end_to_end_id"],
    )


def test_the_credits_are_charged_when_it_is_settled(service: Service, bank: Bank, owner: Organization) -> None:
    payment = pay(service, owner).json()["data"]
    for reported in ("authorizing", "processing", "settled"):
        report(bank, payment, reported, "ACSC")
    balance = service.balance(owner)
    assert (balance.reserved, balance.spent) == (0, 3)
    assert payment_events(service, owner) == [
        ("payment_update", "initiated"), ("payment_update", "authorizing"), ("payment_update", "processing"),
        ("payment_update", "settled"),
    ]  # fmt: skip


def test_what_is_spent_is_found_by_call_by_key_and_by_source(service: Service, bank: Bank, owner: Organization) -> None:
    """A payment is charged days after its call: its credits are counted where the call was."""
    payment = pay(service, owner).json()["data"]
    query = {"account_id": account_id(service, owner), "quelle": "n8n"}
    assert service.get("/v2/banking/transactions", owner.key, params=query).status_code == 200
    service.run(service.application.answered.flush())
    service.clock.advance(seconds=24 * 3600)
    report(bank, payment, "settled")
    today = berlin_date(service.clock.now())

    def used(column: request_log.Column) -> dict[str, int]:
        rows = service.db.read_now(request_log.totals_by, owner.id, column, today - timedelta(days=2))
        return {row.name: row.credits for row in rows if row.credits}

    assert service.balance(owner).spent == 4
    assert used("endpoint") == {f"POST {PAYMENTS}": 3, "GET /v2/banking/transactions": 1}
    assert used("api_key_id") == {owner.key_id: 4}
    assert used("quelle") == {"API": 3, "n8n": 1}
    days = service.db.read_now(request_log.by_day, owner.id, today, 2)
    assert [day.credits for day in days] == [1, 3]


@pytest.mark.parametrize("end", ["failed", "rejected"])
def test_the_credits_are_given_back_when_it_does_not_happen(
    service: Service, bank: Bank, owner: Organization, end: str
) -> None:
    payment = pay(service, owner).json()["data"]
    report(bank, payment, "executed")
    report(bank, payment, end, "RJCT", "PaymentFailed", "Konto erloschen")
    balance = service.balance(owner)
    assert (balance.reserved, balance.spent, balance.available) == (0, 0, 100)
    assert status(service, owner, payment) == end
    history = service.get(f"{PAYMENTS}/{payment['id']}/history", owner.key).json()["data"]
    assert [(item["status"], item["source"], item["outcome"]) for item in history] == [
        ("initiated", "creation", "noted"), ("executed", "webhook", "moved"), (end, "webhook", "moved"),
    ]  # fmt: skip
    assert (history[-1]["error_class"], history[-1]["error_message"]) == ("PaymentFailed", "Konto erloschen")


def test_one_more_confirmation_is_reported_as_progress(service: Service, bank: Bank, owner: Organization) -> None:
    payment = pay(service, owner, custom_fields={"a": 1}).json()["data"]
    report(bank, payment, "initiated_info_required")
    progress = events(service, owner)[-1]
    assert progress["event"] == "payment_progress"
    assert progress["data"] == {
        "payment_id": payment["id"], "status": "initiated_info_required", "custom_fields": {"a": 1},
    }  # fmt: skip
    report(bank, payment, "authorizing")
    update = events(service, owner)[-1]
    assert update["event"] == "payment_update"
    assert update["data"] == {
        "payment_id": payment["id"], "status": "authorizing", "raw_provider_status": "RCVD", "template_identifier": "SEPA",
        "payment_attributes": {
            "amount": "12.34", "currency_code": "EUR", "description": "Rechnung 4711", "creditor_iban": CREDITOR_IBAN,
            "creditor_name": payment["creditor_name"], "debtor_iban": IBAN, "end_to_end_id": payment["end_to_end_id"],
            "customer_ip_address": "127.0.0.1",
        },
        "custom_fields": {"a": 1},
    }  # fmt: skip
    assert set(update) == {"event", "data", "received_at"}


@pytest.mark.either_engine
def test_custom_fields_are_in_events_only_if_they_were_given(service: Service, owner: Organization) -> None:
    answer = pay(service, owner)
    assert "custom_fields" not in answer.json()["data"]
    assert "custom_fields" not in events(service, owner)[-1]["data"]


def test_late_repeated_and_unknown_reports_change_nothing(service: Service, bank: Bank, owner: Organization) -> None:
    payment = pay(service, owner).json()["data"]
    report(bank, payment, "processing", "ACSP")
    before = payment_events(service, owner)
    report(bank, payment, "authorizing")
    report(bank, payment, "processing", "PDNG")
    report(bank, payment, None, "XXXX")
    assert payment_events(service, owner) == before
    [row] = service.get(PAYMENTS, owner.key).json()["data"]
    assert (row["status"], row["raw_provider_status"]) == ("processing", "XXXX")


def test_a_contradiction_does_not_move_a_final_payment(service: Service, bank: Bank, owner: Organization) -> None:
    payment = pay(service, owner).json()["data"]
    report(bank, payment, "failed")
    report(bank, payment, "settled")
    assert status(service, owner, payment) == "failed"
    assert service.balance(owner).spent == 0
    noted = service.db.read_now(
        lambda tx: tx.all(
            "SELECT action FROM audit_log WHERE organization_id = ? AND action LIKE 'payment.%'", owner.id
        )
    )
    assert noted == [("payment.contradiction",)]


def test_an_end_does_not_overtake_an_earlier_report_whose_applying_broke_off(
    service: Service, bank: Bank, owner: Organization, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The process that took the report died; the provider sends it again, gets its answer, and sends the next one."""
    payment, other = (pay(service, owner).json()["data"] for _ in range(2))

    async def dies(context: Context, provider: str, delivery_id: str, person: object) -> bool:
        await context.db.write(webhooks._claim, provider, delivery_id)
        return False

    with monkeypatch.context() as killed:
        killed.setattr(webhooks, "apply_delivery", dies)
        bank.deliver("unreadable", kind="Unheard")
        report(bank, payment, "settled", delivery_id="settled")
    service.clock.advance(seconds=1)
    report(bank, payment, "settled", delivery_id="settled")
    report(bank, payment, "failed", delivery_id="failed")
    report(bank, other, "rejected")
    assert (status(service, owner, payment), status(service, owner, other)) == ("initiated", "rejected")
    for _ in range(2):
        service.clock.advance(seconds=webhooks.ATTEMPT_TIMEOUT // SECOND)
        service.run(webhooks.apply_waiting(service.application.context))
    assert status(service, owner, payment) == "settled"
    history = service.get(f"{PAYMENTS}/{payment['id']}/history", owner.key).json()["data"]
    assert [(row["status"], row["outcome"]) for row in history[-2:]] == [
        ("settled", "moved"),
        ("failed", "contradicts"),
    ]


def test_a_delivery_is_applied_once(service: Service, bank: Bank, owner: Organization) -> None:
    payment = pay(service, owner).json()["data"]
    for _ in range(3):
        report(bank, payment, "authorizing", delivery_id="same")
    assert payment_events(service, owner)[1:] == [("payment_update", "authorizing")]


def test_an_executed_payment_is_settled_by_its_booked_debit(service: Service, bank: Bank, owner: Organization) -> None:
    payment = pay(service, owner).json()["data"]
    [row] = service.get("/v2/banking/connections", owner.key).json()["data"]
    connection = service.db.read_now(connections.get, owner.id, row["id"])
    debit = facts(-12_34, f"EREF+{payment['end_to_end_id']} SVWZ+Rechnung", end_to_end_id=payment["end_to_end_id"])
    bank.report(connection, debit._replace(status="pending"))
    report(bank, payment, "executed", "ACSC")
    assert status(service, owner, payment) == "executed"
    bank.report(connection, debit)
    assert status(service, owner, payment) == "settled"
    assert service.balance(owner).spent == 3
    [transaction] = service.get(
        "/v2/banking/transactions", owner.key, params={"account_id": payment["account_id"]}
    ).json()["data"]  # fmt: skip
    assert transaction["payment_id"] == payment["id"]


def test_a_debit_that_comes_before_executed_settles_then(service: Service, bank: Bank, owner: Organization) -> None:
    payment = pay(service, owner).json()["data"]
    [row] = service.get("/v2/banking/connections", owner.key).json()["data"]
    connection = service.db.read_now(connections.get, owner.id, row["id"])
    wrong_amount = facts(-12_33, "EREF", end_to_end_id=payment["end_to_end_id"])
    bank.report(connection, wrong_amount)
    report(bank, payment, "executed")
    assert status(service, owner, payment) == "executed"
    bank.report(connection, wrong_amount, facts(-12_34, "EREF", end_to_end_id=payment["end_to_end_id"]))
    assert status(service, owner, payment) == "settled"


@pytest.mark.either_engine
def test_a_refusal_at_creation_is_final(service: Service, bank: Bank, owner: Organization) -> None:
    bank.provider.creation = ProviderRefused("PaymentValidationError", "Limit überschritten", "RJCT")
    payment = pay(service, owner).json()["data"]
    assert payment["status"] == "rejected"
    [item] = service.get(f"{PAYMENTS}/{payment['id']}/history", owner.key).json()["data"]
    assert (item["error_class"], item["raw_provider_status"]) == ("PaymentValidationError", "RJCT")
    assert service.balance(owner).available == 100


def test_reading_one_asks_the_bank_now(service: Service, bank: Bank, owner: Organization) -> None:
    payment = pay(service, owner).json()["data"]
    bank.provider.live = PaymentReport("processing", "ACSP")
    answer = service.get(f"{PAYMENTS}/{payment['id']}", owner.key)
    assert answer.json()["data"]["status"] == "processing"
    bank.provider.live = ProviderDown("The bank does not answer.")
    assert service.get(f"{PAYMENTS}/{payment['id']}", owner.key).status_code == 503
    bank.provider.live = PaymentReport("settled", "ACCC")
    assert service.get(f"{PAYMENTS}/{payment['id']}", owner.key).json()["data"]["status"] == "settled"
    asked = len(bank.provider.asked)
    assert service.get(f"{PAYMENTS}/{payment['id']}", owner.key).status_code == 200
    assert len(bank.provider.asked) == asked


def test_a_payer_who_never_confirms(service: Service, bank: Bank, owner: Organization) -> None:
    payment = pay(service, owner).json()["data"]
    bank.provider.live = PaymentReport("authorizing")
    service.clock.advance(seconds=HOUR // 1_000_000 + 60)
    service.run(poll_due_payments(service.application.context))
    assert status(service, owner, payment) == "authorizing"
    service.clock.advance(seconds=DAY // 1_000_000)
    service.run(poll_due_payments(service.application.context))
    assert status(service, owner, payment) == "failed"
    history = service.get(f"{PAYMENTS}/{payment['id']}/history", owner.key).json()["data"]
    assert history[-1]["error_class"] == "Unfinished"
    assert service.balance(owner).available == 100


def test_a_repeat_with_the_same_key_is_the_same_payment(service: Service, bank: Bank, owner: Organization) -> None:
    first = pay(service, owner, headers={"idempotency-key": "k1"})
    again = pay(service, owner, headers={"idempotency-key": "k1"})
    assert again.json() == first.json()
    assert again.headers["idempotent-replayed"] == "true"
    assert service.balance(owner).reserved == 3


def test_a_repeat_after_the_process_died_is_the_same_payment(service: Service, bank: Bank, owner: Organization) -> None:
    first = pay(service, owner, headers={"idempotency-key": "k1"}).json()["data"]
    # The process died after it wrote the payment and before it answered, and its claim has expired.
    service.db.write_now(
        lambda tx: tx.run(
            "UPDATE idempotency_keys SET state = 'running', status = NULL, answer = NULL, lease_until = 0"
        )
    )
    again = pay(service, owner, headers={"idempotency-key": "k1"})
    assert again.status_code == 201
    assert again.json()["data"]["id"] == first["id"]
    assert len([call for call in bank.provider.asked if call[0] == "create_payment"]) == 1
    assert service.balance(owner).reserved == 3


@pytest.mark.either_engine
def test_without_credits_nothing_is_written(service: Service, bank: Bank) -> None:
    poor = service.organization("Klamm GmbH", credits_granted=2)
    bank.connected(poor)
    answer = pay(service, poor)
    assert answer.status_code == 402
    assert answer.json()["benoetigt"] == 3
    assert service.get(PAYMENTS, poor.key).json() == {"data": []}
    assert bank.provider.asked == []
    assert events(service, poor) == []


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("creditor_iban", "DE75512108001245126198"),
        ("creditor_iban", "US12345"),
        ("creditor_iban", IBAN),
        ("amount", 0),
        ("amount", -1),
        ("amount", "1.001"),
        ("amount", 10**12),
        ("amount", "NaN"),
        ("amount", None),
        ("creditor_name", "x" * 71),
        ("creditor_name", ""),
        ("description", "Danke 🎉"),
        ("description", "x" * 141),
        ("reference", "x" * 36),
        ("custom_fields", {"x": "y" * 4096}),
        ("custom_fields", [1]),
        ("currency_code", "USD"),
        ("template_identifier", "SWIFT"),
        ("date", "2026-03-01"),
        ("date", "2028-01-01"),
        ("return_to", "javascript:alert(1)"),
        ("customer_ip_address", "zuhause"),
        ("amount", "1e3"),
        ("amount", "+1"),
        ("amount", "1."),
        ("amount", ".5"),
        ("amount", " 1"),
        ("amount", "1_0"),
        ("amount", "0"),
        ("amount", "1000000000"),
        ("amount", "000000000001"),
        ("reference", "RF19 5390 0754 7034"),
        ("reference", "rf00 1"),
        ("creditor_country_code", "Frankreich"),
        ("creditor_agent", "kein BIC"),
        ("creditor_agent_name", "x" * 71),
        ("end_to_end_id", "MEINE"),
    ],
)
@pytest.mark.either_engine
def test_bad_input_names_its_field(service: Service, bank: Bank, owner: Organization, field: str, value: Any) -> None:
    answer = pay(service, owner, **{field: value})
    assert answer.status_code == 400, answer.text
    assert f"`{field}`" in answer.json()["error"]
    assert service.get(PAYMENTS, owner.key).json() == {"data": []}
    assert service.balance(owner).reserved == 0
    assert bank.provider.asked == []


@pytest.mark.either_engine
def test_accounts_that_cannot_pay_are_refused(service: Service, bank: Bank) -> None:
    owner = service.organization("Sparer GmbH")
    bank.connected(owner, ref="slow", templates=("SEPA",))
    bank.connected(owner, ref="reader", templates=())
    cannot = [
        account_facts("s", nature="savings"), account_facts("l", nature="loan"), account_facts("n", iban=None),
        account_facts("d", currency_code="USD"), account_facts("t", iban="TR330006100519786457841326"),
    ]  # fmt: skip
    bank.connected(owner, accounts=cannot, ref="others")
    slow, *others = service.get("/v2/banking/accounts", owner.key).json()["data"]
    assert len(others) == 6
    for account in others:
        refused = service.post(PAYMENTS, owner.key, json=order(account["id"]))
        assert refused.status_code == 400
        assert "`account_id`" in refused.json()["error"]
    instant = order(slow["id"], template_identifier="SEPA_INSTANT")
    refused = service.post(PAYMENTS, owner.key, json=instant)
    assert refused.status_code == 400
    assert "`template_identifier`" in refused.json()["error"]
    for supported, expected in (("true", [slow]), ("false", others)):
        query = {"payments_supported": supported}
        assert service.get("/v2/banking/accounts", owner.key, params=query).json()["data"] == expected


def test_the_list_filters_and_sorts(service: Service, bank: Bank, owner: Organization) -> None:
    made = []
    for _ in range(3):
        made.append(pay(service, owner).json()["data"])
        service.clock.advance(seconds=DAY // 1_000_000)

    def listed(**query: str) -> list[str]:
        answer = service.get(PAYMENTS, owner.key, params=query)
        assert answer.status_code == 200, answer.text
        return [row["id"] for row in answer.json()["data"]]

    first, second, third = (payment["id"] for payment in made)
    assert listed() == [third, second, first]
    assert listed(sort="id") == [first, second, third]
    assert listed(sort="id", from_id=first) == [second, third]
    assert listed(limit="1") == [third]
    assert listed(limit="") == [third, second, first]
    assert listed(from_date="2026-03-03", to_date="2026-03-03") == [second]
    assert listed(connection_id="__all__", account_id="__all__") == [third, second, first]
    assert listed(connection_id=made[0]["connection_id"], account_id=made[0]["account_id"]) == [third, second, first]
    assert listed(connection_id=str(bank.connected(owner, ref="another").id)) == []
    assert service.get(PAYMENTS, owner.key, params={"connection_id": "123"}).status_code == 404
    service.request("DELETE", f"/v2/banking/connections/{made[0]['connection_id']}", owner.key)
    assert listed(connection_id=made[0]["connection_id"], account_id=made[0]["account_id"]) == [third, second, first]
    for query in ({"from_id": "abc"}, {"limit": "-1"}, {"from_date": "2026-03-04", "to_date": "2026-03-03"}):
        assert service.get(PAYMENTS, owner.key, params=query).status_code == 400


def test_repeated_polling_leaves_no_trace(service: Service, bank: Bank, owner: Organization) -> None:
    payment = pay(service, owner).json()["data"]
    path = f"{PAYMENTS}/{payment['id']}"
    before = service.get(f"{path}/history", owner.key).json()
    for live in (PaymentReport(None), PaymentReport("initiated", "RCVD")):
        bank.provider.live = live
        assert service.get(path, owner.key).status_code == 200
    assert service.get(f"{path}/history", owner.key).json() == before
