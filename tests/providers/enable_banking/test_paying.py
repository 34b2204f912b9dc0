"""Payments by Enable Banking: once or not at all, each state as the table says, and webhooks believed only if they are theirs."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kontobahn.bank_providers.enable_banking.client import SKEW_SECONDS, reports
from kontobahn.bank_providers.enable_banking.rules import PAYMENTS
from kontobahn.banking.payments import bank as payment_bank
from simulators.enable_banking import EnableBanking
from simulators.enable_banking_data import transaction
from simulators.enable_banking_server import How
from simulators.enable_banking_wire import key_pair, public_pem
from tests.harness import Organization, Service, ServiceFactory
from tests.providers.enable_banking.person import GIRO, Person, open_bank, service_for
from tests.sandbox_visitor import query_of, words
from tests.waiting import eventually


@pytest.fixture
def bank() -> Iterator[EnableBanking]:
    made = open_bank()
    yield made
    made.stop()


@pytest.fixture
def engine() -> str:
    """Nothing here touches SQL that others do not."""
    return "sqlite"


@pytest.fixture
def service(start_service: ServiceFactory, bank: EnableBanking, tmp_path: Path) -> Service:
    return service_for(start_service, bank, tmp_path, enable_banking_webhooks=True)


@pytest.fixture
def owner(service: Service) -> Organization:
    return service.organization(credits_granted=1000)


@pytest.fixture
def person(service: Service, owner: Organization, bank: EnableBanking) -> Person:
    made = Person(service, owner, bank)
    made.connect()
    return made


def status_of(person: Person, payment: dict[str, Any]) -> tuple[str, str | None]:
    """Its status after the bank was asked, and the last error that was reported."""
    path = f"/v2/banking/payments/{payment['id']}"
    status = person.service.get(path, person.owner.key).json()["data"]["status"]
    history = person.service.get(f"{path}/history", person.owner.key).json()["data"]
    return status, history[-1]["error_class"] if history else None


def test_a_payment_is_made_as_it_was_ordered_and_settled_by_its_debit(
    person: Person, bank: EnableBanking, service: Service
) -> None:
    answer = person.pay(return_to="https://app.example/bezahlt", date="2026-03-04", reference="RF18539007547034")
    assert answer.status_code == 201, answer.text
    payment = answer.json()["data"]
    [made] = bank.payments.values()
    [transfer] = made["asked"]["payment_request"]["credit_transfer_transaction"]
    assert transfer["instructed_amount"] == {"amount": "12.34", "currency": "EUR"}
    assert transfer["remittance_information"] == ["RF18539007547034 Rechnung 4711"]
    assert transfer["requested_execution_date"] == "2026-03-04"
    assert made["asked"]["payment_request"]["debtor_account"]["identification"] == GIRO
    assert made["asked"]["aspsp"] == {"name": "Musterbank", "country": "DE"}
    # Before the payer has seen it, nothing is authorised, whatever the code.
    assert (payment["status"], status_of(person, payment)[0]) == ("initiated", "initiated")
    back = person.come_back(bank.pay(payment["payment_url"], "ACSP"))
    assert query_of(back) == {"payment_id": payment["id"]}
    assert status_of(person, payment)[0] == "processing"
    # The bank never says more. Its debit does, though no field of it carries the id.
    end_to_end_id = transfer["payment_id"]["end_to_end_id"]
    bank.accounts[0].transactions.append(
        transaction("-12.34", f"Papier GmbH {end_to_end_id} Rechnung", "2026-03-02", "a-5")
    )
    service.clock.advance(seconds=3700)
    assert person.refresh().status_code == 202
    assert status_of(person, payment)[0] == "settled"
    assert bank.faults == []
    # Somebody without an application to return to is told so; a state that is not ours leads nowhere.
    other = person.pay().json()["data"]
    address = bank.pay(other["payment_url"], "RCVD")
    assert "Zurück von der Bank" in words(person.come_back(address))
    assert person.come_back(address[:-3] + "xxx").status_code == 404


def test_every_code_means_what_the_table_says(person: Person, bank: EnableBanking, service: Service) -> None:
    for code, expected in {**PAYMENTS, "XYZW": None}.items():
        payment = person.pay().json()["data"]
        bank.pay(payment["payment_url"], code, ("AM04", "Nicht gedeckt") if code == "RJCT" else None)
        status, error_class = status_of(person, payment)
        assert status == (expected or "initiated")
        if code == "RJCT":
            assert error_class == "AM04"
        elif status == "failed":
            assert error_class == "Cancelled"
        else:
            assert error_class is None


def test_a_payment_without_an_answer_is_never_made_again_and_only_its_debit_tells(
    person: Person, bank: EnableBanking, service: Service
) -> None:
    for how, count in (("lost", 1), ("500", 1), ("unheard", 1), ("408", 1)):
        bank.payments.clear()
        bank.breaks = [("/payments", how)]  # type: ignore[list-item]
        payment = person.pay().json()["data"]
        assert (payment["status"], payment["payment_url"]) == ("initiated", None)
        for _ in range(3):
            service.clock.advance(seconds=4000)
            service.run(payment_bank.poll_due_payments(service.application.context))
        assert status_of(person, payment)[0] == "initiated"
        assert len(bank.payments) == (count if how == "lost" else 0)
    assert bank.asked.count(("POST", "/payments")) == 3  # one was never heard


def test_a_payment_that_was_certainly_not_made_fails_at_once(
    person: Person, bank: EnableBanking, service: Service, owner: Organization
) -> None:
    # After the one it wants a rest and is not even asked; the other was said by the bank, about this order.
    refused: list[tuple[How, str]] = [("429", "failed"), ("bank-429", "initiated")]
    for how, next_one in refused:
        bank.breaks = [("/payments", how)]
        assert status_of(person, person.pay().json()["data"])[0] == "failed"
        assert status_of(person, person.pay().json()["data"])[0] == next_one
        service.clock.advance(seconds=40)
    bank.services = ["AIS"]
    payment = person.pay().json()["data"]
    assert status_of(person, payment)[0] == "failed"
    assert bank.faults == []
    answer = service.post(f"/v2/banking/payments/{payment['id']}/cancel", owner.key)
    assert answer.status_code == 409


def test_webhooks_are_taken_if_they_are_theirs_in_any_order_and_once(
    person: Person, bank: EnableBanking, service: Service, capfd: pytest.CaptureFixture[str]
) -> None:
    payment = person.pay().json()["data"]
    [(ref, made)] = bank.payments.items()
    made["status"] = "ACSC"
    # The key is not known yet: it is fetched, and the delivery is taken when it comes again.
    assert bank.deliver(ref) == 401
    eventually(lambda: bank.deliver(ref) == 200)
    assert history(person, payment)[-1] == ("executed", "webhook")
    # Late, twice, out of order, nested: nothing goes back, and nothing is applied twice.
    before = len(history(person, payment))
    assert bank.deliver(ref) == 200
    assert len(history(person, payment)) == before
    made["status"], bank.nests_webhooks = "ACSP", True
    assert bank.deliver(ref) == 200
    assert status_of(person, payment)[0] == "executed"
    # Not theirs: another body, address, algorithm, application or key.
    made["status"] = "RJCT"
    assert bank.deliver(ref, body=b'{"payment_id": "x", "status": "ACCC"}') == 401
    for url in (
        "https://enablebanking.com.example/key", "http://enablebanking.com/key", "https://x@enablebanking.com/key",
        "https://enablebanking.com:8443/key", "not an address",
    ):  # fmt: skip
        assert bank.deliver(ref, key_url=url) == 401
    assert bank.deliver(ref, alg="none") == 401
    bank.application_id, known = "another", bank.application_id
    assert bank.deliver(ref) == 401
    bank.application_id, theirs = known, bank.webhook_key
    bank.webhook_key = key_pair("another")
    assert bank.deliver(ref) == 401
    assert [one[0] for one in history(person, payment)].count("rejected") == 0
    # They have changed their key: after a while it is fetched again.
    service.clock.advance(seconds=61)
    made["status"] = "ACCC"
    assert bank.deliver(ref) == 401
    eventually(lambda: bank.deliver(ref) == 200)
    assert status_of(person, payment)[0] == "settled"
    bank.webhook_key = theirs
    assert "BEGIN" not in capfd.readouterr().err


def test_a_token_or_a_delivery_nested_without_end_is_refused(
    person: Person, bank: EnableBanking, service: Service
) -> None:
    deep = b"[" * 2_500
    part = base64.urlsafe_b64encode(b'{"a":' + deep).rstrip(b"=").decode()
    path = "/v2/banking/webhooks/enable_banking"
    answer = service.post(path, content=b"{}", headers={"authorization": f"Bearer {part}.{part}.aa"})
    assert answer.status_code == 401, answer.text
    payment = person.pay().json()["data"]
    [(ref, made)] = bank.payments.items()
    made["status"] = "ACSC"
    eventually(lambda: bank.deliver(ref) == 200)
    assert bank.deliver(ref, body=b'{"x": ' + deep) in (200, 400, 401)
    assert status_of(person, payment)[0] == "executed"
    assert reports(b'{"x": ' + deep) == []


def test_a_webhook_is_believed_until_its_token_expires(person: Person, bank: EnableBanking, service: Service) -> None:
    payment = person.pay().json()["data"]
    [(ref, made)] = bank.payments.items()
    made["status"] = "ACSP"
    eventually(lambda: bank.deliver(ref) == 200)
    now, made["status"] = service.clock.now() // 1_000_000, "ACCC"
    wrong: list[Any] = [now - SKEW_SECONDS - 1, now - 86_400, 0, str(now + 60), None, [now + 60], {}]
    for expires in wrong:
        assert bank.deliver(ref, claims={"exp": expires}) == 401, expires
    assert ("settled", "webhook") not in history(person, payment)
    service.clock.advance(seconds=60)
    assert bank.deliver(ref, claims={"exp": now + 60 - SKEW_SECONDS}) == 200, "clocks may differ so much"
    assert history(person, payment)[-1] == ("settled", "webhook")


def test_a_pinned_key_is_the_only_one(start_service: ServiceFactory, bank: EnableBanking, tmp_path: Path) -> None:
    pinned = tmp_path / "theirs.pem"
    pinned.write_bytes(public_pem(bank.webhook_key))
    service = service_for(
        start_service, bank, tmp_path, enable_banking_webhooks=True, enable_banking_webhook_key=str(pinned)
    )
    person = Person(service, service.organization(credits_granted=1000), bank)
    person.connect()
    payment = person.pay().json()["data"]
    [(ref, made)] = bank.payments.items()
    made["status"] = "ACCC"
    assert bank.deliver(ref) == 200
    assert status_of(person, payment)[0] == "settled"
    bank.webhook_key = key_pair("another")
    service.clock.advance(seconds=100)
    assert [bank.deliver(ref), bank.deliver(ref)] == [401, 401]


def history(person: Person, payment: dict[str, Any]) -> list[tuple[str | None, str]]:
    answer = person.service.get(f"/v2/banking/payments/{payment['id']}/history", person.owner.key)
    assert answer.status_code == 200, answer.text
    return [(one["status"], one["source"]) for one in answer.json()["data"]]


ADDRESS = {"street_name": "Ring", "building_number": "5", "post_code": "10115", "town_name": "Berlin"}


def test_whatever_the_bank_requires_of_the_payee_is_sent_or_asked_for(person: Person, bank: EnableBanking) -> None:
    def require(**requirements: Any) -> None:
        for kind in bank.banks[0]["payments"]:
            kind.update(requirements)
        person.service.clock.advance(seconds=7 * 3600)

    def payee() -> dict[str, Any]:
        asked = list(bank.payments.values())[-1]["asked"]
        found: dict[str, Any] = asked["payment_request"]["credit_transfer_transaction"][0]["beneficiary"]
        return found

    def why_not(**more: Any) -> str:
        """The reason why an order is not made, of which the bank hears nothing."""
        count = len(bank.payments)
        payment = person.pay(**more).json()["data"]
        path = f"/v2/banking/payments/{payment['id']}/history"
        assert (payment["status"], len(bank.payments)) == ("failed", count)
        return str(person.service.get(path, person.owner.key).json()["data"][-1]["error_message"])

    require(creditor_country_required=True)
    assert person.pay().status_code == 201
    assert payee()["creditor"]["postal_address"] == {"country": "DE"}
    require(creditor_postal_address_required=True)
    assert "`creditor_address`" in why_not()
    assert person.pay(creditor_address=ADDRESS, creditor_country_code="DE").status_code == 201
    assert payee()["creditor"]["postal_address"] == {**ADDRESS, "country": "DE"}
    # The BIC of the payee's bank is known by the IBAN.
    require(creditor_postal_address_required=False, creditor_agent_bic_fi_required=True)
    assert person.pay().status_code == 201
    assert len(payee()["creditor_agent"]["bic_fi"]) in (8, 11)
    form = {"min_length": 20, "max_length": 140, "pattern": "^[A-Za-z0-9 ]+$"}
    require(remittance_information_lines=[form])
    assert "at least 20 characters" in why_not()
    assert "must match" in why_not(description="Rechnung 4711 vom 1. Mai 2026")
    assert person.pay(description="Rechnung 4711 vom ersten Mai").status_code == 201
    assert bank.faults == []


def test_a_final_status_ends_the_asking(person: Person, bank: EnableBanking, service: Service) -> None:
    payment = person.pay().json()["data"]
    person.come_back(bank.pay(payment["payment_url"], "ACSP"))
    [made] = bank.payments.values()
    made["is_last"] = True
    assert status_of(person, payment)[0] == "processing"

    def next_poll(tx: Any) -> Any:
        return tx.one("SELECT next_poll_at FROM banking_payments WHERE id = ?", int(payment["id"]))

    assert service.db.read_now(next_poll) == (None,)
