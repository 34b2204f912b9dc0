"""XML of EBICS: strictly read, built, and in the canonical form over which its signatures are made (Canonical XML 1.0, inclusive).

A bank's document is refused if it declares a document type, refers to an entity, or gives two elements the same id.
"""

from __future__ import annotations

from collections.abc import Iterable

from lxml import etree

from kontobahn.formats.xml_source import BOM, PARSER_OPTIONS, UTF_16_OR_32, prolog_of
from kontobahn.sentences import said

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
