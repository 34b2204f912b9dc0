"""FinTS 3.0 on the wire, as far as a bank of our own needs it: segments read and written, messages wrapped and unwrapped."""

from __future__ import annotations

import base64
from typing import NamedTuple

ANONYMOUS = "9999999999"
_SPECIAL = "+:'?@"


class Segment(NamedTuple):
    """A segment: its name, number and version, and its elements, each a list of its parts."""

    name: str
    number: int
    version: int
    elements: list[list[bytes]]

    def text(self, element: int, part: int = 0) -> str:
        """Returns what stands there, counted from 1 after the head; empty if it is left out."""
        if element > len(self.elements) or part >= len(self.elements[element - 1]):
            return ""
        return self.elements[element - 1][part].decode("iso-8859-1")


class Message(NamedTuple):
    dialog: str
    number: int
    blz: str
    user: str
    pin: str
    tan: str
    orders: list[Segment]
    # Whether the message says its own length rightly.
    is_whole: bool


def escape(text: str) -> str:
    return "".join(f"?{letter}" if letter in _SPECIAL else letter for letter in text)


def binary(content: bytes) -> str:
    return f"@{len(content)}@" + content.decode("iso-8859-1")


def read_segments(raw: bytes) -> list[Segment]:
    segments: list[Segment] = []
    elements: list[list[bytes]] = [[b""]]
    at = 0
    while at < len(raw):
        letter = raw[at : at + 1]
        if letter == b"?":
            elements[-1][-1] += raw[at + 1 : at + 2]
            at += 2
        elif letter == b"@" and not elements[-1][-1]:
            end = raw.index(b"@", at + 1)
            length = int(raw[at + 1 : end])
            elements[-1][-1] = raw[end + 1 : end + 1 + length]
            at = end + 1 + length
        else:
            if letter == b"'":
                name, number, version = (part.decode() for part in elements[0][:3])
                segments.append(Segment(name, int(number), int(version), elements[1:]))
                elements = [[b""]]
            elif letter == b"+":
                elements.append([b""])
            elif letter == b":":
                elements[-1].append(b"")
            else:
                elements[-1][-1] += letter
            at += 1
    return segments


def read_message(body: bytes) -> Message:
    raw = base64.b64decode(body)
    outer = {segment.name: segment for segment in read_segments(raw)}
    head = outer["HNHBK"]
    if "HNVSD" not in outer:
        # Somebody without a name, who only asks who the bank is.
        orders = [segment for segment in read_segments(raw) if segment.name not in ("HNHBK", "HNHBS")]
        whole = int(head.text(1)) == len(raw)
        return Message(head.text(3), int(head.text(4)), orders[0].text(1, 1), ANONYMOUS, "", "", orders, whole)
    crypt = outer["HNVSK"]
    inner = read_segments(outer["HNVSD"].elements[0][0])
    signature = next(segment for segment in inner if segment.name == "HNSHA")
    key = crypt.elements[-2]
    return Message(
        dialog=head.text(3),
        number=int(head.text(4)),
        blz=key[1].decode(),
        user=key[2].decode("iso-8859-1"),
        pin=signature.text(3),
        tan=signature.text(3, 1),
        orders=[segment for segment in inner if segment.name not in ("HNSHK", "HNSHA")],
        is_whole=int(head.text(1)) == len(raw),
    )


def write_message(asked: Message, dialog: str, inner: list[str]) -> bytes:
    """Returns the answer as it goes over the wire; `inner` are segments without their closing mark."""
    content = "".join(f"{segment}'" for segment in inner).encode("iso-8859-1")
    if asked.user == ANONYMOUS:
        rest = content + f"HNHBS:{len(inner) + 2}:1+{asked.number}'".encode()
        tail = f"+300+{dialog}+{asked.number}+{dialog}:{asked.number}'".encode()
        length = len(b"HNHBK:1:3+000000000000") + len(tail) + len(rest)
        return base64.b64encode(f"HNHBK:1:3+{length:012d}".encode() + tail + rest)
    key = f"280:{asked.blz}:{escape(asked.user)}:V:0:0"
    rest = (
        f"HNVSK:998:3+PIN:1+998+1+1::0+1:20260302:100000+2:2:13:@8@00000000:5:1+{key}+0'HNVSD:999:1+@{len(content)}@".encode()
        + content
        + f"'HNHBS:{len(inner) + 2}:1+{asked.number}'".encode()
    )
    tail = f"+300+{dialog}+{asked.number}+{dialog}:{asked.number}'".encode()
    length = len(b"HNHBK:1:3+000000000000") + len(tail) + len(rest)
    return base64.b64encode(f"HNHBK:1:3+{length:012d}".encode() + tail + rest)
