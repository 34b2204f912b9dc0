"""Undoing a batch leaves the books as if it had never been: random ledgers, with some of their batches undone again."""

from __future__ import annotations

import random
from datetime import date
from typing import Any

import pytest

from kontobahn.books import reports, store, undo, verification
from kontobahn.books.satz import Satz, reversal_of
from kontobahn.books.store import Client
from kontobahn.db import Tx
from tests.unit.ledger.random_ledgers import Ledger, any_ledger, cut_offs
from tests.unit.ledger.recalculation import Booking
from tests.unit.ledger.test_random_ledgers import FIRST_SEED, MODES, Opened, add, ask, create, plain

LEDGERS = {"sqlite": 40, "postgres": 13}


def test_books_with_undone_batches_are_those_without_them(database_url: str, engine: str) -> None:
    with Opened(database_url) as books:
        for seed in range(FIRST_SEED, FIRST_SEED + LEDGERS[engine]):
            books.db.write_now(_compare, books.connection_id, any_ledger(seed), random.Random(seed))


def _compare(tx: Tx, connection_id: str, ledger: Ledger, chance: random.Random) -> None:
    undone = {number for number in range(len(ledger.batches)) if chance.random() < 0.4}
    with_undone, without = create(tx, connection_id, ledger), create(tx, connection_id, ledger)
    kept = [batch for number, batch in enumerate(ledger.batches) if number not in undone]
    ids = _add_and_undo(tx, with_undone, ledger.batches, undone, chance)
    add(tx, without, kept)
    for client in (with_undone, without):
        assert verification.find_differences(tx, client.mandant) == [], f"seed {ledger}"
    for stichtag in cut_offs(ledger, 4):
        for mode in MODES:
            assert ask(tx, with_undone, stichtag, mode) == ask(tx, without, stichtag, mode), (ledger, stichtag, mode)
    assert store.years(tx, with_undone) == store.years(tx, without)
    for start, _ in ledger.years:
        assert balances(tx, with_undone, start) == balances(tx, without, start)
    assert len(ids) == len(undone)


def _add_and_undo(
    tx: Tx, client: Client, batches: list[list[Booking]], undone: set[int], chance: random.Random
) -> list[str]:
    """Posts every batch, and undoes some of them: at once, or when others have come after them."""
    waiting: list[str] = []
    made: list[str] = []
    for number, batch in enumerate(batches):
        add(tx, client, [batch])
        if number in undone:
            (row,) = tx.all("SELECT id FROM books_batches WHERE mandant = ? ORDER BY id DESC LIMIT 1", client.mandant)
            waiting.append(row[0])
        while waiting and (chance.random() < 0.5 or number == len(batches) - 1):
            found = undo.undo_batch(tx, client, waiting.pop(chance.randrange(len(waiting))), "test")
            assert found is not None
            made.append(found.id)
    return made


def balances(tx: Tx, client: Client, start: str) -> Any:
    return plain(reports.susa(tx, client, date.fromisoformat(start), None))


@pytest.mark.parametrize(
    ("satz", "reversed_as"),
    [
        (Satz(100, True, "1", "2", "2026-01-01"), (False, True, "")),
        (Satz(100, False, "1", "2", "2026-01-01", "9"), (True, True, "9")),
        (Satz(100, True, "1", "2", "2026-01-01", "9", generalumkehr=True), (False, False, "9")),
        (Satz(100, True, "1", "2", "2026-01-01", "29", generalumkehr=True), (False, False, "9")),
        (Satz(100, True, "1", "2", "2026-01-01", "20", generalumkehr=True), (False, False, "")),
    ],
)
def test_a_reversal_goes_to_the_other_side_and_its_turnover_back(
    satz: Satz, reversed_as: tuple[bool, bool, str]
) -> None:
    found = reversal_of(satz)
    assert (found.soll, found.generalumkehr, found.bu_schluessel) == reversed_as
