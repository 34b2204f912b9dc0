"""Order data about the subscriber: accounts and rights (HTD, HKD), and what there is to fetch (HAA)."""

from __future__ import annotations

import re
from typing import NamedTuple

from lxml import etree

from kontobahn.formats.ebics.documents import EbicsError, child, local, read_document, text_at
from kontobahn.formats.ebics.services import Btf, Kind, Order, is_of_kind

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
