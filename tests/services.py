"""Throw-away PostgreSQL and Redis servers on free loopback ports, for tests and benchmarks.

A server lives in a temporary directory, belongs to the process that started it and ends with it: by `close` or the
end of a `with` block, else at exit, else (when the process is killed outright) by its guard. Servers never run as
root. Nothing here knows kontobahn.
"""

import atexit
import contextlib
import functools
import os
import pwd
import random
import shutil
import signal
import socket
import stat
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Self, TypedDict

import psycopg
from psycopg import sql

from tests.waiting import PATIENCE_SECONDS, take_time

START_TIMEOUT_SECONDS = 180.0
STOP_TIMEOUT_SECONDS = 20.0
START_ATTEMPTS = 5

# Waits on a pipe from the process that started the server. The pipe closes when that process dies, however it dies,
# and then the server must follow, with its directory.
GUARD = """
read _
kill -INT "$1"
for _ in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do kill -0 "$1" || break; sleep 0.1; done
kill -KILL "$1"
rm -rf "$2"
"""


class _Account(TypedDict, total=False):
    user: int
    group: int
    extra_groups: list[int]


def _unprivileged(preferred: str) -> _Account:
    """Arguments of Popen for the account that a server runs under: our own, unless we are root."""
    if os.geteuid() != 0:
        return {}
    for name in (preferred, "nobody"):
        with contextlib.suppress(KeyError):
            entry = pwd.getpwnam(name)
            return {"user": entry.pw_uid, "group": entry.pw_gid, "extra_groups": []}
    raise RuntimeError(f"Neither the user {preferred} nor the user nobody exists, and servers must not run as root.")


def _is_open_to_all(folder: Path) -> bool:
    return all(place.stat().st_mode & stat.S_IXOTH for place in (folder, *folder.parents))


def _free_port() -> int:
    """A free port below the ephemeral range; otherwise a client could take it while its server is stopped,
    or, trying to reach the stopped server, connect to itself."""
    lent_from = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    while True:
        port = random.SystemRandom().randrange(min(15_000, lent_from - 1_000), lent_from)
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port


def find_program(name: str) -> str:
    """The path of a server program: on PATH, or where Debian keeps PostgreSQL's (the newest version first)."""
    if found := shutil.which(name):
        return found
    versions = Path("/usr/lib/postgresql").glob(f"*/bin/{name}")
    newest = sorted(versions, key=lambda path: float(path.parts[-3]), reverse=True)
    if not newest:
        raise FileNotFoundError(f"{name} is not installed; `make setup-tests` installs it.")
    return str(newest[0])


class ThrowAwayServer:
    """One server process with its directory. Subclasses say how to prepare, run, reach and stop it."""

    program: str
    account_name: str

    def __init__(self) -> None:
        self._account = _unprivileged(self.account_name)
        # Root's own TMPDIR may not be accessible to the account that the server runs under; /tmp is.
        place = "/tmp" if self._account and not _is_open_to_all(Path(tempfile.gettempdir())) else None
        self.directory = Path(tempfile.mkdtemp(prefix=f"kontobahn-{self.program}-", dir=place))
        self._starter = os.getpid()
        self._process: subprocess.Popen[bytes] | None = None
        self._guard: subprocess.Popen[bytes] | None = None
        self.port = _free_port()
        atexit.register(self.close)
        try:
            if self._account:
                os.chown(self.directory, self._account["user"], self._account["group"])
            self._prepare()
            self._start_on_any_port()
        except BaseException:
            self.close()
            raise

    def _prepare(self) -> None:
        """Fill the directory before the first start."""

    def _command(self) -> Sequence[str]:
        raise NotImplementedError

    def _answers(self) -> bool:
        raise NotImplementedError

    @property
    def pid(self) -> int:
        if self._process is None:
            raise RuntimeError(f"{self.program} is not running.")
        return self._process.pid

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def log(self) -> str:
        path = self.directory / "log"
        return path.read_text(errors="replace") if path.exists() else ""

    def start(self) -> None:
        """Start (again) on the same port with the same data, and wait until it answers."""
        if self.running:
            return
        self._forget_process()
        with (self.directory / "log").open("ab") as log:
            process = self._process = subprocess.Popen(
                self._command(),
                cwd=self.directory,
                env=self._environment(),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                **self._account,
            )
        self._guard = self._start_guard(process.pid)
        began = time.monotonic()
        while not self._answers():
            if process.poll() is not None or time.monotonic() - began > START_TIMEOUT_SECONDS:
                self.kill()
                raise RuntimeError(f"{self.program} did not start on port {self.port}:\n{self.log[-2000:]}")
            take_time(0.02)

    def stop(self) -> None:
        """Shut down cleanly; the data stay for the next start."""
        if self._process is not None and self.running:
            self._process.send_signal(signal.SIGINT)  # PostgreSQL's "fast": sessions are ended, not waited for
            try:
                self._process.wait(STOP_TIMEOUT_SECONDS)
            except subprocess.TimeoutExpired:
                self.kill()
        self._forget_process()

    def kill(self) -> None:
        """Kill it at once, as in a crash. The next start has what was durable: PostgreSQL's commits if `durable`."""
        if self._process is not None and self.running:
            family = [self._process.pid, *_children(self._process.pid)]
            for pid in family:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            self._process.wait()
            while any(map(is_alive, family)):  # until then they hold the shared memory, and a new start would fail
                take_time(0.01)
        self._forget_process()

    def close(self) -> None:
        """Stop for good, and remove the directory. Harmless when repeated, or in a forked process."""
        if os.getpid() != self._starter:
            return
        atexit.unregister(self.close)
        try:
            self.stop()
        finally:
            shutil.rmtree(self.directory, ignore_errors=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exception: object) -> None:
        self.close()

    def _start_on_any_port(self) -> None:
        """Another process may take a free port before the server has bound it."""
        for _ in range(START_ATTEMPTS - 1):
            try:
                return self.start()
            except RuntimeError:
                if "in use" not in self.log:
                    raise
                self.port = _free_port()
        return self.start()

    def _environment(self) -> dict[str, str]:
        return {"PATH": os.environ.get("PATH", os.defpath), "LC_ALL": "C", "HOME": str(self.directory)}

    def _start_guard(self, pid: int) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            ["/bin/sh", "-c", GUARD, "guard", str(pid), self.directory],
            cwd="/",
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    def _forget_process(self) -> None:
        """The guard ends as soon as the process has ended: its id may be reused for another."""
        if self._guard is not None:
            self._guard.kill()
            self._guard.wait()
            if self._guard.stdin is not None:
                self._guard.stdin.close()
        self._guard = None
        self._process = None


def is_alive(pid: int) -> bool:
    """Tells whether the process exists and is not a zombie."""
    try:
        return ") Z " not in Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False


def _children(pid: int) -> list[int]:
    """PostgreSQL's backends have sessions of their own, so a signal to the group would miss them."""
    try:
        return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except FileNotFoundError:
        return []


class PostgresServer(ThrowAwayServer):
    """A PostgreSQL server that trusts every local caller.

    It forgets durability for speed; `durable=True` keeps it, for benchmarks. `settings` are further entries of
    postgresql.conf.
    """

    program = "postgres"
    account_name = "postgres"

    def __init__(self, *, durable: bool = False, settings: Mapping[str, str] | None = None) -> None:
        self._settings = {
            "listen_addresses": "127.0.0.1",
            "unix_socket_directories": "",
            "max_connections": "200",
            "timezone": "UTC",
        }
        if not durable:
            self._settings |= {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off"}
            # The log of changes may be kept in memory, like all temporary files (scripts/in_memory.sh): a gigabyte is a lot there.
            self._settings |= {"max_wal_size": "256MB"}
        self._settings |= settings or {}
        super().__init__()

    def url(self, database: str = "postgres") -> str:
        return f"postgresql://postgres@127.0.0.1:{self.port}/{database}"

    def create_database(self, name: str, *, template: str = "template1", icu_locale: str | None = None) -> str:
        """Create a database, empty or a copy of another, and return its URL; `icu_locale` makes it sort by the rules of a language."""
        statement = sql.SQL("CREATE DATABASE {} TEMPLATE {}").format(sql.Identifier(name), sql.Identifier(template))
        if icu_locale is not None:
            statement = sql.SQL("CREATE DATABASE {} TEMPLATE template0 LOCALE_PROVIDER icu ICU_LOCALE {}").format(
                sql.Identifier(name), sql.Literal(icu_locale)
            )
        self._administer(statement)
        return self.url(name)

    def drop_database(self, name: str) -> None:
        """Remove a database if it exists, ending the sessions in it."""
        self._administer(sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(name)))

    def _administer(self, statement: sql.Composed) -> None:
        with psycopg.connect(self.url(), autocommit=True) as connection:
            connection.execute(statement)

    def _prepare(self) -> None:
        initdb = [find_program("initdb"), "--pgdata=data", "--username=postgres", "--auth=trust"]
        made = subprocess.run(
            [*initdb, "--encoding=UTF8", "--locale=C", "--no-sync", "--no-instructions"],
            cwd=self.directory,
            env=self._environment(),
            capture_output=True,
            text=True,
            check=False,
            **self._account,
        )
        if made.returncode != 0:
            raise RuntimeError(f"initdb failed:\n{made.stdout}{made.stderr}")

    def _command(self) -> Sequence[str]:
        settings = (f"--{name}={value}" for name, value in self._settings.items())
        return [find_program("postgres"), "-D", "data", f"--port={self.port}", *settings]

    def _answers(self) -> bool:
        try:
            psycopg.connect(self.url(), connect_timeout=PATIENCE_SECONDS).close()
        except psycopg.OperationalError:
            return False
        return True


class RedisServer(ThrowAwayServer):
    """A Redis server that keeps nothing on disk: its data are gone after a stop."""

    program = "redis-server"
    account_name = "redis"

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}/0"

    def flush(self) -> None:
        if self.ask(b"FLUSHALL") != b"+OK":
            raise RuntimeError("Redis refused to delete its keys.")

    def ask(self, command: bytes) -> bytes:
        """One command in Redis's inline form: the client library takes half a second to import, in every worker."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=PATIENCE_SECONDS) as connection:
            connection.sendall(command + b"\r\n")
            return connection.recv(1024).strip()

    def _command(self) -> Sequence[str]:
        network = ["--bind", "127.0.0.1", "--port", str(self.port), "--daemonize", "no"]
        return [find_program("redis-server"), *network, "--save", "", "--appendonly", "no"]

    def _answers(self) -> bool:
        try:
            return self.ask(b"PING") == b"+PONG"
        except OSError:
            return False


@functools.cache
def shared_postgres() -> PostgresServer:
    """The only PostgreSQL server of this process, started on first use. Each worker of a run is a process and has its own:
    a start takes about a second, which sharing one across processes would not repay. Each statement of a connection is planned once:
    by itself PostgreSQL would plan the first five runs of each anew, and most tests run none of them more often. Whoever empties a
    database sweeps it too (`tests/emptied_database.py`)."""
    return PostgresServer(settings={"plan_cache_mode": "force_generic_plan", "autovacuum": "off"})


@functools.cache
def shared_redis() -> RedisServer:
    """The only Redis server of this process, started on first use."""
    return RedisServer()
