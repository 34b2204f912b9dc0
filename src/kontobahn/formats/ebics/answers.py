"""Answers of a bank, trusted only as far as it has signed them: return codes and segments, its protocol, and orders that wait."""

from __future__ import annotations

import re
from decimal import Decimal, InvalidOperation
from typing import Literal, NamedTuple

from lxml import etree

from kontobahn.formats.ebics.documents import EbicsError, at, child, decoded, local, read_document, text_at
from kontobahn.formats.ebics.keys import Protocol, PublicKey, check
from kontobahn.formats.ebics.requests import HEV, NAMESPACES
from kontobahn.formats.ebics.services import MAX_BYTES, Order, service_of
from kontobahn.sentences import said

# Return codes in words: EBICS has six digits, of which most mean nothing to the person who reads them.


OK = "000000"
RECEIVED, NOT_RECEIVED = "011000", "011001"
NOTHING_THERE = "090005"
RESUME = "061101"
NO_RIGHT = "090003"
NEW_BANK_KEYS = "091008"
# The order went through, and the bank has something to add.
NOTICES = frozenset({OK, RECEIVED, NOT_RECEIVED, "011301", "031001"})
# The same may pass in a while.
PASSING = frozenset({"061099", "091119"})
# The bank does not know the user, has not activated or has locked it.
USER_STATE = frozenset({"091002", "091003", "091004"})
# The bank has no such order for us; it knew us well enough to say so.
NOT_OFFERED = frozenset({NO_RIGHT, "091005", "091006"})
# The keys that a request was signed with are not those that the bank has.
NOT_ACCEPTED = USER_STATE | {"061001"}
KNOWN_KEYS = "091218"
# The transaction is lost; a new one may begin.
LOST_TRANSACTION = frozenset({"091101", "091102", "091103", "091104", "091105", "011101"})

WORDS = {
    "061001": "The bank does not accept our signature: the keys that it has are not ours, or the user is not activated",
    "061002": "The bank does not understand the request",
    "061099": "The bank has a problem of its own",
    NO_RIGHT: "The bank has not given this user the right to this order",
    "090004": "The bank cannot read the order's data",
    NOTHING_THERE: "There is nothing new at the bank",
    "090006": "The bank does not do this with this order",
    "091001": "The bank hands this out to signers only",
    "091002": "The bank does not know this user, has not activated it, or has locked it",
    "091003": "The bank does not know this user",
    "091004": "The bank has not activated this user yet, or has locked it",
    "091005": "The bank does not know this kind of order",
    "091006": "The bank does not offer this kind of order",
    "091007": "The user may not sign this order",
    NEW_BANK_KEYS: "The bank has new keys, which somebody must compare first",
    "091009": "A part of the order is too large for the bank",
    "091010": "The bank cannot read the request",
    "091011": "The bank does not know this host id",
    "091101": "The bank no longer knows the transaction",
    "091102": "The bank has ended the transaction",
    "091103": "The bank takes the request for a repetition",
    "091111": "The signature of the order has a form that the bank does not read",
    "091112": "The bank does not accept the parameters of the order",
    "091113": "The bank does not accept the content of the request",
    "091114": "The bank does not know this order",
    "091115": "The bank has this order already",
    "091116": "The bank could not process the order",
    "091117": "The order is larger than the bank accepts",
    "091118": "The order has more parts than the bank accepts",
    "091119": "Too many transactions are open at the bank",
    "091120": "The signature belongs to another customer",
    "091121": "The bank does not accept this kind of signature for the order",
    "091201": "The bank does not support this version of the signature key",
    "091202": "The bank does not support this version of the authentication key",
    "091203": "The bank does not support this version of the encryption key",
    "091204": "The signature key has a length that the bank does not accept",
    "091205": "The authentication key has a length that the bank does not accept",
    "091206": "The encryption key has a length that the bank does not accept",
    "091207": "The bank does not support certificates",
    "091208": "The certificate has expired",
    "091209": "The certificate is not valid yet",
    "091210": "The certificate is for another purpose",
    "091217": "The bank takes keys with certificates only",
    KNOWN_KEYS: "The bank knows these keys already",
    "091219": "The bank does not accept the certificates",
    "091301": "The signature of the order is wrong",
    "091302": "The user may not use this account",
    "091303": "The amount is above the user's limit",
    "091304": "The bank does not know the signer",
    "091305": "The signer is not activated or locked",
    "091306": "This person has signed already",
}


def in_words(code: str, text: str = "") -> str:
    """Returns our sentence for a code, or the bank's words if it has none, always with the code."""
    words = WORDS.get(code) or text.strip().rstrip(".")[:200] or "The bank refused"
    return said("{words} ({code})", words=words, code=code)


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


# The customer's protocol (HAC): what the bank did with which order, in a pain.002.001.03 of its own kind.


MAX_PROTOCOL_BYTES = 64 * 1024 * 1024
Verdict = Literal["accepted", "refused"]
# The last word on an order.
FINAL: dict[str, Verdict] = {"ORDER_HAC_FINAL_POS": "accepted", "ORDER_HAC_FINAL_NEG": "refused"}
# The file has arrived as a whole.
ARRIVED = "FILE_UPLOAD"


class Entry(NamedTuple):
    action: str
    order_id: str | None
    order_type: str | None
    # The code is a reason of ISO 20022: DS01 and the like.
    reason: str | None
    text: str
    happened_at: str | None
    file_name: str | None

    @property
    def is_good(self) -> bool:
        """Returns whether the step went well: the reasons TS01 and DS0x say so, and a missing one does."""
        return self.reason is None or self.reason in _GOOD


# Transmitted, signature right, signatures enough, waits for more, and plain information.
_GOOD = frozenset({"TS01", "DS01", "DS02", "DS05", "DS06", "TD01", "TA01", "ID01", "DS0H"})


def read_protocol(content: bytes) -> list[Entry]:
    """Returns the entries in the order in which the bank has them."""
    root = read_document(content, MAX_PROTOCOL_BYTES)
    space = etree.QName(root).namespace or ""
    if local(root) != "Document" or not space.endswith("pain.002.001.03"):
        raise EbicsError("The bank's protocol is not one that can be read (HAC).")
    return [_entry(node, f"{{{space}}}") for node in root.iter(f"{{{space}}}OrgnlPmtInfAndSts")]


def _entry(node: etree._Element, space: str) -> Entry:
    ids: dict[str, str] = {}
    for other in node.iter(f"{space}Othr"):
        scheme = "".join(other.itertext(f"{space}Prtry", f"{space}Cd")).strip()
        ids.setdefault(scheme.replace(" ", "").replace("_", "").lower(), (other.findtext(f"{space}Id") or "").strip())
    reason = next(iter(node.iter(f"{space}Rsn")), None)
    code = None if reason is None else (reason.findtext(f"{space}Cd") or reason.findtext(f"{space}Prtry"))
    texts = [(found.text or "").strip() for found in node.iter(f"{space}AddtlInf")]
    return Entry(
        action=(node.findtext(f"{space}OrgnlPmtInfId") or "").strip().upper(),
        order_id=ids.get("orderid"),
        order_type=ids.get("ordertype"),
        reason=code.strip() if code else None,
        text=" ".join(filter(None, texts))[:500],
        happened_at=ids.get("timestamp") or ids.get("timestampevent"),
        file_name=ids.get("filename"),
    )


# Orders that wait at the bank for signatures: listed (HVU, HVZ), and one by one (HVD).


_ORDER_ID = re.compile(r"[A-Z][A-Z0-9]{3}")
DIGEST_BYTES = 32


class WaitingOrder(NamedTuple):
    order_id: str
    order: Order
    # As the bank states them; None if it does not.
    amount: Decimal | None
    currency: str | None
    payments: int | None
    needed: int
    done: int
    sender: str
    signers: tuple[str, ...]
    # The hash of the order's data, which says whether it is the one that we sent; empty in HVU.
    digest: bytes


class OrderState(NamedTuple):
    """The answer to HVD: what a signature is made over, and who has signed."""

    digest: bytes
    signers: tuple[str, ...]


def is_order_id(text: str) -> bool:
    return _ORDER_ID.fullmatch(text) is not None


def read_waiting(content: bytes) -> list[WaitingOrder]:
    """Reads the data of HVU or HVZ."""
    root = read_document(content, MAX_BYTES)
    if local(root) not in ("HVUResponseOrderData", "HVZResponseOrderData"):
        raise EbicsError("The bank's answer does not tell which orders wait.")
    return [_waiting(node) for node in root if local(node) == "OrderDetails"]


def read_order_state(content: bytes) -> OrderState:
    """Reads the data of HVD."""
    root = read_document(content, MAX_BYTES)
    digest = text_at(root, "DataDigest")
    found = decoded(digest) if digest else b""
    if local(root) != "HVDResponseOrderData" or len(found) != DIGEST_BYTES:
        raise EbicsError("The bank's answer does not tell what is to be signed.")
    return OrderState(found, _signers(root))


def _signers(node: etree._Element) -> tuple[str, ...]:
    found = [text_at(one, "Name") or text_at(one, "UserID") or "" for one in node if local(one) == "SignerInfo"]
    return tuple(filter(None, found))


def _waiting(node: etree._Element) -> WaitingOrder:
    order_type = text_at(node, "AdminOrderType") or text_at(node, "OrderType") or ""
    signing, originator, total = at(node, "SigningInfo"), at(node, "OriginatorInfo"), at(node, "TotalAmount")
    digest = text_at(node, "DataDigest")
    sender = "" if originator is None else text_at(originator, "Name") or text_at(originator, "UserID") or ""
    return WaitingOrder(
        order_id=text_at(node, "OrderID") or "",
        order=Order(order_type or "BTU", service_of(child(node, "Service"))),
        amount=None if total is None else _amount(total.text),
        currency=text_at(node, "Currency") or (None if total is None else total.get("Currency")),
        payments=_count(text_at(node, "TotalOrders")),
        needed=_count(signing.get("NumSigRequired")) or 0 if signing is not None else 0,
        done=_count(signing.get("NumSigDone")) or 0 if signing is not None else 0,
        sender=sender,
        signers=_signers(node),
        digest=decoded(digest) if digest else b"",
    )


def _count(text: str | None) -> int | None:
    return int(text) if text and text.isascii() and text.isdigit() and len(text) < 9 else None


def _amount(text: str | None) -> Decimal | None:
    try:
        found = Decimal((text or "").strip())
    except InvalidOperation:
        return None
    # Bounded, because pages write it out.
    return found if found.is_finite() and -10 < found.adjusted() < 16 else None
