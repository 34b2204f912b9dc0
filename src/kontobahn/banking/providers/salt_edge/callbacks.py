"""Callbacks: whether Salt Edge signed them, and what they report. They come at least once, in any order, one address for each kind."""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from kontobahn.banking.provider import (
    BadSignature,
    ConnectionFailed,
    ConnectionFinished,
    ConnectionGone,
    Delivery,
    PaymentReport,
    PaymentReported,
    Report,
)
from kontobahn.banking.providers.reaching import read_key_file
from kontobahn.banking.providers.salt_edge.tables import MEANINGS, PAYMENT_NEWS, PAYMENT_STATES, PROVIDER_NEWS, class_of
from kontobahn.banking.providers.salt_edge.wire import Callback, CallbackBody, Payment, custom, instant
from kontobahn.clock import DAY
from kontobahn.errors import SetupError

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey

# What we give along when a flow or a payment begins, and get back.
TOKEN_FIELD, ORDER_FIELD = "pending_token", "end_to_end_id"
# A callback that is older was recorded by somebody: repeats are recognised for longer than this.
MAX_AGE = 14 * DAY
_PEM = re.compile(rb"-----BEGIN [A-Z ]+-----.+?-----END [A-Z ]+-----", re.DOTALL)
_decode = msgspec.json.Decoder(CallbackBody).decode


def read_public_keys(path: Path) -> list[RSAPublicKey]:
    """Reads the keys that callbacks are signed with: several while one replaces another. Raises SetupError with the reason."""
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
    from cryptography.hazmat.primitives.serialization import load_pem_public_key

    content = read_key_file(path, "salt_edge_callback_key")
    try:
        keys = [load_pem_public_key(block) for block in _PEM.findall(content)]
    except ValueError:
        keys = []
    found = [key for key in keys if isinstance(key, RSAPublicKey)]
    if not found or len(found) < len(keys):
        raise SetupError(f"The file salt_edge_callback_key ({path}) is not a PEM public RSA key.")
    return found


def check(keys: list[RSAPublicKey], delivery: Delivery, now: int) -> str:
    """Returns the delivery's id. Raises BadSignature unless one of the keys signed the configured address and the raw body."""
    try:
        signature = base64.b64decode(delivery.headers.get("signature", ""), validate=True)
    except (binascii.Error, ValueError):
        signature = b""
    text = delivery.url.encode() + b"|" + delivery.body
    if not signature or not any(_is_signed(key, signature, text) for key in keys):
        version = delivery.headers.get("signature-key-version", "unknown")[:20]
        raise BadSignature(
            f"no key in salt_edge_callback_key signed this for {delivery.url} (version of the key: {version})"
        )
    try:
        meta = _decode(delivery.body).meta
    except msgspec.MsgspecError:
        raise BadSignature("it is signed, but not a callback") from None
    sent_at = instant(meta.time) if meta else None
    if sent_at is not None and sent_at < now - MAX_AGE:
        raise BadSignature(f"it was sent at {meta.time if meta else None}, which is too long ago")
    digest = hashlib.sha256(delivery.kind.encode() + b"|" + delivery.body).hexdigest()
    # Without a time, the news of today reads like that of yesterday. To apply one twice does no harm: the connection is read again.
    return digest if sent_at is not None else f"{digest}-{now}"


def _is_signed(key: RSAPublicKey, signature: bytes, text: bytes) -> bool:
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
    from cryptography.hazmat.primitives.hashes import SHA256

    try:
        key.verify(signature, text, PKCS1v15(), SHA256())
    except InvalidSignature:
        return False
    return True


def reports(kind: str, body: bytes) -> list[Report]:
    told = _decode(body).data
    if kind in PAYMENT_NEWS:
        return _payment_reports(kind, told)
    if told.connection_id is None and kind != "fail":
        return []
    ref = None if told.connection_id is None else str(told.connection_id)
    token = custom(told.custom_fields).get(TOKEN_FIELD)
    token = token if isinstance(token, str) else None
    match kind:
        case "success" if ref and told.stage in (None, "finish"):
            return [ConnectionFinished(ref, token)]
        case "fail":
            message = told.error_message or told.error_class or "The bank refused"
            # It may have been overtaken by a success, so the connection is asked.
            return [
                ConnectionFailed(class_of(told.error_class or "ProviderError"), message, ref, token, is_certain=False)
            ]
        case "destroy" if ref:
            return [ConnectionGone(ref)]
        case _:
            # Stages on the way, and news about banks.
            return []


def _payment_reports(kind: str, told: Callback) -> list[Report]:
    if told.payment_id is None:
        return []
    payment = Payment(
        status=told.status or ("failed" if kind == "payment-fail" else None),
        raw_provider_status=told.raw_provider_status,
        error_class=told.error_class,
        error_message=told.error_message,
    )
    return [PaymentReported(str(told.payment_id), payment_report(payment))]


def payment_report(payment: Payment) -> PaymentReport:
    """Returns what a payment's state means. A state that we do not know, or whose outcome nobody knows, is neither success nor failure."""
    attempt = payment.last_attempt
    error_class = payment.error_class or payment.fail_error_class or (attempt.fail_error_class if attempt else None)
    message = payment.error_message or payment.fail_message or (attempt.fail_message if attempt else None)
    raw = payment.raw_provider_status or payment.status
    status = PAYMENT_STATES.get(payment.status or "")
    if status == "failed" and MEANINGS.get(error_class or "") == "unknown":
        status = None
    if status is None or status == "failed":
        return PaymentReport(status, raw, error_class, message)
    return PaymentReport(status, raw)


def is_about_banks(kind: str) -> bool:
    return kind == PROVIDER_NEWS
