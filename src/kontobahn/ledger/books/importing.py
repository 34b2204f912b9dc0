"""Imports EXTF files into the books: as a whole or not at all (or, on request, without the refused rows), and never twice."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from operator import itemgetter
from typing import NamedTuple

from kontobahn.db import Tx
from kontobahn.errors import Conflict, Refusal
from kontobahn.formats import extf
from kontobahn.formats.extf import Buchungssatz, ExtfFile, RowError, RowWarning
from kontobahn.ledger.books import batches, cash_days, posting, store
from kontobahn.ledger.books.batches import Content
from kontobahn.ledger.books.booked import BookedRows, Lookalikes, LooksBooked
from kontobahn.ledger.books.master_data import MasterData
from kontobahn.ledger.books.posting import Batch, Poster, Satz
from kontobahn.ledger.books.protocol import Protocol
from kontobahn.ledger.books.reimport import PartialRows
from kontobahn.ledger.books.store import Client
from kontobahn.ledger.kontierung import KontierungError
from kontobahn.ledger.konto import SACHKONTO_DIGITS
from kontobahn.ledger.provider import ConnectionRef

REPORT_EVERY = 5_000

_WAY_OUT = (
    "If they are other bookings, say so with --another (by call: another=true); with --partial (partial=true) the rest is imported"
    " without them."
)

Progress = Callable[[int, int], None]


class Report(NamedTuple):
    """The outcome for a file; of refused rows and warnings the first thousand."""

    batch: str
    category: str
    client_id: str
    imported: int
    refused: list[RowError]
    refused_count: int
    # Rows that an earlier, partial import of the same file had booked.
    known: int
    warnings: list[RowWarning]
    warning_count: int


class ImportRefused(Refusal):
    """Rows were refused and nothing was imported."""

    status = 400

    def __init__(self, report: Report, protocol: Protocol) -> None:
        super().__init__(
            f"{report.refused_count} rows were refused; nothing was imported.",
            abgelehnt=report.refused_count,
            warnungen=report.warning_count,
            protokoll=protocol.lines(),
        )
        self.report = report


class Job(NamedTuple):
    """What is to be imported, how and for whom."""

    name: str
    author: str
    partial: bool = False
    # Rows that look booked already are other bookings.
    another: bool = False
    batch_id: str = ""
    progress: Progress = lambda done, total: None


def import_file(tx: Tx, client: Client, file: ExtfFile, job: Job, read: MasterData | None = None) -> Report:
    """One unit of work; `read` is the file if it has master data and was read before.

    Raises Conflict if the same content was imported before, LooksBooked if rows look booked already, and ImportRefused with every
    refused row.
    """
    refuse_other_chart(client, file)
    jahr = store.ensure_year(tx, client, file.header.wj_beginn)
    refuse_known_bytes(tx, client, jahr, file)
    batch = open_batch(tx, client, jahr, file, job)
    if file.header.category == extf.BUCHUNGSSTAPEL.number:
        protocol, content = Protocol(file.warnings), Content(file.header)
        poster = Poster(tx, client, batch, alone=True)
        imported, known = Bookings(tx, client, poster, file, job, protocol, content).run()
    else:
        known, (imported, protocol) = 0, _import_master_data(tx, client, file, batch.id, read)
    report = report_of(client, file, batch.id, imported, known, protocol)
    refuse_if_refused(report, protocol, job)
    batches.describe(tx, client, batch.id, known, protocol, records=imported)
    return report


def _import_master_data(
    tx: Tx, client: Client, file: ExtfFile, batch_id: str, read: MasterData | None
) -> tuple[int, Protocol]:
    if read is None or read.client != client:
        with closing(MasterData(client, file)) as data:
            return _import_master_data(tx, client, file, batch_id, data)
    imported = read.write(tx)
    if read.content.count:
        batches.identify(tx, client, batch_id, read.content.digest())
    return imported, read.protocol


def refuse_known_bytes(tx: Tx, client: Client, jahr: store.FiscalYear, file: ExtfFile) -> None:
    if batches.has_batches_without_content(tx, client):
        batches.refuse_known_bytes(tx, client, jahr, _kind(file), file.rows_sha256())


def open_batch(tx: Tx, client: Client, jahr: store.FiscalYear, file: ExtfFile, job: Job) -> Batch:
    return posting.open_batch(
        tx, client, jahr, kind=_kind(file), source=job.name, author=job.author, bezeichnung=file.header.bezeichnung,
        batch_id=job.batch_id, is_closing=is_closing(file),
    )  # fmt: skip


def is_closing(file: ExtfFile) -> bool:
    return file.header.buchungstyp == 2


def _kind(file: ExtfFile) -> str:
    return f"{batches.FILE} {file.header.category}"


def report_of(client: Client, file: ExtfFile, batch: str, imported: int, known: int, protocol: Protocol) -> Report:
    return Report(
        batch=batch, category=file.category.name, client_id=client.client_id, imported=imported, refused=protocol.refused,
        refused_count=protocol.refused_count, known=known, warnings=protocol.warnings, warning_count=protocol.warning_count,
    )  # fmt: skip


def refuse_if_refused(report: Report, protocol: Protocol, job: Job) -> None:
    if protocol.refused_count and not job.partial:
        raise ImportRefused(report._replace(imported=0, known=0), protocol)


def refuse_other_chart(client: Client, file: ExtfFile) -> None:
    """Raises Conflict if the client's accounts are others than the file's."""
    header = file.header
    if header.has_chart and header.sachkontenlaenge != client.konto_laenge:
        raise Conflict(
            f"The file has account numbers of {header.sachkontenlaenge} digits, the client {client.client_id} has {client.konto_laenge}."
        )
    if header.has_chart and header.skr and f"SKR{header.skr}" != client.kontenrahmen:
        raise Conflict(f"The file is for SKR{header.skr}, the client {client.client_id} has {client.kontenrahmen}.")


def client_of(tx: Tx, connection: ConnectionRef, client_id: str | None, file: ExtfFile) -> Client:
    """Returns the client that is asked for, or that of the file's header."""
    known = store.clients(tx, connection)
    for client in known:
        if client.client_id == (client_id or file.header.client_id):
            return client
    names = ", ".join(client.client_id for client in known) or "none"
    if client_id is not None:
        raise Conflict(f"The connection has no client {client_id}, only {names}.")
    raise Conflict(
        f"The file is of the client {file.header.client_id}, and the connection has {names}."
        " Say whose books it goes into: --client (by call: clientId)."
    )


class Bookings:
    """Imports a Buchungsstapel row by row, and judges it when every row has been read."""

    def __init__(
        self, tx: Tx, client: Client, poster: Poster, file: ExtfFile, job: Job, protocol: Protocol, content: Content
    ) -> None:
        self._tx, self._client, self._file, self._job = tx, client, file, job
        self._poster, self._batch = poster, poster.batch
        self._protocol, self._content = protocol, content
        self._partial_rows = PartialRows(
            tx, client, self._batch, file.header, is_partial=job.partial, is_another=job.another
        )
        self._booked = BookedRows(tx, client, self._batch.jahr, poster)
        self._lookalikes = Lookalikes(self._booked, protocol)

    def run(self) -> tuple[int, int]:
        """Returns how many rows were booked, and how many had been before."""
        self.read()
        self.identify(self._tx)
        self.judge()
        imported = self._poster.finish()
        self.finish(self._tx, self._protocol)
        return imported, self.known

    @property
    def known(self) -> int:
        return self._partial_rows.known

    def identify(self, tx: Tx) -> None:
        if self._content.count:
            batches.identify(tx, self._client, self._batch.id, self._content.digest())

    def judge(self) -> None:
        """Raises LooksBooked if rows look booked already, and Conflict if the file repeats rows of another."""
        has_refused = self._protocol.refused_count > 0
        if self._lookalikes.count == self._protocol.refused_count and has_refused and not self._job.partial:
            raise LooksBooked(self._lookalikes, _WAY_OUT)
        if self._job.partial or not has_refused:
            self._partial_rows.check()
        if has_refused:
            self._partial_rows.flush(self._tx)

    def finish(self, tx: Tx, protocol: Protocol) -> None:
        """Keeps what a corrected file will be known by, and warns of cash books that are negative now."""
        if protocol.refused_count == 0:
            self._partial_rows.forget(tx)
        for negative in cash_days.negative(tx, self._client, self._poster.moved_cash_books):
            protocol.add(cash_days.warning(negative))

    def read(self) -> None:
        file, protocol, poster, partial_rows = self._file, self._protocol, self._poster, self._partial_rows
        booked = None if self._job.another or not self._booked.has_any else self._booked
        last_day = self._batch.jahr.end
        zeros = "0" * (SACHKONTO_DIGITS - self._client.konto_laenge)
        for number, record in enumerate(file.buchungssaetze()):
            if number % REPORT_EVERY == 0:
                self._job.progress(file.bytes_read, file.total_bytes)
            if not isinstance(record, Buchungssatz):
                protocol.add(record)
                continue
            satz = _as_satz(record, zeros)
            self._content.add(_content_of_satz(satz))
            if satz.belegdatum > last_day:
                reason = f"{satz.belegdatum} lies after the fiscal year, which ends on {last_day}."
                protocol.add(RowError(record.line, "Belegdatum", reason))
                continue
            like = None if booked is None else booked.take(satz)
            if partial_rows.has(satz):
                continue
            if like is not None:
                self._lookalikes.refuse(record.line, like)
                continue
            try:
                poster.add(satz)
                partial_rows.add(satz)
                if poster.hint is not None:
                    protocol.add(RowWarning(record.line, *poster.hint[:3]))
            except KontierungError as error:
                protocol.add(RowError(record.line, error.field, f"{error.field} {error.reason}."))
        self._job.progress(file.total_bytes, file.total_bytes)


# The fields of a Satz, taken by name from a row of the file; a million rows go through here.
_fields_of_satz = itemgetter(*map(Buchungssatz._fields.index, Satz._fields))
_KONTO, _GEGENKONTO = Satz._fields.index("konto"), Satz._fields.index("gegenkonto")
_content_of_satz = batches.content_of(Satz._fields)


def _as_satz(record: Buchungssatz, zeros: str) -> Satz:
    """Returns the row with technical account numbers."""
    values = [*_fields_of_satz(record)]
    values[_KONTO] += zeros
    values[_GEGENKONTO] += zeros
    return tuple.__new__(Satz, values)
