"""A file of the corpus: its bytes, and what must come of them."""

from __future__ import annotations

from datetime import date
from typing import Any, NamedTuple


class Row(NamedTuple):
    """A booking as it must be read. What is None is not compared, but for `end_to_end_id`, which is."""

    amount_minor: int
    svwz: str | None = None
    name: str | None = None
    iban: str | None = None
    end_to_end_id: str | None = None
    value_date: date | None = None
    booking_date: date | None = None


class Sample(NamedTuple):
    """`warnings` are parts of the sentences, in order. `refused` is part of the refusal without `options`."""

    content: bytes
    rows: tuple[Row, ...]
    closing: int | None = None
    warnings: tuple[str, ...] = ()
    options: dict[str, Any] = {}  # noqa: RUF012 - never changed
    refused: str | None = None
    name: str = "statement.sta"
