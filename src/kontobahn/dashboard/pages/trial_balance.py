"""The trial balance, and from an account to its bookings."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from decimal import Decimal
from typing import Annotated, Any, Literal, NamedTuple

from msgspec import Meta, Struct
from starlette.responses import Response

from kontobahn import money
from kontobahn.dashboard import books, csv_file, figures
from kontobahn.dashboard.books import ChosenBooks, plain
from kontobahn.dashboard.csv_file import Cell
from kontobahn.dashboard.declare import ROOT, page
from kontobahn.dashboard.lists import AFTER, PAGE_SIZE, Rows
from kontobahn.dashboard.visit import Visit
from kontobahn.dashboard.words import _
from kontobahn.errors import BadRequest
from kontobahn.ledger.konto import SACHKONTO_DIGITS
from kontobahn.ledger.kontoblatt import SheetLine, SheetSelection
from kontobahn.ledger.routes import rewe_read
from kontobahn.ledger.routes.rewe_read import SusaQuery
from kontobahn.ledger.wire import Saldo

PATH = f"{ROOT}/trial-balance"
MAX_CSV_LINES = 100_000
_CSV_STEP = 5_000
_MONTHS, _LAST_PERIOD = 12, 13


class TrialBalanceFilter(Struct):
    connection: str = ""
    client: str = ""
    year: str = ""
    kind: Literal["ledger", "persons"] | None = None
    search: str = ""


class _Zeile(Struct):
    """A line of the call as it is shown: without the values of each period, which are most of it."""

    kontonummer: str
    kontobeschriftung: str
    saldo: Saldo
    ebWert: Saldo | None
    umsatzHaben: Decimal
    umsatzSoll: Decimal


class Line(NamedTuple):
    konto: str
    text: str
    opening: Decimal
    debit: Decimal
    credit: Decimal
    balance: Decimal


@page("/trial-balance")
async def trial_balance(visit: Visit) -> Response:
    chosen = await books.choose(visit)
    filters = visit.filters(TrialBalanceFilter)
    lines = _searched(await _read(visit, chosen), filters.wanted)
    rest = [line for line in lines if not filters.after or _place(line.konto) > _place(filters.after)]
    labels = {"kind": _("Accounts"), "search": _("Search")}
    return visit.show(
        "trial_balance.html", chosen=chosen, filters=filters, chips=filters.chips(labels, _in_words), count=len(lines),
        lines=filters.first_page(rest[: PAGE_SIZE + 1], key=lambda line: line.konto),
        debit=sum((line.debit for line in lines), Decimal()), credit=sum((line.credit for line in lines), Decimal()),
        csv=filters.csv_url(),
    )  # fmt: skip


def _in_words(name: str, text: str) -> str:
    return {"ledger": _("Ledger accounts"), "persons": _("Partners")}.get(text, text)


@page("/trial-balance.csv")
async def trial_balance_csv(visit: Visit) -> Response:
    chosen = await books.choose(visit)
    lines = _searched(await _read(visit, chosen), visit.filters(TrialBalanceFilter).wanted)
    head = [_("Account"), _("Name"), _("Opening balance"), _("Debit"), _("Credit"), _("Balance")]
    rows = [(chosen.written(line.konto), *line[1:]) for line in lines]
    return await visit.csv(f"{_('Trial balance')} {chosen.year.start.year}", head, rows)


class SheetFilter(Struct):
    connection: str = ""
    client: str = ""
    year: str = ""
    period: Annotated[int, Meta(ge=0, le=14)] | None = None


@page("/trial-balance/{konto}")
async def account_sheet(visit: Visit, konto: str) -> Response:
    chosen, filters = await books.choose(visit), visit.filters(SheetFilter)
    line = await _line_of(visit, chosen, konto)
    asked = SheetSelection(chosen.year.start, line.konto, filters.wanted.period, filters.after, PAGE_SIZE)
    sheet = await books.ask(visit, chosen, "buchungen", lambda opened: opened.account_sheet(asked))
    next_url = filters.url(**{AFTER: sheet.next}) if sheet.next else None
    return visit.show(
        "account_sheet.html", chosen=chosen, line=line, filters=filters, sheet=sheet,
        periods=[(period, _period_name(chosen, period)) for period in range(_LAST_PERIOD + 1)],
        chips=filters.chips({"period": _("Period")}, lambda _name, text: _period_name(chosen, int(text))),
        pages=Rows(sheet.lines, next_url, filters.url() if filters.after else None),
        csv=filters.url().replace(line.konto, f"{line.konto}/sheet.csv", 1),
    )  # fmt: skip


@page("/trial-balance/{konto}/sheet.csv")
async def account_sheet_csv(visit: Visit, konto: str) -> Response:
    chosen, filters = await books.choose(visit), visit.filters(SheetFilter)
    line = await _line_of(visit, chosen, konto)
    asked = SheetSelection(chosen.year.start, line.konto, filters.wanted.period, limit=_CSV_STEP)
    rows: list[tuple[Cell, ...]] = []
    while True:
        sheet = await books.ask(visit, chosen, "buchungen", lambda opened, asked=asked: opened.account_sheet(asked))  # type: ignore[misc]
        rows += [_sheet_row(chosen, one) for one in sheet.lines]
        if sheet.next is None:
            break
        if len(rows) > MAX_CSV_LINES:
            raise BadRequest(
                _("A file holds at most %(count)s lines. Choose a period.", count=figures.number(MAX_CSV_LINES))
            )
        asked = asked._replace(after=sheet.next)
    head = [
        _("Number"),
        _("Date"),
        _("Document"),
        _("Text"),
        _("Contra account"),
        _("Tax key"),
        _("Debit"),
        _("Credit"),
        _("Balance"),
    ]
    content = await asyncio.to_thread(csv_file.write, head, rows)
    return visit.download(
        content, "text/csv; charset=utf-8", f"{chosen.written(line.konto)} {chosen.year.start.year}.csv"
    )


def _sheet_row(chosen: ChosenBooks, line: SheetLine) -> tuple[Cell, ...]:
    amounts = (money.from_minor(cents) for cents in (line.soll, line.haben, line.saldo))
    contra = chosen.written(line.gegenkonto)
    return line.booking, line.belegdatum, line.belegfeld1, line.buchungstext, contra, line.bu_schluessel, *amounts


async def _line_of(visit: Visit, chosen: ChosenBooks, konto: str) -> Line:
    """Returns the account's line of the trial balance."""
    query = SusaQuery(**chosen.query, geschaeftsjahr_start_datum=chosen.year.start, kontonummer=konto)
    answer = await visit.ask(rewe_read.get_susa, query=query)
    lines = _lines(answer.data)
    if not lines:
        raise visit.principal.missing("Account")
    return lines[0]


def _period_name(chosen: ChosenBooks, period: int) -> str:
    if period == 0:
        return _("Opening balance")
    if period > _MONTHS:
        return _("Closing entries")
    months = chosen.year.start.year * 12 + chosen.year.start.month - 1 + period - 1
    return figures.months(f"{months // 12}-{months % 12 + 1:02}")


async def _read(visit: Visit, chosen: ChosenBooks) -> list[Line]:
    query = SusaQuery(**chosen.query, geschaeftsjahr_start_datum=chosen.year.start)
    answer = await visit.ask(rewe_read.get_susa, query=query)
    # A client may have tens of thousands of accounts.
    return await visit.off_loop(_lines, answer.data)


def _lines(answer: Any) -> list[Line]:
    return [_line(zeile) for zeile in plain(answer, list[_Zeile])]


def _line(zeile: _Zeile) -> Line:
    return Line(
        zeile.kontonummer, zeile.kontobeschriftung, _signed(zeile.ebWert), zeile.umsatzSoll, zeile.umsatzHaben,
        _signed(zeile.saldo),
    )  # fmt: skip


def _signed(saldo: Saldo | None) -> Decimal:
    """SOLL is positive."""
    if saldo is None:
        return Decimal()
    return saldo.betrag if saldo.sollHabenKennzeichen == "SOLL" else -saldo.betrag


def _searched(lines: Sequence[Line], wanted: TrialBalanceFilter) -> list[Line]:
    words = wanted.search.casefold().split()
    found = [line for line in lines if all(word in f"{line.konto} {line.text}".casefold() for word in words)]
    if wanted.kind is None:
        return found
    return [line for line in found if (len(line.konto) == SACHKONTO_DIGITS) is (wanted.kind == "ledger")]


def _place(konto: str) -> tuple[int, str]:
    """Ledger accounts come before person accounts."""
    return len(konto), konto
