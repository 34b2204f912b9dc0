"""Tests run side by side in forked processes: each once, and nothing that goes wrong in one of them is passed over."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from tests import cores
from tests.tidy_rules import ROOT
from tests.workers import portions

CONFTEST = """
import os
import pytest
from tests.workers import portions, run_side_by_side

def pytest_runtestloop(session):
    os.sched_setaffinity(0, range(os.cpu_count()))
    run_side_by_side(session, 3, portions(session.items, by=lambda item: item.path))
    return True

@pytest.fixture(scope="session", autouse=True)
def everywhere(tmp_path_factory):
    yield
    with open("ended", "a") as ended:
        print(tmp_path_factory.getbasetemp(), file=ended)
"""
TESTS = """
import gc
import os
import pytest

gc.disable()

@pytest.mark.parametrize("number", range(40))
def test_each_runs_once(number):
    with open("ran", "a") as ran:
        print(number, file=ran)
    assert len(os.sched_getaffinity(0)) == 1

def test_leaves_something():
    here = [open("ran")]
    here.append(here)

def test_fails():
    print("what was printed")
    assert [1, 2] == [1, 3], "told as it is"
"""
DYING = """
import os

def test_before(): pass
def test_dies(): os._exit(7)
def test_after(): pass
"""


def test_neighbours_are_taken_together_and_no_more_than_so_many() -> None:
    assert portions("aaabbca", by=str, most=2) == [["a", "a"], ["a"], ["b", "b"], ["c"], ["a"]]


def test_processes_stay_on_one_core_each_in_turn() -> None:
    before = os.sched_getaffinity(0)
    try:
        os.sched_setaffinity(0, range(os.cpu_count() or 1))
        everywhere = sorted(os.sched_getaffinity(0))
        for number, core in enumerate(2 * everywhere):
            os.sched_setaffinity(0, everywhere)
            cores.stay_on_one(number)
            assert os.sched_getaffinity(0) == {core}
    finally:
        os.sched_setaffinity(0, before)


def test_each_test_runs_once_and_every_failure_and_death_is_told(tmp_path: Path) -> None:
    for name, text in (("conftest", CONFTEST), ("test_many", TESTS), ("test_dying", DYING)):
        (tmp_path / f"{name}.py").write_text(text)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-p", "no:schemathesis", "--rootdir", str(tmp_path), "-Werror"],
        cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 1, done.stdout + done.stderr
    assert sorted(map(int, (tmp_path / "ran").read_text().split())) == list(range(40))
    assert "3 failed, 42 passed, 2 errors" in done.stdout
    assert set(re.findall(r"^FAILED (\S+)", done.stdout, re.MULTILINE)) == {
        "test_dying.py::test_dies", "test_dying.py::test_after", "test_many.py::test_fails",
    }  # fmt: skip
    # One process has died, and another has found at its end that a file was left open.
    assert len(re.findall(r"^ERROR process-\d", done.stdout, re.MULTILINE)) == 2
    assert "ended with 7" in done.stdout
    assert "unclosed file" in done.stderr
    assert "told as it is" in done.stdout
    assert "what was printed" in done.stdout
    # Those that did not die have ended what their tests shared, each in a folder of its own.
    ended = (tmp_path / "ended").read_text().split()
    assert 1 <= len(ended) == len(set(ended))
