"""What goes wrong between us and an accounting provider, and how it is told to the caller."""

from __future__ import annotations

from typing import Any, Literal

from kontobahn.errors import BadRequest, Conflict, Forbidden, NotFound, Refusal, Unavailable

Bereich = Literal[
    "stammdaten", "konten", "buchungen", "susa", "zahlungsbedingungen", "personenkonten", "kassenbuch", "belege"
]
BEREICHE: tuple[Bereich, ...] = (
    "stammdaten", "konten", "buchungen", "susa", "zahlungsbedingungen", "personenkonten", "kassenbuch", "belege",
)  # fmt: skip
# Too slow, too early, too many: said with a status of the caller's faults, but none of them.
_PASSES_BY_ITSELF = (408, 425, 429)


class ProviderError(Exception):
    """A provider refused or failed. `status` is its HTTP status, None where there was no answer at all.

    `bereich` is the area that was refused, where a call needs more than the one it is about.
    """

    def __init__(
        self,
        status: int | None,
        message: str,
        *,
        type: str | None = None,
        details: Any = None,
        bereich: Bereich | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.type = type
        self.message = message
        self.details = details
        self.bereich = bereich


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


def endpoint_not_authorized(bereich: str) -> Forbidden:
    return Forbidden(
        f"The signed-in user lacks the provider's right for “{bereich}”.",
        code="ledger_endpoint_not_authorized",
        message="Reconnecting does not help: the advisor or the client's owner must grant the right at the provider.",
    ).retryable()


def provider_refused(error: ProviderError) -> Forbidden:
    """The provider said no, and whether for want of a service or of a right cannot be told."""
    return Forbidden(
        "The accounting provider refuses this call for the signed-in user.", details=_details(error)
    ).retryable()


def is_rejection(error: ProviderError) -> bool:
    """The provider understood the request and will not do it; asking again in a while would not help."""
    return error.status is not None and 400 <= error.status < 500 and error.status not in _PASSES_BY_ITSELF


def provider_rejected(error: ProviderError) -> Refusal:
    """What was asked for is not there, contradicts the provider's books, or is wrong in its eyes."""
    kinds: dict[int | None, type[Refusal]] = {404: NotFound, 409: Conflict}
    return kinds.get(error.status, BadRequest)(
        "The accounting provider rejected the request. Nothing was charged.",
        message=error.message,
        operator=_for_operator(error),
        details=_details(error),
    ).retryable()


def provider_unavailable(error: ProviderError) -> Unavailable:
    """The provider is down, slow or answers nonsense; what it said goes along for whoever has to ask there."""
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
