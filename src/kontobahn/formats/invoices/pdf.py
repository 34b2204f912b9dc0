"""A PDF with an invoice in it: the attached XML, everything else that is attached, and the text of its first pages.

Nothing in a PDF is run or opened. Its streams are unpacked within bounds, and only those that are needed.
"""

from __future__ import annotations

import io
import logging
from collections.abc import Iterator
from typing import Any, NamedTuple

from kontobahn.formats.invoices.findings import Refused
from kontobahn.formats.invoices.model import Attachment
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
