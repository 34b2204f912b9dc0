"""The documentation page."""

from __future__ import annotations

from starlette.routing import Route

from kontobahn.api.declare import Endpoint
from kontobahn.settings import Settings


def docs_routes(endpoints: list[Endpoint], settings: Settings) -> list[Route]:
    return []
