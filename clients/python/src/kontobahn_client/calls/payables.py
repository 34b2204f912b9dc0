"""Received invoices: sent, read, released."""

# mypy: disable-error-code="empty-body"

from __future__ import annotations

from datetime import date
from typing import Literal

from kontobahn_client.calls.declarations import delete, get, pages, post, put
from kontobahn_client.models.common import Data, File, Page
from kontobahn_client.models.payables import (
    DuePayable,
    Handover,
    MadeHandover,
    MailboxReading,
    NewConfirmation,
    NewCreditor,
    NewFileAddress,
    NewHandover,
    NewHold,
    NewMailbox,
    NewMailboxReading,
    NewPayable,
    NewPayableBooking,
    NewPayablesSettings,
    NewPaymentRun,
    NewRejection,
    NewRelease,
    Payable,
    PayableBooking,
    PayablesMailbox,
    PayablesSettings,
    PayableStep,
    PaymentRun,
    RemovedMailbox,
)
from kontobahn_client.transport.exchange import FileBody


class PayableCalls:
    @post("/v2/payables/files")
    def receive_file(
        self,
        file: FileBody,
        *,
        file_name: str | None = None,
        connection_id: str | None = None,
        client_id: str | None = None,
        organization_id: str | None = None,
        idempotency_key: str | None = None,
    ) -> Data[Payable]:
        """Send a received invoice: XML (XRechnung, ZUGFeRD, Factur-X, Peppol), or a PDF with one inside."""

    @post("/v2/payables/files/by-address")
    def receive_by_address(
        self, body: NewFileAddress, *, organization_id: str | None = None, idempotency_key: str | None = None
    ) -> Data[Payable]:
        """Send a received invoice by its address instead of its bytes."""

    @get("/v2/payables/files/{id}")
    def get_received_file(self, id: str) -> File:
        """Read a received file back by its own id, also one that no invoice could be read from."""

    @post("/v2/payables")
    def create_payable(self, body: NewPayable, *, idempotency_key: str | None = None) -> Data[Payable]:
        """Enter an invoice by hand that could not be read from its file, which `POST /v2/payables/files` kept."""

    @pages("/v2/payables", Payable)
    def list_payables(
        self,
        *,
        status: Literal["new", "to_release", "released", "in_payment", "paid", "rejected", "needs_person"]
        | None = None,
        due_before: date | None = None,
        creditor: str | None = None,
        number: str | None = None,
        from_id: str | None = None,
        limit: int | None = None,
        organization_id: str | None = None,
    ) -> Page[Payable]:
        """List received invoices in the order in which they came."""

    @get("/v2/payables/{id}")
    def get_payable(self, id: str) -> Data[Payable]:
        """Read one received invoice, with what was found in it."""

    @get("/v2/payables/{id}/history")
    def get_payable_history(self, id: str) -> Page[PayableStep]:
        """Read what was done with an invoice, by whom."""

    @get("/v2/payables/{id}/file")
    def get_payable_file(self, id: str) -> File:
        """Read the file back as it came, byte for byte."""

    @get("/v2/payables/{id}/document")
    def get_payable_document(self, id: str, *, language: Literal["de", "en"] | None = None) -> File:
        """Read the invoice as a page for people: all that the file says, whatever its format."""

    @post("/v2/payables/{id}/release")
    def release_payable(
        self, id: str, body: NewRelease | None = None, *, idempotency_key: str | None = None
    ) -> Data[Payable]:
        """Release an invoice for payment."""

    @post("/v2/payables/{id}/reject")
    def reject_payable(self, id: str, body: NewRejection, *, idempotency_key: str | None = None) -> Data[Payable]:
        """Reject an invoice, for good, with the reason."""

    @post("/v2/payables/{id}/hold")
    def hold_payable(
        self, id: str, body: NewHold | None = None, *, idempotency_key: str | None = None
    ) -> Data[Payable]:
        """Let an invoice wait. A release of it is taken back."""

    @post("/v2/payables/{id}/creditor")
    def assign_creditor(self, id: str, body: NewCreditor, *, idempotency_key: str | None = None) -> Data[Payable]:
        """Say whose invoice it is: the person account of a creditor."""

    @post("/v2/payables/{id}/confirmations")
    def confirm_stop(self, id: str, body: NewConfirmation, *, idempotency_key: str | None = None) -> Data[Payable]:
        """Say that what stopped an invoice is right: a changed IBAN, or a number that is known with other sums."""

    @get("/v2/payables/{id}/booking")
    def get_payable_booking(self, id: str) -> Data[PayableBooking]:
        """Read the accounts that were accepted for an invoice, and whether it is booked."""

    @put("/v2/payables/{id}/booking")
    def accept_accounts(
        self, id: str, body: NewPayableBooking, *, idempotency_key: str | None = None
    ) -> Data[PayableBooking]:
        """Accept the accounts and tax keys of an invoice: it is booked now, with the release, or handed over, as the settings say."""

    @post("/v2/payables/handovers")
    def create_payables_handover(self, body: NewHandover, *, idempotency_key: str | None = None) -> Data[MadeHandover]:
        """Hand over invoices to whoever keeps the books elsewhere: released, with accepted accounts, and not booked here."""

    @pages("/v2/payables/handovers", Handover)
    def list_payables_handovers(
        self, *, from_id: str | None = None, limit: int | None = None, organization_id: str | None = None
    ) -> Page[Handover]:
        """List what was handed over, in the order in which it was made."""

    @get("/v2/payables/handovers/{id}/file")
    def get_payables_handover_file(self, id: str) -> File:
        """Fetch the DATEV files of a hand-over and the package of its documents: untouched files, and a PDF beside each XML."""

    @get("/v2/payables/due")
    def list_due_payables(self, *, pay_by: date | None = None, organization_id: str | None = None) -> Page[DuePayable]:
        """List what is to be transferred, by the day up to which it costs nothing more; what loses its Skonto today comes first."""

    @post("/v2/payables/payment-runs")
    def create_payment_run(self, body: NewPaymentRun, *, idempotency_key: str | None = None) -> Data[PaymentRun]:
        """Pay released invoices from one account, as payments of one kind and day: those named, or with `due_by` all that is due."""

    @pages("/v2/payables/payment-runs", PaymentRun)
    def list_payment_runs(
        self, *, from_id: str | None = None, limit: int | None = None, organization_id: str | None = None
    ) -> Page[PaymentRun]:
        """List payment runs in the order in which they were made."""

    @get("/v2/payables/payment-runs/{id}")
    def get_payment_run(self, id: str) -> Data[PaymentRun]:
        """Read a payment run: its payments as they stand, and the invoices in each."""

    @post("/v2/payables/payment-runs/{id}/order-file")
    def create_run_order_file(self, id: str, *, idempotency_key: str | None = None) -> Data[PaymentRun]:
        """Put the payments of a run that are in no order file into one: those that another person has released since, for example."""

    @get("/v2/payables/mailbox")
    def get_payables_mailbox(self, *, organization_id: str | None = None) -> Data[PayablesMailbox]:
        """Read which mailbox invoices come by, and whether it can be read. 404 if there is none."""

    @put("/v2/payables/mailbox")
    def set_payables_mailbox(
        self, body: NewMailbox, *, organization_id: str | None = None, idempotency_key: str | None = None
    ) -> Data[PayablesMailbox]:
        """Say which mailbox invoices come by. It is read within minutes, or by `POST /v2/payables/mailbox/readings`."""

    @post("/v2/payables/mailbox/readings")
    def read_payables_mailbox(
        self,
        body: NewMailboxReading | None = None,
        *,
        organization_id: str | None = None,
        idempotency_key: str | None = None,
    ) -> Data[MailboxReading]:
        """Read the mailbox now, or with `trial` only try whether it can be read. `trouble` says if it cannot."""

    @delete("/v2/payables/mailbox")
    def remove_payables_mailbox(self, *, organization_id: str | None = None) -> Data[RemovedMailbox]:
        """Read the mailbox no longer. Its password is forgotten; what came by it stays."""

    @get("/v2/payables/settings")
    def get_payables_settings(self, *, organization_id: str | None = None) -> Data[PayablesSettings]:
        """Read above which sum two people release, which books received invoices belong to, and when they are booked."""

    @put("/v2/payables/settings")
    def set_payables_settings(
        self,
        body: NewPayablesSettings | None = None,
        *,
        organization_id: str | None = None,
        idempotency_key: str | None = None,
    ) -> Data[PayablesSettings]:
        """Say above which sum two people release, which books received invoices belong to, and when they are booked. Sets all at once."""
