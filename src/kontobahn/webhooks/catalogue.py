"""The events there are, and which receivers get each."""

from __future__ import annotations

from typing import Literal, NamedTuple, get_args

EventName = Literal[
    "refresh_complete", "connection_error", "connection_destroyed", "payment_progress", "payment_update",
    "consent_expiring", "match_proposed", "match_confirmed", "match_undone", "batch_created", "webhook_test",
]  # fmt: skip
TEST_EVENT: EventName = "webhook_test"


class EventType(NamedTuple):
    name: EventName
    # Whether the contract's one URL gets it; if not, only further endpoints do, which have asked for more than the contract.
    to_webhook_url: bool = True
    # A test is sent to the receiver that is tested, whatever its filter.
    is_test: bool = False


EVENT_TYPES: dict[str, EventType] = {
    event.name: event
    for event in (
        EventType("refresh_complete"),
        EventType("connection_error"),
        EventType("connection_destroyed"),
        EventType("payment_progress"),
        EventType("payment_update"),
        EventType("consent_expiring", to_webhook_url=False),
        EventType("match_proposed", to_webhook_url=False),
        EventType("match_confirmed", to_webhook_url=False),
        EventType("match_undone", to_webhook_url=False),
        EventType("batch_created", to_webhook_url=False),
        EventType(TEST_EVENT, is_test=True),
    )
}
assert list(EVENT_TYPES) == list(get_args(EventName))
