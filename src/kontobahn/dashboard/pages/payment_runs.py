"""Paying received invoices: what is due, what a run would pay, the run itself; and how invoices are released and booked."""

from __future__ import annotations

import datetime
from datetime import timedelta
from decimal import Decimal
from typing import Annotated, Literal, NamedTuple

from msgspec import Meta, Struct
from starlette.responses import Response

from kontobahn.api.wire import OrganizationQuery
from kontobahn.banking.connections import accounts
from kontobahn.banking.connections.accounts import AccountRow, AccountsQuery
from kontobahn.banking.payments.store import PaymentRow
from kontobahn.banking.provider import SANDBOX
from kontobahn.banking.wire import NumericId
from kontobahn.dashboard import bank_words, books, figures, form_keys, sheets
from kontobahn.dashboard.declare import ROOT, action, page
from kontobahn.dashboard.forms import Form
from kontobahn.dashboard.lists import PAGE_SIZE
from kontobahn.dashboard.pages.order_files import NoFilters
from kontobahn.dashboard.pages.payables import STATES, add_up, written_in
from kontobahn.dashboard.refusals import refusal
from kontobahn.dashboard.sheets import Column, Part, Sheet
from kontobahn.dashboard.visit import Visit
from kontobahn.dashboard.words import N_, _, ngettext
from kontobahn.db import Tx
from kontobahn.errors import Conflict
from kontobahn.ledger.connections import list_clients
from kontobahn.money import from_minor
from kontobahn.payables import due, routes, run_store, runs, store
from kontobahn.payables.due import Due
from kontobahn.payables.routes import BookOn, NewPayablesSettings
from kontobahn.payables.run_store import RunRow
from kontobahn.payables.runs import MAX_INVOICES, NewPaymentRun, PaymentRun
from kontobahn.payables.store import SettingsRow

DUE, PATH = f"{ROOT}/payables/due", f"{ROOT}/payables/payment-runs"
NEW = f"{PATH}/new"
BOOKED: dict[BookOn | Literal[""], str] = {
    "": N_("Not at all: others book them"),
    "acceptance": N_("As soon as somebody accepts the accounts"),
    "release": N_("With the release"),
}


Within = Literal["", "7", "30"]
SPANS: dict[Within, str] = {"": N_("All"), "7": N_("Within 7 days"), "30": N_("Within 30 days")}


class DueFilters(Struct):
    within: Within = ""


class RunForm(Struct):
    account_id: NumericId
    date: datetime.date | None = None


class SettingsForm(Struct):
    two_people_above: Decimal | None = None
    book_on: BookOn | Literal[""] = ""
    books: Annotated[str, Meta(max_length=100)] = ""


class Shown(NamedTuple):
    view: PaymentRun
    run: RunRow
    account: AccountRow | None
    payments: list[PaymentRow]


# --- The due list


@page("/payables/due", help="payables-payment")
async def due_list(visit: Visit) -> Response:
    filters = visit.filters(DueFilters)
    within = filters.wanted.within
    rows = await _due(visit, within)
    sums: dict[str, list[int]] = {}
    for one in rows:
        add_up(sums, one.row.currency_code, 1, one.amount_minor)
    return visit.show(
        "payables_due.html",
        filters=filters,
        rows=rows,
        states=STATES,
        today=visit.today,
        sums=sorted(sums.items()),
        spans=[(_(text), filters.url(within=days), within == days) for days, text in SPANS.items()],
        may_pay=visit.may("member") and any(_can_be_paid(one) for one in rows),
        can_be_paid=_can_be_paid,
        new=NEW,
    )


async def _due(visit: Visit, within: Within) -> list[Due]:
    last = visit.today + timedelta(days=int(within)) if within else None
    return await visit.read(due.listing, visit.organization_id, visit.today, last)


@page("/payables/due.csv")
async def due_csv(visit: Visit) -> Response:
    sheet, _heading = await _due_sheet(visit)
    return await sheets.as_csv(visit, sheet, f"{_('Invoices to pay')} {visit.today}")


@page("/payables/due.pdf")
async def due_pdf(visit: Visit) -> Response:
    sheet, heading = await _due_sheet(visit)
    return await sheets.as_pdf(visit, heading, sheet, f"{_('Invoices to pay')} {visit.today}")


async def _due_sheet(visit: Visit) -> tuple[Sheet, str]:
    """Returns the list, and whose books it is about."""
    within = visit.filters(DueFilters).wanted.within
    found, clients = await _due(visit, within), await books.clients_in_time(visit)
    sums: dict[str, list[int]] = {}
    for one in found:
        add_up(sums, one.row.currency_code, one.row.payable_minor, one.skonto_minor, one.amount_minor)
    columns = [
        Column(_("Pay by"), 7), Column(_("Supplier"), 10), Column(_("Invoice number"), 10), Column(_("Due on"), 7),
        Column(_("Status"), 7), Column(_("Amount due"), 7, right=True), Column(_("Skonto"), 6, right=True),
        Column(_("Skonto until"), 7), Column(_("Amount today"), 7, right=True), Column(_("Currency"), 6),
        Column(_("Creditor account"), 7), Column(_("IBAN"), 15, grouped=True),
    ]  # fmt: skip
    rows = [
        (
            one.pay_by, one.row.creditor_name, one.row.number, one.due_on, _(STATES[one.row.status][0]),
            from_minor(one.row.payable_minor), from_minor(one.skonto_minor) if one.skonto_minor else None, one.skonto_until,
            from_minor(one.amount_minor), one.row.currency_code, written_in(clients, one.row), one.row.creditor_iban,
        )
        for one in found
    ]  # fmt: skip
    totals = [
        (
            None,
            _("Total"),
            "",
            None,
            "",
            from_minor(owed),
            from_minor(skonto),
            None,
            from_minor(today),
            currency,
            "",
            "",
        )
        for currency, (owed, skonto, today) in sorted(sums.items())
    ]
    as_of = _("As of %(day)s", day=figures.day(visit.today))
    notes = [_("Credit notes are negative."), _("Skonto is what may be deducted today.")]
    said = f"{as_of} · {_(SPANS[within])}" if within else as_of
    sheet = Sheet(_("Invoices to pay"), said, columns, [Part(rows, "", totals)], notes, landscape=True)
    return sheet, books.heading_of(clients, ((one.row.connection_id, one.row.client_id) for one in found))


def _can_be_paid(one: Due) -> bool:
    return one.row.status == "released" and one.row.currency_code == "EUR"


# --- A run before it is made


@page("/payables/payment-runs/new", role="member", help="payables-payment")
async def new_run(visit: Visit) -> Response:
    """Shows what would be paid, of the invoices chosen in the due list."""
    if not visit.form.values:
        visit.form = Form(
            {name: visit.query[name] for name in ("payable", "account_id", "date") if name in visit.query}
        )
    chosen = visit.form.all("payable")[:MAX_INVOICES]
    if not chosen:
        return visit.redirect(DUE, _("Choose at least one invoice."), "bad")
    sources = await visit.read(
        accounts.listing, visit.principal, AccountsQuery(payments_supported=True, organization_id=visit.organization_id)
    )
    if not sources:
        return visit.redirect(DUE, _("There is no account to pay from. Connect a bank, or import a statement."), "bad")
    if not visit.form.text("account_id"):
        visit.form.values["account_id"] = [str(sources[0].account.id)]
    trial = await _trial(visit, chosen)
    return visit.show(
        "payment_run_new.html",
        trial=trial,
        left_out=[(one, refusal(one.message)) for one in trial.left_out] if trial else [],
        chosen=chosen,
        sources=[
            (
                account.id,
                f"{bank_words.account_name(account, is_sandbox=provider == SANDBOX)} · {figures.iban(account.iban)}",
            )
            for account, provider in sources
        ],
        once_field=form_keys.FIELD,
        once_key=visit.form.text(form_keys.FIELD) or form_keys.new_key(),
        today=visit.today,
        due=DUE,
    )


async def _trial(visit: Visit, chosen: list[str]) -> PaymentRun | None:
    wanted = visit.form.read(RunForm)
    if wanted is None:
        return None
    with visit.form.refusals():
        body = NewPaymentRun(account_id=wanted.account_id, payable_ids=chosen, date=wanted.date, trial=True)
        found: PaymentRun = (await visit.ask(runs.create_payment_run, body=body)).data
        return found
    return None


@action("/payables/payment-runs/new", role="member", confirm=True)
async def make_run(visit: Visit) -> Response:
    wanted = visit.form.read(RunForm)
    if wanted is not None:
        with visit.form.refusals():
            # The form leaves out those that the page has shown as not paid.
            body = NewPaymentRun(
                account_id=wanted.account_id, payable_ids=visit.form.all("payable")[:MAX_INVOICES], date=wanted.date
            )
            made = (await form_keys.ask_once(visit, runs.create_payment_run, body=body))["data"]
            text = ngettext("One payment was made.", "%(num)s payments were made.", len(made["payments"]))
            return visit.redirect(f"{PATH}/{made['id']}", text)
    response: Response = await new_run.handler(visit)
    return response


# --- Runs


@page("/payables/payment-runs", help="payables-payment")
async def run_list(visit: Visit) -> Response:
    filters = visit.filters(NoFilters)
    rows, names = await visit.read(_listed, visit.organization_id, filters.after[:64])
    return visit.show("payment_runs.html", list=filters.first_page(rows, lambda run: run.id), names=names, due=DUE)


def _listed(tx: Tx, organization_id: str, before: str) -> tuple[list[RunRow], dict[int, str]]:
    names = {account.id: account.name for account in accounts.of_organization(tx, organization_id)}
    return run_store.latest(tx, organization_id, before, PAGE_SIZE + 1), names


@page("/payables/payment-runs/{id}", help="payables-payment")
async def payment_run(visit: Visit, id: str) -> Response:
    shown = await visit.read(_shown, visit, id)
    return visit.show(
        "payment_run.html",
        run=shown.run,
        view=shown.view,
        account=shown.account,
        lines=list(zip(shown.view.payments, shown.payments, strict=True)),
        bank_words=bank_words,
        at=f"{PATH}/{shown.run.id}",
        may_make_file=visit.may("member") and runs.may_make_file(visit.context, shown.payments),
    )


def _shown(tx: Tx, visit: Visit, run_id: str) -> Shown:
    run = run_store.find(tx, visit.principal, run_id[:64])
    view = runs.view(tx, visit.context, run)
    return Shown(view, run, accounts.look_up(tx, run.organization_id, run.account_id), runs.payments_of(tx, run))


@action("/payables/payment-runs/{id}/order-file", role="member", confirm=True)
async def make_run_file(visit: Visit, id: str) -> Response:
    try:
        await visit.ask(runs.create_run_order_file, id=id)
    except Conflict as error:
        return visit.redirect(f"{PATH}/{id}", refusal(str(error)), "bad")
    return visit.redirect(f"{PATH}/{id}", _("The order file is made."))


# --- Settings


@page("/payables/settings", role="admin", help="payables-payment")
async def payables_settings(visit: Visit) -> Response:
    row = await visit.read(store.settings_of, visit.organization_id)
    clients = await list_clients(visit.context, visit.organization_id)
    return visit.show(
        "payables_settings.html",
        limit=_limit(row),
        book_on=row.book_on if row else "",
        books=f"{row.connection_id} {row.client_id}" if row and row.connection_id else "",
        clients=[(f"{one.connection_id} {one.client_id}", f"{one.name} ({one.client_id})") for one in clients],
        booked=[(name, _(text)) for name, text in BOOKED.items()],
    )


def _limit(row: SettingsRow | None) -> str:
    return "" if row is None or row.two_people_minor is None else figures.plain_amount(row.two_people_minor)


@action("/payables/settings", role="admin", confirm=True)
async def save_payables_settings(visit: Visit) -> Response:
    wanted = visit.form.read(SettingsForm)
    if wanted is not None:
        connection_id, _blank, client_id = wanted.books.partition(" ")
        with visit.form.refusals(connection_id="books", client_id="books"):
            body = NewPayablesSettings(
                two_people_above=wanted.two_people_above,
                connection_id=connection_id or None,
                client_id=client_id or None,
                book_on=wanted.book_on or None,
            )
            query = OrganizationQuery(organization_id=visit.organization_id)
            await visit.ask(routes.set_payables_settings, query=query, body=body)
            return visit.redirect(f"{ROOT}/payables/settings", _("The settings are saved."))
    response: Response = await payables_settings.handler(visit)
    return response
