"""JSON web tokens with RS256: ours, by which an application is known, and theirs, by which a webhook is."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from kontobahn.banking.provider import BadSignature
from kontobahn.banking.providers.reaching import read_key_file
from kontobahn.errors import SetupError

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey, RSAPublicKey

ISSUER, AUDIENCE = "enablebanking.com", "api.enablebanking.com"
# Clocks differ: a token is valid a little before it was made, and one of theirs a little longer than it says.
SKEW_SECONDS = 60
MAX_TOKEN_LENGTH = 8 * 1024


class _NotValidNow(Exception):
    """A certificate before its time, or after it."""


def read_public_key(content: bytes, now_seconds: int) -> RSAPublicKey:
    """From a certificate or a bare key, in PEM or DER. Raises ValueError if it is neither, or the certificate is not valid now."""
    from cryptography import x509
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
    from cryptography.hazmat.primitives.serialization import load_der_public_key, load_pem_public_key

    is_pem = b"-----BEGIN" in content
    key: Any = None
    try:
        if b"BEGIN CERTIFICATE" in content or not is_pem:
            certificate = (x509.load_pem_x509_certificate if is_pem else x509.load_der_x509_certificate)(content)
            begins, ends = certificate.not_valid_before_utc.timestamp(), certificate.not_valid_after_utc.timestamp()
            if not begins - SKEW_SECONDS <= now_seconds <= ends + SKEW_SECONDS:
                raise _NotValidNow
            key = certificate.public_key()
        else:
            key = load_pem_public_key(content)
    except _NotValidNow:
        raise ValueError("The certificate is not valid now.") from None
    except (ValueError, UnsupportedAlgorithm):
        if is_pem:
            raise ValueError("It is neither a certificate nor a public key.") from None
        key = load_der_public_key(content)
    if not isinstance(key, RSAPublicKey):
        raise ValueError("It is not an RSA key.")
    return key


def sign(key: RSAPrivateKey, application_id: str, now_seconds: int, lifetime_seconds: int) -> str:
    from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
    from cryptography.hazmat.primitives.hashes import SHA256

    head = {"typ": "JWT", "alg": "RS256", "kid": application_id}
    claims = {
        "iss": ISSUER,
        "aud": AUDIENCE,
        "iat": now_seconds - SKEW_SECONDS,
        "exp": now_seconds + lifetime_seconds,
    }
    signed = f"{_encode(msgspec.json.encode(head))}.{_encode(msgspec.json.encode(claims))}"
    return f"{signed}.{_encode(key.sign(signed.encode(), PKCS1v15(), SHA256()))}"


class Token(msgspec.Struct):
    """A token of theirs, taken apart and not checked yet."""

    signed: bytes
    signature: bytes
    # Where the key to check it is, as the token says.
    key_url: str
    claims: dict[str, Any]


def read_token(authorization: str) -> Token:
    """Raises BadSignature if a header carries no token of the form they send."""
    scheme, _, text = authorization.partition(" ")
    parts = text.strip().split(".")
    if scheme.lower() != "bearer" or len(parts) != 3 or len(text) > MAX_TOKEN_LENGTH:
        raise BadSignature("there is no token")
    try:
        head, claims = (msgspec.json.decode(_decode(part), type=dict[str, Any]) for part in parts[:2])
        signature = _decode(parts[2])
    except (ValueError, binascii.Error, msgspec.DecodeError):
        raise BadSignature("the token cannot be read") from None
    if head.get("alg") != "RS256" or not isinstance(head.get("x5u"), str):
        raise BadSignature("the token has another algorithm, or does not say where its key is")
    return Token(f"{parts[0]}.{parts[1]}".encode(), signature, head["x5u"], claims)


def check_token(token: Token, key: RSAPublicKey, application_id: str, body: bytes, now_seconds: int) -> None:
    """Raises BadSignature unless this key signed it, for this application, over this body, and not too long ago."""
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
    from cryptography.hazmat.primitives.hashes import SHA256

    try:
        key.verify(token.signature, token.signed, PKCS1v15(), SHA256())
    except InvalidSignature:
        raise BadSignature("the token was signed with another key") from None
    if token.claims.get("sub") != application_id:
        raise BadSignature("the token is for another application")
    digest = "sha256-" + base64.b64encode(hashlib.sha256(body).digest()).decode()
    said = token.claims.get("msgi")
    if not isinstance(said, str) or not hmac.compare_digest(said.encode(), digest.encode()):
        raise BadSignature("the token is for another body")
    expires = token.claims.get("exp")
    if isinstance(expires, (int, float)) and expires + SKEW_SECONDS < now_seconds:
        raise BadSignature("the token has expired")


def read_public_key_file(path: Path, now_seconds: int) -> RSAPublicKey:
    try:
        return read_public_key(read_key_file(path, "enable_banking_webhook_key"), now_seconds)
    except ValueError as error:
        raise SetupError(f"The file enable_banking_webhook_key ({path}) cannot be used: {error}") from None


def _encode(content: bytes) -> str:
    return base64.urlsafe_b64encode(content).rstrip(b"=").decode()


def _decode(text: str) -> bytes:
    return base64.b64decode(text.encode("ascii") + b"=" * (-len(text) % 4), altchars=b"-_", validate=True)
