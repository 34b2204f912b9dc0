"""Keys, digests, signatures and encryption as EBICS has them: A005 and A006, X002, E002."""

from __future__ import annotations

import base64
import functools
import hashlib
import os
import zlib
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import padding, rsa
from cryptography.hazmat.primitives.asymmetric.utils import Prehashed
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.x509.oid import NameOID

SHA256 = "http://www.w3.org/2001/04/xmlenc#sha256"
_PSS = padding.PSS(mgf=padding.MGF1(hashes.SHA256()), salt_length=32)


@dataclass(frozen=True)
class PublicKey:
    """A key as it was sent: its version (A006, X002, E002), and its certificate if it came in one."""

    version: str
    rsa: rsa.RSAPublicKey
    certificate: bytes = b""

    def letter_hash(self) -> bytes:
        """The hash over exponent and modulus, as the letters of the older version print it."""
        numbers = self.rsa.public_numbers()
        return hashlib.sha256(f"{numbers.e:x} {numbers.n:x}".encode()).digest()

    def digest(self, protocol: str) -> bytes:
        """The hash that messages name this key by: of the certificate since H005."""
        return hashlib.sha256(self.certificate).digest() if protocol == "H005" else self.letter_hash()


@dataclass(frozen=True)
class OwnKey:
    private: rsa.RSAPrivateKey
    public: PublicKey


@functools.cache
def usual_key(version: str, name: str) -> OwnKey:
    """The key that every bank of this process begins with: making one takes long."""
    return new_key(version, name)


def new_key(version: str, name: str) -> OwnKey:
    """A key of the bank's own with a certificate that it signs itself."""
    private = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    start = datetime(2026, 1, 1, tzinfo=UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(private.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(start)
        .not_valid_after(start + timedelta(days=3650))
        .sign(private, hashes.SHA256())
    )
    der = certificate.public_bytes(serialization.Encoding.DER)
    return OwnKey(private, PublicKey(version, private.public_key(), der))


def key_of_certificate(version: str, der: bytes) -> PublicKey:
    public = x509.load_der_x509_certificate(der).public_key()
    if not isinstance(public, rsa.RSAPublicKey):
        raise ValueError("a certificate without an RSA key")
    return PublicKey(version, public, der)


def key_of_numbers(version: str, modulus: bytes, exponent: bytes) -> PublicKey:
    numbers = rsa.RSAPublicNumbers(int.from_bytes(exponent, "big"), int.from_bytes(modulus, "big"))
    return PublicKey(version, numbers.public_key())


def issuer_and_serial(der: bytes) -> tuple[str, str]:
    certificate = x509.load_der_x509_certificate(der)
    return certificate.issuer.rfc4514_string(), str(certificate.serial_number)


# --- Signatures


def order_digest(content: bytes) -> bytes:
    """The hash that an order is signed by; line ends and the old end-of-file mark do not count."""
    return hashlib.sha256(content.translate(None, b"\r\n\x1a")).digest()


def order_is_signed(digest: bytes, signature: bytes, key: PublicKey) -> bool:
    try:
        if key.version == "A005":
            key.rsa.verify(signature, digest, padding.PKCS1v15(), Prehashed(hashes.SHA256()))
        else:
            # The digest is the message, and is hashed once more.
            key.rsa.verify(signature, digest, _PSS, hashes.SHA256())
    except InvalidSignature:
        return False
    return True


def message_is_signed(content: bytes, signature: bytes, key: PublicKey) -> bool:
    try:
        key.rsa.verify(signature, content, padding.PKCS1v15(), hashes.SHA256())
    except InvalidSignature:
        return False
    return True


def sign_message(content: bytes, key: OwnKey) -> bytes:
    return key.private.sign(content, padding.PKCS1v15(), hashes.SHA256())


# --- Encryption


def encrypt(content: bytes, secret: bytes) -> str:
    """Compresses, pads, encrypts and encodes."""
    packed = zlib.compress(content)
    fill = 16 - len(packed) % 16
    packed += bytes(fill - 1) + bytes([fill])
    cipher = Cipher(algorithms.AES(secret), modes.CBC(bytes(16))).encryptor()
    return base64.b64encode(cipher.update(packed) + cipher.finalize()).decode()


def decrypt(text: str, secret: bytes) -> bytes:
    """Undoes `encrypt`; ValueError or zlib.error if that is not what it is."""
    cipher = Cipher(algorithms.AES(secret), modes.CBC(bytes(16))).decryptor()
    padded = cipher.update(base64.b64decode(text)) + cipher.finalize()
    if not padded or not 1 <= padded[-1] <= 16:
        raise ValueError("wrong padding")
    return zlib.decompress(padded[: -padded[-1]])


def new_secret() -> bytes:
    return os.urandom(16)


def wrap(secret: bytes, key: PublicKey) -> bytes:
    return key.rsa.encrypt(secret, padding.PKCS1v15())


def unwrap(wrapped: bytes, key: OwnKey) -> bytes:
    secret = key.private.decrypt(wrapped, padding.PKCS1v15())
    if len(secret) != 16:
        raise ValueError("no AES-128 key")
    return secret
