"""Writes document packages, as DATEV takes receipts: a zip with the files and a `document.xml` that says which belong together.

A document has a GUID, to which bookings refer (`beleglink`), and one file or several. Its files are asked for one at a time:
together they may be gigabytes.
"""

from __future__ import annotations

import re
import zipfile
from collections.abc import Callable, Iterable
from datetime import date, datetime
from pathlib import PurePosixPath
from typing import BinaryIO, NamedTuple

from kontobahn.xml_text import escape, quoted

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
            extensions = "".join(f'<extension xsi:type="File" name={quoted(name)}/>' for name in names)
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


# Writes cash entries as DATEV's ledger import takes them: the lines as XML, and the `document.xml` that names cash book
# and receipts.
#
# Element names and their order are those of LedgerImport 6.0 and of the archive format 6.0.


LEDGER, DOCUMENT = "ledger.xml", "document.xml"
_LEDGER_NAMESPACE = "http://xml.datev.de/bedi/tps/ledger/v060"


class LedgerLine(NamedTuple):
    """`amount` is in cents, positive for income; the account as the client writes it."""

    amount: int
    account: str
    text: str
    tax_key: str = ""
    percent: str = ""
    cost1: str = ""
    cost2: str = ""
    number: str = ""


def write_lines(lines: Iterable[LedgerLine], day: date) -> bytes:
    rows = list(lines)
    total = _euros(sum(line.amount for line in rows))
    head = (
        '<?xml version="1.0" encoding="UTF-8"?>\n'
        f'<LedgerImport xmlns="{_LEDGER_NAMESPACE}" xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance"'
        f' xsi:schemaLocation="{_LEDGER_NAMESPACE} Belegverwaltung_online_ledger_import_v060.xsd" version="6.0"'
        ' generator_info="Kontobahn" generating_system="Kontobahn"'
        ' xml_data="Kopie nur zur Verbuchung berechtigt nicht zum Vorsteuerabzug">\n'
        f'<consolidate consolidatedAmount="{total}" consolidatedDate="{day}" consolidatedCurrencyCode="EUR">\n'
    )
    body = "".join(_line(line, day) for line in rows)
    return f"{head}{body}</consolidate>\n</LedgerImport>\n".encode()


def _line(line: LedgerLine, day: date) -> str:
    fields = {
        "date": day.isoformat(), "amount": _euros(line.amount), "accountNo": line.account, "buCode": line.tax_key,
        "costCategoryId": line.cost1, "costCategoryId2": line.cost2, "tax": line.percent, "currencyCode": "EUR",
        "invoiceId": line.number, "bookingText": line.text,
    }  # fmt: skip
    inner = "".join(f"<{name}>{escape(text)}</{name}>" for name, text in fields.items() if text)
    return f"<cashLedger>{inner}</cashLedger>\n"


def _euros(cents: int) -> str:
    sign = "-" if cents < 0 else ""
    return f"{sign}{abs(cents) // 100}.{abs(cents) % 100:02d}"


def write_document(guid: str, cash_book: str, month: str, receipts: Iterable[str], created: datetime) -> bytes:
    """Returns the `document.xml`; `month` as 2026-03."""
    properties = f'<property key="1" value="{month}"/><property key="3" value={quoted(cash_book)}/>'
    ledger = f'<extension xsi:type="cashLedger" datafile="{LEDGER}">{properties}</extension>'
    files = "".join(f'<extension xsi:type="File" name={quoted(name)}/>' for name in receipts)
    entry = f'<document guid="{guid}" processID="1">{ledger}{files}</document>\n'
    return manifest([entry], created, "Kassenbuch").encode()
