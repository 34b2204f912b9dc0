"""The real application behind a real socket, for tests: on SQLite or PostgreSQL, with a clock that stands still."""

from __future__ import annotations

import asyncio
import sqlite3
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import msgspec

from kontobahn import credits, serve
from kontobahn.access import audit, client_access, keys, organizations, users
from kontobahn.access.principal import ClientRole, Role
from kontobahn.api.answers import Error
from kontobahn.api.openapi import OutOfCredits, area_of
from kontobahn.api.tasks import Tasks
from kontobahn.app import ERRORS, Application
from kontobahn.banking.provider import Banking
from kontobahn.clock import Clock, ManualClock, SystemClock
from kontobahn.db import Database, open_database
from kontobahn.db.migrate import migrate
from kontobahn.ledger import connections
from kontobahn.ledger.provider import Ledger, LedgerProvider
from kontobahn.settings import Settings, load
from tests.plain_http import PlainClient, PlainTransport
from tests.waiting import PATIENCE_SECONDS

# 2026-03-02 09:00 UTC, a Monday.
START = 1_772_442_000_000_000
PASSWORD = "correct horse battery"
ACTOR = audit.Actor("test")


class Organization(NamedTuple):
    """An organisation with a key of its own."""

    id: str
    key: str
    key_id: str


class LastingDatabase(Database):
    """An open database that one application after the other works with, each by its own clock."""

    def __init__(self, settings: Settings) -> None:
        self.clock: Clock = ManualClock(START)
        super().__init__(open_database(settings, self).engine)

    def now(self) -> int:
        return self.clock.now()

    def monotonic(self) -> int:
        return self.clock.monotonic()

    def close(self) -> None:
        """Ends what an application had to do with it."""
        self.engine.listeners.clear()

    def close_at_last(self) -> None:
        super().close()


class Service:
    """A running Kontobahn."""

    def __init__(self, settings: Settings, db: LastingDatabase | None = None) -> None:
        self.clock = ManualClock(START)
        if db is not None:
            db.clock = self.clock
        self._holder, self.port = serve.reserve_port("127.0.0.1", 0)
        self.base_url = f"http://127.0.0.1:{self.port}"
        settings = msgspec.structs.replace(settings, base_url=self.base_url)
        self.application = Application(settings, self.clock, db)
        self.settings = settings
        self.db = self.application.db
        self.vault = self.application.vault
        self._ready = threading.Event()
        self._thread = threading.Thread(target=lambda: serve.run(self._serve()), daemon=True)
        self._server: serve.EmbeddedServer | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._failure: BaseException | None = None
        self.transport = PlainTransport()
        self.http = PlainClient(self.base_url, self.transport)

    def start(self) -> None:
        self._thread.start()
        self._ready.wait(PATIENCE_SECONDS)
        if self._failure is not None:
            raise self._failure

    def stop(self) -> None:
        self.http.close()
        if self._loop and self._server:
            self._loop.call_soon_threadsafe(self._server.stop)
        self._thread.join(PATIENCE_SECONDS)
        self._holder.close()
        assert not self._thread.is_alive(), "the service did not stop"

    async def _serve(self) -> None:
        try:
            self._loop = asyncio.get_running_loop()
            await self.application.startup()
            self._server = serve.EmbeddedServer(self.application, "127.0.0.1", self.port)
            serving = asyncio.create_task(self._server.serve())
            await serve.wait_until_accepting("127.0.0.1", self.port, serving)
        except BaseException as error:
            self._failure = error
            self._ready.set()
            raise
        self._ready.set()
        await serving
        await self.application.shutdown()

    def run(self, coroutine: Any) -> Any:
        """Await something on the service's own event loop."""
        assert self._loop is not None
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(PATIENCE_SECONDS)

    def organization(
        self, name: str = "Muster GmbH", *, credits_granted: int = 100, role: Role = "admin"
    ) -> Organization:
        owner = self.db.write_now(organizations.create, name, ACTOR)
        if credits_granted:
            self.db.write_now(credits.grant, owner.id, credits_granted)
        new = self.db.write_now(keys.create, self.vault, owner.id, f"key of {name}", ACTOR, role=role)
        return Organization(owner.id, new.secret, new.key.id)

    def agency(self, *clients: Organization) -> Organization:
        owner = self.db.write_now(organizations.create, "Kanzlei Beispiel", ACTOR)
        self.db.write_now(credits.grant, owner.id, 100)
        ids = tuple(client.id for client in clients)
        new = self.db.write_now(keys.create, self.vault, owner.id, "agency", ACTOR, role="admin", clients=ids)
        return Organization(owner.id, new.secret, new.key.id)

    def user(
        self, organization: Organization, email: str, role: Role = "owner", password: str = PASSWORD
    ) -> users.User:
        return self.db.write_now(
            users.create, organization.id,
            email=email, name="Erika Muster", role=role, password_hash=users.hash_password(password), actor=ACTOR,
        )  # fmt: skip

    def give_access(self, user: users.User, client: Organization, role: ClientRole = "member") -> None:
        self.db.write_now(client_access.give_by_operator, user, client.id, role, ACTOR)

    def session(self, email: str, password: str = PASSWORD) -> str:
        answer = self.http.post("/v2/auth/sessions", json={"email": email, "password": password})
        assert answer.status_code == 201, answer.text
        return str(answer.json()["data"]["token"])

    def ledger_connection(
        self, organization: Organization, bezeichnung: str = "Bücher", provider: str = "books"
    ) -> str:
        return self.db.write_now(connections.create, organization.id, bezeichnung=bezeichnung, provider=provider)

    @property
    def ledger_providers(self) -> dict[str, LedgerProvider]:
        """The accounting providers of the running application, by name; tests may add one."""
        ledger = self.application.context.part(Ledger)
        return ledger.providers

    @property
    def is_working(self) -> bool:
        """Tells whether something goes on after its call was answered."""
        context = self.application.context
        return bool(context.part(Banking).running or context.part(Tasks)._running)

    def forget_callers(self) -> None:
        """Empties the cache of principals, instead of waiting until its entries expire."""
        self.application.authenticator._cached.clear()

    def balance(self, organization: Organization) -> credits.Balance:
        return self.db.read_now(credits.balance, organization.id)

    def get(self, path: str, key: str | None = None, **options: Any) -> httpx.Response:
        return self.request("GET", path, key, **options)

    def post(self, path: str, key: str | None = None, **options: Any) -> httpx.Response:
        return self.request("POST", path, key, **options)

    def request(self, method: str, path: str, key: str | None = None, **options: Any) -> httpx.Response:
        headers = dict(options.pop("headers", {}))
        if key is not None and key.startswith("kb_sess_"):
            headers["authorization"] = f"Bearer {key}"
        elif key is not None:
            headers["x-api-key"] = key
        answer = self.http.request(method, path, headers=headers, **options)
        if answer.status_code >= 400 and path.startswith("/v2/") and method != "HEAD":
            check_error(path, answer)
        return answer


def check_error(path: str, answer: httpx.Response) -> None:
    """An error has the fields that the OpenAPI document tells of its area, and no others."""
    declared = OutOfCredits if answer.status_code == 402 else ERRORS.get(area_of(path), Error)
    fields, decoder = _shape(declared)
    assert answer.json().keys() <= fields, answer.text
    decoder.decode(answer.content)


@cache
def _shape(declared: type[Error]) -> tuple[frozenset[str], msgspec.json.Decoder[Error]]:
    names = (field.encode_name for field in msgspec.structs.fields(declared))
    return frozenset(names), msgspec.json.Decoder(declared)


ServiceFactory = Callable[..., Service]


@cache
def migrated_sqlite() -> bytes:
    """A database brought up to date once; those of the tests are copies of it."""
    with tempfile.TemporaryDirectory(prefix="kontobahn-tests-") as folder:
        settings = load({}, data=folder)
        db = open_database(settings, SystemClock())
        migrate(db)
        db.close()
        return settings.sqlite_path.read_bytes()


def place_migrated_sqlite(settings: Settings) -> None:
    """Spares a new data directory all the steps of a migration; with a database, or PostgreSQL, it does nothing."""
    if not settings.database_url and not settings.sqlite_path.exists():
        settings.data_dir.mkdir(parents=True, exist_ok=True)
        settings.sqlite_path.touch(0o600)
        settings.sqlite_path.write_bytes(migrated_sqlite())


def migrated_sqlite_in_memory() -> sqlite3.Connection:
    """A database that was brought up to date and has no rows, for whichever thread."""
    image = bytearray(migrated_sqlite())
    image[18:20] = b"\x01\x01"  # in memory there is no write-ahead log; a file that it is copied to keeps its own
    connection = sqlite3.connect(":memory:", check_same_thread=False)
    connection.deserialize(bytes(image))
    return connection


def service_settings(data: Path, **settings: Any) -> Settings:
    """No rate limit gets in the way unless a test sets one."""
    defaults: dict[str, Any] = {
        "limit_api_requests": 1_000_000,
        "limit_auth_requests": 1_000_000,
        "limit_page_requests": 1_000_000,
        "run_jobs": False,
        "connect_provider": "sandbox",
    }
    loaded = load({}, data=str(data), **{**defaults, **settings})
    place_migrated_sqlite(loaded)
    return loaded


@contextmanager
def running_service(data: Path, **settings: Any) -> Iterator[Service]:
    """A service with the given settings."""
    with running(Service(service_settings(data, **settings))) as service:
        yield service


@contextmanager
def running(service: Service) -> Iterator[Service]:
    migrate(service.db)
    service.start()
    try:
        yield service
    finally:
        service.stop()
