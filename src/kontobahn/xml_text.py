"""XML of others before any parser sees it, and the options under which it is parsed: entities, document types and network off."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterable
from functools import cache, lru_cache
from typing import Any, NamedTuple, TypedDict

from lxml import etree

BOM = b"\xef\xbb\xbf"
UTF_16_OR_32 = (b"\xff\xfe", b"\xfe\xff", b"\x00\x00\xfe\xff", b"<\x00", b"\x00<", b"\x00\x00\x00<")
# Supersets of ASCII only: in any other encoding a DOCTYPE could go unnoticed.
_ENCODINGS = {"utf-8", "utf8", "us-ascii", "ascii", "iso-8859-1", "iso-8859-15", "latin1", "latin-1", "windows-1252"}
_BLANKS = re.compile(rb"\s+")
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
        blank = _BLANKS.match(head, position)
        position = blank.end() if blank else position


# Pieces of XML as text, for writers of large documents: escaped, without characters that XML does not know, and never
# empty.


@cache
def _not_in_xml() -> re.Pattern[str]:
    # Made when it is wanted: so large a set of characters takes longer than most modules do.
    return re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


# The standard library's own come with a client for HTTP, which takes longer to import than most processes that write XML do.


def escape(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def quoted(text: str) -> str:
    """Returns the value of an attribute, with quotation marks around it."""
    blanks = escape(text).replace("\n", "&#10;").replace("\r", "&#13;").replace("\t", "&#9;")
    escaped = blanks.replace('"', "&quot;")
    return f'"{escaped}"'


def element(name: str, value: str | None, /, **attributes: str) -> str:
    """A text element, or nothing if there is no text: empty elements are not allowed."""
    if not value:
        return ""
    written = "".join(f" {key}={quoted(text)}" for key, text in attributes.items())
    return f"<{name}{written}>{escape(_not_in_xml().sub('', value))}</{name}>"


def group(name: str, *content: str) -> str:
    inner = "".join(content)
    return f"<{name}>{inner}</{name}>" if inner else ""


# XML that is read without a tree: a file that has nothing in it but elements and texts is taken apart at its tags. That is several
# times as quick as asking a tree for each element, and says the same of a file that a parser has found to be well formed.


# Longer tags are not remembered.
MAX_TAG, _MAX_ROOT_TAG = 300, 3_000
_USUAL_DECLARATION = re.compile(
    rb"""<\?xml version=("|')1\.0\1( encoding=("|')[A-Za-z0-9._-]{1,40}\3)?( standalone=("|')(yes|no)\5)?"""
    rb"[ \t\r\n]{0,9}\?>[ \t\r\n]*"
)
_DECLARED_SPACE = re.compile(r"""\sxmlns(?::([^\s=]+))?\s*=\s*(?:"([^"]*)"|'([^']*)')""")
_PLAIN_NAME = re.compile(r"(?:[A-Za-z_][A-Za-z0-9._-]*:)?[A-Za-z_][A-Za-z0-9._-]*")
_PLAIN_URI = re.compile(r"[A-Za-z][A-Za-z0-9.+-]*:[A-Za-z0-9._:/#-]+")
_ATTRIBUTE = re.compile(r"""\s([^\s=]+)\s*=\s*(?:"([^"]*)"|'([^']*)')""")
_ESCAPED = re.compile(r"&(?:#x([0-9a-fA-F]{1,6})|#([0-9]{1,7})|(amp|lt|gt|quot|apos));")
_NAMED = {"amp": "&", "lt": "<", "gt": ">", "quot": '"', "apos": "'"}
_BLANK_IN_ATTRIBUTE = re.compile(r"[\t\n]")


class Unusual(Exception):
    """A file that is to be read by its tree."""


class Part(NamedTuple):
    """A part of a file: its tags, as they are written, and the text behind each of them."""

    tags: list[bytes]
    texts: list[bytes]

    def slice(self, start: int, end: int) -> Part:
        return Part(self.tags[start:end], self.texts[start:end])


def taken_apart(content: bytes) -> tuple[bytes, Part]:
    """Returns a file from its root on, with plain ends of lines, and all of its tags and texts.

    Raises Unusual if it is not in UTF-8, or has more than elements and texts in it. Whether it is well formed is not known yet.
    """
    declared = _USUAL_DECLARATION.match(content)
    body = content[declared.end() :] if declared else content
    # A single character is looked for much sooner than two.
    if (b"!" in body and b"<!" in body) or (b"?" in body and b"<?" in body) or not body.startswith(b"<"):
        raise Unusual
    if b"\r" in body:
        body = body.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    pieces = body.replace(b">", b"<").split(b"<")
    # Every < begins a tag, so that one > for each of them means that none is in a text or an attribute.
    if len(pieces) != 2 * body.count(b"<") + 1 or len(pieces[1]) > _MAX_ROOT_TAG:
        raise Unusual
    try:
        body.decode()
    except UnicodeDecodeError:
        raise Unusual from None
    return body, Part(pieces[1::2], pieces[2::2])


def decoded(texts: Iterable[bytes]) -> list[str]:
    """Returns texts as they are meant."""
    joined = b"\0".join(texts).decode()
    found = joined.split("\0")
    return list(map(unescaped, found)) if "&" in joined else found


@lru_cache(500)
def spaces_of(root: bytes) -> dict[str, str]:
    """Returns the meanings of the prefixes that the tag of the root declares. Raises Unusual if one may be no URI."""
    found = [(prefix, one or other) for prefix, one, other in _DECLARED_SPACE.findall(root.decode())]
    if not all(_PLAIN_URI.fullmatch(uri) for _, uri in found):
        raise Unusual
    return {"": "", "xml": "", **dict(found)}


def parsed_tag(root: bytes, tag: bytes) -> tuple[str, dict[str, str], bool]:
    """Returns the name of an element, its attributes, and whether it ends here.

    Raises Unusual if a name is no plain one, or a prefix means nothing or is given a meaning elsewhere than in the root.
    """
    spaces = spaces_of(root)
    text = tag.decode()
    is_whole = text.endswith("/")
    qualified = (text.rstrip("/").split(maxsplit=1) or ("",))[0]
    prefix, _, name = qualified.rpartition(":")
    found = _ATTRIBUTE.findall(text)
    attributes = {key: unescaped(_BLANK_IN_ATTRIBUTE.sub(" ", one or other)) for key, one, other in found}
    prefixed = [key.partition(":")[0] for key in attributes if ":" in key and not key.startswith("xmlns:")]
    is_declaring = tag != root and _DECLARED_SPACE.search(text)
    is_plain = all(map(_PLAIN_NAME.fullmatch, (qualified, *attributes)))
    if not is_plain or len(prefixed) > 1 or is_declaring or not {prefix, *prefixed} <= spaces.keys():
        raise Unusual
    space = spaces[prefix]
    return (f"{{{space}}}{name}" if space else name), attributes, is_whole


opening = lru_cache(4096)(parsed_tag)


@lru_cache(500)
def root_name(root: bytes) -> str:
    return parsed_tag(root, root)[0]


def unescaped(text: str) -> str:
    if "&" not in text:
        return text
    return _ESCAPED.sub(
        lambda one: chr(int(one[1], 16)) if one[1] else chr(int(one[2])) if one[2] else _NAMED[one[3]], text
    )


class _Nothing:
    """Takes nothing from a parser, which then only says whether a file is well formed."""

    def close(self) -> None:
        """Ends what never began."""


class _Checking(threading.local):
    """A parser for each thread."""

    def __init__(self) -> None:
        options: dict[str, Any] = {**PARSER_OPTIONS, "target": _Nothing()}
        self.parser: Any = etree.XMLParser(**options)


_CHECKING = _Checking()


def check_well_formed(content: bytes) -> None:
    """Raises XMLSyntaxError if a file is not well formed."""
    etree.fromstring(content, _CHECKING.parser)
