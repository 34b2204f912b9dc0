"""Any file a bank hands out, as a stream of what it says: by content camt, MT940 or pain.002, alone or several in a ZIP."""

from __future__ import annotations

import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import date
from tempfile import TemporaryFile
from typing import IO, BinaryIO, cast

from kontobahn.formats.camt.reader import KINDS, VERSIONS, read_camt
from kontobahn.formats.mt940.reader import read_mt940
from kontobahn.formats.pain.pain002 import read_pain002
from kontobahn.formats.statements.continuity import Tally
from kontobahn.formats.statements.model import Item, Opening, StatementError
from kontobahn.formats.statements.source import LARGEST_FILE, Source, root_of

MOST_MEMBERS = 1_000
_NO_IBANS: Mapping[str, str] = {}


def read(
    file: BinaryIO,
    name: str,
    *,
    ibans: Mapping[str, str] = _NO_IBANS,
    largest: int = LARGEST_FILE,
    allow_gaps: bool = False,
) -> Iterator[Item]:
    """The file's statements as Opening, entries and Closing, in order; a status report as one item.

    `ibans` names accounts that the file does not name by an IBAN. `largest` is in bytes, for an archive of all it holds
    together. StatementError where the file is malformed, too large, does not add up or (unless `allow_gaps`) leaves out a
    statement between two of an account.
    """
    yield from _items(Source(file, name, largest), file, ibans, largest, Tally(allow_gaps=allow_gaps))


def _items(source: Source, file: BinaryIO, ibans: Mapping[str, str], largest: int, tally: Tally) -> Iterator[Item]:
    if source.shape() != "zip":
        yield from _single(source, ibans, tally)
        return
    try:
        with _seekable(file, source) as seekable, zipfile.ZipFile(seekable) as archive:
            for member in _in_order(archive, source.name, ibans, largest):
                with archive.open(member) as content:
                    yield from _single(_source(content, source.name, member, largest), ibans, tally)
    except (zipfile.BadZipFile, NotImplementedError, RuntimeError, EOFError) as error:
        # zipfile says RuntimeError for a password and NotImplementedError for a compression it does not know.
        raise StatementError(f"The archive cannot be read: {error}.", file=source.name) from None


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
    elif root.message[:8] in KINDS and int(root.message[-2:]) in VERSIONS:
        yield from read_camt(source, root, ibans, tally)
    else:
        raise StatementError(
            f"This is a {root.message} message; camt.052, camt.053, camt.054 and pain.002 can be read.",
            file=source.name,
        )


@contextmanager
def _seekable(file: BinaryIO, source: Source) -> Iterator[IO[bytes]]:
    """The file itself, or a copy of what comes from a pipe."""
    if file.seekable():
        yield file
        return
    with TemporaryFile() as copy:
        while chunk := source.read():
            copy.write(chunk)
        yield copy


def _source(content: IO[bytes], archive: str, member: zipfile.ZipInfo, largest: int) -> Source:
    return Source(cast(BinaryIO, content), f"{archive}/{member.filename}", largest)


def _in_order(archive: zipfile.ZipFile, name: str, ibans: Mapping[str, str], largest: int) -> list[zipfile.ZipInfo]:
    """The members by the day their first statement opens with: an archive's own order need not be the bank's."""
    members = [member for member in archive.infolist() if not member.is_dir() and not _is_by_the_way(member.filename)]
    if not members:
        raise StatementError("The archive is empty.", file=name)
    if len(members) > MOST_MEMBERS:
        raise StatementError(f"The archive holds {len(members):,} files; {MOST_MEMBERS:,} are allowed.", file=name)
    # zipfile gives no more of a member than it declares, so the sum holds for what comes out as well.
    if (unpacked := sum(member.file_size for member in members)) > largest:
        raise StatementError(f"The archive unpacks to {unpacked:,} bytes; {largest:,} are allowed.", file=name)
    if len(members) == 1:
        return members
    keys = []
    for place, member in enumerate(members):
        with archive.open(member) as content:
            source = _source(content, name, member, largest)
            first = next(_single(source, ibans, Tally(allow_gaps=True)), None)
        keys.append((*_day_and_number(first), place))
    return [members[key[-1]] for key in sorted(keys)]


def _day_and_number(item: Item | None) -> tuple[date, int, int]:
    if not isinstance(item, Opening):
        return date.max, 0, 0
    start = item.balance.day if item.balance else item.from_date
    return start or date.max, item.number or 0, item.page or 0


def _is_by_the_way(name: str) -> bool:
    """What file managers leave in archives."""
    return name.startswith("__MACOSX/") or name.rpartition("/")[2].startswith(".")
