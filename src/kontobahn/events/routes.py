"""The webhook URL, its secret, and the log of events, over HTTP."""

# Choice 34: what goes to this URL is about banking; the ledger and mobility areas emit nothing.

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from datetime import timedelta
from typing import NamedTuple

from kontobahn.api.call import Call
from kontobahn.api.declare import get, post, put
from kontobahn.api.wire import OrganizationQuery, check_date_range
from kontobahn.clock import start_of_day, to_datetime
from kontobahn.db import Tx
from kontobahn.errors import BadRequest, Conflict
from kontobahn.events.wire import (
    EventAnswer,
    EventId,
    EventList,
    EventsQuery,
    NewWebhookUrl,
    WebhookSecret,
    WebhookSecretAnswer,
    WebhookUrlAnswer,
    event_view,
    webhook_url_view,
)
from kontobahn.ids import new_id
from kontobahn.outbound import OutboundClient, Refused
from kontobahn.webhooks import endpoint, events, outbox
from kontobahn.webhooks.watch import Watch

TEST_EVENT = "webhook_test"
# Another process may have written it.
_LOOK_AGAIN_SECONDS = 1.0
_ERRORS = (403, 404)


class Events(NamedTuple):
    """The event log's part of the application."""

    outbound: OutboundClient
    watch: Watch


@put("/v2/banking/webhook-url", errors=_ERRORS)
async def set_webhook_url(call: Call, query: OrganizationQuery, body: NewWebhookUrl) -> WebhookUrlAnswer:
    """Set the URL that events are sent to, or clear it with null.

    It must be a public https address. The answer holds the signing secret, once, when this call made one. Setting a URL that was
    paused or gone resumes it.
    """
    organization_id = call.principal.organization(query.organization_id)
    if body.webhook_url is not None:
        try:
            await call.context.part(Events).outbound.check(body.webhook_url)
        except Refused as refusal:
            raise BadRequest(f"The field `webhook_url` is refused. {refusal}", field="webhook_url") from None
    return await call.commit(_set_webhook_url, call, organization_id, body.webhook_url)


def _set_webhook_url(tx: Tx, call: Call, organization_id: str, url: str | None) -> WebhookUrlAnswer:
    return WebhookUrlAnswer(
        data=webhook_url_view(*endpoint.set_url(tx, call.context.vault, organization_id, url, call.actor))
    )


@get("/v2/banking/webhook-url", errors=_ERRORS)
async def get_webhook_url(call: Call, query: OrganizationQuery) -> WebhookUrlAnswer:
    """Read the URL that events are sent to.

    `status` is there only when it was stopped: `paused` after days of failure, `gone` after a 410.
    """
    return WebhookUrlAnswer(
        data=webhook_url_view(await call.read_inline(endpoint.find, call.principal.organization(query.organization_id)))
    )


@post("/v2/banking/webhook-url/secret", errors=(*_ERRORS, 409))
async def rotate_webhook_secret(call: Call, query: OrganizationQuery) -> WebhookSecretAnswer:
    """Make a new signing secret.

    For a day deliveries carry a signature by the old secret too, so a receiver can change over without missing one.
    """
    return await call.commit(_rotate_secret, call, call.principal.organization(query.organization_id))


def _rotate_secret(tx: Tx, call: Call, organization_id: str) -> WebhookSecretAnswer:
    hours = call.context.settings.webhook_secret_overlap_hours
    here, secret = endpoint.rotate_secret(
        tx, call.context.vault, organization_id, overlap_hours=hours, actor=call.actor
    )
    assert here.previous_until is not None
    return WebhookSecretAnswer(data=WebhookSecret(secret=secret, previous_valid_until=to_datetime(here.previous_until)))


@post("/v2/banking/webhook-url/test", errors=(*_ERRORS, 409))
async def send_test_event(call: Call, query: OrganizationQuery) -> EventAnswer:
    """Send a test event to the URL.

    Its name is `webhook_test`. Read how it went under its id.
    """
    return await call.commit(_send_test_event, call, call.principal.organization(query.organization_id))


def _send_test_event(tx: Tx, call: Call, organization_id: str) -> EventAnswer:
    if endpoint.find(tx, organization_id).state != "active":
        raise Conflict("There is no webhook URL in use: set it with PUT /v2/banking/webhook-url.")
    # A subject of its own: a test must not wait behind one that failed.
    data = {"message": "This is a test of your webhook URL. Nothing has happened."}
    event_id = outbox.emit(tx, organization_id, TEST_EVENT, f"test:{new_id()}", data)
    return EventAnswer(data=event_view(events.find(tx, call.principal, event_id)))


@get("/v2/banking/events", errors=_ERRORS)
async def list_events(call: Call, query: EventsQuery) -> EventList:
    """Walk the log of events, each with how its delivery went.

    Events are kept for 30 days, whether a URL is set or not. Ask again with `next_cursor` until `data` is empty; with `wait`, such
    a call returns when the next event is there.
    """
    check_date_range(query.from_date, query.to_date)
    if query.wait and query.sort != "id":
        raise BadRequest("The query parameter `wait` goes with `sort=id` only.", field="wait")
    organization_id = call.principal.organization(query.organization_id)
    watch, deadline = call.context.part(Events).watch, time.monotonic() + query.wait
    while True:
        ticket = watch.ticket()
        found = await call.read(_list_events, organization_id, query)
        left = deadline - time.monotonic()
        if found.data or left <= 0 or not watch.is_open:
            return found
        with suppress(TimeoutError):
            await asyncio.wait_for(ticket.wait(), min(left, _LOOK_AGAIN_SECONDS))


def _list_events(tx: Tx, organization_id: str, query: EventsQuery) -> EventList:
    wanted = events.Filter(
        event=query.event,
        subject=query.subject,
        state=query.delivery,
        since=start_of_day(query.from_date) if query.from_date else None,
        # A day in Berlin may have 23 or 25 hours: what counts is where the next one begins.
        until=start_of_day(query.to_date + timedelta(days=1)) if query.to_date else None,
    )
    entries = events.walk(
        tx,
        organization_id,
        wanted,
        cursor=int(query.cursor) if query.cursor else None,
        newest_first=query.sort == "newest",
        limit=query.limit,
    )
    next_cursor = str(entries[-1].sequence) if entries else query.cursor or "0"
    return EventList(data=[event_view(entry) for entry in entries], next_cursor=next_cursor)


@get("/v2/banking/events/{id}", errors=_ERRORS)
async def get_event(call: Call, id: EventId) -> EventAnswer:
    """Read one event, with every attempt to deliver it."""
    return EventAnswer(data=event_view(await call.read(events.find, call.principal, id)))


@post("/v2/banking/events/{id}/resend", statuses=(202,), errors=(*_ERRORS, 409))
async def resend_event(call: Call, id: EventId) -> EventAnswer:
    """Deliver an event once more, under the same id.

    One that still waits is tried now. Its tries begin anew.
    """
    return await call.commit(_resend, call, id)


def _resend(tx: Tx, call: Call, event_id: str) -> EventAnswer:
    return EventAnswer(data=event_view(events.resend(tx, call.principal, event_id)))
