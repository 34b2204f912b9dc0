"""VAT figures: what was taxed how, in a month, a quarter or the year, and an estimate of what is to be paid."""

from __future__ import annotations

from calendar import monthrange
from datetime import date
from decimal import Decimal
from typing import NamedTuple

from msgspec import Struct
from starlette.responses import Response

from kontobahn.dashboard import books, figures, sheets
from kontobahn.dashboard.books import MONTHS, ChosenBooks, plain
from kontobahn.dashboard.declare import page
from kontobahn.dashboard.lists import PAGE_SIZE
from kontobahn.dashboard.sheets import Column, Part, Sheet
from kontobahn.dashboard.visit import Visit
from kontobahn.dashboard.words import N_, _
from kontobahn.errors import NotFound
from kontobahn.ledger.routes import rewe_read
from kontobahn.ledger.routes.rewe_read import UmsatzsteuerQuery
from kontobahn.ledger.steuerbuchungen import TaxLine, TaxSelection
from kontobahn.ledger.wire import Steuerart, Umsatzsteuer, UmsatzsteuerZeile

KINDS: dict[Steuerart, str] = {
    "UMSATZSTEUER": N_("Taxable supplies"),
    "VORSTEUER": N_("Input tax"),
    "EU_LIEFERUNG": N_("Supplies within the EU"),
    "INNERGEMEINSCHAFTLICHER_ERWERB": N_("Acquisitions within the EU"),
    "LEISTUNGSEMPFAENGER": N_("Tax owed by the recipient (§ 13b UStG)"),
    "LEISTUNGSEMPFAENGER_OHNE_ABZUG": N_("Tax owed by the recipient, without deduction"),
    "STEUERFREI": N_("Exempt supplies"),
    "SKONTO": N_("Cash discounts"),
    "BRUTTO": N_("Booked gross: key or account not known"),
}
_QUARTERS = (1, 2, 3, 4)


class VatFilter(Struct):
    connection: str = ""
    client: str = ""
    year: str = ""
    # A quarter or a month of the fiscal year: q1, m12.
    span: str = ""


class LineFilter(VatFilter):
    """One line of the figures."""

    art: str = ""
    rate: int = 0
    key: str = ""
    account: str = ""


class Span(NamedTuple):
    """Days of a fiscal year."""

    name: str
    text: str
    first: date
    last: date


class Figures(NamedTuple):
    chosen: ChosenBooks
    span: Span
    found: Umsatzsteuer
    # Output tax and input tax as a whole, with what was booked on their accounts directly.
    output: Decimal
    given: Decimal

    @property
    def to_pay(self) -> Decimal:
        return self.output - self.given


def spans(chosen: ChosenBooks) -> list[Span]:
    """The year, its quarters and its months."""
    year = chosen.year
    found = [Span("", _("Whole year"), year.start, year.end)]
    for quarter in _QUARTERS:
        text = _("Quarter %(number)s", number=quarter)
        found.append(Span(f"q{quarter}", text, *_days(chosen, 3 * quarter - 2, 3 * quarter)))
    for month in range(1, MONTHS + 1):
        found.append(Span(f"m{month}", books.period_name(chosen, month), *_days(chosen, month, month)))
    # A fiscal year may be shorter than twelve months.
    return [span for span in found if span.first <= year.end]


def _days(chosen: ChosenBooks, first: int, last: int) -> tuple[date, date]:
    end = books.month_start(chosen, last)
    return books.month_start(chosen, first), min(end.replace(day=monthrange(end.year, end.month)[1]), chosen.year.end)


async def _read(visit: Visit) -> Figures:
    chosen = await books.choose(visit)
    known = spans(chosen)
    wanted = visit.filters(VatFilter).wanted.span
    span = next((one for one in known if one.name == wanted), known[0])
    query = UmsatzsteuerQuery(
        **chosen.query, geschaeftsjahr_start_datum=chosen.year.start, von_datum=span.first, bis_datum=span.last
    )
    found = plain((await visit.ask(rewe_read.get_umsatzsteuer, query=query)).data, Umsatzsteuer)
    output = found.summeUmsatzsteuer + found.direktUmsatzsteuer
    return Figures(chosen, span, found, output, found.summeVorsteuer + found.direktVorsteuer)


@page("/reports/vat", help="vat")
async def vat_figures(visit: Visit) -> Response:
    shown, filters = await _read(visit), visit.filters(VatFilter)
    links = [(one.text, filters.url(span=one.name or None), one == shown.span) for one in spans(shown.chosen)]
    return visit.show(
        "vat_figures.html", shown=shown, chosen=shown.chosen, filters=filters, spans=links, kinds=KINDS, line_fields=line_fields
    )  # fmt: skip


@page("/reports/vat/bookings", help="vat")
async def vat_bookings(visit: Visit) -> Response:
    """The bookings that a line of the figures sums up."""
    shown, filters = await _read(visit), visit.filters(LineFilter)
    wanted = filters.wanted
    line = next((one for one in shown.found.zeilen if line_fields(one) == _fields(wanted)), None)
    if line is None:
        raise NotFound("There is no such page.")
    selection = TaxSelection(
        shown.chosen.year.start, shown.span.first, shown.span.last,
        TaxLine(line.art, line.prozent, wanted.key, wanted.account), _number(filters.after), PAGE_SIZE + 1,
    )  # fmt: skip
    found = await books.ask(visit, shown.chosen, "buchungen", lambda opened: opened.steuerbuchungen(selection))
    return visit.show(
        "vat_bookings.html", shown=shown, chosen=shown.chosen, line=line, title=_(KINDS[line.art]),
        lines=filters.first_page(found, lambda booking: booking.number),
    )  # fmt: skip


def line_fields(line: UmsatzsteuerZeile) -> dict[str, str | int]:
    """The filters that lead to the bookings of a line."""
    return {"art": line.art, "rate": line.prozent, "key": line.buSchluessel or "", "account": line.kontonummer or ""}


def _fields(wanted: LineFilter) -> dict[str, str | int]:
    return {"art": wanted.art, "rate": wanted.rate, "key": wanted.key, "account": wanted.account}


def _number(text: str) -> int:
    return int(text) if text.isascii() and text.isdigit() and len(text) < 19 else 0


@page("/reports/vat.csv")
async def vat_figures_csv(visit: Visit) -> Response:
    shown = await _read(visit)
    return await sheets.as_csv(visit, _sheet(shown), _file_name(shown))


@page("/reports/vat.pdf")
async def vat_figures_pdf(visit: Visit) -> Response:
    shown = await _read(visit)
    return await sheets.as_pdf(visit, shown.chosen, _sheet(shown), _file_name(shown))


def _file_name(shown: Figures) -> str:
    # Without the soft hyphen that lets the title fit on a phone.
    title = _("VAT figures").replace("\xad", "")
    return f"{title} {shown.span.first} {shown.span.last}"


def _sheet(shown: Figures) -> Sheet:
    found = shown.found
    titles = (_("Base"), _("Output tax"), _("Input tax"))
    columns = [
        Column(_("Kind"), 6), Column(_("Rate"), 1, right=True), Column(_("Key or account"), 2),
        Column(_("Bookings"), 2, right=True), *(Column(title, 3, right=True) for title in titles),
    ]  # fmt: skip
    sums = [
        (_("Sum"), "", "", "", None, found.summeUmsatzsteuer, found.summeVorsteuer),
        (_("Booked directly on tax accounts"), "", "", "", None, found.direktUmsatzsteuer, found.direktVorsteuer),
        (_("Estimated VAT to pay"), "", "", "", None, shown.to_pay, None),
    ]
    period = _("From %(first)s to %(last)s", first=figures.day(found.vonDatum), last=figures.day(found.bisDatum))
    rows = [_row(shown.chosen, line) for line in found.zeilen]
    return Sheet(_("VAT figures"), period, columns, [Part(rows, sums=sums)], [_("Figures to check, not a VAT return.")])


def _row(chosen: ChosenBooks, line: UmsatzsteuerZeile) -> tuple[str | int | Decimal, ...]:
    which = line.buSchluessel or (chosen.written(line.kontonummer) if line.kontonummer else "")
    return (
        _(KINDS[line.art]), f"{line.prozent} %", which, line.anzahl, line.bemessungsgrundlage, line.umsatzsteuer,
        line.vorsteuer,
    )  # fmt: skip
