"""Writes cash entries as DATEV's ledger import takes them: the lines as XML, and the `document.xml` that names cash book and receipts.

Element names and their order are those of LedgerImport 6.0 and of the archive format 6.0.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import date, datetime
from typing import NamedTuple
from xml.sax.saxutils import escape, quoteattr

from kontobahn.formats.document_package import manifest

LEDGER, DOCUMENT = "ledger.xml", "document.xml"
_NAMESPACE = "http://xml.datev.de/bedi/tps/ledger/v060"


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
        f'<LedgerImport xmlns="{_NAMESPACE}" xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance"'
        f' xsi:schemaLocation="{_NAMESPACE} Belegverwaltung_online_ledger_import_v060.xsd" version="6.0"'
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
    properties = f'<property key="1" value="{month}"/><property key="3" value={quoteattr(cash_book)}/>'
    ledger = f'<extension xsi:type="cashLedger" datafile="{LEDGER}">{properties}</extension>'
    files = "".join(f'<extension xsi:type="File" name={quoteattr(name)}/>' for name in receipts)
    entry = f'<document guid="{guid}" processID="1">{ledger}{files}</document>\n'
    return manifest([entry], created, "Kassenbuch").encode()
