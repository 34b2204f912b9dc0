"""Open items: who owes what and for how long, a statement for each partner, and the movements behind a document."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import date
from decimal import Decimal
from operator import attrgetter
from typing import Any, Literal, NamedTuple

from msgspec import Struct
from starlette.responses import Response

from kontobahn import money
from kontobahn.dashboard import books, figures, sheets
from kontobahn.dashboard.books import ChosenBooks, plain
from kontobahn.dashboard.declare import ROOT, page
from kontobahn.dashboard.lists import PAGE_SIZE, Cell, Filters, Rows
from kontobahn.dashboard.sheets import Column, Part, Sheet
from kontobahn.dashboard.visit import Visit
from kontobahn.dashboard.words import N_, _
from kontobahn.db import Tx
from kontobahn.ledger.faelligkeiten import FaelligesKonto, Faelligkeiten
from kontobahn.ledger.routes import rewe_read
from kontobahn.ledger.routes.rewe_read import OposQuery
from kontobahn.reconciliation import store
from kontobahn.reconciliation.store import Client, ItemMatch, Taken

# Payments that were matched with open items and that the books do not show yet: nobody is dunned, or paid, twice.


Key = tuple[str, str]


class Settlement(NamedTuple):
    """The part of an open item that was matched, in the sign of the item, and what is left of it."""

    amount: Decimal
    left: Decimal
    matches: list[ItemMatch]

    @property
    def is_handed_over(self) -> bool:
        return bool(self.matches) and all(match.was_handed_over for match in self.matches)


Settlements = dict[Key, Settlement]


async def settlements_of(visit: Visit, chosen: ChosenBooks, konten: Iterable[FaelligesKonto]) -> Settlements:
    """Returns what was matched with these open items, by person account and document."""
    amounts = {(konto.kontonummer, item.beleg): money.to_minor(item.saldo) for konto in konten for item in konto.posten}
    return await visit.read(_read, _client(visit, chosen), amounts)


def _client(visit: Visit, chosen: ChosenBooks) -> Client:
    return Client(visit.organization_id, chosen.connection.id, chosen.client_id or "")


def _read(tx: Tx, client: Client, amounts: Mapping[Key, int]) -> Settlements:
    taken = {key: _pending(one, amounts[key]) for key, one in store.taken_from(tx, client).items() if key in amounts}
    keys = [key for key, pending in taken.items() if pending]
    matches = store.matches_of_items(tx, client, keys)
    return {
        key: Settlement(money.from_minor(taken[key]), money.from_minor(amounts[key] - taken[key]), matches.get(key, []))
        for key in keys
    }


def _pending(taken: Taken, open_minor: int) -> int:
    """Returns what is not in the books yet, as far as it has the sign of the item."""
    pending = taken.left_of(open_minor).pending_minor
    low, high = sorted((0, open_minor))
    return min(max(pending, low), high)


PATH = f"{ROOT}/open-items"
Side = Literal["debitors", "creditors"]
Age = Literal["nichtFaellig", "bis30Tage", "bis60Tage", "bis90Tage", "ueber90Tage"]
AGES: tuple[tuple[Age, str], ...] = (
    ("nichtFaellig", N_("not due yet")),
    ("bis30Tage", N_("up to 30 days")),
    ("bis60Tage", N_("31 to 60 days")),
    ("bis90Tage", N_("61 to 90 days")),
    ("ueber90Tage", N_("more than 90 days")),
)


# The sides of the books, each with the words for it.
SIDES: dict[Side, str] = {"debitors": N_("Customers"), "creditors": N_("Suppliers")}


class OpenItemsFilter(Struct):
    connection: str = ""
    client: str = ""
    year: str = ""
    side: Side | None = None
    stichtag: date | None = None
    search: str = ""
    sort: str = ""


class DocumentFilter(Struct):
    connection: str = ""
    client: str = ""
    year: str = ""
    beleg: str = ""


class Partner(NamedTuple):
    """A partner with open items. Amounts are positive if the partner owes, or is owed, as it should be."""

    konto: str
    name: str
    items: int
    overdue: Decimal
    balance: Decimal
    # Of the balance: what was matched with payments that the books do not show yet.
    matched: Decimal


class Shown(NamedTuple):
    """One side of the page: customers or suppliers, with the sums of all of them."""

    side: Side
    title: str
    partners: Rows[Partner]
    number: int
    overdue: Decimal
    balance: Decimal
    # The address of all of them, where only the first are shown.
    all_url: str


_SORTS: dict[str, Callable[[Partner], Any]] = {
    "account": attrgetter("konto"),
    "name": lambda partner: partner.name.casefold(),
    "items": attrgetter("items"),
    "overdue": attrgetter("overdue"),
    "balance": attrgetter("balance"),
}
# The largest first.
_FIRST = "-balance"


@page("/open-items", help="open-items")
async def open_items(visit: Visit) -> Response:
    chosen = await books.choose(visit)
    filters = visit.filters(OpenItemsFilter)
    found = await read(visit, chosen, filters.wanted)
    konten = await visit.off_loop(_searched, chosen, found.konten, filters.wanted.search)
    labels = {"side": _("Kind"), "stichtag": _("Cut-off date"), "search": _("Search")}
    settled = await settlements_of(visit, chosen, konten)
    sides = await visit.off_loop(_sides, filters, konten, settled)
    return visit.show(
        "open_items.html", chosen=chosen, filters=filters, found=found, sides=[one for one in sides if one.number], ages=AGES,
        totals={side: _total(found, side) for side in SIDES}, chips=filters.chips(labels, _in_words),
        sorts=filters.sort_links(_SORTS, _FIRST), choices=[(side, _(text)) for side, text in SIDES.items()],
    )  # fmt: skip


def _sides(filters: Filters[OpenItemsFilter], konten: list[FaelligesKonto], settled: Settlements) -> list[Shown]:
    return [_shown(filters, side, konten, settled) for side in SIDES if filters.wanted.side in (None, side)]


def _shown(filters: Filters[OpenItemsFilter], side: Side, konten: list[FaelligesKonto], settled: Settlements) -> Shown:
    matched: dict[str, Decimal] = {}
    for (number, _beleg), one in settled.items():
        matched[number] = matched.get(number, Decimal()) + one.amount
    partners = [
        _partner(konto, matched.get(konto.kontonummer, Decimal()))
        for konto in konten
        if konto.isDebitor is (side == "debitors")
    ]
    ordered = filters.in_order(sorted(partners, key=attrgetter("konto")), _SORTS, _FIRST)
    is_alone = filters.wanted.side is not None
    rows = filters.cut(ordered) if is_alone else Rows(ordered[:PAGE_SIZE], None, None)
    return Shown(
        side, _(SIDES[side]), rows, len(ordered), sum((one.overdue for one in ordered), Decimal()),
        sum((one.balance for one in ordered), Decimal()),
        "" if is_alone or len(ordered) <= PAGE_SIZE else filters.url(side=side),
    )  # fmt: skip


def _partner(konto: FaelligesKonto, matched: Decimal) -> Partner:
    sign = 1 if konto.isDebitor else -1
    overdue = konto.totalSaldo - konto.altersklassen.nichtFaellig
    amounts = (sign * overdue, sign * konto.totalSaldo, sign * matched)
    return Partner(konto.kontonummer, konto.bezeichnung, len(konto.posten), *amounts)


def _total(found: Faelligkeiten, side: Side) -> Decimal:
    """Returns what customers owe, or what we owe suppliers, over all ages."""
    classes = found.debitoren if side == "debitors" else found.kreditoren
    total = sum((getattr(classes, name) for name, _text in AGES), Decimal())
    return total if side == "debitors" else -total


def _in_words(name: str, text: str) -> str:
    return _(SIDES[text]) if name == "side" and text in SIDES else text


@page("/open-items.csv")
async def open_items_csv(visit: Visit) -> Response:
    _chosen, sheet, name = await _sheet(visit)
    return await sheets.as_csv(visit, sheet, name)


@page("/open-items.pdf")
async def open_items_pdf(visit: Visit) -> Response:
    chosen, sheet, name = await _sheet(visit)
    return await sheets.as_pdf(visit, chosen.heading, sheet, name)


async def _sheet(visit: Visit) -> tuple[ChosenBooks, Sheet, str]:
    chosen = await books.choose(visit)
    wanted = visit.filters(OpenItemsFilter).wanted
    found = await read(visit, chosen, wanted)
    konten = await visit.off_loop(_searched, chosen, found.konten, wanted.search)
    parts = []
    for side, text in SIDES.items():
        some = [konto for konto in konten if konto.isDebitor is (side == "debitors")]
        some.sort(key=attrgetter("kontonummer"))
        if some:
            total = sum((konto.totalSaldo for konto in some), Decimal())
            sums = [("", _("Total"), "", "", "", "", "", total)]
            parts.append(Part(_lines(chosen, some), _(text), sums, summed=7))
    columns = [
        Column(_("Account")), Column(_("Name"), 5), Column(_("Document"), 4), Column(_("Document date"), 3),
        Column(_("Text"), 5), Column(_("Due"), 3), Column(_("Days overdue"), 3, right=True, sparse=True),
        Column(_("Balance"), 3, right=True, sided=True),
    ]  # fmt: skip
    notes = [_(sheets.SIDES)]
    as_of = _("As of %(day)s", day=figures.day(found.stichtag))
    sheet = Sheet(_("Open items"), as_of, columns, parts, notes, landscape=True)
    return chosen, sheet, f"{_('Open items')} {found.stichtag}"


def _lines(chosen: ChosenBooks, konten: list[FaelligesKonto]) -> Iterator[tuple[Cell, ...]]:
    """A generator: a hundred thousand rows are made where they are written, beside the event loop."""
    for konto in konten:
        for item in konto.posten:
            yield (
                chosen.written(konto.kontonummer), konto.bezeichnung, item.beleg, item.belegdatum, item.buchungstext,
                item.faelligAm, item.tageUeberfaellig, item.saldo,
            )  # fmt: skip


@page("/open-items/{konto}/document", help="open-items")
async def document_movements(visit: Visit, konto: str) -> Response:
    """The bookings behind an open item. Its number may contain anything, so it is not part of the path."""
    chosen = await books.choose(visit)
    filters, beleg = visit.filters(DocumentFilter), (visit.query.get("beleg") or [""])[-1]
    found = await books.ask(
        visit, chosen, "buchungen",
        lambda opened: opened.bookings_of_document(konto, beleg, filters.after, PAGE_SIZE + 1),
    )  # fmt: skip
    amounts = {(konto, beleg): found.soll - found.haben}
    settled = await visit.read(_read, _client(visit, chosen), amounts)
    return visit.show(
        "document_movements.html", chosen=chosen, konto=konto, beleg=beleg, found=found, settled=settled.get((konto, beleg)),
        bookings=filters.first_page(found.bookings, key=lambda booking: f"{booking.day} {booking.id}"),
    )  # fmt: skip


async def read(visit: Visit, chosen: ChosenBooks, wanted: OpenItemsFilter, konto: str | None = None) -> Faelligkeiten:
    """Returns the open items of one side or both, of one partner or all."""
    query = OposQuery(
        **chosen.query, stichtag=wanted.stichtag or visit.today, filter=wanted.side or "all", kontonummer=konto
    )
    answer = await visit.ask(rewe_read.get_faelligkeiten, query=query)
    return await visit.off_loop(plain, answer.data, Faelligkeiten)


def _searched(chosen: ChosenBooks, konten: list[FaelligesKonto], search: str) -> list[FaelligesKonto]:
    words = search.casefold().split()
    return [konto for konto in konten if all(word in _text(chosen, konto) for word in words)] if words else konten


def _text(chosen: ChosenBooks, konto: FaelligesKonto) -> str:
    documents = " ".join(f"{item.beleg} {item.buchungstext} {amount_words(item.saldo)}" for item in konto.posten)
    return f"{chosen.written(konto.kontonummer)} {konto.bezeichnung} {documents}".casefold()


def amount_words(amount: Decimal) -> str:
    """Returns an amount in the ways in which somebody may type it into a search."""
    return f"{amount} {figures.plain_amount(amount)} {figures.number(amount, 2)}"
