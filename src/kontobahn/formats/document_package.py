"""Writes document packages, as DATEV takes receipts: a zip with the files and a `document.xml` that says which belong together.

A document has a GUID, to which bookings refer (`beleglink`), and one file or several. Its files are asked for one at a time:
together they may be gigabytes.
"""

from __future__ import annotations

import re
import zipfile
from collections.abc import Callable, Iterable
from datetime import datetime
from pathlib import PurePosixPath
from typing import BinaryIO, NamedTuple
from xml.sax.saxutils import escape, quoteattr

# The format's own limits: documents in a package, files of a document. More than 100 MB are not recommended in one package.
MAX_DOCUMENTS = 5_000
MAX_FILES = 50
MAX_BYTES = 100_000_000
_NAMESPACE = "http://xml.datev.de/bedi/tps/document/v06.0"
_UNSAFE = re.compile(r"[^ &()+\-._0-9A-Za-zÀ-ÖØ-öø-ÿ]")
_BELEGLINK = re.compile(r'BEDI\s+"+([0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12})"+')
_MAX_STEM, _MAX_EXTENSION = 80, 10


class PackedFile(NamedTuple):
    name: str
    size: int
    read: Callable[[], bytes]


class Document(NamedTuple):
    guid: str
    files: tuple[PackedFile, ...]


def beleglink(guid: str) -> str:
    """Returns the text of a booking's column Beleglink."""
    return f'BEDI "{guid}"'


def linked_guid(text: str) -> str | None:
    """Returns the GUID in the text of such a column, in small letters."""
    found = _BELEGLINK.fullmatch(text.strip())
    return found[1].lower() if found else None


def packages(documents: Iterable[Document]) -> list[list[Document]]:
    """Distributes documents over as many packages as their number and size need."""
    found: list[list[Document]] = []
    room = 0
    for document in documents:
        size = sum(file.size for file in document.files)
        if not found or size > room or len(found[-1]) == MAX_DOCUMENTS:
            found.append([])
            room = MAX_BYTES
        found[-1].append(document)
        room -= size
    return found


def write_package(target: BinaryIO, documents: Iterable[Document], created: datetime, description: str) -> None:
    """Writes a package to a stream, which need not be seekable."""
    with zipfile.ZipFile(target, "w", zipfile.ZIP_STORED) as package:
        entries = []
        number = 0
        for document in documents:
            names = []
            for file in document.files:
                number += 1
                names.append(f"{number:05d}_{safe_name(file.name)}")
                package.writestr(_info(names[-1], created), file.read())
            extensions = "".join(f'<extension xsi:type="File" name={quoteattr(name)}/>' for name in names)
            entries.append(f'<document guid="{document.guid}" processID="1">{extensions}</document>\n')
        package.writestr(_info("document.xml", created), manifest(entries, created, description))


def _info(name: str, created: datetime) -> zipfile.ZipInfo:
    return zipfile.ZipInfo(name, date_time=created.timetuple()[:6])


def manifest(entries: list[str], created: datetime, description: str) -> str:
    """Returns the `document.xml` of documents that are written already."""
    return (
        '<?xml version="1.0" encoding="UTF-8"?>\n'
        f'<archive xmlns="{_NAMESPACE}" xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance"'
        f' xsi:schemaLocation="{_NAMESPACE} Document_v060.xsd" version="6.0" generatingSystem="Kontobahn">\n'
        f"<header><date>{created:%Y-%m-%dT%H:%M:%S}</date><description>{escape(description[:255])}</description></header>\n"
        f"<content>\n{''.join(entries)}</content>\n</archive>\n"
    )


def safe_name(name: str) -> str:
    """The name without folders and with only those characters that DATEV and every file system take; its extension stays."""
    path = PurePosixPath(name.replace("\\", "/"))
    stem, extension = (_UNSAFE.sub("_", part) for part in (path.stem, path.suffix))
    return f"{stem[:_MAX_STEM].strip(' .') or 'Beleg'}{extension[:_MAX_EXTENSION]}"
