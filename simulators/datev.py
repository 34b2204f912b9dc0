"""DATEV's online services on loopback, made from their published descriptions, and fed from DATEV-format files.

It checks what it is sent and keeps whatever is wrong in `faults`. A test changes the attributes while it runs, says in `breaks` what
goes wrong with the next answers, and acts for the person at the sign-in. Nothing here was ever compared with DATEV itself.
"""

from __future__ import annotations

import json
import re
import threading
import time
import uuid
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, NoReturn
from urllib.parse import parse_qs, parse_qsl, urlsplit

from simulators.datev_books import Ledger, Row, Year
from simulators.datev_files import Files
from simulators.datev_jobs import LedgerJobs, read_upload
from simulators.datev_refusals import Refuse, fault
from simulators.datev_sign_in import OAuthRefusal, Session, SignIn
from simulators.enable_banking_server import How, server_for

EXPORT, DOCUMENTS, BATCHES = "Datenservice Export Rechnungswesen", "Belegbilderservice", "Buchungsdatenservice"
CASH = "Rechnungsdatenservice 1.0"
ALL_SERVICES = (EXPORT, DOCUMENTS, BATCHES, CASH)
SCOPES = {
    "clients": "datev:accounting:clients",
    "exchange": "datev:accounting:exchange",
    "documents": "accounting:documents",
    "dxso": "accounting:dxso-jobs",
    "extf": "datev:accounting:extf-files-import",
}
NEEDED = {"exchange": EXPORT, "documents": DOCUMENTS, "dxso": CASH, "extf": BATCHES}
HELP = "http://www.datev.de/hilfe/"
PAGE_ROWS = 50_000
KEPT_SECONDS = 12 * 3600
DO_NOT_RETRY = (
    "Unexpected server error occurred. Further retries may not yield different results and should be avoided."
)
_GUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


@dataclass
class Company:
    id: str
    name: str
    services: list[str]
    ledger: Ledger


@dataclass
class Job:
    client_id: str
    rows: list[Row]
    made_at: float
    # The answers to questions about its state, the last one for ever.
    states: list[str]
    asked: int = 0


@dataclass
class Datev:
    now: Callable[[], float] = time.time
    companies: dict[str, Company] = field(default_factory=dict)
    # The states that a new job goes through.
    job_states: list[str] = field(default_factory=lambda: ["PENDING", "RUNNING", "COMPLETED"])
    page_rows: int = PAGE_ROWS
    # Refusals without a word: 403 and 404 with nothing but the id of the request.
    is_taciturn: bool = False
    denied: set[str] = field(default_factory=set)
    breaks: list[tuple[str, How]] = field(default_factory=list)
    asked: list[tuple[str, str]] = field(default_factory=list)
    jobs: dict[str, Job] = field(default_factory=dict)
    documents: dict[str, Row] = field(default_factory=dict)
    # Set when a request has come to the place at which it is held, or its answer is; and by whoever lets it go on.
    reached: threading.Event = field(default_factory=threading.Event)
    go_on: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        self.sign_in = SignIn(self.now)
        self.ledger_jobs = LedgerJobs(self._time, self.sign_in.faults)
        self.files = Files(self._time, self.sign_in.faults)
        self._lock = threading.RLock()
        self.address = ""

    def _time(self) -> float:
        """The time by the clock that a test has given it since."""
        return self.now()

    @property
    def faults(self) -> list[str]:
        return self.sign_in.faults

    def add(self, client_id: str, name: str = "Musterholz", services: Iterable[str] = (EXPORT,)) -> Ledger:
        self.companies[client_id] = Company(client_id, name, list(services), Ledger())
        return self.companies[client_id].ledger

    # --- Requests

    def answer(self, method: str, target: str, headers: dict[str, str], body: bytes) -> tuple[int, Any, dict[str, str]]:
        """Returns status, answer and headers; a list is sent line by line."""
        parts = urlsplit(target)
        path = [part for part in parts.path.split("/") if part]
        self.asked.append((method, parts.path))
        form = dict(parse_qsl(body.decode("latin-1"), keep_blank_values=True)) if len(path) == 1 else {}
        match (method, *path):
            case ("GET", "openid", ".well-known", "openid-configuration"):
                return 200, self.sign_in.discovery(), {}
            case ("GET", "openid", "authorize"):
                return 302, {}, {"Location": self.sign_in.sign_in(f"{self.address}{target}")}
            case ("GET", "certs"):
                return 200, self.sign_in.certs(), {}
            case ("POST", "token"):
                return 200, self.sign_in.token(headers, form), {}
            case ("POST", "revoke"):
                return 200, self.sign_in.revoke(headers, form), {}
        session = self.sign_in.session_of(headers)
        if path == ["userinfo"] and session is not None:
            return 200, self.sign_in.userinfo(session), {}
        if headers.get("x-datev-client-id") != self.sign_in.client_id:
            raise Refuse(401, {"title": "Unauthorized", "detail": "Invalid client id or secret", "status": 401})
        if session is None:
            raise Refuse(401, {"title": "Unauthorized", "status": 401, "request_id": str(uuid.uuid4())})
        query = {name: values[-1] for name, values in parse_qs(parts.query).items()}
        return self._service(session, method, path, query, body, headers)

    def _service(
        self,
        session: Session,
        method: str,
        path: list[str],
        query: dict[str, str],
        body: bytes,
        headers: dict[str, str],
    ) -> tuple[int, Any, dict[str, str]]:
        service = path[0]
        if SCOPES.get(service) not in session.scopes:
            self._refuse(
                403, f"{HELP}1008829", "Missing required scope", f"Missing scope(s) are: {SCOPES.get(service)}"
            )
        if service == "clients":
            return self._clients(path[1:], query)
        company = self.companies.get(path[3]) if path[2:3] == ["clients"] and len(path) > 3 else None
        if company is None:
            self._refuse(404, f"{HELP}1008830", "Not Found", "There is no such client")
        if NEEDED[service] not in company.services or service in self.denied:
            self._refuse(403, f"{HELP}1008829", "Forbidden", "The service is not booked, or the right is missing")
        if service == "exchange":
            return self._exchange(company, method, path[4:], query)
        if service == "dxso":
            return self.ledger_jobs.answer(company.id, method, path[4:], body, headers)
        if service == "extf":
            return self.files.answer(company.id, method, path[4:], body, headers)
        return self._documents(company, method, path[4:], body, headers.get("content-type", ""))

    def _refuse(self, status: int, kind: str, title: str, detail: str) -> NoReturn:
        request_id = str(uuid.uuid4())
        if self.is_taciturn and status in (403, 404):
            raise Refuse(status, {"request_id": request_id})
        body = {"type": kind, "title": title, "detail": detail, "status": status, "request_id": request_id}
        raise Refuse(status, body)

    def _clients(self, path: list[str], query: dict[str, str]) -> tuple[int, Any, dict[str, str]]:
        if path[:2] != ["v2", "clients"]:
            self._refuse(404, f"{HELP}1008830", "Not Found", "There is no such path")
        if len(path) == 3:
            if path[2] not in self.companies:
                self._refuse(404, f"{HELP}1008830", "Not Found", "There is no such client")
            return 200, _client(self.companies[path[2]]), {}
        skip, top = int(query.get("skip", "0")), min(int(query.get("top", "100")), 100)
        listed = [_client(one) for one in self.companies.values()]
        return 200, _Whole(listed[skip : skip + top]), {"Total-Items": str(len(listed))}

    # --- Accounting data

    def _exchange(
        self, company: Company, method: str, path: list[str], query: dict[str, str]
    ) -> tuple[int, Any, dict[str, str]]:
        ledger = company.ledger
        match (method, *path):
            case ("GET", "fiscal-years"):
                return 200, sorted(ledger.years), {}
            case ("GET", "jobs", job_id, "state"):
                return 200, {"jobState": self._state(self._job(company, job_id))}, {}
            case ("GET", "account-postings-jobs", job_id):
                return self._page(self._job(company, job_id), int(query.get("page", "0")))
            case (_, "fiscal-years", year_id, *rest) if year_id.isdigit() and int(year_id) in ledger.years:
                return self._of_year(company, ledger.years[int(year_id)], method, rest, query)
        self._refuse(
            404, "https://api.datev.de/accounting/problems/not-found", "Not Found", "There is no such resource"
        )

    def _of_year(
        self, company: Company, year: Year, method: str, path: list[str], query: dict[str, str]
    ) -> tuple[int, Any, dict[str, str]]:
        ledger = company.ledger
        match (method, *path):
            case ("GET",):
                return 200, [ledger.fiscal_year(year)], {}
            case ("GET", "general-ledger-accounts"):
                return 200, ledger.accounts(year, with_persons=query.get("includesPersonalAccounts") == "true"), {}
            case ("GET", "sums-and-balances"):
                return 200, ledger.sums(year), {}
            case ("GET", "terms-of-payment"):
                return 200, ledger.terms_of_payment(), {}
            case ("POST", "account-postings"):
                job_id = str(uuid.uuid4())
                rows = ledger.postings(year, with_links=query.get("documentLinks") == "true")
                self.jobs[job_id] = Job(company.id, rows, self.now(), list(self.job_states))
                return 202, {"jobId": job_id}, {}
        self._refuse(
            404, "https://api.datev.de/accounting/problems/not-found", "Not Found", "There is no such resource"
        )

    def _job(self, company: Company, job_id: str) -> Job:
        job = self.jobs.get(job_id)
        if job is None or job.client_id != company.id:
            self._refuse(404, "https://api.datev.de/accounting/problems/not-found", "Not Found", "There is no such job")
        return job

    def _state(self, job: Job) -> str:
        job.asked += 1
        if self.now() >= job.made_at + KEPT_SECONDS:
            return "DELETED"
        return job.states.pop(0) if len(job.states) > 1 else job.states[0]

    def _page(self, job: Job, page: int) -> tuple[int, Any, dict[str, str]]:
        if job.states != ["COMPLETED"] or self.now() >= job.made_at + KEPT_SECONDS or page < 1:
            self.faults.append(f"page {page} of a job that is {job.states}")
            self._refuse(404, "https://api.datev.de/accounting/problems/not-found", "Not Found", "There is no data")
        pages = max(1, -(-len(job.rows) // self.page_rows))
        headers = {
            "x-total-count": str(len(job.rows)), "x-total-pages": str(pages), "x-current-page": str(page),
            "x-page-size": str(self.page_rows),
        }  # fmt: skip
        return 200, job.rows[(page - 1) * self.page_rows : page * self.page_rows], headers

    # --- Documents

    def _documents(
        self, company: Company, method: str, path: list[str], body: bytes, content_type: str
    ) -> tuple[int, Any, dict[str, str]]:
        match (method, *path):
            case ("GET", "document-types"):
                types = [("Rechnungseingang", "invoices_received", "debit"), ("Kasse", "cash", "debit")]
                names = ("name", "category", "debit_credit_identifier")
                return 200, _Whole([dict(zip(names, one, strict=True)) for one in types]), {}
            case ("PUT", "documents", guid):
                self._take_document(company, guid, *read_upload(content_type, body))
                return 201, {"files": [], "document_type": ""}, {}
        raise Refuse(404, {"request_id": str(uuid.uuid4())})

    def _take_document(self, company: Company, guid: str, name: str, content: bytes) -> None:
        if not _GUID.fullmatch(guid):
            raise fault(400, "#DCO01234", "restapi.WrongUuidFormatFault")
        if guid in self.documents:
            raise fault(409, "#DCO01012", "restapi.DocumentAlreadyExistsFault")
        taken = {"client": company.id, "name": name, "content": content}
        if taken in self.documents.values():
            raise fault(400, "#DCO01253", "restapi.DuplicateDocumentFault")
        self.documents[guid] = taken

    # --- The server

    def serve(self) -> str:
        """Starts it on loopback, and returns its address."""
        self._server = server_for(self)
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()
        self.address = self.sign_in.address = f"http://127.0.0.1:{self._server.server_address[1]}"
        return self.address

    def stop(self) -> None:
        self.go_on.set()
        self._server.shutdown()
        self._server.server_close()

    def broken(self, asked: str) -> How | None:
        """Returns what goes wrong with the answer to this method and path, once."""
        for place, (part, how) in enumerate(self.breaks):
            if part in asked:
                self.breaks.pop(place)
                return how
        return None

    def respond(
        self, method: str, target: str, headers: dict[str, str], body: bytes, how: How | None
    ) -> tuple[int, dict[str, str], bytes]:
        if how in ("500", "502", "408", "429", "nonsense", "echo", "dropped"):
            self.asked.append((method, urlsplit(target).path))
        if how in ("held", "dropped"):
            self.reached.set()
            self.go_on.wait()
        if how == "dropped":
            return 504, {}, b""
        ids = {"X-Global-Transaction-ID": uuid.uuid4().hex, "V-Cap-Request-ID": uuid.uuid4().hex}
        if how == "500":
            problem = {"title": "Internal Server Error", "status": 500, "detail": DO_NOT_RETRY}
            return 500, ids, json.dumps(problem).encode()
        if how == "502":
            return 502, ids, b"<html>Bad Gateway</html>"
        if how == "429":
            return 429, {**ids, "Retry-After": "40"}, b'{"title": "Too Many Requests", "status": 429}'
        if how == "nonsense":
            return 200, ids, b'{"jobState": '
        if how == "echo":
            return 400, ids, json.dumps({"title": f"{headers} {body.decode('latin-1')}", "status": 400}).encode()
        with self._lock:
            try:
                status, found, more = self.answer(method, target, headers, body)
            except Refuse as error:
                return error.status, ids | error.headers, json.dumps(error.body).encode()
            except OAuthRefusal as error:
                return error.status, ids, json.dumps({"error": error.error}).encode()
            finally:
                if how == "late":
                    self.reached.set()
        if isinstance(found, list) and not isinstance(found, _Whole) and "Content-Type" not in more:
            content = b"".join(json.dumps(row).encode() + b"\n" for row in found)
            return status, {**ids, **more, "Content-Type": "application/x-ndjson"}, content
        return status, ids | more, b"" if status == 204 else json.dumps(found).encode()


class _Whole(list[Row]):
    """A list that is sent as one JSON array."""


def _client(company: Company) -> Row:
    consultant, client = company.id.split("-")
    services = [{"name": name, "scopes": []} for name in company.services]
    return {
        "id": company.id, "name": company.name, "consultant_number": int(consultant), "client_number": int(client),
        "services": services,
    }  # fmt: skip
