"""A small share of the torture that `python -m torture.payments` does at length."""

from __future__ import annotations

from pathlib import Path

from torture.payments import run


def test_payments_survive_disorder_and_kills(tmp_path: Path) -> None:
    told = run(tmp_path, payments=40, kills=3, seed=7, kill_creations=False)
    assert told.startswith("40 payments:")
