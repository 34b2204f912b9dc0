"""Answers of a bank: return codes, the transaction and its segments; trusted only as far as the bank has signed them."""

from __future__ import annotations

from typing import Literal, NamedTuple

from lxml import etree

from kontobahn.formats.ebics.documents import EbicsError, at, local, read_document, text_at
from kontobahn.formats.ebics.keys import Protocol, PublicKey
from kontobahn.formats.ebics.payloads import decoded
from kontobahn.formats.ebics.requests import HEV, NAMESPACES
from kontobahn.formats.ebics.return_codes import OK
from kontobahn.formats.ebics.signature import check
from kontobahn.sentences import said

MAX_SEGMENTS = 10_000


class Answer(NamedTuple):
    # Of the step, and of the order; the second is missing where the first is not OK.
    technical: str
    business: str
    text: str
    transaction_id: str | None
    phase: str | None
    segments: int | None
    segment: int | None
    is_last: bool
    order_id: str | None
    # The segment, in base64, and the wrapped key of the data.
    order_data: str | None
    transaction_key: bytes | None

    def __repr__(self) -> str:
        return f"Answer({self.technical}, {self.business})"

    @property
    def code(self) -> str:
        """The code that decides."""
        return self.technical if self.technical != OK else self.business


class NotSigned(EbicsError):
    """An answer that the bank has not signed with the key that was compared. `code` is what it says, which nobody vouches for."""

    def __init__(self, message: str, code: str) -> None:
        super().__init__(message)
        self.code = code


def read_answer(content: bytes, protocol: Protocol, key: PublicKey) -> Answer:
    """Reads an answer to a signed request. Raises NotSigned if it is not the bank's."""
    root = _root(content, protocol, "ebicsResponse")
    answer = _answer(root)
    try:
        check(root, key)
    except EbicsError as error:
        raise NotSigned(str(error), answer.code) from None
    return answer


def read_key_answer(content: bytes, protocol: Protocol) -> Answer:
    """Reads an answer to INI, HIA or HPB, which banks do not sign."""
    return _answer(_root(content, protocol, "ebicsKeyManagementResponse"))


def read_versions(content: bytes) -> dict[Protocol, str]:
    """Returns the versions that a bank speaks. Raises EbicsError if it is no answer, or knows no such host."""
    root = read_document(content)
    if root.tag != f"{{{HEV}}}ebicsHEVResponse":
        raise EbicsError("The answer is not one about versions of EBICS.")
    code = text_at(root, "SystemReturnCode", "ReturnCode") or ""
    if code != OK:
        raise EbicsError(f"{text_at(root, 'SystemReturnCode', 'ReportText') or 'The bank refused'} ({code})")
    found: dict[Protocol, str] = {}
    for node in root.findall(f"{{{HEV}}}VersionNumber"):
        version: str = node.get("ProtocolVersion") or ""
        if version in ("H004", "H005"):
            found[_protocol(version)] = (node.text or "").strip()
    return found


def _protocol(version: str) -> Protocol:
    name: Literal["H004", "H005"] = "H005" if version == "H005" else "H004"
    return name


def _root(content: bytes, protocol: Protocol, name: str) -> etree._Element:
    root = read_document(content)
    if root.tag != f"{{{NAMESPACES[protocol]}}}{name}":
        raise EbicsError(said("The answer is not an {name} of {protocol}.", name=name, protocol=protocol))
    if [local(node) for node in root if local(node) != "AuthSignature"] != ["header", "body"]:
        raise EbicsError("The answer has other parts than EBICS uses.")
    return root


def _answer(root: etree._Element) -> Answer:
    segment = at(root, "header", "mutable", "SegmentNumber")
    key = text_at(root, "body", "DataTransfer", "DataEncryptionInfo", "TransactionKey")
    technical = text_at(root, "header", "mutable", "ReturnCode")
    if technical is None:
        raise EbicsError("The answer has no return code.")
    return Answer(
        technical=technical,
        business=text_at(root, "body", "ReturnCode") or OK,
        text=text_at(root, "header", "mutable", "ReportText") or "",
        transaction_id=text_at(root, "header", "static", "TransactionID"),
        phase=text_at(root, "header", "mutable", "TransactionPhase"),
        segments=_number(text_at(root, "header", "static", "NumSegments")),
        segment=None if segment is None else _number(segment.text),
        is_last=segment is not None and segment.get("lastSegment") == "true",
        order_id=text_at(root, "header", "mutable", "OrderID"),
        order_data=text_at(root, "body", "DataTransfer", "OrderData"),
        transaction_key=None if key is None else decoded(key),
    )


def _number(text: str | None) -> int | None:
    if text is None or not text.strip():
        return None
    digits = text.strip()
    if not (digits.isascii() and digits.isdigit()) or len(digits) > 6 or int(digits) > MAX_SEGMENTS:
        raise EbicsError("The answer counts segments in a way that cannot be.")
    return int(digits)
