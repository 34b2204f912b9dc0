"""Checks of fields that several calls of the area share; each refusal names the field."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

from kontobahn.errors import BadRequest
from kontobahn.json_text import encode

# Choice 7: custom_fields to 4 KiB.
CUSTOM_FIELDS_BYTES = 4096


def check_custom_fields(fields: dict[str, Any] | None) -> None:
    if fields is not None and len(encode(fields)) > CUSTOM_FIELDS_BYTES:
        raise BadRequest(
            f"The field `custom_fields` must be at most {CUSTOM_FIELDS_BYTES} bytes of JSON.", field="custom_fields"
        )


def check_return_to(url: str | None) -> None:
    """A person's browser is sent there: http or https, and no tricks."""
    if url is None:
        return
    try:
        parts = urlsplit(url)
        is_right = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.username is None
        is_right = is_right and url.isprintable() and " " not in url and "\\" not in url
    except ValueError:
        is_right = False
    if not is_right:
        raise BadRequest("The field `return_to` must be an http or https address.", field="return_to")
