"""Things that take long to make, made by one process of a run for all of them."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from tests import run_folder
from tests.run_folder import made_once


def test_of_several_who_ask_at_once_one_makes_it_and_the_others_wait(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv(run_folder.FOLDER, str(tmp_path))
    made, seen = [], []

    def make(place: Path) -> None:
        made.append(place)
        (place / "whole").write_text("yes")

    def ask() -> None:
        seen.append((made_once("demo", make) / "whole").read_text())

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (len(made), seen) == (1, ["yes"] * 4)


def test_what_was_broken_off_is_made_anew(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv(run_folder.FOLDER, str(tmp_path))

    def break_off(place: Path) -> None:
        (place / "half").write_text("")
        raise OSError("no space left")

    with pytest.raises(OSError, match="no space"):
        made_once("demo", break_off)
    place = made_once("demo", lambda place: (place / "whole").touch())
    assert [file.name for file in place.iterdir()] == ["whole"]
