"""The OpenAPI 3.1 document, made from the declarations: what a call takes, answers and costs, and how it may fail.

The text about the whole interface is in templates/guide.md.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from decimal import Decimal
from functools import cache
from pathlib import Path
from string import Template
from types import MappingProxyType
from typing import Annotated, Any, NamedTuple

import msgspec
from msgspec import Meta

from kontobahn import limits
from kontobahn.api.answers import Error
from kontobahn.api.bodies import max_body_of
from kontobahn.api.declare import AS_OF, BODY_WITH_RECEIPTS, BODY_WITH_ROWS, JSON_BODY, Endpoint
from kontobahn.api.exchange import ANY_BYTES
from kontobahn.api.idempotency import MAX_KEY_LENGTH
from kontobahn.api.schemas import Schemas, example, without_null
from kontobahn.api.wire import Answer
from kontobahn.json_text import encode
from kontobahn.settings import Settings

INTERFACE_VERSION = "2.0.0"
_GUIDE = Path(__file__).with_name("templates") / "guide.md"
_RECORDED = Path(__file__).with_name("recorded_answers.json")
_JSON = "application/json"
_AREAS = (
    ("/v2/ledger-", "Ledger", "The books of clients: cash book, person accounts, open items, trial balance."),
    ("/v2/banking/", "Banking", "Bank connections, accounts, transactions and payments."),
    ("/v2/mobility/", "Mobility", "Transport-ticket customers and their collective invoices."),
    ("/v2/payables", "Payables", "Received invoices: read, checked, released."),
    ("/v2/assistants/", "Assistants", "What programs prepare, for a person to approve."),
    ("/v2/reconciliation/", "Reconciliation", "Which payment paid which invoice."),
    ("/v2/auth/", "Auth", "Signing in, invitations and the users of the organisation."),
)
_SUCCESSES = {200: "Done.", 201: "Created.", 202: "Accepted: the work goes on after the answer."}
_EVERYWHERE = ("X-Request-Id", "RateLimit-Limit", "RateLimit-Remaining", "RateLimit-Reset", "RateLimit-Policy")
_WITH_STATUS = {401: ("WWW-Authenticate",), 405: ("Allow",), 429: ("Retry-After",), 503: ("Retry-After",)}
_NOTHING: Mapping[str, Any] = MappingProxyType({})
_STILL_RUNNING = {"Retry-After": {"$ref": "#/components/headers/Retry-After-If-Running"}}
_REPLAYED_ERRORS = (403, 404, 409)
# Those that an area may add fields of its own to.
_ERRORS_OF_AREAS = (400, 403, 404, 409, 422, 503)
_WEBHOOK_HEADERS = (
    ("webhook-id", "The event's id, the same over all attempts: use it to drop repeats."),
    ("webhook-timestamp", "Seconds since 1970, of this attempt."),
    ("webhook-signature", "`v1,` and the signature over id, timestamp and body (Standard Webhooks); may hold several."),
)
_SOMETIMES = ("Idempotent-Replayed", "Link", "Warning", AS_OF, "Retry-After-If-Running")
_INSTANT, _AS_OF = {"type": "string", "format": "date-time"}, "2026-03-02T09:00:00Z"
_REQUEST_ID = "req_4f1c2a9be07d35a86b21"
_WARNING = '299 - "A walk by from_id without sort=id misses payments: the list begins with the newest. Send sort=id."'
_NEXT_PAGE = '<https://kontobahn.example/v2/banking/events?limit=100&cursor=42>; rel="next"'


_BYTES: dict[str, Any] = {"schema": {"type": "string", "format": "binary", "minLength": 1}}
_FILE = {
    "required": True,
    # One type for all: the service looks at the file, and generated clients warn of each type that they do not know.
    "description": "The file itself, under any type, or a form with this one file. `Content-Disposition` may name it.",
    "content": {
        ANY_BYTES: _BYTES,
        "multipart/form-data": {
            "schema": {"type": "object", "required": ["file"], "properties": {"file": _BYTES["schema"]}}
        },
    },
}


def build_openapi(
    endpoints: list[Endpoint],
    settings: Settings,
    events: Mapping[str, type[Answer]] = _NOTHING,
    errors: Mapping[str, type[Error]] = _NOTHING,
) -> bytes:
    """Returns the document of these calls, of the events by name with the type of their `data`, and of the areas' own errors."""
    return encode(_Document(endpoints, settings, events, errors).build())


class _Document:
    def __init__(
        self,
        endpoints: list[Endpoint],
        settings: Settings,
        events: Mapping[str, type[Answer]],
        errors: Mapping[str, type[Error]],
    ) -> None:
        self._endpoints = endpoints
        self._events = events
        self._errors = errors
        self._settings = settings
        self._groups = limits.groups(settings)
        self._responses: dict[str, Any] = {}
        asked: dict[str, Any] = {}
        answered: dict[str, Any] = {"Error": Error, "OutOfCredits": OutOfCredits}
        answered |= {f"error in {area}": error for area, error in errors.items()}
        answered |= {f"event {name}": data for name, data in events.items()}
        for endpoint in endpoints:
            asked[f"query of {endpoint.name}"] = endpoint.query
            if endpoint.body is not None:
                asked[f"body of {endpoint.name}"] = endpoint.body
            for name, kind in endpoint.path_parameters.items():
                asked[f"{name} of {endpoint.name}"] = kind
            if not endpoint.media_types:
                answered[endpoint.name] = endpoint.answer
        self._schemas = Schemas(asked, answered)
        self._queries = self._schemas.unfold(f"query of {endpoint.name}" for endpoint in endpoints)

    def build(self) -> dict[str, Any]:
        paths: dict[str, dict[str, Any]] = {}
        for endpoint in self._endpoints:
            paths.setdefault(endpoint.path, {})[endpoint.method.lower()] = self._operation(endpoint)
        self._failure(405, "", priced=False, writes=False)
        used = {area_of(endpoint.path) for endpoint in self._endpoints}
        return {
            "openapi": "3.1.0",
            "info": {"title": "Kontobahn API", "version": INTERFACE_VERSION, "description": _guide(self._settings)},
            "servers": [{"url": self._settings.base_url or "/"}],
            "tags": [{"name": name, "description": text} for _, name, text in _AREAS if name in used],
            "paths": paths,
            "webhooks": {name: {"post": self._event(name, data)} for name, data in self._events.items()},
            "components": {
                "schemas": self._schemas.components,
                "responses": self._responses,
                "headers": _headers(self._groups[limits.API]),
                "securitySchemes": _SECURITY,
            },
        }

    def _operation(self, endpoint: Endpoint) -> dict[str, Any]:
        price = price_of(endpoint, self._settings)
        operation: dict[str, Any] = {
            "tags": [area_of(endpoint.path)],
            "operationId": endpoint.handler.__name__,
            "summary": endpoint.summary.rstrip("."),
            "description": _description(endpoint),
            "security": _security(endpoint),
            "x-credits": price,
            "x-free-as-dropdown": endpoint.free_as_dropdown,
            "x-required-role": None if endpoint.caller == "anybody" else endpoint.role,
            "x-required-scopes": list(endpoint.scopes),
            "x-rate-limit": self._rate_limit(endpoint),
            "parameters": self._parameters(endpoint),
        }
        if endpoint.one_of:
            operation["x-required-one-of"] = list(endpoint.one_of)
        if endpoint.method in ("POST", "PUT"):
            operation["x-max-body-bytes"] = max_body_of(endpoint, self._settings)
        if endpoint.body is not None:
            schema = self._schemas[f"body of {endpoint.name}"]
            sample = endpoint.body_example or example(schema, self._schemas.components, whole=False)
            required = endpoint.body_decoder is not None and not endpoint.body_decoder.is_optional
            operation["requestBody"] = {"required": required, "content": {_JSON: {"schema": schema, "example": sample}}}
        if endpoint.takes_raw_body:
            content = {"schema": {"type": "object"}, "example": endpoint.body_example or {}}
            operation["requestBody"] = {"required": True, "content": {_JSON: content}}
        if endpoint.takes_upload:
            operation["requestBody"] = _FILE
        operation["responses"] = self._all_responses(endpoint, priced=price > 0)
        return operation

    def _event(self, name: str, data: type[Answer]) -> dict[str, Any]:
        """A call that this service makes, to the receiver that the organisation has set."""
        schema = {
            "type": "object",
            "required": ["event", "data", "received_at"],
            "properties": {
                "event": {"type": "string", "const": name},
                "data": self._schemas[f"event {name}"],
                "received_at": {"type": "string", "format": "date-time", "description": "When it happened."},
            },
        }
        sample = example(schema, self._schemas.components, whole=True)
        words = inspect.getdoc(data) or ""
        return {
            "tags": ["Banking"],
            "operationId": f"on_{name}",
            "summary": words.split(".")[0],
            "description": words,
            "security": [],  # The signature proves it: no key is sent along.
            "parameters": [
                {"name": header, "in": "header", "required": True, "description": text, "schema": {"type": "string"}}
                for header, text in _WEBHOOK_HEADERS
            ],
            "requestBody": {"required": True, "content": {_JSON: {"schema": schema, "example": sample}}},
            "responses": {
                "2XX": {"description": "Taken. Anything else, or nothing within 15 seconds, is tried again."},
                "410": {"description": "Stops the URL for good."},
            },
        }

    def _rate_limit(self, endpoint: Endpoint) -> dict[str, Any]:
        group = self._groups[endpoint.group]
        by_key = group.name == limits.API and endpoint.caller != "anybody"
        return {
            "group": group.name,
            "requests": group.requests,
            "window_seconds": group.window_seconds,
            "identified_by": "API key or IP address" if by_key else "IP address",
        }

    def _parameters(self, endpoint: Endpoint) -> list[dict[str, Any]]:
        parameters = [
            self._parameter("path", name, self._schemas[f"{name} of {endpoint.name}"], required=True)
            for name in endpoint.path_parameters
        ]
        for name, schema, required in self._queries[f"query of {endpoint.name}"]:
            parameter = self._parameter("query", name, schema, required=required)
            if not required:
                parameter["allowEmptyValue"] = True  # It counts as absent.
            parameters.append(parameter)
        if endpoint.free_as_dropdown:
            purpose = {"type": "string", "examples": ["dropdown"]}
            text = "`dropdown` makes the call free, up to the hourly number of free calls."
            parameters.append({"name": "x-request-purpose", "in": "header", "description": text, "schema": purpose})
        if endpoint.method in ("POST", "PUT") and not endpoint.takes_raw_body:
            parameters.append(_idempotency_key(endpoint, self._settings))
        return parameters

    def _parameter(self, place: str, name: str, schema: dict[str, Any], *, required: bool) -> dict[str, Any]:
        schema = without_null(schema)
        parameter: dict[str, Any] = {"name": name, "in": place, "required": required}
        description = schema.pop("description", None)
        if description:
            parameter["description"] = description
        parameter["schema"] = schema
        parameter["example"] = example(schema, self._schemas.components, whole=False, name=name)
        return parameter

    def _all_responses(self, endpoint: Endpoint, *, priced: bool) -> dict[str, Any]:
        writes = endpoint.method in ("POST", "PUT")
        special = {"Link": endpoint.pages_by, "Warning": endpoint.walk_warning, AS_OF: endpoint.may_be_older}
        headers = _header_names(*[name for name in special if special[name]], priced=priced, replayed=writes)
        responses: dict[str, Any] = {
            str(status): {
                "description": _SUCCESSES[status],
                "headers": headers,
                "content": self._content(endpoint),
            }
            for status in endpoint.statuses
        }
        for status in _failures_of(endpoint, priced=priced, writes=writes):
            responses[str(status)] = self._failure(status, area_of(endpoint.path), priced=priced, writes=writes)
        return responses

    def _content(self, endpoint: Endpoint) -> dict[str, Any]:
        if endpoint.media_types:
            # A text last: programs that write clients go by the first, and would decode it.
            kinds = sorted((*endpoint.media_types, ANY_BYTES), key=lambda kind: kind.startswith("text/"))
            return {kind: {"schema": {"type": "string", "format": "binary"}} for kind in kinds}
        schema = self._schemas[endpoint.name]
        sample = _recorded().get(endpoint.handler.__name__, endpoint.example)
        if sample is None:
            sample = example(schema, self._schemas.components, whole=True)
        return {_JSON: {"schema": schema, "example": sample}}

    def _failure(self, status: int, area: str, *, priced: bool, writes: bool) -> dict[str, Any]:
        """Returns a reference to the shared response; there is one for every set of headers and fields."""
        failure = FAILURES[status]
        replayed = writes and status in _REPLAYED_ERRORS
        own = self._errors.get(area) if status in _ERRORS_OF_AREAS else None
        variants = (
            (area, own is not None),
            ("Priced", priced and status != 402),
            # A call that is free itself may make payments that are not.
            ("OfPayments", status == 402 and not priced),
            ("Replayable", replayed),
        )
        name = failure.name + "".join(variant for variant, holds in variants if holds)
        if name not in self._responses:
            schema = "OutOfCredits" if status == 402 else "Error" if own is None else f"error in {area}"
            sample = failure.body if own is None else own.samples.get(status, failure.body)
            self._responses[name] = {
                "description": failure.description,
                "headers": _header_names(*_WITH_STATUS.get(status, ()), priced=priced, replayed=replayed)
                | (_STILL_RUNNING if replayed and status == 409 else {}),
                "content": {_JSON: {"schema": self._schemas[schema], "example": {**sample, "request_id": _REQUEST_ID}}},
            }
        return {"$ref": f"#/components/responses/{name}"}


@cache
def _recorded() -> dict[str, Any]:
    """Returns the answers of the demo to each call (`make examples`); amounts keep their decimals."""
    return msgspec.json.Decoder(dict[str, Any], float_hook=Decimal).decode(_RECORDED.read_bytes())


def area_of(path: str) -> str:
    return next((name for prefix, name, _ in _AREAS if path.startswith(prefix)), "Other")


def price_of(endpoint: Endpoint, settings: Settings) -> int:
    return settings.prices.get(endpoint.name, endpoint.cost)


def _failures_of(endpoint: Endpoint, *, priced: bool, writes: bool) -> list[int]:
    """Returns every error status that this call can answer with."""
    statuses = {400, 429, 500, 503, *endpoint.errors}
    if endpoint.caller != "anybody":
        # Any key may be restricted to scopes that this call is not in.
        statuses |= {401, 403}
    if priced:
        statuses.add(402)
    if writes:
        # A repeated idempotency key may still be running (409) or belong to another request (422).
        statuses |= {409, 413, 422}
        if endpoint.body is not None or endpoint.takes_upload:
            statuses.add(415)
    return sorted(statuses)


def _idempotency_key(endpoint: Endpoint, settings: Settings) -> dict[str, Any]:
    kept = f"{settings.idempotency_money_days} days" if endpoint.moves_money else f"{settings.idempotency_hours} hours"
    return {
        "name": "Idempotency-Key",
        "in": "header",
        "required": False,
        "description": f"Your own name for this call: sent twice with the same key, it is done once. Kept for {kept}.",
        "schema": {"type": "string", "minLength": 1, "maxLength": MAX_KEY_LENGTH, "pattern": "^[!-~]([ -~]*[!-~])?$"},
        # No example: a tool that tries every call with the examples would reuse the key and be refused.
    }


def _header_names(*special: str, priced: bool, replayed: bool) -> dict[str, Any]:
    names = [*_EVERYWHERE]
    if priced:
        names.append("X-Credits-Charged")
    if replayed:
        names.append("Idempotent-Replayed")
    return {name: {"$ref": f"#/components/headers/{name}"} for name in (*names, *special)}


def _headers(group: limits.Group) -> dict[str, Any]:
    number, text, true = {"type": "integer", "minimum": 0}, {"type": "string"}, {"const": "true"}
    rows: tuple[tuple[str, str, dict[str, Any], Any], ...] = (
        ("X-Request-Id", "Identifies this call to the operator; your own id if you sent one.", text, _REQUEST_ID),
        ("RateLimit-Limit", "Requests allowed in the window.", number, group.requests),
        ("RateLimit-Remaining", "Requests left in the window.", number, group.requests - 1),
        ("RateLimit-Reset", "Whole seconds to the end of the window.", number, group.window_seconds),
        ("RateLimit-Policy", "The limit and its window in seconds.", text, group.policy),
        ("X-Credits-Charged", "Credits that this call cost.", number, 1),
        ("Idempotent-Replayed", "Present if this is the stored answer to an earlier call.", true, "true"),
        ("Link", 'The address of the next page, as `<…>; rel="next"`; absent on the last.', text, _NEXT_PAGE),
        ("Warning", "Present on a walk by `from_id` without `sort=id`, which misses what comes late.", text, _WARNING),
        (AS_OF, "Present if the figures are of an earlier moment: when they were asked for.", _INSTANT, _AS_OF),
        ("Retry-After", "Seconds to wait before sending the call again.", number, 5),
        ("Retry-After-If-Running", "Present if the key's first call or a large file is to be waited for.", number, 1),
        ("Allow", "The methods that the path takes.", text, "GET, POST"),
        ("WWW-Authenticate", "How to identify yourself.", text, 'ApiKey header="x-api-key"'),
    )
    return {
        name: {
            "description": description,
            "required": name not in _SOMETIMES,
            "schema": schema,
            "example": sample,
        }
        for name, description, schema, sample in rows
    }


_SECURITY = {
    "apiKey": {
        "type": "apiKey",
        "in": "header",
        "name": "x-api-key",
        "description": "An API key of the organisation. One with a list of scopes needs the scope named.",
    },
    "session": {"type": "http", "scheme": "bearer", "description": "The token of a signed-in person."},
}


def _security(endpoint: Endpoint) -> list[dict[str, list[str]]]:
    """One of these is needed. For a key, the scope that it needs if it is restricted to some."""
    if endpoint.caller == "anybody":
        return []
    also = [endpoint.also_scope] if endpoint.also_scope else []
    by_key: list[dict[str, list[str]]] = [{"apiKey": [scope, *also]} for scope in endpoint.scopes] or [{"apiKey": []}]
    return [*by_key, {"session": []}] if endpoint.caller == "key or session" else by_key


def _description(endpoint: Endpoint) -> str:
    text = endpoint.description or endpoint.summary
    if endpoint.one_of:
        text += f"\n\nOne of {' and '.join(f'`{name}`' for name in endpoint.one_of)} is required."
    if not endpoint.scopes:
        return text
    also = f", and `{endpoint.also_scope}`" if endpoint.also_scope else ""
    return f"{text}\n\nScope: {' or '.join(f'`{scope}`' for scope in endpoint.scopes)}{also}."


def _guide(settings: Settings) -> str:
    groups = limits.groups(settings)
    values: dict[str, Any] = {
        "base_url": settings.base_url or "$API_URL",
        "dropdown_calls": settings.dropdown_free_calls_per_hour,
        "idempotency_hours": settings.idempotency_hours,
        "idempotency_days": settings.idempotency_money_days,
        "json_limit": _mebibytes(min(JSON_BODY, settings.body_limit_bytes)),
        "rows_limit": _mebibytes(min(BODY_WITH_ROWS, settings.body_limit_bytes)),
        "receipts_limit": _mebibytes(min(BODY_WITH_RECEIPTS, settings.body_limit_bytes)),
        "upload_limit": _mebibytes(settings.upload_limit_bytes),
    }
    for group, name in ((limits.API, "api"), (limits.WEBHOOKS, "webhook"), (limits.AUTH, "auth")):
        values[f"{name}_requests"] = groups[group].requests
        values[f"{name}_window"] = _duration(groups[group].window_seconds)
    return Template(_GUIDE.read_text("utf-8")).substitute(values)


def _mebibytes(size: int) -> str:
    return f"{size / 1024 / 1024:.4g} MiB"


def _duration(seconds: int) -> str:
    if seconds % 60:
        return f"{seconds} seconds"
    return "a minute" if seconds == 60 else f"{seconds // 60} minutes"


class OutOfCredits(Error, kw_only=True):
    """The organisation has too few credits for the call."""

    benoetigt: Annotated[int, Meta(description="Credits that the call needs.")]
    verfuegbar: Annotated[int, Meta(description="Credits that are available.")]


class Failure(NamedTuple):
    name: str
    description: str
    body: dict[str, Any]


FAILURES = {
    400: Failure(
        "BadRequest",
        "Malformed or missing input; `error` says what, `field` names it.",
        {"error": "Unknown query parameter `quele`. Did you mean `quelle`?", "field": "quele"},
    ),
    401: Failure(
        "Unauthorized",
        "The API key (or the sign-in) is missing or not valid.",
        {"error": "The API key is missing.", "message": "Send the header line `x-api-key: <your key>`."},
    ),
    402: Failure(
        "OutOfCredits",
        "Too few credits. Nothing was done.",
        {"error": "Not enough credits: this call needs 5, 2 are available.", "benoetigt": 5, "verfuegbar": 2},
    ),
    403: Failure(
        "Forbidden",
        "The caller is known, but may not do this: its role, or the scopes of its key, do not suffice.",
        {"error": "This call needs the scope ledger:write; this key has ledger:read.", "missing_scope": "ledger:write"},
    ),
    404: Failure(
        "NotFound",
        "It does not exist, or belongs to another organisation: the two answers are the same.",
        {"error": "Connection not found."},
    ),
    405: Failure(
        "MethodNotAllowed",
        "The path does not take this method; `Allow` lists those it takes.",
        {"error": "This path takes GET, POST."},
    ),
    409: Failure(
        "Conflict",
        "The call conflicts with the current state.",
        {"error": "The first call with this idempotency key is still running."},
    ),
    413: Failure(
        "TooLarge",
        "The request body is larger than the call takes; the message says how large it may be.",
        {"error": "The request body is larger than 1048576 bytes."},
    ),
    415: Failure(
        "WrongMediaType",
        "The request body is of a type that the call does not take.",
        {"error": "Send the request body as `Content-Type: application/json` in UTF-8."},
    ),
    422: Failure(
        "KeyReused",
        "The idempotency key was used for another request, or amounts do not add up; the message says which.",
        {"error": "This idempotency key was used for another request: another path, query or body."},
    ),
    429: Failure(
        "TooManyRequests",
        "The rate limit is reached; `Retry-After` says for how many seconds.",
        {"error": "Too many requests: 200 in 900 seconds are allowed. Try again in 412 seconds."},
    ),
    500: Failure(
        "InternalError",
        "Something went wrong on our side.",
        {"error": "Something went wrong on our side. The operator finds the cause under this request_id."},
    ),
    503: Failure(
        "Unavailable",
        "Something the service depends on is down; the same call may succeed after `Retry-After` seconds.",
        {"error": "The database cannot be reached at the moment."},
    ),
}
