"""A bank, a service and somebody of a company for the tests of EBICS."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kontobahn.clock import to_datetime
from simulators.ebics_bank import EbicsBank, Line
from tests.harness import ServiceFactory
from tests.providers.ebics.drawn_keys import draw_keys
from tests.providers.ebics.office import Office
from tests.providers.ebics.person import Person, open_bank, service_for


@pytest.fixture(autouse=True)
def quickly_made_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    draw_keys(monkeypatch)


@pytest.fixture
def place() -> Iterator[tuple[EbicsBank, Line]]:
    bank, line = open_bank()
    yield bank, line
    line.hang_up()


@pytest.fixture
def person(start_service: ServiceFactory, place: tuple[EbicsBank, Line]) -> Person:
    service = service_for(start_service, place[1])
    place[0].now = lambda: to_datetime(service.clock.now())
    return Person(service, service.organization("Muster GmbH"), *place)


@pytest.fixture
def office(person: Person) -> Office:
    person.connect()
    return Office(person)
