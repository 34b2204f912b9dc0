"""The printed invoice: its texts and amounts in German, typeset by Typst as PDF/A-3b with the XML inside, declared as Factur-X.

Typst embeds the XML itself. It cannot write the four properties by which Factur-X and ZUGFeRD are recognised; they are appended to
the file as an incremental update of its metadata, which leaves every other byte as it is. A PDF library would rewrite the whole
file, and bring some 30 MB of libraries with it. The template decides how the letter looks.
"""

from __future__ import annotations

import re
import threading
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING

import msgspec

from kontobahn.mobility.invoices.rules import Facts

if TYPE_CHECKING:
    import typst
import io
import unicodedata
from collections.abc import Iterable
from datetime import date
from itertools import groupby
from typing import Any

from kontobahn.formats.pain.sepa import in_groups
from kontobahn.mobility.invoices.rules import Line, first_day, last_day
from kontobahn.mobility.seller import Logo, Seller
from kontobahn.money import amount_text

# A number stays on the line of the register that it is in.
_BEFORE_NUMBER = re.compile(r" (?=\d)")
_METADATA = re.compile(
    rb"\n(\d+) 0 obj\n<</Length \d+/Type/Metadata/Subtype/XML>>\nstream\n(.*?)\nendstream\nendobj", re.DOTALL
)
_TRAILER = re.compile(rb"trailer\n<<(.*)>>\nstartxref\n(\d{1,20})\n%%EOF\s{0,10}$", re.DOTALL)
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
        "data": msgspec.json.encode(compose(facts)).decode(),
        "code": giro_code(facts) or "",
        "logo": logo_input(facts.logo),
        "xml": xml.decode(),
    }
    return declare_factur_x(typeset(_template(), inputs, at_seconds, is_large=len(facts.lines) > LARGE))


def typeset(template: bytes, inputs: dict[str, str], at_seconds: int, *, is_large: bool = False) -> bytes:
    """Returns a template with its data as PDF/A-3b. After a large one, the caches of the compiler are emptied."""
    with _compiler_lock:
        made = _compiler().compile(
            template, sys_inputs=inputs, format="pdf", pdf_standards=["a-3b"], timestamp=at_seconds
        )
        if is_large:
            _empty_caches()
    assert isinstance(made, bytes)
    return made


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
    return letterhead_template() + _file("invoice.typ")


def letterhead_template() -> bytes:
    """The beginning of a template: paper, letterhead, window and key facts. Its data are `letterhead`, and what the letter says."""
    return _file("letterhead.typ")


def _file(name: str) -> bytes:
    return resources.files("kontobahn.mobility.invoices").joinpath(f"templates/{name}").read_bytes()


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


# --- The letter: the data of the template

# The largest amount that a GiroCode (EPC069-12) can carry.
MAX_GIRO_CENTS = 99_999_999_999
# Up to this many tickets are listed on the first page one by one; more are summed up there and listed on the following pages.
MAX_ON_FIRST_PAGE = 8
# A longer list is set in two columns, if its entries are short.
MAX_IN_ONE_COLUMN = 40
MAX_SHORT_REFERENCE = 18
# The place of the logo in the letterhead, in millimetres.
LOGO_WIDTH, LOGO_HEIGHT = 85, 18
_MONTHS = (
    "Januar", "Februar", "März", "April", "Mai", "Juni", "Juli", "August", "September", "Oktober", "November", "Dezember",
)  # fmt: skip
# The characters that the typeface is known to have: Latin with all its accents, Greek, Cyrillic, and common symbols.
_PRINTABLE = (
    (0x20, 0x7E), (0xA0, 0xAC), (0xAE, 0x17F), (0x386, 0x386), (0x388, 0x38A), (0x38C, 0x38C), (0x38E, 0x3A1),
    (0x3A3, 0x3CE), (0x401, 0x45F), (0x1E00, 0x1E99), (0x2013, 0x2014), (0x2018, 0x201A), (0x201C, 0x201E), (0x2020, 0x2022),
    (0x2026, 0x2026), (0x2030, 0x2030), (0x2039, 0x203A), (0x20AC, 0x20AC), (0x2212, 0x2212),
)  # fmt: skip


def printable(text: str) -> str:
    """Replaces characters that cannot be printed with question marks, and leaves out soft hyphens. The XML has them unchanged."""
    composed = unicodedata.normalize("NFC", text).replace("\N{SOFT HYPHEN}", "")
    return "".join(
        character if any(first <= ord(character) <= last for first, last in _PRINTABLE) else "?"
        for character in composed
    )


def euro(cents: int) -> str:
    """Returns an amount like 1.234,56 €, with a true minus sign if it is negative."""
    whole, hundredths = divmod(abs(cents), 100)
    return f"{'−' if cents < 0 else ''}{f'{whole:,}'.replace(',', '.')},{hundredths:02d}\u00a0€"


def compose(facts: Facts) -> dict[str, Any]:
    """Returns the data of the template."""
    one_by_one = len(facts.lines) <= MAX_ON_FIRST_PAGE
    total = facts.amount_in_cents
    data = {
        "title": "Rechnungskorrektur" if facts.is_correction else "Rechnung",
        "number": facts.number,
        **letterhead(facts.seller, facts.logo),
        "recipient": _recipient(facts),
        "facts": _reference_block(facts),
        "introduction": _introduction(facts),
        "rows": [_single_row(line) for line in facts.lines] if one_by_one else [_summed_row(group) for group in _groups(facts)],
        "one_by_one": one_by_one,
        "sums": [
            [f"{item.vat_rate} %", euro(item.net_in_cents), euro(item.vat_in_cents), euro(item.net_in_cents + item.vat_in_cents)]
            for item in facts.sums
        ],
        "sum": [euro(facts.net_in_cents), euro(facts.vat_in_cents), euro(facts.net_in_cents + facts.vat_in_cents)],
        "rounding": euro(facts.rounding_in_cents) if facts.rounding_in_cents else None,
        "total_label": "Erstattungsbetrag" if facts.is_correction else "Rechnungsbetrag",
        "total": euro(abs(total)),
        "exemption": (facts.seller.vat_exemption_reason or "").rstrip(".") if any(item.vat_rate == 0 for item in facts.sums) else None,
        "terms": facts.payment_terms,
        "payment": _payment(facts),
        "details": None if one_by_one else _details(facts),
    }  # fmt: skip
    return {key: make_printable(value) for key, value in data.items()}


def giro_code(facts: Facts) -> str | None:
    """Returns the code from which a banking app fills in the transfer, as SVG. None if there is nothing to pay."""
    seller, total = facts.seller, facts.amount_in_cents
    if facts.due_on is None or not 0 < total <= MAX_GIRO_CENTS:
        return None
    assert seller.name is not None
    assert seller.iban is not None
    return qr_code(
        giro_payload(name=seller.name, iban=seller.iban, bic=seller.bic, amount_in_cents=total, purpose=_purpose(facts))
    )


def giro_payload(*, name: str, iban: str, bic: str | None, amount_in_cents: int, purpose: str) -> str:
    """Returns a SEPA transfer as a banking app reads it, in eleven lines."""
    return "\n".join(
        ["BCD", "002", "1", "SCT", bic or "", name, iban, f"EUR{amount_text(amount_in_cents)}", "", "", purpose]
    )


def qr_code(text: str) -> str:
    """Draws the code with medium error correction and at most version 13, as the standard requires."""
    import segno

    code = segno.make(text, error="m", boost_error=False, micro=False, encoding="utf-8")
    assert isinstance(code.version, int)
    assert code.version <= 13
    out = io.BytesIO()
    code.save(out, kind="svg", border=0, xmldecl=False, svgclass=None, lineclass=None, dark="#000")
    return out.getvalue().decode()


def make_printable(value: Any) -> Any:
    """Returns data of a template with every text in it printable."""
    if isinstance(value, str):
        return printable(value)
    if isinstance(value, dict):
        return {key: make_printable(item) for key, item in value.items()}
    if isinstance(value, list):
        return [make_printable(item) for item in value]
    return value


def letterhead(seller: Seller, logo: Logo | None) -> dict[str, Any]:
    """Returns the seller and the logo as the letterhead shows them."""
    return {"seller": _seller(seller), "logo": _logo_size(logo) if logo else None}


def logo_input(logo: Logo | None) -> str:
    """Inputs of a template are texts: the picture is a list of its bytes."""
    return msgspec.json.encode(list(logo.content)).decode() if logo else ""


def _seller(seller: Seller) -> dict[str, Any]:
    place = f"{seller.postal_code} {seller.city}"
    footer = [
        [seller.name, seller.street, place, seller.website],
        [seller.contact_name, seller.contact_phone, seller.contact_email],
        [
            _BEFORE_NUMBER.sub("\u00a0", seller.register_entry or ""),
            seller.managing_directors,
            f"USt-IdNr. {seller.vat_id}" if seller.vat_id else None,
            f"Steuernummer {seller.tax_number}" if seller.tax_number else None,
        ],
        [seller.bank_name, f"IBAN {in_groups(seller.iban or '')}", f"BIC {seller.bic}" if seller.bic else None],
    ]
    return {
        "name": seller.name,
        "return_address": " · ".join(filter(None, [seller.name, seller.street, place])),
        "contact": [text for text in (seller.street, place, seller.contact_phone, seller.website) if text],
        "footer": [[text for text in column if text] for column in footer],
    }


def _logo_size(logo: Logo) -> dict[str, float]:
    """As large as its place in the letterhead allows, in millimetres."""
    scale = min(LOGO_WIDTH / logo.width, LOGO_HEIGHT / logo.height)
    return {"width": logo.width * scale, "height": logo.height * scale}


def _recipient(facts: Facts) -> list[str]:
    buyer = facts.buyer
    lines = [buyer.name, buyer.street, f"{buyer.postal_code} {buyer.city}"]
    return lines if buyer.country_code == facts.seller.country_code else [*lines, buyer.country_code]


def _reference_block(facts: Facts) -> list[list[str]]:
    first, last = facts.period
    rows = [
        ["Nummer", facts.number],
        ["Datum", _day(facts.issued_on)],
        ["Leistungszeitraum", f"{_day(first)} – {_day(last)}"],
        ["Kundennummer", facts.buyer.customer_number],
    ]
    if facts.buyer.buyer_reference:
        rows.append(["Ihre Referenz", facts.buyer.buyer_reference])
    if facts.buyer.vat_id:
        rows.append(["Ihre USt-IdNr.", facts.buyer.vat_id])
    if facts.due_on:
        rows.append(["Fällig am", _day(facts.due_on)])
    return rows


def _introduction(facts: Facts) -> str:
    credited = sum(1 for line in facts.lines if line.credited_number)
    counts = ((len(facts.lines) - credited, "Ticket"), (credited, "Storno"))
    counted = " und ".join(f"{count} {word}{'' if count == 1 else 's'}" for count, word in counts if count)
    if facts.is_correction:
        return f"Für {counted} erhalten Sie diesen Betrag zurück:"
    return f"Für {counted} berechnen wir Ihnen zusammen:"


def _groups(facts: Facts) -> Iterable[list[Line]]:
    """Yields runs of lines that differ only in their holder, in the order of the invoice."""
    for _, group in groupby(facts.lines, key=_group_key):
        yield list(group)


def _group_key(line: Line) -> tuple[Any, ...]:
    return (line.credited_number, line.product, line.valid_from, line.valid_to, line.price_in_cents, line.discount_in_cents,
            line.vat_rate)  # fmt: skip


def _summed_row(group: list[Line]) -> list[Any]:
    first = group[0]
    total = sum(line.amount_in_cents for line in group)
    return [_product(first), _notes(group), _months(first), str(len(group)), f"{first.vat_rate} %",
            euro(first.amount_in_cents), euro(total)]  # fmt: skip


def _single_row(line: Line) -> list[Any]:
    notes = [line.holder_reference, *filter(None, [line.reference]), *_notes([line])]
    return [_product(line), notes, _months(line), "1", f"{line.vat_rate} %", euro(line.amount_in_cents),
            euro(line.amount_in_cents)]  # fmt: skip


def _product(line: Line) -> str:
    return f"Storno: {line.product}" if line.credited_number else line.product


def _notes(group: list[Line]) -> list[str]:
    first, notes = group[0], []
    if first.discount_in_cents:
        notes.append(f"{euro(first.price_in_cents)} abzgl. {euro(first.discount_in_cents)} Rabatt")
    shares = [share for line in group if (share := _employer_share(line)) is not None]
    if shares:
        notes.append(f"AG-Anteil {euro(sum(shares))}")
    if first.credited_number and first.credited_on:
        notes.append(f"berechnet mit {first.credited_number} vom {_day(date.fromisoformat(first.credited_on))}")
    return notes


def _employer_share(line: Line) -> int | None:
    """Returns the employer's share with the sign of the amount that it is a part of."""
    share = line.employer_share_in_cents
    return -share if share is not None and line.credited_number else share


def _details(facts: Facts) -> dict[str, Any]:
    """Lists every ticket under the heading of its group."""
    is_short = all(len(line.holder_reference) <= MAX_SHORT_REFERENCE and not line.reference for line in facts.lines)
    return {
        "groups": [_detail_group(group) for group in _groups(facts)],
        "columns": 2 if len(facts.lines) > MAX_IN_ONE_COLUMN and is_short else 1,
    }


def _detail_group(group: list[Line]) -> dict[str, Any]:
    first = group[0]
    total = sum(line.amount_in_cents for line in group)
    return {
        "heading": f"{_product(first)}, {_months(first)}",
        "summary": f"{len(group)} × {euro(first.amount_in_cents)} = {euro(total)}",
        "with_share": any(line.employer_share_in_cents is not None for line in group),
        "with_reference": any(line.reference for line in group),
        "rows": [
            [str(line.position), line.holder_reference, line.reference or "",
             "" if (share := _employer_share(line)) is None else euro(share), euro(line.amount_in_cents)]
            for line in group
        ],
    }  # fmt: skip


def _payment(facts: Facts) -> list[list[str]] | None:
    seller = facts.seller
    if facts.due_on is None:
        return None
    rows = [
        ["Empfänger", seller.name or ""],
        ["Betrag", euro(facts.amount_in_cents)],
        ["IBAN", in_groups(seller.iban or "")],
        ["Zweck", _purpose(facts)],
    ]
    if seller.bic:
        rows.append(["BIC", seller.bic])
    if seller.bank_name:
        rows.append(["Bank", seller.bank_name])
    return rows


def _purpose(facts: Facts) -> str:
    return f"{facts.number} {facts.buyer.customer_number}"


def _months(line: Line) -> str:
    if line.valid_from == line.valid_to:
        return _month(line.valid_from)
    return f"{first_day(line.valid_from):%m/%Y} – {last_day(line.valid_to):%m/%Y}"


def _month(month: str) -> str:
    return f"{_MONTHS[int(month[5:]) - 1]} {month[:4]}"


def _day(day: date) -> str:
    return f"{day:%d.%m.%Y}"
