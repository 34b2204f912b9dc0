"""XML of EBICS: strictly read, built, and in the canonical form over which its signatures are made (Canonical XML 1.0, inclusive).

A bank's document is refused if it declares a document type, refers to an entity, or gives two elements the same id.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import secrets
import zlib
from collections.abc import Iterable, Iterator
from typing import IO

from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from lxml import etree

from kontobahn.sentences import said
from kontobahn.xml_text import BOM, PARSER_OPTIONS, UTF_16_OR_32, prolog_of

DSIG = "http://www.w3.org/2000/09/xmldsig#"
_XML = "http://www.w3.org/XML/1998/namespace"
# One answer: a segment of one megabyte and its envelope, with room for banks that send larger ones.
MAX_BYTES = 8 * 1024 * 1024
# The deepest document of the protocol has about a dozen levels.
MAX_DEPTH = 40
_ID_NAMES = frozenset({"Id", "ID", "id"})


class EbicsError(Exception):
    """A document or a payload that is not as the protocol has it. Nothing of it is used."""


def read_document(content: bytes, max_bytes: int = MAX_BYTES) -> etree._Element:
    """Raises EbicsError if it is not a plain, well-formed document of a bearable size."""
    if len(content) > max_bytes:
        raise EbicsError(said("The document is larger than {most} bytes.", most=f"{max_bytes:,}"))
    if content.startswith(UTF_16_OR_32):
        raise EbicsError("The document is not in an encoding that EBICS uses.")
    prolog = prolog_of(content[:4096])
    if prolog.has_doctype or b"<!DOCTYPE" in content or b"<!ENTITY" in content:
        raise EbicsError("The document declares a document type, which EBICS has no use for.")
    if prolog.foreign_encoding is not None or not prolog.ends:
        raise EbicsError("The document is not in an encoding that EBICS uses.")
    try:
        root: etree._Element = etree.fromstring(content.removeprefix(BOM).lstrip(), etree.XMLParser(**PARSER_OPTIONS))
    except etree.XMLSyntaxError as error:
        raise EbicsError(said("The document is not well-formed XML: {reason}.", reason=error.msg or "")) from None
    _check_nodes(root)
    return root


def _check_nodes(root: etree._Element) -> None:
    seen: set[str] = set()
    for node in root.iter():
        if not isinstance(node.tag, str):
            raise EbicsError("The document refers to entities, which EBICS has no use for.")
        for name, value in node.attrib.items():
            if etree.QName(name).localname in _ID_NAMES:
                if value in seen:
                    raise EbicsError("The document gives two elements the same id.")
                seen.add(str(value))
    depth, level = 0, [root]
    while level:
        depth += 1
        level = [child for node in level for child in node]
        if depth > MAX_DEPTH:
            raise EbicsError("The document is nested too deeply.")


def local(node: etree._Element) -> str:
    return etree.QName(node).localname


def child(node: etree._Element, name: str) -> etree._Element | None:
    """Returns the one child of this name in its parent's namespace. Raises EbicsError if there are several."""
    found = node.findall(f"{{{etree.QName(node).namespace}}}{name}")
    if len(found) > 1:
        raise EbicsError(said("The document has several elements {name} where one belongs.", name=name))
    return found[0] if found else None


def at(node: etree._Element, *path: str) -> etree._Element | None:
    found: etree._Element | None = node
    for name in path:
        found = None if found is None else child(found, name)
    return found


def text_at(node: etree._Element, *path: str) -> str | None:
    found = at(node, *path)
    return None if found is None else (found.text or "").strip() or None


def add(parent: etree._Element, name: str, text: str | None = None, /, **attributes: str) -> etree._Element:
    """Appends an element in its parent's namespace."""
    made = etree.SubElement(parent, f"{{{etree.QName(parent).namespace}}}{name}")
    for key, value in attributes.items():
        made.set(key, value)
    if text is not None:
        made.text = text
    return made


def add_dsig(parent: etree._Element, name: str, text: str | None = None, /, **attributes: str) -> etree._Element:
    made = etree.SubElement(parent, f"{{{DSIG}}}{name}")
    for key, value in attributes.items():
        made.set(key, value)
    if text is not None:
        made.text = text
    return made


def written(root: etree._Element) -> bytes:
    return etree.tostring(root, xml_declaration=True, encoding="UTF-8")


# --- Canonical form


def canonical(nodes: Iterable[etree._Element]) -> bytes:
    """Returns the canonical form of these subtrees, one after the other, as parts of the document they stand in."""
    parts: list[str] = []
    for node in nodes:
        _write(node, {}, parts, _inherited(node))
    return "".join(parts).encode()


def _inherited(apex: etree._Element) -> dict[str, str]:
    """Returns the `xml:` attributes of those above, which hold for the apex as well."""
    found: dict[str, str] = {}
    for above in apex.iterancestors():
        for name, value in above.attrib.items():
            if str(name).startswith(f"{{{_XML}}}"):
                found.setdefault(str(name), str(value))
    return found


def _write(node: etree._Element, shown: dict[str, str], parts: list[str], inherited: dict[str, str]) -> None:
    spaces = {prefix or "": uri for prefix, uri in node.nsmap.items() if uri != _XML}
    news = {prefix: uri for prefix, uri in spaces.items() if shown.get(prefix, "" if not prefix else None) != uri}
    if "" not in spaces and shown.get(""):
        news[""] = ""
    name = _name(node.tag, node.prefix)
    parts.append(f"<{name}")
    for prefix in sorted(news):
        parts.append(f' {f"xmlns:{prefix}" if prefix else "xmlns"}="{_in_attribute(news[prefix])}"')
    attributes = {**inherited, **{str(key): str(value) for key, value in node.attrib.items()}}
    for key in sorted(attributes, key=_attribute_order):
        parts.append(f' {_attribute_name(key, spaces)}="{_in_attribute(attributes[key])}"')
    parts.append(">")
    if node.text:
        parts.append(_in_text(node.text))
    below = {**shown, **news}
    for inner in node:
        _write(inner, below, parts, {})
        if inner.tail:
            parts.append(_in_text(inner.tail))
    parts.append(f"</{name}>")


def _name(tag: object, prefix: str | None) -> str:
    name = etree.QName(str(tag)).localname
    return f"{prefix}:{name}" if prefix else name


def _attribute_order(key: str) -> tuple[str, str]:
    name = etree.QName(key)
    return name.namespace or "", name.localname


def _attribute_name(key: str, spaces: dict[str, str]) -> str:
    name = etree.QName(key)
    if name.namespace is None:
        return name.localname
    if name.namespace == _XML:
        return f"xml:{name.localname}"
    prefix = min(prefix for prefix, uri in spaces.items() if uri == name.namespace and prefix)
    return f"{prefix}:{name.localname}"


def _in_text(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace("\r", "&#xD;")


def _in_attribute(text: str) -> str:
    escaped = text.replace("&", "&amp;").replace("<", "&lt;").replace('"', "&quot;")
    return escaped.replace("\t", "&#x9;").replace("\n", "&#xA;").replace("\r", "&#xD;")


# Order data on its way: compressed (zlib), encrypted (AES-128-CBC under a key of its own), in base64, cut into
# segments.
#
# All of it in streams: a year of statements is never in memory as a whole.


KEY_BYTES = BLOCK = 16
# Of base64; the protocol allows one megabyte.
SEGMENT_CHARACTERS = 1_000_000
# The most that an order's data may unpack to.
MAX_PAYLOAD_BYTES = 4 * 1024 * 1024 * 1024
_CHUNK = 256 * 1024
_NO_IV = bytes(BLOCK)


def new_key() -> bytes:
    return secrets.token_bytes(KEY_BYTES)


def digest_of(data: bytes) -> bytes:
    return hashlib.sha256(data).digest()


def encoded(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")


def decoded(text: str) -> bytes:
    """Raises EbicsError unless it is base64; line breaks may stand anywhere in it."""
    try:
        return base64.b64decode("".join(text.split()), validate=True)
    except (binascii.Error, ValueError):
        raise EbicsError("A part of the document is not in base64.") from None


def packed(data: bytes, key: bytes) -> bytes:
    """Compresses and encrypts."""
    compressed = zlib.compress(data)
    # ANSI X9.23: zeros, and the number of bytes that were added.
    missing = BLOCK - len(compressed) % BLOCK
    encryptor = Cipher(algorithms.AES(key), modes.CBC(_NO_IV)).encryptor()
    return encryptor.update(compressed + bytes(missing - 1) + bytes([missing])) + encryptor.finalize()


def segments(data: bytes, key: bytes, size: int = SEGMENT_CHARACTERS) -> list[str]:
    text = encoded(packed(data, key))
    return [text[start : start + size] for start in range(0, len(text), size)]


def unpacked(parts: Iterable[bytes], key: bytes, max_bytes: int = MAX_PAYLOAD_BYTES) -> Iterator[bytes]:
    """Yields the plain data of what was encrypted, whose pieces may be cut anywhere. Raises EbicsError if it is not whole."""
    inflater, size = zlib.decompressobj(), 0
    for piece in _decrypted(parts, key):
        rest = piece
        while rest:
            try:
                plain = inflater.decompress(rest, _CHUNK)
            except zlib.error:
                raise EbicsError("The order data cannot be unpacked.") from None
            size += len(plain)
            if size > max_bytes:
                raise EbicsError(said("The order data unpacks to more than {most} bytes.", most=f"{max_bytes:,}"))
            if plain:
                yield plain
            rest = inflater.unconsumed_tail
    if not inflater.eof:
        raise EbicsError("The order data ends too early.")


def _decrypted(parts: Iterable[bytes], key: bytes) -> Iterator[bytes]:
    if len(key) != KEY_BYTES:
        raise EbicsError("The key of the data has another length than EBICS uses.")
    decryptor = Cipher(algorithms.AES(key), modes.CBC(_NO_IV)).decryptor()
    kept, total = b"", 0
    for part in parts:
        total += len(part)
        # The last block tells how much of it counts.
        plain = kept + decryptor.update(part)
        kept = plain[-BLOCK:]
        yield plain[:-BLOCK]
    if not total or total % BLOCK:
        raise EbicsError("The order data ends within a block.")
    added = kept[-1]
    if not 1 <= added <= BLOCK:
        raise EbicsError("The order data cannot be decrypted.")
    yield kept[:-added]


def unpack(data: bytes, key: bytes, max_bytes: int) -> bytes:
    return b"".join(unpacked([data], key, max_bytes))


def inflate(data: bytes, max_bytes: int) -> bytes:
    """Unpacks what was only compressed."""
    inflater = zlib.decompressobj()
    try:
        plain = inflater.decompress(data, max_bytes)
    except zlib.error:
        raise EbicsError("The order data cannot be unpacked.") from None
    if not inflater.eof:
        raise EbicsError("The order data cannot be unpacked as a whole.")
    return plain


class Base64Reader:
    """Decodes base64 whose pieces may be cut anywhere, also within a group of four."""

    def __init__(self) -> None:
        self._rest = ""

    def decode(self, text: str) -> bytes:
        whole = self._rest + "".join(text.split())
        cut = len(whole) - len(whole) % 4
        self._rest = whole[cut:]
        return decoded(whole[:cut])

    def finish(self) -> None:
        if self._rest:
            raise EbicsError("The order data ends within a group of base64.")


def write_to(file: IO[bytes], parts: Iterable[bytes], key: bytes, max_bytes: int = MAX_PAYLOAD_BYTES) -> int:
    """Writes the plain data to a file, and returns its size."""
    size = 0
    for piece in unpacked(parts, key, max_bytes):
        size += file.write(piece)
    return size
