"""Everything that `make mutate` names exists: its modules and tests, and the faults that docs/testing.md excuses, for an excuse for a line
that is gone could hide another fault."""

from __future__ import annotations

import gc
import runpy
import subprocess
import sys
from datetime import date, timedelta
from functools import cache
from pathlib import Path

import pytest

from mutation import excused
from mutation.__main__ import SAMPLE, week_of
from mutation.faults import faults_of
from mutation.subjects import DECIDING, LOCKS, SUBJECTS
from mutation.trial import Unplantable, replace_code

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


def test_every_pattern_of_what_decides_finds_a_module() -> None:
    assert list(DECIDING) == ["money", "access", "delivery"]
    for patterns in DECIDING.values():
        assert [pattern for pattern in patterns if not list(SOURCE.glob(pattern))] == []
    for room in ("reconciliation", "access", "banking/imports", "banking/payments", "webhooks", "bank_providers/fints"):
        assert [name for name in SUBJECTS if name.startswith(f"{room}/")], room


def test_a_sample_is_another_one_each_week_and_can_be_had_again() -> None:
    weeks = [week_of(date(2026, 11, 16) + timedelta(days)) for days in range(8)]
    assert weeks == [202647] * 7 + [202648]
    assert week_of(date(2027, 1, 1)) == 202653, "the week decides, not the year"
    assert SAMPLE > 0
    helped = subprocess.run(
        [sys.executable, "-m", "mutation", "--help"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert "that of the week" in helped.stdout


def test_a_fault_is_planted_in_what_was_frozen_and_never_in_nothing(tmp_path: Path) -> None:
    module = tmp_path / "rules.py"
    sound, changed = b"def may(sum):\n    return sum < 3\n", b"def may(sum):\n    return sum <= 3\n"
    module.write_bytes(sound)
    may = runpy.run_path(str(module))["may"]
    gc.freeze()
    assert not may(3)
    replace_code(str(module), sound, changed)
    assert may(3)
    del may
    gc.collect()
    with pytest.raises(Unplantable):
        replace_code(str(module), sound, changed)
