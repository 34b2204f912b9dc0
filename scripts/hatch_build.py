"""Puts the guide's Markdown into the wheel. A checkout reads it where it is written, so an editable installation has no copy."""

from __future__ import annotations

from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class DocsHook(BuildHookInterface[Any]):
    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if version != "editable":
            build_data["force_include"]["docs"] = "kontobahn/docs"
