"""What is noted of every answered call: for metrics, for usage, and for the list of requests.

Each is kept as it comes, and some are entered at a time: one after the other that takes half the processor time which it takes
between calls.
"""

from __future__ import annotations

from kontobahn.api.request_log import Noted, RequestLog
from kontobahn.api.usage import Usage
from kontobahn.metrics import Metrics

# As many as are entered in a fraction of a millisecond.
AT_ONCE = 64


class AnsweredCalls:
    def __init__(self, metrics: Metrics, usage: Usage, requests: RequestLog) -> None:
        self._metrics = metrics
        self._usage = usage
        self._requests = requests
        self._waiting: list[tuple[Noted, str | None, bool]] = []

    def note(self, noted: Noted, organization_id: str | None, *, was_run: bool) -> None:
        """`organization_id` is None if nobody was recognised; `was_run` says whether the call came as far as its handler."""
        self._waiting.append((noted, organization_id, was_run))
        if len(self._waiting) >= AT_ONCE:
            self._enter()

    def metrics(self) -> Metrics:
        """The metrics, with every call up to now."""
        self._enter()
        return self._metrics

    async def flush(self) -> None:
        """Writes what has been noted for usage and the list of requests."""
        self._enter()
        await self._usage.flush()
        await self._requests.flush()

    def _enter(self) -> None:
        waiting, self._waiting = self._waiting, []
        for noted, organization_id, was_run in waiting:
            name = noted.endpoint.name if noted.endpoint else "unknown"
            self._metrics.note(name, noted.status, noted.microseconds / 1_000_000, noted.credits)
            if organization_id is None:
                continue
            if was_run:
                self._usage.note(
                    organization_id, name, noted.key_id, noted.quelle,
                    failed=noted.status >= 400, credits=noted.credits, at=noted.at,
                )  # fmt: skip
            self._requests.note(organization_id, noted)
