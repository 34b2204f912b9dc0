"""A CSV file as a ticket platform."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

from kontobahn.errors import Conflict
from kontobahn.mobility.provider import PlatformCustomer, TicketReport
from kontobahn.mobility.tickets.csv_file import TicketFile, read


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
                f"{self._path.name} has rows that cannot be read; the first is line {line}: {column} {reason}."
            )
        return found.reports
