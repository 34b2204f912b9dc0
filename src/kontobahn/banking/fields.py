"""Fields that several calls of the area share: their types on the wire, and checks that name the field they refuse."""

from __future__ import annotations

import ipaddress
from typing import Annotated, Any
from urllib.parse import urlsplit

from msgspec import Meta

from kontobahn.api.wire import form
from kontobahn.errors import BadRequest
from kontobahn.json_text import encode

NumericId = Annotated[str, form("a number", r"^[0-9]{1,18}$", examples=["1000000000001"])]
ConnectionId = Annotated[str, Meta(min_length=1, max_length=64, examples=["1000000000001"])]
FromId = Annotated[str, form("a number", r"^[0-9]{1,18}$", description="Only what has a higher id: the last id seen.")]
# Of the person for whom something is done, where a server calls on their behalf.
CustomerAddress = Annotated[str, Meta(min_length=2, max_length=45)]
CustomerAgent = Annotated[str, Meta(max_length=300)]
# Choice 7: custom_fields to 4 KiB.
CUSTOM_FIELDS_BYTES = 4096


def parse_ip_address(text: str | None) -> str | None:
    """Returns the address in its usual spelling. Raises BadRequest if it is none."""
    if text is None:
        return None
    try:
        return str(ipaddress.ip_address(text))
    except ValueError:
        raise BadRequest("The field `customer_ip_address` is not an IP address.", field="customer_ip_address") from None


def check_custom_fields(fields: dict[str, Any] | None) -> None:
    if fields is not None and len(encode(fields)) > CUSTOM_FIELDS_BYTES:
        raise BadRequest(
            f"The field `custom_fields` must be at most {CUSTOM_FIELDS_BYTES} bytes of JSON.", field="custom_fields"
        )


def check_return_to(url: str | None) -> None:
    """Raises BadRequest if a browser must not be sent there: only plain http and https addresses are allowed."""
    if url is None:
        return
    try:
        parts = urlsplit(url)
        is_valid = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.username is None
        is_valid = is_valid and url.isprintable() and " " not in url and "\\" not in url
    except ValueError:
        is_valid = False
    if not is_valid:
        raise BadRequest("The field `return_to` must be an http or https address.", field="return_to")
