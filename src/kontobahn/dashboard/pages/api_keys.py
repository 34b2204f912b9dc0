"""API keys: made with a role, scopes, limits and an end; the secret is shown once and can be tried at once; rotated, revoked."""

from __future__ import annotations

from datetime import date
from decimal import Decimal
from typing import Annotated, Literal

import msgspec
from msgspec import Meta, Struct
from starlette.responses import Response

from kontobahn.access import keys
from kontobahn.access.keys import ApiKey
from kontobahn.access.keys import NewKey as MadeKey
from kontobahn.access.principal import MEANINGS, ROLES, SCOPES, Limits, Role, parse_scopes
from kontobahn.api.call import Call
from kontobahn.api.declare import Endpoint
from kontobahn.api.wire import ListQuery, Text
from kontobahn.banking.connections import routes as bank_connections
from kontobahn.clock import end_of_day
from kontobahn.dashboard.declare import ROOT, action, page
from kontobahn.dashboard.people import ROLE_NAMES
from kontobahn.dashboard.refusals import refusal
from kontobahn.dashboard.visit import QUELLE, Visit
from kontobahn.dashboard.words import N_, _
from kontobahn.errors import KontobahnError
from kontobahn.money import to_minor

PATH = f"{ROOT}/keys"
STATES = {"active": (N_("valid"), "good"), "expired": (N_("expired"), "plain"), "revoked": (N_("revoked"), "plain")}
OVERLAPS = {
    "0": N_("no time at all"),
    "3600": N_("an hour"),
    "86400": N_("a day"),
    "604800": N_("a week"),
}


class NewKey(Struct):
    name: Text
    role: Role = "member"
    scopes: list[str] = []
    payment_limit: Decimal | None = None
    daily_limit: Decimal | None = None
    expires: date | None = None


class Rotation(Struct):
    overlap: Literal["0", "3600", "86400", "604800"] = "86400"


class Secret(Struct):
    secret: Annotated[str, Meta(max_length=200)]


@page("/keys", own=True, role="admin", help="keys")
async def api_keys(visit: Visit) -> Response:
    found = await visit.read(keys.listing, visit.principal.organization_id)
    return visit.show("api_keys.html", keys=found[::-1], states=STATES, role_names=ROLE_NAMES)


@page("/keys/new", own=True, role="admin", help="keys")
async def new_key(visit: Visit) -> Response:
    roles = [(role, _(ROLE_NAMES[role])) for role in ROLES if visit.may(role)]
    meanings = [(scope, refusal(MEANINGS[scope])) for scope in SCOPES]
    return visit.show("api_key_new.html", roles=roles, meanings=meanings)


@action("/keys/new", own=True, role="admin", confirm=True)
async def make_key(visit: Visit) -> Response:
    wanted = visit.form.read(NewKey)
    if wanted is not None:
        with visit.form.refusals(expires_at="expires"):
            principal = visit.principal
            made = await visit.write(
                keys.create, visit.context.vault, principal.organization_id, wanted.name, visit.actor,
                role=wanted.role,
                scopes=parse_scopes(wanted.scopes) if wanted.scopes else None,
                limits=Limits(_cents(wanted.payment_limit), _cents(wanted.daily_limit)),
                expires_at=end_of_day(wanted.expires) if wanted.expires else None,
                created_by=principal.user_id,
                by=principal,
            )  # fmt: skip
            return _show_secret(visit, made)
    response: Response = await new_key.handler(visit)
    return response


def _cents(amount: Decimal | None) -> int | None:
    return None if amount is None else to_minor(amount)


def _show_secret(visit: Visit, made: MadeKey, answer: str = "") -> Response:
    """The one page with the secret; it is never stored, neither here nor by the browser."""
    return visit.show(
        "api_key_made.html",
        key=made.key,
        secret=made.secret,
        command=f"curl -H 'x-api-key: {made.secret}' {visit.context.settings.base_url}{_TRIED.path}",
        answer=answer,
    )


_TRIED: Endpoint = bank_connections.list_bank_connections


@action("/keys/try", own=True, role="admin")
async def try_key(visit: Visit) -> Response:
    """Makes a free call with the new key and shows the answer."""
    sent = visit.form.read(Secret)
    if sent is None:
        return visit.redirect(PATH)
    try:
        principal = await visit.read(
            keys.authenticate, visit.context.vault.token_hash(sent.secret), visit.context.clock.now()
        )
        if principal.organization_id != visit.principal.organization_id:
            return visit.redirect(PATH)
        key = await visit.read(keys.get, principal.organization_id, principal.key_id or "")
    except KontobahnError as error:
        return visit.redirect(PATH, str(error), "bad")
    if not principal.has_scope(_TRIED.scopes):
        answer = _(
            "The key is valid. Its scopes do not include reading bank connections, so this call would answer 403."
        )
        return _show_secret(visit, MadeKey(key, sent.secret), answer)
    call = Call(visit.context, _TRIED, principal, visit.exchange.request_id, visit.exchange.ip, QUELLE)
    try:
        found = await _TRIED.handler(call, query=ListQuery())
        answer = "200\n" + msgspec.json.format(msgspec.json.encode(found)).decode()
    except KontobahnError as error:
        answer = f"{error.status}\n{error}"
    return _show_secret(visit, MadeKey(key, sent.secret), answer)


@page("/keys/{id}", own=True, role="admin", help="keys")
async def api_key(visit: Visit, id: str) -> Response:
    key = await visit.read(keys.get, visit.principal.organization_id, id)
    return visit.show(
        "api_key.html",
        key=key,
        state=key.state(visit.now),
        states=STATES,
        role_names=ROLE_NAMES,
        scopes=[(scope, refusal(MEANINGS[scope])) for scope in key.rights.scopes or ()],
        overlaps=[(seconds, _(text)) for seconds, text in OVERLAPS.items()],
    )


@action("/keys/{id}/rotate", own=True, role="admin", confirm=True)
async def rotate_key(visit: Visit, id: str) -> Response:
    wanted = visit.form.read(Rotation)
    if wanted is not None:
        with visit.form.refusals():
            made = await visit.write(
                keys.rotate, visit.context.vault, visit.principal.organization_id, id, visit.actor,
                overlap_seconds=int(wanted.overlap), by=visit.principal,
            )  # fmt: skip
            return _show_secret(visit, made)
    response: Response = await api_key.handler(visit, id)
    return response


@page("/keys/{id}/revoke", own=True, role="admin", help="keys")
async def ask_to_revoke(visit: Visit, id: str) -> Response:
    key: ApiKey = await visit.read(keys.get, visit.principal.organization_id, id)
    return visit.ask_first(
        title=_("Revoke “%(name)s”?", name=key.name),
        text=_(
            "Programs that use this key are refused within a second. Invitations and password links made with it end, and so do"
            " passwords that were set through such a link. This cannot be undone."
        ),
        button=_("Revoke this key"),
        back=f"{PATH}/{key.id}",
    )


@action("/keys/{id}/revoke", own=True, role="admin", confirm=True)
async def revoke_key(visit: Visit, id: str) -> Response:
    key = await visit.write(keys.revoke, visit.principal.organization_id, id, visit.actor, visit.principal)
    return visit.redirect(PATH, _("The key “%(name)s” has been revoked.", name=key.name))
