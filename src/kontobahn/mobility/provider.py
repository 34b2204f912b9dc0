"""The port: what a ticket platform must offer. Our own store of tickets is one adapter, a CSV file another.

A platform reports what it has sold and what was cancelled since; it does not invoice, number or charge. It may repeat itself: a
ticket is identified by its reference and billed once. A platform that cannot be reached raises Unavailable.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from kontobahn.mobility.tickets import TicketReport


class PlatformCustomer(NamedTuple):
    """A customer as its platform knows it."""

    organization_id: str
    id: str
    mobility_customer_id: str | None


class TicketPlatform(Protocol):
    name: str

    async def tickets(self, customer: PlatformCustomer) -> Sequence[TicketReport]:
        """Returns every ticket that may have to be billed or credited and is not in our store yet.

        Empty for a platform that reports sales as they happen.
        """


class Mobility(NamedTuple):
    """The mobility area's part of the application: its platforms by name."""

    platforms: dict[str, TicketPlatform]
