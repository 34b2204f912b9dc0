"""Transactions: searched by text, amount or IBAN, one with everything that is known of it, and the list as a file."""

from __future__ import annotations

from datetime import date
from typing import Any, Literal, NamedTuple

from msgspec import Struct
from starlette.responses import Response

from kontobahn.banking.connections import accounts
from kontobahn.banking.connections import store as connections
from kontobahn.banking.connections.accounts import AccountRow
from kontobahn.banking.provider import SANDBOX
from kontobahn.banking.transactions import store
from kontobahn.banking.transactions.store import FoundTransactions, Key, TransactionSearch
from kontobahn.banking.transactions.wire import Transaction
from kontobahn.dashboard import bank_words, books, components, figures
from kontobahn.dashboard.declare import numeric, page
from kontobahn.dashboard.lists import PAGE_SIZE, Cell, Filters, is_iban, search_words
from kontobahn.dashboard.visit import Visit
from kontobahn.dashboard.words import N_, _
from kontobahn.db import Tx
from kontobahn.errors import BadRequest, KontobahnError
from kontobahn.reconciliation import store as matches
from kontobahn.reconciliation.store import LineRow, MatchRow

MAX_CSV_ROWS = 50_000
# Units of work for one page of a search, and for a file; between two of them other readers get their turn.
_PAGE_STEPS = 4
_CSV_STEPS = 200
_CSV_STEP_ROWS = 1000
STATES = {"posted": N_("booked"), "pending": N_("pending")}
# The fields of a parsed purpose text.
PURPOSE = {
    "svwz": N_("Purpose"),
    "kref": N_("Customer's reference"),
    "mref": N_("Mandate"),
    "cred": N_("Creditor's identifier"),
    "debt": N_("Debtor's identifier"),
    "abwa": N_("Paid on behalf of"),
    "abwe": N_("Received on behalf of"),
    "bic": N_("BIC"),
    "oamt": N_("Original amount"),
    "coam": N_("Compensation"),
    "purp": N_("Purpose code"),
}
EXTRA = {
    "payee": N_("Payee"),
    "payee_information": N_("Payee's account"),
    "payer": N_("Payer"),
    "payer_information": N_("Payer's account"),
    "additional": N_("Booking text"),
    "time": N_("Time"),
    "posting_date": N_("Booking date"),
    "end_to_end_id": N_("End-to-end reference"),
    "merchant_id": N_("Merchant"),
    "bank_reference": N_("Bank's reference"),
    "gvc": N_("Transaction code (GVC)"),
    "primanota": N_("Primanota"),
    "return_reason": N_("Reason for the return"),
    "account_balance_snapshot": N_("Balance afterwards"),
}


class TransactionFilters(Struct):
    q: str = ""
    account: str = ""
    state: Literal["", "posted", "pending"] = ""
    from_date: date | None = None
    to_date: date | None = None


class Listed(NamedTuple):
    accounts: list[AccountRow]
    found: FoundTransactions
    # The connections at the sandbox bank.
    sandbox: frozenset[str]


@page("/transactions", poll=15, help="transactions")
async def bank_transactions(visit: Visit) -> Response:
    filters = visit.filters(TransactionFilters)
    listed = await _search(visit, filters)
    names = {
        str(account.id): bank_words.account_name(account, is_sandbox=account.connection_id in listed.sandbox)
        for account in listed.accounts
    }
    stopped = listed.found.stopped_at
    rows = filters.first_page(listed.found.rows, _place, _place(stopped) if stopped else None)
    return visit.show(
        "bank_transactions.html",
        filters=filters,
        list=rows,
        stopped_on=date.fromisoformat(stopped.made_on) if stopped else None,
        accounts=listed.accounts,
        names=names,
        states={state: _(text) for state, text in STATES.items()},
        chips=bank_words.chips(filters, names, STATES),
        spans=filters.days(visit.today),
        bank_words=bank_words,
    )


async def _search(visit: Visit, filters: Filters[TransactionFilters]) -> Listed:
    """One page. A search that finds little goes on for a few steps, and then says where it is."""
    organization_id = visit.organization_id
    listed = await visit.read(_listed, organization_id, filters, _after(filters.after), PAGE_SIZE + 1)
    rows, stopped = listed.found
    for _step in range(1, _PAGE_STEPS):
        if stopped is None:
            break
        more = await visit.read(_listed, organization_id, filters, stopped, PAGE_SIZE + 1 - len(rows))
        rows, stopped = rows + more.found.rows, more.found.stopped_at
    return listed._replace(found=FoundTransactions(rows, stopped))


def _listed(
    tx: Tx, organization_id: str, filters: Filters[TransactionFilters], after: Key | None, limit: int
) -> Listed:
    wanted = filters.wanted
    found = accounts.of_organization(tx, organization_id)
    chosen = [account.id for account in found if not wanted.account or str(account.id) == wanted.account]
    asked = TransactionSearch(wanted.from_date, wanted.to_date, wanted.state, search_words(wanted.q), after)
    return Listed(found, store.search(tx, chosen, asked, limit), connections.ids_at(tx, organization_id, SANDBOX))


def _after(text: str) -> Key | None:
    day, _mark, number = text.partition("_")
    try:
        return Key(date.fromisoformat(day).isoformat(), int(numeric(number)))
    except (ValueError, KontobahnError):
        return None


def _place(row: Transaction | Key) -> str:
    """Returns the place of a row in the list, for the address of the next page."""
    return f"{row.made_on}_{row.id}"


@page("/transactions.csv")
async def transactions_csv(visit: Visit) -> Response:
    filters = visit.filters(TransactionFilters)
    rows: list[tuple[Cell, ...]] = []
    after: Key | None = None
    for _step in range(_CSV_STEPS):
        listed = await visit.read(_listed, visit.organization_id, filters, after, _CSV_STEP_ROWS)
        found = listed.found
        names = {
            str(account.id): bank_words.account_name(account, is_sandbox=account.connection_id in listed.sandbox)
            for account in listed.accounts
        }
        rows += [_line(row, names) for row in found.rows]
        if found.stopped_at is None and len(found.rows) < _CSV_STEP_ROWS:
            break
        last = found.rows[-1] if found.rows else None
        after = found.stopped_at or (Key(last.made_on.isoformat(), int(last.id)) if last else None)
        if len(rows) > MAX_CSV_ROWS:
            raise _too_many()
    else:
        raise _too_many()
    head = [_("Day"), _("Booking date"), _("Account"), _("With whom"), _("IBAN"), _("Purpose"), _("Amount"), _("Currency"),
            _("Status"), _("End-to-end reference"), _("ID")]  # fmt: skip
    return await visit.csv("transactions", head, rows)


def _too_many() -> BadRequest:
    count = figures.number(MAX_CSV_ROWS)
    return BadRequest(
        _("A file holds at most %(count)s transactions. Choose a shorter period or one account.", count=count)
    )


def _line(row: Transaction, names: dict[str, str]) -> tuple[Cell, ...]:
    return (
        row.made_on, row.extra.posting_date, names.get(row.account_id, row.account_id), bank_words.other_side(row),
        bank_words.other_iban(row), bank_words.purpose(row), row.amount, row.currency_code, _(STATES[row.status]),
        row.extra.end_to_end_id, row.id,
    )  # fmt: skip


@page("/transactions/{id}", help="transactions")
async def bank_transaction(visit: Visit, id: str) -> Response:
    row = await visit.read(store.find, visit.organization_id, numeric(id))
    account = await visit.read(accounts.find, visit.principal, row.account_id)
    matching = await visit.read(_matching, visit.organization_id, int(row.id))
    return visit.show(
        "bank_transaction.html",
        row=row,
        matching=matching,
        written=await books.writer(visit, matching.match.connection_id, matching.match.client_id)
        if matching.match
        else str,
        account=account,
        state=_(STATES[row.status]),
        parsed=_facts(PURPOSE, row.description_parsed, row.currency_code),
        extra=_facts(EXTRA, row.extra, row.currency_code),
        bank_words=bank_words,
    )


class Matching(NamedTuple):
    """The state of a transaction in matching, the lines it was matched with, and whether they were handed over."""

    state: str | None
    match: MatchRow | None
    lines: list[LineRow]
    is_handed_over: bool


def _matching(tx: Tx, organization_id: str, transaction_id: int) -> Matching:
    state = matches.states_of(tx, organization_id, [transaction_id]).get(transaction_id)
    match = matches.live_match(tx, organization_id, transaction_id)
    if match is None:
        return Matching(state, None, [], is_handed_over=False)
    lines = matches.lines_of(tx, organization_id, [match.id])[match.id]
    return Matching(state, match, lines, matches.was_handed_over(tx, match))


def _facts(labels: dict[str, str], part: Any, currency: str) -> list[tuple[str, str]]:
    """Returns everything that is known, as people read it."""
    found = [(label, getattr(part, name)) for name, label in labels.items()]
    return [(_(label), _as_read(label, value, currency)) for label, value in found if value not in (None, "")]


def _as_read(label: str, value: Any, currency: str) -> str:
    if isinstance(value, date):
        return figures.day(value)
    if label == EXTRA["account_balance_snapshot"]:
        return figures.money(value, currency)
    if label in (EXTRA["payee_information"], EXTRA["payer_information"]) and is_iban(value):
        return components.iban(value)
    return str(value)
