"""Structs made from rows: fields of the same names, in the form that the struct says."""

from __future__ import annotations

from datetime import UTC, date, datetime
from typing import NamedTuple

import pytest

from kontobahn.api.answers import Charged, Data, from_row
from kontobahn.api.schemas import envelope_name
from kontobahn.api.wire import Answer, Timestamp


class Row(NamedTuple):
    organization_id: str
    id: str
    day: str
    is_open: int
    created_at: int
    settled_at: int | None
    ended_at: int | None


class ThingView(Answer):
    id: str
    day: date
    is_open: bool
    created_at: Timestamp
    settled_at: Timestamp | None
    ended_at: Timestamp | None
    note: str


ROW = Row("o", "1", "2026-03-31", 1, 1_000_000, None, 2_000_000)


def test_fields_of_the_same_name_are_taken_over_and_converted() -> None:
    assert from_row(ThingView, ROW, note="n") == ThingView(
        id="1",
        day=date(2026, 3, 31),
        is_open=True,
        created_at=datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC),
        settled_at=None,
        ended_at=datetime(1970, 1, 1, 0, 0, 2, tzinfo=UTC),
        note="n",
    )


def test_a_further_field_is_taken_as_it_is_given() -> None:
    assert from_row(ThingView, ROW, note="n", day=date(2026, 1, 1)).day == date(2026, 1, 1)


def test_a_field_that_nobody_gives_is_refused() -> None:
    with pytest.raises(TypeError, match="note"):
        from_row(ThingView, ROW)


def test_an_envelope_is_named_after_what_is_in_it() -> None:
    assert envelope_name(Data[ThingView]) == "ThingAnswer"
    assert envelope_name(Data[list[ThingView]]) == "ThingList"
    assert envelope_name(Charged[list[ThingView]]) == "ChargedThingList"
    assert envelope_name(ThingView) is None
