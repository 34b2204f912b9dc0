"""Kinds of orders: as version 3.0 names them, by a service and a message, and as version 2.5 does, by three letters."""

from __future__ import annotations

from typing import Literal, NamedTuple

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
