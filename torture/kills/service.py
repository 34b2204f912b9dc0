"""The service that is killed: one process on SQLite, one or two workers on PostgreSQL."""

from __future__ import annotations

import os
import random
import signal
import sqlite3
import threading
import time
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import psycopg

from kontobahn.api import tasks
from kontobahn.books.claims import LEASE_SECONDS
from kontobahn.clock import SECOND
from tests.forked_commands import commands
from torture.others import Target

PATIENCE_SECONDS = 180
# Longer than a call takes on a busy machine; what a killed one held is free again after it.
CALL_HOLD_SECONDS = 8
# A larger file is imported after its answer.
TASK_BYTES = 12_000
# The time that a worker's neighbour goes on alone, and that a start may take until it is killed.
PAUSE = (0.1, 1.0)
# The tables in which a process claims rows, and for how long.
CLAIMS = {
    "books_preparing WHERE lease_until > 0": LEASE_SECONDS,
    "api_tasks WHERE status = 'running'": tasks.LEASE_SECONDS,
}
# Left in the books by a kill amid something that takes several transactions.
HALF_DONE = {
    "importing": "SELECT batch FROM books_preparing WHERE lease_until > 0 AND undoes = ''",
    "undoing": "SELECT batch FROM books_preparing WHERE lease_until > 0 AND undoes <> ''",
    "sweeping": "SELECT undone_to FROM books_clients WHERE undone_to > 0",
}


class Service:
    """Started, killed and started again; its address is another one every time."""

    def __init__(self, data: Path, chance: random.Random, database_url: str, redis_url: str, **settings: Any) -> None:
        self.data, self._chance = data, chance
        self._database_url = database_url
        self._settings = settings | {
            "limit_api_requests": 10**9, "limit_webhook_requests": 10**9, "call_hold_seconds": CALL_HOLD_SECONDS,
            "upload_task_bytes": TASK_BYTES, "webhook_timeout_seconds": 2, "log_level": "error",
            "shutdown_grace_seconds": 5,
        }  # fmt: skip
        if database_url:
            self._settings |= {"database_url": database_url, "redis_url": redis_url}
        self.up = threading.Event()
        self.kills: dict[str, int] = {}
        # Work found half done after kills.
        self.amid: dict[str, set[Any]] = {name: set() for name in HALF_DONE}
        self._groups: list[int] = []
        self._killed_at = 0
        self.running = self._started()

    @property
    def engine(self) -> str:
        return "postgres" if self._database_url else "sqlite"

    @property
    def settings(self) -> dict[str, Any]:
        return self._settings

    def _begin(self, *, wait: bool) -> Target:
        self._workers = self._chance.choice((1, 2)) if self._database_url else 1
        arguments = ("--workers", "2") if self._workers == 2 else ()
        begun = Target(
            self.data, *arguments, wait=wait, forked_from=None if arguments else commands(), **self._settings
        )
        self._groups.append(begun.process.pid)
        return begun

    def _started(self) -> Target:
        running = self._begin(wait=True)
        self.facts = running.facts
        self.up.set()
        return running

    def kill_and_start(self) -> None:
        """Kills it in one of several ways, then starts it again; now and then the start is killed as well."""
        if self._workers == 2 and self._chance.random() < 0.5:
            self._kill_worker()
            time.sleep(self._chance.uniform(*PAUSE))
        self.up.clear()
        how = self._chance.choice(("process", "group"))
        pid = self.running.process.pid
        (os.killpg if how == "group" else os.kill)(pid, signal.SIGKILL)
        self.running.process.wait()
        self._count(how if self._workers == 1 else f"{how} of workers")
        if self._chance.random() < 0.1:
            starting = self._begin(wait=False)
            time.sleep(self._chance.uniform(*PAUSE) * 2)
            os.killpg(starting.process.pid, signal.SIGKILL)
            starting.process.wait()
            self._count("start")
        self._killed_at = round(time.time() * SECOND)
        self.running = self._started()
        # Not before: whoever opens SQLite's file after a kill tidies up its log, and that is up to the service.
        for name, sql in HALF_DONE.items():
            self.amid[name].update(found for (found,) in self.rows(sql))
        if self._chance.random() < 0.5:
            self.let_claims_end()

    def _kill_worker(self) -> None:
        """One of two workers; its neighbour goes on, and it is replaced."""
        pid = self.running.process.pid
        with suppress(OSError, IndexError):
            children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
            os.kill(int(self._chance.choice(children)), signal.SIGKILL)
            self._count("worker")

    def _count(self, how: str) -> None:
        self.kills[how] = self.kills.get(how, 0) + 1

    @property
    def killed(self) -> int:
        return sum(self.kills.values())

    def stop(self) -> int:
        """Ends it in order, and returns how many processes of killed ones have lived on."""
        self.up.clear()
        self.running.stop()
        deadline = time.monotonic() + PATIENCE_SECONDS
        while (left := sum(_group_lives(group) for group in self._groups)) and time.monotonic() < deadline:
            time.sleep(0.1)
        return left

    def close(self) -> None:
        for group in self._groups:
            with suppress(ProcessLookupError):
                os.killpg(group, signal.SIGKILL)

    def let_claims_end(self) -> None:
        """Lets the time pass for which others wait for what the killed ones had claimed. The claims of the living end later."""
        for claims, seconds in CLAIMS.items():
            table, _, condition = claims.partition(" WHERE ")
            self._write(
                f"UPDATE {table} SET lease_until = 1 WHERE {condition} AND lease_until <= {self._killed_at + seconds * SECOND}"
            )

    def let_time_pass(self, prefix: str) -> None:
        """The service looks for a payment whose creation was cut off for some minutes, then says that it has failed; documents during
        which it died three times are tried again hours later."""
        self._write(
            "UPDATE banking_payments SET next_poll_at = 0, created_at = created_at - 600000000"
            f" WHERE status = 'initiated' AND provider_ref IS NULL AND description LIKE '{prefix}%'"
        )
        self._write("UPDATE mobility_documents_due SET busy_until = 0 WHERE tries >= 3")

    def _write(self, sql: str) -> None:
        if self._database_url:
            with psycopg.connect(self._database_url) as connection:
                connection.execute(sql)
            return
        with closing(sqlite3.connect(self.data / "kontobahn.sqlite3", timeout=PATIENCE_SECONDS)) as file, file:
            file.execute(sql)

    def rows(self, sql: str, *params: Any) -> list[tuple[Any, ...]]:
        """Reads its database behind its back."""
        if self._database_url:
            with psycopg.connect(self._database_url) as connection:
                return connection.execute(sql.replace("?", "%s"), params).fetchall()
        path = f"file:{self.data / 'kontobahn.sqlite3'}?mode=ro"
        with closing(sqlite3.connect(path, uri=True, timeout=PATIENCE_SECONDS)) as connection:
            return connection.execute(sql, params).fetchall()


def _group_lives(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True
