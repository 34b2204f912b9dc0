"""The event log over HTTP: walked, read by id, delivered once more."""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from datetime import date, datetime
from operator import attrgetter
from typing import Annotated, Any, Literal, cast

import msgspec
from msgspec import Meta

from kontobahn.access.principal import Principal
from kontobahn.api.answers import Data, from_row
from kontobahn.api.call import Call, page
from kontobahn.api.declare import get, post
from kontobahn.api.wire import Answer, Body, OrganizationQuery, Timestamp, Uuid, check_date_range, form
from kontobahn.clock import end_of_day, from_datetime, optional_datetime, start_of_day
from kontobahn.db import Tx
from kontobahn.errors import BadRequest
from kontobahn.events import Events
from kontobahn.webhooks import endpoints, entries, outbox
from kontobahn.webhooks.entries import DeliveryState, Entry
from kontobahn.webhooks.outbox import WEBHOOK_URL

MAX_WAIT_SECONDS = 25
MAX_EVENTS = 1000
# Another process may have written the event, and nobody in this one was notified.
_POLL_SECONDS = 1.0
_ERRORS = (404,)
EventId = Annotated[str, Meta(min_length=1, max_length=100, examples=["evt_0193b2a000007000800000000000abcd"])]


Sort = Annotated[
    Literal["id", "newest"], Meta(description="`id`: in the order of their commits; `newest`: the latest first.")
]
Cursor = Annotated[
    str, form("a number", r"^[0-9]{1,18}$", description="The `next_cursor` of the answer before.", examples=["42"])
]
Limit = Annotated[int, Meta(ge=1, le=MAX_EVENTS)]


class EventsQuery(OrganizationQuery, kw_only=True):
    event: Annotated[str, Meta(min_length=1, max_length=100, examples=["payment_update"])] | None = None
    subject: (
        Annotated[
            str,
            Meta(
                min_length=1,
                max_length=200,
                description="What it is about, for example `payment:17` or `connection:5`.",
                examples=["payment:17"],
            ),
        ]
        | None
    ) = None
    delivery: Annotated[DeliveryState, Meta(description="How its delivery stands.")] | None = None
    from_date: Annotated[date, Meta(description="First day, by `received_at`.")] | None = None
    to_date: Annotated[date, Meta(description="Last day, by `received_at`.")] | None = None
    sort: Sort = "id"
    cursor: Cursor | None = None
    limit: Limit = 100
    wait: Annotated[
        int,
        Meta(ge=0, le=MAX_WAIT_SECONDS, description="Seconds to wait for an event if there is none yet."),
    ] = 0


class DeliveryAttempt(Answer):
    at: Timestamp
    milliseconds: int
    status: int | None
    reason: Annotated[str | None, Meta(examples=["The receiver answered 500."])]


class Delivery(Answer):
    state: DeliveryState
    next_attempt_at: Timestamp | None
    settled_at: Timestamp | None
    attempts: list[DeliveryAttempt]


class Event(Answer):
    id: EventId
    event: Annotated[str, Meta(examples=["payment_progress"])]
    subject: Annotated[str, Meta(examples=["payment:17"])]
    data: Annotated[dict[str, Any], Meta(examples=[{"payment_id": "17", "status": "initiated_info_required"}])]
    received_at: Timestamp
    delivery: Delivery


class EventList(Answer):
    data: list[Event]
    next_cursor: Annotated[str, Meta(description="Where to continue.", examples=["42"])]


class Envelope(msgspec.Struct):
    """An event's body, its parts as they were written."""

    event: msgspec.Raw
    data: msgspec.Raw
    received_at: msgspec.Raw


@get("/v2/banking/events", scope=("webhooks", "banking:read"), pages_by="cursor", errors=_ERRORS)
async def list_events(call: Call, query: EventsQuery) -> EventList:
    """Walk the log of events, each with how its delivery went.

    Events are kept for 30 days, whether a URL is set or not. Ask again with `next_cursor` until `data` is empty; with `wait`, such
    a call returns when the next event has been written.
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
        if found or left <= 0 or not watch.is_open:
            return event_list(call, found, query.cursor, query.limit)
        with suppress(TimeoutError):
            await asyncio.wait_for(ticket.wait(), min(left, _POLL_SECONDS))


def _list_events(tx: Tx, organization_id: str, query: EventsQuery) -> list[Entry]:
    wanted = entries.Filter(
        event=query.event,
        subject=query.subject,
        state=query.delivery,
        since=start_of_day(query.from_date) if query.from_date else None,
        # A day in Berlin may have 23 or 25 hours: what counts is where the next one begins.
        until=end_of_day(query.to_date) if query.to_date else None,
    )
    return entries.walk(
        tx,
        organization_id,
        wanted,
        cursor=int(query.cursor) if query.cursor else None,
        newest_first=query.sort == "newest",
        limit=query.limit + 1,
    )


def event_list(call: Call, found: list[Entry], cursor: str | None, limit: int) -> EventList:
    """A page of events, of which one more was read than it has."""
    shown = page(call, found, limit, attrgetter("sequence"))
    next_cursor = str(shown[-1].sequence) if shown else cursor or "0"
    return EventList(data=[event_view(entry) for entry in shown], next_cursor=next_cursor)


@get("/v2/banking/events/{id}", scope=("webhooks", "banking:read"), errors=_ERRORS)
async def get_event(call: Call, id: EventId) -> Data[Event]:
    """Read one event, with every attempt to deliver it."""
    return Data(event_view(await call.read(entries.find, call.principal, id)))


@post("/v2/banking/events/{id}/resend", scope="webhooks", statuses=(202,), errors=(*_ERRORS, 409))
async def resend_event(call: Call, id: EventId) -> Data[Event]:
    """Deliver an event once more, under the same id.

    A pending one is attempted now. The count of its attempts starts again.
    """
    return await call.commit(_resend, call.principal, id)


def _resend(tx: Tx, principal: Principal, event_id: str) -> Data[Event]:
    return Data(event_view(entries.resend(tx, principal, event_id)))


def event_view(entry: Entry) -> Event:
    envelope = msgspec.json.decode(entry.body, type=Envelope)
    return Event(
        id=entry.id,
        event=cast(str, envelope.event),
        subject=entry.subject,
        data=cast(dict[str, Any], envelope.data),
        received_at=cast(datetime, envelope.received_at),
        delivery=Delivery(
            state=entry.state,
            next_attempt_at=optional_datetime(entry.due_at) if entry.state == "pending" else None,
            settled_at=optional_datetime(entry.settled_at),
            attempts=[from_row(DeliveryAttempt, attempt) for attempt in entry.attempts],
        ),
    )


# After a receiver was down: all events since a moment that it did not take, delivered once more.


# In one call; the others are left for the next one.
MAX_RESENT = 500
_RESEND_ERRORS = (*_ERRORS, 409)


class ResendFailed(Body):
    since: Annotated[
        datetime,
        Meta(tz=True, description="Events of this moment or later, by `received_at`.",
             examples=["2026-03-02T08:00:00Z"]),
    ]  # fmt: skip


class Resent(Answer):
    resent: Annotated[int, Meta(description="How many are delivered once more.", examples=[3])]
    has_more: Annotated[bool, Meta(description=f"More than {MAX_RESENT} had failed: call again for the others.")]


@post("/v2/banking/events/resend-failed", scope="webhooks", statuses=(202,), errors=_RESEND_ERRORS)
async def resend_failed_events(call: Call, query: OrganizationQuery, body: ResendFailed) -> Data[Resent]:
    """Deliver all events since a moment once more whose delivery failed.

    Each keeps its id, and the count of its attempts starts again. Those that were delivered, are pending or were given up are
    left alone.
    """
    return await call.commit(
        _resend_since, call.principal.organization(query.organization_id), from_datetime(body.since)
    )


def _resend_since(tx: Tx, organization_id: str, since: int) -> Data[Resent]:
    outbox.lock_event_log(tx, organization_id)
    entries.check_url(endpoints.find_url(tx, organization_id))
    return Data(Resent(*entries.resend_failed(tx, organization_id, WEBHOOK_URL, since, MAX_RESENT)))


@post(
    "/v2/banking/webhook-endpoints/{id}/deliveries/resend-failed", scope="webhooks", statuses=(202,), errors=_RESEND_ERRORS
)  # fmt: skip
async def resend_failed_events_to_endpoint(call: Call, id: Uuid, body: ResendFailed) -> Data[Resent]:
    """Deliver all events since a moment to an endpoint once more whose delivery there failed."""
    return await call.commit(_resend_to, call.principal, id, from_datetime(body.since))


def _resend_to(tx: Tx, principal: Principal, endpoint_id: str, since: int) -> Data[Resent]:
    outbox.lock_event_log(tx, endpoints.find(tx, principal, endpoint_id).organization_id)
    receiver = endpoints.find(tx, principal, endpoint_id)
    entries.check_active(receiver)
    found = entries.resend_failed(tx, receiver.organization_id, receiver.id, since, MAX_RESENT)
    return Data(Resent(*found))
