"""The port: what a ticket platform must offer. Our own store of tickets is one adapter of it, a CSV file another.

A platform says what it has sold and what was cancelled since; it does not invoice, number or charge. It may repeat itself: a
ticket is known by its reference and billed once. A platform that cannot be reached raises Unavailable.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from kontobahn.mobility.model import NewTicket


class PlatformCustomer(NamedTuple):
    """A customer as its platform knows it."""

    organization_id: str
    id: str
    mobility_customer_id: str | None


class TicketReport(NamedTuple):
    """A ticket as it stands on the platform now."""

    ticket: NewTicket
    is_cancelled: bool = False
    # Where it was read, for what is said of a row that is refused; 0 where there are no rows.
    line: int = 0


class TicketPlatform(Protocol):
    name: str

    async def tickets(self, customer: PlatformCustomer) -> Sequence[TicketReport]:
        """Every ticket that may have to be billed or credited and is not in our store yet. None for a platform that tells at once."""


class Mobility(NamedTuple):
    """The mobility area's part of the application: its platforms by name."""

    platforms: dict[str, TicketPlatform]
