"""The sandbox bank behind the provider port. Its answers come from its own tables, its reports through its own webhooks."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping, Sequence
from datetime import date

from kontobahn.bank_providers.sandbox import bank, flows, order_files, payments, store, webhooks
from kontobahn.bank_providers.sandbox.payments import SandboxPayment
from kontobahn.bank_providers.sandbox.rules import BANKS, Booking, choose_plan, purpose
from kontobahn.bank_providers.sandbox.store import SandboxAccount, SandboxConnection
from kontobahn.bank_providers.sandbox.webhooks import DeliverySender, WebhookClient
from kontobahn.banking import sandbox as port
from kontobahn.banking.interaction import Given, Interaction
from kontobahn.banking.provider import (
    SANDBOX,
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
)
from kontobahn.banking.sandbox import NewBooking, SandboxClock, SandboxControls
from kontobahn.clock import DAY, Clock
from kontobahn.db import Database, Tx
from kontobahn.errors import NotFound
from kontobahn.settings import Settings
from kontobahn.vault import Vault

NAME = SANDBOX


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
        await self._db.write(_remove, provider_ref)

    async def create_payment(self, order: PaymentOrder) -> PaymentStart:
        creation = choose_plan(order.creditor_name, order.amount_minor, order.template_identifier).creation
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

    def order_file(
        self, message_id: str, created_at: int, orders: Sequence[PaymentOrder], issued_at: int | None = None
    ) -> OrderFile:
        raise ProviderRefused("ActionNotSupported", "The payer authorises payments on the bank's page")

    async def returned(self, fields: Mapping[str, str]) -> Sequence[Report]:
        raise ProviderRefused("ActionNotSupported", "The sandbox bank reports by deliveries")

    def read_webhook(self, delivery: Delivery) -> str:
        return webhooks.check(self._key, delivery.headers, delivery.body, self._clock.now())

    def reports(self, kind: str, body: bytes) -> list[Report]:
        return webhooks.reports(body)

    def _start(self, row: SandboxPayment) -> PaymentStart:
        url = f"{self._base_url}/sandbox/pay/{row.token}"
        return PaymentStart(row.ref, url, row.expires_at, payments.report_of(row))


def _remove(tx: Tx, provider_ref: str) -> None:
    store.begin_change(tx)
    order_files.leave(tx, provider_ref)
    bank.remove(tx, provider_ref)


# Done by the bank's clock, in this order: table and column that note when something is due, and what happens then.
_BY_CLOCK: tuple[tuple[str, str, Callable[[Tx, int], None]], ...] = (
    ("sandbox_connections", "answer_at", bank.answer_slow_requests),
    ("sandbox_flows", "approval_at", flows.receive_app_answers),
    ("sandbox_payments", "approval_at", payments.receive_app_answers),
    ("sandbox_payments", "next_at", payments.advance),
    ("sandbox_orders", "next_at", order_files.settle),
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
    order_files.purge(tx)
    bank.purge(tx)
    tx.run(
        "DELETE FROM sandbox_payments WHERE created_at <= ? AND (status = 'settled' OR status = 'failed' OR status = 'rejected')"
        " AND next_at IS NULL",
        tx.now - 90 * DAY,
    )


# --- Controls: one function for each thing that people and commands make happen at the bank


RAW_STATUS = {
    "initiated": "RCVD", "initiated_info_required": "PATC", "authorizing": "PDNG", "authorized": "ACTC", "processing": "ACSP",
    "executed": "ACSC", "settled": "ACCC", "failed": "CANC", "rejected": "RJCT",
}  # fmt: skip


def book(tx: Tx, account: SandboxAccount, wanted: NewBooking) -> None:
    row = store.find_connection(tx, account.connection_ref)
    assert row is not None
    extra = {"additional": "Gutschrift" if wanted.amount_minor > 0 else "Überweisung"}
    if wanted.name:
        extra["payer" if wanted.amount_minor > 0 else "payee"] = wanted.name
    text = wanted.text
    if wanted.end_to_end_id:
        text = purpose(row.bank.style, text, EREF=wanted.end_to_end_id)
    booking = Booking(
        wanted.day or store.bank_day(tx), wanted.amount_minor, text,
        status="pending" if wanted.is_pending else "posted", end_to_end_id=wanted.end_to_end_id, extra=extra,
    )  # fmt: skip
    bank.book(tx, account, booking, quietly=wanted.is_quiet)


def fail(tx: Tx, row: SandboxConnection, error_class: str, message: str | None, *, at_refresh: bool) -> None:
    if at_refresh:
        bank.fail_next_refresh(tx, row, error_class, message)
    else:
        bank.notify_failure(tx, error_class, message or "", ref=row.ref, pending_token=None)


def set_payment_status(tx: Tx, payment_id: str, status: str, raw_status: str | None = None) -> SandboxPayment:
    row = payments.find_by_any_id(tx, payment_id)
    if row is None:
        raise NotFound(f"The sandbox bank has no payment “{payment_id}”.")
    return payments.force_status(tx, row, status, raw_status or RAW_STATUS.get(status, "PDNG"))


# --- For the dashboard


def controls() -> SandboxControls:
    return SandboxControls(
        provider=NAME,
        look=_look,
        book=lambda tx, ref, account_ref, wanted: book(tx, _account(tx, ref, account_ref), wanted),
        post_pending=lambda tx, ref: bank.post_pending(tx, _open(tx, ref)),
        report=lambda tx, ref: bank.notify_new_data(tx, _open(tx, ref)),
        expire_consent=lambda tx, ref: bank.expire_consent(tx, _open(tx, ref)),
        fail=lambda tx, ref, error_class, at_refresh: fail(
            tx, _open(tx, ref), error_class, None, at_refresh=at_refresh
        ),
        destroy=lambda tx, ref: bank.destroy(tx, _open(tx, ref)),
        set_payment_status=set_payment_status,
        hand_in=order_files.hand_in,
        order_desk=order_files.desk,
        order_report=order_files.report,
        order_statement=order_files.statement,
        forget_orders=order_files.forget,
        clock=lambda tx: SandboxClock(store.bank_now(tx), store.ahead(tx)),
        move_clock=move_clock,
    )


def _open(tx: Tx, ref: str) -> SandboxConnection:
    row = store.find_connection(tx, ref)
    if row is None or row.status != "open":
        raise NotFound("The sandbox bank has ended this connection.")
    return row


def _account(tx: Tx, ref: str, account_ref: str) -> SandboxAccount:
    _open(tx, ref)
    found = next((account for account in store.accounts_of_connection(tx, ref) if account.ref == account_ref), None)
    if found is None:
        raise NotFound("The sandbox bank has no such account.")
    return found


def _look(tx: Tx, ref: str) -> port.SandboxConnection | None:
    row = store.find_connection(tx, ref)
    if row is None or row.status != "open":
        return None
    accounts = [
        port.SandboxAccount(account.ref, account.name, account.iban, account.balance_minor)
        for account in store.accounts_of_connection(tx, ref)
    ]
    return port.SandboxConnection(row.ref, row.user_name, row.consent_expires_at, accounts)
