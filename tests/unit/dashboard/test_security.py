"""The origin that forms come from, messages for the next page, cookies, and where a page may lead."""

from __future__ import annotations

from pathlib import Path

import pytest
from starlette.responses import Response

from kontobahn.dashboard.dispatch import _TITLES, _WHAT_TO_DO
from kontobahn.dashboard.security import Cookies, local_path, origin_of
from kontobahn.errors import KontobahnError, Refusal, Unavailable
from kontobahn.settings import load
from kontobahn.vault import open_vault


@pytest.fixture
def cookies(tmp_path: Path) -> Cookies:
    settings = load({}, data=str(tmp_path), base_url="https://kontobahn.example")
    return Cookies(settings, open_vault(settings))


@pytest.mark.parametrize(
    ("url", "origin"),
    [
        ("http://kontobahn.example/a", "http://kontobahn.example"),
        ("http://kontobahn.example:80", "http://kontobahn.example"),
        ("https://kontobahn.example:443", "https://kontobahn.example"),
        ("http://kontobahn.example:443", "http://kontobahn.example:443"),
        ("https://Kontobahn.example:8443", "https://kontobahn.example:8443"),
        ("http://[::1]:8080", "http://[::1]:8080"),
    ],
)
def test_an_origin_has_a_port_where_it_needs_one(url: str, origin: str) -> None:
    assert origin_of(url) == origin


def test_only_a_message_that_was_sealed_here_is_shown(cookies: Cookies) -> None:
    sealed = cookies.seal_notice("good", "Gespeichert.")
    assert cookies.open_notice(sealed) == ("good", "Gespeichert.")
    body, _, signature = sealed.partition(".")
    for forged in ("", ".", body, f"{body}.", f".{signature}", f"{body}.{signature[:-1]}", f"{body}x.{signature}"):
        assert cookies.open_notice(forged) is None, forged


@pytest.mark.parametrize(
    ("name", "value", "age"),
    [("session", "x", None), ("language", "de", 365 * 24 * 3600), ("session", "", 0), ("language", "", 0)],
)
def test_what_is_chosen_stays_a_year_and_a_session_goes_with_the_browser(
    cookies: Cookies, name: str, value: str, age: int | None
) -> None:
    response = Response()
    cookies.write(response, name, value)  # type: ignore[arg-type]
    parts = response.headers["set-cookie"].lower().split("; ")
    assert [part for part in parts if part.startswith("max-age")] == ([] if age is None else [f"max-age={age}"])
    assert {"httponly", "secure", "samesite=lax", "path=/"} <= set(parts)


@pytest.mark.parametrize(
    "wish", ["https://evil.example", "//evil.example", "/dashboard//evil", "/dashboards", "/\\evil", ""]
)
def test_no_page_leads_away(wish: str) -> None:
    assert local_path(wish, "/dashboard") == "/dashboard"


@pytest.mark.parametrize("wish", ["/dashboard", "/dashboard?a=1", "/dashboard/keys"])
def test_a_page_leads_to_our_own(wish: str) -> None:
    assert local_path(wish, "/x") == wish


def test_what_to_do_is_said_under_a_title_and_both_are_of_refusals_that_there_are() -> None:
    refusals: list[type[KontobahnError]] = [Unavailable, *Refusal.__subclasses__()]
    assert set(_WHAT_TO_DO) <= set(_TITLES) <= {kind.status for kind in refusals}
