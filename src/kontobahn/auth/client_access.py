"""Access of people to client organisations over HTTP."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from kontobahn.access import client_access, invitations
from kontobahn.access.audit import Actor
from kontobahn.access.client_access import Listed
from kontobahn.access.principal import ClientRole, Principal
from kontobahn.api.answers import Data
from kontobahn.api.call import Call
from kontobahn.api.declare import delete, get, post, put
from kontobahn.api.wire import Answer, Body, Timestamp, Uuid
from kontobahn.auth.invitations import Token
from kontobahn.clock import to_datetime
from kontobahn.db import Tx
from kontobahn.errors import Forbidden
from kontobahn.vault import Vault

_PATH = "/v2/auth/client-access"


class GiveAccess(Body):
    role: ClientRole


class Join(Body):
    token: Token


class ClientAccessView(Answer):
    organization_id: Annotated[Uuid, Meta(description="The client: the organisation that the person may work in.")]
    organization_name: Annotated[str, Meta(examples=["Klient GmbH"])]
    user_id: Uuid
    user_organization_id: Annotated[Uuid, Meta(description="The organisation that the person belongs to.")]
    email: str
    name: str
    role: ClientRole
    created_by: Annotated[str, Meta(examples=["user:0193b2a0-0000-7000-8000-000000000001"])]
    created_at: Timestamp


class AccessRemoval(Answer):
    user_id: Uuid
    organization_id: Uuid
    removed: bool


@get(_PATH, scope="admin", caller="key or session", role="admin", errors=(403,))
async def list_client_access(call: Call) -> Data[list[ClientAccessView]]:
    """List who may work in other organisations: your people in your clients, and others' people in yours."""
    found = await call.read(client_access.listing, call.principal.organization_id)
    return Data([_view(item) for item in found])


@put(
    f"{_PATH}/{{user_id}}/{{organization_id}}",
    scope="admin", caller="key or session", role="admin", confirm=True, errors=(403, 404, 409),
)  # fmt: skip
async def give_client_access(
    call: Call, user_id: Uuid, organization_id: Uuid, body: GiveAccess
) -> Data[ClientAccessView]:
    """Give a person a role in a client, or another one.

    A person of an agency who is an administrator of the client does so for colleagues; a key never does. The client's own
    administrators change the role of whoever has access already, and let others in by an invitation.
    """
    return await call.commit(_give, call.principal, user_id, organization_id, body.role, call.actor)


def _give(
    tx: Tx, principal: Principal, user_id: str, client_id: str, role: ClientRole, actor: Actor
) -> Data[ClientAccessView]:
    client_access.give(tx, principal, user_id, client_id, role, actor)
    return Data(_find(tx, principal.organization_id, user_id, client_id))


@delete(
    f"{_PATH}/{{user_id}}/{{organization_id}}",
    scope="admin", caller="key or session", role="admin", confirm=True, errors=(403, 404),
)  # fmt: skip
async def withdraw_client_access(call: Call, user_id: Uuid, organization_id: Uuid) -> Data[AccessRemoval]:
    """End a person's access to a client, from either side. It counts from the person's next click."""
    await call.context.db.write(client_access.withdraw, call.principal, user_id, organization_id, call.actor)
    return Data(AccessRemoval(user_id=user_id, organization_id=organization_id, removed=True))


@post("/v2/auth/invitations/join", scope="admin", caller="key or session", role="read_only", errors=(403, 404, 409))
async def join_as_adviser(call: Call, body: Join) -> Data[ClientAccessView]:
    """Accept an invitation to another organisation as somebody who is a user already.

    For a signed-in person with the e-mail address that was invited. The person stays in their own organisation and gets the role that
    was offered in the other one.
    """
    if call.principal.session_id is None:
        raise Forbidden("Only a signed-in person can accept this: send a session token instead of an API key.")
    return await call.commit(_join, call.context.vault, call.principal, body.token, call.actor)


def _join(tx: Tx, vault: Vault, principal: Principal, token: str, actor: Actor) -> Data[ClientAccessView]:
    made = invitations.join(tx, vault, principal, token, actor)
    return Data(_find(tx, principal.organization_id, made.user_id, made.client_organization_id))


def _find(tx: Tx, organization_id: str, user_id: str, client_id: str) -> ClientAccessView:
    listed = client_access.listing(tx, organization_id)
    return next(_view(item) for item in listed if item.access[1:3] == (user_id, client_id))


def _view(item: Listed) -> ClientAccessView:
    access = item.access
    return ClientAccessView(
        organization_id=access.client_organization_id, organization_name=item.client, user_id=access.user_id,
        user_organization_id=access.organization_id, email=item.email, name=item.name, role=access.role,
        created_by=access.created_by, created_at=to_datetime(access.created_at),
    )  # fmt: skip
