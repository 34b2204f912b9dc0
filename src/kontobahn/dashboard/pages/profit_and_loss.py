"""Profit and loss (BWA): a month and the year up to it, line by line, with the accounts that each line is made of."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from typing import Annotated, Any, NamedTuple

from msgspec import Meta, Struct
from starlette.responses import Response

from kontobahn.dashboard import books, figures, sheets
from kontobahn.dashboard.books import MONTHS, ChosenBooks, plain
from kontobahn.dashboard.declare import page
from kontobahn.dashboard.lists import Cell
from kontobahn.dashboard.sheets import Column, Part, Sheet
from kontobahn.dashboard.visit import Visit
from kontobahn.dashboard.words import _
from kontobahn.ledger.bwa import group_of, is_profit_and_loss
from kontobahn.ledger.routes import rewe_read
from kontobahn.ledger.routes.rewe_read import BwaQuery, SusaQuery
from kontobahn.ledger.wire import Bwa, BwaZeile, SusaZeile

# Shares are of this line.
_WHOLE = "Gesamtleistung"
_CLOSING = 13


class ProfitAndLossFilter(Struct):
    connection: str = ""
    client: str = ""
    year: str = ""
    # The last period; that of today if none is named.
    until: Annotated[int, Meta(ge=1, le=14)] | None = None
    accounts: bool = False


class Account(NamedTuple):
    """An account of a line: revenue is positive, cost negative."""

    konto: str
    name: str
    of_period: Decimal
    cumulated: Decimal


class Line(NamedTuple):
    text: str
    is_sum: bool
    of_period: Decimal
    cumulated: Decimal
    # In tenths of a per cent of the total output.
    share: Decimal | None
    accounts: list[Account]


class Shown(NamedTuple):
    chosen: ChosenBooks
    until: int
    lines: list[Line]
    bwa: Bwa


async def _read(visit: Visit) -> Shown:
    chosen = await books.choose(visit)
    wanted = visit.filters(ProfitAndLossFilter).wanted
    until = wanted.until or books.present_period(chosen, visit.today)
    query = BwaQuery(**chosen.query, geschaeftsjahr_start_datum=chosen.year.start, bis_periode=until)
    found = plain((await visit.ask(rewe_read.get_bwa, query=query)).data, Bwa)
    accounts: dict[str, list[Account]] = {}
    if wanted.accounts:
        susa = await visit.ask(
            rewe_read.get_susa, query=SusaQuery(**chosen.query, geschaeftsjahr_start_datum=chosen.year.start)
        )
        accounts = await visit.off_loop(_accounts, chosen, susa.data, until)
    whole = next((line.kumuliert for line in found.zeilen if line.bezeichnung == _WHOLE), Decimal())
    return Shown(chosen, until, [_line(line, whole, accounts) for line in found.zeilen], found)


def _line(line: BwaZeile, whole: Decimal, accounts: dict[str, list[Account]]) -> Line:
    share = (line.kumuliert * 100 / whole).quantize(Decimal("0.1")) if whole else None
    of_line = [] if line.istSumme else accounts.get(line.bezeichnung, [])
    return Line(line.bezeichnung, line.istSumme, line.perioden[-1], line.kumuliert, share, of_line)


def _accounts(chosen: ChosenBooks, answer: Any, until: int) -> dict[str, list[Account]]:
    """Returns the accounts of each line by the line's name."""
    rahmen = chosen.year.kontenrahmen
    found: dict[str, list[Account]] = {}
    for line in plain(answer, list[SusaZeile]):
        if not is_profit_and_loss(rahmen, line.kontonummer):
            continue
        values = {
            one.periode: one.saldo.betrag if one.saldo.sollHabenKennzeichen == "HABEN" else -one.saldo.betrag
            for one in line.periodenwerte
            if one.periode <= until
        }
        if any(values.values()):
            account = Account(
                line.kontonummer, line.kontobeschriftung, values.get(until, Decimal()), sum(values.values(), Decimal())
            )
            found.setdefault(group_of(rahmen, line.kontonummer), []).append(account)
    return found


@page("/reports/profit-and-loss", help="profit-and-loss")
async def profit_and_loss(visit: Visit) -> Response:
    shown, filters = await _read(visit), visit.filters(ProfitAndLossFilter)
    periods = [
        month for month in range(1, MONTHS + 1) if books.month_start(shown.chosen, month) <= shown.chosen.year.end
    ]
    links = [
        (books.period_name(shown.chosen, period), filters.url(until=period), period == shown.until)
        for period in (*periods, _CLOSING)
    ]
    return visit.show(
        "profit_and_loss.html", shown=shown, chosen=shown.chosen, filters=filters, spans=links,
        period=books.period_name(shown.chosen, shown.until),
        with_accounts=filters.url(accounts=None if filters.wanted.accounts else "true"),
    )  # fmt: skip


@page("/reports/profit-and-loss.csv")
async def profit_and_loss_csv(visit: Visit) -> Response:
    shown = await _read(visit)
    return await sheets.as_csv(visit, _by_period(shown), _file_name(shown))


@page("/reports/profit-and-loss.pdf")
async def profit_and_loss_pdf(visit: Visit) -> Response:
    shown = await _read(visit)
    return await sheets.as_pdf(visit, shown.chosen.heading, _sheet(shown), _file_name(shown))


def _file_name(shown: Shown) -> str:
    return f"{_('Profit and loss')} {shown.chosen.year.start.year} {shown.until:02}"


def _by_period(shown: Shown) -> Sheet:
    """All periods beside each other: more than fits on paper."""
    periods = [books.period_name(shown.chosen, period) for period in range(1, shown.until + 1)]
    columns = [Column(_("Line"), 6), *(Column(text, right=True) for text in (*periods, _("Cumulated")))]
    rows: list[tuple[Cell, ...]] = [(line.bezeichnung, *line.perioden, line.kumuliert) for line in shown.bwa.zeilen]
    return Sheet(_("Profit and loss"), "", columns, [Part(rows)])


def _sheet(shown: Shown) -> Sheet:
    rows = list(_rows(shown))
    columns = [
        Column(_("Line"), 7), Column(books.period_name(shown.chosen, shown.until), 3, right=True),
        Column(_("Cumulated"), 3, right=True), Column(_("Share"), 2, right=True),
    ]  # fmt: skip
    strong = frozenset(place for place, (is_sum, _cells) in enumerate(rows) if is_sum)
    notes = [
        _(
            "Amounts in euros. Revenue is positive, cost negative. Shares are of the cumulated total output (Gesamtleistung)."
        )
    ]
    cells: list[tuple[Cell, ...]] = [row for _is_sum, row in rows]
    part = Part(cells, strong=strong)
    words = _(
        "Up to %(period)s of the fiscal year from %(first)s",
        period=books.period_name(shown.chosen, shown.until), first=figures.day(shown.chosen.year.start),
    )  # fmt: skip
    return Sheet(_("Profit and loss"), words, columns, [part], notes)


def _rows(shown: Shown) -> Iterator[tuple[bool, tuple[Cell, ...]]]:
    for line in shown.lines:
        yield line.is_sum, (line.text, line.of_period, line.cumulated, share_words(line.share))
        for account in line.accounts:
            text = f"\N{EM SPACE}{shown.chosen.written(account.konto)} {account.name}"
            yield False, (text, account.of_period, account.cumulated, "")


def share_words(share: Decimal | None) -> str:
    return "" if share is None else f"{figures.number(share, 1)} %"
