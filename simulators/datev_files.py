"""DATEV's import of DATEV-format files, simulated: a file is checked, and then lies ready for the accountant."""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from io import BytesIO
from typing import Any

from kontobahn.formats.extf import BUCHUNGSSTAPEL, PERSONENKONTEN, ExtfError, open_extf
from simulators.datev_books import Row
from simulators.datev_jobs import AN_HOUR, POLLS
from simulators.datev_refusals import Refuse

HELP = "http://www.datev.de/hilfe/"
MAX_BYTES = 50_000_000
OLDEST = {BUCHUNGSSTAPEL.number: 12, PERSONENKONTEN.number: 5}
_NAME = re.compile(r"EXTF_.{0,51}\.csv")
_REFERENCE = re.compile(r"[-0-9A-Za-z_äöüÄÖÜß. +?;]{0,254}")


@dataclass
class FileJob:
    client_id: str
    name: str
    reference: str
    content: bytes
    category: int
    rows: int
    # The answers to questions, the last one for ever.
    results: list[str]
    wrong: Row | None
    at: str
    asked_at: list[float] = field(default_factory=list)


@dataclass
class Files:
    now: Callable[[], float]
    faults: list[str]
    jobs: dict[str, FileJob] = field(default_factory=dict)
    usual: list[str] = field(default_factory=lambda: ["succeeded"])

    def answer(
        self, client_id: str, method: str, path: list[str], body: bytes, headers: dict[str, str]
    ) -> tuple[int, Any, dict[str, str]]:
        match (method, *path):
            case ("POST", "extf-files", "import"):
                job_id = self._take(client_id, body, headers)
                return 202, {}, {"Location": f"/clients/{client_id}/extf-files/jobs/{job_id}", "Retry-After": "5"}
            case ("GET", "extf-files", "jobs"):
                return (
                    200,
                    [self._shown(one, job) for one, job in self.jobs.items() if job.client_id == client_id],
                    {"Content-Type": "application/json"},
                )
            case ("GET", "extf-files", "jobs", job_id):
                job = self.jobs.get(job_id)
                if job is None or job.client_id != client_id:
                    raise _problem(404, "1008830", "Not Found", "There is no such job")
                self._count(job)
                found = self._shown(job_id, job)
                if len(job.results) > 1:
                    job.results.pop(0)
                return 200, found, {}
        raise _problem(404, "1008830", "Not Found", "There is no such path")

    def _take(self, client_id: str, body: bytes, headers: dict[str, str]) -> str:
        name, reference = headers.get("filename", ""), headers.get("reference-id", "")
        if not body:
            raise _problem(400, "1008831", "Invalid message-body", "Message body for request is missing")
        if not _NAME.fullmatch(name) or not _REFERENCE.fullmatch(reference):
            raise _problem(400, "1008832", "Invalid header fields", "Filename or Reference-Id")
        if headers.get("content-type") != "application/octet-stream":
            raise _problem(415, "1008832", "Unsupported Media Type", "")
        if len(body) > MAX_BYTES:
            raise _problem(413, "1008833", "Invalid file", "File size exceeds 50 MB")
        job_id = str(uuid.uuid4())
        category, rows, wrong = _checked(client_id, body)
        at = datetime.fromtimestamp(self.now(), UTC).isoformat().replace("+00:00", "Z")
        results = ["failed"] if wrong else list(self.usual)
        self.jobs[job_id] = FileJob(client_id, name, reference, body, category, rows, results, wrong, at)
        return job_id

    def _count(self, job: FileJob) -> None:
        job.asked_at.append(self.now())
        if sum(at > self.now() - AN_HOUR for at in job.asked_at) > POLLS:
            self.faults.append("a file was asked after more than ten times in an hour")

    def _shown(self, job_id: str, job: FileJob) -> Row:
        shown: Row = {
            "id": job_id, "filename": job.name, "reference_id": job.reference, "result": job.results[0],
            "data_category_id": job.category, "number_of_accounting_records": job.rows, "timestamp": job.at,
        }  # fmt: skip
        if job.results[0] == "failed":
            shown["validation_details"] = job.wrong or _details("1008837", "Try again", "Job failed", "", "")
        return shown

    @property
    def ready(self) -> list[FileJob]:
        """The files that the accountant finds."""
        return [job for job in self.jobs.values() if job.results[-1] == "succeeded"]


def _checked(client_id: str, body: bytes) -> tuple[int, int, Row | None]:
    try:
        with open_extf(BytesIO(body)) as file:
            header = file.header
            wrong = None
            if f"{header.berater}-{header.mandant}" != client_id:
                reason = "The client-number in the EXTF-header does not match with the upload request"
                wrong = _details("1008834", "EXTF-header", "Fields with error", "Client", reason)
            elif header.version < OLDEST.get(header.category, 0):
                wrong = _details("1008834", "EXTF-header", "Fields with error", "Format Version", "is invalid (5)")
            rows = sum(1 for _ in (file.buchungssaetze() if header.category == 21 else file.personenkonten()))
            return header.category, rows, wrong
    except ExtfError as error:
        return 0, 0, _details("1008833", "Invalid file", str(error), "", "")


def _details(number: str, title: str, detail: str, name: str, reason: str) -> Row:
    elements = [{"name": name, "reason": reason}] if name else []
    return {"type": HELP + number, "title": title, "detail": detail, "affected_elements": elements}


def _problem(status: int, number: str, title: str, detail: str) -> Refuse:
    body = {"type": HELP + number, "title": title, "detail": detail, "status": status, "request_id": str(uuid.uuid4())}
    return Refuse(status, body)
