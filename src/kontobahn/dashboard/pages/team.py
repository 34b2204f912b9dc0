"""The people of the organisation: roles, invitations, and deleting somebody with what that removes said first."""

from __future__ import annotations

from decimal import Decimal
from typing import NamedTuple

from msgspec import Struct
from starlette.responses import Response

from kontobahn.access import client_access, invitations, keys, organizations, users
from kontobahn.access.audit import Actor
from kontobahn.access.client_access import Listed
from kontobahn.access.invitations import Invitation, NewInvitation
from kontobahn.access.principal import CLIENT_ROLES, ROLES, ClientRole, Principal, Role
from kontobahn.access.users import NewPasswordReset, User
from kontobahn.api.wire import Name
from kontobahn.auth.users import Email
from kontobahn.banking.connections import store as connections
from kontobahn.banking.payments import releases
from kontobahn.dashboard import figures
from kontobahn.dashboard.declare import ROOT, action, page
from kontobahn.dashboard.people import ROLE_NAMES
from kontobahn.dashboard.visit import Visit
from kontobahn.dashboard.words import _, ngettext
from kontobahn.db import Tx
from kontobahn.money import to_minor
from kontobahn.settings import Settings
from kontobahn.vault import Vault

PATH = f"{ROOT}/team"
ACCESS = f"{PATH}#access"


class Invite(Struct):
    email: Email
    role: Role = "bookkeeping"


class NewRole(Struct):
    role: Role


class NewAccess(Struct):
    user: str
    client: str
    role: ClientRole


class Team(NamedTuple):
    people: list[User]
    invited: list[Invitation]
    by_keys: list[keys.AgencyClient]
    # Access of our people to clients, and of others' people to us.
    to_clients: list[Listed]
    from_outside: list[Listed]


@page("/team", own=True, help="team")
async def team(visit: Visit) -> Response:
    found = await visit.read(_team, visit.principal, visit.now)
    assert visit.person is not None
    roles = [(role, _(ROLE_NAMES[role])) for role in ROLES if role != "owner" or visit.may("owner")]
    administered = [(client.id, client.name) for client in visit.person.clients if client.role == "admin"]
    return visit.show(
        "team.html", team=found, roles=roles, sends_mail=bool(visit.context.settings.smtp_url),
        role_names=ROLE_NAMES, administered=administered,
        people=[(user.id, f"{user.name} ({user.email})") for user in found.people],
        client_roles=[(role, _(ROLE_NAMES[role])) for role in CLIENT_ROLES],
    )  # fmt: skip


def _team(tx: Tx, principal: Principal, now: int) -> Team:
    organization_id = principal.organization_id
    is_admin = principal.may("admin")
    invited = invitations.listing(tx, organization_id) if is_admin else []
    access = client_access.listing(tx, organization_id) if is_admin else []
    return Team(
        users.listing(tx, organization_id),
        [item for item in invited if item.state(now) == "pending"],
        keys.clients_by_key(tx, organization_id),
        [item for item in access if item.access.organization_id == organization_id],
        [item for item in access if item.access.organization_id != organization_id],
    )


@action("/team/invitations", own=True, role="admin", confirm=True)
async def invite(visit: Visit) -> Response:
    wanted = visit.form.read(Invite)
    if wanted is not None:
        with visit.form.refusals():
            made, is_mailed = await visit.write(
                _invite, visit.context.vault, visit.context.settings, visit.principal, wanted, visit.actor
            )
            link = invitations.link(visit.context.settings.base_url, made.secret)
            return visit.show("team_invited.html", invitation=made.invitation, link=link, is_mailed=is_mailed)
    response: Response = await team.handler(visit)
    return response


def _invite(
    tx: Tx, vault: Vault, settings: Settings, principal: Principal, wanted: Invite, actor: Actor
) -> tuple[NewInvitation, bool]:
    made = invitations.create(
        tx, vault, principal, email=wanted.email, role=wanted.role, days=settings.invitation_days, actor=actor
    )
    return made, invitations.send_invitation(tx, vault, settings, made)


@action("/team/invitations/{id}/revoke", own=True, role="admin")
async def revoke_invitation(visit: Visit, id: str) -> Response:
    await visit.write(invitations.revoke, visit.principal, id, visit.actor)
    return visit.redirect(PATH, _("The invitation can no longer be accepted."))


@action("/team/{id}/role", own=True, role="admin", confirm=True)
async def change_role(visit: Visit, id: str) -> Response:
    wanted = visit.form.read(NewRole)
    if wanted is not None:
        with visit.form.refusals():
            user = await visit.write(users.change_role, visit.principal, id, wanted.role, visit.actor)
            text = _("%(name)s is now %(role)s.", name=user.name, role=_(ROLE_NAMES[user.role]))
            return visit.redirect(PATH, text)
    response: Response = await team.handler(visit)
    return response


@action("/team/{id}/password-link", own=True, role="admin", confirm=True)
async def make_password_link(visit: Visit, id: str) -> Response:
    """Makes a link with which the person sets a new password: for somebody who has forgotten theirs."""
    settings = visit.context.settings
    with visit.form.refusals():
        made, is_mailed = await visit.write(
            _password_link, visit.context.vault, settings, visit.principal, id, visit.actor
        )
        link = users.reset_link(settings.base_url, made.secret)
        return visit.show("team_password_link.html", made=made, link=link, is_mailed=is_mailed)
    response: Response = await team.handler(visit)
    return response


def _password_link(
    tx: Tx, vault: Vault, settings: Settings, principal: Principal, user_id: str, actor: Actor
) -> tuple[NewPasswordReset, bool]:
    user = users.get(tx, principal, user_id)
    made = users.create_reset(tx, vault, user, hours=settings.password_reset_hours, actor=actor, by=principal)
    return made, invitations.send_password_link(tx, vault, settings, made)


@page("/team/{id}/delete", own=True, role="admin", help="team")
async def ask_to_delete(visit: Visit, id: str) -> Response:
    user = await visit.read(users.get, visit.principal, id)
    banks = await visit.read(connections.names_of_user, user.organization_id, user.id)
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


@action("/team/{id}/delete", own=True, role="admin", confirm=True)
async def delete_user(visit: Visit, id: str) -> Response:
    with visit.form.refusals():
        user = await visit.write(users.delete, visit.principal, id, visit.actor, visit.context.user_removals)
    if visit.form.is_good:
        return visit.redirect(PATH, _("%(name)s has been deleted.", name=user.name))
    response: Response = await ask_to_delete.handler(visit, id)
    return response


# --- Access to clients


@action("/team/access", own=True, role="admin", confirm=True)
async def give_access(visit: Visit) -> Response:
    """Gives a person access to a client, or another role there."""
    wanted = visit.form.read(NewAccess)
    if wanted is not None:
        with visit.form.refusals():
            given = await visit.write(
                client_access.give, visit.principal, wanted.user, wanted.client, wanted.role, visit.actor
            )
            text = _("The role in this organisation is now “%(role)s”.", role=_(ROLE_NAMES[given.role]))
            return visit.redirect(ACCESS, text)
    response: Response = await team.handler(visit)
    return response


@action("/team/access/withdraw", own=True, role="admin", confirm=True)
async def withdraw_access(visit: Visit) -> Response:
    form = visit.form
    with form.refusals():
        await visit.write(client_access.withdraw, visit.principal, form.text("user"), form.text("client"), visit.actor)
        return visit.redirect(ACCESS, _("The access has ended."))
    response: Response = await team.handler(visit)
    return response


# The organisation that is looked at: its name, and where its address and its first steps are.


COMPANY_PATH = f"{ROOT}/company"


class Company(Struct):
    name: Name


class PaymentLimit(Struct):
    # Empty for none.
    limit: Decimal | None = None


@page("/company", help="company")
async def company(visit: Visit) -> Response:
    assert visit.person is not None
    limit = await visit.read(releases.limit_of, visit.organization_id)
    return visit.show(
        "company.html", organization=visit.person.looking_at, limit="" if limit is None else figures.plain_amount(limit)
    )


@action("/company", role="admin")
async def rename(visit: Visit) -> Response:
    wanted = visit.form.read(Company)
    if wanted is not None:
        await visit.write(organizations.rename, visit.organization_id, wanted.name, visit.actor)
        return visit.redirect(COMPANY_PATH, _("The company is now called “%(name)s”.", name=wanted.name))
    response: Response = await company.handler(visit)
    return response


@action("/company/payment-limit", role="admin", factor=True)
async def set_payment_limit(visit: Visit) -> Response:
    wanted = visit.form.read(PaymentLimit)
    if wanted is not None:
        with visit.form.refusals(amount="limit"):
            limit = None if wanted.limit is None else to_minor(wanted.limit)
            await visit.write(releases.set_limit, visit.organization_id, limit, visit.actor, by=visit.principal)
            if limit is None:
                return visit.redirect(COMPANY_PATH, _("Payments no longer need a second person's release."))
            text = _("Payments above %(amount)s now need a second person's release.", amount=figures.money(limit))
            return visit.redirect(COMPANY_PATH, text)
    response: Response = await company.handler(visit)
    return response
