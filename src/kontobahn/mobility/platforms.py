"""Adapters of the ticket port: our own store of tickets, and a CSV file. Only app, command line and demo may name one."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

from kontobahn.errors import Conflict
from kontobahn.mobility.customers import OWN_PLATFORM
from kontobahn.mobility.ticket_file import TicketFile, read
from kontobahn.mobility.tickets import PlatformCustomer, TicketReport
from kontobahn.sentences import said


class OwnTickets:
    """The built-in platform: tickets enter our own store by call or by file, so there is nothing to ask for."""

    name = OWN_PLATFORM

    async def tickets(self, customer: PlatformCustomer) -> Sequence[TicketReport]:
        return ()


class CsvTickets:
    """A file as a ticket platform. Its tickets have no reference unless it has a column for them."""

    name = "csv"

    def __init__(self, path: Path) -> None:
        self._path = path

    def content(self) -> TicketFile:
        return read(self._path.read_bytes())

    async def tickets(self, customer: PlatformCustomer) -> Sequence[TicketReport]:
        found = await asyncio.to_thread(self.content)
        if found.refused:
            # Half a file must not be billed as if it were the whole.
            line, column, reason = found.refused[0]
            raise Conflict(
                said(
                    "{file} has rows that cannot be read; the first is line {line}: {column} {why}.",
                    file=self._path.name,
                    line=line,
                    column=column,
                    why=reason,
                )
            )
        return found.reports
