"""Fixtures. `service` is the running application, once on SQLite and once on PostgreSQL."""

from __future__ import annotations

import gc
import os
import sqlite3
import ssl
import zlib
from collections.abc import Iterator
from contextlib import ExitStack, closing
from functools import cache, wraps
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import certifi
import hypothesis
import pytest
from argon2 import PasswordHasher
from cryptography.hazmat.primitives import serialization

from kontobahn import limits, sockets
from kontobahn.access import identity_provider, users
from kontobahn.api import system
from kontobahn.api.pages import LANGUAGES
from kontobahn.bank_providers.sandbox import webhooks as sandbox_webhooks
from kontobahn.banking.connect import steps
from kontobahn.banking.reports import refresh, webhooks
from kontobahn.dashboard import books
from kontobahn.datev import postings as datev_postings
from kontobahn.datev import sessions as datev_sessions
from kontobahn.db import postgres as postgres_engine
from kontobahn.db.sqlite import SqliteEngine
from kontobahn.errors import KontobahnError
from kontobahn.guide import routes
from kontobahn.ledger import connections as ledger_connections
from kontobahn.mobility.invoices import documents
from tests import compiled_templates, plans, run_folder
from tests.emptied_database import EmptiedDatabase, migrated_template
from tests.forked_commands import CommandsOfWorkers
from tests.harness import Service, ServiceFactory, running_service
from tests.post_office import PostOffice, post_office
from tests.programs import BASE, fenced_path, installed
from tests.services import PostgresServer, RedisServer, shared_postgres, shared_redis
from tests.shared_services import FRESH, SharedServices
from tests.tidy_rules import ROOT, modules
from tests.waiting import PATIENCE_SECONDS
from tests.workers import portions, run_side_by_side

# Looking for garbage among all that tests import and make took a tenth of their time.
gc.set_threshold(200_000, 20, 10)
# A busy machine is slow, which says nothing about the code.
hypothesis.settings.register_profile("without deadlines", deadline=None)
hypothesis.settings.load_profile("without deadlines")
ENGINES = ("sqlite", "postgres")
# Tests that take long, the longest first.
MINUTES = ("tests/test_fuzz.py", "tests/journeys/test_torture.py")
LONGEST = (
    *MINUTES, "tests/browser/test_every_page.py", "tests/browser/",
    "tests/providers/banking/test_secrets.py", "tests/dashboard/test_hostile_texts.py", "tests/journeys/",
    "tests/api/test_body_limits.py",
)  # fmt: skip
# In the folder of a run.
TEMPLATES = "templates"
# The time that a caller waits for work that goes on.
WAITS = (
    (webhooks, "ANSWER_SECONDS"), (refresh, "ANSWER_SECONDS"), (steps, "ANSWER_SECONDS"), (documents, "WAIT_SECONDS"),
    (sandbox_webhooks, "MAX_PAGE_WAIT_SECONDS"), (ledger_connections, "CLIENTS_SECONDS"), (books, "BOOKS_SECONDS"),
    (datev_sessions, "PATIENCE_SECONDS"), (datev_postings, "WAIT_SECONDS"),
    (system, "READY_SECONDS"), (postgres_engine, "ANSWER_SECONDS"), (identity_provider, "SECONDS"),
    (limits, "REDIS_TIMEOUT_SECONDS"),
)  # fmt: skip


@pytest.fixture(autouse=True)
def _no_settings_from_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name.startswith("KONTOBAHN_"):
            monkeypatch.delenv(name)


@pytest.fixture(autouse=True, scope="session")
def _no_programs_but_those_that_set_up_installs() -> Iterator[None]:
    """Otherwise a test could start what only the machine of whoever wrote it has."""
    with TemporaryDirectory(prefix="kontobahn-path-") as folder, pytest.MonkeyPatch.context() as patch:
        Path(folder).chmod(0o755)  # PostgreSQL is started from it under another account
        patch.setenv("PATH", fenced_path(Path(folder), BASE | installed(ROOT, "tests")))
        yield


@pytest.fixture(autouse=True, scope="session")
def _watch(_run_folder: Path) -> Iterator[plans.Watch]:
    with closing(plans.Judged(_run_folder / "judged-statements")) as judged, pytest.MonkeyPatch.context() as patch:
        watch = plans.Watch(judged)
        watch.install(patch)
        yield watch


@pytest.fixture(autouse=True)
def _no_statement_reads_a_history(_watch: plans.Watch) -> Iterator[None]:
    """Whatever a test makes the service ask its database is asked of an index; see `tests/plans.py`."""
    yield
    assert _watch.complaints() == []


@pytest.fixture(autouse=True, scope="session")
def _passwords_are_hashed_quickly() -> Iterator[None]:
    """A hash is slow on purpose, and no test is about that. Processes that tests start hash as an installation does."""
    quick = PasswordHasher(time_cost=1, memory_cost=8, parallelism=1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(users, "_hasher", lambda: quick)
        yield


@pytest.fixture(autouse=True, scope="session")
def _nothing_waits_for_the_disk() -> Iterator[None]:
    """Everything that is committed is on disk when a commit returns, and no test cuts the power. Processes that tests start wait for it."""
    connect = SqliteEngine._connect

    @wraps(connect)
    def connect_without_waiting(engine: SqliteEngine, **options: bool) -> sqlite3.Connection:
        connection = connect(engine, **options)
        connection.execute("PRAGMA synchronous = OFF")
        return connection

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(SqliteEngine, "_connect", connect_without_waiting)
        yield


@pytest.fixture(autouse=True, scope="session")
def _a_key_that_was_read_is_not_checked_again() -> Iterator[None]:
    """To find out whether its primes are primes takes longer than most tests do in all."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(serialization, "load_pem_private_key", cache(serialization.load_pem_private_key))
        yield


@pytest.fixture(autouse=True, scope="session")
def _certificates_of_authorities_are_read_once() -> Iterator[None]:
    """Reading them takes as long as a test, and hardly any meets one of these authorities."""
    create, shared = ssl.create_default_context, cache(ssl.create_default_context)
    # As our own code asks for them, and as the client that tests speak HTTP with does.
    theirs: tuple[dict[str, Any], ...] = ({}, {"cafile": certifi.where()})
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            ssl,
            "create_default_context",
            lambda *args, **more: shared(**more) if not args and more in theirs else create(*args, **more),
        )
        yield


@pytest.fixture(autouse=True, scope="session")
def _run_folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder of all processes of this run."""
    folder = Path(os.environ.get(run_folder.FOLDER) or tmp_path_factory.getbasetemp())
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(run_folder.FOLDER, str(folder))
        yield folder


@pytest.fixture(autouse=True, scope="session")
def _templates_are_compiled_once(_run_folder: Path) -> Iterator[None]:
    """For all processes of this run: all of them take five seconds."""
    compiled_templates.keep_in(_run_folder / TEMPLATES)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(compiled_templates.FOLDER, str(_run_folder / TEMPLATES))
        yield


@pytest.fixture(autouse=True, scope="session")
def _idle_services_cost_little() -> Iterator[None]:
    """A look at all connections, five times a second in every service, adds up."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sockets, "SWEEP_SECONDS", 10 * sockets.SWEEP_SECONDS)
        yield


@pytest.fixture(autouse=True, scope="session")
def _nothing_is_given_up_because_the_machine_is_slow() -> Iterator[None]:
    """Bounds on how long a caller waits for work that goes on; a test that is about one sets it."""
    with pytest.MonkeyPatch.context() as patch:
        for module, name in WAITS:
            patch.setattr(module, name, PATIENCE_SECONDS)
        patch.setitem(postgres_engine._CONNECTION, "connect_timeout", PATIENCE_SECONDS)
        yield


@pytest.fixture(scope="session")
def postgres() -> PostgresServer:
    return shared_postgres()


@pytest.fixture(scope="session")
def redis() -> RedisServer:
    return shared_redis()


@pytest.fixture(scope="session")
def emptied_database(postgres: PostgresServer) -> Iterator[EmptiedDatabase]:
    """For what a test starts for itself."""
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


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--workers", type=int, default=1, help="run the tests in so many processes side by side")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Refusals before any statement run on one engine: which, follows from the test's name. Long tests come first, so that at the end
    nobody waits for them."""
    if not os.environ.get(FRESH):
        items[:] = _each_once([item for item in items if item.get_closest_marker("either_engine")], items)
    items.sort(key=_turn)


def pytest_runtestloop(session: pytest.Session) -> bool | None:
    workers = session.config.getoption("workers")
    if workers < 2 or session.testsfailed or session.config.option.collectonly:
        return None
    _prepare_what_all_need()
    templates = session.config._tmp_path_factory.getbasetemp() / TEMPLATES  # type: ignore[attr-defined]
    with closing(CommandsOfWorkers(workers, **{compiled_templates.FOLDER: str(templates)})) as commands:
        run_side_by_side(session, workers, portions(session.items, by=_taken_together), commands.use)
    return True


def _turn(item: pytest.Item) -> int:
    return next((turn for turn, place in enumerate(LONGEST) if item.nodeid.startswith(place)), len(LONGEST))


def _taken_together(item: pytest.Item) -> str:
    """The module, unless each of its tests takes minutes."""
    return item.nodeid if item.nodeid.startswith(MINUTES) else item.nodeid.partition("::")[0]


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_makereport(call: pytest.CallInfo[None]) -> None:
    """A failure also says what an operator would be told."""
    if call.excinfo is not None and isinstance(call.excinfo.value, KontobahnError) and call.excinfo.value.operator:
        call.excinfo.value.add_note(call.excinfo.value.operator)


def pytest_collection_finish() -> None:
    """Objects that are there now stay until the end: no collection looks at them again."""
    gc.freeze()


def _prepare_what_all_need() -> None:
    """Each process would parse the source and read the guide by itself, which takes seconds."""
    for _ in modules(ROOT):
        pass
    for language in LANGUAGES:
        routes.passages(language)
    gc.freeze()


def _each_once(either: list[pytest.Item], items: list[pytest.Item]) -> list[pytest.Item]:
    """All items but those whose twin on the other engine is the one to run; some tests have no twin."""
    by_name: dict[str, list[pytest.Item]] = {}
    for item in either:
        test, _, parameters = item.nodeid.partition("[")
        by_name.setdefault(test + parameters.replace(_engine_of(item), "", 1), []).append(item)
    left_out = {
        item
        for name, twins in by_name.items()
        if len(twins) > 1
        for item in twins
        if ENGINES[zlib.crc32(name.encode()) % len(ENGINES)] != _engine_of(item)
    }
    return [item for item in items if item not in left_out]


def _engine_of(item: pytest.Item) -> str:
    return str(item.callspec.params["engine"])  # type: ignore[attr-defined]


@pytest.fixture
def start_service(database_url: str, tmp_path: Path) -> Iterator[ServiceFactory]:
    """Starts services with settings of the test's own; they share the database and the data directory."""
    with ExitStack() as stack:

        def start(**settings: Any) -> Service:
            return stack.enter_context(
                running_service(
                    tmp_path / "data", **{"database_url": database_url, "database_connections": 4, **settings}
                )
            )

        yield start


@pytest.fixture(scope="session")
def shared_services(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[SharedServices]:
    """One service for an engine. Tests share it: each makes organisations of its own."""
    with SharedServices(tmp_path_factory, lambda: request.getfixturevalue("postgres")) as shared:
        yield shared


@pytest.fixture
def service(request: pytest.FixtureRequest, engine: str) -> Iterator[Service]:
    """The running application: the module's, or one of the test's own where it is `alone` or starts further ones."""
    if request.node.get_closest_marker("alone") or "database_url" in request.fixturenames or os.environ.get(FRESH):
        yield request.getfixturevalue("start_service")()
        return
    shared: SharedServices = request.getfixturevalue("shared_services")
    yield shared.get(engine)
    shared.give_back(engine)


@pytest.fixture
def office() -> Iterator[PostOffice]:
    with post_office() as found:
        yield found


@pytest.fixture
def mailing(start_service: ServiceFactory, office: PostOffice) -> Service:
    """A service that sends mail."""
    return start_service(smtp_url=office.url, mail_from="Kontobahn <kontobahn@muster.example>")
