"""Pieces of XML as text, for writers of large documents: escaped, without characters that XML does not know, and never empty."""

from __future__ import annotations

import re
from xml.sax.saxutils import escape, quoteattr

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
