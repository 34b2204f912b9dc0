"""The line to a bank by EBICS at a real browser: from the data sheet to the first statements, and each page about it afterwards."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser

from kontobahn.clock import to_datetime
from tests.browser.visitor import visiting
from tests.harness import running_service
from tests.providers.ebics.drawn_keys import draw_keys
from tests.providers.ebics.office import Office
from tests.providers.ebics.person import PARTNER, USER, Person, open_bank, settings_for
from tests.providers.ebics.test_signing import Desk, desk_of, order_at_bank


@pytest.fixture
def person(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Person]:
    draw_keys(monkeypatch)
    bank, line = open_bank()
    with running_service(tmp_path / "data", **settings_for(line)) as service:
        bank.now = lambda: to_datetime(service.clock.now())
        yield Person(service, service.organization("Muster GmbH"), bank, line)
    line.hang_up()


def connecting(person: Person) -> Iterator[str]:
    """Goes from page to page, and names each by its heading."""
    person.begin()
    yield "Bankparameterblatt"
    person.send_sheet()
    yield "Brief an die Bank"
    person.bank.activate(PARTNER, USER)
    person.send()
    yield "Schlüssel der Bank vergleichen"
    person.compare()
    yield "Konto verbunden"


def line_pages(desk: Desk) -> list[str]:
    """Every page of a line with an order that waits, and the file that it came from."""
    desk.post("/signing", {"allowed": "1"})
    office = desk.office
    file = office.file()
    unsent = f"/dashboard/payments/order-files/{office.file()['id']}"
    office.send(file)
    order = f"{desk.line}/orders/{order_at_bank(office).id}"
    sent = f"/dashboard/payments/order-files/{file['id']}"
    actions = (
        desk.line,
        f"{desk.line}/orders",
        f"{order}/sign",
        f"{order}/cancel",
        f"{desk.line}/keys",
        f"{desk.line}/suspend",
    )
    return [*actions, sent, unsent, f"{unsent}/submit"]


def test_every_page_of_a_line_is_accessible_and_fits(browser: Browser, person: Person) -> None:
    """In German, whose words are the longest."""
    problems = []
    with visiting(browser, person.service.base_url, locale="de") as visitor:
        for heading in connecting(person):
            visitor.page.goto(person.url)
            assert heading in visitor.page.inner_text("h1")
            problems += visitor.look_closely()
        problems += visitor.problems
    desk = desk_of(Office(person))
    pages = line_pages(desk)
    with visiting(browser, person.service.base_url, desk.signer.browser.token, locale="de") as visitor:
        for address in pages:
            visitor.open(address)
            assert visitor.page.url.endswith(address), address
            problems += visitor.look_closely()
        problems += visitor.problems
    assert not problems, "\n".join(problems)
