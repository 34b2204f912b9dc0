"""Receivers of events: the one URL, further endpoints, every event with its deliveries, attempts and payload, and sending again."""

from __future__ import annotations

from contextlib import suppress
from datetime import date, datetime
from typing import Annotated, Any, NamedTuple

import msgspec
from msgspec import UNSET, Meta, Struct
from starlette.responses import Response

from kontobahn.api.wire import OrganizationQuery, Text
from kontobahn.clock import DAY, berlin_datetime, end_of_day, from_berlin, start_of_day, to_datetime
from kontobahn.dashboard.declare import ROOT, action, page
from kontobahn.dashboard.forms import Form
from kontobahn.dashboard.lists import PAGE_SIZE, Filters
from kontobahn.dashboard.visit import Visit
from kontobahn.dashboard.words import N_, _, ngettext
from kontobahn.db import Tx
from kontobahn.events import event_log, webhook_endpoints, webhook_url
from kontobahn.events.event_log import MAX_RESENT, ResendFailed, Resent
from kontobahn.events.webhook_endpoints import NewWebhookEndpoint, WebhookEndpoint
from kontobahn.events.webhook_url import NewWebhookUrl
from kontobahn.webhooks import entries, receiver
from kontobahn.webhooks.entries import Delivery, DeliveryState, Filter, Logged
from kontobahn.webhooks.outbox import EVENT_TYPES, WEBHOOK_URL, EventName

PATH = f"{ROOT}/webhooks"
STATES: dict[DeliveryState, tuple[str, str]] = {
    "none": (N_("not sent"), "plain"),
    "pending": (N_("waiting"), "warn"),
    "delivered": (N_("delivered"), "good"),
    "failed": (N_("failed"), "bad"),
    "cancelled": (N_("given up"), "plain"),
}
ENDPOINT_STATES = {"active": (N_("in use"), "good"), "paused": (N_("paused"), "warn"), "gone": (N_("gone"), "bad")}
Url = Annotated[str, Meta(min_length=1, max_length=2000)]


class UrlForm(Struct):
    webhook_url: Url | None = None


class EndpointForm(Struct):
    url: Url
    events: list[EventName] = []
    description: Text | None = None


class EventFilters(Struct):
    event: str = ""
    receiver: str = ""
    delivery: str = ""
    subject: str = ""
    from_date: date | None = None
    to_date: date | None = None


class Shown(NamedTuple):
    """A delivery as a row of the list; none for an event that nobody wanted."""

    event: Logged
    delivery: Delivery | None
    receiver: str
    resend: str


@page("/webhooks", own=True, poll=5, help="webhooks")
async def webhooks(visit: Visit) -> Response:
    filters = visit.filters(EventFilters)
    listed = await visit.read(_listed, visit.principal.organization_id, filters, filters.wanted.receiver or None)
    url: Any = await visit.ask(webhook_url.get_webhook_url, query=OrganizationQuery())
    further: Any = await visit.ask(webhook_endpoints.list_webhook_endpoints, query=OrganizationQuery())
    return visit.show(
        "webhooks.html",
        url=url.data,
        stopped=None if url.data.status is UNSET else url.data,
        endpoints=further.data,
        **_list(filters, *listed),
    )


def _list(filters: Filters[EventFilters], found: list[Logged], names: dict[str, str]) -> dict[str, Any]:
    """Returns the values that a list of deliveries needs."""
    labels = {"event": _("Event"), "receiver": _("Endpoint"), "delivery": _("Delivery"), "subject": _("About"),
              "from_date": _("From"), "to_date": _("Until")}  # fmt: skip
    states = {state: (_(text), kind) for state, (text, kind) in STATES.items()}
    shown = names | {str(state): text for state, (text, _kind) in states.items()}
    events = filters.first_page(found, lambda event: event.sequence)
    return {
        "filters": filters,
        "list": events,
        "rows": [row for event in events.rows for row in deliveries_of(event, names)],
        "chips": filters.chips(labels, lambda name, text: shown.get(text, text)),
        "states": states,
        "receivers": names,
        "endpoint_states": {state: (_(text), kind) for state, (text, kind) in ENDPOINT_STATES.items()},
        "names": [(name, name) for name in EVENT_TYPES],
    }


def deliveries_of(event: Logged, names: dict[str, str]) -> list[Shown]:
    """Returns a row for each receiver, with where its button leads."""
    to_url = f"{PATH}/events/{event.id}/resend"
    return [
        Shown(
            event, one, names.get(one.receiver_id) or _("an endpoint that was removed"),
            to_url if one.receiver_id == WEBHOOK_URL
            else f"{PATH}/endpoints/{one.receiver_id}/events/{event.id}/resend" if one.receiver_id in names else "",
        )
        for one in event.deliveries
    ] or [Shown(event, None, "", to_url)]  # fmt: skip


def _listed(
    tx: Tx, organization_id: str, filters: Filters[EventFilters], receiver_id: str | None
) -> tuple[list[Logged], dict[str, str]]:
    """Returns the events of a page, and the names of the receivers."""
    wanted = filters.wanted
    before = int(filters.after) if filters.after.isdigit() and len(filters.after) < 19 else None
    found = Filter(
        event=wanted.event or None,
        subject=wanted.subject or None,
        state=next((known for known in STATES if known == wanted.delivery), None),
        since=start_of_day(wanted.from_date) if wanted.from_date else None,
        until=end_of_day(wanted.to_date) if wanted.to_date else None,
    )
    events = entries.latest(tx, organization_id, found, receiver_id, before=before, limit=PAGE_SIZE + 1)
    return events, receiver_names(tx, organization_id)


def receiver_names(tx: Tx, organization_id: str) -> dict[str, str]:
    return {one.id: one.description or one.url or "" for one in receiver.listing(tx, organization_id)}


@action("/webhooks/url", own=True, role="admin", confirm=True)
async def save_url(visit: Visit) -> Response:
    wanted = visit.form.read(UrlForm)
    if wanted is not None:
        with visit.form.refusals():
            body = NewWebhookUrl(webhook_url=wanted.webhook_url)
            answer: Any = await visit.ask(webhook_url.set_webhook_url, query=OrganizationQuery(), body=body)
            if answer.data.secret is not UNSET:
                return visit.show("webhook_secret.html", secret=answer.data.secret, until=None, back=PATH)
            if wanted.webhook_url is None:
                return visit.redirect(PATH, _("Events are no longer sent to a URL."))
            return visit.redirect(PATH, _("Events are sent there from now on."))
    response: Response = await webhooks.handler(visit)
    return response


@action("/webhooks/url/secret", own=True, role="admin", confirm=True)
async def rotate_secret(visit: Visit) -> Response:
    answer: Any = await visit.ask(webhook_url.rotate_webhook_secret, query=OrganizationQuery())
    until = answer.data.previous_valid_until
    return visit.show("webhook_secret.html", secret=answer.data.secret, until=until, back=PATH)


@action("/webhooks/url/test", own=True)
async def send_test(visit: Visit) -> Response:
    sent: Any = await visit.ask(webhook_url.send_test_event, query=OrganizationQuery())
    return visit.redirect(f"{PATH}/events/{sent.data.id}", _("The test event is on its way."))


@page("/webhooks/events/{id}", own=True, poll=5, help="webhooks")
async def event_page(visit: Visit, id: str) -> Response:
    event = await visit.read(entries.find_logged, visit.principal, id)
    names = await visit.read(receiver_names, event.organization_id)
    return visit.show(
        "webhook_event.html",
        event=event,
        rows=deliveries_of(event, names),
        payload=msgspec.json.format(event.body),
        states={state: (_(text), kind) for state, (text, kind) in STATES.items()},
    )


@action("/webhooks/events/{id}/resend", own=True)
async def resend(visit: Visit, id: str) -> Response:
    sent: Any = await visit.ask(event_log.resend_event, id=id)
    return visit.redirect(f"{PATH}/events/{sent.data.id}", _("The event is sent again."))


# --- All that failed since a moment


class Since(Struct):
    # As a field of the type datetime-local sends it: a time in Berlin.
    since: str


@page("/webhooks/resend", role="bookkeeping", own=True, help="webhooks")
async def ask_to_resend(visit: Visit) -> Response:
    return await _ask_to_resend(visit, visit.principal.organization_id, WEBHOOK_URL, PATH)


@action("/webhooks/resend", own=True)
async def resend_failed(visit: Visit) -> Response:
    since = _since(visit.form)
    if since is not None:
        with visit.form.refusals():
            body = ResendFailed(since=to_datetime(since))
            sent: Any = await visit.ask(event_log.resend_failed_events, query=OrganizationQuery(), body=body)
            return visit.redirect(PATH, _resent(sent.data))
    return await _ask_to_resend(visit, visit.principal.organization_id, WEBHOOK_URL, PATH)


@page("/webhooks/endpoints/{id}/resend", role="bookkeeping", own=True, help="webhooks")
async def ask_to_resend_to(visit: Visit, id: str) -> Response:
    endpoint = await _endpoint(visit, id)
    return await _ask_to_resend(visit, endpoint.organization_id, endpoint.id, f"{PATH}/endpoints/{endpoint.id}")


@action("/webhooks/endpoints/{id}/resend", own=True)
async def resend_failed_to(visit: Visit, id: str) -> Response:
    since = _since(visit.form)
    if since is not None:
        with visit.form.refusals():
            body = ResendFailed(since=to_datetime(since))
            sent: Any = await visit.ask(event_log.resend_failed_events_to_endpoint, id=id, body=body)
            return visit.redirect(f"{PATH}/endpoints/{id}", _resent(sent.data))
    response: Response = await ask_to_resend_to.handler(visit, id)
    return response


async def _ask_to_resend(visit: Visit, organization_id: str, receiver_id: str, back: str) -> Response:
    """Shows how many events failed since a moment, and a button that sends them again."""
    form = visit.form if visit.form.values else Form(visit.query)
    if "since" not in form:
        form.values["since"] = [berlin_datetime(visit.now - DAY).strftime("%Y-%m-%dT%H:%M")]
    since = _since(form)
    count = None if since is None else await visit.read(entries.count_failed, organization_id, receiver_id, since)
    return visit.show("webhook_resend.html", form=form, count=count, most=MAX_RESENT, back=back)


def _since(form: Form) -> int | None:
    wanted = form.read(Since)
    if wanted is None:
        return None
    with suppress(ValueError, OverflowError):
        if "T" in wanted.since:
            return from_berlin(datetime.fromisoformat(wanted.since))
    form.fail("since", _("Please enter a day and a time."))
    return None


def _resent(done: Resent) -> str:
    text = ngettext("One event is sent again.", "%(num)s events are sent again.", done.resent)
    return f"{text} {_('There are more: please repeat this.')}" if done.has_more else text


# --- Further endpoints


@page("/webhooks/new", own=True, role="admin", help="webhooks")
async def new_endpoint(visit: Visit) -> Response:
    return visit.show("webhook_endpoint_form.html", endpoint=None, names=list(EVENT_TYPES))


@action("/webhooks/new", own=True, role="admin", confirm=True)
async def create_endpoint(visit: Visit) -> Response:
    wanted = visit.form.read(EndpointForm)
    if wanted is not None:
        with visit.form.refusals():
            answer: Any = await visit.ask(
                webhook_endpoints.create_webhook_endpoint, query=OrganizationQuery(), body=_body(wanted)
            )
            back = f"{PATH}/endpoints/{answer.data.id}"
            return visit.show("webhook_secret.html", secret=answer.data.secret, until=None, back=back)
    response: Response = await new_endpoint.handler(visit)
    return response


def _body(wanted: EndpointForm) -> NewWebhookEndpoint:
    return NewWebhookEndpoint(url=wanted.url, events=wanted.events or None, description=wanted.description)


async def _endpoint(visit: Visit, endpoint_id: str) -> WebhookEndpoint:
    answer: Any = await visit.ask(webhook_endpoints.get_webhook_endpoint, id=endpoint_id)
    found: WebhookEndpoint = answer.data
    return found


@page("/webhooks/endpoints/{id}", own=True, poll=5, help="webhooks")
async def endpoint_page(visit: Visit, id: str) -> Response:
    endpoint = await _endpoint(visit, id)
    filters = visit.filters(EventFilters)
    listed = await visit.read(_listed, endpoint.organization_id, filters, endpoint.id)
    return visit.show("webhook_endpoint.html", endpoint=endpoint, **_list(filters, *listed))


@page("/webhooks/endpoints/{id}/edit", own=True, role="admin", help="webhooks")
async def edit_endpoint(visit: Visit, id: str) -> Response:
    return visit.show("webhook_endpoint_form.html", endpoint=await _endpoint(visit, id), names=list(EVENT_TYPES))


@action("/webhooks/endpoints/{id}/edit", own=True, role="admin", confirm=True)
async def change_endpoint(visit: Visit, id: str) -> Response:
    wanted = visit.form.read(EndpointForm)
    if wanted is not None:
        with visit.form.refusals():
            await visit.ask(webhook_endpoints.change_webhook_endpoint, id=id, body=_body(wanted))
            return visit.redirect(f"{PATH}/endpoints/{id}", _("Saved."))
    response: Response = await edit_endpoint.handler(visit, id)
    return response


@action("/webhooks/endpoints/{id}/pause", own=True, role="admin")
async def pause_endpoint(visit: Visit, id: str) -> Response:
    await visit.ask(webhook_endpoints.pause_webhook_endpoint, id=id)
    return visit.redirect(f"{PATH}/endpoints/{id}", _("Nothing is sent there until you resume it."))


@action("/webhooks/endpoints/{id}/resume", own=True, role="admin")
async def resume_endpoint(visit: Visit, id: str) -> Response:
    await visit.ask(webhook_endpoints.resume_webhook_endpoint, id=id)
    return visit.redirect(f"{PATH}/endpoints/{id}", _("Events are sent there from now on."))


@action("/webhooks/endpoints/{id}/secret", own=True, role="admin", confirm=True)
async def rotate_endpoint_secret(visit: Visit, id: str) -> Response:
    answer: Any = await visit.ask(webhook_endpoints.rotate_webhook_endpoint_secret, id=id)
    until, back = answer.data.previous_valid_until, f"{PATH}/endpoints/{id}"
    return visit.show("webhook_secret.html", secret=answer.data.secret, until=until, back=back)


@action("/webhooks/endpoints/{id}/test", own=True)
async def test_endpoint(visit: Visit, id: str) -> Response:
    await visit.ask(webhook_endpoints.send_test_event_to_endpoint, id=id)
    return visit.redirect(f"{PATH}/endpoints/{id}", _("The test event is on its way."))


@action("/webhooks/endpoints/{id}/events/{event}/resend", own=True)
async def resend_to_endpoint(visit: Visit, id: str, event: str) -> Response:
    await visit.ask(webhook_endpoints.resend_event_to_endpoint, id=id, event_id=event)
    return visit.redirect(f"{PATH}/endpoints/{id}", _("The event is sent again."))


@page("/webhooks/endpoints/{id}/delete", own=True, role="admin", help="webhooks")
async def ask_to_delete_endpoint(visit: Visit, id: str) -> Response:
    endpoint = await _endpoint(visit, id)
    return visit.ask_first(
        title=_("Remove this endpoint?"),
        text=_("Nothing more is sent to %(url)s, and what waits for it is given up.", url=endpoint.url),
        button=_("Remove the endpoint"),
        back=f"{PATH}/endpoints/{endpoint.id}",
    )


@action("/webhooks/endpoints/{id}/delete", own=True, role="admin", confirm=True)
async def delete_endpoint(visit: Visit, id: str) -> Response:
    await visit.ask(webhook_endpoints.delete_webhook_endpoint, id=id)
    return visit.redirect(PATH, _("The endpoint has been removed."))
