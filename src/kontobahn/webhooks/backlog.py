"""How many events wait for their delivery, and for how long: for metrics."""

from __future__ import annotations

from kontobahn.clock import SECOND
from kontobahn.db import Tx
from kontobahn.metrics import Backlog

# Counting more would cost more than the figure is worth.
MAX_COUNTED = 100_000


def measure(tx: Tx) -> Backlog:
    waiting = tx.one(
        f"SELECT COUNT(*), MIN(due_at) FROM (SELECT due_at FROM webhook_deliveries WHERE state = 'pending' LIMIT {MAX_COUNTED}) w"
    )
    assert waiting is not None
    events, due_at = waiting
    return Backlog(int(events), 0.0 if due_at is None else max(0, tx.now - int(due_at)) / SECOND)
