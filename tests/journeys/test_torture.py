"""A small share of the torture that `python -m torture.payments` and `python -m torture.banks` do at length."""

from __future__ import annotations

from pathlib import Path

from torture import banks
from torture.payments import run


def test_payments_survive_disorder_and_kills(tmp_path: Path) -> None:
    told = run(tmp_path, payments=40, kills=3, seed=7, kill_creations=False)
    assert told.startswith("40 payments:")


def test_a_bank_that_is_connected_and_read_amid_kills_loses_nothing(tmp_path: Path) -> None:
    told = banks.run(tmp_path, "fints", kills=2, seed=3)
    assert told.startswith("2 kills")
