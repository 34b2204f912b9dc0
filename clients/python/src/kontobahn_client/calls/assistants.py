"""Drafts that programs prepare for a person to approve."""

# mypy: disable-error-code="empty-body"

from __future__ import annotations

from typing import Literal

from kontobahn_client.calls.declarations import get, pages, post, put
from kontobahn_client.models.assistants import (
    AssistantAccess,
    AssistantBooks,
    AssistantSettings,
    NewAssistantSettings,
    NewPreparedCashEntry,
    NewPreparedPayment,
    Prepared,
)
from kontobahn_client.models.common import Data, Page


class AssistantCalls:
    @get("/v2/assistants/access")
    def get_assistant_access(self, *, organization_id: str | None = None) -> Data[AssistantAccess]:
        """Read whose key this is, what it may do, and whether assistants are let in."""

    @get("/v2/assistants/books")
    def list_assistant_books(
        self, *, connection_id: str | None = None, client_id: str | None = None, organization_id: str | None = None
    ) -> Page[AssistantBooks]:
        """List the books there are; if there is only one client, with its fiscal years."""

    @get("/v2/assistants/settings")
    def get_assistant_settings(self, *, organization_id: str | None = None) -> Data[AssistantSettings]:
        """Read whether assistants may act for the organisation."""

    @put("/v2/assistants/settings")
    def set_assistant_settings(
        self, body: NewAssistantSettings, *, organization_id: str | None = None, idempotency_key: str | None = None
    ) -> Data[AssistantSettings]:
        """Let assistants act for the organisation, or keep them out."""

    @post("/v2/assistants/payments")
    def prepare_payment(self, body: NewPreparedPayment, *, idempotency_key: str | None = None) -> Data[Prepared]:
        """Prepare a payment for a person to approve."""

    @post("/v2/assistants/cash-entries")
    def prepare_cash_entry(self, body: NewPreparedCashEntry, *, idempotency_key: str | None = None) -> Data[Prepared]:
        """Prepare an entry of a cash book for a person to approve."""

    @pages("/v2/assistants/prepared", Prepared)
    def list_prepared(
        self,
        *,
        state: Literal["waiting", "approved", "refused", "withdrawn", "expired"] | None = None,
        from_id: str | None = None,
        limit: int | None = None,
        organization_id: str | None = None,
    ) -> Page[Prepared]:
        """List what was prepared, the earliest first."""

    @get("/v2/assistants/prepared/{id}")
    def get_prepared(self, id: str) -> Data[Prepared]:
        """Read something that was prepared, and what a person has decided about it."""

    @post("/v2/assistants/prepared/{id}/withdraw")
    def withdraw_prepared(self, id: str, *, idempotency_key: str | None = None) -> Data[Prepared]:
        """Take back something that waits, before a person has decided about it."""
