"""Imports of EXTF files: as a whole or not at all (or, on request, without the refused rows), and never twice.

A small file is one transaction. A large one of bookings is written in slices that nobody sees (slices.py), and large master data in slices
that are seen, each record of which stands for itself; so nobody waits for them, and the transaction at their end is short.
"""

from __future__ import annotations

import pickle
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, suppress
from copy import deepcopy
from itertools import islice
from typing import Any, NamedTuple, TypeAlias

from kontobahn.books import batches, cash_days, claims, partners, posting, slices, store
from kontobahn.books.batches import Batch, BatchRow, Protocol
from kontobahn.books.content import Content
from kontobahn.books.duplicates import SHOWN, BookedRows, Lookalikes, LooksBooked, PartialRows
from kontobahn.books.partners import PersonRow
from kontobahn.books.posting import Poster
from kontobahn.books.reader import Wanted, rows_of
from kontobahn.books.satz import Satz
from kontobahn.books.slices import SlicedPoster
from kontobahn.books.store import Client, FiscalYear, label_accounts
from kontobahn.db import Database, Statements, Tx, fitting_length
from kontobahn.errors import Conflict, Refusal
from kontobahn.formats import extf
from kontobahn.formats.extf import ExtfFile, RowError, RowWarning
from kontobahn.ids import new_id
from kontobahn.json_text import encode
from kontobahn.ledger import personenkonto
from kontobahn.ledger.faelligkeiten import as_answer
from kontobahn.ledger.kontierung import Hint, KontierungError
from kontobahn.ledger.konto import SACHKONTO_DIGITS
from kontobahn.ledger.provider import ConnectionRef
from kontobahn.sentences import said

REPORT_EVERY = 5_000
# Rows that are kept until the whole file is posted, to see whether they are still to be warned about.
MAX_UNSURE = 10_000
# The most rows that wait for a decision.
MAX_UNDECIDED = 50_000

_WAY_OUT = (
    "If they are other bookings, say so with --another (by call: another=true); with --partial (partial=true) the rest is imported"
    " without them."
)

_FOUND = (RowError, RowWarning)

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
            said("{count} rows were refused; nothing was imported.", count=report.refused_count)
            if report.refused_count > 1
            else "1 row was refused; nothing was imported.",
            abgelehnt=report.refused_count,
            warnungen=report.warning_count,
            protokoll=protocol.lines(),
        )
        self.report = report


class Job(NamedTuple):
    """The wishes of the caller: name of the file, author, and how to treat rows that are refused or look booked."""

    name: str
    author: str
    partial: bool = False
    # Rows that look booked already are other bookings.
    another: bool = False
    batch_id: str = ""
    progress: Progress = lambda done, total: None


def import_file(tx: Tx, client: Client, file: ExtfFile, job: Job, read: MasterData | None = None) -> Report:
    """Imports a file as one unit of work; `read` is its master data if that was read before.

    Raises Conflict if the same content was imported before, LooksBooked if rows look booked already, and ImportRefused with every
    refused row.
    """
    refuse_other_chart(client, file)
    jahr = store.ensure_year(tx, client, file.header.wj_beginn)
    known = known_bytes(tx, client, jahr, file)
    batch = open_batch(tx, client, jahr, file, job)
    if file.header.category == extf.BUCHUNGSSTAPEL.number:
        protocol, content = Protocol(warnings_about(client, file)), Content(file.header)
        poster = posting.begin(tx, client, batch, alone=True)
        imported, times_known = Bookings(tx, client, poster, file, job, protocol, content, known).run(tx)
    elif known is not None:
        raise batches.imported_before(known)
    else:
        times_known, (imported, protocol) = 0, _import_master_data(tx, client, file, batch.id, read)
    report = report_of(client, file, batch.id, imported, times_known, protocol)
    refuse_if_refused(report, protocol, job)
    batches.describe(tx, client, batch.id, times_known, protocol, records=imported)
    return report


def _import_master_data(
    tx: Tx, client: Client, file: ExtfFile, batch_id: str, read: MasterData | None
) -> tuple[int, Protocol]:
    if read is None or read.client != client:
        with closing(MasterData(client, file)) as data:
            return _import_master_data(tx, client, file, batch_id, data)
    imported = read.write(tx)
    if read.content.count:
        known = batches.identify(tx, client, batch_id, read.content.digest())
        if known is not None:
            raise batches.imported_before(known)
    return imported, read.protocol


def known_bytes(tx: Tx, client: Client, jahr: store.FiscalYear, file: ExtfFile) -> BatchRow | None:
    """Returns the import of the same bytes, if it was made before contents were kept."""
    if not batches.has_batches_without_content(tx, client):
        return None
    return batches.find_bytes(tx, client, jahr, _kind(file), file.rows_sha256())


def open_batch(tx: Tx, client: Client, jahr: store.FiscalYear, file: ExtfFile, job: Job) -> Batch:
    return batches.open_batch(
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
    """Raises Conflict if the client has another chart of accounts than the file."""
    header = file.header
    if header.has_chart and header.sachkontenlaenge != client.konto_laenge:
        raise Conflict(
            said(
                "The file has account numbers of {digits} digits, the client {client} has {own}.",
                digits=header.sachkontenlaenge,
                client=client.client_id,
                own=client.konto_laenge,
            )
        )
    if header.has_chart and header.skr and f"SKR{header.skr}" != client.kontenrahmen:
        raise Conflict(
            said(
                "The file is for SKR{skr}, the client {client} has {own}.",
                skr=header.skr,
                client=client.client_id,
                own=client.kontenrahmen,
            )
        )


def warnings_about(client: Client, file: ExtfFile) -> list[RowWarning]:
    """Returns the warnings about the file as a whole, with one if its header names another client than it is imported for."""
    named = file.header.client_id
    if named == client.client_id:
        return file.warnings
    found = said("The header names the client {client}.", client=named)
    done = said("The file was imported for {client}, as was asked for.", client=client.client_id)
    return [*file.warnings, RowWarning(1, "Mandant", found, done)]


def client_of(tx: Tx, connection: ConnectionRef, client_id: str | None, file: ExtfFile) -> Client:
    """Returns the client that is asked for, or the one that the file's header names."""
    known = store.clients(tx, connection)
    for client in known:
        if client.client_id == (client_id or file.header.client_id):
            return client
    names = ", ".join(client.client_id for client in known) or "none"
    if client_id is not None:
        raise Conflict(said("The connection has no client {client}, only {names}.", client=client_id, names=names))
    raise Conflict(
        said(
            "The file is of the client {client}, and the connection has {names}. Say whose books it goes"
            " into: --client (by call: clientId).",
            client=file.header.client_id,
            names=names,
        )
    )


class Bookings:
    """Imports a Buchungsstapel row by row, and judges it when every row has been read.

    `known` is the import of the same bytes, if it was made before contents were kept.
    """

    def __init__(
        self,
        tx: Statements,
        client: Client,
        poster: Poster,
        file: ExtfFile,
        job: Job,
        protocol: Protocol,
        content: Content,
        known: BatchRow | None = None,
    ) -> None:
        self._tx, self._client, self._file, self._job = tx, client, file, job
        self._poster, self._batch = poster, poster.batch
        self._protocol, self._content = protocol, content
        self._booked = BookedRows(tx, client, self._batch.jahr, poster.before)
        self._lookalikes = Lookalikes(self._booked)
        self._wanted = Wanted(Satz._fields, "0" * (SACHKONTO_DIGITS - client.konto_laenge))
        self._known_import = known
        # A file that is known is never another one: of it, only what no longer stands comes again.
        is_known = known is not None or ((job.another or job.partial) and self._is_known_whole())
        self._is_another = job.another and not is_known
        # Rows that a Generalumkehr has reversed were taken back on purpose: they come again with the caller's word only.
        self._leaves_reversed = is_known and job.partial and not job.another
        self._reversed_lines: list[int] = []
        self._reversed = 0
        self._partial_rows = PartialRows(
            tx, client, self._batch, file.header, is_partial=job.partial, is_another=self._is_another
        )
        # Rows whose discount was split without its invoice, which may follow in the file: line, row and warning.
        self._unsure: list[tuple[int, Satz, Hint]] = []
        # Rows that were booked before and stand in the books.
        self.known = 0
        # Rows that look like bookings with another text, or like reversed ones: decided when every row has been read.
        self._undecided: list[tuple[int, Satz]] = []

    def run(self, tx: Tx) -> tuple[int, int]:
        """Does all of it in one transaction. Returns how many rows were booked, and how many had been booked before."""
        self.read()
        self.identify(tx)
        self.judge()
        imported = self.post_rest()
        self.finish(tx, self._protocol)
        return imported, self.known

    def post_rest(self) -> int:
        """Writes what is left, and warns of the discounts whose rate is still not known. Returns the number of bookings."""
        imported = self._poster.finish()
        self._warn_of_discounts(self._poster.final_hint)
        return imported

    def _warn_of_discounts(self, hint_of: Callable[[Satz], Hint | None] | None = None) -> None:
        for line, satz, first in self._unsure:
            hint = first if hint_of is None else hint_of(satz)
            if hint is not None:
                self._protocol.add(RowWarning(line, *hint[:3]))
        self._unsure = []

    def _is_known_whole(self) -> bool:
        """Reads the file for its content alone."""
        if not self._booked.has_any:
            return False
        content = Content(self._file.header)
        for _ in rows_of(self._file, self._wanted, content):
            pass
        # One row says too little to tell a file from another one: there the caller's word counts.
        return content.count > 1 and batches.find_content(self._tx, self._client, content.digest()) is not None

    def identify(self, tx: Tx) -> None:
        if self._content.count:
            known = batches.identify(tx, self._client, self._batch.id, self._content.digest())
            if not self._is_another:
                self._known_import = known or self._known_import

    def look_up(self) -> None:
        """Finds the import that brought the same rows, outside the transaction that identifies this one."""
        if self._content.count and not self._is_another:
            known = batches.find_content(self._tx, self._client, self._content.digest())
            self._known_import = known or self._known_import

    def judge(self) -> None:
        """Raises LooksBooked if rows look booked already, and Conflict if the file is known or repeats rows of another."""
        if self._known_import is not None:
            self._judge_known(self._known_import)
        else:
            self._lookalikes.refuse(self._protocol)
        has_refused = self._protocol.refused_count > 0
        if self._lookalikes.count == self._protocol.refused_count and has_refused and not self._job.partial:
            raise LooksBooked(self._lookalikes, self._protocol, _WAY_OUT)
        if self._job.partial or not has_refused:
            self._partial_rows.check()
        if has_refused:
            self._partial_rows.flush(self._tx)
        if has_refused and not self._job.partial:
            self._warn_of_discounts()

    def _judge_known(self, known: BatchRow) -> None:
        """Raises Conflict if all rows of the file stand in the books, or a Generalumkehr reversed some; otherwise those that do not
        stand are booked again, and it is told."""
        count = self._poster.count
        if count == 0:
            raise batches.imported_before(known)
        if self._reversed and not self._job.another:
            raise batches.reversed_since(known, self._reversed_lines, self._reversed)
        self.known += self._lookalikes.count
        found = said(
            "The same rows were imported before, {described}; {count} of them {stand} in the books.",
            described=batches.described(known),
            count=self.known,
            stand="stands" if self.known == 1 else "stand",
        )
        one = said("1 row that does not was booked again.")
        done = one if count == 1 else said("{count} rows that do not were booked again.", count=count)
        self._protocol.add(RowWarning(0, "", found, done))

    def finish(self, tx: Tx, protocol: Protocol) -> None:
        """Forgets partial rows if the file is complete, and warns of cash books that are negative now."""
        if protocol.refused_count == 0:
            self._partial_rows.forget(tx)
        for negative in cash_days.negative(tx, self._client, self._poster.moved_cash_books):
            protocol.add(cash_days.warning(negative))

    def read(self) -> None:
        file, protocol = self._file, self._protocol
        booked = None if self._is_another or not self._booked.has_any else self._booked
        last_day = self._batch.jahr.end
        with closing(rows_of(file, self._wanted, self._content)) as rows:
            for number, (line, row) in enumerate(rows):
                if number % REPORT_EVERY == 0:
                    self._job.progress(file.bytes_read, file.total_bytes)
                if isinstance(row, _FOUND):
                    protocol.add(row)
                    continue
                # As Satz._make(row), without the cost of a call.
                satz = tuple.__new__(Satz, row)
                if satz.belegdatum > last_day:
                    reason = said(
                        "{day} lies after the fiscal year, which ends on {day_end}.",
                        day=satz.belegdatum,
                        day_end=last_day,
                    )
                    protocol.add(RowError(line, "Belegdatum", reason))
                elif booked is None:
                    self._post(line, satz)
                elif (like := booked.take(satz)) is not None:
                    self._skip(line, satz, like)
                elif booked.may_take(satz):
                    self._undecided.append((line, satz))
                    if len(self._undecided) >= MAX_UNDECIDED:
                        self._settle()
                else:
                    self._post(line, satz)
        self._settle()
        self._job.progress(file.total_bytes, file.total_bytes)

    def _settle(self) -> None:
        """Decides about rows that look like bookings with another text, or like reversed ones."""
        likes = dict(self._booked.decided(self._undecided))
        for line, satz in self._undecided:
            if line in likes:
                self._skip(line, satz, likes[line])
            elif not self._booked.take_reversed(satz):
                self._post(line, satz)
            elif self._leaves_reversed:
                # Seen again, though not booked again.
                self._partial_rows.has(satz)
                self._protocol.add(RowError(line, "", "The row was booked before and reversed by a Generalumkehr."))
            else:
                self._reversed += 1
                if len(self._reversed_lines) < SHOWN:
                    self._reversed_lines.append(line)
                self._post(line, satz)
        self._undecided.clear()

    def _skip(self, line: int, satz: Satz, like: int) -> None:
        if self._partial_rows.has(satz):
            self.known += 1
        else:
            self._lookalikes.add(line, like)

    def _post(self, line: int, satz: Satz) -> None:
        # A row of a partial import that stands no more is kept with that import.
        was_booked = self._partial_rows.has(satz)
        try:
            self._poster.add(satz)
            if not was_booked:
                self._partial_rows.add(satz)
            if self._poster.hint is not None:
                self._warn(line, satz, self._poster.hint)
        except KontierungError as error:
            self._protocol.add(RowError(line, error.field, f"{error.field} {error.reason}."))

    def _warn(self, line: int, satz: Satz, hint: Hint) -> None:
        if satz.skonto and len(self._unsure) < MAX_UNSURE:
            self._unsure.append((line, satz, hint))
        else:
            self._protocol.add(RowWarning(line, *hint[:3]))


# --- Small or large: prepared, then committed


# Some thousand rows: about a third of a second in one transaction.
SLICED_FROM_BYTES = 1 << 20
FindClient = Callable[[Tx], Client]


class FileImport:
    """One import of a file. `find` returns the client it is for, and raises if it may not be imported."""

    def __init__(self, db: Database, find: FindClient, file: ExtfFile, job: Job) -> None:
        self._db, self._find, self._file, self._job = db, find, file, job
        self._sliced: _Sliced | None = None
        self._master_data: MasterData | None = None

    def prepare(self, import_id: str) -> None:
        """Reads and writes whatever takes long, off the event loop and outside any transaction. Raises if the file is refused."""
        if self._file.header.category != extf.BUCHUNGSSTAPEL.number:
            client = self._db.read_now(self._find)
            refuse_other_chart(client, self._file)
            self._master_data = MasterData(client, self._file)
            self._master_data.write_ahead(self._db, self._find, self._job)
        elif self._file.total_bytes >= SLICED_FROM_BYTES:
            client = self._db.read_now(self._find)
            self._sliced = _Sliced(self._db, client, self._file, self._job._replace(batch_id=import_id))
            self._sliced.prepare()

    def commit(self, tx: Tx, import_id: str) -> Report:
        client = self._find(tx)
        if self._sliced is None:
            job = self._job._replace(batch_id=import_id)
            return import_file(tx, client, self._file, job, self._master_data)
        return self._sliced.commit(tx, client)

    def tidy(self, import_id: str) -> None:
        """Cleans up, after the commit or if there will be none."""
        if self._sliced is not None:
            self._sliced.tidy()
        if self._master_data is not None:
            self._master_data.close()


def run_import(db: Database, find: FindClient, file: ExtfFile, job: Job) -> Report:
    """Imports a file for a caller without an event loop."""
    work, import_id = FileImport(db, find, file, job), new_id()
    try:
        work.prepare(import_id)
        return db.write_now(work.commit, import_id)
    finally:
        work.tidy(import_id)


class _Sliced:
    def __init__(self, db: Database, client: Client, file: ExtfFile, job: Job) -> None:
        self._db, self._client, self._file, self._job = db, client, file, job
        self._protocol, self._content = Protocol(warnings_about(client, file)), Content(file.header)
        self._jahr: FiscalYear
        self._known: BatchRow | None = None
        self._opened = ExitStack()
        self._poster: SlicedPoster
        self._bookings: Bookings

    def prepare(self) -> None:
        refuse_other_chart(self._client, self._file)
        self._jahr = self._db.read_now(self._look)
        job = self._job
        batch = Batch(job.batch_id, self._jahr, is_closing(self._file), is_cash=False, is_undo=False)
        begun = slices.begin(self._db, self._client, batch.id, job.name)
        self._poster = SlicedPoster(begun, self._client, batch, watch_others=not job.another)
        self._opened.callback(self._poster.close)
        self._bookings = Bookings(
            begun, self._client, self._poster, self._file, job, self._protocol, self._content, self._known
        )
        self._bookings.read()
        self._bookings.look_up()
        self._bookings.judge()
        refuse_if_refused(self._report(0, self._protocol), self._protocol, job)
        self._imported = self._bookings.post_rest()

    def _look(self, tx: Tx) -> FiscalYear:
        jahr = store.coming_year(tx, self._client, self._file.header.wj_beginn)
        self._known = known_bytes(tx, self._client, jahr, self._file)
        return jahr

    def commit(self, tx: Tx, client: Client) -> Report:
        """Makes the file count. May be run again, like any unit: it changes nothing of the import itself."""
        jahr = store.ensure_year(tx, client, self._file.header.wj_beginn)
        if client != self._client or jahr.end != self._jahr.end:
            raise Conflict(
                "The client or its fiscal year was changed while the file was read. Nothing was imported: send it again."
            ).retryable()
        open_batch(tx, client, jahr, self._file, self._job)
        self._bookings.identify(tx)
        self._poster.appear(tx)
        protocol = deepcopy(self._protocol)
        self._bookings.finish(tx, protocol)
        batches.describe(tx, client, self._job.batch_id, self._bookings.known, protocol, records=self._imported)
        return self._report(self._imported, protocol)

    def _report(self, imported: int, protocol: Protocol) -> Report:
        return report_of(self._client, self._file, self._job.batch_id, imported, self._bookings.known, protocol)

    def tidy(self) -> None:
        claims.give_up(self._db, self._client.mandant, self._job.batch_id)
        self._opened.close()
        claims.sweep_editions(self._db, self._client.mandant)


# --- Master data: read and turned into rows before the transaction that writes them, for which others wait


CHUNK = 1_000
# Master data are written in slices from this many records on, of which one has this many chunks at most.
LARGE, MAX_CHUNKS = 5_000, 10
_SPOOL_BYTES = 4 * 1024 * 1024
# Account and label.
_Label: TypeAlias = tuple[str, str]


class MasterData:
    """The rows of a file for a client's books, with a protocol of refused ones, and their content.

    The rows wait in a file without a name, so that memory does not grow with them, and the transaction may run again.
    """

    def __init__(self, client: Client, file: ExtfFile) -> None:
        self.client, self._file = client, file
        self.protocol, self.content = Protocol(warnings_about(client, file)), Content(file.header)
        self._spool = tempfile.SpooledTemporaryFile[bytes](_SPOOL_BYTES)
        self._is_written = False
        try:
            self._read()
        except BaseException:
            self.close()
            raise

    def _read(self) -> None:
        make_row, records = _MAKERS[self._file.header.category], self._records()
        while some := [make_row(self.client, self._file, record) for record in islice(records, CHUNK)]:
            pickle.dump(some, self._spool, pickle.HIGHEST_PROTOCOL)

    def close(self) -> None:
        self._spool.close()

    def _records(self) -> Iterator[Any]:
        for record in self._file:
            if isinstance(record, RowError | RowWarning):
                self.protocol.add(record)
            else:
                self.content.add(record[1:])
                yield record

    def write_ahead(self, db: Database, find: FindClient, job: Job) -> None:
        """Writes many rows in slices before the transaction that imports the file, unless that is going to refuse it.

        Each stands for itself, and writing one again changes nothing: whoever died amid it sends the file again.
        """
        is_refused = self.protocol.refused_count and not job.partial
        if self.content.count < LARGE or is_refused or not _is_acceptable(db, self.client, self._file, self.content):
            return
        chunks, length = self._chunks(), 1
        while some := list(islice(chunks, length)):
            started = time.monotonic()
            if not db.write_now(self._write_some, find, some):
                return
            length = fitting_length(length, time.monotonic() - started, 1, MAX_CHUNKS)
        self._is_written = True

    def _write_some(self, tx: Tx, find: FindClient, some: list[list[Any]]) -> bool:
        """Returns False if the client has changed since."""
        if find(tx) != self.client:
            return False
        for rows in some:
            _WRITERS[self._file.header.category](tx, self.client, rows)
        return True

    def write(self, tx: Tx) -> int:
        """Returns the number of rows."""
        for some in () if self._is_written else self._chunks():
            _WRITERS[self._file.header.category](tx, self.client, some)
        return self.content.count

    def _chunks(self) -> Iterator[list[Any]]:
        end = self._spool.seek(0, 2)
        self._spool.seek(0)
        while self._spool.tell() < end:
            # No other process can reach the file, so it is safe to unpickle.
            yield pickle.load(self._spool)


class _Acceptable(Exception):
    """Takes back what was tried."""


def _is_acceptable(db: Database, client: Client, file: ExtfFile, content: Content) -> bool:
    """Returns whether master data would be imported: their year can be there, and nobody has imported them before."""

    def attempt(tx: Tx) -> None:
        jahr = store.ensure_year(tx, client, file.header.wj_beginn)
        if known_bytes(tx, client, jahr, file) is None and batches.find_content(tx, client, content.digest()) is None:
            raise _Acceptable

    try:
        with suppress(Refusal):
            db.write_now(attempt)
    except _Acceptable:
        return True
    return False


def _label_row(client: Client, file: ExtfFile, record: extf.Kontobeschriftung) -> _Label:
    return _with_zeros(client, record.konto), record.beschriftung


def _person_row(client: Client, file: ExtfFile, person: extf.Personenkonto) -> PersonRow | _Label:
    konto = _with_zeros(client, person.konto)
    if len(person.konto) != client.konto_laenge + 1:
        # The format allows labels of ledger accounts here.
        return konto, extf.display_name(person)
    # An array in the order of the fields, which must not change: it is stored, and read back by the export.
    row = encode(person).decode()
    known = personenkonto.as_personenkonto(client.kontenrahmen, client.konto_laenge, file.header.wj_beginn, person)
    return partners.row_of(konto, known, row)


def _with_zeros(client: Client, konto: str) -> str:
    return konto + "0" * (SACHKONTO_DIGITS - client.konto_laenge)


def _terms_row(client: Client, file: ExtfFile, record: extf.Zahlungsbedingung) -> extf.Zahlungsbedingung:
    return record


def _write_persons(tx: Tx, client: Client, some: list[PersonRow | _Label]) -> None:
    partners.lock(tx, client)
    by_konto: dict[str, PersonRow] = {}
    for row in some:
        if isinstance(row, PersonRow):
            if row.konto in by_konto:
                # A file may name an account again: each of its records is a version.
                partners.save_rows(tx, client, list(by_konto.values()), leaving_same=True)
                by_konto.clear()
            by_konto[row.konto] = row
    partners.save_rows(tx, client, list(by_konto.values()), leaving_same=True)
    label_accounts(tx, client, [row.label if isinstance(row, PersonRow) else row for row in some])


def _write_terms(tx: Tx, client: Client, some: list[extf.Zahlungsbedingung]) -> None:
    for bedingung in some:
        store.save_payment_terms(tx, client, as_answer(bedingung), encode(bedingung).decode())


_MAKERS: dict[int, Callable[[Client, ExtfFile, Any], Any]] = {
    extf.PERSONENKONTEN.number: _person_row,
    extf.KONTENBESCHRIFTUNGEN.number: _label_row,
    extf.ZAHLUNGSBEDINGUNGEN.number: _terms_row,
}
_WRITERS: dict[int, Callable[[Tx, Client, list[Any]], None]] = {
    extf.PERSONENKONTEN.number: _write_persons,
    extf.KONTENBESCHRIFTUNGEN.number: label_accounts,
    extf.ZAHLUNGSBEDINGUNGEN.number: _write_terms,
}
