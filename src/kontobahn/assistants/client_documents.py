"""Documents in which an assistant's maker describes it. Its address is the id of the client, so that nobody registers with us.

They are read through the client that reaches public addresses only, and believed no further than what the person is shown.
"""

from __future__ import annotations

import unicodedata
from typing import NamedTuple
from urllib.parse import SplitResult, urlsplit

import msgspec

from kontobahn.clock import MINUTE, Clock
from kontobahn.errors import BadRequest
from kontobahn.outbound import OutboundClient, Refused, Unreached
from kontobahn.sentences import said

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
        except (Refused, Unreached) as error:
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
