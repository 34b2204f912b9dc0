"""Files sent by call: received whole, bounded, never twice under one key; large ones worked on after the answer."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest

from kontobahn import app
from kontobahn.access import audit
from kontobahn.api import tasks, uploads
from kontobahn.api.call import Call
from kontobahn.api.declare import get, post
from kontobahn.api.tasks import TASKS, TaskRow, Tasks, Work
from kontobahn.api.wire import Answer, Query, Upload
from kontobahn.clock import SECOND
from kontobahn.db import Tx
from kontobahn.errors import Conflict
from tests.harness import Organization, Service, ServiceFactory
from tests.waiting import PATIENCE_SECONDS

PATH = "/v2/ledger-sample/files"
SMALL, LARGE = 1_000, 5_000
FORM = {"content-type": "multipart/form-data; boundary=b"}


class Taken(Answer):
    id: str
    name: str = ""
    size: int = 0
    sha256: str = ""
    status: str = "done"


class TakeQuery(Query):
    refuse: bool = False


class Gate:
    """Holds a task's work until the test lets it go on."""

    def __init__(self) -> None:
        self.reached, self.opened = threading.Event(), threading.Event()
        self.opened.set()


GATE = Gate()


@post(PATH, statuses=(201, 202))
async def take_sample_file(call: Call, query: TakeQuery, body: Upload) -> Taken:
    """Take a file."""

    def work(tx: Tx, task_id: str) -> Taken:
        GATE.reached.set()
        GATE.opened.wait(PATIENCE_SECONDS)
        content = body.file.read()
        audit.record(tx, call.principal.organization_id, audit.SYSTEM, "sample.taken", task_id)
        if query.refuse:
            raise Conflict("This file is refused.", rows=[3])
        return Taken(id=task_id, name=body.name, size=len(content), sha256=hashlib.sha256(content).hexdigest())

    return await call.context.part(Tasks).run(
        call, body, Work(work), organization_id=call.principal.organization_id, kind="sample", subject="a connection",
        begun=lambda row: Taken(id=row.id, status="running"),
    )  # fmt: skip


@get(PATH)
async def list_sample_files(call: Call) -> list[str]:
    """List what was taken."""

    def taken(tx: Tx) -> list[str]:
        entries = audit.entries(tx, call.principal.organization_id)
        return [entry.subject for entry in entries if entry.action == "sample.taken"]

    return await call.read(taken)


@pytest.fixture
def small_service(start_service: ServiceFactory, monkeypatch: pytest.MonkeyPatch) -> Iterator[Service]:
    declared = app.all_endpoints()
    monkeypatch.setattr(app, "all_endpoints", lambda: [*declared, take_sample_file, list_sample_files])
    GATE.reached.clear()
    yield start_service(upload_limit_bytes=100_000, upload_task_bytes=SMALL)
    GATE.opened.set()


def send(service: Service, who: Organization, content: bytes, *, key: str = "", **options: Any) -> httpx.Response:
    headers = {"content-type": "text/csv", **options.pop("headers", {})}
    if key:
        headers["idempotency-key"] = key
    return service.post(PATH, who.key, content=content, headers=headers, **options)


def task(service: Service, task_id: str) -> TaskRow:
    def read(tx: Tx) -> TaskRow | None:
        return TASKS.one(tx, "id = ?", task_id)

    row = service.db.read_now(read)
    assert row is not None
    return row


def ended(service: Service, task_id: str) -> TaskRow:
    service.run(service.application.context.part(Tasks).finish_running(30))
    return task(service, task_id)


def taken(service: Service, who: Organization) -> list[str]:
    listed: list[str] = service.get(PATH, who.key).json()
    return listed


def test_a_body_that_is_the_file_arrives_byte_for_byte(small_service: Service) -> None:
    content = bytes(range(256)) * 3
    named = {"content-disposition": "attachment; filename*=UTF-8''B%C3%BCcher.csv"}
    answer = send(small_service, small_service.organization(), content, headers=named)
    assert answer.status_code == 201, answer.text
    found = answer.json()
    assert (found["size"], found["sha256"]) == (len(content), hashlib.sha256(content).hexdigest())
    assert found["name"] == "Bücher.csv"


@pytest.mark.parametrize("content_type", ["application/octet-stream", "application/x-www-form-urlencoded", ""])
def test_a_file_may_come_under_any_type_that_is_not_json(small_service: Service, content_type: str) -> None:
    mine = small_service.organization()
    assert send(small_service, mine, b"x;y", headers={"content-type": content_type}).status_code == 201
    assert send(small_service, mine, b"{}", headers={"content-type": "application/json"}).status_code == 415


@pytest.mark.parametrize("content", [b"a", b"\r\n--b\r\n" * 100, b"\r\n" * 300, bytes(range(256))])
@pytest.mark.either_engine
def test_the_one_file_of_a_form_arrives_byte_for_byte(small_service: Service, content: bytes) -> None:
    mine = small_service.organization()
    answer = small_service.post(PATH, mine.key, files={"file": ("C:\\alt\\Bücher.csv", content, "text/csv")})
    assert answer.status_code == 201, answer.text
    found = answer.json()
    assert (found["size"], found["sha256"]) == (len(content), hashlib.sha256(content).hexdigest())
    assert found["name"] == "Bücher.csv"


@pytest.mark.parametrize(
    ("parts", "words"),
    [
        ({"files": {"a": ("a.csv", b"1"), "b": ("b.csv", b"2")}}, "more than one part"),
        ({"files": {"a": ("a.csv", b"1")}, "data": {"partial": "true"}}, "a field"),
        ({"content": b"--b\r\nContent-Disposition: form-data; filename=a\r\n\r\nhalf", "headers": FORM}, "last boundary"),
        ({"content": b"--b--\r\n", "headers": FORM}, "no file"),
        ({"content": b"nonsense", "headers": FORM}, "cannot be read"),
        ({"content": b"x", "headers": {"content-type": "multipart/form-data"}}, "boundary"),
        ({"content": b"x", "headers": {"content-type": f"multipart/form-data; boundary={'b' * 300}"}}, "oundary"),
        ({"content": b""}, "empty"),
    ],
)  # fmt: skip
@pytest.mark.either_engine
def test_a_form_that_is_not_one_file_is_refused(small_service: Service, parts: dict[str, Any], words: str) -> None:
    mine = small_service.organization()
    answer = small_service.post(PATH, mine.key, **parts)
    assert answer.status_code == 400
    assert words in answer.json()["error"]
    assert taken(small_service, mine) == []


# Character sets that Python knows, and that no header is written in.
SETS = ("idna", "punycode", "undefined", "utf-7", "unicode_escape", "hex", "rot13", "nonsense", "x" * 500)


@pytest.mark.parametrize("name", SETS)
@pytest.mark.either_engine
def test_no_character_set_of_a_header_breaks_a_call(small_service: Service, name: str) -> None:
    mine = small_service.organization()
    for value in ("%C3%BC", "a%FF", "+AGE-", "%5Cx", "xn--%80"):
        disposition = f"form-data; name*={name}''{value}; filename*={name}''{value}"
        part = f"--b\r\nContent-Disposition: {disposition}\r\n\r\n1\r\n--b--\r\n".encode()
        for sent in (
            {"content": b"1", "headers": {"content-disposition": disposition}},
            {"content": part, "headers": FORM},
            {"content": part, "headers": {"content-type": f"multipart/form-data; boundary*={name}''{value}"}},
            {"content": b"1", "headers": {"content-type": f"text/csv; charset*={name}''{value}"}},
        ):
            answer = small_service.post(PATH, mine.key, **sent)
            assert answer.status_code in (201, 400), (sent, answer.text)


@pytest.mark.either_engine
def test_a_file_above_the_limit_is_413_and_one_at_it_is_taken(small_service: Service) -> None:
    mine = small_service.organization()
    assert send(small_service, mine, b"x" * 100_000).status_code == 202
    assert send(small_service, mine, b"x" * 100_001).status_code == 413
    form = small_service.post(PATH, mine.key, files={"file": ("a", b"x" * 100_001)})
    assert form.status_code == 413


def test_a_body_that_declares_no_length_is_counted_as_it_comes(small_service: Service) -> None:
    mine = small_service.organization()
    chunks = (b"x" * 10_000 for _ in range(11))
    assert small_service.post(PATH, mine.key, content=chunks).status_code == 413


def test_nothing_is_left_on_disk_by_name(small_service: Service) -> None:
    mine = small_service.organization()
    before = sorted(Path(small_service.settings.data_dir).iterdir())
    assert send(small_service, mine, b"x").status_code == 201
    assert send(small_service, mine, b"x" * 100_001).status_code == 413
    after = sorted(Path(small_service.settings.data_dir).iterdir())
    assert [path.name for path in after if path not in before] == []


def test_a_key_is_bound_to_the_file_and_not_to_its_wrapping(small_service: Service) -> None:
    mine = small_service.organization()
    first = send(small_service, mine, b"1;2", key="k")
    form = small_service.post(PATH, mine.key, files={"file": ("other.csv", b"1;2")}, headers={"idempotency-key": "k"})
    assert (form.status_code, form.content) == (201, first.content)
    assert form.headers["idempotent-replayed"] == "true"
    assert send(small_service, mine, b"1;3", key="k").status_code == 422
    assert taken(small_service, mine) == [first.json()["id"]]


def test_a_large_file_is_answered_at_once_and_worked_on(small_service: Service) -> None:
    mine = small_service.organization()
    GATE.opened.clear()
    answer = send(small_service, mine, b"x" * LARGE, key="k")
    assert answer.status_code == 202
    begun = answer.json()
    assert begun["status"] == "running"
    assert GATE.reached.wait(PATIENCE_SECONDS)
    assert task(small_service, begun["id"]).status == "running"
    GATE.opened.set()
    row = ended(small_service, begun["id"])
    assert (row.status, row.organization_id, row.actor) == ("done", mine.id, f"key:{mine.key_id}")
    assert f'"size":{LARGE}' in row.answer
    assert taken(small_service, mine) == [begun["id"]]
    replayed = send(small_service, mine, b"x" * LARGE, key="k")
    assert (replayed.status_code, replayed.json()) == (202, begun)
    assert taken(small_service, mine) == [begun["id"]]


@pytest.mark.either_engine
def test_a_large_file_that_is_refused_fails_with_the_reason_and_no_effect(small_service: Service) -> None:
    mine = small_service.organization()
    begun = send(small_service, mine, b"x" * LARGE, params={"refuse": "true"}).json()
    row = ended(small_service, begun["id"])
    assert (row.status, row.answer) == ("failed", '{"error":"This file is refused.","rows":[3]}')
    assert taken(small_service, mine) == []


def test_a_task_whose_process_died_is_failed_and_one_that_was_slow_has_no_effect(small_service: Service) -> None:
    mine = small_service.organization()
    GATE.opened.clear()
    begun = send(small_service, mine, b"x" * LARGE).json()
    assert GATE.reached.wait(PATIENCE_SECONDS)
    # Its lease, run out; and the job, which on SQLite waits its turn behind the task that holds the writer.
    small_service.clock.advance(seconds=tasks.LEASE_SECONDS + 1)
    job = ThreadPoolExecutor(1).submit(small_service.db.write_now, tasks.fail_abandoned)
    if small_service.settings.on_postgres:
        assert job.result(PATIENCE_SECONDS) == 1
        assert task(small_service, begun["id"]).status == "failed"
    GATE.opened.set()
    row = ended(small_service, begun["id"])
    if small_service.settings.on_postgres:
        assert row.status == "failed"
        assert "Nothing was written" in row.answer
        assert taken(small_service, mine) == []
    else:
        assert job.result(PATIENCE_SECONDS) == 0
        assert row.status == "done"


def test_a_lease_that_still_runs_is_left_alone(small_service: Service) -> None:
    mine = small_service.organization()
    row = TaskRow(mine.id, "t", "sample", "", "", "test", "running", "", 0, None, small_service.clock.now() + 1)

    def begin(tx: Tx) -> int:
        TASKS.insert(tx, row)
        return tasks.fail_abandoned(tx)

    assert small_service.db.write_now(begin) == 0
    small_service.clock.advance(seconds=0.000001)
    assert small_service.db.write_now(tasks.fail_abandoned) == 1
    assert task(small_service, "t").status == "failed"
    small_service.clock.advance(seconds=tasks.KEPT_DAYS * 86_400)
    assert small_service.db.write_now(tasks.purge) == 1


def test_an_organisation_has_a_bound_of_large_files_at_work(small_service: Service) -> None:
    mine, other = small_service.organization(), small_service.organization("Andere")
    now = small_service.clock.now()

    def fill(tx: Tx) -> None:
        for number in range(tasks.RUNNING_AT_ONCE):
            TASKS.insert(
                tx, TaskRow(mine.id, f"t{number}", "sample", "", "", "test", "running", "", now, None, now + SECOND)
            )

    small_service.db.write_now(fill)
    refused = send(small_service, mine, b"x" * LARGE, key="k")
    assert refused.status_code == 429
    assert refused.headers["retry-after"] == "10"
    assert send(small_service, other, b"x" * LARGE).status_code == 202
    small_service.clock.advance(seconds=1)
    small_service.db.write_now(tasks.fail_abandoned)
    assert send(small_service, mine, b"x" * LARGE, key="k").status_code == 202


def test_an_organisation_has_a_bound_of_files_arriving_at_once(small_service: Service) -> None:
    mine, other = small_service.organization(), small_service.organization("Andere")
    arriving = small_service.application.api.uploads._arriving
    arriving[mine.id] = uploads.AT_ONCE
    assert send(small_service, mine, b"x").status_code == 429
    assert send(small_service, other, b"x").status_code == 201
    arriving[mine.id] = uploads.AT_ONCE - 1
    assert send(small_service, mine, b"x").status_code == 201
    assert arriving == {mine.id: uploads.AT_ONCE - 1}
