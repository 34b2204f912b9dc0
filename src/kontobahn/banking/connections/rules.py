"""The status of a connection: which report moves it where, as data. Pure."""

from __future__ import annotations

from typing import Literal

from kontobahn.banking.provider import LOCKED, PERSON_NEEDED

ConnectionStatus = Literal["active", "inactive", "disabled", "pending", "pending_connect"]

Trigger = Literal[
    "finished", "needs_person", "transient_error", "switched_off", "reconnect_started", "reconnect_abandoned", "consent_expired",
]  # fmt: skip

# Choice 25: the transitions of a connection, as data. What is not here keeps its status.
TRANSITIONS: dict[tuple[ConnectionStatus, Trigger], ConnectionStatus] = {
    ("active", "needs_person"): "inactive",
    ("active", "consent_expired"): "inactive",
    ("active", "switched_off"): "disabled",
    ("inactive", "switched_off"): "disabled",
    ("inactive", "reconnect_started"): "pending",
    ("active", "reconnect_started"): "active",
    ("disabled", "reconnect_started"): "disabled",
    ("pending", "reconnect_abandoned"): "inactive",
    ("pending", "needs_person"): "inactive",
    ("pending", "transient_error"): "inactive",
    ("pending", "switched_off"): "disabled",
    ("active", "finished"): "active",
    ("inactive", "finished"): "active",
    ("pending", "finished"): "active",
    ("disabled", "finished"): "active",
}
# Errors that only the person can resolve at the bank, and those that mean the bank or the access is switched off. Choice 25:
# all others are transient; they keep the status and set error_class.
TRIGGERS: dict[str, Trigger] = {
    "InvalidCredentials": "needs_person",
    "InvalidInteractiveCredentials": "needs_person",
    "AispConsentExpired": "needs_person",
    "ProviderAccessNotGranted": "needs_person",
    "InteractiveTimeout": "needs_person",
    PERSON_NEEDED: "needs_person",
    LOCKED: "needs_person",
    "ProviderDisabled": "switched_off",
    "ProviderInactive": "switched_off",
    "ConnectionDisabled": "switched_off",
    "AispConsentRevoked": "switched_off",
}


def is_known(error_class: str) -> bool:
    """Returns whether an error says something about the access, instead of about this one attempt."""
    return error_class in TRIGGERS
