"""Payments and the invoices that they paid."""

# mypy: disable-error-code="empty-body"

from __future__ import annotations

from datetime import date
from typing import Literal

from kontobahn_client.calls.declarations import delete, get, pages, post, put
from kontobahn_client.models.common import Data, File, Page
from kontobahn_client.models.reconciliation import (
    Batch,
    BatchBooking,
    BatchWithLines,
    Confirmation,
    LearnedPayer,
    Match,
    MatchProposal,
    MatchRule,
    NewBatch,
    NewConfirmations,
    NewMatch,
    NewMatchRules,
    NewMatchUndo,
    NewReconciliationSettings,
    NewRun,
    NewTransactionStatus,
    ReconciledTransaction,
    ReconciledTransactionWithProposals,
    ReconciliationReport,
    ReconciliationSettings,
    Run,
)


class ReconciliationCalls:
    @put("/v2/reconciliation/accounts/{account_id}")
    def set_up_account(
        self, account_id: str, body: NewReconciliationSettings, *, idempotency_key: str | None = None
    ) -> Data[ReconciliationSettings]:
        """Say which books a bank account belongs to, who books, and what may be matched without asking."""

    @get("/v2/reconciliation/accounts")
    def list_set_up_accounts(self, *, organization_id: str | None = None) -> Page[ReconciliationSettings]:
        """List the bank accounts that are set up for reconciliation."""

    @post("/v2/reconciliation/runs")
    def run_matching(self, body: NewRun, *, idempotency_key: str | None = None) -> Data[Run]:
        """Find which transactions pay which open items."""

    @pages("/v2/reconciliation/transactions", ReconciledTransaction)
    def list_reconciled_transactions(
        self,
        *,
        status: Literal["open", "proposed", "matched", "ignored", "booked"] | None = None,
        account_id: str | None = None,
        from_id: str | None = None,
        limit: int | None = None,
        organization_id: str | None = None,
    ) -> Page[ReconciledTransaction]:
        """List the transactions that runs have looked at, each with its best proposal."""

    @get("/v2/reconciliation/transactions/{id}")
    def get_reconciled_transaction(self, id: str) -> Data[ReconciledTransactionWithProposals]:
        """Read a transaction with all its proposals and their reasons, and its matches."""

    @put("/v2/reconciliation/transactions/{id}")
    def set_transaction_status(
        self, id: str, body: NewTransactionStatus, *, idempotency_key: str | None = None
    ) -> Data[ReconciledTransactionWithProposals]:
        """Leave a transaction out of reconciliation, or take it in again."""

    @post("/v2/reconciliation/proposals/{id}/confirm")
    def confirm_proposal(self, id: str, *, idempotency_key: str | None = None) -> Data[Match]:
        """Confirm a proposal: its transaction is matched with its lines."""

    @post("/v2/reconciliation/proposals/{id}/reject")
    def reject_proposal(self, id: str, *, idempotency_key: str | None = None) -> Data[MatchProposal]:
        """Reject a proposal: it is not made again for this transaction."""

    @post("/v2/reconciliation/confirmations")
    def confirm_proposals(self, body: NewConfirmations, *, idempotency_key: str | None = None) -> Page[Confirmation]:
        """Confirm many proposals at once."""

    @pages("/v2/reconciliation/matches", Match)
    def list_matches(
        self,
        *,
        status: Literal["live", "undone"] | None = None,
        account_id: str | None = None,
        from_id: str | None = None,
        limit: int | None = None,
        organization_id: str | None = None,
    ) -> Page[Match]:
        """List matches in the order in which they were made, those that were undone among them."""

    @get("/v2/reconciliation/matches/{id}")
    def get_match(self, id: str) -> Data[Match]:
        """Read a match with its lines, and who undid it."""

    @post("/v2/reconciliation/matches")
    def create_match(self, body: NewMatch, *, idempotency_key: str | None = None) -> Data[Match]:
        """Match a transaction by hand."""

    @post("/v2/reconciliation/matches/{id}/undo")
    def undo_match(
        self, id: str, body: NewMatchUndo | None = None, *, idempotency_key: str | None = None
    ) -> Data[Match]:
        """Undo a match: its documents are open again, and what was learned from it is taken back."""

    @pages("/v2/reconciliation/knowledge", LearnedPayer)
    def list_knowledge(
        self, connection_id: str, *, client_id: str | None = None, from_id: str | None = None, limit: int | None = None
    ) -> Page[LearnedPayer]:
        """List what confirmations taught: which IBAN and which name pays for which person account."""

    @delete("/v2/reconciliation/knowledge/{id}")
    def delete_knowledge(self, id: str) -> Data[LearnedPayer]:
        """Forget something that was learned."""

    @get("/v2/reconciliation/rules")
    def list_rules(self, connection_id: str, *, client_id: str | None = None) -> Page[MatchRule]:
        """List the client's rules in the order in which they are tried."""

    @put("/v2/reconciliation/rules")
    def put_rules(
        self,
        connection_id: str,
        body: NewMatchRules,
        *,
        client_id: str | None = None,
        idempotency_key: str | None = None,
    ) -> Page[MatchRule]:
        """Set the client's rules, all at once."""

    @get("/v2/reconciliation/report")
    def get_report(
        self, account_id: str, *, from_date: date | None = None, to_date: date | None = None
    ) -> Data[ReconciliationReport]:
        """Read how well matching works for an account."""

    @post("/v2/reconciliation/batches")
    def create_batch(self, body: NewBatch, *, idempotency_key: str | None = None) -> Data[BatchWithLines]:
        """Hand over the matches of an account that are not handed over yet."""

    @pages("/v2/reconciliation/batches", Batch)
    def list_batches(
        self,
        *,
        account_id: str | None = None,
        from_id: str | None = None,
        limit: int | None = None,
        organization_id: str | None = None,
    ) -> Page[Batch]:
        """List the batches in the order in which they were made."""

    @get("/v2/reconciliation/batches/{id}")
    def get_batch(self, id: str) -> Data[BatchWithLines]:
        """Read a batch with its rows, what was left out, and what is open of each document before and after."""

    @get("/v2/reconciliation/batches/{id}/bookings")
    def list_batch_bookings(self, id: str) -> Data[list[BatchBooking]]:
        """Compare what was handed over with what the books show by now: booked so, booked otherwise, or not booked."""

    @get("/v2/reconciliation/batches/{id}/extf")
    def get_batch_file(self, id: str) -> File:
        """Fetch the DATEV file of a batch, the same every time."""
