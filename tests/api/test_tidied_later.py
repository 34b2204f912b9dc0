"""A call that fails while the database is away frees its idempotency key and its credits as soon as the database is back."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from kontobahn import credits
from kontobahn.api import call, idempotency
from kontobahn.db.database import Unit
from kontobahn.errors import DatabaseUnavailable
from tests.api.test_idempotency import PRICE, invite
from tests.harness import Service, ServiceFactory
from tests.waiting import PAUSE_SECONDS, eventually


@pytest.fixture
def engine() -> str:
    return "sqlite"


@contextmanager
def away(service: Service) -> Iterator[None]:
    """The database is away for all but what a call begins with: its key and its credits."""
    engine: Any = service.db.engine
    submit = engine.submit

    def refuse(unit: Unit, **options: Any) -> None:
        if unit.fn in (idempotency.begin, credits.reserve):
            submit(unit, **options)
        else:
            unit.promise.settle(None, DatabaseUnavailable("away"))

    engine.submit = refuse
    try:
        yield
    finally:
        engine.submit = submit


def test_what_a_call_held_is_free_once_the_database_is_back(
    start_service: ServiceFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(call, "PAUSE_SECONDS", PAUSE_SECONDS)
    service = start_service(**PRICE)
    mine = service.organization()
    with away(service):
        assert invite(service, mine).status_code == 503
        still = invite(service, mine)
        assert (still.status_code, still.headers["retry-after"]) == (409, "1")
    assert service.balance(mine).spent == 0
    # Long before their leases end: the clock of this service stands still.
    done = eventually(lambda: (answer := invite(service, mine)).status_code != 409 and answer)
    assert done
    assert (done.status_code, done.headers["x-credits-charged"]) == (201, "2")
    eventually(lambda: service.balance(mine).reserved == 0)
    assert service.balance(mine).spent == 2


def test_what_waits_is_bounded(
    start_service: ServiceFactory, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(call, "PAUSE_SECONDS", PAUSE_SECONDS)
    monkeypatch.setattr(call, "MAX_WAITING", 1)
    service = start_service(**PRICE)
    mine = service.organization()
    with away(service):
        assert invite(service, mine).status_code == 503
    # Of the two, the credits came first and are given back; the key is left to expire.
    eventually(lambda: service.balance(mine).reserved == 0)
    assert invite(service, mine).status_code == 409
    assert "idempotency_key_left_to_expire" in capfd.readouterr().err
