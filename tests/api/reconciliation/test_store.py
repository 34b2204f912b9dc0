"""Rules about matches that the database itself holds: their sums, that they stay, and one at a time."""

from __future__ import annotations

from typing import Any

import pytest

from kontobahn.db import Tx
from kontobahn.reconciliation import store
from kontobahn.reconciliation.store import Client, LineRow, MatchRow, Taken, UndoRow
from tests.harness import Service
from tests.interleaving import on_postgres, overlap
from tests.reconciliation_desk import Desk, paid


def match(desk: Desk, id: str, amount: int, **changes: Any) -> MatchRow:
    [transaction] = [
        id for (id,) in desk.books.rows("SELECT id FROM banking_transactions WHERE amount_minor = ?", 119_00)
    ]
    row = MatchRow(
        desk.owner.id, id, transaction, int(desk.account), desk.books.connection_id, "29098-55003", None, "A2", "1",
        "2026-03-02", amount, "Anna", "", None, None, None, "user:1", 1, None,
    )  # fmt: skip
    return row._replace(**changes)


def write(desk: Desk, row: MatchRow, *lines: tuple[str, int, int]) -> None:
    def unit(tx: Tx) -> None:
        for place, (kind, amount, was_open) in enumerate(lines, 1):
            line = LineRow(desk.owner.id, row.id, place, kind, "100100000", f"RE-{place}", amount, was_open)  # type: ignore[arg-type]
            store.LINES.insert(tx, line)
        store.MATCHES.insert(tx, row)

    desk.service.db.write_now(unit)


def run(tx: Tx, sql: str) -> None:
    tx.run(sql)


def test_the_database_holds_the_sum_and_one_live_match(service: Service) -> None:
    desk = Desk(service, paid(119_00, "danke"))
    line = ("item", 119_00, 119_00)
    with pytest.raises(Exception, match="must sum to its transaction"):
        write(desk, match(desk, "m1", 119_00), ("item", 100_00, 119_00), ("on_account", 18_99, 0))
    with pytest.raises(Exception, match="must sum to its transaction"):
        write(desk, match(desk, "m1", 118_00), ("item", 118_00, 119_00))
    with pytest.raises(Exception, match="must sum to its transaction"):
        write(desk, match(desk, "m1", 119_00, transaction_id=1), line)
    with pytest.raises(Exception, match=r"(?i)check"):
        write(desk, match(desk, "m1", 119_00), ("item", 119_00, 118_99))
    assert desk.books.rows("SELECT match_id FROM recon_lines") == [], "nothing half written"
    write(desk, match(desk, "m1", 119_00), ("item", 121_00, 121_00), ("skonto", -2_00, 0))
    with pytest.raises(Exception, match=r"(?i)unique"):
        write(desk, match(desk, "m2", 119_00), line)
    for sql in (
        "UPDATE recon_matches SET amount_minor = 1", "DELETE FROM recon_matches", "UPDATE recon_lines SET amount_minor = 1",
        "DELETE FROM recon_lines", "INSERT INTO recon_lines SELECT organization_id, match_id, 3, kind, konto, 'X', amount_minor,"
        " open_minor FROM recon_lines WHERE line = 1",
    ):  # fmt: skip
        with pytest.raises(Exception, match=r"append-only|no more lines"):
            service.db.write_now(run, sql)


def test_undoing_is_a_row_and_happens_once(service: Service) -> None:
    desk = Desk(service, paid(119_00, "danke"))
    row = match(desk, "m1", 119_00)
    write(desk, row, ("item", 119_00, 119_00))

    def undo(tx: Tx, id: str) -> None:
        store.UNDOS.insert(tx, UndoRow(desk.owner.id, id, f"m{id}", "", "user:1", 2))
        store.MATCHES.update(tx, row, undo_id=id)

    service.db.write_now(undo, "1")
    with pytest.raises(Exception, match="append-only"):
        service.db.write_now(undo, "2")
    with pytest.raises(Exception, match="append-only"):
        service.db.write_now(lambda tx: tx.run("DELETE FROM recon_undos"))
    write(desk, match(desk, "m3", 119_00), ("item", 119_00, 119_00))
    client = Client(desk.owner.id, desk.books.connection_id, "29098-55003")
    read = service.db.read_now
    assert [row.id for row in read(store.matches, client)] == ["m3"]
    assert [row.id for row in read(store.matches, client, "undone")] == ["m1"]
    assert [row.id for row in read(store.matches, client, "all", after="m1")] == ["m3"]
    between = (desk.owner.id, int(desk.account), "2026-03-02", "2026-03-02")
    assert [row.id for row in read(store.matches_between, *between, "all")] == ["m1", "m3"]
    assert set(read(store.lines_of, desk.owner.id, ["m1", "m3", "x"])) == {"m1", "m3"}
    assert read(store.undos_of, desk.owner.id, ["m1", "m3"])["m1"].id == "1"


def test_what_the_books_have_moved_since_was_booked() -> None:
    taken = Taken(60_00, 100_00)
    assert taken.left_of(100_00) == (60_00, 100_00)
    assert taken.left_of(40_00) == (0, 40_00)
    assert taken.left_of(70_00) == (30_00, 70_00)
    assert taken.left_of(0) == (0, 0), "more was booked than was matched"
    assert taken.left_of(150_00) == (60_00, 150_00), "the document grew"
    # A return opens it again, and a creditor's signs are the other way round.
    assert Taken(-60_00, 0).left_of(60_00) == (0, 60_00)
    assert Taken(-60_00, -100_00).left_of(-40_00) == (0, -40_00)


@on_postgres
def test_decisions_of_an_organisation_wait_for_each_other(service: Service) -> None:
    outcome = overlap(service.db, lambda tx: store.lock(tx, "a"), lambda tx: store.lock(tx, "a"))
    assert outcome.lock == "reconciliation"
    assert not overlap(service.db, lambda tx: store.lock(tx, "a"), lambda tx: store.lock(tx, "b")).waited
