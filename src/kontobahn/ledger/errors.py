"""Refusals and failures of an accounting provider (ProviderError), and the errors of the contract that they become; error bodies."""

from __future__ import annotations

from decimal import Decimal
from typing import Annotated, Any, Literal, get_args

from msgspec import UNSET, Meta, UnsetType

from kontobahn.api.answers import Error
from kontobahn.errors import BadRequest, Conflict, Forbidden, NotFound, Refusal, Unavailable
from kontobahn.ledger.wire import Protokollzeile
from kontobahn.sentences import joined, said

# The areas of a client's books that a provider grants rights to.
Area = Literal[
    "stammdaten", "konten", "buchungen", "susa", "zahlungsbedingungen", "personenkonten", "kassenbuch", "belege"
]
AREAS: tuple[Area, ...] = get_args(Area)
# Statuses of a connection that has ended, and our words for them.
ENDED = {"expired": "expired", "revoked": "revoked", "error": "broken"}
# Too slow, too early, too many: client errors by their status, but retrying helps.
_TRANSIENT = (408, 425, 429)
RETRY_AFTER_SECONDS = 30
# Rejections that people can do something about, in their own words.
_REJECTIONS = {
    "not_supported": "The accounting provider does not offer this over its interface. Nothing was charged.",
    "currency": "These books are not kept in euros, and nothing else is understood here. Nothing was charged.",
    "foreign_currency": "Some of these bookings are in another currency, and the accounting provider does not say their amount in euros."
    " Nothing was charged.",
}


LedgerCode = Literal["ledger_connection_invalid", "ledger_export_service_missing", "ledger_endpoint_not_authorized"]
Uri = Annotated[str, Meta(extra_json_schema={"format": "uri"})]


class LedgerError(Error, kw_only=True):
    """An error of the ledger area, with the cause if it is certain."""

    code: LedgerCode | UnsetType = UNSET
    reconnectUrl: Annotated[Uri, Meta(description="Where to renew the connection that is invalid.")] | UnsetType = UNSET
    activeSubscriptions: Annotated[list[str], Meta(description="What the client has booked.")] | UnsetType = UNSET
    details: Annotated[dict[str, Any], Meta(description="What the accounting provider said.")] | UnsetType = UNSET
    kassensaldo: Annotated[Decimal, Meta(description="409 of a cash entry: the balance, in EUR.")] | UnsetType = UNSET
    abgelehnt: Annotated[int, Meta(description="Rows that were refused, or look booked.")] | UnsetType = UNSET
    warnungen: Annotated[int, Meta(description="Warnings about rows.")] | UnsetType = UNSET
    protokoll: Annotated[list[Protokollzeile], Meta(description="The first thousand of both.")] | UnsetType = UNSET


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
        help_url: str = "",
        retry_after_seconds: int = RETRY_AFTER_SECONDS,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.type = type
        self.message = message
        self.area = area
        # The provider's page about this refusal.
        self.help_url = help_url
        self.retry_after_seconds = retry_after_seconds


def translate_error(error: ProviderError, reconnect_url: str) -> Refusal | Unavailable:
    """Returns the contract's error, as far as it follows from the provider's alone."""
    if error.status == 401:
        return connection_invalid(reconnect_url, ENDED.get(error.type or "", "expired or revoked"), error)
    if error.status == 403:
        return provider_refused(error)
    return provider_rejected(error) if is_rejection(error) else provider_unavailable(error)


# Choice 12: 409 for a connection that has to be renewed, 403 for the other two; 401 stays for the API key.
def connection_invalid(reconnect_url: str, reason: str, error: ProviderError | None = None) -> Conflict:
    return Conflict(
        said("The connection to the accounting provider is {reason}. Renew it in the dashboard.", reason=reason),
        code="ledger_connection_invalid",
        reconnectUrl=reconnect_url,
        **_help(error),
    ).retryable()


def export_service_missing(needed: str, active: list[str], error: ProviderError | None = None) -> Forbidden:
    return Forbidden(
        said("The client has not booked the service this call needs: {needed}.", needed=needed),
        code="ledger_export_service_missing",
        message="Book the service at the provider, or choose another client with clientId.",
        activeSubscriptions=active,
        **_help(error),
    ).retryable()


def endpoint_not_authorized(area: Area, error: ProviderError | None = None) -> Forbidden:
    return Forbidden(
        said("The signed-in user lacks the provider's right for “{area}”.", area=area),
        code="ledger_endpoint_not_authorized",
        message="Reconnecting does not help: the adviser or the client's owner must grant the right at the provider.",
        **_help(error),
    ).retryable()


def provider_refused(error: ProviderError) -> Forbidden:
    """Returns the error for a 403 that does not show whether a service or a right is missing."""
    return Forbidden(
        "The accounting provider refuses this call for the signed-in user.", details=_details(error)
    ).retryable()


def is_rejection(error: ProviderError) -> bool:
    """Returns whether the provider understood the request and will not do it, now or later."""
    return error.status is not None and 400 <= error.status < 500 and error.status not in _TRANSIENT


def provider_rejected(error: ProviderError) -> Refusal:
    """Returns the error for a request that names something missing, contradicts the provider's books, or is invalid there."""
    kinds: dict[int | None, type[Refusal]] = {404: NotFound, 409: Conflict}
    return kinds.get(error.status, BadRequest)(
        _REJECTIONS.get(error.type or "", "The accounting provider rejected the request. Nothing was charged."),
        # As a sentence, so that pages show it beside the other.
        message=error.message if error.type in _REJECTIONS else joined("", [error.message]),
        operator=_for_operator(error),
        details=_details(error),
    ).retryable()


def provider_unavailable(error: ProviderError) -> Unavailable:
    """Returns the error for a provider that is down, slow or answers nonsense."""
    return Unavailable(
        "The accounting provider cannot be reached at the moment. Nothing was charged.",
        retry_after_seconds=error.retry_after_seconds,
        operator=_for_operator(error),
        details=_details(error),
    )


def _help(error: ProviderError | None) -> dict[str, Any]:
    """Returns the provider's words for an error that says enough without them, if it says where to read more."""
    return {"details": _details(error)} if error is not None and error.help_url else {}


def _for_operator(error: ProviderError) -> str:
    return f"provider: {error.status} {error.type} {error.message}"


def _details(error: ProviderError) -> dict[str, Any]:
    found: dict[str, Any] = {"httpStatus": error.status, "type": error.type, "message": error.message}
    return found | ({"helpUrl": error.help_url} if error.help_url else {})
