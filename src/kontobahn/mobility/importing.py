"""Takes the tickets of a file into the store: whole or not at all (or, if asked, without the refused rows), and none twice."""

from __future__ import annotations

from typing import NamedTuple

from kontobahn.db import Tx
from kontobahn.errors import Refusal
from kontobahn.mobility import customers, tickets
from kontobahn.mobility.provider import TicketReport
from kontobahn.mobility.tickets import Refused


class Report(NamedTuple):
    """What became of a file."""

    taken: int
    unchanged: int
    refused: list[Refused]


class ImportRefused(Refusal):
    """Rows were refused and nothing was taken."""

    status = 400

    def __init__(self, report: Report) -> None:
        rows = "1 row was" if len(report.refused) == 1 else f"{len(report.refused)} rows were"
        super().__init__(f"{rows} refused; nothing was taken.")
        self.report = report


def take(tx: Tx, customer_id: str, reports: list[TicketReport], unreadable: list[Refused], *, partial: bool) -> Report:
    """One unit of work: the tickets, or ImportRefused with every refused row."""
    customer = customers.find_for_operator(tx, customer_id)
    outcome = tickets.merge(tx, customer, reports, repeats=True)
    refused = sorted([*unreadable, *outcome.refused])
    if refused and not partial:
        raise ImportRefused(Report(0, 0, refused))
    return Report(len(outcome.taken), outcome.unchanged, refused)
