"""The pages of docs/spec as tables, and the declared endpoints to compare them with."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest

from kontobahn.app import all_endpoints

ROOT = Path(__file__).resolve().parent.parent
SPEC = ROOT / "docs" / "spec"
ENDPOINTS = {endpoint.name: endpoint for endpoint in all_endpoints()}
FREE = "GET /v2/ledger-rewe-read/connections"
# The headers and shapes do not depend on the database.
on_sqlite = pytest.mark.parametrize("engine", ["sqlite"])

Rows = list[dict[str, str]]


@cache
def tables(page: Path) -> list[tuple[str, Rows]]:
    """Every table of a page under the heading it stands below; cells lose their code marks."""
    found: list[tuple[str, Rows]] = []
    heading, lines = "", page.read_text("utf-8").splitlines()
    rows: list[list[str]] = []
    for line in [*lines, ""]:
        if line.startswith("|"):
            cells = re.split(r"(?<!\\)\|", line)[1:-1]
            rows.append([cell.strip().replace("\\|", "|") for cell in cells])
        elif rows:
            names, _, *values = rows
            found.append(
                (heading, [{name: _bare(cell) for name, cell in zip(names, row, strict=True)} for row in values])
            )
            rows = []
        if line.startswith("#"):
            heading = line.lstrip("# ")
    return found


def _bare(cell: str) -> str:
    return cell[1:-1] if re.fullmatch(r"`[^`]*`", cell) else cell


def table(page: Path, heading: str) -> Rows:
    """The first table below a heading."""
    found = [rows for title, rows in tables(page) if title == heading]
    assert found, f"{page.name} has no table below “{heading}”"
    return found[0]


def documented_endpoints() -> dict[str, dict[str, str]]:
    rows = table(SPEC / "endpoints.md", "Endpoints")
    by_name = {f"{row['Method']} {row['Path']}": row for row in rows}
    assert len(by_name) == len(rows), "an endpoint is in the table twice"
    return by_name
