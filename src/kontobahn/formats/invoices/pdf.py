"""A PDF with an invoice in it: the attached XML, everything else that is attached, and the text of its first pages.

Nothing in a PDF is run or opened. Its streams are unpacked within bounds, and only those that are needed.
"""

from __future__ import annotations

import io
import logging
import re
from collections.abc import Iterable, Iterator
from datetime import date
from typing import Any, NamedTuple, TypeVar

from kontobahn.formats.invoices.checks import is_iban
from kontobahn.formats.invoices.model import Attachment, Refused
from kontobahn.formats.invoices.source import MAX_FILE_BYTES

# By which the XML is attached, in lower case.
XML_NAMES = ("factur-x.xml", "zugferd-invoice.xml", "xrechnung.xml")
_MAX_ATTACHMENTS = 100
_MAX_PAGES = 3
_MAX_PAGE_BYTES = 1_000_000
_BOUNDS: dict[str, Any] = {
    "maximum_declared_stream_length": MAX_FILE_BYTES,
    "array_based_stream_maximum_output_length": MAX_FILE_BYTES,
    "zlib_maximum_output_length": MAX_FILE_BYTES,
    "lzw_maximum_output_length": MAX_FILE_BYTES,
    "run_length_maximum_output_length": MAX_FILE_BYTES,
    "brotli_maximum_output_length": MAX_FILE_BYTES,
    "stream_decoding_work_maximum_length": 2 * MAX_FILE_BYTES,
    "stream_parsing_work_maximum_count": 200_000,
    "page_tree_maximum_entries": 10_000,
    "xform_maximum_invocations_per_extraction": 100,
    "jbig2dec_binary": None,
}
# It logs what it mends in a damaged file; whether the file can be read is all that matters here.
logging.getLogger("pypdf").setLevel(logging.CRITICAL)


class Pdf(NamedTuple):
    xml: bytes | None
    xml_name: str
    attachments: tuple[Attachment, ...]
    # Only of a PDF without XML.
    text: str
    # Has something in it that a viewer might run.
    is_active: bool


def read_pdf(content: bytes) -> Pdf:
    """Raises Refused if it is damaged, encrypted with a password, or has several invoices in it."""
    from pypdf import Configuration, PdfReader, apply_configuration

    if len(content) > MAX_FILE_BYTES:
        raise Refused("file-too-large", most=MAX_FILE_BYTES // 1_000_000)
    with apply_configuration(Configuration(**_BOUNDS)):
        try:
            reader = PdfReader(io.BytesIO(content))
            if reader.is_encrypted and not reader.decrypt(""):
                raise Refused("pdf-encrypted")
            files = list(_files(reader))
            invoices = [file for file in files if _may_be_invoice(file)]
            chosen = _chosen(invoices)
            others = (file for file in files if file is not chosen)
            return Pdf(
                chosen.content if chosen else None,
                (chosen.name or "") if chosen else "",
                tuple(others),
                "" if chosen else _text(reader),
                _is_active(reader),
            )
        except (Refused, MemoryError):
            raise
        except Exception as error:
            # A damaged file makes a reader stumble in any way.
            raise Refused("pdf-damaged") from error


def _files(reader: Any) -> Iterator[Attachment]:
    seen = 0
    for number, file in enumerate(reader.attachment_list):
        if number >= _MAX_ATTACHMENTS:
            raise Refused("file-too-complex")
        name = str(file.alternative_name or file.name)
        media_type = str(file.subtype or "").strip("/") or None
        try:
            data = bytes(file.content)
        except Exception:
            if name.lower() in XML_NAMES:
                raise
            data = None
        seen += len(data or b"")
        if seen > MAX_FILE_BYTES:
            raise Refused("file-too-complex")
        yield Attachment(None, file.description and str(file.description), None, name, media_type, data)


def _may_be_invoice(file: Attachment) -> bool:
    if not file.content:
        return False
    if (file.name or "").lower() in XML_NAMES:
        return True
    head = file.content[:4_096]
    return head.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"<") and any(
        mark in head for mark in (b"CrossIndustryInvoice", b"CrossIndustryDocument", b":Invoice-2", b":CreditNote-2")
    )


def _chosen(files: list[Attachment]) -> Attachment | None:
    """The invoice, by its name if only one has a usual name. Copies of one file are one."""
    usual = [file for file in files if (file.name or "").lower() in XML_NAMES] or files
    if len({file.content for file in usual}) > 1:
        raise Refused("pdf-two-invoices", names=", ".join(file.name or "?" for file in usual))
    return usual[0] if usual else None


def _text(reader: Any) -> str:
    parts = []
    for page in reader.pages[:_MAX_PAGES]:
        contents = page.get_contents()
        if contents is not None and len(contents.get_data()) <= _MAX_PAGE_BYTES:
            parts.append(page.extract_text())
    return "\n".join(parts)


def _is_active(reader: Any) -> bool:
    catalogue = reader.root_object
    names = catalogue.get("/Names")
    scripts = names is not None and "/JavaScript" in names.get_object()
    action = catalogue.get("/OpenAction")
    action = action.get_object() if action is not None else None
    runs = isinstance(action, dict) and action.get("/S") in ("/JavaScript", "/Launch")
    return bool(scripts or runs or "/AA" in catalogue)


# Facts of an invoice that is only text, proposed for a person to confirm: those that are written plainly, and only
# once.


_LONGEST_TEXT = 200_000
_AMOUNT = r"(?P<amount>\d{1,3}(?:\.\d{3})+,\d{2}|\d{1,9},\d{2}|\d{1,3}(?:,\d{3})+\.\d{2}|\d{1,9}\.\d{2})"
_TOTAL = re.compile(
    r"(?:Rechnungsbetrag|Gesamtbetrag|Gesamtsumme|Endbetrag|Zahlbetrag|Bruttobetrag|Zu zahlen(?:der Betrag)?|Summe brutto"
    r"|Invoice total|Grand total|Total due|Amount due)\b"
    r"[^\d\n]{0,40}\n?[^\d\n]{0,20}" + _AMOUNT + r"(?!\d|[.,]\d)",
    re.IGNORECASE,
)
_IBAN = re.compile(r"\b[A-Z]{2}\d{2}(?: ?[A-Z0-9]{4}){2,7}(?: ?[A-Z0-9]{1,3})?\b")
_DAY = r"(?P<day>\d{1,2})\.(?P<month>\d{1,2})\.(?P<year>\d{4})|(?P<iso>\d{4}-\d{2}-\d{2})"
_ISSUED = re.compile(
    rf"(?:Rechnungsdatum|Datum der Rechnung|Invoice date|Datum)\b[^\d\n]{{0,20}}\n?(?:{_DAY})", re.IGNORECASE
)
_NUMBER = re.compile(
    r"(?:Rechnungsnummer|Rechnungs-?Nr\.?|Rechnung Nr\.?|Invoice (?:number|no\.?))\s{0,3}:?\s{0,3}(?P<number>[A-Z0-9][A-Z0-9./_-]{0,29})",
    re.IGNORECASE,
)
T = TypeVar("T")


class Proposal(NamedTuple):
    """None is what the text does not say plainly. Nothing of this is a fact until a person has said so."""

    number: str | None
    issued_on: date | None
    total_minor: int | None
    currency: str | None
    iban: str | None


def propose(text: str) -> Proposal:
    text = text[:_LONGEST_TEXT]
    totals = {_minor(match["amount"]) for match in _TOTAL.finditer(text)}
    compact = (re.sub(r"\s", "", match[0]) for match in _IBAN.finditer(text))
    total = _only(totals)
    return Proposal(
        number=_only({match["number"] for match in _NUMBER.finditer(text) if re.search(r"\d", match["number"])}),
        issued_on=_only({day for match in _ISSUED.finditer(text) if (day := _day(match))}),
        total_minor=total,
        currency="EUR" if total is not None and re.search(r"€|\bEUR\b", text) else None,
        iban=_only({iban for found in compact if (iban := _valid(found))}),
    )


def _only(found: Iterable[T]) -> T | None:
    """Two different ones are not plain."""
    values = list(found)
    return values[0] if len(values) == 1 else None


def _minor(amount: str) -> int:
    return int(re.sub(r"[.,]", "", amount))


def _valid(text: str) -> str | None:
    """The IBAN at the beginning of a text, behind which other words may stand."""
    return next((text[:length] for length in range(len(text), 14, -1) if is_iban(text[:length])), None)


def _day(match: re.Match[str]) -> date | None:
    try:
        if match["iso"]:
            return date.fromisoformat(match["iso"])
        return date(int(match["year"]), int(match["month"]), int(match["day"]))
    except ValueError:
        return None
