"""The edges of what a browser may send: the first and last day of the calendar on every page, and answers nested without end."""

from __future__ import annotations

import inspect
import re
import sys
from datetime import date
from functools import cache
from typing import Any, get_type_hints

import msgspec
import pytest

from kontobahn.dashboard.pages import every_page
from tests.bank_builder import Bank, facts
from tests.dashboard.browsing import Browser
from tests.harness import Organization, Service
from tests.ledger_builder import Books

DAYS = ("0001-01-01", "9999-12-31")
MODULES = {page.handler.__module__ for page in every_page()}


@cache
def fields_of_days() -> frozenset[str]:
    """The names of all fields that pages take a day in."""
    structs: list[Any] = [
        item
        for module in MODULES
        for item in vars(sys.modules[module]).values()
        if inspect.isclass(item) and issubclass(item, msgspec.Struct) and item.__module__ == module
    ]
    kinds = [item for struct in structs for item in get_type_hints(struct).items()]
    return frozenset(name for name, kind in kinds if kind in (date, date | None))


@pytest.fixture
def browser(service: Service) -> Browser:
    mine: Organization = service.organization(credits_granted=1_000)
    Bank(service).connected(mine, facts(1))
    Books(service, mine)
    service.user(mine, "erika@muster.example", "owner")
    found = Browser(service)
    assert found.sign_in("erika@muster.example").status_code == 303
    return found


def test_no_day_of_the_calendar_breaks_a_page(browser: Browser) -> None:
    names = fields_of_days()
    assert {"from_date", "to_date", "stichtag", "expires"} <= names
    for page in every_page():
        if page.caller == "user" and "{" not in page.path and page.method == "GET":
            for day in DAYS:
                query = "&".join(f"{name}={day}" for name in sorted(names)) + f"&month={day[:7]}"
                answer = browser.get(f"{page.path}?{query}")
                assert answer.status_code < 500, (page.path, day, answer.text[-600:])


def test_no_day_of_the_calendar_breaks_a_form(browser: Browser) -> None:
    given = {
        "name": "Ein Name",
        "role": "member",
        "amount": "1,00",
        "text": "Text",
        "account": "4210",
        "book": "Hauptkasse",
    }
    for page in every_page():
        if page.caller == "user" and "{" not in page.path and page.method == "POST" and "sign-out" not in page.path:
            for day in DAYS:
                answer = browser.post(page.path, given | dict.fromkeys(fields_of_days(), day))
                assert answer.status_code < 500, (page.path, day, answer.text[-600:])


@pytest.mark.either_engine
def test_an_answer_of_a_passkey_that_is_nested_without_end_is_refused(browser: Browser) -> None:
    for deep in ("[" * 15_000, '{"rawId":' * 1_500, '{"id":"a","rawId":"a","response":' + "[" * 15_000):
        begun = browser.post("/dashboard/sign-in/passkey/options").json()
        answer = browser.post("/dashboard/sign-in/passkey", {"ticket": begun["ticket"], "answer": deep})
        assert answer.status_code == 422, answer.text[-600:]
        shown = browser.get("/dashboard/profile/second-factor/passkey").text
        ticket = re.search(r'name="ticket" value="([^"]+)"', shown)
        assert ticket is not None
        made = {"ticket": ticket[1], "answer": deep, "name": "Telefon"}
        answer = browser.post("/dashboard/profile/second-factor/passkey", made)
        assert answer.status_code == 422, answer.text[-600:]
