"""The transaction that a unit sees on PostgreSQL: on a session of its own, or in the pipeline of a group."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import chain, islice
from typing import Any

from kontobahn.db.database import Row, Unit
from kontobahn.db.postgres_pipeline import Pipeline
from kontobahn.db.postgres_session import PostgresSession, all_rows, all_texts, first_row


class PostgresTx:
    __slots__ = ("_statements", "notify", "now")

    def __init__(self, statements: PostgresSession | Pipeline, now: int, unit: Unit) -> None:
        self._statements = statements
        self.now = now
        self.notify = unit.notify

    def one(self, sql: str, *params: Any) -> Row | None:
        return first_row(self._statements.execute(sql, params))

    def all(self, sql: str, *params: Any) -> list[Row]:
        result = self._statements.execute(sql, params)
        return all_rows(result, result.ntuples)

    def texts(self, sql: str, *params: Any) -> list[bytes]:
        return all_texts(self._statements.execute(sql, params))

    def run(self, sql: str, *params: Any) -> int:
        if not params:
            self._statements.command(sql)  # migrations hold several statements
            return -1
        return self._statements.execute(sql, params).command_tuples or 0

    def put(self, sql: str, *params: Any) -> None:
        self._statements.put(sql, params)

    put_large = put

    def many(self, sql: str, rows: Iterable[Sequence[Any]]) -> None:
        some = list(islice(rows := iter(rows), 2))
        if len(some) < 2:
            for row in some:
                self.put(sql, *row)
            return
        with self._pipeline() as pipeline:
            pipeline.execute_many(sql, chain(some, rows))

    def each(self, sql: str, rows: Iterable[Sequence[Any]]) -> list[list[Row]]:
        with self._pipeline() as pipeline:
            return [all_rows(result, result.ntuples) for result in pipeline.ask_each(sql, rows)]

    @contextmanager
    def _pipeline(self) -> Iterator[Pipeline]:
        if isinstance(self._statements, Pipeline):
            yield self._statements
            return
        pipeline = Pipeline(self._statements)
        try:
            yield pipeline
        finally:
            pipeline.leave()

    def lock(self, *names: str) -> None:
        digest = hashlib.blake2b("\0".join(names).encode(), digest_size=8).digest()
        number = int.from_bytes(digest, "big", signed=True)
        self._statements.put("SELECT pg_advisory_xact_lock(?)", (number,))
