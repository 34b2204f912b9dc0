"""XML of others before any parser sees it, and the options under which it is parsed: entities, document types and network off."""

from __future__ import annotations

import re
from typing import NamedTuple, TypedDict
from xml.sax.saxutils import escape, quoteattr

BOM = b"\xef\xbb\xbf"
UTF_16_OR_32 = (b"\xff\xfe", b"\xfe\xff", b"\x00\x00\xfe\xff", b"<\x00", b"\x00<", b"\x00\x00\x00<")
# Supersets of ASCII only: in any other encoding a DOCTYPE could go unnoticed.
_ENCODINGS = {"utf-8", "utf8", "us-ascii", "ascii", "iso-8859-1", "iso-8859-15", "latin1", "latin-1", "windows-1252"}
_DECLARED = re.compile(rb"""^<\?xml\s[^>]{0,100}?encoding\s*=\s*["']([^"']*)["']""")


class Options(TypedDict):
    resolve_entities: bool
    load_dtd: bool
    no_network: bool
    huge_tree: bool
    remove_comments: bool
    remove_pis: bool


PARSER_OPTIONS: Options = {
    "resolve_entities": False,
    "load_dtd": False,
    "no_network": True,
    "huge_tree": False,
    "remove_comments": True,
    "remove_pis": True,
}


class Prolog(NamedTuple):
    """The beginning of an XML file, up to its first element."""

    # An encoding that is not read.
    foreign_encoding: str | None
    has_doctype: bool
    # False if no element begins in what was looked at.
    ends: bool
    # True if the text is in UTF-8 by what it says, or because it says nothing.
    is_utf_8: bool


def prolog_of(head: bytes) -> Prolog:
    """Looks through a file's beginning. A document type is declared here or nowhere."""
    head = head.removeprefix(BOM).lstrip()
    declared = _DECLARED.match(head)
    encoding = declared[1].decode("latin-1") if declared else ""
    foreign = encoding[:40] if declared and encoding.lower() not in _ENCODINGS else None
    is_utf_8 = declared is None or encoding.lower() in ("utf-8", "utf8")
    position = 0
    while True:
        if head.startswith(b"<?", position):
            end = head.find(b"?>", position)
        elif head.startswith(b"<!--", position):
            end = head.find(b"-->", position + 4)
        else:
            return Prolog(foreign, head.startswith(b"<!", position), ends=True, is_utf_8=is_utf_8)
        if end < 0:
            return Prolog(foreign, has_doctype=False, ends=False, is_utf_8=is_utf_8)
        position = end + (2 if head.startswith(b"<?", position) else 3)
        position += len(head[position:]) - len(head[position:].lstrip())


# Pieces of XML as text, for writers of large documents: escaped, without characters that XML does not know, and never
# empty.


_NOT_IN_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def element(name: str, value: str | None, /, **attributes: str) -> str:
    """A text element, or nothing if there is no text: empty elements are not allowed."""
    if not value:
        return ""
    written = "".join(f" {key}={quoteattr(text)}" for key, text in attributes.items())
    return f"<{name}{written}>{escape(_NOT_IN_XML.sub('', value))}</{name}>"


def group(name: str, *content: str) -> str:
    inner = "".join(content)
    return f"<{name}>{inner}</{name}>" if inner else ""
