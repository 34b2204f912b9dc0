"""Standard Webhooks signatures: they prove to a receiver that a delivery is ours and that nothing in it was changed."""

from __future__ import annotations

import base64
import binascii
import hmac
import secrets
from collections.abc import Sequence

SECRET_PREFIX = "whsec_"
KEY_BYTES = 32


def new_secret() -> str:
    """Its bytes are letters and digits: some receivers, n8n's Crypto node among them, can use a key only if it is a text."""
    return SECRET_PREFIX + base64.b64encode(secrets.token_urlsafe(KEY_BYTES).encode()).decode()


def key_of(secret: str) -> bytes:
    """Returns the bytes that sign. Raises ValueError if this is not such a secret."""
    if not secret.startswith(SECRET_PREFIX):
        raise ValueError(f"A signing secret begins with {SECRET_PREFIX}.")
    try:
        key = base64.b64decode(secret.removeprefix(SECRET_PREFIX), validate=True)
    except (binascii.Error, ValueError):
        raise ValueError(f"A signing secret is {SECRET_PREFIX} and base64.") from None
    if not 24 <= len(key) <= 64:
        raise ValueError("A signing secret has 24 to 64 bytes.")
    return key


def signed_headers(event_id: str, seconds: int, body: bytes, keys: Sequence[bytes]) -> dict[str, str]:
    """Returns the headers of one attempt: the id is the same for all attempts, the time is this one's."""
    # Choice 29: while a secret is being replaced there are two signatures, and either is valid.
    content = b"%s.%d.%s" % (event_id.encode(), seconds, body)
    signatures = [base64.b64encode(hmac.digest(key, content, "sha256")).decode() for key in keys]
    return {
        "content-type": "application/json",
        "webhook-id": event_id,
        "webhook-timestamp": str(seconds),
        "webhook-signature": " ".join(f"v1,{signature}" for signature in signatures),
    }
