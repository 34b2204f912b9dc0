"""Fixtures. `service` is the running application, once on SQLite and once on PostgreSQL."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import hypothesis
import pytest
from argon2 import PasswordHasher

from kontobahn.access import users
from tests.emptied_database import EmptiedDatabase, migrated_template
from tests.harness import Service, ServiceFactory, running_service
from tests.programs import BASE, fenced_path, installed
from tests.services import PostgresServer, RedisServer, shared_postgres, shared_redis
from tests.tidy_rules import ROOT

# A busy machine is slow, which says nothing about the code.
hypothesis.settings.register_profile("without deadlines", deadline=None)
hypothesis.settings.load_profile("without deadlines")
ENGINES = ("sqlite", "postgres")


@pytest.fixture(autouse=True)
def _no_settings_from_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name.startswith("KONTOBAHN_"):
            monkeypatch.delenv(name)


@pytest.fixture(autouse=True, scope="session")
def _no_programs_but_those_that_set_up_installs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Otherwise a test could start what only the machine of whoever wrote it has."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", fenced_path(tmp_path_factory.mktemp("path") / "bin", BASE | installed(ROOT, "tests")))
        yield


@pytest.fixture(autouse=True, scope="session")
def _passwords_are_hashed_quickly() -> Iterator[None]:
    """A hash is slow on purpose, and no test is about that. Processes that tests start hash as an installation does."""
    quick = PasswordHasher(time_cost=1, memory_cost=8, parallelism=1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(users, "_hasher", lambda: quick)
        yield


@pytest.fixture(scope="session")
def postgres() -> PostgresServer:
    return shared_postgres()


@pytest.fixture(scope="session")
def redis() -> RedisServer:
    return shared_redis()


@pytest.fixture(scope="session")
def emptied_database(postgres: PostgresServer) -> Iterator[EmptiedDatabase]:
    database = EmptiedDatabase(postgres, migrated_template(postgres))
    yield database
    database.drop()


@pytest.fixture
def database_url(engine: str, request: pytest.FixtureRequest) -> Iterator[str]:
    """Empty for SQLite; the address of a migrated database without rows for PostgreSQL."""
    if engine == "sqlite":
        yield ""
        return
    database: EmptiedDatabase = request.getfixturevalue("emptied_database")
    yield database.url
    database.empty()


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
