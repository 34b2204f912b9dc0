"""Tokens, error answers and the shape of requests, as Enable Banking publishes them: what its simulator checks and sends."""

from __future__ import annotations

import base64
import hashlib
import json
from functools import cache
from typing import Any

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import padding, rsa
from cryptography.hazmat.primitives.hashes import SHA256

# Names that an object must have, and names that it may have besides.
Shape = tuple[frozenset[str], frozenset[str]]


def _shape(required: str, optional: str = "") -> Shape:
    return frozenset(required.split()), frozenset(optional.split())


AUTH = _shape(
    "access aspsp state redirect_url", "psu_type auth_method credentials credentials_autosubmit language psu_id"
)
PAYMENT = _shape(
    "payment_type payment_request aspsp state redirect_url psu_type",
    "auth_method credentials language webhook_url psu_id",
)
REQUEST = _shape(
    "credit_transfer_transaction",
    "payment_information_id payment_type_information debtor debtor_account debtor_agent debtor_currency purpose charge_bearer",
)
TRANSFER = _shape(
    "instructed_amount beneficiary",
    "payment_id requested_execution_date reference_number ultimate_debtor ultimate_creditor remittance_information",
)
BENEFICIARY = _shape("creditor_account", "creditor creditor_agent creditor_currency")
PSU_HEADERS = frozenset(
    f"psu-{name}"
    for name in (
        "ip-address", "user-agent", "referer", "accept", "accept-charset", "accept-encoding", "accept-language", "geo-location",
    )
)  # fmt: skip
TRANSACTIONS_QUERY = _shape("", "date_from date_to continuation_key transaction_status strategy")


def misshapen(what: str, given: dict[str, Any], shape: Shape) -> list[str]:
    """Returns what is missing in an object, and what nobody knows."""
    required, optional = shape
    missing = [f"{what}: {name} is missing" for name in sorted(required - given.keys())]
    return missing + [f"{what}: {name} is unknown" for name in sorted(given.keys() - required - optional)]


class Refuse(Exception):
    """An error answer: `{message, code, error, detail}`."""

    def __init__(self, status: int, error: str | None, message: str, retry_after: int | None = None) -> None:
        super().__init__(message)
        self.status, self.retry_after = status, retry_after
        self.body: dict[str, Any] = {"message": message, "code": status, "error": error, "detail": None}


# The words of answers that break.
NAMED = {
    "500": Refuse(500, "ASPSP_ERROR", "Error interacting with ASPSP"),
    "408": Refuse(408, "ASPSP_TIMEOUT", "Timeout interacting with ASPSP"),
    "429": Refuse(429, None, "Too many requests", 30),
    "bank-429": Refuse(429, "ASPSP_RATE_LIMIT_EXCEEDED", "ASPSP Rate limit exceeded", 600),
}


@cache
def key_pair(name: str) -> rsa.RSAPrivateKey:
    """A key for each name, made once in a process: that takes a while."""
    return rsa.generate_private_key(public_exponent=65537, key_size=2048)


def private_pem(key: rsa.RSAPrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def public_pem(key: rsa.RSAPrivateKey) -> bytes:
    return key.public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)


def check_bearer(header: str, key: rsa.RSAPublicKey, application_id: str, now: int) -> str | None:
    """Returns what is wrong with the token of a request."""
    scheme, _, token = header.partition(" ")
    parts = token.split(".")
    if scheme != "Bearer" or len(parts) != 3:
        return "no token"
    head, claims = (json.loads(_decode(part)) for part in parts[:2])
    if head != {"typ": "JWT", "alg": "RS256", "kid": application_id}:
        return f"head {head}"
    if (claims.get("iss"), claims.get("aud")) != ("enablebanking.com", "api.enablebanking.com"):
        return f"issuer or audience {claims}"
    if claims.keys() != {"iss", "aud", "iat", "exp"} or not claims["iat"] <= now < claims["exp"]:
        return f"claims {claims} at {now}"
    if claims["exp"] - claims["iat"] > 86_400:
        return "valid for more than a day"
    try:
        key.verify(_decode(parts[2]), f"{parts[0]}.{parts[1]}".encode(), padding.PKCS1v15(), SHA256())
    except InvalidSignature:
        return "signed with another key"
    return None


def webhook_token(
    key: rsa.RSAPrivateKey, head: dict[str, Any], application_id: str, body: bytes, more: dict[str, Any]
) -> str:
    claims = {
        "sub": application_id,
        "environment": "SANDBOX",
        "msgi": "sha256-" + base64.b64encode(hashlib.sha256(body).digest()).decode(),
        **more,
    }
    signed = ".".join(_encode(json.dumps(part).encode()) for part in (head, claims))
    return f"{signed}.{_encode(key.sign(signed.encode(), padding.PKCS1v15(), SHA256()))}"


def _encode(content: bytes) -> str:
    return base64.urlsafe_b64encode(content).rstrip(b"=").decode()


def _decode(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
