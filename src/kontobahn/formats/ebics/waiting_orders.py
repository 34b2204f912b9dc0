"""Orders that wait at the bank for signatures: listed (HVU, HVZ), one by one (HVD), signed (HVE) and cancelled (HVS)."""

from __future__ import annotations

import re
from decimal import Decimal, InvalidOperation
from typing import NamedTuple

from lxml import etree

from kontobahn.formats.ebics.documents import (
    EbicsError,
    add,
    at,
    child,
    decoded,
    encoded,
    local,
    read_document,
    text_at,
    written,
)
from kontobahn.formats.ebics.keys import Protocol
from kontobahn.formats.ebics.requests import NAMESPACES
from kontobahn.formats.ebics.services import MAX_BYTES, Order, service_of

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


def cancellation_data(protocol: Protocol, digest: bytes, signature_version: str) -> bytes:
    """Returns the data of HVS."""
    space = NAMESPACES[protocol]
    root = etree.Element(f"{{{space}}}HVSRequestOrderData", nsmap={None: space})
    add(root, "CancelledDataDigest", encoded(digest), SignatureVersion=signature_version)
    return written(root)


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
