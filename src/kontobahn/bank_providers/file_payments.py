"""Shared by adapters: payments from accounts that are only read are order files, as for accounts that are kept by files."""

from __future__ import annotations

from collections.abc import Sequence

from kontobahn.banking.provider import (
    BankProvider,
    OrderFile,
    PaymentOrder,
    PaymentReport,
    PaymentStart,
    Report,
)
from kontobahn.formats.pain.sepa import Address, read_address


class FilePayments:
    """The part of the port that is about payments, and about deliveries, of which such a bank makes none."""

    debit_settles = True
    orders_are_files = True

    def __init__(self, files: BankProvider) -> None:
        self._files = files

    async def create_payment(self, order: PaymentOrder) -> PaymentStart:
        return await self._files.create_payment(order)

    async def find_payment(self, order: PaymentOrder) -> PaymentStart | None:
        return await self._files.create_payment(order)

    async def payment_status(self, provider_ref: str) -> PaymentReport:
        return await self._files.payment_status(provider_ref)

    async def cancel_payment(self, provider_ref: str) -> PaymentReport:
        return await self._files.cancel_payment(provider_ref)

    def order_file(
        self, message_id: str, created_at: int, orders: Sequence[PaymentOrder], issued_at: int | None = None
    ) -> OrderFile:
        return self._files.order_file(message_id, created_at, orders, issued_at)

    def reports(self, kind: str, body: bytes) -> list[Report]:
        return []


def address_of(order: PaymentOrder) -> Address | None:
    """The payee's address. Raises BadRequest if its town cannot be told from the rest."""
    address = order.details.get("creditor_address")
    # Orders from before it was asked for may not say it.
    country = order.details.get("creditor_country_code") or order.creditor_iban[:2]
    if isinstance(address, str):
        return read_address(address, country)
    if not isinstance(address, dict):
        return None
    return Address(
        country=country,
        town=address["town_name"],
        street=address.get("street_name"),
        building=address.get("building_number"),
        postcode=address.get("post_code"),
    )
