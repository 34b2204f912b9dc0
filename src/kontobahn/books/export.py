"""Exports of the books as files that can be imported again: bookings of a fiscal year with their receipts, partners, labels, terms.

What a file cannot hold is in the protocol beside it. As bookings never change, pages of them fit together without a long
transaction.
"""

from __future__ import annotations

import re
import uuid
import zipfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from datetime import date, datetime
from pathlib import Path
from tempfile import SpooledTemporaryFile
from typing import Any, BinaryIO, NamedTuple, Protocol, TypeVar, cast

import msgspec

from kontobahn.books import cash_book, partners, store
from kontobahn.books.satz import CLOSING_PERIOD
from kontobahn.books.store import LAST_BOOKING, STANDING, Client, FiscalYear, edition_of
from kontobahn.clock import berlin_datetime
from kontobahn.db import Database, Tx
from kontobahn.errors import SetupError
from kontobahn.formats import document_package, extf
from kontobahn.formats.document_package import Document, PackedFile, beleglink, linked_guid
from kontobahn.formats.extf import Buchungssatz, Header
from kontobahn.ledger import personenkonto
from kontobahn.ledger.kontierung import full, key_beside_automatic
from kontobahn.ledger.konto import functional, is_personenkonto
from kontobahn.ledger.provider import DocumentSource
from kontobahn.ledger.steuer import era_of

# The format's own limit for a batch.
MAX_ROWS_PER_FILE = 99_999
PAGE = 20_000
_BELEGLINK = str(extf.BUCHUNGSSTAPEL.titles.index("Beleglink") + 1)
# The fields of a Buchungssatz are columns of the table, but for the first: the line of a file.
_FIELDS = Buchungssatz._fields[1:]
_KONTO, _GEGENKONTO = _FIELDS.index("konto"), _FIELDS.index("gegenkonto")
_SOLL, _GENERALUMKEHR = _FIELDS.index("soll"), _FIELDS.index("generalumkehr")
_WEITERE, _SCHLUESSEL = _FIELDS.index("weitere"), _FIELDS.index("bu_schluessel")
_BELEGDATUM = _FIELDS.index("belegdatum")


class Exported(NamedTuple):
    """The names of the files, and what they do not hold."""

    files: list[str]
    notes: Notes


class Export:
    """One export of a client's fiscal year."""

    def __init__(
        self,
        db: Database,
        client: Client,
        jahr: FiscalYear,
        target: Target,
        now: int,
        documents: DocumentSource | None = None,
    ) -> None:
        """`documents` has those that bookings refer to and that others keep."""
        self._db, self._client, self._jahr, self._target = db, client, jahr, target
        self._others = documents
        self._referred: dict[str, None] = {}
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
        """Writes files of at most 99,999 rows, closing entries in files of their own."""
        for is_closing in (False, True):
            after = number = 0
            while (
                count := self._db.read_now(_count_after, self._client, self._jahr, after, is_closing=is_closing)
            ) > 0:
                number += 1
                header = self._header(extf.BUCHUNGSSTAPEL, buchungstyp=2 if is_closing else 1)
                is_one_of_many = count > MAX_ROWS_PER_FILE - MAX_PARTS or number > 1
                suffix = ("_Abschluss" if is_closing else "") + (f"_{number}" if is_one_of_many else "")
                name = extf.file_name(header, suffix)
                pages = _Pages(
                    self._db, self._client, self._jahr, after, links, self._tell(name), is_closing=is_closing
                )
                pages.referred = self._referred
                rewriter = Rewriter(self._notes, name, lambda record: f"Buchung {record.line}")
                self._write(name, lambda file: extf.write_buchungsstapel(file, header, pages, rewriter.rewrite_booking))  # noqa: B023
                after = pages.last

    def _tell(self, name: str) -> Callable[[int, str, str], None]:
        def tell(booking: int, before: str, after: str) -> None:
            found = f"The key {before} stands beside an account that carries tax by itself."
            if not before:
                found = "Both accounts carry tax by themselves."
            done = "It was left out, because the account says the same."
            if after not in ("", "20"):
                done = f"The key was written as {after}, because the amount was booked without tax."
            self._notes.add(Note(name, f"Buchung {booking}", "BU-Schlüssel", found, done))

        return tell

    # --- Master data

    def _partners(self) -> None:
        header = self._header(extf.PERSONENKONTEN)
        name = extf.file_name(header)
        rows = self._partner_rows(name)
        self._write_some(extf.write_personenkonten, header, name, rows, lambda row: f"Personenkonto {row.konto}")

    def _partner_rows(self, name: str) -> Iterator[extf.Personenkonto]:
        after = ""
        while page := self._db.read_now(partners.listing, self._client, after, PAGE):
            after = page[-1][0]
            for _, record, kept in page:
                row = personenkonto.as_row(record) if kept is None else kept
                for item in personenkonto.lost_in_row(record, row):
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
        found = self._db.read_now(store.payment_term_rows, self._client)
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
        filed = [self._document(guid, items) for guid, items in documents.filed.items()]
        referred = [guid for guid in self._referred if guid not in documents.filed]
        if self._others is not None and referred:
            filed += self._others(self._db, self._client.organization_id, referred)
        parts = document_package.packages(filed)
        for number, part in enumerate(parts, 1):
            name = f"Belege_{base}{f'_{number}' if len(parts) > 1 else ''}.zip"
            about = f"Belege {self._jahr.start} bis {self._jahr.end}"
            with self._target.create(name) as file:
                document_package.write_package(file, part, self._created, about)
            self._written.append((name, len(part)))

    def _document(self, guid: str, filed: list[cash_book.Filing]) -> Document:
        return Document(guid, tuple(PackedFile(item.dateiname, item.groesse, self._reader(item.id)) for item in filed))

    def _reader(self, image_id: str) -> Callable[[], bytes]:
        def read() -> bytes:
            image = self._db.read_now(cash_book.find_image, self._client, image_id)
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
            rewriter = Rewriter(self._notes, name, name_of)
            self._write(name, lambda file: write(file, header, _with_first(first, remaining), rewriter.rewrite))

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
    db: Database,
    client: Client,
    jahr: FiscalYear,
    target: BinaryIO,
    now: int,
    *,
    with_receipts: bool,
    documents: DocumentSource | None = None,
) -> Exported:
    """Writes the export as one zip."""
    with zipfile.ZipFile(target, "w") as archive:
        work = Export(db, client, jahr, Archive(archive, _local(now)), now, documents)
        return work.run(with_receipts=with_receipts)


def _local(now: int) -> datetime:
    return berlin_datetime(now).replace(tzinfo=None)


def _with_first(first: Any, remaining: Iterator[Any]) -> Iterator[Any]:
    yield first
    yield from remaining


class _Pages:
    """Bookings in the order of their ids, read in pages, with links to their receipts."""

    def __init__(
        self, db: Database, client: Client, jahr: FiscalYear, after: int, links: dict[int, str],
        tell: Callable[[int, str, str], None], *, is_closing: bool,
    ) -> None:  # fmt: skip
        """`tell` is called with a booking whose key is written as another one, and with both."""
        self._db, self._client, self._jahr, self._links, self._is_closing = db, client, jahr, links, is_closing
        self._tell = tell
        self.last = after
        # The documents that the rows refer to by themselves, in their order.
        self.referred: dict[str, None] = {}

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
        booking, aufteilung, *values = row
        laenge = self._client.konto_laenge
        key = key_beside_automatic(
            self._client.rahmen, values[_KONTO], values[_GEGENKONTO], values[_SCHLUESSEL], era_of(values[_BELEGDATUM]), aufteilung
        )  # fmt: skip
        if key != values[_SCHLUESSEL]:
            self._tell(booking, values[_SCHLUESSEL], key)
            values[_SCHLUESSEL] = key
        values[_KONTO] = functional(values[_KONTO], laenge)
        values[_GEGENKONTO] = functional(values[_GEGENKONTO], laenge)
        values[_SOLL] = bool(values[_SOLL])
        values[_GENERALUMKEHR] = bool(values[_GENERALUMKEHR])
        guid = self._links.get(booking)
        linked = linked_guid(extf.decode_weitere(values[_WEITERE]).get(_BELEGLINK, "")) if values[_WEITERE] else None
        if linked is not None:
            self.referred[linked] = None
        if guid is not None:
            columns = extf.decode_weitere(values[_WEITERE])
            values[_WEITERE] = extf.encode_weitere({_BELEGLINK: beleglink(guid), **columns})
        return Buchungssatz(booking, *values)


def _exported(*, is_closing: bool) -> str:
    """Returns the condition for bookings of a file; takes the client's number. What was undone has no effect, here as in the books."""
    return f"periode {'=' if is_closing else '<>'} {CLOSING_PERIOD} AND {STANDING}"


def _count_after(tx: Tx, client: Client, jahr: FiscalYear, after: int, *, is_closing: bool) -> int:
    row = tx.one(
        f"SELECT COUNT(*) FROM books_bookings WHERE mandant = ? AND jahr = ? AND id > ? AND {_exported(is_closing=is_closing)}"
        f" AND +id <= {LAST_BOOKING}",
        client.mandant, jahr.start, after, client.mandant, client.mandant,
    )  # fmt: skip
    return int(row[0]) if row else 0


def _page(
    tx: Tx, client: Client, jahr: FiscalYear, after: int, limit: int, *, is_closing: bool
) -> list[tuple[Any, ...]]:
    return tx.all(
        f"SELECT id, aufteilung, {', '.join(_FIELDS)} FROM books_bookings WHERE mandant = ? AND jahr = ? AND id > ?"
        f" AND {_exported(is_closing=is_closing)} AND +id <= {LAST_BOOKING} ORDER BY id LIMIT ?",
        client.mandant, jahr.start, after, client.mandant, client.mandant, limit,
    )  # fmt: skip


def _labels(tx: Tx, client: Client, jahr: FiscalYear) -> list[tuple[str, str]]:
    """Returns the labels of accounts with bookings in the year or with another label than in our chart; partners have names."""
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
        if (record is None or personenkonto.name_of(msgspec.json.decode(record)) != text)
        and (is_personenkonto(konto) or konto in booked or ours.get(konto) != text)
    ]


class _Documents(NamedTuple):
    """Receipts as documents: those that were filed together by GUID, and the GUID of each booking that has some."""

    links: dict[int, str]
    filed: dict[str, list[cash_book.Filing]]


_NO_DOCUMENTS = _Documents({}, {})


def _documents(tx: Tx, client: Client, jahr: FiscalYear) -> _Documents:
    links, filed = dict[int, str](), dict[str, list[cash_book.Filing]]()
    of_task = cash_book.filings_between(tx, client, jahr.start, jahr.end)
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


def _guid(items: list[cash_book.Filing]) -> str:
    """Returns the id of the receipt, or one that follows from those of several filed together: it is the same in every export."""
    if len(items) == 1:
        return items[0].id
    return str(uuid.uuid5(uuid.UUID(items[0].id), " ".join(item.id for item in items)))


# --- Targets, and the protocol


# The first thousand notes are kept for an answer; the file has all of them.
KEPT = 1_000
_IN_MEMORY = 1024 * 1024
_BLOCK = 256 * 1024


class Target(Protocol):
    def create(self, name: str) -> AbstractContextManager[BinaryIO]:
        """Creates a file of this name to write into."""


class Folder:
    """Files in a folder: all or nothing of each, and none is overwritten."""

    def __init__(self, path: Path) -> None:
        self._path = path

    @contextmanager
    def create(self, name: str) -> Iterator[BinaryIO]:
        path = self._path / name
        if path.exists():
            raise SetupError(f"{path} already exists; an export never overwrites a file.")
        unfinished = path.with_name(path.name + ".part")
        try:
            with open(unfinished, "wb") as file:
                yield file
            unfinished.replace(path)
        finally:
            unfinished.unlink(missing_ok=True)


class Archive:
    """Files in a zip, which is written from beginning to end."""

    def __init__(self, archive: zipfile.ZipFile, created: datetime) -> None:
        self._archive, self._created = archive, created

    @contextmanager
    def create(self, name: str) -> Iterator[BinaryIO]:
        # Receipts are already compressed.
        info = zipfile.ZipInfo(name, self._created.timetuple()[:6])
        info.compress_type = zipfile.ZIP_STORED if name.endswith(".zip") else zipfile.ZIP_DEFLATED
        with self._archive.open(info, "w", force_zip64=True) as file:
            yield cast(BinaryIO, file)


class Note(NamedTuple):
    """Something that is not in the files as it is in the books: two sentences, what was found and what was done."""

    file: str
    record: str
    field: str
    found: str
    done: str


class Notes:
    """The protocol, as it is being written."""

    def __init__(self) -> None:
        self.first: list[Note] = []
        self.count = 0
        self.left_out = 0
        self._spool = SpooledTemporaryFile(_IN_MEMORY)  # noqa: SIM115

    def add(self, note: Note, *, left_out: bool = False) -> None:
        self.count += 1
        self.left_out += left_out
        if len(self.first) < KEPT:
            self.first.append(note)
        place = ", ".join(filter(None, (note.record, note.field)))
        self._spool.write(f"{note.file}: {place}: {note.found} {note.done}\r\n".encode(errors="replace"))

    def write(self, target: BinaryIO, heading: str) -> None:
        notes = "1 note" if self.count == 1 else f"{self.count} notes"
        summary = f"{notes} on what is not in the files as it is in the books:" if self.count else ""
        nothing_lost = "The files hold everything that the books hold."
        target.write(f"{heading}\r\n\r\n{summary or nothing_lost}\r\n".encode())
        self._spool.seek(0)
        while block := self._spool.read(_BLOCK):
            target.write(block)
        self._spool.close()


# --- Records that the format refuses


_R = TypeVar("_R", bound=tuple[Any, ...])
# Ten digits before the comma.
_TOO_LARGE = 10**12
# A part of an amount is a multiple of this: then its tax has no fraction of a cent at any rate (5, 7, 16, 19 %), and the tax of
# the parts is the tax of the whole.
_EVEN = 22_155_420
_PART = (_TOO_LARGE - 1) // _EVEN * _EVEN
MAX_PARTS = 100
_UNWRITABLE = re.compile(r"[\x00-\x1f\x7f\ud800-\udfff]")


class Rewriter:
    """Rewrites records of one file that the format refuses, or leaves them out. The protocol names either."""

    def __init__(self, notes: Notes, file: str, name_of: Callable[[Any], str]) -> None:
        self._notes, self._file, self._name_of = notes, file, name_of
        # The rows that splitting may add to the file, which has a largest number of rows.
        self.room = MAX_PARTS

    def rewrite(self, record: _R, reason: str) -> list[_R]:
        clean: _R = _cleaned(record)
        if clean != record:
            self._note(record, reason, "Each such character was replaced by a blank.")
            return [clean]
        self._note(record, reason, "The record was left out.", left_out=True)
        return []

    def rewrite_booking(self, record: Buchungssatz, reason: str) -> list[Buchungssatz]:
        count = -(-record.umsatz // _PART)
        if record.umsatz < _TOO_LARGE or record.basis_umsatz is not None or count > self.room:
            return self.rewrite(record, reason)
        self.room -= count
        self._note(record, reason, f"It was written as {count} rows that add up to it.")
        part = record._replace(umsatz=_PART, skonto=0)
        rest = record.umsatz - _PART * (count - 1)
        return [*[part] * (count - 1), record._replace(umsatz=rest)]

    def _note(self, record: Any, found: str, done: str, *, left_out: bool = False) -> None:
        self._notes.add(Note(self._file, self._name_of(record), "", found, done), left_out=left_out)


def _cleaned(value: Any) -> Any:
    """Returns the record with blanks for characters that no file can hold."""
    if isinstance(value, str):
        return _UNWRITABLE.sub(" ", value)
    if isinstance(value, tuple):
        items = [_cleaned(item) for item in value]
        if "weitere" in getattr(value, "_fields", ()):
            items[value._fields.index("weitere")] = _cleaned_columns(value.weitere)  # type: ignore[attr-defined]
        return type(value)(*items) if hasattr(value, "_fields") else tuple(items)
    return value


def _cleaned_columns(weitere: str) -> str:
    columns = extf.decode_weitere(weitere)
    clean = {number: _UNWRITABLE.sub(" ", text) for number, text in columns.items()}
    return weitere if clean == columns else extf.encode_weitere(clean)
