"""The built-in platform: tickets enter our own store by call or by file, so there is nothing to ask for."""

from __future__ import annotations

from collections.abc import Sequence

from kontobahn.mobility.provider import PlatformCustomer, TicketReport

NAME = "own"


class OwnTickets:
    name = NAME

    async def tickets(self, customer: PlatformCustomer) -> Sequence[TicketReport]:
        return ()
