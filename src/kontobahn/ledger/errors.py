"""What goes wrong between us and an accounting provider, and how it is told to the caller."""

from __future__ import annotations

from typing import Any, Literal

from kontobahn.errors import Conflict, Forbidden, Unavailable

Bereich = Literal[
    "stammdaten", "konten", "buchungen", "susa", "zahlungsbedingungen", "personenkonten", "kassenbuch", "belege"
]
BEREICHE: tuple[Bereich, ...] = (
    "stammdaten", "konten", "buchungen", "susa", "zahlungsbedingungen", "personenkonten", "kassenbuch", "belege",
)  # fmt: skip


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
    )


def export_service_missing(needed: str, active: list[str]) -> Forbidden:
    return Forbidden(
        f"The client has not booked the service this call needs: {needed}.",
        code="ledger_export_service_missing",
        message="Book the service at the provider, or choose another client with clientId.",
        activeSubscriptions=active,
    )


def endpoint_not_authorized(bereich: str) -> Forbidden:
    return Forbidden(
        f"The signed-in user lacks the provider's right for “{bereich}”.",
        code="ledger_endpoint_not_authorized",
        message="Reconnecting does not help: the advisor or the client's owner must grant the right at the provider.",
    )


def provider_refused(error: ProviderError) -> Forbidden:
    """The provider said no, and whether for want of a service or of a right cannot be told."""
    return Forbidden("The accounting provider refuses this call for the signed-in user.", details=_details(error))


def provider_unavailable(error: ProviderError) -> Unavailable:
    """The provider is down, slow or answers nonsense; what it said goes along for whoever has to ask there."""
    return Unavailable(
        "The accounting provider cannot be reached at the moment. Nothing was charged.",
        retry_after_seconds=30,
        operator=f"provider: {error.status} {error.type} {error.message}",
        details=_details(error),
    )


def _details(error: ProviderError) -> dict[str, Any]:
    return {"httpStatus": error.status, "type": error.type, "message": error.message}
