"""Shared by the tests of statement files: read all of one, or the error it is refused with."""

from __future__ import annotations

import io
from typing import Any

import pytest

from kontobahn.formats.bank_files import read
from kontobahn.formats.statements import Closing, Entry, Item, Opening, StatementError


def read_all(data: bytes, name: str = "auszug.xml", **options: Any) -> list[Item]:
    return list(read(io.BytesIO(data), name, **options))


def entries(data: bytes, **options: Any) -> list[Entry]:
    return [item for item in read_all(data, **options) if isinstance(item, Entry)]


def entry(data: bytes, **options: Any) -> Entry:
    (found,) = entries(data, **options)
    return found


def opening(data: bytes, **options: Any) -> Opening:
    return next(item for item in read_all(data, **options) if isinstance(item, Opening))


def closings(data: bytes, **options: Any) -> list[Closing]:
    return [item for item in read_all(data, **options) if isinstance(item, Closing)]


def refused(data: bytes, **options: Any) -> StatementError:
    with pytest.raises(StatementError) as caught:
        read_all(data, **options)
    return caught.value
