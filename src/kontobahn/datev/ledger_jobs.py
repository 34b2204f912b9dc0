"""Ledger-import jobs, DATEV's way into Unternehmen online: begun, filled with files, released, asked after.

Nothing takes effect before the release, and a job is carried out once, however often it is released. What a job is answered with when
it begins is the only place that names the cash books and folders of a client, so one is begun for the names alone and thrown away.
"""

from __future__ import annotations

import secrets
from mimetypes import guess_type
from typing import Literal, NamedTuple

import msgspec
from msgspec import Struct

from kontobahn import log
from kontobahn.clock import HOUR, Clock, berlin_date
from kontobahn.datev.requests import EXISTS_ALREADY
from kontobahn.datev.services import Content, Services, part, understood
from kontobahn.db import Database, Tx
from kontobahn.json_text import encode
from kontobahn.ledger.errors import ProviderError
from kontobahn.ledger.provider import ConnectionRef
from kontobahn.outbound import Reply

Kind = Literal["cashLedgerImport", "accountsPayableLedgerImport", "accountsReceivableLedgerImport"]
CASH: Kind = "cashLedgerImport"
NAMES_KEPT = HOUR


class BegunJob(Struct):
    id: str
    account_length: int = 0
    cash_ledger_names: list[str] = []
    ledger_folder_names: list[str] = []

    @property
    def names(self) -> list[str]:
        return self.cash_ledger_names or self.ledger_folder_names


class KnownNames(NamedTuple):
    """Cash books or folders, and when DATEV was asked for them."""

    names: list[str]
    asked_at: int


class JobStatus(Struct):
    status: int


class ProtocolEntry(Struct):
    text: str = ""
    context: str = ""
    type: str = ""
    time: str = ""
    filename: str | None = None


class LedgerJobs:
    def __init__(self, db: Database, clock: Clock, services: Services) -> None:
        self._db, self._clock, self._services = db, clock, services

    async def names(self, connection: ConnectionRef, client_id: str, kind: Kind) -> KnownNames:
        """Returns the cash books or folders of this month; those of the last hour without asking."""
        month = berlin_date(self._clock.now()).isoformat()[:7]
        kept = await self._db.read(_kept_names, connection, client_id, kind, month)
        if kept is not None:
            return kept
        asked_at = self._clock.now()
        begun = await self.begin(connection, client_id, kind, month)
        await self.discard(connection, client_id, begun.id)
        return KnownNames(begun.names, asked_at)

    async def begin(self, connection: ConnectionRef, client_id: str, kind: Kind, month: str) -> BegunJob:
        asked = Content(encode({"import_type": kind, "accounting_month": month}), {"Content-Type": "application/json"})
        path = f"clients/{part(client_id)}/dxso-jobs"
        begun = understood(await self._services.ask(connection, "POST", "dxso", path, content=asked), BegunJob)
        await self._db.write(_keep_names, connection, client_id, kind, month, begun.names)
        return begun

    async def add(self, connection: ConnectionRef, client_id: str, job_id: str, name: str, content: bytes) -> bool:
        """Sends a file. Returns False if DATEV has the same one already."""
        path = f"{_path(client_id, job_id)}/files"
        try:
            reply = await self._services.ask(connection, "POST", "dxso", path, content=upload("files", name, content))
            _expect(reply, 201)
        except ProviderError as error:
            if error.type == EXISTS_ALREADY:
                return False
            raise
        return True

    async def release(self, connection: ConnectionRef, client_id: str, job_id: str) -> None:
        """Lets DATEV carry the job out. One that is released already stays so."""
        ready = Content(b'{"ready":"true"}', {"Content-Type": "application/merge-patch+json"})
        try:
            _expect(await self._services.ask(connection, "PUT", "dxso", _path(client_id, job_id), content=ready), 204)
        except ProviderError as error:
            if error.type != "#DCO01007":
                raise

    async def status(self, connection: ConnectionRef, client_id: str, job_id: str) -> int:
        path = _path(client_id, job_id)
        return (await self._services.get(connection, "dxso", path, JobStatus, tells_state=True)).status

    async def protocol(self, connection: ConnectionRef, client_id: str, job_id: str) -> list[ProtocolEntry]:
        path = f"{_path(client_id, job_id)}/protocol-entries"
        return await self._services.get(connection, "dxso", path, list[ProtocolEntry], tells_state=True)

    async def discard(self, connection: ConnectionRef, client_id: str, job_id: str) -> bool:
        """Throws a job away that was never released. Returns False if DATEV would not: it does nothing all the same."""
        try:
            await self._services.ask(connection, "DELETE", "dxso", _path(client_id, job_id))
        except ProviderError as error:
            log.info("datev_job_not_discarded", connection=connection.id, job=job_id, detail=error.message)
            return False
        return True


def _expect(reply: Reply, status: int) -> None:
    """Raises ProviderError for an answer that is of the 2xx kind and yet not the one that says that it was done."""
    if reply.status != status:
        raise ProviderError(None, f"DATEV answers with status {reply.status} instead of {status}", type="nonsense")


def _path(client_id: str, job_id: str) -> str:
    return f"clients/{part(client_id)}/dxso-jobs/{part(job_id)}"


def upload(field: str, name: str, content: bytes) -> Content:
    """Returns a form with one file. The name has no quotation marks and no line breaks: `safe_file_name` left none."""
    boundary = f"kontobahn-{secrets.token_hex(16)}"
    head = (
        f'--{boundary}\r\nContent-Disposition: form-data; name="{field}"; filename="{name}"\r\n'
        f"Content-Type: {guess_type(name)[0] or 'application/octet-stream'}\r\n\r\n"
    )
    body = b"".join((head.encode(), content, f"\r\n--{boundary}--\r\n".encode()))
    return Content(body, {"Content-Type": f'multipart/form-data; boundary="{boundary}"'})


# --- Rows


def _kept_names(tx: Tx, connection: ConnectionRef, client_id: str, kind: Kind, month: str) -> KnownNames | None:
    row = tx.one(
        "SELECT names, asked_at FROM datev_folders WHERE organization_id = ? AND connection_id = ? AND client_id = ? AND kind = ?"
        " AND month = ? AND asked_at > ?",
        connection.organization_id, connection.id, client_id, kind, month, tx.now - NAMES_KEPT,
    )  # fmt: skip
    return None if row is None else KnownNames(msgspec.json.decode(row[0], type=list[str]), row[1])


def _keep_names(tx: Tx, connection: ConnectionRef, client_id: str, kind: Kind, month: str, names: list[str]) -> None:
    tx.run(
        "INSERT INTO datev_folders (organization_id, connection_id, client_id, kind, month, names, asked_at)"
        " VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT (organization_id, connection_id, client_id, kind)"
        " DO UPDATE SET month = excluded.month, names = excluded.names, asked_at = excluded.asked_at",
        connection.organization_id, connection.id, client_id, kind, month, encode(names).decode(), tx.now,
    )  # fmt: skip


def forget_names(tx: Tx, connection: ConnectionRef) -> None:
    """Deletes the names that were read over a connection."""
    tx.run(
        "DELETE FROM datev_folders WHERE organization_id = ? AND connection_id = ?",
        connection.organization_id,
        connection.id,
    )
