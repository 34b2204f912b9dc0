"""DATA/demo.json: the keys and ids of the demo, for people and for commands that need none of the demo itself."""

from __future__ import annotations

import os
import shlex
from pathlib import Path
from typing import Any

import msgspec

from kontobahn.errors import SetupError
from kontobahn.settings import Settings

# Variables of a shell, for lines to copy, and where in the facts their values are. Not KONTOBAHN_…: those are settings.
_VARIABLES: dict[str, tuple[str | int, ...]] = {
    "KB_URL": ("base_url",),
    "KB_KEY": ("api_key",),
    "KB_SECOND_KEY": ("second_api_key",),
    "KB_AGENCY_KEY": ("agency_key",),
    "KB_ORGANIZATION": ("organization_id",),
    "KB_BOOKS": ("ledger", "connection_id"),
    "KB_SECOND_CLIENT": ("ledger", "second_client_id"),
    "KB_FIRST_YEAR": ("ledger", "fiscal_years", 0),
    "KB_YEAR": ("ledger", "fiscal_years", -1),
    "KB_CASH_BOOK": ("ledger", "kassenname"),
    "KB_BANK": ("banking", "connection_id"),
    "KB_ACCOUNT": ("banking", "account_id"),
    "KB_CUSTOMER": ("mobility", "customer_id"),
}


def facts_path(settings: Settings) -> Path:
    return settings.data_dir / "demo.json"


def read_facts(path: Path) -> dict[str, Any] | None:
    try:
        facts = msgspec.json.decode(path.read_bytes(), type=dict[str, Any])
    except (FileNotFoundError, msgspec.DecodeError):
        return None
    return facts if "organization_id" in facts else None


def write_facts(settings: Settings, facts: dict[str, Any]) -> None:
    """Written whole or not at all, and readable by its owner only: the file holds keys."""
    path = facts_path(settings)
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(msgspec.json.format(msgspec.json.encode(facts), indent=2) + b"\n")
    temporary.replace(path)


def shell_variables(facts: dict[str, Any]) -> str:
    """Lines for `eval` of a shell. Raises SetupError if the demo has not been served, and so has no address."""
    if not facts["base_url"]:
        raise SetupError("The demo has no address yet. Serve it first: kontobahn serve --demo.")
    lines = []
    for name, path in _VARIABLES.items():
        value: Any = facts
        for step in path:
            value = value[step]
        lines.append(f"export {name}={shlex.quote(str(value))}")
    return "\n".join(lines)
