"""A simulated DATEV, and an office with a connection to it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from simulators.datev import Datev
from tests.api.ledger.files import INVOICE, PAYMENT, PURCHASE, file
from tests.harness import Service
from tests.providers.datev.office import CLIENT, NewOffice, Office, running_datev


@pytest.fixture
def datev() -> Iterator[Datev]:
    with running_datev() as made:
        made.add(CLIENT).feed(file(INVOICE, PAYMENT, PURCHASE))
        yield made
        assert made.faults == []


@pytest.fixture
def new_office(service: Service, datev: Datev) -> Iterator[NewOffice]:
    made: list[Office] = []

    def make(**settings: Any) -> Office:
        made.append(Office(service, datev, **settings))
        return made[-1]

    yield make
    for office in made:
        service.run(office.provider.close())


@pytest.fixture
def office(new_office: NewOffice) -> Office:
    return new_office()
