"""Modules of ours that run as processes of their own. They need no secret and no database, so they get no settings."""

from __future__ import annotations

import os
import sys


def command(module: str, *arguments: str) -> list[str]:
    return [sys.executable, "-m", module, *arguments]


def environment() -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("KONTOBAHN_")}
    # Two arenas: others would be reserved and never used.
    return {**kept, "MALLOC_ARENA_MAX": "2", "PYTHONPATH": os.pathsep.join(sys.path)}
