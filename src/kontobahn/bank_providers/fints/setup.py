"""FinTS from its settings: the list of banks with their addresses; and one harmless question that tries a bank.

The list is a file that the operator has from the registration, or from elsewhere. Two forms are read: the table that the German
banks hand out (CSV with a heading, separated by semicolons), and lines of the form `BLZ=name|place|BIC|…|address|…`.
"""

from __future__ import annotations

import asyncio
import csv
import re
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

from kontobahn.bank_providers.fints.rules import failure
from kontobahn.bank_providers.fints.wire import FintsBank
from kontobahn.errors import SetupError

MAX_BYTES = 20 * 1024 * 1024
_LINE = re.compile(r"^([0-9]{8})=(.*)$")
_BLZ = re.compile(r"^[0-9]{8}$")


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


# --- Probe: the bank is asked who it is; nobody signs in


class Answered(Exception):
    """The bank answered, and refused."""


async def probe(
    post: Callable[[str, bytes], Coroutine[Any, Any, bytes]], *, blz: str, url: str, product_id: str
) -> str:
    """Returns the name by which the bank calls itself. Raises Answered if it refuses, and what `post` raises."""
    loop = asyncio.get_running_loop()

    def blocking_post(to: str, body: bytes) -> bytes:
        return asyncio.run_coroutine_threadsafe(post(to, body), loop).result()

    return await asyncio.to_thread(_probe, blocking_post, blz, url, product_id)


def _probe(post: Callable[[str, bytes], bytes], blz: str, url: str, product_id: str) -> str:
    from fints.exceptions import FinTSDialogInitError
    from fints.formals import CUSTOMER_ID_ANONYMOUS

    from kontobahn.bank_providers.fints.client import BankError, StrictClient

    client = StrictClient(
        post, blz=blz, url=url, user=CUSTOMER_ID_ANONYMOUS, customer=None, pin=None, product_id=product_id, data=None
    )
    try:
        # Not the client's own dialog, in which the library minds to learn which methods there are.
        with client._new_dialog():
            return str(client.get_information()["bank"].get("name") or blz)
    except BankError as error:
        raise Answered(str(failure(error.codes))) from None
    except FinTSDialogInitError as error:
        # The library wraps what the network said.
        raise (error.__cause__ or error) from None
