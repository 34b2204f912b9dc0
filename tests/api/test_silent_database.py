"""PostgreSQL that neither answers nor goes away: calls are refused, nothing is claimed that is not known, and it recovers."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from kontobahn.db import Database, postgres
from kontobahn.db.postgres import PostgresEngine
from kontobahn.db.postgres_session import PostgresSession
from kontobahn.errors import DatabaseUnavailable
from tests.harness import Service, running_service
from tests.interleaving import on_postgres
from tests.mobility_builder import CUSTOMER
from tests.waiting import PATIENCE_SECONDS, eventually

pytestmark = on_postgres
CUSTOMERS = "/v2/mobility/customers"
SOON_SECONDS = 0.5


class Line:
    """The way to a database, as a proxy that can stop forwarding. The database is given up soon only then: a machine may be slow."""

    def __init__(self, database_url: str, patch: pytest.MonkeyPatch) -> None:
        self._patch = patch
        self._options = conninfo_to_dict(database_url)
        self._listener = socket.create_server(("127.0.0.1", 0))
        host, port = self._listener.getsockname()
        self.url = _as_url({**self._options, "host": host, "port": str(port)})
        # Whether questions, and answers, go through.
        self.asks, self.answers = threading.Event(), threading.Event()
        self.asks.set()
        self.answers.set()
        # Answers stop at the COMMIT of the transaction in which this was prepared.
        self.hold_commit_of: bytes | None = None
        self._ends: list[socket.socket] = []
        self._threads = [threading.Thread(target=self._accept, daemon=True)]
        self._threads[0].start()

    def freeze(self) -> None:
        self._be_patient_for(SOON_SECONDS)
        self.asks.clear()
        self.answers.clear()

    def _be_patient_for(self, seconds: float) -> None:
        self._patch.setattr(postgres, "ANSWER_SECONDS", seconds)

    def thaw(self) -> None:
        self._be_patient_for(PATIENCE_SECONDS)
        self.hold_commit_of = None
        self.asks.set()
        self.answers.set()

    def close(self) -> None:
        self.thaw()
        self._listener.shutdown(socket.SHUT_RDWR)
        # A client that gave up while it connected may leave its end open; the server would wait a minute for it.
        for end in self._ends:
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join()
        self._listener.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                self._ends.append(client)
                self._threads.append(threading.Thread(target=self._carry, args=(client,), daemon=True))
                self._threads[-1].start()

    def _carry(self, client: socket.socket) -> None:
        with client, self._connect() as server:
            back = threading.Thread(target=self._forward, args=(server, client, self.answers), daemon=True)
            back.start()
            self._forward(client, server, self.asks)
            back.join()

    def _connect(self) -> socket.socket:
        host, port = str(self._options["host"]), int(str(self._options.get("port", 5432)))
        if not host.startswith("/"):
            return socket.create_connection((host, port))
        server = socket.socket(socket.AF_UNIX)
        server.connect(f"{host}/.s.PGSQL.{port}")
        return server

    def _forward(self, source: socket.socket, sink: socket.socket, gate: threading.Event) -> None:
        is_ours = False
        with suppress(OSError):
            while chunk := source.recv(65536):
                if gate is self.asks and self.hold_commit_of is not None:
                    is_ours = is_ours or self.hold_commit_of in chunk
                    if is_ours and b"COMMIT" in chunk:
                        self._be_patient_for(SOON_SECONDS)
                        self.answers.clear()
                gate.wait()
                sink.sendall(chunk)
        for end in (source, sink):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)


def _as_url(options: dict[str, object]) -> str:
    return "postgresql://?" + "&".join(f"{name}={value}" for name, value in options.items() if value is not None)


@pytest.fixture
def line(database_url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Line]:
    for name, seconds in {"CHECK_SECONDS": 0.05, "ASK_AFTER_SECONDS": 0.2}.items():
        monkeypatch.setattr(postgres, name, seconds)
    monkeypatch.setitem(postgres._CONNECTION, "connect_timeout", 4)
    assert make_conninfo(database_url)
    made = Line(database_url, monkeypatch)
    yield made
    made.close()


@pytest.fixture
def service(line: Line, tmp_path: Path) -> Iterator[Service]:
    with running_service(tmp_path / "data", database_url=line.url, database_connections=4) as service:
        yield service
        line.thaw()


def engine_of(db: Database) -> PostgresEngine:
    assert isinstance(db.engine, PostgresEngine)
    return db.engine


def wait_until_ready(service: Service) -> None:
    eventually(lambda: service.get("/readyz").status_code == 200)


def test_calls_are_refused_while_the_database_is_silent_and_answered_afterwards(service: Service, line: Line) -> None:
    owner = service.organization()
    assert service.post(CUSTOMERS, owner.key, json=CUSTOMER).status_code == 201
    line.freeze()
    # More calls than connections: those that wait for one are refused too.
    with ThreadPoolExecutor(12) as callers:
        writes = [callers.submit(service.post, CUSTOMERS, owner.key, json=CUSTOMER) for _ in range(10)]
        assert service.get("/readyz").status_code == 503
        answers = [write.result() for write in writes]
    assert {answer.status_code for answer in answers} == {503}
    assert {answer.json()["error"] for answer in answers} == {"The database cannot be reached at the moment."}
    assert engine_of(service.db)._watch.is_silent
    # At once now, by whoever asks.
    assert service.get(CUSTOMERS, owner.key).status_code == 503
    line.thaw()
    wait_until_ready(service)
    assert service.post(CUSTOMERS, owner.key, json=CUSTOMER).status_code == 201
    assert len(service.get(CUSTOMERS, owner.key).json()) == 2
    assert not engine_of(service.db)._watch.is_silent


def test_a_commit_without_an_answer_is_told_as_unknown_and_not_done_twice(service: Service, line: Line) -> None:
    owner = service.organization()
    key = {"idempotency-key": "once"}
    line.hold_commit_of = b"INSERT INTO mobility_customers"
    lost = service.post(CUSTOMERS, owner.key, json=CUSTOMER, headers=key)
    assert lost.status_code == 503
    assert "not known whether" in lost.json()["error"]
    line.thaw()
    wait_until_ready(service)
    again = service.post(CUSTOMERS, owner.key, json=CUSTOMER, headers=key)
    assert (again.status_code, again.headers["idempotent-replayed"]) == (201, "true")
    assert [item["id"] for item in service.get(CUSTOMERS, owner.key).json()] == [again.json()["id"]]


def test_a_slow_statement_is_not_a_silent_database(service: Service) -> None:
    service.db.read_now(lambda tx: tx.one("SELECT pg_sleep(?)", 1))
    assert not engine_of(service.db)._watch.is_silent


def test_one_connection_that_stays_silent_is_cut_off_in_the_end(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgres, "LONGEST_STATEMENT_SECONDS", 0.4)
    with pytest.raises(DatabaseUnavailable):
        service.db.read_now(lambda tx: tx.one("SELECT pg_sleep(?)", 100))
    assert service.get("/readyz").status_code == 200


@pytest.mark.parametrize("step", ["set_up", "begin"])
def test_a_connection_that_fails_before_its_first_statement_is_closed(
    service: Service, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    owner = service.organization()
    opened: list[PostgresSession] = []

    def fail(session: PostgresSession, *_arguments: str) -> None:
        opened.append(session)
        raise psycopg.OperationalError("lost")

    with monkeypatch.context() as patch:
        patch.setattr(PostgresSession, step, fail)
        for session in list(engine_of(service.db)._sessions.values()):
            session.cut()
        answers = [service.post(CUSTOMERS, owner.key, json=CUSTOMER) for _ in range(3)]
    assert {answer.status_code for answer in answers} == {503}
    assert opened
    assert [session for session in opened if not session.is_closed] == []
    wait_until_ready(service)
    assert service.post(CUSTOMERS, owner.key, json=CUSTOMER).status_code == 201
