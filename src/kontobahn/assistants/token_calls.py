"""The calls of programs that have a code or a token: `/oauth/token`, `/oauth/revoke`, and the description of both (RFC 8414, RFC 7009)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple
from urllib.parse import parse_qs

from kontobahn.assistants import grants
from kontobahn.assistants.authorization import resource_of
from kontobahn.assistants.grants import Pair, Refused
from kontobahn.assistants.presets import PRESETS
from kontobahn.db import Database
from kontobahn.vault import Vault

TOKEN, REVOKE = "/oauth/token", "/oauth/revoke"
METADATA = "/.well-known/oauth-authorization-server"
AUTHORIZE = "/dashboard/assistants/authorize"
MAX_VALUE = 2000


class Answer(NamedTuple):
    status: int
    body: Mapping[str, Any]


def describe(base_url: str) -> dict[str, Any]:
    return {
        "issuer": base_url,
        "authorization_endpoint": f"{base_url}{AUTHORIZE}",
        "token_endpoint": f"{base_url}{TOKEN}",
        "revocation_endpoint": f"{base_url}{REVOKE}",
        "response_types_supported": ["code"],
        "response_modes_supported": ["query"],
        "grant_types_supported": ["authorization_code", "refresh_token"],
        "code_challenge_methods_supported": ["S256"],
        "token_endpoint_auth_methods_supported": ["none"],
        "revocation_endpoint_auth_methods_supported": ["none"],
        "scopes_supported": list(PRESETS),
        "client_id_metadata_document_supported": True,
        "authorization_response_iss_parameter_supported": True,
        "service_documentation": f"{base_url}/docs/guide/assistants",
    }


async def answer(db: Database, vault: Vault, base_url: str, path: str, body: bytes) -> Answer:
    """Answers a form that was posted to one of the two addresses."""
    try:
        given = parse_qs(body.decode(), keep_blank_values=True, max_num_fields=30)
    except (UnicodeDecodeError, ValueError):
        return _refusal(Refused("invalid_request", "Send a form."))
    if any(len(values) > 1 or len(values[0]) > MAX_VALUE for values in given.values()):
        return _refusal(Refused("invalid_request", "A field was sent twice, or is too long."))
    values = {name: found[0] for name, found in given.items()}
    if path == REVOKE:
        if not values.get("token") or not values.get("client_id"):
            return _refusal(Refused("invalid_request", "Send token and client_id."))
        await db.write(grants.revoke, vault, token=values["token"], client_id=values["client_id"])
        return Answer(200, {})
    made = await _exchange(db, vault, base_url, values)
    return _refusal(made) if isinstance(made, Refused) else _pair(made)


async def _exchange(db: Database, vault: Vault, base_url: str, values: Mapping[str, str]) -> Pair | Refused:
    resource = values.get("resource") or resource_of(base_url)
    kind = values.get("grant_type")
    needed = {
        "authorization_code": ("code", "client_id", "redirect_uri", "code_verifier"),
        "refresh_token": ("refresh_token", "client_id"),
    }.get(kind or "")
    if needed is None:
        return Refused("unsupported_grant_type", "grant_type must be authorization_code or refresh_token.")
    missing = [name for name in needed if not values.get(name)]
    if missing:
        return Refused("invalid_request", f"Send {', '.join(missing)}.")
    if kind == "refresh_token":
        return await db.write(
            grants.renew, vault, token=values["refresh_token"], client_id=values["client_id"], resource=resource
        )
    return await db.write(
        grants.redeem, vault, code=values["code"], client_id=values["client_id"], redirect_uri=values["redirect_uri"],
        verifier=values["code_verifier"], resource=resource,
    )  # fmt: skip


def _pair(pair: Pair) -> Answer:
    return Answer(
        200,
        {
            "access_token": pair.access, "token_type": "Bearer", "expires_in": pair.seconds,
            "refresh_token": pair.refresh, "scope": pair.preset,
        },
    )  # fmt: skip


def _refusal(refused: Refused) -> Answer:
    return Answer(400, {"error": refused.error, "error_description": refused.description})
