"""The schema and its steps: an empty database gets all at once, an older one what it lacks, under a lock; others are refused."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Any, get_args

import msgspec
import psycopg
import pytest

from kontobahn.clock import SystemClock
from kontobahn.db import Database, Tx, open_database
from kontobahn.db import migrate as steps
from kontobahn.db.migrate import BASE_LINE, Migration, known_migrations, migrate, pending
from kontobahn.errors import SetupError
from kontobahn.reconciliation.batch_store import Batch, StoredRows
from kontobahn.reconciliation.core.model import LineKind
from kontobahn.settings import load
from tests.catalogue import catalogue
from tests.services import PostgresServer
from tests.tidy_rules import ROOT

# Databases as the 51 steps before the base line left them, without rows of anybody.
BASE_LINES = ROOT / "tests" / "base_line"
HISTORY = "SELECT version, name FROM schema_migrations ORDER BY version"
Opener = Callable[[str], Database]


@pytest.fixture
def url(engine: str, request: pytest.FixtureRequest) -> Iterator[Callable[[str], str]]:
    """Makes empty databases by name and returns their addresses."""
    if engine == "sqlite":
        yield lambda _: ""
        return
    server: PostgresServer = request.getfixturevalue("postgres")
    made: list[str] = []

    def make(name: str) -> str:
        made.append(f"migrate_{name}")
        return server.create_database(made[-1])

    yield make
    for name in made:
        server.drop_database(name)


@pytest.fixture
def opened(url: Callable[[str], str], tmp_path: Path) -> Iterator[Opener]:
    databases: list[Database] = []

    def make(name: str) -> Database:
        databases.append(open_database(load({}, data=str(tmp_path / name), database_url=url(name)), SystemClock()))
        return databases[-1]

    yield make
    for database in databases:
        database.close()


@pytest.fixture
def db(opened: Opener) -> Database:
    """An empty database."""
    return opened("empty")


@cache
def base_line_template(server: PostgresServer) -> str:
    """A database that has the last step before the base line; copying it takes a fifth of the time."""
    url = server.create_database("base_line")
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute((BASE_LINES / "postgres.sql").read_bytes())
    return "base_line"


@pytest.fixture
def earlier(engine: str, request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Database]:
    """A database that has the last step before the base line."""
    settings = load({}, data=str(tmp_path / "earlier"))
    with ExitStack() as stack:
        if engine == "postgres":
            server: PostgresServer = request.getfixturevalue("postgres")
            url = server.create_database("earlier", template=base_line_template(server))
            stack.callback(server.drop_database, "earlier")
            settings = msgspec.structs.replace(settings, database_url=url)
        else:
            settings.data_dir.mkdir()
            with closing(sqlite3.connect(settings.sqlite_path)) as file:
                file.executescript((BASE_LINES / "sqlite.sql").read_text("utf-8"))
        database = open_database(settings, SystemClock())
        stack.callback(database.close)
        yield database


def rows(db: Database, sql: str, *params: Any) -> list[tuple[Any, ...]]:
    return db.read_now(lambda tx: tx.all(sql, *params))


def run(db: Database, sql: str) -> None:
    db.write_now(lambda tx: tx.run(sql))


def schema(db: Database) -> set[tuple[Any, ...]]:
    return db.read_now(catalogue, db.engine.name)


def a_step(name: str, sql: str, version: int = 9000) -> Migration:
    return Migration(version, name, sql, name)


def use_steps(monkeypatch: pytest.MonkeyPatch, *added: Migration) -> None:
    known = known_migrations
    monkeypatch.setattr("kontobahn.db.migrate.known_migrations", lambda engine: (*known(engine), *added))


# --- An empty database


def test_an_empty_database_gets_everything_at_once(db: Database) -> None:
    names = [BASE_LINE.name, *(step.name for step in known_migrations(db.engine.name))]
    assert pending(db) == names
    assert migrate(db) == names
    assert migrate(db) == []
    assert pending(db) == []
    assert [name for _, name in rows(db, HISTORY)] == names


def test_processes_starting_at_once_make_it_once(engine: str, url: Callable[[str], str], tmp_path: Path) -> None:
    settings = load({}, data=str(tmp_path), database_url=url("at_once"))

    def start(_: int) -> list[str]:
        database = open_database(settings, SystemClock())
        try:
            return migrate(database)
        finally:
            database.close()

    with ThreadPoolExecutor(4) as pool:
        applied = list(pool.map(start, range(4)))
    assert sorted(map(len, applied)) == [0, 0, 0, 1 + len(known_migrations(engine))]


def test_sqlite_tables_are_strict(tmp_path: Path) -> None:
    db = open_database(load({}, data=str(tmp_path)), SystemClock())
    migrate(db)
    loose = rows(db, "SELECT name FROM pragma_table_list WHERE schema = 'main' AND NOT (strict AND wr)")
    assert [name for (name,) in loose if not name.startswith("sqlite_")] == ["schema_migrations"]
    db.close()


# --- The base line


def test_the_schema_is_where_the_steps_lead(db: Database, earlier: Database) -> None:
    migrate(db)
    migrate(earlier)
    assert len(schema(db)) > 200
    assert schema(db) ^ schema(earlier) == set()


def test_the_last_step_before_the_base_line_is_the_base_line(
    earlier: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kontobahn.db.migrate.known_migrations", lambda _: ())
    run(earlier, "INSERT INTO organizations (id, name, created_at) VALUES ('o', 'Muster', 7)")
    before, history = schema(earlier), rows(earlier, HISTORY)
    assert len(history) == 51
    assert pending(earlier) == []
    assert rows(earlier, HISTORY) == history
    assert migrate(earlier) == []
    assert schema(earlier) == before
    assert rows(earlier, "SELECT name, created_at FROM organizations") == [("Muster", 7)]
    assert rows(earlier, HISTORY) == [(0, "base_line")]
    assert migrate(earlier) == []


@pytest.mark.parametrize("last", [1, 50])
def test_a_database_from_before_the_base_line_is_refused(earlier: Database, last: int) -> None:
    run(earlier, f"DELETE FROM schema_migrations WHERE version > {last}")
    before = schema(earlier), rows(earlier, HISTORY)
    for act in (migrate, pending):
        with pytest.raises(SetupError, match=rf"before Kontobahn 1\.0\.0.* {last:04d} .*`kontobahn migrate` once with"):
            act(earlier)
    assert (schema(earlier), rows(earlier, HISTORY)) == before


def test_another_last_step_is_not_the_base_line(earlier: Database) -> None:
    run(earlier, "UPDATE schema_migrations SET checksum = 'x' WHERE version = 51")
    with pytest.raises(SetupError, match=r"before Kontobahn 1\.0\.0.* 0051"):
        migrate(earlier)


def test_further_earlier_steps_are_of_a_newer_version(earlier: Database) -> None:
    run(earlier, "INSERT INTO schema_migrations VALUES (52, 'from the future', 'x', 0)")
    with pytest.raises(SetupError, match=r"newer version of Kontobahn.*0052.*from the future"):
        migrate(earlier)


BOOKING = """
INSERT INTO books_bookings (mandant, id, jahr, periode, batch, umsatz, soll, waehrung, kurs, konto, gegenkonto, bu_schluessel, belegdatum,
  belegfeld1, belegfeld2, skonto, buchungstext, kost1, kost2, generalumkehr, weitere, aufteilung)
VALUES (1, 1, '2026-01-01', 1, 'b', 100, 1, 'EUR', '', '10000000', '84000000', '', '2026-01-02', '', '', 0, '', '', '', 0, '{}', '%s')
"""
ENTRY = """
INSERT INTO books_cash_entries (mandant, kassenname, nummer, task, booking, datum, betrag, record, hash)
VALUES (1, 'Kasse', 1, 't', 1, '2026-01-02', 100, '{"nummer":1%s}', 'h')
"""
CASH_BOOKS = """
INSERT INTO books_cash_books (mandant, bezeichnung, konto, last_nummer, last_hash, saldo)
VALUES (1, 'A', '10000000', 0, '', 0), (1, 'B', '%s', 0, '', 0)
"""
STATEMENT = """
INSERT INTO banking_statements (account_id, position, identity, sha256, state, closes_on, entries, source, taken_at, span)
VALUES (1, 1, 'i', 's', '{}', '2026-01-02', 0, 'f', 7, %s)
"""


@pytest.mark.parametrize(
    ("row", "sentence"),
    [
        (BOOKING % "", "bookings without their split"),
        (ENTRY % "", "cash entries without the checksums"),
        (CASH_BOOKS % "10000000", "cash books that share an account"),
        (STATEMENT % "NULL", "statements that are part of no span"),
    ],
    ids=["booking", "cash entry", "cash books", "statement"],
)
def test_rows_that_are_no_longer_read_are_refused(earlier: Database, row: str, sentence: str) -> None:
    run(earlier, row)
    with pytest.raises(SetupError, match=rf"before Kontobahn 0\.1\.0.*{sentence}.*new installation"):
        migrate(earlier)
    assert len(rows(earlier, HISTORY)) == 51


@pytest.mark.parametrize(
    "row",
    [BOOKING % "-", ENTRY % ',"belege":[]', CASH_BOOKS % "10010000", STATEMENT % "0"],
    ids=["booking", "cash entry", "cash books", "statement"],
)
def test_rows_of_later_versions_are_taken_over(earlier: Database, row: str) -> None:
    run(earlier, row)
    migrate(earlier)
    assert rows(earlier, HISTORY)[0] == (0, "base_line")


# --- Steps since the base line

# As 1.0.0 kept a batch that was a list: without its lines, and these.
OLD_BATCH = (
    '{"id":"0193b2a0-0000-7000-8000-000000000002","account_id":"7","connectionId":"0193b2a0-0000-7000-8000-000000000001","clientId":"29098-55003","bucht":"kanzlei",'
    '"geschaeftsjahrStartDatum":"2026-01-01","from_date":"2026-01-01","to_date":"2026-03-31","zuordnungen":1,"stornos":0,"summe":119.00,'
    '"dateiname":null,"sha256":null,"importe":[],"von":"key:1","am":"2026-03-31T18:00:00Z"}'
)
OLD_LINES = (
    '{"zeilen":[{"match_id":"0193b2a0-0000-7000-8000-000000000003","transaction_id":"1","made_on":"2026-03-02","storno":false,"kontonummer":"100100000","beleg":"RE-1",'
    '"betrag":119.00,"skonto":0,"buchungstext":"says \\"betrag\\":1"}],"ausgelassen":['
    '{"match_id":"0193b2a0-0000-7000-8000-000000000004","transaction_id":"2","grund":"why",'
    '"kontonummer":null,"beleg":null,"offen":null,"betrag":null}],"posten":[{"kontonummer":"100100000","beleg":"RE-1","vorher":119.00,'
    '"nachher":0}]}'
)


def test_reconciliation_of_the_base_line_is_read_in_its_new_words(earlier: Database) -> None:
    def write(tx: Tx) -> None:
        tx.run("INSERT INTO organizations (id, name, created_at) VALUES ('o', 'Muster', 7)")
        tx.run(
            "INSERT INTO recon_batches (organization_id, id, account_id, connection_id, client_id, bucht, wire, rows, made_by, made_at)"
            " VALUES ('o', 'b', 7, 'c', '29098-55003', 'kanzlei', ?, ?, 'key:1', 1)",
            OLD_BATCH, OLD_LINES,
        )  # fmt: skip
        for line, kind in enumerate(
            ("posten", "skonto", "gebuehr", "differenz", "akonto", "ruecklast", "transfer", "sachkonto")
        ):
            tx.run("INSERT INTO recon_lines VALUES ('o', 'm', ?, ?, '100100000', 'RE-1', 5, 5)", line, kind)
        tx.run(
            "INSERT INTO recon_proposals (organization_id, id, transaction_id, run_id, place, evidence, acts, score_tenths, lines, reasons,"
            " engine_version, state, made_at) VALUES ('o', 'p', 1, 'r', 1, 'B1', 0, 1, ?, '[]', '1', 'rejected', 1)",
            '[["posten","100100000","RE-1",11900],["akonto","100100000","",5]]',
        )
        tx.run(
            "INSERT INTO recon_undos (organization_id, id, match_id, grund, made_by, made_at) VALUES ('o', 'u', 'm', 'why', 'x', 1)"
        )

    earlier.write_now(write)
    migrate(earlier)
    [(booked_by, wire, lines)] = rows(earlier, "SELECT booked_by, wire, rows FROM recon_batches")
    batch, kept = msgspec.json.decode(wire, type=Batch), msgspec.json.decode(lines, type=StoredRows)
    assert (booked_by, batch.booked_by, batch.total, batch.created_by) == ("adviser", "adviser", Decimal(119), "key:1")
    assert (kept.lines[0].amount, kept.lines[0].text) == (Decimal(119), 'says "betrag":1')
    assert (kept.left_out[0].reason, kept.items[0].open_before) == ("why", Decimal(119))
    assert [kind for (kind,) in rows(earlier, "SELECT kind FROM recon_lines ORDER BY line")] == [*get_args(LineKind)]
    assert rows(earlier, "SELECT lines FROM recon_proposals") == [
        ('[["item","100100000","RE-1",11900],["on_account","100100000","",5]]',)
    ]
    assert rows(earlier, "SELECT reason FROM recon_undos") == [("why",)]
    with pytest.raises(Exception, match="append-only"):
        run(earlier, "UPDATE recon_lines SET amount_minor = 1")


def test_roles_stay_and_people_keep_in_clients_what_keys_and_their_role_allowed(earlier: Database) -> None:
    def write(tx: Tx) -> None:
        for name in ("agency", "client", "other", "third"):
            tx.run("INSERT INTO organizations (id, name, created_at) VALUES (?, ?, 7)", name, name)
        for role in ("owner", "admin", "member"):
            tx.run(
                "INSERT INTO users (organization_id, id, email, name, role, password_hash, created_at)"
                " VALUES ('agency', ?, ?, 'x', ?, 'x', 7)",
                role, role, role,
            )  # fmt: skip
        for number, (role, scopes, ended, client) in enumerate((
            ("member", "ledger:read banking:read", None, "client"), ("admin", None, 1, "client"),
            ("member", "banking:read ledger:write", None, "other"), ("admin", None, None, "third"),
        )):  # fmt: skip
            tx.run(
                "INSERT INTO api_keys (organization_id, id, name, token_hash, hint, role, is_agency, created_at, scopes, revoked_at)"
                " VALUES ('agency', ?, 'k', ?, 'h', ?, 1, 7, ?, ?)",
                str(number), str(number), role, scopes, ended,
            )  # fmt: skip
            tx.run("INSERT INTO agency_clients VALUES ('agency', ?, ?)", str(number), client)
        tx.run("UPDATE api_keys SET expires_at = 5 WHERE id = '1'")

    earlier.write_now(write)
    migrate(earlier)
    assert set(rows(earlier, "SELECT id, role FROM users")) == {(role, role) for role in ("owner", "admin", "member")}
    assert {role for (role,) in rows(earlier, "SELECT role FROM api_keys")} == {"member", "admin"}
    found = {(user, client): role for user, client, role in rows(
        earlier, "SELECT user_id, client_organization_id, role FROM client_access"
    )}  # fmt: skip
    # A key that was revoked opens nothing, one that reads opens no more than reading, and nobody rises above their own role.
    assert {role for (_, client), role in found.items() if client == "client"} == {"read_only"}
    assert {role for (_, client), role in found.items() if client == "other"} == {"bookkeeping"}
    assert [found[user, "third"] for user in ("owner", "admin", "member")] == ["admin", "admin", "member"]
    assert len(found) == 9


def test_both_engines_know_the_same_steps() -> None:
    assert [(step.version, step.name) for step in known_migrations("sqlite")] == [
        (step.version, step.name) for step in known_migrations("postgres")
    ]


def test_a_step_after_the_base_line_is_applied_once(
    db: Database, earlier: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    migrate(db)
    first = a_step("first", 'CREATE TABLE first (id BIGINT PRIMARY KEY, name TEXT COLLATE "C" NOT NULL);\n')
    second = a_step(
        "second", "ALTER TABLE first ADD COLUMN more BYTEA;\nCREATE INDEX first_by_name ON first (name);\n", 9001
    )
    use_steps(monkeypatch, first, second)
    for database in (db, earlier):
        assert pending(database)[-2:] == ["first", "second"]
        assert migrate(database)[-2:] == ["first", "second"]
        assert migrate(database) == []
        run(database, "INSERT INTO first (id, name) VALUES (1, 'a')")
        assert rows(database, "SELECT id, name, more FROM first") == [(1, "a", None)]
        assert rows(database, HISTORY)[-2:] == [(9000, "first"), (9001, "second")]


def test_steps_are_read_from_files_for_each_engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "migrations").mkdir()
    for name in ("0002_b.sqlite.sql", "0002_b.postgres.sql", "0001_a.sql", "README.md", "10_short.sql"):
        (tmp_path / "migrations" / name).write_text(name)
    monkeypatch.setattr(steps, "_FOLDER", tmp_path)
    read = known_migrations.__wrapped__
    for engine in ("sqlite", "postgres"):
        assert [(step.version, step.name, step.sql) for step in read(engine)] == [
            (1, "a", "0001_a.sql"),
            (2, "b", f"0002_b.{engine}.sql"),
        ]
    assert read("sqlite")[1].checksum != read("postgres")[1].checksum
    (tmp_path / "migrations" / "0002_c.sql").touch()
    with pytest.raises(SetupError, match="Two migrations carry the number 0002"):
        read("sqlite")


def test_a_database_of_a_newer_version_is_refused(db: Database) -> None:
    migrate(db)
    run(db, "INSERT INTO schema_migrations VALUES (9999, 'from the future', 'x', 0)")
    for act in (migrate, pending):
        with pytest.raises(SetupError, match=r"newer version of Kontobahn.*9999.*from the future"):
            act(db)


def test_a_step_changed_after_it_was_applied_is_refused(db: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    use_steps(monkeypatch, a_step("first", "CREATE TABLE first (id BIGINT PRIMARY KEY);\n"))
    migrate(db)
    run(db, "UPDATE schema_migrations SET checksum = 'x' WHERE version = 9000")
    with pytest.raises(SetupError, match=r"9000.*changed after"):
        migrate(db)


def test_a_step_that_fails_leaves_nothing_behind(earlier: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = a_step("broken", "CREATE TABLE half (a BIGINT PRIMARY KEY);\nCREATE TABLE half (a BIGINT PRIMARY KEY);\n")
    use_steps(monkeypatch, broken)
    before = schema(earlier), rows(earlier, HISTORY)
    with pytest.raises(Exception, match="half"):
        migrate(earlier)
    assert (schema(earlier), rows(earlier, HISTORY)) == before
