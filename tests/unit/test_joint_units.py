"""Units of a group on PostgreSQL that are done as a set: the group waits once for each round of questions, not each unit."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import NamedTuple

import psycopg
import pytest
from psycopg.pq.abc import PGresult

from kontobahn.db import LEFT_OUT, Database, Rounds, Tx, ask, done_by
from kontobahn.db.postgres_session import Pipeline
from tests.unit.test_group_commit import add, db, engine, fail, insert, values, waiting_together

__all__ = ["db", "engine"]


class CountUp(NamedTuple):
    name: str
    amount: int
    note: str


def count_together(tx: Tx, wanted: Sequence[CountUp]) -> Rounds[list[object]]:
    """Returns the transaction in which each was done. A note is a row of its own, which nobody waits for."""
    yield []
    rows = yield [
        ask(
            "UPDATE counter SET value = value + ? WHERE name = ? RETURNING pg_current_xact_id()::text",
            one.amount, one.name,
        )
        for one in wanted
    ]  # fmt: skip
    tx.many("INSERT INTO counter VALUES (?, 1)", [(one.note,) for one in wanted if one.note])
    return [LEFT_OUT if row is None else row[0] for row in rows]


def count_alone(tx: Tx, name: str, amount: int = 1, note: str = "") -> str:
    if not name:
        raise LookupError("nobody")
    tx.run("INSERT INTO counter VALUES (?, ?)", name, amount)
    return "otherwise"


@done_by(count_together, otherwise=count_alone)
def count_up(name: str, amount: int = 1, note: str = "") -> CountUp:
    return CountUp(name, amount, note)


@pytest.fixture
def waits(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Counts the questions that were answered at each wait."""
    found: list[int] = []
    answers = Pipeline.answers

    def noted(self: Pipeline) -> list[PGresult]:
        found.append(len(got := answers(self)))
        return got

    monkeypatch.setattr(Pipeline, "answers", noted)
    return found


def test_a_set_shares_one_wait_and_one_transaction(db: Database, waits: list[int]) -> None:
    outcomes = waiting_together(db, lambda: [db.write_together(name, count_up, name) for name in "abab" * 5])
    assert len(set(outcomes)) == 1
    assert waits == [20]
    assert values(db) == {"a": 10, "b": 10}


def test_a_unit_that_is_left_out_is_run_on_its_own_and_the_others_are_done_once(db: Database) -> None:
    outcomes = waiting_together(
        db,
        lambda: [
            db.write_together("a", count_up, "a"),
            db.write_together("new", count_up, "new", 7),
            db.write_together("", count_up, ""),
            db.write_together("b", add, "b"),
            db.write_together("b", count_up, "b", 2),
        ],
    )
    assert outcomes[1] == "otherwise"
    assert isinstance(outcomes[2], LookupError)
    assert len({outcomes[0], outcomes[3], outcomes[4]}) == 1
    assert values(db) == {"a": 1, "b": 3, "new": 7}


def test_what_cannot_be_done_in_a_set_fails_alone(db: Database) -> None:
    outcomes = waiting_together(
        db, lambda: [db.write_together("a", count_up, "a", amount) for amount in (1, 2, 1000, 4)]
    )
    assert [type(outcome) for outcome in outcomes] == [str, str, psycopg.errors.CheckViolation, str]
    assert values(db) == {"a": 7, "b": 0}


def test_what_fails_late_in_a_set_is_told_to_its_own_caller_and_everything_else_is_done_once(db: Database) -> None:
    outcomes = waiting_together(
        db,
        lambda: [
            db.write_together("a", count_up, "a", 1, "n1"),
            db.write_together("a", count_up, "a", 2, "a"),
            db.write_together("b", fail, "b"),
            db.write_together("b", count_up, "b", 4, "n2"),
            db.write_together("b", insert, "b"),
            db.write_together("c", insert, "c"),
        ],
    )
    twice = psycopg.errors.UniqueViolation
    assert [type(outcome) for outcome in outcomes] == [str, twice, LookupError, str, twice, str]
    assert values(db) == {"a": 1, "b": 4, "c": 1, "n1": 1, "n2": 1}


@pytest.mark.parametrize(("locked", "free", "blocked"), [("a", "b", [add]), ("b", "a", [add, count_up])])
def test_a_set_is_done_once_though_others_of_the_group_have_to_wait_for_a_lock(
    db: Database, database_url: str, locked: str, free: str, blocked: list[Callable[..., str]]
) -> None:
    with psycopg.connect(database_url) as other:
        other.execute("UPDATE counter SET value = 50 WHERE name = %s", (locked,))

        async def units() -> list[object]:
            waiting = [asyncio.ensure_future(db.write_together(locked, unit, locked)) for unit in blocked]
            done = await asyncio.gather(
                db.write_together(free, count_up, free), db.write_together(free, count_up, free, 2)
            )
            assert not any(future.done() for future in waiting)
            other.commit()
            return [*done, *await asyncio.gather(*waiting)]

        (found,) = waiting_together(db, lambda: [units()])
    assert isinstance(found, list), found
    assert values(db) == {locked: 50 + len(blocked), free: 3}
