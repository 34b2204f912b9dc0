"""The edges of payments: when the bank is asked again, how long is waited, and whose booking settles what."""

from __future__ import annotations

from typing import Any, get_args

import pytest

from kontobahn import credits
from kontobahn.access import keys
from kontobahn.access.principal import Limits
from kontobahn.banking.connections import store as connections
from kontobahn.banking.connections.rules import ConnectionStatus
from kontobahn.banking.connections.store import ConnectionRow
from kontobahn.banking.payments import bank as payment_bank
from kontobahn.banking.payments import routes as payment_routes
from kontobahn.banking.payments import store
from kontobahn.banking.payments.bank import poll_due_payments
from kontobahn.banking.provider import Banking, ProviderDown
from kontobahn.clock import HOUR
from kontobahn.db import Tx
from kontobahn.errors import BadRequest
from tests.api.banking.test_key_limits import Payer, refusal
from tests.api.banking.test_payments import PAYMENTS, bank, owner, pay, report, status
from tests.bank_builder import IBAN, SECOND_IBAN, Bank, account_facts, account_id, facts, order
from tests.file_bank import FileBank
from tests.harness import Organization, Service

__all__ = ["bank", "owner"]
# What both engines do alike is tried on one: the statements are those of the other tests of payments.
pytestmark = pytest.mark.parametrize("engine", ["sqlite"], indirect=True)
MINUTES = 60


def asked(service: Service, bank: Bank) -> int:
    """Counts how often the bank was asked about a payment so far, after what is due was done."""
    service.run(poll_due_payments(service.application.context))
    return sum(call[0] in ("payment_status", "find_payment") for call in bank.provider.asked)


def wait(service: Service, seconds: int) -> None:
    service.clock.advance(seconds=seconds)


# --- Asking again


def test_the_bank_is_asked_soon_and_then_less_and_less_often(service: Service, bank: Bank, owner: Organization) -> None:
    payment = pay(service, owner).json()["data"]
    times = 0

    def asked_after(*minutes: int) -> None:
        nonlocal times
        for pause in minutes:
            wait(service, pause * MINUTES - 1)
            assert asked(service, bank) == times, (pause, times)
            wait(service, 1)
            times += 1
            assert asked(service, bank) == times, (pause, times)

    asked_after(1, 1, 2, 5)
    report(bank, payment, "processing")
    asked_after(1, 1, 2, 5, 15, 60, 120, 360, 360)
    report(bank, payment, "executed")
    asked_after(1, 1, 2)
    report(bank, payment, "settled")
    wait(service, 400 * MINUTES)
    assert asked(service, bank) == times


def test_a_creation_without_an_answer_is_given_up_after_five_minutes(
    service: Service, bank: Bank, owner: Organization
) -> None:
    bank.provider.creation = ProviderDown("timed out")
    payment = pay(service, owner).json()["data"]
    for seconds, expected in ((5 * MINUTES - 1, "initiated"), (1, "failed")):
        wait(service, seconds)
        service.get(f"{PAYMENTS}/{payment['id']}", owner.key)
        assert status(service, owner, payment) == expected


def test_a_payer_has_an_hour_more_than_the_page_says(service: Service, bank: Bank, owner: Organization) -> None:
    left, confirmed = pay(service, owner).json()["data"], pay(service, owner).json()["data"]
    report(bank, confirmed, "authorized")
    wait(service, 2 * HOUR // 1_000_000 - 1)
    for payment in (left, confirmed):
        service.get(f"{PAYMENTS}/{payment['id']}", owner.key)
    assert status(service, owner, left) == "initiated"
    wait(service, 1)
    for payment in (left, confirmed):
        service.get(f"{PAYMENTS}/{payment['id']}", owner.key)
    assert status(service, owner, left) == "failed"
    assert status(service, owner, confirmed) == "authorized", "a dated transfer waits for its day"


def test_the_credits_of_an_open_payment_are_kept_for_two_years(service: Service, owner: Organization) -> None:
    pay(service, owner)
    for seconds, reserved in ((730 * 86_400 - 1, 3), (1, 0)):
        wait(service, seconds)
        service.db.write_now(credits.expire_stale_holds)
        assert service.balance(owner).reserved == reserved


def test_only_an_order_that_nobody_took_is_held(service: Service) -> None:
    files = FileBank(service)
    taken, untaken = files.pay(), files.pay()
    assert files.order_file(taken).status_code == 200
    rows = {row.id: row for row in service.db.read_now(store.PAYMENTS.all, "1 = 1")}
    for payment, expected in ((taken, False), (untaken, True)):
        assert service.db.write_now(payment_bank._hold_untaken, rows[int(payment["id"])]) is expected


# --- Whose booking settles what


def settled_by(bank: Bank, owner: Organization, connection: ConnectionRow, booking: Any, **more: Any) -> str:
    """The status of an executed payment after this booking."""
    payment = pay(bank.service, owner).json()["data"]
    report(bank, payment, "executed")
    bank.report(connection, booking(payment["end_to_end_id"]), **more)
    return status(bank.service, owner, payment)


def debit(amount: int = -12_34, reference: str | None = None) -> Any:
    return lambda own: facts(amount, f"EREF+{reference or own}", end_to_end_id=reference or own)


def linked(service: Service, owner: Organization) -> list[float]:
    """The amounts of the bookings that belong to a payment, of every account."""
    found = []
    for account in service.get("/v2/banking/accounts", owner.key).json()["data"]:
        answer = service.get("/v2/banking/transactions", owner.key, params={"account_id": account["id"]})
        found += [row["amount"] for row in answer.json()["data"] if row["payment_id"] is not None]
    return sorted(found)


def test_a_booking_settles_its_own_payment_only(service: Service, bank: Bank, owner: Organization) -> None:
    again = bank.connected(owner, ref="again", accounts=[account_facts()])
    for wrong in (debit(-12_33), debit(-12_35), debit(12_34), debit(0), debit(reference="KB-ANOTHER")):
        assert settled_by(bank, owner, again, wrong) == "executed"
    assert linked(service, owner) == [-12.35, -12.33], "they belong to the payment, and do not settle it"
    other = bank.connected(owner, ref="other", accounts=[account_facts("spar", SECOND_IBAN)])
    elsewhere = {"accounts": [account_facts("spar", SECOND_IBAN)]}
    assert (
        settled_by(bank, owner, other, lambda own: debit()(own)._replace(account_ref="spar"), **elsewhere) == "executed"
    )
    later = pay(service, owner).json()["data"]
    bank.report(other, debit()(later["end_to_end_id"])._replace(account_ref="spar"), **elsewhere)
    report(bank, later, "executed")
    assert status(service, owner, later) == "executed", "nor one that was there before, on another account"
    assert settled_by(bank, owner, again, debit()) == "settled", "the same account, connected once more"


def test_a_booking_of_another_organisation_settles_nothing(service: Service, bank: Bank, owner: Organization) -> None:
    stranger = service.organization("Fremde GmbH")
    theirs = bank.connected(stranger)
    assert settled_by(bank, owner, theirs, debit()) == "executed"
    later = pay(service, owner).json()["data"]
    bank.report(theirs, debit()(later["end_to_end_id"]))
    report(bank, later, "executed")
    assert status(service, owner, later) == "executed", "nor one that was there before"
    assert linked(service, stranger) == []


def test_the_booking_of_a_settled_payment_says_nothing_new(service: Service, bank: Bank, owner: Organization) -> None:
    payment = pay(service, owner).json()["data"]
    report(bank, payment, "settled")
    bank.report(bank.connected(owner, ref="again"), debit()(payment["end_to_end_id"]))
    history = service.get(f"{PAYMENTS}/{payment['id']}/history", owner.key).json()["data"]
    assert [item["source"] for item in history] == ["creation", "webhook"]


def test_an_order_is_sent_for_the_account_it_was_made_for(service: Service, bank: Bank, owner: Organization) -> None:
    other = bank.connected(owner, ref="other", accounts=[account_facts("zweit", SECOND_IBAN)])
    assert pay(service, owner).status_code == 201
    second = service.get("/v2/banking/accounts", owner.key).json()["data"][1]
    assert service.post(PAYMENTS, owner.key, json=order(second["id"])).status_code == 201
    orders = [call[1] for call in bank.provider.asked if call[0] == "create_payment"]
    assert [(item.connection_ref, item.account_ref) for item in orders] == [
        (f"bank-{owner.id}", "giro"), (other.provider_ref, "zweit"),
    ]  # fmt: skip
    assert orders[0].debtor_iban == IBAN


# --- What is refused


def test_a_day_may_be_a_year_ahead(service: Service, owner: Organization) -> None:
    assert pay(service, owner, date="2027-03-02").status_code == 201
    for refused in ({"date": "2027-03-03"}, {"date": "2026-03-03", "template_identifier": "SEPA_INSTANT"}):
        answer = pay(service, owner, **refused)
        assert (answer.status_code, answer.json()["field"]) == (400, "date")
    assert pay(service, owner, date="2026-03-02", template_identifier="SEPA_INSTANT").status_code == 201


def test_the_kind_of_access_must_be_that_of_the_account(service: Service, bank: Bank, owner: Organization) -> None:
    body = order(account_id(service, owner))
    assert service.post(f"{PAYMENTS}?api=partner", owner.key, json=body).status_code == 201
    answer = service.post(f"{PAYMENTS}?api=enterprise", owner.key, json=body)
    assert (answer.status_code, answer.json()["field"]) == (400, "api")


@pytest.mark.parametrize("state", get_args(ConnectionStatus))
def test_only_an_active_connection_pays(service: Service, bank: Bank, state: ConnectionStatus) -> None:
    owner = service.organization()
    connection = bank.connected(owner)
    become(service, connection, state)
    answer = pay(service, owner)
    if state == "active":
        assert answer.status_code == 201, answer.text
        return
    assert (answer.status_code, f"is {state}" in answer.json()["error"]) == (409, True)
    assert (bank.provider.asked, service.balance(owner).reserved) == ([], 0)
    assert service.get(PAYMENTS, owner.key).json()["data"] == []
    become(service, connection, "active")
    assert pay(service, owner).status_code == 201, "once it is connected again"


def become(service: Service, row: ConnectionRow, status: ConnectionStatus) -> None:
    def unit(tx: Tx) -> None:
        connections.change(tx, connections.get(tx, row.organization_id, row.id), status=status)

    service.db.write_now(unit)


def test_nothing_is_accepted_that_no_file_can_hold(service: Service) -> None:
    files = FileBank(service)
    answer = files.ask(reference="RF18539007547034", description="x" * 124)
    assert (answer.status_code, answer.json()["field"]) == (400, "reference")
    assert service.get(PAYMENTS, files.key).json()["data"] == []


def test_a_day_of_a_key_begins_at_midnight_in_berlin(service: Service) -> None:
    payer = Payer(service, None, 100_00)
    wait(service, 14 * 60 * MINUTES - 1)
    assert payer.pay("100.00").status_code == 201
    wait(service, 1)
    assert payer.pay("60.00").status_code == 201
    assert refusal(payer.pay("40.01"))["left"] == "40.00"


def test_a_limit_in_euros_says_nothing_of_other_money(service: Service, owner: Organization) -> None:
    payer = Payer(service, 100_00, None)
    limited = service.db.read_now(keys.authenticate, service.vault.token_hash(payer.key.secret), service.clock.now())
    assert limited.limits == Limits(100_00, None)
    with pytest.raises(BadRequest, match="currency_code"):
        service.db.write_now(
            payment_routes.check_key_limits, limited, 1, "USD", service.application.context.part(Banking)
        )
