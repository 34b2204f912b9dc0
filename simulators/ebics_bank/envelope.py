"""Messages as they go over the wire: requests read and their signatures checked, answers written and signed. H004 and H005."""

from __future__ import annotations

import base64
import binascii
import hashlib
from dataclasses import dataclass, field
from datetime import date

from lxml import etree

from simulators.ebics_bank import secrecy
from simulators.ebics_bank.codes import Refusal

NAMESPACES = {"H004": "urn:org:ebics:H004", "H005": "urn:org:ebics:H005"}
SIGNATURES = {"H004": "http://www.ebics.org/S001", "H005": "http://www.ebics.org/S002"}
HEV = "http://www.ebics.org/H000"
DS = "http://www.w3.org/2000/09/xmldsig#"
_C14N = "http://www.w3.org/TR/2001/REC-xml-c14n-20010315"
_RSA = "http://www.w3.org/2001/04/xmldsig-more#rsa-sha256"
_MARKED = "//*[@authenticate='true']"


@dataclass(frozen=True)
class Service:
    """A business transaction format: the words that H005 names an order by."""

    name: str
    message: str
    scope: str = ""
    option: str = ""
    container: str = ""
    version: str = ""


@dataclass
class Request:
    root: etree._Element
    version: str
    kind: str
    host: str
    partner: str
    user: str
    order_type: str
    attribute: str
    service: Service | None
    params: etree._Element | None
    dates: tuple[date, date] | None
    phase: str
    transaction: str
    nonce: str
    segments: int
    segment: int
    is_last: bool
    order_data: str
    signature_data: str
    key: bytes
    bank_digests: dict[str, bytes] = field(default_factory=dict)
    data_digest: bytes = b""
    receipt: str = ""
    requests_eds: bool = False
    has_signature_flag: bool = False


def parse(content: bytes) -> etree._Element:
    parser = etree.XMLParser(resolve_entities=False, no_network=True, load_dtd=False, remove_comments=False)
    try:
        root = etree.fromstring(content, parser)
    except etree.XMLSyntaxError as error:
        raise Refusal("091010") from error
    if root.getroottree().docinfo.doctype:
        raise Refusal("091010")
    return root


def find(element: etree._Element | None, *names: str) -> etree._Element | None:
    """The element at that path, by local names."""
    for name in names:
        if element is None:
            return None
        element = next(
            (child for child in element if isinstance(child.tag, str) and etree.QName(child).localname == name), None
        )
    return element


def text(element: etree._Element | None, *names: str) -> str:
    found = find(element, *names)
    return "" if found is None else (found.text or "").strip()


def decoded(value: str) -> bytes:
    try:
        return base64.b64decode("".join(value.split()), validate=True)
    except binascii.Error as error:
        raise Refusal("091010") from error


def read(root: etree._Element) -> Request:
    header, body = find(root, "header"), find(root, "body")
    version = root.get("Version", "")
    if version not in NAMESPACES or etree.QName(root).namespace != NAMESPACES[version] or header is None:
        raise Refusal("061002")
    static, mutable = find(header, "static"), find(header, "mutable")
    details = find(static, "OrderDetails")
    params = None
    if details is not None:
        params = next((child for child in details if etree.QName(child).localname.endswith("OrderParams")), None)
    transfer, number = find(body, "DataTransfer"), find(mutable, "SegmentNumber")
    digests = find(static, "BankPubKeyDigests")
    flag = find(params, "SignatureFlag")
    return Request(
        root=root,
        version=version,
        kind=etree.QName(root).localname,
        host=text(static, "HostID"),
        partner=text(static, "PartnerID"),
        user=text(static, "UserID"),
        order_type=text(details, "AdminOrderType" if version == "H005" else "OrderType"),
        attribute=text(details, "OrderAttribute"),
        service=service_of(find(params, "Service")),
        params=params,
        dates=_dates(find(params, "DateRange")),
        phase=text(mutable, "TransactionPhase"),
        transaction=text(static, "TransactionID").upper(),
        nonce=text(static, "Nonce"),
        segments=_number(text(static, "NumSegments")),
        segment=_number(text(mutable, "SegmentNumber")),
        is_last=number is not None and number.get("lastSegment") in ("true", "1"),
        order_data="".join(text(transfer, "OrderData").split()),
        signature_data="".join(text(transfer, "SignatureData").split()),
        key=decoded(text(transfer, "DataEncryptionInfo", "TransactionKey")),
        bank_digests={name: decoded(text(digests, name)) for name in ("Authentication", "Encryption")},
        data_digest=decoded(text(transfer, "DataDigest")),
        receipt=text(body, "TransferReceipt", "ReceiptCode"),
        requests_eds=flag is not None and flag.get("requestEDS") in ("true", "1"),
        has_signature_flag=flag is not None,
    )


def _number(value: str) -> int:
    if value and not value.isdecimal():
        raise Refusal("091010")
    return int(value or 0)


def _dates(element: etree._Element | None) -> tuple[date, date] | None:
    if element is None:
        return None
    try:
        return date.fromisoformat(text(element, "Start")[:10]), date.fromisoformat(text(element, "End")[:10])
    except ValueError as error:
        raise Refusal("091112") from error


def service_of(element: etree._Element | None) -> Service | None:
    if element is None:
        return None
    container, message = find(element, "Container"), find(element, "MsgName")
    return Service(
        name=text(element, "ServiceName"),
        message=text(element, "MsgName"),
        scope=text(element, "Scope"),
        option=text(element, "ServiceOption"),
        container="" if container is None else container.get("containerType", ""),
        version="" if message is None else message.get("version", ""),
    )


# --- The authentication signature


def _canonical(element: etree._Element) -> bytes:
    """Inclusive canonical XML of one element with every namespace in scope.

    It is read anew by itself before: of an element inside a document, libxml2 writes namespaces that are not there.
    """
    alone = etree.fromstring(etree.tostring(element, with_tail=False), etree.XMLParser(resolve_entities=False))
    return etree.tostring(alone, method="c14n")


def _marked(root: etree._Element) -> bytes:
    """The canonical form of all that is marked, each part once."""
    chosen = root.xpath(_MARKED)
    assert isinstance(chosen, list)
    elements = [element for element in chosen if isinstance(element, etree._Element)]
    inner = {element for element in elements if any(above in elements for above in element.iterancestors())}
    return b"".join(_canonical(element) for element in elements if element not in inner)


def is_authentic(root: etree._Element, key: secrecy.PublicKey) -> bool:
    """Tells whether the signature beside the header is that key's, over what is marked; the header itself has to be."""
    header, signature = find(root, "header"), find(root, "AuthSignature")
    info = find(signature, "SignedInfo")
    if header is None or header.get("authenticate") != "true" or signature is None or info is None:
        return False
    reference = find(info, "Reference")
    if reference is None or reference.get("URI") != f"#xpointer({_MARKED})":
        return False
    if base64.b64decode(text(reference, "DigestValue")) != hashlib.sha256(_marked(root)).digest():
        return False
    value = base64.b64decode("".join(text(signature, "SignatureValue").split()))
    return secrecy.message_is_signed(_canonical(info), value, key)


def sign(root: etree._Element, key: secrecy.OwnKey) -> None:
    header = find(root, "header")
    assert header is not None
    signature = etree.Element(f"{{{etree.QName(root).namespace}}}AuthSignature")
    root.insert(root.index(header) + 1, signature)
    info = etree.SubElement(signature, f"{{{DS}}}SignedInfo")
    etree.SubElement(info, f"{{{DS}}}CanonicalizationMethod", Algorithm=_C14N)
    etree.SubElement(info, f"{{{DS}}}SignatureMethod", Algorithm=_RSA)
    reference = etree.SubElement(info, f"{{{DS}}}Reference", URI=f"#xpointer({_MARKED})")
    transforms = etree.SubElement(reference, f"{{{DS}}}Transforms")
    etree.SubElement(transforms, f"{{{DS}}}Transform", Algorithm=_C14N)
    etree.SubElement(reference, f"{{{DS}}}DigestMethod", Algorithm=secrecy.SHA256)
    digest = hashlib.sha256(_marked(root)).digest()
    etree.SubElement(reference, f"{{{DS}}}DigestValue").text = base64.b64encode(digest).decode()
    value = secrecy.sign_message(_canonical(info), key)
    etree.SubElement(signature, f"{{{DS}}}SignatureValue").text = base64.b64encode(value).decode()


# --- Answers


def new_root(version: str, name: str, *, is_envelope: bool = True) -> etree._Element:
    namespace = NAMESPACES[version]
    root = etree.Element(f"{{{namespace}}}{name}", nsmap={None: namespace, "ds": DS})
    if is_envelope:
        root.set("Version", version)
        root.set("Revision", "1")
    return root


def add(parent: etree._Element, name: str, value: str | None = None, **attributes: str) -> etree._Element:
    element = etree.SubElement(parent, f"{{{etree.QName(parent).namespace}}}{name}", attributes)
    element.text = value
    return element


def encrypted_for(parent: etree._Element, version: str, key: secrecy.PublicKey, secret: bytes) -> None:
    """Adds the secret of the order data, wrapped for the key that it names."""
    info = add(parent, "DataEncryptionInfo", authenticate="true")
    digest = base64.b64encode(key.digest(version)).decode()
    add(info, "EncryptionPubKeyDigest", digest, Version=key.version, Algorithm=secrecy.SHA256)
    add(info, "TransactionKey", base64.b64encode(secrecy.wrap(secret, key)).decode())


def add_key(parent: etree._Element, role: str, key: secrecy.PublicKey, version: str) -> None:
    """Adds a public key: in its certificate since H005, as numbers before."""
    info = add(parent, f"{role}PubKeyInfo")
    if version == "H005":
        data = etree.SubElement(info, f"{{{DS}}}X509Data")
        serial = etree.SubElement(data, f"{{{DS}}}X509IssuerSerial")
        issuer, number = secrecy.issuer_and_serial(key.certificate)
        etree.SubElement(serial, f"{{{DS}}}X509IssuerName").text = issuer
        etree.SubElement(serial, f"{{{DS}}}X509SerialNumber").text = number
        etree.SubElement(data, f"{{{DS}}}X509Certificate").text = base64.b64encode(key.certificate).decode()
    else:
        numbers = etree.SubElement(add(info, "PubKeyValue"), f"{{{DS}}}RSAKeyValue")
        of = key.rsa.public_numbers()
        for name, value in (("Modulus", of.n), ("Exponent", of.e)):
            raw = value.to_bytes((value.bit_length() + 7) // 8, "big")
            etree.SubElement(numbers, f"{{{DS}}}{name}").text = base64.b64encode(raw).decode()
    add(info, f"{role}Version", key.version)


def key_from(parent: etree._Element, role: str) -> secrecy.PublicKey:
    """Reads a public key from order data."""
    info = find(parent, f"{role}PubKeyInfo")
    if info is None:
        info = find(parent, f"{role}CertificateInfo")
    version = text(info, f"{role}Version")
    certificate = text(info, "X509Data", "X509Certificate")
    if certificate:
        return secrecy.key_of_certificate(version, decoded(certificate))
    numbers = find(info, "PubKeyValue", "RSAKeyValue")
    if numbers is None:
        raise Refusal("090004")
    return secrecy.key_of_numbers(version, decoded(text(numbers, "Modulus")), decoded(text(numbers, "Exponent")))


def serialised(root: etree._Element) -> bytes:
    return etree.tostring(root, xml_declaration=True, encoding="UTF-8")
