"""Events are written with the change they tell of, numbered in the order of the commits, and kept for their time."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from typing import Any

import msgspec
import pytest

from kontobahn.clock import DAY
from kontobahn.db import Tx
from kontobahn.webhooks import endpoints, outbox
from kontobahn.webhooks.entries import Entry, Filter, walk
from tests.harness import ACTOR, Organization, Service
from tests.waiting import take_time


def emit(service: Service, owner: Organization, subject: str = "payment:1", **data: Any) -> str:
    return service.db.write_now(outbox.emit, owner.id, "payment_update", subject, data)


def log(service: Service, owner: Organization, cursor: int = 0) -> list[Entry]:
    return service.db.read_now(walk, owner.id, Filter(), cursor=cursor, newest_first=False, limit=10_000)


def _everything(tx: Tx, table: str) -> list[Any]:
    return tx.all(f"SELECT * FROM {table}")


def test_an_event_is_there_with_its_change_or_not_at_all(service: Service) -> None:
    owner = service.organization()

    def change_and_fail(tx: Tx) -> None:
        outbox.emit(tx, owner.id, "payment_update", "payment:1", {})
        raise LookupError("the change failed")

    with pytest.raises(LookupError):
        service.db.write_now(change_and_fail)
    assert log(service, owner) == []
    emit(service, owner)
    assert [entry.sequence for entry in log(service, owner)] == [1]


def test_the_body_is_exactly_the_envelope(service: Service) -> None:
    class Data(msgspec.Struct, omit_defaults=True):
        payment_id: str
        balance: Decimal
        custom_fields: dict[str, Any] | None = None

    owner = service.organization()
    service.db.write_now(outbox.emit, owner.id, "payment_update", "payment:17", Data("17", Decimal("10.50")))
    assert log(service, owner)[0].body == (
        '{"event":"payment_update","data":{"payment_id":"17","balance":10.50},"received_at":"2026-03-02T09:00:00Z"}'
    )


def test_without_a_url_events_are_logged_and_nothing_waits(service: Service) -> None:
    owner = service.organization()
    emit(service, owner)
    assert [entry.state for entry in log(service, owner)] == ["none"]
    assert service.db.read_now(lambda tx: tx.all("SELECT * FROM webhook_lanes")) == []


def test_a_reader_walking_the_log_misses_none_however_many_write(service: Service) -> None:
    owner = service.organization()
    writers, each = 8, 25
    done = threading.Event()

    def write(number: int) -> None:
        def unit(tx: Tx, event: int) -> None:
            if event % 2:
                take_time(0.002)  # before the number is taken
            outbox.emit(tx, owner.id, "payment_update", f"payment:{number}", {"n": event})
            if not event % 3:
                take_time(0.003)  # and after it: whoever got the next number must not commit before

        for event in range(each):
            service.db.write_now(unit, event)

    def walk() -> list[int]:
        seen: list[int] = []
        while True:
            last = done.is_set()
            seen += [entry.sequence for entry in log(service, owner, seen[-1] if seen else 0)]
            if last:
                return seen

    with ThreadPoolExecutor(writers + 1) as threads:
        reader = threads.submit(walk)
        for writing in [threads.submit(write, number) for number in range(writers)]:
            writing.result()
        done.set()
        assert reader.result() == list(range(1, writers * each + 1))


def test_organisations_count_their_own_events(service: Service) -> None:
    one, other = service.organization("Eine"), service.organization("Andere")
    emit(service, one)
    emit(service, other)
    assert [entry.sequence for entry in log(service, other)] == [1]


def test_events_are_forgotten_after_their_time_delivered_or_not(service: Service) -> None:
    owner = service.organization()
    service.db.write_now(endpoints.set_url, service.vault, owner.id, "https://receiver.example/", ACTOR)
    emit(service, owner, "payment:1")
    service.clock.advance(seconds=29 * 86400)
    young = emit(service, owner, "payment:1")
    service.clock.advance(seconds=86400)
    assert service.db.write_now(outbox.purge, days=30) == 1
    assert service.db.write_now(outbox.purge, days=30) == 0
    assert [entry.id for entry in log(service, owner)] == [young]
    # What waited behind the one that is forgotten comes next.
    assert service.db.read_now(lambda tx: tx.all("SELECT head, next_at FROM webhook_lanes")) == [
        (2, service.clock.now() - DAY)
    ]
    service.clock.advance(seconds=30 * 86400)
    service.db.write_now(outbox.purge, days=30)
    for table in ("webhook_events", "webhook_deliveries", "webhook_attempts", "webhook_lanes"):
        assert service.db.read_now(_everything, table) == [], table


def test_a_listener_hears_of_a_commit_and_not_of_a_failure(service: Service) -> None:
    owner = service.organization()
    heard: list[int] = []
    stop = service.db.listen(outbox.CHANNEL, lambda: heard.append(len(log_now())))

    def log_now() -> list[Any]:
        # On SQLite the writer's own thread tells us, and must not wait for itself: a read is another thread's work.
        return log(service, owner)

    def fail(tx: Tx) -> None:
        outbox.emit(tx, owner.id, "payment_update", "payment:1", {})
        raise LookupError

    with pytest.raises(LookupError):
        service.db.write_now(fail)
    assert heard == []
    emit(service, owner)
    assert heard == [1], "told after the commit: what it tells of can be read"
    stop()
    emit(service, owner)
    assert heard == [1]
