"""Endpoints for the tests of routing."""

from __future__ import annotations

from kontobahn.api.call import Call
from kontobahn.api.declare import delete, get
from kontobahn.api.wire import Answer


@get("/v2/things/{id}/parts")
async def parts(call: Call, id: str) -> Answer:
    """A path with a parameter in the middle."""
    return Answer()


@get("/v2/things/{id}")
async def thing(call: Call, id: str) -> Answer:
    """A path that ends in a parameter."""
    return Answer()


@delete("/v2/things/{id}")
async def remove(call: Call, id: str) -> Answer:
    """The same path with another method."""
    return Answer()


@get("/v2/things/changes")
async def changes(call: Call) -> Answer:
    """A plain path wins over a parameter."""
    return Answer()
