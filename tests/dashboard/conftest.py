"""An organisation and somebody of it who is signed in; a module that needs another role or more in place has its own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kontobahn.access.identity_provider import IdentityProvider
from simulators.identity_provider import Provider, running
from tests.dashboard import provider_guest
from tests.dashboard.browsing import Browser
from tests.dashboard.provider_guest import Guest, provider_for
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


@pytest.fixture
def provider(service: Service) -> Iterator[Provider]:
    """An identity provider that knows Erika, and that nothing wrong was sent to."""
    with running(provider_for(service)) as made:
        made.add("erika-1", email=provider_guest.EMAIL, email_verified=True, name="Erika\n Muster")
        yield made
        assert made.faults == []
        service.run(service.application.context.part(IdentityProvider).close())


@pytest.fixture
def guest(service: Service) -> Guest:
    return Guest(service)
