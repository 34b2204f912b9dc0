"""Callbacks: whether Salt Edge signed them, and what they report. They come at least once, in any order, one address for each kind."""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from kontobahn.bank_providers.http import read_key_file
from kontobahn.bank_providers.salt_edge.rules import PAYMENT_NEWS, PROVIDER_NEWS, TOKEN_FIELD, class_of, payment_report
from kontobahn.bank_providers.salt_edge.wire import Callback, CallbackBody, Payment, custom, instant
from kontobahn.banking.provider import (
    BadSignature,
    ConnectionFailed,
    ConnectionFinished,
    ConnectionGone,
    Delivery,
    PaymentReported,
    Report,
)
from kontobahn.clock import DAY
from kontobahn.errors import SetupError
from kontobahn.json_text import decode_foreign

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey

# A callback that is older was recorded by somebody: repeats are recognised for longer than this.
MAX_AGE = 14 * DAY
_PEM = re.compile(rb"-----BEGIN [A-Z ]{1,40}-----.+?-----END [A-Z ]{1,40}-----", re.DOTALL)


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
        meta = decode_foreign(delivery.body, CallbackBody).meta
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
    news = decode_foreign(body, CallbackBody).data
    if kind in PAYMENT_NEWS:
        return _payment_reports(kind, news)
    if news.connection_id is None and kind != "fail":
        return []
    ref = None if news.connection_id is None else str(news.connection_id)
    token = custom(news.custom_fields).get(TOKEN_FIELD)
    token = token if isinstance(token, str) else None
    match kind:
        case "success" if ref and news.stage in (None, "finish"):
            return [ConnectionFinished(ref, token)]
        case "fail":
            message = news.error_message or news.error_class or "The bank refused"
            # It may have been overtaken by a success, so the connection is asked.
            return [
                ConnectionFailed(class_of(news.error_class or "ProviderError"), message, ref, token, is_certain=False)
            ]
        case "destroy" if ref:
            return [ConnectionGone(ref)]
        case _:
            # Stages on the way, and news about banks.
            return []


def _payment_reports(kind: str, news: Callback) -> list[Report]:
    if news.payment_id is None:
        return []
    payment = Payment(
        status=news.status or ("failed" if kind == "payment-fail" else None),
        raw_provider_status=news.raw_provider_status,
        error_class=news.error_class,
        error_message=news.error_message,
    )
    return [PaymentReported(str(news.payment_id), payment_report(payment))]


def is_about_banks(kind: str) -> bool:
    return kind == PROVIDER_NEWS
