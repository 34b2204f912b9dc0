"""Requests of assistants to act for a person: what they must say, and where the answer goes (OAuth 2.1: code flow with PKCE).

Nothing is sent to an address before the assistant's own document has named it; and nobody is sent anywhere without having decided.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple
from urllib.parse import urlencode

from kontobahn.access import users
from kontobahn.access.audit import Actor
from kontobahn.access.principal import Principal
from kontobahn.assistants import access, grants, presets
from kontobahn.assistants.client_documents import AssistantClient, ClientDocuments
from kontobahn.assistants.grants import Agreed, Asked
from kontobahn.assistants.presets import PRESETS, Preset
from kontobahn.db import Tx
from kontobahn.errors import BadRequest
from kontobahn.sentences import said
from kontobahn.vault import Vault

RESOURCE_PATH = "/mcp"
# The fields of a request, which the page that asks the person passes on.
FIELDS = (
    "client_id", "redirect_uri", "response_type", "code_challenge", "code_challenge_method", "resource", "scope", "state"
)  # fmt: skip
MAX_STATE = 1000
_CHALLENGE = re.compile(r"[A-Za-z0-9_-]{43}")
# Asked for by clients that want to stay connected, which all of them may.
_IGNORED_SCOPES = ("offline_access",)


class Received(NamedTuple):
    """A request whose answer may go to its address; what else is wrong with it, in the protocol's word and in ours."""

    client: AssistantClient
    redirect_uri: str
    state: str
    asked: Asked | None
    error: str = ""
    reason: str = ""


def resource_of(base_url: str) -> str:
    return f"{base_url}{RESOURCE_PATH}"


async def receive(documents: ClientDocuments, base_url: str, given: Mapping[str, Sequence[str]]) -> Received:
    """Reads a request. Raises BadRequest if it does not say who asks, or its answer must not go where it says."""
    values = {name: (given.get(name) or [""])[-1] for name in FIELDS}
    if any(len(given.get(name, ())) > 1 for name in FIELDS):
        raise BadRequest("The assistant has sent a field of its request twice.")
    if not values["client_id"]:
        raise BadRequest("This page is opened by an assistant that wants to be connected.", field="client_id")
    client = await documents.find(values["client_id"])
    if not client.takes(values["redirect_uri"]):
        raise BadRequest(
            "The assistant wants its answer at an address that its document does not name.", field="redirect_uri"
        )
    received = Received(client, values["redirect_uri"], values["state"], None)
    return _checked(received, values, resource_of(base_url))


def _checked(received: Received, values: Mapping[str, str], resource: str) -> Received:
    def wrong(error: str, reason: str) -> Received:
        return received._replace(error=error, reason=reason)

    if len(values["state"]) > MAX_STATE:
        return received._replace(state="", error="invalid_request", reason="`state` is too long.")
    if values["response_type"] != "code":
        return wrong("unsupported_response_type", "`response_type` must be code.")
    if values["code_challenge_method"] != "S256" or not _CHALLENGE.fullmatch(values["code_challenge"]):
        return wrong("invalid_request", "`code_challenge` with the method S256 is missing.")
    # Clients that name none mean the only one there is.
    if values["resource"] not in ("", resource):
        return wrong("invalid_target", said("`resource` must be {resource}.", resource=resource))
    preset = _preset(values["scope"])
    if preset is None:
        return wrong("invalid_scope", said("`scope` must be one of {scopes}.", scopes=", ".join(PRESETS)))
    client = received.client
    asked = Asked(
        client.id, client.name, received.redirect_uri, resource, values["code_challenge"], received.state, preset
    )
    return received._replace(asked=asked)


def _preset(scope: str) -> Preset | None:
    """The widest preset asked for; the narrowest if none is."""
    wanted = [name for name in scope.split() if name not in _IGNORED_SCOPES]
    known = [preset for preset in PRESETS if preset in wanted]
    if wanted and len(known) < len(set(wanted)):
        return None
    return known[-1] if known else PRESETS[0]


def agree(tx: Tx, vault: Vault, principal: Principal, asked: Asked, agreed: Agreed, actor: Actor) -> str:
    """Writes that the person lets the assistant in, and returns the code for it."""
    tx.lock("assistants", principal.organization_id)
    access.check_enabled(tx, principal.organization_id)
    person = users.get(tx, principal, principal.user_id or "")
    return grants.give(tx, vault, asked, person, agreed, actor)


def offered(principal: Principal, asked: Asked) -> list[Preset]:
    return presets.allowed(principal.role, asked.preset)


def answer_address(received: Received, base_url: str, **fields: str) -> str:
    """The address that the answer goes to, with who answers (RFC 9207)."""
    values = fields | ({"state": received.state} if received.state else {}) | {"iss": base_url}
    joint = "&" if "?" in received.redirect_uri else "?"
    return f"{received.redirect_uri}{joint}{urlencode(values)}"
