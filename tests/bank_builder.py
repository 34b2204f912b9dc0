"""Banks for tests: a provider that follows the test's script, and connections made with it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import date
from typing import Any, Literal

import msgspec
import schwifty

from kontobahn.banking.connections import store as connections
from kontobahn.banking.connections.store import ConnectionRow
from kontobahn.banking.interaction import Given, Interaction
from kontobahn.banking.provider import (
    CANCELLED,
    AccountFacts,
    Api,
    BadSignature,
    BankConnectionFacts,
    Banking,
    ConnectionFailed,
    ConnectionFinished,
    ConnectionGone,
    ConnectRequest,
    ConnectStart,
    Delivery,
    ListedBank,
    OrderFile,
    PaymentOrder,
    PaymentReport,
    PaymentReported,
    PaymentStart,
    PersonHere,
    ProviderRefused,
    RefreshType,
    Report,
    Snapshot,
    TransactionFacts,
)  # fmt: skip
from kontobahn.banking.reports import intake as reports
from kontobahn.banking.transactions.ingest import Counts
from kontobahn.clock import DAY, HOUR
from kontobahn.db import Tx
from tests.harness import START, Organization, Service

IBAN, SECOND_IBAN = "DE89370400440532013000", "DE02120300000000202051"
CREDITOR_IBAN = "DE75512108001245126199"
SIGNATURE = "as agreed"
_REPORTS = {item.__name__: item for item in (ConnectionFinished, ConnectionFailed, ConnectionGone)}


def generated_iban(number: int) -> schwifty.IBAN:
    return schwifty.IBAN.generate("DE", bank_code="37040044", account_code=str(number))


def facts(
    amount_minor: int, description: str = "SVWZ+Rechnung 1", day: str = "2026-03-01", **more: Any
) -> TransactionFacts:
    return TransactionFacts(
        account_ref=more.pop("account_ref", "giro"), made_on=date.fromisoformat(day), amount_minor=amount_minor,
        currency_code="EUR", description=description, **more,
    )  # fmt: skip


def account_facts(ref: str = "giro", iban: str | None = IBAN, **more: Any) -> AccountFacts:
    values = {
        "name": "Girokonto",
        "nature": "checking",
        "balance_minor": 100_00,
        "currency_code": "EUR",
        "holder_name": "Muster GmbH",
    }
    return AccountFacts(provider_ref=ref, iban=iban, **{**values, **more})


class ScriptedBank:
    """Answers as scripted, and records what it was asked."""

    name = "scripted"
    debit_settles = False
    orders_are_files = False

    def __init__(self) -> None:
        self.snapshots: dict[str, Snapshot] = {}
        self.asked: list[tuple[Any, ...]] = []
        # Returned by creating and finding a payment; an exception is raised.
        self.creation: PaymentStart | Exception | None = None
        self.found: PaymentStart | Literal["cannot be known"] | Exception | None = None
        self.live: PaymentReport | Exception = PaymentReport(None)
        self.cancellation: PaymentReport | Exception = PaymentReport("failed", "CANC", CANCELLED, "Cancelled as asked")
        self.refusal: Exception | None = None
        # Pages after the first, by name; and what a refresh reports at once.
        self.pages: dict[str, Snapshot] = {}
        self.answers: list[Report] = []
        self.fetch_refusal: Exception | None = None
        self.asked_since: list[date | None] = []
        # Steps on our pages: the first, and what each next one answers; an exception is raised.
        self.first_step: Interaction | None = None
        self.steps: list[Interaction | list[Report] | Exception] = []
        self.returns: list[list[Report] | Exception] = []
        self.delivered: list[tuple[str, str]] = []
        self.listed: list[ListedBank] | Exception = []

    async def close(self) -> None:
        """Does nothing: what it uses is closed elsewhere."""

    async def banks(self) -> Sequence[ListedBank]:
        if isinstance(self.listed, Exception):
            raise self.listed
        return self.listed

    async def start_connect(self, request: ConnectRequest) -> ConnectStart:
        self.asked.append(("start_connect", request))
        if self.refusal:
            raise self.refusal
        if self.first_step is not None:
            return ConnectStart(None, self.first_step.expires_at, "Musterbank", interaction=self.first_step)
        return ConnectStart(f"https://bank.example/connect/{request.pending_token}", START + HOUR)

    async def proceed(self, state: bytes, given: Given) -> Interaction | Sequence[Report]:
        self.asked.append(("proceed", state, dict(given)))
        answer = self.steps.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def abandon(self, state: bytes) -> None:
        self.asked.append(("abandon", state))

    async def fetch(
        self, provider_ref: str, since: date | None = None, page: str | None = None, person: PersonHere | None = None
    ) -> Snapshot:
        self.asked.append(("fetch", provider_ref))
        self.asked_since.append(since)
        if self.fetch_refusal:
            raise self.fetch_refusal
        return self.snapshots[provider_ref] if page is None else self.pages[page]

    async def refresh(
        self, provider_ref: str, kind: RefreshType, since: date | None = None, person: PersonHere | None = None
    ) -> Sequence[Report]:
        self.asked.append(("refresh", provider_ref, kind))
        if self.refusal:
            raise self.refusal
        return self.answers

    async def remove(self, provider_ref: str) -> None:
        self.asked.append(("remove", provider_ref))
        if self.refusal:
            raise self.refusal

    async def create_payment(self, order: PaymentOrder) -> PaymentStart:
        self.asked.append(("create_payment", order))
        if isinstance(self.creation, Exception):
            raise self.creation
        return self.creation or PaymentStart(
            f"bank-{order.end_to_end_id}", "https://bank.example/pay", START + HOUR, PaymentReport("initiated", "RCVD")
        )

    async def find_payment(self, order: PaymentOrder) -> PaymentStart | Literal["cannot be known"] | None:
        self.asked.append(("find_payment", order))
        if isinstance(self.found, Exception):
            raise self.found
        return self.found

    async def payment_status(self, provider_ref: str) -> PaymentReport:
        self.asked.append(("payment_status", provider_ref))
        if isinstance(self.live, Exception):
            raise self.live
        return self.live

    async def cancel_payment(self, provider_ref: str) -> PaymentReport:
        self.asked.append(("cancel_payment", provider_ref))
        if isinstance(self.cancellation, Exception):
            raise self.cancellation
        return self.cancellation

    def order_file(
        self, message_id: str, created_at: int, orders: Sequence[PaymentOrder], issued_at: int | None = None
    ) -> OrderFile:
        raise ProviderRefused("ActionNotSupported", "Orders are authorised on a page")

    async def returned(self, fields: Mapping[str, str]) -> Sequence[Report]:
        self.asked.append(("returned", dict(fields)))
        answer = self.returns.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    def read_webhook(self, delivery: Delivery) -> str:
        headers = delivery.headers
        self.delivered.append((delivery.url, delivery.kind))
        if headers.get("signature") != SIGNATURE:
            raise BadSignature("signed by somebody else")
        return headers["delivery-id"]

    def reports(self, kind: str, body: bytes) -> list[Report]:
        self.delivered.append(("read", kind))
        report = msgspec.json.decode(body)
        if report["kind"] == "PaymentReported":
            return [PaymentReported(report["provider_ref"], PaymentReport(*report["report"]))]
        return [_REPORTS[report.pop("kind")](**report)]


class Bank:
    """A scripted bank in a running service, with deliveries signed as agreed."""

    def __init__(self, service: Service) -> None:
        self.service = service
        self.provider = ScriptedBank()
        self._deliveries = 0
        # The connections that organisations have, and the accounts of each.
        self._connected: Counter[str] = Counter()
        self._accounts: dict[str, list[AccountFacts]] = {}
        context = service.application.context
        banking = context.part(Banking)
        banking.providers["scripted"] = self.provider
        context.parts[Banking] = banking._replace(connect_providers=("scripted",))  # type: ignore[index]

    def deliver(self, delivery_id: str | None = None, signature: str = SIGNATURE, **report: Any) -> Any:
        self._deliveries += 1
        headers = {"signature": signature, "delivery-id": delivery_id or f"delivery-{self._deliveries}"}
        return self.service.post("/v2/banking/webhooks/scripted", json=report, headers=headers)

    def connection_facts(self, ref: str = "bank-1", **more: Any) -> BankConnectionFacts:
        values: dict[str, Any] = {
            "provider_code": "musterbank_de", "provider_name": "Musterbank", "country_code": "DE",
            "logo_url": "https://bank.example/logo.svg", "templates": ("SEPA", "SEPA_INSTANT"),
            "consent_expires_at": START + 180 * DAY, "next_refresh_possible_at": self.service.clock.now() + HOUR,
            "automatic_refresh": True,
        }  # fmt: skip
        return BankConnectionFacts(provider_ref=ref, **{**values, **more})

    def connected(
        self, organization: Organization, *reported: TransactionFacts, ref: str = "", api: Api = "partner",
        owner_user_id: str | None = None, accounts: list[AccountFacts] | None = None, **more: Any,
    ) -> ConnectionRow:  # fmt: skip
        """Creates a connection as if its flow were finished, with an account and these transactions."""
        ref = ref or f"bank-{organization.id}"
        if accounts is None:
            # A further connection of an organisation is one to another account.
            number = self._connected[organization.id]
            accounts = [account_facts(iban=str(generated_iban(number)) if number else IBAN)]
        self._connected[organization.id] += 1
        self._accounts[ref] = accounts
        self.provider.snapshots[ref] = snapshot = Snapshot(self.connection_facts(ref, **more), accounts, list(reported))

        def make(tx: Tx) -> ConnectionRow:
            row = connections.create(
                tx,
                organization.id,
                provider="scripted",
                api=api,
                owner_user_id=owner_user_id,
                facts=snapshot.connection,
            )
            reports.ingest_snapshot(tx, row, snapshot)
            return row

        return self.service.db.write_now(make)

    def report(
        self, row: ConnectionRow, *reported: TransactionFacts, accounts: list[AccountFacts] | None = None
    ) -> Counts:
        """Ingests what the bank reports about a connection."""
        accounts = accounts or self._accounts.get(row.provider_ref) or [account_facts()]
        snapshot = Snapshot(self.connection_facts(row.provider_ref), accounts, list(reported))
        return self.service.db.write_now(_ingest, row, snapshot)


def _ingest(tx: Tx, row: ConnectionRow, snapshot: Snapshot) -> Counts:
    connections.lock(tx, row.organization_id, row.id)
    return reports.ingest_snapshot(tx, row, snapshot)


def account_id(service: Service, organization: Organization, number: int = 0) -> str:
    return str(service.get("/v2/banking/accounts", organization.key).json()["data"][number]["id"])


def events(service: Service, owner: Organization) -> list[dict[str, Any]]:
    """Returns the events of an organisation, in order."""
    rows = service.db.read_now(
        lambda tx: tx.all("SELECT body FROM webhook_events WHERE organization_id = ? ORDER BY sequence", owner.id)
    )
    return [msgspec.json.decode(body) for (body,) in rows]


def order(account: str, **more: Any) -> dict[str, Any]:
    """A valid payment."""
    return {
        "account_id": account, "amount": "12.34", "creditor_name": "Müller & Söhne".replace(" & ", " + "),
        "creditor_iban": CREDITOR_IBAN, "description": "Rechnung 4711", **more,
    }  # fmt: skip
