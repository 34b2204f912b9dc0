"""Connecting an assistant: the page on which a person decides what it may do in their name, and taking that back."""

from __future__ import annotations

from decimal import Decimal
from typing import Literal, NamedTuple
from urllib.parse import urlsplit

from msgspec import Struct
from starlette.responses import Response

from kontobahn import limits
from kontobahn.api.wire import Text
from kontobahn.assistants import access, authorization, grants, presets
from kontobahn.assistants.authorization import FIELDS, Received
from kontobahn.assistants.client_documents import ClientDocuments, is_loopback
from kontobahn.assistants.grants import Agreed, GrantedClient
from kontobahn.assistants.presets import SCOPES_OF, Preset
from kontobahn.clock import DAY
from kontobahn.dashboard import refusals
from kontobahn.dashboard.declare import ROOT, action, page
from kontobahn.dashboard.visit import Visit
from kontobahn.dashboard.words import N_, _
from kontobahn.errors import BadRequest, NotFound
from kontobahn.ledger.connections import list_clients
from kontobahn.ledger.provider import LedgerClient
from kontobahn.money import to_minor

PATH = f"{ROOT}/assistants"
# More than these are not offered to choose from: a list of so many boxes is no choice.
MAX_CLIENTS = 200
PRESET_NAMES: dict[Preset, str] = {
    "read": N_("Ask questions"),
    "bookkeeping": N_("Ask questions, and help with the books"),
    "payments": N_("Ask questions, help with the books, and prepare payments"),
}


class Consent(Struct):
    """The form of a person who lets an assistant in."""

    preset: Text
    extent: Literal["all", "clients"] = "all"
    clients: list[str] = []
    daily_limit: Decimal | None = None


class Choice(NamedTuple):
    """A preset that the person may choose, and the scopes that it has."""

    preset: Preset
    text: str
    scopes: str


@page("/assistants/authorize", own=True, help="assistants")
async def authorize(visit: Visit) -> Response:
    return await _ask(visit, await _received(visit, visit.query))


async def _received(visit: Visit, given: dict[str, list[str]]) -> Received:
    settings = visit.context.settings
    if not settings.mcp:
        raise NotFound("There is no such page.")
    return await authorization.receive(visit.context.part(ClientDocuments), settings.base_url, given)


async def _ask(visit: Visit, received: Received) -> Response:
    organization_id, base_url = visit.principal.organization_id, visit.context.settings.base_url
    asked = received.asked
    if asked is None:
        back = authorization.answer_address(received, base_url, error=received.error)
        return visit.show(
            "assistant_refused.html", 400, client=received.client, reason=refusals.refusal(received.reason), back=back
        )
    group = visit.dependencies.groups[limits.API]
    clients = await list_clients(visit.context, organization_id)
    redirect = urlsplit(received.redirect_uri)
    assert visit.person is not None
    return visit.show(
        "assistant_consent.html",
        client=received.client,
        organization=visit.person.organization.name,
        is_enabled=await visit.read(access.is_enabled, organization_id),
        may_switch=visit.may("admin"),
        answer_host=None if is_loopback(received.redirect_uri) else redirect.hostname,
        choices=[
            Choice(preset, _(PRESET_NAMES[preset]), ", ".join(SCOPES_OF[preset]))
            for preset in authorization.offered(visit.principal, asked)
        ],
        wanted=presets.find(visit.form.text("preset")) or authorization.offered(visit.principal, asked)[-1],
        days=grants.GRANT_TIME // DAY,
        group=group,
        clients=[(_value_of(client), client.name, client.client_id) for client in clients[:MAX_CLIENTS]],
        more_clients=max(0, len(clients) - MAX_CLIENTS),
        fields={name: (visit.form.values or visit.query).get(name, [""])[-1] for name in FIELDS},
    )


def _value_of(client: LedgerClient) -> str:
    return f"{client.connection_id} {client.client_id}"


@action("/assistants/authorize", own=True, role="read_only", confirm=True)
async def decide(visit: Visit) -> Response:
    """Lets the assistant in, or sends it away; in both cases back to its address, with a code or a refusal."""
    received = await _received(visit, visit.form.values)
    base_url, client = visit.context.settings.base_url, received.client
    if visit.form.text("decision") == "refuse":
        back = authorization.answer_address(received, base_url, error="access_denied")
        return visit.leave(back, _("%(name)s is not connected", name=client.name), _("Nothing was passed on."))
    agreed = None if received.asked is None else await _agreed(visit)
    if received.asked is None or agreed is None:
        return await _ask(visit, received)
    with visit.form.refusals():
        code = await visit.write(
            authorization.agree, visit.context.vault, visit.principal, received.asked, agreed, visit.actor
        )
        back = authorization.answer_address(received, base_url, code=code)
        text = _("You find it in the list of connected assistants, where you can take this back.")
        return visit.leave(back, _("%(name)s is connected", name=client.name), text)
    return await _ask(visit, received)


async def _agreed(visit: Visit) -> Agreed | None:
    """Returns what the person has chosen; None if the form says what is wrong with it."""
    wanted = visit.form.read(Consent)
    if wanted is None:
        return None
    preset = presets.find(wanted.preset)
    if preset is None:
        raise BadRequest("Choose what the assistant may do.", field="preset")
    limit = None if wanted.daily_limit is None else to_minor(wanted.daily_limit)
    if wanted.extent == "all":
        return Agreed(preset, None, limit)
    known = {_value_of(one): one for one in await list_clients(visit.context, visit.principal.organization_id)}
    chosen = [known[value] for value in dict.fromkeys(wanted.clients) if value in known]
    if not chosen or len(chosen) < len(set(wanted.clients)):
        visit.form.fail("clients", _("Choose at least one client."))
        return None
    return Agreed(preset, tuple(GrantedClient(one.connection_id, one.client_id, one.name) for one in chosen), limit)


@action("/assistants/grants/{id}/disconnect", role="read_only")
async def disconnect(visit: Visit, id: str) -> Response:
    grant = await visit.write(grants.disconnect, visit.principal, id, visit.actor)
    return visit.redirect(PATH, _("%(name)s is disconnected.", name=grant.client_name))
