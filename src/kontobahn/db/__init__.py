"""Where everything is stored. A unit of work is a plain function that takes the transaction first:

    await db.read(fn, *args)     a consistent snapshot
    await db.write(fn, *args)    one transaction, all or nothing, re-run on a conflict
    await db.write_together(…)   the same for a few rows, sharing its commit with others that wait (see joint.py)

``fn`` is synchronous and runs off the event loop, so no transaction can be held across the network. The same function
runs on SQLite and on PostgreSQL; SQL is written once, in the common subset of both, with ``?`` for parameters.
Nothing here knows what is stored.
"""

from __future__ import annotations

from kontobahn.clock import Clock
from kontobahn.db.database import IS_ONE_OF_A_PORTION, Database, Row, Table, Tx, in_portions
from kontobahn.db.joint import LEFT_OUT, Question, Rounds, ask, do_alone, done_by
from kontobahn.settings import Settings

__all__ = [
    "IS_ONE_OF_A_PORTION",
    "LEFT_OUT",
    "Database",
    "Question",
    "Rounds",
    "Row",
    "Table",
    "Tx",
    "ask",
    "do_alone",
    "done_by",
    "in_portions",
    "open_database",
]


def open_database(settings: Settings, clock: Clock) -> Database:
    """Opens the database of these settings, as it is; `migrate` brings it up to date."""
    if settings.on_postgres:
        from kontobahn.db.postgres import PostgresEngine

        return Database(
            PostgresEngine(
                settings.database_url,
                clock,
                connections=settings.database_connections,
                prepare=settings.database_prepare,
            )
        )
    from kontobahn.db.sqlite import SqliteEngine

    settings.data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
    return Database(SqliteEngine(settings.sqlite_path, clock))
