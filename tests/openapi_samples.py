"""Sample endpoints with every kind of declaration, and the document that is built from them and the real ones."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable
from datetime import date, datetime
from decimal import Decimal
from functools import cache
from typing import Annotated, Any, Literal

from msgspec import Meta

from kontobahn.api.answers import Platform
from kontobahn.api.call import Call
from kontobahn.api.declare import Endpoint, get, post, put
from kontobahn.api.openapi import build_openapi
from kontobahn.api.wire import Answer, Body, Query, Upload, Uuid
from kontobahn.app import ERRORS, EVENTS, all_endpoints
from kontobahn.settings import Settings, load

REAL = all_endpoints()


class Posten(Answer):
    saldo: Decimal
    belegdatum: date


class Liste(Answer):
    data: list[Posten]
    platform: Platform | None = None


def _another_struct_of_the_same_name() -> type[Answer]:
    class Posten(Answer):
        beleg: str

    Posten.__module__, Posten.__qualname__ = "kontobahn.elsewhere", "Posten"
    return Posten


OtherPosten: Any = _another_struct_of_the_same_name()


class Filter(Query, kw_only=True):
    connectionId: Annotated[Uuid, Meta(description="The connection.")]
    stichtag: date | None = None
    seite: Literal["debitors", "creditors"] = "debitors"
    limit: Annotated[int, Meta(ge=1, le=500)] | None = None


class Zeile(Body, kw_only=True):
    betrag: Decimal
    gegenkonto: Annotated[str, Meta(pattern="^[0-9]{4,9}$")]
    text: Annotated[str, Meta(min_length=1, max_length=60)] | None = None


class Eintrag(Body, kw_only=True):
    waehrung: Literal["EUR"]
    betrag: Annotated[Decimal, Meta(description="The sum of the lines.")]
    datum: Annotated[datetime, Meta(tz=True)]
    zeilen: Annotated[list[Zeile], Meta(min_length=2, max_length=50)]
    rabatt: Decimal = Decimal("1.50")


@get("/v2/ledger-sample/items", cost=5, free_as_dropdown=True, errors=(403, 404))
async def list_items(call: Call, query: Filter) -> Liste:
    """List the <b>items</b>.

    A second paragraph with `code` and <script>alert(1)</script>.
    """
    raise NotImplementedError


@post("/v2/banking/sample/{id}", cost=3, statuses=(201, 200), role="owner", moves_money=True, errors=(404,))
async def create_item(call: Call, id: Uuid, query: Filter, body: Eintrag) -> Liste:
    """Create an item."""
    raise NotImplementedError


@get("/v2/mobility/sample", caller="anybody", example=[{"beleg": "RE-1"}])
async def list_bare(call: Call) -> list[OtherPosten]:
    """List, without an object around it."""
    raise NotImplementedError


@put("/v2/mobility/sample", caller="key or session")
async def replace_nothing(call: Call) -> Posten:
    """Take no body."""
    raise NotImplementedError


@post("/v2/ledger-sample/files", statuses=(201, 202))
async def take_file(call: Call, body: Upload) -> Posten:
    """Take a file."""
    raise NotImplementedError


SAMPLES: list[Endpoint] = [list_items, create_item, list_bare, replace_nothing, take_file]
EVERY = [*REAL, *SAMPLES]


def settings(**changed: Any) -> Settings:
    return load(environ={}, data="does-not-exist", **changed)


def build(endpoints: list[Endpoint], **changed: Any) -> Any:
    return json.loads(build_openapi(endpoints, settings(**changed), EVENTS, ERRORS))


@cache
def document() -> Any:
    return build(EVERY)


def operation(endpoint: Endpoint, source: Any = None) -> Any:
    return (source or document())["paths"][endpoint.path][endpoint.method.lower()]


def named(endpoints: list[Endpoint]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Makes one test that goes over all endpoints and says of each failure whose it is; a thousand tests would take longer."""

    def over_all(test: Callable[..., None]) -> Callable[..., None]:
        def every(**fixtures: Any) -> None:
            failures = []
            for endpoint in endpoints:
                try:
                    test(endpoint=endpoint, **fixtures)
                except Exception as error:
                    error.add_note(endpoint.name)
                    failures.append(error)
            if failures:
                raise ExceptionGroup(f"{len(failures)} of {len(endpoints)} endpoints", failures)

        every.__name__, every.__doc__, every.__module__ = test.__name__, test.__doc__, test.__module__
        needed = [item for name, item in inspect.signature(test).parameters.items() if name != "endpoint"]
        every.__signature__ = inspect.Signature(needed)  # type: ignore[attr-defined]
        return every

    return over_all
