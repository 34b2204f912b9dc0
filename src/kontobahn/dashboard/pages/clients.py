"""Clients of an adviser: added, named, closed and opened again, with whoever may work in each."""

from __future__ import annotations

from typing import NamedTuple

from msgspec import Struct
from starlette.responses import Response

from kontobahn.access import client_access, clients, invitations, letters, users
from kontobahn.access.audit import Actor
from kontobahn.access.client_access import Listed
from kontobahn.access.clients import KeptClient
from kontobahn.access.invitations import NewInvitation
from kontobahn.access.principal import ROLES, Principal
from kontobahn.api.wire import Name
from kontobahn.dashboard import first_steps
from kontobahn.dashboard.declare import ROOT, action, page
from kontobahn.dashboard.pages.team import Invite
from kontobahn.dashboard.people import ROLE_NAMES
from kontobahn.dashboard.visit import Visit
from kontobahn.dashboard.words import _
from kontobahn.db import Tx
from kontobahn.settings import Settings
from kontobahn.vault import Vault

PATH = f"{ROOT}/clients"


class NewClient(Struct):
    name: Name


class Facts(NamedTuple):
    client: KeptClient
    # The people of our organisation who may work in it.
    people: list[Listed]
    # The client has people of its own.
    has_people: bool


@page("/clients", own=True, role="admin", help="clients")
async def client_list(visit: Visit) -> Response:
    found = await visit.read(clients.listing, visit.principal)
    return visit.show("clients.html", clients=found, role_names=ROLE_NAMES)


@action("/clients", own=True, role="admin")
async def add_client(visit: Visit) -> Response:
    """Adds a client and goes there, to set it up."""
    wanted = visit.form.read(NewClient)
    if wanted is not None:
        with visit.form.refusals():
            made = await visit.write(clients.create, visit.principal, wanted.name, visit.actor)
            visit.new_cookies["organization"] = made.id
            return visit.redirect(first_steps.PATH, _("You are now working in “%(name)s”.", name=made.name))
    response: Response = await client_list.handler(visit)
    return response


@page("/clients/{id}", own=True, role="admin", help="clients")
async def client(visit: Visit, id: str) -> Response:
    facts = await visit.read(_facts, visit.principal, id)
    roles = [(role, _(ROLE_NAMES[role])) for role in ROLES if role != "owner" or not facts.has_people]
    return visit.show("client.html", facts=facts, client=facts.client, role_names=ROLE_NAMES, roles=roles)


def _facts(tx: Tx, principal: Principal, client_id: str) -> Facts:
    found = clients.administered(tx, principal, client_id)
    listed = client_access.listing(tx, principal.organization_id)
    ours = [item for item in listed if item.access.client_organization_id == client_id]
    return Facts(found, ours, users.any_of(tx, client_id))


@action("/clients/{id}", own=True, role="admin")
async def rename_client(visit: Visit, id: str) -> Response:
    wanted = visit.form.read(NewClient)
    if wanted is not None:
        await visit.write(clients.rename, visit.principal, id, wanted.name, visit.actor)
        return visit.redirect(f"{PATH}/{id}", _("The client is now called “%(name)s”.", name=wanted.name))
    response: Response = await client.handler(visit, id)
    return response


@action("/clients/{id}/invitations", own=True, role="admin", confirm=True)
async def invite_to_client(visit: Visit, id: str) -> Response:
    """Invites a person of the client, who signs in there."""
    wanted = visit.form.read(Invite)
    if wanted is not None:
        with visit.form.refusals():
            made, is_mailed = await visit.write(
                _invite, visit.context.vault, visit.context.settings, visit.principal, id, wanted, visit.actor
            )
            link = invitations.link(visit.context.settings.base_url, made.secret)
            return visit.show("team_invited.html", invitation=made.invitation, link=link, is_mailed=is_mailed)
    response: Response = await client.handler(visit, id)
    return response


def _invite(
    tx: Tx, vault: Vault, settings: Settings, principal: Principal, client_id: str, wanted: Invite, actor: Actor
) -> tuple[NewInvitation, bool]:
    made = clients.invite(
        tx, vault, principal, client_id,
        email=wanted.email, role=wanted.role, days=settings.invitation_days, actor=actor,
    )  # fmt: skip
    return made, letters.send_invitation(tx, vault, settings, made)


@page("/clients/{id}/close", own=True, role="admin", help="clients")
async def ask_to_close(visit: Visit, id: str) -> Response:
    found = await visit.read(clients.administered, visit.principal, id)
    return visit.ask_first(
        title=_("Close the client “%(name)s”?", name=found.name),
        text=_("Nothing is deleted. Nobody can work in it until somebody who administers it opens it again."),
        button=_("Close the client"),
        back=f"{PATH}/{found.id}",
    )


@action("/clients/{id}/close", own=True, role="admin", confirm=True)
async def close_client(visit: Visit, id: str) -> Response:
    with visit.form.refusals():
        found = await visit.write(clients.close, visit.principal, id, visit.actor)
        return visit.redirect(PATH, _("“%(name)s” is closed.", name=found.name))
    response: Response = await ask_to_close.handler(visit, id)
    return response


@action("/clients/{id}/open", own=True, role="admin")
async def reopen_client(visit: Visit, id: str) -> Response:
    found = await visit.write(clients.reopen, visit.principal, id, visit.actor)
    return visit.redirect(PATH, _("“%(name)s” is open again.", name=found.name))
