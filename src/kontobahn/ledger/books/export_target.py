"""Where an export goes (a folder, or a zip for an answer), and its protocol: what the files could not hold, or hold differently."""

from __future__ import annotations

import zipfile
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from datetime import datetime
from pathlib import Path
from tempfile import SpooledTemporaryFile
from typing import BinaryIO, NamedTuple, Protocol, cast

from kontobahn.errors import SetupError

# Of the notes the first thousand are kept for an answer; the file has all of them.
KEPT = 1_000
_IN_MEMORY = 1024 * 1024
_BLOCK = 256 * 1024


class Target(Protocol):
    def create(self, name: str) -> AbstractContextManager[BinaryIO]:
        """A new file of this name, to write into."""


class Folder:
    """Files in a folder: all or nothing of each, and none is overwritten."""

    def __init__(self, path: Path) -> None:
        self._path = path

    @contextmanager
    def create(self, name: str) -> Iterator[BinaryIO]:
        path = self._path / name
        if path.exists():
            raise SetupError(f"{path} already exists; an export never overwrites a file.")
        unfinished = path.with_name(path.name + ".part")
        try:
            with open(unfinished, "wb") as file:
                yield file
            unfinished.replace(path)
        finally:
            unfinished.unlink(missing_ok=True)


class Archive:
    """Files in a zip, which is written from beginning to end."""

    def __init__(self, archive: zipfile.ZipFile, created: datetime) -> None:
        self._archive, self._created = archive, created

    @contextmanager
    def create(self, name: str) -> Iterator[BinaryIO]:
        # Receipts are compressed already.
        info = zipfile.ZipInfo(name, self._created.timetuple()[:6])
        info.compress_type = zipfile.ZIP_STORED if name.endswith(".zip") else zipfile.ZIP_DEFLATED
        with self._archive.open(info, "w", force_zip64=True) as file:
            yield cast(BinaryIO, file)


class Note(NamedTuple):
    """Something that is not in the files as it is in the books: two sentences, what was found and what was done."""

    file: str
    record: str
    field: str
    found: str
    done: str


class Notes:
    """The protocol, as it is being written."""

    def __init__(self) -> None:
        self.first: list[Note] = []
        self.count = 0
        self.left_out = 0
        self._spool = SpooledTemporaryFile(_IN_MEMORY)  # noqa: SIM115

    def add(self, note: Note, *, left_out: bool = False) -> None:
        self.count += 1
        self.left_out += left_out
        if len(self.first) < KEPT:
            self.first.append(note)
        place = ", ".join(filter(None, (note.record, note.field)))
        self._spool.write(f"{note.file}: {place}: {note.found} {note.done}\r\n".encode(errors="replace"))

    def write(self, target: BinaryIO, heading: str) -> None:
        told = f"{self.count} notes on what is not in the files as it is in the books:" if self.count else ""
        nothing_lost = "The files hold everything that the books hold."
        target.write(f"{heading}\r\n\r\n{told or nothing_lost}\r\n".encode())
        self._spool.seek(0)
        while block := self._spool.read(_BLOCK):
            target.write(block)
        self._spool.close()
