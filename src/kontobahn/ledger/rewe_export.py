"""The call under /v2/ledger-rewe that takes a fiscal year out as files."""

from __future__ import annotations

import asyncio
import tempfile
from functools import partial
from typing import Annotated, BinaryIO

from msgspec import Meta

from kontobahn.api.call import Call
from kontobahn.api.declare import get
from kontobahn.api.wire import FileDownload
from kontobahn.errors import TooManyRequests, Unavailable
from kontobahn.ledger.connections import ERRORS, open_books
from kontobahn.ledger.provider import ClientBooks
from kontobahn.ledger.rewe import JahrQuery

# An export keeps a thread and room on the disk: this many at once in a process, and one of them for an organisation.
AT_ONCE = 2
MAX_RECEIPT_BYTES = 400_000_000


class ExportQuery(JahrQuery):
    belege: Annotated[bool, Meta(description="With the receipts of cash entries.")] = True


class Exports:
    """The exports that this process is writing."""

    def __init__(self) -> None:
        self._organizations: set[str] = set()

    def enter(self, organization_id: str) -> None:
        if organization_id in self._organizations or len(self._organizations) >= AT_ONCE:
            raise TooManyRequests(
                "An export is already being written. Ask again when it is done.", retry_after_seconds=15
            )
        self._organizations.add(organization_id)

    def leave(self, organization_id: str) -> None:
        self._organizations.discard(organization_id)


@get("/v2/ledger-rewe/exports", scope="ledger:read", errors=(*ERRORS, 429), media_types=("application/zip",))
async def export_year(call: Call, query: ExportQuery) -> FileDownload:
    """Take a fiscal year out as a zip of files that can be imported again.

    DATEV-format files: bookings, person accounts, account labels, payment terms. The receipts of cash entries are beside them as
    document packages, to which the bookings refer, and a protocol names what the files have no room for. `belege=false` leaves the
    receipts out; more than 400 MB of them are refused.
    """
    access = await open_books(call.context, call.principal, query.connection_id, query.client_id)
    exports, organization_id = call.context.part(Exports), call.principal.organization_id
    exports.enter(organization_id)
    # Until the file has been sent: it takes room on the disk.
    leave = partial(exports.leave, organization_id)
    try:
        async with access.to("buchungen") as books:
            file = await _written(call, books, query)
    except BaseException:
        leave()
        raise
    name = f"Kontobahn_{books.client_id}_{query.geschaeftsjahr_start_datum:%Y%m%d}.zip"
    return FileDownload(file, "application/zip", name, leave)


async def _written(call: Call, books: ClientBooks, query: ExportQuery) -> BinaryIO:
    directory = call.context.settings.data_dir
    directory.mkdir(parents=True, exist_ok=True)
    # Beside the database: the system's own directory for temporary files may be in memory.
    file: BinaryIO = tempfile.TemporaryFile(dir=directory)  # noqa: SIM115
    work = asyncio.ensure_future(
        books.export(query.geschaeftsjahr_start_datum, file, receipts_up_to=MAX_RECEIPT_BYTES if query.belege else 0)
    )
    try:
        # A caller who goes away does not end the thread: what it writes into stays open, and its place taken.
        await asyncio.shield(work)
    except asyncio.CancelledError:
        await asyncio.wait([work])
        file.close()
        raise
    except OSError as error:
        file.close()
        raise Unavailable("The export could not be written.", operator=str(error)) from error
    except BaseException:
        file.close()
        raise
    return file
