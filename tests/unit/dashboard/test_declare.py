"""Declarations of pages: one that cannot work is refused when the service starts."""

from __future__ import annotations

from typing import Any

import pytest

from kontobahn.dashboard.declare import Options, Page, action, numeric, page
from kontobahn.errors import NotFound


async def about_nothing(visit: Any) -> None: ...


async def about_one(visit: Any, id: str) -> None: ...


def test_a_handler_takes_what_its_path_names() -> None:
    assert page("/things/{id}")(about_one).path == "/dashboard/things/{id}"
    for path, handler in (("/things/{id}", about_nothing), ("/things", about_one), ("/things/{name}", about_one)):
        with pytest.raises(TypeError, match="the handler takes"):
            page(path)(handler)


@pytest.mark.parametrize("asks", [{"confirm": True}, {"factor": True}])
def test_only_a_form_without_a_file_asks_who_it_is(asks: Options) -> None:
    assert action("/things", **asks)(about_nothing).method == "POST"
    with pytest.raises(TypeError, match="only a form without a file"):
        page("/things", **asks)(about_nothing)
    with pytest.raises(TypeError, match="only a form without a file"):
        action("/things", **Options({**asks, "takes_file": True}))(about_nothing)


def test_a_page_asks_shows_and_looks_for_nothing_that_it_does_not_say() -> None:
    made = page("/things")(about_nothing)
    assert made == Page("GET", "/dashboard/things", about_nothing, offered=made.offered)
    assert (made.caller, made.role, made.own, made.confirm, made.factor) == ("user", "read_only", False, False, False)
    assert (made.poll, made.takes_file, made.for_clients, made.help) == (0, False, False, "")
    assert action("/things")(about_nothing).role == "bookkeeping"


@pytest.mark.parametrize("text", ["0", "7", "9" * 18])
def test_a_number_in_an_address_is_one_that_a_database_can_have(text: str) -> None:
    assert numeric(text) == text


@pytest.mark.parametrize("text", ["", "x", "-1", "1.0", "²", "٣", "9" * 19])
def test_whatever_else_is_in_its_place_is_no_page(text: str) -> None:
    with pytest.raises(NotFound):
        numeric(text)
