"""Connecting an assistant: the page on which a person decides what it may do in their name, and taking that back."""

from __future__ import annotations

from typing import NamedTuple
from urllib.parse import urlsplit

from starlette.responses import Response

from kontobahn import limits
from kontobahn.assistants import access, authorization, grants, presets
from kontobahn.assistants.authorization import FIELDS, Received
from kontobahn.assistants.client_documents import ClientDocuments, is_loopback
from kontobahn.assistants.presets import SCOPES_OF, Preset
from kontobahn.clock import DAY
from kontobahn.dashboard import refusals
from kontobahn.dashboard.declare import ROOT, action, page
from kontobahn.dashboard.visit import Visit
from kontobahn.dashboard.words import N_, _
from kontobahn.errors import BadRequest, NotFound
from kontobahn.ledger.connections import list_clients

PATH = f"{ROOT}/assistants"
MAX_CLIENTS = 20
PRESET_NAMES: dict[Preset, str] = {
    "read": N_("Ask questions"),
    "bookkeeping": N_("Ask questions, and help with the books"),
    "payments": N_("Ask questions, help with the books, and prepare payments"),
}


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
            for preset in authorization.offered(visit.principal)
        ],
        wanted=_widest(visit, asked.preset),
        days=grants.GRANT_TIME // DAY,
        group=group,
        clients=[client.name for client in clients[:MAX_CLIENTS]],
        more_clients=max(0, len(clients) - MAX_CLIENTS),
        fields={name: (visit.form.values or visit.query).get(name, [""])[-1] for name in FIELDS},
    )


def _widest(visit: Visit, asked: Preset) -> Preset:
    """The preset that was asked for, or the widest that the person's role allows."""
    return presets.narrower(asked, authorization.offered(visit.principal)[-1])


@action("/assistants/authorize", own=True, role="read_only", confirm=True)
async def decide(visit: Visit) -> Response:
    """Lets the assistant in, or sends it away; in both cases back to its address, with a code or a refusal."""
    received = await _received(visit, visit.form.values)
    base_url, client = visit.context.settings.base_url, received.client
    if visit.form.text("decision") == "refuse":
        back = authorization.answer_address(received, base_url, error="access_denied")
        return visit.leave(back, _("%(name)s is not connected", name=client.name), _("Nothing was passed on."))
    preset = presets.find(visit.form.text("preset"))
    if received.asked is None:
        return await _ask(visit, received)
    if preset is None:
        raise BadRequest("Choose what the assistant may do.", field="preset")
    with visit.form.refusals():
        code = await visit.write(
            authorization.agree, visit.context.vault, visit.principal, received.asked, preset, visit.actor
        )
        back = authorization.answer_address(received, base_url, code=code)
        text = _("You find it in the list of connected assistants, where you can take this back.")
        return visit.leave(back, _("%(name)s is connected", name=client.name), text)
    return await _ask(visit, received)


@action("/assistants/grants/{id}/disconnect", role="read_only")
async def disconnect(visit: Visit, id: str) -> Response:
    grant = await visit.write(grants.disconnect, visit.principal, id, visit.actor)
    return visit.redirect(PATH, _("%(name)s is disconnected.", name=grant.client_name))
