"""Plans of the statements that tests run: none reads a table that grows from end to end, on either engine, unless it is excused.

Every statement is explained the first time that it is run (`Watch`), by a database that takes each table for 100,000 rows. A plan is
refused if it scans such a table, or if all that it looks up in it are values that whole histories share: an organisation, a client, an
account. A page is no history: a limit, in the order of the index, with no condition beside it.
"""

from __future__ import annotations

import hashlib
import re
import sys
from collections.abc import Callable, Iterable, Sequence
from functools import cache, cached_property
from pathlib import Path, PurePath
from types import FrameType
from typing import Any, NamedTuple, Protocol

import psycopg
import pytest
from psycopg import sql as composed
from psycopg.types.json import Jsonb

from kontobahn.db import postgres_session, postgres_short_reads
from kontobahn.db.postgres_session import to_numbered
from kontobahn.db.sqlite import PLANNED_ROWS, SqliteTx
from tests.emptied_database import migrated_template
from tests.harness import migrated_sqlite_in_memory
from tests.plan_excuses import EXCUSED, FEW_OF_AN_ORGANISATION, NEVER_LARGE
from tests.services import shared_postgres

# Columns whose values many rows of a history share: looking these up alone reads all of it.
SHARED = {
    "organization_id", "mandant", "edition", "account_id", "jahr", "periode", "kassenname", "connection_id", "client_id", "scope",
    "account_ref", "receiver_id", "provider", "payer_organization_id", "status", "state", "kind", "is_open", "customer_id",
    "connection_ref", "api", "is_undo", "is_twin", "quelle", "endpoint", "api_key_id",
}  # fmt: skip
# A person account has a few years and one record, but any number of bookings.
SHARED_IN = {
    table: {"konto", "gegenkonto"}
    for table in ("books_bookings", "books_item_moves", "books_items", "recon_lines", "recon_items")
} | {"books_sheets": {"blatt"}}
_LOOKED_UP = re.compile(r"(\w+)(?:::\w+)?\)?\s*(=|<|>)")
_COMPARED = re.compile(r"(\w+)\)?\s*(?:=|<|>|<>|<=|>=|IN|LIKE|IS|NOT)\s")
_DIGEST = 16
_MANIPULATES = re.compile(r"\s*(SELECT|INSERT|UPDATE|DELETE|WITH)\b")


class Step(NamedTuple):
    """A table that a plan reads, and the columns by which it looks rows up: equal to something, or beyond it."""

    table: str
    equal: frozenset[str]
    beyond: tuple[str, ...]
    # Columns of the index, and of the condition that it was made with.
    indexed: frozenset[str]


class Plan(NamedTuple):
    steps: list[Step]
    sorts: bool


class Schema(NamedTuple):
    """Columns of every table, and the sets of columns by which one row is found."""

    columns: dict[str, set[str]]
    keys: dict[str, list[set[str]]]


class Planner(Protocol):
    @property
    def schema(self) -> Schema: ...

    def plan(self, sql: str) -> Plan: ...


# --- Engines


class SqlitePlanner:
    _STEP = re.compile(
        r"^(SCAN|SEARCH) (\S+)(?: USING (?:AUTOMATIC )?(?:PARTIAL )?(?:COVERING )?(?:INDEX (\S+)|(?:INTEGER )?PRIMARY KEY))?(?: \((.*)\))?"
    )

    def __init__(self) -> None:
        self._connection = migrated_sqlite_in_memory()
        self._tables_of_indexes = dict(self._rows("SELECT name, tbl_name FROM sqlite_schema WHERE type = 'index'"))
        made = self._rows("SELECT name, sql FROM sqlite_schema WHERE type = 'index' AND sql IS NOT NULL")
        self._of_index = {name: frozenset(re.findall(r"\w+", text)) for name, text in made}

    def _rows(self, sql: str) -> list[Any]:
        return self._connection.execute(sql).fetchall()

    @cached_property
    def schema(self) -> Schema:
        tables = [name for (name,) in self._rows("SELECT name FROM sqlite_schema WHERE type = 'table'")]
        columns = {table: {row[1] for row in self._rows(f"PRAGMA table_info({table})")} for table in tables}
        keys = {
            table: [
                {row[2] for row in self._rows(f"PRAGMA index_info({index})")}
                for _, index, is_unique, *_ in self._rows(f"PRAGMA index_list({table})")
                if is_unique
            ]
            for table in tables
        }
        return Schema(columns, keys)

    def plan(self, sql: str) -> Plan:
        found = self._connection.execute(f"EXPLAIN QUERY PLAN {sql}", [None] * sql.count("?")).fetchall()
        named = {alias or table: table for table, alias in _tables_named(sql, self.schema.columns)}
        steps = []
        for *_, detail in found:
            match = self._STEP.match(detail)
            table = match and (self._tables_of_indexes.get(match[3]) or named.get(match[2]))
            if match and table:
                steps.append(_step(table, match[4] or "", self._of_index.get(match[3], frozenset())))
        return Plan(steps, any("TEMP B-TREE" in row[-1] for row in found))


class PostgresPlanner:
    def __init__(self) -> None:
        server = shared_postgres()
        url = server.create_database("plans", template=migrated_template(server))
        self._connection = psycopg.connect(url, autocommit=True)
        self._fill()
        self._connection.execute("SET plan_cache_mode = force_generic_plan")

    def _rows(self, sql: str, *params: Any) -> list[Any]:
        return self._connection.execute(sql.encode(), params).fetchall()

    @cached_property
    def schema(self) -> Schema:
        columns: dict[str, set[str]] = {}
        for table, column in self._rows(
            "SELECT table_name, column_name FROM information_schema.columns WHERE table_schema = 'public'"
        ):
            columns.setdefault(table, set()).add(column)
        keys: dict[str, list[set[str]]] = {table: [] for table in columns}
        for table, names in self._rows(
            "SELECT i.indrelid::regclass::text, array_agg(a.attname::text) FROM pg_index i JOIN pg_attribute a"
            " ON a.attrelid = i.indexrelid WHERE i.indisunique AND i.indrelid >= 16384 GROUP BY i.indexrelid, i.indrelid"
        ):
            keys.get(table, []).append(set(names))
        return Schema(columns, keys)

    def _fill(self) -> None:
        """One row on disk for each table, and the word of the catalogue that there are many."""
        run = self._connection.execute
        run("SET session_replication_role = replica")
        for table, name in self._rows(
            "SELECT conrelid::regclass::text, conname FROM pg_constraint WHERE contype = 'c' AND conrelid >= 16384"
        ):
            run(composed.SQL("ALTER TABLE {} DROP CONSTRAINT {}").format(*map(composed.Identifier, (table, name))))
        for table, columns in self.schema.columns.items():
            run(
                composed.SQL(
                    "INSERT INTO {} SELECT * FROM jsonb_populate_record(NULL::{}, %s) ON CONFLICT DO NOTHING"
                ).format(composed.Identifier(table), composed.Identifier(table)),
                [Jsonb(dict.fromkeys(columns, "0"))],
            )
            run("UPDATE pg_class SET reltuples = %s, relpages = 1 WHERE oid = %s::regclass", [PLANNED_ROWS, table])
        self._tell_how_many_values_columns_have()

    def _tell_how_many_values_columns_have(self) -> None:
        columns = [(table, column) for table, columns in self.schema.columns.items() for column in columns]
        values = [5 if column in SHARED | SHARED_IN.get(table, set()) else -1 for table, column in columns]
        self._connection.execute(
            "INSERT INTO pg_statistic SELECT attrelid, attnum, false, 0, 8, given.values, 0,0,0,0,0, 0,0,0,0,0, 0,0,0,0,0,"
            " null,null,null,null,null, null,null,null,null,null FROM pg_attribute"
            " JOIN unnest(%s::text[], %s::text[], %s::real[]) AS given (relation, name, values)"
            " ON attrelid = given.relation::regclass AND attname = given.name",
            [*map(list, zip(*columns, strict=True)), values],
        )

    def plan(self, sql: str) -> Plan:
        limited = re.sub(r"\bLIMIT \?( OFFSET \?)?", "LIMIT 100", sql)
        nulls = ", ".join(["NULL"] * limited.count("?"))
        run = self._connection.execute
        run(b"PREPARE explained AS " + to_numbered(limited))
        try:
            ((found,),) = run(
                f"EXPLAIN (FORMAT JSON) EXECUTE explained{f'({nulls})' if nulls else ''}".encode()
            ).fetchall()
        finally:
            run("DEALLOCATE explained")
        plan = Plan([], sorts="Sort" in str(found))
        self._add(found[0]["Plan"], plan)
        return plan

    def _add(self, node: dict[str, Any], plan: Plan) -> None:
        table = node.get("Relation Name")
        if table and node["Node Type"] not in ("ModifyTable", "Bitmap Heap Scan"):
            plan.steps.append(_step(table, node.get("Index Cond", ""), self._columns_of(node.get("Index Name"))))
        is_bitmap = node["Node Type"] == "Bitmap Heap Scan"
        for below in node.get("Plans", ()):
            self._add({**below, "Relation Name": table} if is_bitmap and "Index Name" in below else below, plan)

    @cache  # noqa: B019 - one for each process
    def _columns_of(self, index: str | None) -> frozenset[str]:
        rows = self._rows("SELECT indexdef FROM pg_indexes WHERE indexname = %s", index)
        return frozenset(word for (text,) in rows for word in re.findall(r"\w+", text))


def _step(table: str, condition: str, indexed: frozenset[str]) -> Step:
    looked_up = _LOOKED_UP.findall(condition)
    beyond = [name for name, sign in looked_up if sign != "="]
    # Several columns compared as one, as SQLite and PostgreSQL write it.
    for group in re.findall(r"(?:ROW)?\((\w+(?:,\s*\w+)+)\)\s*[<>]", condition):
        beyond += group.replace(" ", "").split(",")[:1]
    return Step(table, frozenset(name for name, sign in looked_up if sign == "="), tuple(beyond), indexed)


def _tables_named(sql: str, tables: Iterable[str]) -> list[tuple[str, str]]:
    words = "WHERE|ON|JOIN|SET|ORDER|GROUP|LIMIT|LEFT|UNION|VALUES|CROSS|SELECT|AND"
    found = re.findall(rf"\b(?:FROM|JOIN|UPDATE|INTO)\s+(\w+)(?:\s+(?:AS\s+)?(?!(?:{words})\b)(\w+))?", sql)
    return [(table, alias) for table, alias in found if table in tables]


# --- Judgement


def refused(sql: str, planner: Planner) -> list[str]:
    """Returns the tables that grow and that the statement reads from end to end, each with what it looks up."""
    plan, found = planner.plan(sql), []
    condition = sql.partition("WHERE")[2]
    for step in plan.steps:
        if step.table in NEVER_LARGE or step.table not in planner.schema.columns:
            continue
        if not step.equal and not step.beyond and not _is_smallest_or_largest(sql, step):
            found.append(f"{step.table} is scanned")
        elif step.table not in FEW_OF_AN_ORGANISATION and _reads_a_history(sql, condition, step, plan, planner.schema):
            found.append(f"{step.table} by {', '.join(sorted({*step.equal, *step.beyond}))}")
    return found


def _reads_a_history(sql: str, condition: str, step: Step, plan: Plan, schema: Schema) -> bool:
    shared = SHARED | SHARED_IN.get(step.table, set())
    if step.equal - shared or any(key <= step.equal for key in schema.keys[step.table]):
        return False
    if len(step.beyond) >= 2:  # from here to there
        return False
    compared = {name for name in _COMPARED.findall(condition) if name in schema.columns[step.table]}
    is_exact = compared <= step.indexed | step.equal | set(step.beyond)
    is_page = "LIMIT" in sql and not plan.sorts
    return not (is_exact and (is_page or sql.startswith("DELETE") or _is_smallest_or_largest(sql, step)))


def _is_smallest_or_largest(sql: str, step: Step) -> bool:
    """One look at the end of an index."""
    return bool(re.search(rf"(MAX|MIN)\([\w.]+\).*FROM {step.table}\b", sql)) and "GROUP BY" not in sql


# --- Every statement, once


class Judged:
    """Statements that a process of this run has explained and found nothing wrong with: what one has judged, no other judges again."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("a+b", buffering=0)  # whatever is added stands at the end, whoever adds
        self._file.seek(0)
        self._known: set[bytes] = set()

    def is_known(self, engine: str, sql: str) -> bool:
        return self._digest(engine, sql) in self._known

    def look(self) -> None:
        """Reads what was added since the last time."""
        new = self._file.read()
        self._known.update(new[at : at + _DIGEST] for at in range(0, len(new), _DIGEST))

    def add(self, engine: str, sql: str) -> None:
        self._known.add(self._digest(engine, sql))
        at = self._file.tell()
        self._file.write(self._digest(engine, sql))
        self._file.seek(at)

    def close(self) -> None:
        self._file.close()

    def _digest(self, engine: str, sql: str) -> bytes:
        return hashlib.blake2b(f"{engine} {sql}".encode(), digest_size=_DIGEST).digest()


class Watch:
    """Explains each statement of the service when it is first run, and keeps what is wrong with it until a test asks."""

    def __init__(self, judged: Judged) -> None:
        self._judged = judged
        self._met: set[tuple[str, str]] = set()
        self._waiting: list[tuple[str, str, str]] = []

    def install(self, patch: pytest.MonkeyPatch) -> None:
        begin = SqliteTx.__init__

        def begin_watched(tx: SqliteTx, *args: Any) -> None:
            begin(tx, *args)
            tx._execute = self._noting(tx._execute)
            tx._executemany = self._noting(tx._executemany)

        def numbered(sql: str) -> bytes:
            self._note("postgres", sql)
            return to_numbered(sql)

        patch.setattr(SqliteTx, "__init__", begin_watched)
        for module in (postgres_session, postgres_short_reads):
            patch.setattr(module, "to_numbered", numbered)

    def _noting(self, execute: Callable[[str, Any], Any]) -> Callable[[str, Any], Any]:
        def noted(sql: str, params: Any) -> Any:
            self._note("sqlite", sql)
            return execute(sql, params)

        return noted

    def _note(self, engine: str, sql: str) -> None:
        if (engine, sql) not in self._met:
            self._met.add((engine, sql))
            place = _place_in_the_service()
            if place and _MANIPULATES.match(sql) and not _is_excused(place):
                self._waiting.append((engine, place, sql))

    def complaints(self) -> list[str]:
        """Returns what is wrong with the statements that were met since the last time."""
        waiting, self._waiting = self._waiting, []
        if not waiting:
            return []
        self._judged.look()
        found = []
        for engine, place, sql in waiting:
            if not self._judged.is_known(engine, sql):
                wrong = [f"{place} on {engine}: {what}\n    {sql}" for what in refused(sql, planner(engine))]
                if not wrong:
                    self._judged.add(engine, sql)
                found += wrong
        return found


@cache
def planner(engine: str) -> Planner:
    return SqlitePlanner() if engine == "sqlite" else PostgresPlanner()


def _is_excused(place: str) -> bool:
    """Tells whether the function, its file or a folder that holds it is excused."""
    file = place.partition(":")[0]
    return any(str(name) in EXCUSED for name in (place, file, *PurePath(file).parents))


def _place_in_the_service() -> str:
    """The function that asks, as `books/cash_book.py:file_image`. Empty if a test asks by itself."""
    # Above this function: the note, and what stands in for the statement.
    frame: FrameType | None = sys._getframe(3)
    while frame is not None:
        file = _file_in_the_service(frame.f_code.co_filename)
        if file is not None:
            return f"{file}:{frame.f_code.co_name}" if file else ""
        frame = frame.f_back
    return ""


@cache
def _file_in_the_service(path: str) -> str | None:
    """A file of the service as `books/cash_book.py`, but none of its database; empty for one of the tests, None for one of others."""
    parts = PurePath(path).parts
    if "kontobahn" in parts[:-1] and "src" in parts:
        inside: Sequence[str] = parts[len(parts) - parts[::-1].index("kontobahn") :]
        if inside[0] != "db":
            return "/".join(inside)
    return "" if "tests" in parts else None
