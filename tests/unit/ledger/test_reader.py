"""Whoever reads the rows of a file, this process or a child, finds the same; and what the child does not send is read here."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from contextlib import closing
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from kontobahn import children
from kontobahn.books import reader
from kontobahn.books.content import Content
from kontobahn.books.reader import Row, Wanted, rows_of
from kontobahn.books.satz import Satz
from kontobahn.formats.extf import ExtfFile, RowError, RowWarning, open_extf
from kontobahn.sentences import Sentence
from tests.unit.formats.extf.files import satz, text_of
from tests.waiting import eventually

WANTED = Wanted(Satz._fields, "0000")
# More than one frame of them, and of every kind: accepted, warned about, refused, empty, with quotes and characters of its encoding.
ROWS = [
    *(satz(f"{number},00;S;;;;;{10010 + number % 3};8400;;1503;RE-{number};;;Käse {number}") for number in range(1, 600)),
    satz("0,00;S;;;;;10001;8400;;1503;RE-0;;;Null"),
    satz("1,00;;;;;;10001;8400;;1503;RE 1;;;ohne Zeichen"),
    "",
    '12,00;S;;;;;10001;8400;;1503;"RE-2";;;"Firma ""Nord"" GmbH"',
    satz("7,00;S;USD;1,1;6,36;EUR;10001;8400;;1503;RE-3;;;Fremdwährung"),
    satz("7,00;S;;;;;10001;8400;;9999;RE-4;;;kein Tag"),
]  # fmt: skip
DATA = text_of(*ROWS).encode("cp1252")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "EXTF_Buchungsstapel.csv"
    path.write_bytes(DATA)
    return path


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[subprocess.Popen[bytes]]:
    """Every file is read by a child; these were started."""
    monkeypatch.setattr(reader, "APART_FROM_BYTES", 0)
    found: list[subprocess.Popen[bytes]] = []

    class Noted(subprocess.Popen[bytes]):
        def __init__(self, *args: Any, **options: Any) -> None:
            super().__init__(*args, **options)
            found.append(self)

    monkeypatch.setattr(subprocess, "Popen", Noted)
    return found


def read(file: ExtfFile) -> tuple[list[Row], str]:
    content = Content(file.header)
    rows: list[Row] = [
        (line, row if isinstance(row, RowError | RowWarning) else tuple(row))
        for line, row in rows_of(file, WANTED, content)
    ]
    return rows, content.digest()


def here() -> tuple[list[Row], str]:
    """Returns what this process finds in a file that no other one can read."""
    with open_extf(io.BytesIO(DATA)) as file:
        return read(file)


def test_a_child_finds_what_this_process_finds(path: Path, started: list[subprocess.Popen[bytes]]) -> None:
    expected = here()
    assert started == []
    kinds = {type(row) for _, row in expected[0]}
    assert kinds == {tuple, RowError, RowWarning}
    with open_extf(path) as file:
        assert read(file) == expected
        assert file.bytes_read == file.total_bytes
    assert len(started) == 1


@pytest.mark.parametrize("encoding", ["cp1252", "utf-8", "utf-8-sig", "utf-16"])
def test_each_encoding_is_read_by_a_child(path: Path, started: list[subprocess.Popen[bytes]], encoding: str) -> None:
    path.write_bytes(text_of(*ROWS).encode(encoding))
    with open_extf(path) as file:
        assert read(file) == here()
    assert len(started) == 1


def test_sentences_that_were_found_can_still_be_translated(path: Path, started: list[subprocess.Popen[bytes]]) -> None:
    """They remember their code and values on their way from the child."""

    def found(file: ExtfFile) -> list[tuple[str, dict[str, str]]]:
        texts = [
            row.reason if isinstance(row, RowError) else row.found
            for _, row in read(file)[0]
            if isinstance(row, RowError | RowWarning)
        ]
        return [(text.code, dict(text.values)) for text in texts if isinstance(text, Sentence)]

    with open_extf(io.BytesIO(DATA)) as file:
        expected = found(file)
    with open_extf(path) as file:
        assert found(file) == expected
    assert started
    assert len(expected) > 1


def test_the_place_in_the_file_is_the_childs_own(path: Path, started: list[subprocess.Popen[bytes]]) -> None:
    """Parent and child have one place in the open file: whoever moves it must not lead the other astray."""
    expected, digest = here()
    with path.open("rb") as stream, open_extf(stream) as file:
        content, lines = Content(file.header), []
        with closing(rows_of(file, WANTED, content)) as rows:
            # Led astray, it would never end.
            for line, _ in islice(rows, len(expected) + 1):
                os.lseek(stream.fileno(), 17, os.SEEK_SET)
                lines.append(line)
        assert lines == [line for line, _ in expected]
        assert content.digest() == digest
    assert started


@pytest.mark.parametrize("frames", [0, 1, 2])
def test_what_a_child_that_ends_early_has_not_sent_is_read_here(
    path: Path, monkeypatch: pytest.MonkeyPatch, started: list[subprocess.Popen[bytes]], frames: int
) -> None:
    ending = (
        "import itertools, os; from kontobahn.books import reader; whole = reader._frames;"
        f"reader._frames = lambda *found: itertools.chain(itertools.islice(whole(*found), {frames}), [b'cut off']);"
        "length = reader._LENGTH; reader._LENGTH = type('Longer', (), {'pack': lambda self, n: length.pack(n if n > 7 else 99)})();"
        "reader.main()"
    )
    monkeypatch.setattr(children, "command", lambda module, *arguments: [sys.executable, "-c", ending, *arguments])
    with open_extf(path) as file:
        assert read(file) == here()
        assert file.bytes_read == file.total_bytes
    assert len(started) == 1


def test_a_child_that_cannot_start_is_not_needed(
    path: Path, monkeypatch: pytest.MonkeyPatch, started: list[subprocess.Popen[bytes]]
) -> None:
    monkeypatch.setattr(children, "command", lambda module, *arguments: ["/nowhere/python", *arguments])
    with open_extf(path) as file:
        assert read(file) == here()
    assert started == []


def test_a_child_ends_with_whoever_asked(path: Path, started: list[subprocess.Popen[bytes]]) -> None:
    with open_extf(path) as file, closing(rows_of(file, WANTED, Content(file.header))) as rows:
        assert len(list(islice(rows, 5))) == 5
        (child,) = started
        assert child.poll() is None or child.returncode == 0
    eventually(lambda: child.poll() is not None)
    assert child.stdout is not None
    assert child.stdout.closed
