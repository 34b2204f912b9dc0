"""The journal: every booking of a fiscal year as it was entered, in the order in which it was booked."""

from __future__ import annotations

from datetime import date
from decimal import Decimal
from typing import Annotated, NamedTuple

from msgspec import Meta, Struct
from starlette.responses import Response

from kontobahn.dashboard import books, figures, sheets
from kontobahn.dashboard.books import ChosenBooks, plain
from kontobahn.dashboard.csv_file import Cell
from kontobahn.dashboard.declare import page
from kontobahn.dashboard.lists import PAGE_SIZE
from kontobahn.dashboard.sheets import Column, Part, Sheet
from kontobahn.dashboard.visit import Visit
from kontobahn.dashboard.words import _
from kontobahn.errors import BadRequest
from kontobahn.ledger.buchungen import Buchung

MAX_CSV_LINES = 100_000
_CSV_STEP = 5_000
_LAST_PERIOD = 13


class JournalFilter(Struct):
    connection: str = ""
    client: str = ""
    year: str = ""
    period: Annotated[int, Meta(ge=0, le=14)] | None = None


class Line(NamedTuple):
    """A booking: the account that is debited, the one that is credited, and the gross amount, negative for a Generalumkehr."""

    number: str
    day: date
    document: str
    text: str
    debit: str
    credit: str
    tax_key: str
    amount: Decimal


def _line(booking: Buchung) -> Line:
    konto, gegenkonto = booking.buchungszeilen[:2]
    # A Generalumkehr takes back from the other side.
    debits_konto = (booking.sollHabenKennzeichen == "SOLL") != booking.generalumkehr
    debit, credit = (konto, gegenkonto) if debits_konto else (gegenkonto, konto)
    amount = booking.basisUmsatz if booking.basisUmsatz is not None else konto.umsatz
    return Line(
        booking.id or "", konto.belegdatum.date(), konto.belegfeld1, booking.buchungstext, debit.kontonummer,
        credit.kontonummer, konto.buSchluessel or "", -amount if booking.generalumkehr else amount,
    )  # fmt: skip


async def _read(visit: Visit, chosen: ChosenBooks, period: int | None, after: str, limit: int) -> list[Line]:
    from_id = after if after.isascii() and after.isdigit() and len(after) < 19 else None
    found = await books.ask(
        visit, chosen, "buchungen", lambda opened: opened.buchungen(chosen.year.start, from_id, limit, period)
    )
    return [_line(booking) for booking in await visit.off_loop(plain, found, list[Buchung])]


@page("/reports/journal", help="journal")
async def journal(visit: Visit) -> Response:
    chosen, filters = await books.choose(visit), visit.filters(JournalFilter)
    found = await _read(visit, chosen, filters.wanted.period, filters.after, PAGE_SIZE + 1)
    return visit.show(
        "journal.html", chosen=chosen, filters=filters, lines=filters.first_page(found, lambda line: line.number),
        periods=[(period, books.period_name(chosen, period)) for period in range(_LAST_PERIOD + 1)],
        chips=filters.chips({"period": _("Period")}, lambda _name, text: books.period_name(chosen, int(text))),
    )  # fmt: skip


@page("/reports/journal.csv")
async def journal_csv(visit: Visit) -> Response:
    _chosen, sheet, name = await _sheet(visit, MAX_CSV_LINES)
    return await sheets.as_csv(visit, sheet, name)


@page("/reports/journal.pdf")
async def journal_pdf(visit: Visit) -> Response:
    chosen, sheet, name = await _sheet(visit, sheets.MAX_PRINTED)
    return await sheets.as_pdf(visit, chosen, sheet, name)


async def _sheet(visit: Visit, most: int) -> tuple[ChosenBooks, Sheet, str]:
    chosen, period = await books.choose(visit), visit.filters(JournalFilter).wanted.period
    lines: list[Line] = []
    while True:
        found = await _read(visit, chosen, period, lines[-1].number if lines else "", _CSV_STEP)
        lines += found
        if len(lines) > most:
            raise BadRequest(_("A file holds at most %(count)s lines. Choose a period.", count=figures.number(most)))
        if len(found) < _CSV_STEP:
            break
    columns = [
        Column(_("Number"), 2, right=True), Column(_("Date"), 3), Column(_("Document"), 4), Column(_("Text"), 8),
        Column(_("Account debited"), 3), Column(_("Account credited"), 3), Column(_("Tax key"), 2),
        Column(_("Amount"), 3, right=True),
    ]  # fmt: skip
    rows: list[tuple[Cell, ...]] = [
        line._replace(debit=chosen.written(line.debit), credit=chosen.written(line.credit)) for line in lines
    ]
    total = sum((line.amount for line in lines), Decimal())
    words = books.period_name(chosen, period) if period is not None else books.year_words(chosen)
    part = Part(rows, sums=[("", "", "", _("Sum"), "", "", "", total)])
    sheet = Sheet(_("Journal"), words, columns, [part], [_("Amounts in euros, gross as entered.")], landscape=True)
    named = f"{chosen.year.start.year}" if period is None else f"{chosen.year.start.year} {period:02}"
    return chosen, sheet, f"{_('Journal')} {named}"
