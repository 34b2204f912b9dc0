"""Payments on which two transactions decide at once: each decides by what the other has committed."""

from __future__ import annotations

from typing import Any

import pytest

from kontobahn.access.audit import Actor
from kontobahn.access.principal import Principal
from kontobahn.banking.payments import bank as payment_bank
from kontobahn.banking.payments import order_files, store
from kontobahn.banking.payments.order_files import Selection
from kontobahn.banking.payments.store import PaymentRow, apply, apply_debits, apply_start
from kontobahn.banking.provider import Banking, PaymentReport, PaymentStart, ProviderDown, Snapshot
from kontobahn.banking.reports import intake as reports
from kontobahn.clock import DAY
from kontobahn.db import Tx
from kontobahn.errors import Conflict
from tests.api.banking.test_payments import bank, pay, status
from tests.bank_builder import Bank, account_facts, facts
from tests.file_bank import FileBank
from tests.harness import Organization, Service
from tests.interleaving import Overlap, on_postgres, overlap

__all__ = ["bank"]
pytestmark = on_postgres
EXECUTED = PaymentReport("executed", "ACSC")
CANCELLATION = PaymentReport("failed", "CANC", "PaymentCancelled", "Cancelled as asked")


@pytest.fixture
def owner(service: Service) -> Organization:
    return service.organization()


def row_of(service: Service, owner: Organization, payment: dict[str, Any]) -> PaymentRow:
    return service.db.read_now(store.get, owner.id, int(payment["id"]))


@pytest.mark.parametrize("debit_first", [True, False])
def test_a_debit_beside_a_report_of_execution_settles_the_payment(
    service: Service, bank: Bank, owner: Organization, debit_first: bool
) -> None:
    connection = bank.connected(owner)
    payment = pay(service, owner).json()["data"]
    debit = facts(-1234, "EREF+" + payment["end_to_end_id"], end_to_end_id=payment["end_to_end_id"])
    snapshot = Snapshot(bank.connection_facts(connection.provider_ref), [account_facts()], [debit])

    def book(tx: Tx) -> None:
        reports.ingest_snapshot(tx, connection, snapshot)

    def execute(tx: Tx) -> None:
        apply(tx, owner.id, int(payment["id"]), EXECUTED, "webhook")

    units = (book, execute) if debit_first else (execute, book)
    assert overlap(service.db, *units).lock == "banking_payment"
    assert status(service, owner, payment) == "settled"
    assert (service.balance(owner).reserved, service.balance(owner).spent) == (0, 3)


def test_debits_of_several_payments_in_any_order_do_not_block_each_other(
    service: Service, bank: Bank, owner: Organization
) -> None:
    bank.connected(owner)
    made = [pay(service, owner).json()["data"] for _ in range(2)]
    ids = [(int(payment["id"]), -1234) for payment in made]
    for payment_id, _ in ids:
        service.db.write_now(apply, owner.id, payment_id, EXECUTED, "webhook")
    overlap(
        service.db,
        lambda tx: apply_debits(tx, owner.id, ids),
        lambda tx: apply_debits(tx, owner.id, reversed(ids)),
    )
    assert [status(service, owner, payment) for payment in made] == ["settled", "settled"]
    assert service.balance(owner).spent == 6


def test_a_payment_that_the_bank_accepted_late_is_not_given_up(
    service: Service, bank: Bank, owner: Organization
) -> None:
    bank.connected(owner)
    bank.provider.creation = ProviderDown("timed out")
    row = row_of(service, owner, pay(service, owner).json()["data"])
    start = PaymentStart("late", "https://bank.example/pay", None, PaymentReport("authorizing"))
    outcome = overlap(
        service.db,
        lambda tx: apply_start(tx, row, start, "creation"),
        lambda tx: payment_bank._give_up_creation(tx, row),
    )
    assert outcome.lock == "banking_payment"
    assert (outcome.second.status, outcome.second.provider_ref) == ("authorizing", "late")
    assert service.balance(owner).reserved == 3


def test_a_payment_is_claimed_for_polling_by_one_job(service: Service, bank: Bank, owner: Organization) -> None:
    bank.connected(owner)
    pay(service, owner)
    service.clock.advance(seconds=3600)
    outcome = overlap(service.db, payment_bank._claim_due, payment_bank._claim_due)
    assert outcome.waited
    assert (len(outcome.first), outcome.second) == (1, [])


# --- Orders that are files


class Orders:
    """A payment from an account that is kept by files, and what may happen to its order."""

    def __init__(self, service: Service) -> None:
        self.service = service
        self.bank = FileBank(service)
        self.payment = self.bank.pay()
        self.owner = self.bank.owner
        self.principal = Principal(self.owner.id, "admin", (self.owner.id,))

    @property
    def row(self) -> PaymentRow:
        return row_of(self.service, self.owner, self.payment)

    def put_into_file(self, tx: Tx) -> order_files.OrderFileRow:
        banking = self.service.application.context.part(Banking)
        return order_files.create(tx, self.principal, Selection(None, [self.row.id], None, False), banking, 30)

    def cancel(self, tx: Tx) -> PaymentRow:
        return payment_bank._apply_cancellation(tx, self.row, CANCELLATION, Actor("test"))

    def overlap(self, first: Any, second: Any) -> Overlap:
        return overlap(self.service.db, first, second)


@pytest.fixture
def orders_of_files(service: Service) -> Orders:
    return Orders(service)


def test_an_order_put_into_a_file_is_not_abandoned(service: Service, orders_of_files: Orders) -> None:
    stale = orders_of_files.row
    service.clock.advance(seconds=60 * DAY // 1_000_000)
    outcome = orders_of_files.overlap(orders_of_files.put_into_file, lambda tx: payment_bank._abandon(tx, stale))
    assert outcome.waited
    assert outcome.second.status == "initiated"
    assert outcome.second.order_file_id == outcome.first.id


def test_a_payment_on_which_the_bank_reports_is_not_abandoned(service: Service, orders_of_files: Orders) -> None:
    stale = orders_of_files.row
    service.clock.advance(seconds=60 * DAY // 1_000_000)
    outcome = orders_of_files.overlap(
        lambda tx: apply(tx, stale.organization_id, stale.id, PaymentReport("processing", "ACSP"), "pain.002"),
        lambda tx: payment_bank._abandon(tx, stale),
    )
    assert outcome.lock == "banking_payment"
    assert outcome.second.status == "processing"


def test_an_order_that_is_abandoned_gets_into_no_file(service: Service, orders_of_files: Orders) -> None:
    stale = orders_of_files.row
    service.clock.advance(seconds=60 * DAY // 1_000_000)
    outcome = orders_of_files.overlap(lambda tx: payment_bank._abandon(tx, stale), orders_of_files.put_into_file)
    assert outcome.first.status == "failed"
    assert isinstance(outcome.second, Conflict)
    assert orders_of_files.row.order_file_id is None


def test_a_file_on_which_the_bank_reports_is_not_discarded(service: Service, orders_of_files: Orders) -> None:
    file = service.db.write_now(orders_of_files.put_into_file)
    processed = PaymentReport("processing", "ACSP")
    outcome = orders_of_files.overlap(
        lambda tx: apply(tx, file.organization_id, orders_of_files.row.id, processed, "pain.002"),
        lambda tx: order_files.discard(tx, file),
    )
    assert outcome.waited
    assert isinstance(outcome.second, Conflict)
    assert orders_of_files.row.order_file_id == file.id


def test_a_file_is_discarded_once(service: Service, orders_of_files: Orders) -> None:
    file = service.db.write_now(orders_of_files.put_into_file)
    outcome = orders_of_files.overlap(
        lambda tx: order_files.discard(tx, file), lambda tx: order_files.discard(tx, file)
    )
    assert outcome.lock == "banking_order_file"
    assert outcome.first == outcome.second
    assert orders_of_files.row.order_file_id is None


def test_an_order_that_is_being_cancelled_is_not_handed_out(service: Service, orders_of_files: Orders) -> None:
    stale, provider = orders_of_files.row, service.application.context.part(Banking).provider("files")
    outcome = orders_of_files.overlap(orders_of_files.cancel, lambda tx: payment_bank._take_order(tx, provider, stale))
    assert outcome.lock == "banking_payment"
    assert isinstance(outcome.second, Conflict)
    assert orders_of_files.row.order_taken_at is None


def test_a_payment_that_the_bank_has_begun_to_carry_out_is_not_cancelled(
    service: Service, orders_of_files: Orders
) -> None:
    row = orders_of_files.row
    outcome = orders_of_files.overlap(
        lambda tx: apply(tx, row.organization_id, row.id, PaymentReport("processing", "ACSP"), "pain.002"),
        orders_of_files.cancel,
    )
    assert outcome.lock == "banking_payment"
    assert isinstance(outcome.second, Conflict)
    assert orders_of_files.row.status == "processing"
