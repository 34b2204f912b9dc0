"""Refusals of DATEV's simulator, in the shapes of its services."""

from __future__ import annotations

import uuid
from typing import Any


class Refuse(Exception):
    def __init__(self, status: int, body: dict[str, Any], **headers: str) -> None:
        super().__init__(status)
        self.status, self.body, self.headers = status, body, headers


def fault(status: int, code: str, description: str) -> Refuse:
    """Returns a refusal as the older services make it."""
    body = {
        "error": code, "error_description": description,
        "error_uri": f"https://apps.datev.de/knowledge/help/search?q={code[1:]}", "request_id": str(uuid.uuid4()),
    }  # fmt: skip
    return Refuse(status, body)
