"""The people of the organisation: roles, invitations, and deleting somebody with what that removes said first."""

from __future__ import annotations

from typing import NamedTuple

from msgspec import Struct
from starlette.responses import Response

from kontobahn.access import invitations, users
from kontobahn.access.invitations import Invitation
from kontobahn.access.principal import ROLES, Principal, Role
from kontobahn.access.users import User
from kontobahn.auth.users import Email
from kontobahn.dashboard.declare import ROOT, action, page
from kontobahn.dashboard.views import team as views
from kontobahn.dashboard.visit import Visit
from kontobahn.dashboard.words import N_, _, ngettext
from kontobahn.db import Tx

PATH = f"{ROOT}/team"
ROLE_NAMES: dict[Role, str] = {"member": N_("member"), "admin": N_("administrator"), "owner": N_("owner")}


class Invite(Struct):
    email: Email
    role: Role = "member"


class NewRole(Struct):
    role: Role


class Team(NamedTuple):
    people: list[User]
    invited: list[Invitation]
    clients: list[views.AgencyClient]


@page("/team")
async def team(visit: Visit) -> Response:
    found = await visit.read(_team, visit.principal, visit.now)
    roles = [(role, _(ROLE_NAMES[role])) for role in ROLES if role != "owner" or visit.may("owner")]
    return visit.show("team.html", team=found, roles=roles, role_names=ROLE_NAMES)


def _team(tx: Tx, principal: Principal, now: int) -> Team:
    organization_id = principal.organization_id
    invited = invitations.listing(tx, organization_id) if principal.may("admin") else []
    return Team(
        users.listing(tx, organization_id),
        [item for item in invited if item.state(now) == "pending"],
        views.agency_clients(tx, organization_id),
    )


@action("/team/invitations", role="admin", confirm=True)
async def invite(visit: Visit) -> Response:
    wanted = visit.form.read(Invite)
    if wanted is not None:
        with visit.form.refusals():
            made = await visit.write(
                invitations.create, visit.context.vault, visit.principal,
                email=wanted.email, role=wanted.role, days=visit.context.settings.invitation_days, actor=visit.actor,
            )  # fmt: skip
            link = f"{visit.context.settings.base_url}{ROOT}/invitation/{made.secret}"
            return visit.show("team_invited.html", invitation=made.invitation, link=link)
    response: Response = await team.handler(visit)
    return response


@action("/team/invitations/{id}/revoke", role="admin")
async def revoke_invitation(visit: Visit, id: str) -> Response:
    await visit.write(invitations.revoke, visit.principal, id, visit.actor)
    return visit.redirect(PATH, _("The invitation can no longer be accepted."))


@action("/team/{id}/role", role="admin", confirm=True)
async def change_role(visit: Visit, id: str) -> Response:
    wanted = visit.form.read(NewRole)
    if wanted is not None:
        with visit.form.refusals():
            user = await visit.write(users.change_role, visit.principal, id, wanted.role, visit.actor)
            text = _("%(name)s is now %(role)s.", name=user.name, role=_(ROLE_NAMES[user.role]))
            return visit.redirect(PATH, text)
    response: Response = await team.handler(visit)
    return response


@page("/team/{id}/delete", role="admin")
async def ask_to_delete(visit: Visit, id: str) -> Response:
    user = await visit.read(users.get, visit.principal, id)
    banks = await visit.read(views.bank_connections_of_user, user.organization_id, user.id)
    removes = [_("The person is signed out everywhere at once.")]
    if banks:
        removes.append(
            ngettext(
                "One bank connection that this person made ends: %(names)s.",
                "%(num)s bank connections that this person made end: %(names)s.",
                len(banks),
                names=", ".join(banks),
            )
        )
    removes.append(_("API keys belong to the organisation and stay valid. Revoke those that the person knew."))
    return visit.ask_first(
        title=_("Delete %(name)s?", name=user.name),
        text=_("%(email)s can no longer sign in. What the person did stays in the audit log.", email=user.email),
        removes=removes,
        button=_("Delete this person"),
        back=PATH,
    )


@action("/team/{id}/delete", role="admin", confirm=True)
async def delete_user(visit: Visit, id: str) -> Response:
    with visit.form.refusals():
        user = await visit.write(users.delete, visit.principal, id, visit.actor, visit.context.user_removals)
    if visit.form.is_good:
        return visit.redirect(PATH, _("%(name)s has been deleted.", name=user.name))
    response: Response = await ask_to_delete.handler(visit, id)
    return response
