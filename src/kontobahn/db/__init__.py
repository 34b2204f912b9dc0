"""The database. A unit of work is a plain function that takes the transaction first:

    await db.read(fn, *args)     a consistent snapshot
    await db.write(fn, *args)    one transaction, all or nothing, re-run on a conflict
    await db.write_together(…)   the same for a few rows, sharing its commit with others that wait
    await db.read_inline(…)      a short read: one statement, asked without a thread (both in database.py)

``fn`` is synchronous and runs off the event loop, so no transaction can be held across the network. The same function
runs on SQLite and on PostgreSQL; SQL is written once, in the common subset of both, with ``?`` for parameters.
Nothing here knows what is stored.
"""

from __future__ import annotations

from kontobahn.clock import Clock
from kontobahn.db.database import (
    IS_ONE_OF_A_CHUNK,
    LEFT_OUT,
    Database,
    Question,
    Rounds,
    Row,
    ShortRead,
    Statements,
    Table,
    Tx,
    ask,
    ask_all,
    ask_one,
    ask_texts,
    chunked,
    do_alone,
    done_by,
    fitting_length,
    run_in,
    short_read,
)
from kontobahn.settings import Settings

__all__ = [
    "IS_ONE_OF_A_CHUNK",
    "LEFT_OUT",
    "Database",
    "Question",
    "Rounds",
    "Row",
    "ShortRead",
    "Statements",
    "Table",
    "Tx",
    "ask",
    "ask_all",
    "ask_one",
    "ask_texts",
    "chunked",
    "do_alone",
    "done_by",
    "fitting_length",
    "open_database",
    "run_in",
    "short_read",
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
