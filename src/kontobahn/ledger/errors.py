"""How an accounting provider says no (ProviderError), and which error of the contract the caller gets for it."""

from __future__ import annotations

from typing import Any, Literal, get_args

from kontobahn.errors import BadRequest, Conflict, Forbidden, NotFound, Refusal, Unavailable

# The areas of a client's books that a provider grants rights to.
Area = Literal[
    "stammdaten", "konten", "buchungen", "susa", "zahlungsbedingungen", "personenkonten", "kassenbuch", "belege"
]
AREAS: tuple[Area, ...] = get_args(Area)
# Statuses of a connection that has ended, and the words for them.
ENDED = {"expired": "expired", "revoked": "revoked", "error": "broken"}
# Too slow, too early, too many: client errors by their status, but retrying helps.
_TRANSIENT = (408, 425, 429)


class ProviderError(Exception):
    """A provider refused or failed. `status` is its HTTP status, None if it did not answer at all.

    `area` is the one that was refused, for a call that needs more than the one it is about.
    """

    def __init__(
        self,
        status: int | None,
        message: str,
        *,
        type: str | None = None,
        area: Area | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.type = type
        self.message = message
        self.area = area


def translate_error(error: ProviderError, reconnect_url: str) -> Refusal | Unavailable:
    """The contract's error, as far as it follows from the provider's alone."""
    if error.status == 401:
        return connection_invalid(reconnect_url, ENDED.get(error.type or "", "expired or revoked"))
    if error.status == 403:
        return provider_refused(error)
    return provider_rejected(error) if _is_rejection(error) else provider_unavailable(error)


# Choice 12: 409 for a connection that has to be renewed, 403 for the other two; 401 stays for the API key.
def connection_invalid(reconnect_url: str, reason: str) -> Conflict:
    return Conflict(
        f"The connection to the accounting provider is {reason}. Renew it in the dashboard.",
        code="ledger_connection_invalid",
        reconnectUrl=reconnect_url,
    ).retryable()


def export_service_missing(needed: str, active: list[str]) -> Forbidden:
    return Forbidden(
        f"The client has not booked the service this call needs: {needed}.",
        code="ledger_export_service_missing",
        message="Book the service at the provider, or choose another client with clientId.",
        activeSubscriptions=active,
    ).retryable()


def endpoint_not_authorized(area: Area) -> Forbidden:
    return Forbidden(
        f"The signed-in user lacks the provider's right for “{area}”.",
        code="ledger_endpoint_not_authorized",
        message="Reconnecting does not help: the adviser or the client's owner must grant the right at the provider.",
    ).retryable()


def provider_refused(error: ProviderError) -> Forbidden:
    """For a 403 of which we cannot tell whether a service or a right is missing."""
    return Forbidden(
        "The accounting provider refuses this call for the signed-in user.", details=_details(error)
    ).retryable()


def _is_rejection(error: ProviderError) -> bool:
    """Whether the provider understood the request and will not do it, now or later."""
    return error.status is not None and 400 <= error.status < 500 and error.status not in _TRANSIENT


def provider_rejected(error: ProviderError) -> Refusal:
    """For a request that names something missing, contradicts the provider's books, or is invalid to the provider."""
    kinds: dict[int | None, type[Refusal]] = {404: NotFound, 409: Conflict}
    return kinds.get(error.status, BadRequest)(
        "The accounting provider rejected the request. Nothing was charged.",
        message=error.message,
        operator=_for_operator(error),
        details=_details(error),
    ).retryable()


def provider_unavailable(error: ProviderError) -> Unavailable:
    """For a provider that is down, slow or answers nonsense."""
    return Unavailable(
        "The accounting provider cannot be reached at the moment. Nothing was charged.",
        retry_after_seconds=30,
        operator=_for_operator(error),
        details=_details(error),
    )


def _for_operator(error: ProviderError) -> str:
    return f"provider: {error.status} {error.type} {error.message}"


def _details(error: ProviderError) -> dict[str, Any]:
    return {"httpStatus": error.status, "type": error.type, "message": error.message}
