"""How a call may fail, as the OpenAPI document describes it: the error bodies, and a description and an example per status."""

from __future__ import annotations

from typing import Annotated, Any, Literal, NamedTuple

from msgspec import UNSET, Meta, UnsetType

from kontobahn.api.wire import Answer

LedgerCode = Literal["ledger_connection_invalid", "ledger_export_service_missing", "ledger_endpoint_not_authorized"]
Uri = Annotated[str, Meta(extra_json_schema={"format": "uri"})]


class Error(Answer, kw_only=True):
    """What went wrong, for a person and for a program."""

    error: Annotated[str, Meta(description="One sentence for a person.")]
    message: Annotated[str, Meta(description="What to do about it.")] | UnsetType = UNSET
    field: Annotated[str, Meta(description="The parameter, header or body field that is wrong.")] | UnsetType = UNSET
    missing_scope: Annotated[str, Meta(description="403: the scope that the API key lacks.")] | UnsetType = UNSET
    request_id: Annotated[str, Meta(description="Identifies this call to the operator.")]


class OutOfCredits(Error, kw_only=True):
    """The organisation has too few credits for the call."""

    benoetigt: Annotated[int, Meta(description="Credits that the call needs.")]
    verfuegbar: Annotated[int, Meta(description="Credits that are available.")]


class LedgerError(Error, kw_only=True):
    """An error of the ledger area, with the cause if it is certain."""

    code: LedgerCode | UnsetType = UNSET
    reconnectUrl: Annotated[Uri, Meta(description="Where to renew the connection that is invalid.")] | UnsetType = UNSET
    activeSubscriptions: Annotated[list[str], Meta(description="What the client has booked.")] | UnsetType = UNSET
    details: Annotated[dict[str, Any], Meta(description="What the accounting provider said.")] | UnsetType = UNSET


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
