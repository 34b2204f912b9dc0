"""Declarations of endpoints: `@get(path, cost=…)` on an async function with typed query, body and answer.

Routing, OpenAPI, the price list and the conformance test all read the declaration; nothing is declared twice.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Awaitable, Callable
from types import ModuleType
from typing import Any, Literal, TypedDict, Unpack, get_type_hints

import msgspec

from kontobahn.access.principal import Role, Scope
from kontobahn.api.wire import MAX_PLAIN_BYTES, Body, BodyDecoder, Query, QueryDecoder, RawBody, Upload
from kontobahn.limits import AUTH, group_of

Handler = Callable[..., Awaitable[Any]]
Method = Literal["GET", "POST", "PUT", "DELETE"]
# The callers: any API key (the default), a key or a signed-in person, or anybody.
Caller = Literal["key", "key or session", "anybody"]
_PARAMETER = re.compile(r"\{(\w+)\}")
# Choice 37: how large a body may be. Unless it says otherwise, a call below /v2/auth/ takes SMALL_BODY and any other JSON_BODY; an
# upload takes what the setting says. BODY_WITH_ROWS has room for as many rows as the calls with thousands of them take.
# The header of an answer whose figures are of an earlier moment.
AS_OF = "X-Data-As-Of"
SMALL_BODY, JSON_BODY, BODY_WITH_ROWS, BODY_WITH_RECEIPTS = 16 * 1024, 1024 * 1024, MAX_PLAIN_BYTES, 28 * 1024 * 1024


class Endpoint(msgspec.Struct, frozen=True):
    # Its name in settings, the credit statement and metrics.
    name: str
    method: Method
    path: str
    handler: Handler
    summary: str
    description: str
    group: str
    statuses: tuple[int, ...]
    query: type[Query]
    query_decoder: QueryDecoder
    body: type[Body] | None
    body_decoder: BodyDecoder | None
    # The handler takes the request body as it came: a delivery whose signature it checks.
    takes_raw_body: bool
    # The handler takes a file: the request body, or the one file of a form.
    takes_upload: bool
    answer: Any
    path_parameters: dict[str, Any]
    cost: int = 0
    free_as_dropdown: bool = False
    caller: Caller = "key"
    # The least role that may make it: unless the declaration says otherwise, by what it does (`_least_role`).
    role: Role = "read_only"
    # The scopes that a key with a list needs: one of these.
    scopes: tuple[Scope, ...] = ()
    # And this one beside it.
    also_scope: Scope | None = None
    # A key that has the scope by its list need not have the role as well, if it may write at all.
    scope_replaces_role: bool = False
    # A signed-in person must have confirmed who they are within the last ten minutes.
    confirm: bool = False
    # Open to a person who lacks the second factor that is required.
    without_factor: bool = False
    # None of an upload: as large as the setting allows.
    max_body_bytes: int | None = JSON_BODY
    # The statuses that it may refuse with, beyond those of every call.
    errors: tuple[int, ...] = ()
    # The types that a call which answers with a file (Download) may answer with; empty for JSON.
    media_types: tuple[str, ...] = ()
    # A list that comes in pages: the query parameter that the next page begins with. The header Link has its address.
    pages_by: Literal["from_id", "from_code", "cursor"] | None = None
    # The warning to a walk by `from_id` that does not say `sort=id`, in ASCII. Empty for a list that has one order only.
    walk_warning: str = ""
    # The answer may be of an earlier moment, which the header X-Data-As-Of names.
    may_be_older: bool = False
    # Query parameters or body fields of which one is required; the handler refuses a call without any.
    one_of: tuple[str, ...] = ()
    # Payments and invoices: an idempotency key is kept for weeks instead of hours.
    moves_money: bool = False
    # For the documentation; made from the types if there is none.
    example: Any = None
    body_example: Any = None


class Options(TypedDict, total=False):
    """Everything that a declaration may say beside its path; Endpoint has the defaults."""

    cost: int
    free_as_dropdown: bool
    caller: Caller
    role: Role
    scope: Scope | tuple[Scope, ...]
    also_scope: Scope
    scope_replaces_role: bool
    confirm: bool
    without_factor: bool
    max_body_bytes: int
    errors: tuple[int, ...]
    media_types: tuple[str, ...]
    pages_by: Literal["from_id", "from_code", "cursor"]
    walk_warning: str
    may_be_older: bool
    one_of: tuple[str, ...]
    moves_money: bool
    example: Any
    body_example: Any


def get(path: str, **options: Unpack[Options]) -> Callable[[Handler], Endpoint]:
    return lambda handler: _declare("GET", path, (200,), handler, options)


def post(path: str, *, statuses: tuple[int, ...] = (201,), **options: Unpack[Options]) -> Callable[[Handler], Endpoint]:
    # Choice 2: 201 for a POST that creates.
    return lambda handler: _declare("POST", path, statuses, handler, options)


def put(path: str, **options: Unpack[Options]) -> Callable[[Handler], Endpoint]:
    return lambda handler: _declare("PUT", path, (200,), handler, options)


def delete(path: str, **options: Unpack[Options]) -> Callable[[Handler], Endpoint]:
    return lambda handler: _declare("DELETE", path, (200,), handler, options)


def collect(*modules: ModuleType) -> list[Endpoint]:
    """The endpoints declared in these modules, in the order of their text."""
    return [item for module in modules for item in vars(module).values() if isinstance(item, Endpoint)]


def _declare(method: Method, path: str, statuses: tuple[int, ...], handler: Handler, options: Options) -> Endpoint:
    hints = get_type_hints(handler, include_extras=True)
    takes = [name for name in inspect.signature(handler).parameters if name not in ("call", "query", "body")]
    if takes != _PARAMETER.findall(path):
        raise TypeError(f"{method} {path}: the handler takes {takes}, the path names {_PARAMETER.findall(path)}")
    text = inspect.getdoc(handler) or ""
    if not text:
        raise TypeError(f"{method} {path}: an endpoint needs a docstring")
    summary, _, description = text.partition("\n")
    query = hints.get("query", Query)
    taken = hints.get("body")
    body = None if taken in (RawBody, Upload) else taken
    usual = None if taken is Upload else SMALL_BODY if group_of(path) == AUTH else JSON_BODY
    further: dict[str, Any] = {"max_body_bytes": usual, **options}
    scopes: Any = further.pop("scope", ())
    if isinstance(scopes, str):
        scopes = (scopes,)
    further.setdefault("role", _least_role(method, scopes))
    return Endpoint(
        name=f"{method} {path}",
        method=method,
        path=path,
        handler=handler,
        summary=summary,
        description=description.strip(),
        group=group_of(path),
        statuses=statuses,
        query=query,
        query_decoder=QueryDecoder(query),
        body=body,
        body_decoder=BodyDecoder(body) if body else None,
        takes_raw_body=taken is RawBody,
        takes_upload=taken is Upload,
        answer=hints["return"],
        path_parameters={name: hints[name] for name in takes},
        scopes=scopes,
        **further,
    )


def _least_role(method: Method, scopes: tuple[Scope, ...]) -> Role:
    """Returns the role for a call that names none: payments are made and fetched by those who may pay, everything is read by all."""
    if scopes == ("payments",):
        return "member"
    return "read_only" if method == "GET" else "bookkeeping"
