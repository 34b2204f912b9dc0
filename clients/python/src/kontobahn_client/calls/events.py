"""Receivers of events, and the log of them.

A declaration is all there is of a call: its path, and its parameters and answer by their types.
"""

# mypy: disable-error-code="empty-body"

from __future__ import annotations

from datetime import date
from typing import Literal

from kontobahn_client.calls.declarations import delete, get, pages, post, put
from kontobahn_client.models.common import Data, Page
from kontobahn_client.models.events import (
    Event,
    EventList,
    NewWebhookEndpoint,
    NewWebhookUrl,
    RemovedWebhookEndpoint,
    ResendFailed,
    Resent,
    WebhookEndpoint,
    WebhookSecret,
    WebhookUrl,
)


class EventCalls:
    @put("/v2/banking/webhook-url")
    def set_webhook_url(
        self, body: NewWebhookUrl, *, organization_id: str | None = None, idempotency_key: str | None = None
    ) -> Data[WebhookUrl]:
        """Set the URL that events are sent to, or clear it with null."""

    @get("/v2/banking/webhook-url")
    def get_webhook_url(self, *, organization_id: str | None = None) -> Data[WebhookUrl]:
        """Read the URL that events are sent to."""

    @post("/v2/banking/webhook-url/secret")
    def rotate_webhook_secret(
        self, *, organization_id: str | None = None, idempotency_key: str | None = None
    ) -> Data[WebhookSecret]:
        """Make a new signing secret."""

    @post("/v2/banking/webhook-url/test")
    def send_test_event(self, *, organization_id: str | None = None, idempotency_key: str | None = None) -> Data[Event]:
        """Send a test event to the URL."""

    @post("/v2/banking/webhook-endpoints")
    def create_webhook_endpoint(
        self, body: NewWebhookEndpoint, *, organization_id: str | None = None, idempotency_key: str | None = None
    ) -> Data[WebhookEndpoint]:
        """Make a further endpoint for events."""

    @get("/v2/banking/webhook-endpoints")
    def list_webhook_endpoints(self, *, organization_id: str | None = None) -> Page[WebhookEndpoint]:
        """List the further endpoints for events."""

    @get("/v2/banking/webhook-endpoints/{id}")
    def get_webhook_endpoint(self, id: str) -> Data[WebhookEndpoint]:
        """Read one further endpoint."""

    @put("/v2/banking/webhook-endpoints/{id}")
    def change_webhook_endpoint(
        self, id: str, body: NewWebhookEndpoint, *, idempotency_key: str | None = None
    ) -> Data[WebhookEndpoint]:
        """Replace the URL, the events and the description of an endpoint."""

    @delete("/v2/banking/webhook-endpoints/{id}")
    def delete_webhook_endpoint(self, id: str) -> Data[RemovedWebhookEndpoint]:
        """Delete an endpoint; nothing more is sent there."""

    @post("/v2/banking/webhook-endpoints/{id}/pause")
    def pause_webhook_endpoint(self, id: str, *, idempotency_key: str | None = None) -> Data[WebhookEndpoint]:
        """Send nothing to an endpoint until it is resumed. Its events wait."""

    @post("/v2/banking/webhook-endpoints/{id}/resume")
    def resume_webhook_endpoint(self, id: str, *, idempotency_key: str | None = None) -> Data[WebhookEndpoint]:
        """Resume an endpoint that was paused or gone; what has been waiting is sent first."""

    @post("/v2/banking/webhook-endpoints/{id}/secret")
    def rotate_webhook_endpoint_secret(self, id: str, *, idempotency_key: str | None = None) -> Data[WebhookSecret]:
        """Make a new signing secret for an endpoint."""

    @post("/v2/banking/webhook-endpoints/{id}/test")
    def send_test_event_to_endpoint(self, id: str, *, idempotency_key: str | None = None) -> Data[Event]:
        """Send a test event to one endpoint, whatever its filter."""

    @pages("/v2/banking/webhook-endpoints/{id}/deliveries", Event)
    def list_webhook_deliveries(
        self,
        id: str,
        *,
        event: Literal[
            "batch_created",
            "connection_destroyed",
            "connection_error",
            "consent_expiring",
            "match_confirmed",
            "match_proposed",
            "match_undone",
            "payable.paid",
            "payable.received",
            "payable.rejected",
            "payable.released",
            "payment.payee_check",
            "payment_progress",
            "payment_update",
            "refresh_complete",
            "webhook_test",
        ]
        | None = None,
        delivery: Literal["cancelled", "delivered", "failed", "none", "pending"] | None = None,
        sort: Literal["id", "newest"] | None = None,
        cursor: str | None = None,
        limit: int | None = None,
    ) -> EventList:
        """Walk the events that were for an endpoint, each with how its delivery there went."""

    @post("/v2/banking/webhook-endpoints/{id}/deliveries/{event_id}/resend")
    def resend_event_to_endpoint(self, id: str, event_id: str, *, idempotency_key: str | None = None) -> Data[Event]:
        """Deliver an event to an endpoint once more, under the same id."""

    @pages("/v2/banking/events", Event)
    def list_events(
        self,
        *,
        organization_id: str | None = None,
        event: str | None = None,
        subject: str | None = None,
        delivery: Literal["cancelled", "delivered", "failed", "none", "pending"] | None = None,
        from_date: date | None = None,
        to_date: date | None = None,
        sort: Literal["id", "newest"] | None = None,
        cursor: str | None = None,
        limit: int | None = None,
        wait: int | None = None,
    ) -> EventList:
        """Walk the log of events, each with how its delivery went."""

    @get("/v2/banking/events/{id}")
    def get_event(self, id: str) -> Data[Event]:
        """Read one event, with every attempt to deliver it."""

    @post("/v2/banking/events/{id}/resend")
    def resend_event(self, id: str, *, idempotency_key: str | None = None) -> Data[Event]:
        """Deliver an event once more, under the same id."""

    @post("/v2/banking/events/resend-failed")
    def resend_failed_events(
        self, body: ResendFailed, *, organization_id: str | None = None, idempotency_key: str | None = None
    ) -> Data[Resent]:
        """Deliver all events since a moment once more whose delivery failed."""

    @post("/v2/banking/webhook-endpoints/{id}/deliveries/resend-failed")
    def resend_failed_events_to_endpoint(
        self, id: str, body: ResendFailed, *, idempotency_key: str | None = None
    ) -> Data[Resent]:
        """Deliver all events since a moment to an endpoint once more whose delivery there failed."""
