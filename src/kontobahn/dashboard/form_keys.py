"""A call of the API that a form makes once, however often the form is sent: its hidden key is an idempotency key."""

from __future__ import annotations

import secrets
from typing import Any

import msgspec

from kontobahn.api import idempotency
from kontobahn.api.declare import Endpoint
from kontobahn.api.idempotency import StoredAnswer
from kontobahn.dashboard.visit import Visit
from kontobahn.errors import BadRequest, KeyReused
from kontobahn.ids import new_request_id
from kontobahn.json_text import encode

FIELD = "once"
_PREFIX = "dashboard-"


def new_key() -> str:
    return secrets.token_urlsafe(18)


async def ask_once(visit: Visit, endpoint: Endpoint, **arguments: Any) -> dict[str, Any]:
    """Makes the call and returns its answer; sent again, the same form gets the same answer.

    The form has a hidden field `once`. Raises KeyReused if it was sent before with something else in it.
    """
    key = visit.form.text(FIELD)
    if not key:
        raise BadRequest("The form cannot be read.")
    call = visit.call(endpoint)
    db, vault = visit.context.db, visit.context.vault
    claim = call.claim = idempotency.make_claim(
        scope=visit.principal.organization_id,
        raw_key=_PREFIX + key,
        method=endpoint.method,
        target=visit.path.encode(),
        body=encode(arguments),
        organizations=visit.principal.scope,
        owner=new_request_id(),
        money=endpoint.moves_money,
        settings=visit.context.settings,
    )
    try:
        stored = await db.write(idempotency.begin, vault, claim)
    except KeyReused:
        # Whoever sends it once more has read what is said about it.
        visit.form.values[FIELD] = [new_key()]
        raise
    if stored is not None:
        return _answer(stored.body)
    try:
        answer = encode(await endpoint.handler(call, **arguments))
    except BaseException:
        await db.write(idempotency.abandon, claim)
        raise
    if call.claim is not None and call.stored_answer is None:
        await db.write(idempotency.complete, vault, claim, StoredAnswer(call.status, answer))
    return _answer(answer)


def _answer(body: bytes) -> dict[str, Any]:
    found: dict[str, Any] = msgspec.json.decode(body)
    return found
