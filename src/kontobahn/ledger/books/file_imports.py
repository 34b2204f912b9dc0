"""One import of a file, small or large: `prepare` reads and writes what takes long, `commit` makes all of it count.

A small file is one transaction, and so is one of master data, which is read before it. A large one of bookings is written in slices
that nobody sees (slices.py), so that nobody waits for it; the transaction at its end is short.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy

from kontobahn.db import Database, Tx
from kontobahn.errors import Conflict
from kontobahn.formats import extf
from kontobahn.formats.extf import ExtfFile
from kontobahn.ids import new_id
from kontobahn.ledger.books import batches, importing, preparing, slices, store
from kontobahn.ledger.books.batches import Content
from kontobahn.ledger.books.importing import Bookings, Job, Report
from kontobahn.ledger.books.master_data import MasterData
from kontobahn.ledger.books.posting import Batch
from kontobahn.ledger.books.protocol import Protocol
from kontobahn.ledger.books.slices import SlicedPoster
from kontobahn.ledger.books.store import Client, FiscalYear

# Some thousand rows: about a third of a second in one transaction.
SLICED_FROM_BYTES = 1 << 20
FindClient = Callable[[Tx], Client]


class FileImport:
    """`find` returns whose books the file goes into, and refuses what may not be."""

    def __init__(self, db: Database, find: FindClient, file: ExtfFile, job: Job) -> None:
        self._db, self._find, self._file, self._job = db, find, file, job
        self._sliced: _Sliced | None = None
        self._master_data: MasterData | None = None

    def prepare(self, import_id: str) -> None:
        """Off the event loop and outside any transaction, for as long as it takes. Raises what an import is refused with."""
        if self._file.header.category != extf.BUCHUNGSSTAPEL.number:
            client = self._db.read_now(self._find)
            importing.refuse_other_chart(client, self._file)
            self._master_data = MasterData(client, self._file)
        elif self._file.total_bytes >= SLICED_FROM_BYTES:
            client = self._db.read_now(self._find)
            self._sliced = _Sliced(self._db, client, self._file, self._job._replace(batch_id=import_id))
            self._sliced.prepare()

    def commit(self, tx: Tx, import_id: str) -> Report:
        client = self._find(tx)
        if self._sliced is None:
            job = self._job._replace(batch_id=import_id)
            return importing.import_file(tx, client, self._file, job, self._master_data)
        return self._sliced.commit(tx, client)

    def tidy(self, import_id: str) -> None:
        """After the commit, or when there will be none."""
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
        self._protocol, self._content = Protocol(file.warnings), Content(file.header)
        self._jahr: FiscalYear
        self._poster: SlicedPoster
        self._bookings: Bookings

    def prepare(self) -> None:
        importing.refuse_other_chart(self._client, self._file)
        self._jahr = self._db.read_now(self._look)
        job = self._job
        batch = Batch(job.batch_id, self._jahr, importing.is_closing(self._file), is_cash=False, is_undo=False)
        begun = slices.begin(self._db, self._client, batch.id, job.name)
        self._poster = SlicedPoster(begun, self._client, batch, watch_others=not job.another)
        self._bookings = Bookings(begun, self._client, self._poster, self._file, job, self._protocol, self._content)
        self._bookings.read()
        if self._content.count:
            self._db.read_now(batches.refuse_known_content, self._client, self._content.digest())
        self._bookings.judge()
        importing.refuse_if_refused(self._report(0, self._protocol), self._protocol, job)
        self._imported = self._poster.finish()

    def _look(self, tx: Tx) -> FiscalYear:
        jahr = store.coming_year(tx, self._client, self._file.header.wj_beginn)
        importing.refuse_known_bytes(tx, self._client, jahr, self._file)
        return jahr

    def commit(self, tx: Tx, client: Client) -> Report:
        """May be run again, like any unit: it changes nothing of the import itself."""
        jahr = store.ensure_year(tx, client, self._file.header.wj_beginn)
        if client != self._client or jahr.end != self._jahr.end:
            raise Conflict(
                "The client or its fiscal year was changed while the file was read. Nothing was imported: send it again."
            ).retryable()
        importing.open_batch(tx, client, jahr, self._file, self._job)
        self._bookings.identify(tx)
        self._poster.appear(tx)
        protocol = deepcopy(self._protocol)
        self._bookings.finish(tx, protocol)
        batches.describe(tx, client, self._job.batch_id, self._bookings.known, protocol, records=self._imported)
        return self._report(self._imported, protocol)

    def _report(self, imported: int, protocol: Protocol) -> Report:
        return importing.report_of(
            self._client, self._file, self._job.batch_id, imported, self._bookings.known, protocol
        )

    def tidy(self) -> None:
        preparing.give_up(self._db, self._client.mandant, self._job.batch_id)
        preparing.sweep_editions(self._db, self._client.mandant)
