"""A database that was emptied, in which nothing that earlier tests have written is in the way."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import psycopg
import pytest

from tests.emptied_database import SWEPT_EVERY, EmptiedDatabase, migrated_template
from tests.services import PostgresServer


@pytest.fixture
def database(postgres: PostgresServer) -> Iterator[EmptiedDatabase]:
    database = EmptiedDatabase(postgres, migrated_template(postgres))
    yield database
    database.drop()


def test_a_table_that_was_filled_and_emptied_often_is_as_small_as_before_and_read_by_its_index(
    database: EmptiedDatabase,
) -> None:
    with closing(psycopg.connect(database.url, autocommit=True)) as connection:
        for _ in range(SWEPT_EVERY):
            connection.execute(
                "INSERT INTO counters (name, value) SELECT 'n' || n, n FROM generate_series(1, 100) AS n"
            )
            database.delete_rows()
        assert connection.execute("SELECT pg_relation_size('counters')").fetchone() == (0,)
        plan = connection.execute("EXPLAIN SELECT value FROM counters WHERE name = 'n7'").fetchall()
        assert "Seq Scan" not in str(plan)
