"""What `make mutate` names exists: its modules and tests, and the faults that docs/testing.md excuses, for an excuse for a line
that is gone could hide another fault."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from mutation import excused
from mutation.faults import faults_of
from mutation.subjects import LOCKS, SUBJECTS

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "src" / "kontobahn"


def test_every_excuse_is_for_a_fault_that_can_be_planted() -> None:
    excuses = excused.read()
    found_in = cache(faults_of)
    assert len(excuses) > 20
    for excuse in excuses:
        source = (SOURCE / excuse.module).read_bytes()
        lines = source.decode().splitlines()
        found = [fault for fault in found_in(source) if excuse.covers(excuse.module, fault, lines)]
        assert found, excuse
        assert excuse.reason


def test_modules_and_their_tests_are_where_they_are_said_to_be() -> None:
    named = [test for subject in (LOCKS, *SUBJECTS.values()) for test in (*subject.tests, *subject.on_postgres)]
    files = [*(SOURCE / module for module in SUBJECTS), *(ROOT / test.partition("::")[0] for test in named)]
    assert [str(file) for file in files if not file.exists()] == []
