"""Books from before their answers were kept as text: bringing the database up to date derives everything that is new."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kontobahn.clock import SystemClock
from kontobahn.db import Database, Tx, open_database
from kontobahn.db import migrate as steps
from kontobahn.ledger import opos
from kontobahn.ledger.books import models, verify
from kontobahn.ledger.books.upgrade import FOLLOW_UPS
from kontobahn.settings import load
from tests.services import PostgresServer
from tests.unit.ledger.random_ledgers import any_ledger, opening
from tests.unit.ledger.test_random_ledgers import Opened, check_ledger, post_all

BEFORE = 5
LEDGERS = [any_ledger(seed) for seed in range(40)]
# One whose only carry-over is of a ledger account.
LEDGERS.append(LEDGERS[7]._replace(bookings=[*LEDGERS[7].bookings, opening(LEDGERS[7].years[-1][0], "12000000", 700)]))
COPIED = (
    "organizations", "ledger_connections", "books_clients", "books_years", "books_batches", "books_bookings", "books_periods",
    "books_item_moves", "books_item_years", "books_carry_rests",
)  # fmt: skip


@pytest.fixture
def url(engine: str, request: pytest.FixtureRequest) -> Iterator[str]:
    """An empty database; on PostgreSQL one that sorts by a language."""
    if engine == "sqlite":
        yield ""
        return
    server: PostgresServer = request.getfixturevalue("postgres")
    yield server.create_database("older_books", icu_locale="de-DE")
    server.drop_database("older_books")


@pytest.fixture
def older(url: str, tmp_path: Path) -> Iterator[Database]:
    """A database as the version before left it."""
    database = open_database(load({}, data=str(tmp_path / "older"), database_url=url), SystemClock())
    engine = database.engine.name
    database.write_now(steps._apply_missing, engine, steps.known_migrations(engine)[:BEFORE])
    yield database
    database.close()


def test_everything_that_is_new_is_derived_from_what_was_there(older: Database) -> None:
    with Opened("") as newer:
        clients = newer.db.write_now(post_all, newer.connection_id, LEDGERS)
        newer.db.write_now(as_netted_before)
        newer.db.write_now(as_carried_before)
        rows = newer.db.read_now(dump)
        batches = newer.db.read_now(batch_facts)
    older.write_now(fill, rows, breaks_ties=older.engine.name == "postgres")
    assert steps.migrate(older, FOLLOW_UPS)[0] == "books_answers"
    assert older.read_now(batch_facts) == batches
    for client, ledger in zip(clients, LEDGERS, strict=True):
        assert older.read_now(verify.find_differences, client.mandant) == []
        older.read_now(check_ledger, client, ledger)


def as_netted_before(tx: Tx) -> None:
    """Both legs of a pair of opening balances were counted."""
    twins = tx.all("SELECT edition, konto, jahr, betrag, gegenkonto FROM books_openings WHERE is_twin = 1")
    assert len(twins) > 5
    for mandant, konto, jahr, betrag, gegenkonto in twins:
        tx.run(
            "UPDATE books_item_years SET eb = eb + ? WHERE edition = ? AND konto = ? AND jahr = ?",
            betrag, mandant, konto, jahr,
        )  # fmt: skip
        for name, amount in ((konto, betrag), (gegenkonto, -betrag)):
            tx.run(
                "UPDATE books_periods SET soll = soll + ?, haben = haben + ? WHERE edition = ? AND konto = ? AND jahr = ?"
                " AND periode = 0",
                max(amount, 0), max(-amount, 0), mandant, name, jahr,
            )  # fmt: skip


def as_carried_before(tx: Tx) -> None:
    """Any opening balance made a year a carried one, and gave every person a rest."""
    tx.run(
        "UPDATE books_years SET has_eb = CASE WHEN EXISTS (SELECT 1 FROM books_periods p WHERE p.edition = books_years.mandant"
        " AND p.jahr = books_years.jahr AND p.periode = 0) THEN 1 ELSE 0 END"
    )
    for (mandant,) in tx.all("SELECT mandant FROM books_clients"):
        models.settle_rests(tx, mandant, models.carried_years(tx, mandant), None)


def batch_facts(tx: Tx) -> list[tuple[Any, ...]]:
    """What a batch is known to hold."""
    return tx.all("SELECT mandant, id, jahr, first_booking, last_booking FROM books_batches ORDER BY mandant, id")


def columns_of(tx: Tx, table: str, *, on_postgres: bool) -> set[str]:
    names = "information_schema.columns WHERE table_name = ?" if on_postgres else "pragma_table_info(?)"
    return {name for (name,) in tx.all(f"SELECT {'column_name' if on_postgres else 'name'} FROM {names}", table)}


def dump(tx: Tx) -> dict[str, tuple[str, list[tuple[Any, ...]]]]:
    found = {}
    for table in COPIED:
        columns = ", ".join(name for (name,) in tx.all("SELECT name FROM pragma_table_info(?)", table))
        rows = tx.all(f"SELECT {columns} FROM {table}")
        # The read models of a client had its number.
        found[table] = columns if table == "books_clients" else columns.replace("edition", "mandant"), rows
    columns = "konto, beleg, soll, haben, is_open, belegdatum, buchungstext"
    items = tx.all(f"SELECT edition, {columns} FROM books_items")
    found["books_items"] = f"mandant, {columns}, wire", [(*item, item_wire(*item)) for item in items]
    return found


def item_wire(_: int, __: str, beleg: str, soll: int, haben: int, is_open: int, datum: str, text: str) -> str:
    """An item as it was kept then: the text of the answer up to its balance."""
    return f'{{"beleg":{opos.quoted(beleg)},"belegdatum":"{datum}","buchungstext":{opos.quoted(text)},"saldo":'


def fill(tx: Tx, rows: dict[str, tuple[str, list[tuple[Any, ...]]]], *, breaks_ties: bool) -> None:
    for table, (columns, values) in rows.items():
        # Columns that came later were not there then.
        had = columns_of(tx, table, on_postgres=breaks_ties)
        kept = [index for index, name in enumerate(columns.split(", ")) if name in had]
        names, marks = ", ".join(columns.split(", ")[index] for index in kept), ", ".join("?" * len(kept))
        tx.many(f"INSERT INTO {table} ({names}) VALUES ({marks})", [[row[index] for index in kept] for row in values])
    if breaks_ties:
        # Of two texts on one day another one came first in the language's order.
        tx.run("UPDATE books_items SET buchungstext = 'x'")
        tx.run("UPDATE books_item_years SET eb_text = 'x' WHERE eb_text <> ''")
