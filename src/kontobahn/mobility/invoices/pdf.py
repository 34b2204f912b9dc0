"""From an invoice's facts to its PDF: typeset by Typst as PDF/A-3b, with the XML inside, and declared as a Factur-X invoice.

Typst embeds the XML itself. What it cannot write are the four properties by which Factur-X and ZUGFeRD are recognised; they are
appended to the file as an incremental update of its metadata, which leaves every other byte as it is. A PDF library would rewrite
the whole file, and bring some 30 MB of libraries with it.
"""

from __future__ import annotations

import re
import threading
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING

import msgspec

from kontobahn.mobility.invoices import letter
from kontobahn.mobility.invoices.facts import Facts

if TYPE_CHECKING:
    import typst

_METADATA = re.compile(
    rb"\n(\d+) 0 obj\n<</Length \d+/Type/Metadata/Subtype/XML>>\nstream\n(.*?)\nendstream\nendobj", re.DOTALL
)
_TRAILER = re.compile(rb"trailer\n<<(.*)>>\nstartxref\n(\d+)\n%%EOF\s*$", re.DOTALL)
_PROPERTIES = {
    "DocumentFileName": ("factur-x.xml", "The name of the embedded XML document"),
    "DocumentType": ("INVOICE", "The type of the hybrid document"),
    "Version": ("1.0", "The version of the standard of the embedded XML document"),
    "ConformanceLevel": ("EN 16931", "The conformance level of the embedded XML document"),
}
_NAMESPACE = "urn:factur-x:pdfa:CrossIndustryDocument:invoice:1p0#"
# Above this many tickets, the compiler's caches are emptied after use.
LARGE = 200
# The compiler is a single object with caches of its own.
_compiler_lock = threading.Lock()


def make(facts: Facts, xml: bytes, at_seconds: int) -> bytes:
    """Returns the PDF. The same facts and the same time give the same bytes."""
    inputs = {
        "data": msgspec.json.encode(letter.compose(facts)).decode(),
        "code": letter.giro_code(facts) or "",
        # Inputs are texts: the picture is a list of its bytes.
        "logo": msgspec.json.encode(list(facts.logo.content)).decode() if facts.logo else "",
        "xml": xml.decode(),
    }
    with _compiler_lock:
        pdf = _compiler().compile(
            _template(), sys_inputs=inputs, format="pdf", pdf_standards=["a-3b"], timestamp=at_seconds
        )
        if len(facts.lines) > LARGE:
            _empty_caches()
    assert isinstance(pdf, bytes)
    return declare_factur_x(pdf)


def _empty_caches() -> None:
    """Typst caches its results for ten more compilations: 50 MB each for 1,000 tickets."""
    for _ in range(11):
        _compiler().compile(b"", format="svg")


@cache
def _compiler() -> typst.Compiler:
    # Imported for the first invoice, not when the service starts.
    import typst

    # Only the typefaces bundled with Typst, so that the letter looks the same on every machine.
    return typst.Compiler(ignore_system_fonts=True)


@cache
def _template() -> bytes:
    return resources.files("kontobahn.mobility.invoices").joinpath("templates/invoice.typ").read_bytes()


def declare_factur_x(pdf: bytes) -> bytes:
    """Returns the file with the Factur-X properties added to its XMP metadata by an incremental update."""
    metadata, trailer = _METADATA.search(pdf), _TRAILER.search(pdf)
    assert metadata is not None
    assert trailer is not None
    number, xmp = int(metadata[1]), _with_properties(metadata[2])
    if not pdf.endswith(b"\n"):
        pdf += b"\n"
    start = len(pdf)
    update = b"%d 0 obj\n<</Length %d/Type/Metadata/Subtype/XML>>\nstream\n%b\nendstream\nendobj\n" % (
        number,
        len(xmp),
        xmp,
    )
    table = start + len(update)
    update += b"xref\n%d 1\n%010d 00000 n \ntrailer\n<<%b/Prev %b>>\nstartxref\n%d\n%%%%EOF\n" % (
        number, start, trailer[1], trailer[2], table,
    )  # fmt: skip
    return pdf + update


def _with_properties(xmp: bytes) -> bytes:
    schema = "".join(
        '<rdf:li rdf:parseType="Resource"><pdfaProperty:category>external</pdfaProperty:category>'
        f"<pdfaProperty:description>{description}</pdfaProperty:description><pdfaProperty:name>{name}</pdfaProperty:name>"
        "<pdfaProperty:valueType>Text</pdfaProperty:valueType></rdf:li>"
        for name, (_, description) in _PROPERTIES.items()
    )
    extension = (
        '<rdf:li rdf:parseType="Resource"><pdfaSchema:schema>Factur-X PDFA Extension Schema</pdfaSchema:schema>'
        f"<pdfaSchema:namespaceURI>{_NAMESPACE}</pdfaSchema:namespaceURI><pdfaSchema:prefix>fx</pdfaSchema:prefix>"
        f"<pdfaSchema:property><rdf:Seq>{schema}</rdf:Seq></pdfaSchema:property></rdf:li>"
    )
    values = "".join(f"<fx:{name}>{value}</fx:{name}>" for name, (value, _) in _PROPERTIES.items())
    properties = f'<rdf:Description rdf:about="" xmlns:fx="{_NAMESPACE}">{values}</rdf:Description>'
    bag, end = b"</rdf:Bag></pdfaExtension:schemas>", b"</rdf:RDF>"
    assert xmp.count(bag) == 1
    assert xmp.count(end) == 1
    return xmp.replace(bag, extension.encode() + bag).replace(end, properties.encode() + end)
