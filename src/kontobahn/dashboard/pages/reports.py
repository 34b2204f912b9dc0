"""The sheets of the books on one page: which there are, each to look at, to print and to count with."""

from __future__ import annotations

from typing import NamedTuple

from starlette.responses import Response

from kontobahn.dashboard import books
from kontobahn.dashboard.declare import ROOT, page
from kontobahn.dashboard.visit import Visit
from kontobahn.dashboard.words import N_


class Report(NamedTuple):
    title: str
    text: str
    path: str
    icon: str


REPORTS = (
    Report(N_("Profit and loss"), N_("Revenue, cost and result by month (BWA)."), "/reports/profit-and-loss", "pulse"),
    Report(N_("VAT figures"), N_("Output tax, input tax, and what is to be paid."), "/reports/vat", "coin"),
    Report(N_("Trial balance"), N_("Every account with its turnover and balance."), "/trial-balance", "scale"),
    Report(N_("Journal"), N_("Every booking in the order in which it was booked."), "/reports/journal", "book"),
    Report(N_("Open items"), N_("Partners who owe or are owed, by age."), "/open-items", "people"),
    Report(N_("Due dates"), N_("Documents by the day on which they are due."), "/open-items/due", "clock"),
)


@page("/reports", help="reports")
async def report_list(visit: Visit) -> Response:
    return visit.show("reports.html", chosen=await books.choose(visit), reports=REPORTS, root=ROOT)
