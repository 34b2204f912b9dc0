"""The sandbox bank behind the provider port. Its answers come from its own tables, its reports through its own webhooks."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping, Sequence
from datetime import date

from kontobahn.banking.interaction import Given, Interaction
from kontobahn.banking.provider import (
    ConnectRequest,
    ConnectStart,
    Delivery,
    ListedBank,
    OrderFile,
    PaymentOrder,
    PaymentReport,
    PaymentStart,
    PersonHere,
    ProviderDown,
    ProviderRefused,
    RefreshType,
    Report,
    Snapshot,
)  # fmt: skip
from kontobahn.clock import DAY, Clock
from kontobahn.db import Database, Tx
from kontobahn.sandbox_bank import bank, deliveries, flows, payments, store
from kontobahn.sandbox_bank.banks import BANKS
from kontobahn.sandbox_bank.deliveries import DeliverySender, WebhookClient
from kontobahn.sandbox_bank.payments import SandboxPayment
from kontobahn.sandbox_bank.plans import choose
from kontobahn.settings import Settings
from kontobahn.vault import Vault

NAME = "sandbox"


class SandboxProvider:
    name = NAME
    debit_settles = False
    orders_are_files = False

    def __init__(self, db: Database, vault: Vault, settings: Settings, clock: Clock, client: WebhookClient) -> None:
        self._db = db
        self._clock = clock
        self._key = vault.derive("sandbox webhooks")
        self._base_url = settings.base_url
        self.sender = DeliverySender(
            db, clock, self._key, settings.sandbox_url or settings.base_url, client, advance, is_due
        )

    async def close(self) -> None:
        """Does nothing: what it uses is closed elsewhere."""

    async def banks(self) -> Sequence[ListedBank]:
        return [
            ListedBank(
                bank.code, bank.name, bank.country_code, bank.api, (bank.bic,) if bank.bic else (),
                (bank.bank_number,) if bank.bank_number else (), self._base_url + bank.logo_path, bank.templates,
                bank.consent_life // DAY,
            )
            for bank in BANKS.values()
        ]  # fmt: skip

    async def start_connect(self, request: ConnectRequest) -> ConnectStart:
        token = secrets.token_urlsafe(32)
        expires_at = await self._db.write(flows.begin, token, request)
        url = f"{self._base_url}/sandbox/connect/{token}"
        chosen = BANKS.get(request.provider_code or "")
        if chosen is None:
            return ConnectStart(url, expires_at)
        return ConnectStart(url, expires_at, chosen.name, chosen.country_code, self._base_url + chosen.logo_path)

    async def proceed(self, state: bytes, given: Given) -> Interaction | Sequence[Report]:
        raise ProviderRefused("ActionNotSupported", "The sandbox bank has pages of its own")

    async def abandon(self, state: bytes) -> None:
        """Does nothing: there are no steps on our pages."""

    async def fetch(
        self, provider_ref: str, since: date | None = None, page: str | None = None, person: PersonHere | None = None
    ) -> Snapshot:
        return await self._db.read(bank.snapshot, provider_ref, self._base_url)

    async def refresh(
        self, provider_ref: str, kind: RefreshType, since: date | None = None, person: PersonHere | None = None
    ) -> Sequence[Report]:
        await self._db.write(bank.refresh, provider_ref)
        return ()

    async def remove(self, provider_ref: str) -> None:
        await self._db.write(bank.remove, provider_ref)

    async def create_payment(self, order: PaymentOrder) -> PaymentStart:
        creation = choose(order.creditor_name, order.amount_minor, order.template_identifier).creation
        if creation == "not created, no answer":
            raise ProviderDown("The sandbox bank did not answer, as requested.")
        row = await self._db.write(payments.create, order)
        if creation == "created, no answer":
            raise ProviderDown("The sandbox bank did not answer, as requested.")
        return self._start(row)

    async def find_payment(self, order: PaymentOrder) -> PaymentStart | None:
        row = await self._db.read(payments.by_order, order)
        return None if row is None else self._start(row)

    async def payment_status(self, provider_ref: str) -> PaymentReport:
        if await self._db.read(is_due):
            await self._db.write(advance)
        row = await self._db.read(payments.by_ref, provider_ref)
        if row is None:
            raise ProviderRefused("PaymentNotFound", "The bank knows no such payment")
        return payments.report_of(row)

    async def cancel_payment(self, provider_ref: str) -> PaymentReport:
        return payments.report_of(await self._db.write(payments.cancel, provider_ref))

    def order_file(self, message_id: str, created_at: int, orders: Sequence[PaymentOrder]) -> OrderFile:
        raise ProviderRefused("ActionNotSupported", "The payer authorises payments on the bank's page")

    async def returned(self, fields: Mapping[str, str]) -> Sequence[Report]:
        raise ProviderRefused("ActionNotSupported", "The sandbox bank reports by deliveries")

    def read_webhook(self, delivery: Delivery) -> str:
        return deliveries.check(self._key, delivery.headers, delivery.body, self._clock.now())

    def reports(self, kind: str, body: bytes) -> list[Report]:
        return deliveries.reports(body)

    def _start(self, row: SandboxPayment) -> PaymentStart:
        url = f"{self._base_url}/sandbox/pay/{row.token}"
        return PaymentStart(row.ref, url, row.expires_at, payments.report_of(row))


# What the bank does by its clock, in this order: where it is noted when something is due, and what happens then.
_BY_CLOCK: tuple[tuple[str, str, Callable[[Tx, int], None]], ...] = (
    ("sandbox_connections", "answer_at", bank.answer_slow_requests),
    ("sandbox_flows", "approval_at", flows.receive_app_answers),
    ("sandbox_payments", "approval_at", payments.receive_app_answers),
    ("sandbox_payments", "next_at", payments.advance),
)


def advance(tx: Tx) -> None:
    """Does whatever is due by the bank's clock."""
    store.begin_change(tx)
    now = store.bank_now(tx)
    for table, column, act in _BY_CLOCK:
        if _is_due(tx, table, column, now):
            act(tx, now)


def is_due(tx: Tx) -> bool:
    now = store.bank_now(tx)
    return any(_is_due(tx, table, column, now) for table, column, _ in _BY_CLOCK)


def _is_due(tx: Tx, table: str, column: str, now: int) -> bool:
    return tx.one(f"SELECT 1 FROM {table} WHERE {column} <= ? LIMIT 1", now) is not None


def move_clock(tx: Tx, ahead: int) -> None:
    """Sets how far the bank's clock is ahead of ours, and lets everything happen that is due by then."""
    store.begin_change(tx)
    before = store.bank_now(tx)
    store.set_ahead(tx, ahead)
    bank.expire_passed_consents(tx, before, store.bank_now(tx))
    advance(tx)


def tidy(tx: Tx) -> None:
    bank.purge(tx)
    tx.run(
        "DELETE FROM sandbox_payments WHERE created_at <= ? AND (status = 'settled' OR status = 'failed' OR status = 'rejected')"
        " AND next_at IS NULL",
        tx.now - 90 * DAY,
    )
