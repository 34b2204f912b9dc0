"""Order data that carries keys: ours to the bank (INI, HIA, HCS), and the bank's to us (HPB)."""

from __future__ import annotations

import zlib

from cryptography import x509
from lxml import etree

from kontobahn.formats.ebics.documents import DSIG, EbicsError, add, add_dsig, child, read_document, text_at, written
from kontobahn.formats.ebics.keys import KeyVersion, OwnKey, Protocol, PublicKey, checked, from_certificate
from kontobahn.formats.ebics.payloads import decoded, encoded
from kontobahn.formats.ebics.requests import NAMESPACES, SIGNATURES, BankKeys, Subscriber
from kontobahn.sentences import said

_DS = f"{{{DSIG}}}"


def signature_key_data(subscriber: Subscriber, key: OwnKey) -> bytes:
    """Returns the data of INI, compressed."""
    root = _root(SIGNATURES[subscriber.protocol], "SignaturePubKeyOrderData")
    _add_key(root, "SignaturePubKeyInfo", "SignatureVersion", key.public(), subscriber.protocol)
    return _finished(root, subscriber)


def other_keys_data(subscriber: Subscriber, authentication: OwnKey, encryption: OwnKey) -> bytes:
    """Returns the data of HIA, compressed."""
    root = _root(NAMESPACES[subscriber.protocol], "HIARequestOrderData")
    protocol = subscriber.protocol
    _add_key(root, "AuthenticationPubKeyInfo", "AuthenticationVersion", authentication.public(), protocol)
    _add_key(root, "EncryptionPubKeyInfo", "EncryptionVersion", encryption.public(), protocol)
    return _finished(root, subscriber)


def new_keys_data(subscriber: Subscriber, keys: tuple[OwnKey, OwnKey, OwnKey]) -> bytes:
    """Returns the data of HCS: new keys for signatures, authentication and encryption, vouched for by the old ones."""
    signature, authentication, encryption = keys
    protocol = subscriber.protocol
    root = _root(NAMESPACES[protocol], "HCSRequestOrderData")
    _add_key(root, "AuthenticationPubKeyInfo", "AuthenticationVersion", authentication.public(), protocol)
    _add_key(root, "EncryptionPubKeyInfo", "EncryptionVersion", encryption.public(), protocol)
    space = SIGNATURES[protocol]
    # Its own namespace: what is added to it follows.
    info = etree.SubElement(root, f"{{{space}}}SignaturePubKeyInfo", nsmap={None: space})
    _fill_key(info, "SignatureVersion", signature.public(), protocol)
    add(root, "PartnerID", subscriber.partner_id)
    add(root, "UserID", subscriber.user_id)
    return written(root)


def _root(space: str, name: str) -> etree._Element:
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
