"""A real `kontobahn` process, as an operator would start it."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import httpx
import psycopg

from tests.emptied_database import migrated_template, tables_of
from tests.forked_commands import commands, started
from tests.plain_http import PlainClient, PlainTransport
from tests.run_folder import made_once
from tests.services import shared_postgres
from tests.waiting import PATIENCE_SECONDS, eventually


def environment(settings: dict[str, Any]) -> dict[str, str]:
    clean = {name: value for name, value in os.environ.items() if not name.startswith("KONTOBAHN_")}
    return clean | {f"KONTOBAHN_{name.upper()}": _text(value) for name, value in settings.items()}


def _text(value: Any) -> str:
    return json.dumps(value) if isinstance(value, dict) else str(value)


def kontobahn(*arguments: str, data: Path, expect: int | None = 0, **settings: Any) -> subprocess.CompletedProcess[str]:
    """Run a command to its end; `expect` is its exit code, None for any."""
    done = commands().run([*arguments, "--data", str(data)], environment(settings))
    assert expect is None or done.returncode == expect, (done.returncode, done.stdout, done.stderr)
    return done


def answer(*arguments: str, data: Path, **settings: Any) -> Any:
    """Run a command with --json and read what it prints."""
    return json.loads(kontobahn(*arguments, "--json", data=data, **settings).stdout)


def _made_demo() -> Path:
    """The data of a demo that was made once for all processes of the tests and never served."""
    return made_once("demo", _make_demo)


def _make_demo(data: Path) -> None:
    kontobahn("demo", data=data)


@cache
def _made_demo_of_postgres() -> tuple[Path, dict[str, bytes]]:
    """The data of such a demo in PostgreSQL: its folder, and the rows of each table."""
    place = made_once("demo-of-postgres", _make_demo_of_postgres)
    return place / "data", {file.name: file.read_bytes() for file in (place / "rows").iterdir()}


def _make_demo_of_postgres(place: Path) -> None:
    server = shared_postgres()
    url = server.create_database("kontobahn_demo", template=migrated_template(server))
    kontobahn("demo", data=place / "data", database_url=url)
    (place / "rows").mkdir()
    with psycopg.connect(url) as database:
        for table in tables_of(database):
            with database.cursor().copy(f"COPY {table} TO STDOUT (FORMAT binary)".encode()) as copy:
                (place / "rows" / table).write_bytes(b"".join(copy))
    server.drop_database("kontobahn_demo")


def _is_migrated_and_empty(database: psycopg.Connection) -> bool:
    [is_migrated] = database.execute("SELECT to_regclass('organizations') IS NOT NULL").fetchone() or [False]
    return bool(is_migrated) and database.execute("SELECT FROM organizations").fetchone() is None


def _place_demo_in_postgres(data: Path, url: str) -> bool:
    """Returns whether there was a place for it."""
    with psycopg.connect(url) as database:
        if not _is_migrated_and_empty(database):
            return False
        folder, rows = _made_demo_of_postgres()
        database.execute("SET session_replication_role = replica")  # without foreign keys: tables come in any order
        for table, copied in rows.items():
            with database.cursor().copy(f"COPY {table} FROM STDIN (FORMAT binary)".encode()) as copy:
                copy.write(copied)
    shutil.copytree(folder, data, dirs_exist_ok=True)
    return True


def place_demo(data: Path, **settings: Any) -> None:
    """Does what `kontobahn demo` does, by copying what it did before where there is nothing yet."""
    if "database_url" in settings:
        if not _place_demo_in_postgres(data, settings["database_url"]):
            kontobahn("demo", data=data, **settings)
    elif not (data / "kontobahn.sqlite3").exists():
        shutil.copytree(_made_demo(), data, dirs_exist_ok=True)


class ServerProcess:
    def __init__(self, data: Path, *arguments: str, **settings: Any) -> None:
        data.mkdir(parents=True, exist_ok=True)
        self.data = data
        self.log_path = data / "server.log"
        self._output = open(self.log_path, "ab")  # noqa: SIM115 - open as long as the process is
        before = self._stamp()
        self.process = started(
            ["serve", "--demo", "--port", "0", "--data", str(data), *arguments], environment(settings),
            stdout=self._output, stderr=subprocess.STDOUT,
        )  # fmt: skip
        self.facts = self._wait_for_facts(before)
        self.http = PlainClient(self.facts["base_url"], PlainTransport())
        self._wait_until_it_answers()

    @property
    def key(self) -> str:
        return str(self.facts["api_key"])

    @property
    def port(self) -> int:
        return int(self.facts["base_url"].rsplit(":", 1)[1])

    @property
    def log(self) -> str:
        return self.log_path.read_text("utf-8")

    def get(self, path: str, key: str | None = None, **options: Any) -> httpx.Response:
        return self.http.get(path, headers={"x-api-key": key or self.key}, **options)

    def connections(self) -> int:
        """Counts the connections of callers that the server has open."""
        established, port = "01", f"{self.port:04X}"
        rows = (row.split() for row in Path("/proc/net/tcp").read_text().splitlines()[1:])
        return sum(row[1].endswith(f":{port}") and row[3] == established for row in rows)

    def resident_bytes(self) -> int:
        pages = int(Path(f"/proc/{self.process.pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE")

    def stop(self, number: signal.Signals = signal.SIGTERM, *, expect: int = 0) -> None:
        self.process.send_signal(number)
        code = self.process.wait(PATIENCE_SECONDS)
        assert code == expect, (code, self.log)

    def close(self) -> None:
        self.http.close()
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait(PATIENCE_SECONDS)
        self._output.close()

    def _stamp(self) -> int:
        path = self.data / "demo.json"
        return path.stat().st_mtime_ns if path.exists() else 0

    def _wait_for_facts(self, before: int) -> dict[str, Any]:
        def facts() -> dict[str, Any] | None:
            assert self.process.poll() is None, self.log
            if self._stamp() == before:
                return None
            found: dict[str, Any] = json.loads((self.data / "demo.json").read_text())
            return found if found["base_url"] else None

        return eventually(facts) or {}

    def _wait_until_it_answers(self) -> None:
        def answers() -> bool:
            assert self.process.poll() is None, self.log
            try:
                return bool(self.http.get("/healthz"))
            except httpx.TransportError:
                return False

        eventually(answers)


@contextmanager
def serving(data: Path, *arguments: str, fresh: bool = False, **settings: Any) -> Iterator[ServerProcess]:
    """The demo, served. If `fresh`, the server makes it, as at the first start of an installation."""
    if not fresh and "database_url" in settings:
        _place_demo_in_postgres(data, settings["database_url"])
    elif not fresh:
        place_demo(data)
    server = ServerProcess(data, *arguments, **settings)
    try:
        yield server
    finally:
        server.close()
