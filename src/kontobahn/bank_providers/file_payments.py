"""Shared by adapters that only read accounts: payments from these are order files, as for accounts that are kept by files."""

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
