"""Many rows in one statement on PostgreSQL hold what each row on its own would."""

from __future__ import annotations

from pathlib import Path

import psycopg
import pytest

from kontobahn.clock import ManualClock
from kontobahn.db import Tx, open_database
from kontobahn.db.postgres_session import Pipeline
from kontobahn.settings import load
from tests.harness import START

ROWS = [
    (1, "plain", None, b""),
    (-(2**63), 'a "quote", a \\ and a {brace}', "NULL", b"\x00\xff\\"),
    (3, "", "Überweisung\n\tzwei", None),
    (2**63 - 1, "null", "", b"}"),
]
ADDED_UP = "INSERT INTO kept (number, first) VALUES (?, ?) ON CONFLICT (number) DO UPDATE SET first = kept.first || excluded.first"


@pytest.fixture
def engine() -> str:
    return "postgres"


@pytest.mark.parametrize("prepare", ["always", "never"])
def test_many_rows_are_one_statement_and_arrive_as_they_are(
    database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, prepare: str
) -> None:
    db = open_database(
        load({}, data=str(tmp_path), database_url=database_url, database_prepare=prepare), ManualClock(START)
    )
    sent: list[str] = []
    put = Pipeline.put

    def noted(self: Pipeline, sql: str, params: tuple[object, ...], *, wanted: bool = False) -> None:
        sent.append(sql)
        put(self, sql, params, wanted=wanted)

    monkeypatch.setattr(Pipeline, "put", noted)

    def write(tx: Tx) -> None:
        tx.run("CREATE TABLE kept (number BIGINT PRIMARY KEY, first TEXT, second TEXT, bytes BYTEA, place SERIAL)")
        tx.many("INSERT INTO kept (number, first, second, bytes) VALUES (?, ?, ?, ?)", iter(ROWS))
        tx.many("INSERT INTO kept (number, first, second, bytes) VALUES (?, ?, ?, ?)", [(7, "alone", None, None)])
        tx.many("INSERT INTO kept (number) VALUES (?) ON CONFLICT DO NOTHING", [(7,), (8,), (8,)])
        tx.many("INSERT INTO kept (number) VALUES (?)", [])
        tx.many(ADDED_UP, [(9, "a"), (10, "b"), (11, "c")])
        tx.many(ADDED_UP, [(9, "d"), (10, "e"), (10, "f")])
        tx.many("UPDATE kept SET second = ? WHERE number = ?", [("changed", 7), ("changed too", 8)])

    db.write_now(write)
    # The last, which changes a row twice, is not one of them.
    assert len([sql for sql in sent if "unnest" in sql]) == 3
    found = db.read_now(lambda tx: tx.all("SELECT number, first, second, bytes FROM kept ORDER BY place"))
    assert found == [
        *ROWS, (7, "alone", "changed", None), (8, None, "changed too", None),
        (9, "ad", None, None), (10, "bef", None, None), (11, "c", None, None),
    ]  # fmt: skip
    db.close()


def test_what_cannot_be_inserted_leaves_nothing(database_url: str, tmp_path: Path) -> None:
    db = open_database(load({}, data=str(tmp_path), database_url=database_url), ManualClock(START))
    db.write_now(lambda tx: tx.run("CREATE TABLE kept (number BIGINT PRIMARY KEY)"))
    with pytest.raises(psycopg.errors.UniqueViolation):
        db.write_now(lambda tx: tx.many("INSERT INTO kept (number) VALUES (?)", [(1,), (2,), (1,)]))
    many = [(number,) for number in range(1000)]
    db.write_now(lambda tx: tx.many("INSERT INTO kept (number) VALUES (?)", many))
    assert db.read_now(lambda tx: tx.all("SELECT COUNT(*), SUM(number) FROM kept")) == [(1000, 499500)]
    db.close()
