"""Real accounts without an aggregator: statements come in as files, payments go out as files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date, timedelta

from kontobahn.bank_providers.file_payments import address_of
from kontobahn.banking.interaction import Given, Interaction
from kontobahn.banking.provider import (
    CANCELLED,
    FILES,
    BadSignature,
    ConnectRequest,
    ConnectStart,
    Delivery,
    ListedBank,
    OrderFile,
    PaymentOrder,
    PaymentReport,
    PaymentStart,
    PersonHere,
    ProviderRefused,
    RefreshType,
    Report,
    Snapshot,
)  # fmt: skip
from kontobahn.clock import berlin_date, start_of_day, to_datetime
from kontobahn.formats.pain import sepa
from kontobahn.formats.pain.messages import Debtor, Transfer, instruction_ids, write_pain001

# The provider of accounts kept by files: the bank cannot be reached, and an order is a file for the payer to upload.


_BY_FILES = "This account is kept by files: import its statements with `kontobahn import statements`"


class FilesProvider:
    name = FILES
    # Many banks never hand out a status report on an uploaded order, so the booked debit is what settles it.
    debit_settles = True
    orders_are_files = True

    def __init__(self, order_days: int) -> None:
        self._order_days = order_days

    async def close(self) -> None:
        """Does nothing: what it uses is closed elsewhere."""

    async def banks(self) -> Sequence[ListedBank]:
        return ()

    async def start_connect(self, request: ConnectRequest) -> ConnectStart:
        raise ProviderRefused("ActionNotSupported", _BY_FILES)

    async def proceed(self, state: bytes, given: Given) -> Interaction | Sequence[Report]:
        raise ProviderRefused("ActionNotSupported", _BY_FILES)

    async def abandon(self, state: bytes) -> None:
        """Does nothing: there are no steps on our pages."""

    async def fetch(
        self, provider_ref: str, since: date | None = None, page: str | None = None, person: PersonHere | None = None
    ) -> Snapshot:
        raise ProviderRefused("ActionNotSupported", _BY_FILES)

    async def refresh(
        self, provider_ref: str, kind: RefreshType, since: date | None = None, person: PersonHere | None = None
    ) -> Sequence[Report]:
        raise ProviderRefused("ActionNotSupported", _BY_FILES)

    async def remove(self, provider_ref: str) -> None:
        """Does nothing: no one else has access."""

    async def create_payment(self, order: PaymentOrder) -> PaymentStart:
        ends = start_of_day(_execution_date(order, order.created_at) + timedelta(days=self._order_days + 1))
        return PaymentStart(order.end_to_end_id, None, ends, PaymentReport("initiated"))

    async def find_payment(self, order: PaymentOrder) -> PaymentStart | None:
        return await self.create_payment(order)

    async def payment_status(self, provider_ref: str) -> PaymentReport:
        return PaymentReport(None)

    async def cancel_payment(self, provider_ref: str) -> PaymentReport:
        """Agrees: whether the file was uploaded is known only to whoever cancels."""
        return PaymentReport("failed", None, CANCELLED, "The order was cancelled.")

    def order_file(
        self, message_id: str, created_at: int, orders: Sequence[PaymentOrder], issued_at: int | None = None
    ) -> OrderFile:
        issued_at = issued_at or created_at
        debtor = Debtor(sepa.payer_name(orders[0].debtor_name), orders[0].debtor_iban)
        transfers = [_transfer(order, created_at) for order in orders]
        earliest = berlin_date(issued_at)
        content = write_pain001(message_id, to_datetime(issued_at), debtor, transfers, earliest)
        return OrderFile(
            content,
            instruction_ids(message_id, transfers),
            min(max(transfer.execution_date, earliest) for transfer in transfers),
            {order.end_to_end_id: left for order in orders if (left := _left_out(order))},
            message_id,
        )

    async def returned(self, fields: Mapping[str, str]) -> Sequence[Report]:
        raise ProviderRefused("ActionNotSupported", "Nobody comes back from a file")

    def read_webhook(self, delivery: Delivery) -> str:
        raise BadSignature("files send nothing")

    def reports(self, kind: str, body: bytes) -> list[Report]:
        return []


def _transfer(order: PaymentOrder, created_at: int) -> Transfer:
    agent = order.details.get("creditor_agent")
    return Transfer(
        end_to_end_id=order.end_to_end_id,
        amount_minor=order.amount_minor,
        creditor_name=order.creditor_name,
        creditor_iban=order.creditor_iban,
        description=order.description,
        reference=order.reference,
        execution_date=_execution_date(order, created_at),
        template=order.template_identifier,
        creditor_bic=agent if isinstance(agent, str) else None,
        creditor_address=address_of(order),
    )


def _execution_date(order: PaymentOrder, created_at: int) -> date:
    """The day the order names, or the day of the file if it names none or one that has passed."""
    day, today = order.details.get("date"), berlin_date(created_at)
    return max(date.fromisoformat(day), today) if isinstance(day, str) else today


def _left_out(order: PaymentOrder) -> tuple[str, ...]:
    """The fields of an order that a file has no place for: an address must have a town, and a bank is known by its BIC."""
    details = order.details
    left_out = []
    if "creditor_country_code" in details and "creditor_address" not in details:
        left_out.append("creditor_country_code")
    if "creditor_agent_name" in details:
        left_out.append("creditor_agent_name")
    return tuple(left_out)
