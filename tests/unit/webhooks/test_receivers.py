"""A change to one receiver of events is in the log and changes no other, of this organisation or of another."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kontobahn.access import audit
from kontobahn.access.principal import Principal
from kontobahn.db import Tx
from kontobahn.sentences import Sentence
from kontobahn.webhooks import claims, endpoints, entries, outbox, receiver
from kontobahn.webhooks.endpoints import Wanted
from kontobahn.webhooks.receiver import ReceiverKey
from tests.harness import ACTOR, Organization, Service

# What both engines do alike is tried on one; tests/api/webhooks has both.
pytestmark = pytest.mark.parametrize("engine", ["sqlite"], indirect=True)
URL = "https://receiver.example/hook"
TABLES = ("webhook_receivers", "webhook_deliveries", "webhook_lanes")


class House:
    """Two organisations with the one URL and two endpoints each, all at the same address, and an event that waits for each."""

    def __init__(self, service: Service) -> None:
        self.service, self.db, self.vault = service, service.db, service.vault
        self.mine, self.other = service.organization("Meine"), service.organization("Andere")
        self.principal = Principal(self.mine.id, "admin", (self.mine.id,))
        for owner in (self.other, self.mine):
            self.db.write_now(endpoints.set_url, self.vault, owner.id, URL, ACTOR)
        made = [
            self.db.write_now(endpoints.create, self.vault, owner.id, Wanted(URL), ACTOR)[0]
            for owner in (self.other, self.other, self.mine, self.mine)
        ]
        self.emit(self.other)
        self.emit(self.mine)
        self.endpoint = made[2]
        self.one_url = ReceiverKey(self.mine.id, outbox.WEBHOOK_URL)

    def emit(self, owner: Organization, subject: str = "payment:1") -> None:
        self.db.write_now(outbox.emit, owner.id, "payment_update", subject, {})

    def everything(self) -> set[tuple[Any, ...]]:
        return self.db.read_now(
            lambda tx: {(table, *row) for table in TABLES for row in tx.all(f"SELECT * FROM {table}")}
        )

    def waiting(self, key: ReceiverKey) -> int:
        sql = "SELECT COUNT(*) FROM webhook_deliveries WHERE organization_id = ? AND receiver_id = ? AND state = 'pending'"
        return int(self.db.read_now(lambda tx: tx.all(sql, *key))[0][0])


@pytest.fixture
def house(service: Service) -> House:
    return House(service)


def change(tx: Tx, house: House) -> None:
    endpoints.change(tx, house.principal, house.endpoint.id, Wanted(f"{URL}/new"), ACTOR)


def pause(tx: Tx, house: House) -> None:
    endpoints.pause(tx, house.principal, house.endpoint.id, ACTOR)


def rotate(tx: Tx, house: House) -> None:
    endpoints.rotate_secret(tx, house.vault, house.principal, house.endpoint.id, overlap_hours=1, actor=ACTOR)


def delete(tx: Tx, house: House) -> None:
    endpoints.delete(tx, house.principal, house.endpoint.id, ACTOR)


def set_url(tx: Tx, house: House) -> None:
    endpoints.set_url(tx, house.vault, house.mine.id, f"{URL}/new", ACTOR)


def clear_url(tx: Tx, house: House) -> None:
    endpoints.set_url(tx, house.vault, house.mine.id, None, ACTOR)


def rotate_url(tx: Tx, house: House) -> None:
    endpoints.rotate_secret_of_url(tx, house.vault, house.mine.id, overlap_hours=1, actor=ACTOR)


def url_is_gone(tx: Tx, house: House) -> None:
    assert receiver.note_gone(tx, house.one_url, URL)


@pytest.mark.parametrize("act", [change, pause, rotate, delete, set_url, clear_url, rotate_url, url_is_gone])
def test_a_change_is_logged_and_reaches_one_receiver(house: House, act: Callable[[Tx, House], None]) -> None:
    receiver_id = house.endpoint.id if act in (change, pause, rotate, delete) else outbox.WEBHOOK_URL
    house.service.clock.advance(seconds=60)
    before, log = house.everything(), len(house.db.read_now(audit.entries, house.mine.id))
    house.db.write_now(act, house)
    changed = before ^ house.everything()
    assert changed
    assert [row for row in changed if not {house.mine.id, receiver_id} <= set(row)] == []
    assert len(house.db.read_now(audit.entries, house.mine.id)) == log + 1


def test_nothing_waits_for_a_receiver_that_is_gone(house: House) -> None:
    assert house.waiting(house.one_url) == house.waiting(ReceiverKey(house.mine.id, house.endpoint.id)) == 1
    house.db.write_now(delete, house)
    house.db.write_now(url_is_gone, house)
    assert house.waiting(house.one_url) == house.waiting(ReceiverKey(house.mine.id, house.endpoint.id)) == 0


def test_an_answer_says_something_of_its_own_receiver_alone(house: House) -> None:
    def changed_by(note: Callable[[Tx], Any]) -> set[ReceiverKey]:
        before = house.everything()
        house.db.write_now(note)
        return {ReceiverKey(row[1], row[2]) for row in before ^ house.everything()}

    keys = [
        ReceiverKey(*row)
        for row in house.db.read_now(lambda tx: tx.all("SELECT organization_id, id FROM webhook_receivers"))
    ]
    assert len(keys) == 6
    for key in keys:
        assert changed_by(lambda tx: receiver.note_failure(tx, key, URL, pause_days=5)) == {key}  # noqa: B023
    for key in keys:
        assert changed_by(lambda tx: receiver.note_success(tx, key, URL)) == {key}  # noqa: B023


def test_a_claimed_lane_keeps_its_event_and_a_free_one_begins_with_the_earliest(house: House) -> None:
    def lane() -> tuple[Any, ...]:
        sql = "SELECT head, next_at FROM webhook_lanes WHERE organization_id = ? AND receiver_id = ?"
        return tuple(house.db.read_now(lambda tx: tx.all(sql, *house.one_url))[0])

    def later(sequence: int) -> None:
        house.service.clock.advance(seconds=1)
        house.db.write_now(outbox.deliver_later, *house.one_url, sequence, "payment:1")

    def claim(owner: str | None) -> None:
        house.db.write_now(lambda tx: tx.run("UPDATE webhook_lanes SET owner = ?, head = 5", owner))

    house.emit(house.mine)
    first = lane()
    claim("one")
    for sequence in (1, 2):
        later(sequence)
        assert lane() == (5, first[1])
    claim(None)
    later(2)
    assert lane() == (2, house.service.clock.now())
    since = house.service.clock.now()
    later(1)
    assert lane() == (1, house.service.clock.now())
    later(2)
    assert lane() == (1, since + 1_000_000)


def test_whoever_delivers_hears_at_once_of_a_receiver_that_is_resumed(house: House) -> None:
    heard: list[str] = []
    house.db.write_now(pause, house)
    stop = house.db.listen(outbox.CHANNEL, lambda: heard.append("woken"))
    house.db.write_now(endpoints.resume, house.principal, house.endpoint.id, ACTOR)
    stop()
    assert heard == ["woken"]


def test_the_backlog_is_what_waits_and_since_when(house: House) -> None:
    assert house.db.read_now(outbox.measure_backlog) == (6, 0.0)
    house.service.clock.advance(seconds=90)
    house.db.write_now(url_is_gone, house)
    assert house.db.read_now(outbox.measure_backlog) == (5, 90.0)
    house.db.write_now(lambda tx: tx.run("UPDATE webhook_deliveries SET state = 'delivered'"))
    assert house.db.read_now(outbox.measure_backlog) == (0, 0.0)


@pytest.mark.parametrize(
    ("status", "reason", "code"),
    [
        (500, "The receiver answered 500.", "The receiver answered {status}."),
        (None, "No complete answer within 5 seconds.", "No complete answer within {seconds} seconds."),
    ],
)
def test_a_reason_that_was_stored_can_be_translated(engine: str, status: int | None, reason: str, code: str) -> None:
    shown = entries._with_reason(entries.Attempt(1, 0, 5_012, status, reason)).reason
    assert isinstance(shown, Sentence)
    assert (shown, shown.code) == (reason, code)
    assert entries._with_reason(entries.Attempt(1, 0, 5_012, 200, None)).reason is None


def test_a_secret_opens_for_its_own_receiver_alone(house: House) -> None:
    """As it was sealed by earlier versions: for the one URL without its name."""
    for receiver_id, whose in ((outbox.WEBHOOK_URL, "o"), ("e", "o e")):
        sealed = receiver.seal(house.vault, "o", receiver_id, "whsec_x")
        assert house.vault.open(sealed, f"webhook_endpoints {whose}") == b"whsec_x"


@pytest.mark.parametrize("places", range(8))
@pytest.mark.parametrize("receivers", [1, 2, 3, 5])
def test_places_are_shared_equally(engine: str, places: int, receivers: int) -> None:
    due = [claims._Due("o", str(number), URL, b"", None, None, None) for number in range(receivers)]
    capacity = claims.Capacity(places, 0, 100, 100, {}, (), frozenset())
    shares = [share for _, share in claims._shares(due, places, capacity)]
    assert sum(shares) == places
    assert len(shares) == min(places, receivers)
    assert not shares or max(shares) - min(shares) <= 1
