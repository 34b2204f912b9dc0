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
from tests.emptied_database import EmptiedDatabase, EmptiedSqlite, migrated_template
from tests.harness import START, Service, running_service
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


class _Shared(NamedTuple):
    service: Service
    parts: _Parts
    stack: ExitStack
    delete_rows: Callable[[], None]


class SharedServices:
    def __init__(self, folders: pytest.TempPathFactory, postgres: Callable[[], PostgresServer]) -> None:
        self._folders, self._postgres = folders, postgres
        self._running: dict[str, _Shared] = {}
        self._at_last = ExitStack()

    @cached_property
    def _database(self) -> EmptiedDatabase:
        server = self._postgres()
        database = EmptiedDatabase(server, migrated_template(server))
        self._at_last.callback(database.drop)
        return database

    def get(self, engine: str) -> Service:
        if engine not in self._running:
            self._running[engine] = self._start(engine)
        return self._running[engine].service

    def give_back(self, engine: str) -> None:
        """Empties a service for the next test; ends it if this one has moved its clock, which cannot be moved back, or left work."""
        service, parts, stack, delete_rows = self._running[engine]
        if service.clock.now() != START or service.clock.monotonic() != START or service.is_working:
            del self._running[engine]
            stack.close()
            return
        parts.put_back()
        service.run(service.application.answered.flush())
        delete_rows()
        service.forget_callers()

    def _start(self, engine: str) -> _Shared:
        stack = ExitStack()
        folder = self._folders.mktemp("shared") / "data"
        if engine == "postgres":
            database = self._database
            stack.callback(database.empty)
            service = stack.enter_context(running_service(folder, database_url=database.url, database_connections=8))
            return _Shared(service, _Parts(service), stack, database.delete_rows)
        service = stack.enter_context(running_service(folder))
        file = stack.enter_context(closing(EmptiedSqlite(service.settings.sqlite_path)))
        return _Shared(service, _Parts(service), stack, file.empty)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exception: object) -> None:
        while self._running:
            self._running.popitem()[1].stack.close()
        self._at_last.close()
