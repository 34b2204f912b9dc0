"""The customer's protocol (HAC): what the bank did with which order, in a pain.002.001.03 of its own kind."""

from __future__ import annotations

from typing import Literal, NamedTuple

from lxml import etree

from kontobahn.formats.ebics.documents import EbicsError, local, read_document

MAX_BYTES = 64 * 1024 * 1024
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
    root = read_document(content, MAX_BYTES)
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
