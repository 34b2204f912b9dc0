"""Brings a database up to date: ordered SQL files, each applied once, with its checksum remembered.

``NNNN_name.sql`` runs on both engines (for SQLite the column types are replaced by its own, and tables are made STRICT and
WITHOUT ROWID); ``NNNN_name.sqlite.sql`` and ``NNNN_name.postgres.sql`` are the two forms of one step that needs different SQL.
"""

from __future__ import annotations

import hashlib
import re
import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from importlib import resources
from types import MappingProxyType
from typing import NamedTuple

from kontobahn.db.database import Database, Tx
from kontobahn.errors import SetupError

_NAME = re.compile(r"^(\d{4})_([a-z0-9_]+)(?:\.(sqlite|postgres))?\.sql$")
_SQLITE_TYPES = {"BIGINT": "INTEGER", "SMALLINT": "INTEGER", "BYTEA": "BLOB"}
_CREATE_HISTORY = """
CREATE TABLE IF NOT EXISTS schema_migrations (
  version BIGINT PRIMARY KEY, name TEXT NOT NULL, checksum TEXT NOT NULL, applied_at BIGINT NOT NULL)"""


# What a step leaves to Python, by its name.
FollowUps = Mapping[str, Callable[[Tx], None]]
NO_FOLLOW_UPS: FollowUps = MappingProxyType({})


class Migration(NamedTuple):
    version: int
    name: str
    sql: str
    checksum: str


@cache
def known_migrations(engine: str) -> tuple[Migration, ...]:
    found: dict[int, Migration] = {}
    for file in resources.files("kontobahn.db").joinpath("migrations").iterdir():
        match = _NAME.match(file.name)
        if match is None or match[3] not in (None, engine):
            continue
        text = file.read_text("utf-8")
        migration = Migration(int(match[1]), match[2], text, hashlib.sha256(text.encode()).hexdigest())
        if migration.version in found:
            raise SetupError(f"Two migrations carry the number {match[1]}.")
        found[migration.version] = migration
    return tuple(found[version] for version in sorted(found))


def migrate(database: Database, follow_ups: FollowUps = NO_FOLLOW_UPS) -> list[str]:
    """Applies what is missing, all of it or nothing, and returns the names."""
    engine = database.engine.name
    return database.write_now(_apply_missing, engine, known_migrations(engine), follow_ups)


def pending(database: Database) -> list[str]:
    """Returns what `migrate` would apply. Raises SetupError if the database was used by a newer version."""
    return [step.name for step in database.write_now(_missing, known_migrations(database.engine.name))]


def _apply_missing(tx: Tx, engine: str, known: Sequence[Migration], follow_ups: FollowUps = NO_FOLLOW_UPS) -> list[str]:
    missing = _missing(tx, known)
    for step in missing:
        for statement in _statements(step.sql, engine):
            tx.run(statement)
        tx.run(
            "INSERT INTO schema_migrations (version, name, checksum, applied_at) VALUES (?, ?, ?, ?)",
            step.version,
            step.name,
            step.checksum,
            tx.now,
        )
    # Only after every step: today's code knows today's tables.
    for step in missing:
        if step.name in follow_ups:
            follow_ups[step.name](tx)
    return [step.name for step in missing]


def _missing(tx: Tx, known: Sequence[Migration]) -> list[Migration]:
    tx.lock("schema_migrations")
    tx.run(_CREATE_HISTORY)
    applied = {
        version: (name, checksum)
        for version, name, checksum in tx.all("SELECT version, name, checksum FROM schema_migrations ORDER BY version")
    }
    by_version = {step.version: step for step in known}
    for version, (name, checksum) in applied.items():
        step = by_version.get(version)
        if step is None:
            raise SetupError(
                f"The database was last used by a newer version of Kontobahn (it knows step {version:04d} “{name}”, "
                "this version does not). Update Kontobahn, or restore a backup made before the update."
            )
        if step.checksum != checksum:
            raise SetupError(f"Step {version:04d} “{name}” was changed after it had been applied to this database.")
    return [step for step in known if step.version not in applied]


def _statements(sql: str, engine: str) -> Iterator[str]:
    if engine == "postgres":
        yield sql
        return
    for common, native in _SQLITE_TYPES.items():
        sql = re.sub(rf"\b{common}\b", native, sql)
    statement = ""
    for line in sql.splitlines(keepends=True):
        statement += line
        if sqlite3.complete_statement(statement):
            yield re.sub(r"(CREATE TABLE [^;]*\))\s*;", r"\1 STRICT, WITHOUT ROWID;", statement)
            statement = ""
