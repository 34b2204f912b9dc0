"""Every error that the client raises.

KontobahnError
├── NoAnswer               the network failed; `may_have_happened` says whether the call may have been carried out
├── UnexpectedAnswer       not an answer of the API: a proxy's page, or a service of another version
├── WebhookError           a delivery that is not to be trusted
└── ApiError               the service refused or failed
    ├── BadRequest         400  ├── OutOfCredits 402  ├── NotFound 404   ├── TooLarge  413   ├── RateLimited 429
    └── Unauthorized       401  └── Forbidden    403  └── Conflict 409   └── KeyReused 422   └── ServerError 5xx
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


class KontobahnError(Exception):
    """The root of all."""


class ApiWarning(UserWarning):
    """The service did as it was asked, and says that this may not be what was meant (its header `Warning`)."""


class WebhookError(KontobahnError):
    """A delivery that is not to be trusted: not signed by this service, changed on the way, or too old."""


class NoAnswer(KontobahnError):
    """The service was not reached, or its answer did not arrive."""

    def __init__(self, message: str, *, may_have_happened: bool) -> None:
        super().__init__(message)
        self.may_have_happened = may_have_happened


class UnexpectedAnswer(KontobahnError):
    """Something came back that is not an answer of the API."""

    def __init__(self, message: str, *, status: int, request_id: str | None) -> None:
        super().__init__(message)
        self.status = status
        self.request_id = request_id


class ApiError(KontobahnError):
    """The service refused the call, or failed. `request_id` is what its operator can look up."""

    def __init__(self, status: int, body: Mapping[str, Any], request_id: str | None, retry_after: float | None) -> None:
        self.status = status
        self.body = dict(body)
        self.error = str(body.get("error", f"The service answered {status}."))
        # The advice; the parameter or field that is wrong; the cause in the ledger; the scope that the key lacks.
        self.message = _text(body, "message")
        self.field = _text(body, "field")
        self.code = _text(body, "code")
        self.missing_scope = _text(body, "missing_scope")
        self.request_id = _text(body, "request_id") or request_id
        self.retry_after = retry_after
        super().__init__(status, self.error)

    def __str__(self) -> str:
        parts = [f"{self.status}: {self.error}", self.message, self.request_id and f"(request {self.request_id})"]
        return " ".join(part for part in parts if part)


class BadRequest(ApiError):
    """Something about the call is wrong; `field` names it."""


class Unauthorized(ApiError):
    """The key is missing or not valid."""


class OutOfCredits(ApiError):
    """Too few credits. Nothing was done."""

    @property
    def needed(self) -> int:
        return int(self.body["benoetigt"])

    @property
    def available(self) -> int:
        return int(self.body["verfuegbar"])


class Forbidden(ApiError):
    """The key is valid, but may not do this."""


class NotFound(ApiError):
    """It does not exist, or belongs to another organisation."""


class Conflict(ApiError):
    """The call conflicts with the current state."""


class TooLarge(ApiError):
    """The body or file is too large."""


class KeyReused(ApiError):
    """The idempotency key was used for another call."""


class RateLimited(ApiError):
    """Too many requests; `retry_after` says for how many seconds."""


class ServerError(ApiError):
    """The service, or something that it depends on, failed."""


_BY_STATUS: dict[int, type[ApiError]] = {
    400: BadRequest,
    401: Unauthorized,
    402: OutOfCredits,
    403: Forbidden,
    404: NotFound,
    409: Conflict,
    413: TooLarge,
    422: KeyReused,
    429: RateLimited,
}


def error_of(status: int, body: Mapping[str, Any], request_id: str | None, retry_after: float | None) -> ApiError:
    kind = ServerError if status >= 500 else _BY_STATUS.get(status, ApiError)
    return kind(status, body, request_id, retry_after)


def _text(body: Mapping[str, Any], name: str) -> str | None:
    value = body.get(name)
    return value if isinstance(value, str) else None
