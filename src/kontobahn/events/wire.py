"""The webhook URL and the log of events on the wire."""

from __future__ import annotations

from datetime import date, datetime
from typing import Annotated, Any, Literal, cast

import msgspec
from msgspec import UNSET, Meta, UnsetType

from kontobahn.api.wire import Answer, Body, OrganizationQuery, Timestamp, form
from kontobahn.clock import optional_datetime, to_datetime
from kontobahn.webhooks.endpoint import Endpoint
from kontobahn.webhooks.events import DeliveryState, Entry

LONGEST_WAIT_SECONDS = 25
MOST_EVENTS = 1000
Uri = Annotated[str, Meta(extra_json_schema={"format": "uri"}, examples=["https://receiver.example/events"])]
EventId = Annotated[str, Meta(min_length=1, max_length=100, examples=["evt_0193b2a000007000800000000000abcd"])]
Secret = Annotated[
    str,
    Meta(
        description="The signing secret; shown here and never again.",
        examples=["whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="],
    ),
]


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
    sort: Annotated[
        Literal["id", "newest"], Meta(description="`id`: in the order of their commits; `newest`: the latest first.")
    ] = "id"
    cursor: (
        Annotated[
            str,
            form("a `next_cursor`", r"^[0-9]{1,18}$", description="The `next_cursor` before.", examples=["42"]),
        ]
        | None
    ) = None
    limit: Annotated[int, Meta(ge=1, le=MOST_EVENTS)] = 100
    wait: Annotated[
        int,
        Meta(ge=0, le=LONGEST_WAIT_SECONDS, description="Seconds to wait for an event where there is none yet."),
    ] = 0


class NewWebhookUrl(Body):
    webhook_url: (
        Annotated[
            str,
            Meta(
                min_length=1,
                max_length=2000,
                description="A public https address; null clears it.",
                examples=["https://receiver.example/events"],
            ),
        ]
        | None
    )


class WebhookUrl(Answer):
    webhook_url: Uri | None
    updated_at: Timestamp | None
    secret: Secret | UnsetType = UNSET
    status: Annotated[Literal["paused", "gone"], Meta(description="Only where nothing is sent there.")] | UnsetType = (
        UNSET
    )
    stopped_at: Timestamp | UnsetType = UNSET


class WebhookUrlAnswer(Answer):
    data: WebhookUrl


class WebhookSecret(Answer):
    secret: Secret
    previous_valid_until: Annotated[Timestamp, Meta(description="Until then deliveries carry both signatures.")]


class WebhookSecretAnswer(Answer):
    data: WebhookSecret


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


class EventAnswer(Answer):
    data: Event


class EventList(Answer):
    data: list[Event]
    next_cursor: Annotated[str, Meta(description="Where to go on.", examples=["42"])]


class Envelope(msgspec.Struct):
    """An event's body, its parts as they were written."""

    event: msgspec.Raw
    data: msgspec.Raw
    received_at: msgspec.Raw


def webhook_url_view(endpoint: Endpoint, secret: str | None = None) -> WebhookUrl:
    view = WebhookUrl(webhook_url=endpoint.url, updated_at=optional_datetime(endpoint.updated_at))
    if secret is not None:
        view.secret = secret
    if endpoint.state in ("paused", "gone") and endpoint.stopped_at is not None:
        view.status = endpoint.state
        view.stopped_at = to_datetime(endpoint.stopped_at)
    return view


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
            attempts=[
                DeliveryAttempt(
                    at=to_datetime(attempt.at),
                    milliseconds=attempt.milliseconds,
                    status=attempt.status,
                    reason=attempt.reason,
                )
                for attempt in entry.attempts
            ],
        ),
    )
