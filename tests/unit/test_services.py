"""The throw-away servers really start, stop, come back and never run as root."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest
import redis

from tests.services import PostgresServer, RedisServer, ThrowAwayServer, find_program, is_alive
from tests.waiting import eventually


@pytest.fixture(scope="module")
def postgres() -> Iterator[PostgresServer]:
    with PostgresServer(settings={"work_mem": "5MB"}) as server:
        yield server


@pytest.fixture(scope="module")
def redis_server() -> Iterator[RedisServer]:
    with RedisServer() as server:
        yield server


def query(url: str, statement: str) -> object:
    with psycopg.connect(url) as connection:
        row = connection.execute(statement.encode()).fetchone()
    return row[0] if row else None


def owner_of(pid: int) -> int:
    return Path(f"/proc/{pid}").stat().st_uid


def test_no_server_runs_as_root(postgres: PostgresServer, redis_server: RedisServer) -> None:
    for server in (postgres, redis_server):
        assert owner_of(server.pid) != 0
        assert os.geteuid() in (0, owner_of(server.pid))


def test_postgres_is_utf8_in_the_c_locale_with_the_settings_asked_for(postgres: PostgresServer) -> None:
    url = postgres.create_database("settings")
    assert query(url, "SHOW server_encoding") == "UTF8"
    assert query(url, "SELECT datcollate FROM pg_database WHERE datname = current_database()") == "C"
    assert query(url, "SHOW work_mem") == "5MB"
    assert query(url, "SHOW max_connections") == "200"
    assert query(url, "SHOW fsync") == "off"


def test_a_stopped_postgres_comes_back_on_the_same_port_with_its_rows(postgres: PostgresServer) -> None:
    url = postgres.create_database("stopped")
    assert_rows_outlive(PostgresServer.stop, postgres, url)


def test_a_durable_postgres_keeps_every_commit_when_killed() -> None:
    with PostgresServer(durable=True) as server:
        for setting in ("fsync", "synchronous_commit", "full_page_writes"):
            assert query(server.url(), f"SHOW {setting}") == "on"
        assert_rows_outlive(PostgresServer.kill, server, server.url())


def assert_rows_outlive(end: Callable[[PostgresServer], None], server: PostgresServer, url: str) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("CREATE TABLE kept AS SELECT 42 AS answer")
        end(server)
        with pytest.raises(psycopg.OperationalError):
            connection.execute("SELECT 1")
    with pytest.raises(psycopg.OperationalError):
        psycopg.connect(url)

    server.start()
    assert query(url, "SELECT answer FROM kept") == 42


def test_a_database_can_be_copied_and_dropped_while_in_use(postgres: PostgresServer) -> None:
    with psycopg.connect(postgres.create_database("original")) as connection:
        connection.execute("CREATE TABLE copied AS SELECT 1 AS one")
    copy_url = postgres.create_database("copy", template="original")
    assert query(copy_url, "SELECT one FROM copied") == 1

    with psycopg.connect(copy_url):
        postgres.drop_database("copy")
    with pytest.raises(psycopg.OperationalError):
        psycopg.connect(copy_url)


def test_redis_flushes_stops_and_starts_on_the_same_port(redis_server: RedisServer) -> None:
    with redis.Redis.from_url(redis_server.url) as client:
        client.set("key", "value")
        redis_server.flush()
        assert client.get("key") is None

        redis_server.stop()
        with pytest.raises(redis.ConnectionError):
            client.ping()
        redis_server.start()
        assert client.ping()


def test_a_closed_server_leaves_no_process_and_no_directory() -> None:
    server = RedisServer()
    pid = server.pid
    server.close()
    server.close()
    assert not is_alive(pid)
    assert not server.directory.exists()


@pytest.mark.parametrize("kind", [PostgresServer, RedisServer])
def test_a_server_ends_when_its_starter_is_killed(kind: type[ThrowAwayServer]) -> None:
    program = (
        f"import signal; from tests.services import {kind.__name__} as Kind; server = Kind();"
        "print(server.pid, server.directory, flush=True); signal.pause()"
    )
    starter = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
    assert starter.stdout is not None
    pid, directory = starter.stdout.readline().split()
    starter.send_signal(signal.SIGKILL)
    starter.wait()
    starter.stdout.close()

    eventually(lambda: not is_alive(int(pid)))
    eventually(lambda: not Path(directory).exists())


def test_a_missing_program_is_named() -> None:
    with pytest.raises(FileNotFoundError, match="no-such-program is not installed"):
        find_program("no-such-program")
