"""The roots of all answers and bodies, and the shapes that most answers have."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Generic, TypeVar

from msgspec import Struct

T = TypeVar("T")


class Answer(Struct, kw_only=True):
    """An answer of the service. Fields that this version does not know are ignored; one of a fixed set of words is a plain
    text, because the service may learn a new word."""


class Body(Struct, kw_only=True, omit_defaults=True):
    """A body that is sent. What is left out is for the service to decide."""


class Platform(Answer, kw_only=True):
    """The credit balance after the call."""

    neuesGuthaben: int


class Data(Answer, Generic[T], kw_only=True):
    """An answer about one thing."""

    data: T
    platform: Platform | None = None


class Page(Answer, Generic[T], kw_only=True):
    """A list, or one page of it."""

    data: list[T]
    platform: Platform | None = None


class File(Struct, frozen=True):
    """A file that the service answered with."""

    content: bytes
    name: str
    media_type: str

    def save(self, folder: str | os.PathLike[str]) -> Path:
        """Writes it into the folder under its own name, and returns where it is. Raises FileExistsError if there is one."""
        path = Path(folder) / (Path(self.name).name or "download")
        with path.open("xb") as target:
            target.write(self.content)
        return path
