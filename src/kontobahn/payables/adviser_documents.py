"""Received invoices as documents for the adviser: the untouched file, and beside an XML file a PDF that people can read."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from kontobahn.clock import SECOND
from kontobahn.db import Database
from kontobahn.formats.document_package import Document, PackedFile
from kontobahn.formats.invoices.model import Invoice
from kontobahn.mobility.invoices.pdf import make_printable, typeset
from kontobahn.payables import document, store
from kontobahn.payables.document import Section
from kontobahn.payables.store import FileRow, PayableRow

PDF = "application/pdf"
# A page with a few lines has less; only for how many documents go into one package.
_USUAL_BYTES = 100_000
_LARGE = 200
_TEMPLATE = b"""
#let data = json(bytes(sys.inputs.data))
#set document(title: data.title)
#set page(paper: "a4", margin: 18mm, numbering: "1 / 1")
#set text(size: 9pt, lang: "de")
#text(size: 16pt, weight: "bold", data.title)
#for section in data.sections {
  block(above: 6mm, text(weight: "bold", section.heading))
  table(
    columns: section.widths.map(width => if width == 0 { auto } else { width * 1fr }),
    align: section.figures.map(figure => if figure { right } else { left }),
    stroke: 0.3pt + luma(180),
    inset: 4pt,
    ..section.cells,
  )
}
"""


def documents(db: Database, organization_id: str, guids: Sequence[str]) -> list[Document]:
    """Returns the received invoices with these GUIDs. Their files are read one at a time."""
    rows = db.read_now(store.by_document, organization_id, guids)
    return [Document(row.document_guid, _files(db, row)) for row in rows]


def _files(db: Database, row: PayableRow) -> tuple[PackedFile, ...]:
    file = db.read_now(store.files_of, row)[0]
    original = PackedFile(file.file_name, file.size, _reader(db, file))
    if file.media_type == PDF:
        return (original,)
    return (original, PackedFile(f"{file.file_name}.pdf", _USUAL_BYTES, lambda: as_pdf(row)))


def _reader(db: Database, file: FileRow) -> Callable[[], bytes]:
    return lambda: db.read_now(store.content_of, file)


def as_pdf(row: PayableRow) -> bytes:
    """Returns all that the invoice says as a PDF. The same invoice gives the same bytes."""
    invoice = msgspec.json.decode(row.invoice, type=Invoice)
    data = {
        "title": document.title_of(invoice, "de"),
        "sections": [_section(one) for one in document.sections(invoice, "de")],
    }
    inputs = {"data": msgspec.json.encode(make_printable(data)).decode()}
    return typeset(_TEMPLATE, inputs, row.created_at // SECOND, is_large=len(invoice.lines) > _LARGE)


def _section(section: Section) -> dict[str, object]:
    columns = len(section.rows[0])
    # Facts have a narrow name and a wide value; in a table the second column describes.
    widths = [1] if columns == 1 else [1, 3] if columns == 2 else [3 if place == 1 else 0 for place in range(columns)]
    cells = [cell for row in ([section.titles] if section.titles else []) for cell in row]
    return {
        "heading": section.heading,
        "widths": widths,
        "figures": [place in section.figures for place in range(columns)],
        "cells": cells + [" ".join(cell.split()) for row in section.rows for cell in row],
    }
