"""Misbehaviour on command: answers that are lost, late, cut, forged or hostile."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Literal

from lxml import etree

from simulators.ebics_bank import secrecy
from simulators.ebics_bank.envelope import find, serialised, sign

How = Literal[
    # The request never arrives. It is done, and the answer is lost. The answer is late, until `go_on` is set; so is the request.
    "unheard", "lost", "late", "late_request",
    # Statuses of the line, and bodies that end early or are no XML.
    "500", "503", "cut", "nonsense",
    # A code instead of the answer, with nothing done.
    "code",
    # The order data end early, in an answer that is signed all the same.
    "short_segment",
    # The answer's signature is wrong, missing, or by another key.
    "wrong_signature", "no_signature", "foreign_signature",
    # The signed answer stands inside another that says something else.
    "wrapped",
    # Attacks by XML on a careless reader.
    "entities", "external_entity", "two_bodies", "two_ids",
]  # fmt: skip


@dataclass(frozen=True)
class Break:
    """A misbehaviour that happens once, at the first message that fits; what is empty fits every message."""

    how: How
    phase: str = ""
    order: str = ""
    code: str = ""
    segment: int = 0

    def fits(self, phase: str, order: str, segment: int) -> bool:
        return self.phase in ("", phase) and self.order in ("", order) and self.segment in (0, segment)


def spoilt(root: etree._Element, how: str, key: secrecy.OwnKey | None) -> bytes:
    """The answer, signed if there is a key for it, and then made hostile as told."""
    if how == "short_segment":
        data = find(root, "body", "DataTransfer", "OrderData")
        if data is not None and data.text:
            data.text = data.text[: len(data.text) // 2 // 4 * 4]
    if how == "foreign_signature" and key:
        key = secrecy.usual_key("X002", "Another bank")
    if key:
        sign(root, key)
    if how == "no_signature" and key:
        root.remove(_signature(root))
    elif how == "wrong_signature":
        header = find(root, "header", "mutable", "ReportText")
        assert header is not None
        header.text = f"{header.text}."
    elif how == "wrapped":
        root = _wrapped(root)
    elif how == "two_bodies":
        body = find(root, "body")
        assert body is not None
        root.append(copy.deepcopy(body))
    elif how == "two_ids":
        for name in ("header", "body"):
            element = find(root, name)
            assert element is not None
            element.set("Id", "same")
    content = serialised(root)
    if how == "entities":
        rows = "".join(f'<!ENTITY e{level} "{f"&e{level - 1};" * 10}">' for level in range(1, 10))
        return content.replace(b"?>\n", f'?>\n<!DOCTYPE x [<!ENTITY e0 "ha">{rows}]>\n'.encode(), 1).replace(
            b"<ReportText>", b"<ReportText>&e9;", 1
        )
    if how == "external_entity":
        return content.replace(b"?>\n", b'?>\n<!DOCTYPE x [<!ENTITY e SYSTEM "file:///etc/hostname">]>\n', 1).replace(
            b"<ReportText>", b"<ReportText>&e;", 1
        )
    return content[: len(content) // 2] if how == "cut" else content


def _signature(root: etree._Element) -> etree._Element:
    found = find(root, "AuthSignature")
    assert found is not None
    return found


def _wrapped(root: etree._Element) -> etree._Element:
    """An answer whose parts in place are forged, with the signed ones moved aside, where a search still finds them."""
    outer = copy.deepcopy(root)
    header, body = find(outer, "header"), find(outer, "body")
    assert header is not None
    assert body is not None
    for part in (header, body):
        for element in part.iter():
            element.attrib.pop("authenticate", None)
    forged = find(header, "mutable", "ReportText")
    assert forged is not None
    forged.text = "[EBICS_OK] Forged"
    aside = etree.SubElement(outer, f"{{{etree.QName(root).namespace}}}Extension")
    for name in ("header", "body"):
        signed = find(root, name)
        assert signed is not None
        aside.append(signed)
    return outer
