"""Requests of assistants to act for a person: what they must say, and where the answer goes (OAuth 2.1: code flow with PKCE).

Nothing is sent to an address before the assistant's own document has named it; and nobody is sent anywhere without having decided.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple
from urllib.parse import SplitResult, parse_qs, urlencode, urlsplit

import msgspec

from kontobahn.access import users
from kontobahn.access.audit import Actor
from kontobahn.access.principal import Principal
from kontobahn.assistants import access, grants
from kontobahn.assistants.grants import PRESETS, Agreed, Asked, Pair, Preset, Refused
from kontobahn.clock import MINUTE, Clock
from kontobahn.db import Database, Tx
from kontobahn.errors import BadRequest
from kontobahn.outbound import OutboundClient, Unreached
from kontobahn.outbound import Refused as NotReached
from kontobahn.sentences import said
from kontobahn.vault import Vault

# Documents in which an assistant's maker describes it. Its address is the id of the client, so that nobody registers
# with us.
#
# They are read through the client that reaches public addresses only, and believed no further than what the person is
# shown.


FETCH_SECONDS, MAX_BYTES = 10, 16 * 1024
MAX_ADDRESS, MAX_NAME, MAX_REDIRECTS = 500, 60, 50
KEPT_TIME, MAX_KEPT = 5 * MINUTE, 200
LOOPBACK = ("127.0.0.1", "::1", "localhost")


class AssistantClient(NamedTuple):
    """An assistant as its document describes it."""

    # The address of the document.
    id: str
    name: str
    redirect_uris: tuple[str, ...]

    @property
    def host(self) -> str:
        return urlsplit(self.id).hostname or ""

    def takes(self, redirect_uri: str) -> bool:
        """Returns whether answers may go there: to an address of the document, to the letter; on the own machine at any port."""
        return redirect_uri in self.redirect_uris or any(
            _without_port(known) == _without_port(redirect_uri)
            for known in self.redirect_uris
            if is_loopback(known) and is_loopback(redirect_uri)
        )


class _Document(msgspec.Struct):
    client_id: str
    redirect_uris: list[str]
    client_name: str = ""
    token_endpoint_auth_method: str = "none"


class ClientDocuments:
    """Reads documents, and keeps each for some minutes."""

    def __init__(self, outbound: OutboundClient, clock: Clock) -> None:
        self._outbound, self._clock = outbound, clock
        self._kept: dict[str, tuple[int, AssistantClient]] = {}

    async def find(self, client_id: str) -> AssistantClient:
        """Returns the assistant of an id. Raises BadRequest, with the reason, if its document cannot be used."""
        now = self._clock.now()
        kept = self._kept.get(client_id)
        if kept is not None and kept[0] > now:
            return kept[1]
        _check_id(client_id)
        found = read_document(client_id, await self._fetch(client_id))
        if len(self._kept) >= MAX_KEPT:
            self._kept.clear()
        self._kept[client_id] = now + KEPT_TIME, found
        return found

    async def _fetch(self, address: str) -> bytes:
        try:
            reply = await self._outbound.send(
                "GET", address, headers={"accept": "application/json"}, seconds=FETCH_SECONDS, max_bytes=MAX_BYTES, whole=True
            )  # fmt: skip
        except (NotReached, Unreached) as error:
            raise _unusable(said("It could not be fetched. {reason}", reason=str(error))) from None
        if reply.status != 200:
            raise _unusable(said("The address answered with {status}.", status=reply.status))
        return reply.content


def read_document(client_id: str, content: bytes) -> AssistantClient:
    try:
        document = msgspec.json.decode(content, type=_Document)
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise _unusable("It is not JSON, or it lacks `client_id` and `redirect_uris`.") from None
    if document.client_id != client_id:
        raise _unusable("It is the document of another client.")
    if document.token_endpoint_auth_method != "none":
        raise _unusable("It wants to prove itself at the token endpoint, which only public clients may use.")
    addresses = tuple(address for address in document.redirect_uris[:MAX_REDIRECTS] if is_usable(address))
    if not addresses:
        raise _unusable("It names no address that answers may go to.")
    return AssistantClient(client_id, _clean(document.client_name) or urlsplit(client_id).hostname or "", addresses)


def is_usable(address: str) -> bool:
    """Returns whether answers may go to an address at all: over TLS, or on the person's own machine."""
    parts = _split(address)
    if parts is None or parts.fragment or parts.username is not None or not parts.hostname:
        return False
    return parts.scheme == "https" or (parts.scheme == "http" and parts.hostname in LOOPBACK)


def is_loopback(address: str) -> bool:
    parts = _split(address)
    return parts is not None and parts.scheme == "http" and parts.hostname in LOOPBACK and is_usable(address)


def _without_port(address: str) -> tuple[str | None, str, str]:
    parts = urlsplit(address)
    return parts.hostname, parts.path, parts.query


def _check_id(client_id: str) -> None:
    parts = _split(client_id)
    segments = parts.path.split("/") if parts else []
    # The outbound client says which addresses may be reached.
    is_good = (
        parts is not None and parts.scheme in ("https", "http") and parts.path not in ("", "/") and not parts.fragment
        and parts.username is None and "." not in segments and ".." not in segments
    )  # fmt: skip
    if not is_good:
        raise _unusable("The `client_id` must be the https address of a document about the assistant.")


def _split(address: str) -> SplitResult | None:
    if len(address) > MAX_ADDRESS or not address.isascii() or any(one <= " " or one in '\\"<>' for one in address):
        return None
    try:
        parts = urlsplit(address)
        _ = parts.port
    except ValueError:
        return None
    return parts


def _clean(name: str) -> str:
    """A name without characters that steer a screen, and not too long."""
    kept = "".join(
        one if unicodedata.category(one)[0] not in "CZ" else " " for one in unicodedata.normalize("NFC", name)
    )
    return " ".join(kept.split())[:MAX_NAME]


def _unusable(reason: str) -> BadRequest:
    return BadRequest(said("The assistant cannot be connected. {reason}", reason=reason), field="client_id")


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
    return grants.allowed_presets(principal.role, asked.preset)


def answer_address(received: Received, base_url: str, **fields: str) -> str:
    """The address that the answer goes to, with who answers (RFC 9207)."""
    values = fields | ({"state": received.state} if received.state else {}) | {"iss": base_url}
    joint = "&" if "?" in received.redirect_uri else "?"
    return f"{received.redirect_uri}{joint}{urlencode(values)}"


# The calls of programs that have a code or a token: `/oauth/token`, `/oauth/revoke`, and the description of both (RFC
# 8414, RFC 7009).


TOKEN, REVOKE = "/oauth/token", "/oauth/revoke"
METADATA = "/.well-known/oauth-authorization-server"
AUTHORIZE = "/dashboard/assistants/authorize"
MAX_VALUE = 2000


class Answer(NamedTuple):
    status: int
    body: Mapping[str, Any]


def describe_server(base_url: str) -> dict[str, Any]:
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


async def answer_token_call(db: Database, vault: Vault, base_url: str, path: str, body: bytes) -> Answer:
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
