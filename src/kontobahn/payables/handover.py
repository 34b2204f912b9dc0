"""Received invoices for books that others keep: handed over once, as a DATEV file with the package of their documents.

An invoice waits for it as soon as it is released, its accounts are accepted, and it is not booked here. The rows are kept as they
were made; the documents are read from what is kept anyway.
"""

from __future__ import annotations

import asyncio
import zipfile
from collections.abc import Callable, Sequence
from datetime import date, datetime
from decimal import Decimal
from itertools import takewhile
from typing import Annotated, BinaryIO, NamedTuple, Protocol, cast

import msgspec
from msgspec import Meta

from kontobahn.access import audit
from kontobahn.access.audit import Actor
from kontobahn.access.principal import Principal, find_in_scope, in_scope
from kontobahn.api.answers import Data
from kontobahn.api.call import Call, page
from kontobahn.api.declare import get, post
from kontobahn.api.tasks import ZIP, Exports
from kontobahn.api.wire import Answer, Body, FileDownload, ListQuery, Timestamp, Uuid
from kontobahn.clock import SECOND, berlin_date, berlin_datetime, to_datetime
from kontobahn.db import Database, Table, Tx, chunked
from kontobahn.errors import Conflict
from kontobahn.formats import document_package, extf
from kontobahn.formats.document_package import Document, PackedFile, beleglink
from kontobahn.formats.extf import Buchungssatz, ExtfError, encode_weitere
from kontobahn.formats.invoices.model import Invoice
from kontobahn.ids import new_id
from kontobahn.ledger import transmissions
from kontobahn.ledger.buchungen import EUR, BookingFile, make_file
from kontobahn.ledger.connections import ERRORS, ClientId, open_books
from kontobahn.ledger.connections import find as find_connection
from kontobahn.ledger.provider import Author, Outgoing, Transmission, TransmittingBooks
from kontobahn.ledger.wire import Geschaeftsjahr
from kontobahn.mobility.invoices.pdf import make_printable, typeset
from kontobahn.money import from_minor
from kontobahn.payables import document, store
from kontobahn.payables.booking import BOOKINGS, RELEASED, BookingRow, accounts_of, text_of
from kontobahn.payables.document import Section
from kontobahn.payables.rules import beleg_of
from kontobahn.payables.store import FileRow, PayableRow
from kontobahn.sentences import said

# Received invoices as documents for the adviser: the untouched file, and beside an XML file a PDF that people can read.


PDF = "application/pdf"
# A page with a few lines has less; only for how many documents go into one package.
_USUAL_BYTES = 100_000
_LARGE = 200
# References and addresses may have more letters without a blank than a line has room for: they may break after every 24.
_TEMPLATE = rb"""
#let data = json(bytes(sys.inputs.data))
#let accent = rgb("#12466b")
#let grey = rgb("#5b6670")
#let hair = 0.4pt + rgb("#c3ccd3")
#set document(title: data.title)
#set text(font: "Libertinus Serif", size: 9pt, lang: "de", number-width: "tabular", number-type: "lining")
#set par(leading: 0.5em)
#set page(
  paper: "a4",
  margin: (x: 20mm, top: 20mm, bottom: 18mm),
  footer: context {
    set text(size: 8pt, fill: grey)
    line(length: 100%, stroke: hair)
    v(-4pt)
    grid(
      columns: (1fr, auto), data.note,
      [Seite #counter(page).get().first() von #counter(page).final().first()],
    )
  },
)
#let told(cell) = cell.map(line => line.replace(regex("\S{24}"), part => part.text + "\u{200B}")).join(linebreak())
#let headed(section, body) = block(width: 100%, above: 0mm, below: 0mm)[
  #block(below: 2.5mm, sticky: true, text(size: 11pt, weight: "bold", fill: accent, section.heading))
  #body
]
#let facts(section) = headed(section, grid(
  columns: (32mm, 1fr), column-gutter: 3mm, row-gutter: 5pt,
  ..section.rows.map(row => (text(fill: grey, told(row.at(0))), told(row.at(1)))).flatten(),
))
#let sums(section) = align(right, block(width: 85mm, align(left, headed(section, table(
  columns: (1fr, auto), align: (left, right), inset: (x: 4.5pt, y: 3.5pt),
  stroke: (x, y) => (top: if y == section.rows.len() - 1 { 0.8pt + accent } else { none }),
  ..section.rows.enumerate().map(((place, row)) => row.map(
    cell => if place == section.rows.len() - 1 { text(weight: "bold", told(cell)) } else { told(cell) },
  )).flatten(),
)))))
#let rows(section) = headed(section, table(
  columns: section.widths.map(width => if width == 0 { auto } else { width * 1fr }),
  align: section.figures.map(figure => if figure { right } else { left }),
  stroke: (x, y) => (bottom: if y == 0 and section.titles.len() > 0 { 0.8pt + accent } else { hair }),
  inset: (x, y) => (left: if x == 0 { 0pt } else { 4.5pt }, right: 4.5pt, y: 3.5pt),
  ..if section.titles.len() > 0 {
    (table.header(..section.titles.map(title => text(size: 8pt, weight: "bold", fill: accent, title))),)
  },
  ..section.rows.map(row => row.map(told)).flatten(),
))
#block(below: 7mm, text(size: 17pt, weight: "bold", fill: accent, data.title))
#let above = data.sections.slice(0, data.above)
#grid(columns: (1fr, 1fr), column-gutter: 8mm, row-gutter: 6mm, ..above.map(facts))
#for section in data.sections.slice(data.above) {
  v(6mm, weak: true)
  if section.kind == "facts" { facts(section) } else if section.kind == "sums" { sums(section) } else { rows(section) }
}
"""


def documents(db: Database, organization_id: str, guids: Sequence[str]) -> list[Document]:
    """Returns the received invoices with these GUIDs. Their files are read one at a time."""
    rows = db.read_now(store.by_document, organization_id, guids)
    return [Document(row.document_guid, _files_for_adviser(db, row)) for row in rows]


def _files_for_adviser(db: Database, row: PayableRow) -> tuple[PackedFile, ...]:
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
    shown = [_section(one) for one in document.sections(invoice, "de")]
    data = {
        "title": document.title_of(invoice, "de"),
        "note": document.note_of("de"),
        "sections": shown,
        # Facts, seller and buyer stand side by side.
        "above": len(list(takewhile(lambda one: one["kind"] == "facts", shown))),
    }
    inputs = {"data": msgspec.json.encode(make_printable(data)).decode()}
    return typeset(_TEMPLATE, inputs, row.created_at // SECOND, is_large=len(invoice.lines) > _LARGE)


def _section(section: Section) -> dict[str, object]:
    columns = len(section.rows[0])
    if section.titles:
        # The first column of words behind a number or a code describes, and has all the room that the others leave.
        described = next(place for place in range(1, columns) if place not in section.figures)
        widths = [int(place == described) for place in range(columns)]
    else:
        # Facts have a narrow name and a wide value; texts have the whole line.
        widths = [1, 3][-columns:]
    kind = "rows" if section.titles or columns != 2 else "sums" if section.figures else "facts"
    return {
        "heading": section.heading,
        "kind": kind,
        "widths": widths,
        "figures": [place in section.figures for place in range(columns)],
        "titles": section.titles,
        "rows": [[_lines(cell) for cell in row] for row in section.rows],
    }


def _lines(text: str) -> list[str]:
    return [" ".join(line.split()) for line in text.splitlines()] or [""]


# A month of a small company; the rest goes into a second one. The documents of all of them go into one package.
MAX_INVOICES = 200
TITLE = "Kontobahn Eingangsrechnungen"
_BELEGLINK = str(extf.BUCHUNGSSTAPEL.titles.index("Beleglink") + 1)
_FAELLIGKEIT = str(extf.BUCHUNGSSTAPEL.titles.index("Fälligkeit") + 1)


class NewHandover(Body):
    connection_id: Annotated[Uuid, Meta(description="The books that the invoices belong to.")]
    client_id: ClientId | None = None


class HandoversQuery(ListQuery):
    from_id: Annotated[Uuid, Meta(description="Only what was made after this one: the last id seen.")] | None = None
    limit: Annotated[int, Meta(ge=1, le=500)] = 100


class LeftOutInvoice(Answer):
    payable_id: Uuid
    reason: str


class Handover(Answer):
    id: Uuid
    organization_id: Uuid
    connection_id: Uuid
    client_id: str
    invoices: int
    total: Annotated[Decimal, Meta(description="Of the invoices; credit notes are deducted.")]
    file_name: Annotated[str, Meta(description="Of the zip with the DATEV files and the documents.")]
    created_by: str
    created_at: Timestamp


class MadeHandover(Handover, kw_only=True):
    payable_ids: list[Uuid]
    left_out: Annotated[list[LeftOutInvoice], Meta(description="What waits on, and why.")]


class HandoverRow(NamedTuple):
    organization_id: str
    id: str
    connection_id: str
    client_id: str
    invoices: int
    total_minor: int
    made_by: str
    made_at: int


class HandoverFileRow(NamedTuple):
    organization_id: str
    handover_id: str
    name: str
    content: bytes
    # If it goes to a provider by itself.
    transmission_id: str | None


HANDOVERS = Table("payables_handovers", HandoverRow)
HANDOVER_FILES = Table("payables_handover_files", HandoverFileRow, key=("organization_id", "handover_id", "name"))


# --- The calls


@post(
    "/v2/payables/handovers",
    scope="payables:write", also_scope="ledger:write", errors=ERRORS,
    body_example={"connection_id": "0b7e2c1f-6f0e-4a4e-9d6a-2f1f5c8f7a10"},
)  # fmt: skip
async def create_payables_handover(call: Call, body: NewHandover) -> Data[MadeHandover]:
    """Hand over invoices to whoever keeps the books elsewhere: released, with accepted accounts, and not booked here.

    Each is in one hand-over only. Its rows have the number as Belegfeld 1, the due day, and the GUID under which the document is in
    the package beside them. At most 200 invoices; 409 if there is none. Nothing is booked here. Over a connection to DATEV the same
    files and documents are sent there, where the client has booked that: `GET /v2/ledger-duo/uebermittlungen` tells the outcome.
    """
    connection = await call.read_inline(find_connection, call.principal, body.connection_id)
    access = await open_books(call.context, call.principal, connection.id, body.client_id)
    async with access.to("stammdaten") as books:
        years = await books.geschaeftsjahre()
        keeper = Keeper(connection.organization_id, connection.id, books.client_id, years)
        outgoing = books.outgoing_file if isinstance(books, TransmittingBooks) else None
    author = Author(call.request_id, call.quelle, call.actor.name)
    return await call.commit(_make, keeper, call.actor, outgoing, author)


@get("/v2/payables/handovers", scope="payables:read", pages_by="from_id", errors=(403, 404))
async def list_payables_handovers(call: Call, query: HandoversQuery) -> Data[list[Handover]]:
    """List what was handed over, in the order in which it was made."""
    organizations = call.principal.organizations(query.organization_id)
    from_id = query.from_id.lower() if query.from_id else None
    rows = await call.read(listing, organizations, from_id, query.limit + 1)
    return Data([view(row) for row in page(call, rows, query.limit, lambda row: row.id)])


@get("/v2/payables/handovers/{id}/file", scope="payables:read", errors=(403, 404, 429), media_types=(ZIP,))
async def get_payables_handover_file(call: Call, id: Uuid) -> FileDownload:
    """Fetch the DATEV files of a hand-over and the package of its documents: untouched files, and a PDF beside each XML."""
    row = await call.read(find, call.principal, id)
    await call.context.db.write(note_taken, row)

    async def write(target: BinaryIO) -> None:
        await asyncio.to_thread(write_zip, call.context.db, row, target)

    return await call.context.part(Exports).download(call, file_name(row), write)


# --- Making


class Keeper(NamedTuple):
    """Books that others keep, and their fiscal years."""

    organization_id: str
    connection_id: str
    client_id: str
    years: Sequence[Geschaeftsjahr]


class Waiting(NamedTuple):
    row: PayableRow
    booking: BookingRow


def waiting(tx: Tx, keeper: Keeper, limit: int) -> list[Waiting]:
    """Returns the invoices of these books that wait to be handed over, in the order in which they came."""
    accepted = BOOKINGS.all(
        tx,
        "organization_id = ? AND state = 'accepted' AND handover_id IS NULL AND EXISTS (SELECT 1 FROM payables p"
        " WHERE p.organization_id = payables_bookings.organization_id AND p.id = payables_bookings.payable_id"
        f" AND p.connection_id = ? AND p.client_id = ? AND p.status IN ({', '.join('?' * len(RELEASED))}))"
        " ORDER BY payable_id LIMIT ?",
        *keeper[:3], *RELEASED, limit,
    )  # fmt: skip
    rows = {
        row.id: row
        for some, is_one in chunked(one.payable_id for one in accepted)
        for row in store.PAYABLES.all(tx, f"organization_id = ? AND id {is_one}", keeper.organization_id, *some)
    }
    return [Waiting(rows[one.payable_id], one) for one in accepted]


def count_waiting(tx: Tx, organization_id: str) -> dict[tuple[str, str], int]:
    """Returns how many invoices wait to be handed over, by books."""
    rows = tx.all(
        "SELECT p.connection_id, p.client_id, COUNT(*) FROM payables_bookings b JOIN payables p"
        " ON p.organization_id = b.organization_id AND p.id = b.payable_id"
        " WHERE b.organization_id = ? AND b.state = 'accepted' AND b.handover_id IS NULL"
        f" AND p.status IN ({', '.join('?' * len(RELEASED))}) GROUP BY p.connection_id, p.client_id",
        organization_id, *RELEASED,
    )  # fmt: skip
    return {(connection_id, client_id): int(number) for connection_id, client_id, number in rows}


class OutgoingFile(Protocol):
    """`TransmittingBooks.outgoing_file`."""

    def __call__(self, name: str, content: bytes, documents: Sequence[str] = ()) -> Outgoing | None: ...


def _sorted_out(
    tx: Tx, keeper: Keeper, made_at: datetime
) -> tuple[dict[Geschaeftsjahr, list[Waiting]], list[LeftOutInvoice]]:
    """Returns what can be handed over, by fiscal year, and what cannot."""
    by_year, left_out = dict[Geschaeftsjahr, list[Waiting]](), list[LeftOutInvoice]()
    for one in waiting(tx, keeper, MAX_INVOICES):
        day = date.fromisoformat(one.row.issue_date)
        year = next((year for year in keeper.years if year.start <= day <= year.end), None)
        if year is None:
            why = said("The client has no fiscal year for {day}: it is opened in the books first.", day=day.isoformat())
            left_out.append(LeftOutInvoice(one.row.id, why))
            continue
        try:
            make_file(_rows(one), keeper.client_id, year, made_at, TITLE)
        except ExtfError:
            left_out.append(LeftOutInvoice(one.row.id, "Its number or amount does not fit into a DATEV file."))
            continue
        by_year.setdefault(year, []).append(one)
    return by_year, left_out


def _make(tx: Tx, keeper: Keeper, actor: Actor, outgoing: OutgoingFile | None, author: Author) -> Data[MadeHandover]:
    organization_id, connection_id, client_id, _ = keeper
    store.lock(tx, organization_id)
    made_at = berlin_datetime(tx.now).replace(tzinfo=None)
    by_year, left_out = _sorted_out(tx, keeper, made_at)
    found = [one for invoices in by_year.values() for one in invoices]
    if not found:
        raise Conflict(
            "There is nothing to hand over: no released invoice with accepted accounts waits.", left_out=left_out
        )
    files: list[tuple[BookingFile, str | None]] = []
    for year, invoices in sorted(by_year.items(), key=lambda item: item[0]):
        file = make_file([row for one in invoices for row in _rows(one)], client_id, year, made_at, TITLE)
        guids = [one.row.document_guid for one in invoices]
        sent = outgoing(file.name, file.content, guids) if outgoing is not None else None
        made = transmissions.insert(tx, sent, author, organization_id) if sent is not None else None
        files.append((file, made and made.id))
    row = HandoverRow(
        organization_id, new_id(), connection_id, client_id, len(found), sum(one.row.total_minor for one in found),
        actor.name, tx.now,
    )  # fmt: skip
    _write(tx, row, found, files, actor)
    answer = view(row)
    return Data(
        MadeHandover(
            **{name: getattr(answer, name) for name in Handover.__struct_fields__},
            payable_ids=[one.row.id for one in found],
            left_out=left_out,
        )
    )


def _write(
    tx: Tx, row: HandoverRow, found: Sequence[Waiting], files: Sequence[tuple[BookingFile, str | None]], actor: Actor
) -> None:
    HANDOVERS.insert(tx, row)
    for file, sent_as in files:
        HANDOVER_FILES.insert(tx, HandoverFileRow(row.organization_id, row.id, file.name, file.content, sent_as))
    for one in found:
        BOOKINGS.update(tx, one.booking, handover_id=row.id)
        store.record_step(tx, one.row, "hand_over", "", actor.name, "")
    audit.record(tx, row.organization_id, actor, "payables.handover", row.id, invoices=row.invoices)


def _rows(one: Waiting) -> list[Buchungssatz]:
    row = one.row
    columns = {_BELEGLINK: beleglink(row.document_guid)}
    if row.due_date:
        columns[_FAELLIGKEIT] = f"{date.fromisoformat(row.due_date):%d%m%Y}"
    return [
        Buchungssatz(
            line=0, umsatz=account.amount_minor, soll=row.total_minor < 0, waehrung=EUR, kurs="", basis_umsatz=None,
            konto=row.konto, gegenkonto=account.konto, bu_schluessel=account.steuer, belegdatum=row.issue_date,
            belegfeld1=beleg_of(row.number), belegfeld2="", skonto=0, buchungstext=text_of(row), kost1="", kost2="",
            generalumkehr=False, weitere=encode_weitere(columns),
        )
        for account in accounts_of(one.booking.accounts)
    ]  # fmt: skip


# --- Reading


def find(tx: Tx, principal: Principal, handover_id: str) -> HandoverRow:
    return find_in_scope(tx, HANDOVERS, principal, "Hand-over", handover_id.lower())


def listing(tx: Tx, organizations: tuple[str, ...], from_id: str | None, limit: int) -> list[HandoverRow]:
    only, params = ("", ()) if from_id is None else (" AND id > ?", (from_id,))
    return HANDOVERS.all(
        tx, f"{in_scope(len(organizations))}{only} ORDER BY id LIMIT ?", *organizations, *params, limit
    )


def latest(tx: Tx, organization_id: str, before: str, limit: int) -> list[HandoverRow]:
    """Returns the newest first; `before` is the id of the last one of the page before."""
    only, params = (" AND id < ?", (before,)) if before else ("", ())
    return HANDOVERS.all(tx, f"organization_id = ?{only} ORDER BY id DESC LIMIT ?", organization_id, *params, limit)


def sent_files(tx: Tx, row: HandoverRow) -> list[Transmission]:
    """Returns the last transmission of each file that goes to a provider by itself."""
    rows = tx.all(
        "SELECT transmission_id FROM payables_handover_files WHERE organization_id = ? AND handover_id = ? ORDER BY name",
        row.organization_id, row.id,
    )  # fmt: skip
    found = (transmissions.last_sent(tx, row.organization_id, sent_as) for (sent_as,) in rows if sent_as)
    return [one for one in found if one is not None]


def note_taken(tx: Tx, row: HandoverRow) -> None:
    """Notes that somebody has the files: those that failed are not to be sent again."""
    for sent in sent_files(tx, row):
        transmissions.note_taken(tx, row.organization_id, sent.id)


def view(row: HandoverRow) -> Handover:
    return Handover(
        row.id, row.organization_id, row.connection_id, row.client_id, row.invoices, from_minor(row.total_minor),
        file_name(row), row.made_by, to_datetime(row.made_at),
    )  # fmt: skip


def file_name(row: HandoverRow) -> str:
    return f"Eingangsrechnungen_{row.client_id}_{berlin_date(row.made_at):%Y%m%d}_{row.id[-6:]}.zip"


def write_zip(db: Database, row: HandoverRow, target: BinaryIO) -> None:
    """Writes the hand-over, the same every time: DATEV files, and the package of the documents that they refer to."""
    made_at = berlin_datetime(row.made_at).replace(tzinfo=None)
    filed = documents(db, row.organization_id, db.read_now(_guids, row))
    parts = document_package.packages(filed)
    with zipfile.ZipFile(target, "w") as archive:
        for file in db.read_now(_files, row):
            archive.writestr(_info(file.name, made_at), bytes(file.content))
        for number, part in enumerate(parts, 1):
            name = f"Belege_{row.client_id}_{made_at:%Y%m%d}{f'_{number}' if len(parts) > 1 else ''}.zip"
            with archive.open(_info(name, made_at), "w", force_zip64=True) as package:
                document_package.write_package(
                    cast(BinaryIO, package), part, made_at, f"Eingangsrechnungen {made_at:%d.%m.%Y}"
                )


def _info(name: str, made_at: datetime) -> zipfile.ZipInfo:
    return zipfile.ZipInfo(name, date_time=made_at.timetuple()[:6])


def _files(tx: Tx, row: HandoverRow) -> list[HandoverFileRow]:
    return HANDOVER_FILES.all(tx, "organization_id = ? AND handover_id = ? ORDER BY name", row.organization_id, row.id)


def _guids(tx: Tx, row: HandoverRow) -> list[str]:
    found = BOOKINGS.all(tx, "organization_id = ? AND handover_id = ? ORDER BY payable_id", row.organization_id, row.id)
    payables = [store.get(tx, row.organization_id, one.payable_id) for one in found]
    return [one.document_guid for one in payables if one is not None]
