"""Due dates: every open document by the day on which it is due, customers and suppliers apart."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import date, timedelta
from decimal import Decimal
from operator import attrgetter
from typing import Any, Literal, NamedTuple

from starlette.responses import Response

from kontobahn.dashboard import books, figures, sheets
from kontobahn.dashboard.books import ChosenBooks
from kontobahn.dashboard.declare import ROOT, page
from kontobahn.dashboard.lists import Filters, Rows
from kontobahn.dashboard.pages import open_items
from kontobahn.dashboard.pages.open_items import AGES, SIDES, Age, OpenItemsFilter, Settlement, Settlements, Side
from kontobahn.dashboard.pages.partner_statement import PAY, pay_key
from kontobahn.dashboard.sheets import Column, Part, Sheet
from kontobahn.dashboard.visit import Visit
from kontobahn.dashboard.words import N_, _
from kontobahn.ledger.faelligkeiten import FaelligesKonto, Faelligkeiten, age_class

PATH = f"{ROOT}/open-items/due"
When = Literal["overdue", "week", "month"]
WHEN: dict[When, str] = {"overdue": N_("overdue"), "week": N_("due within 7 days"), "month": N_("due within 30 days")}
_DAYS: dict[When, int] = {"overdue": -1, "week": 7, "month": 30}


class DueFilter(OpenItemsFilter):
    side: Side = "debitors"
    when: When | None = None
    age: Age | None = None


class Item(NamedTuple):
    """An open document. Its amount is positive if the customer owes it, or we owe it to the supplier."""

    konto: str
    name: str
    beleg: str
    day: date
    text: str
    due: date
    overdue: int
    amount: Decimal
    # Payments that were matched with it and are not in the books yet.
    settled: Settlement | None = None


_SORTS: dict[str, Callable[[Item], Any]] = {
    "due": lambda item: (item.due, item.konto, item.beleg),
    "name": lambda item: item.name.casefold(),
    "document": attrgetter("beleg"),
    "date": attrgetter("day"),
    "overdue": attrgetter("overdue"),
    "amount": attrgetter("amount"),
}
_FIRST = "due"


class Shown(NamedTuple):
    chosen: ChosenBooks
    filters: Filters[DueFilter]
    stichtag: date
    items: list[Item]
    total: Decimal


async def _read(visit: Visit) -> Shown:
    chosen = await books.choose(visit)
    filters: Filters[DueFilter] = visit.filters(DueFilter)
    found = await open_items.read(visit, chosen, filters.wanted)
    settled = await open_items.settlements_of(visit, chosen, found.konten)
    return await visit.off_loop(_shown, chosen, filters, found, settled)


def _shown(chosen: ChosenBooks, filters: Filters[DueFilter], found: Faelligkeiten, settled: Settlements) -> Shown:
    items = [
        item._replace(settled=settled.get((item.konto, item.beleg)))
        for item in _items(chosen, found.konten, filters, found.stichtag)
    ]
    return Shown(chosen, filters, found.stichtag, items, sum((item.amount for item in items), Decimal()))


def _items(
    chosen: ChosenBooks, konten: Iterable[FaelligesKonto], filters: Filters[DueFilter], stichtag: date
) -> list[Item]:
    wanted = filters.wanted
    until = stichtag + timedelta(days=_DAYS[wanted.when]) if wanted.when else None
    words = wanted.search.casefold().split()
    found = [
        Item(
            konto.kontonummer, konto.bezeichnung, posten.beleg, posten.belegdatum, posten.buchungstext, posten.faelligAm,
            posten.tageUeberfaellig, posten.saldo if konto.isDebitor else -posten.saldo,
        )
        for konto in konten
        for posten in konto.posten
        if (until is None or posten.faelligAm <= until) and wanted.age in (None, AGES[age_class(posten)][0])
    ]  # fmt: skip
    if words:
        found = [item for item in found if all(word in _text(chosen, item) for word in words)]
    return filters.in_order(found, _SORTS, _FIRST)


def _text(chosen: ChosenBooks, item: Item) -> str:
    amount = open_items.amount_words(item.amount)
    return f"{chosen.written(item.konto)} {item.name} {item.beleg} {item.text} {amount}".casefold()


@page("/open-items/due", help="due-dates")
async def due_dates(visit: Visit) -> Response:
    shown = await _read(visit)
    filters = shown.filters
    rows: Rows[Item] = filters.cut(shown.items)
    labels = {"when": _("Due"), "age": _("Age"), "stichtag": _("Cut-off date"), "search": _("Search")}
    return visit.show(
        "due_dates.html",
        may_pay=visit.may("member") and filters.wanted.side == "creditors", pay_key=pay_key, pay=PAY,
        chosen=shown.chosen, filters=filters, shown=shown, items=rows,
        sides=[(_(text), filters.url(side=side), side == filters.wanted.side) for side, text in SIDES.items()],
        spans=_spans(filters), chips=filters.chips(labels, _in_words), sorts=filters.sort_links(_SORTS, _FIRST),
    )  # fmt: skip


def _spans(filters: Filters[DueFilter]) -> list[tuple[str, str, bool]]:
    every = (_("All"), filters.url(when=None), filters.wanted.when is None)
    return [every, *((_(text), filters.url(when=when), when == filters.wanted.when) for when, text in WHEN.items())]


def _in_words(name: str, text: str) -> str:
    if name == "age":
        return next((_(words) for age, words in AGES if age == text), text)
    return _(WHEN[text]) if name == "when" and text in WHEN else text


@page("/open-items/due.csv")
async def due_dates_csv(visit: Visit) -> Response:
    shown = await _read(visit)
    return await sheets.as_csv(visit, _sheet(shown), f"{_('Due dates')} {shown.stichtag}")


@page("/open-items/due.pdf")
async def due_dates_pdf(visit: Visit) -> Response:
    shown = await _read(visit)
    return await sheets.as_pdf(visit, shown.chosen.heading, _sheet(shown), f"{_('Due dates')} {shown.stichtag}")


def _sheet(shown: Shown) -> Sheet:
    columns = [
        Column(_("Due"), 3), Column(_("Days overdue"), 3, right=True, sparse=True), Column(_("Account"), 2), Column(_("Name"), 5),
        Column(_("Document"), 4), Column(_("Document date"), 3), Column(_("Text"), 5), Column(_("Open amount"), 3, right=True),
    ]  # fmt: skip
    rows = [
        (item.due, item.overdue, shown.chosen.written(item.konto), item.name, item.beleg, item.day, item.text, item.amount)
        for item in shown.items
    ]  # fmt: skip
    part = Part(rows, _(SIDES[shown.filters.wanted.side]), [("", "", "", _("Total"), "", "", "", shown.total)])
    as_of = _("As of %(day)s", day=figures.day(shown.stichtag))
    return Sheet(_("Due dates"), as_of, columns, [part], [_("Amounts in euros.")], landscape=True)
