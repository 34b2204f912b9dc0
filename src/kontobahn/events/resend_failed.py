"""After a receiver was down: all events since a moment that it did not take, delivered once more."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from msgspec import Meta

from kontobahn.access.principal import Principal
from kontobahn.api.answers import Data
from kontobahn.api.call import Call
from kontobahn.api.declare import post
from kontobahn.api.wire import Answer, Body, OrganizationQuery, Uuid
from kontobahn.clock import from_datetime
from kontobahn.db import Tx
from kontobahn.webhooks import endpoint, entries, further, outbox
from kontobahn.webhooks.outbox import WEBHOOK_URL

# In one call; the others are left for the next one.
MAX_RESENT = 500
_ERRORS = (403, 404, 409)


class ResendFailed(Body):
    since: Annotated[
        datetime,
        Meta(tz=True, description="Events of this moment or later, by `received_at`.",
             examples=["2026-03-02T08:00:00Z"]),
    ]  # fmt: skip


class Resent(Answer):
    resent: Annotated[int, Meta(description="How many are delivered once more.", examples=[3])]
    has_more: Annotated[bool, Meta(description=f"More than {MAX_RESENT} had failed: call again for the others.")]


@post("/v2/banking/events/resend-failed", scope="webhooks", statuses=(202,), errors=_ERRORS)
async def resend_failed_events(call: Call, query: OrganizationQuery, body: ResendFailed) -> Data[Resent]:
    """Deliver all events since a moment once more whose delivery failed.

    Each keeps its id, and the count of its attempts starts again. Those that were delivered, are pending or were given up are
    left alone.
    """
    return await call.commit(_resend, call.principal.organization(query.organization_id), from_datetime(body.since))


def _resend(tx: Tx, organization_id: str, since: int) -> Data[Resent]:
    outbox.lock_event_log(tx, organization_id)
    entries.check_url(endpoint.find(tx, organization_id))
    return Data(Resent(*entries.resend_failed(tx, organization_id, WEBHOOK_URL, since, MAX_RESENT)))


@post(
    "/v2/banking/webhook-endpoints/{id}/deliveries/resend-failed", scope="webhooks", statuses=(202,), errors=_ERRORS
)  # fmt: skip
async def resend_failed_events_to_endpoint(call: Call, id: Uuid, body: ResendFailed) -> Data[Resent]:
    """Deliver all events since a moment to an endpoint once more whose delivery there failed."""
    return await call.commit(_resend_to, call.principal, id, from_datetime(body.since))


def _resend_to(tx: Tx, principal: Principal, endpoint_id: str, since: int) -> Data[Resent]:
    outbox.lock_event_log(tx, further.find(tx, principal, endpoint_id).organization_id)
    receiver = further.find(tx, principal, endpoint_id)
    entries.check_active(receiver)
    found = entries.resend_failed(tx, receiver.organization_id, receiver.id, since, MAX_RESENT)
    return Data(Resent(*found))
