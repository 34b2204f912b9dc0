"""Brings a database up to date: an empty one by the schema, one that an earlier version left by the steps it lacks.

``schema/ROOM.sql`` holds the tables of a room as they are now, ``migrations/NNNN_name.sql`` a step since the base line. Both run on both
engines (for SQLite the column types are replaced by its own, and tables are made STRICT and WITHOUT ROWID). What needs different SQL
stands in ``….sqlite.sql`` and ``….postgres.sql``. Each step is applied once, in order, and its checksum is remembered.
"""

from __future__ import annotations

import hashlib
import re
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from importlib import resources
from typing import NamedTuple

from kontobahn.db.database import Database, Tx
from kontobahn.db.sqlite import assume_sizes
from kontobahn.errors import SetupError

# The rooms that own tables. Tables refer to those of rooms that are named earlier.
ROOMS = (
    "db", "access", "mail", "credits", "jobs", "api", "webhooks", "ledger", "books", "datev", "banking", "sandbox", "fints",
    "enable_banking", "ebics", "mobility", "reconciliation", "payables", "assistants", "dashboard",
)  # fmt: skip
_FOLDER = resources.files("kontobahn.db")
_NAME = re.compile(r"^(\d{4})_([a-z0-9_]+)(?:\.(sqlite|postgres))?\.sql$")
# SQLite compares texts byte by byte as it is.
_FOR_SQLITE = {r"\bBIGINT\b": "INTEGER", r"\bSMALLINT\b": "INTEGER", r"\bBYTEA\b": "BLOB", r' COLLATE "C"': ""}
_CREATE_HISTORY = """
CREATE TABLE IF NOT EXISTS schema_migrations (
  version BIGINT PRIMARY KEY, name TEXT NOT NULL, checksum TEXT NOT NULL, applied_at BIGINT NOT NULL)"""


class Migration(NamedTuple):
    version: int
    name: str
    sql: str
    checksum: str


# The schema of version 1.0.0, from which steps are counted. An empty database gets the schema of today, steps included.
BASE_LINE = Migration(0, "base_line", "", "")
# Before the base line there were 51 steps. A database with the last of them has the schema of the base line.
LAST_EARLIER_STEP = Migration(
    51, "undone_in_slices", "", "d53430337d3b11b1bcb20129e36987651b590b087a08fdffc02dbeeef2000d0d"
)

# By number: name and checksum.
_History = Mapping[int, tuple[str, str]]


@cache
def known_migrations(engine: str) -> tuple[Migration, ...]:
    """Returns the steps since the base line."""
    found: dict[int, Migration] = {}
    for file in _FOLDER.joinpath("migrations").iterdir():
        match = _NAME.match(file.name)
        if match is None or match[3] not in (None, engine):
            continue
        text = file.read_text("utf-8")
        migration = Migration(int(match[1]), match[2], text, hashlib.sha256(text.encode()).hexdigest())
        if migration.version in found:
            raise SetupError(f"Two migrations carry the number {match[1]}.")
        found[migration.version] = migration
    return tuple(found[version] for version in sorted(found))


def migrate(database: Database) -> list[str]:
    """Applies what is missing, all of it or nothing, and returns the names."""
    engine = database.engine.name
    return database.write_now(_apply_missing, engine, known_migrations(engine))


def pending(database: Database) -> list[str]:
    """Returns the names of what `migrate` would apply.

    Raises SetupError if the database was used by a newer version, or is older than the base line.
    """

    def look(tx: Tx) -> list[Migration]:
        return _missing(_since_base_line(tx, _history(tx)), known)

    known = known_migrations(database.engine.name)
    return [step.name for step in database.write_now(look)]


def _apply_missing(tx: Tx, engine: str, known: Sequence[Migration]) -> list[str]:
    history = _history(tx)
    since = _since_base_line(tx, history)
    missing = _missing(since, known)
    if since is not history:  # the database is taken over
        tx.run("DELETE FROM schema_migrations")
        _record(tx, BASE_LINE)
    texts = _schema(engine) if BASE_LINE in missing else (step.sql for step in missing)
    for text in texts:
        for statement in _statements(text, engine):
            tx.run(statement)
    for step in missing:
        _record(tx, step)
    if engine == "sqlite":
        assume_sizes(tx)
    return [step.name for step in missing]


def _history(tx: Tx) -> _History:
    tx.lock("schema_migrations")
    tx.run(_CREATE_HISTORY)
    rows = tx.all("SELECT version, name, checksum FROM schema_migrations ORDER BY version")
    return {version: (name, checksum) for version, name, checksum in rows}


def _record(tx: Tx, step: Migration) -> None:
    tx.run(
        "INSERT INTO schema_migrations (version, name, checksum, applied_at) VALUES (?, ?, ?, ?)",
        step.version, step.name, step.checksum, tx.now,
    )  # fmt: skip


def _since_base_line(tx: Tx, history: _History) -> _History:
    """Returns the history from the base line on; if that is where the earlier steps led, the base line alone.

    Raises SetupError if they led less far, or left rows that are no longer read.
    """
    last = max(history, default=BASE_LINE.version)
    if BASE_LINE.version in history or last == BASE_LINE.version:
        return history
    name, checksum = history[last]
    if last > LAST_EARLIER_STEP.version:
        raise _newer(last, name)
    if (last, name, checksum) != (LAST_EARLIER_STEP.version, LAST_EARLIER_STEP.name, LAST_EARLIER_STEP.checksum):
        raise SetupError(
            f"The database is from before Kontobahn 1.0.0: it stands at step {last:04d} “{name}”, and this version no longer has"
            " the steps from there. Run `kontobahn migrate` once with the last version that has them, commit 46c57cf, then start"
            " this one (docs/operating.md, “Data from before 1.0.0”). Nothing was changed."
        )
    older = [what for room in ROOMS for (what,) in _older_rows(tx, room)]
    if older:
        raise SetupError(
            f"The database has rows from before Kontobahn 0.1.0 that this version no longer reads: {', '.join(older)}. Export the"
            " data with the last version that reads them, commit 46c57cf, and import it into a new installation. Nothing was changed."
        )
    return {BASE_LINE.version: (BASE_LINE.name, BASE_LINE.checksum)}


def _missing(history: _History, known: Sequence[Migration]) -> list[Migration]:
    """Raises SetupError if the history has a step that is not known, or was changed since."""
    by_version = {step.version: step for step in (BASE_LINE, *known)}
    for version, (name, checksum) in history.items():
        step = by_version.get(version)
        if step is None:
            raise _newer(version, name)
        if step.checksum != checksum:
            raise SetupError(f"Step {version:04d} “{name}” was changed after it had been applied to this database.")
    return [step for step in by_version.values() if step.version not in history]


def _newer(version: int, name: str) -> SetupError:
    return SetupError(
        f"The database was last used by a newer version of Kontobahn (it knows step {version:04d} “{name}”, "
        "this version does not). Update Kontobahn, or restore a backup made before the update."
    )


def _schema(engine: str) -> Iterator[str]:
    """Yields the texts that make an empty database one of today."""
    for room in ROOMS:
        for name in (f"{room}.sql", f"{room}.{engine}.sql"):
            if text := _schema_file(name):
                yield text


def _older_rows(tx: Tx, room: str) -> list[tuple[str]]:
    """Returns the kinds of rows that only versions before 0.1.0 wrote."""
    text = _schema_file(f"{room}.older.sql")
    return tx.all(text) if text else []


def _schema_file(name: str) -> str:
    """Returns the text of a file, empty if the room has none of the kind."""
    file = _FOLDER.joinpath("schema", name)
    return file.read_text("utf-8") if file.is_file() else ""


def _statements(sql: str, engine: str) -> Iterator[str]:
    if engine == "postgres":
        yield sql
        return
    for common, native in _FOR_SQLITE.items():
        sql = re.sub(common, native, sql)
    statement = ""
    for line in sql.splitlines(keepends=True):
        statement += line
        if sqlite3.complete_statement(statement):
            is_table = re.search(r"^CREATE TABLE ", statement, re.MULTILINE)
            yield re.sub(r"\)\s*;\s*$", ") STRICT, WITHOUT ROWID;", statement) if is_table else statement
            statement = ""
