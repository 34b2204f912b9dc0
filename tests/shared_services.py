"""Services that tests share, one for each engine, emptied after each test: starting one takes longer than most of them, and the first
calls of each cost the most."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack, closing
from functools import cached_property
from typing import Any, NamedTuple, Self

import pytest

from kontobahn.banking.provider import Banking
from kontobahn.mobility.tickets import Mobility
from kontobahn.settings import Settings
from tests.emptied_database import EmptiedDatabase, EmptiedSqlite, migrated_template
from tests.harness import START, LastingDatabase, Service, running, service_settings
from tests.services import PostgresServer

# Set by whoever wants to know what each test reaches by itself (mutation/): then nothing is shared, and no test is left out.
FRESH = "FRESH_SERVICES"


class _Parts:
    """The parts of a running application that a test may have exchanged, and how it was."""

    def __init__(self, service: Service) -> None:
        context = service.application.context
        self._outbound = service.application.outbound
        self._resolver = self._outbound.resolver
        tables = (
            context.parts, service.ledger_providers, context.part(Banking).providers, context.part(Mobility).platforms
        )  # fmt: skip
        self._tables: list[tuple[dict[Any, Any], dict[Any, Any]]] = [(table, dict(table)) for table in tables]  # type: ignore[misc]

    def put_back(self) -> None:
        self._outbound.resolver = self._resolver
        for table, before in self._tables:
            table.clear()
            table.update(before)


class _Ground(NamedTuple):
    """The ground that services stand on one after the other. To open a database, and to ask it for the first time, takes longer than most
    tests."""

    settings: Settings
    db: LastingDatabase
    delete_rows: Callable[[], None]
    stack: ExitStack


class _Shared(NamedTuple):
    service: Service
    parts: _Parts
    stack: ExitStack


class SharedServices:
    def __init__(self, folders: pytest.TempPathFactory, postgres: Callable[[], PostgresServer]) -> None:
        self._folders, self._postgres = folders, postgres
        self._grounds: dict[str, _Ground] = {}
        self._running: dict[str, _Shared] = {}
        self._at_last = ExitStack()

    @cached_property
    def _database(self) -> EmptiedDatabase:
        server = self._postgres()
        database = EmptiedDatabase(server, migrated_template(server))
        self._at_last.callback(database.drop)
        return database

    def get(self, engine: str) -> Service:
        if engine not in self._grounds:
            self._grounds[engine] = self._open(engine)
        if engine not in self._running:
            self._running[engine] = self._start(self._grounds[engine])
        return self._running[engine].service

    def give_back(self, engine: str) -> None:
        """Empties a service for the next test; ends it if this one has moved its clock, which cannot be moved back, or left work."""
        service, parts, stack = self._running[engine]
        if service.is_working:
            self._close(engine)
        elif service.clock.now() != START or service.clock.monotonic() != START:
            del self._running[engine]
            stack.close()
        else:
            parts.put_back()
            service.run(service.application.answered.flush())
            self._grounds[engine].delete_rows()
            service.forget_callers()

    def _open(self, engine: str) -> _Ground:
        stack = ExitStack()
        folder, settings = self._folders.mktemp("shared") / "data", {}
        if engine == "postgres":
            database = self._database
            stack.callback(database.empty)
            settings = {"database_url": database.url, "database_connections": 4}
        loaded = service_settings(folder, **settings)
        db = LastingDatabase(loaded)
        stack.callback(db.close_at_last)
        if engine == "postgres":
            return _Ground(loaded, db, self._database.delete_rows, stack)
        file = stack.enter_context(closing(EmptiedSqlite(loaded.sqlite_path)))
        return _Ground(loaded, db, file.empty, stack)

    def _start(self, ground: _Ground) -> _Shared:
        stack = ExitStack()
        stack.callback(ground.delete_rows)
        service = stack.enter_context(running(Service(ground.settings, ground.db)))
        return _Shared(service, _Parts(service), stack)

    def _close(self, engine: str) -> None:
        if engine in self._running:
            self._running.pop(engine).stack.close()
        self._grounds.pop(engine).stack.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exception: object) -> None:
        for engine in tuple(self._grounds):
            self._close(engine)
        self._at_last.close()
