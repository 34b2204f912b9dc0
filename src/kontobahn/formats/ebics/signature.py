"""The signature X002 over a message: made over every element marked `authenticate`, and checked with no room for wrapping.

A signature says nothing about elements that are not marked, so each place of a mark is known here, and what a reader takes from an
answer must be in one of them.
"""

from __future__ import annotations

import hashlib

from lxml import etree

from kontobahn.formats.ebics.documents import (
    DSIG,
    EbicsError,
    add,
    add_dsig,
    at,
    canonical,
    child,
    local,
)
from kontobahn.formats.ebics.keys import OwnKey, PublicKey, is_authentic, sign_authentication
from kontobahn.formats.ebics.payloads import decoded, encoded

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
