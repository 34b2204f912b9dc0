"""The trial balance, and from an account to its bookings."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import Any, Literal, NamedTuple

from msgspec import Struct
from starlette.responses import Response

from kontobahn.dashboard import books
from kontobahn.dashboard.books import ChosenBooks, plain
from kontobahn.dashboard.declare import ROOT, page
from kontobahn.dashboard.listing import PAGE_SIZE
from kontobahn.dashboard.views import books as views
from kontobahn.dashboard.visit import Visit
from kontobahn.dashboard.words import _
from kontobahn.ledger import rewe
from kontobahn.ledger.accounting import Saldo
from kontobahn.ledger.konto import SACHKONTO_DIGITS
from kontobahn.ledger.rewe import SusaQuery

PATH = f"{ROOT}/trial-balance"


class TrialBalanceFilter(Struct):
    connection: str = ""
    client: str = ""
    year: str = ""
    kind: Literal["ledger", "persons"] | None = None
    search: str = ""


class _Zeile(Struct):
    """What is shown of a line of the call: not the values of each period, which are most of it."""

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
    return visit.csv(f"{_('Trial balance')} {chosen.year.start.year}", head, lines)


@page("/trial-balance/{konto}")
async def account_bookings(visit: Visit, konto: str) -> Response:
    chosen = await books.choose(visit)
    filters = visit.filters(TrialBalanceFilter)
    query = SusaQuery(**chosen.query, geschaeftsjahr_start_datum=chosen.year.start, kontonummer=konto)
    answer = await visit.ask(rewe.get_susa, query=query)
    lines = _lines(answer.data)
    if not lines:
        raise visit.principal.missing("Account")
    after = int(filters.after) if filters.after.isdigit() and len(filters.after) < 19 else 0
    found = await visit.read(
        views.bookings_of_account, chosen.connection.id, chosen.client_id or "", chosen.year.start.isoformat(),
        lines[0].konto, after, PAGE_SIZE + 1,
    )  # fmt: skip
    return visit.show(
        "account_bookings.html", chosen=chosen, line=lines[0],
        bookings=filters.first_page(found, key=lambda booking: booking.id),
    )  # fmt: skip


async def _read(visit: Visit, chosen: ChosenBooks) -> list[Line]:
    query = SusaQuery(**chosen.query, geschaeftsjahr_start_datum=chosen.year.start)
    answer = await visit.ask(rewe.get_susa, query=query)
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
