"""A service that is set up for our simulator of Salt Edge, and somebody who uses it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from kontobahn.bank_providers.salt_edge import client
from simulators.salt_edge import SaltEdge
from tests.harness import Organization, Service, ServiceFactory
from tests.providers.salt_edge.person import Person, settings_for, simulator


@pytest.fixture
def remote() -> Iterator[SaltEdge]:
    made = simulator()
    yield made
    made.stop()


@pytest.fixture
def service(start_service: ServiceFactory, remote: SaltEdge, tmp_path: Path) -> Service:
    return start_service(**settings_for(remote, remote.serve(), tmp_path))


@pytest.fixture
def owner(service: Service) -> Organization:
    return service.organization()


@pytest.fixture
def person(service: Service, owner: Organization, remote: SaltEdge) -> Person:
    return Person(service, owner, remote)


@pytest.fixture
def engine() -> str:
    """Calls to Salt Edge do not differ by engine; the journey through everything runs on both."""
    return "sqlite"


@pytest.fixture(autouse=True)
def _no_long_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """As many attempts as ever, one right after the other."""
    monkeypatch.setattr(client, "RETRY_SECONDS", (0.01,) * len(client.RETRY_SECONDS))
