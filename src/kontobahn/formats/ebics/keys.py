"""Keys of a subscriber and of a bank: signature (A005, A006), authentication (X002), encryption (E002), and their hashes.

Version 3.0 carries a key in a certificate, self-signed by whoever has it, and is compared by the certificate's hash; version 2.5
carries modulus and exponent, and is compared by the hash over these.
"""

from __future__ import annotations

import hashlib
import re
import secrets
from datetime import datetime, timedelta
from typing import Literal, NamedTuple

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding, rsa
from cryptography.hazmat.primitives.asymmetric.utils import Prehashed
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_der_private_key,
)
from cryptography.x509.oid import NameOID
from lxml import etree

from kontobahn.formats.ebics.documents import (
    DSIG,
    EbicsError,
    add,
    add_dsig,
    at,
    canonical,
    child,
    decoded,
    encoded,
    local,
)
from kontobahn.sentences import said

Protocol = Literal["H004", "H005"]
KeyVersion = Literal["A005", "A006", "X002", "E002"]
BITS, MIN_BITS, MAX_BITS = 3072, 2048, 8192
# The bank compares keys on paper, so the end of the certificate is only a formality; a renewal would need paper again.
VALID = timedelta(days=3650)
_USAGES = {
    "A005": "content_commitment",
    "A006": "content_commitment",
    "X002": "digital_signature",
    "E002": "key_encipherment",
}
_HEX = re.compile(r"[0-9a-f]{64}")


class OwnKey(NamedTuple):
    """A key of ours, as it is sealed: PKCS#8 and, for version 3.0, the certificate, both DER."""

    version: KeyVersion
    private: bytes
    certificate: bytes

    def __repr__(self) -> str:
        return f"OwnKey({self.version}, •••)"

    def private_key(self) -> rsa.RSAPrivateKey:
        # Nobody but us made it, and checking its primes again takes longer than all else.
        key = load_der_private_key(self.private, None, unsafe_skip_rsa_key_validation=True)
        assert isinstance(key, rsa.RSAPrivateKey)
        return key

    def public(self) -> PublicKey:
        numbers = self.private_key().public_key().public_numbers()
        return PublicKey(self.version, numbers.n, numbers.e, self.certificate)


class PublicKey(NamedTuple):
    version: KeyVersion
    modulus: int
    exponent: int
    # Empty in version 2.5.
    certificate: bytes = b""

    def rsa_key(self) -> rsa.RSAPublicKey:
        return rsa.RSAPublicNumbers(self.exponent, self.modulus).public_key()

    def digest(self, protocol: Protocol) -> bytes:
        """Returns the hash that requests name and letters show."""
        if protocol == "H005":
            if not self.certificate:
                raise EbicsError(
                    said("The key {version} has no certificate, which version 3.0 asks for.", version=self.version)
                )
            return hashlib.sha256(self.certificate).digest()
        return hashlib.sha256(f"{self.exponent:x} {self.modulus:x}".encode("ascii")).digest()


def new_key(version: KeyVersion, common_name: str, now: datetime, bits: int | None = None) -> OwnKey:
    key = _make(bits or BITS)
    return OwnKey(
        version,
        key.private_bytes(Encoding.DER, PrivateFormat.PKCS8, NoEncryption()),
        _self_signed(key, version, common_name, now).public_bytes(Encoding.DER),
    )


def _make(bits: int) -> rsa.RSAPrivateKey:
    return rsa.generate_private_key(65537, bits)


def _self_signed(key: rsa.RSAPrivateKey, version: KeyVersion, common_name: str, now: datetime) -> x509.Certificate:
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name[:64])])
    usages = dict.fromkeys(
        (
            "digital_signature", "content_commitment", "key_encipherment", "data_encipherment", "key_agreement",
            "key_cert_sign", "crl_sign", "encipher_only", "decipher_only",
        ),
        False,
    )  # fmt: skip
    usages[_USAGES[version]] = True
    # A day back: the bank's clock may be behind ours.
    begins = now.replace(microsecond=0) - timedelta(days=1)
    return (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(secrets.randbits(63) + 1)
        .not_valid_before(begins)
        .not_valid_after(begins + VALID)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.KeyUsage(**usages), critical=True)
        .sign(key, hashes.SHA256())
    )


def from_certificate(version: KeyVersion, der: bytes) -> PublicKey:
    """Raises EbicsError unless it is a certificate with an RSA key of a length that is allowed."""
    try:
        key = x509.load_der_x509_certificate(der).public_key()
    except ValueError:
        raise EbicsError(said("The certificate of the key {version} cannot be read.", version=version)) from None
    if not isinstance(key, rsa.RSAPublicKey):
        raise EbicsError(said("The key {version} is not an RSA key.", version=version))
    numbers = key.public_numbers()
    return checked(PublicKey(version, numbers.n, numbers.e, der))


def checked(key: PublicKey) -> PublicKey:
    """Raises EbicsError if the key is too short, or no RSA key at all."""
    bits = key.modulus.bit_length()
    if not MIN_BITS <= bits <= MAX_BITS:
        raise EbicsError(
            said(
                "The key {version} has {bits} bits; at least {least} are needed.",
                version=key.version,
                bits=bits,
                least=MIN_BITS,
            )
        )
    try:
        key.rsa_key()
    except ValueError:
        raise EbicsError(said("The key {version} is not an RSA key.", version=key.version)) from None
    return key


def grouped(digest: bytes) -> str:
    """Returns a hash as letters show it: pairs of hexadecimal digits, two lines of sixteen pairs."""
    pairs = [f"{byte:02X}" for byte in digest]
    return "\n".join(" ".join(pairs[start : start + 16]) for start in range(0, len(pairs), 16))


def typed_digest(text: str) -> bytes:
    """Reads a hash that somebody copied from paper. Raises EbicsError unless it has 64 hexadecimal digits."""
    digits = re.sub(r"[\s:.-]", "", text).lower()
    if not _HEX.fullmatch(digits):
        raise EbicsError("A hash has 64 digits from 0 to 9 and A to F.")
    return bytes.fromhex(digits)


# --- Signatures


_PSS = padding.PSS(padding.MGF1(hashes.SHA256()), hashes.SHA256().digest_size)


def sign_authentication(key: OwnKey, message: bytes) -> bytes:
    return key.private_key().sign(message, padding.PKCS1v15(), hashes.SHA256())


def is_authentic(key: PublicKey, message: bytes, signature: bytes) -> bool:
    try:
        key.rsa_key().verify(signature, message, padding.PKCS1v15(), hashes.SHA256())
    except InvalidSignature:
        return False
    return True


def sign_order(key: OwnKey, digest: bytes) -> bytes:
    """Signs an order by the hash of its data. For A006 the hash is the message, and is hashed again."""
    if key.version == "A005":
        return key.private_key().sign(digest, padding.PKCS1v15(), Prehashed(hashes.SHA256()))
    return key.private_key().sign(digest, _PSS, hashes.SHA256())


def wrap(key: PublicKey, secret: bytes) -> bytes:
    return key.rsa_key().encrypt(secret, padding.PKCS1v15())


def unwrap(key: OwnKey, wrapped: bytes) -> bytes:
    try:
        return key.private_key().decrypt(wrapped, padding.PKCS1v15())
    except ValueError:
        raise EbicsError("The key of the data cannot be opened: it was made for another key than ours.") from None


# The signature X002 over a message: made over every element marked `authenticate`, and checked with no room for
# wrapping.
#
# A signature says nothing about elements that are not marked, so each place of a mark is known here, and what a reader
# takes from an answer must be in one of them.


C14N = "http://www.w3.org/TR/2001/REC-xml-c14n-20010315"
RSA_SHA256 = "http://www.w3.org/2001/04/xmldsig-more#rsa-sha256"
SHA256 = "http://www.w3.org/2001/04/xmlenc#sha256"
REFERENCE = "#xpointer(//*[@authenticate='true'])"
# The paths below the root at which an answer may have marked elements.
_PLACES = frozenset(
    {
        "header", "body/DataTransfer/DataEncryptionInfo", "body/DataTransfer/SignatureData", "body/ReturnCode",
        "body/TimestampBankParameter",
    }
)  # fmt: skip
_DS = f"{{{DSIG}}}"


def sign(root: etree._Element, key: OwnKey) -> None:
    """Puts the signature behind the header. Everything else must be there already."""
    signature = add(root, "AuthSignature")
    header = child(root, "header")
    assert header is not None
    header.addnext(signature)
    info = add_dsig(signature, "SignedInfo")
    add_dsig(info, "CanonicalizationMethod", Algorithm=C14N)
    add_dsig(info, "SignatureMethod", Algorithm=RSA_SHA256)
    reference = add_dsig(info, "Reference", URI=REFERENCE)
    add_dsig(add_dsig(reference, "Transforms"), "Transform", Algorithm=C14N)
    add_dsig(reference, "DigestMethod", Algorithm=SHA256)
    add_dsig(reference, "DigestValue", encoded(_digest(_marked(root))))
    add_dsig(signature, "SignatureValue", encoded(sign_authentication(key, canonical([info]))))


def check(root: etree._Element, key: PublicKey) -> None:
    """Raises EbicsError unless the bank with this key signed exactly what is to be read."""
    marked = _marked(root)
    paths = [_path(node) for node in marked]
    if "header" not in paths or len(set(paths)) != len(paths) or not set(paths) <= _PLACES:
        raise EbicsError("The signature of the answer covers other parts than those that count.")
    for needed in ("body/ReturnCode", "body/DataTransfer/DataEncryptionInfo"):
        if at(root, *needed.split("/")) is not None and needed not in paths:
            raise EbicsError("The signature of the answer does not cover all parts that count.")
    if sum(local(node) == "AuthSignature" for node in root.iter()) != 1:
        raise EbicsError("The answer does not have one signature.")
    signature = child(root, "AuthSignature")
    if signature is None or signature.getprevious() is None or local(signature.getprevious()) != "header":  # type: ignore[arg-type]
        raise EbicsError("The signature of the answer is not where it belongs.")
    info = _check_shape(signature)
    digest = info.findtext(f"{_DS}Reference/{_DS}DigestValue") or ""
    if decoded(digest) != _digest(marked):
        raise EbicsError("The answer has been changed after the bank signed it.")
    value = signature.findtext(f"{_DS}SignatureValue") or ""
    if not is_authentic(key, canonical([info]), decoded(value)):
        raise EbicsError("The answer is not signed with the bank's key that was compared.")


def _check_shape(signature: etree._Element) -> etree._Element:
    """Returns what is signed, if it is one reference to the marked elements by the algorithms of the protocol."""
    info = signature.find(f"{_DS}SignedInfo")
    if info is None or [local(node) for node in signature] != ["SignedInfo", "SignatureValue"]:
        raise EbicsError("The signature of the answer has another form than EBICS uses.")
    wanted = [
        (f"{_DS}CanonicalizationMethod", "Algorithm", C14N),
        (f"{_DS}SignatureMethod", "Algorithm", RSA_SHA256),
        (f"{_DS}Reference", "URI", REFERENCE),
        (f"{_DS}Reference/{_DS}Transforms/{_DS}Transform", "Algorithm", C14N),
        (f"{_DS}Reference/{_DS}DigestMethod", "Algorithm", SHA256),
    ]
    for path, attribute, value in wanted:
        found = info.findall(path)
        if len(found) != 1 or found[0].get(attribute) != value:
            raise EbicsError("The signature of the answer is made in another way than EBICS uses.")
    if len(info) != 3 or len(info.findall(f"{_DS}Reference/{_DS}DigestValue")) != 1:
        raise EbicsError("The signature of the answer has another form than EBICS uses.")
    return info


def _marked(root: etree._Element) -> list[etree._Element]:
    return [node for node in root.iter() if node.get("authenticate") == "true"]


def _path(node: etree._Element) -> str:
    names = [local(node), *(local(above) for above in node.iterancestors())]
    return "/".join(reversed(names[:-1]))


def _digest(nodes: list[etree._Element]) -> bytes:
    return hashlib.sha256(canonical(nodes)).digest()
