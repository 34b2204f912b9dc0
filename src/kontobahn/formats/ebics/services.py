"""Kinds of orders: as version 3.0 names them, by a service and a message, and as version 2.5 does, by three letters."""

from __future__ import annotations

import re
from typing import Literal, NamedTuple

from lxml import etree

from kontobahn.formats.ebics.documents import EbicsError, child, local, read_document, text_at
from kontobahn.formats.ebics.keys import Protocol

Direction = Literal["download", "upload"]
# The kinds that we fetch and send.
Kind = Literal[
    "camt.053", "camt.052", "camt.054", "mt940", "pain.002", "payee_checks",
    "transfers", "instant_transfers", "checked_transfers", "checked_instant_transfers",
]  # fmt: skip


class Btf(NamedTuple):
    """A business transaction format (BTF). What is not said is left out, which to a bank is not the same as empty."""

    name: str
    message: str
    scope: str | None = None
    option: str | None = None
    container: str | None = None
    version: str | None = None
    variant: str | None = None
    format: str | None = None

    def __str__(self) -> str:
        parts = (
            self.name,
            self.scope or "",
            self.option or "",
            self.message + (f".{self.version}" if self.version else ""),
        )
        return ":".join(parts) + (f" ({self.container})" if self.container else "")


class Order(NamedTuple):
    """An order type as a bank has it in its list: BTD or BTU with a service, or three letters."""

    type: str
    service: Btf | None = None


class _Known(NamedTuple):
    direction: Direction
    service: Btf
    old_types: tuple[str, ...]


KNOWN: dict[Kind, _Known] = {
    "camt.053": _Known("download", Btf("EOP", "camt.053", "DE", container="ZIP"), ("C53", "Z53")),
    "camt.052": _Known("download", Btf("STM", "camt.052", "DE", container="ZIP"), ("C52", "Z52")),
    "camt.054": _Known("download", Btf("STM", "camt.054", "DE", container="ZIP"), ("C54", "Z54")),
    "mt940": _Known("download", Btf("EOP", "mt940", "DE"), ("STA",)),
    "pain.002": _Known("download", Btf("REP", "pain.002", "DE", container="ZIP"), ("CRZ", "CIZ", "CRC")),
    "payee_checks": _Known("download", Btf("REP", "pain.002", option="VOP", container="ZIP"), ("VPZ",)),
    "transfers": _Known("upload", Btf("SCT", "pain.001"), ("CCT",)),
    "instant_transfers": _Known("upload", Btf("SCI", "pain.001"), ("CIP",)),
    "checked_transfers": _Known("upload", Btf("SCT", "pain.001", option="VOI"), ("CTV",)),
    "checked_instant_transfers": _Known("upload", Btf("SCI", "pain.001", option="VOI"), ("CIV",)),
}


def order_of(kind: Kind, protocol: Protocol) -> Order:
    """Returns the order as German banks name it."""
    known = KNOWN[kind]
    if protocol == "H004":
        return Order(known.old_types[0])
    return Order("BTD" if known.direction == "download" else "BTU", known.service)


def is_of_kind(order: Order, kind: Kind) -> bool:
    """Returns whether an order in a bank's list is of this kind, whatever version, scope and container it names."""
    known = KNOWN[kind]
    if order.service is None:
        return order.type in known.old_types
    if order.type != ("BTD" if known.direction == "download" else "BTU"):
        return False
    found, wanted = order.service, known.service
    if kind in ("camt.053", "camt.052", "camt.054", "mt940"):
        return found.message == wanted.message
    if kind == "pain.002":
        return found.message == "pain.002" and found.option != "VOP"
    return (found.name, found.message, found.option) == (wanted.name, wanted.message, wanted.option)


def asked_for(kind: Kind, protocol: Protocol) -> str:
    """Returns the name of a kind by which to ask a bank for it."""
    known = KNOWN[kind]
    return f"{known.service} / {known.old_types[0]}" if protocol == "H005" else known.old_types[0]


# Order data about the subscriber: accounts and rights (HTD, HKD), and what there is to fetch (HAA).


MAX_BYTES = 16 * 1024 * 1024
_IBAN = re.compile(r"[A-Z]{2}[0-9]{2}[A-Z0-9]{11,30}")


class AccountOfBank(NamedTuple):
    iban: str
    currency: str
    holder: str | None
    name: str | None


class Right(NamedTuple):
    """A right of the user. The class says what its signature is worth: E alone, A and B with another, T not at all."""

    order: Order
    signature_class: str | None


class Rights(NamedTuple):
    user_name: str | None
    accounts: tuple[AccountOfBank, ...]
    # The orders that the bank has agreed on with the customer, and those that this user may give.
    agreed: tuple[Order, ...]
    own: tuple[Right, ...]

    def orders_of(self, kind: Kind) -> list[Order]:
        """Returns the orders of a kind that the user may give."""
        found = [right.order for right in self.own if is_of_kind(right.order, kind)]
        # Some banks list services with the customer only, and repeat for the user no more than the letters.
        bare = {right.order.type for right in self.own if right.order.service is None}
        found += [order for order in self.agreed if order.service and order.type in bare and is_of_kind(order, kind)]
        return list(dict.fromkeys(found))

    def classes_of(self, kind: Kind) -> set[str]:
        """Returns the classes that the user's signature has for orders of this kind; `?` for one that the bank does not tell."""
        wanted = set(self.orders_of(kind))
        types = {order.type for order in wanted}
        return {
            right.signature_class or "?"
            for right in self.own
            if right.order in wanted or (right.order.service is None and right.order.type in types)
        }


def read_rights(content: bytes, user_id: str) -> Rights:
    """Reads the data of HTD, or of HKD, which has the same of all users."""
    root = read_document(content, MAX_BYTES)
    space = f"{{{etree.QName(root).namespace}}}"
    users = root.findall(f"{space}UserInfo")
    if local(root) == "HKDResponseOrderData":
        users = [node for node in users if text_at(node, "UserID") == user_id]
    partner = child(root, "PartnerInfo")
    if local(root) not in ("HTDResponseOrderData", "HKDResponseOrderData") or partner is None or len(users) != 1:
        raise EbicsError("The bank's answer does not tell the user's rights.")
    [user] = users
    accounts = [_account(node) for node in partner.findall(f"{space}AccountInfo")]
    agreed = [order for node in partner.findall(f"{space}OrderInfo") for order in _orders(node)]
    own = [
        Right(order, (node.get("AuthorisationLevel") or "").strip().upper() or None)
        for node in user.findall(f"{space}Permission")
        for order in _orders(node)
    ]
    return Rights(text_at(user, "Name"), tuple(account for account in accounts if account), tuple(agreed), tuple(own))


def read_to_fetch(content: bytes) -> list[str]:
    """Reads the data of HAA: the orders for which there is something to fetch, by the bank's names."""
    root = read_document(content, MAX_BYTES)
    if local(root) != "HAAResponseOrderData":
        raise EbicsError("The bank's answer does not tell what there is to fetch.")
    services = [service_of(node) for node in root if local(node) == "Service"]
    return [str(service) for service in services if service] + (text_at(root, "OrderTypes") or "").split()


def _orders(node: etree._Element) -> list[Order]:
    service = service_of(child(node, "Service"))
    names = text_at(node, "AdminOrderType") or text_at(node, "OrderType") or text_at(node, "OrderTypes") or ""
    return [Order(name, service if name in ("BTD", "BTU") else None) for name in names.split()]


def service_of(node: etree._Element | None) -> Btf | None:
    if node is None:
        return None
    message, container = child(node, "MsgName"), child(node, "Container")
    return Btf(
        name=text_at(node, "ServiceName") or "",
        message=(message.text or "").strip() if message is not None else "",
        scope=text_at(node, "Scope"),
        option=text_at(node, "ServiceOption"),
        container=None if container is None else container.get("containerType"),
        version=None if message is None else message.get("version"),
        variant=None if message is None else message.get("variant"),
        format=None if message is None else message.get("format"),
    )


def _account(node: etree._Element) -> AccountOfBank | None:
    space = f"{{{etree.QName(node).namespace}}}"
    numbers = ["".join((found.text or "").split()).upper() for found in node.findall(f"{space}AccountNumber")]
    iban = next((number for number in numbers if _IBAN.fullmatch(number)), None)
    if iban is None:
        return None
    currency = (node.get("Currency") or "EUR").strip().upper()
    return AccountOfBank(iban, currency, text_at(node, "AccountHolder"), node.get("Description"))
