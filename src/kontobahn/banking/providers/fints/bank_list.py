"""The list of banks with their FinTS addresses: a file that the operator has from the registration, or from elsewhere.

Two forms are read: the table that the German banks hand out (CSV with a heading, separated by semicolons), and lines of the form
`BLZ=name|place|BIC|…|address|…`.
"""

from __future__ import annotations

import csv
import re
from pathlib import Path
from typing import NamedTuple

from kontobahn.errors import SetupError

MAX_BYTES = 20 * 1024 * 1024
_LINE = re.compile(r"^([0-9]{8})=(.*)$")
_BLZ = re.compile(r"^[0-9]{8}$")


class FintsBank(NamedTuple):
    blz: str
    name: str
    bic: str
    url: str


def read_list(path: Path) -> dict[str, FintsBank]:
    """Returns the banks by their code. Raises SetupError if the file cannot be read as a list of banks."""
    try:
        if path.stat().st_size > MAX_BYTES:
            raise SetupError(f"The list of banks {path} is larger than {MAX_BYTES:,} bytes.")
        raw = path.read_bytes()
    except OSError as error:
        raise SetupError(f"The list of banks {path} cannot be read: {error.strerror}.") from None
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError:
        text = raw.decode("cp1252", "replace")
    lines = text.splitlines()
    found = _from_lines(lines) if any(_LINE.match(line) for line in lines) else _from_table(lines)
    if not found:
        raise SetupError(f"The list of banks {path} holds no bank with a PIN/TAN address.")
    return found


def _from_lines(lines: list[str]) -> dict[str, FintsBank]:
    found: dict[str, FintsBank] = {}
    for line in lines:
        match = _LINE.match(line.strip())
        if match is None:
            continue
        parts = match[2].split("|")
        url = next((part.strip() for part in parts if part.strip().startswith("https://")), "")
        if url:
            name = " ".join(part.strip() for part in parts[:2] if part.strip())
            bic = parts[2].strip() if len(parts) > 2 else ""
            found.setdefault(match[1], FintsBank(match[1], name, bic, url))
    return found


def _from_table(lines: list[str]) -> dict[str, FintsBank]:
    rows = list(csv.reader(lines, delimiter=";"))
    found: dict[str, FintsBank] = {}
    columns: dict[str, int] = {}
    for row in rows:
        cells = [cell.strip() for cell in row]
        if not columns:
            heads = [cell.casefold() for cell in cells]
            if "blz" in heads:
                columns = {name: heads.index(name) for name in ("blz", "bic", "institut", "ort") if name in heads}
            continue
        blz = cells[columns["blz"]] if columns["blz"] < len(cells) else ""
        url = next((cell for cell in cells if cell.startswith("https://")), "")
        if _BLZ.match(blz) and url:
            name = " ".join(filter(None, (_cell(cells, columns, "institut"), _cell(cells, columns, "ort"))))
            found.setdefault(blz, FintsBank(blz, name or blz, _cell(cells, columns, "bic"), url))
    return found


def _cell(cells: list[str], columns: dict[str, int], name: str) -> str:
    at = columns.get(name)
    return cells[at] if at is not None and at < len(cells) else ""
