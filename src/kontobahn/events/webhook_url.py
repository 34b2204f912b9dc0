"""The URL that an organisation's events are sent to, its signing secret and a test event, over HTTP."""

from __future__ import annotations

from typing import Annotated, Literal
from urllib.parse import urlsplit

from msgspec import UNSET, Meta, UnsetType

from kontobahn.access.audit import Actor
from kontobahn.access.principal import Principal
from kontobahn.api.answers import Data
from kontobahn.api.call import Call
from kontobahn.api.declare import get, post, put
from kontobahn.api.wire import Answer, Body, OrganizationQuery, Timestamp
from kontobahn.clock import to_datetime
from kontobahn.db import Tx
from kontobahn.errors import BadRequest, Conflict
from kontobahn.events import Events
from kontobahn.events.event_log import Event, event_view
from kontobahn.ids import new_id
from kontobahn.outbound import Refused, is_private_host
from kontobahn.sentences import said
from kontobahn.vault import Vault
from kontobahn.webhooks import endpoints, entries, outbox
from kontobahn.webhooks.outbox import TEST_EVENT, WEBHOOK_URL
from kontobahn.webhooks.receiver import Receiver

# Checks of the URLs that events are sent to; for a receiver on the caller's own machine, what to do instead.


async def check_url(call: Call, url: str, field: str) -> None:
    """Raises BadRequest if events must not be sent there."""
    try:
        await call.context.part(Events).outbound.check(url)
    except Refused as refusal:
        raise BadRequest(
            said("The field `{field}` is refused. {why}", field=field, why=refusal), field=field, **_hint(url)
        ) from None


def _hint(url: str) -> dict[str, str]:
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port or (443 if parts.scheme == "https" else 80)
    except ValueError:
        return {}
    if not is_private_host(host):
        return {}
    place = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    return {
        "message": said(
            "Events go to public addresses only. To receive them at this one, run `kontobahn"
            " listen --forward-to {scheme}://{host}{path}` there; or have the operator allow"
            " it with the setting `webhook_allow={allowed}`.",
            scheme=parts.scheme,
            host=place,
            path=parts.path[:200],
            allowed=place,
        )
    }


# Choice 34: what goes to this URL is about banking; the ledger and mobility areas emit nothing.


_ERRORS = (404,)
Uri = Annotated[str, Meta(extra_json_schema={"format": "uri"}, examples=["https://receiver.example/events"])]
Secret = Annotated[
    str,
    Meta(
        description="The signing secret; shown here and never again.",
        examples=["whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="],
    ),
]


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
    status: Annotated[Literal["paused", "gone"], Meta(description="Only while nothing is sent there.")] | UnsetType = (
        UNSET
    )
    stopped_at: Timestamp | UnsetType = UNSET


class WebhookSecret(Answer):
    secret: Secret
    previous_valid_until: Annotated[Timestamp, Meta(description="Until then deliveries have both signatures.")]


@put("/v2/banking/webhook-url", role="admin", scope="webhooks", scope_replaces_role=True, errors=_ERRORS)
async def set_webhook_url(call: Call, query: OrganizationQuery, body: NewWebhookUrl) -> Data[WebhookUrl]:
    """Set the URL that events are sent to, or clear it with null.

    It must be a public https address. The answer contains the signing secret only if this call created it. Setting a URL that was
    paused or gone resumes it.
    """
    organization_id = call.principal.organization(query.organization_id)
    if body.webhook_url is not None:
        await check_url(call, body.webhook_url, "webhook_url")
    return await call.commit(_set_webhook_url, call.context.vault, organization_id, body.webhook_url, call.actor)


def _set_webhook_url(tx: Tx, vault: Vault, organization_id: str, url: str | None, actor: Actor) -> Data[WebhookUrl]:
    return Data(_webhook_url_view(*endpoints.set_url(tx, vault, organization_id, url, actor)))


@get("/v2/banking/webhook-url", scope="webhooks", errors=_ERRORS)
async def get_webhook_url(call: Call, query: OrganizationQuery) -> Data[WebhookUrl]:
    """Read the URL that events are sent to.

    `status` is present only if it was stopped: `paused` after days of failure, `gone` after a 410.
    """
    organization_id = call.principal.organization(query.organization_id)
    return Data(_webhook_url_view(await call.read_inline(endpoints.find_url, organization_id)))


@post(
    "/v2/banking/webhook-url/secret", role="admin", scope="webhooks", scope_replaces_role=True, errors=(*_ERRORS, 409)
)
async def rotate_webhook_secret(call: Call, query: OrganizationQuery) -> Data[WebhookSecret]:
    """Make a new signing secret.

    For a day deliveries are signed with the old secret too, so a receiver can change over without missing one.
    """
    organization_id = call.principal.organization(query.organization_id)
    hours = call.context.settings.webhook_secret_overlap_hours
    return await call.commit(_rotate_secret, call.context.vault, organization_id, hours, call.actor)


def _rotate_secret(tx: Tx, vault: Vault, organization_id: str, overlap_hours: int, actor: Actor) -> Data[WebhookSecret]:
    rotated, secret = endpoints.rotate_secret_of_url(
        tx, vault, organization_id, overlap_hours=overlap_hours, actor=actor
    )
    assert rotated.previous_until is not None
    valid_until = to_datetime(rotated.previous_until)
    return Data(WebhookSecret(secret=secret, previous_valid_until=valid_until))


@post("/v2/banking/webhook-url/test", scope="webhooks", errors=(*_ERRORS, 409))
async def send_test_event(call: Call, query: OrganizationQuery) -> Data[Event]:
    """Send a test event to the URL.

    Its name is `webhook_test`. Read how it went under its id.
    """
    return await call.commit(_send_test_event, call.principal, call.principal.organization(query.organization_id))


def _send_test_event(tx: Tx, principal: Principal, organization_id: str) -> Data[Event]:
    found = endpoints.find_url(tx, organization_id)
    if found is None or found.state != "active":
        raise Conflict("There is no webhook URL in use: set it with PUT /v2/banking/webhook-url.")
    # A subject of its own: a test must not wait behind one that failed.
    data = {"message": "This is a test of your webhook URL. Nothing has happened."}
    event_id = outbox.emit(tx, organization_id, TEST_EVENT, f"test:{new_id()}", data, only=WEBHOOK_URL)
    return Data(event_view(entries.find(tx, principal, event_id)))


def _webhook_url_view(found: Receiver | None, secret: str | None = None) -> WebhookUrl:
    if found is None:
        return WebhookUrl(webhook_url=None, updated_at=None)
    view = WebhookUrl(webhook_url=found.url, updated_at=to_datetime(found.updated_at))
    if secret is not None:
        view.secret = secret
    if found.state in ("paused", "gone"):
        assert found.stopped_at is not None
        view.status = found.state
        view.stopped_at = to_datetime(found.stopped_at)
    return view
