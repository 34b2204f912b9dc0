"""An organisation and somebody of it who is signed in; a module that needs another role or more in place has its own."""

from __future__ import annotations

import pytest

from tests.dashboard.browsing import Browser
from tests.harness import Organization, Service
from tests.ledger_builder import Books

EMAIL = "erika@muster.example"


@pytest.fixture
def muster(service: Service) -> Organization:
    organization = service.organization()
    service.user(organization, EMAIL, "member")
    return organization


@pytest.fixture
def browser(service: Service, muster: Organization) -> Browser:
    found = Browser(service)
    assert found.sign_in(EMAIL).status_code == 303
    return found


@pytest.fixture
def books(service: Service, muster: Organization, request: pytest.FixtureRequest) -> Books:
    """Books with the postings of the module."""
    made = Books(service, muster)
    made.post(request.module.POSTINGS)
    return made
