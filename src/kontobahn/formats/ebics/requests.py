"""Requests of a subscriber: versions, keys, downloads and uploads in their phases; signed, but for those that bring the keys."""

from __future__ import annotations

import hashlib
import re
import secrets
import zlib
from datetime import UTC, date, datetime
from typing import NamedTuple

from cryptography import x509
from lxml import etree

from kontobahn.formats.ebics.documents import (
    DSIG,
    EbicsError,
    add,
    add_dsig,
    child,
    decoded,
    encoded,
    packed,
    read_document,
    text_at,
    written,
)
from kontobahn.formats.ebics.keys import (
    SHA256,
    KeyVersion,
    OwnKey,
    Protocol,
    PublicKey,
    checked,
    from_certificate,
    sign,
    sign_order,
    wrap,
)
from kontobahn.formats.ebics.services import Btf, Order
from kontobahn.sentences import said

NAMESPACES: dict[Protocol, str] = {"H005": "urn:org:ebics:H005", "H004": "urn:org:ebics:H004"}
SIGNATURES: dict[Protocol, str] = {"H005": "http://www.ebics.org/S002", "H004": "http://www.ebics.org/S001"}
HEV = "http://www.ebics.org/H000"
PRODUCT = "Kontobahn"
# Keys that are kept in files of a program.
SECURITY_MEDIUM = "0000"
_ID = re.compile(r"[a-zA-Z0-9,=]{1,35}")
_TRANSACTION_ID = re.compile(r"[0-9A-Fa-f]{32}")


class Subscriber(NamedTuple):
    """Names from the bank's data sheet: whom the bank knows, and by which version it is spoken to."""

    protocol: Protocol
    host_id: str
    partner_id: str
    user_id: str


class BankKeys(NamedTuple):
    authentication: PublicKey
    encryption: PublicKey


class Period(NamedTuple):
    first: date
    last: date


class Waiting(NamedTuple):
    """An order that waits for signatures, as requests about it name it."""

    partner_id: str
    order: Order
    order_id: str


def check_id(name: str, value: str) -> str:
    """Raises EbicsError unless it may be an id of host, partner or user."""
    if not _ID.fullmatch(value):
        raise EbicsError(said("{name} has up to 35 letters and digits, and no blanks.", name=name))
    return value


def versions_request(host_id: str) -> bytes:
    root = etree.Element(f"{{{HEV}}}ebicsHEVRequest", nsmap={None: HEV})
    add(root, "HostID", host_id)
    return written(root)


# --- Keys


def unsecured_request(subscriber: Subscriber, order_type: str, order_data: bytes) -> bytes:
    """Writes a request that brings keys, and that nothing can be signed with yet: INI and HIA."""
    root = _root(subscriber.protocol, "ebicsUnsecuredRequest", is_signed=False)
    header = add(root, "header", authenticate="true")
    static = add(header, "static")
    add(static, "HostID", subscriber.host_id)
    _add_subscriber(static, subscriber)
    _add_order_type(static, subscriber.protocol, order_type, "DZNNN")
    add(static, "SecurityMedium", SECURITY_MEDIUM)
    add(header, "mutable")
    add(add(add(root, "body"), "DataTransfer"), "OrderData", encoded(order_data))
    return written(root)


def bank_keys_request(subscriber: Subscriber, key: OwnKey, now: datetime) -> bytes:
    root = _root(subscriber.protocol, "ebicsNoPubKeyDigestsRequest")
    header = add(root, "header", authenticate="true")
    static = _add_static(header, subscriber, now)
    _add_order_type(static, subscriber.protocol, "HPB", "DZHNN")
    add(static, "SecurityMedium", SECURITY_MEDIUM)
    add(header, "mutable")
    add(root, "body")
    sign(root, key)
    return written(root)


# --- Downloads


def download_request(
    subscriber: Subscriber, key: OwnKey, bank: BankKeys, order: Order, now: datetime, *,
    period: Period | None = None, about: Waiting | None = None,
) -> bytes:  # fmt: skip
    """Begins a download: of files, of what the bank knows about the subscriber, or of orders that wait for signatures."""
    root = _root(subscriber.protocol, "ebicsRequest")
    header = add(root, "header", authenticate="true")
    static = _add_static(header, subscriber, now)
    details = _add_order_type(static, subscriber.protocol, order.type, "DZHNN")
    if about is not None:
        _add_waiting(details, f"{order.type}OrderParams", about)
    else:
        own = order.type in ("HVU", "HVZ")
        name = "BTDOrderParams" if order.service else f"{order.type}OrderParams" if own else "StandardOrderParams"
        _add_parameters(details, name, order.service, period)
    _add_bank_keys(static, subscriber.protocol, bank)
    add(static, "SecurityMedium", SECURITY_MEDIUM)
    add(add(header, "mutable"), "TransactionPhase", "Initialisation")
    add(root, "body")
    sign(root, key)
    return written(root)


def segment_request(subscriber: Subscriber, key: OwnKey, transaction_id: str, number: int, *, is_last: bool) -> bytes:
    """Asks for the next segment of a download."""
    root, mutable = _phase(subscriber, transaction_id, "Transfer")
    add(mutable, "SegmentNumber", str(number), lastSegment="true" if is_last else "false")
    sign(root, key)
    return written(root)


def receipt_request(subscriber: Subscriber, key: OwnKey, transaction_id: str, *, is_positive: bool) -> bytes:
    """Tells the bank that a download was stored, and need not be offered again; or that it was not."""
    root, _ = _phase(subscriber, transaction_id, "Receipt")
    receipt = add(root[-1], "TransferReceipt", authenticate="true")
    add(receipt, "ReceiptCode", "0" if is_positive else "1")
    sign(root, key)
    return written(root)


# --- Uploads


class Upload(NamedTuple):
    """An order on its way: `transaction_key` encrypts signature and segments. Without segments it is a signature alone."""

    order: Order
    digest: bytes
    transaction_key: bytes
    segments: int
    file_name: str = ""
    # The waiting order that it signs or cancels.
    about: Waiting | None = None
    # False if our signature must not count as a release, and only proves who sent the order.
    can_release: bool = True

    def __repr__(self) -> str:
        return f"Upload({self.order!r}, •••)"


def upload_request(
    subscriber: Subscriber, keys: tuple[OwnKey, OwnKey], bank: BankKeys, upload: Upload, now: datetime
) -> bytes:
    """Begins an upload with the keys for signature and authentication.

    A file always asks for the distributed signature: the order waits at the bank. Of a user of class T the bank takes the signature as
    proof of the sender alone; for others the request says so.
    """
    signature_key, key = keys
    root = _root(subscriber.protocol, "ebicsRequest")
    header = add(root, "header", authenticate="true")
    static = _add_static(header, subscriber, now)
    attribute = "UZHNN" if not upload.segments else "OZHNN" if upload.can_release else "DZHNN"
    details = _add_order_type(static, subscriber.protocol, upload.order.type, attribute)
    _add_upload_parameters(details, upload)
    _add_bank_keys(static, subscriber.protocol, bank)
    add(static, "SecurityMedium", SECURITY_MEDIUM)
    add(static, "NumSegments", str(upload.segments))
    add(add(header, "mutable"), "TransactionPhase", "Initialisation")
    transfer = add(add(root, "body"), "DataTransfer")
    encryption = add(transfer, "DataEncryptionInfo", authenticate="true")
    _add_digest(encryption, "EncryptionPubKeyDigest", bank.encryption, subscriber.protocol)
    add(encryption, "TransactionKey", encoded(wrap(bank.encryption, upload.transaction_key)))
    signatures = packed(user_signature(subscriber, signature_key, upload.digest), upload.transaction_key)
    add(transfer, "SignatureData", encoded(signatures), authenticate="true")
    if subscriber.protocol == "H005":
        add(transfer, "DataDigest", encoded(upload.digest), SignatureVersion=signature_key.version)
    sign(root, key)
    return written(root)


def _add_upload_parameters(details: etree._Element, upload: Upload) -> None:
    if upload.about is not None:
        _add_waiting(details, f"{upload.order.type}OrderParams", upload.about)
    elif upload.order.service is not None:
        attributes = {"fileName": upload.file_name} if upload.file_name else {}
        parameters = add(details, "BTUOrderParams", **attributes)
        _add_service(parameters, upload.order.service)
        if upload.can_release:
            add(parameters, "SignatureFlag", requestEDS="true")
    else:
        add(details, "StandardOrderParams")


def upload_segment_request(
    subscriber: Subscriber, key: OwnKey, transaction_id: str, number: int, segment: str, *, is_last: bool
) -> bytes:
    root, mutable = _phase(subscriber, transaction_id, "Transfer")
    add(mutable, "SegmentNumber", str(number), lastSegment="true" if is_last else "false")
    add(add(root[-1], "DataTransfer"), "OrderData", segment)
    sign(root, key)
    return written(root)


def user_signature(subscriber: Subscriber, key: OwnKey, digest: bytes) -> bytes:
    space = SIGNATURES[subscriber.protocol]
    root = etree.Element(f"{{{space}}}UserSignatureData", nsmap={None: space})
    data = add(root, "OrderSignatureData")
    add(data, "SignatureVersion", key.version)
    add(data, "SignatureValue", encoded(sign_order(key, digest)))
    add(data, "PartnerID", subscriber.partner_id)
    add(data, "UserID", subscriber.user_id)
    return written(root)


def signed_digest(order_data: bytes) -> bytes:
    """Returns the hash of an order's data for its signature, which does not count line ends and the mark of a file's end."""
    return hashlib.sha256(order_data.translate(None, b"\r\n\x1a")).digest()


def cancellation_data(protocol: Protocol, digest: bytes, signature_version: str) -> bytes:
    """Returns the data of HVS, which cancels an order that waits for signatures."""
    space = NAMESPACES[protocol]
    root = etree.Element(f"{{{space}}}HVSRequestOrderData", nsmap={None: space})
    add(root, "CancelledDataDigest", encoded(digest), SignatureVersion=signature_version)
    return written(root)


# --- Parts


def _root(protocol: Protocol, name: str, *, is_signed: bool = True) -> etree._Element:
    space = NAMESPACES[protocol]
    # Declared here, because it belongs to the canonical form of the header.
    spaces: dict[str | None, str] = {None: space, "ds": DSIG} if is_signed else {None: space}
    root = etree.Element(f"{{{space}}}{name}", nsmap=spaces)
    root.set("Version", protocol)
    root.set("Revision", "1")
    return root


def _add_static(header: etree._Element, subscriber: Subscriber, now: datetime) -> etree._Element:
    static = add(header, "static")
    add(static, "HostID", subscriber.host_id)
    add(static, "Nonce", secrets.token_hex(16).upper())
    add(static, "Timestamp", now.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"))
    _add_subscriber(static, subscriber)
    return static


def _add_subscriber(static: etree._Element, subscriber: Subscriber) -> None:
    add(static, "PartnerID", subscriber.partner_id)
    add(static, "UserID", subscriber.user_id)
    add(static, "Product", PRODUCT, Language="de")


def _add_order_type(static: etree._Element, protocol: Protocol, order_type: str, attribute: str) -> etree._Element:
    details = add(static, "OrderDetails")
    if protocol == "H005":
        add(details, "AdminOrderType", order_type)
    else:
        add(details, "OrderType", order_type)
        add(details, "OrderAttribute", attribute)
    return details


def _add_parameters(details: etree._Element, name: str, service: Btf | None, period: Period | None) -> None:
    parameters = add(details, name)
    if service is not None:
        _add_service(parameters, service)
    if period is not None:
        days = add(parameters, "DateRange")
        add(days, "Start", period.first.isoformat())
        add(days, "End", period.last.isoformat())


def _add_service(parent: etree._Element, service: Btf) -> None:
    made = add(parent, "Service")
    add(made, "ServiceName", service.name)
    if service.scope:
        add(made, "Scope", service.scope)
    if service.option:
        add(made, "ServiceOption", service.option)
    if service.container:
        add(made, "Container", containerType=service.container)
    attributes = {"variant": service.variant, "version": service.version, "format": service.format}
    add(made, "MsgName", service.message, **{key: value for key, value in attributes.items() if value})


def _add_waiting(details: etree._Element, name: str, about: Waiting) -> None:
    parameters = add(details, name)
    add(parameters, "PartnerID", about.partner_id)
    if about.order.service is not None:
        _add_service(parameters, about.order.service)
    else:
        add(parameters, "OrderType", about.order.type)
    add(parameters, "OrderID", about.order_id)


def _add_bank_keys(static: etree._Element, protocol: Protocol, bank: BankKeys) -> None:
    digests = add(static, "BankPubKeyDigests")
    _add_digest(digests, "Authentication", bank.authentication, protocol)
    _add_digest(digests, "Encryption", bank.encryption, protocol)


def _add_digest(parent: etree._Element, name: str, key: PublicKey, protocol: Protocol) -> None:
    add(parent, name, encoded(key.digest(protocol)), Version=key.version, Algorithm=SHA256)


def _phase(subscriber: Subscriber, transaction_id: str, phase: str) -> tuple[etree._Element, etree._Element]:
    """Returns a request of a later phase, and the part of its header that changes. Its body is the last element."""
    if not _TRANSACTION_ID.fullmatch(transaction_id):
        raise EbicsError("The bank's id of the transaction has another form than EBICS uses.")
    root = _root(subscriber.protocol, "ebicsRequest")
    header = add(root, "header", authenticate="true")
    static = add(header, "static")
    add(static, "HostID", subscriber.host_id)
    add(static, "TransactionID", transaction_id)
    mutable = add(header, "mutable")
    add(mutable, "TransactionPhase", phase)
    add(root, "body")
    return root, mutable


# Order data that carries keys: ours to the bank (INI, HIA, HCS), and the bank's to us (HPB).


_DS = f"{{{DSIG}}}"


def signature_key_data(subscriber: Subscriber, key: OwnKey) -> bytes:
    """Returns the data of INI, compressed."""
    root = _root_of_keys(SIGNATURES[subscriber.protocol], "SignaturePubKeyOrderData")
    _add_key(root, "SignaturePubKeyInfo", "SignatureVersion", key.public(), subscriber.protocol)
    return _finished(root, subscriber)


def other_keys_data(subscriber: Subscriber, authentication: OwnKey, encryption: OwnKey) -> bytes:
    """Returns the data of HIA, compressed."""
    root = _root_of_keys(NAMESPACES[subscriber.protocol], "HIARequestOrderData")
    protocol = subscriber.protocol
    _add_key(root, "AuthenticationPubKeyInfo", "AuthenticationVersion", authentication.public(), protocol)
    _add_key(root, "EncryptionPubKeyInfo", "EncryptionVersion", encryption.public(), protocol)
    return _finished(root, subscriber)


def new_keys_data(subscriber: Subscriber, keys: tuple[OwnKey, OwnKey, OwnKey]) -> bytes:
    """Returns the data of HCS: new keys for signatures, authentication and encryption, vouched for by the old ones."""
    signature, authentication, encryption = keys
    protocol = subscriber.protocol
    root = _root_of_keys(NAMESPACES[protocol], "HCSRequestOrderData")
    _add_key(root, "AuthenticationPubKeyInfo", "AuthenticationVersion", authentication.public(), protocol)
    _add_key(root, "EncryptionPubKeyInfo", "EncryptionVersion", encryption.public(), protocol)
    space = SIGNATURES[protocol]
    # Its own namespace: what is added to it follows.
    info = etree.SubElement(root, f"{{{space}}}SignaturePubKeyInfo", nsmap={None: space})
    _fill_key(info, "SignatureVersion", signature.public(), protocol)
    add(root, "PartnerID", subscriber.partner_id)
    add(root, "UserID", subscriber.user_id)
    return written(root)


def _root_of_keys(space: str, name: str) -> etree._Element:
    return etree.Element(f"{{{space}}}{name}", nsmap={None: space, "ds": DSIG})


def _finished(root: etree._Element, subscriber: Subscriber) -> bytes:
    add(root, "PartnerID", subscriber.partner_id)
    add(root, "UserID", subscriber.user_id)
    return zlib.compress(written(root))


def _add_key(root: etree._Element, name: str, version_name: str, key: PublicKey, protocol: Protocol) -> None:
    _fill_key(add(root, name), version_name, key, protocol)


def _fill_key(info: etree._Element, version_name: str, key: PublicKey, protocol: Protocol) -> None:
    if protocol == "H005":
        certificate = x509.load_der_x509_certificate(key.certificate)
        data = add_dsig(info, "X509Data")
        serial = add_dsig(data, "X509IssuerSerial")
        add_dsig(serial, "X509IssuerName", certificate.issuer.rfc4514_string())
        add_dsig(serial, "X509SerialNumber", str(certificate.serial_number))
        add_dsig(data, "X509Certificate", encoded(key.certificate))
    else:
        value = add_dsig(add(info, "PubKeyValue"), "RSAKeyValue")
        add_dsig(value, "Modulus", encoded(_binary(key.modulus)))
        add_dsig(value, "Exponent", encoded(_binary(key.exponent)))
    add(info, version_name, key.version)


def _binary(number: int) -> bytes:
    return number.to_bytes((number.bit_length() + 7) // 8, "big")


# --- The bank's keys


def read_bank_keys(content: bytes, subscriber: Subscriber) -> BankKeys:
    """Reads the data of HPB. Nothing vouches for these keys yet: a person compares their hashes with the bank's letter."""
    root = read_document(content)
    if root.tag != f"{{{NAMESPACES[subscriber.protocol]}}}HPBResponseOrderData":
        raise EbicsError("The bank's answer does not hold its keys.")
    host = text_at(root, "HostID")
    if host is not None and host != subscriber.host_id:
        raise EbicsError(said("The keys are those of another host ({host}).", host=host[:35]))
    return BankKeys(
        _key(root, "AuthenticationPubKeyInfo", "AuthenticationVersion", "X002"),
        _key(root, "EncryptionPubKeyInfo", "EncryptionVersion", "E002"),
    )


def _key(root: etree._Element, name: str, version_name: str, version: KeyVersion) -> PublicKey:
    info = child(root, name)
    if info is None or text_at(info, version_name) != version:
        raise EbicsError(said("The bank's answer does not hold its key {version}.", version=version))
    certificate = info.findtext(f"{_DS}X509Data/{_DS}X509Certificate")
    if certificate:
        return from_certificate(version, decoded(certificate))
    value = child(info, "PubKeyValue")
    modulus = None if value is None else value.findtext(f"{_DS}RSAKeyValue/{_DS}Modulus")
    exponent = None if value is None else value.findtext(f"{_DS}RSAKeyValue/{_DS}Exponent")
    if not modulus or not exponent:
        raise EbicsError(said("The bank's answer does not hold its key {version}.", version=version))
    numbers = int.from_bytes(decoded(modulus), "big"), int.from_bytes(decoded(exponent), "big")
    return checked(PublicKey(version, *numbers))
