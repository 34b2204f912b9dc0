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
from kontobahn.errors import BadRequest, NotFound
from kontobahn.ledger.provider import Versteuerung
from kontobahn.ledger.routes import rewe_read
from kontobahn.ledger.routes.rewe_read import UmsatzsteuerQuery
from kontobahn.ledger.wire import Steuerart, TaxedBooking, TaxLine, TaxSelection, Umsatzsteuer, UmsatzsteuerZeile

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
# The months of a fiscal year that three of it can begin with.
_STARTS = frozenset(str(month) for month in range(1, MONTHS - 1))
MAX_CSV_LINES = 100_000


class VatFilter(Struct):
    connection: str = ""
    client: str = ""
    year: str = ""
    # A quarter or a month of the fiscal year: q1, m12. Or three months from one on: t3.
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
    taxed: Versteuerung | None

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


def _quarter_from(chosen: ChosenBooks, name: str) -> Span | None:
    """Three months from one of the fiscal year on, t3 for its third: a quarter of the calendar, where the year begins within one."""
    first = int(name[1:]) if name[:1] == "t" and name[1:] in _STARTS else 0
    if not first:
        return None
    days = _days(chosen, first, first + 2)
    return Span(name, figures.months(*(day.isoformat()[:7] for day in days)), *days)


def _days(chosen: ChosenBooks, first: int, last: int) -> tuple[date, date]:
    end = books.month_start(chosen, last)
    return books.month_start(chosen, first), min(end.replace(day=monthrange(end.year, end.month)[1]), chosen.year.end)


async def _read(visit: Visit) -> Figures:
    chosen = await books.choose(visit)
    known = spans(chosen)
    wanted = visit.filters(VatFilter).wanted.span
    span = next((one for one in known if one.name == wanted), None) or _quarter_from(chosen, wanted) or known[0]
    query = UmsatzsteuerQuery(
        **chosen.query, geschaeftsjahr_start_datum=chosen.year.start, von_datum=span.first, bis_datum=span.last
    )
    found = plain((await visit.ask(rewe_read.get_umsatzsteuer, query=query)).data, Umsatzsteuer)
    output = found.summeUmsatzsteuer + found.direktUmsatzsteuer
    taxed = await books.versteuerung(visit, chosen)
    return Figures(chosen, span, found, output, found.summeVorsteuer + found.direktVorsteuer, taxed)


@page("/reports/vat", help="vat")
async def vat_figures(visit: Visit) -> Response:
    shown, filters = await _read(visit), visit.filters(VatFilter)
    links = [(one.text, filters.url(span=one.name or None), one == shown.span) for one in spans(shown.chosen)]
    return visit.show(
        "vat_figures.html", shown=shown, chosen=shown.chosen, filters=filters, spans=links, kinds=KINDS, line_fields=line_fields,
        taxed=_taxed_otherwise(shown.taxed),
    )  # fmt: skip


def _taxed_otherwise(taxed: Versteuerung | None) -> str:
    """Says how the client is taxed; nothing if by invoices, or if nobody says it."""
    if taxed == "ist":
        return _("The client is taxed by payments received (Istversteuerung): output tax on customers' invoices is counted when they are "
                 "paid, input tax by invoices. Payments without an invoice are listed as booked gross.")  # fmt: skip
    if taxed == "kleinunternehmer":
        return _("The client is a small business (§ 19 UStG) and owes no VAT; input tax cannot be deducted.")
    return ""


@page("/reports/vat/bookings", help="vat")
async def vat_bookings(visit: Visit) -> Response:
    """The bookings that a line of the figures sums up."""
    shown, filters = await _read(visit), visit.filters(LineFilter)
    line = _line(shown, filters.wanted)
    found = await _bookings(visit, shown, line, filters.wanted, _number(filters.after), PAGE_SIZE + 1)
    return visit.show(
        "vat_bookings.html", shown=shown, chosen=shown.chosen, line=line, title=_(KINDS[line.art]), filters=filters,
        lines=filters.first_page(found, lambda booking: booking.number),
    )  # fmt: skip


def _line(shown: Figures, wanted: LineFilter) -> UmsatzsteuerZeile:
    line = next((one for one in shown.found.zeilen if line_fields(one) == _fields(wanted)), None)
    if line is None:
        raise NotFound("There is no such page.")
    return line


async def _bookings(
    visit: Visit, shown: Figures, line: UmsatzsteuerZeile, wanted: LineFilter, after: int, limit: int
) -> list[TaxedBooking]:
    selection = TaxSelection(
        shown.chosen.year.start, shown.span.first, shown.span.last,
        TaxLine(line.art, line.prozent, wanted.key, wanted.account), after, limit,
    )  # fmt: skip
    return await books.ask(visit, shown.chosen, "buchungen", lambda opened: opened.steuerbuchungen(selection))


@page("/reports/vat/bookings.csv")
async def vat_bookings_csv(visit: Visit) -> Response:
    _shown, sheet, name = await _bookings_sheet(visit, MAX_CSV_LINES)
    return await sheets.as_csv(visit, sheet, name)


@page("/reports/vat/bookings.pdf")
async def vat_bookings_pdf(visit: Visit) -> Response:
    shown, sheet, name = await _bookings_sheet(visit, sheets.MAX_PRINTED)
    return await sheets.as_pdf(visit, shown.chosen.heading, sheet, name)


async def _bookings_sheet(visit: Visit, most: int) -> tuple[Figures, Sheet, str]:
    """Raises BadRequest if the line sums up more bookings than a file holds."""
    shown, wanted = await _read(visit), visit.filters(LineFilter).wanted
    line = _line(shown, wanted)
    found = await _bookings(visit, shown, line, wanted, 0, most + 1)
    if len(found) > most:
        raise BadRequest(_("A file holds at most %(count)s lines. Choose a period.", count=figures.number(most)))
    columns = [
        Column(_("Number"), 2, right=True), Column(_("Date"), 3), Column(_("Document"), 4), Column(_("Text"), 8),
        Column(_("Account"), 3), Column(_("Contra account"), 3),
        *(Column(title, 3, right=True, sparse=True) for title in (_("Base"), _("Output tax"), _("Input tax"))),
    ]  # fmt: skip
    written = shown.chosen.written
    rows = [
        (one.number, one.day, one.document, one.text, written(one.konto), written(one.gegenkonto), one.base, one.output, one.given)
        for one in found
    ]  # fmt: skip
    sums = [
        ("", None, "", _("Total"), "", "", line.bemessungsgrundlage, line.umsatzsteuer, line.vorsteuer),
    ]
    title = f"{_(KINDS[line.art])} {line.prozent} %"
    sheet = Sheet(title, _period(shown), columns, [Part(rows, sums=sums)], [_("Amounts in euros.")], landscape=True)
    return shown, sheet, f"{_file_name(shown)} {title}"


def _period(shown: Figures) -> str:
    found = shown.found
    return _("From %(first)s to %(last)s", first=figures.day(found.vonDatum), last=figures.day(found.bisDatum))


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
    return await sheets.as_pdf(visit, shown.chosen.heading, _sheet(shown), _file_name(shown))


def _file_name(shown: Figures) -> str:
    return f"{_('VAT figures')} {shown.span.first} {shown.span.last}"


def _sheet(shown: Figures) -> Sheet:
    found = shown.found
    titles = (_("Base"), _("Output tax"), _("Input tax"))
    columns = [
        Column(_("Kind"), 6), Column(_("Rate"), 2, right=True), Column(_("Key or account"), 4),
        Column(_("Bookings"), 3, right=True),
        *(Column(title, width, right=True, sparse=True) for title, width in zip(titles, (5, 4, 3), strict=True)),
    ]  # fmt: skip
    sums = [
        (_("Total"), "", "", "", None, found.summeUmsatzsteuer, found.summeVorsteuer),
        (_("Booked directly on tax accounts"), "", "", "", None, found.direktUmsatzsteuer, found.direktVorsteuer),
        (_("Estimated VAT to pay"), "", "", "", None, shown.to_pay, None),
    ]
    rows = [_row(shown.chosen, line) for line in found.zeilen]
    notes = [
        _("Amounts in euros."),
        _("Figures to check, not a VAT return."),
        *filter(None, [_taxed_otherwise(shown.taxed)]),
    ]
    return Sheet(_("VAT figures"), _period(shown), columns, [Part(rows, sums=sums)], notes)


def _row(chosen: ChosenBooks, line: UmsatzsteuerZeile) -> tuple[str | int | Decimal, ...]:
    which = line.buSchluessel or (chosen.written(line.kontonummer) if line.kontonummer else "")
    return (
        _(KINDS[line.art]), f"{line.prozent} %", which, line.anzahl, line.bemessungsgrundlage, line.umsatzsteuer,
        line.vorsteuer,
    )  # fmt: skip
