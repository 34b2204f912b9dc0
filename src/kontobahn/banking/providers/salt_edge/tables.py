"""What Salt Edge's words mean to us, as data: states of payments, classes of errors, kinds of accounts and of news."""

from __future__ import annotations

from typing import Literal, get_args

from kontobahn.banking.provider import PERSON_NEEDED, Mode, Nature, PaymentStatus, Template

# What a class of error asks for. `later`: this attempt only, so the same may be tried again; `ours`: this installation is set up
# wrongly or not allowed to; `access`: it says something about the access; `unknown`: nobody knows what became of it.
Meaning = Literal["later", "ours", "access", "unknown"]

PAYMENT_STATES: dict[str, PaymentStatus] = {
    "requested": "initiated",
    "initiated": "initiated",
    "initiated_info_required": "initiated_info_required",
    "authorizing": "authorizing",
    "authorized": "authorized",
    "executed": "executed",
    "settled": "settled",
    "failed": "failed",
}

_CLASSES: dict[Meaning, tuple[str, ...]] = {
    "later": (
        "BackgroundFetchLimitExceeded", "RateLimitExceeded", "TooManyRequests", "BatchSizeLimitExceeded", "ConnectionLimitReached",
        "ConnectionAlreadyProcessing", "ConnectionCannotBeRefreshed", "ConnectionFetchingStopped", "ConnectionFailed",
        "ConnectionLost", "FetchingTimeout", "ProviderUnavailable", "ProviderError", "InternalServerError",
    ),
    "ours": (
        "ApiKeyNotFound", "AppIdNotProvided", "SecretNotProvided", "ClientNotFound", "ClientPending", "ClientDisabled",
        "ClientRestricted", "MissingSignature", "MissingExpiresAt", "SignatureNotMatch", "ExpiresAtInvalid", "RequestExpired",
        "PublicKeyNotProvided", "ActionNotAllowed",
    ),
    "access": (
        "InvalidCredentials", "CredentialsNotMatch", "InvalidInteractiveCredentials", "InteractiveTimeout",
        "InteractiveAdapterTimeout", "ProviderAccessNotGranted", "AispConsentExpired", "AispConsentNotFound",
        "AispConsentRevoked", "AispConsentAlreadyRevoked", "ConnectionDisabled", "ProviderDisabled", "ProviderInactive",
    ),
    # A payment may have been made all the same.
    "unknown": ("PaymentStatusUnknown", "PaymentInitiationTimeout", "ExecutionTimeout"),
}  # fmt: skip
MEANINGS: dict[str, Meaning] = {name: meaning for meaning, names in _CLASSES.items() for name in names}

# Classes that have another name above the port.
_NAMES = {
    "CredentialsNotMatch": "InvalidCredentials",
    "InteractiveAdapterTimeout": "InteractiveTimeout",
    "AispConsentNotFound": "AispConsentExpired",
    "AispConsentAlreadyRevoked": "AispConsentRevoked",
    "InteractiveRequired": PERSON_NEEDED,
}


def class_of(theirs: str) -> str:
    return _NAMES.get(theirs, theirs)


# What the operator does about an error that is this installation's own.
REMEDIES = {
    "ApiKeyNotFound": "salt_edge_app_id or salt_edge_secret is wrong",
    "AppIdNotProvided": "salt_edge_app_id is missing",
    "SecretNotProvided": "salt_edge_secret is missing",
    "ClientNotFound": "salt_edge_app_id is unknown to Salt Edge",
    "ClientPending": "Salt Edge has not approved the account yet: only its test banks can be connected",
    "ClientDisabled": "Salt Edge has disabled the account",
    "ClientRestricted": "Salt Edge has restricted the account",
    "MissingSignature": "this account must sign: set salt_edge_private_key",
    "MissingExpiresAt": "this account must sign: set salt_edge_private_key",
    "SignatureNotMatch": "salt_edge_private_key is not the key whose public half is registered for this app",
    "PublicKeyNotProvided": "no public key is registered at Salt Edge for this app",
    "ExpiresAtInvalid": "this machine's clock is wrong",
    "RequestExpired": "this machine's clock is wrong",
    "ActionNotAllowed": "the contract with Salt Edge does not include this",
}

# The templates of payments, by the names that occur in lists of banks.
TEMPLATES: dict[str, Template] = {
    "SEPA": "SEPA",
    "SEPA_INSTANT": "SEPA_INSTANT",
    "SEPA_PAYMENT": "SEPA",
    "SEPA_INSTANT_PAYMENT": "SEPA_INSTANT",
}
NATURES: dict[str, Nature] = {name: name for name in get_args(Nature)}
MODES: dict[str | None, Mode] = {name: name for name in get_args(Mode)}

# The addresses that are set in Salt Edge's dashboard end with one of these: account information first, then payments.
CONNECTION_NEWS = ("success", "fail", "notify", "destroy")
PROVIDER_NEWS = "provider"
PAYMENT_NEWS = ("payment-success", "payment-fail", "payment-notify")
