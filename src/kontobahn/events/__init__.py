"""The event log and the receiver's settings over HTTP: what is about to be delivered, what was, and where to.

Writing and delivering events is `webhooks/`, below. Nothing here knows what an event is about.
"""

from __future__ import annotations

from typing import NamedTuple

from kontobahn.events.watch import Watch
from kontobahn.outbound import OutboundClient


class Events(NamedTuple):
    """The event log's part of the application."""

    outbound: OutboundClient
    watch: Watch
