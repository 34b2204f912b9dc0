"""Reads any file that a bank hands out: camt, MT940 or pain.002, recognised by content, alone or several in a ZIP archive."""

from __future__ import annotations

import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import date
from tempfile import TemporaryFile
from typing import IO, BinaryIO, cast

from kontobahn.formats.camt import FIRST_VERSION, KINDS, read_camt
from kontobahn.formats.mt940 import read_mt940
from kontobahn.formats.pain.messages import read_pain002
from kontobahn.formats.statements import Item, Opening, StatementError, StatementWarning, Tally
from kontobahn.formats.statements.source import MAX_FILE_BYTES, Source, root_of
from kontobahn.sentences import said

MAX_MEMBERS = 1_000
_NO_IBANS: Mapping[str, str] = {}


def read(
    file: BinaryIO,
    name: str,
    *,
    ibans: Mapping[str, str] = _NO_IBANS,
    max_bytes: int = MAX_FILE_BYTES,
    unbalanced: bool = False,
    pending: bool = False,
) -> Iterator[Item]:
    """Yields each statement as its Opening, its entries and its Closing, in order; a status report is one item.

    A StatementWarning between them says what was unexpected, and what was done about it.

    `ibans` gives the IBANs of accounts that the file identifies in another way. `max_bytes` limits an archive's whole
    content. `pending`: whoever handed it out says that an MT940 holds only what is not booked yet. Raises StatementError if the
    file is malformed, too large, or does not add up (unless `unbalanced`).
    """
    source, tally = Source(file, name, max_bytes), Tally(unbalanced=unbalanced)
    if source.shape() == "mt":
        yield from read_mt940(source, ibans, tally, pending=pending)
    else:
        yield from _items(source, file, ibans, max_bytes, tally)


def _items(source: Source, file: BinaryIO, ibans: Mapping[str, str], max_bytes: int, tally: Tally) -> Iterator[Item]:
    if source.shape() != "zip":
        yield from _single(source, ibans, tally)
        return
    try:
        with _seekable(file, source) as seekable, zipfile.ZipFile(seekable) as archive:
            for member in _in_order(archive, source.name, ibans, max_bytes):
                with archive.open(member) as content:
                    yield from _single(_source(content, source.name, member, max_bytes), ibans, tally)
    except (zipfile.BadZipFile, NotImplementedError, RuntimeError, EOFError) as error:
        # zipfile raises RuntimeError for a password, and NotImplementedError for an unknown compression.
        raise StatementError(said("The archive cannot be read: {why}.", why=error), file=source.name) from None


def _single(source: Source, ibans: Mapping[str, str], tally: Tally) -> Iterator[Item]:
    shape = source.shape()
    if shape == "zip":
        raise StatementError("An archive inside an archive is not opened.", file=source.name)
    if shape == "mt":
        yield from read_mt940(source, ibans, tally)
        return
    root = root_of(source)
    if root.message.startswith("pain.002."):
        yield read_pain002(source, root)
    elif root.message[:8] in KINDS and int(root.message[-2:]) >= FIRST_VERSION:
        yield from read_camt(source, root, ibans, tally)
    else:
        raise StatementError(
            said("This is a {kind} message; camt.052, camt.053, camt.054 and pain.002 can be read.", kind=root.message),
            file=source.name,
        )
    if source.is_recoded:
        yield StatementWarning(
            source.name,
            "The text is not in the encoding that the XML declares.",
            "It was read as Windows-1252 (Latin-1), in which it makes sense.",
        )


@contextmanager
def _seekable(file: BinaryIO, source: Source) -> Iterator[IO[bytes]]:
    """Yields the file itself, or a copy if it comes from a pipe."""
    if file.seekable():
        yield file
        return
    with TemporaryFile() as copy:
        while chunk := source.read():
            copy.write(chunk)
        yield copy


def _source(content: IO[bytes], archive: str, member: zipfile.ZipInfo, max_bytes: int) -> Source:
    return Source(cast(BinaryIO, content), f"{archive}/{member.filename}", max_bytes)


def _in_order(archive: zipfile.ZipFile, name: str, ibans: Mapping[str, str], max_bytes: int) -> list[zipfile.ZipInfo]:
    """Returns the members ordered by the day on which their first statement opens: the archive's order may be another."""
    members = [member for member in archive.infolist() if not member.is_dir() and not _is_clutter(member.filename)]
    if not members:
        raise StatementError("The archive is empty.", file=name)
    if len(members) > MAX_MEMBERS:
        raise StatementError(
            said(
                "The archive holds {count} files; {most} are allowed.",
                count=f"{len(members):,}",
                most=f"{MAX_MEMBERS:,}",
            ),
            file=name,
        )
    # zipfile yields no more of a member than it declares, so the declared sum limits what is unpacked too.
    if (unpacked := sum(member.file_size for member in members)) > max_bytes:
        raise StatementError(
            said(
                "The archive unpacks to {size} bytes; {most} are allowed.", size=f"{unpacked:,}", most=f"{max_bytes:,}"
            ),
            file=name,
        )
    if len(members) == 1:
        return members
    keys = []
    for index, member in enumerate(members):
        with archive.open(member) as content:
            source = _source(content, name, member, max_bytes)
            first = _first_opening(_single(source, ibans, Tally()))
        keys.append((*_day_and_number(first), index))
    return [members[key[-1]] for key in sorted(keys)]


def _first_opening(items: Iterator[Item]) -> Item | None:
    return next((item for item in items if isinstance(item, Opening)), None)


def _day_and_number(item: Item | None) -> tuple[date, int, int]:
    if not isinstance(item, Opening):
        return date.max, 0, 0
    start = item.balance.day if item.balance else item.from_date
    return start or date.max, item.number or 0, item.page or 0


def _is_clutter(name: str) -> bool:
    """Returns whether it is one of the files that file managers leave in archives."""
    return name.startswith("__MACOSX/") or name.rpartition("/")[2].startswith(".")
