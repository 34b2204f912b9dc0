"""Duties of every banking provider, whatever reaches its banks. An adapter says here how a connection with it is made."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import msgspec
import pytest

from kontobahn.app import set_up_banks
from kontobahn.bank_providers.ebics.adapter import EbicsProvider
from kontobahn.bank_providers.sandbox.adapter import SandboxProvider
from kontobahn.banking.connections import store as connections
from kontobahn.banking.connections.store import ConnectionRow
from kontobahn.banking.provider import (
    BANK_NEEDED,
    CANCELLED,
    CANNOT_BE_KNOWN,
    BadSignature,
    Banking,
    BankProvider,
    ConnectRequest,
    Delivery,
    PaymentOrder,
    PaymentStart,
    ProviderRefused,
    Snapshot,
)  # fmt: skip
from kontobahn.banking.reports import intake as reports
from kontobahn.banking.reports.intake import fetch_all
from kontobahn.banking.transactions.ingest import Counts
from kontobahn.db import Tx
from tests.bank_builder import CREDITOR_IBAN
from tests.harness import START, Organization, Service
from tests.providers.ebics import person as ebics_person
from tests.providers.ebics.drawn_keys import draw_keys
from tests.providers.enable_banking import person as enable_banking_person
from tests.providers.fints import person as fints_person
from tests.providers.salt_edge import person as salt_edge_person
from tests.sandbox_visitor import Visitor


class Adapter(NamedTuple):
    """A provider with a connection to it."""

    service: Service
    owner: Organization
    provider: BankProvider
    connection: ConnectionRow
    # The provider's reference of an account that can pay, and its IBAN.
    account_ref: str
    iban: str
    # Whether the provider can say for certain that it has no such payment, and then recognises a repeat; whether it cancels any.
    knows_its_payments: bool = True
    cancels: bool = True
    # Has the bank no longer tell the account's balance.
    withhold_balance: Callable[[], None] | None = None

    def ask(self, coroutine: Any) -> Any:
        return self.service.run(coroutine)

    def order(self, **more: Any) -> PaymentOrder:
        values = {
            "end_to_end_id": "KB1-0A0B0C0D", "connection_ref": self.connection.provider_ref, "account_ref": self.account_ref,
            "template_identifier": "SEPA", "amount_minor": 1234, "currency_code": "EUR", "creditor_name": "Papier GmbH",
            "creditor_iban": CREDITOR_IBAN, "debtor_name": "Muster GmbH", "debtor_iban": self.iban,
            "description": "Rechnung 4711", "reference": None, "details": {}, "return_to": None,
            "customer_ip_address": "127.0.0.1", "created_at": START,
        }  # fmt: skip
        return PaymentOrder(**{**values, **more})


def sandbox(service: Service) -> Adapter:
    owner, visitor = service.organization(), Visitor(service)
    connection_id = visitor.connect(owner)["id"]
    row = service.db.read_now(connections.get, owner.id, connection_id)
    provider = service.application.sandbox
    account = next(one for one in service.run(provider.fetch(row.provider_ref)).accounts if one.nature == "checking")
    return Adapter(service, owner, provider, row, account.provider_ref, account.iban or "")


def fints(service: Service) -> Adapter:
    """With a bank of our own, which the installation is set up for while it runs."""
    bank = fints_person.open_bank()
    address = bank.serve()
    settings = msgspec.structs.replace(
        service.settings, connect_provider="fints", fints_product_id="P", bank_allow=urlsplit(address).netloc
    )
    context = service.application.context
    made = set_up_banks(settings, service.db, service.vault, service.clock)
    context.parts[Banking] = made  # type: ignore[index]
    owner = service.organization()
    person = fints_person.Person(service, owner, address)
    row = service.db.read_now(connections.get, owner.id, person.connect(keep="yes")["id"])
    return Adapter(
        service, owner, made.providers["fints"], row, fints_person.GIRO, fints_person.GIRO,
        withhold_balance=lambda: setattr(bank.accounts[0], "balance", ""),
    )  # fmt: skip


def salt_edge(service: Service) -> Adapter:
    """With our simulator, which the installation is set up for while it runs."""
    remote = salt_edge_person.simulator()
    settings = salt_edge_person.settings_for(remote, remote.serve(), service.settings.data_dir)
    context = service.application.context
    made = set_up_banks(msgspec.structs.replace(service.settings, **settings), service.db, service.vault, service.clock)
    context.parts[Banking] = made  # type: ignore[index]
    owner = service.organization()
    person = salt_edge_person.Person(service, owner, remote)
    account = person.connect(provider_code="salt_edge_musterbank_de").accounts[0]
    row = service.db.read_now(connections.get, owner.id, person.connection()["id"])
    return Adapter(
        service, owner, made.providers["salt_edge"], row, account["id"], salt_edge_person.GIRO,
        knows_its_payments=False, cancels=False, withhold_balance=lambda: account.update(balance=None),
    )  # fmt: skip


def enable_banking(service: Service) -> Adapter:
    """With a simulator, which the installation is set up for while it runs."""
    bank = enable_banking_person.open_bank()
    bank.serve()
    settings = msgspec.structs.replace(
        service.settings, **enable_banking_person.settings_for(bank, service.settings.data_dir)
    )
    made = set_up_banks(settings, service.db, service.vault, service.clock)
    service.application.context.parts[Banking] = made  # type: ignore[index]
    owner = service.organization()
    person = enable_banking_person.Person(service, owner, bank)
    row = service.db.read_now(connections.get, owner.id, person.connect()["id"])
    provider = made.providers["enable_banking"]
    account = next(one for one in service.run(provider.fetch(row.provider_ref)).accounts if one.nature == "checking")
    return Adapter(
        service, owner, provider, row, account.provider_ref, account.iban or "", knows_its_payments=False, cancels=False,
        withhold_balance=bank.accounts[0].balances.clear,
    )  # fmt: skip


def ebics(service: Service) -> Adapter:
    """With a bank of our own, which the installation is set up for while it runs."""
    bank, line = ebics_person.open_bank()
    settings = msgspec.structs.replace(
        service.settings, connect_provider="ebics", ebics=True, bank_allow=urlsplit(line.url).netloc
    )
    made = set_up_banks(settings, service.db, service.vault, service.clock)
    service.application.context.parts[Banking] = made  # type: ignore[index]
    owner = service.organization()
    person = ebics_person.Person(service, owner, bank, line)
    person.book("-12.34", "Strom")
    row = service.db.read_now(connections.get, owner.id, person.connect()["id"])
    giro = ebics_person.GIRO
    return Adapter(service, owner, made.providers["ebics"], row, giro, giro)


# Those that read accounts, and among them those that pay on a page of their own.
READERS: dict[str, Callable[[Service], Adapter]] = {
    "sandbox": sandbox, "fints": fints, "salt_edge": salt_edge, "enable_banking": enable_banking, "ebics": ebics,
}  # fmt: skip
# The clients of adapters end with the service that they were put into.
pytestmark = pytest.mark.alone
ADAPTERS: dict[str, Callable[[Service], Adapter]] = {
    "sandbox": sandbox, "salt_edge": salt_edge, "enable_banking": enable_banking,
}  # fmt: skip


@pytest.fixture
def engine() -> str:
    """Adapters do not differ by engine; the engines are covered by the tests of the calls."""
    return "sqlite"


@pytest.fixture(autouse=True)
def quickly_made_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    draw_keys(monkeypatch)


@pytest.fixture(params=ADAPTERS)
def adapter(service: Service, request: pytest.FixtureRequest) -> Adapter:
    return ADAPTERS[request.param](service)


@pytest.fixture(params=READERS)
def reader(service: Service, request: pytest.FixtureRequest) -> Adapter:
    return READERS[request.param](service)


def refusal(adapter: Adapter, coroutine: Any) -> str:
    with pytest.raises(ProviderRefused) as caught:
        adapter.ask(coroutine)
    assert str(caught.value)
    assert not str(caught.value).endswith(".")
    return caught.value.error_class


def attempt(adapter: Adapter, coroutine: Any) -> tuple[Any, str | None]:
    """Returns what it answers, or the class with which it refuses."""
    try:
        return adapter.ask(coroutine), None
    except ProviderRefused as error:
        return None, error.error_class


def test_a_snapshot_is_consistent_and_brings_nothing_new_the_second_time(reader: Adapter) -> None:
    snapshot: Snapshot = reader.ask(fetch_all(reader.provider, reader.connection.provider_ref, None))
    assert snapshot.connection.provider_ref == reader.connection.provider_ref
    accounts = [account.provider_ref for account in snapshot.accounts]
    assert len(set(accounts)) == len(accounts) > 0
    assert {facts.account_ref for facts in snapshot.transactions} <= set(accounts)
    # Banks number the bookings of each account.
    refs = [
        (facts.account_ref, facts.provider_ref) for facts in snapshot.transactions if facts.provider_ref is not None
    ]
    assert len(set(refs)) == len(refs)

    def ingest(tx: Tx) -> Counts:
        connections.lock(tx, reader.owner.id, reader.connection.id)
        return reports.ingest_snapshot(tx, reader.connection, snapshot)

    assert reader.service.db.write_now(ingest) == Counts(0, 0, 0)


def test_a_balance_that_the_bank_does_not_tell_is_null_and_the_account_is_there(reader: Adapter) -> None:
    if reader.withhold_balance is None:
        # Our own bank always tells; and by EBICS, what the last statement said holds until there is another.
        assert isinstance(reader.provider, SandboxProvider | EbicsProvider)
        return

    def read() -> tuple[Any, int]:
        snapshot = reader.ask(fetch_all(reader.provider, reader.connection.provider_ref, None))
        reader.service.db.write_now(reports.ingest_snapshot, reader.connection, snapshot)
        accounts = reader.service.get("/v2/banking/accounts", reader.owner.key).json()["data"]
        found = next(one for one in accounts if one["extra"]["iban"] == reader.iban)
        return found["balance"], found["extra"]["transactions_count"]["posted"]

    told, booked = read()
    reader.withhold_balance()
    assert isinstance(told, float)
    assert read() == (None, booked)


def test_banks_have_codes_of_their_own_that_flows_take(reader: Adapter) -> None:
    listed = reader.ask(reader.provider.banks())
    assert len({bank.code for bank in listed}) == len(listed) > 0
    for bank in listed:
        assert bank.name
        assert len(bank.country_code) == 2
    chosen = next(bank for bank in listed if bank.code == reader.connection.provider_code)
    request = ConnectRequest("pending_x", chosen.api, chosen.code, (), None, organization_id=reader.owner.id)
    assert reader.ask(reader.provider.start_connect(request)).provider_name == chosen.name


def test_a_connect_flow_has_an_address_that_expires(reader: Adapter) -> None:
    request = ConnectRequest("pending_x", reader.connection.api, None, (), None, organization_id=reader.owner.id)
    start, error_class = attempt(reader, reader.provider.start_connect(request))
    if start is None:
        # The person chooses the bank on our page first.
        assert error_class == BANK_NEEDED
        request = request._replace(provider_code=reader.connection.provider_code)
        start = reader.ask(reader.provider.start_connect(request))
    # At a page of the provider, or with a step on ours.
    assert (start.connect_url is None) is (start.interaction is not None)
    assert start.expires_at > reader.service.clock.now()
    assert refusal(reader, reader.provider.start_connect(request._replace(provider_code="nirgendwo"))) == "ProviderNotFound"  # fmt: skip


def test_a_connection_that_is_not_there_is_refused_and_ending_it_is_no_error(reader: Adapter) -> None:
    provider, ref = reader.provider, reader.connection.provider_ref
    for gone in ("nobody", ref):
        for _ in range(2):
            reader.ask(provider.remove(gone))
        assert refusal(reader, provider.fetch(gone))
        assert refusal(reader, provider.refresh(gone, "manual"))


def test_an_order_is_accepted_once_and_found_by_its_end_to_end_id(adapter: Adapter) -> None:
    provider, order = adapter.provider, adapter.order()
    nothing = None if adapter.knows_its_payments else CANNOT_BE_KNOWN
    assert adapter.ask(provider.find_payment(order)) == nothing
    start: PaymentStart = adapter.ask(provider.create_payment(order))
    assert start.report.status == "initiated"
    assert start.payment_url
    # A status that says nothing yet leaves it so.
    assert adapter.ask(provider.payment_status(start.provider_ref)).status in ("initiated", None)
    found = adapter.ask(provider.find_payment(order))
    if adapter.knows_its_payments or found != CANNOT_BE_KNOWN:
        assert found.provider_ref == start.provider_ref
    if adapter.knows_its_payments:
        assert adapter.ask(provider.create_payment(order)).provider_ref == start.provider_ref
    assert adapter.ask(provider.find_payment(adapter.order(end_to_end_id="KB2-0A0B0C0D"))) == nothing


def test_a_payment_is_cancelled_before_it_is_authorised_and_again_without_harm(adapter: Adapter) -> None:
    ref = adapter.ask(adapter.provider.create_payment(adapter.order())).provider_ref
    if not adapter.cancels:
        assert refusal(adapter, adapter.provider.cancel_payment(ref)) == "ActionNotSupported"
        assert adapter.ask(adapter.provider.payment_status(ref)).status in ("initiated", None)
        return
    for _ in range(2):
        report = adapter.ask(adapter.provider.cancel_payment(ref))
        assert (report.status, report.error_class) == ("failed", CANCELLED)
    assert adapter.ask(adapter.provider.payment_status(ref)).status == "failed"
    assert refusal(adapter, adapter.provider.cancel_payment("nobody"))


def test_an_impossible_order_is_refused_and_does_not_exist(adapter: Adapter) -> None:
    for wrong in ({"account_ref": "nobody"}, {"connection_ref": "nobody"}):
        order = adapter.order(**wrong)
        assert refusal(adapter, adapter.provider.create_payment(order))
        assert adapter.ask(adapter.provider.find_payment(order)) in (None, CANNOT_BE_KNOWN)
    assert refusal(adapter, adapter.provider.payment_status("nobody"))


def test_a_delivery_that_it_did_not_sign_is_refused(reader: Adapter) -> None:
    for headers in ({}, {"webhook-id": "x", "webhook-timestamp": "1", "webhook-signature": "v1,x"}):
        with pytest.raises(BadSignature):
            reader.provider.read_webhook(Delivery("https://kontobahn.example/x", "", headers, b"{}"))


def test_a_payment_is_authorised_at_a_page_or_by_a_file(adapter: Adapter) -> None:
    start = adapter.ask(adapter.provider.create_payment(adapter.order()))
    assert adapter.provider.orders_are_files is (start.payment_url is None)
    if not adapter.provider.orders_are_files:
        with pytest.raises(ProviderRefused):
            adapter.provider.order_file("M-1", START, [adapter.order()])
