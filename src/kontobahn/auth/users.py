"""The organisation's users over HTTP."""

from __future__ import annotations

from typing import Annotated

from kontobahn.access import users
from kontobahn.access.audit import Actor
from kontobahn.access.principal import Principal, Role
from kontobahn.access.users import User
from kontobahn.api.answers import Data, from_row
from kontobahn.api.call import Call
from kontobahn.api.declare import delete, get, put
from kontobahn.api.wire import BLANKS, Answer, Body, Timestamp, Uuid, form
from kontobahn.db import Tx

_NO_BLANK = rf"[^@{BLANKS}]+"
Email = Annotated[
    str,
    form(
        "an e-mail address",
        f"^{_NO_BLANK}@{_NO_BLANK}$",
        min_length=3,
        max_length=254,
        examples=["erika@muster.example"],
    ),
]


class ChangeRole(Body):
    role: Role


class UserView(Answer):
    id: Uuid
    organization_id: Uuid
    email: str
    name: str
    role: Role
    created_at: Timestamp


class Removal(Answer):
    id: Uuid
    removed: bool


@get("/v2/auth/users", scope="admin", caller="key or session")
async def list_users(call: Call) -> Data[list[UserView]]:
    """List the organisation's users."""
    found = await call.read(users.listing, call.principal.organization_id)
    return Data([user_view(user) for user in found])


@put("/v2/auth/users/{id}", scope="admin", caller="key or session", role="admin", confirm=True, errors=(403, 404, 409))
async def change_role(call: Call, id: Uuid, body: ChangeRole) -> Data[UserView]:
    """Change a user's role.

    Only an owner can grant or remove the role `owner`, and the last owner cannot lose it.
    """
    return await call.commit(_change_role, call.principal, id, body.role, call.actor)


def _change_role(tx: Tx, principal: Principal, user_id: str, role: Role, actor: Actor) -> Data[UserView]:
    return Data(user_view(users.change_role(tx, principal, user_id, role, actor)))


@delete(
    "/v2/auth/users/{id}", scope="admin", caller="key or session", role="admin", confirm=True, errors=(403, 404, 409)
)
async def delete_user(call: Call, id: Uuid) -> Data[Removal]:
    """Delete a user.

    The person's sessions end at once. API keys belong to the organisation and stay valid: revoke those the person knew.
    """
    await call.context.db.write(users.delete, call.principal, id, call.actor, call.context.user_removals)
    return Data(Removal(id=id, removed=True))


def user_view(user: User) -> UserView:
    return from_row(UserView, user)
