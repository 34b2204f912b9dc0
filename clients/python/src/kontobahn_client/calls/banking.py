"""Bank connections, accounts, transactions and payments.

A declaration is all there is of a call: its path, and its parameters and answer by their types.
"""

# mypy: disable-error-code="empty-body"

from __future__ import annotations

from datetime import date
from typing import Literal

from kontobahn_client.calls.declarations import delete, get, pages, post, put
from kontobahn_client.models.banking import (
    AccountMerge,
    AccountMergePreview,
    Bank,
    BankAccount,
    BankConnection,
    Change,
    ChangesAnswer,
    Connect,
    ConnectAnswer,
    CreatedPayment,
    CurrentPayment,
    NewAccountMerge,
    NewOrderFile,
    NewPayment,
    NewPaymentLimit,
    OrderFileSubmission,
    Payment,
    PaymentEvent,
    PaymentLimit,
    PaymentOrderFile,
    Reconnect,
    Refresh,
    Removed,
    StatementImportReport,
    Transaction,
)
from kontobahn_client.models.common import Data, File, Page
from kontobahn_client.transport.exchange import FileBody


class BankingCalls:
    @get("/v2/banking/connections")
    def list_bank_connections(self, *, organization_id: str | None = None) -> Page[BankConnection]:
        """List the bank connections, including unfinished ones."""

    @get("/v2/banking/connections/{id}")
    def get_bank_connection(self, id: str) -> Data[BankConnection]:
        """Read one bank connection."""

    @delete("/v2/banking/connections/{id}")
    def delete_bank_connection(self, id: str) -> Data[Removed]:
        """Remove a connection with its accounts and transactions, and end the access at the bank."""

    @post("/v2/banking/connect")
    def start_connect(
        self,
        body: Connect | None = None,
        *,
        api: Literal["openbanking", "partner"] | None = None,
        organization_id: str | None = None,
        idempotency_key: str | None = None,
    ) -> ConnectAnswer:
        """Start a connect flow."""

    @post("/v2/banking/connections/{id}/reconnect")
    def reconnect_bank_connection(
        self, id: str, body: Reconnect | None = None, *, idempotency_key: str | None = None
    ) -> ConnectAnswer:
        """Start a flow that renews a connection."""

    @post("/v2/banking/connections/{id}/refresh")
    def refresh_bank_connection(
        self, id: str, body: Refresh | None = None, *, idempotency_key: str | None = None
    ) -> Data[BankConnection]:
        """Ask the bank for new data now."""

    @pages("/v2/banking/providers", Bank)
    def list_banks(
        self,
        *,
        name: str | None = None,
        bic: str | None = None,
        blz: str | None = None,
        country: str | None = None,
        supports: Literal["accounts", "instant_payments", "payments"] | None = None,
        api: Literal["openbanking", "partner"] | None = None,
        from_code: str | None = None,
        limit: int | None = None,
    ) -> Page[Bank]:
        """List the banks that can be connected, by name."""

    @get("/v2/banking/accounts")
    def list_bank_accounts(
        self,
        *,
        api: Literal["openbanking", "partner"] | None = None,
        connection_id: str | None = None,
        payments_supported: bool | None = None,
        organization_id: str | None = None,
    ) -> Page[BankAccount]:
        """List bank accounts: all of the organisation, or those of one connection."""

    @get("/v2/banking/accounts/{id}")
    def get_bank_account(self, id: str) -> Data[BankAccount]:
        """Read one bank account."""

    @get("/v2/banking/account-merges/preview")
    def preview_account_merge(self, account_id: str, merged_account_id: str) -> Data[AccountMergePreview]:
        """Show what making one account of two would do."""

    @post("/v2/banking/account-merges")
    def create_account_merge(self, body: NewAccountMerge, *, idempotency_key: str | None = None) -> Data[AccountMerge]:
        """Make one account of two with the same IBAN."""

    @get("/v2/banking/account-merges")
    def list_account_merges(self, *, organization_id: str | None = None) -> Page[AccountMerge]:
        """List the merges of accounts, the latest first."""

    @post("/v2/banking/account-merges/{id}/undo")
    def undo_account_merge(self, id: str, *, idempotency_key: str | None = None) -> Data[AccountMerge]:
        """Make two accounts again of those that were made one."""

    @pages("/v2/banking/transactions", Transaction, sort="id", limit=1000)
    def list_transactions(
        self,
        *,
        connection_id: str | None = None,
        account_id: str | None = None,
        from_date: date | None = None,
        to_date: date | None = None,
        from_id: str | None = None,
        sort: Literal["id", "made_on"] | None = None,
        limit: int | None = None,
    ) -> Page[Transaction]:
        """List transactions of an account, or of all accounts of a connection."""

    @get("/v2/banking/transactions/{id}")
    def get_transaction(self, id: str, account_id: str) -> Data[Transaction]:
        """Read one transaction."""

    @pages("/v2/banking/transactions/changes", Change)
    def list_transaction_changes(
        self,
        *,
        cursor: str | None = None,
        connection_id: str | None = None,
        account_id: str | None = None,
        limit: int | None = None,
        organization_id: str | None = None,
    ) -> ChangesAnswer:
        """List what has been added, modified or removed since a cursor."""

    @post("/v2/banking/statements")
    def import_statements(
        self,
        file: FileBody,
        *,
        allow_gaps: bool | None = None,
        unbalanced: bool | None = None,
        iban: str | None = None,
        organization_id: str | None = None,
        idempotency_key: str | None = None,
    ) -> Data[StatementImportReport]:
        """Import a file of account statements or payment status reports."""

    @get("/v2/banking/imports")
    def list_statement_imports(
        self, *, limit: int | None = None, organization_id: str | None = None
    ) -> Page[StatementImportReport]:
        """List the files that were imported or refused, the latest first."""

    @get("/v2/banking/imports/{id}")
    def get_statement_import(self, id: str) -> Data[StatementImportReport]:
        """Read what came of one file."""

    @pages("/v2/banking/payments", Payment, sort="id", limit=1000)
    def list_payments(
        self,
        *,
        connection_id: str | None = None,
        account_id: str | None = None,
        from_date: date | None = None,
        to_date: date | None = None,
        sort: Literal["date", "id"] | None = None,
        from_id: str | None = None,
        payee_check: Literal["close_match", "match", "no_match", "not_asked", "not_possible", "pending"] | None = None,
        limit: int | None = None,
        organization_id: str | None = None,
    ) -> Page[Payment]:
        """List the payments, as they are stored and kept current by the bank's reports."""

    @post("/v2/banking/payments")
    def create_payment(
        self,
        body: NewPayment,
        *,
        api: Literal["openbanking", "partner"] | None = None,
        idempotency_key: str | None = None,
    ) -> Data[CreatedPayment]:
        """Initiate a payment."""

    @get("/v2/banking/payments/{id}")
    def get_payment(self, id: str) -> Data[CurrentPayment]:
        """Read one payment, after asking the bank for its status now."""

    @post("/v2/banking/payments/{id}/cancel")
    def cancel_payment(self, id: str, *, idempotency_key: str | None = None) -> Data[CurrentPayment]:
        """Cancel a payment that the bank has not begun to carry out. Its credits are given back."""

    @get("/v2/banking/payments/{id}/history")
    def get_payment_history(self, id: str) -> Page[PaymentEvent]:
        """Read what was reported about a payment: by whom, when, and with what outcome."""

    @get("/v2/banking/payments/{id}/order")
    def get_payment_order(self, id: str) -> File:
        """Read the order of a payment from an account that is kept by statement files: a pain.001 file to upload at the bank."""

    @get("/v2/banking/payment-limit")
    def get_payment_limit(self, *, organization_id: str | None = None) -> Data[PaymentLimit]:
        """Read the amount above which a payment needs a second person's release."""

    @put("/v2/banking/payment-limit")
    def set_payment_limit(
        self, body: NewPaymentLimit, *, organization_id: str | None = None, idempotency_key: str | None = None
    ) -> Data[PaymentLimit]:
        """Set the amount above which a payment needs a second person's release, or null for none."""

    @post("/v2/banking/order-files")
    def create_order_file(
        self, body: NewOrderFile | None = None, *, idempotency_key: str | None = None
    ) -> Data[PaymentOrderFile]:
        """Put several orders from one account into one pain.001 file: the payments named, or all open ones of the account."""

    @get("/v2/banking/order-files")
    def list_order_files(
        self, *, account_id: str | None = None, limit: int | None = None, organization_id: str | None = None
    ) -> Page[PaymentOrderFile]:
        """List the order files, newest first."""

    @get("/v2/banking/order-files/{id}")
    def get_order_file(self, id: str) -> Data[PaymentOrderFile]:
        """Read one order file: what it holds, and whether it may still be uploaded."""

    @delete("/v2/banking/order-files/{id}")
    def discard_order_file(self, id: str) -> Data[PaymentOrderFile]:
        """Discard a file that was not uploaded. Its orders are free for another one."""

    @post("/v2/banking/order-files/{id}/submission")
    def submit_order_file(self, id: str, *, idempotency_key: str | None = None) -> Data[OrderFileSubmission]:
        """Send an order file to the bank, where the account's connection can do so (EBICS)."""

    @get("/v2/banking/order-files/{id}/submission")
    def get_order_file_submission(self, id: str) -> Data[OrderFileSubmission]:
        """Read what became of an order file that was sent to the bank from here."""

    @get("/v2/banking/order-files/{id}/file")
    def get_order_file_content(self, id: str) -> File:
        """Fetch the pain.001 file: the same every time, until the day of an order in it has passed."""
