"""Fixtures. `service` is the running application, once on SQLite and once on PostgreSQL."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from kontobahn.clock import SystemClock
from kontobahn.db import open_database
from kontobahn.db.migrate import migrate
from kontobahn.settings import load
from tests.harness import Service, ServiceFactory, running_service
from tests.services import PostgresServer, RedisServer, shared_postgres, shared_redis

ENGINES = ("sqlite", "postgres")
_numbers = itertools.count(1)


@pytest.fixture(autouse=True)
def _no_settings_from_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name.startswith("KONTOBAHN_"):
            monkeypatch.delenv(name)


@pytest.fixture(scope="session")
def postgres() -> PostgresServer:
    return shared_postgres()


@pytest.fixture(scope="session")
def redis() -> RedisServer:
    return shared_redis()


@pytest.fixture(scope="session")
def postgres_template(postgres: PostgresServer, tmp_path_factory: pytest.TempPathFactory) -> str:
    """A database brought up to date once; those of the tests are copies of it."""
    url = postgres.create_database("kontobahn_template")
    db = open_database(load({}, data=str(tmp_path_factory.mktemp("template")), database_url=url), SystemClock())
    migrate(db)
    db.close()
    return "kontobahn_template"


@pytest.fixture
def database_url(engine: str, request: pytest.FixtureRequest) -> Iterator[str]:
    """Empty for SQLite; the address of a fresh, migrated database for PostgreSQL."""
    if engine == "sqlite":
        yield ""
        return
    server: PostgresServer = request.getfixturevalue("postgres")
    template: str = request.getfixturevalue("postgres_template")
    name = f"test_{os.getpid()}_{next(_numbers)}"
    yield server.create_database(name, template=template)
    server.drop_database(name)


@pytest.fixture(params=ENGINES)
def engine(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def start_service(database_url: str, tmp_path: Path) -> Iterator[ServiceFactory]:
    """Starts services with settings of the test's own; they share the database and the data directory."""
    with ExitStack() as stack:

        def start(**settings: Any) -> Service:
            return stack.enter_context(
                running_service(tmp_path / "data", database_url=database_url, database_connections=8, **settings)
            )

        yield start


@pytest.fixture
def service(start_service: ServiceFactory) -> Service:
    return start_service()
