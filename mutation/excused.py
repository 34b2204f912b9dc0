"""Faults that no test can notice, each with its reason: the table in docs/testing.md. They are not planted."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

from mutation.faults import Fault

_TABLE = Path(__file__).resolve().parent.parent / "docs" / "testing.md"
_ROW = re.compile(r"\| `(?P<module>[\w/]+\.py)` \| `(?P<line>[^|]+)` \| (?P<what>[^|]+) \| (?P<reason>[^|]+) \|")


class Excuse(NamedTuple):
    """`line` is part of the line, `what` the fault as the run names it."""

    module: str
    line: str
    what: str
    reason: str

    def covers(self, module: str, fault: Fault, lines: list[str]) -> bool:
        return module == self.module and fault.what == self.what and self.line in lines[fault.line - 1]


def read() -> list[Excuse]:
    return [Excuse(*(part.strip() for part in row.groups())) for row in _ROW.finditer(_TABLE.read_text())]
