"""Pieces of XML that are written as text."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from lxml import etree

from kontobahn.xml_text import element

_MARKUP = "&<>\"'];a "


@given(text=st.text(_MARKUP, min_size=1), value=st.text(_MARKUP + "\t\n\r"))
def test_a_text_and_an_attribute_are_read_as_they_were_written(text: str, value: str) -> None:
    found = etree.fromstring(element("a", text, b=value))
    assert (found.text, found.get("b")) == (text, value)
