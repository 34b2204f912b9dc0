"""Bank accounts: balances, the bank, the last booking; and one account with its balance over time."""

from __future__ import annotations

from datetime import date
from typing import Any, NamedTuple

from msgspec import Struct
from starlette.responses import Response

from kontobahn.access.principal import Principal
from kontobahn.banking import merges
from kontobahn.banking.connections import accounts, sources
from kontobahn.banking.connections import store as connections
from kontobahn.banking.connections.accounts import AccountRow
from kontobahn.banking.connections.store import ConnectionRow
from kontobahn.banking.provider import FILES, SANDBOX
from kontobahn.banking.transactions import store
from kontobahn.banking.transactions.store import TransactionSearch
from kontobahn.banking.transactions.wire import Transaction
from kontobahn.clock import DAY
from kontobahn.dashboard import bank_words, charts, figures
from kontobahn.dashboard.declare import ROOT, action, numeric, page
from kontobahn.dashboard.refusals import refusal
from kontobahn.dashboard.visit import Visit
from kontobahn.dashboard.words import N_, _, ngettext
from kontobahn.db import Tx
from kontobahn.reconciliation import account_merges
from kontobahn.reconciliation.account_merges import AccountMerge, MergeQuery, NewAccountMerge

LATEST = 10
NATURES = {
    "account": N_("Account"),
    "bonus": N_("Bonus account"),
    "card": N_("Card"),
    "checking": N_("Current account"),
    "credit": N_("Credit account"),
    "credit_card": N_("Credit card"),
    "debit_card": N_("Debit card"),
    "ewallet": N_("E-wallet"),
    "insurance": N_("Insurance"),
    "investment": N_("Securities account"),
    "loan": N_("Loan"),
    "mortgage": N_("Mortgage"),
    "savings": N_("Savings account"),
}


DEFAULT_DAYS = 90
SPANS = {30: N_("30 days"), 90: N_("90 days"), 365: N_("One year")}


class Span(Struct):
    days: int = DEFAULT_DAYS


class AccountLine(NamedTuple):
    account: AccountRow
    connection: ConnectionRow | None
    last_on: date | None


class Facts(NamedTuple):
    line: AccountLine
    balances: list[tuple[date, int]]
    latest: list[Transaction]
    can_pay: bool


@page("/accounts", poll=15, help="accounts")
async def bank_accounts(visit: Visit) -> Response:
    lines = await visit.read(_lines, visit.organization_id)
    twins = await visit.read(sources.twins, visit.organization_id)
    totals: dict[str, int] = {}
    for line in lines:
        account = line.account
        if account.balance is not None:
            totals[account.currency_code] = totals.get(account.currency_code, 0) + account.balance
    return visit.show(
        "bank_accounts.html", lines=lines, totals=totals, bank_words=bank_words, now=visit.now, sandbox=SANDBOX,
        twins=twins if visit.may("admin") else [],
        has_merges=visit.may("admin") and await visit.read(merges.any_made, visit.organization_id),
    )  # fmt: skip


def _lines(tx: Tx, organization_id: str) -> list[AccountLine]:
    """The accounts with their connections and the day of their latest booking."""
    by_id = {row.id: row for row in connections.listing(tx, (organization_id,))}
    last_on = accounts.last_booked(tx, organization_id)
    return [
        AccountLine(row, by_id.get(row.connection_id), last_on.get(row.id))
        for row in accounts.of_organization(tx, organization_id)
    ]


@page("/accounts/{id}", poll=15, help="accounts")
async def bank_account(visit: Visit, id: str) -> Response:
    spans = visit.filters(Span)
    days = spans.wanted.days if spans.wanted.days in SPANS else DEFAULT_DAYS
    facts = await visit.read(_facts, visit.principal, id, visit.today, days)
    account = facts.line.account
    if str(account.id) != id:
        # It has become part of another one.
        return visit.redirect(f"{ROOT}/accounts/{account.id}")
    return visit.show(
        "bank_account.html",
        facts=facts,
        account=account,
        nature=_(NATURES.get(account.nature, account.nature)),
        spans=[(_(text), spans.url(days=number), number == days) for number, text in SPANS.items()],
        chart=_chart(account, facts.balances),
        chart_rows=_changes(account, facts.balances),
        not_read=[refusal(sentence) for sentence in account.sentences_not_read],
        is_kept_by_files=facts.line.connection is not None and facts.line.connection.provider == FILES,
        is_sandbox=facts.line.connection is not None and facts.line.connection.provider == SANDBOX,
        bank_words=bank_words,
    )


def _facts(tx: Tx, principal: Principal, account_id: str, today: date, days: int) -> Facts:
    account = accounts.find(tx, principal, numeric(account_id))
    connection = connections.look_up(tx, account.organization_id, account.connection_id)
    line = AccountLine(account, connection, accounts.last_booked_on(tx, account))
    return Facts(
        line=line,
        balances=accounts.balance_by_day(tx, account, today, days),
        latest=store.search(tx, [account.id], TransactionSearch(), LATEST).rows,
        can_pay=line.connection is not None and accounts.can_pay(account, line.connection.templates),
    )


def _chart(account: AccountRow, days: list[tuple[date, int]]) -> Any:
    if not days:
        return None
    points = [charts.Point(figures.short_day(day), cents, _money(account, cents)) for day, cents in days]
    title = _("Balance by day: from %(first)s on %(since)s to %(last)s on %(until)s", first=points[0].words,
              since=points[0].label, last=points[-1].words, until=points[-1].label)  # fmt: skip
    return charts.course(points, [], title, lambda cents: figures.axis_money(cents, account.currency_code))


def _changes(account: AccountRow, days: list[tuple[date, int]]) -> list[tuple[str, str]]:
    """The days on which the balance changed, the latest first."""
    changed = [(day, cents) for number, (day, cents) in enumerate(days) if number == 0 or days[number - 1][1] != cents]
    return [(figures.day(day), _money(account, cents)) for day, cents in reversed(changed)]


def _money(account: AccountRow, cents: int) -> str:
    return figures.money(cents, account.currency_code)


# Accounts that stand twice: what making them one would do, doing it, and undoing it.


BACK = f"{ROOT}/accounts"
LIST = f"{BACK}/merges"


class Wanted(Struct):
    account_id: str = ""
    merged_account_id: str = ""


@page("/accounts/merge", role="admin", help="merges")
async def show_merge(visit: Visit) -> Response:
    wanted = visit.filters(Wanted).wanted
    query = MergeQuery(account_id=numeric(wanted.account_id), merged_account_id=numeric(wanted.merged_account_id))
    with visit.form.refusals():
        shown = (await visit.ask(account_merges.preview_account_merge, query=query)).data
        rows = await visit.read(_rows, visit.organization_id)
        return visit.show(
            "account_merge.html",
            200 if visit.form.is_good else 422,
            shown=shown,
            account=rows[shown.account_id],
            merged=rows[shown.merged_account_id],
            follows=_follows(shown),
            problems=[refusal(sentence) for sentence in shown.problems],
            days=merges.UNDONE_WITHIN // DAY,
            limit=account_merges.SHOWN,
        )
    return visit.redirect(BACK, _("These two accounts cannot be merged."), "bad")


def _rows(tx: Tx, organization_id: str) -> dict[str, AccountRow]:
    return {str(row.id): row for row in accounts.of_organization(tx, organization_id)}


def _follows(shown: account_merges.AccountMergePreview) -> list[str]:
    """Says what comes to the account that stays beside its bookings."""
    counts = shown.counts
    found = [
        (counts.connections, ngettext("one bank connection", "%(num)s bank connections", counts.connections)),
        (counts.statements, ngettext("one statement", "%(num)s statements", counts.statements)),
        (counts.payments, ngettext("one payment", "%(num)s payments", counts.payments)),
        (counts.order_files, ngettext("one payment file", "%(num)s payment files", counts.order_files)),
        (shown.matches, ngettext("one match with documents", "%(num)s matches with documents", shown.matches)),
        (shown.batches, ngettext("one hand-over", "%(num)s hand-overs", shown.batches)),
    ]
    return [text for count, text in found if count]


@action("/accounts/merge", role="admin", confirm=True)
async def make_merge(visit: Visit) -> Response:
    wanted = visit.filters(Wanted).wanted
    with visit.form.refusals():
        body = NewAccountMerge(
            account_id=numeric(wanted.account_id), merged_account_id=numeric(wanted.merged_account_id)
        )
        made: AccountMerge = (await visit.ask(account_merges.create_account_merge, body=body)).data
        return visit.redirect(f"{BACK}/{made.account_id}", _("The two accounts are one now."))
    response: Response = await show_merge.handler(visit)
    return response


@page("/accounts/merges", role="admin", help="merges")
async def list_merges(visit: Visit) -> Response:
    found = await visit.read(account_merges.listing, (visit.organization_id,))
    rows = await visit.read(_rows, visit.organization_id)
    return visit.show(
        "account_merges.html",
        merges=[(one, rows.get(one.account_id), refusal(one.undo_problem or "")) for one in found],
    )


@page("/accounts/merges/{id}/undo", role="admin", help="merges")
async def ask_to_undo(visit: Visit, id: str) -> Response:
    found = await visit.read(merges.find, visit.principal, id)
    return visit.ask_first(
        title=_("Separate the two accounts again?"),
        text=_("Both accounts get back what they had. What has come since goes to the account whose bank connection brought it."),
        removes=[
            _("Transactions that both had are in both again."),
            _("Both connections are fetched again from the beginning."),
            _("Matches stay with their transaction."),
        ],
        button=_("Undo the merge"),
        ends=False,
        back=f"{BACK}/{found.account_id}",
    )  # fmt: skip


@action("/accounts/merges/{id}/undo", role="admin", confirm=True)
async def undo_merge(visit: Visit, id: str) -> Response:
    with visit.form.refusals():
        await visit.ask(account_merges.undo_account_merge, id=id)
        return visit.redirect(BACK, _("The accounts are two again."))
    response: Response = await ask_to_undo.handler(visit, id)
    return response
