"""The OpenAPI 3.1 document, made from the declarations."""

from __future__ import annotations

from kontobahn.api.declare import Endpoint
from kontobahn.api.wire import encode
from kontobahn.settings import Settings


def build_openapi(endpoints: list[Endpoint], settings: Settings) -> bytes:
    return encode({})
