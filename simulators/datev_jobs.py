"""DATEV's ledger-import jobs, simulated: cash books and folders by name, files, release, state and protocol.

A job takes effect when it is released, once. What becomes of the next ones is said in `outcomes`.
"""

from __future__ import annotations

import hashlib
import json
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email import message_from_bytes
from typing import Any
from xml.etree import ElementTree

from simulators.datev_books import Row
from simulators.datev_refusals import Refuse, fault

OPEN, RUNNING, DONE, FAILED, PARTLY, CANCELLED = range(6)
KINDS = {
    "cashLedgerImport": "cash_ledger_names",
    "accountsPayableLedgerImport": "ledger_folder_names",
    "accountsReceivableLedgerImport": "ledger_folder_names",
}
POLLS, AN_HOUR = 10, 3600
_TYPES = {".pdf": b"%PDF-", ".png": b"\x89PNG", ".xml": b"<?xml", ".jpg": b"\xff\xd8\xff", ".gif": b"GIF8"}
_DOCUMENT = "{http://xml.datev.de/bedi/tps/document/v06.0}"
_LEDGER = "{http://xml.datev.de/bedi/tps/ledger/v060}"
_TYPE = "{http://www.w3.org/2001/XMLSchema-instance}type"
_Answer = tuple[int, Any, dict[str, str]]


@dataclass
class CashEntry:
    name: str
    date: str
    amount: int
    account: str
    text: str
    images: tuple[str, ...]


@dataclass
class LedgerJob:
    client_id: str
    kind: str
    month: str
    files: dict[str, bytes] = field(default_factory=dict)
    # The answers to questions about its state once it is released, the last one for ever.
    states: list[int] = field(default_factory=lambda: [OPEN])
    protocol: list[Row] = field(default_factory=list)
    asked_at: list[float] = field(default_factory=list)

    @property
    def is_released(self) -> bool:
        return self.states != [OPEN]


@dataclass
class LedgerJobs:
    now: Callable[[], float]
    faults: list[str]
    cash_ledgers: list[str] = field(default_factory=lambda: ["Hauptkasse", "Nebenkasse"])
    folders: dict[str, list[str]] = field(
        default_factory=lambda: {
            "accountsPayableLedgerImport": ["Eingangsrechnungen"],
            "accountsReceivableLedgerImport": ["Ausgangsrechnungen"],
        }
    )
    account_length: int = 4
    jobs: dict[str, LedgerJob] = field(default_factory=dict)
    # The states that the next jobs go through: one list for each, then those of `usual`.
    outcomes: list[list[int]] = field(default_factory=list)
    usual: list[int] = field(default_factory=lambda: [DONE])
    # All that was ever booked, and the receipts that are in the store, by client.
    booked: list[CashEntry] = field(default_factory=list)
    receipts: set[tuple[str, str]] = field(default_factory=set)

    def answer(self, client_id: str, method: str, path: list[str], body: bytes, headers: dict[str, str]) -> _Answer:
        match (method, *path):
            case ("GET",):
                return 200, self._client(client_id), {}
            case ("POST", "dxso-jobs"):
                return self._begin(client_id, body)
            case ("POST", "dxso-jobs", job_id, "files"):
                self._take_file(client_id, self._job(client_id, job_id), body, headers.get("content-type", ""))
                return 201, {}, {}
            case ("PUT", "dxso-jobs", job_id):
                if headers.get("content-type") != "application/merge-patch+json" or b'"true"' not in body:
                    raise fault(400, "#DCO01008", "restapi.InvalidMessageBodyFault")
                self._release(self._job(client_id, job_id))
                return 204, {}, {}
            case ("GET", "dxso-jobs", job_id):
                return 200, {"id": job_id, "status": self._state(self._job(client_id, job_id))}, {}
            case ("GET", "dxso-jobs", job_id, "protocol-entries"):
                return 200, self._job(client_id, job_id).protocol, {"Content-Type": "application/json"}
            case ("DELETE", "dxso-jobs", job_id):
                if self._job(client_id, job_id).is_released:
                    raise fault(400, "#DCO01007", "restapi.InvalidDxsoJobStateFault")
                del self.jobs[job_id]
                return 204, {}, {}
        raise Refuse(404, {"request_id": str(uuid.uuid4())})

    def _client(self, client_id: str) -> Row:
        return {"id": client_id, "is_document_management_available": "true", "basic_accounting_information": []}

    def _begin(self, client_id: str, body: bytes) -> _Answer:
        asked = json.loads(body)
        kind = asked.get("import_type")
        if kind not in KINDS or len(asked.get("accounting_month", "")) != 7:
            raise fault(400, "#DCO01017", "restapi.MissingMandatoryParameterFault")
        job_id = uuid.uuid4().hex.upper()
        self.jobs[job_id] = LedgerJob(client_id, kind, asked["accounting_month"])
        names = self.cash_ledgers if kind == "cashLedgerImport" else self.folders[kind]
        return 201, {"id": job_id, "account_length": self.account_length, KINDS[kind]: names}, {}

    def _job(self, client_id: str, job_id: str) -> LedgerJob:
        job = self.jobs.get(job_id)
        if job is None or job.client_id != client_id:
            raise Refuse(404, {"request_id": str(uuid.uuid4())})
        return job

    def _take_file(self, client_id: str, job: LedgerJob, body: bytes, content_type: str) -> None:
        if job.is_released:
            raise fault(400, "#DCO01007", "restapi.InvalidDxsoJobStateFault")
        name, content = read_upload(content_type, body)
        start = _TYPES.get(name[name.rfind(".") :].lower())
        if start is None:
            raise fault(400, "#DCO01015", "restapi.UnsupportedFileTypeFault")
        if not content.startswith(start):
            raise fault(400, "#DCO01219", "restapi.ContentTypeDoesNotMatchFileExtensionFault")
        if (client_id, _checksum(name, content)) in self.receipts:
            raise fault(400, "#DCO01253", "restapi.DuplicateDocumentFault")
        if name in job.files:
            self.faults.append(f"the file {name} twice in a job")
        job.files[name] = content

    def _release(self, job: LedgerJob) -> None:
        if job.is_released:
            raise fault(400, "#DCO01007", "restapi.InvalidDxsoJobStateFault")
        others = [one for one in self.jobs.values() if one is not job and one.client_id == job.client_id]
        if any(one.states[0] == RUNNING for one in others):
            self.faults.append("two cash imports of a client at once")
        job.states = list(self.outcomes.pop(0) if self.outcomes else self.usual)
        self._run(job, job.states[-1])

    def _run(self, job: LedgerJob, outcome: int) -> None:
        name, entries, images = self._read_package(job)
        if name not in self.cash_ledgers:
            outcome = FAILED
            self._tell(job, "error", f"Das Kassenbuch {name} ist nicht vorhanden.")
        elif sum(one.amount for one in self.booked if one.name == name) + sum(one.amount for one in entries) < 0:
            outcome = FAILED
            self._tell(job, "error", "Der Kassenbestand wäre negativ.")
        if outcome == FAILED:
            job.states[-1] = FAILED
            self._tell(job, "error", "wurde nicht verarbeitet!", "ledger.xml")
            return
        taken = entries[:1] if outcome == PARTLY else entries
        self.booked += taken
        self.receipts |= {(job.client_id, _checksum(image, job.files[image])) for image in images}
        for image in images:
            self._tell(job, "information", "wurde empfangen!", image)
        self._tell(job, "information", f"{len(taken)} Kassenbuchungen wurden übernommen.", "ledger.xml")
        if len(taken) < len(entries):
            self._tell(
                job, "error", f"{len(entries) - len(taken)} Kassenbuchungen wurden nicht übernommen.", "ledger.xml"
            )

    def _read_package(self, job: LedgerJob) -> tuple[str, list[CashEntry], list[str]]:
        """Returns the cash book, the entries and the names of the receipts. A package that is wrong is a fault of whoever sent it."""
        root = ElementTree.fromstring(job.files["document.xml"])
        name, data, images = "", "", []
        for extension in root.iter(f"{_DOCUMENT}extension"):
            if extension.get(_TYPE) == "cashLedger":
                data = extension.get("datafile", "")
                properties = {one.get("key"): one.get("value", "") for one in extension}
                name = properties.get("3", "")
                if properties.get("1") != job.month:
                    self.faults.append(f"month {properties.get('1')} in a job of {job.month}")
            else:
                images.append(extension.get("name", ""))
        if set(job.files) != {"document.xml", data, *images}:
            self.faults.append(f"files {sorted(job.files)} and a package of {sorted(images)}")
        whole = ElementTree.fromstring(job.files[data]).find(f"{_LEDGER}consolidate")
        assert whole is not None
        entries = [_entry(name, row, tuple(images)) for row in whole.iter(f"{_LEDGER}cashLedger")]
        if _cents(whole.get("consolidatedAmount", "")) != sum(one.amount for one in entries):
            self.faults.append("consolidatedAmount is not the sum of the lines")
        if any(len(one.account) not in (self.account_length, self.account_length + 1) for one in entries):
            self.faults.append("accountNo of a wrong length")
        return name, entries, images

    def _tell(self, job: LedgerJob, kind: str, text: str, filename: str | None = None) -> None:
        at = datetime.fromtimestamp(self.now(), UTC).isoformat().replace("+00:00", "Z")
        row = {"time": at, "type": kind, "text": text, "context": "Kassenbuch online"}
        job.protocol.append({**row, "filename": filename} if filename else row)

    def _state(self, job: LedgerJob) -> int:
        job.asked_at.append(self.now())
        if sum(at > self.now() - AN_HOUR for at in job.asked_at) > POLLS:
            self.faults.append("a job was asked after more than ten times in an hour")
        return job.states.pop(0) if len(job.states) > 1 else job.states[0]


def read_upload(content_type: str, body: bytes) -> tuple[str, bytes]:
    """Returns the name and the content of the one file in a form."""
    parsed = message_from_bytes(f"Content-Type: {content_type}\r\n\r\n".encode() + body)
    parts = [part for part in parsed.walk() if part.get_filename() is not None]
    if len(parts) != 1:
        raise fault(400, "#DCO01004", "restapi.MultipartUploadFault")
    content = parts[0].get_payload(decode=True)
    assert isinstance(content, bytes)
    return str(parts[0].get_filename()), content


def _checksum(name: str, content: bytes) -> str:
    return f"{name} {hashlib.sha256(content).hexdigest()}"


def _entry(name: str, row: ElementTree.Element, images: tuple[str, ...]) -> CashEntry:
    def text(tag: str) -> str:
        return row.findtext(f"{_LEDGER}{tag}") or ""

    return CashEntry(name, text("date"), _cents(text("amount")), text("accountNo"), text("bookingText"), images)


def _cents(text: str) -> int:
    whole, _, rest = text.partition(".")
    assert len(rest) == 2, text
    return int(whole + rest)
