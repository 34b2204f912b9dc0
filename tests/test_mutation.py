"""The faults that docs/testing.md excuses exist: an excuse for a line that is gone could hide another fault."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from mutation import excused
from mutation.faults import faults_of

SOURCE = Path(__file__).resolve().parent.parent / "src" / "kontobahn"


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
