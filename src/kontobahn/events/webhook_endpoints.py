"""Further endpoints for events over HTTP, beside the contract's one URL."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import UNSET, Meta, UnsetType

from kontobahn.access.audit import Actor
from kontobahn.access.principal import Principal, Scope
from kontobahn.api.answers import Data, from_row
from kontobahn.api.call import Call
from kontobahn.api.declare import delete, get, post, put
from kontobahn.api.wire import Answer, Body, ListQuery, OrganizationQuery, Query, Text, Timestamp, Uuid
from kontobahn.clock import to_datetime
from kontobahn.db import Tx
from kontobahn.errors import Conflict
from kontobahn.events.event_log import Cursor, Event, EventId, EventList, Limit, Sort, event_list, event_view
from kontobahn.events.webhook_url import Secret, Uri, WebhookSecret, check_url
from kontobahn.ids import new_id
from kontobahn.sentences import said
from kontobahn.vault import Vault
from kontobahn.webhooks import endpoints, entries, outbox
from kontobahn.webhooks.endpoints import Wanted
from kontobahn.webhooks.entries import DeliveryState, Entry
from kontobahn.webhooks.outbox import TEST_EVENT, EventName
from kontobahn.webhooks.receiver import Receiver

_PATH = "/v2/banking/webhook-endpoints"
_ERRORS = (404,)
_WEBHOOKS: Scope = "webhooks"


class NewWebhookEndpoint(Body):
    url: Annotated[
        str,
        Meta(
            min_length=1,
            max_length=2000,
            description="A public https address.",
            examples=["https://receiver.example/events"],
        ),
    ]
    events: (
        Annotated[
            list[EventName],
            Meta(
                min_length=1, max_length=20, description="Only these; all when left out.", examples=[["payment_update"]]
            ),
        ]
        | None
    ) = None
    description: Text | None = None


class WebhookEndpoint(Answer):
    id: Uuid
    organization_id: Uuid
    url: Uri
    events: Annotated[list[EventName] | None, Meta(description="Null: all.", examples=[["payment_update"]])]
    description: Annotated[str | None, Meta(examples=["Buchhaltung"])]
    status: Annotated[Literal["active", "paused", "gone"], Meta(examples=["active"])]
    stopped_at: Annotated[Timestamp | None, Meta(description="When it was paused or found gone.", examples=[None])]
    failing_since: Annotated[Timestamp | None, Meta(description="Null while it answers.", examples=[None])]
    created_at: Timestamp
    updated_at: Timestamp
    secret: Secret | UnsetType = UNSET


class RemovedWebhookEndpoint(Answer):
    id: Uuid
    removed: bool


class DeliveriesQuery(Query, kw_only=True):
    event: EventName | None = None
    delivery: Annotated[DeliveryState, Meta(description="How it stands.")] | None = None
    sort: Sort = "newest"
    cursor: Cursor | None = None
    limit: Limit = 100


@post(_PATH, role="admin", scope=_WEBHOOKS, scope_replaces_role=True, errors=(*_ERRORS, 409))
async def create_webhook_endpoint(
    call: Call, query: OrganizationQuery, body: NewWebhookEndpoint
) -> Data[WebhookEndpoint]:
    """Make a further endpoint for events.

    The contract's one URL stays as it is. Each endpoint has its own secret, which is in this answer and never shown again.
    """
    wanted = await _check(call, body)
    organization_id = call.principal.organization(query.organization_id)
    return await call.commit(_create, call.context.vault, organization_id, wanted, call.actor)


def _create(tx: Tx, vault: Vault, organization_id: str, wanted: Wanted, actor: Actor) -> Data[WebhookEndpoint]:
    made, secret = endpoints.create(tx, vault, organization_id, wanted, actor)
    view = _view(made)
    view.secret = secret
    return Data(view)


@get(_PATH, scope=_WEBHOOKS, errors=_ERRORS)
async def list_webhook_endpoints(call: Call, query: ListQuery) -> Data[list[WebhookEndpoint]]:
    """List the further endpoints for events."""
    found = await call.read_inline(endpoints.listing, call.principal.organizations(query.organization_id))
    return Data([_view(receiver) for receiver in found])


@get(f"{_PATH}/{{id}}", scope=_WEBHOOKS, errors=_ERRORS)
async def get_webhook_endpoint(call: Call, id: Uuid) -> Data[WebhookEndpoint]:
    """Read one further endpoint."""
    return Data(_view(await call.read_inline(endpoints.find, call.principal, id)))


@put(f"{_PATH}/{{id}}", role="admin", scope=_WEBHOOKS, scope_replaces_role=True, errors=_ERRORS)
async def change_webhook_endpoint(call: Call, id: Uuid, body: NewWebhookEndpoint) -> Data[WebhookEndpoint]:
    """Replace the URL, the events and the description of an endpoint.

    Its secret, its log and whether it is paused stay. What is pending goes to the new URL.
    """
    return await call.commit(_change, call.principal, id, await _check(call, body), call.actor)


def _change(tx: Tx, principal: Principal, endpoint_id: str, wanted: Wanted, actor: Actor) -> Data[WebhookEndpoint]:
    return Data(_view(endpoints.change(tx, principal, endpoint_id, wanted, actor)))


@delete(f"{_PATH}/{{id}}", role="admin", scope=_WEBHOOKS, scope_replaces_role=True, errors=_ERRORS)
async def delete_webhook_endpoint(call: Call, id: Uuid) -> Data[RemovedWebhookEndpoint]:
    """Delete an endpoint; nothing more is sent there."""
    await call.context.db.write(endpoints.delete, call.principal, id, call.actor)
    return Data(RemovedWebhookEndpoint(id=id, removed=True))


@post(f"{_PATH}/{{id}}/pause", role="admin", scope=_WEBHOOKS, scope_replaces_role=True, statuses=(200,), errors=_ERRORS)
async def pause_webhook_endpoint(call: Call, id: Uuid) -> Data[WebhookEndpoint]:
    """Send nothing to an endpoint until it is resumed. Its events wait."""
    return await call.commit(_pause, call.principal, id, call.actor)


def _pause(tx: Tx, principal: Principal, endpoint_id: str, actor: Actor) -> Data[WebhookEndpoint]:
    return Data(_view(endpoints.pause(tx, principal, endpoint_id, actor)))


@post(
    f"{_PATH}/{{id}}/resume", role="admin", scope=_WEBHOOKS, scope_replaces_role=True, statuses=(200,), errors=_ERRORS
)
async def resume_webhook_endpoint(call: Call, id: Uuid) -> Data[WebhookEndpoint]:
    """Resume an endpoint that was paused or gone; what has been waiting is sent first."""
    return await call.commit(_resume, call.principal, id, call.actor)


def _resume(tx: Tx, principal: Principal, endpoint_id: str, actor: Actor) -> Data[WebhookEndpoint]:
    return Data(_view(endpoints.resume(tx, principal, endpoint_id, actor)))


@post(f"{_PATH}/{{id}}/secret", role="admin", scope=_WEBHOOKS, scope_replaces_role=True, errors=_ERRORS)
async def rotate_webhook_endpoint_secret(call: Call, id: Uuid) -> Data[WebhookSecret]:
    """Make a new signing secret for an endpoint.

    For a day deliveries are signed with the old secret too, so a receiver can change over without missing one.
    """
    hours = call.context.settings.webhook_secret_overlap_hours
    return await call.commit(_rotate, call.context.vault, call.principal, id, hours, call.actor)


def _rotate(
    tx: Tx, vault: Vault, principal: Principal, endpoint_id: str, hours: int, actor: Actor
) -> Data[WebhookSecret]:
    rotated, secret = endpoints.rotate_secret(tx, vault, principal, endpoint_id, overlap_hours=hours, actor=actor)
    assert rotated.previous_until is not None
    return Data(WebhookSecret(secret=secret, previous_valid_until=to_datetime(rotated.previous_until)))


@post(f"{_PATH}/{{id}}/test", scope=_WEBHOOKS, errors=(*_ERRORS, 409))
async def send_test_event_to_endpoint(call: Call, id: Uuid) -> Data[Event]:
    """Send a test event to one endpoint, whatever its filter.

    Its name is `webhook_test`. Read how it went in the endpoint's deliveries.
    """
    return await call.commit(_send_test_event, call.principal, id)


def _send_test_event(tx: Tx, principal: Principal, endpoint_id: str) -> Data[Event]:
    found = endpoints.find(tx, principal, endpoint_id)
    if found.state != "active":
        raise Conflict(said("This webhook endpoint is {state}: resume it first.", state=found.state))
    # A subject of its own: a test must not wait behind one that failed.
    data = {"message": "This is a test of your webhook endpoint. Nothing has happened."}
    event_id = outbox.emit(tx, found.organization_id, TEST_EVENT, f"test:{new_id()}", data, only=found.id)
    return Data(event_view(entries.find_of(tx, principal, found, event_id)))


@get(f"{_PATH}/{{id}}/deliveries", scope=_WEBHOOKS, pages_by="cursor", errors=_ERRORS)
async def list_webhook_deliveries(call: Call, id: Uuid, query: DeliveriesQuery) -> EventList:
    """Walk the events that were for an endpoint, each with how its delivery there went."""
    found = await call.read(_list_deliveries, call.principal, id, query)
    return event_list(call, found, query.cursor, query.limit)


def _list_deliveries(tx: Tx, principal: Principal, endpoint_id: str, query: DeliveriesQuery) -> list[Entry]:
    receiver = endpoints.find(tx, principal, endpoint_id)
    return entries.walk(
        tx,
        receiver.organization_id,
        entries.Filter(event=query.event, state=query.delivery, receiver_id=receiver.id),
        cursor=int(query.cursor) if query.cursor else None,
        newest_first=query.sort == "newest",
        limit=query.limit + 1,
    )


@post(f"{_PATH}/{{id}}/deliveries/{{event_id}}/resend", scope=_WEBHOOKS, statuses=(202,), errors=(*_ERRORS, 409))
async def resend_event_to_endpoint(call: Call, id: Uuid, event_id: EventId) -> Data[Event]:
    """Deliver an event to an endpoint once more, under the same id.

    Any event of the log can be sent, also one from before the endpoint was made.
    """
    return await call.commit(_resend, call.principal, id, event_id)


def _resend(tx: Tx, principal: Principal, endpoint_id: str, event_id: str) -> Data[Event]:
    outbox.lock_event_log(tx, endpoints.find(tx, principal, endpoint_id).organization_id)
    receiver = endpoints.find(tx, principal, endpoint_id)
    return Data(event_view(entries.resend_to(tx, principal, receiver, event_id)))


async def _check(call: Call, body: NewWebhookEndpoint) -> Wanted:
    await check_url(call, body.url, "url")
    return Wanted(body.url, None if body.events is None else tuple(body.events), body.description)


def _view(receiver: Receiver) -> WebhookEndpoint:
    assert receiver.url is not None
    assert receiver.state != "none"
    names = None if receiver.events is None else receiver.events.split()
    return from_row(WebhookEndpoint, receiver, events=names, status=receiver.state)
