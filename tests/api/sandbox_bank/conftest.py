"""Somebody at the sandbox bank, and the organisation that they connect it for."""

from __future__ import annotations

import pytest

from tests.harness import Organization, Service
from tests.sandbox_visitor import Visitor


@pytest.fixture
def visitor(service: Service) -> Visitor:
    return Visitor(service)


@pytest.fixture
def owner(service: Service) -> Organization:
    return service.organization()
