"""Checks that a delivery was signed by the service (Standard Webhooks), and reads it."""

from __future__ import annotations

import base64
import binascii
import hmac
import re
import time
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

import msgspec

from kontobahn_client.models.events import (
    BatchCreated,
    ConnectionDestroyed,
    ConnectionErrorReport,
    ConsentExpiring,
    MatchConfirmed,
    MatchProposed,
    MatchUndone,
    PayablePaid,
    PayableReceived,
    PayableRejected,
    PayableReleased,
    PaymentPayeeCheck,
    PaymentProgress,
    PaymentUpdate,
    RefreshComplete,
)
from kontobahn_client.transport.errors import WebhookError

TOLERANCE_SECONDS = 5 * 60
EventData = (
    RefreshComplete
    | ConnectionErrorReport
    | ConnectionDestroyed
    | PaymentUpdate
    | PaymentProgress
    | ConsentExpiring
    | MatchProposed
    | MatchConfirmed
    | MatchUndone
    | BatchCreated
    | PaymentPayeeCheck
    | PayableReceived
    | PayableReleased
    | PayableRejected
    | PayablePaid
    | dict[str, Any]
)
KINDS: dict[str, Any] = {
    "refresh_complete": RefreshComplete,
    "connection_error": ConnectionErrorReport,
    "connection_destroyed": ConnectionDestroyed,
    "payment_update": PaymentUpdate,
    "payment_progress": PaymentProgress,
    "consent_expiring": ConsentExpiring,
    "match_proposed": MatchProposed,
    "match_confirmed": MatchConfirmed,
    "match_undone": MatchUndone,
    "batch_created": BatchCreated,
    "payment.payee_check": PaymentPayeeCheck,
    "payable.received": PayableReceived,
    "payable.released": PayableReleased,
    "payable.rejected": PayableRejected,
    "payable.paid": PayablePaid,
}
# Four attempts of a rotation would be two; a caller's header must not make us calculate for long.
_MAX_SIGNATURES = 20
_SECONDS = re.compile(r"[0-9]{1,12}", re.ASCII)


class WebhookEvent(msgspec.Struct, frozen=True):
    """One event. A repeated delivery has the same id: keep the ids you have worked on, and drop repeats."""

    id: str
    event: str
    # By the name of the event; a dictionary if this version of the client does not know it.
    data: EventData
    received_at: datetime


class _Envelope(msgspec.Struct):
    event: str
    data: msgspec.Raw
    received_at: datetime


def verify(
    body: bytes,
    headers: Mapping[str, str],
    *secrets: str,
    tolerance_seconds: float = TOLERANCE_SECONDS,
    now: Callable[[], float] = time.time,
) -> WebhookEvent:
    """Returns the event of a delivery. Raises WebhookError if it was not signed with one of the secrets, or not recently.

    `body` is the request's body as it came, before anything has parsed it. While a secret is being replaced, give both.
    """
    if not secrets:
        raise ValueError("verify needs at least one signing secret.")
    keys = [_key(secret) for secret in secrets]
    given = {name.lower(): value for name, value in headers.items()}
    try:
        event_id, seconds = given["webhook-id"], given["webhook-timestamp"]
        signatures = given["webhook-signature"].split()[:_MAX_SIGNATURES]
    except KeyError as missing:
        raise WebhookError(f"The header {missing.args[0]} is missing.") from None
    if not _SECONDS.fullmatch(seconds) or abs(now() - int(seconds)) > tolerance_seconds:
        raise WebhookError("The delivery is too old, or from the future: its webhook-timestamp is not about now.")
    content = f"{event_id}.{seconds}.".encode() + body
    expected = [b"v1," + base64.b64encode(hmac.digest(key, content, "sha256")) for key in keys]
    # Every pair is compared, each in constant time: how long it takes says nothing about any of them.
    matches = [hmac.compare_digest(own, signature.encode()) for own in expected for signature in signatures]
    if not any(matches):
        raise WebhookError("The signature does not match: another secret, or not the body as it was sent.")
    return _read(event_id, body)


def _read(event_id: str, body: bytes) -> WebhookEvent:
    try:
        envelope = msgspec.json.decode(body, type=_Envelope)
        data = msgspec.json.decode(envelope.data, type=KINDS.get(envelope.event, dict[str, Any]))
    except msgspec.MsgspecError as error:
        raise WebhookError(f"The delivery is signed, but not an event that this client can read: {error}") from None
    return WebhookEvent(event_id, envelope.event, data, envelope.received_at)


def _key(secret: str) -> bytes:
    try:
        if not secret.startswith("whsec_"):
            raise ValueError
        return base64.b64decode(secret.removeprefix("whsec_"), validate=True)
    except (ValueError, binascii.Error):
        raise ValueError("A signing secret is whsec_ and base64.") from None
