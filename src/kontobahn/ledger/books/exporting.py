"""Exports the books as files that can be imported again: bookings of a fiscal year with their receipts, partners, labels, terms.

What a file cannot hold is in the protocol beside it. As bookings never change, pages of them fit together without a long
transaction.
"""

from __future__ import annotations

import uuid
import zipfile
from collections.abc import Callable, Iterable, Iterator
from datetime import date, datetime
from typing import Any, BinaryIO, NamedTuple

import msgspec

from kontobahn.clock import berlin_datetime
from kontobahn.db import Database, Tx
from kontobahn.formats import document_package, extf
from kontobahn.formats.document_package import Document, PackedFile, beleglink
from kontobahn.formats.extf import Buchungssatz, Header
from kontobahn.ledger.books import partner_rows, persons, receipts, terms
from kontobahn.ledger.books.export_target import Archive, Note, Notes, Target
from kontobahn.ledger.books.posting import CLOSING_PERIOD
from kontobahn.ledger.books.store import LAST_BOOKING, Client, FiscalYear, edition_of
from kontobahn.ledger.books.unwritable import MAX_PARTS, Mender
from kontobahn.ledger.kontierung import full
from kontobahn.ledger.konto import functional, is_personenkonto

# The format's own limit for a batch.
MAX_ROWS_PER_FILE = 99_999
PAGE = 20_000
_BELEGLINK = str(extf.BUCHUNGSSTAPEL.titles.index("Beleglink") + 1)
# The fields of a Buchungssatz are columns of the table, but for the first: the line of a file.
_FIELDS = Buchungssatz._fields[1:]
_KONTO, _GEGENKONTO = _FIELDS.index("konto"), _FIELDS.index("gegenkonto")
_SOLL, _GENERALUMKEHR = _FIELDS.index("soll"), _FIELDS.index("generalumkehr")
_WEITERE = _FIELDS.index("weitere")


class Exported(NamedTuple):
    """The names of the files, and what they do not hold."""

    files: list[str]
    notes: Notes


class Export:
    """One export of a client's fiscal year."""

    def __init__(self, db: Database, client: Client, jahr: FiscalYear, target: Target, now: int) -> None:
        self._db, self._client, self._jahr, self._target = db, client, jahr, target
        self._created = _local(now)
        self._written: list[tuple[str, int]] = []
        self._notes = Notes()

    def run(self, *, with_receipts: bool = True) -> Exported:
        documents = self._db.read_now(_documents, self._client, self._jahr) if with_receipts else _NO_DOCUMENTS
        self._bookings(documents.links)
        self._partners()
        self._labels()
        self._terms()
        self._receipts(documents)
        return Exported(self._protocol(), self._notes)

    # --- Bookings

    def _bookings(self, links: dict[int, str]) -> None:
        """Files of at most 99,999 rows, closing entries in files of their own."""
        for is_closing in (False, True):
            after = number = 0
            while (
                count := self._db.read_now(_count_after, self._client, self._jahr, after, is_closing=is_closing)
            ) > 0:
                number += 1
                header = self._header(extf.BUCHUNGSSTAPEL, buchungstyp=2 if is_closing else 1)
                is_one_of_many = count > MAX_ROWS_PER_FILE - MAX_PARTS or number > 1
                suffix = ("_Abschluss" if is_closing else "") + (f"_{number}" if is_one_of_many else "")
                pages = _Pages(self._db, self._client, self._jahr, after, links, is_closing=is_closing)
                name = extf.file_name(header, suffix)
                mender = Mender(self._notes, name, lambda record: f"Buchung {record.line}")
                self._write(name, lambda file: extf.write_buchungsstapel(file, header, pages, mender.mend_booking))  # noqa: B023
                after = pages.last

    # --- Master data

    def _partners(self) -> None:
        header = self._header(extf.PERSONENKONTEN)
        name = extf.file_name(header)
        rows = self._partner_rows(name)
        self._write_some(extf.write_personenkonten, header, name, rows, lambda row: f"Personenkonto {row.konto}")

    def _partner_rows(self, name: str) -> Iterator[extf.Personenkonto]:
        after = ""
        while page := self._db.read_now(persons.listing, self._client, after, PAGE):
            after = page[-1][0]
            for _, record, kept in page:
                row = partner_rows.as_row(record) if kept is None else kept
                for item in partner_rows.lost(record, row, self._client):
                    found = f"The format has no room for {item.text}."
                    self._notes.add(
                        Note(name, f"Personenkonto {row.konto}", item.field, found, "It is not in the file.")
                    )
                yield row

    def _labels(self) -> None:
        header = self._header(extf.KONTENBESCHRIFTUNGEN)
        laenge = self._client.konto_laenge
        rows = (
            extf.Kontobeschriftung(0, functional(konto, laenge), text, "de-DE")
            for konto, text in self._db.read_now(_labels, self._client, self._jahr)
        )
        self._write_some(
            extf.write_kontenbeschriftungen, header, extf.file_name(header), rows, lambda row: f"Konto {row.konto}"
        )

    def _terms(self) -> None:
        header = self._header(extf.ZAHLUNGSBEDINGUNGEN)
        name = extf.file_name(header)
        found = self._db.read_now(terms.rows, self._client)
        for nummer, row in found:
            if row is None:
                reason = "Its periods are in words that the format has no columns for."
                note = Note(name, f"Zahlungsbedingung {nummer}", "perioden", reason, "The record was left out.")
                self._notes.add(note, left_out=True)
        rows = (row for _, row in found if row is not None)
        self._write_some(
            extf.write_zahlungsbedingungen, header, name, rows, lambda row: f"Zahlungsbedingung {row.nummer}"
        )

    # --- Receipts

    def _receipts(self, documents: _Documents) -> None:
        base = f"{self._client.client_id.replace('-', '_')}_{self._jahr.start.replace('-', '')}"
        parts = document_package.packages(self._document(guid, filed) for guid, filed in documents.filed.items())
        for number, part in enumerate(parts, 1):
            name = f"Belege_{base}{f'_{number}' if len(parts) > 1 else ''}.zip"
            about = f"Belege {self._jahr.start} bis {self._jahr.end}"
            with self._target.create(name) as file:
                document_package.write_package(file, part, self._created, about)
            self._written.append((name, len(part)))

    def _document(self, guid: str, filed: list[receipts.Filing]) -> Document:
        return Document(guid, tuple(PackedFile(item.dateiname, item.groesse, self._reader(item.id)) for item in filed))

    def _reader(self, image_id: str) -> Callable[[], bytes]:
        def read() -> bytes:
            image = self._db.read_now(receipts.find_image, self._client, image_id)
            assert image is not None, "receipts are never deleted"
            return image.content

        return read

    # --- Files

    def _write_some(
        self, write: Callable[..., int], header: Header, name: str, rows: Iterable[Any], name_of: Callable[[Any], str]
    ) -> None:
        """Writes a file of master data, if there are any."""
        remaining = iter(rows)
        first = next(remaining, None)
        if first is not None:
            mender = Mender(self._notes, name, name_of)
            self._write(name, lambda file: write(file, header, _with_first(first, remaining), mender.mend))

    def _write(self, name: str, write: Callable[[BinaryIO], int]) -> None:
        with self._target.create(name) as file:
            count = write(file)
        self._written.append((name, count))

    def _protocol(self) -> list[str]:
        berater, mandant = self._client.client_id.split("-")
        name = f"Protokoll_{berater}_{mandant}_{self._jahr.start.replace('-', '')}.txt"
        heading = [
            f"Export of {self._client.bezeichnung}, client {self._client.client_id}, on {self._created:%Y-%m-%d %H:%M}:"
            f" fiscal year {self._jahr.start} to {self._jahr.end}.",
            *(f"{written}: {count}" for written, count in self._written),
        ]
        with self._target.create(name) as file:
            self._notes.write(file, "\r\n".join(heading))
        return [*(written for written, _ in self._written), name]

    def _header(self, category: extf.Category, *, buchungstyp: int = 1) -> Header:
        berater, mandant = self._client.client_id.split("-")
        start, end = date.fromisoformat(self._jahr.start), date.fromisoformat(self._jahr.end)
        return extf.make_header(
            category, erzeugt_am=self._created, berater=int(berater), mandant=int(mandant), wj_beginn=start,
            sachkontenlaenge=self._client.konto_laenge, datum_von=start, datum_bis=end, bezeichnung="Kontobahn",
            buchungstyp=buchungstyp, skr=self._client.kontenrahmen.removeprefix("SKR"),
        )  # fmt: skip


def export_zip(
    db: Database, client: Client, jahr: FiscalYear, target: BinaryIO, now: int, *, with_receipts: bool
) -> Exported:
    """Writes the export as one zip."""
    with zipfile.ZipFile(target, "w") as archive:
        return Export(db, client, jahr, Archive(archive, _local(now)), now).run(with_receipts=with_receipts)


def _local(now: int) -> datetime:
    return berlin_datetime(now).replace(tzinfo=None)


def _with_first(first: Any, remaining: Iterator[Any]) -> Iterator[Any]:
    yield first
    yield from remaining


class _Pages:
    """Bookings in the order of their ids, read in pages, with links to their receipts."""

    def __init__(
        self, db: Database, client: Client, jahr: FiscalYear, after: int, links: dict[int, str], *, is_closing: bool
    ) -> None:
        self._db, self._client, self._jahr, self._links, self._is_closing = db, client, jahr, links, is_closing
        self.last = after

    def __iter__(self) -> Iterator[Buchungssatz]:
        left = MAX_ROWS_PER_FILE - MAX_PARTS
        while left:
            rows = self._db.read_now(
                _page, self._client, self._jahr, self.last, min(PAGE, left), is_closing=self._is_closing
            )
            if not rows:
                return
            for row in rows:
                yield self._as_buchungssatz(row)
            left -= len(rows)
            self.last = rows[-1][0]

    def _as_buchungssatz(self, row: tuple[Any, ...]) -> Buchungssatz:
        booking, *values = row
        laenge = self._client.konto_laenge
        values[_KONTO] = functional(values[_KONTO], laenge)
        values[_GEGENKONTO] = functional(values[_GEGENKONTO], laenge)
        values[_SOLL] = bool(values[_SOLL])
        values[_GENERALUMKEHR] = bool(values[_GENERALUMKEHR])
        guid = self._links.get(booking)
        if guid is not None:
            columns = extf.decode_weitere(values[_WEITERE])
            values[_WEITERE] = extf.encode_weitere({_BELEGLINK: beleglink(guid), **columns})
        return Buchungssatz(booking, *values)


def _periods(*, is_closing: bool) -> str:
    return f"periode {'=' if is_closing else '<>'} {CLOSING_PERIOD}"


def _count_after(tx: Tx, client: Client, jahr: FiscalYear, after: int, *, is_closing: bool) -> int:
    row = tx.one(
        f"SELECT COUNT(*) FROM books_bookings WHERE mandant = ? AND jahr = ? AND id > ? AND {_periods(is_closing=is_closing)}"
        f" AND +id <= {LAST_BOOKING}",
        client.mandant, jahr.start, after, client.mandant,
    )  # fmt: skip
    return int(row[0]) if row else 0


def _page(
    tx: Tx, client: Client, jahr: FiscalYear, after: int, limit: int, *, is_closing: bool
) -> list[tuple[Any, ...]]:
    return tx.all(
        f"SELECT id, {', '.join(_FIELDS)} FROM books_bookings WHERE mandant = ? AND jahr = ? AND id > ?"
        f" AND {_periods(is_closing=is_closing)} AND +id <= {LAST_BOOKING} ORDER BY id LIMIT ?",
        client.mandant, jahr.start, after, client.mandant, limit,
    )  # fmt: skip


def _labels(tx: Tx, client: Client, jahr: FiscalYear) -> list[tuple[str, str]]:
    """Labels of accounts that are booked on in the year or are called otherwise than our chart calls them; partners have names."""
    ours = {full(nummer): text for nummer, text in client.rahmen.beschriftungen.items()}
    booked = {
        konto for (konto,) in tx.all(
            "SELECT konto FROM books_balances WHERE edition = ? AND jahr = ?", edition_of(tx, client), jahr.start
        )
    }  # fmt: skip
    rows = tx.all(
        "SELECT a.konto, a.beschriftung, p.record FROM books_accounts a LEFT JOIN books_persons p"
        " ON p.mandant = a.mandant AND p.konto = a.konto WHERE a.mandant = ? AND a.beschriftung <> '' ORDER BY a.konto",
        client.mandant,
    )
    return [
        (konto, text)
        for konto, text, record in rows
        if (record is None or persons.name_of_record(msgspec.json.decode(record)) != text)
        and (is_personenkonto(konto) or konto in booked or ours.get(konto) != text)
    ]


class _Documents(NamedTuple):
    """Receipts as documents: those that were filed together by GUID, and the GUID of each booking that has some."""

    links: dict[int, str]
    filed: dict[str, list[receipts.Filing]]


_NO_DOCUMENTS = _Documents({}, {})


def _documents(tx: Tx, client: Client, jahr: FiscalYear) -> _Documents:
    links, filed = dict[int, str](), dict[str, list[receipts.Filing]]()
    of_task = receipts.filings_between(tx, client, jahr.start, jahr.end)
    guids = {task: _guid(items) for task, items in of_task.items()}
    for task, items in of_task.items():
        filed[guids[task]] = items
    for booking, task in tx.all(
        "SELECT booking, task FROM books_cash_entries WHERE mandant = ? AND datum BETWEEN ? AND ?",
        client.mandant, jahr.start, jahr.end,
    ):  # fmt: skip
        if task in guids:
            links[booking] = guids[task]
    return _Documents(links, filed)


def _guid(items: list[receipts.Filing]) -> str:
    """The id of the receipt; of several that were filed together one that follows from theirs. So it is the same in every export."""
    if len(items) == 1:
        return items[0].id
    return str(uuid.uuid5(uuid.UUID(items[0].id), " ".join(item.id for item in items)))
