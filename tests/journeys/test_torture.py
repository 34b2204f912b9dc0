"""A small share of the torture that `make torture` does at length."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.journeys.process import place_demo
from torture import banks, datev_kills, datev_sign_in_kills, ebics_kills, page, statement_kills
from torture.kills import load
from torture.kills.run import run as run_kills
from torture.payments import run


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """With the demo in it, so that the first start of a trial need not make it."""
    place_demo(tmp_path)
    return tmp_path


def test_payments_survive_disorder_and_kills(folder: Path) -> None:
    told = run(folder, payments=40, kills=3, seed=7, kill_creations=False)
    assert told.startswith("40 payments:")


def test_a_bank_that_is_connected_and_read_amid_kills_loses_nothing(folder: Path) -> None:
    told = banks.run(folder, "fints", kills=1, seed=3)
    assert all(part in told for part in ("amid connect", "amid fetch", "gone in time"))


def test_a_kill_around_a_receipt_or_an_order_of_ebics_loses_and_doubles_nothing(folder: Path) -> None:
    parts = {"fetching": (("C53", "Receipt", 0),), "signing": (("HVE", "Initialisation", 0),)}
    told = ebics_kills.run(folder, kills=2, seed=3, parts=parts)
    assert told.startswith(
        "4 kills: 1 of 1 amid after C53 Receipt, 1 of 1 amid after HVE Initialisation, 1 of 1 amid before"
    )
    assert "210 bookings, 2 order files, 2 signatures, 0 changes of keys: none lost, none twice" in told


def test_a_kill_around_the_release_of_a_cash_entry_at_datev_books_it_once(folder: Path) -> None:
    told = datev_kills.run(folder, kills=1, seed=3, steps=("release",))
    assert told.endswith("2 entries: none lost, none twice, each charged once.")


def test_a_kill_amid_a_renewal_leaves_a_sign_in_that_lives_or_has_ended_and_no_loop(folder: Path) -> None:
    moments = datev_sign_in_kills.BEFORE, datev_sign_in_kills.UNSTORED
    told = datev_sign_in_kills.run(folder, kills=1, seed=3, moments=moments)
    assert told.endswith("1 sign-ins lived on, 1 had to be renewed by a person; none was asked for again.")


def test_a_kill_amid_the_slices_of_a_statement_leaves_nothing_that_is_seen(folder: Path) -> None:
    told = statement_kills.run(folder, kills=1, seed=3, entries=300)
    assert "1 of which left entries that nobody saw" in told
    assert told.endswith("none in part, none twice.")


def test_nothing_is_lost_or_doubled_by_kills_under_mixed_load(folder: Path) -> None:
    # Without payments: what a kill leaves of one is found out minutes later.
    result = run_kills(folder, "sqlite", kills=2, seed=11, kinds=load.SHORT)
    assert result.faults == []
    assert result.figures.startswith("2 kills on sqlite")


def test_the_page_on_reliability_shows_what_the_trials_said() -> None:
    text = page.PAGE.read_text("utf-8")
    assert page.filled(text, page.results()) == text
