"""The trial balance, and from an account to its bookings."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import date
from decimal import Decimal
from operator import attrgetter
from typing import Annotated, Any, Literal, NamedTuple

from msgspec import Meta, Struct
from starlette.responses import Response

from kontobahn import money
from kontobahn.dashboard import books, figures, sheets
from kontobahn.dashboard.books import ChosenBooks, plain
from kontobahn.dashboard.declare import ROOT, page
from kontobahn.dashboard.lists import AFTER, PAGE_SIZE, Cell, Filters, Rows
from kontobahn.dashboard.sheets import Column, Part, Sheet
from kontobahn.dashboard.visit import Visit
from kontobahn.dashboard.words import N_, _
from kontobahn.errors import BadRequest
from kontobahn.ledger.buchungen import Buchung
from kontobahn.ledger.konto import SACHKONTO_DIGITS, is_debitor
from kontobahn.ledger.routes import rewe_read
from kontobahn.ledger.routes.rewe_read import SusaQuery
from kontobahn.ledger.wire import Saldo, SheetLine, SheetSelection

PATH = f"{ROOT}/trial-balance"
MAX_CSV_LINES = 100_000
_CSV_STEP = 5_000
_LAST_PERIOD = 13


Kind = Literal["ledger", "customers", "suppliers"]
KINDS: dict[Kind, str] = {"ledger": N_("Ledger accounts"), "customers": N_("Customers"), "suppliers": N_("Suppliers")}


class TrialBalanceFilter(Struct):
    connection: str = ""
    client: str = ""
    year: str = ""
    kind: Kind | None = None
    search: str = ""
    sort: str = ""


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


class Sums(NamedTuple):
    """The sums of some lines."""

    text: str
    opening: Decimal
    debit: Decimal
    credit: Decimal
    balance: Decimal


_SORTS: dict[str, Callable[[Line], Any]] = {
    "account": lambda line: _place(line.konto),
    "name": lambda line: line.text.casefold(),
    "opening_balance": attrgetter("opening"),
    "debit": attrgetter("debit"),
    "credit": attrgetter("credit"),
    "balance": attrgetter("balance"),
}


@page("/trial-balance", help="trial-balance")
async def trial_balance(visit: Visit) -> Response:
    chosen = await books.choose(visit)
    filters = visit.filters(TrialBalanceFilter)
    lines, sums = await visit.off_loop(_in_order, await _read(visit, chosen), chosen, filters)
    labels = {"kind": _("Accounts"), "search": _("Search")}
    return visit.show(
        "trial_balance.html", chosen=chosen, filters=filters, kinds=[(kind, _(text)) for kind, text in KINDS.items()],
        chips=filters.chips(labels, _in_words), sums=sums, sorts=filters.sort_links(_SORTS, "account"),
        lines=filters.cut(lines),
    )  # fmt: skip


def _in_order(
    lines: list[Line], chosen: ChosenBooks, filters: Filters[TrialBalanceFilter]
) -> tuple[list[Line], list[Sums]]:
    found = _searched(lines, chosen, filters.wanted)
    return filters.in_order(found, _SORTS, "account"), _sums(found)


def _in_words(name: str, text: str) -> str:
    return _(KINDS[text]) if text in KINDS else text


def _kind(line: Line) -> Kind:
    if len(line.konto) == SACHKONTO_DIGITS:
        return "ledger"
    return "customers" if is_debitor(line.konto) else "suppliers"


def _sums(lines: Sequence[Line]) -> list[Sums]:
    """Returns the sums of each kind of accounts, and of all of them if there is more than one."""
    kinds = [(_(text), [line for line in lines if _kind(line) == kind]) for kind, text in KINDS.items()]
    found = [_added(text, some) for text, some in kinds if some]
    return [*found, _added(_("All accounts"), lines)] if len(found) > 1 else found


def _added(text: str, lines: Sequence[Line]) -> Sums:
    counted = f"{text} ({figures.number(len(lines))})"
    return Sums(counted, *(sum(column, Decimal()) for column in zip(*(line[2:] for line in lines), strict=True)))


async def _sheet(visit: Visit) -> tuple[ChosenBooks, Sheet]:
    chosen = await books.choose(visit)
    filters = visit.filters(TrialBalanceFilter)
    lines, sums = await visit.off_loop(_in_order, await _read(visit, chosen), chosen, filters)
    columns = [
        Column(_("Account")),
        Column(_("Name"), 6),
        Column(_("Opening balance"), 3, right=True, sided=True, sparse=True), Column(_("Debit"), 3, right=True, sparse=True),
        Column(_("Credit"), 3, right=True, sparse=True), Column(_("Balance"), 3, right=True, sided=True),
    ]  # fmt: skip
    # A generator: its rows are made where they are written, beside the event loop.
    rows = ((chosen.written(line.konto), *line[1:]) for line in lines)
    part = Part(rows, sums=[("", *one) for one in sums])
    notes = [_(sheets.SIDES)]
    return chosen, Sheet(_("Trial balance"), books.year_words(chosen), columns, [part], notes)


@page("/trial-balance.csv")
async def trial_balance_csv(visit: Visit) -> Response:
    chosen, sheet = await _sheet(visit)
    return await sheets.as_csv(visit, sheet, f"{_('Trial balance')} {chosen.year.start.year}")


@page("/trial-balance.pdf")
async def trial_balance_pdf(visit: Visit) -> Response:
    chosen, sheet = await _sheet(visit)
    return await sheets.as_pdf(visit, chosen.heading, sheet, f"{_('Trial balance')} {chosen.year.start.year}")


class SheetFilter(Struct):
    connection: str = ""
    client: str = ""
    year: str = ""
    period: Annotated[int, Meta(ge=0, le=14)] | None = None


@page("/trial-balance/{konto}", help="account-sheet")
async def account_sheet(visit: Visit, konto: str) -> Response:
    chosen, filters = await books.choose(visit), visit.filters(SheetFilter)
    line = await _line_of(visit, chosen, konto)
    asked = SheetSelection(chosen.year.start, line.konto, filters.wanted.period, filters.after, PAGE_SIZE)
    sheet = await books.ask(visit, chosen, "buchungen", lambda opened: opened.account_sheet(asked))
    next_url = filters.url(**{AFTER: sheet.next}) if sheet.next else None
    return visit.show(
        "account_sheet.html", chosen=chosen, line=line, filters=filters, sheet=sheet,
        periods=[(period, books.period_name(chosen, period)) for period in range(_LAST_PERIOD + 1)],
        chips=filters.chips({"period": _("Period")}, lambda _name, text: books.period_name(chosen, int(text))),
        pages=Rows(sheet.lines, next_url, filters.url() if filters.after else None),
        csv=_as_file(filters, konto, "csv"), pdf=_as_file(filters, konto, "pdf"),
    )  # fmt: skip


def _as_file(filters: Filters[SheetFilter], konto: str, ending: str) -> str:
    return filters.url().replace(konto, f"{konto}/sheet.{ending}", 1)


@page("/trial-balance/{konto}/sheet.csv")
async def account_sheet_csv(visit: Visit, konto: str) -> Response:
    _chosen, sheet, name = await _account_sheet(visit, konto, MAX_CSV_LINES)
    return await sheets.as_csv(visit, sheet, name)


@page("/trial-balance/{konto}/sheet.pdf")
async def account_sheet_pdf(visit: Visit, konto: str) -> Response:
    chosen, sheet, name = await _account_sheet(visit, konto, sheets.MAX_PRINTED)
    return await sheets.as_pdf(visit, chosen.heading, sheet, name)


async def _account_sheet(visit: Visit, konto: str, most: int) -> tuple[ChosenBooks, Sheet, str]:
    """Returns all lines of an account, at most so many, and a name for the file."""
    chosen, period = await books.choose(visit), visit.filters(SheetFilter).wanted.period
    line = await _line_of(visit, chosen, konto)
    asked = SheetSelection(chosen.year.start, line.konto, period, limit=_CSV_STEP)
    lines: list[SheetLine] = []
    before: int | None = None
    while True:
        found = await books.ask(visit, chosen, "buchungen", lambda opened, asked=asked: opened.account_sheet(asked))  # type: ignore[misc]
        before = found.saldo_davor if before is None else before
        lines += found.lines
        if found.next is None:
            break
        if len(lines) > most:
            raise BadRequest(_("A file holds at most %(count)s lines. Choose a period.", count=figures.number(most)))
        asked = asked._replace(after=found.next)
    columns = [
        Column(_("Number"), 2, right=True), Column(_("Date"), 3), Column(_("Document"), 4), Column(_("Text"), 7),
        Column(_("Contra account"), 3), Column(_("Tax key"), 3), Column(_("Debit"), 3, right=True, sparse=True),
        Column(_("Credit"), 3, right=True, sparse=True), Column(_("Balance"), 3, right=True, sided=True),
    ]  # fmt: skip
    part = Part(
        [_sheet_row(chosen, one) for one in lines], sums=_sums_of_sheet(lines, before or 0),
        carried=("", "", "", _("Carried forward"), "", "", "", "", money.from_minor(before)) if before else (),
    )  # fmt: skip
    number = chosen.written(line.konto)
    words = books.period_name(chosen, period) if period is not None else books.year_words(chosen)
    sheet = Sheet(f"{number} {line.text}", words, columns, [part], [_(sheets.SIDES)], landscape=True)
    return chosen, sheet, f"{_('Account sheet')} {number} {chosen.year.start.year}"


def _sums_of_sheet(lines: list[SheetLine], before: int) -> list[tuple[Cell, ...]]:
    """The turnover is that of the trial balance, which shows opening balances in a column of their own."""
    opened, moved = ([one for one in lines if (one.periode == 0) is is_opening] for is_opening in (True, False))
    groups = [(_("Opening balance"), opened), (_("Movements"), moved)] if opened else []
    sums: list[tuple[Cell, ...]] = [("", "", "", text, "", "", *_turnover(some), None) for text, some in groups]
    balance = money.from_minor(lines[-1].saldo if lines else before)
    return [*sums, ("", "", "", _("Total"), "", "", *_turnover(lines), balance)]


def _turnover(lines: list[SheetLine]) -> tuple[Decimal, Decimal]:
    return money.from_minor(sum(one.soll for one in lines)), money.from_minor(sum(one.haben for one in lines))


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


def _searched(lines: Sequence[Line], chosen: ChosenBooks, wanted: TrialBalanceFilter) -> list[Line]:
    words = wanted.search.casefold().split()
    found = [
        line for line in lines if all(word in f"{chosen.written(line.konto)} {line.text}".casefold() for word in words)
    ]
    return [line for line in found if wanted.kind in (None, _kind(line))]


def _place(konto: str) -> tuple[int, str]:
    """Ledger accounts come before person accounts."""
    return len(konto), konto


# The journal: every booking of a fiscal year as it was entered, in the order in which it was booked.


class JournalFilter(Struct):
    connection: str = ""
    client: str = ""
    year: str = ""
    period: Annotated[int, Meta(ge=0, le=14)] | None = None


class JournalLine(NamedTuple):
    """A booking: the account that is debited, the one that is credited, and the gross amount, negative for a Generalumkehr."""

    number: str
    day: date
    document: str
    text: str
    debit: str
    credit: str
    tax_key: str
    amount: Decimal


def journal_line(booking: Buchung) -> JournalLine:
    konto, gegenkonto = booking.buchungszeilen[:2]
    # A Generalumkehr takes back from the other side.
    debits_konto = (booking.sollHabenKennzeichen == "SOLL") != booking.generalumkehr
    debit, credit = (konto, gegenkonto) if debits_konto else (gegenkonto, konto)
    amount = booking.basisUmsatz if booking.basisUmsatz is not None else konto.umsatz
    return JournalLine(
        booking.id or "", konto.belegdatum.date(), konto.belegfeld1, booking.buchungstext, debit.kontonummer,
        credit.kontonummer, konto.buSchluessel or "", -amount if booking.generalumkehr else amount,
    )  # fmt: skip


async def _read_journal(
    visit: Visit, chosen: ChosenBooks, period: int | None, after: str, limit: int
) -> list[JournalLine]:
    from_id = after if after.isascii() and after.isdigit() and len(after) < 19 else None
    found = await books.ask(
        visit, chosen, "buchungen", lambda opened: opened.buchungen(chosen.year.start, from_id, limit, period)
    )
    return [journal_line(booking) for booking in await visit.off_loop(plain, found, list[Buchung])]


@page("/reports/journal", help="journal")
async def journal(visit: Visit) -> Response:
    chosen, filters = await books.choose(visit), visit.filters(JournalFilter)
    found = await _read_journal(visit, chosen, filters.wanted.period, filters.after, PAGE_SIZE + 1)
    return visit.show(
        "journal.html", chosen=chosen, filters=filters, lines=filters.first_page(found, lambda line: line.number),
        periods=[(period, books.period_name(chosen, period)) for period in range(_LAST_PERIOD + 1)],
        chips=filters.chips({"period": _("Period")}, lambda _name, text: books.period_name(chosen, int(text))),
    )  # fmt: skip


@page("/reports/journal.csv")
async def journal_csv(visit: Visit) -> Response:
    _chosen, sheet, name = await _sheet_of_journal(visit, MAX_CSV_LINES)
    return await sheets.as_csv(visit, sheet, name)


@page("/reports/journal.pdf")
async def journal_pdf(visit: Visit) -> Response:
    chosen, sheet, name = await _sheet_of_journal(visit, sheets.MAX_PRINTED)
    return await sheets.as_pdf(visit, chosen.heading, sheet, name)


async def _sheet_of_journal(visit: Visit, most: int) -> tuple[ChosenBooks, Sheet, str]:
    chosen, period = await books.choose(visit), visit.filters(JournalFilter).wanted.period
    lines: list[JournalLine] = []
    while True:
        found = await _read_journal(visit, chosen, period, lines[-1].number if lines else "", _CSV_STEP)
        lines += found
        if len(lines) > most:
            raise BadRequest(_("A file holds at most %(count)s lines. Choose a period.", count=figures.number(most)))
        if len(found) < _CSV_STEP:
            break
    columns = [
        Column(_("Number"), 2, right=True), Column(_("Date"), 3), Column(_("Document"), 4), Column(_("Text"), 8),
        Column(_("Account debited"), 3), Column(_("Account credited"), 3), Column(_("Tax key"), 3),
        Column(_("Amount"), 3, right=True),
    ]  # fmt: skip
    rows: list[tuple[Cell, ...]] = [
        line._replace(debit=chosen.written(line.debit), credit=chosen.written(line.credit)) for line in lines
    ]
    total = sum((line.amount for line in lines), Decimal())
    words = books.period_name(chosen, period) if period is not None else books.year_words(chosen)
    part = Part(rows, sums=[("", "", "", _("Total"), "", "", "", total)])
    sheet = Sheet(_("Journal"), words, columns, [part], [_("Amounts in euros, gross as entered.")], landscape=True)
    named = f"{chosen.year.start.year}" if period is None else f"{chosen.year.start.year} {period:02}"
    return chosen, sheet, f"{_('Journal')} {named}"
