"""DATA/demo.json: the keys and ids of the demo, for people and for commands that need none of the demo itself."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import msgspec

from kontobahn.settings import Settings


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
