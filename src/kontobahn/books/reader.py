"""The rows of a Buchungsstapel, as the books take them. Those of a large file are read in a process of their own, on another core.

The child (`python -m kontobahn.books.reader`) reads the open file that it is given, and sends row after row. What it has not sent, if it
ends early or does not start, is read here.
"""

from __future__ import annotations

import io
import marshal
import os
import pickle
import resource
import signal
import struct
import subprocess
import sys
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import suppress
from itertools import islice
from operator import itemgetter
from typing import IO, Any, NamedTuple, TypeAlias

from kontobahn import children, log
from kontobahn.books.content import Content, content_of
from kontobahn.formats.extf import Buchungssatz, ExtfFile, Inspection, RowError, RowWarning, open_extf

# Some 40,000 rows: for fewer, a process of its own is not worth starting.
APART_FROM_BYTES = 8 << 20
_ROWS_AT_ONCE = 250
_LENGTH = struct.Struct(">I")

Found: TypeAlias = RowError | RowWarning
# The line, and the values that were wanted or what was found there.
Row: TypeAlias = tuple[int, Sequence[Any] | Found]


class Wanted(NamedTuple):
    """The fields of a booking, and the zeros that make its account numbers technical ones."""

    fields: tuple[str, ...]
    zeros: str


def rows_of(file: ExtfFile, wanted: Wanted, content: Content) -> Generator[Row, None, None]:
    """Yields the rows, and adds them to `content`, which is complete at the end."""
    descriptor = file.descriptor() if file.total_bytes >= APART_FROM_BYTES else None
    if descriptor is None:
        yield from _read_here(file, wanted, content)
    else:
        yield from _read_apart(file, descriptor, wanted, content)


def _read_here(file: ExtfFile, wanted: Wanted, content: Content, *, sent: int = 0) -> Iterator[Row]:
    """Yields the rows after those that were sent already."""
    values_of, picked = _values_of(wanted), content_of(wanted.fields)
    for record in islice(file.buchungssaetze(), sent, None):
        if isinstance(record, Buchungssatz):
            values = values_of(record)
            content.add(picked(values))
            yield record.line, values
        else:
            yield record.line, record


def _values_of(wanted: Wanted) -> Callable[[Buchungssatz], tuple[Any, ...]]:
    fields, zeros = wanted
    pick = itemgetter(*map(Buchungssatz._fields.index, fields))
    konto, gegenkonto = fields.index("konto"), fields.index("gegenkonto")

    def values_of(record: Buchungssatz) -> tuple[Any, ...]:
        values = [*pick(record)]
        values[konto] += zeros
        values[gegenkonto] += zeros
        return tuple(values)

    return values_of


# --- Apart


def _read_apart(file: ExtfFile, descriptor: int, wanted: Wanted, content: Content) -> Iterator[Row]:
    sent, is_complete = 0, False
    for frame in _frames_of_child(descriptor, (file.inspection, wanted)):
        file.bytes_read, rows, found, added = marshal.loads(frame)
        content.take(added)
        sent += len(rows)
        is_complete = not rows
        yield from _with_found(rows, found)
    if not is_complete:
        log.warning("file_not_read_apart", rows=sent)
        yield from _read_here(file, wanted, content, sent=sent)


def _frames_of_child(descriptor: int, request: tuple[Inspection, Wanted]) -> Iterator[bytes]:
    try:
        child = subprocess.Popen(
            children.command("kontobahn.books.reader", str(descriptor)), env=children.environment(),
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, pass_fds=[descriptor], start_new_session=True,
        )  # fmt: skip
    except OSError as error:
        log.warning("reader_not_started", detail=str(error))
        return
    with child:
        assert child.stdin is not None
        assert child.stdout is not None
        try:
            with suppress(BrokenPipeError):
                child.stdin.write(pickle.dumps(request))
                child.stdin.close()
            while (frame := _receive(child.stdout)) is not None:
                yield frame
        finally:
            child.kill()


def _receive(source: IO[bytes]) -> bytes | None:
    """Returns None if the child has ended, be it within what it sent."""
    head = source.read(_LENGTH.size)
    if len(head) < _LENGTH.size:
        return None
    (length,) = _LENGTH.unpack(head)
    frame = source.read(length)
    return frame if len(frame) == length else None


def _with_found(rows: list[tuple[int, Any]], found: bytes) -> Iterator[Row]:
    if not found:
        return iter(rows)
    # No other process can write to the pipe, so it is safe to unpickle.
    findings = iter(pickle.loads(found))
    return ((line, next(findings) if values is None else values) for line, values in rows)


# --- In the child


class _SharedFile(io.RawIOBase):
    """An open file of another process, which goes on reading it: the two share one place in it, so this keeps its own."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._position = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        assert whence == os.SEEK_SET
        self._position = offset
        return offset

    def tell(self) -> int:
        return self._position

    def readinto(self, buffer: Any) -> int:
        block = os.pread(self._descriptor, len(buffer), self._position)
        buffer[: len(block)] = block
        self._position += len(block)
        return len(block)


def main() -> None:
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    # The parent has gone if nobody reads any more.
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    inspection, wanted = pickle.loads(sys.stdin.buffer.read())
    sink = os.fdopen(os.dup(1), "wb")
    # Whatever a library prints must not get between the rows.
    os.dup2(2, 1)
    with open_extf(io.BufferedReader(_SharedFile(int(sys.argv[1]))), inspection) as file:
        for frame in _frames(file, wanted):
            sink.write(_LENGTH.pack(len(frame)) + frame)
        sink.flush()


def _frames(file: ExtfFile, wanted: Wanted) -> Iterator[bytes]:
    """Yields the rows, some at a time; none at the end."""
    content = Content(file.header)
    rows = _read_here(file, wanted, content)
    while True:
        some: list[tuple[int, Any]] = list(islice(rows, _ROWS_AT_ONCE))
        found = []
        for place, (line, values) in enumerate(some):
            if isinstance(values, RowError | RowWarning):
                found.append(values)
                some[place] = line, None
        yield marshal.dumps((file.bytes_read, some, pickle.dumps(found) if found else b"", content.give()))
        if not some:
            return


if __name__ == "__main__":
    main()
